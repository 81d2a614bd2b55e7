"""Why the bytes of two neighbouring levels differ: each cause by name, in bytes, and the rest as "not explained".

Causes come from the formula (whole sectors, other launches of the call, register layout) or from the GPU's counters
(spilled registers, dirty lines). A cache hit is the difference of two counters, limited by the bytes that were
requested again. `predicted` gives the expected HBM reads; `check` compares them with the count. Standard library only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import gcd

from explain import data
from explain.chapters.three_numbers.levels import Levels, amount, programs_resident
from explain.counters.model import SECTOR, Counts
from explain.experiment import Experiment
from explain.gpus import Gpu
from kernels.parameters import ITEM_BYTES, next_power_of_two
from kernels.traffic import Term, Traffic, rows_at_once

WARPS, LANES = 4, 32
"""Warps per program of every kernel here, and lanes per warp."""
ALIGNED = 16
"""Triton knows of an argument whether it is a multiple of this."""
WITHIN = 0.01
"""A prediction of HBM reads is met if it is within 1%."""
CAUSES: Mapping[str, Mapping[str, str]] = data(__file__)
SPILLED = CAUSES["spilled"]["name"]
UNEXPLAINED = "Not explained"
"""Stands for a cause's name where none is known."""


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
    of: int
    """The bytes at the level above."""

    @property
    def unexplained(self) -> int:
        return self.bytes - sum(cause.bytes for cause in self.causes)

    @property
    def cancelling(self) -> tuple[Cause, ...]:
        """The causes that another cause takes back, to the byte: they contribute nothing to the difference."""
        return tuple(one for one in self.causes if any(one.bytes == -other.bytes for other in self.causes))

    @property
    def parts(self) -> Mapping[str, int]:
        """What the difference is the sum of: bytes by the name of their cause, and those that are not explained."""
        sums: Counter[str] = Counter()
        for cause in self.causes:
            if cause not in self.cancelling:
                sums[cause.name] += cause.bytes
        sums[UNEXPLAINED] += self.unexplained
        return {name: bytes for name, bytes in sums.items() if bytes}


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
            found.append(
                Gap(order[at].key, order[below].key, written, gap, tuple(c for c in causes if c.bytes), above_bytes)
            )
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
        return [] if written else [*_between_l1_and_l2(experiment, counts, left)]
    return [*_not_yet_in_dram(experiment, counts, left, warm)] if written else [*_held_by_l2(experiment, counts, left)]


# Trace to L1


def _loaded(experiment: Experiment, counts: Counts) -> Iterator[Cause]:
    terms = [term for term in experiment.traffic.terms if not term.written]
    yield _whole_sectors(experiment, terms)
    for key, more in (("warps", _by_other_warps), ("layouts", _in_another_layout), ("halves", _in_halves)):
        requested = _by_buffer((term, more(experiment, term)) for term in terms)
        yield _cause(key, sum(requested.values()), warps=WARPS, names=_names(requested))
    yield _cause("spilled", counts.spill_read_bytes or 0, way="read back")
    yield _cause("merged", _merged(experiment, counts))


def _stored(experiment: Experiment, counts: Counts) -> Iterator[Cause]:
    yield from _asked_to_store(experiment, counts)
    yield _cause("merged", -_merged(experiment, counts))


def _asked_to_store(experiment: Experiment, counts: Counts) -> Iterator[Cause]:
    terms = experiment.traffic.terms
    filled = sum(term.elements * term.item_bytes for term in terms if term.buffer.endswith("_hbm") and not term.written)
    yield _cause("launches", filled)
    yield _atomic(term for term in terms if term.written)
    yield _whole_sectors(experiment, [term for term in terms if term.written])
    yield _cause("spilled", counts.spill_written_bytes or 0, way="written")


def _merged(experiment: Experiment, counts: Counts) -> int:
    """Bytes of sectors that two stores share and that reached L2 as one: at most what whole sectors add."""
    terms = [term for term in experiment.traffic.terms if term.written]
    asked = sum(term.bytes for term in terms) + sum(cause.bytes for cause in _asked_to_store(experiment, counts))
    shared = _whole_sectors(experiment, terms).bytes
    return min(shared, max(0, asked - (counts.l2_written_bytes or asked)))


def _atomic(terms: Iterable[Term]) -> Cause:
    added = _by_buffer((term, term.bytes) for term in terms if term.atomic)
    return _cause("atomic", -sum(added.values()), names=_names(added))


def _whole_sectors(experiment: Experiment, terms: list[Term]) -> Cause:
    more = _by_buffer((term, sector_bytes(experiment, term) - term.bytes) for term in terms)
    return _cause("sectors", sum(more.values()), sector=SECTOR, names=_names(more))


