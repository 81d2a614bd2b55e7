"""Our kernels beside the libraries: why each is fast, with the source lines, and how fast: bars, a curve, a table.

The forward pass of attention is in `rungs`. Imports neither streamlit nor torch: it reads the sources as files.
"""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import plotly.graph_objects as go

from explain import data
from explain.chapters.speed.legend import legend
from explain.chapters.speed.results import DISPATCHERS, TABLES, Case, Limit, Variant, all_baselines, colours, ratio
from explain.chapters.speed.rungs import Twin
from explain.figures import labels, numbers, palette, svg, tables
from explain.figures.lines import Line, chart
from explain.figures.tables import Column
from explain.plain import made
from explain.source import functions

AROUND = 2
"""Lines shown before and after an idea's source line."""
WIDE = 100
"""Characters that fit a line of an excerpt."""
BYTES = {"fp32": 4, "bf16": 2, "fp16": 2}
VECTOR_BYTES = 16
"""What a thread loads at once."""
EDGES_FROM = 256
"""Shorter rows are loaded element by element where they start between two vectors."""
WIDEST, WIDEST_MASKED = {"fp32": 512, "bf16": 2048, "fp16": 2048}, 512
"""The widest tile with several rows in a program; `WIDEST_MASKED` if the tile is wider than the row."""
WIDE_HEAD = 192
"""The features of a head above which the backward pass computes dK and dV apart."""


def _odd_rows(case: Case) -> bool:
    """Whether rows start between two vectors of 16 bytes."""
    return case.along * BYTES[case.dtype] % VECTOR_BYTES > 0


def _several_rows(case: Case) -> bool:
    """Whether a program of `softmax_rows` takes several rows: by the width of its tile, a power of two."""
    before = VECTOR_BYTES // BYTES[case.dtype] - 1 if _odd_rows(case) and case.along >= EDGES_FROM else 0
    tile = 1 << (case.along + before - 1).bit_length()
    return tile <= (WIDEST[case.dtype] if tile == case.along else WIDEST_MASKED)


ACTS: Mapping[str, Callable[[Case], bool]] = {
    "": lambda case: True,
    "odd rows": _odd_rows,
    "several rows": _several_rows,
    "causal": lambda case: case.causal,
    "uneven head": lambda case: case.shape[-1].bit_count() > 1,
    "wide head": lambda case: case.shape[-1] > WIDE_HEAD,
}
"""The shapes on which an idea does something, by their name in the file."""


@dataclass(frozen=True)
class Idea:
    """One idea: its name, a sentence or two, and the source line that does it.

    `acts` is one of ACTS; `idle` says why the idea changes nothing on other shapes.
    """

    name: str
    sentence: str
    line: str
    acts: str = ""
    idle: str = ""

    def idle_told(self, case: Case | None) -> str:
        """That it does nothing on this case, and why, as a sentence; markdown, empty where it acts."""
        return "" if case is None or ACTS[self.acts](case) else f" *Here it changes nothing: {self.idle}.*"


@dataclass(frozen=True)
class Fast:
    """A fast kernel: the call that the benchmark names, its module, the functions that run on the GPU, and its ideas.

    `below` is a readable kernel, (module, function), to compare the source of `shown[0]` with.
    """

    call: str
    table: str
    title: str
    module: str
    shown: tuple[str, ...]
    ideas: tuple[Idea, ...]
    twin: Twin | None = None
    below: tuple[str, str] | None = None

    @property
    def file(self) -> str:
        """The source's path in the project."""
        return functions.file_of(self.module)

    @property
    def source(self) -> str:
        """The functions that run on the GPU, one after the other."""
        return functions.functions_source(self.module, self.shown)

    @property
    def gluon(self) -> bool:
        """Whether it is written in Gluon, which Triton's interpreter cannot run."""
        return "@gluon.jit" in self.source

    @property
    def difference(self) -> str:
        """The source marked as a diff from the readable kernel's; empty without one."""
        if not self.below:
            return ""
        return functions.marked(
            functions.function_source(*self.below), functions.function_source(self.module, self.shown[0])
        )

    def excerpt(self, idea: Idea) -> str:
        """The idea's source line with about AROUND lines before and after it, as far left as they go: whole statements,
        and after the header of a block its first statement.
        """
        lines = self.source.splitlines()
        at = [line.strip() for line in lines].index(idea.line)
        statements = _statements(self.source)
        first = next((one.first for one in statements if one.first <= at - AROUND <= one.last), max(at - AROUND, 0))
        own, *after = (one for one in statements if one.last >= at)
        last = next(one.last for one in (own, *after) if not one.block)
        for one in after:
            if one.block or one.first > at + AROUND:
                break
            last = max(last, one.last)
        near = (_narrow(functions.without_column(line)) for line in lines[first : last + 1])
        return textwrap.dedent("\n".join(near)).strip("\n")

    def line_number(self, idea: Idea) -> int:
        """Where the idea's line is in the file, from 1. Raises ValueError if no function shown has it."""
        return functions.line_number(self.module, idea.line, self.shown)


