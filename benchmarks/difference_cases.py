"""The bugs and the right variants that `benchmarks.difference` compares: edits of the catalog's kernels.

The first half of the bugs is the museum and `tests/kernels/mutants.py`. `SECOND_HALF` was written when these were
found; the states of other tiles and orders, and four kinds of hypotheses, were added after its first run. `FRESH` was
written after that. Rules were added later while all of them were looked at.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from kernels.catalog import KERNELS
from kernels.edits import Edit, source_of
from kernels.museum import EXHIBITS
from tests.kernels.mutants import MUTANTS, mutated

Sizes = Mapping[str, object]
ROWS = {"rows": 3, "cols": 14, "block_n": 4}
HEADS = {"seq_len": 32, "kv_len": 32, "head_dim": 16, "block_m": 16, "block_n": 16, "heads": 2}
CAUSAL = {**HEADS, "causal": True}
RAGGED = {**HEADS, "seq_len": 24, "kv_len": 44, "causal": True}
SEARCHED = (
    "normal", "ascending", "descending", "first_tile_masked", "everything_masked", "far_below_zero",
    "made:offset=-80000", "made:offset=-16000", "large_magnitude", "constant",
)  # fmt: skip

EXPECTED = {
    "no_running_max": "maximum so far", "zero_for_minus_inf": "m_safe", "finite": "stands for −∞",
    "inf_minus_inf": "−∞ − −∞", "acc_not_rescaled": "α", "nan_swallowed": "NaN is lost",
    "mask one element short": "mask off by one", "every program takes the first tile": "program",
    "tiles overlap": "BLOCK_N", "no alpha": "α", "alpha upside down": "upside down", "no running max": "maximum so far",
    "no max at all": "−∞ × 0", "the diagonal is hidden": "mask off by one", "one key of the future": "mask off by one",
    "keys past the last count": "kv_len", "top left diagonal": "diagonal", "wrong mask": "0 in place of −∞",
    "−inf − −inf": "−∞ − −∞|case `m_i == .* is missing", "all zeros": "^0 in place", "acc not rescaled": "α",
    "not divided by l": "not divided",
    "wrong head of K": "head", "lse in base 2": "base 2", "last tile forgotten": "loop ends",
    "sums in 16 bits": "rounded to 16", "log2 e": "base 2", "scores not scaled": "sm_scale",
    "the later of equals first": "equal numbers", "a place in the tile": "start",
    "the list does not move": "own places", "columns do not move": "own places",
    "the largest is taken again": "is missing: always", "one too few": "loop ends",
    "the sum of the last tile alone": "l_i", "no beta": "α", "the sums alone": "alpha|α",
    "the last pair forgotten": "loop ends", "no maximum of both": "maximum so far", "another row's pair": "row",
    "O not undone": "l_i",
    # of the parts of flash_decoding
    "parts not rescaled": "β|lse_j` in place of `m_safe", "parts so far not rescaled": "α",
    "l of the parts added without alpha": "α", "an empty part counts": "lse_j` is −∞",
    "all parts weigh the same": "beta", "the last split's tail lost": "divides first|1 too small",
    "a part forgotten": "loop ends", "a tile in two parts": "1 too large",
    "wrong head of keys": "kv_head", "wrong head of queries": "heads", "the group's heads take turns": "group",
    "the mask takes a row for a query": "rows", "top left where bottom right is asked": "diagonal",
    "lse of a part in base 2": "base 2", "lse of a part without l": r"log\(l_i\)",
    "lse of the merge without l": r"log\(l_i\)", "parts not divided by their l": "not divided",
    # of the backward passes
    "δ forgotten": "`delta.* is not subtracted", "lse without m": "`lse.* is not subtracted",
    "the mask left out": "mask lacks", "the mask one key short": "mask off by one",
    "S not scaled": "sm_scale` is missing",
    "a query without keys": "case `lse ==.* is missing", "dP is dO Kᵀ": "`k` in place of `v`",
    "δ over the wrong axis": "over all axes", "δ of O instead of dO": "`o` in place of `do`",
    "sm_scale missing": "factor `sm_scale` is missing", "dS transposed": "not transposed",
    "dV of S": "`s` in place of `p`", "one head of the group": "loop ends", "key head of the query head": "head",
    "query tiles skipped": "begin|BLOCK_N", "a store, not an atomic addition": "not added|stored",
    "the sum does not begin at 0": "1 in place of|1 too", "P not transposed": "not transposed",
    "wrong head of V": "head", "the last queries forgotten": "loop ends",
}  # fmt: skip
"""What the cause must say, a pattern, by the first name that is part of the bug's name; longer names first."""

