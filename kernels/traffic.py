"""The bytes each kernel must move and the FLOPs it must do, as named terms.

Every term is exact for every shape a kernel accepts: masked-off lanes move no bytes but are computed, so bytes count
elements inside the tensors and FLOPs count whole tiles. What is a FLOP: docs/trace-format.md.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kernels.parameters import ITEM_BYTES, Values, next_power_of_two


@dataclass(frozen=True)
class Term:
    """`elements` of a buffer read or written `times` over, `item_bytes` each."""

    buffer: str
    written: bool
    elements: int
    times: int
    item_bytes: int
    why: str
    atomic: bool = False  # a part of atomic additions: L2 makes them, nothing returns to the SM

    @property
    def bytes(self) -> int:
        return self.elements * self.times * self.item_bytes

    @property
    def once(self) -> int:
        """Bytes of the buffer, read or written once."""
        return min(self.elements * self.item_bytes, self.bytes)


@dataclass(frozen=True)
class Work:
    """FLOPs of one kind ("matmul", "exp" or "other") that one line of the algorithm does."""

    what: str
    kind: str
    flops: int


@dataclass(frozen=True)
class Traffic:
    """The formula of one launch sequence: bytes between HBM and the chip, and FLOPs, term by term."""

    terms: tuple[Term, ...]
    work: tuple[Work, ...]

    @property
    def read_bytes(self) -> int:
        return sum(term.bytes for term in self.terms if not term.written)

    @property
    def written_bytes(self) -> int:
        return sum(term.bytes for term in self.terms if term.written)

    @property
    def flops(self) -> int:
        return sum(work.flops for work in self.work)

    def totals(self) -> dict[str, int]:
        """The three sums by name, as the trace and the command line have them."""
        return {"read_bytes": self.read_bytes, "written_bytes": self.written_bytes, "flops": self.flops}

    def with_work(self, more: Work) -> Traffic:
        """The same bytes, and this work too."""
        return Traffic(self.terms, (*self.work, more))

    def flops_of(self, kind: str) -> int:
        """FLOPs of one kind."""
        return sum(work.flops for work in self.work if work.kind == kind)


def tiles(length: int, block: int) -> int:
    """How many tiles of `block` cover `length`: ⌈length / block⌉."""
    return -(-length // block)


def vector_add(p: Values) -> Traffic:
    item, n = ITEM_BYTES[p["dtype"]], p["n"]
    terms = (
        Term("a", False, n, 1, item, "each element, once"),
        Term("b", False, n, 1, item, "each element, once"),
        Term("c", True, n, 1, item, "each sum, once"),
    )
    return Traffic(terms, (Work("a + b", "other", tiles(n, p["block_n"]) * p["block_n"]),))


def passes(
    rows: int, cols: int, item: int, *, loads: int, flops_a_row: Iterable[Work], x: str = "x", y: str = "y"
) -> Traffic:
    """A row-wise kernel that loads each element of x `loads` times and stores each of y once."""
    terms = (
        Term(x, False, rows * cols, loads, item, f"each element, {loads} times" if loads > 1 else "each element, once"),
        Term(y, True, rows * cols, 1, item, "each result, once"),
    )
    return Traffic(terms, tuple(Work(work.what, work.kind, rows * work.flops) for work in flops_a_row))


def softmax_naive(p: Values) -> Traffic:
    lanes = tiles(p["cols"], p["block_n"]) * p["block_n"]
    work = (
        Work("exp(x), in both passes", "exp", 2 * lanes),
        Work("l + Σ p", "other", lanes),
        Work("exp(x) / l", "other", lanes),
    )
    return passes(p["rows"], p["cols"], ITEM_BYTES[p["dtype"]], loads=2, flops_a_row=work)


def softmax_safe(p: Values) -> Traffic:
    lanes = tiles(p["cols"], p["block_n"]) * p["block_n"]
    work = (
        Work("max(m, max x)", "other", lanes),
        Work("x − m, in two passes", "other", 2 * lanes),
        Work("exp(x − m), in two passes", "exp", 2 * lanes),
        Work("l + Σ p", "other", lanes),
        Work("exp(x − m) / l", "other", lanes),
    )
    return passes(p["rows"], p["cols"], ITEM_BYTES[p["dtype"]], loads=3, flops_a_row=work)


def one_tile(lanes: int) -> tuple[Work, ...]:
    """FLOPs of a softmax over a single tile."""
    return (
        Work("max x", "other", lanes - 1),
        Work("x − m", "other", lanes),
        Work("exp(x − m)", "exp", lanes),
        Work("Σ p", "other", lanes - 1),
        Work("p / l", "other", lanes),
    )


def softmax_row(p: Values) -> Traffic:
    return passes(p["rows"], p["cols"], ITEM_BYTES[p["dtype"]], loads=1, flops_a_row=one_tile(p["block_n"]))


def softmax_blocked_wrong(p: Values) -> Traffic:
    n = tiles(p["cols"], p["block_n"])
    work = tuple(Work(work.what, work.kind, n * work.flops) for work in one_tile(p["block_n"]))
    return passes(p["rows"], p["cols"], ITEM_BYTES[p["dtype"]], loads=1, flops_a_row=work)


def one_pass(lanes: int, n: int) -> tuple[Work, ...]:
    """FLOPs per row of the pass that finds m and l online, over n tiles with `lanes` lanes in total."""
    return (
        Work("max(m, max x)", "other", lanes),
        Work("m − m_new", "other", n),
        Work("α = exp(m − m_new)", "exp", n),
        Work("x − m_new", "other", lanes),
        Work("p = exp(x − m_new)", "exp", lanes),
        Work("α l + Σ p", "other", lanes + n),
    )


def online(lanes: int, n: int) -> tuple[Work, ...]:
    """FLOPs per row of the two-pass online softmax over n tiles with `lanes` lanes in total."""
    return (
        *one_pass(lanes, n),
        Work("x − m", "other", lanes),
        Work("exp(x − m)", "exp", lanes),
        Work("exp(x − m) / l", "other", lanes),
    )


def softmax_online(p: Values) -> Traffic:
    n = tiles(p["cols"], p["block_n"])
    return passes(p["rows"], p["cols"], ITEM_BYTES[p["dtype"]], loads=2, flops_a_row=online(n * p["block_n"], n))


def softmax_tiled(p: Values) -> Traffic:
    n = tiles(p["cols"], p["block_n"])
    whole = passes(p["rows"], p["cols"], ITEM_BYTES[p["dtype"]], loads=2, flops_a_row=online(n * p["block_n"], n))
    lanes = tiles(p["rows"], p["block_m"]) * p["block_m"]  # rows past the end are computed too
    return Traffic(whole.terms, tuple(Work(w.what, w.kind, w.flops // p["rows"] * lanes) for w in whole.work))


def softmax_topk(p: Values) -> Traffic:
    n = tiles(p["cols"], p["block_n"])
    return _fused_topk(p, 1, one_pass(n * p["block_n"], n))


def softmax_safe_topk(p: Values) -> Traffic:
    lanes = tiles(p["cols"], p["block_n"]) * p["block_n"]
    work = (
        Work("max(m, max x)", "other", lanes),
        Work("x − m", "other", lanes),
        Work("exp(x − m)", "exp", lanes),
        Work("l + Σ p", "other", lanes),
    )
    return _fused_topk(p, 2, work)


def softmax_safe_then_topk(p: Values) -> Traffic:
    return _then_topk(p, softmax_safe(p))


def softmax_online_then_topk(p: Values) -> Traffic:
    return _then_topk(p, softmax_online(p))


def _fused_topk(p: Values, loads: int, flops_a_row: tuple[Work, ...]) -> Traffic:
    """A softmax that loads x `loads` times and stores only the K largest weights."""
    rows, kept = p["rows"], next_power_of_two(p["k"])
    x = passes(rows, p["cols"], ITEM_BYTES[p["dtype"]], loads=loads, flops_a_row=()).terms[0]
    work = (
        *flops_a_row,
        _largest_of_tiles(p),
        Work("x − m, of those kept", "other", kept),
        Work("exp(x − m), of those kept", "exp", kept),
        Work("exp(x − m) / l", "other", kept),
    )
    return Traffic((x, *kept_terms(p, "y")), tuple(Work(w.what, w.kind, rows * w.flops) for w in work))


def _then_topk(p: Values, softmax: Traffic) -> Traffic:
    """A softmax, then a launch that loads its weights again to find the K largest."""
    again = Term("y", False, p["rows"] * p["cols"], 1, ITEM_BYTES[p["dtype"]], "launch 2: each weight again")
    largest = _largest_of_tiles(p)
    work = Work(largest.what, largest.kind, p["rows"] * largest.flops)
    return Traffic((*softmax.terms, again, *kept_terms(p, "top")), (*softmax.work, work))


def kept_terms(p: Values, weights: str) -> tuple[Term, Term]:
    return (
        Term(weights, True, p["rows"] * p["k"], 1, ITEM_BYTES[p["dtype"]], "K weights per row"),
        Term("index", True, p["rows"] * p["k"], 1, 8, "their columns, int64"),
    )


def _largest_of_tiles(p: Values) -> Work:
    n = tiles(p["cols"], p["block_n"])
    return Work("the largest left in a tile, K times", "other", p["k"] * n * (p["block_n"] - 1))


def softmax_split(p: Values) -> Traffic:
    item, rows, n = ITEM_BYTES[p["dtype"]], p["rows"], tiles(p["cols"], p["block_n"])
    lanes, elements, pairs, joins = n * p["block_n"], rows * p["cols"], rows * n, rows * (n - 1)
    tree = p["order"] == "tree"  # a tree reads two pairs per merge; in a line the program keeps its own pair
    read, written = (2 * joins, joins) if tree else (pairs if n > 1 else 0, rows if n > 1 else 0)
    terms = (
        Term("x", False, elements, 2, item, "each element twice: for its tile's pair and for y"),
        Term("m_tile", True, pairs, 1, 4, "each tile's maximum, float32"),
        Term("l_tile", True, pairs, 1, 4, "each tile's sum, float32"),
        Term("m", False, read, 1, 4, "two per merge" if tree else "each tile's, to be merged"),
        Term("l", False, read, 1, 4, "as m"),
        Term("m", True, written, 1, 4, "one per merge" if tree else "the row's"),
        Term("l", True, written, 1, 4, "as m"),
        Term("m_row", False, rows, n, 4, "the row's, once per tile"),
        Term("l_row", False, rows, n, 4, "as m"),
        Term("y", True, elements, 1, item, "each result, once"),
    )
    work = (
        Work("max x of a tile", "other", rows * (lanes - n)),
        Work("x − m, in both passes", "other", rows * 2 * lanes),
        Work("exp(x − m), in both passes", "exp", rows * 2 * lanes),
        Work("Σ p of a tile", "other", rows * (lanes - n)),
        *_joins(joins),
        Work("exp(x − m) / l", "other", rows * lanes),
    )
    return Traffic(terms, work)


def softmax_split_wrong(p: Values) -> Traffic:
    right = softmax_split(p)
    joins = p["rows"] * (tiles(p["cols"], p["block_n"]) - 1)
    other = tuple(work for work in right.work if work not in _joins(joins))
    return Traffic(right.terms, (*other, Work("max(m_i, m_j)", "other", joins), Work("l_i + l_j", "other", joins)))


def _joins(joins: int) -> tuple[Work, ...]:
    """FLOPs of `joins` merges (m_i, l_i) ⊕ (m_j, l_j)."""
    return (
        Work("max(m_i, m_j)", "other", joins),
        Work("m_i − m_new, m_j − m_new", "other", 2 * joins),
        Work("α = exp(m_i − m_new), β = exp(m_j − m_new)", "exp", 2 * joins),
        Work("α l_i + β l_j", "other", 3 * joins),
    )


@dataclass(frozen=True)
class _Attention:
    """An attention call's sizes in elements."""

    programs: int  # batch × heads
    q: int  # elements of Q, and of O
    lanes_m: int  # rows of whole query tiles, over all heads
    width: int  # head_dim as the tile holds it, a power of two
    item: int
    tiles_m: int
    tiles_n: int
    seq_len: int
    kv_len: int
    head_dim: int
    block_m: int
    block_n: int

    @classmethod
    def of(cls, p: Values) -> _Attention:
        programs = p["batch"] * p["heads"]
        tiles_m = tiles(p["seq_len"], p["block_m"])
        return cls(
            programs=programs,
            q=programs * p["seq_len"] * p["head_dim"],
            lanes_m=programs * tiles_m * p["block_m"],
            width=max(16, next_power_of_two(p["head_dim"])),
            item=ITEM_BYTES[p["dtype"]],
            tiles_m=tiles_m,
            tiles_n=tiles(p["kv_len"], p["block_n"]),
            seq_len=p["seq_len"],
            kv_len=p["kv_len"],
            head_dim=p["head_dim"],
            block_m=p["block_m"],
            block_n=p["block_n"],
        )


