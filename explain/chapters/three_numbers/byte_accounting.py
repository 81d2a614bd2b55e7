"""Why the bytes of two neighbouring levels differ: every cause by name, in bytes, and what is left over as "not explained".

Causes come from the formula (whole sectors, launches besides the kernel's own, registers' layout) or from the GPU's counters (spilled registers,
dirty lines). What a cache served is the difference of two counters, and no more than was there to be asked for again. `predicted` says what
DRAM reads should be; `check` holds the GPU to it. Standard library only.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import gcd

from explain.chapters.three_numbers.levels import Levels, amount, programs_resident
from explain.counters.model import SECTOR, Counts
from explain.experiment import Experiment
from explain.gpus import Gpu
from kernels.parameters import ITEM_BYTES
from kernels.traffic import Term, rows_at_once

WARPS, LANES = 4, 32
"""Of a program of any kernel here, and of a warp."""
WITHIN = 0.01
"""A prediction of DRAM reads is met within 1%."""
SPILLED = "Spilled registers"


@dataclass(frozen=True)
class Cause:
    """What makes a level's bytes more (or, below zero, less) than those of the level above. `source` is "formula" or "hardware"."""

    name: str
    bytes: int
    source: str
    words: str


@dataclass(frozen=True)
class Gap:
    """From one level to the next one that is known, of what is read or of what is written."""

    above: str
    below: str
    written: bool
    bytes: int
    causes: tuple[Cause, ...]

    @property
    def unexplained(self) -> int:
        return self.bytes - sum(cause.bytes for cause in self.causes)


def gaps(experiment: Experiment, levels: Levels, counts: Counts | None, *, warm: bool) -> list[Gap]:
    """Every gap between neighbouring levels that are both known, from the formula down."""
    found = []
    for written in (False, True):
        order = list(levels)
        at = 0
        for below in range(1, len(order)):
            above_bytes, below_bytes = order[at].of(written), order[below].of(written)
            if above_bytes is None or below_bytes is None:
                continue
            causes: list[Cause] = []
            gap = below_bytes - above_bytes
            for step in order[at + 1 : below + 1]:
                left = gap - sum(cause.bytes for cause in causes)
                causes += _causes(step.key, experiment, counts, left, written=written, warm=warm)
            found.append(Gap(order[at].key, order[below].key, written, gap, tuple(c for c in causes if c.bytes)))
            at = below
    return found


def _causes(
    below: str, experiment: Experiment, counts: Counts | None, left: int, *, written: bool, warm: bool
) -> list[Cause]:
    """What leads down to a level. `left` is the gap as far as nothing has explained it yet."""
    if counts is None or below in ("formula", "traced"):
        return []
    if below == "l1":
        return [*_stored(experiment, counts)] if written else [*_loaded(experiment, counts)]
    if below == "l2":
        return [] if written else [*_held_by_l1(experiment, counts, left)]
    return [*_not_yet_in_dram(experiment, counts, left, warm)] if written else [*_held_by_l2(experiment, counts, left)]


# Trace to L1


def _loaded(experiment: Experiment, counts: Counts) -> Iterator[Cause]:
    terms = [term for term in experiment.entry.formula(experiment.values).terms if not term.written]
    yield _whole_sectors(experiment, terms)
    asked_again = {term.buffer: (_askers(experiment, term) - 1) * sector_bytes(experiment, term) for term in terms}
    yield Cause(
        "Every warp asks",
        sum(asked_again.values()),
        "formula",
        f"{WARPS} warps make a program. A value that all of them need, or a tile with fewer elements than threads, is loaded by each warp: "
        f"{_names(name for name, more in asked_again.items() if more)}.",
    )
    yield Cause(
        "Sectors asked for in halves",
        sum(term.bytes for term in terms if _in_halves(experiment, term)),
        "formula",
        "O is float32 and is loaded in the layout of Q, 8 elements a thread: 32 B, in two loads of 16 B. Each of the two asks for every sector.",
    )
    yield _spilled(counts.spill_read_bytes, "read back")


