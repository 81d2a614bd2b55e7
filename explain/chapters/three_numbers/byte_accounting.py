"""Why the bytes of two neighbouring levels differ: each cause by name, in bytes, and the rest as "not explained".

Causes come from the formula (whole sectors, other launches of the call, register layout) or from the GPU's counters
(spilled registers, dirty lines). A cache hit is the difference of two counters, limited by the bytes that were
requested again. `predicted` gives the expected DRAM reads; `check` compares them with the count. Standard library only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import gcd

from explain import data
from explain.chapters.three_numbers.levels import Levels, amount, programs_resident
from explain.counters.model import SECTOR, Counts
from explain.experiment import Experiment
from explain.gpus import Gpu
from kernels.parameters import ITEM_BYTES
from kernels.traffic import Term, rows_at_once

WARPS, LANES = 4, 32
"""Warps per program of every kernel here, and lanes per warp."""
WITHIN = 0.01
"""A prediction of DRAM reads is met if it is within 1%."""
CAUSES: Mapping[str, Mapping[str, str]] = data(__file__)
SPILLED = CAUSES["spilled"]["name"]


@dataclass(frozen=True)
class Cause:
    """Why a level has more bytes (or fewer, if negative) than the level above; from the "formula" or "hardware"."""

    name: str
    bytes: int
    source: str
    words: str


@dataclass(frozen=True)
class Gap:
    """The difference between one level and the next known one, of bytes read or of bytes written."""

    above: str
    below: str
    written: bool
    bytes: int
    causes: tuple[Cause, ...]

    @property
    def unexplained(self) -> int:
        return self.bytes - sum(cause.bytes for cause in self.causes)


def _cause(key: str, bytes: int, **places: object) -> Cause:
    """A cause of `byte_accounting.toml`, with what its words name."""
    one = CAUSES[key]
    return Cause(one["name"], bytes, one["source"], one["words"].format(**places))


def gaps(experiment: Experiment, levels: Levels, counts: Counts | None, *, warm: bool) -> list[Gap]:
    """Every gap between neighbouring known levels, from the formula down."""
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
    """The causes that lead down to a level. `left` is the part of the gap without a cause so far."""
    if counts is None or below in ("formula", "traced"):
        return []
    if below == "l1":
        return [*_stored(experiment, counts)] if written else [*_loaded(experiment, counts)]
    if below == "l2":
        return [] if written else [*_held_by_l1(experiment, counts, left)]
    return [*_not_yet_in_dram(experiment, counts, left, warm)] if written else [*_held_by_l2(experiment, counts, left)]


# Trace to L1


def _loaded(experiment: Experiment, counts: Counts) -> Iterator[Cause]:
    terms = [term for term in experiment.traffic.terms if not term.written]
    yield _whole_sectors(experiment, terms)
    asked_again = {term.buffer: (_askers(experiment, term) - 1) * sector_bytes(experiment, term) for term in terms}
    yield _cause("warps", sum(asked_again.values()), warps=WARPS, names=_names(asked_again))
    yield _cause("halves", sum(term.bytes for term in terms if _in_halves(experiment, term)))
    yield _cause("spilled", counts.spill_read_bytes or 0, way="read back")


def _stored(experiment: Experiment, counts: Counts) -> Iterator[Cause]:
    terms = experiment.traffic.terms
    filled = sum(term.elements * term.item_bytes for term in terms if term.buffer.endswith("_hbm") and not term.written)
    yield _cause("launches", filled)
    yield _whole_sectors(experiment, [term for term in terms if term.written])
    yield _cause("spilled", counts.spill_written_bytes or 0, way="written")


def _whole_sectors(experiment: Experiment, terms: list[Term]) -> Cause:
    more = {term.buffer: sector_bytes(experiment, term) - term.bytes for term in terms}
    return _cause("sectors", sum(more.values()), sector=SECTOR, names=_names(more))


def _askers(experiment: Experiment, term: Term) -> int:
    """How many warps load the same elements of a term: one, unless its tile has fewer elements than the program has
    threads.

    Attention's tiles are spread over the warps for the matmuls, each element once; the lse of its parts is a number per
    row.
    """
    if experiment.entry.family == "attention" and term.buffer != "part_lse":
        return 1
    return max(1, WARPS * LANES // max(LANES, _layout(experiment, term).tile))


def _in_halves(experiment: Experiment, term: Term) -> bool:
    """Whether this is FlashAttention-1's O: 4 bytes per element, in a layout for 2-byte inputs."""
    return term.buffer == "o_hbm" and not term.written and ITEM_BYTES[experiment.values["dtype"]] == 2