class Statement(NamedTuple):
    """The lines of a statement, from 0. Of a `block`, its header only."""

    first: int
    last: int
    block: bool


def _statements(source: str) -> list[Statement]:
    """Every statement, in the order of its lines."""
    lines, found = source.splitlines(), []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.stmt):
            body, last = getattr(node, "body", None), (node.end_lineno or node.lineno) - 1
            if body:
                until = range(body[0].lineno - 2, -1, -1)
                last = next(n for n in until if lines[n].strip() and not lines[n].strip().startswith("#"))
            found.append(Statement(node.lineno - 1, last, bool(body)))
    return sorted(found)


def _narrow(line: str) -> str:
    """The line; its comment is cut off if the line is too wide, or if the comment is for a type checker."""
    code, space, comment = line.partition("  # ")
    return code if space and code.strip() and (len(line) > WIDE or comment.startswith("type:")) else line


KERNELS: tuple[Fast, ...] = tuple(made(Fast, kernel) for kernel in data(__file__)["kernel"])


def of(table: str) -> tuple[Fast, ...]:
    """The fast kernels of one table of the benchmark."""
    return tuple(kernel for kernel in KERNELS if kernel.table == table)


NO_TIME = "no time"
AT_EACH = " on this shape, in the same run"
BAR_ROW, BARS_TOP, BARS_WIDE, PHONE_WIDE = 46.0, 50.0, 540.0, 330.0
WHOSE = {"ours": "series-1", "our dispatcher": palette.kernel(0), "library": "slate"}
"""The three colours of the bars."""


def _whose(one: Variant) -> str:
    return "our dispatcher" if one.function in DISPATCHERS else "ours" if one.ours else "library"


def bars(case: Case, limit: Limit | None, *, narrow: bool = False) -> str:
    """A bar per kernel, as long as its throughput, with its share of the roof; or why it has no time. `narrow` is for
    a phone: our kernels' own names have a line of their own.
    """
    variants, width = case.best, PHONE_WIDE if narrow else BARS_WIDE
    longest = max([one.per_second or 0.0 for one in variants] + ([limit.per_second] if limit else []) + [1.0])
    present = {_whose(one) for one in variants}
    parts, _ = legend({name: (hue, 1.0) for name, hue in WHOSE.items() if name in present}, width)
    ticks, y = [], BARS_TOP
    for one in variants:
        parts.append(svg.text(0, y + 15, one.label, bold=one.ours))
        speed = numbers.si(one.per_second, case.unit, zeros=True) if one.per_second else ""
        speed += f" · {numbers.percent(one.per_second / limit.per_second)}" if one.per_second and limit else ""
        parts.append(svg.text(width, y + 15, speed, anchor="end", bold=one.ours))
        if one.ours and not one.label.startswith("our "):
            x = 0.0 if narrow else labels.text_width(one.label, bold=True) + 12
            y += 16 * narrow
            parts.append(svg.text(x, y + 15, _own_name(one), size=svg.SMALL, faint=True))
        if one.per_second is None:
            first = (one.why.strip().splitlines() or ["the reason was not recorded"])[0]
            if first.startswith("ModuleNotFoundError"):
                first = "it was not installed when this was measured"
            why = f"the error exceeds the tolerance, {numbers.percent(one.error or 0.0)} of it" if one.missed else first
            words = labels.shortened(f"{NO_TIME}: {why}", width, svg.SMALL)
            fill = palette.css_ink("alarm") if one.missed else ""
            parts.append(svg.text(0, y + 35, words, size=svg.SMALL, fill=fill, faint=not one.missed))
        else:
            wide, hue = width * one.per_second / longest, palette.css(WHOSE[_whose(one)])
            parts.append(svg.rect(0, y + 22, wide, 15, hue, title=f"{one.label} {one.options}".strip()))
        ticks.append(y + 20)
        y += BAR_ROW
    if limit:
        x = width * limit.per_second / longest
        parts += [svg.rect(x - 1.5, top, 1.5, 19, "currentColor") for top in ticks]
        words = f"ceiling: {limit.name}, {numbers.si(limit.per_second, case.unit, zeros=True)}"
        parts.append(svg.text(x, BARS_TOP - 10, f"{words} ▕", size=svg.SMALL, anchor="end"))
    return svg.picture(width, y, f"Throughput of each kernel on {case.named}", parts, most="800px")


