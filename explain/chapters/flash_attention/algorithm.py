"""FlashAttention-2's algorithm 1 (T. Dao, arXiv 2307.08691), line by line, with the kernel's lines for each."""

from __future__ import annotations

ALGORITHM: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    (
        "1–2",
        "Divide Q, O and L into T_r tiles of B_r rows, and K and V into T_c tiles of B_c rows.",
        ("grid = (triton.cdiv(call.seq_len, block_m), call.batch * call.heads)",),
    ),
    (
        "3",
        "For each tile of queries, i. The tiles are independent, so each is one program, and they run in parallel.",
        ("rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M).to(tl.int64)",),
    ),
    (
        "4",
        "Load Q_i from HBM. It stays on chip until the program ends.",
        ("q = tl.load(q_ptr + rows[:, None] * stride_qm + dims[None, :] * stride_qd, mask=inside_q, other=0.0)",),
    ),
    (
        "5",
        "Start with m = −∞, ℓ = 0 and Õ = 0, all on chip.",
        (
            'm_i = tl.full((BLOCK_M,), -float("inf"), tl.float32)',
            "l_i = tl.zeros((BLOCK_M,), tl.float32)",
            "acc = tl.zeros((BLOCK_M, BLOCK_D), tl.float32)",
        ),
    ),
    ("6", "For each tile of keys, j, in order.", ("for start in range(0, end, BLOCK_N):",)),
    (
        "7",
        "Load K_j and V_j from HBM. The kernel loads V_j only just before it needs it.",
        (
            "k = tl.load(k_ptr + cols[:, None] * stride_kn + dims[None, :] * stride_kd, mask=inside_kv, other=0.0)",
            "v = tl.load(v_ptr + cols[:, None] * stride_vn + dims[None, :] * stride_vd, mask=inside_kv, other=0.0)",
        ),
    ),
    (
        "8",
        "Compute a tile of scores. The kernel includes the scale 1/√d, which the paper leaves out.",
        ('s = tl.dot(q, tl.trans(k), input_precision="ieee") * sm_scale',),
    ),
    (
        "9",
        "Update the running max, compute P̃ = exp(S − m), rescale the running sum by α and add the new terms. "
        "`m_safe` is explained below.",
        (
            "m_new = tl.maximum(m_i, tl.max(s, axis=1))",
            "alpha = tl.exp(m_i - m_safe)",
            "p = tl.exp(s - m_safe[:, None])",
            "l_i = l_i * alpha + tl.sum(p, axis=1)",
        ),
    ),
    (
        "10",
        "Rescale the accumulator Õ by the same α, then add P̃V of this tile.",
        ("acc = acc * alpha[:, None]", 'acc = acc + tl.dot(p.to(v.dtype), v, input_precision="ieee")'),
    ),
    ("11", "Go on to the next tile of keys.", ("m_i = m_new",)),
    (
        "12",
        "Divide by ℓ once. It is now the sum of the whole row.",
        ("o = acc / tl.where(l_i == 0.0, 1.0, l_i)[:, None]",),
    ),
    ("13", "Compute the logsumexp of the row. The backward pass recomputes P from it.", ("lse = m_i + tl.log(l_i)",)),
    (
        "14–15",
        "Write O_i and L_i to HBM, once each.",
        (
            "tl.store(o_ptr + rows[:, None] * stride_om + dims[None, :] * stride_od, o, mask=inside_q)",
            "tl.store(lse_ptr + rows * stride_lm, lse, mask=rows < seq_len)",
        ),
    ),
)
"""(the paper's line, what it does, the kernel's lines)"""
NOT_IN_THE_PAPER = (
    "The kernel does three things that the algorithm does not mention. `m_safe` replaces a maximum of −∞, of a row "
    "that has seen no key yet, because −∞ − (−∞) is NaN. Masks cover the parts of a tile outside the tensors, when N "
    "or d does not fill a whole tile. And under a causal mask, a NaN in V must not reach the rows that cannot see it."
)