RENAMED = {
    "m_i": "top_so_far", "m_new": "higher", "l_i": "total", "acc": "gathered", "p": "w", "s": "logits", "x": "row_part",
    "alpha": "shrink", "m_safe": "shift", "rows": "mine", "cols": "theirs", "start": "at0", "visible": "allowed",
    "o": "made", "x_ptr": "src", "y_ptr": "dst", "q_ptr": "qs", "k_ptr": "ks", "v_ptr": "vs", "dims": "features",
    "y": "weight", "lse": "log_total", "offsets": "where_to", "mask": "inside", "row": "line", "end": "last",
    "top_x": "largest", "top_i": "places_of",
}  # fmt: skip
RENAME = tuple((rf"\b{old}\b(?!=)", new) for old, new in RENAMED.items())
BACKWARDS = ((r"cols = start \+ tl\.arange", "cols = (tl.cdiv(n_cols, BLOCK_N) - 1) * BLOCK_N - start + tl.arange"),)
BACKWARDS_KEYS = ((r"cols = start \+ tl\.arange", "cols = (tl.cdiv(end, BLOCK_N) - 1) * BLOCK_N - start + tl.arange"),)


@dataclass(frozen=True)
class Case:
    """Run B, `kernel` with edits and perhaps other tiles, against run A, kernel `base`. `cause` is a pattern."""

    name: str
    base: str
    kernel: str
    sizes: Sizes
    inputs: str = "normal"
    edit: Edit | None = None
    lines: tuple[int, ...] = ()
    cause: str = ""
    others: Sizes = field(default_factory=dict)


def _function(kernel: str) -> str:
    return f"{kernel}_kernel"


def _body(kernel: str) -> str:
    source = source_of(KERNELS[kernel].module)
    start = source.find(f"def {_function(kernel)}(")
    return source[start : source.find("\n\n\n", start)]


def edited(
    kernel: str, changes: tuple[tuple[str, str], ...], bug: tuple[str, str] | None
) -> tuple[Edit, tuple[int, ...]]:
    """The edit that makes a variant and then breaks it; and the lines that the bug changes.

    Raises ValueError if the bug's text is not there once.
    """
    source, body = source_of(KERNELS[kernel].module), _body(kernel)
    made, head = body, body.partition("(")[0]
    if bug is not None:
        if made.count(bug[0]) != 1:
            raise ValueError(f"{kernel}: {bug[0]!r} is there {made.count(bug[0])} times")
        first = source[: source.find(body) + body.find(bug[0])].count("\n") + 1
        made = made.replace(*bug)
    for old, new in changes:
        made = head + re.sub(old, new, made[len(head) :])
    name = f"v{abs(hash((kernel, made))) % 10**10}"
    lines = tuple(range(first, first + bug[0].count("\n") + 1)) if bug is not None else ()
    return Edit(name, _function(kernel), body, made), lines


def first_half() -> Iterator[Case]:
    """The museum's bugs and the mutants; a mutant's `inputs` is empty: they are searched."""
    for one in EXHIBITS.values():
        if not one.harmless:
            lines = _lines(one.edit, one.base)
            yield Case(one.name, one.base, one.base, one.sizes, one.shown_by, one.edit, lines, _expected(one.name))
    for mutant in MUTANTS:
        edit = mutated(mutant).edit
        assert edit is not None
        name = f"{mutant.kernel}: {mutant.name}"
        sizes = {"dtype": mutant.dtype}
        lines = _lines(edit, mutant.kernel)
        yield Case(name, mutant.kernel, mutant.kernel, sizes, "", edit, lines, _expected(mutant.name))


def _expected(name: str) -> str:
    return next((said for part, said in sorted(EXPECTED.items(), key=lambda one: -len(one[0])) if part in name), "")


def _lines(edit: Edit, kernel: str) -> tuple[int, ...]:
    return tuple(line for sign, line, _ in edit.diff(source_of(KERNELS[kernel].module)) if sign == "+")