def bars_title(case: Case, limit: Limit | None) -> str:
    """What the bars show, in a line: our fastest kernel and the fastest library, as shares of the ceiling."""
    ours, library = case.ours, next(iter(case.baselines), None)
    if not limit or not ours or not ours.per_second:
        return "Our kernels beside the libraries"
    ceiling = CEILINGS.get(limit.name, f"a {limit.name}")
    name = ours.label.replace("our ", "Our ")
    said = f"{name} reaches {numbers.percent(ours.per_second / limit.per_second)} of {ceiling}"
    beside = library and library.per_second and numbers.percent(library.per_second / limit.per_second)
    return f"{said}, {library.label} {beside}" if library and beside else said


CEILINGS = {"matmul": "a large matmul", "reading HBM": "HBM’s reading speed"}
"""What a roof's name is in a sentence, where "a NAME" is not."""


def _own_name(one: Variant) -> str:
    """ "ours: whole rows on chip"."""
    title = next((known.title for known in KERNELS if known.call == one.function), "")
    return f"ours: {title[0].lower()}{title[1:]}" if title else "ours"


def bars_told(case: Case, limit: Limit | None) -> str:
    """The bars in a sentence; markdown."""
    ours = case.ours
    if ours is None or ours.per_second is None:
        return "None of our kernels has a time here."
    said = [f"{numbers.percent(ours.per_second / limit.per_second)} of the peak"] if limit else []
    said += [f"{numbers.ratio(ratio(ours, one))} {_timed(one)}" for one in case.baselines]
    reached = f"**{ours.label}** reaches **{numbers.si(ours.per_second, case.unit)}**"
    return f"{reached}: {', '.join(said)}." if said else f"{reached}."


def _timed(one: Variant) -> str:
    """A library's name; for PyTorch with the functions that were timed."""
    calls = " and ".join(f"`torch.{name}`" for name in one.function.removeprefix("torch.").split("+"))
    return f"{one.label} ({calls})" if one.label == "PyTorch" else one.label


def peak_told(case: Case, limit: Limit) -> str:
    """A sentence in Markdown that names the ceiling and its measured rate."""
    reached = numbers.si(limit.per_second, case.unit, zeros=True)
    return f"**Ceiling** (*peak*) here: {limit.name}, measured{AT_EACH * limit.own}: {reached}."


def errors_told(case: Case) -> str:
    """The largest error of the kernels that were timed, ÷ its tolerance, in a sentence; empty where none is known."""
    errors = [one.error for one in case.best if one.error is not None and one.seconds is not None]
    if not errors:
        return ""
    return (
        f"Largest error ÷ tolerance: {numbers.number(max(errors), 2)}; ≤ 1 passes. The tolerance is twice the error of "
        "eager PyTorch, plus rounding."
    )


def dispatcher_told(case: Case) -> str:
    """How much our dispatcher loses to the fastest of our kernels, as a sentence; empty below 1%."""
    own = next((one for one in case.best if one.function in DISPATCHERS and one.per_second), None)
    if own is None or case.ours is None or not case.ours.per_second:
        return ""
    lost = 1 - (own.per_second or 0.0) / case.ours.per_second
    why = "Its rule goes by ranges of sizes, so it does not see this."
    return f" Here it loses {numbers.percent(lost)} to {case.ours.label}. {why}" if lost >= 0.01 else ""