def visits_per_query_tile(p: Values) -> list[int]:
    """flash_attention: how many key tiles each query tile visits; under a causal mask hidden tiles are skipped."""
    counts = []
    for i in range(tiles(p["seq_len"], p["block_m"])):
        end = p["kv_len"]
        if p["causal"]:
            end = min(end, min((i + 1) * p["block_m"], p["seq_len"]) + p["kv_len"] - p["seq_len"])
        counts.append(tiles(max(end, 0), p["block_n"]))
    return counts


def flash_attention(p: Values) -> Traffic:
    a = _Attention.of(p)
    visits = visits_per_query_tile(p)
    if p["causal"]:  # each query tile loads its own number of keys
        kv = (a.programs * sum(min(n * a.block_n, a.kv_len) for n in visits) * a.head_dim, 1)
    else:
        kv = (a.programs * a.kv_len * a.head_dim, a.tiles_m)
    visited = a.programs * sum(visits)
    tile, rows = visited * a.block_m * a.block_n, visited * a.block_m
    terms = (
        Term("q", False, a.q, 1, a.item, "each query tile, once"),
        Term("k", False, *kv, a.item, "each key tile, once per query tile that sees it"),
        Term("v", False, *kv, a.item, "as K"),
        Term("o", True, a.q, 1, a.item, "once, by the program that owns it"),
        Term("lse", True, a.programs * a.seq_len, 1, 4, "one float32 per row"),
    )
    work = (
        *_scores(tile, a.width),
        Work("max(m, rowmax S)", "other", tile),
        Work("m − m_new", "other", rows),
        Work("α = exp(m − m_new)", "exp", rows),
        Work("S − m_new", "other", tile),
        Work("P̃ = exp(S − m_new)", "exp", tile),
        Work("α l + rowsum P̃", "other", tile + rows),
        Work("α Õ", "other", rows * a.width),
        Work("P̃ V", "matmul", 2 * tile * a.width),
        Work("Õ + P̃ V", "other", rows * a.width),
        Work("Õ / l", "other", a.lanes_m * a.width),
        Work("m + ln l", "other", 2 * a.lanes_m),
    )
    return Traffic(terms, work)


