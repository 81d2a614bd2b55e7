"""How wrong predicted times are: each recorded time beside its prediction, each kernel's error, and what was fitted."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product

import numpy as np
import plotly.graph_objects as go

from explain.chapters.measurements.points import FAMILIES, sizes
from explain.figures import palette
from explain.figures.labels import begun, listed, unbroken
from explain.figures.numbers import count, duration, number, percent, ratio
from explain.figures.plot import logarithmic, plot, titled
from explain.figures.tables import Column, markdown
from explain.gpus import GPUS, known_as
from explain.kept import kept
from explain.prediction import Model, Predicted, Test, fastest
from explain.records.model import Record
from kernels.catalog import KERNELS

SAME = 0.05
"""By which share two GPUs' times differ at most where neither is said to be slower."""
FAR = 1.25
"""The factor from which on a prediction counts as off."""
GOOD = 0.9
"""Which share of the predictions is within `FAR` at least where the model is called good enough."""
ARCHITECTURES = {80: "Ampere ", 90: "Hopper ", 100: "Blackwell "}
"""The names of compute capabilities."""
ROOM = 1.35
"""By which factor the scale of a chart goes beyond its errors."""
WIDE = 4.0
"""The factor that a scale of errors reaches at least where it is wide."""


@kept
def unpredicted(model: Model, record: Record) -> str:
    """Which recorded times are not predicted, and why, as a list in Markdown; "" if all are."""
    timed = (point.experiment for point in record.points.values() if point.timing)
    titles = [one.entry.title for one in timed if one.kernel not in model.fitted]
    if not titles:
        return ""
    names = "\n".join(f"- **{title}**" for title in titles)
    return unbroken(f"Not predicted, because a kernel with one recorded time has no other to learn from:\n\n{names}")


def _slower(test: Test) -> int:
    """How many of the times are not those of the fastest tile of their size."""
    timed = defaultdict(list)
    for point in test.points:
        timed[point.experiment.kernel].append((point.experiment, point.measured))
    return sum(int((~fastest(own)).sum()) for own in timed.values())


def _off(test: Test) -> int:
    return sum(point.factor > FAR for point in test.points)


@kept
def told(model: Model, test: Test) -> str:
    """Why a test's predictions are off; Markdown."""
    if not test.left_out:
        return unbroken(_too_long(model, test))
    return unbroken(
        "For another size, each time is left out of the fit and predicted from its kernel's other times. In "
        f"{count(_slower(test))} of {count(len(test.points))} cases this is easier: a faster tile's time of the same "
        "size stays in the fit."
    )


@kept
def largest(test: Test) -> str:
    """Of a test the kernel with the largest typical error, and the run with the largest error, in a sentence of
    Markdown.
    """
    kernel, (times, median, _) = next(iter(_errors(test).items()))
    worst = test.worst
    told = f"**{test.gpu}**: the largest typical error is that of {KERNELS[kernel].title}, {ratio(median)}"
    told += f" over {count(times)} recorded runs"
    most = f"{ratio(worst.factor)} (a run of {duration(worst.measured)})"
    if worst.experiment.kernel == kernel:
        return f"{told}, at most {most}."
    return f"{told}. The run with the largest error, {most}, is one of {worst.experiment.entry.title}."


@kept
def known(model: Model, records: Sequence[Record]) -> str:
    """How many of each GPU's recorded times are predicted, in a sentence."""
    timed = {known_as(one.gpu): sum(bool(point.timing) for point in one.points.values()) for one in records}
    told = [
        f"{count(len(test.points))} of the {count(timed[test.gpu])} times of the {test.gpu}"
        for test in model.tests
        if len(test.points) < timed.get(test.gpu, 0)
    ]
    if not told:
        return ""
    return f"{listed(told)} are predicted."


@kept
def found(model: Model) -> str:
    """How good the model is for another GPU and for another size; then how often it is far off, beside the simple rule,
    another GPU's times as they are, and by how much both are off typically. Markdown; "" for a model tested on no other
    GPU.
    """
    test = model.tests[0]
    if (plain := _unchanged(model, test)) is None:
        return ""
    rule, own = (percent(one.median - 1) for one in (plain, test))
    both = f"both are off by about {own}" if rule == own else f"copying is off by {rule}, the model by {own}"
    alike = sum(one.factor < 1 + SAME for one in plain.points)
    hard = (
        " Most runs take the same time on both GPUs, so copying is hard to beat; the model helps where HBM matters."
        if alike > len(plain.points) / 2
        else ""
    )
    return (
        f"{_verdict(model)}\n\nCopying the {model.gpu}'s time is off by more than {ratio(FAR)} in "
        f"{count(_off(plain))} of {count(len(test.points))} cases, the model in {count(_off(test))}. For the typical "
        f"run {both}.{hard}"
    )