def _stored(experiment: Experiment, counts: Counts) -> Iterator[Cause]:
    terms = experiment.entry.formula(experiment.values).terms
    filled = sum(term.elements * term.item_bytes for term in terms if term.buffer.endswith("_hbm") and not term.written)
    yield Cause(
        "Launches before the kernel",
        filled,
        "formula",
        "PyTorch fills O and ℓ with 0 and m with −∞ before the first visit; the GPU counts every launch of the call.",
    )
    yield _whole_sectors(experiment, [term for term in terms if term.written])
    yield _spilled(counts.spill_written_bytes, "written")


def _whole_sectors(experiment: Experiment, terms: list[Term]) -> Cause:
    more = {term.buffer: sector_bytes(experiment, term) - term.bytes for term in terms}
    return Cause(
        "Whole sectors",
        sum(more.values()),
        "formula",
        f"The GPU moves sectors of {SECTOR} B. Pieces that are shorter, start inside a sector, or are cut off in one by a mask, move the rest of it along: "
        f"{_names(name for name, extra in more.items() if extra)}.",
    )


def _spilled(count: int | None, way: str) -> Cause:
    return Cause(
        SPILLED,
        count or 0,
        "hardware",
        f"The tile needs more registers than a thread may have; what does not fit is {way} through L1, as local memory.",
    )