def unmeasured_told(case: Case, forward: Sequence[Case]) -> str:
    """Which libraries have a time of the forward pass and none of the backward pass, as a sentence; else empty."""
    if case.table != "backward":
        return ""
    own = {one.label for one in case.baselines}
    missing = [one.label for one in all_baselines(forward) if one.label not in own]
    return f"Not measured: the backward pass of {' and '.join(missing)}." if missing else ""


def beaten_told(case: Case) -> str:
    """The library that is faster than ours, as a sentence; markdown, empty where ours is the fastest."""
    ours, first = case.ours, next(iter(case.baselines), None)
    if ours is None or first is None or ratio(first, ours) < 1.005:
        return ""
    return (
        f"On the shape above, **{first.label}** is faster than {ours.label}: {numbers.ratio(ratio(first, ours))}. So "
        "these ideas are not everything."
    )


def settings(case: Case) -> str:
    """Which settings the bars show, if several were tried; else empty."""
    several = [variant for variant in case.best if variant.settings > 1 and variant.seconds is not None]
    return "; ".join(f"{one.label} with {one.options}, the fastest of {one.settings} settings" for one in several)


def curve(cases: Sequence[Case], limits: Sequence[Limit | None], chosen: str = "") -> go.Figure:
    """Each kernel's throughput over the length, and the roof dashed. `limits` are the cases' roofs.

    In percent of the roof where it was measured with each case. Of the kernels that our dispatcher chooses from, only
    the `chosen` one is drawn.
    """
    unit, along, hues = cases[0].unit, TABLES[cases[0].table].along, colours(cases)
    shares = all(limit and limit.own for limit in limits)
    wholes = [limit.per_second / 100 if limit and shares else 1e12 for limit in limits]
    functions = {one.function: one for case in cases for one in case.variants if not one.floor}
    dispatched = any(name in DISPATCHERS for name in functions)
    lines = []
    for function, one in sorted(functions.items()):
        if dispatched and one.ours and not one.label.startswith("our ") and function != chosen:
            continue
        points = [
            (case.along, same.per_second / whole)
            for case, whole in zip(cases, wholes, strict=True)
            for same in case.best
            if same.function == function and same.per_second
        ]
        lines.append(Line(points, one.label, palette.mid(hues[function])))
    roofs = [
        (case.along, limit.per_second / whole)
        for case, limit, whole in zip(cases, limits, wholes, strict=True)
        if limit
    ]
    name = next((limit.name for limit in limits if limit), "")
    lines.append(Line(roofs, f"peak: {name}", palette.mid("slate"), dashed=True))
    titles = {"N": "N, queries and keys", "V": "V, elements in a row"}
    y, unit = (f"% of the peak ({name})", "%") if shares else (f"T{unit}", f" T{unit}")
    return chart("", lines, x=titles[along], y=y, unit=unit, height=500, near=True)


def shapes_table(cases: Sequence[Case], limits: Sequence[Limit | None]) -> str:
    """Every shape as markdown: our fastest kernel, its share of the roof, its speedup over each library."""
    libraries = all_baselines(cases)
    columns: tables.Columns = (
        " "
        "× ".join(TABLES[cases[0].table].dimensions), "our fastest", "throughput",
        Column("of the peak", numbers.percent),
        *(Column(f"÷ {one.label}", numbers.ratio) for one in libraries),
    )  # fmt: skip
    rows: list[list[str | float | None]] = []
    for case, limit in zip(cases, limits, strict=True):
        ours = case.ours
        if ours is None or ours.per_second is None:
            rows.append([case.words, "none has a time", *[None] * (len(columns) - 2)])
            continue
        beside = {one.function: one for one in case.baselines}
        of_roof = ours.per_second / limit.per_second if limit else None
        ratios = [ratio(ours, beside[one.function]) if one.function in beside else None for one in libraries]
        rows.append([case.words, ours.label, f"**{numbers.si(ours.per_second, case.unit)}**", of_roof, *ratios])
    return tables.markdown(columns, rows)
