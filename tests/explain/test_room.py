"""The code of a room: it changes, it cannot be tried often, and a ticket cannot be made."""

import pytest

from explain.room import ALPHABET, LETTERS, PERIOD_S, TRIES, WAIT_S, Room, TooManyTriesError

PHONE = "192.168.1.7"


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def room(clock: Clock) -> Room:
    return Room("192.168.1.2", clock)


def test_a_code_opens_while_it_is_shown_and_one_period_more(room: Room, clock: Clock) -> None:
    code = room.code()
    assert len(code) == LETTERS
    assert set(code) <= set(ALPHABET)
    for since, opens in ((0, True), (PERIOD_S - 1, True), (2 * PERIOD_S - 1, True), (2 * PERIOD_S, False)):
        clock.now = 1000 + since
        assert room.is_code(code, f"at {since}") is opens
    assert room.code() != code


def test_a_code_is_told_how_it_is_typed(room: Room) -> None:
    code = room.code()
    assert room.is_code(f" {code[:3].lower()} {code[3:].lower()}", PHONE)
    assert not room.is_code("", PHONE)
    assert not room.is_code(code[:-1], PHONE)
    assert not room.is_code("ℓ" * LETTERS, PHONE)


def test_after_some_wrong_codes_an_address_waits_and_the_others_do_not(room: Room, clock: Clock) -> None:
    for _ in range(TRIES):
        assert not room.is_code("222222", PHONE)
    with pytest.raises(TooManyTriesError) as refused:
        room.is_code(room.code(), PHONE)  # the right one too: else it could be guessed
    assert refused.value.seconds == pytest.approx(WAIT_S)
    assert room.is_code(room.code(), "192.168.1.8")
    clock.now += WAIT_S
    assert not room.is_code("222222", PHONE)
    with pytest.raises(TooManyTriesError):
        room.is_code("222222", PHONE)
    clock.now += WAIT_S
    assert room.is_code(room.code(), PHONE)


def test_right_codes_are_no_tries(room: Room) -> None:
    """A whole hall may stand behind one address."""
    assert all(room.is_code(room.code(), PHONE) for _ in range(300))


def test_only_this_rooms_tickets_are_tickets(room: Room) -> None:
    ticket = room.ticket()
    name, _, signature = ticket.partition(".")
    assert room.is_ticket(ticket)
    assert room.ticket() != ticket
    forged = ("", ".", name, f"{name}.", f"{name}.{'0' * 64}", f"{'0' * 32}.{signature}", f"{ticket}0", "ℓ.α")
    assert not any(room.is_ticket(one) for one in forged)
    assert not Room("192.168.1.2").is_ticket(ticket)
