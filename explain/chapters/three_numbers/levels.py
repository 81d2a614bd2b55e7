"""One Experiment's bytes at every level, from the formula down to HBM, with the source and meaning of each number.

    formula → traced → L1 → L2 → HBM, and shared memory beside them

Formula and trace count elements that the kernel loads and stores. L1, L2 and HBM are GPU counters, in sectors of 32 B
that crossed a link. `byte_accounting` explains the difference from each level to the next. Standard library only.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from explain import recordings
from explain.compile.cost import LaunchCost, occupancy
from explain.counters.model import Counters, Counts
from explain.experiment import Experiment
from explain.figures.numbers import fixed
from explain.gpus import Gpu
from explain.kept import kept
from explain.records.code import stale_parts
from explain.trace.model import Launch, Trace
from kernels.traffic import Term, Traffic

Bytes = Mapping[tuple[str, bool], int]
"""By (buffer, is written); buffers are named as in the formula."""
WAVEFRONT = 128
"""The most bytes that shared memory's data pipe moves in a cycle: 32 banks of 4 B."""
RECORDED = "traced"


@dataclass(frozen=True)
class Traced:
    """Bytes that a kernel's programs load and store, counted in the interpreter; `what` was run, `where` and when."""

    bytes: Bytes
    what: str
    where: str

    def of(self, written: bool) -> int:
        """The bytes read, or the bytes written."""
        return sum(count for (_, way), count in self.bytes.items() if way is written)


@dataclass(frozen=True)
class Level:
    """Bytes read and written at one level; None if unknown: `why` says why. `note` says what was counted."""

    key: str
    name: str
    read: int | None
    written: int | None
    source: str
    note: str
    why: str = ""

    @property
    def known(self) -> bool:
        return self.read is not None or self.written is not None

    def of(self, written: bool) -> int | None:
        return self.written if written else self.read


@dataclass(frozen=True)
class Levels:
    """The bytes at each level, from the formula to HBM. `shared.read` counts loads and stores together."""

    formula: Level
    traced: Level
    l1: Level
    l2: Level
    dram: Level
    shared: Level

    def __iter__(self) -> Iterator[Level]:
        """From the formula down to HBM."""
        return iter((self.formula, self.traced, self.l1, self.l2, self.dram))


def levels(
    traffic: Traffic,
    traced: Traced | None,
    counts: Counts | None,
    source: str,
    why: str,
    shared_bytes: int | None = None,
) -> Levels:
    """The levels of a run. `source` names the origin of `counts`; `why` says why there are none.

    Without a reliable `shared_bytes` (`Counters.shared_bytes`), the wavefronts give an upper bound.
    """
    moved, stored, wavefronts, read, dram_read, dram_written = (
        None if counts is None else getattr(counts, name)
        for name in ("l1_bytes", "l2_written_bytes", "shared_wavefronts", "l2_read_bytes", "dram_read_bytes",
                     "dram_written_bytes")
    )  # fmt: skip
    loaded = None if moved is None or stored is None else moved - stored
    bound = None if wavefronts is None else wavefronts * WAVEFRONT
    at_l1 = "loads and stores at L1, in sectors of 32 B, with spilled registers. L1 writes every store through, so its "
    requested = "bytes that instructions requested, loads and stores together; a value read by all threads of a warp "
    at_most = f"at most: {WAVEFRONT} B per cycle of its data pipe; loads and stores together"
    missed = "These sizes were not traced beforehand, and they are too large to trace now."
    formula = "the bytes that the algorithm must move, term by term"

    def hardware(key: str, name: str, read: int | None, written: int | None, note: str) -> Level:
        known = read is not None or written is not None
        missing = why if counts is None else "This GPU has no counter for it."
        return Level(key, name, read, written, source if known else "", note, "" if known else missing)

    return Levels(
        Level("formula", "Formula", traffic.read_bytes, traffic.written_bytes, "formula", formula),
        _of_trace(traced) if traced else Level("traced", "Trace", None, None, "", "", missed),
        hardware("l1", "L1", loaded, stored, at_l1 + "stores are L2's"),
        hardware("l2", "L2", read, stored, "bytes between L2 and the SMs, in sectors of 32 B"),
        hardware("dram", "HBM", dram_read, dram_written, "bytes between HBM and L2 while the kernel ran"),
        hardware("shared", "Shared memory", bound, None, at_most)
        if shared_bytes is None
        else hardware("shared", "Shared memory", shared_bytes, None, requested + "counts once"),
    )


def _of_trace(traced: Traced) -> Level:
    note = f"the bytes of the kernel's loads and stores: {traced.what}"
    return Level("traced", "Trace", traced.of(False), traced.of(True), f"trace · {traced.where}", note)


def own_bytes(counts: Counts) -> int | None:
    """Bytes of the kernel's own loads and stores at L1, without spilled registers; None if a count is missing."""
    asked, spilled = counts.l1_bytes, counts.spilled_bytes
    return None if asked is None or spilled is None else asked - spilled