@dataclass(frozen=True)
class _Layout:
    """A buffer in memory: `rows` of `row` bytes, accessed in pieces of `piece` bytes; `tile` elements per access."""

    rows: int
    row: int
    piece: int
    tile: int


def _layout(experiment: Experiment, term: Term) -> _Layout:
    p, item = experiment.values, term.item_bytes
    if experiment.entry.family == "softmax":
        if term.elements == p["rows"] * p["cols"]:
            return _Layout(p["rows"], p["cols"] * item, p["block_n"] * item, p["block_n"] * p.get("block_m", 1))
        if term.buffer in ("y", "top", "index"):  # a short list per row
            return _Layout(p["rows"], p["k"] * item, p["k"] * item, WARPS * LANES)
        return _Layout(1, item, item, 1)  # one maximum or sum of a tile
    queries, keys = experiment.entry.score_shape(p)  # of all heads that share keys, where they stand in one tile
    heads = p["batch"] * p["heads"] * p["seq_len"] // queries
    if term.buffer in ("s", "p"):
        tiled = (term.buffer == "s") == term.written  # launches 1 and 3 take tiles, launch 2 whole rows
        width = p["block_n"] if tiled else keys
        return _Layout(heads * queries, keys * item, width * item, width * (p["block_m"] if tiled else 1))
    if term.buffer in ("lse", "m_hbm", "l_hbm", "part_lse"):
        return _Layout(heads, queries * item, p["block_m"] * item, p["block_m"])
    rows, side = (keys, p["block_n"]) if term.buffer in ("k", "v") else (queries, p["block_m"])
    return _Layout(heads, rows * p["head_dim"] * item, side * p["head_dim"] * item, side * p["head_dim"])


