"""A prediction worked through, as a picture: the model's formula, one size's numbers in it, and what was measured."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from explain.chapters.measurements.points import sizes_of
from explain.experiment import Experiment
from explain.figures.labels import widest, wrapped
from explain.figures.numbers import count, duration, moved, percent, ratio, si
from explain.figures.palette import CLEAR, css, mid
from explain.figures.svg import line, picture, rect, text
from explain.gpus import GPUS
from explain.kept import kept
from explain.prediction import Model, Parts, Predicted

CLEAR_GAIN = 0.2
"""By which share two GPUs' times differ at least in the example."""
WIDE, NARROW, ROW, NUMBER = 730.0, 330.0, 19.0, 84.0
"""The picture's width, here and on a phone; the height of a line of words; the width of a column of numbers."""
FILLED = 0.95
"""How much of its room a line of words fills at most: a browser's letters may be wider."""
BAR, GAP, WORDS = 16.0, 8.0, 108.0
"""A bar's height, the gap between bars, and how wide the words before them and before an explanation are."""
ASSUMED = "Assumption: the kernel reaches the same share of the bandwidth, and of the peak, on {}."
FIXED, BUSY = "fixed", "SMs used"
HUES = {FIXED: "series-4", "memory": "hbm", "compute": "series-1", BUSY: "slate"}
"""The colour of each word of the formula."""


@dataclass(frozen=True)
class Example:
    """A size that two GPUs were timed at: its time on the model's `own` GPU, and its prediction for the other one.

    `here` and `there`: one fit's parts of the time on both GPUs, of as many `fits` as explain the times equally well.
    """

    own: str
    took: float
    other: str
    point: Predicted
    here: Parts
    there: Parts
    fits: int

    @property
    def closes(self) -> bool:
        """Whether three digits of each number give three digits of the result, as a reader works it out."""
        here, there = (float(f"{parts.seconds:.3g}") for parts in (self.here, self.there))
        result = float(f"{self.took:.3g}") * there / here
        return all(map(_adds_up, (self.here, self.there))) and f"{result:.3g}" == f"{self.point.seconds:.3g}"


def _adds_up(parts: Parts) -> bool:
    constant, memory, compute = (float(f"{part:.3g}") for part in (parts.constant, parts.memory, parts.compute))
    return f"{constant + max(memory, compute) / round(parts.busy, 2):.3g}" == f"{parts.seconds:.3g}"


@kept
def example(model: Model) -> Example | None:
    """Of the times predicted for another GPU, of those that differ much between both, one with about the median error:
    with that fit of the model that comes nearest to the prediction. None for a model tested on no other GPU.
    """
    test = model.tests[0]
    apart = [
        one
        for one in test.points
        if (took := model.recorded.get(one.experiment.key)) and abs(one.seconds / took - 1) > CLEAR_GAIN
    ]
    if test.left_out or not apart:
        return None
    found = [_nearest(model, test.gpu, one) for one in apart]
    return min(found, key=lambda one: (not one.closes, abs(math.log(one.point.factor / test.median))))


def _nearest(model: Model, other: str, one: Predicted) -> Example:
    took, run = model.recorded[one.experiment.key], one.experiment
    both = [*zip(*(model.parts(run, GPUS[name]) for name in (model.gpu, other)), strict=True)]
    here, there = min(both, key=lambda own: abs(math.log(took * own[1].seconds / own[0].seconds / one.seconds)))
    return Example(model.gpu, took, other, one, here, there, len(both))


def _fits(one: Example) -> str:
    """How many settings of the formula explain the kernel's times equally well, in a sentence."""
    return (
        f"{count(one.fits)} settings of the shares and the fixed time fit the {one.own}'s times equally well. This is "
        f"one of them; the prediction is the mean of all {count(one.fits)}."
    )


@kept
def drawn(model: Model, *, narrow: bool = False) -> str:
    """The example's times as bars, then the formula, what each of its words is, its numbers for both GPUs, and what
    follows from them; the formula alone for a model without an example. An SVG.

    `narrow` is for a phone.
    """
    one, width = example(model), NARROW if narrow else WIDE
    parts: list[str] = []
    y = _outcome(parts, one, width) + 2 * GAP if one else 0.0
    y = _lines(parts, ASSUMED.format("both GPUs" if one else "every GPU"), y, width) + GAP
    y = _formula(parts, y, width) + GAP
    y = _table(parts, y, width, _rows(one), (one.own, one.other) if one else (), narrow)
    if one:
        rule = (
            f"Prediction = the time measured on the {one.own} × (the formula's time for the {one.other} ÷ the "
            f"formula's time for the {one.own})."
        )
        here, there = (duration(own.seconds) for own in (one.here, one.there))
        y = _lines(parts, rule, y, width)
        y = _lines(
            parts, f"{duration(one.point.seconds)} = {duration(one.took)} × ({there} ÷ {here})", y, width, bold=True
        )
        y = _lines(parts, _fits(one), y, width, faint=True) if one.fits > 1 else y
    return picture(
        width, y + 12, "How a time is predicted, with the numbers of one size", parts, f"{1.2 * width:.0f}px"
    )


