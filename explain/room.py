"""A lecture's room: who is on the local network comes in with a code that changes, and stays.

The code is short enough to type; what keeps it from being guessed is the limit of tries. Who is in has a ticket that
only the lecture's key makes; it stays good when the server is started again.
"""

from __future__ import annotations

import hmac
import secrets
import time
from collections.abc import Callable

import segno

ALPHABET = "23456789ABCDEFGHJKMNPQRSTUVWXYZ"
"""Without 0, 1, I, L and O: a code is read from a projector."""
LETTERS = 6
PERIOD_S = 600.0
"""How long a code is shown. It opens the door for one period more: who has just read it may type slowly."""
TRIES = 5
"""Wrong codes that one address may send at once; after them one each `WAIT_S`."""
WAIT_S = 30.0


class TooManyTriesError(ValueError):
    """This address has sent too many wrong codes; `seconds` until it may send the next."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"too many wrong codes: the next one in {seconds:.0f} s")
        self.seconds = seconds


class Room:
    """The open room of one server. `address` is this machine's on the local network; `key` signs tickets, by default
    one of this room's own; `clock` counts in seconds.
    """

    def __init__(self, address: str, clock: Callable[[], float] = time.monotonic, key: bytes | None = None) -> None:
        self.address = address
        self._clock = clock
        self._tickets = key or secrets.token_bytes(32)
        self._opened = clock()
        self._key = secrets.token_bytes(32)
        self._wrong: dict[str, tuple[float, float]] = {}  # address → tries left, and when that was counted

    def code(self, periods_ago: int = 0) -> str:
        """The code that is shown now, or was so many periods ago."""
        period = int((self._clock() - self._opened) // PERIOD_S) - periods_ago
        number = int.from_bytes(hmac.digest(self._key, f"code {period}".encode(), "sha256"), "big")
        return "".join(ALPHABET[number // len(ALPHABET) ** place % len(ALPHABET)] for place in range(LETTERS))

    def seconds_left(self) -> float:
        """How long the code that is shown now stays."""
        return PERIOD_S - (self._clock() - self._opened) % PERIOD_S

    def is_code(self, given: str, sender: str) -> bool:
        """Whether `sender`, an address, may come in with this code. Raises TooManyTriesError before it looks."""
        left = self._tries_left(sender)
        if left < 1:
            raise TooManyTriesError((1 - left) * WAIT_S)
        typed = "".join(letter for letter in given.upper() if letter in ALPHABET).encode()
        # Both are compared, whatever the first says: how long it takes tells nothing.
        right = sum(hmac.compare_digest(typed, self.code(ago).encode()) for ago in (0, 1)) > 0
        if not right:
            self._wrong[sender] = (left - 1, self._clock())
        return right

    def _tries_left(self, sender: str) -> float:
        left, counted = self._wrong.get(sender, (float(TRIES), self._clock()))
        return min(float(TRIES), left + (self._clock() - counted) / WAIT_S)

    def ticket(self) -> str:
        """What says that its holder is in: a name of its own, signed."""
        name = secrets.token_hex(16)
        return f"{name}.{self._signature(name)}"

    def is_ticket(self, given: str) -> bool:
        """Whether this room has given this ticket."""
        name, _, signature = given.partition(".")
        return hmac.compare_digest(signature.encode(), self._signature(name).encode())

    def _signature(self, name: str) -> str:
        return hmac.digest(self._tickets, f"ticket {name}".encode(), "sha256").hex()

    def link(self, port: int) -> str:
        """The address that lets a phone in, to the page where it answers; for the QR code."""
        return f"http://{self.address}:{port}/enter?code={self.code()}&to=/answer"

    def qr(self, port: int) -> segno.QRCode:
        """The link to scan."""
        return segno.make(self.link(port), error="m", micro=False)
