"""Attention of a few queries over many keys, as when a model writes a token, checks several, or reads the next piece of
a long prompt.

There are few rows of scores a head, so keys are hardly reused. The limit is to read K and V once. Two ideas reach it.
**Split the keys** (Flash-Decoding, Dao et al. 2023): there are few heads, so several programs share the keys of one
head. Each computes the softmax of its part. The last to finish join the parts by the rule for pairs (m, l) in
`merge.py`, each a share of the rows: one program alone would wait long for the bytes of all parts. **Keep the group
together** (grouped-query attention): the queries of all heads that share keys are rows of one tile, so the keys are
read once for all of them.

`attention_split.py` shares keys with the same rule, for more rows: the kernels that pack its Q and join its parts are
here, where the interpreter can run them.

A program that joins waits for those that still compute. A GPU starts programs in their order, and fewer wait than it
has SMs, so the others always have a place.

q (batch, heads, seq_len, head_dim), k and v (batch, kv_heads, kv_len, head_dim), any strides, float32, float16 or
bfloat16, heads a multiple of kv_heads. A causal mask aligns the last query with the last key. A hidden V must be
finite: 0 · NaN is NaN.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

from kernels.attention import LOG2_E, _Call
from kernels.attention_backward import multiple, multiples
from kernels.gpu import CAPTURING, shared_memory, sms, stream
from kernels.kept import Kept, prepared

MOST = 256  # queries a head
JOINED = 2**13
"""Elements of O that a program loads at once when it joins parts: it would wait for each part alone."""


@triton.jit
def _joined(
    part_o_ptr, part_lse_ptr, part, rows, inside, splits,
    HEAD_DIM: tl.constexpr, WIDTH: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_D: tl.constexpr, SHARE: tl.constexpr,
    AT_ONCE: tl.constexpr,
):  # fmt: skip
    """O and lse of SHARE rows of a tile, from all its parts, joined as tiles are: AT_ONCE parts at once. A part has
    BLOCK_M rows, of which some are inside, of WIDTH features.
    """
    dims = tl.arange(0, BLOCK_D)
    m_i = tl.full((SHARE,), -float("inf"), tl.float32)
    l_i = tl.zeros((SHARE,), tl.float32)
    acc = tl.zeros((SHARE, BLOCK_D), tl.float32)
    for j in tl.range(0, splits, AT_ONCE):
        others = j + tl.arange(0, AT_ONCE)
        told = (others < splits)[:, None] & inside[None, :]
        theirs = (part + others)[:, None] * BLOCK_M + rows[None, :]
        o_ptrs = part_o_ptr + theirs[:, :, None] * WIDTH + dims[None, None, :]
        known = told[:, :, None] & (dims < HEAD_DIM)[None, None, :]
        lse_j = tl.load(part_lse_ptr + theirs, mask=told, other=-float("inf"), cache_modifier=".cg")
        o_j = tl.load(o_ptrs, mask=known, other=0.0, cache_modifier=".cg")
        # m = max lse_j,  l = Σ 2^(lse_j − m),  O = Σ 2^(lse_j − m) O_j / l
        m_new = tl.maximum(m_i, tl.max(lse_j, axis=0))
        m_safe = tl.where(m_new == -float("inf"), 0.0, m_new)
        alpha = tl.exp2(m_i - m_safe)
        weights = tl.exp2(lse_j - m_safe[None, :])
        l_i = l_i * alpha + tl.sum(weights, axis=0)
        acc = acc * alpha[:, None] + tl.sum(weights[:, :, None] * o_j, axis=0)
        m_i = m_new
    return acc / tl.where(l_i == 0.0, 1.0, l_i)[:, None], (m_i + tl.log2(l_i)) * 0.6931471805599453  # ln 2


@triton.jit
def flash_decode_kernel(
    q_ptr, k_ptr, v_ptr, o_ptr, lse_ptr, part_o_ptr, part_lse_ptr, done_ptr,
    stride_qb, stride_qh, stride_qm, stride_qd, stride_kb, stride_kh, stride_kn, stride_kd,
    stride_vb, stride_vh, stride_vn, stride_vd, stride_ob, stride_oh, stride_om, stride_od,
    kv_heads, group, seq_len, kv_len, diagonal, scale_log2, m_tiles, splits,
    HEAD_DIM: tl.constexpr, CAUSAL: tl.constexpr, MULTIPLE: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_N: tl.constexpr, STAGES: tl.constexpr,
    SHARE: tl.constexpr, AT_ONCE: tl.constexpr,
):  # fmt: skip
    # One program: a tile of the group · seq_len rows that share the keys of one kv head, on one of `splits` parts of
    # these keys.
    stride_kb, stride_kh, stride_kn = multiples(stride_kb, stride_kh, stride_kn, MULTIPLE)
    stride_vb, stride_vh, stride_vn = multiples(stride_vb, stride_vh, stride_vn, MULTIPLE)
    split = tl.program_id(0)
    pair = tl.program_id(1) // m_tiles
    batch = (pair // kv_heads).to(tl.int64)
    kv_head = (pair % kv_heads).to(tl.int64)
    lanes = tl.arange(0, BLOCK_M)
    rows = tl.program_id(1) % m_tiles * BLOCK_M + lanes
    dims = tl.arange(0, BLOCK_D)
    heads = kv_head * group + rows // seq_len
    queries = (rows % seq_len).to(tl.int64)
    inside_q = (rows < group * seq_len)[:, None] & (dims < HEAD_DIM)[None, :]
    q_ptrs = q_ptr + batch * stride_qb + heads[:, None] * stride_qh + queries[:, None] * stride_qm
    q = tl.load(q_ptrs + dims[None, :] * stride_qd, mask=inside_q, other=0.0)
    k_ptr += batch * stride_kb + kv_head * stride_kh
    v_ptr += batch * stride_vb + kv_head * stride_vh
    m_i = tl.full((BLOCK_M,), -float("inf"), tl.float32)
    l_i = tl.zeros((BLOCK_M,), tl.float32)
    acc = tl.zeros((BLOCK_M, BLOCK_D), tl.float32)
    # the tiles are shared evenly: no part has more than one tile more than another
    tiles = tl.cdiv(kv_len, BLOCK_N)
    for tile in tl.range(split * tiles // splits, (split + 1) * tiles // splits, num_stages=STAGES):
        cols = tile * BLOCK_N + tl.arange(0, BLOCK_N)
        inside = (cols < kv_len)[:, None] & (dims < HEAD_DIM)[None, :]
        far = cols.to(tl.int64)[:, None]
        k = tl.load(k_ptr + far * stride_kn + dims[None, :] * stride_kd, mask=inside, other=0.0)
        v = tl.load(v_ptr + far * stride_vn + dims[None, :] * stride_vd, mask=inside, other=0.0)
        # S = Q Kᵀ · sm_scale · log2 e                                              (BLOCK_M, BLOCK_N)
        s = tl.dot(q, tl.trans(k), input_precision="ieee") * scale_log2
        s = tl.where((cols < kv_len)[None, :], s, -float("inf"))
        if CAUSAL:
            s = tl.where(cols[None, :] <= queries[:, None] + diagonal, s, -float("inf"))
        # m_new = max(m, rowmax S),  α = 2^(m − m_new)                              (BLOCK_M,)
        m_new = tl.maximum(m_i, tl.max(s, axis=1))
        m_safe = tl.where(m_new == -float("inf"), 0.0, m_new)  # nothing but −inf yet: −inf − −inf would be NaN
        alpha = tl.exp2(m_i - m_safe)
        # P̃ = 2^(S − m_new)                                                         (BLOCK_M, BLOCK_N)
        p = tl.exp2(s - m_safe[:, None])
        # l = α l + rowsum P̃,  O = α O + P̃ V                                        (BLOCK_M,)  (BLOCK_M, BLOCK_D)
        l_i = l_i * alpha + tl.sum(p, axis=1)
        acc = tl.dot(p.to(v.dtype), v, acc * alpha[:, None], input_precision="ieee")
        m_i = m_new
    # this part's O and lse, base 2
    part = tl.program_id(1).to(tl.int64) * splits
    own = (part + split) * BLOCK_M + lanes
    tl.store(part_o_ptr + own[:, None] * BLOCK_D + dims[None, :], acc / tl.where(l_i == 0.0, 1.0, l_i)[:, None])
    tl.store(part_lse_ptr + own, m_i + tl.log2(l_i))
    tl.debug_barrier()  # every thread's part is written before one thread says so
    # The last programs to finish join the parts, a share of the rows each.
    done_ptr += tl.program_id(1)
    done = tl.atomic_add(done_ptr, 1, sem="acq_rel") + 1
    share = done - 1 - (splits - BLOCK_M // SHARE)
    if share >= 0:
        while done < splits:
            done = tl.atomic_add(done_ptr, 0, sem="acquire")
        # Each tells that it waits no more, and the last one leaves the count at 0 for the next call.
        if tl.atomic_add(done_ptr, 1, sem="relaxed") == splits + BLOCK_M // SHARE - 1:
            tl.atomic_xchg(done_ptr, 0, sem="relaxed")
        joined = share * SHARE + tl.arange(0, SHARE)
        row = tl.program_id(1) % m_tiles * BLOCK_M + joined
        inside = row < group * seq_len
        o, lse = _joined(
            part_o_ptr, part_lse_ptr, part, joined, inside, splits, HEAD_DIM, BLOCK_D, BLOCK_M, BLOCK_D, SHARE, AT_ONCE
        )
        head = kv_head * group + row // seq_len
        query = (row % seq_len).to(tl.int64)
        o_ptrs = o_ptr + batch * stride_ob + head[:, None] * stride_oh + query[:, None] * stride_om
        o_ptrs += dims[None, :] * stride_od
        tl.store(o_ptrs, o.to(o_ptr.dtype.element_ty), mask=inside[:, None] & (dims < HEAD_DIM)[None, :])
        tl.store(lse_ptr + (batch * kv_heads * group + head) * seq_len + query, lse, mask=inside)


@triton.jit
def pack_rows_kernel(
    q_ptr, packed_ptr, stride_qb, stride_qh, stride_qm, heads, seq_len, rows,
    HEAD_DIM: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_M: tl.constexpr, MULTIPLE: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    # Q with the rows of a head after those of the head before.
    if EARLY:  # the kernel that reads them starts now, and waits for this one
        gdc_launch_dependents()
    stride_qb, stride_qh, stride_qm = multiples(stride_qb, stride_qh, stride_qm, MULTIPLE)
    row = tl.program_id(0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    dims = tl.arange(0, BLOCK_D)
    head = row // seq_len
    at = head // heads * stride_qb + head % heads * stride_qh + row % seq_len * stride_qm
    inside = (row < rows)[:, None] & (dims < HEAD_DIM)[None, :]
    q = tl.load(q_ptr + at[:, None] + dims[None, :], mask=inside)
    tl.store(packed_ptr + row[:, None] * HEAD_DIM + dims[None, :], q, mask=inside)


@triton.jit
def _share_of(visit, each, more):
    """The share that has this visit, where the first `more` shares have each + 1 visits."""
    return tl.where(visit < more * (each + 1), visit // (each + 1), more + (visit - more * (each + 1)) // each)


@triton.jit
def join_parts_kernel(
    part_o_ptr, part_lse_ptr, o_ptr, lse_ptr, rows, visits, each, more, slots,
    HEAD_DIM: tl.constexpr, WIDTH: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_D: tl.constexpr, SHARE: tl.constexpr,
    AT_ONCE: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    # One program: SHARE of a head's rows, from the parts of all shares that have keys of this head. Each of a head's
    # tiles of rows has a place for `slots` parts.
    head = tl.program_id(1)
    first = _share_of(head * visits, each, more)
    last = _share_of((head + 1) * visits - 1, each, more)
    start = tl.program_id(0) * SHARE
    part = (start // BLOCK_M * slots + first + head).to(tl.int64)
    lanes = tl.arange(0, SHARE)
    row = start + lanes
    inside = row < rows
    if EARLY:
        gdc_wait()  # until all parts are there
    o, lse = _joined(
        part_o_ptr, part_lse_ptr, part, start % BLOCK_M + lanes, inside, last - first + 1,
        HEAD_DIM, WIDTH, BLOCK_M, BLOCK_D, SHARE, AT_ONCE,
    )  # fmt: skip
    dims = tl.arange(0, BLOCK_D)
    at = head.to(tl.int64) * rows + row
    o_ptrs = o_ptr + at[:, None] * HEAD_DIM + dims[None, :]
    tl.store(o_ptrs, o.to(o_ptr.dtype.element_ty), mask=inside[:, None] & (dims < HEAD_DIM)[None, :])
    tl.store(lse_ptr + at, lse, mask=inside)


@Kept
def flash_decode(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: bool = False,
    sm_scale: float | None = None,
    splits: int | None = None,
    block_m: int | None = None,
    block_n: int | None = None,
    warps: int | None = None,
    stages: int = 3,
) -> Callable[[torch.Tensor, torch.Tensor, torch.Tensor], tuple[torch.Tensor, torch.Tensor]]:
    """Attention of one or a few queries a head, each head's keys shared among `splits` programs.

    Returns O (batch, heads, seq_len, head_dim), contiguous, in the dtype of q, and lse (batch, heads, seq_len), natural
    logarithm, float32. Raises ValueError naming the argument that does not fit.
    """
    call = _Call.of(q, k, v, causal, sm_scale, None, 16, 16 if block_n is None else block_n)
    if call.seq_len > MOST:
        raise ValueError(f"q has {call.seq_len} queries a head: decoding takes 1 to {MOST}")
    if block_m is None:
        block_m = _rows_of_a_tile(q, call)
    if block_n is None:
        block_n = _keys_that_fit(q, stages, block_m)
    m_tiles = triton.cdiv(call.group * call.seq_len, block_m)
    programs = call.batch * call.kv_heads * m_tiles
    if splits is None:
        shared = (block_m + 2 * stages * block_n) * _row_bytes(q)
        at_once = 2 if block_m < 128 and 2 * shared <= shared_memory(q) else 1
        splits = _splits(q, call, programs, block_n, at_once)
    if not 1 <= splits <= 1024:
        raise ValueError(f"splits={splits}: from 1 to 1024")
    splits = min(splits, triton.cdiv(call.kv_len, block_n))
    block_d = call.constants["BLOCK_D"]
    # The interpreter runs programs one by one: there the last joins all.
    joining = 2 ** min(splits, sms(q)).bit_length() // 2 if q.is_cuda else 1
    share = max(1, block_m // joining)
    warps = warps or (8 if block_m == 128 else 4)
    strides = (*q.stride(), *k.stride(), *v.stride(), *torch.empty(q.shape, device="meta").stride())
    sizes = (call.kv_heads, call.group, call.seq_len, call.kv_len, call.diagonal, call.sm_scale * LOG2_E)
    constants = {
        "HEAD_DIM": q.shape[3], "CAUSAL": causal and call.seq_len > 1, "MULTIPLE": multiple(k, v),
        "BLOCK_M": block_m, "BLOCK_D": block_d, "BLOCK_N": block_n, "STAGES": stages,
        "SHARE": share, "AT_ONCE": min(triton.next_power_of_2(splits), max(1, min(64, JOINED // (share * block_d)))),
    }  # fmt: skip
    numbers = (*strides, *sizes, m_tiles, splits)
    kernel = prepared(flash_decode_kernel, (splits, programs), numbers, constants, num_warps=warps)
    parts = (programs, splits, block_m)
    counts: dict[int, torch.Tensor] = {}  # of each stream: its calls follow each other

    def launch(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        o = torch.empty(q.shape, dtype=q.dtype, device=q.device)
        lse, part_o, part_lse = (
            torch.empty(shape, dtype=torch.float32, device=q.device)
            for shape in (q.shape[:3], (*parts, block_d), parts)
        )
        on = stream(q)
        done = counts.get(on)
        if done is None:
            done = torch.zeros(programs, dtype=torch.int32, device=q.device)
            if on != CAPTURING:  # a graph has its own, and clears them when it runs
                counts[on] = done
        kernel(q, k, v, o, lse, part_o, part_lse, done)
        return o, lse

    return launch


def rows_of_tiles(q: torch.Tensor, call: _Call) -> int:
    """Rows of all tiles of a call, those that are empty included: a measure of its arithmetic."""
    block_m = _rows_of_a_tile(q, call)
    return call.batch * call.kv_heads * triton.cdiv(call.group * call.seq_len, block_m) * block_m


def _rows_of_a_tile(q: torch.Tensor, call: _Call) -> int:
    """As many rows as a kv head has, 16 to 128; 64 where a program has few keys, or where wide heads would leave fewer
    rows of the tiles empty. 1×28×15×128, 4 kv heads, 7008 keys: 21 µs by 64 rows, 26 by 32; 3×16×148×48, 2 kv heads,
    2885 keys: 45 by 64, 32 by 128.
    """
    rows = call.group * call.seq_len
    most = max(16, triton.next_power_of_2(rows))
    if q.element_size() == 4 or not q.is_cuda:
        return min(32, most)
    tiles = {block_m: triton.cdiv(rows, block_m) for block_m in (64, 128)}
    few_keys = call.kv_len * call.batch * call.kv_heads * tiles[128] < 1024 * sms(q)
    fewer_empty = q.shape[3] > 128 and 64 * tiles[64] < 128 * tiles[128]
    return min(most, 64 if few_keys or fewer_empty else 128)


def _keys_that_fit(q: torch.Tensor, stages: int, rows: int) -> int:
    """Keys a tile: 16 KiB of K, so that enough bytes are on their way, but 8 where arithmetic bounds it, and at least
    64 keys, or as many as there is room for.

    Shared memory has Q and so many stages of K and V.
    """
    row = _row_bytes(q)
    keys = min(max(64, 2 ** (13 if rows >= 64 else 14) // row), (shared_memory(q) - rows * row) // (2 * stages * row))
    return max(16, 2 ** keys.bit_length() // 2)


def _splits(q: torch.Tensor, call: _Call, programs: int, block_n: int, at_once: int) -> int:
    """Parts of the keys, so that each SM has a program; two, if both are there `at_once` and each keeps four tiles of
    keys: while one waits, the other computes. 1×32×2×80, 14903 keys: 69 → 56 µs. Tiles of 128 rows wait for the tensor
    cores: there two are slower, 2×25×84×64, 2840 keys: 34 and 49.
    """
    one = max(1, sms(q) // programs)
    two = min(2 * sms(q) // programs, triton.cdiv(call.kv_len, block_n) // 4)
    return min(128, max(one, two) if at_once == 2 else one)


def _row_bytes(q: torch.Tensor) -> int:
    """Bytes of a row of a tile."""
    return int(triton.next_power_of_2(q.shape[-1])) * q.element_size()