def _verdict(model: Model) -> str:
    """For which predictions the model is good enough, in a sentence of Markdown."""
    what = {False: f"another {_architecture(model)}GPU", True: "a size not measured"}
    told: dict[bool, list[str]] = {}
    for test in model.tests:
        right = 1 - _off(test) / len(test.points)
        often = f"{count(round(10 * right))} of 10 are within {ratio(FAR)}"
        if right < GOOD:
            often = f"1 in {count(round(1 / (1 - right)))} is off by more than {ratio(FAR)}"
        told.setdefault(right >= GOOD, []).append(f"{what[test.left_out]} ({often}, up to {ratio(test.worst.factor)})")
    words = [f"{'good enough' if good else 'poor'} for {listed(each)}" for good, each in told.items()]
    said = ", ".join([*words, "untested elsewhere"])
    return f"**{begun(said)}.**"


def _architecture(model: Model) -> str:
    """The architecture that all tested GPUs have, with a space behind it: "Hopper "; "" where it has no name here."""
    capabilities = {GPUS[test.gpu].compute_capability for test in model.tests}
    return ARCHITECTURES.get(capabilities.pop(), "") if len(capabilities) == 1 else ""


@kept
def concluded(model: Model, test: Test) -> str:
    """How good a test's predictions are, in Markdown: for another GPU a table, beside the simple rule, and why they are
    off; for another size a sentence.
    """
    if test.left_out:
        return (
            f"**Another size** (each time of the {test.gpu}, predicted from the kernel's others): the typical error is "
            f"{ratio(test.median)}; {_often(test)} errors are above {ratio(FAR)}."
        )
    columns = (f"another GPU: {test.gpu}", Column("typical error", ratio), Column(f"above\u00a0{ratio(FAR)}", str))
    rows = [("the model", test.median, _often(test))]
    if plain := _unchanged(model, test):
        rows.append((f"the {model.gpu}'s time as it is", plain.median, _often(plain)))
    return f"{markdown(columns, rows)}\n\n{_mostly_too_long(model, test)}".strip()


def _often(test: Test) -> str:
    """How many of a test's predictions are far off: "37 of 416"."""
    return f"{count(_off(test))} of {count(len(test.points))}"


def _mostly_too_long(model: Model, test: Test) -> str:
    """How many of the large errors are too long, and why, in a sentence; "" where few are."""
    long, off = _long(model, test), _off(test)
    if 2 * len(long) <= off:
        return ""
    told = f"In {count(len(long))} of the {count(off)} the predicted time is too long"
    expected, takes = (
        ratio(_ratio_to_own(model, long, seconds)) for seconds in (lambda p: p.seconds, lambda p: p.measured)
    )
    than = f"as long as on the {model.gpu}"
    return f"{told}. For these the model expects {expected} {than}; measured, the median is {takes}."


def _long(model: Model, test: Test) -> list[Predicted]:
    """The predictions for another GPU that are far too long, of runs that the model's own GPU has as well."""
    own = {point.experiment for point in model.points}
    return [p for p in test.points if p.factor > FAR and p.seconds > p.measured and p.experiment in own]


def _ratio_to_own(model: Model, runs: Sequence[Predicted], seconds: Callable[[Predicted], float]) -> float:
    """The seconds of these runs ÷ their times on the model's own GPU, the median."""
    own = {point.experiment: point.measured for point in model.points}
    return float(np.median([seconds(point) / own[point.experiment] for point in runs]))


def _too_long(model: Model, test: Test) -> str:
    """Markdown: how many predictions for another GPU are off, how many of them are too long, and why."""
    long = _long(model, test)
    if not long:
        return ""
    takes = _ratio_to_own(model, long, lambda point: point.measured)
    expected = _ratio_to_own(model, long, lambda point: point.seconds)
    bandwidths = ratio(GPUS[model.gpu].hbm_bytes_per_second / GPUS[test.gpu].hbm_bytes_per_second)
    hardly = f"at least half of these are hardly slower on the {test.gpu}"
    gain = hardly if abs(takes - 1) < SAME else "bandwidth matters less than the model expects"
    return (
        f"Of the {count(_off(test))} predictions with an error above {ratio(FAR)}, {count(len(long))} are too long. "
        f"The {model.gpu} has {bandwidths} the bandwidth (datasheet). For these {count(len(long))} the model expects "
        f"the {test.gpu} to take {ratio(expected)} as long (the median). Measured, the "
        f"median is {ratio(takes)}: {gain}."
    )


def _unchanged(model: Model, test: Test) -> Test | None:
    """Another GPU's times, predicted to be those of the model's own GPU; None for a test on the same GPU."""
    own = model.recorded
    both = [replace(one, seconds=own[key]) for one in test.points if (key := one.experiment.key) in own]
    return Test(test.gpu, both) if both and not test.left_out else None


def untested(model: Model) -> str:
    """For which GPUs the model's error is not measured, in a sentence."""
    if len(model.tests) == 1:
        return "On another GPU the error is not measured: no other was recorded."
    capabilities = sorted({GPUS[test.gpu].compute_capability for test in model.tests})
    known = listed([f"{one // 10}.{one % 10}" for one in capabilities])
    return (
        f"The test's GPUs, {listed([test.gpu for test in model.tests])}, have compute capability {known}. **For other "
        "compute capabilities the error is unknown.**"
    )