EIGHT, WIDE = {"block_n": 8}, {"block_n": 32}
SECOND_HALF: tuple[tuple[Any, ...], ...] = (
    # name, kernel, variant, other tiles, sizes, inputs, old, new, cause
    ("l not carried", "softmax_online", (), {}, ROWS, "normal", "l_i = l_i * alpha + tl.sum(p, axis=0)",
     "l_i = alpha + tl.sum(p, axis=0)", "l_i"),
    ("sum of squares", "softmax_online", (), {}, ROWS, "normal", "tl.sum(p, axis=0)", "tl.sum(p * p, axis=0)", "p"),
    ("max subtracted twice", "softmax_safe", (), {}, ROWS, "normal", "p = tl.exp(x - m_i)", "p = tl.exp(x - m_i - m_i)",
     "m_i"),
    ("max of the last tile", "softmax_safe", RENAME, {}, ROWS, "descending", "tl.maximum(m_i, tl.max(x, axis=0))",
     "tl.max(x, axis=0)", "maximum so far"),
    ("sum of the last tile", "softmax_safe", RENAME, {}, ROWS, "normal", "l_i = l_i + tl.sum(p, axis=0)",
     "l_i = tl.sum(p, axis=0)", "not added"),
    ("whole row: not shifted", "softmax_row", (), {}, {"rows": 3, "cols": 14, "block_n": 16}, "large_magnitude",
     "p = tl.exp(x - m_i)", "p = tl.exp(x)", "not subtracted|overflow|subtract the row.s maximum"),
    ("whole row: base 2", "softmax_row", RENAME, {}, {"rows": 3, "cols": 14, "block_n": 16}, "normal",
     "p = tl.exp(x - m_i)", "p = tl.exp2(x - m_i)", "base 2"),
    ("whole row: another row", "softmax_row", (), {}, {"rows": 3, "cols": 14, "block_n": 16}, "normal",
     "x_ptr += row * stride_xm", "x_ptr += row // 2 * stride_xm", "row"),
    ("sum over rows", "softmax_tiled", (), {}, {**ROWS, "block_m": 4}, "normal", "tl.sum(p, axis=1)",
     "tl.sum(p, axis=0)", "axis"),
    ("rows not masked by their own count", "softmax_tiled", RENAME, {}, {**ROWS, "block_m": 2}, "normal",
     "alpha = tl.exp(m_i - m_safe)", "alpha = tl.exp(m_i - m_safe) * 0.5", "0\\.5|half"),
    ("tiled, no rescale", "softmax_tiled", RENAME, {}, {**ROWS, "block_m": 2}, "ascending",
     "l_i = l_i * alpha + tl.sum(p, axis=1)", "l_i = l_i + tl.sum(p, axis=1)", "α"),
    ("tiled, base 2 of alpha", "softmax_tiled", (), EIGHT, {**ROWS, "block_m": 2}, "ascending",
     "alpha = tl.exp(m_i - m_safe)", "alpha = tl.exp2(m_i - m_safe)", "base 2"),
    ("online, other tiles, no rescale", "softmax_online", RENAME, EIGHT, ROWS, "ascending",
     "l_i = l_i * alpha + tl.sum(p, axis=0)", "l_i = l_i + tl.sum(p, axis=0)", "α"),
    ("online, backwards, no rescale", "softmax_online", BACKWARDS, {}, ROWS, "descending",
     "l_i = l_i * alpha + tl.sum(p, axis=0)", "l_i = l_i + tl.sum(p, axis=0)", "α"),
    ("list sorted by place", "softmax_topk", RENAME, {}, {**ROWS, "k": 3}, "normal", "places == place, best, moved_x",
     "places < place, best, moved_x", "off by|mask|<"),
    ("top-k of absolute values", "softmax_topk", (), {}, {**ROWS, "k": 3}, "normal",
     "left = tl.where(x == x, x, -float", "left = tl.where(x == x, tl.abs(x), -float", "abs"),
    ("top-k weights from the sum alone", "softmax_topk", (), {}, {**ROWS, "k": 3}, "normal",
     "y = tl.exp(top_x - m_i) / l_i", "y = tl.exp(top_x) / l_i", "m_i"),
    ("q scaled twice", "flash_attention", (), {}, HEADS, "normal", "* sm_scale", "* sm_scale * sm_scale",
     "sm_scale"),
    ("scale forgotten", "flash_attention", RENAME, {}, HEADS, "normal", "* sm_scale", "* 1.0", "sm_scale"),
    ("q of the first head", "flash_attention", (), {}, HEADS, "normal", "+ head * stride_qh",
     "+ 0 * stride_qh", "head"),
    ("v of another head", "flash_attention", RENAME, {}, HEADS, "normal", "head // group * stride_vh",
     "(1 - head) * stride_vh", "head"),
    ("mask on the wrong side", "flash_attention", (), {}, CAUSAL, "normal", "cols[None, :] <= rows[:, None]",
     "cols[None, :] >= rows[:, None]", "mask"),
    ("mask off by one, ragged", "flash_attention", RENAME, {}, RAGGED, "normal", "cols[None, :] <= rows[:, None]",
     "cols[None, :] < rows[:, None]", "mask off by one"),
    ("stale maximum in P", "flash_attention", (), {}, HEADS, "ascending", "p = tl.exp(s - m_safe[:, None])",
     "p = tl.exp(s - m_i[:, None])", "m_i"),
    ("l rescaled twice", "flash_attention", (), {}, HEADS, "ascending", "l_i = l_i * alpha +",
     "l_i = l_i * alpha * alpha +", "twice|once more"),
    ("acc rescaled by l's start", "flash_attention", RENAME, {}, HEADS, "ascending", "acc = acc * alpha[:, None]",
     "acc = acc * tl.sqrt(alpha)[:, None]", "sqrt|alpha"),
    ("lse without m", "flash_attention", RENAME, {}, HEADS, "normal", "lse = m_i + tl.log(l_i)", "lse = tl.log(l_i)",
     "m_i"),
    ("other tiles, alpha upside down", "flash_attention", (), WIDE, {**HEADS, "kv_len": 64}, "ascending",
     "alpha = tl.exp(m_i - m_safe)", "alpha = tl.exp(m_safe - m_i)", "upside down"),
    ("other tiles, no running max", "flash_attention", RENAME, WIDE, {**HEADS, "kv_len": 64}, "large_magnitude",
     "m_new = tl.maximum(m_i, tl.max(s, axis=1))", "m_new = tl.max(s, axis=1)", "maximum so far"),
    ("backwards, acc not rescaled", "flash_attention", BACKWARDS_KEYS, {}, HEADS, "descending",
     "acc = acc * alpha[:, None]", "acc = acc * 1.0", "α"),
    ("exp2: scale in base e", "flash_attention_exp2", (), {}, HEADS, "normal", "* scale_log2",
     "* scale_log2 * 0.69314718", "base 2|scale"),
    ("v1: new maximum stored too late", "flash_attention_v1", (), {}, HEADS, "ascending",
     "tl.store(m_hbm_ptr + rows, m_new", "tl.store(m_hbm_ptr + rows, m_i", "m_i|stale"),
)  # fmt: skip