def flash_attention_exp2(p: Values) -> Traffic:
    """flash_attention in base 2: the same bytes, and one more multiplication per row, which turns lse to base e."""
    natural = flash_attention(p)
    a = _Attention.of(p)
    return Traffic(natural.terms, (*natural.work, Work("(m + log2 l) ln 2", "other", a.lanes_m)))


def flash_attention_v1(p: Values) -> Traffic:
    a = _Attention.of(p)
    visited = a.programs * a.tiles_m * a.tiles_n
    tile, rows = visited * a.block_m * a.block_n, visited * a.block_m
    kv = a.programs * a.kv_len * a.head_dim
    state = a.programs * a.seq_len
    terms = (
        Term("k", False, kv, 1, a.item, "each key tile, once per head"),
        Term("v", False, kv, 1, a.item, "as K"),
        Term("q", False, a.q, a.tiles_n, a.item, "all of Q, once per key tile"),
        Term("o_hbm", False, a.q, a.tiles_n, 4, "the unfinished O, read at every visit"),
        Term("m_hbm", False, state, a.tiles_n, 4, "the running max, as O"),
        Term("l_hbm", False, state, a.tiles_n, 4, "the running sum, as O"),
        Term("o_hbm", True, a.q, a.tiles_n - 1, 4, "the unfinished O, written at every visit but the last"),
        Term("m_hbm", True, state, a.tiles_n - 1, 4, "as O"),
        Term("l_hbm", True, state, a.tiles_n - 1, 4, "as O"),
        Term("o", True, a.q, 1, a.item, "the finished O"),
        Term("lse", True, state, 1, 4, "one float32 per row"),
    )
    last = a.programs * a.tiles_m * a.block_m  # rows of the visits that finish
    work = (
        *_scores(tile, a.width),
        Work("max(m, rowmax S)", "other", tile),
        Work("m − m_new", "other", rows),
        Work("α = exp(m − m_new)", "exp", rows),
        Work("S − m_new", "other", tile),
        Work("P̃ = exp(S − m_new)", "exp", tile),
        Work("α l + rowsum P̃", "other", tile + rows),
        Work("l α", "other", rows),
        Work("l α O", "other", rows * a.width),
        Work("P̃ V", "matmul", 2 * tile * a.width),
        Work("l α O + P̃ V", "other", rows * a.width),
        Work("… / l_new", "other", rows * a.width),
        Work("m + ln l", "other", 2 * last),
    )
    return Traffic(terms, work)


