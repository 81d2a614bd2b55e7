"""A question to the hall on disk: what is taken, what is refused, who sees it, and what a histogram of it says."""

from __future__ import annotations

import json
import math
import multiprocessing
import os
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from explain import lecture
from explain.lecture import KEPT_S, Lecture, key_of
from explain.poll import LARGEST, MOST_BARS, MOST_CHANGES, MOST_TYPED, Poll, Question, RefusedError, bars

NUMBER = {"kind": "number", "words": "What will m be?"}
CHOICE = {"kind": "choice", "words": "Larger?", "options": ["larger", "the same", "smaller"]}
CELL = {"kind": "cell", "words": "Which score?", "shape": [4, 8], "axes": ["query", "key"]}


@pytest.fixture
def poll(tmp_path: Path) -> Poll:
    return Poll(tmp_path)


def ask(poll: Poll, question: Mapping[str, object]) -> str:
    poll.put(Question.of(question))
    assert poll.question
    return poll.question.id


def labels(poll: Poll) -> list[tuple[str, int]]:
    return [(bar["label"], bar["count"]) for bar in poll.tally()["bars"]]


def test_answers_are_counted_changed_and_judged_as_the_player_judges(poll: Poll) -> None:
    asked = ask(poll, NUMBER)
    for phone, typed in enumerate(("7.1", "7.10", "7,096", " 7.0959 ", "−inf", "8", "nan", "1")):
        poll.take(asked, f"phone {phone}", typed)
    poll.take(asked, "phone 5", "7.3")
    told = poll.tally()
    assert (told["count"], told.get("answer")) == (8, None), "the answer is not told before it is revealed"
    assert not any(bar["right"] or bar["holds"] for bar in told["bars"])
    poll.reveal(asked, "7.0959")
    told = poll.tally()
    # "7.10" is 7.0959 to its digits; 7.3 is not
    assert (told["count"], told["right"], told["answer"]) == (8, 4, "7.096")
    assert labels(poll) == [("−∞", 1), ("1", 1), ("7.096", 2), ("7.1", 2), ("7.3", 1), ("NaN", 1)]
    assert [bar["label"] for bar in told["bars"] if bar["holds"]] == ["7.096"]
    assert poll.is_right("phone 0")
    assert not poll.is_right("phone 7")
    assert not poll.is_right("nobody")


def test_a_right_answer_that_nobody_gave_has_its_place(poll: Poll) -> None:
    asked = ask(poll, NUMBER)
    poll.take(asked, "a", "1")
    poll.take(asked, "b", "3")
    poll.reveal(asked, "2")
    assert labels(poll) == [("1", 1), ("2", 0), ("3", 1)]


def test_with_nobody_there_it_is_revealed_all_the_same(poll: Poll) -> None:
    asked = ask(poll, NUMBER)
    assert poll.tally() == {"count": 0, "bars": []}
    poll.reveal(asked, "inf")
    assert poll.tally()["bars"] == [{"label": "∞", "count": 0, "right": 0, "holds": True}]


def test_a_choice_and_a_cell(poll: Poll) -> None:
    asked = ask(poll, CHOICE)
    for phone, place in (("a", 0), ("b", 2), ("c", 2)):
        poll.take(asked, phone, place)
    poll.reveal(asked, 2)
    assert [(bar["count"], bar["right"], bar["holds"]) for bar in poll.tally()["bars"]] == [
        (1, 0, False), (0, 0, False), (2, 2, True)]  # fmt: skip
    asked = ask(poll, CELL)
    for phone, cell in (("a", [0, 7]), ("b", [3, 0]), ("c", [3, 0])):
        poll.take(asked, phone, cell)
    poll.reveal(asked, [[3, 0], [3, 1]])
    told = poll.tally()
    assert (told["cells"], told["right"]) == ([[0, 7, 1], [3, 0, 2]], 2)
    assert told["answer"] == "query 3, key 0, or one of 1 more"


def test_a_restart_and_another_process_see_the_same(poll: Poll, tmp_path: Path) -> None:
    asked = ask(poll, CELL)
    other = Poll(tmp_path)
    assert other.read()
    other.take(asked, "a", [1, 2])
    assert poll.read()
    assert not poll.read(), "nothing new"
    poll.take(asked, "b", [1, 3])
    again = Poll(tmp_path)
    again.read()
    assert again.question == poll.question
    assert again.mine("a") == (1, 2)
    again.reveal(asked, [[1, 2]])
    for one in (poll, other):
        assert one.read()
        assert one.tally() == again.tally()
        assert not one.open
    following = ask(again, NUMBER)
    assert poll.read()
    assert poll.question
    assert poll.question.id == following
    assert poll.answers == {}


def test_a_lecturer_who_loads_the_page_again_asks_on(poll: Poll, tmp_path: Path) -> None:
    asked = ask(poll, CHOICE)
    poll.take(asked, "phone", 1)
    again = Poll(tmp_path)
    assert ask(again, CHOICE) == asked
    assert again.mine("phone") == 1
    assert ask(again, {**CHOICE, "options": ["larger", "smaller"]}) != asked, "another question"
    asked = ask(again, CHOICE)
    assert again.mine("phone") is None
    again.reveal(asked, 0)
    assert ask(again, CHOICE) != asked, "one that is over is asked anew"


