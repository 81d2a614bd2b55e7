"""Attention of one query a head over a long cache of keys and values: what a model does for each token that it writes.

There is one row of scores a head, so nothing is reused: the limit is to read K and V once. Two ideas make that possible.
**Split the keys** (Flash-Decoding, Dao et al. 2023): heads are few, so each head's keys are shared among programs; each makes a softmax of its part, and
the parts are joined by the rule for pairs (m, l) in `merge.py`, each weighted by exp(lse_j − lse). **Keep the group together**
(grouped-query attention): the heads that share keys are the rows of one tile, so the keys are read once for all of them.

q (batch, heads, 1, head_dim), k and v (batch, kv_heads, kv_len, head_dim), any strides, float32, float16 or bfloat16, heads a multiple of kv_heads.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kernels.attention import LOG2_E, _Call
from kernels.gpu import shared_memory, sms


@triton.jit
def flash_decode_kernel(
    q_ptr, k_ptr, v_ptr, o_ptr, lse_ptr, part_o_ptr, part_lse_ptr, done_ptr,
    stride_qb, stride_qh, stride_qd, stride_kb, stride_kh, stride_kn, stride_kd,
    stride_vb, stride_vh, stride_vn, stride_vd, stride_ob, stride_oh, stride_od,
    kv_heads, kv_len, scale_log2,
    GROUP: tl.constexpr, HEAD_DIM: tl.constexpr, SPLITS: tl.constexpr,
    BLOCK_G: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_S: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    # One program: the GROUP query heads of one kv head, on one of SPLITS parts of its keys. BLOCK_G ≥ GROUP rows, BLOCK_S ≥ SPLITS.
    split = tl.program_id(0)
    batch = (tl.program_id(1) // kv_heads).to(tl.int64)
    kv_head = (tl.program_id(1) % kv_heads).to(tl.int64)
    rows = tl.arange(0, BLOCK_G)
    dims = tl.arange(0, BLOCK_D)
    heads = kv_head * GROUP + rows
    inside_q = (rows < GROUP)[:, None] & (dims < HEAD_DIM)[None, :]
    q = tl.load(
        q_ptr + batch * stride_qb + heads[:, None] * stride_qh + dims[None, :] * stride_qd, mask=inside_q, other=0.0
    )
    k_ptr += batch * stride_kb + kv_head * stride_kh
    v_ptr += batch * stride_vb + kv_head * stride_vh
    m_i = tl.full((BLOCK_G,), -float("inf"), tl.float32)
    l_i = tl.zeros((BLOCK_G,), tl.float32)
    acc = tl.zeros((BLOCK_G, BLOCK_D), tl.float32)
    # the tiles are shared evenly: no part has more than one tile more than another
    tiles = tl.cdiv(kv_len, BLOCK_N)
    for tile in tl.range(split * tiles // SPLITS, (split + 1) * tiles // SPLITS, num_stages=STAGES):
        cols = tile * BLOCK_N + tl.arange(0, BLOCK_N)
        inside = (cols < kv_len)[:, None] & (dims < HEAD_DIM)[None, :]
        far = cols.to(tl.int64)[:, None]
        k = tl.load(k_ptr + far * stride_kn + dims[None, :] * stride_kd, mask=inside, other=0.0)
        v = tl.load(v_ptr + far * stride_vn + dims[None, :] * stride_vd, mask=inside, other=0.0)
        # S = Q Kᵀ · sm_scale · log2 e                                              (BLOCK_G, BLOCK_N)
        s = tl.dot(q, tl.trans(k), input_precision="ieee") * scale_log2
        s = tl.where((cols < kv_len)[None, :], s, -float("inf"))
        # m_new = max(m, rowmax S),  α = 2^(m − m_new)                              (BLOCK_G,)
        m_new = tl.maximum(m_i, tl.max(s, axis=1))
        m_safe = tl.where(m_new == -float("inf"), 0.0, m_new)  # nothing but −inf yet: −inf − −inf would be NaN
        alpha = tl.exp2(m_i - m_safe)
        # P̃ = 2^(S − m_new)                                                         (BLOCK_G, BLOCK_N)
        p = tl.exp2(s - m_safe[:, None])
        # l = α l + rowsum P̃,  O = α O + P̃ V                                        (BLOCK_G,)  (BLOCK_G, BLOCK_D)
        l_i = l_i * alpha + tl.sum(p, axis=1)
        acc = tl.dot(p.to(v.dtype), v, acc * alpha[:, None], input_precision="ieee")
        m_i = m_new
    # this part's O and lse, base 2
    part = tl.program_id(1).to(tl.int64) * SPLITS
    own = (part + split) * BLOCK_G + rows
    tl.store(part_o_ptr + own[:, None] * BLOCK_D + dims[None, :], acc / tl.where(l_i == 0.0, 1.0, l_i)[:, None])
    tl.store(part_lse_ptr + own, m_i + tl.log2(l_i))
    tl.debug_barrier()  # every thread's part is written before one thread says so
    if tl.atomic_add(done_ptr + tl.program_id(1), 1, sem="acq_rel") == SPLITS - 1:
        # The last to finish joins the parts: lse = log Σ exp lse_j,  O = Σ exp(lse_j − lse) O_j
        splits = tl.arange(0, BLOCK_S)
        others = (part + splits)[:, None] * BLOCK_G + rows[None, :]
        lse_j = tl.load(
            part_lse_ptr + others, mask=(splits < SPLITS)[:, None], other=-float("inf"), cache_modifier=".cg"
        )
        m_i = tl.max(lse_j, axis=0)
        m_safe = tl.where(m_i == -float("inf"), 0.0, m_i)
        l_i = tl.sum(tl.exp2(lse_j - m_safe[None, :]), axis=0)
        lse = tl.where(l_i == 0.0, -float("inf"), m_safe + tl.log2(l_i))
        lse_safe = tl.where(lse == -float("inf"), 0.0, lse)
        acc = tl.zeros((BLOCK_G, BLOCK_D), tl.float32)
        for j in tl.range(0, SPLITS, loop_unroll_factor=4):
            other = (part + j) * BLOCK_G + rows
            weight = tl.exp2(tl.load(part_lse_ptr + other, cache_modifier=".cg") - lse_safe)
            o_j = tl.load(part_o_ptr + other[:, None] * BLOCK_D + dims[None, :], cache_modifier=".cg")
            acc += weight[:, None] * o_j
        o_ptrs = o_ptr + batch * stride_ob + heads[:, None] * stride_oh + dims[None, :] * stride_od
        tl.store(o_ptrs, acc.to(o_ptr.dtype.element_ty), mask=inside_q)
        tl.store(lse_ptr + batch * kv_heads * GROUP + heads, lse * 0.6931471805599453, mask=rows < GROUP)  # ln 2


def flash_decode(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    sm_scale: float | None = None,
    splits: int | None = None,
    block_n: int | None = None,
    warps: int = 4,
    stages: int = 3,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Attention of one query a head over all keys, each head's keys shared among `splits` programs.

    Returns O (batch, heads, 1, head_dim) in the dtype of q, and lse (batch, heads, 1), natural logarithm, float32.
    Raises ValueError naming the argument that does not fit.
    """
    if block_n is None:
        block_n = _keys_that_fit(q, stages)
    call = _Call.of(q, k, v, False, sm_scale, None, 16, block_n)
    if call.seq_len != 1:
        raise ValueError(f"q has {call.seq_len} queries a head: decoding takes 1")
    pairs = call.batch * call.kv_heads
    if splits is None:
        splits = max(1, min(128, sms(q) // pairs))
    if not 1 <= splits <= 1024:
        raise ValueError(f"splits={splits}: from 1 to 1024")
    splits = min(splits, triton.cdiv(call.kv_len, block_n))
    block_g, block_d = max(16, triton.next_power_of_2(call.group)), call.constants["BLOCK_D"]
    o = torch.empty_like(q)
    lse = torch.empty(q.shape[:3], dtype=torch.float32, device=q.device)
    part_o = torch.empty((pairs, splits, block_g, block_d), dtype=torch.float32, device=q.device)
    part_lse = torch.empty((pairs, splits, block_g), dtype=torch.float32, device=q.device)
    done = torch.zeros(pairs, dtype=torch.int32, device=q.device)
    flash_decode_kernel[(splits, pairs)](
        q, k, v, o, lse, part_o, part_lse, done,
        q.stride(0), q.stride(1), q.stride(3), *k.stride(), *v.stride(), o.stride(0), o.stride(1), o.stride(3),
        call.kv_heads, call.kv_len, call.sm_scale * LOG2_E,
        GROUP=call.group, HEAD_DIM=q.shape[3], SPLITS=splits, BLOCK_G=block_g, BLOCK_D=block_d, BLOCK_N=block_n,
        BLOCK_S=triton.next_power_of_2(splits), STAGES=stages, num_warps=warps,
    )  # fmt: skip
    return o, lse


def _keys_that_fit(q: torch.Tensor, stages: int) -> int:
    """Keys a tile: 32 KiB of K, so that enough bytes are on their way, or as many as shared memory has room for in so many stages of K and V."""
    row = triton.next_power_of_2(q.shape[-1]) * q.element_size()
    keys = min(2**15, shared_memory(q) // (2 * stages)) // row
    return max(16, min(256, 2 ** keys.bit_length() // 2))
