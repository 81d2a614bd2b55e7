"""Why a reader's own file has no trace, or its run ended early, in the words of the page.

The recorder's message is for a command line: it names a file and options that the page does not have. Where the page
has nothing better to say, the message itself is the reason.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from explain.figures.numbers import count
from explain.outside import stopped
from explain.puzzles.judge import MEGABYTES

_LATE = re.compile(r"it ran longer than [\d.]+ s\b")
_ABSENT = re.compile(r"\S+ has no function (?P<function>\S+); functions without arguments there: (?P<there>.*)")
_KERNEL = re.compile(r"\S+:(?P<function>\w+) is a kernel: .* \((?P<there>.*)\)")
_ARGUMENTS = re.compile(r"\S+:(?P<function>\w+) needs arguments \((?P<names>.*)\); name one .*: (?P<there>.*)")
_FAILED = re.compile(r"\S+:\w+ failed: (?P<error>.*?)(?: \(\S+:(?P<line>\d+) in [^()]+\))?", re.DOTALL)
_SYNTAX = re.compile(r"importing (?P<file>.+?) failed: (?P<error>\w+Error: .*) \((?P=file), line (?P<line>\d+)\)")
_MEMORY = "needs more memory than it may take: "
_NO_KERNEL = "no Triton kernel was launched"
_POWER = "arange's range must be a power of 2"
_CALL = re.compile(r"^  \S+:(\d+) in ", re.MULTILINE)
"""A line of the recorder's list of calls."""


class Reason(NamedTuple):
    """Why a run failed: Markdown, the line of the file if it is known, and the recorder's own message if it helps."""

    words: str
    line: int | None = None
    raw: str = ""


def reason(message: str, function: str, seconds: float, calls: str = "") -> Reason:
    """The reason of the recorder's `message`, for a run of `function` that may take `seconds`.

    `calls`: the calls on the way to the failure, one in each line, the innermost last; "" if it is in the message.
    """
    if left := stopped(message):
        return Reason(left.words, left.line)
    first = message.partition("\n")[0]
    lines = [int(line) for line in _CALL.findall(calls or message)]
    line = lines[-1] if lines else None
    if _LATE.search(message):
        return Reason(f"**{function}** was still running after {seconds:g} s. Make its inputs smaller.", line)
    if found := _SYNTAX.fullmatch(first):
        return Reason(f"{found['error']}.", int(found["line"]))
    if _MEMORY in first:
        most = f"the {count(MEGABYTES)} MB that a run may take here"
        return Reason(f"**{function}** needs more memory than {most}. Make its tensors smaller.", line)
    if _NO_KERNEL in message:
        return Reason(f"**{function}** launched no Triton kernel: a kernel is a function below `@triton.jit`.")
    if found := _ABSENT.fullmatch(first):
        return Reason(f"There is no function **{found['function']}**. {_instead(found['there'])}")
    if found := _KERNEL.fullmatch(first):
        words = "is a kernel. A function must make its tensors and launch it."
        return Reason(f"**{found['function']}** {words} {_instead(found['there'])}")
    if found := _ARGUMENTS.fullmatch(first):
        words = f"needs arguments ({found['names']}), and the page calls it without any."
        return Reason(f"**{found['function']}** {words} {_instead(found['there'])}")
    if _POWER in message:
        return Reason("The size of `tl.arange` must be a power of two, such as 8. A mask hides the rest.", line)
    if found := _FAILED.fullmatch(first):
        at = int(found["line"]) if found["line"] else line
        return Reason(f"{found['error']}.".replace("..", "."), at, message.partition("\n")[2])
    return Reason(first, line, message.partition("\n")[2])


def _instead(there: str) -> str:
    """What to do, given the names of the functions that could run."""
    if there == "none":
        return "Write one that makes tensors and launches the kernel: `def main():`"
    return f"Write **{there.partition(', ')[0]}** into *Function to run*, or rename it."
