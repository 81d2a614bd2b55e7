"""Why the other fast kernels are fast: the ideas of each in order, and each idea's source line.

Attention's forward pass has its rungs instead. Imports neither streamlit nor torch: sources are read from the files.
"""

from __future__ import annotations

from dataclasses import dataclass

from explain.chapters.speed.rungs import Twin
from explain.source import functions


@dataclass(frozen=True)
class Idea:
    """One idea: its name, a sentence or two, and the source line that does it."""

    name: str
    sentence: str
    line: str


@dataclass(frozen=True)
class Fast:
    """A fast kernel: the call that the benchmark names, its module, the functions that run on the GPU, and its ideas.

    `below` is a readable kernel, (module, function), to compare the source of `shown[0]` with.
    """

    call: str
    table: str
    title: str
    module: str
    shown: tuple[str, ...]
    ideas: tuple[Idea, ...]
    twin: Twin | None = None
    below: tuple[str, str] | None = None

    @property
    def file(self) -> str:
        """The source's path in the project."""
        return functions.file_of(self.module)

    @property
    def source(self) -> str:
        """The functions that run on the GPU, one after the other."""
        return functions.functions_source(self.module, self.shown)

    @property
    def gluon(self) -> bool:
        """Whether it is written in Gluon, which Triton's interpreter cannot run."""
        return "@gluon.jit" in self.source

    @property
    def difference(self) -> str:
        """The source marked as a diff from the readable kernel's; empty where there is none to compare with."""
        if not self.below:
            return ""
        return functions.marked(
            functions.function_source(*self.below), functions.function_source(self.module, self.shown[0])
        )

    def line_number(self, idea: Idea) -> int:
        """Where the idea's line is in the file, from 1. Raises ValueError if no function shown has it."""
        return functions.line_number(self.module, idea.line, self.shown)


SPLIT = Twin(
    "online_softmax", "Online softmax merges the parts of a row, step by step →", {"walk": "Tiles in parallel"}
)

