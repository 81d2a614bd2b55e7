"""Where numbers come from, as a picture: what each source says of one run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from explain.chapters.measurements.points import sizes
from explain.chapters.three_numbers.levels import recorded_trace
from explain.compile.cost import allocated
from explain.compile.service import compiler
from explain.experiment import Experiment
from explain.figures.labels import listed, widest, wrapped
from explain.figures.numbers import NONE, capacity, count, duration, moved, percent
from explain.figures.palette import css
from explain.figures.svg import line, picture, rect, text
from explain.gpus import GPUS, card, known_as
from explain.kept import kept
from explain.prediction import Model
from explain.records.registry import Entry

WIDE, NARROW, GAP, PAD, LINE = 730.0, 330.0, 20.0, 12.0, 19.0
"""The picture's width, here and on a phone; between boxes; around a box's words; a line of them."""
ARROW, LARGE = 30.0, 16.0
"""How long an arrow is; the size of the numbers."""


@dataclass(frozen=True)
class Source:
    """A source of numbers: its name, how it gets them, what it says of the run, and a note on that."""

    name: str
    how: str
    says: Sequence[str]
    note: str = ""


@kept
def drawn(run: Experiment, shown: Sequence[Entry], model: Model | None, *, narrow: bool = False) -> str:
    """As an SVG: three sources count the bytes that a kernel loads and stores, in three ways; below them, what one
    source alone says.

    `narrow` is for a phone.
    """
    numbers = loaded_and_stored(run, shown)
    known = [number for number in numbers.values() if number]
    spills = "Spilled registers would be counted too. This run has none." * _spills_nothing(run, shown)
    counted = [
        Source("formula", "computed from the sizes", _bytes(numbers["formula"])),
        Source("trace", "every load and store, counted in Triton's interpreter", _bytes(numbers["trace"])),
        Source(
            "hardware, at L1", "what all threads ask of L1, counted on the GPU", _bytes(numbers["hardware"]), spills
        ),
    ]
    width = NARROW if narrow else WIDE
    parts = [text(0, 14 + LINE * place, words, bold=place == 0) for place, words in enumerate(_titles(run, width))]
    y = 6 + LINE * len(parts) + GAP / 2
    y = _boxes(parts, counted, y, width, narrow)
    y += ARROW
    for share in (1 / 2,) if narrow else (1 / 6, 1 / 2, 5 / 6):
        parts += _arrow(share * width, y)
    result, hue = wrapped(_verdict(run, known), width - 2 * PAD, bold=True), "right" if len({*known}) == 1 else "slate"
    parts.append(rect(0.5, y, width - 1, _tall(len(result)), css(hue), opacity=0.14, stroke=css(hue)))
    parts += [
        text(width / 2, y + PAD + 12 + LINE * place, words, bold=True, anchor="middle")
        for place, words in enumerate(result)
    ]
    y += _tall(len(result)) + 1.5 * GAP
    parts.append(text(0, y + 10, "What only one source can tell of the run", bold=True))
    y = _boxes(parts, alone(run, shown, model), y + GAP, width, narrow)
    return picture(width, y + GAP, "Where the numbers of one run come from", parts, f"{1.2 * width:.0f}px")


def loaded_and_stored(run: Experiment, shown: Sequence[Entry]) -> dict[str, int | None]:
    """The bytes that the run's loads and stores move, by formula, in the recorded trace, and counted at L1 by the first
    GPU that has a count.
    """
    traced = recorded_trace(run)
    points = (point for one in shown if (point := one.record.point(run)) and point.counters)
    return {
        "formula": run.traffic.read_bytes + run.traffic.written_bytes,
        "trace": traced.of(False) + traced.of(True) if traced else None,
        "hardware": next((point.counters.cold.l1_bytes for point in points if point.counters), None),
    }


def _spills_nothing(run: Experiment, shown: Sequence[Entry]) -> bool:
    points = (one.record.point(run) for one in shown)
    return any(point and point.counters and point.counters.cold.spilled_bytes == 0 for point in points)


def alone(run: Experiment, shown: Sequence[Entry], model: Model | None) -> list[Source]:
    """What only hardware, only the compiler and only a model say of the run."""
    measured = [words for one in shown for words in _measured(one, run)]
    compiled, needs, timed = _compiled(run, shown)
    return [
        Source(
            "hardware, time and HBM", "the run's time and its bytes from HBM, measured on the GPU", measured or [NONE]
        ),
        Source("compiler", f"what a program needs, as compiled{compiled}", needs, timed),
        Source("predicted", "a model's time for a GPU, as if it had not been measured", *_predicted(run, model)),
    ]


def _titles(run: Experiment, width: float) -> list[str]:
    """The run in words: its kernel, then its sizes."""
    return [f"One run: {run.entry.title}", *wrapped(sizes(run), width)]


def _bytes(number: int | None) -> list[str]:
    return [f"{count(number)} B" if number else NONE]


def _verdict(run: Experiment, numbers: Sequence[int]) -> str:
    """Whether sources agree on the run's bytes, in words."""
    if {*numbers} == {run.traffic.read_bytes + run.traffic.written_bytes}:
        parts = f"{moved(run.traffic.read_bytes)} loaded, {moved(run.traffic.written_bytes)} stored"
        return f"The same number, to the byte: {moved(numbers[0])} ({parts})"
    if len({*numbers}) == 1:
        return f"The same number, to the byte: {moved(numbers[0])} loaded and stored"
    return f"The numbers differ by {percent(max(numbers) / min(numbers) - 1, 2)}"


