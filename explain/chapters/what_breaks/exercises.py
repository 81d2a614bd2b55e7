"""Questions about an exhibit: the correct kernel (left) beside the broken one (right)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from explain.chapters.what_breaks.divergence import Divergence
from explain.exercises import Question, Runs, Why
from explain.figures.numbers import count, number

YES, NO = "yes", "no"
BROKEN = 1


@dataclass(frozen=True)
class Shown:
    """Both runs, where they differ, and `ratio(preset)`: the broken kernel's largest error ÷ tolerance on that input.

    The ratio is above 1 or NaN where the kernel fails. `ratio` raises WorkerError where no kernel can run.
    """

    runs: Runs
    found: Sequence[Divergence]
    ratio: Callable[[str], float]


def _why_first(shown: Shown) -> Why:
    one = shown.found[0]
    where = f" at {one.place}" if one.place else ""
    return Why(
        f"At step {one.step}, line {one.line}, `{one.variable}`{where} is {number(one.right, 4)} in the correct kernel "
        f"and {number(one.broken, 4)} in the broken one.",
        one.step,
        BROKEN,
    )


def _choices(shown: Shown) -> Sequence[str]:
    """The first variables that differ, and the running state: five names at most."""
    roles = shown.runs[BROKEN][0].entry.roles
    state = (roles[name] for name in ("running_max", "running_sum", "scores", "output") if name in roles)
    return list(dict.fromkeys([*(one.variable for one in shown.found[:3]), *state]))[:5]


def _why_elements(shown: Shown) -> Why:
    one, last = shown.found[0], shown.found[-1]
    return Why(
        f"Elements of `{one.variable}` that differ at step {one.step}: {count(one.elements)}. The last variable to "
        f"differ is `{last.variable}`, at step {last.step}, in {count(last.elements)}.",
        one.step,
        BROKEN,
    )


def _output(shown: Shown) -> Divergence | None:
    name = shown.runs[BROKEN][0].entry.roles["output"]
    return next((one for one in shown.found if one.variable == name), None)


def _output_steps(shown: Shown) -> Sequence[int]:
    one = _output(shown)
    return range(one.step, one.step + 1) if one else range(0)


def _why_output(shown: Shown) -> Why:
    one = _output(shown)
    assert one is not None
    return Why(f"`{one.variable}` at {one.place or 'this step'}: {number(one.right, 4)} in the correct kernel, "
               f"{number(one.broken, 4)} in the broken one.", one.step, BROKEN)  # fmt: skip


def _shows(shown: Shown) -> str:
    return NO if shown.ratio("normal") <= 1 else YES


def _why_shows(shown: Shown) -> Why:
    normal, own = shown.ratio("normal"), shown.ratio(shown.runs[BROKEN][0].inputs)
    return Why(
        f"Largest error ÷ tolerance of the broken kernel: {number(normal)} on random normal numbers, {number(own)} on "
        "this input; ≤ 1 passes."
    )


QUESTIONS = (
    Question[Shown](
        "first",
        "Which variable differs first?",
        "choice",
        lambda shown: shown.found[0].variable,
        _why_first,
        lambda shown: sorted(_choices(shown)),
        asked=lambda shown: bool(shown.found),
        hint="Go to the first difference. The marked variable is set there.",
    ),
    Question[Shown](
        "elements",
        "At the first difference: how many elements of this variable differ?",
        "number",
        lambda shown: shown.found[0].elements,
        _why_elements,
        asked=lambda shown: bool(shown.found),
        hint="Go to the first difference. Count its marked elements.",
    ),
    Question[Shown](
        "output",
        "Go to the step at which the output first differs.",
        "step",
        _output_steps,
        _why_output,
        run=BROKEN,
        asked=lambda shown: _output(shown) is not None,
        hint="Follow the difference from variable to variable until it reaches the output.",
    ),
    Question[Shown](
        "normal",
        "Would a test on random normal numbers find this bug?",
        "choice",
        _shows,
        _why_shows,
        (YES, NO),
        hint="Try that input in the game below. Does the error exceed its tolerance?",
    ),
)
