"""Rung 7: warp specialization. One producer warp loads, eight consumer warps compute.

On rung 6 the warps that compute also request the next tiles, between two matmuls. Here one producer warp does only
that, with few registers, and runs ahead as long as there is space. Each place for a tile in shared memory has two
barriers: TMA sets "full", the readers set "empty". The consumer warps get the registers that the producer gave up. A
tile has 128 keys, not 64 as on rung 6. FlashAttention-3 (arXiv 2407.08608, section 3.1). It is written in Gluon, which
names warps, layouts and barriers.

For Hopper: float16 or bfloat16, head_dim 64 or 128, sm_scale > 0. Tiles of keys go from last to first, so the masked
tiles come first. The interpreter cannot run it; the rung "causal" does the same arithmetic.
"""

from __future__ import annotations

import torch
import triton
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)

from kernels.attention import LOG2_E, _Call
from kernels.rungs.shape import descriptor, hopper_refusal


@gluon.jit
def _tile(sizes, BLOCK_M: gl.constexpr, BLOCK_N: gl.constexpr, CAUSAL: gl.constexpr):
    """What this program computes: (batch, head, kv head, first row, tiles of keys)."""
    heads, group, _seq_len, kv_len, diagonal, _scale = sizes
    head = gl.program_id(1)
    row = gl.program_id(0) * BLOCK_M
    keys = kv_len
    if CAUSAL:
        keys = gl.minimum(kv_len, gl.maximum(row + BLOCK_M + diagonal, 1))
    return head // heads, head % heads, head % heads // group, row, gl.cdiv(keys, BLOCK_N)


@gluon.jit
def _fetch(
    descs, places, barriers, sizes, BLOCK_N: gl.constexpr, STAGES: gl.constexpr, CAUSAL: gl.constexpr,
):  # fmt: skip
    q_desc, k_desc, v_desc, _o_desc = descs
    q_s, k_s, v_s, _o_s = places
    q_full, k_full, k_empty, v_full, v_empty = barriers
    batch, head, kv_head, row, tiles = _tile(sizes, 128, BLOCK_N, CAUSAL)
    mbarrier.expect(q_full, q_desc.block_type.nbytes)
    tma.async_copy_global_to_shared(q_desc, [batch, head, row, 0], q_full, q_s)
    for j in range(tiles):
        place = j % STAGES
        phase = j // STAGES & 1
        col = (tiles - 1 - j) * BLOCK_N
        mbarrier.wait(k_empty.index(place), phase ^ 1)
        mbarrier.expect(k_full.index(place), k_desc.block_type.nbytes)
        tma.async_copy_global_to_shared(k_desc, [batch, kv_head, col, 0], k_full.index(place), k_s.index(place))
        mbarrier.wait(v_empty.index(place), phase ^ 1)
        mbarrier.expect(v_full.index(place), v_desc.block_type.nbytes)
        tma.async_copy_global_to_shared(v_desc, [batch, kv_head, col, 0], v_full.index(place), v_s.index(place))


@gluon.jit
def _compute(
    descs, lse_ptr, places, barriers, sizes,
    HEAD_DIM: gl.constexpr, BLOCK_N: gl.constexpr, STAGES: gl.constexpr, CAUSAL: gl.constexpr,
):  # fmt: skip
    q_desc, _k_desc, _v_desc, o_desc = descs
    q_s, k_s, v_s, o_s = places
    q_full, k_full, k_empty, v_full, v_empty = barriers
    heads, _group, seq_len, kv_len, diagonal, scale_log2 = sizes
    S_LAYOUT: gl.constexpr = gl.NVMMADistributedLayout(
        version=[3, 0], warps_per_cta=[8, 1], instr_shape=[16, BLOCK_N, 16]
    )
    O_LAYOUT: gl.constexpr = gl.NVMMADistributedLayout(
        version=[3, 0], warps_per_cta=[8, 1], instr_shape=[16, HEAD_DIM, 16]
    )
    P_LAYOUT: gl.constexpr = gl.DotOperandLayout(operand_index=0, parent=O_LAYOUT, k_width=2)
    dtype: gl.constexpr = q_desc.dtype
    rows = gl.arange(0, 128, layout=gl.SliceLayout(1, S_LAYOUT))
    cols = gl.arange(0, BLOCK_N, layout=gl.SliceLayout(0, S_LAYOUT))
    batch, head, _kv_head, row, tiles = _tile(sizes, 128, BLOCK_N, CAUSAL)
    whole = kv_len  # every row sees the keys before it
    if CAUSAL:
        whole = gl.minimum(kv_len, row + diagonal + 1)
    m_i = gl.full([128], -float("inf"), gl.float32, gl.SliceLayout(1, S_LAYOUT))
    l_i = gl.zeros([128], gl.float32, gl.SliceLayout(1, S_LAYOUT))
    o = gl.zeros([128, HEAD_DIM], gl.float32, O_LAYOUT)
    mbarrier.wait(q_full, 0)
    q = q_s.reshape([128, HEAD_DIM])
    for j in range(tiles):
        place = j % STAGES
        phase = j // STAGES & 1
        col = (tiles - 1 - j) * BLOCK_N
        # S = Q Kᵀ
        mbarrier.wait(k_full.index(place), phase)
        k = k_s.index(place).reshape([BLOCK_N, HEAD_DIM])
        s = gl.zeros([128, BLOCK_N], gl.float32, S_LAYOUT)
        s = warpgroup_mma(q, k.permute((1, 0)), s, use_acc=False, is_async=True)
        s = warpgroup_mma_wait(0, deps=(s,))
        mbarrier.arrive(k_empty.index(place), count=1)
        if col + BLOCK_N > whole:
            s = _masked(s, rows + row, cols + col, kv_len, diagonal, CAUSAL)
        # m_new = max(m, rowmax S),  α = 2^((m − m_new) · scale · log2 e)
        m_new = gl.maximum(m_i, gl.max(s, axis=1))
        m_safe = gl.where(m_new == -float("inf"), 0.0, m_new) * scale_log2
        alpha = gl.exp2(m_i * scale_log2 - m_safe)
        # P̃ = 2^((S − m_new) · scale · log2 e),  l = α l + rowsum P̃
        p = gl.exp2(s * scale_log2 - m_safe[:, None])
        l_i = l_i * alpha + gl.sum(p, axis=1)
        m_i = m_new
        p = gl.convert_layout(p.to(dtype), P_LAYOUT)
        # Õ = α Õ + P̃ V
        o = o * gl.convert_layout(alpha, gl.SliceLayout(1, O_LAYOUT))[:, None]
        mbarrier.wait(v_full.index(place), phase)
        o = warpgroup_mma(p, v_s.index(place).reshape([BLOCK_N, HEAD_DIM]), o, is_async=True)
        o = warpgroup_mma_wait(0, deps=(o,))
        mbarrier.arrive(v_empty.index(place), count=1)
    # lse = m · scale + ln l,  O = Õ / l
    lse = (m_i * scale_log2 + gl.log2(l_i)) * 0.6931471805599453
    lse_ptrs = lse_ptr + (batch * heads + head).to(gl.int64) * seq_len + row + rows
    gl.store(lse_ptrs, lse, mask=row + rows < seq_len)
    inverse = gl.where(m_i == -float("inf"), 0.0, 1.0 / l_i)
    o = o * gl.convert_layout(inverse, gl.SliceLayout(1, O_LAYOUT))[:, None]
    o_s.reshape([128, HEAD_DIM]).store(o.to(dtype))
    fence_async_shared()
    tma.async_copy_shared_to_global(o_desc, [batch, head, row, 0], o_s)
    tma.store_wait(0)


