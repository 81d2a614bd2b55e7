"""How wrong predicted times are: each recorded time beside its prediction, each kernel's error, and what was fitted."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import numpy as np
import plotly.graph_objects as go

from explain.chapters.measurements.points import FAMILIES, sizes
from explain.figures import palette
from explain.figures.labels import listed, unbroken
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
"""From which share of the predictions within `FAR` on their number is told, else that of the others."""
ROOM = 1.15
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
        return unbroken(_why_too_long(model, test))
    return unbroken(
        "**Another size.** Each time is left out of the fit and predicted from its kernel's other times. In "
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
    """How good the model is for another GPU, beside the simple rule, another GPU's times as they are; what its large
    errors have in common; how good it is for another size. Markdown: a verdict, then a list.
    """
    test, alone = model.tests[0], model.tests[-1]
    plain = _unchanged(model, test)
    sizes = (
        f"**From one size to another on the {alone.gpu}: {_often(alone)}.** The typical error is {ratio(alone.median)}."
    )
    if plain is None:
        return f"{sizes} {untested(model)}"
    told = [
        f"From the {model.gpu} to the {test.gpu}: {_often(test)}. {untested(model)}",
        _too_long(model, test),
        sizes.replace("**", ""),
    ]
    return "\n\n".join([f"**{_verdict(model, test, plain)}**", "\n".join(f"- {one}" for one in told if one)])


def _verdict(model: Model, test: Test, copied: Test) -> str:
    """How many large errors the model and the copied times make, and how large their typical errors are."""
    off, by_copying, own, its = _off(test), _off(copied), ratio(test.median), ratio(copied.median)
    copying = f"copying the {model.gpu}'s time"
    if test.median < copied.median and own != its:
        typical = f"The model's typical error is {own}, that of {copying} {its}."
    else:
        typical = f"For most runs, {copying} is as good: its typical error is {its}, the model's {own}."
    helps = "The model helps with the large errors" if off < by_copying else "The model makes no fewer large errors"
    return (
        f"{typical} {helps}: {count(off)} of {count(len(test.points))} are above {ratio(FAR)}, against "
        f"{count(by_copying)} by copying."
    )


def _often(test: Test) -> str:
    """How many of a test's predictions are near: "9 of 10 predictions have an error of at most 1.25 ×"."""
    right = 1 - _off(test) / len(test.points)
    if right >= GOOD:
        return f"{count(math.floor(10 * right))} of 10 predictions have an error of at most {ratio(FAR)}"
    return f"1 of {count(round(1 / (1 - right)))} predictions has an error above {ratio(FAR)}"


def _too_long(model: Model, test: Test) -> str:
    """How many of the large errors are too long, and how many of these runs take the same time on both GPUs, in a
    sentence; "" where few are too long.
    """
    long, off = _long(model, test), _off(test)
    if 2 * len(long) <= off:
        return ""
    own = {point.experiment: point.measured for point in model.points}
    same = sum(abs(math.log(point.measured / own[point.experiment])) < math.log(1 + SAME) for point in long)
    told = f"{count(len(long))} of the {count(off)} large errors are too long"
    if 2 * same <= len(long):
        return f"{told}."
    believes = (
        "the model believes that these kernels wait for HBM" if _only_hbm(model) else "the model expects a longer time"
    )
    return f"{told}: {believes}, but {count(same)} take the same time on both GPUs (within {ratio(1 + SAME)})."


def _long(model: Model, test: Test) -> list[Predicted]:
    """The predictions for another GPU that are far too long, of runs that the model's own GPU has as well."""
    own = {point.experiment for point in model.points}
    return [p for p in test.points if p.factor > FAR and p.seconds > p.measured and p.experiment in own]