FRESH: tuple[tuple[Any, ...], ...] = (
    ("m from 0", "softmax_online", RENAME, {}, ROWS, "far_below_zero", 'm_i = -float("inf")\n    l_i = 0.0\n',
     "m_i = 0.0\n    l_i = 0.0\n", "0 in place of −∞"),
    ("l of the running max before", "softmax_online", (), {}, ROWS, "ascending", "p = tl.exp(x - m_safe)",
     "p = tl.exp(x - m_i)", "m_i"),
    ("y not divided", "softmax_online", RENAME, {}, ROWS, "normal", "y = tl.exp(x - m_i) / l_i", "y = tl.exp(x - m_i)",
     "not divided"),
    ("minimum for maximum", "softmax_tiled", (), {}, {**ROWS, "block_m": 2}, "large_magnitude",
     "tl.maximum(m_i, tl.max", "tl.minimum(m_i, tl.max", "minimum|maximum"),
    ("row length short by a tile", "softmax_safe", (), {}, {**ROWS, "cols": 16}, "normal",
     "l_i = 0.0\n    for start in range(0, n_cols, BLOCK_N)",
     "l_i = 0.0\n    for start in range(0, n_cols - BLOCK_N, BLOCK_N)", "loop ends"),
    ("next row", "softmax_row", RENAME, {}, {"rows": 3, "cols": 14, "block_n": 16}, "normal",
     "y_ptr += row * stride_ym", "y_ptr += (2 - row) * stride_ym", "row"),
    ("K of the first head", "flash_attention", RENAME, {}, HEADS, "normal", "head // group * stride_kh",
     "0 * stride_kh", "head"),
    ("lse in base 2", "flash_attention", (), {}, HEADS, "normal", "tl.log(l_i)", "tl.log2(l_i)", "base 2"),
    ("acc added twice", "flash_attention", RENAME, {}, HEADS, "normal", "acc = acc + tl.dot(p.to(v.dtype), v",
     "acc = acc + acc + tl.dot(p.to(v.dtype), v", "acc"),
    ("causal mask shifted by two", "flash_attention", (), {}, CAUSAL, "normal",
     "<= rows[:, None] + diagonal)\n        s =", "<= rows[:, None] + diagonal + 2)\n        s =", "mask"),
    ("other tiles, l not rescaled", "flash_attention", RENAME, WIDE, {**HEADS, "kv_len": 64}, "ascending",
     "l_i = l_i * alpha + tl.sum(p, axis=1)", "l_i = l_i + tl.sum(p, axis=1)", "α"),
    ("backwards, base 2 in P", "flash_attention", BACKWARDS_KEYS, {}, HEADS, "normal",
     "p = tl.exp(s - m_safe[:, None])", "p = tl.exp2(s - m_safe[:, None])", "base 2"),
    ("backwards, no running max", "softmax_online", BACKWARDS, {}, ROWS, "ascending",
     "m_new = tl.maximum(m_i, tl.max(x, axis=0))", "m_new = tl.max(x, axis=0)", "maximum so far"),
    ("v1: l not carried", "flash_attention_v1", (), {}, HEADS, "normal", "l_new = l_i * alpha +", "l_new = alpha +",
     "l_i"),
)  # fmt: skip


