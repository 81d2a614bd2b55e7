"""FlashAttention forward for Hopper (sm_90) in Gluon: a persistent, warp-specialized kernel with intra-warpgroup
overlap.

The tensor cores should never wait for bytes or for exponentials. Four ideas of FlashAttention-3 (arXiv
2407.08608):

- **Warp specialization.** One producer warp requests the next tiles of K and V from the TMA, as long as there is space.
  One to three consumer warpgroups (four warps and 64 rows of Q each) compute. Barriers in shared memory say "full" and
  "empty". Q's place is empty when its last S is there, a visit before the tile ends, so the next Q is there in time.
- **Intra-warpgroup overlap.** A warpgroup starts two matmuls together, S_next = Q K_{j−1}ᵀ and Õ = Õ + P̃ V_j. While Õ
  still grows, it computes the softmax of S_next.
- **Persistent kernel.** There are one or two programs per SM, and each computes many query tiles. Under a mask the
  host makes a list per program, longest tiles first, so that all programs end at about the same time
  (`kernels/schedule.py`).
- **One reduction per row.** A row lies in four threads. Each thread sums its own part of l. The four sums are added at
  the end of the row, not at every tile: 8% faster at head_dim 64 without a mask.

The interpreter cannot run Gluon; `flash_attention_exp2` in `attention.py` does the same arithmetic. Keys are visited
from last to first. So the masked tiles come first, and the loop over the others needs no mask. A hidden V must be
finite: 0 · NaN is NaN.

Tried on an H200 and left out: a part of the exponentials by a polynomial on the FMA units (FlashAttention-4's idea;
2–13% slower in the grouping that is fastest without it, within 1% with Q in registers besides), K's place released
later (within 1%), tiles of 64 keys (14–20% slower at head_dim 128), the last P̃ V of a query tile overlapped with the
first Q Kᵀ of the next (2–9% slower), ping-pong scheduling (no gain, or 3% slower). The times are in
`benchmarks/results/tuning/`. Also without a gain: a second place for Q, and fewer heads at once under a mask, so that
their K and V stay in L2 (each within 1%).
"""

from __future__ import annotations

import itertools
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
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

from kernels.attention import LOG2_E, _Call
from kernels.gpu import sms
from kernels.kept import Kept, prepared
from kernels.schedule import lists, longest, tile_visits

ROOM = 225 * 1024  # bytes of shared memory for tiles
ROWS = 64  # of a group: the M of a warpgroup's matmul


class Way(NamedTuple):
    """A tile's consumer warpgroups and keys, the programs that an SM has at once, and what they take, in µs: a launch
    beside its visits, and a visit to a tile of keys. Prologue and epilogue last `start` visits.

    Fitted to random shapes from 150 to 16384 queries: 171 on an H200, 340 on an H100, and of 16 features 30 on an H200.
    """

    groups: int
    keys: int
    at_once: int
    launch: float
    visit: float
    start: float


