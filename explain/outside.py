"""An access outside its tensor, as a teacher would say it. The tracer's message has every number; here are the few
that a reader needs: which element, where the tensor ends, and whether mask or offsets are the reason.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

_PLACE = re.compile(r"\w+, program \[(?P<program>[\d, ]*)\], (?P<file>.+):(?P<line>\d+): (?P<access>.*)", re.DOTALL)
_ACCESS = re.compile(
    r"(?P<verb>loads|stores to|updates) element (?P<element>-?\d+) of (?P<name>\w+) "
    r"\((?P<outside>\d+) of (?P<active>\d+) lanes are outside it\): .*; "
    r"(?:allowed: elements (?P<first>-?\d+) to (?P<last>-?\d+)|it has no elements)",
    re.DOTALL,
)
_VERBS = {"loads": "reads", "stores to": "writes", "updates": "updates"}


class Stopped(NamedTuple):
    """Where a kernel left its tensor: the file's name, the line, and what happened there."""

    file: str
    line: int
    words: str


def stopped(message: str) -> Stopped | None:
    """A recorded failure's message, if an access outside its tensor stopped the kernel; else None."""
    if not (found := _PLACE.fullmatch(message)):
        return None
    program = [int(axis) for axis in found["program"].split(",") if axis.strip()]
    return Stopped(found["file"], int(found["line"]), in_words(program, found["access"]))


def in_words(program: Sequence[int], access: str) -> str:
    """What a program did, from the `access` of an OutOfBounds: "Program 2 reads x[30], but x ends at element 29. …"."""
    who = f"Program {program_name(program)}"
    if not (found := _ACCESS.match(access)):
        return f"{who} {access}."
    name, outside, active = found["name"], int(found["outside"]), int(found["active"])
    if found["last"] is None:
        end = "has no elements"
    elif int(found["element"]) < int(found["first"]):
        end = f"begins at element {int(found['first']):,}"
    else:
        end = f"ends at element {int(found['last']):,}"
    if active == 1:
        why = ""
    elif outside == active:
        why = " All of its lanes lie outside: its offsets are wrong."
    else:
        does = "lies outside: mask it" if outside == 1 else "lie outside: mask them"
        why = f" {outside:,} of its {active:,} lanes {does}."
    return f"{who} {_VERBS[found['verb']]} {name}[{found['element']}], but {name} {end}.{why}"


def program_name(program: Sequence[int]) -> str:
    """The ids of a program without the last axes if they are 0: "3", "(3, 1)"."""
    used = max((axis + 1 for axis, at in enumerate(program) if at), default=1)
    axes = ", ".join(map(str, program[:used]))
    return axes if used == 1 else f"({axes})"
