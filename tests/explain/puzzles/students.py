"""Answers that a student gives: three wrong ones for each puzzle, made from the right one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from explain.puzzles.puzzles import Puzzle, puzzles


@dataclass(frozen=True)
class Mistake:
    """In our kernel, or in the beginning, `old` becomes `new` where it first stands."""

    puzzle: str
    what: str
    old: str
    new: str
    of: str = "solution"

    @property
    def text(self) -> str:
        """The student's file. Raises ValueError if `old` is not there."""
        puzzle = puzzles()[self.puzzle]
        right = solved(puzzle) if self.of == "solution" else puzzle.starter()
        if self.old not in right:
            raise ValueError(f"{self.puzzle}, {self.what}: {self.old!r} is not in the kernel")
        return right.replace(self.old, self.new, 1)


def solved(puzzle: Puzzle) -> str:
    """A file with our own kernels."""
    return puzzle.head() + "\n\n\n" + "\n\n\n".join(puzzle.solution().values()) + "\n"


INF = '-float("inf")'
NO_ALPHA = ("l_i = l_i * alpha + ", "l_i = l_i + ")
VISIBLE = "visible = visible & (cols[None, :] <= rows[:, None] + diagonal)"


def _flash(puzzle: str) -> Iterator[Mistake]:
    yield Mistake(puzzle, "the accumulator is not rescaled", "acc = acc * alpha[:, None]", "acc = acc")
    yield Mistake(puzzle, "not divided by the sum", "o = acc / tl.where(l_i == 0.0, 1.0, l_i)[:, None]", "o = acc")
    yield Mistake(
        puzzle, "keys past the end count", "visible = (cols < kv_len)[None, :]", "visible = (cols >= 0)[None, :]"
    )


def _mend(number: int, wrong_fix: tuple[str, str], typo: tuple[str, str]) -> Iterator[Mistake]:
    puzzle = f"mend_{number}"
    yield Mistake(puzzle, "nothing changed", "PUZZLE", "PUZZLE", of="starter")
    yield Mistake(puzzle, "another wrong line", *wrong_fix)
    yield Mistake(puzzle, "a typing error", *typo)


STOPPED = (
    Mistake("vector_add", "the mask does not fit", "mask=mask, other=0.0", ""),
    Mistake("vector_add", "one address, many lanes", "a_ptr + offsets", "a_ptr"),
    Mistake("vector_add", "pointer and values exchanged", "c_ptr + offsets, c,", "c, c_ptr + offsets,"),
    Mistake("vector_add", "an element of a tile", "    c = a + b", "    c = a[0] + b"),
    Mistake("vector_add", "arange of an argument", "tl.arange(0, BLOCK_N)", "tl.arange(0, n)"),
    Mistake("vector_add", "print without a text", "    c = a + b", "    print(a); c = a + b"),
    Mistake("softmax_row", "NumPy's exp", "tl.exp(", "np.exp("),
    Mistake("softmax_row", "exp without tl", "tl.exp(", "exp("),
    Mistake("softmax_row", "Python's max", "tl.max(x, axis=0)", "max(x)"),
    Mistake("online", "an axis where none is", "tl.max(x, axis=0))", "tl.max(x, axis=0), axis=0)"),
    Mistake("flash", "a shape that is not a tuple", "tl.zeros((BLOCK_M, BLOCK_D), tl.float32)",
            "tl.zeros(BLOCK_M, tl.float32)"),
    Mistake("flash", "two dtypes in a dot", "p.to(v.dtype)", "p"),
    Mistake("flash", "used before it is set", "acc = acc * alpha[:, None]", "o = o * alpha[:, None]"),
)  # fmt: skip
"""Common errors at which a case stops: a puzzle may have several."""

