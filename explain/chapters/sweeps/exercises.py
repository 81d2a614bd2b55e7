"""Questions about a sweep's readings: how bytes and times grow, and where two kernels cross."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from explain.chapters.sweeps.analysis import crossing, curve, numbers, slope
from explain.chapters.sweeps.figures import APART_SEEN
from explain.chapters.sweeps.model import AXES, Reading, Sweep
from explain.exercises import Question, Why
from explain.figures.numbers import count, duration, fixed, moved, ratio
from kernels.catalog import KERNELS

NEVER = "none of these"


@dataclass(frozen=True)
class Shown:
    """A sweep and the readings of the chosen source."""

    sweep: Sweep
    readings: Sequence[Reading]


def _level(shown: Shown) -> str:
    """Bytes at HBM where they were counted, else the bytes requested."""
    return "hbm" if any("hbm" in reading.bytes for reading in shown.readings) else "asked"


def _where(shown: Shown) -> str:
    return "at DRAM" if _level(shown) == "hbm" else "requested"


def _values(shown: Shown, kernel: str, what: str) -> dict[float, float]:
    return numbers(curve(shown.sweep, shown.readings, kernel, what))


def _second(shown: Shown) -> str:
    """The kernel that the sweep compares with its first one."""
    return shown.sweep.kernels[min(1, len(shown.sweep.kernels) - 1)]


def _axis(shown: Shown) -> str:
    return AXES[shown.sweep.axis][0]


def _short(kernel: str) -> str:
    return KERNELS[kernel].short


def _slope(shown: Shown) -> float:
    found = slope(_values(shown, _second(shown), _level(shown)))
    if found is None:
        raise ValueError("The readings have too few points for a slope.")
    return found


def _why_slope(shown: Shown) -> Why:
    points = sorted(_values(shown, _second(shown), _level(shown)).items())[-2:]
    (x, y), (far, more) = points
    return Why(
        f"{_short(_second(shown))} moves {moved(y)} at {_axis(shown)} = {count(int(x))} and {moved(more)} at "
        f"{count(int(far))}: {ratio(far / x)} the value, {ratio(more / y)} the bytes. Slope of the last two points on "
        f"logarithmic axes: {fixed(_slope(shown), 2)}."
    )


def _fewest(shown: Shown) -> dict[str, float]:
    """Bytes of each kernel at the last value that all of them have."""
    curves = {kernel: curve(shown.sweep, shown.readings, kernel, _level(shown)) for kernel in shown.sweep.kernels}
    common = [value for value in shown.sweep.values if all(value in one for one in curves.values())]
    return {kernel: one[common[-1]] for kernel, one in curves.items()} if common else {}


def _least(shown: Shown) -> list[str]:
    """The kernel with the fewest bytes, and those that a reader cannot tell from it."""
    sizes = _fewest(shown)
    return [kernel for kernel, size in sizes.items() if size < APART_SEEN * min(sizes.values())]


def _choices(shown: Shown) -> list[str]:
    least = _least(shown)
    groups = [least if one == least[0] else [one] for one in _fewest(shown) if one not in least[1:]]
    return [" and ".join(map(_short, group)) for group in groups]


def _why_fewest(shown: Shown) -> Why:
    each = ", ".join(f"{_short(kernel)} {moved(size)}" for kernel, size in _fewest(shown).items())
    return Why(f"Bytes {_where(shown)} at the last value: {each}.")


def _first_faster(shown: Shown) -> str:
    slow, fast = (_values(shown, kernel, "seconds") for kernel in shown.sweep.kernels[:2])
    found = crossing(slow, fast)
    return NEVER if found is None or found.first is None else count(int(found.first))


def _why_faster(shown: Shown) -> Why:
    slow, fast = shown.sweep.kernels[:2]
    times = [_values(shown, kernel, "seconds") for kernel in (slow, fast)]
    common = [x for x in times[0] if x in times[1]]
    each = "; ".join(f"{count(int(x))}: {duration(times[0][x])} and {duration(times[1][x])}" for x in common)
    return Why(f"{_short(slow)} and {_short(fast)} at {_axis(shown)} = {each}.")


def _timed(shown: Shown) -> bool:
    pair = shown.sweep.kernels[:2]
    return len(pair) == 2 and shown.sweep.numeric and all(_values(shown, one, "seconds") for one in pair)


QUESTIONS = (
    Question[Shown](
        "slope",
        lambda shown: (
            f"The bytes {_where(shown)} of {_short(_second(shown))} grow with a power of {_axis(shown)}. Which power, "
            "over the last two points?"
        ),
        "number",
        _slope,
        _why_slope,
        tolerance=0.1,
        asked=lambda shown: shown.sweep.numeric and len(_values(shown, _second(shown), _level(shown))) > 1,
        hint="Take the last two points. The power is log(ratio of the bytes) ÷ log(ratio of the values).",
    ),
    Question[Shown](
        "fewest",
        lambda shown: f"At the largest {_axis(shown)}, which kernel moves the fewest bytes {_where(shown)}?",
        "choice",
        lambda shown: " and ".join(map(_short, _least(shown))),
        _why_fewest,
        _choices,
        asked=lambda shown: len(shown.sweep.kernels) > 1 and bool(_fewest(shown)),
        hint="Compare the curves at their right ends.",
    ),
    Question[Shown](
        "faster",
        lambda shown: (
            f"From which {_axis(shown)} on is {_short(shown.sweep.kernels[1])} faster than "
            f"{_short(shown.sweep.kernels[0])}, at every larger value?"
        ),
        "choice",
        _first_faster,
        _why_faster,
        lambda shown: [*(count(int(value)) for value in shown.sweep.values), NEVER],
        asked=_timed,
        hint="Find where the two times cross for the last time.",
    ),
)