def test_a_closed_question_takes_no_answer(poll: Poll) -> None:
    first = ask(poll, CHOICE)
    asked = ask(poll, NUMBER)
    for late in (first, "", "../question"):
        with pytest.raises(RefusedError, match="closed") as error:
            poll.take(late, "a", "1")
        assert error.value.status == 409
    poll.close(asked)
    for what in (lambda: poll.take(asked, "a", "1"), lambda: poll.reveal(asked, "1"), lambda: poll.close(asked)):
        with pytest.raises(RefusedError, match="closed"):
            what()


@pytest.mark.parametrize(
    ("question", "value", "said"),
    [
        (NUMBER, "a lot", "is not a number"),
        (NUMBER, "", "Type a number"),
        (NUMBER, "1" * (MOST_TYPED + 1), "at most 32 characters"),
        (NUMBER, "1e39", "larger than any number"),
        (NUMBER, "1e999", "larger than any number"),
        (NUMBER, math.nan, "Type a number"),
        (NUMBER, 7, "Type a number"),
        (NUMBER, None, "Type a number"),
        (NUMBER, "1\n2", "Type a number"),
        (CHOICE, 3, "Choose one"),
        (CHOICE, -1, "Choose one"),
        (CHOICE, True, "Choose one"),
        (CHOICE, "larger", "Choose one"),
        (CELL, [4, 0], "4 rows, 8 columns"),
        (CELL, [0, 8], "4 rows, 8 columns"),
        (CELL, [0], "4 rows, 8 columns"),
        (CELL, [0.0, 1], "4 rows, 8 columns"),
        (CELL, "00", "4 rows, 8 columns"),
    ],
)
def test_what_is_no_answer_is_refused_in_words(
    poll: Poll, question: Mapping[str, object], value: object, said: str
) -> None:
    asked = ask(poll, question)
    with pytest.raises(RefusedError, match=said) as error:
        poll.take(asked, "a", value)
    assert error.value.status == 400
    assert poll.tally()["count"] == 0


@pytest.mark.parametrize(
    ("question", "said"),
    [
        ([], "is an object"),
        ({**NUMBER, "kind": "essay"}, "must be one of number, choice, cell"),
        ({**NUMBER, "words": " "}, "words"),
        ({**NUMBER, "words": "m" * 301}, "words"),
        ({**CHOICE, "options": ["one"]}, "2 to 8"),
        ({**CHOICE, "options": ["one", "one"]}, "different"),
        ({**CHOICE, "options": "one"}, "options"),
        ({**CHOICE, "options": ["a", 1]}, "options"),
        ({**CELL, "shape": [4]}, "shape"),
        ({**CELL, "shape": [0, 4]}, "shape"),
        ({**CELL, "shape": [4, 10**9]}, "shape"),
        ({**CELL, "axes": ["a", "b", "c"]}, "axes"),
    ],
)
def test_what_is_no_question_is_refused_in_words(question: object, said: str) -> None:
    with pytest.raises(RefusedError, match=said):
        Question.of(question)


def test_a_phone_changes_its_mind_a_few_times_and_the_file_stays_small(poll: Poll, tmp_path: Path) -> None:
    asked = ask(poll, NUMBER)
    for i in range(MOST_CHANGES + 1):
        poll.take(asked, "a", str(i))
    size = (tmp_path / "question").stat().st_size
    with pytest.raises(RefusedError, match="often enough") as error:
        poll.take(asked, "a", "0.5")
    assert error.value.status == 429
    poll.take(asked, "a", str(MOST_CHANGES))  # the same once more is no change
    poll.take(asked, "b", "1")
    assert poll.mine("a") == str(MOST_CHANGES)
    assert (tmp_path / "question").stat().st_size - size < 100