MISTAKES = (
    Mistake("vector_add", "no mask", "mask=mask, other=0.0", "other=0.0"),
    Mistake("vector_add", "one element too many", "offsets < n", "offsets <= n"),
    Mistake("vector_add", "every program takes the first tile", "program * BLOCK_N + tl.arange", "tl.arange"),
    Mistake("softmax_row", "columns past the end count as 0", f"other={INF}", "other=0.0"),
    Mistake("softmax_row", "the maximum is not subtracted", "tl.exp(x - m_i)", "tl.exp(x)"),
    Mistake("softmax_row", "0 / 0 in a row of −inf", "l_i = tl.where(l_i == 0.0, 1.0, l_i)", "pass"),
    Mistake("overflow", "the last pass forgets the maximum", "y = tl.exp(x - m_i)", "y = tl.exp(x)"),
    Mistake("overflow", "the maximum of the last tile", "tl.maximum(m_i, tl.max(x, axis=0))", "tl.max(x, axis=0)"),
    Mistake("overflow", "−inf − −inf", f"m_i = tl.where(m_i == {INF}, 0.0, m_i)", "pass"),
    Mistake("tile_by_tile", "nothing changed", "PUZZLE", "PUZZLE", of="starter"),
    Mistake("tile_by_tile", "the sum of the last tile", "l_i = l_i + tl.sum", "l_i = tl.sum"),
    Mistake("tile_by_tile", "the maximum starts at 0", f"m_i = {INF}", "m_i = 0.0"),
    Mistake("online", "no rescale", *NO_ALPHA),
    Mistake("online", "alpha upside down", "tl.exp(m_i - m_safe)", "tl.exp(m_safe - m_i)"),
    Mistake("online", "the old maximum is kept", "        m_i = m_new\n", ""),
    Mistake("rows_and_columns", "the maximum of the columns", "tl.max(x, axis=1)", "tl.max(x, axis=0)"),
    Mistake("rows_and_columns", "the mask forgets the rows", "(rows < n_rows)[:, None] & (cols < n_cols)[None, :]",
            "(rows >= 0)[:, None] & (cols < n_cols)[None, :]"),
    Mistake("rows_and_columns", "m without its axis", "p = tl.exp(x - m_safe[:, None])", "p = tl.exp(x - m_safe)"),
    Mistake("merge", "the sums are added as they are", "l_i = l_i * alpha + l_j * beta", "l_i = l_i + l_j"),
    Mistake("merge", "only the old sum is rescaled", "l_j * beta", "l_j"),
    Mistake("merge", "the maximum is not stored", "    tl.store(m_ptr + own, m_i)\n", ""),
    Mistake("topk", "equal elements: the right one first", "(top_x >= best)", "(top_x > best)"),
    Mistake("topk", "the column in its tile", "tl.where(places == place, start + at, moved_i)",
            "tl.where(places == place, at, moved_i)"),
    Mistake("topk", "the list does not move back", "tl.where(places == place, best, moved_x)",
            "tl.where(places == place, best, top_x)"),
    Mistake("scores", "not scaled", ' * sm_scale\n', "\n"),
    Mistake("scores", "K is not turned", "tl.dot(q, tl.trans(k)", "tl.dot(q, k"),
    Mistake("scores", "the diagonal is hidden", "cols[None, :] <= rows", "cols[None, :] < rows"),
    Mistake("values", "only the last tile", "acc = acc + tl.dot(", "acc = tl.dot("),
    Mistake("values", "P without a mask", "mask=inside_p, other=0.0", "other=0.0"),
    Mistake("values", "the first head's V", "head // group * stride_vh", "0 * stride_vh"),
    *_flash("flash"),
    Mistake("causal", "the diagonal is hidden", VISIBLE, VISIBLE.replace("<=", "<")),
    Mistake("causal", "the diagonal of a square", VISIBLE, VISIBLE.replace(" + diagonal", "")),
    Mistake("causal", "rows that see no key", f"tl.where(m_new == {INF}, 0.0, m_new)", "m_new"),
    Mistake("grouped", "each query head has its own key head", "head // group * stride_kh", "head * stride_kh"),
    Mistake("grouped", "heads take turns", "head // group * stride_kh", "head % group * stride_kh"),
    Mistake("grouped", "V is not shared", "head // group * stride_vh", "head * stride_vh"),
    Mistake("base_two", "L stays in base 2", "(m_i + tl.log2(l_i)) * LN_2", "m_i + tl.log2(l_i)"),
    Mistake("base_two", "α in base e", "alpha = tl.exp2(", "alpha = tl.exp("),
    Mistake("base_two", "ln ℓ times ln 2", "tl.log2(l_i)", "tl.log(l_i)"),
    Mistake("softmax_backward", "D is left out", "p * (dp - delta)", "p * dp"),
    Mistake("softmax_backward", "D without the weights", "tl.sum(p * dp, axis=0)", "tl.sum(dp, axis=0)"),
    Mistake("softmax_backward", "the load has no mask", "tl.load(dp_ptr + at, mask=inside, other=0.0)",
            "tl.load(dp_ptr + at)"),
    Mistake("backward_queries", "the scale is forgotten", "dq * sm_scale", "dq"),
    Mistake("backward_queries", "keys past the end", f"s = tl.where((cols < kv_len)[None, :], s, {INF})", "pass"),
    Mistake("backward_queries", "D is left out", "p * (dp - delta[:, None])", "p * dp"),
    Mistake("backward_keys", "P is not turned", "tl.trans(p.to(do.dtype))", "p.to(do.dtype)"),
    Mistake("backward_keys", "only the last tile of queries", "dv = dv + tl.dot(", "dv = tl.dot("),
    Mistake("backward_keys", "dK from P", "tl.trans(ds.to(q.dtype))", "tl.trans(p.to(q.dtype))"),
    Mistake("fewest_bytes", "three reads", "PUZZLE", "PUZZLE", of="starter"),
    Mistake("fewest_bytes", "no rescale", *NO_ALPHA),
    Mistake("fewest_bytes", "columns past the end count as 0", f"other={INF}", "other=0.0"),
    *_mend(1, ("m_new = tl.maximum(m_i, tl.max(s, axis=1))", "m_new = m_i"), ("tl.maximum(m_i", "tl.maximun(m_i")),
    *_mend(2, ("        m_i = m_new\n", "        m_i = tl.maximum(m_new, 0.0)\n"), ("m_i = m_new", "m_i = m_nwe")),
    *_mend(3, (f"m_i = tl.full((BLOCK_M,), {INF}", "m_i = tl.full((BLOCK_M,), -1e6"), ("tl.full((", "tl.full(")),
    *_mend(4, (f"s = tl.where(visible, s, {INF})", "s = tl.where(visible, s, -1e6)"), ("visible, s,", "visible, S,")),
    *_mend(5, ("p = tl.exp(s - m_safe[:, None])", "p = tl.exp(s - m_i[:, None])"),
           ("m_safe[:, None]", "m_safe[:, none]")),
    *_mend(6, ("acc = acc * alpha[:, None]", "acc = acc * l_i[:, None]"), ("alpha[:, None]", "alpha[None, :]")),
    *_mend(7, ("l_i = tl.where(l_i == 0.0, 1.0, l_i)", "l_i = tl.where(l_i > 0.0, l_i, 1.0)"),
           ("l_i == 0.0, 1.0", "l_i = 0.0, 1.0")),
)  # fmt: skip