def amount(count: float) -> str:
    """Bytes in decimal units, with one digit more than elsewhere, to check gaps: "536.9 MB", "−25.5 MB"."""
    for unit, name in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if abs(count) >= unit:
            return f"{count / unit:,.{2 if unit == 1e9 else 1}f} {name}".replace("-", "−")
    return f"{fixed(count, 0)} B"


# The source of the counters

WAYS = ("CUPTI", "ncu", "recorded", "formula only")
"""Where a run's bytes can come from, in order of preference."""


@dataclass(frozen=True)
class Witness:
    """The counters to show; `way` is one of WAYS, `why` says why no earlier one, `origin` names the record."""

    counters: Counters | None
    way: str
    why: str
    origin: str = "hardware"

    @property
    def source(self) -> str:
        """The GPU, date and method of these counters."""
        if self.counters is None:
            return ""
        where = self.counters.provenance
        method = self.counters.method.partition(",")[0] if self.way == "recorded" else self.counters.method
        return f"{self.origin} · {where.gpu}, {where.date}, read by {method}"


@kept
def witness(counted: Counters | None, recorded: Counters | None, why: str, origin: str = "recorded") -> Witness:
    """`counted` here, else `recorded` (`origin` names the record), else formula only; `why` it was not counted here."""
    if counted is not None:
        return Witness(counted, "ncu" if counted.fallback else "CUPTI", counted.fallback)
    return Witness(recorded, "recorded", why, origin) if recorded else Witness(None, "formula only", why)


# The trace


@functools.cache
def _recorded() -> Mapping[str, Traced]:
    record = recordings.measured(RECORDED)
    if record is None:
        return {}
    where = f"Triton's interpreter {record['provenance']['triton']}, recorded {record['provenance']['date']}"
    stale = stale_parts(record.get("code"))
    return {
        Experiment.from_json(run["experiment"]).key: _traced(
            run, where + ", of older code" * ("everything" in stale or run["experiment"]["kernel"] in stale)
        )
        for run in record["runs"]
    }


def _traced(run: Mapping[str, Any], source: str) -> Traced:
    sums = {
        (buffer, way == "written"): count * run["times"]
        for way in ("read", "written")
        for buffer, count in run[way].items()
    }
    return Traced(sums, run["what"], source)


def recorded_trace(experiment: Experiment) -> Traced | None:
    """The recorded trace of a run too large to trace on a page (`python -m explain record bytes`), else None."""
    return _recorded().get(experiment.key)


@functools.cache
def _launches() -> Mapping[str, tuple[int, LaunchCost]]:
    record = recordings.measured(RECORDED) or {"runs": []}
    return {
        Experiment.from_json(run["experiment"]).key: (run["capability"], LaunchCost(**run["launches"][0]))
        for run in record["runs"]
        if "launches" in run
    }


def programs_resident(experiment: Experiment, gpu: Gpu) -> int | None:
    """How many programs of a run's first launch an SM holds at once; None if it was not compiled for this GPU."""
    capability, launch = _launches().get(experiment.key, (0, None))
    return occupancy(launch, gpu).programs if launch and capability == gpu.compute_capability else None


@kept
def whole_trace(experiment: Experiment, trace: Trace) -> Traced:
    """The bytes of a run in which every program was counted."""
    sums: dict[tuple[str, bool], int] = {}
    for way, counts in by_buffer(experiment, trace.launches).items():
        sums |= {(buffer, way == "written"): count for buffer, count in counts.items() if count}
    programs = sum(launch.programs for launch in trace.launches)
    what = f"all {programs:,} programs" if programs > 1 else "the one program"
    return Traced(sums, what, "Triton's interpreter, this run")


def by_buffer(experiment: Experiment, launches: tuple[Launch, ...]) -> dict[str, dict[str, int]]:
    """{"read", "written"}: bytes of each buffer, by the formula's names, over all launches."""
    sums: dict[str, dict[str, int]] = {"read": {}, "written": {}}
    for launch in launches:
        for way, counted in (("read", launch.read_bytes), ("written", launch.written_bytes)):
            for pointer, count in counted.items():
                name = formula_name(experiment, launch, pointer)
                sums[way][name] = sums[way].get(name, 0) + count
    return sums


def formula_name(experiment: Experiment, launch: Launch, pointer: str) -> str:
    """The formula's name for the buffer that a launch calls `pointer`."""
    name = pointer.removesuffix("_ptr")
    return experiment.entry.buffers.get(launch.kernel, {}).get(name, name)


def first_access(experiment: Experiment, trace: Trace, term: Term) -> int | None:
    """The first step that loads (or stores) the buffer of a term; None if the recorded programs never do."""
    other = "load" if term.written else "store"
    for step in range(trace.steps):
        launch = trace.launch(step)
        for access in trace.accesses(step):
            if access.kind != other and formula_name(experiment, launch, access.buffer.name) == term.buffer:
                return step
    return None
