"""Questions that a run answers: a number, a choice, or a step to find in the player.

No answer is stored. `Question.answer` computes it from what the page shows, when the reader asks. A room's questions
are `QUESTIONS` in `explain/chapters/<room>/exercises.py`; `explain/ui/exercises.py` shows them. Imports no streamlit.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from explain.experiment import Experiment
from explain.figures.numbers import count, number
from explain.trace.model import Trace, numbers

C = TypeVar("C")
"""What a room's questions are about: its runs, or other values that its page shows."""

Runs = Sequence[tuple[Experiment, Trace]]
"""The runs in the player, from left to right: what most rooms' questions are about."""

Answer = float | str | range | Sequence[int]
"""A number, one of the options, or the steps that count as found; the first of them is shown."""


@dataclass(frozen=True)
class Why:
    """An explanation: words with the run's numbers, as inline Markdown; `step` of run `run` (0 left, 1 right) shows it.

    Without a step, a step question's explanation shows the first step of the answer.
    """

    words: str
    step: int | None = None
    run: int = 0


@dataclass(frozen=True)
class Question(Generic[C]):
    """A question about what the page shows.

    name: unique in its room; the reader's browser remembers it.  prompt: inline Markdown, without the answer.
    kind: "number", "choice" (one of `options`) or "step" (a step of run `run`, 0 left, 1 right).
    answer: the answer.  why: its explanation.  Both may raise ValueError or WorkerError: no answer in this run.
    hint: how to find the answer, without it; a wrong answer shows it.
    tolerance: the largest relative error of a number; whole numbers must be exact.
    asked: whether the question fits what is shown, such as a view or a kernel.
    """

    name: str
    prompt: str | Callable[[C], str]
    kind: Literal["number", "choice", "step"]
    answer: Callable[[C], Answer]
    why: Callable[[C], Why]
    options: Sequence[str] | Callable[[C], Sequence[str]] = ()
    hint: str | Callable[[C], str] = ""
    unit: str | Callable[[C], str] = ""
    tolerance: float = 0.01
    run: int = 0
    asked: Callable[[C], bool] = lambda _: True

    def prompt_of(self, context: C) -> str:
        """The prompt for what is shown."""
        return self.prompt(context) if callable(self.prompt) else self.prompt

    def options_of(self, context: C) -> Sequence[str]:
        """The options for what is shown."""
        return self.options(context) if callable(self.options) else self.options

    def unit_of(self, context: C) -> str:
        """The answer's unit for what is shown."""
        return self.unit(context) if callable(self.unit) else self.unit

    def hint_of(self, context: C) -> str:
        """The hint for what is shown."""
        return self.hint(context) if callable(self.hint) else self.hint


@dataclass(frozen=True)
class Verdict:
    """Whether an answer is right, and words about it, as inline Markdown; `step` of run `run` shows them in the player.

    answer: what a wrong answer learns when the reader asks for it; its own words are a hint, without the answer.
    """

    right: bool
    words: str
    step: int | None = None
    run: int = 0
    answer: Verdict | None = None


def check(question: Question[C], context: C, given: str) -> Verdict:
    """Compares the reader's answer with the run's. A step is given as its number.

    Raises ValueError, in words, if `given` does not answer the question or the run has none.
    """
    if not given:
        raise ValueError(_FIRST[question.kind])
    answer = question.answer(context)
    match question.kind:
        case "number":
            assert isinstance(answer, int | float)
            right = _is_near(given, answer, question.tolerance)
            shown = count(answer) if isinstance(answer, int) else number(answer, _digits(question.tolerance))
            shown += f" {unit}" if (unit := question.unit_of(context)) else ""
            hint = _compared(typed_number(given)[0], answer, "Too small.", "Too large.")
        case "choice":
            options = question.options_of(context)
            if given not in options:
                raise ValueError(f"answer={given}: must be one of {', '.join(options)}")
            right, shown, hint = given == answer, str(answer), ""
        case "step":
            assert not isinstance(answer, int | float | str)
            if not answer:
                raise ValueError("No step of this run does that. Choose another input.")
            right, shown = int(given) in answer, ""  # the player counts two runs in one: its button names the step
            hint = _compared(int(given), answer[0], "It is a later step.", "It is an earlier step.")
    why = question.why(context)
    step = why.step if why.step is not None or question.kind != "step" else int(answer[0])  # type: ignore[index]
    run = why.run if why.step is not None else question.run
    if right:
        return Verdict(True, f"**Right.** {why.words}", step, run)
    words = " ".join(part for part in ("**Not quite.**", hint, question.hint_of(context)) if part)
    told = Verdict(False, f"**Answer: {shown}.** {why.words}" if shown else f"**Answer:** {why.words}", step, run)
    return Verdict(False, words, None if question.kind == "step" else step, run, told)


