"""FlashAttention-2's algorithm 1 (T. Dao, arXiv 2307.08691), line by line, with the kernel's lines for each."""

from __future__ import annotations

import re
from collections.abc import Iterable

from explain.trace.model import Trace

ALGORITHM: tuple[tuple[str, str, str, tuple[str, ...]], ...] = (
    (
        "1–2",
        "Divide Q, O and L into T_r tiles of B_r rows, and K and V into T_c tiles of B_c rows.",
        "",
        ("grid = (triton.cdiv(call.seq_len, block_m), call.batch * call.heads)",),
    ),
    (
        "3",
        "For each tile of queries, i. The tiles are independent, so each is one program, and they run in parallel.",
        "",
        ("rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M).to(tl.int64)",),
    ),
    (
        "4",
        "Load Q_i from HBM. It stays on chip until the program ends.",
        "Q",
        ("q = tl.load(q_ptr + rows[:, None] * stride_qm + dims[None, :] * stride_qd, mask=inside_q, other=0.0)",),
    ),
    (
        "5",
        "Start with m = −∞, ℓ = 0 and Õ = 0, all on chip.",
        "m ℓ Õ",
        (
            'm_i = tl.full((BLOCK_M,), -float("inf"), tl.float32)',
            "l_i = tl.zeros((BLOCK_M,), tl.float32)",
            "acc = tl.zeros((BLOCK_M, BLOCK_D), tl.float32)",
        ),
    ),
    ("6", "For each tile of keys, j, in order.", "", ("for start in range(0, end, BLOCK_N):",)),
    (
        "7",
        "Load K_j and V_j from HBM. The kernel loads V_j later, just before it needs it.",
        "K V",
        (
            "k = tl.load(k_ptr + cols[:, None] * stride_kn + dims[None, :] * stride_kd, mask=inside_kv, other=0.0)",
            "v = tl.load(v_ptr + cols[:, None] * stride_vn + dims[None, :] * stride_vd, mask=inside_kv, other=0.0)",
        ),
    ),
    (
        "8",
        "Compute a tile of scores. The kernel includes the scale 1/√d, which the paper leaves out.",
        "S",
        ('s = tl.dot(q, tl.trans(k), input_precision="ieee") * sm_scale',),
    ),
    (
        "9",
        "Update the running max, compute P̃ = exp(S − m), rescale the running sum by α and add the new terms. "
        "`m_safe` is explained below.",
        "m α P̃ ℓ",
        (
            "m_new = tl.maximum(m_i, tl.max(s, axis=1))",
            'm_safe = tl.where(m_new == -float("inf"), 0.0, m_new)',
            "alpha = tl.exp(m_i - m_safe)",
            "p = tl.exp(s - m_safe[:, None])",
            "l_i = l_i * alpha + tl.sum(p, axis=1)",
        ),
    ),
    (
        "10",
        "Rescale the accumulator Õ by the same α, then add P̃V of this tile. The paper prints α⁻¹, a misprint "
        "(flash-attention issue 991).",
        "Õ",
        ("acc = acc * alpha[:, None]", 'acc = acc + tl.dot(p.to(v.dtype), v, input_precision="ieee")'),
    ),
    ("11", "Go on to the next tile of keys.", "m", ("m_i = m_new",)),
    (
        "12",
        "Divide by ℓ once. It is now the sum of the whole row.",
        "O",
        ("o = acc / tl.where(l_i == 0.0, 1.0, l_i)[:, None]",),
    ),
    (
        "13",
        "Compute the logsumexp of the row. The backward pass recomputes P from it.",
        "L",
        ("lse = m_i + tl.log(l_i)",),
    ),
    (
        "14–15",
        "Write O_i and L_i to HBM, once each.",
        "O L",
        (
            "tl.store(o_ptr + rows[:, None] * stride_om + dims[None, :] * stride_od, o, mask=inside_q)",
            "tl.store(lse_ptr + rows * stride_lm, lse, mask=rows < seq_len)",
        ),
    ),
)
"""(the paper's line, what it does, the quantities that it sets, the kernel's lines)"""
NOT_IN_THE_PAPER = (
    "**`m_safe`.** A row that has seen no key yet has m = −∞, and −∞ − (−∞) is NaN. So `m_safe` is 0 there.",
    "**Masks** (`inside_q`, `inside_kv`, `visible`) cover the parts of a tile outside the tensors, when N or d does "
    "not fill a whole tile.",
    "**`first_nan`.** A hidden key has P̃ = 0, but 0 · NaN is NaN. Under a causal mask, `first_nan` keeps a NaN in V "
    "from the rows that cannot see it.",
)
"""What the kernel does and the algorithm does not mention."""


def shortened(code: str) -> str:
    """A line without the addresses and options that take more room than they tell; … stands for them."""
    code = re.sub(
        r"(tl\.(?:load|store)\(\w+_ptr) \+ .*?, (\w+, )?mask=(.+?)(?:, other=0\.0)?\)$", r"\1 + …, \2mask=\3)", code
    )
    return code.replace('input_precision="ieee"', "…")


def steps(trace: Trace, lines: Iterable[int]) -> dict[int, int]:
    """For each of the kernel's `lines` a step that runs it: in the first program's second tile, if it has one."""
    wanted, program = set(lines), trace.program(0)
    found: dict[int, list[int]] = {}
    for step in range(program.first_step, program.first_step + program.steps):
        if trace.line(step) in wanted:
            found.setdefault(trace.line(step), []).append(step)
    return {line: ran[min(1, len(ran) - 1)] for line, ran in found.items()}