def attention_standard(p: Values) -> Traffic:
    a = _Attention.of(p)
    scores = a.programs * a.seq_len * a.kv_len
    kv = a.programs * a.kv_len * a.head_dim
    tile = a.lanes_m * a.tiles_n * a.block_n
    softmax = passes(
        a.programs * a.seq_len,
        a.kv_len,
        a.item,
        loads=1,
        flops_a_row=one_tile(next_power_of_two(a.kv_len)),
        x="s",
        y="p",
    )
    terms = (
        Term("q", False, a.q, a.tiles_n, a.item, "launch 1: all of Q, once per key tile"),
        Term("k", False, kv, a.tiles_m, a.item, "launch 1: all of K, once per query tile"),
        Term("s", True, scores, 1, a.item, "launch 1: S, N² elements"),
        Term("s", False, scores, 1, a.item, "launch 2: S again"),
        Term("p", True, scores, 1, a.item, "launch 2: P, N² elements"),
        Term("p", False, scores, 1, a.item, "launch 3: P again"),
        Term("v", False, kv, a.tiles_m, a.item, "launch 3: all of V, once per query tile"),
        Term("o", True, a.q, 1, a.item, "launch 3: O"),
    )
    work = (
        *_scores(tile, a.width),
        *softmax.work,
        Work("P V", "matmul", 2 * tile * a.width),
        Work("O + P V", "other", a.lanes_m * a.tiles_n * a.width),
    )
    return Traffic(terms, work)


