"""FlashAttention-2 backward (arXiv 2307.08691, algorithm 2): dQ, dK and dV from Q, K, V, O, dO and the lse that the
forward pass left.

P is not kept: with lse known it is one exponential away, P = exp(S − lse), and no maximum is searched for. With D =
rowsum(dO ∘ O):

    dV = Pᵀ dO        dP = dO Vᵀ        dS = P ∘ (dP − D)        dQ = dS K · sm_scale        dK = dSᵀ Q · sm_scale

dK and dV are sums over queries, dQ is a sum over keys, so one order of tiles cannot keep both on chip. Two ways out:

    dq="add"    a program owns a tile of keys and adds its part of dQ in HBM: five matmuls a tile, sums in any order
    dq="tma"    the same, added by the copy engine (Hopper and later)
    dq="again"  another launch with queries outside recomputes S and dP: seven matmuls, the same bits every time

On Hopper `attention_backward_hopper.py` is the fast one of five matmuls.

Under a causal mask programs are not equally long. The longest start first, over a few heads at a time: as many as L2
holds the other side's tiles of, since one head alone would leave SMs idle behind its last long tile, and those of all
together do not fit.

Shapes, strides, dtypes, the causal mask and what a query without keys gives are as in `attention.py`; sums and
exponentials in float32. A hidden value must be finite: 0 · NaN is NaN.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait
from triton.tools.tensor_descriptor import TensorDescriptor

from kernels.attention import LOG2_E, _Call
from kernels.gpu import l2
from kernels.kept import Kept, prepared


@triton.jit
def multiples(stride_b, stride_h, stride_m, MULTIPLE: tl.constexpr):
    """A tensor's strides with a divisor that the compiler sees: a thread then loads so many elements at once."""
    return stride_b // MULTIPLE * MULTIPLE, stride_h // MULTIPLE * MULTIPLE, stride_m // MULTIPLE * MULTIPLE


def multiple(*tensors: torch.Tensor) -> int:
    """The largest power of two up to 8 that divides the strides of batch, head and row. Triton looks only at 16."""
    return math.gcd(8, *(stride for tensor in tensors for stride in tensor.stride()[:3]))


@triton.jit
def attention_rows_kernel(
    o_ptr, do_ptr, lse_ptr, lse2_ptr, delta_ptr, dq_ptr,
    stride_ob, stride_oh, stride_om, stride_od, stride_gb, stride_gh, stride_gm, stride_gd,
    heads, seq_len, padded,
    HEAD_DIM: tl.constexpr, WIDTH: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_M: tl.constexpr, MULTIPLE: tl.constexpr,
    EARLY: tl.constexpr,
):  # fmt: skip
    # What each row brings to all its keys: D, and lse in base 2, +inf for a row that saw no key or is none, since 2^(S
    # − inf) is 0. And WIDTH zeros where dQ will be summed. EARLY: the next kernel starts now, and waits for this one.
    # Heads from the last to the first: the next kernel goes the other way and finds dO of its first heads in L2.
    if EARLY:
        gdc_launch_dependents()
    of_all = tl.num_programs(1) - 1 - tl.program_id(1)
    stride_ob, stride_oh, stride_om = multiples(stride_ob, stride_oh, stride_om, MULTIPLE)
    stride_gb, stride_gh, stride_gm = multiples(stride_gb, stride_gh, stride_gm, MULTIPLE)
    batch = (of_all // heads).to(tl.int64)
    head = (of_all % heads).to(tl.int64)
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M).to(tl.int64)
    dims = tl.arange(0, BLOCK_D).to(tl.int64)
    inside = (rows < seq_len)[:, None] & (dims < HEAD_DIM)[None, :]
    o_ptr += batch * stride_ob + head * stride_oh
    do_ptr += batch * stride_gb + head * stride_gh
    o = tl.load(o_ptr + rows[:, None] * stride_om + dims[None, :] * stride_od, mask=inside, other=0.0).to(tl.float32)
    do = tl.load(do_ptr + rows[:, None] * stride_gm + dims[None, :] * stride_gd, mask=inside, other=0.0).to(tl.float32)
    lse = tl.load(lse_ptr + of_all.to(tl.int64) * seq_len + rows, mask=rows < seq_len, other=-float("inf"))
    lse2 = tl.where(lse == -float("inf"), float("inf"), lse * 1.44269504088896340736)  # log2 e
    # D = rowsum(dO ∘ O)                                                            (BLOCK_M,)
    row_ptrs = of_all.to(tl.int64) * padded + rows
    tl.store(delta_ptr + row_ptrs, tl.sum(o * do, axis=1))
    tl.store(lse2_ptr + row_ptrs, lse2)
    if WIDTH > 0:
        zeros = tl.zeros((BLOCK_M, BLOCK_D), tl.float32)
        tl.store(dq_ptr + row_ptrs[:, None] * WIDTH + dims[None, :], zeros, mask=(dims < WIDTH)[None, :])