def sector_bytes(experiment: Experiment, term: Term) -> int:
    """A term's bytes if each access moves whole sectors."""
    layout = _layout(experiment, term)
    # After this many rows, a row starts at the same place in its sector as the first.
    period = min(layout.rows, SECTOR // gcd(layout.row, SECTOR))
    touched = 0
    for row in range(period):
        for start in range(row * layout.row, (row + 1) * layout.row, layout.piece):
            end = min(start + layout.piece, (row + 1) * layout.row)
            touched += -(-end // SECTOR) - start // SECTOR
    return round(term.bytes * touched * SECTOR / (period * layout.row))


# L1 to L2


def _held_by_l1(experiment: Experiment, counts: Counts, left: int) -> Iterator[Cause]:
    """Bytes that L1 served: at most those that were requested a second time."""
    terms = [term for term in experiment.traffic.terms if not term.written]
    at_once = min(-left, sum(_at_once(experiment, term) for term in terms))
    yield _cause("at once", -max(at_once, 0))
    again = {term.buffer: sector_bytes(experiment, term) - term.once for term in terms}
    again["spilled registers"] = counts.spill_read_bytes or 0
    held = min(-left - at_once, sum(again.values()))
    if held > 0:
        yield _cause("hit in L1", -held, names=_names(again))


def _at_once(experiment: Experiment, term: Term) -> int:
    """Bytes requested from L1 twice at once: by the program's other warps, or for the other half of a sector."""
    others = (_askers(experiment, term) - 1) * sector_bytes(experiment, term)
    return others + (term.bytes if _in_halves(experiment, term) else 0)


# L2 to DRAM


@dataclass(frozen=True)
class Part:
    """The bytes of a term that DRAM should serve, and why."""

    term: Term
    bytes: int
    words: str


@dataclass(frozen=True)
class Prediction:
    """The predicted DRAM reads, term by term."""

    parts: tuple[Part, ...]

    @property
    def read(self) -> int:
        return sum(part.bytes for part in self.parts)


def predicted(experiment: Experiment, gpu: Gpu) -> Prediction:
    """DRAM reads, L2 cold: every input once, and again each time if more passes in between than L2 holds."""
    terms = experiment.traffic.terms
    return Prediction(tuple(_part(experiment, term, gpu) for term in terms if not term.written))


def _part(experiment: Experiment, term: Term, gpu: Gpu) -> Part:
    made_here = _made_here(experiment, term)
    once = 0 if made_here else term.once
    entry, p, programs = experiment.entry, experiment.values, gpu.sms * programs_at_most(gpu)
    between = entry.between(p, entry.formula(p), term, programs)
    if between == 0:
        why = "programs that run at the same time share it in L2" if term.times > 1 else "each element once"
        return Part(term, once, why)
    if between <= gpu.l2_bytes:
        why = "just written, still in L2" if made_here else "the second time it is still in L2"
        return Part(term, once, f"{why}: {amount(between)} pass in between, {amount(gpu.l2_bytes)} fit")
    more = f"{amount(between)} pass in between, more than L2's {amount(gpu.l2_bytes)}"
    return Part(term, term.bytes, f"each time: {more}")


def _made_here(experiment: Experiment, term: Term) -> bool:
    """Whether the call itself writes the buffer before it reads it."""
    given = ("x", "q", "k", "v", *(("do", "o", "lse", "p") if experiment.entry.gradient else ()))
    return term.buffer not in given


def programs_at_most(gpu: Gpu) -> int:
    """How many programs an SM can hold if registers and shared memory suffice."""
    return min(gpu.programs_sm, gpu.warps_sm // WARPS)


def _held_by_l2(experiment: Experiment, counts: Counts, left: int) -> Iterator[Cause]:
    """Bytes that L2 served: at most those requested a second time, or written by the call itself."""
    terms = [term for term in experiment.traffic.terms if not term.written]
    again = {term.buffer: term.bytes - (0 if _made_here(experiment, term) else term.once) for term in terms}
    again["spilled registers"] = counts.spill_read_bytes or 0
    held = min(-left, sum(again.values()))
    if held > 0:
        yield _cause("hit in L2", -held, names=_names(again))


def _not_yet_in_dram(experiment: Experiment, counts: Counts, left: int, warm: bool) -> Iterator[Cause]:
    dirty = counts.dirty_bytes or 0
    if warm:
        yield _cause("run before", dirty)
    yield _cause("dirty lines", -dirty)
    left += 0 if warm else dirty
    terms = experiment.traffic.terms
    written = [term for term in terms if term.written]
    rewritten = sum(sector_bytes(experiment, term) - term.once for term in written)  # short pieces share a sector
    rewritten += sum(term.once for term in written if term.buffer.endswith("_hbm") or term.buffer in ("m", "l"))
    spilled = counts.spill_written_bytes or 0
    again = min(-left, rewritten + spilled)
    if again > 0:
        yield _cause("written again", -again, what=": spilled registers, mostly" if spilled else "")


# The prediction against the count


@dataclass(frozen=True)
class Check:
    """DRAM reads, predicted and measured, L2 cold. `causes` explain a miss of more than WITHIN."""

    prediction: Prediction
    measured: int
    causes: tuple[Cause, ...]

    @property
    def off(self) -> float:
        """Measured ÷ predicted − 1."""
        return self.measured / self.prediction.read - 1 if self.prediction.read else 0.0

    @property
    def met(self) -> bool:
        return abs(self.off) <= WITHIN

    @property
    def unexplained(self) -> int:
        return self.measured - self.prediction.read - sum(cause.bytes for cause in self.causes)


def check(experiment: Experiment, counts: Counts, gpu: Gpu) -> Check | None:
    """The prediction beside the count; None if DRAM reads were not counted."""
    if counts.dram_read_bytes is None:
        return None
    prediction = predicted(experiment, gpu)
    done = Check(prediction, counts.dram_read_bytes, ())
    causes = () if done.met else tuple(_why_missed(experiment, counts, gpu, done))
    return Check(prediction, counts.dram_read_bytes, causes)


def _why_missed(experiment: Experiment, counts: Counts, gpu: Gpu, missed: Check) -> Iterator[Cause]:
    over = missed.measured - missed.prediction.read
    spilled = counts.spill_read_bytes or 0
    if over > 0 and spilled:
        yield _cause("spilled, from DRAM", min(over, spilled), amount=amount(spilled))
    again = [part for part in missed.prediction.parts if part.bytes > part.term.once]
    if over < 0 and again and counts.l2_read_bytes is not None:
        asked = sum(part.term.bytes for part in missed.prediction.parts)
        beside = room(experiment, gpu) if experiment.entry.family == "softmax" else f"{amount(gpu.l2_bytes)} of L2"
        in_l1 = min(max(asked - counts.l2_read_bytes, 0), -over)
        yield _cause("again in L1", -in_l1)
        yield _cause("again in L2", over + in_l1, beside=beside)


def room(experiment: Experiment, gpu: Gpu) -> str:
    """The rows in progress and the L2 they share, in words."""
    known = programs_resident(experiment, gpu)
    p = experiment.values
    rows = rows_at_once(p, gpu.sms * (known or programs_at_most(gpu)))
    held = f"the registers allow {known} programs per SM, so " if known else "at most "
    return (
        f"{held}{rows:,} rows are in progress at once, {amount(rows * p['cols'] * ITEM_BYTES[p['dtype']])} beside "
        f"{amount(gpu.l2_bytes)} of L2"
    )


def _names(found: Mapping[str, int]) -> str:
    """The names of the buffers that have bytes."""
    return ", ".join(name for name, bytes in found.items() if bytes > 0)
