"""Why the fast kernels are fast: the ideas of each in order, and the line of its source where each one stands. Attention's forward pass has its rungs (`rungs.py`).

Imports neither streamlit nor torch: sources are read from the files. A test asserts that each line is in its source.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from explain.chapters.triton_ladder.ladder import ROOT, function_source, marked


@dataclass(frozen=True)
class Idea:
    """One idea: its name, one sentence, and the line of the source that does it."""

    name: str
    sentence: str
    line: str


@dataclass(frozen=True)
class Twin:
    """A traced kernel that does the same arithmetic, and the page that steps through it: its stem, what its address says, the link's words."""

    page: str
    query: Mapping[str, str]
    words: str


@dataclass(frozen=True)
class Fast:
    """A fast kernel: the call that the benchmark names, its module, the functions that run on the GPU, and what to say of it.

    `below` is a readable kernel, (module, function), which the source of `shown[0]` is worth being compared with. `interpreted` says whether Triton's
    interpreter can run it: Gluon it cannot.
    """

    call: str
    table: str
    title: str
    module: str
    shown: tuple[str, ...]
    ideas: tuple[Idea, ...]
    twin: Twin | None = None
    below: tuple[str, str] | None = None
    interpreted: bool = True

    @property
    def file(self) -> str:
        """The source's path in the project."""
        return f"{self.module.replace('.', '/')}.py"

    @property
    def source(self) -> str:
        """The functions that run on the GPU, one after the other."""
        return "\n\n\n".join(function_source(self.module, name) for name in self.shown)

    @property
    def difference(self) -> str:
        """The source marked as a diff from the readable kernel's; empty where there is none to compare with."""
        return marked(function_source(*self.below), function_source(self.module, self.shown[0])) if self.below else ""

    def line_number(self, idea: Idea) -> int | None:
        """Where the idea stands in the file, from 1; None if its line is in none of the functions shown."""
        text = (ROOT / self.file).read_text(encoding="utf-8")
        for name in self.shown:
            own = function_source(self.module, name)
            lines = [line.strip() for line in own.splitlines()]
            if idea.line in lines:
                return text[: text.index(own)].count("\n") + lines.index(idea.line) + 1
        return None


SPLIT = Twin("online_softmax", {"walk": "Tiles in parallel"}, "Chapter 2 merges the parts of a row, step by step →")