@triton.jit
def _part(
    ptr, rows, length, stride_row, stride_dim, FIRST: tl.constexpr, WIDTH: tl.constexpr, HEAD_DIM: tl.constexpr,
    WHOLE: tl.constexpr,
):  # fmt: skip
    dims = FIRST + tl.arange(0, WIDTH)
    ptrs = ptr + rows.to(tl.int64)[:, None] * stride_row + dims[None, :] * stride_dim
    if WHOLE:
        return tl.load(ptrs)
    return tl.load(ptrs, mask=(rows < length)[:, None] & (dims < HEAD_DIM)[None, :], other=0.0)


@triton.jit
def _tile(
    ptr, rows, length, stride_row, stride_dim,
    HEAD_DIM: tl.constexpr, BLOCK_D: tl.constexpr, REST: tl.constexpr, WHOLE: tl.constexpr,
):  # fmt: skip
    """Rows of a matrix in one or two parts: BLOCK_D features, then the REST. Zeros outside; where every tile is whole
    nothing is compared.
    """
    parts = (_part(ptr, rows, length, stride_row, stride_dim, 0, BLOCK_D, HEAD_DIM, WHOLE),)
    if REST > 0:
        parts = (  # type: ignore[assignment]
            parts[0],
            _part(ptr, rows, length, stride_row, stride_dim, BLOCK_D, REST, HEAD_DIM, WHOLE),
        )
    return parts


@triton.jit
def _zeros(ROWS: tl.constexpr, BLOCK_D: tl.constexpr, REST: tl.constexpr):
    parts = (tl.zeros((ROWS, BLOCK_D), tl.float32),)
    if REST > 0:
        parts = (parts[0], tl.zeros((ROWS, REST), tl.float32))  # type: ignore[assignment]
    return parts


@triton.jit
def _scores(a, b, REST: tl.constexpr):
    """A Bᵀ, summed over the parts of the head."""
    s = tl.dot(a[0], tl.trans(b[0]), input_precision="ieee")
    if REST > 0:
        s = tl.dot(a[1], tl.trans(b[1]), s, input_precision="ieee")
    return s


@triton.jit
def _plus(sums, p, b, REST: tl.constexpr):
    """sums + P B, part by part."""
    parts = (tl.dot(p, b[0], sums[0], input_precision="ieee"),)
    if REST > 0:
        parts = (parts[0], tl.dot(p, b[1], sums[1], input_precision="ieee"))  # type: ignore[assignment]
    return parts


@triton.jit
def _store(
    ptr, parts, scale, first_row, rows, length,
    HEAD_DIM: tl.constexpr, BLOCK_D: tl.constexpr, REST: tl.constexpr,
):  # fmt: skip
    """Writes rows of a contiguous matrix."""
    row_ptrs = ptr + (first_row.to(tl.int64) + rows)[:, None] * HEAD_DIM
    dims = tl.arange(0, BLOCK_D)
    inside = (rows < length)[:, None] & (dims < HEAD_DIM)[None, :]
    tl.store(row_ptrs + dims[None, :], (parts[0] * scale).to(ptr.dtype.element_ty), mask=inside)
    if REST > 0:
        dims = BLOCK_D + tl.arange(0, REST)
        inside = (rows < length)[:, None] & (dims < HEAD_DIM)[None, :]
        tl.store(row_ptrs + dims[None, :], (parts[1] * scale).to(ptr.dtype.element_ty), mask=inside)


