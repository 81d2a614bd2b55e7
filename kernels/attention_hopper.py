"""FlashAttention forward for Hopper (sm_90) in Gluon: a persistent, warp-specialized kernel with intra-warpgroup
overlap.

The tensor cores should never wait for bytes or for exponentials. Four ideas of FlashAttention-3 (arXiv
2407.08608):

- **Warp specialization.** One producer warp requests the next tiles of K and V from the TMA, as long as there is space.
  Two or three consumer warpgroups (four warps and 64 rows of Q each) compute. Barriers in shared memory say "full" and
  "empty".
- **Intra-warpgroup overlap.** A warpgroup starts two matmuls together, S_next = Q K_{j−1}ᵀ and Õ = Õ + P̃ V_j. While Õ
  still grows, it computes the softmax of S_next.
- **Persistent kernel.** There is one program per SM, and each computes many query tiles. Under a mask the host makes a
  list per program, longest tiles first, so that all programs end at about the same time (`kernels/schedule.py`).
- **One reduction per row.** A row lies in four threads. Each thread sums its own part of l. The four sums are added at
  the end of the row, not at every tile: 8% faster at head_dim 64 without a mask.

The interpreter cannot run Gluon; `flash_attention_exp2` in `attention.py` does the same arithmetic. Keys are visited
from last to first. So the masked tiles come first, and the loop over the others needs no mask. A hidden V must be
finite: 0 · NaN is NaN.

Tried on an H200 and left out: a part of the exponentials by a polynomial on the FMA units (FlashAttention-4's idea;
2–13% slower in the grouping that is fastest without it, within 1% with Q in registers besides), K's place released
later (within 1%), tiles of 64 keys (14–20% slower at head_dim 128), the last P̃ V of a query tile overlapped with the
first Q Kᵀ of the next (2–9% slower), ping-pong scheduling (no gain, or 3% slower). The times are in
`benchmarks/results/tuning/`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

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
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

from kernels.attention import LOG2_E, _Call
from kernels.gpu import sms
from kernels.kept import Kept, prepared
from kernels.schedule import lists, longest, tile_visits

ROOM = 225 * 1024  # bytes of shared memory for tiles
ROWS = 64  # of a group: the M of a warpgroup's matmul


class Way(NamedTuple):
    """A tile's consumer warpgroups and keys, the time to visit it, and how many visits prologue and epilogue last.

    Times are relative to the first way of the same head_dim. Measured on an H200, from 171 to 15265 queries.
    """

    groups: int
    keys: int
    visit: float
    start: float


WAYS = {
    64: (Way(2, 128, 1.0, 1.5), Way(3, 128, 1.28, 1.3)),
    96: (Way(2, 128, 1.0, 2.2), Way(3, 64, 0.77, 2.9)),
    128: (Way(2, 128, 1.0, 2.25), Way(3, 64, 0.82, 2.8)),
    192: (Way(2, 64, 1.0, 2.0),),
    256: (Way(2, 64, 1.0, 2.0),),
}
"""Ways by features, padded. The schedule says which is fastest: 8×28×171×128 takes 21 µs by three groups, 30 by two."""
UNALIGNED = 1.1
"""Two groups fetch a tile for fewer queries than three. Where rows are not a multiple of 32 bytes, they wait for it."""


Launch = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], tuple[torch.Tensor, torch.Tensor]]
"""q, k and v to O and lse"""


@gluon.jit
def _tile(tile, sizes, BLOCK_M: gl.constexpr):
    """Which rows and keys the tile has: (batch, head, kv head, first row)."""
    m_tiles, heads, group, _seq_len, _kv_len, _diagonal, _scale = sizes
    head = tile // m_tiles
    return head // heads, head % heads, head % heads // group, tile % m_tiles * BLOCK_M


@gluon.jit
def _first_tile(work, DEALT: gl.constexpr):
    """How many tiles this program has, and the first of its list, if there are lists."""
    counts_ptr, tiles_ptr, tiles = work
    program, programs = gl.program_id(0), gl.num_programs(0)
    if DEALT:
        return gl.load(counts_ptr + program), gl.load(tiles_ptr + program)
    return gl.cdiv(tiles - program, programs), 0


@gluon.jit
def _this_tile_and_the_next(work, tile, taken, DEALT: gl.constexpr):
    """The next one is loaded while this one is computed: the lists have a row more than tiles."""
    _counts_ptr, tiles_ptr, _tiles = work
    program, programs = gl.program_id(0), gl.num_programs(0)
    if DEALT:
        return tile, gl.load(tiles_ptr + (taken + 1) * programs + program)
    return program + taken * programs, 0


@gluon.jit
def _visits(row, ROWS: gl.constexpr, sizes, BLOCK_N: gl.constexpr, CAUSAL: gl.constexpr):
    """How many tiles of keys these rows see; a row that sees none visits one, which is all hidden."""
    _m_tiles, _heads, _group, _seq_len, kv_len, diagonal, _scale = sizes
    keys = kv_len
    if CAUSAL:
        keys = gl.minimum(kv_len, gl.maximum(row + ROWS + diagonal, 1))
    return gl.cdiv(keys, BLOCK_N)


@gluon.jit
def _fetch(
    descs, places, barriers, work, sizes,
    HEAD_DIM: gl.constexpr, PARTS: gl.constexpr, BLOCK_N: gl.constexpr, STAGES: gl.constexpr, CAUSAL: gl.constexpr,
    GROUPS: gl.constexpr, O_APART: gl.constexpr,
):  # fmt: skip
    q_desc, k_desc, v_desc, _o_desc = descs
    q_s, k_s, v_s, _o_s = places
    q_full, q_empty, k_full, k_empty, v_full, v_empty = barriers
    fetched = 0  # tiles of keys so far
    count, tile = _first_tile(work, CAUSAL)
    for taken in range(count):
        this, tile = _this_tile_and_the_next(work, tile, taken, CAUSAL)
        batch, head, kv_head, row = _tile(this, sizes, GROUPS * 64)
        visits = _visits(row, GROUPS * 64, sizes, BLOCK_N, CAUSAL)
        for c in gl.static_range(GROUPS):
            mbarrier.wait(q_empty.index(c), (taken & 1) ^ 1)
            mbarrier.expect(q_full.index(c), PARTS * q_desc.block_type.nbytes)
            for part in gl.static_range(PARTS):
                tma.async_copy_global_to_shared(
                    q_desc, [batch, head, row + c * 64, part * HEAD_DIM], q_full.index(c), q_s.index(c * PARTS + part)
                )
        for j in range(visits):
            col = (visits - 1 - j) * BLOCK_N
            place = fetched % STAGES
            phase = fetched // STAGES & 1
            mbarrier.wait(k_empty.index(place), phase ^ 1)
            mbarrier.expect(k_full.index(place), PARTS * k_desc.block_type.nbytes)
            for part in gl.static_range(PARTS):
                tma.async_copy_global_to_shared(
                    k_desc, [batch, kv_head, col, part * HEAD_DIM], k_full.index(place), k_s.index(place * PARTS + part)
                )
            mbarrier.wait(v_empty.index(place), phase ^ 1)
            mbarrier.expect(v_full.index(place), PARTS * v_desc.block_type.nbytes)
            for part in gl.static_range(PARTS):
                tma.async_copy_global_to_shared(
                    v_desc, [batch, kv_head, col, part * HEAD_DIM], v_full.index(place), v_s.index(place * PARTS + part)
                )
            fetched += 1


@gluon.jit
def _scores(
    scores, q_s, k_s, group, place,
    HEAD_DIM: gl.constexpr, PARTS: gl.constexpr, BLOCK_N: gl.constexpr,
):  # fmt: skip
    """S = Q Kᵀ, started: a part of the head after the other."""
    for part in gl.static_range(PARTS):
        q = q_s.index(group * PARTS + part).reshape([64, HEAD_DIM])
        k = k_s.index(place * PARTS + part).reshape([BLOCK_N, HEAD_DIM])
        scores = warpgroup_mma(q, k.permute((1, 0)), scores, use_acc=part > 0, is_async=True)
    return scores


@gluon.jit
def _plus_values(
    o, p, v_s, place,
    HEAD_DIM: gl.constexpr, PARTS: gl.constexpr, BLOCK_N: gl.constexpr,
):  # fmt: skip
    """O + P̃ V, started: of each part of the head."""
    added = ()
    for part in gl.static_range(PARTS):
        v = v_s.index(place * PARTS + part).reshape([BLOCK_N, HEAD_DIM])
        added = added + (warpgroup_mma(p, v, o[part], is_async=True),)  # type: ignore[assignment]
    return added


@gluon.jit
def _compute(
    descs, lse_ptr, places, barriers, work, sizes,
    HEAD_DIM: gl.constexpr, PARTS: gl.constexpr, BLOCK_N: gl.constexpr, STAGES: gl.constexpr, CAUSAL: gl.constexpr,
    GROUPS: gl.constexpr, O_APART: gl.constexpr, C: gl.constexpr,
):  # fmt: skip
    q_desc, _k_desc, _v_desc, o_desc = descs
    q_s, k_s, v_s, o_s = places
    q_full, q_empty, k_full, k_empty, v_full, v_empty = barriers
    _m_tiles, heads, _group, seq_len, kv_len, diagonal, scale_log2 = sizes
    S_LAYOUT: gl.constexpr = gl.NVMMADistributedLayout(
        version=[3, 0], warps_per_cta=[4, 1], instr_shape=[16, BLOCK_N, 16]
    )
    O_LAYOUT: gl.constexpr = gl.NVMMADistributedLayout(
        version=[3, 0], warps_per_cta=[4, 1], instr_shape=[16, HEAD_DIM, 16]
    )
    P_LAYOUT: gl.constexpr = gl.DotOperandLayout(operand_index=0, parent=O_LAYOUT, k_width=2)
    dtype: gl.constexpr = q_desc.dtype
    rows = gl.arange(0, 64, layout=gl.SliceLayout(1, S_LAYOUT))
    used = 0  # tiles of keys so far
    count, tile = _first_tile(work, CAUSAL)
    for taken in range(count):
        this, tile = _this_tile_and_the_next(work, tile, taken, CAUSAL)
        batch, head, _kv_head, row = _tile(this, sizes, GROUPS * 64)
        fetched = _visits(row, GROUPS * 64, sizes, BLOCK_N, CAUSAL)
        row += C * 64
        visits = _visits(row, 64, sizes, BLOCK_N, CAUSAL)
        for _hidden in range(visits, fetched):  # tiles that only a group further down sees
            mbarrier.wait(k_full.index(used % STAGES), used // STAGES & 1)
            mbarrier.arrive(k_empty.index(used % STAGES), count=1)
            mbarrier.wait(v_full.index(used % STAGES), used // STAGES & 1)
            mbarrier.arrive(v_empty.index(used % STAGES), count=1)
            used += 1
        col = (visits - 1) * BLOCK_N
        # The first S, alone: there is no P̃ yet
        mbarrier.wait(q_full.index(C), taken & 1)
        mbarrier.wait(k_full.index(used % STAGES), used // STAGES & 1)
        s = gl.zeros([64, BLOCK_N], gl.float32, S_LAYOUT)
        s = _scores(s, q_s, k_s, C, used % STAGES, HEAD_DIM, PARTS, BLOCK_N)
        s = warpgroup_mma_wait(0, deps=(s,))
        mbarrier.arrive(k_empty.index(used % STAGES), count=1)
        if CAUSAL or col + BLOCK_N > kv_len:
            s = _masked(s, rows + row, col, kv_len, diagonal, CAUSAL)
        # m = rowmax S,  P̃ = 2^((S − m) · scale · log2 e),  l = rowsum P̃
        m_i = gl.max(s, axis=1)
        m_safe = gl.where(m_i == -float("inf"), 0.0, m_i) * scale_log2
        p = gl.exp2(s * scale_log2 - m_safe[:, None])
        l_i = _thread_sums(p)
        p = gl.convert_layout(p.to(dtype), P_LAYOUT)
        o = (gl.zeros([64, HEAD_DIM], gl.float32, O_LAYOUT),) * PARTS
        mbarrier.wait(v_full.index(used % STAGES), used // STAGES & 1)
        for _visit in range(1, visits):
            last = used
            used += 1
            col -= BLOCK_N
            # S = Q Kᵀ, and with the P̃ of the tile before O = O + P̃ V
            mbarrier.wait(k_full.index(used % STAGES), used // STAGES & 1)
            s = gl.zeros([64, BLOCK_N], gl.float32, S_LAYOUT)
            s = _scores(s, q_s, k_s, C, used % STAGES, HEAD_DIM, PARTS, BLOCK_N)
            o = _plus_values(o, p, v_s, last % STAGES, HEAD_DIM, PARTS, BLOCK_N)
            s = warpgroup_mma_wait(PARTS, deps=(s,))
            mbarrier.arrive(k_empty.index(used % STAGES), count=1)
            if CAUSAL and col + BLOCK_N - 1 > row + diagonal:
                s = _masked(s, rows + row, col, kv_len, diagonal, CAUSAL)
            # m_new = max(m, rowmax S),  α = 2^((m − m_new) · scale · log2 e)
            m_new = gl.maximum(m_i, gl.max(s, axis=1))
            m_safe = gl.where(m_new == -float("inf"), 0.0, m_new) * scale_log2
            alpha = gl.exp2(m_i * scale_log2 - m_safe)
            p_new = gl.exp2(s * scale_log2 - m_safe[:, None])
            # l = α l + rowsum P̃: each thread sums its own columns
            l_i = l_i * gl.convert_layout(alpha, gl.SliceLayout(1, l_i.type.layout))[:, None] + _thread_sums(p_new)
            m_i = m_new
            # The assembler moves nothing across a barrier: this keeps P̃ before the wait for O.
            mbarrier.wait(v_full.index(used % STAGES), used // STAGES & 1)
            o = warpgroup_mma_wait(0, deps=o + (p_new,))
            mbarrier.arrive(v_empty.index(last % STAGES), count=1)
            # O = α O, before the next matmul adds to it
            p = gl.convert_layout(o[PARTS].to(dtype), P_LAYOUT)
            alpha = gl.convert_layout(alpha, gl.SliceLayout(1, O_LAYOUT))[:, None]
            o = [part * alpha for part in o[:PARTS]]
        if O_APART:
            mbarrier.arrive(q_empty.index(C), count=1)
        o = _plus_values(o, p, v_s, used % STAGES, HEAD_DIM, PARTS, BLOCK_N)
        # lse = m · scale + ln l,  O / l
        l_i = gl.convert_layout(gl.sum(l_i, axis=1), gl.SliceLayout(1, S_LAYOUT))
        lse = (m_i * scale_log2 + gl.log2(l_i)) * 0.6931471805599453
        lse_ptrs = lse_ptr + (batch * heads + head).to(gl.int64) * seq_len + row + rows
        gl.store(lse_ptrs, lse, mask=row + rows < seq_len)
        inverse = gl.where(m_i == -float("inf"), 0.0, 1.0 / l_i)
        inverse = gl.convert_layout(inverse, gl.SliceLayout(1, O_LAYOUT))[:, None]
        o = warpgroup_mma_wait(0, deps=o + (inverse,))
        mbarrier.arrive(v_empty.index(used % STAGES), count=1)
        used += 1
        tma.store_wait(0)  # the O before has left its place
        for part in gl.static_range(PARTS):
            o_s.index(C * PARTS + part).reshape([64, HEAD_DIM]).store((o[part] * inverse).to(dtype))
        fence_async_shared()
        for part in gl.static_range(PARTS):
            tma.async_copy_shared_to_global(o_desc, [batch, head, row, part * HEAD_DIM], o_s.index(C * PARTS + part))
        if not O_APART:  # O is in Q's place: the next Q may come when O has left
            tma.store_wait(0)
            mbarrier.arrive(q_empty.index(C), count=1)
    tma.store_wait(0)


@gluon.jit
def _of_threads(x):
    """A tile as (row, eight columns, thread, column of its two): four threads share a row."""
    return x.reshape([x.shape[0], x.shape[1] // 8, 4, 2])


@gluon.jit
def _thread_sums(p):
    """Sums of a row, each of its four threads' own: (row, thread). They meet once, at the end, not at every tile."""
    return gl.sum(gl.sum(_of_threads(p), axis=3), axis=1)


