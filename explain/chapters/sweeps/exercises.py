"""Questions about a sweep's readings: bytes or time beyond the last point, the rate reached, intensities, speedup."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from explain.chapters.sweeps.analysis import FLAT, curve, jump, numbers, slope
from explain.chapters.sweeps.figures import at_value, name_of
from explain.chapters.sweeps.model import AXES, PAIR, Reading, Sweep
from explain.exercises import Question, Why
from explain.figures.numbers import count, duration, fixed, moved, number, ratio, si
from explain.kept import kept
from kernels.parameters import Value


@dataclass(frozen=True)
class Shown:
    """A sweep and the readings of the chosen source."""

    sweep: Sweep
    readings: Sequence[Reading]


def _level(shown: Shown) -> str:
    """Bytes at HBM where they were counted, else the bytes requested; the time of a source without bytes."""
    return next((one for one in ("hbm", "asked") if any(one in r.bytes for r in shown.readings)), "seconds")


def _where(shown: Shown) -> str:
    return "at HBM" if _level(shown) == "hbm" else "requested"


def _size(shown: Shown, reading: Reading) -> float | None:
    return reading.seconds if (level := _level(shown)) == "seconds" else reading.bytes.get(level)


def _said(shown: Shown, size: float) -> str:
    return duration(size) if _level(shown) == "seconds" else moved(size)


@kept
def _steepest(shown: Shown) -> tuple[str, float] | None:
    """The kernel with the fastest growing bytes, and their power of the axis; None if no curve follows a power."""
    powers = {}
    for kernel in shown.sweep.kernels if shown.sweep.numeric else ():
        points = numbers(curve(shown.sweep, shown.readings, kernel, _level(shown)))
        power = slope(points)
        if len(points) > 2 and jump(points) is None and power is not None and power > FLAT:
            powers[kernel] = power
    return max(powers.items(), key=lambda one: one[1], default=None)


def _grown(shown: Shown) -> tuple[str, float, float, float]:
    """That kernel, its power, its last value, and its bytes there."""
    found = _steepest(shown)
    if found is None:
        raise ValueError("No kernel's bytes follow one power.")
    kernel, power = found
    x, size = max(numbers(curve(shown.sweep, shown.readings, kernel, _level(shown))).items())
    return kernel, power, x, size


def _unit(shown: Shown, size: float) -> tuple[float, str]:
    units = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"))
    if _level(shown) == "seconds":
        units = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"))
    return next((one for one in units if size >= one[0]), units[-1])


def _asked_beyond(shown: Shown) -> str:
    kernel, _, x, size = _grown(shown)
    symbol = AXES[shown.sweep.axis][0]
    beyond = f"at {symbol} = {count(int(2 * x))}, twice its largest value here"
    unit = _unit(shown, size)[1]
    if _level(shown) == "seconds":
        return f"How many {unit} does {name_of(kernel)} take {beyond}, if its time grows as over the last points?"
    return (
        f"Take the bytes {_where(shown)} of {name_of(kernel)}. How many {unit} are they {beyond}, if they grow as over "
        "the last points?"
    )


def _beyond(shown: Shown) -> float:
    _, power, _, size = _grown(shown)
    return float(size * 2**power / _unit(shown, size)[0])


def _why_beyond(shown: Shown) -> Why:
    _, power, x, size = _grown(shown)
    symbol = AXES[shown.sweep.axis][0]
    return Why(
        f"{_said(shown, size)} at {symbol} = {count(int(x))}. The growth is {symbol} to the power {fixed(power, 2)}: "
        f"twice {symbol} is {ratio(2**power)} as much, {_said(shown, size * 2**power)}."
    )


def _pair(shown: Shown) -> tuple[str, ...]:
    """The two kernels that the sweep compares."""
    return PAIR if set(PAIR) <= set(shown.sweep.kernels) else shown.sweep.kernels[:2]


@kept
def _last(shown: Shown) -> tuple[Value, list[Reading]] | None:
    """The last value at which the pair both have bytes, or times, and their readings there; None without one."""
    for value in reversed(shown.sweep.values):
        there = {r.experiment.kernel: r for r in shown.readings if r.experiment.values[shown.sweep.axis] == value}
        found = [there[kernel] for kernel in _pair(shown) if kernel in there and _size(shown, there[kernel])]
        if len(found) == 2:
            return value, found
    return None


def _at_last(shown: Shown) -> tuple[str, Reading, Reading]:
    """Where both are compared, in words, and their readings."""
    found = _last(shown)
    if found is None:
        raise ValueError("The readings have no value with bytes of both kernels.")
    value, (one, other) = found
    return at_value(shown.sweep.axis, value), one, other


def _asked_rate(shown: Shown) -> str:
    at, one, _ = _at_last(shown)
    return (
        f"At which rate does {name_of(one.experiment.kernel)} move its bytes {_where(shown)} {at}, in GB/s? "
        "Point at the last points of the curves to read bytes and time."
    )


def _rate(shown: Shown) -> float:
    _, one, _ = _at_last(shown)
    if one.seconds is None:
        raise ValueError("This point has no time.")
    return one.bytes[_level(shown)] / one.seconds / 1e9


def _why_rate(shown: Shown) -> Why:
    _, one, _ = _at_last(shown)
    size = one.bytes[_level(shown)]
    return Why(f"{moved(size)} ÷ {duration(one.seconds or 0.0)} = {si(_rate(shown) * 1e9, 'B/s')}.")


def _intensities(shown: Shown) -> tuple[float, float]:
    _, one, other = _at_last(shown)
    return one.flops / one.bytes[_level(shown)], other.flops / other.bytes[_level(shown)]


def _asked_intensity(shown: Shown) -> str:
    at, one, other = _at_last(shown)
    kernels = [name_of(reading.experiment.kernel) for reading in (one, other)]
    in_the_roofline = f"Point at both kernels in the roofline {at} to read them."
    in_the_table = f"FLOPs and bytes: see *All {len(shown.readings)} points*."
    return (
        f"The arithmetic intensity is FLOPs ÷ bytes. Divide the intensity of {kernels[1]} by that of {kernels[0]}, "
        f"{at} and for bytes {_where(shown)}: what is the ratio? "
        f"{in_the_roofline if one.seconds and _level(shown) == 'hbm' else in_the_table}"
    )


def _why_intensity(shown: Shown) -> Why:
    _, *both = _at_last(shown)
    each = [
        f"{name_of(one.experiment.kernel)}: {si(one.flops, 'FLOP')} ÷ {moved(one.bytes[_level(shown)])} = "
        f"{number(intensity)} FLOP/B"
        for one, intensity in zip(both, _intensities(shown), strict=True)
    ]
    first, second = _intensities(shown)
    return Why(f"{'; '.join(each)}. The ratio is {number(second / first)}.")


def _has_bytes(shown: Shown) -> bool:
    return _level(shown) != "seconds" and _last(shown) is not None


def _asked_speedup(shown: Shown) -> str:
    at, one, other = _at_last(shown)
    kernels = [name_of(reading.experiment.kernel) for reading in (one, other)]
    return f"Divide the time of {kernels[0]} by that of {kernels[1]} {at}: what is the ratio?"


def _speedup(shown: Shown) -> float:
    _, one, other = _at_last(shown)
    if not one.seconds or not other.seconds:
        raise ValueError("These points have no times.")
    return one.seconds / other.seconds


def _why_speedup(shown: Shown) -> Why:
    _, one, other = _at_last(shown)
    return Why(f"{duration(one.seconds or 0.0)} ÷ {duration(other.seconds or 0.0)} = {number(_speedup(shown))}.")


QUESTIONS = (
    Question[Shown](
        "beyond",
        _asked_beyond,
        "number",
        _beyond,
        _why_beyond,
        unit=lambda shown: _unit(shown, _grown(shown)[3])[1],
        tolerance=0.05,
        asked=lambda shown: _steepest(shown) is not None,
        hint="Read the power p in the column “fitted growth”. Twice the value is 2 to the power p times as much.",
    ),
    Question[Shown](
        "rate",
        _asked_rate,
        "number",
        _rate,
        _why_rate,
        unit="GB/s",
        tolerance=0.05,
        asked=lambda shown: _has_bytes(shown) and bool(_at_last(shown)[1].seconds),
        hint="Divide the bytes by the time of one call. 1 MB ÷ 1 ms is 1 GB/s. Point at a curve, or open the "
        "table of all points.",
    ),
    Question[Shown](
        "intensity",
        _asked_intensity,
        "number",
        lambda shown: _intensities(shown)[1] / _intensities(shown)[0],
        _why_intensity,
        tolerance=0.1,
        asked=_has_bytes,
        hint="The table of all points has the FLOPs and the bytes of both. Where the FLOPs are nearly equal, the bytes "
        "decide: half of the bytes is twice the intensity.",
    ),
    Question[Shown](
        "speedup",
        _asked_speedup,
        "number",
        _speedup,
        _why_speedup,
        tolerance=0.05,
        asked=lambda shown: _level(shown) == "seconds" and _last(shown) is not None,
        hint="Point at the last point of each curve, or open the table of all points.",
    ),
)