@triton.jit
def attention_backward_keys_kernel(
    q_ptr, k_ptr, v_ptr, do_ptr, dq_ptr, dk_ptr, dv_ptr, lse2_ptr, delta_ptr,
    stride_qb, stride_qh, stride_qm, stride_qd, stride_kb, stride_kh, stride_kn, stride_kd,
    stride_vb, stride_vh, stride_vn, stride_vd, stride_gb, stride_gh, stride_gm, stride_gd,
    at_once, kv_heads, group, seq_len, padded, kv_len, diagonal, sm_scale, scale_log2,
    HEAD_DIM: tl.constexpr, BLOCK_D: tl.constexpr, REST: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
    CAUSAL: tl.constexpr, STAGES: tl.constexpr, OF: tl.constexpr, DQ: tl.constexpr, WHOLE: tl.constexpr,
    MULTIPLE: tl.constexpr,
):  # fmt: skip
    # One program owns one tile of keys of one kv head, and goes over the queries of all heads that share it. OF says
    # which gradients it computes: "kv", or "k" or "v" where there are registers for one only.
    # Tile 0 of `at_once` heads comes first, then their tile 1: under a causal mask the first keys have the most
    # queries.
    stride_qb, stride_qh, stride_qm = multiples(stride_qb, stride_qh, stride_qm, MULTIPLE)
    stride_kb, stride_kh, stride_kn = multiples(stride_kb, stride_kh, stride_kn, MULTIPLE)
    stride_vb, stride_vh, stride_vn = multiples(stride_vb, stride_vh, stride_vn, MULTIPLE)
    stride_gb, stride_gh, stride_gm = multiples(stride_gb, stride_gh, stride_gm, MULTIPLE)
    of_all = tl.program_id(1) * at_once + tl.program_id(0) % at_once
    batch = (of_all // kv_heads).to(tl.int64)
    kv_head = (of_all % kv_heads).to(tl.int64)
    first = tl.program_id(0) // at_once * BLOCK_N
    cols = first + tl.arange(0, BLOCK_N)
    k_ptr += batch * stride_kb + kv_head * stride_kh
    v_ptr += batch * stride_vb + kv_head * stride_vh
    k = _tile(k_ptr, cols, kv_len, stride_kn, stride_kd, HEAD_DIM, BLOCK_D, REST, WHOLE)
    v = _tile(v_ptr, cols, kv_len, stride_vn, stride_vd, HEAD_DIM, BLOCK_D, REST, WHOLE)
    dk = _zeros(BLOCK_N, BLOCK_D, REST)
    dv = _zeros(BLOCK_N, BLOCK_D, REST)
    # Queries before `start` see none of these keys, those from `whole` on see them all.
    start = 0
    whole = 0
    if CAUSAL:
        start = tl.maximum(0, first - diagonal) // BLOCK_M * BLOCK_M
        whole = first + BLOCK_N - 1 - diagonal
    for member in range(group):
        head = kv_head * group + member
        first_row = (batch * kv_heads * group + head) * padded
        q_head = q_ptr + batch * stride_qb + head * stride_qh
        do_head = do_ptr + batch * stride_gb + head * stride_gh
        lse2_head = lse2_ptr + first_row
        delta_head = delta_ptr + first_row
        for row in tl.range(start, seq_len, BLOCK_M, num_stages=STAGES):
            rows = row + tl.arange(0, BLOCK_M)
            q = _tile(q_head, rows, seq_len, stride_qm, stride_qd, HEAD_DIM, BLOCK_D, REST, WHOLE)
            lse2 = tl.load(lse2_head + rows)
            # Sᵀ = K Qᵀ · sm_scale · log2 e,  Pᵀ = 2^(Sᵀ − lse)                         (BLOCK_N, BLOCK_M)
            s = _scores(k, q, REST) * scale_log2
            p = tl.exp2(s - lse2[None, :])
            if CAUSAL and row < whole:
                p = tl.where(cols[:, None] <= rows[None, :] + diagonal, p, 0.0)
            if not WHOLE:  # a key outside has score 0: 2^(0 − lse) may be inf, and inf · 0 is NaN
                p = tl.where((cols < kv_len)[:, None], p, 0.0)
            # dV = dV + Pᵀ dO                                                           (BLOCK_N, BLOCK_D)
            do = _tile(do_head, rows, seq_len, stride_gm, stride_gd, HEAD_DIM, BLOCK_D, REST, WHOLE)
            if OF != "k":
                dv = _plus(dv, p.to(do[0].dtype), do, REST)
            if OF != "v":
                # dPᵀ = V dOᵀ,  dSᵀ = Pᵀ ∘ (dPᵀ − D)                                        (BLOCK_N, BLOCK_M)
                dp = _scores(v, do, REST)
                delta = tl.load(delta_head + rows)
                ds = (p * (dp - delta[None, :])).to(q[0].dtype)
                # dK = dK + dSᵀ Q                                                           (BLOCK_N, BLOCK_D)
                dk = _plus(dk, ds, q, REST)
                # dQ = dQ + dS K, in HBM                                                    (BLOCK_M, BLOCK_D)
                if DQ == "tma":
                    dq_ptr.atomic_add([first_row.to(tl.int32) + row, 0], tl.dot(tl.trans(ds), k[0]))
                elif DQ == "add":
                    dq = tl.dot(tl.trans(ds), k[0], input_precision="ieee")
                    dq_rows = (first_row + rows.to(tl.int64))[:, None] * BLOCK_D
                    tl.atomic_add(dq_ptr + dq_rows + tl.arange(0, BLOCK_D)[None, :], dq, sem="relaxed")
    first_key = of_all.to(tl.int64) * kv_len
    if OF != "v":
        _store(dk_ptr, dk, sm_scale, first_key, cols, kv_len, HEAD_DIM, BLOCK_D, REST)
    if OF != "k":
        _store(dv_ptr, dv, 1.0, first_key, cols, kv_len, HEAD_DIM, BLOCK_D, REST)


@triton.jit
def _queries_over_keys(
    dq, q, do, lse2, delta, k_ptr, v_ptr, stride_kn, stride_kd, stride_vn, stride_vd,
    rows, start, end, kv_len, diagonal, scale_log2,
    HEAD_DIM: tl.constexpr, BLOCK_D: tl.constexpr, REST: tl.constexpr, BLOCK_N: tl.constexpr, STAGES: tl.constexpr,
    MASKED: tl.constexpr, WHOLE: tl.constexpr,
):  # fmt: skip
    """One tile of queries over the keys start ≤ j < end: its dQ grows."""
    for col in tl.range(start, end, BLOCK_N, num_stages=STAGES):
        cols = col + tl.arange(0, BLOCK_N)
        k = _tile(k_ptr, cols, kv_len, stride_kn, stride_kd, HEAD_DIM, BLOCK_D, REST, WHOLE)
        v = _tile(v_ptr, cols, kv_len, stride_vn, stride_vd, HEAD_DIM, BLOCK_D, REST, WHOLE)
        # S = Q Kᵀ · sm_scale · log2 e,  P = 2^(S − lse)                            (BLOCK_M, BLOCK_N)
        s = _scores(q, k, REST) * scale_log2
        p = tl.exp2(s - lse2[:, None])
        if MASKED:
            p = tl.where((cols[None, :] <= rows[:, None] + diagonal) & (cols < kv_len)[None, :], p, 0.0)
        # dP = dO Vᵀ,  dS = P ∘ (dP − D)                                            (BLOCK_M, BLOCK_N)
        dp = _scores(do, v, REST)
        ds = (p * (dp - delta[:, None])).to(k[0].dtype)
        # dQ = dQ + dS K                                                            (BLOCK_M, BLOCK_D)
        dq = _plus(dq, ds, k, REST)
    return dq


@triton.jit
def attention_backward_queries_kernel(
    q_ptr, k_ptr, v_ptr, do_ptr, dq_ptr, lse2_ptr, delta_ptr,
    stride_qb, stride_qh, stride_qm, stride_qd, stride_kb, stride_kh, stride_kn, stride_kd,
    stride_vb, stride_vh, stride_vn, stride_vd, stride_gb, stride_gh, stride_gm, stride_gd,
    at_once, heads, group, seq_len, padded, kv_len, diagonal, sm_scale, scale_log2,
    HEAD_DIM: tl.constexpr, BLOCK_D: tl.constexpr, REST: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
    CAUSAL: tl.constexpr, STAGES: tl.constexpr, WHOLE: tl.constexpr, MULTIPLE: tl.constexpr,
):  # fmt: skip
    # One program owns one tile of queries of one head; those with the most keys come first, which are the last.
    stride_qb, stride_qh, stride_qm = multiples(stride_qb, stride_qh, stride_qm, MULTIPLE)
    stride_kb, stride_kh, stride_kn = multiples(stride_kb, stride_kh, stride_kn, MULTIPLE)
    stride_vb, stride_vh, stride_vn = multiples(stride_vb, stride_vh, stride_vn, MULTIPLE)
    stride_gb, stride_gh, stride_gm = multiples(stride_gb, stride_gh, stride_gm, MULTIPLE)
    of_all = tl.program_id(1) * at_once + tl.program_id(0) % at_once
    tile = (tl.num_programs(0) - 1 - tl.program_id(0)) // at_once
    batch = (of_all // heads).to(tl.int64)
    head = (of_all % heads).to(tl.int64)
    rows = tile * BLOCK_M + tl.arange(0, BLOCK_M)
    q_ptr += batch * stride_qb + head * stride_qh
    do_ptr += batch * stride_gb + head * stride_gh
    k_ptr += batch * stride_kb + head // group * stride_kh
    v_ptr += batch * stride_vb + head // group * stride_vh
    q = _tile(q_ptr, rows, seq_len, stride_qm, stride_qd, HEAD_DIM, BLOCK_D, REST, WHOLE)
    do = _tile(do_ptr, rows, seq_len, stride_gm, stride_gd, HEAD_DIM, BLOCK_D, REST, WHOLE)
    lse2 = tl.load(lse2_ptr + of_all.to(tl.int64) * padded + rows)
    delta = tl.load(delta_ptr + of_all.to(tl.int64) * padded + rows)
    dq = _zeros(BLOCK_M, BLOCK_D, REST)
    # Keys before `whole` need no mask: there are so many, and every row sees them.
    whole = kv_len // BLOCK_N * BLOCK_N
    end = kv_len
    reach = diagonal
    if CAUSAL:
        whole = tl.minimum(whole, tl.maximum(0, tile * BLOCK_M + 1 + diagonal) // BLOCK_N * BLOCK_N)
        end = tl.minimum(kv_len, tile * BLOCK_M + BLOCK_M + diagonal)
    else:
        reach = kv_len
    dq = _queries_over_keys(
        dq, q, do, lse2, delta, k_ptr, v_ptr, stride_kn, stride_kd, stride_vn, stride_vd,
        rows, 0, whole, kv_len, reach, scale_log2, HEAD_DIM, BLOCK_D, REST, BLOCK_N, STAGES, False, WHOLE,
    )  # fmt: skip
    if CAUSAL or not WHOLE:
        dq = _queries_over_keys(
            dq, q, do, lse2, delta, k_ptr, v_ptr, stride_kn, stride_kd, stride_vn, stride_vd,
            rows, whole, end, kv_len, reach, scale_log2, HEAD_DIM, BLOCK_D, REST, BLOCK_N, STAGES, True, WHOLE,
        )  # fmt: skip
    first_row = of_all.to(tl.int64) * seq_len
    _store(dq_ptr, dq, sm_scale, first_row, rows, seq_len, HEAD_DIM, BLOCK_D, REST)


@triton.jit
def attention_dq_kernel(
    sums_ptr, dq_ptr, seq_len, padded, sm_scale,
    HEAD_DIM: tl.constexpr, WIDTH: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_M: tl.constexpr, BACK: tl.constexpr,
    EARLY: tl.constexpr, MIXED: tl.constexpr,
):  # fmt: skip
    # dQ = the sums · sm_scale, in its dtype. BACK: heads from the last to the first, whose sums are still in L2.
    # MIXED: of each 8 rows of sums in the order 0, 4, 1, 5, 2, 6, 3, 7.
    if EARLY:
        gdc_wait()  # until the sums are there
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    dims = tl.arange(0, BLOCK_D)
    inside = (rows < seq_len)[:, None] & (dims < HEAD_DIM)[None, :]
    head = tl.program_id(1).to(tl.int64)
    if BACK:
        head = tl.num_programs(1) - 1 - head
    places = rows
    if MIXED:
        places = rows // 8 * 8 + rows % 4 * 2 + rows // 4 % 2
    sums = tl.load(sums_ptr + (head * padded + places)[:, None] * WIDTH + dims[None, :], mask=inside)
    dq = (sums * sm_scale).to(dq_ptr.dtype.element_ty)
    tl.store(dq_ptr + (head * seq_len + rows)[:, None] * HEAD_DIM + dims[None, :], dq, mask=inside)


@Kept
def flash_attention_backward(
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
    dq: str = "again",
    apart: bool = False,
    block_m: int = 64,
    block_n: int = 64,
    warps: int = 4,
    stages: int = 2,
    registers: tuple[int | None, int | None] = (None, None),
    l2_share: float = 1 / 3,
) -> Callable[..., tuple[torch.Tensor, torch.Tensor, torch.Tensor]]:
    """dQ, dK and dV, contiguous, in the shapes and the dtype of q, k and v, for o and lse as any forward of
    `attention.py` returned them.

    Tiles have sides that are powers of two, so a head of 80 features has two parts, 64 and 16, instead of one of 128;
    only where dQ is computed again. `apart` computes dK and dV in a launch each, eight matmuls in all, since a tile of
    128 keys has registers for one of them only where a head is wide.

    `registers` is the most that a thread may have, where keys are held and where queries are: with fewer, more programs
    fit an SM. `l2_share` is the part of L2 that the heads at work together may fill under a causal mask. Raises
    ValueError naming the argument that does not fit.
    """
    call = _Call.of(q, k, v, causal, sm_scale, diagonal, block_m, block_n)
    if dq not in ("again", "add", "tma"):
        raise ValueError(f"dq={dq!r}: 'again', 'add' or 'tma'")
    for name, tensor, shape in (("o", o, q.shape), ("do", do, q.shape), ("lse", lse, q.shape[:3])):
        if tensor.shape != shape:
            raise ValueError(f"{name} of shape {tuple(tensor.shape)}: must be {tuple(shape)}, as q says")
    seq_len, kv_len, head_dim = call.seq_len, call.kv_len, q.shape[3]
    block_d = call.constants["BLOCK_D"]
    parts = _parts(head_dim, block_d) if dq == "again" else (block_d, 0)
    heads, kv_heads = call.batch * call.heads, call.batch * call.kv_heads
    side = max(block_m, block_n)
    padded = triton.cdiv(seq_len, side) * side  # what a row outside brings is there to be read
    rows = prepared(
        attention_rows_kernel, (padded // side, heads), (*o.stride(), *do.stride(), call.heads, seq_len, padded),
        {"HEAD_DIM": head_dim, "WIDTH": 0 if dq == "again" else block_d, "BLOCK_D": block_d, "BLOCK_M": side,
         "MULTIPLE": multiple(o, do), "EARLY": False}, num_warps=4,
    )  # fmt: skip
    scaled = prepared(
        attention_dq_kernel, (padded // side, heads), (seq_len, padded, call.sm_scale),
        {"HEAD_DIM": head_dim, "WIDTH": block_d, "BLOCK_D": block_d, "BLOCK_M": side, "BACK": True, "EARLY": False,
         "MIXED": False},
        num_warps=4,
    )  # fmt: skip
    whole = seq_len % side == kv_len % side == 0 and head_dim == sum(parts)
    tiles: dict[str, Any] = {
        "HEAD_DIM": head_dim, "BLOCK_D": parts[0], "REST": parts[1], "BLOCK_M": block_m, "BLOCK_N": block_n,
        "CAUSAL": causal, "STAGES": stages,
    }  # fmt: skip
    same: dict[str, Any] = {"WHOLE": whole, "MULTIPLE": multiple(q, k, v, do)}
    strides = (*q.stride(), *k.stride(), *v.stride(), *do.stride())
    sizes = (call.group, seq_len, padded, kv_len, call.diagonal, call.sm_scale, call.sm_scale * LOG2_E)
    row_bytes = 2 * head_dim * q.element_size()  # of Q and dO, as of K and V
    fits = l2(q) * l2_share / row_bytes if causal else 0  # rows
    at_once = divisor(kv_heads, fits / (call.group * seq_len))
    added: dict[int, TensorDescriptor] = {}
    if dq == "tma":
        like = torch.empty((heads * padded, block_d), dtype=torch.float32, device=q.device)
        added[4] = TensorDescriptor.from_tensor(like, [block_m, block_d])
    by_keys = [
        prepared(
            attention_backward_keys_kernel, (triton.cdiv(kv_len, block_n) * at_once, kv_heads // at_once),
            (*strides, at_once, call.kv_heads, *sizes), {**tiles, "OF": of, "DQ": dq, **same}, added,
            num_warps=warps, maxnreg=registers[0],
        )
        for of in (("k", "v") if apart and dq == "again" else ("kv",))
    ]  # fmt: skip
    tiles |= {"BLOCK_M": block_n, "BLOCK_N": block_m}  # what is held is the longer side
    at_once = divisor(heads, fits / kv_len * call.group)
    by_queries = prepared(
        attention_backward_queries_kernel, (triton.cdiv(seq_len, block_n) * at_once, heads // at_once),
        (*strides, at_once, call.heads, *sizes), {**tiles, **same}, num_warps=warps, maxnreg=registers[1],
    )  # fmt: skip

    def launch(
        q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, o: torch.Tensor, lse: torch.Tensor, do: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        lse2, delta = (torch.empty((heads, padded), dtype=torch.float32, device=q.device) for _ in range(2))
        sums = lse2 if dq == "again" else torch.empty((heads * padded, block_d), dtype=torch.float32, device=q.device)
        rows(o, do, lse.contiguous(), lse2, delta, sums)
        q_grad, k_grad, v_grad = (torch.empty_like(t, memory_format=torch.contiguous_format) for t in (q, k, v))
        if dq == "again":
            for kernel in by_keys:
                kernel(q, k, v, do, q_grad, k_grad, v_grad, lse2, delta)
            by_queries(q, k, v, do, q_grad, lse2, delta)
        else:
            by_keys[0](q, k, v, do, sums, k_grad, v_grad, lse2, delta)
            scaled(sums, q_grad)
        return q_grad, k_grad, v_grad

    return launch


def _parts(head_dim: int, block_d: int) -> tuple[int, int]:
    """Features of the two parts of a head, powers of two of at least 16 each. The second is 0 where two parts are no
    smaller than one; of 256 features two halves are 5% faster.
    """
    half = block_d // 2
    rest = max(16, triton.next_power_of_2(head_dim - half))
    return (half, rest) if (block_d >= 64 and rest < half) or block_d == 256 else (block_d, 0)


def divisor(number: int, limit: float) -> int:
    """The largest divisor of a number up to a limit, and at least 1."""
    return max(divisor for divisor in range(1, max(1, min(number, int(limit))) + 1) if number % divisor == 0)