_FIRST = {
    "number": "Type a number first.",
    "choice": "Choose one first.",
    "step": "The player is still loading. Go to the step first.",
}
"""What is said when there is no answer to check."""


def _compared(given: float, answer: float, small: str, large: str) -> str:
    """Which way to go from a wrong answer; nothing where NaN has no order."""
    return small if given < answer else large if given > answer else ""


_NUMBER = re.compile(r"[+-]?(\d+\.?(\d*)|\.(\d+))(?:e([+-]?\d{1,3}))?")
_GROUPED = re.compile(r"[+-]?\d{1,3}(,\d{3})+(\.\d*)?")


def typed_number(text: str) -> tuple[float, float]:
    """A typed number, and half a unit of its last digit: "1.25" gives (1.25, 0.005).

    Also "98,304", "1,25", "3e-4", "12.5%", "−inf", "∞" and "nan". Raises ValueError for anything else.
    """
    plain = text.strip().replace("−", "-").replace(" ", "").replace("\N{NARROW NO-BREAK SPACE}", "").lower()
    plain = plain.rstrip("%×")  # the unit stands beside the field
    if named := {"∞": math.inf, "inf": math.inf, "infinity": math.inf, "nan": math.nan}.get(plain.lstrip("+-")):
        return (-named if plain.startswith("-") else named), 0.0
    plain = plain.replace(",", "") if _GROUPED.fullmatch(plain) else plain.replace(",", ".")
    found = _NUMBER.fullmatch(plain)
    if not found:
        raise ValueError(f"“{text.strip()}” is not a number. Type one such as 12.5 or 4096; −inf and nan count too.")
    decimals = len(found[2] or found[3] or "") - int(found[4] or 0)
    return float(plain), 0.5 * float(f"1e{-decimals}")


def _is_near(given: str, answer: float, tolerance: float) -> bool:
    """Whether a typed number is the answer: exact for an int; else within the tolerance, or rounded to its digits, if
    that is no coarser than 5%, or 5 tolerances.
    """
    value, half = typed_number(given)
    if value == answer or (math.isnan(value) and math.isnan(answer)):
        return True
    if isinstance(answer, int) or not math.isfinite(answer) or not math.isfinite(value):
        return False
    off = abs(value - answer)
    return off <= tolerance * abs(answer) or off <= min(half * (1 + 1e-9), min(0.05, 5 * tolerance) * abs(answer))


def _digits(tolerance: float) -> int:
    """So many significant digits that rounding moves no number by more than this share of it."""
    return 1 - math.floor(math.log10(2 * tolerance))


def set_to(run: tuple[Experiment, Trace], role: str) -> list[tuple[range, NDArray[Any]]]:
    """Every value of the variable with this role, with the steps that have it: until it is set again or its program
    ends. The argument of a function is not counted.
    """
    experiment, trace = run
    history = trace.history(experiment.entry.roles[role])
    steps = [step for step, _ in history]
    ends = [trace.program(step).first_step + trace.program(step).steps for step in steps]
    each = zip(history, ends, [*steps, trace.steps][1:], strict=True)
    return [(range(step, min(end, after)), numbers(value)) for (step, value), end, after in each]


def first(found: Sequence[tuple[range, NDArray[Any]]], wanted: Callable[[NDArray[Any]], Any]) -> range:
    """The steps of the first wanted value; empty without one."""
    return next((steps for steps, value in found if np.any(wanted(value))), range(0))


@functools.cache
def of_room(room: str) -> tuple[Question[Any], ...]:
    """All questions of a room; none if it has no `exercises` module."""
    name = f"explain.chapters.{room}.exercises"
    try:
        found = importlib.util.find_spec(name)
    except ModuleNotFoundError:  # no such room
        return ()
    return tuple(importlib.import_module(name).QUESTIONS) if found else ()
