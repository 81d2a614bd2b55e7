"""The bytes and FLOPs of attention's backward passes, as named terms. `traffic.py` says what is exact, what a FLOP."""

from __future__ import annotations

from dataclasses import dataclass

from kernels.parameters import ITEM_BYTES, Values, next_power_of_two
from kernels.traffic import Term, Traffic, Work, tiles, visits_per_query_tile


@dataclass(frozen=True)
class _Backward:
    """A call's sizes in elements."""

    heads: int  # batch × query heads
    kv_heads: int  # batch × key heads
    rows: int  # queries of all heads
    q: int  # elements of Q, dO, O and dQ
    kv: int  # elements of K, V, dK and dV
    scores: int  # elements of P
    item: int
    width: int  # head_dim as the tile holds it, a power of two
    tiles_m: int
    tiles_n: int
    block_m: int
    block_n: int
    head_dim: int

    @classmethod
    def of(cls, p: Values) -> _Backward:
        heads, kv_heads = p["batch"] * p["heads"], p["batch"] * p["kv_heads"]
        return cls(
            heads=heads,
            kv_heads=kv_heads,
            rows=heads * p["seq_len"],
            q=heads * p["seq_len"] * p["head_dim"],
            kv=kv_heads * p["kv_len"] * p["head_dim"],
            scores=heads * p["seq_len"] * p["kv_len"],
            item=ITEM_BYTES[p["dtype"]],
            width=max(16, next_power_of_two(p["head_dim"])),
            tiles_m=tiles(p["seq_len"], p["block_m"]),
            tiles_n=tiles(p["kv_len"], p["block_n"]),
            block_m=p["block_m"],
            block_n=p["block_n"],
            head_dim=p["head_dim"],
        )

    @property
    def lanes_m(self) -> int:
        """Rows of whole query tiles, over all heads."""
        return self.heads * self.tiles_m * self.block_m

    @property
    def lanes_n(self) -> int:
        """Rows of whole key tiles, over all key heads."""
        return self.kv_heads * self.tiles_n * self.block_n


