"""FlashAttention-2's algorithm 1 (T. Dao, arXiv 2307.08691), told line by line, beside the lines of the kernel that do it."""

from __future__ import annotations

KERNEL = "flash_attention"
ALGORITHM: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    (
        "1–2",
        "Cut Q, O and L into T_r tiles of B_r rows, K and V into T_c tiles of B_c rows.",
        ("grid = (triton.cdiv(call.seq_len, block_m), call.batch * call.heads)",),
    ),
    (
        "3",
        "For each tile of queries, i. Tiles are independent of each other, so each is a program of its own and they run at once.",
        ("rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M).to(tl.int64)",),
    ),
    (
        "4",
        "Fetch Q_i from HBM. It stays on chip until the program ends.",
        ("q = tl.load(q_ptr + rows[:, None] * stride_qm + dims[None, :] * stride_qd, mask=inside_q, other=0.0)",),
    ),
    (
        "5",
        "Begin with nothing seen: m = −∞, ℓ = 0, Õ = 0, all on chip.",
        (
            'm_i = tl.full((BLOCK_M,), -float("inf"), tl.float32)',
            "l_i = tl.zeros((BLOCK_M,), tl.float32)",
            "acc = tl.zeros((BLOCK_M, BLOCK_D), tl.float32)",
        ),
    ),
    ("6", "For each tile of keys, j, one after the other.", ("for start in range(0, end, BLOCK_N):",)),
    (
        "7",
        "Fetch K_j and V_j from HBM. The kernel fetches V_j only when it is about to use it.",
        (
            "k = tl.load(k_ptr + cols[:, None] * stride_kn + dims[None, :] * stride_kd, mask=inside_kv, other=0.0)",
            "v = tl.load(v_ptr + cols[:, None] * stride_vn + dims[None, :] * stride_vd, mask=inside_kv, other=0.0)",
        ),
    ),
    (
        "8",
        "A tile of scores. The paper leaves the scale 1/√d out, the kernel does not.",
        ('s = tl.dot(q, tl.trans(k), input_precision="ieee") * sm_scale',),
    ),
    (
        "9",
        "Move the maximum, take the exponentials against it, shrink the old sum and add the new terms.",
        (
            "m_new = tl.maximum(m_i, tl.max(s, axis=1))",
            "alpha = tl.exp(m_i - m_safe)",
            "p = tl.exp(s - m_safe[:, None])",
            "l_i = l_i * alpha + tl.sum(p, axis=1)",
        ),
    ),
    (
        "10",
        "Shrink the unfinished output by the same α, then add this tile's part.",
        ("acc = acc * alpha[:, None]", 'acc = acc + tl.dot(p.to(v.dtype), v, input_precision="ieee")'),
    ),
    ("11", "The next tile of keys.", ("m_i = m_new",)),
    (
        "12",
        "Divide by ℓ, once, now that it is the sum of the whole row.",
        ("o = acc / tl.where(l_i == 0.0, 1.0, l_i)[:, None]",),
    ),
    ("13", "The logsumexp of the row: all that the backward pass needs to make P again.", ("lse = m_i + tl.log(l_i)",)),
    (
        "14–15",
        "Write O_i and L_i to HBM, each once.",
        (
            "tl.store(o_ptr + rows[:, None] * stride_om + dims[None, :] * stride_od, o, mask=inside_q)",
            "tl.store(lse_ptr + rows * stride_lm, lse, mask=rows < seq_len)",
        ),
    ),
)
"""(the paper's line, what it does, the kernel's lines)"""
NOT_IN_THE_PAPER = (
    "Three things the kernel does and the algorithm does not say. `m_safe` stands in for a maximum of −∞, of a row that has seen no key, because −∞ − (−∞) is NaN. "
    "The masks hide what lies outside the tensors when N or d fills no whole tile. And under a causal mask a NaN in V must not reach the rows it is hidden from."
)