def _measured(one: Entry, run: Experiment) -> list[str]:
    """A record's time of the run and its bytes from HBM, a line each; [] without."""
    point = one.record.point(run)
    read = point.counters.cold.dram_read_bytes if point and point.counters else None
    facts = [duration(point.seconds)] if point and point.seconds else []
    facts += [moved(read)] if read else []
    return [f"{known_as(one.record.gpu) or one.record.gpu}: {', '.join(facts)}"] if facts else []


def _compiled(run: Experiment, shown: Sequence[Entry]) -> tuple[str, list[str], str]:
    """Which compiler answered for the run's first launch, for the first GPU that it is known for; its answer; and which
    other one the timed run used.
    """
    gpus = filter(None, (card(one.record.gpu) for one in shown))
    answers = ((gpu, compiler().look(run, gpu.compute_capability)) for gpu in gpus)
    gpu, cost = next(((gpu, answer.cost) for gpu, answer in answers if answer and answer.cost), (None, None))
    if gpu is None or cost is None:
        return "", [NONE], ""
    launch = cost.launches[0]
    points = ((one.record, one.record.point(run)) for one in shown)
    timed = {record.provenance_of(point).triton for record, point in points if point and point.timing} - {cost.triton}
    other = f"The timed run used Triton {listed(sorted(timed))}; its registers may differ." if timed else ""
    held = [
        f"{count(launch.registers)} registers per thread",
        f"{capacity(allocated(launch, gpu)['shared memory'])} of shared memory",
    ]
    return f" by Triton {cost.triton}", held, other


def _predicted(run: Experiment, model: Model | None) -> tuple[list[str], str]:
    """The run's predicted time on another GPU, and the measured one where that GPU has one."""
    if model and (tested := model.tested(run)):
        gpu, one = tested
        return [f"{gpu}: {duration(one.seconds)}"], f"Measured, to test the model: {duration(one.measured)}."
    others = (gpu for gpu in GPUS.values() if model and gpu.name != model.gpu)
    guesses = ((gpu, model.seconds(run, gpu)) for gpu in others if model)
    return next(([f"{gpu.name}: {duration(took)}"] for gpu, took in guesses if took), [NONE]), "Not tested on that GPU."


def _boxes(parts: list[str], sources: Sequence[Source], y: float, width: float, narrow: bool) -> float:
    """Adds the sources' boxes, beside each other or, on a phone, below; where they end."""
    wide = width if narrow else (width - GAP * (len(sources) - 1)) / len(sources)
    hows = [wrapped(source.how, wide - 2 * PAD) for source in sources]
    most = 0 if narrow else max(map(len, hows))  # boxes beside each other have their numbers at one height
    told = [
        [source.name, *how, *([""] * (most - len(how))), *source.says, *wrapped(source.note, wide - 2 * PAD)]
        for source, how in zip(sources, hows, strict=True)
    ]
    tallest = max(map(len, told))
    for place, (source, words) in enumerate(zip(sources, told, strict=True)):
        x, tall = (0.0 if narrow else place * (wide + GAP)), _tall(len(words) if narrow else tallest)
        parts.append(rect(x, y, wide, tall, css("slate"), opacity=0.14))
        for row, said in enumerate(words):
            bold = row == 0 or said in source.says
            large = said in source.says and widest([said], LARGE, bold=True) <= wide - 1.5 * PAD
            size = LARGE if large else 14
            parts.append(text(x + PAD, y + PAD + 12 + LINE * row, said, size=size, bold=bold, faint=not bold))
        y += (tall + GAP / 2) * narrow
    return y - GAP / 2 if narrow else y + _tall(tallest)


def _tall(lines: int) -> float:
    """The height of a box with so many lines."""
    return 2 * PAD + LINE * lines - 4


def _arrow(x: float, y: float) -> list[str]:
    """An arrow down to y."""
    shaft = line(x, y - ARROW + 4, x, y - 2)
    return [shaft, *(line(x, y - 2, x + side, y - 9) for side in (-5, 5))]