def _scores(tile: int, width: int) -> tuple[Work, ...]:
    return (Work("Q Kᵀ", "matmul", 2 * tile * width), Work("· sm_scale", "other", tile))


# How far apart two reads are: bytes that pass through L2 before an element of a term is read again, or read for the
# first time since it was written; 0 if that never happens. `programs` is how many run at once on the GPU.


def nothing_between(p: Values, traffic: Traffic, term: Term, programs: int) -> int:
    """Programs that run at the same time read the same elements."""
    return 0


def rows_at_once(p: Values, programs: int) -> int:
    """Rows that this many programs work on."""
    return min(p["rows"], programs * p.get("block_m", 1))


def between_rows(p: Values, traffic: Traffic, term: Term, programs: int) -> int:
    """A program reads its row again after the other rows in progress; weights go to the next launch whole."""
    if term.buffer == "y":
        return term.once
    return rows_at_once(p, programs) * p["cols"] * term.item_bytes if term.times > 1 else 0


def between_tiles(p: Values, traffic: Traffic, term: Term, programs: int) -> int:
    """One launch reads all of x, later ones read the pairs (m, l) of its tiles, the last reads x again."""
    if term.buffer == "x":
        return term.once
    return sum(one.once for one in traffic.terms if one.written and one.buffer in ("m_tile", "l_tile"))


def between_launches(p: Values, traffic: Traffic, term: Term, programs: int) -> int:
    """S and P go from one launch to the next whole."""
    return term.once if term.buffer in ("s", "p") else 0


def between_visits(p: Values, traffic: Traffic, term: Term, programs: int) -> int:
    """Each tile of keys takes a pass over Q and the whole running state of every head in progress."""
    if term.buffer in ("k", "v"):
        return 0
    heads = p["batch"] * p["heads"]
    state = sum(one.once for one in traffic.terms if not one.written and one.buffer not in ("k", "v"))
    return int(state * min(heads, programs) // heads)