WAYS = {
    16: (Way(3, 128, 1, 7.4, 1.10, 1.75), Way(2, 64, 2, 4.2, 0.82, 2.25), Way(1, 128, 2, 4.6, 0.88, 1.5)),
    32: (Way(2, 128, 1, 6.8, 0.98, 1.0), Way(3, 128, 1, 7.3, 1.19, 1.5), Way(2, 64, 2, 4.6, 0.86, 1.75)),
    48: (
        Way(2, 128, 1, 8.3, 1.09, 1.0), Way(3, 128, 1, 9.1, 1.44, 1.25), Way(2, 64, 2, 5.1, 0.93, 2.25),
        Way(1, 128, 2, 5.3, 1.24, 0.5),
    ),
    64: (
        Way(2, 128, 1, 8.3, 1.11, 1.0), Way(3, 128, 1, 8.6, 1.40, 1.25), Way(2, 64, 2, 6.2, 1.24, 1.0),
        Way(1, 128, 2, 5.9, 1.09, 1.25),
    ),
    80: (Way(2, 128, 1, 8.6, 1.27, 1.25), Way(3, 64, 1, 8.1, 0.97, 1.75)),
    96: (Way(2, 128, 1, 8.6, 1.34, 1.25), Way(3, 64, 1, 7.7, 1.05, 1.5)),
    128: (Way(2, 128, 1, 8.6, 1.49, 1.25), Way(3, 64, 1, 8.2, 1.15, 1.25)),
    144: (Way(2, 128, 1, 6.9, 1.77, 2.0), Way(2, 64, 1, 7.4, 0.97, 2.75)),
    160: (Way(2, 64, 1, 8.5, 1.01, 3.5),),
    192: (Way(2, 64, 1, 6.9, 1.14, 3.25),),
    256: (Way(2, 64, 1, 5.0, 1.45, 3.75),),
}  # fmt: skip
"""Ways by features, padded; the schedule says which is fastest. For up to 64 features an SM has registers for two
programs, with one group or with tiles of 64 keys. Then a tile waits less for others, and fewer SMs are idle at the end.
Relative to cuDNN's speed, one program and two: 15×40×257×40 causal 1.10 and 1.31, 2×25×257×64 1.21 and 1.51,
1×12×1500×64 causal 1.08 and 1.23. For long rows three groups are faster.
"""
REGISTERS = {(1, 1): (128, 232), (1, 2): (128, 232), (2, 1): (168, 240), (2, 2): (80, 104), (3, 1): (128, 160)}
"""By groups and programs at once: registers of a thread as the program starts, and of a consumer then."""


UNALIGNED = {1: 1.4, 2: 1.1, 3: 1.0}
"""How much longer a visit takes where rows are not a multiple of 32 bytes, by groups: the tiles of keys arrive slower,
and the fewer groups share one, the longer they wait.
"""
FEW = 0.75
"""A visit's share of its usual time where one group has all rows, and the others nothing to compute."""

Launch = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], tuple[torch.Tensor, torch.Tensor]]
"""q, k and v to O and lse"""


@gluon.jit
def _tile(tile, sizes, BLOCK_M: gl.constexpr):
    """Which rows and keys the tile has: (batch, head, kv head, first row)."""
    m_tiles, heads, group, _seq_len, _queries, _kv_len, _diagonal, _scale = sizes
    head = tile // m_tiles
    return head // heads, head % heads, head % heads // group, tile % m_tiles * BLOCK_M


@gluon.jit
def _share(visits, m_tiles):
    """This program's share of all heads' tiles of keys: the first, and the one after the last. As many programs have
    one share as a head has tiles of rows: each reads the same keys for its own rows, at about the same time.
    """
    share, shares = gl.program_id(0) // m_tiles, gl.num_programs(0) // m_tiles
    each, more = visits // shares, visits % shares
    return share * each + gl.minimum(share, more), (share + 1) * each + gl.minimum(share + 1, more)


