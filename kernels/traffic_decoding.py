"""The bytes and FLOPs of Flash-Decoding, as named terms: the parts, and what their merge costs."""

from __future__ import annotations

from kernels.parameters import ITEM_BYTES, Values, next_power_of_two
from kernels.traffic import Term, Traffic, Work, tiles

STORED = ("part_o", "part_lse")
"""What goes from the parts to the merge, float32."""


def flash_decoding(p: Values) -> Traffic:
    """K and V once for all heads that share them, whatever the number of splits; each split writes O and lse."""
    item, head_dim, splits = ITEM_BYTES[p["dtype"]], p["head_dim"], p["splits"]
    pairs = p["batch"] * p["kv_heads"]
    rows = p["heads"] // p["kv_heads"] * p["seq_len"]
    tiles_m, tiles_n = tiles(rows, p["block_m"]), tiles(p["kv_len"], p["block_n"])
    keys, queries = pairs * p["kv_len"] * head_dim, pairs * rows * head_dim
    terms = (
        Term("q", False, queries, splits, item, "each query tile, once per split"),
        Term("k", False, keys, tiles_m, item, "each key, once for all rows of a tile"),
        Term("v", False, keys, tiles_m, item, "as K"),
        Term("part_o", True, queries, splits, 4, "launch 1: each split's O, float32"),
        Term("part_lse", True, pairs * rows, splits, 4, "launch 1: each split's lse"),
        Term("part_lse", False, pairs * rows, splits, 4, "launch 2: each split's lse again"),
        Term("part_o", False, queries, splits, 4, "launch 2: each split's O again"),
        Term("o", True, queries, 1, item, "launch 2: O"),
        Term("lse", True, pairs * rows, 1, 4, "launch 2: one float32 per row"),
    )
    width = max(16, next_power_of_two(head_dim))
    lanes = pairs * tiles_m * p["block_m"]  # rows of all tiles, empty ones too
    visited = lanes * tiles_n  # rows × tiles of keys
    tile, merged = visited * p["block_n"], lanes * splits
    work = (
        Work("Q Kᵀ", "matmul", 2 * tile * width),
        Work("· sm_scale", "other", tile),
        Work("max(m, rowmax S)", "other", tile),
        Work("m − m_new", "other", visited),
        Work("α = exp(m − m_new)", "exp", visited),
        Work("S − m_new", "other", tile),
        Work("P̃ = exp(S − m_new)", "exp", tile),
        Work("α l + rowsum P̃", "other", tile + visited),
        Work("α Õ", "other", visited * width),
        Work("P̃ V", "matmul", 2 * tile * width),
        Work("Õ + P̃ V", "other", visited * width),
        Work("O of each split: Õ / l", "other", merged * width),
        Work("lse of each split: m + ln l", "other", 2 * merged),
        Work("max(m, lse)", "other", merged),
        Work("m − m_new, lse − m_new", "other", 2 * merged),
        Work("α = exp(m − m_new), β = exp(lse − m_new)", "exp", 2 * merged),
        Work("α l + β", "other", 2 * merged),
        Work("α Õ + β O", "other", 3 * merged * width),
        Work("Õ / l", "other", lanes * width),
        Work("m + ln l", "other", 2 * lanes),
    )
    return Traffic(terms, work)


def merge_bytes(p: Values) -> int:
    """Bytes that splitting the keys costs: each split's O and lse, written and read again."""
    return sum(term.bytes for term in flash_decoding(p).terms if term.buffer in STORED)


def between_parts_and_merge(p: Values, traffic: Traffic, term: Term, programs: int) -> int:
    """While the parts are written, K and V pass; programs that run at the same time read the same Q, K and V."""
    if term.buffer not in STORED:
        return 0
    return sum(one.once for one in traffic.terms if one.buffer in ("k", "v") or (one.written and one.buffer in STORED))