def written_later(bugs: tuple[tuple[Any, ...], ...]) -> Iterator[Case]:
    """Bugs in renamed, reordered and otherwise tiled kernels, and in plain ones."""
    for name, kernel, variant, tiles, sizes, inputs, old, new, cause in bugs:
        edit, lines = edited(kernel, variant, (old, new))
        said = "|".join([cause, *(RENAMED[part] for part in cause.split("|") if part in RENAMED)])
        words = said if variant is RENAME else cause
        yield Case(f"{kernel}: {name}", kernel, kernel, sizes, inputs, edit, lines, words, {**sizes, **tiles})


def right_variants() -> Iterator[Case]:
    """Right kernels in other words, another order, with other tiles, in base 2, or merged another way."""
    topk, tiled, whole = {**ROWS, "k": 3}, {**ROWS, "block_m": 2}, {"rows": 3, "cols": 14, "block_n": 16}
    own = {"softmax_topk": topk, "softmax_safe_topk": topk, "softmax_tiled": tiled, "softmax_row": whole,
           "vector_add": {"n": 50, "block_n": 16}}  # fmt: skip
    renamed = ("softmax_online", "softmax_safe", "softmax_tiled", "softmax_row", "softmax_topk", "softmax_safe_topk",
               "flash_attention", "flash_attention_exp2", "flash_attention_v1", "vector_add")  # fmt: skip
    for kernel in renamed:
        sizes = own.get(kernel, HEADS if "flash" in kernel else ROWS)
        yield Case(f"{kernel}, renamed", kernel, kernel, sizes, "normal", edited(kernel, RENAME, None)[0])
    for kernel in ("softmax_online", "softmax_safe", "softmax_tiled"):
        sizes = own.get(kernel, ROWS)
        yield Case(f"{kernel}, backwards", kernel, kernel, sizes, "normal", edited(kernel, BACKWARDS, None)[0])
    for kernel, sizes in (("flash_attention", HEADS), ("flash_attention_exp2", HEADS), ("flash_attention", RAGGED)):
        edit = edited(kernel, BACKWARDS_KEYS, None)[0]
        yield Case(f"{kernel}, backwards, {len(sizes)} sizes", kernel, kernel, sizes, "ascending", edit)
    for kernel, tiles in (("softmax_online", EIGHT), ("softmax_online", {"block_n": 2}), ("softmax_safe", EIGHT),
                          ("softmax_tiled", {"block_m": 1}), ("softmax_topk", EIGHT),
                          ("flash_attention", {"block_m": 32}), ("flash_attention", WIDE),
                          ("flash_attention_v1", WIDE), ("flash_attention_exp2", {"block_m": 32})):  # fmt: skip
        sizes = own.get(kernel, HEADS if "flash" in kernel else ROWS)
        yield Case(f"{kernel}, tiles {tiles}", kernel, kernel, sizes, "normal", others={**sizes, **tiles})
    pairs: tuple[tuple[str, str, Sizes], ...] = (
        ("softmax_online", "softmax_safe", ROWS), ("softmax_safe", "softmax_split", {**ROWS, "order": "tree"}),
        ("softmax_online", "softmax_tiled", tiled), ("softmax_safe", "softmax_naive", ROWS),
        ("softmax_online", "softmax_row", whole), ("softmax_topk", "softmax_safe_topk", topk),
        ("flash_attention", "flash_attention_exp2", CAUSAL), ("flash_attention", "flash_attention_v1", CAUSAL),
        ("attention_standard", "flash_attention", HEADS), ("flash_attention", "flash_attention_exp2", RAGGED),
    )  # fmt: skip
    for base, kernel, shape in pairs:
        yield Case(f"{kernel} against {base}", base, kernel, shape)
