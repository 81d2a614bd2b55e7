"""What the warps of a kernel did, cycle by cycle: a timeline recorded on a GPU, as values and pictures.

`python -m explain record timelines` runs kernels with marked scopes (`kernels/scopes.py`) under Proton, Triton's
profiler. One warp stands for each warpgroup: its four warps run together. The clock is read at the start and end of a
statement. The assembler may move arithmetic across a reading, but no wait and no matmul. Imports neither triton nor
torch.
"""

from __future__ import annotations

import functools
import re
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import plotly.graph_objects as go

from explain import data, recordings
from explain.device.measurement import Provenance
from explain.figures import numbers, palette, tables
from explain.figures.plot import plot
from explain.figures.tables import Column
from explain.gpus import card
from explain.kept import kept
from explain.records import results
from explain.records.results import ResultFileError
from kernels.catalog import KERNELS
from kernels.parameters import ITEM_BYTES

FORMAT, VERSION = "tilescope-timeline", 1
COMMAND = "python -m explain record timelines"
MATMULS, SOFTMAX = ("QK", "PV"), ("softmax", "rescale")
ROWS, KEYS = 64, 128
"""The rows of Q of a warpgroup's matmul, and the keys of a tile, in every kernel that is recorded."""
SCOPES: Mapping[str, str] = data(__file__)
"""Every scope, and what a warp does in it."""


@dataclass(frozen=True)
class Span:
    """One scope of one warp, in cycles since its program's first scope."""

    scope: str
    start: int
    end: int

    @property
    def cycles(self) -> int:
        """Its length."""
        return self.end - self.start


@dataclass(frozen=True)
class Lane:
    """What one warp did, in order of start. `warp` is its number in the program."""

    warp: int
    spans: tuple[Span, ...]

    @property
    def produces(self) -> bool:
        """Whether this is the producer warp, which only loads."""
        scopes = {span.scope for span in self.spans}
        return "load K" in scopes and not scopes & set(MATMULS)