def _errors(test: Test) -> dict[str, tuple[int, float, float]]:
    """Of each kernel how many times, their median error and the worst; the largest median error first."""
    factors = defaultdict(list)
    for point in test.points:
        factors[point.experiment.kernel].append(point.factor)
    errors = {kernel: (len(own), float(np.median(own)), max(own)) for kernel, own in factors.items()}
    return dict(sorted(errors.items(), key=lambda item: -item[1][1]))


@kept
def prediction_table(model: Model) -> str:
    """The errors of each of the model's tests for each kernel, the worst first, with what was fitted, as Markdown: no
    constant where no time shows one, else the ranges of what explains the times equally well.
    """
    tests, rows = [_errors(test) for test in model.tests], []
    for kernel in dict.fromkeys(kernel for errors in tests for kernel in errors):
        fit = model.fitted[kernel]
        overheads, *shares = fit.ranges
        constant = "–".join(dict.fromkeys(map(duration, overheads))) if fit.needed[0] else None
        both = ["–".join(dict.fromkeys(percent(one, 0 if one >= 0.1 else 1) for one in ends)) for ends in shares]
        found = (one for errors in tests for one in errors.get(kernel, (None,) * 3))
        rows.append((KERNELS[kernel].title, *found, constant, *both))
    columns: list[str | Column] = ["kernel"]
    for test in model.tests:
        formats = {"times": count, "typical error": ratio, "largest error": ratio}
        columns += [Column(f"{test.gpu}: {name}", form) for name, form in formats.items()]
    columns += [Column("constant", str), Column("of the bandwidth", str), Column("of the peak", str)]
    return markdown(columns, rows)


@kept
def predicted_chart(test: Test, tests: Sequence[Test]) -> go.Figure:
    """A dot for each prediction: across, the measured time; up, predicted ÷ measured. On the line both are equal. The
    pictures of all `tests` have the same scales. A large error is red.
    """
    figure, every = plot(), [point for one in tests for point in one.points]
    symbols = ("circle", "diamond", "square")
    for ((family, name), symbol), far in product(zip(FAMILIES.items(), symbols, strict=True), (False, True)):
        own = [p for p in test.points if p.experiment.entry.family == family and (p.factor > FAR) == far]
        figure.add_scatter(
            x=[point.measured for point in own], y=[point.seconds / point.measured for point in own], mode="markers",
            name=name, legendgroup=name, showlegend=not far,
            marker={
                "color": palette.mid("alarm" if far else "slate"), "opacity": 0.8 if far else 0.6, "size": 7,
                "symbol": symbol,
            },
            text=[f"{p.experiment.entry.title}, {sizes(p.experiment)}: error {ratio(p.factor)}" for p in own],
            hovertemplate="%{text}<extra></extra>",
        )  # fmt: skip
    low, high = (edge(point.measured for point in every) for edge in (min, max))
    ends = [low / 1.5, 1.5 * high]
    for level, name, dash in (
        (1.0, "", "solid"),
        (FAR, f"error {ratio(FAR)}; red: larger", "dot"),
        (1 / FAR, "", "dot"),
    ):
        figure.add_scatter(
            x=ends, y=[level] * 2, mode="lines", name=name, showlegend=bool(name), hoverinfo="skip",
            line={"color": palette.mid("slate"), "dash": dash, "width": 2},
        )  # fmt: skip
    factors = [1 / FAR, FAR, *(point.seconds / point.measured for point in every)]
    least, most = min(factors) / ROOM, max(factors) * ROOM
    marks = [10.0**power for power in range(-6, 1) if ends[0] < 10.0**power < ends[1]]
    levels = (0.1, 0.2, 0.5, 2.0, 5.0, 10.0) if most / least > WIDE**2 else (1 / FAR, FAR)  # more would overlap
    words = {1.0: "equal"} | {level: _apart(level) for level in levels if least <= level <= most}
    figure.update_xaxes(
        **logarithmic("measured time", {mark: duration(mark, zeros=False) for mark in marks}),
        range=[math.log10(end) for end in ends],
    )
    figure.update_yaxes(
        **logarithmic("predicted ÷ measured", words),
        range=[math.log10(least), math.log10(most)],
    )  # fmt: skip
    figure.update_layout(
        height=420, margin={"l": 8, "r": 8, "t": 66, "b": 8}, hovermode="closest",
        legend={"orientation": "h", "y": 1.0, "yanchor": "bottom", "x": 0},
    )  # fmt: skip
    what = "Another size" if test.left_out else "Another GPU"
    times = f"{count(len(test.points))} times of the {test.gpu}"
    titled(figure, f"{what}: {times}, largest error {ratio(test.worst.factor)}")
    return figure


def _apart(level: float) -> str:
    """What predicted ÷ measured is, in words: "2 × too long", "1.25 × too short"."""
    return f"{number(max(level, 1 / level))} × too {'long' if level > 1 else 'short'}"