def test_no_more_phones_than_there_is_room_for(poll: Poll, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("explain.poll.MOST_PHONES", 3)
    asked = ask(poll, NUMBER)
    for phone in "abc":
        poll.take(asked, phone, "1")
    with pytest.raises(RefusedError, match="no more are counted"):
        poll.take(asked, "d", "1")
    poll.take(asked, "a", "2")


def test_what_was_cut_off_costs_no_other_line(poll: Poll, tmp_path: Path) -> None:
    asked = ask(poll, NUMBER)
    poll.take(asked, "a", "1")
    with (tmp_path / "question").open("ab") as file:
        file.write(b'\n{"by":"0123456789abcdef","val')
    poll.take(asked, "b", "2")
    with (tmp_path / "question").open("ab") as file:
        file.write(b'\n[]\n\xff\n{"by":7}\n{"right":"a lot"}\n{"by":"c","value":"x"}\n{"by":"d","value":"3"}\n')
    poll.read()
    again = Poll(tmp_path)
    again.read()
    assert labels(poll) == labels(again) == [("1", 1), ("2", 1), ("3", 1)]


def test_nobodys_name_or_address_is_in_the_file(poll: Poll, tmp_path: Path) -> None:
    phone = Lecture("http://192.168.1.2:8501", tmp_path, b"0" * 32).signed("phone", "f00d")
    poll.take(ask(poll, NUMBER), phone, "1")
    written = (tmp_path / "question").read_text()
    assert "f00d" not in written
    assert (tmp_path / "question").stat().st_mode & 0o077 == 0 or os.name == "nt"
    assert set(json.loads(written.splitlines()[-1])) == {"by", "value"}


def _answer_many(folder: Path, asked: str, name: str, count: int) -> None:
    poll = Poll(folder)
    for i in range(count):
        poll.take(asked, f"{name} {i}", str(i % 7))


def test_two_processes_write_at_once_and_no_answer_is_lost(poll: Poll, tmp_path: Path) -> None:
    asked = ask(poll, NUMBER)
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=_answer_many, args=(tmp_path, asked, name, 400)) for name in ("left", "right")]
    for process in processes:
        process.start()
    for process in processes:
        process.join(120)
        assert process.exitcode == 0
    poll.read()
    assert poll.tally()["count"] == 800


def test_what_is_old_is_forgotten(poll: Poll, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ask(poll, NUMBER)
    assert poll.open
    old = time.time() - KEPT_S - 60
    os.utime(tmp_path / "question", (old, old))
    assert poll.read()
    assert poll.question is None
    monkeypatch.setattr(lecture, "cache_folder", lambda: tmp_path / "traces")
    first = Lecture.at("http://192.168.1.2:8501")
    assert Lecture.at("http://192.168.1.2:8501") == first, "after a restart who was in is in"
    assert Lecture.at("http://192.168.1.2:8502").key != first.key
    for file in first.folder.iterdir():
        os.utime(file, (old, old))
    assert key_of(first.folder) != first.key
    for file in first.folder.iterdir():
        os.utime(file, (old, old))
    Lecture.at("http://192.168.1.2:8502")
    assert not first.folder.exists()


def test_a_folder_that_cannot_be_written_costs_the_restart_only(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert len(key_of(tmp_path / "file" / "below")) == 32
    with pytest.raises(OSError):  # noqa: PT011  # which one depends on the system
        Poll(tmp_path / "file" / "below").put(Question.of(NUMBER))


def test_only_this_lecture_signs(tmp_path: Path) -> None:
    one, other = (Lecture("http://a", tmp_path, letter * 32) for letter in (b"a", b"b"))
    given = one.signed("phone", "f00d")
    assert one.is_signed("phone", given)
    assert not any(one.is_signed(use, forged) for use, forged in (
        ("lecturer", given), ("phone", ""), ("phone", "."), ("phone", given + "0"), ("phone", "f00d."),
        ("phone", other.signed("phone", "f00d")), ("phone", "ℓ.α")))  # fmt: skip


FLOATS = st.floats(-LARGEST, LARGEST) | st.sampled_from([math.inf, -math.inf, math.nan, 0.0, 1.0, 2.0])


@given(st.lists(FLOATS, max_size=200), st.none() | FLOATS)
def test_a_histogram_counts_every_number_once_on_a_few_bars(values: list[float], answer: float | None) -> None:
    made = bars([(value, value == answer) for value in values], answer)
    assert sum(bar["count"] for bar in made) == len(values)
    assert sum(bar["right"] for bar in made) == sum(value == answer for value in values)
    assert sum(bar["holds"] for bar in made) == (answer is not None)
    assert len({bar["label"] for bar in made}) == len(made) <= MOST_BARS + 4


def test_bins_are_round_and_what_is_far_off_does_not_stretch_them() -> None:
    values = [i / 10 for i in range(100)] + [1e30, -1e30]
    made = bars([(value, False) for value in values], 5.0)
    assert [bar["label"] for bar in made] == [
        "below 0", "0 to 2", "2 to 4", "4 to 6", "6 to 8", "8 to 10", "10 or more"]  # fmt: skip
    assert [bar["count"] for bar in made] == [1, 20, 20, 20, 20, 20, 1]
    assert [bar["label"] for bar in made if bar["holds"]] == ["4 to 6"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=40),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)


def length_of_refusal(work: Callable[[], object]) -> int:
    """Of its sentence; 0 where nothing is refused."""
    try:
        work()
    except RefusedError as error:
        return len(str(error))
    return 0


@given(st.sampled_from([NUMBER, CHOICE, CELL]), JSON)
def test_any_json_is_an_answer_or_is_refused(question: Mapping[str, object], sent: object) -> None:
    asked = Question.of(question)
    for way in (asked.value, asked.right):
        assert length_of_refusal(partial(way, sent)) < 120


@given(st.fixed_dictionaries({"kind": st.sampled_from(["number", "choice", "cell"]), "words": JSON},
                             optional={"options": JSON, "shape": JSON, "axes": JSON}) | JSON)  # fmt: skip
def test_any_json_is_a_question_or_is_refused(sent: object) -> None:
    assert length_of_refusal(lambda: Question.of(sent)) < 120