def _outcome(parts: list[str], one: Example, width: float) -> float:
    """Adds the example's title and its three times as bars; where they end."""
    point = one.point
    times = ratio(point.seconds / point.measured)
    title = f"Example: the time predicted for the {one.other} is {times} the measured one"
    y = _lines(parts, title, 0.0, width, bold=True)
    y = _lines(parts, _named(point.experiment), y, width, faint=True) + 12
    bars = [
        (f"{one.own}, measured", one.took, True),
        (f"{one.other}, predicted", point.seconds, False),
        (f"{one.other}, measured", point.measured, True),
    ]
    left, hue = widest([name for name, *_ in bars]) + 16, mid("series-3")
    long = width - left - widest([duration(seconds) for _, seconds, _ in bars], bold=True) - 12
    for name, seconds, known in bars:
        wide = long * seconds / max(seconds for _, seconds, _ in bars)
        parts += [
            text(0, y + 13, name),
            rect(left, y, wide, BAR, hue if known else CLEAR, stroke=hue, dashed=not known),
            text(left + wide + 8, y + 13, duration(seconds), bold=True),
        ]
        y += BAR + GAP
    return y


def _lines(parts: list[str], said: str, y: float, width: float, *, bold: bool = False, faint: bool = False) -> float:
    """Adds words in as many lines as they need; the last one's baseline."""
    for words in wrapped(said, FILLED * width, bold=bold):
        y += ROW
        parts.append(text(0, y, words, bold=bold, faint=faint))
    return y


def _named(run: Experiment) -> str:
    return f"{run.entry.title}, {', '.join(sizes_of(run, {'batch', 'head_dim'}))}"


def _formula(parts: list[str], y: float, width: float) -> float:
    """Adds the formula in a line, each of its words on its colour; where it ends."""
    words_of = ("time =", FIXED, "+ max(", "memory", ",", "compute", ") ÷", BUSY)
    at_1 = sum(widest([words], 1, bold=True) + (0.75 if words in HUES else 0.25) for words in words_of)
    size, x = min(18.0, FILLED * width / at_1), 0.0
    for words in words_of:
        wide, hue = widest([words], size, bold=True), HUES.get(words)
        if hue:
            parts.append(rect(x, y + 3, wide + size / 2, size + 9, css(hue), opacity=0.22))
            parts.append(
                line(x, y + size + 12, x + wide + size / 2, y + size + 12, stroke=css(hue), opacity=1, thick=2)
            )
        parts.append(text(x + size / 4 * bool(hue), y + size + 4, words, size=size, bold=True))
        x += wide + (size * 0.75 if hue else size / 4)
    return y + size + 14


def _rows(one: Example | None) -> list[tuple[str, Sequence[str], Sequence[str]]]:
    """Each word of the formula, what it is and how the example's numbers come about, and these numbers on both GPUs;
    last, the result.
    """
    told = {
        FIXED: ["the time that is the same for every size"],
        "memory": ["each tensor once per launch ÷ the bandwidth that the kernel reaches"],
        "compute": ["FLOPs ÷ the rate that the kernel reaches"],
        BUSY: ["the share of the SMs that have a program"],
        "time": ["the larger of memory and compute counts"],
    }
    if one is None:
        return [(word, what, ()) for word, what in told.items()]
    here, both = one.here, (one.here, one.there)
    bandwidths = " and ".join(dict.fromkeys(si(own.bandwidth, "B/s", zeros=True) for own in both))
    peaks = " and ".join(dict.fromkeys(si(own.peak, "FLOP/s", zeros=True) for own in both))
    told["memory"].append(f"{moved(here.bytes)} ÷ {percent(here.of_bandwidth, 1)} of {bandwidths}")
    told["compute"].append(f"{si(here.flops, 'FLOP')}s ÷ {percent(here.of_peak, 1)} of {peaks}")
    numbers = {
        FIXED: [duration(own.constant) for own in both],
        "memory": [duration(own.memory) for own in both],
        "compute": [duration(own.compute) for own in both],
        BUSY: [percent(own.busy) for own in both],
        "time": [duration(own.seconds) for own in both],
    }
    return [(word, what, numbers[word]) for word, what in told.items()]


def _table(
    parts: list[str], y: float, width: float, rows: Sequence[tuple[str, Sequence[str], Sequence[str]]],
    gpus: Sequence[str], narrow: bool,
) -> float:  # fmt: skip
    """Adds a row for each word of the formula; on a phone its explanation stands below its numbers. Where they end."""
    room = width - (0 if narrow else WORDS + 14 + NUMBER * len(gpus))
    ends = [width - NUMBER * place for place in range(len(gpus))][::-1]
    if gpus:
        y += ROW
        parts += [text(end, y, gpu, faint=True, anchor="end") for end, gpu in zip(ends, gpus, strict=True)]
    for word, told, numbers in rows:
        y += GAP
        parts.append(line(0, y, width, y, opacity=0.15))
        if hue := HUES.get(word):
            parts.append(rect(0, y + 7, 12, 12, css(hue)))
        parts.append(text(18 * bool(hue), y + ROW - 1, word, bold=True))
        for end, own in zip(ends, numbers, strict=False):
            parts.append(text(end, y + ROW - 1, own, bold=word == "time", anchor="end"))
        lines = [words for one in told for words in wrapped(one, FILLED * room)]
        for place, words in enumerate(lines):
            parts.append(text(0 if narrow else WORDS, y + ROW * (place + 1 + narrow) - 1, words, faint=True))
        y += ROW * (len(lines) + narrow) + 2
    return y + GAP