def _askers(experiment: Experiment, term: Term) -> int:
    """How many warps load the same elements of a term: one, unless its tile has fewer elements than the program has threads.

    Attention's tiles are spread over the warps as its matrix products want them, each element once.
    """
    if experiment.entry.family == "attention":
        return 1
    return max(1, WARPS * LANES // max(LANES, _layout(experiment, term).tile))


def _in_halves(experiment: Experiment, term: Term) -> bool:
    """Whether it is FlashAttention-1's O, four bytes an element, in a layout made for inputs of two."""
    return term.buffer == "o_hbm" and not term.written and ITEM_BYTES[experiment.values["dtype"]] == 2


@dataclass(frozen=True)
class _Layout:
    """How a buffer lies in memory and is cut by one access: `rows` of `row` bytes, each in pieces of `piece` bytes; `tile` elements an access."""

    rows: int
    row: int
    piece: int
    tile: int


def _layout(experiment: Experiment, term: Term) -> _Layout:
    p, item = experiment.values, term.item_bytes
    if experiment.entry.family == "softmax":
        if term.elements == p["rows"] * p["cols"]:
            return _Layout(p["rows"], p["cols"] * item, p["block_n"] * item, p["block_n"] * p.get("block_m", 1))
        if term.buffer in ("y", "top", "index"):  # a short list for each row
            return _Layout(p["rows"], p["k"] * item, p["k"] * item, WARPS * LANES)
        return _Layout(1, item, item, 1)  # a tile's maximum, or its sum, alone
    heads = p["batch"] * p["heads"]
    keys, queries = p["kv_len"], p["seq_len"]
    if term.buffer in ("s", "p"):
        tiled = (term.buffer == "s") == term.written  # launches 1 and 3 take tiles, launch 2 whole rows
        width = p["block_n"] if tiled else keys
        return _Layout(heads * queries, keys * item, width * item, width * (p["block_m"] if tiled else 1))
    if term.buffer in ("lse", "m_hbm", "l_hbm"):
        return _Layout(heads, queries * item, p["block_m"] * item, p["block_m"])
    rows, side = (keys, p["block_n"]) if term.buffer in ("k", "v") else (queries, p["block_m"])
    return _Layout(heads, rows * p["head_dim"] * item, side * p["head_dim"] * item, side * p["head_dim"])


def sector_bytes(experiment: Experiment, term: Term) -> int:
    """A term's bytes if each access moves whole sectors."""
    layout = _layout(experiment, term)
    period = min(
        layout.rows, SECTOR // gcd(layout.row, SECTOR)
    )  # after so many rows a row starts in its sector as the first one does
    touched = 0
    for row in range(period):
        for start in range(row * layout.row, (row + 1) * layout.row, layout.piece):
            end = min(start + layout.piece, (row + 1) * layout.row)
            touched += -(-end // SECTOR) - start // SECTOR
    return round(term.bytes * touched * SECTOR / (period * layout.row))


# L1 to L2


def _held_by_l1(experiment: Experiment, counts: Counts, left: int) -> Iterator[Cause]:
    """What L1 served: no more than was asked of it a second time."""
    terms = [term for term in experiment.entry.formula(experiment.values).terms if not term.written]
    at_once = min(-left, sum(_at_once(experiment, term) for term in terms))
    yield Cause(
        "Asked for twice at once",
        -max(at_once, 0),
        "formula",
        "What every warp asks for, or asks for in halves, L1 fetches once.",
    )
    again = {term.buffer: sector_bytes(experiment, term) - term.once for term in terms}
    spilled = counts.spill_read_bytes or 0
    names = _names(
        (*(name for name, more in again.items() if more > 0), *(("spilled registers",) if spilled else ())),
    )
    held = min(-left - at_once, sum(again.values()) + spilled)
    if held > 0:
        yield Cause(
            "L1 still held it",
            -held,
            "hardware",
            f"Asked for again while the SM's own cache still had it: {names}. The GPU does not say how much of each.",
        )


def _at_once(experiment: Experiment, term: Term) -> int:
    """What is asked of L1 a second time in one go: by the program's other warps, or for the other half of a sector."""
    others = (_askers(experiment, term) - 1) * sector_bytes(experiment, term)
    return others + (term.bytes if _in_halves(experiment, term) else 0)


# L2 to DRAM


@dataclass(frozen=True)
class Part:
    """How much of a term DRAM should serve, and why."""

    term: Term
    bytes: int
    words: str


@dataclass(frozen=True)
class Prediction:
    """What DRAM reads should be, term by term."""

    parts: tuple[Part, ...]

    @property
    def read(self) -> int:
        return sum(part.bytes for part in self.parts)


def predicted(experiment: Experiment, gpu: Gpu) -> Prediction:
    """DRAM reads, L2 cold: every input once, and again each time, unless L2 can hold all that passes in between."""
    terms = experiment.entry.formula(experiment.values).terms
    return Prediction(tuple(_part(experiment, term, gpu) for term in terms if not term.written))


def _part(experiment: Experiment, term: Term, gpu: Gpu) -> Part:
    made_here = _made_here(experiment, term)
    once = 0 if made_here else term.once
    entry, p, programs = experiment.entry, experiment.values, gpu.sms * programs_at_most(gpu)
    between = entry.between(p, entry.formula(p), term, programs)
    if between == 0:
        why = "programs that run at the same time share it in L2" if term.times > 1 else "each element, once"
        return Part(term, once, why)
    if between <= gpu.l2_bytes:
        why = "written a moment before, and still in L2" if made_here else "the second time it is still in L2"
        return Part(term, once, f"{why}: {amount(between)} pass between, {amount(gpu.l2_bytes)} fit")
    return Part(
        term, term.bytes, f"each time: {amount(between)} pass in between, more than L2's {amount(gpu.l2_bytes)}"
    )


def _made_here(experiment: Experiment, term: Term) -> bool:
    """Whether the call itself writes the buffer, before it reads it."""
    return term.buffer not in ("x", "q", "k", "v")


def programs_at_most(gpu: Gpu) -> int:
    """How many programs an SM can hold, if registers and shared memory allow."""
    return min(gpu.programs_sm, gpu.warps_sm // WARPS)


def _held_by_l2(experiment: Experiment, counts: Counts, left: int) -> Iterator[Cause]:
    """What L2 served: no more than it was asked for a second time, or had been given by the call itself."""
    terms = [term for term in experiment.entry.formula(experiment.values).terms if not term.written]
    again = {term.buffer: term.bytes - (0 if _made_here(experiment, term) else term.once) for term in terms}
    spilled = counts.spill_read_bytes or 0
    names = _names(
        (*(name for name, more in again.items() if more > 0), *(("spilled registers",) if spilled else ())),
    )
    held = min(-left, sum(again.values()) + spilled)
    if held > 0:
        yield Cause(
            "L2 still held it",
            -held,
            "hardware",
            f"Read before, or just written, and not yet pushed out: {names}. The papers' IO model has no such cache: "
            "its HBM accesses appear between L2 and the SMs.",
        )


def _not_yet_in_dram(experiment: Experiment, counts: Counts, left: int, warm: bool) -> Iterator[Cause]:
    dirty = counts.dirty_bytes or 0
    if warm:
        yield Cause(
            "Left in L2 by the run before",
            dirty,
            "hardware",
            "Dirty lines of the run before leave during this one; taken to be as many as this one leaves, since both are the same.",
        )
    yield Cause(
        "Dirty lines left in L2",
        -dirty,
        "hardware",
        "Written to L2, and not yet to DRAM when the run ended; counted apart, by pushing them out.",
    )
    left += 0 if warm else dirty
    terms = experiment.entry.formula(experiment.values).terms
    written = [term for term in terms if term.written]
    rewritten = sum(sector_bytes(experiment, term) - term.once for term in written)  # short pieces share a sector
    rewritten += sum(term.once for term in written if term.buffer.endswith("_hbm") or term.buffer in ("m", "l"))
    spilled = counts.spill_written_bytes or 0
    again = min(-left, rewritten + spilled)
    if again > 0:
        yield Cause(
            "Written again before it left L2",
            -again,
            "hardware",
            "The same line was written once more while L2 still had it, so that DRAM saw one write of several"
            + (": spilled registers, mostly." if spilled else "."),
        )


# The prediction, held to the GPU's word


@dataclass(frozen=True)
class Check:
    """DRAM reads, predicted and measured, L2 cold. `causes` say why where it is missed by more than WITHIN."""

    prediction: Prediction
    measured: int
    causes: tuple[Cause, ...]

    @property
    def off(self) -> float:
        """Measured over predicted, less 1."""
        return self.measured / self.prediction.read - 1 if self.prediction.read else 0.0

    @property
    def met(self) -> bool:
        return abs(self.off) <= WITHIN

    @property
    def unexplained(self) -> int:
        return self.measured - self.prediction.read - sum(cause.bytes for cause in self.causes)


def check(experiment: Experiment, counts: Counts, gpu: Gpu) -> Check | None:
    """The prediction beside what was counted; None where DRAM reads were not counted."""
    if counts.dram_read_bytes is None:
        return None
    prediction = predicted(experiment, gpu)
    done = Check(prediction, counts.dram_read_bytes, ())
    return (
        done
        if done.met
        else Check(prediction, counts.dram_read_bytes, tuple(_why_missed(experiment, counts, gpu, done)))
    )


def _why_missed(experiment: Experiment, counts: Counts, gpu: Gpu, missed: Check) -> Iterator[Cause]:
    over = missed.measured - missed.prediction.read
    spilled = counts.spill_read_bytes or 0
    if over > 0 and spilled:
        yield Cause(
            SPILLED,
            min(over, spilled),
            "hardware",
            f"{amount(spilled)} of registers that did not fit were read back through the caches; what those could not hold came from DRAM.",
        )
    again = [part for part in missed.prediction.parts if part.bytes > part.term.once]
    if over < 0 and again and counts.l2_read_bytes is not None:
        asked = sum(part.term.bytes for part in missed.prediction.parts)
        beside = room(experiment, gpu) if experiment.entry.family == "softmax" else f"{amount(gpu.l2_bytes)} of L2"
        in_l1 = min(max(asked - counts.l2_read_bytes, 0), -over)
        yield Cause(
            "L1 still held it", -in_l1, "hardware", "Read again by the same program, and still in its SM's own cache."
        )
        yield Cause(
            "L2 still held it",
            over + in_l1,
            "hardware",
            f"Read again while L2 still had it: {beside}.",
        )


def room(experiment: Experiment, gpu: Gpu) -> str:
    """The rows under way and the L2 they share, in words."""
    known = programs_resident(experiment, gpu)
    p = experiment.values
    rows = rows_at_once(p, gpu.sms * (known or programs_at_most(gpu)))
    held = f"the registers allow {known} programs an SM, so " if known else "at most "
    return f"{held}{rows:,} rows are under way at once, {amount(rows * p['cols'] * ITEM_BYTES[p['dtype']])} beside {amount(gpu.l2_bytes)} of L2"


def _names(buffers: Iterator[str] | tuple[str, ...]) -> str:
    return ", ".join(dict.fromkeys(buffers))