@gluon.jit
def _masked(s, rows, cols, kv_len, diagonal, CAUSAL: gl.constexpr):
    seen = (cols < kv_len)[None, :]
    if CAUSAL:
        seen = seen & (cols[None, :] <= rows[:, None] + diagonal)
    return gl.where(seen, s, -float("inf"))


@gluon.jit
def attention_kernel(
    q_desc, k_desc, v_desc, o_desc, lse_ptr, heads, group, seq_len, kv_len, diagonal, scale_log2,
    HEAD_DIM: gl.constexpr, BLOCK_N: gl.constexpr, STAGES: gl.constexpr, CAUSAL: gl.constexpr,
):  # fmt: skip
    q_s = gl.allocate_shared_memory(q_desc.dtype, [1, 1, 128, HEAD_DIM], q_desc.layout)
    k_s = gl.allocate_shared_memory(k_desc.dtype, [STAGES, 1, 1, BLOCK_N, HEAD_DIM], k_desc.layout)
    v_s = gl.allocate_shared_memory(v_desc.dtype, [STAGES, 1, 1, BLOCK_N, HEAD_DIM], v_desc.layout)
    o_s = gl.allocate_shared_memory(o_desc.dtype, [1, 1, 128, HEAD_DIM], o_desc.layout)
    q_full = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    k_full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    k_empty = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    v_full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    v_empty = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    mbarrier.init(q_full, count=1)
    for i in gl.static_range(STAGES):
        mbarrier.init(k_full.index(i), count=1)
        mbarrier.init(k_empty.index(i), count=1)
        mbarrier.init(v_full.index(i), count=1)
        mbarrier.init(v_empty.index(i), count=1)
    fence_async_shared()
    descs = (q_desc, k_desc, v_desc, o_desc)
    places = (q_s, k_s, v_s, o_s)
    barriers = (q_full, k_full, k_empty, v_full, v_empty)
    sizes = (heads, group, seq_len, kv_len, diagonal, scale_log2)
    gl.warp_specialize(
        [
            (_compute, (descs, lse_ptr, places, barriers, sizes, HEAD_DIM, BLOCK_N, STAGES, CAUSAL)),
            (_fetch, (descs, places, barriers, sizes, BLOCK_N, STAGES, CAUSAL)),
        ],
        [1], [24],
    )  # fmt: skip


def attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: bool = False,
    sm_scale: float | None = None,
    block_n: int = 128,
    stages: int = 2,
) -> tuple[torch.Tensor, torch.Tensor]:
    """O in q's dtype, lse in float32. Raises ValueError, which names the argument that does not fit."""
    call = _Call.of(q, k, v, causal, sm_scale, None, 128, block_n)
    if refused := hopper_refusal(q, k, v, call.sm_scale):
        raise ValueError(refused)
    o = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    lse = torch.empty(q.shape[:3], dtype=torch.float32, device=q.device)
    attention_kernel[(triton.cdiv(call.seq_len, 128), call.batch * call.heads)](
        descriptor(q, 128), descriptor(k, block_n), descriptor(v, block_n), descriptor(o, 128), lse,
        call.heads, call.group, call.seq_len, call.kv_len, call.diagonal, call.sm_scale * LOG2_E,
        HEAD_DIM=q.shape[3], BLOCK_N=block_n, STAGES=stages, CAUSAL=causal,
        num_warps=8, maxnreg=168,
    )  # fmt: skip
    return o, lse