@gluon.jit
def _first_tile(work, sizes, BLOCK_N: gl.constexpr, DEALT: gl.constexpr, SPLIT: gl.constexpr):
    """How many tiles this program has, and the first of its list or of its share, if it has one."""
    counts_ptr, tiles_ptr, tiles = work
    program, programs = gl.program_id(0), gl.num_programs(0)
    if SPLIT:
        m_tiles, visits = sizes[0], gl.cdiv(sizes[5], BLOCK_N)
        begin, end = _share(tiles // m_tiles * visits, m_tiles)
        found = gl.cdiv(end, visits) - begin // visits, begin // visits * m_tiles + program % m_tiles
    elif DEALT:
        found = gl.load(counts_ptr + program), gl.load(tiles_ptr + program)
    else:
        found = gl.cdiv(tiles - program, programs), 0
    return found


@gluon.jit
def _this_tile_and_the_next(work, m_tiles, tile, taken, DEALT: gl.constexpr, SPLIT: gl.constexpr):
    """The next one is loaded while this one is computed: the lists have a row more than tiles."""
    _counts_ptr, tiles_ptr, _tiles = work
    program, programs = gl.program_id(0), gl.num_programs(0)
    if SPLIT:
        found = tile, tile + m_tiles
    elif DEALT:
        found = tile, gl.load(tiles_ptr + (taken + 1) * programs + program)
    else:
        found = program + taken * programs, 0
    return found


@gluon.jit
def _visits(
    tile, row, ROWS: gl.constexpr, work, sizes, BLOCK_N: gl.constexpr, CAUSAL: gl.constexpr, SPLIT: gl.constexpr
):  # fmt: skip
    """How many tiles of keys these rows see, and how many come before; a row that sees none visits one, which is all
    hidden. SPLIT: those of its head that are in this program's share.
    """
    m_tiles, _heads, _group, _seq_len, _queries, kv_len, diagonal, _scale = sizes
    keys = kv_len
    if CAUSAL and not SPLIT:
        keys = gl.minimum(kv_len, gl.maximum(row + ROWS + diagonal, 1))
    visits = gl.cdiv(keys, BLOCK_N)
    first = 0
    if SPLIT:
        begin, end = _share(work[2] // m_tiles * visits, m_tiles)
        others = tile // m_tiles * visits  # of the heads before
        first = gl.maximum(begin - others, 0)
        visits = gl.minimum(end - others, visits) - first
    return visits, first


@gluon.jit
def _copy(descs, places, place, barrier, batch, head, row, FIRST: gl.constexpr, REST: gl.constexpr):
    """Asks the copy engine for a tile: each part of its head."""
    PARTS: gl.constexpr = 1 if REST == 0 else 2
    mbarrier.expect(barrier, (FIRST + REST) * descs[0].block_type.nbytes // FIRST)
    for part in gl.static_range(PARTS):
        corner = [batch, head, row, part * FIRST]
        tma.async_copy_global_to_shared(descs[part], corner, barrier, places[part].index(place))


@gluon.jit
def _fetch(
    descs, places, barriers, work, sizes,
    FIRST: gl.constexpr, REST: gl.constexpr, BLOCK_N: gl.constexpr, STAGES: gl.constexpr, CAUSAL: gl.constexpr,
    SPLIT: gl.constexpr, GROUPS: gl.constexpr, O_APART: gl.constexpr, PACKED: gl.constexpr,
):  # fmt: skip
    q_descs, k_descs, v_descs, _o_descs = descs
    q_s, k_s, v_s, _o_s = places
    q_full, q_empty, k_full, k_empty, v_full, v_empty = barriers
    fetched = 0  # tiles of keys so far
    count, tile = _first_tile(work, sizes, BLOCK_N, CAUSAL, SPLIT)
    for taken in range(count):
        this, tile = _this_tile_and_the_next(work, sizes[0], tile, taken, CAUSAL, SPLIT)
        batch, head, kv_head, row = _tile(this, sizes, GROUPS * 64)
        visits, first = _visits(this, row, GROUPS * 64, work, sizes, BLOCK_N, CAUSAL, SPLIT)
        for j in range(visits):
            col = (first + visits - 1 - j) * BLOCK_N
            place = fetched % STAGES
            phase = fetched // STAGES & 1
            mbarrier.wait(k_empty.index(place), phase ^ 1)
            _copy(k_descs, k_s, place, k_full.index(place), batch, kv_head, col, FIRST, REST)
            if j == 0:
                if PACKED:
                    gdc_wait()  # until the kernel that packs Q has ended
                for c in gl.static_range(GROUPS):
                    mbarrier.wait(q_empty.index(c), (taken & 1) ^ 1)
                    _copy(q_descs, q_s, c, q_full.index(c), batch, head, row + c * 64, FIRST, REST)
            mbarrier.wait(v_empty.index(place), phase ^ 1)
            _copy(v_descs, v_s, place, v_full.index(place), batch, kv_head, col, FIRST, REST)
            fetched += 1


@gluon.jit
def _scores(scores, q_s, k_s, group, place, FIRST: gl.constexpr, REST: gl.constexpr, BLOCK_N: gl.constexpr):
    """S = Q Kᵀ, started: a part of the head after the other."""
    PARTS: gl.constexpr = 1 if REST == 0 else 2
    for part in gl.static_range(PARTS):
        q = q_s[part].index(group).reshape([64, (FIRST, REST)[part]])
        k = k_s[part].index(place).reshape([BLOCK_N, (FIRST, REST)[part]])
        scores = warpgroup_mma(q, k.permute((1, 0)), scores, use_acc=part > 0, is_async=True)
    return scores


@gluon.jit
def _plus_values(o, p, v_s, place, FIRST: gl.constexpr, REST: gl.constexpr, BLOCK_N: gl.constexpr):
    """O + P̃ V, started: of each part of the head."""
    PARTS: gl.constexpr = 1 if REST == 0 else 2
    added = ()
    for part in gl.static_range(PARTS):
        v = v_s[part].index(place).reshape([BLOCK_N, (FIRST, REST)[part]])
        weights = gl.convert_layout(p, gl.DotOperandLayout(operand_index=0, parent=o[part].type.layout, k_width=2))
        added = added + (warpgroup_mma(weights, v, o[part], is_async=True),)  # type: ignore[assignment]
    return added


@gluon.jit
def _zeros(WIDTH: gl.constexpr):
    """A part of O, before any values."""
    layout: gl.constexpr = gl.NVMMADistributedLayout(version=[3, 0], warps_per_cta=[4, 1], instr_shape=[16, WIDTH, 16])
    return gl.zeros([64, WIDTH], gl.float32, layout)


@gluon.jit
def _o_place(
    o_s, o_descs, group, part: gl.constexpr, FIRST: gl.constexpr, REST: gl.constexpr, O_APART: gl.constexpr
):  # fmt: skip
    """Where a part of O waits for the copy engine: in its own place, or in one that the parts share."""
    if part == 0 or O_APART:
        place = o_s[part].index(group)
    else:
        place = o_s[0].index(group)._reinterpret(o_descs[1].dtype, [1, 1, 64, REST], o_descs[1].layout)
    return place


@gluon.jit
def _times(o, factor):
    """A part of O, each row times its factor."""
    return o * gl.convert_layout(factor, gl.SliceLayout(1, o.type.layout))[:, None]


@gluon.jit
def _compute(
    descs, lse_ptr, part_ptr, places, barriers, work, sizes,
    FIRST: gl.constexpr, REST: gl.constexpr, BLOCK_N: gl.constexpr, STAGES: gl.constexpr, CAUSAL: gl.constexpr,
    SPLIT: gl.constexpr, GROUPS: gl.constexpr, O_APART: gl.constexpr, C: gl.constexpr,
):  # fmt: skip
    q_descs, _k_descs, _v_descs, o_descs = descs
    q_s, k_s, v_s, o_s = places
    q_full, q_empty, k_full, k_empty, v_full, v_empty = barriers
    m_tiles, heads, _group, seq_len, queries, kv_len, diagonal, scale_log2 = sizes
    S_LAYOUT: gl.constexpr = gl.NVMMADistributedLayout(
        version=[3, 0], warps_per_cta=[4, 1], instr_shape=[16, BLOCK_N, 16]
    )
    O_LAYOUT: gl.constexpr = gl.NVMMADistributedLayout(
        version=[3, 0], warps_per_cta=[4, 1], instr_shape=[16, FIRST, 16]
    )
    P_LAYOUT: gl.constexpr = gl.DotOperandLayout(operand_index=0, parent=O_LAYOUT, k_width=2)
    PARTS: gl.constexpr = 1 if REST == 0 else 2
    dtype: gl.constexpr = q_descs[0].dtype
    rows = gl.arange(0, 64, layout=gl.SliceLayout(1, S_LAYOUT))
    used = 0  # tiles of keys so far
    count, tile = _first_tile(work, sizes, BLOCK_N, CAUSAL, SPLIT)
    for taken in range(count):
        this, tile = _this_tile_and_the_next(work, sizes[0], tile, taken, CAUSAL, SPLIT)
        batch, head, _kv_head, row = _tile(this, sizes, GROUPS * 64)
        fetched, _first = _visits(this, row, GROUPS * 64, work, sizes, BLOCK_N, CAUSAL, SPLIT)
        row += C * 64
        visits, first = _visits(this, row, 64, work, sizes, BLOCK_N, CAUSAL, SPLIT)
        if row >= seq_len:
            visits = 0
        for _hidden in range(visits, fetched):  # tiles that only another group sees
            mbarrier.wait(k_full.index(used % STAGES), used // STAGES & 1)
            mbarrier.arrive(k_empty.index(used % STAGES), count=1)
            mbarrier.wait(v_full.index(used % STAGES), used // STAGES & 1)
            mbarrier.arrive(v_empty.index(used % STAGES), count=1)
            used += 1
        mbarrier.wait(q_full.index(C), taken & 1)
        if visits == 0:
            mbarrier.arrive(q_empty.index(C), count=1)
        else:
            col = (first + visits - 1) * BLOCK_N
            # The first S, alone: there is no P̃ yet
            mbarrier.wait(k_full.index(used % STAGES), used // STAGES & 1)
            s = gl.zeros([64, BLOCK_N], gl.float32, S_LAYOUT)
            s = _scores(s, q_s, k_s, C, used % STAGES, FIRST, REST, BLOCK_N)
            s = warpgroup_mma_wait(0, deps=(s,))
            mbarrier.arrive(k_empty.index(used % STAGES), count=1)
            if visits == 1:  # Q has been read: the next one may come, long before it is needed
                mbarrier.arrive(q_empty.index(C), count=1)
            if CAUSAL or col + BLOCK_N > kv_len:
                s = _masked(s, _query(rows + row, queries, SPLIT), col, kv_len, diagonal, CAUSAL)
            # m = rowmax S,  P̃ = 2^((S − m) · scale · log2 e),  l = rowsum P̃
            m_i = gl.max(s, axis=1)
            m_safe = gl.where(m_i == -float("inf"), 0.0, m_i) * scale_log2
            p = gl.exp2(s * scale_log2 - m_safe[:, None])
            l_i = _thread_sums(p)
            p = gl.convert_layout(p.to(dtype), P_LAYOUT)
            o = (_zeros(FIRST),)
            if REST > 0:
                o += (_zeros(REST),)  # type: ignore[assignment]
            mbarrier.wait(v_full.index(used % STAGES), used // STAGES & 1)
            for visit in range(1, visits):
                last = used
                used += 1
                col -= BLOCK_N
                # S = Q Kᵀ, and with the P̃ of the tile before O = O + P̃ V
                mbarrier.wait(k_full.index(used % STAGES), used // STAGES & 1)
                s = gl.zeros([64, BLOCK_N], gl.float32, S_LAYOUT)
                s = _scores(s, q_s, k_s, C, used % STAGES, FIRST, REST, BLOCK_N)
                o = _plus_values(o, p, v_s, last % STAGES, FIRST, REST, BLOCK_N)
                s = warpgroup_mma_wait(PARTS, deps=(s,))
                mbarrier.arrive(k_empty.index(used % STAGES), count=1)
                if visit == visits - 1:
                    mbarrier.arrive(q_empty.index(C), count=1)
                if CAUSAL and col + BLOCK_N - 1 > (0 if SPLIT else row) + diagonal:
                    s = _masked(s, _query(rows + row, queries, SPLIT), col, kv_len, diagonal, CAUSAL)
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
                o = [_times(one, alpha) for one in o[:PARTS]]  # type: ignore[assignment]
            o = _plus_values(o, p, v_s, used % STAGES, FIRST, REST, BLOCK_N)
            # lse = m · scale + ln l,  O / l
            l_i = gl.convert_layout(gl.sum(l_i, axis=1), gl.SliceLayout(1, S_LAYOUT))
            lse = m_i * scale_log2 + gl.log2(l_i)
            if SPLIT:  # in base 2, in its part's place
                slots = (gl.num_programs(0) + work[2]) // m_tiles
                slot = this % m_tiles * slots + gl.program_id(0) // m_tiles + this // m_tiles
                at = slot.to(gl.int64) * (GROUPS * 64) + C * 64
            else:
                lse *= 0.6931471805599453
                at = (batch * heads + head).to(gl.int64) * seq_len + row
            gl.store(lse_ptr + at + rows, lse, mask=row + rows < seq_len)
            inverse = gl.where(m_i == -float("inf"), 0.0, 1.0 / l_i)
            o = warpgroup_mma_wait(0, deps=o + (inverse,))
            mbarrier.arrive(v_empty.index(used % STAGES), count=1)
            used += 1
            for part in gl.static_range(PARTS):
                if SPLIT:
                    of_part = part_ptr + at * (FIRST + REST) + part * FIRST
                    _store_part(of_part, _times(o[part], inverse), FIRST + REST, seq_len - row)
                else:
                    if part == 0 or not O_APART:
                        tma.store_wait(0)  # the O before has left this place
                    place = _o_place(o_s, o_descs, C, part, FIRST, REST, O_APART)
                    place.reshape([64, (FIRST, REST)[part]]).store(_times(o[part], inverse).to(dtype))
                    fence_async_shared()
                    tma.async_copy_shared_to_global(o_descs[part], [batch, head, row, part * FIRST], place)
    tma.store_wait(0)


@gluon.jit
def _query(rows, queries, SPLIT: gl.constexpr):
    """Which query of its head each row is; SPLIT: rows are the queries of one head after those of another."""
    if SPLIT:
        rows = rows % queries
    return rows


@gluon.jit
def _store_part(ptr, o, WIDTH: gl.constexpr, rows_left):
    """A part of O, float32, where rows are WIDTH apart."""
    rows = gl.arange(0, 64, layout=gl.SliceLayout(1, o.type.layout))
    dims = gl.arange(0, o.shape[1], layout=gl.SliceLayout(0, o.type.layout))
    gl.store(ptr + rows[:, None] * WIDTH + dims[None, :], o, mask=(rows < rows_left)[:, None])


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
def _places(descs, COUNT: gl.constexpr, ROWS: gl.constexpr, FIRST: gl.constexpr, REST: gl.constexpr):
    """Shared memory for so many tiles, a buffer for each part of the head."""
    first = gl.allocate_shared_memory(descs[0].dtype, [COUNT, 1, 1, ROWS, FIRST], descs[0].layout)
    if REST > 0:
        rest = gl.allocate_shared_memory(descs[1].dtype, [COUNT, 1, 1, ROWS, REST], descs[1].layout)
        places = (first, rest)
    else:
        places = (first,)  # type: ignore[assignment]
    return places


@gluon.jit
def flash_attention_hopper_kernel(
    q_desc, k_desc, v_desc, o_desc, q_rest, k_rest, v_rest, o_rest, lse_ptr, part_ptr, counts_ptr, tiles_ptr,
    tiles, m_tiles, heads, group, seq_len, queries, kv_len, diagonal, scale_log2,
    FIRST: gl.constexpr, REST: gl.constexpr, BLOCK_N: gl.constexpr, STAGES: gl.constexpr, CAUSAL: gl.constexpr,
    SPLIT: gl.constexpr, GROUPS: gl.constexpr, O_APART: gl.constexpr, REGISTERS: gl.constexpr, PACKED: gl.constexpr,
):  # fmt: skip
    if SPLIT:  # the kernel that joins starts now, and waits for this one
        gdc_launch_dependents()
    q_descs, k_descs, v_descs, o_descs = (q_desc, q_rest), (k_desc, k_rest), (v_desc, v_rest), (o_desc, o_rest)
    q_s = _places(q_descs, GROUPS, 64, FIRST, REST)
    k_s = _places(k_descs, STAGES, BLOCK_N, FIRST, REST)
    v_s = _places(v_descs, STAGES, BLOCK_N, FIRST, REST)
    o_s = q_s if SPLIT else _places(o_descs, GROUPS, 64, FIRST, REST if O_APART else 0)
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
    descs = (q_descs, k_descs, v_descs, o_descs)
    places = (q_s, k_s, v_s, o_s)
    barriers = (q_full, q_empty, k_full, k_empty, v_full, v_empty)
    work = (counts_ptr, tiles_ptr, tiles)
    sizes = (m_tiles, heads, group, seq_len, queries, kv_len, diagonal, scale_log2)
    if GROUPS == 1:
        gl.warp_specialize(
            [
                (_compute, (descs, lse_ptr, part_ptr, places, barriers, work, sizes,
                            FIRST, REST, BLOCK_N, STAGES, CAUSAL, SPLIT, GROUPS, O_APART, 0)),
                (_fetch, (descs, places, barriers, work, sizes,
                          FIRST, REST, BLOCK_N, STAGES, CAUSAL, SPLIT, GROUPS, O_APART, PACKED)),
            ],
            [1], [24],
        )  # fmt: skip
    elif GROUPS == 2:
        gl.warp_specialize(
            [
                (_compute, (descs, lse_ptr, part_ptr, places, barriers, work, sizes,
                            FIRST, REST, BLOCK_N, STAGES, CAUSAL, SPLIT, GROUPS, O_APART, 0)),
                (_compute, (descs, lse_ptr, part_ptr, places, barriers, work, sizes,
                            FIRST, REST, BLOCK_N, STAGES, CAUSAL, SPLIT, GROUPS, O_APART, 1)),
                (_fetch, (descs, places, barriers, work, sizes,
                          FIRST, REST, BLOCK_N, STAGES, CAUSAL, SPLIT, GROUPS, O_APART, PACKED)),
            ],
            [4, 1], [REGISTERS, 24],
        )  # fmt: skip
    else:
        gl.warp_specialize(
            [
                (_compute, (descs, lse_ptr, part_ptr, places, barriers, work, sizes,
                            FIRST, REST, BLOCK_N, STAGES, CAUSAL, SPLIT, GROUPS, O_APART, 0)),
                (_compute, (descs, lse_ptr, part_ptr, places, barriers, work, sizes,
                            FIRST, REST, BLOCK_N, STAGES, CAUSAL, SPLIT, GROUPS, O_APART, 1)),
                (_compute, (descs, lse_ptr, part_ptr, places, barriers, work, sizes,
                            FIRST, REST, BLOCK_N, STAGES, CAUSAL, SPLIT, GROUPS, O_APART, 2)),
                (_fetch, (descs, places, barriers, work, sizes,
                          FIRST, REST, BLOCK_N, STAGES, CAUSAL, SPLIT, GROUPS, O_APART, PACKED)),
            ],
            [4, 4, 1], [REGISTERS, REGISTERS, 32],
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
    packed: bool = False,
) -> Launch:
    """FlashAttention forward on Hopper: float16 or bfloat16, head_dim a multiple of 8 and contiguous, other strides
    multiples of 8, sm_scale > 0.

    `packed`: the kernel before this one is `attention_split.packer`'s, and may still run when this one starts.
    Returns O and lse as `flash_attention` does. Raises ValueError naming the argument that this kernel does not take.

    A tile has sides that are powers of two, so a head has one or two parts, each for one matmul. The copy engine pads
    the last one with zeros:

    | head_dim, up to | parts              | made for                                                              |
    |-----------------|--------------------|-----------------------------------------------------------------------|
    | 16, 32, 64, 128 | one                | 7×13×1794×16, once padded to 32: 1.46 → 1.55                          |
    | 48              | 32 + 16            | 46×32×577×40: 0.96 → 1.16 × cuDNN                                     |
    | 80, 96          | 64 + 16, 64 + 32   | 5×16×1024×80: 0.92 → 1.14                                             |
    | 144, 160        | 128 + 16, 128 + 32 | 1×40×4096×144: 0.97 → 1.26                                            |
    | 192             | 128 + 64           | 7×25×512×192: 0.96 → 1.06. Three stages; O's parts share a place      |
    | 256             | 128 + 128          | 15×25×257×208 causal: 1.09 → 1.22. O's parts share a place            |
    """
    call = _Call.of(q, k, v, causal, sm_scale, diagonal, 128, block_n or 128)
    if refused := refusal(q, k, v, call.sm_scale):
        raise ValueError(refused)
    widths = _widths(q.shape[3])
    heads = call.batch * call.heads

    own = [way for way in ways(q.shape[3]) if groups in (None, way.groups) and block_n in (None, way.keys)]
    asked = ways(q.shape[3])[0]._replace(
        **{name: asked for name, asked in (("groups", groups), ("keys", block_n)) if asked}
    )
    way = min(own or [asked], key=lambda way: _time(way, q, call))
    groups, block_n, programs = way.groups, way.keys, way.at_once * sms(q)
    most, apart = _room(widths, way)
    stages = stages or most
    if stages < 2:
        raise ValueError(
            f"stages={stages}: at least 2, since the next V is waited for before this one's place is given back"
        )
    shape, dtype, device = q.shape, q.dtype, q.device
    o = torch.empty(shape, dtype=dtype, device=device)
    visits = _visits_of(way, call)
    m_tiles = len(visits)
    # Without a mask all tiles are equally long: every program takes the next one.
    none = torch.empty(0, dtype=torch.int32, device=device)
    counts, tiles = lists(heads, visits, programs, device) if causal else (none, none)
    scale_log2 = call.sm_scale * LOG2_E
    registers, consumers = REGISTERS[groups, way.at_once]
    sizes = (
        heads * m_tiles, m_tiles, call.heads, call.group, call.seq_len, call.seq_len, call.kv_len, call.diagonal,
        scale_log2,
    )  # fmt: skip
    kernel = prepared(
        flash_attention_hopper_kernel, (min(programs, heads * m_tiles),), sizes,
        {"FIRST": widths[0], "REST": sum(widths[1:]), "BLOCK_N": block_n, "STAGES": stages, "CAUSAL": causal,
         "SPLIT": False, "GROUPS": groups, "O_APART": apart, "REGISTERS": consumers, "PACKED": packed},
        descriptors(q, k, v, o, widths, block_n), num_warps=4, maxnreg=registers, launch_pdl=packed,
    )  # fmt: skip

    def launch(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        o = torch.empty(shape, dtype=dtype, device=device)
        lse = torch.empty(shape[:3], dtype=torch.float32, device=device)
        kernel(q, k, v, o, q, k, v, o, lse, lse, counts, tiles)
        return o, lse

    return launch


def descriptors(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, o: torch.Tensor, widths: tuple[int, ...], block_n: int
) -> dict[int, TensorDescriptor]:
    """Of tiles of Q, K, V and O, by place: of a head's first part, then of its last."""
    found = []
    for width, (tensor, rows) in itertools.product(
        (widths[0], widths[-1]), ((q, ROWS), (k, block_n), (v, block_n), (o, ROWS))
    ):
        tile = [1, 1, rows, width]
        layout = gl.NVMMASharedLayout.get_default_for(tile, gl.float16 if q.dtype == torch.float16 else gl.bfloat16)
        found.append(TensorDescriptor(tensor, list(tensor.shape), list(tensor.stride()), tile, layout))
    return dict(enumerate(found))


def time_of(q: torch.Tensor, call: _Call) -> float:
    """µs that the kernel takes by its fastest way, about."""
    return min(_time(way, q, call) for way in ways(q.shape[3]))


def _time(way: Way, q: torch.Tensor, call: _Call) -> float:
    visit = way.visit * (UNALIGNED[way.groups] if q.shape[3] % 16 else 1.0) * (FEW if call.seq_len <= ROWS else 1.0)
    heads = call.batch * call.heads
    return way.launch + visit * longest(heads, _visits_of(way, call), way.at_once * sms(q), way.start)


def _visits_of(way: Way, call: _Call) -> tuple[int, ...]:
    rows, diagonal = way.groups * ROWS, call.diagonal if call.constants["CAUSAL"] else None
    return tile_visits(triton.cdiv(call.seq_len, rows), rows, call.kv_len, way.keys, diagonal)


def ways(head_dim: int) -> tuple[Way, ...]:
    """The ways to compute heads of so many features."""
    return WAYS[sum(_widths(head_dim))]


def _widths(head_dim: int) -> tuple[int, ...]:
    """A head's parts: a power of two, and another one for the rest."""
    first = 2 ** (head_dim.bit_length() - 1)
    if head_dim > 192:
        return 128, 128
    rest = max(16, triton.next_power_of_2(head_dim - first)) if head_dim > first else 0
    if first < 32 or rest in (0, first):
        return (max(16, first + rest),)
    return first, rest


def _room(widths: tuple[int, ...], way: Way) -> tuple[int, bool]:
    """The stages that shared memory has room for, and whether each part of O has a place of its own. A third stage is
    worth more: with 192 features it is 2% faster, with 64 and two groups 3%.
    """
    for stages, apart in itertools.product((3, 2), (True, False)):
        rows, width = way.groups * ROWS, sum(widths)
        elements = (rows + 2 * stages * way.keys) * width + rows * (width if apart else widths[0])
        if 2 * elements <= ROOM // way.at_once:
            break
    return stages, apart


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