def _why_too_long(model: Model, test: Test) -> str:
    """Markdown: how much slower the predictions that are too long expect another GPU to be, and what was measured."""
    if not (long := _long(model, test)):
        return ""
    own = {point.experiment: point.measured for point in model.points}
    took = [own[point.experiment] for point in long]
    expected, takes = (
        ratio(float(np.median(np.divide(seconds, took))))
        for seconds in ([point.seconds for point in long], [point.measured for point in long])
    )
    bandwidths = ratio(GPUS[model.gpu].hbm_bytes_per_second / GPUS[test.gpu].hbm_bytes_per_second)
    return (
        f"**Another GPU.** The {model.gpu} has {bandwidths} the bandwidth of the {test.gpu} (datasheet). For the "
        f"{count(len(long))} predictions that are far too long, the model expects {expected} the {model.gpu}'s time "
        f"(the median). Measured, the median is {takes}."
    )


def _unchanged(model: Model, test: Test) -> Test | None:
    """Another GPU's times, predicted to be those of the model's own GPU; None for a test on the same GPU."""
    own = model.recorded
    both = [replace(one, seconds=own[key]) for one in test.points if (key := one.experiment.key) in own]
    return Test(test.gpu, both) if both and not test.left_out else None


def _only_hbm(model: Model) -> bool:
    """Whether the tests' GPUs have equally many SMs and the same peaks: the model tells them apart by HBM only."""
    gpus = [GPUS[test.gpu] for test in model.tests]
    return len({(gpu.sms, gpu.tensor_flops_per_second, gpu.fp32_flops_per_second) for gpu in gpus}) == 1


def untested(model: Model) -> str:
    """For which GPUs the model's error is not measured, in a sentence."""
    if len(model.tests) == 1:
        return "On another GPU the error is not measured: no other was recorded."
    if _only_hbm(model):
        return "These GPUs have the same SMs and peaks, and differ in HBM. Another GPU may be further off."
    capabilities = sorted({GPUS[test.gpu].compute_capability for test in model.tests})
    known = listed([f"{one // 10}.{one % 10}" for one in capabilities])
    return f"These GPUs have compute capability {known}. For others the error is unknown."


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
    fixed time where no time shows one, else the ranges of what explains the times equally well.
    """
    tests, rows = [_errors(test) for test in model.tests], []
    for kernel in dict.fromkeys(kernel for errors in tests for kernel in errors):
        fit = model.fitted[kernel]
        overheads, *shares = fit.ranges
        fixed = "–".join(dict.fromkeys(map(duration, overheads))) if fit.needed[0] else None
        both = [
            "–".join(dict.fromkeys(percent(one, 0 if one >= 0.1 else 1) for one in ends)) if needed else "unknown"
            for ends, needed in zip(shares, fit.needed[1:], strict=True)
        ]
        found = (one for errors in tests for one in errors.get(kernel, (None,) * 3))
        rows.append((KERNELS[kernel].title, *found, fixed, *both))
    columns: list[str | Column] = ["kernel"]
    for test in model.tests:
        formats = {"times": count, "typical error": ratio, "largest error": ratio}
        columns += [Column(f"{_what(test)}: {name}", form) for name, form in formats.items()]
    columns += [Column("fixed time", str), Column("of the bandwidth", str), Column("of the peak", str)]
    return markdown(columns, rows)


@kept
def predicted_chart(test: Test, tests: Sequence[Test]) -> go.Figure:
    """A dot for each prediction: across, the measured time; up, predicted ÷ measured. On the line both are equal. The
    pictures of all `tests` have the same scales. A large error has the colour of the lines that bound it.
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
    for level, name, dash, hue in (
        (1.0, "", "solid", "slate"),
        (FAR, f"error {ratio(FAR)}; larger ones have this colour", "dot", "alarm"),
        (1 / FAR, "", "dot", "alarm"),
    ):
        figure.add_scatter(
            x=ends, y=[level] * 2, mode="lines", name=name, showlegend=bool(name), hoverinfo="skip",
            line={"color": palette.mid(hue), "dash": dash, "width": 2},
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
    titled(figure, f"{_what(test)}: {count(len(test.points))} times, largest error {ratio(test.worst.factor)}")
    return figure


def _what(test: Test) -> str:
    """What a test predicts."""
    return f"Another {'size' if test.left_out else 'GPU'} ({test.gpu})"


def _apart(level: float) -> str:
    """What predicted ÷ measured is, in words: "2 × too long", "1.25 × too short"."""
    return f"{number(max(level, 1 / level))} × too {'long' if level > 1 else 'short'}"
