"""The results of a sweep: slopes, crossings of two kernels, and the roofline. Pure functions of numbers."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import linear_regression, median

from explain.chapters.sweeps.model import Reading, Sweep
from explain.figures.numbers import fixed, ratio, ratios
from explain.records.model import Roof
from kernels.parameters import Value

FITTED = 4
"""Points at the far end that a slope is fitted to; there, terms that do not grow no longer matter."""
FITS = 0.15
"""How far a point may lie off a fitted power, as a share of it: further off, the curve has no power."""
FLAT = 0.1
"""The largest power of x that still counts as flat."""


def _last(points: Mapping[float, float], fitted: int) -> list[tuple[float, float]]:
    return sorted((x, y) for x, y in points.items() if x > 0 and y > 0)[-fitted:]


def slope(points: Mapping[float, float], fitted: int = FITTED) -> float | None:
    """The exponent p of y ~ x^p, by least squares on the logarithms of the last `fitted`. None for under two."""
    last = _last(points, fitted)
    if len(last) < 2:
        return None
    return linear_regression([math.log(x) for x, _ in last], [math.log(y) for _, y in last]).slope


def jump(points: Mapping[float, float], fitted: int = FITTED) -> tuple[float, float] | None:
    """Where the last `fitted` points follow no power of x, and by what factor y changes in the step to there.

    They follow a power if each is within FITS of the fitted one: then None. Else the step is the one with a power
    furthest from the median step's; the steeper of two.
    """
    last = _last(points, fitted)
    if len(last) < 3:
        return None
    xs, ys = ([math.log(one) for one in ones] for ones in zip(*last, strict=True))
    line = linear_regression(xs, ys)
    if max(abs(y - line.slope * x - line.intercept) for x, y in zip(xs, ys, strict=True)) < math.log1p(FITS):
        return None
    steps = [(d - c) / (b - a) for (a, c), (b, d) in itertools.pairwise(zip(xs, ys, strict=True))]
    middle = median(steps)
    at = max(range(len(steps)), key=lambda one: (round(abs(steps[one] - middle), 9), abs(steps[one])))
    return last[at + 1][0], last[at + 1][1] / last[at][1]


ALIKE = 0.05
"""By which share two kernels differ at most, at every x, where neither is said to win."""
UNCERTAIN = ("measured", "predicted")
"""How values were found that are not exact."""


@dataclass(frozen=True)
class Crossing:
    """From which x on one curve stays below another.

    `first`: the first measured x from which on it is below at every measured x; None if it is not below at the last.
    `x`: where the curves cross before that, interpolated on a log-log plot; None if they do not cross in the data.
    `ratios`: above ÷ below at each measured x, in order.
    """

    first: float | None
    x: float | None
    ratios: Mapping[float, float]

    def told(
        self, subject: str, other: str, does: str, costs: str, x: str, exact: bool = False, known: str = "measured"
    ) -> str:
        """The same in a sentence, markdown.

        `subject` is the lower curve, `other` the higher. `does` says what "below" means: "is faster"; `costs` what
        their ratio counts: "takes … as long". `exact`: x has no values between the known ones. `known`: how the values
        were found.
        """
        last = max(self.ratios)
        always = does.replace("is ", "is always ", 1) if does.startswith("is ") else f"always {does}"
        if known in UNCERTAIN and all(abs(one - 1) < ALIKE for one in self.ratios.values()):
            hardly = f"{subject} and {other} hardly differ: {other} {costs.replace('…', ratios(self.ratios.values()))}"
            return f"{hardly} as {subject}, at every {known} {x} up to {fixed(last, 0)}."
        if self.first is None:
            return f"Up to {x} = {fixed(last, 0)} there is no {x} from which {subject} {always} than {other}."
        start = f"From **{x} = {fixed(self.first, 0)}** on, " if self.x else ""
        most = costs.replace("…", f"**{ratio(self.ratios[last])}**")
        said = f"{start}{subject} {does} than {other}, at every {known} {x}. At {x} = {fixed(last, 0)}, {other} {most}."
        before = [one for at, one in self.ratios.items() if at < self.first]
        if self.x and not exact:
            said += f" The curves cross at {x} ≈ {fixed(self.x, 0)} (interpolated)."
        if any(one > 1 for one in before):
            if all(abs(one - 1) < ALIKE for one in before):
                said += f" Below that they differ little: {ratios(before)}."
            else:
                start = f"= {fixed(self.first, 0)}" if exact or not self.x else f"≈ {fixed(self.x, 0)}"
                said += f" Below {x} {start} neither {always}."
        return said


def crossing(above: Mapping[float, float], below: Mapping[float, float]) -> Crossing | None:
    """From which x on `below` stays below `above`; None without a common x."""
    xs = sorted(x for x in above if x in below and min(x, above[x], below[x]) > 0)
    if not xs:
        return None
    ratios = {x: above[x] / below[x] for x in xs}
    last = max((i for i, one in enumerate(ratios.values()) if one <= 1), default=None)
    if last is None:
        return Crossing(xs[0], None, ratios)
    if last == len(xs) - 1:
        return Crossing(None, None, ratios)
    left, right = xs[last], xs[last + 1]
    share = math.log(ratios[left]) / (math.log(ratios[left]) - math.log(ratios[right]))
    return Crossing(right, math.exp(math.log(left) + share * math.log(right / left)), ratios)


def curve(sweep: Sweep, readings: Iterable[Reading], kernel: str, what: str) -> dict[Value, float]:
    """{value of the axis: y} of one kernel, without missing points. `what` is "seconds", or a level of bytes."""
    found: dict[Value, float] = {}
    for reading in readings:
        if reading.experiment.kernel == kernel:
            y = reading.seconds if what == "seconds" else reading.bytes.get(what)
            if y is not None:
                found[reading.experiment.values[sweep.axis]] = float(y)
    return found


def numbers(curve: Mapping[Value, float]) -> dict[float, float]:
    """The curve with numbers as keys, for a numeric axis."""
    return {float(x): y for x, y in curve.items()}


@dataclass(frozen=True)
class RooflinePoint:
    """One kernel at one level: FLOPs per byte, FLOP/s, and the roofs `memory` and `compute` in FLOP/s, if measured."""

    reading: Reading
    level: str
    intensity: float
    flops_per_second: float
    memory: float | None
    compute: float | None

    @property
    def roof(self) -> float | None:
        """The lower of the two roofs above it: the limit at this intensity."""
        known = [roof for roof in (self.memory, self.compute) if roof is not None]
        return min(known) if known else None


MEMORY_ROOFS = {"shared": ("shared",), "l2": ("l2",), "hbm": ("hbm", "hbm copy", "hbm write")}
"""The measured roofs of each level; the highest counts."""


def memory_roof(level: str, roofs: Mapping[str, Roof]) -> float | None:
    """The level's highest measured bandwidth, bytes per second."""
    known = [roofs[name].per_second for name in MEMORY_ROOFS.get(level, ()) if name in roofs]
    return max(known, default=None)


def compute_roof_name(reading: Reading) -> str:
    """The unit that does most of this kernel's FLOPs: matmuls of its dtype, or float32 outside the tensor cores.

    The kernels multiply float32 exactly, so not in tf32; a softmax has no matmuls, and its sums and maxima are float32
    whatever its dtype.
    """
    entry, p = reading.experiment.entry, reading.experiment.values
    return f"matmul {p['dtype']}" if entry.family in ("attention", "loss") else "matmul fp32"


def roofline_points(readings: Iterable[Reading], roofs: Mapping[str, Roof]) -> list[RooflinePoint]:
    """A point for each timed reading, at each level with a known number of bytes above 0."""
    found = []
    for reading in readings:
        compute = roofs.get(compute_roof_name(reading))
        for level in MEMORY_ROOFS:
            count = reading.bytes.get(level, 0)
            if reading.seconds and count > 0:
                intensity, speed = reading.flops / count, reading.flops / reading.seconds
                bandwidth = memory_roof(level, roofs)
                memory = None if bandwidth is None else bandwidth * intensity
                peak = compute.per_second if compute else None
                found.append(RooflinePoint(reading, level, intensity, speed, memory, peak))
    return found