def _by_buffer(found: Iterable[tuple[Term, int]]) -> Mapping[str, int]:
    """Bytes of terms, summed by buffer: several launches may read one."""
    sums: Counter[str] = Counter()
    for term, bytes in found:
        sums[term.buffer] += bytes
    return sums


def _by_other_warps(experiment: Experiment, term: Term) -> int:
    """Bytes that a program's other warps load too: of a tile with fewer elements than the program has threads.

    The tiles of a matmul and their numbers per row are spread over the warps, each element once; but not the lse of the
    parts of decoding.
    """
    if experiment.entry.family in ("attention", "loss") and term.buffer != "part_lse":
        return 0
    askers = max(1, WARPS * LANES // max(LANES, _layout(experiment, term).tile))
    return (askers - 1) * sector_bytes(experiment, term)


def _in_another_layout(experiment: Experiment, term: Term) -> int:
    """The lse of a part of decoding is loaded once more, by the threads that hold its row of O, 8 elements each."""
    if term.buffer != "part_lse":
        return 0
    p = experiment.values
    rows_per_load = LANES // min(LANES, max(1, next_power_of_two(p["head_dim"]) // 8))  # by one warp
    load = rows_per_load * term.item_bytes
    return term.bytes // load * -(-load // SECTOR) * SECTOR


def _in_halves(experiment: Experiment, term: Term) -> int:
    """A float32 buffer that is computed with, or converted to, elements of 2 bytes: it is loaded in their layout."""
    wide = term.buffer in ("o_hbm", "dq_sum", "part_o") and not term.atomic
    return term.bytes if wide and ITEM_BYTES[experiment.values["dtype"]] == 2 else 0


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
            piece = _at_once_in_a_row(p["cols"], p["block_n"]) * item
            return _Layout(p["rows"], p["cols"] * item, piece, p["block_n"] * p.get("block_m", 1))
        if term.buffer in ("y", "top", "index"):  # a short list per row
            return _Layout(p["rows"], p["k"] * item, p["k"] * item, WARPS * LANES)
        return _Layout(1, item, item, 1)  # one maximum or sum of a tile
    if experiment.entry.family == "loss":
        return _layout_of_loss(experiment, term)
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


def _layout_of_loss(experiment: Experiment, term: Term) -> _Layout:
    p, item = experiment.values, term.item_bytes
    rows, side = (p["vocab"], p["block_n"]) if term.buffer in ("w", "dw") else (p["tokens"], p["block_m"])
    if term.buffer == "x":
        piece = _at_once_in_a_row(p["vocab"], p["block_n"]) * item
        return _Layout(rows, p["vocab"] * item, piece, p["block_n"] * side)
    if term.buffer in ("h", "w", "dh", "dw"):
        return _Layout(rows, p["dim"] * item, p["block_d"] * item, p["block_d"] * side)
    return _Layout(1, rows * item, side * item, side)  # one number per token


def _at_once_in_a_row(cols: int, block: int) -> int:
    """Elements of a tile's row that a warp accesses at once: all, if every row begins at a multiple of 16 elements,
    else one per thread, since the compiler may not join what could be misaligned.
    """
    return block if cols % ALIGNED == 0 else min(block, LANES)


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


def _between_l1_and_l2(experiment: Experiment, counts: Counts, left: int) -> Iterator[Cause]:
    """Atomic additions, and bytes that L1 served: at most those that were requested a second time."""
    terms = [term for term in experiment.traffic.terms if not term.written]
    added = _atomic(terms)
    yield added
    left -= added.bytes
    at_once = min(-left, sum(_at_once(experiment, term) for term in terms))
    yield _cause("at once", -max(at_once, 0))
    again = _again(terms, lambda term: sector_bytes(experiment, term), counts, made_here=False)
    held = min(-left - at_once, sum(again.values()))
    if held > 0:
        yield _cause("hit in L1", -held, names=_names(again))


def _at_once(experiment: Experiment, term: Term) -> int:
    """Bytes requested from L1 twice at once: by the program's other warps and threads, or for a sector's other half."""
    return sum(more(experiment, term) for more in (_by_other_warps, _in_another_layout, _in_halves))


def _again(
    terms: Iterable[Term], bytes_of: Callable[[Term], int], counts: Counts, *, made_here: bool
) -> Mapping[str, int]:
    """By buffer, the bytes of its reads but the first; of all its reads, if it was `made_here`, by the call itself.
    An atomic addition's sum is read within L2. Beside the buffers, spilled registers.
    """
    terms = [term for term in terms if not term.atomic]
    written = {term.buffer for term in terms if term.written} if made_here else set()
    read = [term for term in terms if not term.written]
    sums = dict(_by_buffer((term, bytes_of(term)) for term in read))
    first = {term.buffer: 0 if term.buffer in written else term.once for term in reversed(read)}
    again = {buffer: sums[buffer] - first[buffer] for buffer in sums}
    return {**again, "spilled registers": counts.spill_read_bytes or 0}


# L2 to HBM


@dataclass(frozen=True)
class Part:
    """The bytes of a term that HBM should serve, and why."""

    term: Term
    bytes: int
    words: str


@dataclass(frozen=True)
class Prediction:
    """The predicted HBM reads, term by term."""

    parts: tuple[Part, ...]

    @property
    def read(self) -> int:
        return sum(part.bytes for part in self.parts)


def predicted(experiment: Experiment, gpu: Gpu) -> Prediction:
    """HBM reads, L2 cold: every input once, and again each time if more passes in between than L2 holds."""
    terms = experiment.traffic.terms
    return Prediction(tuple(_part(experiment, term, gpu) for term in terms if not term.written))


def _part(experiment: Experiment, term: Term, gpu: Gpu) -> Part:
    entry, p, programs = experiment.entry, experiment.values, gpu.sms * programs_at_most(gpu)
    traffic = experiment.traffic
    made_here = _made_here(traffic, term)
    once = 0 if made_here else term.once
    between = entry.between(p, traffic, term, programs)
    if between == 0:
        if _read_before(traffic, term) and (all_of_it := _footprint(traffic)) <= gpu.l2_bytes:
            return Part(term, 0, f"an earlier launch read it: all {amount(all_of_it)} of the call fit in L2")
        shared = "programs that run at the same time share it in L2" if term.times > 1 else "each element once"
        return Part(term, once, "just written, still in L2" if made_here else shared)
    if between <= gpu.l2_bytes:
        why = "just written, still in L2" if made_here else "the second time it is still in L2"
        return Part(term, once, f"{why}: {amount(between)} pass in between, {amount(gpu.l2_bytes)} fit")
    more = f"{amount(between)} pass in between, more than L2's {amount(gpu.l2_bytes)}"
    if term.atomic:
        return Part(term, term.once, f"the first addition to each sum: {more}")
    return Part(term, term.bytes, f"each time: {more}")


def _read_before(traffic: Traffic, term: Term) -> bool:
    """Whether an earlier launch, an earlier term of the formula, reads the same buffer."""
    before = traffic.terms[: traffic.terms.index(term)]
    return any(one.buffer == term.buffer and not one.written for one in before)


def _footprint(traffic: Traffic) -> int:
    """Bytes of all buffers of a call."""
    sizes: dict[str, int] = {}
    for term in traffic.terms:
        sizes[term.buffer] = max(sizes.get(term.buffer, 0), term.once)
    return sum(sizes.values())


def _made_here(traffic: Traffic, term: Term) -> bool:
    """Whether the call itself writes the buffer before it reads it."""
    return any(one.written and one.buffer == term.buffer for one in traffic.terms)


def programs_at_most(gpu: Gpu) -> int:
    """How many programs an SM can hold if registers and shared memory suffice."""
    return min(gpu.programs_sm, gpu.warps_sm // WARPS)


def _held_by_l2(experiment: Experiment, counts: Counts, left: int) -> Iterator[Cause]:
    """Bytes that L2 served: at most those requested a second time, or written by the call itself."""
    again = _again(experiment.traffic.terms, lambda term: term.bytes, counts, made_here=True)
    held = min(-left, sum(again.values()))
    if held > 0:
        yield _cause("hit in L2", -held, names=_names(again), requested=amount(experiment.traffic.read_bytes))


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
    """HBM reads, predicted and measured, L2 cold. `causes` explain a miss of more than WITHIN."""

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
    """The prediction beside the count; None if HBM reads were not counted."""
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
        yield _cause("spilled, from HBM", min(over, spilled), amount=amount(spilled))
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
    assumed = f"the model assumes {programs_at_most(gpu)} programs per SM, and the registers allow {known}: "
    held = assumed if known else "at most "
    return (
        f"{held}{rows:,} rows are in progress at once, {amount(rows * p['cols'] * ITEM_BYTES[p['dtype']])} beside "
        f"{amount(gpu.l2_bytes)} of L2"
    )


def _names(found: Mapping[str, int]) -> str:
    """The names of the buffers that have bytes."""
    return ", ".join(name for name, bytes in found.items() if bytes > 0)
