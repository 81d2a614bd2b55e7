"""How wrong predicted times are: each recorded time beside its prediction, each kernel's error, and what was fitted."""

from __future__ import annotations

import math

import numpy as np
import plotly.graph_objects as go

from explain.chapters.measurements.points import sizes
from explain.figures import palette
from explain.figures.labels import unbroken, wrapped
from explain.figures.numbers import duration, percent, ratio
from explain.figures.plot import FONT, logarithmic, plot, titled
from explain.figures.tables import Column, markdown
from explain.kept import kept
from explain.prediction import Model
from explain.records.model import Record
from kernels.catalog import KERNELS


@kept
def unpredicted(model: Model, record: Record) -> str:
    """Which recorded times are not predicted, and why, as a list in Markdown; "" if all are."""
    timed = (point.experiment for point in record.points.values() if point.timing)
    titles = [one.entry.title for one in timed if one.kernel not in model.fitted]
    if not titles:
        return ""
    names = "\n".join(f"- **{title}**" for title in titles)
    return unbroken(f"Not predicted, because a kernel with one recorded time has no other to learn from:\n\n{names}")


@kept
def least_predictable(model: Model) -> str:
    """The kernel with the largest median error, in a sentence; Markdown."""
    errors = _errors(model)
    kernel = next(iter(errors))
    return unbroken(
        f"The kernel with the largest median error, {ratio(errors[kernel][1])}, is **{KERNELS[kernel].title}**."
    )


def _errors(model: Model) -> dict[str, tuple[int, float, float]]:
    """Of each kernel how many times, their median error and the worst; the largest median error first."""
    errors = {}
    for kernel in model.fitted:
        factors = [point.factor for point in model.points if point.experiment.kernel == kernel]
        errors[kernel] = (len(factors), float(np.median(factors)), max(factors))
    return dict(sorted(errors.items(), key=lambda item: -item[1][1]))


@kept
def prediction_table(model: Model) -> str:
    """The model's error for each kernel, the worst first, with what was fitted, as Markdown: no overhead where no time
    shows one, "≥" before a share that the times do not need.
    """
    rows = []
    for kernel, errors in _errors(model).items():
        fit = model.fitted[kernel]
        overhead, *shares = fit.needed
        both = [
            f"{'' if needed else '≥ '}{percent(share, 0 if share >= 0.1 else 1)}"
            for needed, share in zip(shares, (fit.e_bytes, fit.e_flops), strict=True)
        ]
        rows.append((KERNELS[kernel].title, *errors, duration(fit.overhead) if overhead else None, *both))
    columns = (
        "kernel", Column("times"), Column("median error", ratio), Column("worst error", ratio), Column("overhead", str),
        Column("of the bandwidth", str), Column("of the peak", str),
    )  # fmt: skip
    return markdown(columns, rows)


_FAMILIES = {
    "softmax": ("softmax", "circle"),
    "attention": ("attention", "diamond"),
    "loss": ("cross entropy", "square"),
}
"""The families that are measured: name and symbol in a chart."""


@kept
def predicted_chart(model: Model) -> go.Figure:
    """Each recorded time over the time that the model predicts without it; on the diagonal both are equal."""
    figure = plot()
    for place, (family, (name, symbol)) in enumerate(_FAMILIES.items(), start=1):
        own = [point for point in model.points if point.experiment.entry.family == family]
        figure.add_scatter(
            x=[point.seconds for point in own], y=[point.measured for point in own], mode="markers",
            name=name,
            marker={"color": palette.mid(f"series-{place}"), "size": 9, "opacity": 0.7, "symbol": symbol},
            text=[f"{p.experiment.entry.title}, {sizes(p.experiment)}: {ratio(p.factor)}" for p in own],
            hovertemplate="%{text} off<extra></extra>",
        )  # fmt: skip
    low, high = (edge(s for p in model.points for s in (p.measured, p.seconds)) for edge in (min, max))
    figure.add_scatter(
        x=[low, high], y=[low, high], mode="lines", name="predicted = measured", hoverinfo="skip",
        line={"color": palette.mid("slate"), "dash": "dash", "width": 2},
    )  # fmt: skip
    marks = [10.0**power for power in range(-6, 1) if low / 3 < 10.0**power < 3 * high]
    worst, off = model.worst, f"{ratio(model.worst.factor)} off"
    figure.add_annotation(
        x=math.log10(worst.seconds), y=math.log10(worst.measured), ax=0, arrowhead=2,
        ay=-60 if worst.measured > worst.seconds else 60, arrowcolor=palette.mid("slate"), font={"size": FONT},
        text="<br>".join([*wrapped(worst.experiment.entry.title, 260, FONT), off]),
    )  # fmt: skip
    edges = [math.log10(low / 1.5), math.log10(1.5 * high)]
    texts = {mark: duration(mark) for mark in marks}
    figure.update_xaxes(**logarithmic("predicted time", texts), range=edges)
    figure.update_yaxes(**logarithmic("measured time", texts), range=edges)
    figure.update_layout(
        height=480, margin={"l": 8, "r": 8, "t": 36, "b": 8}, hovermode="closest",
        legend={"orientation": "h", "y": 1.0, "yanchor": "bottom", "x": 0},
    )  # fmt: skip
    titled(figure, f"Half of the predicted times are within {ratio(model.median)} of the measured ones")
    return figure