KERNELS: tuple[Fast, ...] = (
    Fast(
        "flash_attention_backward", "backward", "FlashAttention-2, backward", "kernels.attention_backward",
        ("attention_backward_keys_kernel", "_queries_over_keys", "attention_backward_queries_kernel"),
        (
            Idea(
                "P from lse",
                "P is not read from memory: with the lse that the forward pass left, one exponential makes it again, with no maximum to look for.",
                "p = tl.exp2(s - lse2[None, :])",
            ),
            Idea(
                "A tile of keys stays",
                "dK and dV are sums over queries, so a program keeps a tile of keys and both sums on chip while the queries go by.",
                "dv = tl.dot(p.to(do.dtype), do, dv, input_precision=\"ieee\")",
            ),
            Idea(
                "One number a row",
                "D = rowsum(dO ∘ O) is made once before, so that the gradient of the softmax is a subtraction and a product.",
                "ds = (p * (dp - delta[None, :])).to(q.dtype)",
            ),
            Idea(
                "Longest first, a few heads at a time",
                "Under a causal mask the first keys have the most queries. They start first, of as many heads as a third of L2 has room for: of one head alone the last long tile "
                "would leave SMs idle, and the queries of all together do not fit L2.",
                "of_all = tl.program_id(1) * at_once + tl.program_id(0) % at_once",
            ),
            Idea(
                "A mask only where it cuts",
                "One loop goes over all queries, and compares only in the tiles that the mask cuts: a second loop for these would keep more values in registers.",
                "if CAUSAL and row < whole:",
            ),
            Idea(
                "Products twice, or sums in HBM",
                "dQ is a sum over keys, across programs: either its products are made again with queries outside, or each program adds its part in HBM.",
                "dq = tl.dot(ds, k, dq, input_precision=\"ieee\")",
            ),
        ),
    ),
    Fast(
        "softmax_rows", "softmax", "Whole rows on chip", "kernels.softmax_fast", ("softmax_rows_kernel",),
        (
            Idea(
                "As many rows as fill a program",
                "A short row leaves lanes idle, so a program takes several at once; where a row lies within one warp, its maximum needs no barrier.",
                "m_i = tl.max(x, axis=1)",
            ),
            Idea(
                "Whole vectors, wherever a row starts",
                "A thread loads 16 bytes at once only from a multiple of 16 bytes. So columns are counted from the last such boundary before the row, "
                "and what belongs to a neighbouring row is set to −∞.",
                "x_row = x_ptr + rows * stride_xm // VECTOR * VECTOR",
            ),
            Idea(
                "One division a row",
                "The reciprocal of the sum is made once a row, and each element costs a multiplication.",
                "y = (p * inverse[:, None]).to(y_ptr.dtype.element_ty)",
            ),
        ),
        Twin("triton_ladder", {"rung": "Whole row"}, "Chapter 3 steps through the same on one row →"),
        ("kernels.softmax", "softmax_row_kernel"),
    ),
    Fast(
        "softmax_staged", "softmax", "A row in shared memory", "kernels.softmax_staged", ("softmax_staged_kernel", "_in_whole_vector"),
        (
            Idea(
                "Copied, not loaded",
                "The row goes to shared memory without passing a register, and keeps its 16 bits an element there.",
                "async_copy.async_copy_global_to_shared(x_s.index(i), x_ptr + i * TILE + lanes, mask=vector < hi)",
            ),
            Idea(
                "Each lane its own maximum",
                "Lanes compare what they hold themselves first, and ask one another once, at the end.",
                "m_lane = gl.maximum(m_lane, x_s.index(i).load(LAYOUT).to(gl.float32))",
            ),
            Idea(
                "The exponential twice",
                "Keeping the exponentials would take the registers that were saved, so they are made again: arithmetic is what this kernel has to spare.",
                "y = gl.exp2(x_s.index(i).load(LAYOUT).to(gl.float32) * log2_e - m_i) * inverse",
            ),
        ),
        Twin("triton_ladder", {"rung": "Three passes"}, "Chapter 3 steps through the same three visits, with the row in HBM →"),
        interpreted=False,
    ),
    Fast(
        "softmax_pipelined", "softmax", "The next row while this one is at work", "kernels.softmax_fast", ("softmax_pipelined_kernel",),
        (
            Idea(
                "Row after row",
                "A program does not end with its row: it takes one row after another, and the loop fetches the next while this one is computed.",
                "for row in tl.range(tl.program_id(0), n_rows, tl.num_programs(0), num_stages=STAGES):",
            ),
            Idea(
                "Addresses once",
                "What is the same for every row is made before the loop, and a row costs one addition to its address.",
                "x_ptrs = x_ptr + cols.to(tl.int64) * stride_xn",
            ),
        ),
        Twin("triton_ladder", {"rung": "Whole row"}, "Chapter 3 steps through the same on one row →"),
        ("kernels.softmax_fast", "softmax_rows_kernel"),
    ),
    Fast(
        "softmax_shared_row", "softmax", "A row shared among programs", "kernels.softmax_fast", ("softmax_shared_row_kernel", "_joined", "_packed"),
        (
            Idea(
                "A part each",
                "A row too long for one multiprocessor is held by several programs, each with a part that it reads once and keeps.",
                "p = tl.exp(x - m_safe)",
            ),
            Idea(
                "One word to tell",
                "A part's maximum and sum travel as one 64-bit word, which the others see whole or not at all.",
                "tl.atomic_xchg(pairs_ptr + part, _packed(m_j, l_j), sem=\"relaxed\")",
            ),
            Idea(
                "Joined like any pairs",
                "Each program joins the parts' (m, ℓ) by the rule of online softmax, and rescales what it holds.",
                "l_i = tl.sum(l_j * tl.exp(m_j - m_i), axis=0)",
            ),
        ),
        SPLIT,
    ),
    Fast(
        "softmax_two_reads", "softmax", "The second read out of L2", "kernels.softmax_fast", ("softmax_two_reads_kernel", "_joined", "_packed"),
        (
            Idea(
                "Keep it for the second read",
                "A tile's first read asks L2 to hold on to it.",
                "x = _load(x_ptrs, cols, lo, lo + n_cols, inside, VECTOR, \"evict_last\")",
            ),
            Idea(
                "Soon after the first",
                "A program reads one tile for the first time and one from a little earlier for the second, while L2 still has it.",
                "tile -= apart",
            ),
            Idea(
                "Wait only for those before",
                "The row's pairs come from programs that started earlier, so each wait ends.",
                "m_i, l_i = _joined(pairs_ptr + row * n_parts, tl.arange(0, PARTS), n_parts)",
            ),
        ),
        SPLIT,
    ),
    Fast(
        "softmax_topk_lanes", "topk", "A list a lane", "kernels.topk_fast", ("softmax_topk_lanes_kernel", "_place"),
        (
            Idea(
                "Lanes do not talk",
                "Each lane runs online softmax on a column of its own, and no lane asks another until the row has ended.",
                "l_i = tl.where(larger, l_i * e + 1.0, l_i + e)",
            ),
            Idea(
                "One exponential an element",
                "exp(−|x − m|) is α where x is the new maximum and p where it is not, so one exponential serves both.",
                "e = tl.exp(-tl.abs(x - tl.maximum(m_i, -3.4028234663852886e38)))  # −inf − −inf would be NaN",
            ),
            Idea(
                "K lanes hold the K largest",
                "The K largest elements lie in the K lanes with the largest maxima, so only what these lanes saw is read again.",
                "cols = kept[:, None] + tl.arange(0, BLOCK_T)[None, :] * BLOCK_N",
            ),
        ),
        Twin("online_softmax", {"walk": "With top-k"}, "Chapter 2 steps through softmax with top-k, a list a tile →"),
    ),
    Fast(
        "flash_decode", "decode", "Split keys, few queries", "kernels.decode", ("flash_decode_kernel",),
        (
            Idea(
                "Split the keys",
                "One query a head gives too few programs, so each head's keys are shared among several, evenly.",
                "for tile in tl.range(split * tiles // SPLITS, (split + 1) * tiles // SPLITS, num_stages=STAGES):",
            ),
            Idea(
                "Keep the group together",
                "The heads that share keys are the rows of one tile, so K and V are read once for all of them.",
                "heads = kv_head * group + rows // seq_len",
            ),
            Idea(
                "The last one joins",
                "Whoever finishes last weights the parts by exp(lse_j − lse) and adds them up: no second launch.",
                "if tl.atomic_add(done_ptr + tl.program_id(1), 1, sem=\"acq_rel\") == SPLITS - 1:",
            ),
        ),
        SPLIT,
    ),
)  # fmt: skip


def of(table: str) -> tuple[Fast, ...]:
    """The fast kernels of one of the benchmark's tables."""
    return tuple(kernel for kernel in KERNELS if kernel.table == table)