@gluon.jit
def _masked(s, rows, col, kv_len, diagonal, CAUSAL: gl.constexpr):
    """S from column `col` on, −∞ where a key is hidden; compared with constants, which need no registers."""
    tile = _of_threads(s)
    ROW: gl.constexpr = gl.SliceLayout(1, gl.SliceLayout(2, gl.SliceLayout(3, tile.type.layout)))
    EIGHT: gl.constexpr = gl.SliceLayout(0, gl.SliceLayout(2, gl.SliceLayout(3, tile.type.layout)))
    THREAD: gl.constexpr = gl.SliceLayout(0, gl.SliceLayout(1, gl.SliceLayout(3, tile.type.layout)))
    PAIR: gl.constexpr = gl.SliceLayout(0, gl.SliceLayout(1, gl.SliceLayout(2, tile.type.layout)))
    seen = gl.full(rows.shape, kv_len - col, gl.int32, rows.type.layout)  # so many columns of each row
    if CAUSAL:
        seen = gl.minimum(seen, rows + (diagonal + 1 - col))
    seen = gl.convert_layout(seen, ROW)[:, None, None, None]
    first = gl.arange(0, 4, layout=THREAD)[None, None, :, None] * 2
    eights = gl.arange(0, s.shape[1] // 8, layout=EIGHT)[None, :, None, None] * 8
    column = eights + gl.arange(0, 2, layout=PAIR)[None, None, None, :]
    tile = gl.where(column < seen - first, tile, -float("inf"))
    return gl.convert_layout(tile.reshape(s.shape), s.type.layout)


@gluon.jit
def flash_attention_hopper_kernel(
    q_desc, k_desc, v_desc, o_desc, lse_ptr, counts_ptr, tiles_ptr,
    tiles, m_tiles, heads, group, seq_len, kv_len, diagonal, scale_log2,
    HEAD_DIM: gl.constexpr, PARTS: gl.constexpr, BLOCK_N: gl.constexpr, STAGES: gl.constexpr, CAUSAL: gl.constexpr,
    GROUPS: gl.constexpr, O_APART: gl.constexpr,
):  # fmt: skip
    # A head has PARTS parts of HEAD_DIM features.
    q_s = gl.allocate_shared_memory(q_desc.dtype, [GROUPS * PARTS, 1, 1, 64, HEAD_DIM], q_desc.layout)
    k_s = gl.allocate_shared_memory(k_desc.dtype, [STAGES * PARTS, 1, 1, BLOCK_N, HEAD_DIM], k_desc.layout)
    v_s = gl.allocate_shared_memory(v_desc.dtype, [STAGES * PARTS, 1, 1, BLOCK_N, HEAD_DIM], v_desc.layout)
    o_s = q_s  # of a wide head there is no room for both
    if O_APART:
        o_s = gl.allocate_shared_memory(o_desc.dtype, [GROUPS * PARTS, 1, 1, 64, HEAD_DIM], o_desc.layout)
    q_full = gl.allocate_shared_memory(gl.int64, [GROUPS, 1], mbarrier.MBarrierLayout())
    q_empty = gl.allocate_shared_memory(gl.int64, [GROUPS, 1], mbarrier.MBarrierLayout())
    k_full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    k_empty = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    v_full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    v_empty = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    for i in gl.static_range(GROUPS):
        mbarrier.init(q_full.index(i), count=1)
        mbarrier.init(q_empty.index(i), count=1)
    for i in gl.static_range(STAGES):
        mbarrier.init(k_full.index(i), count=1)
        mbarrier.init(k_empty.index(i), count=GROUPS)
        mbarrier.init(v_full.index(i), count=1)
        mbarrier.init(v_empty.index(i), count=GROUPS)
    fence_async_shared()
    descs = (q_desc, k_desc, v_desc, o_desc)
    places = (q_s, k_s, v_s, o_s)
    barriers = (q_full, q_empty, k_full, k_empty, v_full, v_empty)
    work = (counts_ptr, tiles_ptr, tiles)
    sizes = (m_tiles, heads, group, seq_len, kv_len, diagonal, scale_log2)
    if GROUPS == 2:
        gl.warp_specialize(
            [
                (_compute, (descs, lse_ptr, places, barriers, work, sizes,
                            HEAD_DIM, PARTS, BLOCK_N, STAGES, CAUSAL, GROUPS, O_APART, 0)),
                (_compute, (descs, lse_ptr, places, barriers, work, sizes,
                            HEAD_DIM, PARTS, BLOCK_N, STAGES, CAUSAL, GROUPS, O_APART, 1)),
                (_fetch, (descs, places, barriers, work, sizes,
                          HEAD_DIM, PARTS, BLOCK_N, STAGES, CAUSAL, GROUPS, O_APART)),
            ],
            [4, 1], [240, 24],
        )  # fmt: skip
    else:
        gl.warp_specialize(
            [
                (_compute, (descs, lse_ptr, places, barriers, work, sizes,
                            HEAD_DIM, PARTS, BLOCK_N, STAGES, CAUSAL, GROUPS, O_APART, 0)),
                (_compute, (descs, lse_ptr, places, barriers, work, sizes,
                            HEAD_DIM, PARTS, BLOCK_N, STAGES, CAUSAL, GROUPS, O_APART, 1)),
                (_compute, (descs, lse_ptr, places, barriers, work, sizes,
                            HEAD_DIM, PARTS, BLOCK_N, STAGES, CAUSAL, GROUPS, O_APART, 2)),
                (_fetch, (descs, places, barriers, work, sizes,
                          HEAD_DIM, PARTS, BLOCK_N, STAGES, CAUSAL, GROUPS, O_APART)),
            ],
            [4, 4, 1], [160, 160, 32],
        )  # fmt: skip


@Kept
def flash_attention_hopper(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: bool = False,
    sm_scale: float | None = None,
    diagonal: int | None = None,
    block_n: int | None = None,
    stages: int | None = None,
    groups: int | None = None,
) -> Launch:
    """FlashAttention forward on Hopper: float16 or bfloat16, head_dim a multiple of 8 and contiguous, other strides
    multiples of 8, sm_scale > 0.

    Returns O and lse as `flash_attention` does. Raises ValueError naming the argument that this kernel does not take.

    The copy engine pads a head with zeros to a number of parts that one matmul each takes, since tiles have sides that
    are powers of two:

    | head_dim, up to | parts × features |                                                              |
    |-----------------|------------------|--------------------------------------------------------------|
    | 64              | 1 × 64           |                                                              |
    | 96, no mask     | 3 × 32           | 5–7% faster than 1 × 128 (under a mask 12% slower)           |
    | 128             | 1 × 128          |                                                              |
    | 192             | 3 × 64           | tiles of 64 keys from here on: O takes half of the registers |
    | 256             | 1 × 256          | O shares Q's place in shared memory                          |
    """
    parts, width = _parts(q.shape[3], causal)
    call = _Call.of(q, k, v, causal, sm_scale, diagonal, 128, block_n or 128)
    if refused := refusal(q, k, v, call.sm_scale):
        raise ValueError(refused)
    heads, programs = call.batch * call.heads, sms(q)

    def visits(groups: int, keys: int) -> tuple[int, ...]:
        rows = groups * ROWS
        return tile_visits(triton.cdiv(call.seq_len, rows), rows, call.kv_len, keys, call.diagonal if causal else None)

    def time(way: Way) -> float:
        slower = UNALIGNED if q.shape[3] % 16 and parts * width == 128 and way.groups == 2 else 1.0
        return slower * way.visit * longest(heads, visits(way.groups, way.keys), programs, way.start)

    ways = WAYS[parts * width]
    way = min([way for way in ways if way.groups == groups] or ways, key=time)
    groups, block_n = groups or way.groups, block_n or way.keys
    if stages is None:
        stages = _stages(q.shape[3], (parts, width), groups, call.kv_len)
    if stages < 2:
        raise ValueError(
            f"stages={stages}: at least 2, since the next V is waited for before this one's place is given back"
        )
    apart = (2 * groups * ROWS + 2 * stages * block_n) * parts * width * q.element_size() <= ROOM
    shape, dtype, device = q.shape, q.dtype, q.device
    gl_dtype = gl.float16 if dtype == torch.float16 else gl.bfloat16

    def descriptor(tensor: torch.Tensor, rows: int) -> TensorDescriptor:
        tile = [1, 1, rows, width]
        layout = gl.NVMMASharedLayout.get_default_for(tile, gl_dtype)
        return TensorDescriptor(tensor, list(tensor.shape), list(tensor.stride()), tile, layout)

    o = torch.empty(shape, dtype=dtype, device=device)
    descriptors = (descriptor(q, ROWS), descriptor(k, block_n), descriptor(v, block_n), descriptor(o, ROWS))
    m_tiles = len(visits(groups, block_n))
    # Without a mask all tiles are equally long: every program takes the next one.
    none = torch.empty(0, dtype=torch.int32, device=device)
    counts, tiles = lists(heads, visits(groups, block_n), programs, device) if causal else (none, none)
    scale_log2 = call.sm_scale * LOG2_E
    sizes = (heads * m_tiles, m_tiles, call.heads, call.group, call.seq_len, call.kv_len, call.diagonal, scale_log2)
    kernel = prepared(
        flash_attention_hopper_kernel, (min(programs, heads * m_tiles),), sizes,
        {"HEAD_DIM": width, "PARTS": parts, "BLOCK_N": block_n, "STAGES": stages, "CAUSAL": causal, "GROUPS": groups,
         "O_APART": apart},
        dict(enumerate(descriptors)), num_warps=4, maxnreg={2: 168, 3: 128}[groups],
    )  # fmt: skip

    def launch(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        o = torch.empty(shape, dtype=dtype, device=device)
        lse = torch.empty(shape[:3], dtype=torch.float32, device=device)
        kernel(q, k, v, o, lse, counts, tiles)
        return o, lse

    return launch


def _parts(head_dim: int, causal: bool) -> tuple[int, int]:
    if 64 < head_dim <= 96 and not causal:
        return 3, 32
    if 128 < head_dim <= 192:
        return 3, 64
    return 1, max(64, triton.next_power_of_2(head_dim))


def _stages(head_dim: int, parts: tuple[int, int], groups: int, kv_len: int) -> int:
    """Tiles of keys in shared memory. A third one instead of O: 1–9% faster for long rows in parts of 64 features, 12%
    slower for short ones. If rows are not a multiple of 32 bytes, tiles arrive slower, and a third one is 2–8% faster.
    """
    unaligned = head_dim % 16 and (parts == (3, 32) or (parts == (1, 128) and groups == 3))
    return 3 if kv_len > 512 and (unaligned or parts == (3, 64)) else 2


def refusal(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, sm_scale: float) -> str:
    """Which of these tensors this kernel does not take, and why; "" where it takes them all."""
    if q.dtype not in (torch.float16, torch.bfloat16):
        return f"q of dtype {q.dtype}: this kernel takes float16 and bfloat16"
    if q.shape[3] % 8:
        return f"q has head_dim {q.shape[3]}: this kernel takes multiples of 8"
    if sm_scale <= 0:
        return f"sm_scale={sm_scale}: this kernel takes a scale above 0"
    for name, tensor in (("q", q), ("k", k), ("v", v)):
        if tensor.stride(3) != 1 or any(stride % 8 for stride in tensor.stride()[:3]) or tensor.data_ptr() % 16:
            return f"{name} of strides {tensor.stride()}: this kernel copies 16 aligned bytes at a time"
    return ""