def first_query_per_key_tile(p: Values) -> list[int]:
    """The query that each key tile's loop begins with; under a causal mask earlier query tiles are skipped."""
    if not p["causal"]:
        return [0] * tiles(p["kv_len"], p["block_n"])
    diagonal, block = p["kv_len"] - p["seq_len"], p["block_m"]
    return [max(0, first - diagonal) // block * block for first in range(0, p["kv_len"], p["block_n"])]


def flash_attention_backward(p: Values) -> Traffic:
    a = _Backward.of(p)
    visits = visits_per_query_tile(p)
    if p["causal"]:  # each query tile loads its own number of keys
        kv = (a.heads * sum(min(n * a.block_n, p["kv_len"]) for n in visits) * a.head_dim, 1)
    else:
        kv = (a.heads * p["kv_len"] * a.head_dim, a.tiles_m)
    terms = (
        *_delta_terms(a),
        *_keys_terms(p, a, "launch 2"),
        Term("q", False, a.q, 1, a.item, "launch 3: each query tile, once"),
        Term("do", False, a.q, 1, a.item, "launch 3: as Q"),
        Term("lse", False, a.rows, 1, 4, "launch 3: one float32 per query"),
        Term("delta", False, a.rows, 1, 4, "launch 3: as lse"),
        Term("k", False, *kv, a.item, "launch 3: once per query tile that sees it"),
        Term("v", False, *kv, a.item, "launch 3: as K"),
        Term("dq", True, a.q, 1, a.item, "launch 3: once, by the program that owns it"),
    )
    pairs = a.heads * sum(visits)
    work = (
        *_delta_work(a),
        *_keys_work(p, a, "launch 2"),
        *_scores_again(pairs * a.block_m * a.block_n, a.width, "launch 3"),
        Work("launch 3: dS K", "matmul", 2 * pairs * a.block_m * a.block_n * a.width),
        Work("launch 3: dQ + dS K", "other", pairs * a.block_m * a.width),
        Work("launch 3: dQ · sm_scale", "other", a.lanes_m * a.width),
    )
    return Traffic(terms, work)


def flash_attention_backward_atomic(p: Values) -> Traffic:
    a = _Backward.of(p)
    rows, times = _passing(p, a)
    pairs, block = _key_pairs(p, a), a.block_m * a.width
    added = rows * a.head_dim
    terms = (
        *_delta_terms(a),
        Term("dq_sum", True, a.q, 1, 4, "launch 2: zeros, where dQ will be summed in float32"),
        *_keys_terms(p, a, "launch 3"),
        Term("dq_sum", False, added, times, 4, "launch 3: an atomic addition reads the sum …", atomic=True),
        Term(
            "dq_sum",
            True,
            added,
            times,
            4,
            "launch 3: … and writes it, once per key tile and query tile that meet",
            atomic=True,
        ),
        Term("dq_sum", False, a.q, 1, 4, "launch 4: the finished sum"),
        Term("dq", True, a.q, 1, a.item, "launch 4: dQ, rounded once"),
    )
    work = (
        *_delta_work(a),
        *_keys_work(p, a, "launch 3"),
        Work("launch 3: dS K", "matmul", 2 * pairs * a.block_m * a.block_n * a.width),
        Work("launch 3: dQ + dS K, by memory", "other", added * times),
        Work("launch 4: dQ · sm_scale", "other", tiles(a.q, block) * block),
    )
    return Traffic(terms, work)


def attention_backward_standard(p: Values) -> Traffic:
    a = _Backward.of(p)
    per_head = a.heads * p["kv_len"] * a.head_dim
    terms = (
        Term("p", False, a.scores, 1, a.item, "launch 1: P, kept from the forward pass, N² elements"),
        Term("do", False, a.q, a.tiles_n, a.item, "launch 1: all of dO, once per key tile"),
        Term("dv", True, a.kv, 1, a.item, "launch 1: dV"),
        Term("do", False, a.q, a.tiles_n, a.item, "launch 2: all of dO, once per key tile"),
        Term("v", False, per_head, a.tiles_m, a.item, "launch 2: all of V, once per query tile"),
        Term("dp", True, a.scores, 1, a.item, "launch 2: dP, N² elements"),
        Term("p", False, a.scores, 1, a.item, "launch 3: P again"),
        Term("dp", False, a.scores, 1, a.item, "launch 3: dP again"),
        Term("ds", True, a.scores, 1, a.item, "launch 3: dS, N² elements"),
        Term("ds", False, a.scores, 1, a.item, "launch 4: dS again"),
        Term("k", False, per_head, a.tiles_m, a.item, "launch 4: all of K, once per query tile"),
        Term("dq", True, a.q, 1, a.item, "launch 4: dQ"),
        Term("ds", False, a.scores, 1, a.item, "launch 5: dS a third time"),
        Term("q", False, a.q, a.tiles_n, a.item, "launch 5: all of Q, once per key tile"),
        Term("dk", True, a.kv, 1, a.item, "launch 5: dK"),
    )
    pairs = a.heads * a.tiles_m * a.tiles_n
    matmul, row = 2 * pairs * a.block_m * a.block_n * a.width, a.rows * next_power_of_two(p["kv_len"])
    work = (
        Work("launch 1: Pᵀ dO", "matmul", matmul),
        Work("launch 1: dV + Pᵀ dO", "other", pairs * a.block_n * a.width),
        Work("launch 2: dO Vᵀ", "matmul", matmul),
        Work("launch 3: δ = rowsum(P ∘ dP)", "other", 2 * row - a.rows),
        Work("launch 3: P ∘ (dP − δ)", "other", 2 * row),
        Work("launch 4: dS K", "matmul", matmul),
        Work("launch 4: dQ + dS K", "other", pairs * a.block_m * a.width),
        Work("launch 4: dQ · sm_scale", "other", a.lanes_m * a.width),
        Work("launch 5: dSᵀ Q", "matmul", matmul),
        Work("launch 5: dK + dSᵀ Q", "other", pairs * a.block_n * a.width),
        Work("launch 5: dK · sm_scale", "other", a.lanes_n * a.width),
    )
    return Traffic(terms, work)


def _delta_terms(a: _Backward) -> tuple[Term, ...]:
    return (
        Term("o", False, a.q, 1, a.item, "launch 1: O, for δ"),
        Term("do", False, a.q, 1, a.item, "launch 1: dO, for δ"),
        Term("delta", True, a.rows, 1, 4, "launch 1: δ, one float32 per query"),
    )


def _delta_work(a: _Backward) -> tuple[Work, ...]:
    return (Work("launch 1: δ = rowsum(dO ∘ O)", "other", a.lanes_m * (2 * a.width - 1)),)


def _passing(p: Values, a: _Backward) -> tuple[int, int]:
    """Queries that pass by key tiles, over all heads, and how often: what the loop over queries loads."""
    if not p["causal"]:
        return a.rows, a.tiles_n
    return a.heads * sum(max(0, p["seq_len"] - first) for first in first_query_per_key_tile(p)), 1


def _key_pairs(p: Values, a: _Backward) -> int:
    """Visits of the loop over queries, over all heads."""
    return a.heads * sum(tiles(max(0, p["seq_len"] - first), a.block_m) for first in first_query_per_key_tile(p))


def _keys_terms(p: Values, a: _Backward, launch: str) -> tuple[Term, ...]:
    """The launch that holds keys: queries pass."""
    rows = _passing(p, a)
    q = (rows[0] * a.head_dim, rows[1])
    return (
        Term("k", False, a.kv, 1, a.item, f"{launch}: each key tile, once"),
        Term("v", False, a.kv, 1, a.item, f"{launch}: as K"),
        Term("q", False, *q, a.item, f"{launch}: each query tile, once per key tile that it sees"),
        Term("do", False, *q, a.item, f"{launch}: as Q"),
        Term("lse", False, *rows, 4, f"{launch}: as Q, one float32 per query"),
        Term("delta", False, *rows, 4, f"{launch}: as lse"),
        Term("dk", True, a.kv, 1, a.item, f"{launch}: once, by the program that owns it"),
        Term("dv", True, a.kv, 1, a.item, f"{launch}: as dK"),
    )


def _keys_work(p: Values, a: _Backward, launch: str) -> tuple[Work, ...]:
    pairs = _key_pairs(p, a)
    tile = pairs * a.block_m * a.block_n
    return (
        *_scores_again(tile, a.width, launch),
        Work(f"{launch}: Pᵀ dO", "matmul", 2 * tile * a.width),
        Work(f"{launch}: dSᵀ Q", "matmul", 2 * tile * a.width),
        Work(f"{launch}: dV + Pᵀ dO, dK + dSᵀ Q", "other", 2 * pairs * a.block_n * a.width),
        Work(f"{launch}: dK · sm_scale", "other", a.lanes_n * a.width),
    )


def _scores_again(tile: int, width: int, launch: str) -> tuple[Work, ...]:
    """From Q, K, V, dO, lse and δ to dS."""
    return (
        Work(f"{launch}: Q Kᵀ", "matmul", 2 * tile * width),
        Work(f"{launch}: · sm_scale", "other", tile),
        Work(f"{launch}: S − lse", "other", tile),
        Work(f"{launch}: P = exp(S − lse)", "exp", tile),
        Work(f"{launch}: dO Vᵀ", "matmul", 2 * tile * width),
        Work(f"{launch}: P ∘ (dP − δ)", "other", 2 * tile),
    )


def between_launches(p: Values, traffic: Traffic, term: Term, programs: int) -> int:
    """P, dP and dS go from one launch to the next whole."""
    return term.once if term.buffer in ("p", "dp", "ds") else 0


def between_additions(p: Values, traffic: Traffic, term: Term, programs: int) -> int:
    """All zeros are written before the first addition, and all sums before the first is read."""
    return _Backward.of(p).q * 4 if term.buffer == "dq_sum" else 0