@dataclass(frozen=True)
class Program:
    """One program, on one SM."""

    program: int
    sm: int
    lanes: tuple[Lane, ...]

    @cached_property
    def cycles(self) -> int:
        """From the start of its first scope to the end of its last."""
        return max(span.end for lane in self.lanes for span in lane.spans)

    @property
    def named(self) -> tuple[tuple[str, Lane], ...]:
        """Lanes by name, the producer first."""
        groups = [lane for lane in self.lanes if not lane.produces]
        named = [("producer", lane) for lane in self.lanes if lane.produces]
        for number, lane in enumerate(groups, 1):
            named.append((f"consumer {number}" if len(groups) > 1 else "consumer", lane))
        return tuple(named)

    @property
    def consumers(self) -> list[tuple[str, Lane]]:
        """The lanes without the producer, by name."""
        return [(name, lane) for name, lane in self.named if not lane.produces]

    @cached_property
    def warpgroups(self) -> int:
        """How many warpgroups run matmuls: the warps before the producer's are theirs. Without one, a lane is one."""
        return next((lane.warp // 4 for lane in self.lanes if lane.produces), len(self.consumers))

    @property
    def unseen(self) -> int:
        """Warpgroups that no lane of its own stands for: their matmuls are not recorded."""
        return self.warpgroups - len(self.consumers)

    def visits(self) -> int:
        """How many tiles of keys a warpgroup processed."""
        return max(sum(span.scope == "QK" for span in lane.spans) for lane in self.lanes)

    @cached_property
    def multiplies(self) -> list[tuple[int, int]]:
        """When a matmul was started and not yet waited for, start and end. The tensor cores may be done before."""
        return _union(self._of(MATMULS))

    @cached_property
    def matmuls(self) -> float:
        """The share of this program's time in `multiplies`: an upper bound, unless a warpgroup is `unseen`."""
        return _length(self.multiplies) / self.cycles

    def earliest(self, cycles: float) -> list[tuple[float, float]]:
        """When the tensor cores run if each matmul takes so many cycles, one after the other, as early as it can."""
        runs, end = [], 0.0
        for start, _ in sorted(self._of(MATMULS)):
            end = max(start, end) + cycles
            runs.append((end - cycles, end))
        return runs

    def needed(self, cycles: float) -> float:
        """The share of this program's time that its matmuls need, if each takes so many cycles: a lower bound."""
        return len(self._of(MATMULS)) * cycles / self.cycles

    @cached_property
    def hidden(self) -> float | None:
        """The share of all softmax time in which a matmul of any group runs: an upper bound. None without a softmax."""
        own = [(span.start, span.end) for lane in self.lanes for span in lane.spans if span.scope in SOFTMAX]
        whole = _length(own)
        return sum(_overlap(one, self.multiplies) for one in own) / whole if whole else None

    def _of(self, scopes: Sequence[str]) -> list[tuple[int, int]]:
        return [(span.start, span.end) for lane in self.lanes for span in lane.spans if span.scope in scopes]


@dataclass(frozen=True, eq=False)
class Timeline:
    """Some programs of one launch; equal only to itself, so pictures can be cached by it.

    `module` and `function` are the kernel; `code` is its digest, as in a record.

    `sm_mhz` is the SMs' clock under load. `plain_us` is the median time of a launch without scopes, if it was timed;
    `marked_us` is the longest program with them.
    """

    name: str
    module: str
    function: str
    shape: tuple[int, int, int, int]
    dtype: str
    causal: bool
    sm_mhz: float
    plain_us: float | None
    marked_us: float
    programs: tuple[Program, ...]
    commit: str
    code: str
    provenance: Provenance

    @property
    def key(self) -> str:
        """The run's name in its file's name: "attention_hopper-d128-causal"."""
        return f"{self.name}-d{self.shape[3]}{'-causal' if self.causal else ''}"

    @property
    def title(self) -> str:
        """ "persistent, 1 × 8 × 2,048 × 128, bf16, causal"."""
        shape = " × ".join(map(numbers.count, self.shape))
        return f"{self.short}, {shape}, {self.dtype}{', causal' if self.causal else ''}"

    @property
    def short(self) -> str:
        """The kernel's name in a picture: "persistent"."""
        return next((one.short for one in KERNELS.values() if one.module == self.module), self.name)

    @cached_property
    def matmuls(self) -> float:
        """The share of the time in which a matmul may run, averaged over the programs."""
        return statistics.fmean(program.matmuls for program in self.programs)

    @cached_property
    def matmul_cycles(self) -> float | None:
        """The cycles that one matmul of a lane takes at an SM's peak; None where the peak is not known."""
        gpu, program = card(self.provenance.gpu), self.programs[0]
        if gpu is None or not gpu.tensor_flops_per_cycle or ITEM_BYTES[self.dtype] != 2 or not program.consumers:
            return None
        rows = ROWS * program.warpgroups / len(program.consumers)
        return 2 * rows * KEYS * self.shape[3] / gpu.tensor_flops_per_cycle

    @cached_property
    def needed(self) -> float | None:
        """The share of the time in which a matmul must run, averaged over the programs; None without a peak."""
        cycles = self.matmul_cycles
        return cycles and statistics.fmean(program.needed(cycles) for program in self.programs)

    @property
    def seen(self) -> str:
        """The share in which a matmul may run, in words: "91%"; or how many of the warpgroups were recorded."""
        of = self.programs[0].warpgroups
        part = of - self.programs[0].unseen
        return numbers.percent(self.matmuls) if part == of else f"not known: {part} of {of} warpgroups recorded"

    @property
    def overlaps(self) -> bool:
        """Whether a softmax of one of its programs runs while a matmul does."""
        return any((program.hidden or 0.0) >= 0.005 for program in self.programs)

    @property
    def source(self) -> str:
        """Where its numbers come from, for a caption."""
        return source_of((self,))

    def microseconds(self, cycles: float) -> float:
        """Cycles as time, at the measured clock."""
        return cycles / self.sm_mhz


def source_of(timelines: Sequence[Timeline]) -> str:
    """Where the numbers of these runs come from, for a caption."""
    origins = (one.provenance for one in timelines)
    where = dict.fromkeys(f"{one.gpu}, driver {one.driver}, triton {one.triton}, {one.date}" for one in origins)
    clocks = (numbers.fixed(mhz, 0) for mhz in sorted({one.sm_mhz for one in timelines}))
    return f"recorded · {'; '.join(where)}, by Proton at {' and '.join(clocks)} MHz"


def _union(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    joined: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined


def _length(spans: Iterable[tuple[int, int]]) -> int:
    return sum(end - start for start, end in spans)


def _overlap(one: tuple[int, int], others: Iterable[tuple[int, int]]) -> int:
    return sum(max(0, min(one[1], end) - max(one[0], start)) for start, end in others)


# Proton's own file


def from_proton(trace: Mapping[str, Any], keep: int) -> tuple[Program, ...]:
    """`keep` programs of the trace that Proton writes for Chrome, evenly spread, the first among them.

    Proton names a program "KERNEL Core<sm> CTA<program>" and a warp "warp <n> (line <k>)", and divides cycles by 1000
    as if they were nanoseconds. Raises ResultFileError if it is not such a trace, has another scope, or a scope ends
    before its start.
    """
    found: dict[tuple[int, int], dict[int, list[tuple[str, int, int]]]] = {}
    try:
        events = [event for event in trace["traceEvents"] if event.get("ph") == "X"]
        for event in events:
            place, warp = re.search(r" Core(\d+) CTA(\d+)$", event["pid"]), re.match(r"warp (\d+)\b", event["tid"])
            if not place or not warp:
                raise ValueError(f"{event['pid']}, {event['tid']} is not a program and a warp")
            start, cycles = round(1000 * event["ts"]), round(1000 * event["dur"])
            if event["name"] not in SCOPES or cycles < 0:
                raise ValueError(f"the scope {event['name']} takes {cycles} cycles")
            key = (int(place[2]), int(place[1]))
            found.setdefault(key, {}).setdefault(int(warp[1]), []).append((event["name"], start, start + cycles))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ResultFileError(f"not a trace by Proton: {error}") from None
    if not found:
        raise ResultFileError("Proton recorded no scope")
    programs = sorted(found)
    chosen = programs[:: -(-len(programs) // keep)]
    return tuple(_program(*key, found[key]) for key in chosen)


def _by_time(span: tuple[str, int, int]) -> tuple[int, int]:
    return span[1:]


def _program(program: int, sm: int, warps: Mapping[int, Sequence[tuple[str, int, int]]]) -> Program:
    first = min(start for spans in warps.values() for _, start, _ in spans)
    lanes = [
        Lane(warp, tuple(Span(scope, start - first, end - first) for scope, start, end in sorted(spans, key=_by_time)))
        for warp, spans in sorted(warps.items())
    ]
    return Program(program, sm, tuple(lanes))


# Our file


def path_of(key: str, folder: Path = recordings.FOLDER) -> Path:
    """The file of the run with this key, by default where it is shipped."""
    return folder / f"timeline-{key}.json"


def save(path: Path, timeline: Timeline) -> None:
    """Writes the whole file at once: a run that is killed leaves the file it found."""
    content = {"format": FORMAT, "version": VERSION, **asdict(timeline)}
    for program in content["programs"]:
        for lane in program["lanes"]:
            lane["spans"] = [[span["scope"], span["start"], span["end"]] for span in lane["spans"]]
    results.write(path, content, indent=None)


def load(path: Path) -> Timeline:
    """The file's timeline. Raises ResultFileError."""
    if (found := results.load(path, _parsed, COMMAND)) is None:
        raise ResultFileError(f"there is no {path.name}. Again: {COMMAND}")
    return found


def _parsed(data: dict[str, Any]) -> Timeline:
    if (data.pop("format", None), data.pop("version", None)) != (FORMAT, VERSION):
        raise ValueError(f"its format is not {FORMAT} {VERSION}")
    programs = tuple(
        Program(one["program"], one["sm"], tuple(map(_lane, one["lanes"]))) for one in data.pop("programs")
    )
    shape, where = tuple(data.pop("shape")), Provenance(**data.pop("provenance"))
    if not programs or not all(program.lanes and any(lane.spans for lane in program.lanes) for program in programs):
        raise ValueError("it has no scopes")
    if len(shape) != 4 or not data["sm_mhz"] > 0:
        raise ValueError(f"the shape {shape} at {data['sm_mhz']} MHz")
    return Timeline(**data, shape=shape, programs=programs, provenance=where)


def _lane(data: Mapping[str, Any]) -> Lane:
    return Lane(data["warp"], tuple(_span(*span) for span in data["spans"]))


def _span(scope: str, start: int, end: int) -> Span:
    if scope not in SCOPES or type(start) is not int or type(end) is not int or not 0 <= start <= end:
        raise ValueError(f"the span {scope!r}, {start!r} to {end!r}")
    return Span(scope, start, end)


@functools.cache
def recorded() -> tuple[Timeline, ...]:
    """The timelines shipped with Tilescope, by name. Raises ResultFileError if one is not valid."""
    return tuple(load(path) for path in sorted(recordings.FOLDER.glob("timeline-*.json")))


SPANS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "Q Kᵀ": ("scores", ("QK",)),
    "softmax": ("p", ("softmax",)),
    "P̃ V": ("acc", ("PV",)),
    "rescale Õ": ("alpha", ("rescale",)),
    "load or store": ("hbm", ("load Q", "load K", "load V", "store O")),
    "wait": ("slate", ("wait Q", "wait K", "wait V", "turn", "place Q", "place K", "place V")),
}
"""The kinds of a timeline's spans: the palette's colour, and the scopes of each."""
MATMUL_ROWS = {"QK": "Q Kᵀ", "PV": "P̃ V"}
"""Scopes that overlap with others of their group, and so have rows of their own."""
SHOWN, WAIT_OPACITY = 4, 0.35
"""Tiles of keys in sight at first; waits stay behind the work."""


def lanes(timeline: Timeline, program: Program) -> go.Figure:
    """A program's warps over time in µs. The whole run can be scrolled; a few tiles in the middle are in sight."""
    figure = plot()
    rows: list[str] = []
    for name, lane in program.named:
        own_rows = {} if lane.produces else MATMUL_ROWS
        own = [*(f"{name} · {row}" for row in MATMUL_ROWS.values()), f"{name} · softmax, waits"]
        rows += [name] if lane.produces else own
        for kind, (hue, scopes) in SPANS.items():
            spans = [span for span in lane.spans if span.scope in scopes]
            if not spans:
                continue
            figure.add_bar(
                name=kind, legendgroup=kind, orientation="h", width=0.72,
                y=[f"{name} · {own_rows[span.scope]}" if span.scope in own_rows else rows[-1] for span in spans],
                base=[timeline.microseconds(span.start) for span in spans],
                x=[timeline.microseconds(span.cycles) for span in spans],
                opacity=WAIT_OPACITY if kind == "wait" else 1,
                marker={"color": palette.mid(hue), "line": {"width": 0.5, "color": palette.mid("slate")}},
                customdata=[_span_told(timeline, span) for span in spans],
                showlegend=not any(trace.name == kind for trace in figure.data),
                hovertemplate="<b>%{customdata[0]}</b><br>%{customdata[1]}<extra>" + name + "</extra>",
            )  # fmt: skip
    start, end = window(program)
    figure.update_layout(
        xaxis={
            "title": "time since the program's start, µs", "zeroline": False, "automargin": True,
            "range": [timeline.microseconds(start), timeline.microseconds(end)],
        },
        yaxis={
            "title": "", "categoryorder": "array", "categoryarray": rows[::-1], "fixedrange": True, "showgrid": False,
        },
        barmode="overlay", bargap=0.2, height=220 + 40 * len(rows), margin={"l": 8, "r": 8, "t": 8, "b": 48},
        hovermode="closest", dragmode="pan",
        legend={"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0, "traceorder": "normal"},
    )  # fmt: skip
    return figure


def window(program: Program) -> tuple[int, int]:
    """The cycles in sight at first: SHOWN tiles of keys in the middle of the run."""
    group = next((lane for _, lane in program.named if not lane.produces), program.lanes[0])
    starts = [span.start for span in group.spans if span.scope == "QK"]
    if len(starts) <= SHOWN + 1:
        return 0, program.cycles
    first = (len(starts) - SHOWN) // 2
    return starts[first], starts[first + SHOWN]


def _span_told(timeline: Timeline, span: Span) -> tuple[str, str]:
    start, end, long = (timeline.microseconds(cycles) for cycles in (span.start, span.end, span.cycles))
    cycles, first, last = map(numbers.count, (span.cycles, span.start, span.end))
    taken = f"{cycles} cycles, {numbers.fixed(long, 3)} µs; from {first} to {last}"
    return SCOPES[span.scope], f"{taken}, {numbers.fixed(start, 2)} to {numbers.fixed(end, 2)} µs"


@kept
def compared(timelines: Sequence[Timeline]) -> str:
    """Every run, the mean of its programs, as markdown."""
    rows = []
    for one in timelines:
        overlaps = [program.hidden for program in one.programs if program.hidden is not None]
        cycles = statistics.fmean(program.cycles / max(program.visits(), 1) for program in one.programs)
        needed = numbers.NONE if one.needed is None else f"**{numbers.percent(one.needed)}**"
        hidden = _hidden(statistics.fmean(overlaps), one.programs[0]) if overlaps else None
        rows.append((one.title, needed, f"**{one.seen}**", hidden, round(cycles)))
    columns: tables.Columns = [
        "run: batch × heads × N × d", Column("tensor cores busy, at least"), Column("at most"),
        Column("softmax overlaps with a matmul"),
        Column("cycles per tile of keys, start and end included"),
    ]  # fmt: skip
    return tables.markdown(columns, rows)


def _hidden(part: float, program: Program) -> str:
    """The share of the softmax that overlaps with a matmul, at most; of the recorded warpgroups, if others run."""
    said = f"**{'≤ ' if part else ''}{numbers.percent(part)}**"
    recorded = f"warpgroup{'s' * (len(program.consumers) > 1)} recorded"
    return f"{said} within the {recorded}" if program.unseen else said


@kept
def timeline_told(timeline: Timeline, program: Program) -> str:
    """The program's shares in sentences; markdown."""
    share = f"**{numbers.percent(program.matmuls)}**"
    if program.unseen:
        told = f"A matmul of the recorded warpgroup runs in {share} of this program's time."
    else:
        told = f"A matmul runs in at most {share} of this program's time."
    if timeline.matmul_cycles:
        told += f" The tensor cores are busy in at least **{numbers.percent(program.needed(timeline.matmul_cycles))}**."
    if program.hidden is None:
        return told
    of = "a matmul of the recorded warpgroup" if program.unseen else "a matmul"
    most = f"At most **{numbers.percent(program.hidden)}** of the softmax overlaps with {of}."
    return f"{told} {most if program.hidden >= 0.005 else f'No softmax overlaps with {of}.'}"


def times_told(timeline: Timeline, program: Program) -> str:
    """How long the program, the longest program and a launch take, in sentences."""
    own = numbers.fixed(timeline.microseconds(program.cycles), 1)
    longest = numbers.fixed(timeline.marked_us, 1)
    told = f"This program takes {own} µs, the longest {longest} µs. Reading the clock is a part of that."
    if timeline.plain_us is None:
        return told
    plain = numbers.fixed(timeline.plain_us, 1)
    return f"{told} A whole launch without it takes {plain} µs: a launch also starts and ends the programs."