KERNELS: tuple[Fast, ...] = (
    Fast(
        "flash_attention_backward", "backward", "FlashAttention-2, backward", "kernels.attention_backward",
        ("attention_backward_keys_kernel", "_queries_over_keys", "attention_backward_queries_kernel"),
        (
            Idea(
                "P from lse",
                "P is not read from memory: one exponential recomputes it from the logsumexp L that the forward "
                "pass stored. No maximum is needed.",
                "p = tl.exp2(s - lse2[None, :])",
            ),
            Idea(
                "Keep a tile of keys",
                "dK and dV are sums over queries. A program keeps a tile of keys and both sums on chip and loops "
                "over the queries.",
                "dv = tl.dot(p.to(do.dtype), do, dv, input_precision=\"ieee\")",
            ),
            Idea(
                "One number per row",
                "D = rowsum(dO ∘ O) is computed once, before. The gradient of the softmax is then one subtraction "
                "and one multiplication.",
                "ds = (p * (dp - delta[None, :])).to(q.dtype)",
            ),
            Idea(
                "Longest tiles first, a few heads at a time",
                "With a causal mask the first keys have the most queries, so their tiles start first, for as many "
                "heads as fit a third of L2. One head at a time would leave SMs idle at the end; the queries of all "
                "heads together do not fit L2.",
                "of_all = tl.program_id(1) * at_once + tl.program_id(0) % at_once",
            ),
            Idea(
                "Mask only the tiles that the mask cuts",
                "One loop goes over all queries and compares only in the tiles that the mask cuts. A second loop "
                "for them would need more registers.",
                "if CAUSAL and row < whole:",
            ),
            Idea(
                "Recompute instead of atomics",
                "dQ is a sum over keys, which are spread over programs. This kernel recomputes S and dP with "
                "queries outside; the alternative is to add parts in HBM with atomics.",
                "dq = tl.dot(ds, k, dq, input_precision=\"ieee\")",
            ),
        ),
    ),
    Fast(
        "softmax_rows", "softmax", "Whole rows on chip", "kernels.softmax_fast", ("softmax_rows_kernel",),
        (
            Idea(
                "Several rows per program",
                "A short row leaves lanes idle, so a program takes several rows at once. If a row lies within one "
                "warp, its maximum needs no barrier.",
                "m_i = tl.max(x, axis=1)",
            ),
            Idea(
                "Whole vectors, wherever a row starts",
                "A thread loads 16 bytes at once only from a multiple of 16 bytes. So columns are counted from the "
                "last such boundary before the row, and elements of a neighbouring row are set to −∞.",
                "x_row = x_ptr + rows * stride_xm // VECTOR * VECTOR",
            ),
            Idea(
                "One division per row",
                "The reciprocal of the sum is computed once per row. Each element then costs one multiplication.",
                "y = (p * inverse[:, None]).to(y_ptr.dtype.element_ty)",
            ),
        ),
        Twin("triton_ladder", "The Triton ladder steps through the same on one row →", {"rung": "Whole row"}),
        ("kernels.softmax", "softmax_row_kernel"),
    ),
    Fast(
        "softmax_staged", "softmax", "A row in shared memory", "kernels.softmax_staged",
        ("softmax_staged_kernel", "_in_whole_vector"),
        (
            Idea(
                "Asynchronous copy",
                "The row goes to shared memory without passing through registers, and stays there at 16 bits per "
                "element.",
                "async_copy.async_copy_global_to_shared(x_s.index(i), x_ptr + i * TILE + lanes, mask=vector < hi)",
            ),
            Idea(
                "A maximum per lane",
                "Each lane first finds the maximum of its own elements. The lanes are reduced once, at the end.",
                "m_lane = gl.maximum(m_lane, x_s.index(i).load(LAYOUT).to(gl.float32))",
            ),
            Idea(
                "Compute the exponential twice",
                "Keeping the exponentials would need the registers that were saved, so they are recomputed. This "
                "kernel has arithmetic to spare.",
                "y = gl.exp2(x_s.index(i).load(LAYOUT).to(gl.float32) * log2_e - m_i) * inverse",
            ),
        ),
        Twin(
            "triton_ladder", "The Triton ladder steps through the same three passes, with the row in HBM →",
            {"rung": "Three passes"},
        ),
    ),
    Fast(
        "softmax_pipelined", "softmax", "Load the next row while this one is computed", "kernels.softmax_fast",
        ("softmax_pipelined_kernel",),
        (
            Idea(
                "A loop over rows",
                "A program takes one row after another, and loads the next one while it computes this one.",
                "for row in tl.range(tl.program_id(0), n_rows, tl.num_programs(0), num_stages=STAGES):",
            ),
            Idea(
                "Compute addresses once",
                "What is the same for every row is computed before the loop. A row then costs one addition.",
                "x_ptrs = x_ptr + cols.to(tl.int64) * stride_xn",
            ),
        ),
        Twin("triton_ladder", "The Triton ladder steps through the same on one row →", {"rung": "Whole row"}),
        ("kernels.softmax_fast", "softmax_rows_kernel"),
    ),
    Fast(
        "softmax_shared_row", "softmax", "One row shared by several programs", "kernels.softmax_fast",
        ("softmax_shared_row_kernel", "_joined", "_packed"),
        (
            Idea(
                "One part per program",
                "A row that is too long for one SM is split over several programs. Each reads its part once and "
                "keeps it.",
                "p = tl.exp(x - m_safe)",
            ),
            Idea(
                "Publish one 64-bit word",
                "A part's (m, ℓ) is stored as one 64-bit word, so other programs see both numbers or neither.",
                "tl.atomic_xchg(pairs_ptr + part, _packed(m_j, l_j), sem=\"relaxed\")",
            ),
            Idea(
                "Merge the pairs",
                "Each program merges all parts' (m, ℓ) by the rule of online softmax, and rescales its own part.",
                "l_i = tl.sum(l_j * tl.exp(m_j - m_i), axis=0)",
            ),
        ),
        SPLIT,
    ),
    Fast(
        "softmax_two_reads", "softmax", "The second read comes from L2", "kernels.softmax_fast",
        ("softmax_two_reads_kernel", "_joined", "_packed"),
        (
            Idea(
                "Keep the tile in L2",
                "A tile's first read asks L2 to keep it.",
                "x = _load(x_ptrs, cols, lo, lo + n_cols, inside, VECTOR, \"evict_last\")",
            ),
            Idea(
                "Read it again soon",
                "A program reads one tile for the first time and an earlier one for the second time, while L2 still "
                "has it.",
                "tile -= apart",
            ),
            Idea(
                "Wait only for earlier programs",
                "The row's (m, ℓ) pairs come from programs that started earlier, so there is no deadlock.",
                "m_i, l_i = _joined(pairs_ptr + row * n_parts, tl.arange(0, PARTS), n_parts)",
            ),
        ),
        SPLIT,
    ),
    Fast(
        "softmax_topk_lanes", "topk", "A list per lane", "kernels.topk_fast", ("softmax_topk_lanes_kernel", "_place"),
        (
            Idea(
                "No communication between lanes",
                "Each lane runs online softmax on its own columns. Lanes exchange nothing until the row ends.",
                "l_i = tl.where(larger, l_i * e + 1.0, l_i + e)",
            ),
            Idea(
                "One exponential per element",
                "exp(−|x − m|) is α if x is the new maximum, and p otherwise. One exponential serves both.",
                "e = tl.exp(-tl.abs(x - tl.maximum(m_i, -3.4028234663852886e38)))  # −inf − −inf would be NaN",
            ),
            Idea(
                "K lanes hold the K largest",
                "The K largest elements are in the K lanes with the largest maxima, so only these lanes' elements "
                "are read again.",
                "cols = kept[:, None] + tl.arange(0, BLOCK_T)[None, :] * BLOCK_N",
            ),
        ),
        Twin("online_softmax", "Online softmax steps through top-k, a list per tile →", {"walk": "With top-k"}),
    ),
    Fast(
        "flash_decode", "decode", "Split the keys of few queries", "kernels.decode", ("flash_decode_kernel",),
        (
            Idea(
                "Split the keys",
                "A few queries per head give too few programs, so each head's keys are split evenly over several "
                "programs.",
                "for tile in tl.range(split * tiles // SPLITS, (split + 1) * tiles // SPLITS, num_stages=STAGES):",
            ),
            Idea(
                "Keep grouped heads together",
                "Heads that share K and V are the rows of one tile, so K and V are read once for all of them.",
                "heads = kv_head * group + rows // seq_len",
            ),
            Idea(
                "The last program merges",
                "The program that finishes last scales each part by exp(L_j − L) and adds them up. No second launch "
                "is needed.",
                "if tl.atomic_add(done_ptr + tl.program_id(1), 1, sem=\"acq_rel\") == SPLITS - 1:",
            ),
        ),
        SPLIT,
    ),
)  # fmt: skip


def of(table: str) -> tuple[Fast, ...]:
    """The fast kernels of one table of the benchmark."""
    return tuple(kernel for kernel in KERNELS if kernel.table == table)
