"""FlashAttention backward for wide heads on Hopper (sm_90) in Gluon: five matmuls, a group of warps for each gradient.

In `attention_backward_hopper.py` a thread holds parts of dK and of dV. Beside dK and dV of 128 keys and more than 128
features it would have no registers for S. So a program has 64 keys here, and each consumer warpgroup owns a gradient:

    values    Sᵀ = K Qᵀ        Pᵀ = 2^(Sᵀ · scale · log2 e − lse)    dV = dV + Pᵀ dO
    keys      dPᵀ = V dOᵀ      dSᵀ = Pᵀ ∘ (dPᵀ − D)                  dK = dK + dSᵀ Q
    queries                                                          dQ = dQ + dS K, in HBM

Pᵀ and dSᵀ are operands in registers for their own group, and go on by shared memory, in the 16 bits of the tensors. A
group starts the sum of one tile and the scores of the next together, so that the tensor cores have work while another
group computes exponentials. With more than 192 features shared memory has room for one tile of dO, else for two.

On an H200 without a mask: 2×16×4096×256 2996 µs, 2516 if dQ is not added, 2072 if it is not computed (cuDNN 3401);
3×32×2048×192 1767, 1600, 1126 (2476). Tried and left out: S of the next tile started before dV of this one (up to 8%
slower at 192 features), one place for dQ's parts (7–16% slower at 256), three (within 1%), a part of dQ started before
the last one is stored (within 2%). With parts of 128 features registers spill. The times are in
`benchmarks/results/tuning/backward-wide.json`.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import triton
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import fence_async_shared, mbarrier, tma, warpgroup_mma_wait
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

from kernels.attention import _Call
from kernels.attention_backward_hopper import _add_dq, _leave, _mine, _plus, _scores, _turns, _waited
from kernels.attention_backward_launches import ROWS, launches, refusal
from kernels.gpu import sms
from kernels.kept import Kept

WIDTH = 64
"""Features of a part of a head."""
ROUNDS = 40
"""Tiles of keys that a persistent program takes at most: 31 were faster than programs of their own, 107 slower."""


@gluon.jit
def _fetch(
    descs, places, barriers, sizes,
    PARTS: gl.constexpr, WIDTH: gl.constexpr, STAGES: gl.constexpr, DO_STAGES: gl.constexpr, CAUSAL: gl.constexpr,
    EARLY: gl.constexpr, LAUNCH: gl.constexpr, SPLIT: gl.constexpr, PERSISTENT: gl.constexpr, LATE: gl.constexpr,
):  # fmt: skip
    q_desc, k_desc, v_desc, do_desc, _dk_desc, _dv_desc, _dq_desc, lse2_desc, delta_desc, _pieces_ptr = descs
    q_s, k_s, v_s, do_s, _ds_s, _dq_s, lse2_s, delta_s, _p_s = places
    kept, _ds_full, _ds_empty, _done, q_full, q_empty, do_full, do_empty, _p_full, _p_empty, free = barriers
    kv_heads, group, padded = sizes[1], sizes[2], sizes[4]
    if EARLY:  # the next kernel starts too, and waits for this one
        gdc_launch_dependents()
    fetched = 0  # tiles of queries so far
    for taken in range(_turns(sizes, PERSISTENT)):
        batch, kv_head, first, start, end, _piece = _mine(taken, sizes, 1, CAUSAL, LAUNCH, SPLIT, PERSISTENT)
        mbarrier.wait(free.index(0), taken & 1 ^ 1)
        mbarrier.expect(kept.index(0), PARTS * k_desc.block_type.nbytes)
        for part in gl.static_range(PARTS):
            at = [batch, kv_head, first, part * WIDTH]
            tma.async_copy_global_to_shared(k_desc, at, kept.index(0), k_s.index(part))
        if EARLY and not LATE:
            gdc_wait()  # until lse and D are there, and what dQ is added to
        before = fetched
        for member in range(group):
            head = kv_head * group + member
            first_row = (batch * kv_heads * group + head) * padded
            for row in range(start, end, 64):
                place = fetched % STAGES
                mbarrier.wait(q_empty.index(place), fetched // STAGES & 1 ^ 1)
                mbarrier.expect(q_full.index(place), PARTS * q_desc.block_type.nbytes + lse2_desc.block_type.nbytes)
                tma.async_copy_global_to_shared(lse2_desc, [first_row + row], q_full.index(place), lse2_s.index(place))
                for part in gl.static_range(PARTS):
                    at = [batch, head, row, part * WIDTH]
                    tma.async_copy_global_to_shared(q_desc, at, q_full.index(place), q_s.index(place * PARTS + part))
                if fetched == before:
                    mbarrier.wait(free.index(1), taken & 1 ^ 1)
                    mbarrier.expect(kept.index(1), PARTS * v_desc.block_type.nbytes)
                    for part in gl.static_range(PARTS):
                        at = [batch, kv_head, first, part * WIDTH]
                        tma.async_copy_global_to_shared(v_desc, at, kept.index(1), v_s.index(part))
                place = fetched % DO_STAGES
                mbarrier.wait(do_empty.index(place), fetched // DO_STAGES & 1 ^ 1)
                mbarrier.expect(do_full.index(place), PARTS * do_desc.block_type.nbytes + delta_desc.block_type.nbytes)
                at = [first_row + row]
                tma.async_copy_global_to_shared(delta_desc, at, do_full.index(place), delta_s.index(place))
                for part in gl.static_range(PARTS):
                    at = [batch, head, row, part * WIDTH]
                    tma.async_copy_global_to_shared(do_desc, at, do_full.index(place), do_s.index(place * PARTS + part))
                fetched += 1


@gluon.jit
def _weights(
    s, turn, place, row, first, keys, queries, places, barriers, sizes,
    CAUSAL: gl.constexpr, EDGE: gl.constexpr, QUERY: gl.constexpr,
):  # fmt: skip
    """Pᵀ = 2^(Sᵀ · scale · log2 e − lse), in registers and in shared memory."""
    lse2_s, p_s = places[6], places[8]
    q_empty, p_full, p_empty = barriers[5], barriers[8], barriers[9]
    kv_len, diagonal, scale_log2 = sizes[5], sizes[6], sizes[8]
    lse2 = lse2_s.index(place).load(QUERY)
    mbarrier.arrive(q_empty.index(place), count=1)
    p = gl.exp2(s * scale_log2 - lse2[None, :])
    if CAUSAL and row + diagonal < first + 63:
        p = gl.where(keys[:, None] + (first - diagonal - row) <= queries[None, :], p, 0.0)
    if EDGE:  # a key outside has score 0: 2^(0 − lse) may be inf, and inf · 0 is NaN
        p = gl.where((keys < kv_len - first)[:, None], p, 0.0)
    p = p.to(p_s.dtype)
    mbarrier.wait(p_empty.index(0), turn & 1 ^ 1)
    p_s.index(0).store(p)
    mbarrier.arrive(p_full.index(0), count=1)
    return p


@gluon.jit
def _slopes(dp, turn, place, places, barriers, S_LAYOUT: gl.constexpr, QUERY: gl.constexpr):
    """dSᵀ = Pᵀ ∘ (dPᵀ − D), in registers and in shared memory."""
    ds_s, delta_s, p_s = places[4], places[7], places[8]
    ds_full, ds_empty, do_empty, p_full, p_empty = barriers[1], barriers[2], barriers[7], barriers[8], barriers[9]
    delta = delta_s.index(place).load(QUERY)
    mbarrier.arrive(do_empty.index(place), count=1)
    mbarrier.wait(p_full.index(0), turn & 1)
    p = p_s.index(0).load(S_LAYOUT)
    mbarrier.arrive(p_empty.index(0), count=1)
    ds = (p.to(gl.float32) * (dp - delta[None, :])).to(ds_s.dtype)
    mbarrier.wait(ds_empty.index(turn % 2), turn // 2 & 1 ^ 1)
    ds_s.index(turn % 2).store(ds)
    fence_async_shared()
    mbarrier.arrive(ds_full.index(turn % 2), count=1)
    return ds


@gluon.jit
def _values(
    descs, places, barriers, sizes,
    PARTS: gl.constexpr, WIDTH: gl.constexpr, STAGES: gl.constexpr, DO_STAGES: gl.constexpr, CAUSAL: gl.constexpr,
    EDGE: gl.constexpr, LAUNCH: gl.constexpr, SPLIT: gl.constexpr, PERSISTENT: gl.constexpr,
):  # fmt: skip
    q_desc, _k_desc, _v_desc, _do_desc, _dk_desc, dv_desc, _dq_desc, _lse2_desc, _delta_desc, pieces_ptr = descs
    q_s, k_s, v_s, do_s, _ds_s, _dq_s, _lse2_s, _delta_s, _p_s = places
    kept, _ds_full, _ds_empty, done, q_full, _q_empty, do_full, do_empty, _p_full, _p_empty, free = barriers
    group = sizes[2]
    S_LAYOUT: gl.constexpr = gl.NVMMADistributedLayout(version=[3, 0], warps_per_cta=[4, 1], instr_shape=[16, 64, 16])
    LAYOUT: gl.constexpr = gl.NVMMADistributedLayout(version=[3, 0], warps_per_cta=[4, 1], instr_shape=[16, WIDTH, 16])
    P_LAYOUT: gl.constexpr = gl.DotOperandLayout(operand_index=0, parent=LAYOUT, k_width=2)
    QUERY: gl.constexpr = gl.SliceLayout(0, S_LAYOUT)
    dtype: gl.constexpr = q_desc.dtype
    queries = gl.arange(0, 64, layout=QUERY)
    keys = gl.arange(0, 64, layout=gl.SliceLayout(1, S_LAYOUT))
    before = 0  # tiles of queries before this turn's
    for taken in range(_turns(sizes, PERSISTENT)):
        batch, kv_head, first, start, end, piece = _mine(taken, sizes, 1, CAUSAL, LAUNCH, SPLIT, PERSISTENT)
        dv = (gl.zeros([64, WIDTH], gl.float32, LAYOUT),) * PARTS
        mbarrier.wait(kept.index(0), taken & 1)
        tiles = gl.cdiv(gl.maximum(0, end - start), 64)  # of one head
        if tiles > 0:
            place = before % STAGES
            mbarrier.wait(q_full.index(place), before // STAGES & 1)
            s = _scores(k_s, 0, q_s, place, PARTS, WIDTH, S_LAYOUT)
            s = warpgroup_mma_wait(0, deps=(s,))
            p = _weights(s, before, place, start, first, keys, queries, places, barriers, sizes, CAUSAL, EDGE, QUERY)
            p = gl.convert_layout(p, P_LAYOUT)
            for turn in range(before + 1, before + group * tiles):
                place = turn % STAGES
                row = start + (turn - before) % tiles * 64
                last = (turn - 1) % DO_STAGES
                # dV = dV + Pᵀ dO of the tile before, and Sᵀ = K Qᵀ                            (64 keys, 64 queries)
                mbarrier.wait(do_full.index(last), (turn - 1) // DO_STAGES & 1)
                dv = _plus(dv, p, do_s, last, PARTS, WIDTH)
                mbarrier.wait(q_full.index(place), turn // STAGES & 1)
                s = _scores(k_s, 0, q_s, place, PARTS, WIDTH, S_LAYOUT)
                dv = _waited(dv, PARTS, PARTS)
                mbarrier.arrive(do_empty.index(last), count=1)
                s = warpgroup_mma_wait(0, deps=(s,))
                p = _weights(s, turn, place, row, first, keys, queries, places, barriers, sizes, CAUSAL, EDGE, QUERY)
                p = gl.convert_layout(p, P_LAYOUT)
            before += group * tiles
            last = before - 1
            mbarrier.wait(do_full.index(last % DO_STAGES), last // DO_STAGES & 1)
            dv = _plus(dv, p, do_s, last % DO_STAGES, PARTS, WIDTH)
            dv = _waited(dv, 0, PARTS)
            mbarrier.arrive(do_empty.index(last % DO_STAGES), count=1)
        mbarrier.arrive(done.index(0), count=1)  # K is read no longer here
        mbarrier.wait(done.index(1), taken & 1)
        if SPLIT and piece >= 0:
            _leave(pieces_ptr + (piece * 2 + 1) * (64 * PARTS * WIDTH), dv, PARTS, WIDTH, LAYOUT)
        else:
            for part in gl.static_range(PARTS):
                v_s.index(part).reshape([64, WIDTH]).store(dv[part].to(dtype))
            fence_async_shared()
            for part in gl.static_range(PARTS):
                tma.async_copy_shared_to_global(dv_desc, [batch, kv_head, first, part * WIDTH], v_s.index(part))
            tma.store_wait(0)
        mbarrier.arrive(free.index(1), count=1)


@gluon.jit
def _keys(
    descs, places, barriers, sizes,
    PARTS: gl.constexpr, WIDTH: gl.constexpr, STAGES: gl.constexpr, DO_STAGES: gl.constexpr, CAUSAL: gl.constexpr,
    LAUNCH: gl.constexpr, SPLIT: gl.constexpr, PERSISTENT: gl.constexpr,
):  # fmt: skip
    q_desc, _k_desc, _v_desc, _do_desc, dk_desc, _dv_desc, _dq_desc, _lse2_desc, _delta_desc, pieces_ptr = descs
    q_s, k_s, v_s, do_s, _ds_s, _dq_s, _lse2_s, _delta_s, _p_s = places
    kept, _ds_full, _ds_empty, done, q_full, q_empty, do_full, _do_empty, _p_full, _p_empty, free = barriers
    group, sm_scale = sizes[2], sizes[7]
    S_LAYOUT: gl.constexpr = gl.NVMMADistributedLayout(version=[3, 0], warps_per_cta=[4, 1], instr_shape=[16, 64, 16])
    LAYOUT: gl.constexpr = gl.NVMMADistributedLayout(version=[3, 0], warps_per_cta=[4, 1], instr_shape=[16, WIDTH, 16])
    P_LAYOUT: gl.constexpr = gl.DotOperandLayout(operand_index=0, parent=LAYOUT, k_width=2)
    QUERY: gl.constexpr = gl.SliceLayout(0, S_LAYOUT)
    dtype: gl.constexpr = q_desc.dtype
    before, seen = 0, 0  # tiles of queries before this turn's, and turns before whose keys a query sees
    for taken in range(_turns(sizes, PERSISTENT)):
        batch, kv_head, first, start, end, piece = _mine(taken, sizes, 1, CAUSAL, LAUNCH, SPLIT, PERSISTENT)
        dk = (gl.zeros([64, WIDTH], gl.float32, LAYOUT),) * PARTS
        tiles = gl.cdiv(gl.maximum(0, end - start), 64)  # of one head
        if tiles > 0:
            mbarrier.wait(kept.index(1), seen & 1)
            seen += 1
            place = before % DO_STAGES
            mbarrier.wait(do_full.index(place), before // DO_STAGES & 1)
            dp = _scores(v_s, 0, do_s, place, PARTS, WIDTH, S_LAYOUT)
            dp = warpgroup_mma_wait(0, deps=(dp,))
            ds = gl.convert_layout(_slopes(dp, before, place, places, barriers, S_LAYOUT, QUERY), P_LAYOUT)
            mbarrier.wait(q_full.index(before % STAGES), before // STAGES & 1)
            for turn in range(before + 1, before + group * tiles):
                place = turn % DO_STAGES
                last = (turn - 1) % STAGES
                # dK = dK + dSᵀ Q of the tile before, and dPᵀ = V dOᵀ                          (64 keys, 64 queries)
                dk = _plus(dk, ds, q_s, last, PARTS, WIDTH)
                mbarrier.wait(do_full.index(place), turn // DO_STAGES & 1)
                dp = _scores(v_s, 0, do_s, place, PARTS, WIDTH, S_LAYOUT)
                dk = _waited(dk, PARTS, PARTS)
                mbarrier.arrive(q_empty.index(last), count=1)
                dp = warpgroup_mma_wait(0, deps=(dp,))
                ds = gl.convert_layout(_slopes(dp, turn, place, places, barriers, S_LAYOUT, QUERY), P_LAYOUT)
                mbarrier.wait(q_full.index(turn % STAGES), turn // STAGES & 1)
            before += group * tiles
            last = before - 1
            dk = _plus(dk, ds, q_s, last % STAGES, PARTS, WIDTH)
            dk = _waited(dk, 0, PARTS)
            mbarrier.arrive(q_empty.index(last % STAGES), count=1)
        else:  # no V has come, so dV of the turn before may not be stored yet
            mbarrier.wait(free.index(1), taken & 1 ^ 1)
        mbarrier.arrive(done.index(1), count=1)  # V is read no longer
        mbarrier.wait(done.index(0), taken & 1)
        if SPLIT and piece >= 0:
            _leave(pieces_ptr + (piece * 2) * (64 * PARTS * WIDTH), dk, PARTS, WIDTH, LAYOUT)
        else:
            for part in gl.static_range(PARTS):
                k_s.index(part).reshape([64, WIDTH]).store((dk[part] * sm_scale).to(dtype))
            fence_async_shared()
            for part in gl.static_range(PARTS):
                tma.async_copy_shared_to_global(dk_desc, [batch, kv_head, first, part * WIDTH], k_s.index(part))
            tma.store_wait(0)
        mbarrier.arrive(free.index(0), count=1)


@gluon.jit(do_not_specialize_on_alignment=("columns", "whole", "pieces", "items"))
def attention_backward_wide_kernel(
    q_desc, k_desc, v_desc, do_desc, dk_desc, dv_desc, dq_desc, lse2_desc, delta_desc, pieces_ptr,
    at_once, kv_heads, group, seq_len, padded, kv_len, diagonal, sm_scale, scale_log2, columns, whole, pieces,
    items,
    PARTS: gl.constexpr, WIDTH: gl.constexpr, STAGES: gl.constexpr, DO_STAGES: gl.constexpr, CAUSAL: gl.constexpr,
    EDGE: gl.constexpr, EARLY: gl.constexpr, LAUNCH: gl.constexpr, SPLIT: gl.constexpr, REGISTERS: gl.constexpr,
    DQ_REGISTERS: gl.constexpr, PERSISTENT: gl.constexpr, LATE: gl.constexpr,
):  # fmt: skip
    # A head has PARTS parts of WIDTH features. EDGE: the last program has keys outside. EARLY, LAUNCH and SPLIT are as
    # in `attention_backward_hopper.py`. PERSISTENT: a program takes several items of work, one after the other. LATE:
    # only what adds to dQ waits for the launch before. Then lse and D are there: the programs of that launch, one to an
    # SM, had waited for them before the first of them left room for one of this launch.
    q_s = gl.allocate_shared_memory(q_desc.dtype, [STAGES * PARTS, 1, 1, 64, WIDTH], q_desc.layout)
    k_s = gl.allocate_shared_memory(q_desc.dtype, [PARTS, 1, 1, 64, WIDTH], k_desc.layout)
    v_s = gl.allocate_shared_memory(q_desc.dtype, [PARTS, 1, 1, 64, WIDTH], v_desc.layout)
    do_s = gl.allocate_shared_memory(q_desc.dtype, [DO_STAGES * PARTS, 1, 1, 64, WIDTH], do_desc.layout)
    DS_LAYOUT: gl.constexpr = gl.NVMMASharedLayout(swizzle_byte_width=128, element_bitwidth=16, rank=2)
    p_s = gl.allocate_shared_memory(q_desc.dtype, [1, 64, 64], DS_LAYOUT)
    ds_s = gl.allocate_shared_memory(q_desc.dtype, [2, 64, 64], DS_LAYOUT)
    dq_s = gl.allocate_shared_memory(gl.float32, [2, 1, 64, WIDTH], dq_desc.layout)
    lse2_s = gl.allocate_shared_memory(gl.float32, [STAGES, 64], lse2_desc.layout)
    delta_s = gl.allocate_shared_memory(gl.float32, [DO_STAGES, 64], delta_desc.layout)
    kept = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    q_full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    q_empty = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    do_full = gl.allocate_shared_memory(gl.int64, [DO_STAGES, 1], mbarrier.MBarrierLayout())
    do_empty = gl.allocate_shared_memory(gl.int64, [DO_STAGES, 1], mbarrier.MBarrierLayout())
    p_full = gl.allocate_shared_memory(gl.int64, [1, 1], mbarrier.MBarrierLayout())
    p_empty = gl.allocate_shared_memory(gl.int64, [1, 1], mbarrier.MBarrierLayout())
    ds_full = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    ds_empty = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    done = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    free = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    for i in gl.static_range(2):
        mbarrier.init(kept.index(i), count=1)
        mbarrier.init(ds_full.index(i), count=1)
        mbarrier.init(ds_empty.index(i), count=1)
        mbarrier.init(done.index(i), count=2 - i)
        mbarrier.init(free.index(i), count=1)
    mbarrier.init(p_full.index(0), count=1)
    mbarrier.init(p_empty.index(0), count=1)
    for i in gl.static_range(STAGES):
        mbarrier.init(q_full.index(i), count=1)
        mbarrier.init(q_empty.index(i), count=2)
    for i in gl.static_range(DO_STAGES):
        mbarrier.init(do_full.index(i), count=1)
        mbarrier.init(do_empty.index(i), count=2)
    fence_async_shared()
    descs = (q_desc, k_desc, v_desc, do_desc, dk_desc, dv_desc, dq_desc, lse2_desc, delta_desc, pieces_ptr)
    places = (q_s, k_s, v_s, do_s, ds_s, dq_s, lse2_s, delta_s, p_s)
    barriers = (kept, ds_full, ds_empty, done, q_full, q_empty, do_full, do_empty, p_full, p_empty, free)
    sizes = (
        at_once, kv_heads, group, seq_len, padded, kv_len, diagonal, sm_scale, scale_log2, columns, whole, pieces,
        items,
    )  # fmt: skip
    gl.warp_specialize(
        [
            (_values, (descs, places, barriers, sizes, PARTS, WIDTH, STAGES, DO_STAGES, CAUSAL, EDGE, LAUNCH, SPLIT,
                       PERSISTENT)),
            (_keys, (descs, places, barriers, sizes, PARTS, WIDTH, STAGES, DO_STAGES, CAUSAL, LAUNCH, SPLIT,
                     PERSISTENT)),
            (_add_dq, (descs, places, barriers, sizes, PARTS, WIDTH, 1, CAUSAL, LAUNCH, SPLIT, PERSISTENT,
                       EARLY and LATE)),
            (_fetch, (descs, places, barriers, sizes, PARTS, WIDTH, STAGES, DO_STAGES, CAUSAL, EARLY, LAUNCH, SPLIT,
                      PERSISTENT, LATE)),
        ],
        [4, 4, 1], [REGISTERS, DQ_REGISTERS, 24],
    )  # fmt: skip


@Kept
def attention_backward_wide(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    o: torch.Tensor,
    lse: torch.Tensor,
    do: torch.Tensor,
    *,
    causal: bool = False,
    sm_scale: float | None = None,
    diagonal: int | None = None,
    l2_share: float = 1 / 28,
    stored: bool | None = None,
    split: tuple[int, int] | None = None,
    persistent: bool | None = None,
) -> Callable[..., tuple[torch.Tensor, torch.Tensor, torch.Tensor]]:
    """dQ, dK and dV as `attention_backward_hopper` returns them, for a head_dim up to 256. Under a mask fewer heads are
    at work at once here: 34×60×164×168 668 → 620 µs.

    `persistent`: an SM has one program, which takes one tile of keys after another: 32×32×247×256 821 → 805 µs. Under a
    mask tiles differ in length, and after many turns SMs are at different heads, whose Q and dO leave L2. There it is
    slower: 51×80×272×248 4097 → 4273, 2×16×4096×256 causal 1548 → 2455.
    Raises ValueError naming the argument that this kernel does not take.
    """
    if refused := refusal(q, k, v, do, most=256):
        raise ValueError(refused)
    parts = triton.cdiv(q.shape[3], WIDTH)
    # Of 512 registers of four threads: those of the groups for dK and dQ; dV's has the rest, and the producer 24.
    registers, dq_registers = (200, 88) if parts < 4 else (208, 64)
    tile = {"PARTS": parts, "WIDTH": WIDTH, "STAGES": 2, "DO_STAGES": 2 if parts < 4 else 1}
    if persistent is None:
        persistent = not causal and k.shape[0] * k.shape[1] * triton.cdiv(k.shape[2], ROWS) <= ROUNDS * sms(q)
    # Of four parts fewer registers spill in the loop, even if it takes one item: 2×16×4096×256 2944 → 2821 µs.
    own = {
        "REGISTERS": registers, "DQ_REGISTERS": dq_registers, "PERSISTENT": persistent or (parts == 4 and not causal),
    }  # fmt: skip
    call = _Call.of(q, k, v, causal, sm_scale, diagonal, ROWS, ROWS)
    return launches(
        attention_backward_wide_kernel, call, (q, k, v, o, do), causal, ROWS, tile, k.shape[2] % ROWS != 0, own,
        l2_share, 128, stored, split, persistent,
    )  # fmt: skip
