"""The lines of the processes that share an answer's cases, in the order of the cases."""

from __future__ import annotations

from explain.puzzles.runner import _in_turn
from explain.sandbox.process import Ended


def test_lines_stand_in_turn_up_to_the_first_that_is_missing() -> None:
    even, odd = Ended(b"0\n2\n4\n", "", ""), Ended(b"1\n", "It took too long.", "")
    assert _in_turn([even, odd]) == Ended(b"0\n1\n2\n", "It took too long.", "")
    assert _in_turn([even, Ended(b"1\n3\n", "", "")]) == Ended(b"0\n1\n2\n3\n4\n", "", "")
    assert _in_turn([even]) == even
