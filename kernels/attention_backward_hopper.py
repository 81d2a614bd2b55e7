"""FlashAttention backward for Hopper (sm_90) in Gluon: five matmuls a tile, warp-specialized.

A program owns a tile of 128 keys and goes over the queries, as in `attention_backward.py`:

    Sᵀ = K Qᵀ        dPᵀ = V dOᵀ        dV = dV + Pᵀ dO        dK = dK + dSᵀ Q        dQ = dQ + dS K, in HBM

Four ideas, the first three of which FlashAttention-3's backward pass has too (arXiv 2407.08608, and its code):

- **Warp specialization.** A producer warp requests tiles of Q and dO, with lse and D of their rows, from the TMA. Two
  consumer warpgroups hold 64 keys each, and their dK and dV in registers.
- **Pᵀ and dSᵀ stay in registers** for dV and dK: keys are the rows of each warpgroup's matmuls.
- **The copy engine adds** a tile of dQ to float32 sums in HBM, while the warps go on. Which program adds first is open,
  so the last bits of dQ differ from run to run.
- **A third consumer warpgroup computes dQ**, which needs dS of all 128 keys. Each group leaves its dSᵀ in shared
  memory, in one of two places in turn, and goes on with the next queries. With 97 to 128 features there are no
  registers for a third group: there each of the two computes one part of dQ, a tile late, so that no group waits for
  the other's dSᵀ and dQ is on its way while S is computed.

A group computes nothing for a tile of queries that sees none of its keys, and masks only tiles that the mask can cut.
Where rows are short and many, the first keys have a launch of their own, in which dQ is stored: no zeros to add to.

Programs that would leave SMs idle are split into pieces: `attention_backward_pieces.py`. Heads of more features:
`attention_backward_wide.py`. What was tried and left out: docs/speed.md.

The interpreter cannot run Gluon; `flash_attention_backward` with dq="add" does the same arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from triton._C.libtriton import ir
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language._core import builtin
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

from kernels.attention import _Call
from kernels.attention_backward_launches import ROWS, launches, refusal
from kernels.kept import Kept

KEYS = 2 * ROWS
"""Of a program."""
LONG = 4096
"""Queries of a row from which it is faster that programs start with different ones: 2×28×8192×128 8469 → 8254 µs."""


@builtin
def _add_to_global(desc, coord, src, _semantic=None):
    """Started: the copy engine adds a tile in shared memory to one in HBM. Gluon's `tma` offers the copy alone."""
    at = _semantic._convert_to_ir_values(coord, require_i64=False)
    _semantic.builder.create_async_tma_reduce(ir.DESCRIPTOR_REDUCE_KIND.ADD, desc.handle, at, src.handle)


@gluon.jit
def _mine(
    turn, sizes, GROUPS: gl.constexpr, CAUSAL: gl.constexpr, LAUNCH: gl.constexpr, SPLIT: gl.constexpr,
    PERSISTENT: gl.constexpr,
):  # fmt: skip
    """Which keys the program has at its turn, 64 for each group, and which queries of those that see one: (batch, kv
    head, first key, first query, end of the queries, which piece it is, or below 0).
    """
    at_once, kv_heads, _group, end, _padded, _kv_len, diagonal = sizes[:7]
    columns, whole, pieces, items = sizes[9:]
    column, heads, last = gl.program_id(0), gl.program_id(1), gl.num_programs(1) - 1
    piece = -1
    if SPLIT or PERSISTENT:  # the same programs in a line: items of work
        item = gl.program_id(0) + turn * gl.num_programs(0)
        if SPLIT:  # those after the whole ones are pieces
            piece = item - whole
            if piece >= 0:
                item = whole + piece // pieces
        column, heads, last = item % columns, item // columns, items // columns - 1
    first = column // at_once * (GROUPS * 64)
    if LAUNCH == 2:  # from the last heads to the first: what the launch before touched last is still in L2
        heads = last - heads
        first += GROUPS * 64
    of_all = heads * at_once + column % at_once
    start = 0
    if CAUSAL:
        start = gl.maximum(0, first - diagonal) // 64 * 64
    if SPLIT and piece >= 0:
        queries = gl.cdiv(gl.cdiv(end - start, 64), pieces) * 64  # of a piece
        start += piece % pieces * queries
        end = gl.minimum(end, start + queries)
    return of_all // kv_heads, of_all % kv_heads, first, start, end, piece


@gluon.jit
def _turns(sizes, PERSISTENT: gl.constexpr):
    """How many items of work the program takes, one after the other."""
    if PERSISTENT:
        return gl.cdiv(sizes[12] - gl.program_id(0), gl.num_programs(0))
    return 1


@gluon.jit
def _turned(row, own, padded, TURNED: gl.constexpr):
    """The queries that the program takes at a row: the same ones; or if TURNED from its own on, and after the last ones
    the first.
    """
    if TURNED:
        row += own
        row = gl.where(row < padded, row, row - padded)
    return row


@gluon.jit
def _fetch(
    descs, places, barriers, sizes,
    PARTS: gl.constexpr, WIDTH: gl.constexpr, STAGES: gl.constexpr, CAUSAL: gl.constexpr,
    EARLY: gl.constexpr, LAUNCH: gl.constexpr, TURNED: gl.constexpr, SPLIT: gl.constexpr,
):  # fmt: skip
    q_desc, k_desc, v_desc, do_desc, _dk_desc, _dv_desc, _dq_desc, lse2_desc, delta_desc, _pieces_ptr = descs
    q_s, k_s, v_s, do_s, _ds_s, _dq_s, lse2_s, delta_s = places
    kept, _ds_full, _ds_empty, _done, q_full, do_full, empty = barriers
    kv_heads, group, padded = sizes[1], sizes[2], sizes[4]
    batch, kv_head, first, start, end, _piece = _mine(0, sizes, 2, CAUSAL, LAUNCH, SPLIT, False)
    if EARLY:  # the next kernel starts too, and waits for this one
        gdc_launch_dependents()
    mbarrier.expect(kept.index(0), 4 * PARTS * k_desc.block_type.nbytes)
    for c in gl.static_range(2):
        for part in gl.static_range(PARTS):
            at = [batch, kv_head, first + c * 64, part * WIDTH]
            tma.async_copy_global_to_shared(k_desc, at, kept.index(0), k_s.index(c * PARTS + part))
            tma.async_copy_global_to_shared(v_desc, at, kept.index(0), v_s.index(c * PARTS + part))
    if EARLY:
        gdc_wait()  # until lse and D are there, and what dQ is added to
    fetched = 0  # tiles of queries so far
    for member in range(group):
        head = kv_head * group + member
        first_row = (batch * kv_heads * group + head) * padded
        for tile in range(start, end, 64):
            row = _turned(tile, first % padded, padded, TURNED)
            place = fetched % STAGES
            phase = fetched // STAGES & 1
            mbarrier.wait(empty.index(place), phase ^ 1)
            mbarrier.expect(q_full.index(place), PARTS * q_desc.block_type.nbytes + lse2_desc.block_type.nbytes)
            tma.async_copy_global_to_shared(lse2_desc, [first_row + row], q_full.index(place), lse2_s.index(place))
            for part in gl.static_range(PARTS):
                tma.async_copy_global_to_shared(
                    q_desc, [batch, head, row, part * WIDTH], q_full.index(place), q_s.index(place * PARTS + part)
                )
            mbarrier.expect(do_full.index(place), PARTS * do_desc.block_type.nbytes + delta_desc.block_type.nbytes)
            tma.async_copy_global_to_shared(delta_desc, [first_row + row], do_full.index(place), delta_s.index(place))
            for part in gl.static_range(PARTS):
                tma.async_copy_global_to_shared(
                    do_desc, [batch, head, row, part * WIDTH], do_full.index(place), do_s.index(place * PARTS + part)
                )
            fetched += 1


@gluon.jit
def _scores(a_s, a, b_s, b, PARTS: gl.constexpr, WIDTH: gl.constexpr, LAYOUT: gl.constexpr):
    """A Bᵀ of two tiles in shared memory, started: a part of the head after the other."""
    scores = gl.zeros([64, 64], gl.float32, LAYOUT)
    for part in gl.static_range(PARTS):
        rows = a_s.index(a * PARTS + part).reshape([64, WIDTH])
        cols = b_s.index(b * PARTS + part).reshape([64, WIDTH])
        scores = warpgroup_mma(rows, cols.permute((1, 0)), scores, use_acc=part > 0, is_async=True)
    return scores


@gluon.jit
def _plus(sums, p, b_s, b, PARTS: gl.constexpr, WIDTH: gl.constexpr):
    """sums + P B, started: of each part of the head."""
    added = ()
    for part in gl.static_range(PARTS):
        rows = b_s.index(b * PARTS + part).reshape([64, WIDTH])
        added = added + (warpgroup_mma(p, rows, sums[part], is_async=True),)  # type: ignore[assignment]  # noqa: RUF005
    return added


@gluon.jit
def _waited(sums, others: gl.constexpr, PARTS: gl.constexpr):
    """The sums of all parts, when at most `others` matmuls that were started after them are under way."""
    if PARTS == 1:  # noqa: SIM108  a conditional expression would not compile: the two differ in type
        waited = (warpgroup_mma_wait(others, deps=sums),)
    else:
        waited = warpgroup_mma_wait(others, deps=sums)
    return waited


@gluon.jit
def _dq(
    ds_s, turn, k_s, part,
    PARTS: gl.constexpr, WIDTH: gl.constexpr, GROUPS: gl.constexpr, LAYOUT: gl.constexpr,
):  # fmt: skip
    """dS K of one part of the head, started: over the keys of all groups, 64 each."""
    dq = gl.zeros([64, WIDTH], gl.float32, LAYOUT)
    for c in gl.static_range(GROUPS):
        ds = ds_s.index(turn % 2 * GROUPS + c).permute((1, 0))
        k = k_s.index(c * PARTS + part).reshape([64, WIDTH])
        dq = warpgroup_mma(ds, k, dq, use_acc=c > 0, is_async=True)
    return dq


@gluon.jit
def _dq_rows(head, padded, desc):
    """Where a head's rows of dQ's sums begin. Sums whose rows end with the queries have a dimension for the heads."""
    if len(desc.block_type.shape) == 2:
        head *= padded
    return head


@gluon.jit
def _dq_at(desc, head, row, col):
    """The place of a tile of dQ's sums, for a head from `_dq_rows`."""
    return (head + row, col) if len(desc.block_type.shape) == 2 else (head, row, col)


@gluon.jit
def _send_dq(desc, at, place, dq, PARTS: gl.constexpr, LAUNCH: gl.constexpr):
    """A tile of dQ, by way of shared memory, to its sums in HBM: added there, or the first to be there.

    Of each 8 rows in the order 0, 4, 1, 5, 2, 6, 3, 7: half a warp stores 0 to 3 at once, and two rows beside each
    other share banks. 2×16×8192×128 4402 → 4173 µs. With four parts it is slower: 2×16×4096×256 2972 → 3048.
    """
    if PARTS < 4:
        WIDTH: gl.constexpr = dq.shape[1]
        dq = gl.reshape(gl.permute(gl.reshape(dq, [8, 2, 4, WIDTH]), [0, 2, 1, 3]), [64, WIDTH])
    place.reshape([64, dq.shape[1]]).store(dq)
    fence_async_shared()
    if LAUNCH == 1:
        tma.async_copy_shared_to_global(desc, at, place)
    else:
        _add_to_global(desc, at, place)


@gluon.jit
def _add_dq(
    descs, places, barriers, sizes,
    PARTS: gl.constexpr, WIDTH: gl.constexpr, GROUPS: gl.constexpr, CAUSAL: gl.constexpr, LAUNCH: gl.constexpr,
    SPLIT: gl.constexpr, PERSISTENT: gl.constexpr, LATE: gl.constexpr,
):  # fmt: skip
    """The group for dQ: a part after the other, in two places in turn while the copy engine adds the one before."""
    dq_desc, k_s, ds_s, dq_s = descs[6], places[1], places[4], places[5]
    kept, ds_full, ds_empty, done = barriers[0], barriers[1], barriers[2], barriers[3]
    kv_heads, group, padded = sizes[1], sizes[2], sizes[4]
    LAYOUT: gl.constexpr = gl.NVMMADistributedLayout(version=[3, 0], warps_per_cta=[4, 1], instr_shape=[16, WIDTH, 16])
    turn = 0  # tiles of queries so far
    for taken in range(_turns(sizes, PERSISTENT)):
        batch, kv_head, _first, start, end, _piece = _mine(taken, sizes, GROUPS, CAUSAL, LAUNCH, SPLIT, PERSISTENT)
        mbarrier.wait(kept.index(0), taken & 1)
        if LATE:
            gdc_wait()  # until what dQ is added to is there
        for member in range(group):
            head = _dq_rows((batch * kv_heads + kv_head) * group + member, padded, dq_desc)
            for row in range(start, end, 64):
                mbarrier.wait(ds_full.index(turn % 2), turn // 2 & 1)
                for part in gl.static_range(PARTS):
                    dq = _dq(ds_s, turn, k_s, part, PARTS, WIDTH, GROUPS, LAYOUT)
                    dq = warpgroup_mma_wait(0, deps=(dq,))
                    if part == PARTS - 1:
                        mbarrier.arrive(ds_empty.index(turn % 2), count=1)
                    place = dq_s.index((turn * PARTS + part) % 2)
                    tma.store_wait(1)
                    _send_dq(dq_desc, _dq_at(dq_desc, head, row, part * WIDTH), place, dq, PARTS, LAUNCH)
                turn += 1
        mbarrier.arrive(done.index(0), count=1)
    tma.store_wait(0)


@gluon.jit
def _own_dq(
    descs, places, barriers, turn, at, PARTS: gl.constexpr, WIDTH: gl.constexpr, C: gl.constexpr, LAYOUT: gl.constexpr,
    LAUNCH: gl.constexpr,
):  # fmt: skip
    """Where dQ has no group: this group's part of it, for a tile of queries whose dS both groups leave."""
    mbarrier.wait(barriers[1].index(turn % 2), turn // 2 & 1)
    dq = _dq(places[4], turn, places[1], C, PARTS, WIDTH, 2, LAYOUT)
    dq = warpgroup_mma_wait(0, deps=(dq,))
    tma.store_wait(0)
    _send_dq(descs[6], at, places[5].index(C), dq, PARTS, LAUNCH)


@gluon.jit
def _leave(ptr, sums, PARTS: gl.constexpr, WIDTH: gl.constexpr, LAYOUT: gl.constexpr):
    """dK or dV of 64 keys and a piece's queries, in float32."""
    rows = gl.arange(0, 64, layout=gl.SliceLayout(1, LAYOUT))
    dims = gl.arange(0, WIDTH, layout=gl.SliceLayout(0, LAYOUT))
    for part in gl.static_range(PARTS):
        gl.store(ptr + rows[:, None] * (PARTS * WIDTH) + (part * WIDTH + dims[None, :]), sums[part])


@gluon.jit
def _unseen(
    places, barriers, turn,
    STAGES: gl.constexpr, APART: gl.constexpr, C: gl.constexpr, S_LAYOUT: gl.constexpr,
):  # fmt: skip
    """A tile of queries none of which sees a key of this group: its dS is 0."""
    ds_s = places[4]
    _kept, ds_full, ds_empty, _done, q_full, _do_full, empty = barriers
    place = turn % STAGES
    if APART:
        mbarrier.wait(ds_empty.index(turn % 2), turn // 2 & 1 ^ 1)
    ds_s.index(turn % 2 * 2 + C).store(gl.zeros([64, 64], ds_s.dtype, S_LAYOUT))
    fence_async_shared()
    mbarrier.arrive(ds_full.index(turn % 2), count=1)
    mbarrier.wait(q_full.index(place), turn // STAGES & 1)
    mbarrier.arrive(empty.index(place), count=1)


@gluon.jit
def _seen(
    dk, dv, descs, places, barriers, sizes, turn, row, own, first, head,
    PARTS: gl.constexpr, WIDTH: gl.constexpr, STAGES: gl.constexpr, MASKED: gl.constexpr,
    EDGE: gl.constexpr, APART: gl.constexpr, C: gl.constexpr, DQ: gl.constexpr, LAUNCH: gl.constexpr,
    TURNED: gl.constexpr,
):  # fmt: skip
    """dK and dV with what a tile of queries brings. DQ: and this group's part of dQ of the tile before."""
    q_s, k_s, v_s, do_s, ds_s, dq_s, lse2_s, delta_s = places
    _kept, ds_full, ds_empty, _done, q_full, do_full, empty = barriers
    padded, kv_len, diagonal, scale_log2 = sizes[4], sizes[5], sizes[6], sizes[8]
    S_LAYOUT: gl.constexpr = gl.NVMMADistributedLayout(version=[3, 0], warps_per_cta=[4, 1], instr_shape=[16, 64, 16])
    LAYOUT: gl.constexpr = gl.NVMMADistributedLayout(version=[3, 0], warps_per_cta=[4, 1], instr_shape=[16, WIDTH, 16])
    P_LAYOUT: gl.constexpr = gl.DotOperandLayout(operand_index=0, parent=LAYOUT, k_width=2)
    QUERY: gl.constexpr = gl.SliceLayout(0, S_LAYOUT)
    dtype: gl.constexpr = q_s.dtype
    queries = gl.arange(0, 64, layout=QUERY)
    keys = gl.arange(0, 64, layout=gl.SliceLayout(1, S_LAYOUT))
    place, phase = turn % STAGES, turn // STAGES & 1
    last = turn - 1
    # Sᵀ = K Qᵀ,  dPᵀ = V dOᵀ                                                              (64 keys, 64 queries)
    if DQ:
        mbarrier.wait(ds_full.index(last % 2), last // 2 & 1)
        dq = _dq(ds_s, last, k_s, C, PARTS, WIDTH, 2, LAYOUT)
    mbarrier.wait(q_full.index(place), phase)
    s = _scores(k_s, C, q_s, place, PARTS, WIDTH, S_LAYOUT)
    if DQ:  # on its way while S is computed
        dq = warpgroup_mma_wait(PARTS, deps=(dq,))
        tma.store_wait(0)
        before = _turned(row - 64, own, padded, TURNED)
        _send_dq(descs[6], _dq_at(descs[6], head, before, C * WIDTH), dq_s.index(C), dq, PARTS, LAUNCH)
    mbarrier.wait(do_full.index(place), phase)
    dp = _scores(v_s, C, do_s, place, PARTS, WIDTH, S_LAYOUT)
    # Pᵀ = 2^(Sᵀ · scale · log2 e − lse)
    s = warpgroup_mma_wait(PARTS, deps=(s,))
    p = gl.exp2(s * scale_log2 - lse2_s.index(place).load(QUERY)[None, :])
    if MASKED:
        p = gl.where(keys[:, None] + (first - diagonal - row) <= queries[None, :], p, 0.0)
    if EDGE:  # a key outside has score 0: 2^(0 − lse) may be inf, and inf · 0 is NaN
        p = gl.where((keys < kv_len - first)[:, None], p, 0.0)
    # dV = dV + Pᵀ dO,  dSᵀ = Pᵀ ∘ (dPᵀ − D)
    delta = delta_s.index(place).load(QUERY)
    dp = warpgroup_mma_wait(0, deps=(dp,))
    dv = _plus(dv, gl.convert_layout(p.to(dtype), P_LAYOUT), do_s, place, PARTS, WIDTH)
    ds = (p * (dp - delta[None, :])).to(dtype)
    # dK = dK + dSᵀ Q: of long rows, its matmul starts before dS is left for dQ
    if TURNED:
        dk = _plus(dk, gl.convert_layout(ds, P_LAYOUT), q_s, place, PARTS, WIDTH)
    if APART:
        mbarrier.wait(ds_empty.index(turn % 2), turn // 2 & 1 ^ 1)
    ds_s.index(turn % 2 * 2 + C).store(ds)
    fence_async_shared()
    mbarrier.arrive(ds_full.index(turn % 2), count=1)
    if not TURNED:
        dk = _plus(dk, gl.convert_layout(ds, P_LAYOUT), q_s, place, PARTS, WIDTH)
    dv = _waited(dv, PARTS, PARTS)
    dk = _waited(dk, 0, PARTS)
    mbarrier.arrive(empty.index(place), count=1)
    return dk, dv


@gluon.jit
def _compute(
    descs, places, barriers, sizes,
    PARTS: gl.constexpr, WIDTH: gl.constexpr, STAGES: gl.constexpr, CAUSAL: gl.constexpr,
    EDGE: gl.constexpr, LAUNCH: gl.constexpr, APART: gl.constexpr, MASKED: gl.constexpr, TURNED: gl.constexpr,
    SPLIT: gl.constexpr, C: gl.constexpr,
):  # fmt: skip
    q_desc, _k_desc, _v_desc, _do_desc, dk_desc, dv_desc, _dq_desc, _lse2_desc, _delta_desc, pieces_ptr = descs
    _q_s, k_s, v_s, _do_s, _ds_s, _dq_s, _lse2_s, _delta_s = places
    kept, done = barriers[0], barriers[3]
    kv_heads, group, padded, kv_len, diagonal, sm_scale = sizes[1], sizes[2], sizes[4], sizes[5], sizes[6], sizes[7]
    batch, kv_head, first, start, end, piece = _mine(0, sizes, 2, CAUSAL, LAUNCH, SPLIT, False)
    S_LAYOUT: gl.constexpr = gl.NVMMADistributedLayout(version=[3, 0], warps_per_cta=[4, 1], instr_shape=[16, 64, 16])
    LAYOUT: gl.constexpr = gl.NVMMADistributedLayout(version=[3, 0], warps_per_cta=[4, 1], instr_shape=[16, WIDTH, 16])
    dtype: gl.constexpr = q_desc.dtype
    dk = (gl.zeros([64, WIDTH], gl.float32, LAYOUT),) * PARTS
    dv = (gl.zeros([64, WIDTH], gl.float32, LAYOUT),) * PARTS
    own = first % padded
    first += C * 64
    begin = start  # the first tile of queries of which one sees a key of this group
    if C == 1:
        if CAUSAL:
            begin = gl.where(start + 63 + diagonal < first, gl.minimum(start + 64, end), start)
        if EDGE:
            begin = gl.where(first < kv_len, begin, end)
    turn = 0  # tiles of queries so far
    mbarrier.wait(kept.index(0), 0)
    for member in range(group):
        head = _dq_rows((batch * kv_heads + kv_head) * group + member, padded, descs[6])
        if C == 1 and (CAUSAL or EDGE):
            for row in range(start, begin, 64):
                _unseen(places, barriers, turn, STAGES, APART, C, S_LAYOUT)
                if not APART:
                    at = _dq_at(descs[6], head, _turned(row, own, padded, TURNED), C * WIDTH)
                    _own_dq(descs, places, barriers, turn, at, PARTS, WIDTH, C, LAYOUT, LAUNCH)
                turn += 1
        if begin < end:
            dk, dv = _seen(
                dk, dv, descs, places, barriers, sizes, turn, begin, own, first, head,
                PARTS, WIDTH, STAGES, CAUSAL, EDGE, APART, C, False, LAUNCH, TURNED,
            )  # fmt: skip
            turn += 1
            for row in range(begin + 64, end, 64):
                dk, dv = _seen(
                    dk, dv, descs, places, barriers, sizes, turn, row, own, first, head,
                    PARTS, WIDTH, STAGES, MASKED, EDGE, APART, C, not APART, LAUNCH, TURNED,
                )  # fmt: skip
                turn += 1
            if not APART:
                at = _dq_at(descs[6], head, _turned((end - 1) // 64 * 64, own, padded, TURNED), C * WIDTH)
                _own_dq(descs, places, barriers, turn - 1, at, PARTS, WIDTH, C, LAYOUT, LAUNCH)
    if SPLIT and piece >= 0:
        _leave(pieces_ptr + (piece * 4 + C) * (64 * PARTS * WIDTH), dk, PARTS, WIDTH, LAYOUT)
        _leave(pieces_ptr + (piece * 4 + 2 + C) * (64 * PARTS * WIDTH), dv, PARTS, WIDTH, LAYOUT)
        tma.store_wait(0)
    else:
        # Only this group reads its V; its K is read for dQ too.
        for part in gl.static_range(PARTS):
            v_s.index(C * PARTS + part).reshape([64, WIDTH]).store(dv[part].to(dtype))
        fence_async_shared()
        for part in gl.static_range(PARTS):
            tma.async_copy_shared_to_global(dv_desc, [batch, kv_head, first, part * WIDTH], v_s.index(C * PARTS + part))
        if not APART:
            mbarrier.arrive(done.index(0), count=1)
        mbarrier.wait(done.index(0), 0)
        for part in gl.static_range(PARTS):
            k_s.index(C * PARTS + part).reshape([64, WIDTH]).store((dk[part] * sm_scale).to(dtype))
        fence_async_shared()
        for part in gl.static_range(PARTS):
            tma.async_copy_shared_to_global(dk_desc, [batch, kv_head, first, part * WIDTH], k_s.index(C * PARTS + part))
        tma.store_wait(0)


@gluon.jit(do_not_specialize_on_alignment=("columns", "whole", "pieces", "items"))
def attention_backward_hopper_kernel(
    q_desc, k_desc, v_desc, do_desc, dk_desc, dv_desc, dq_desc, lse2_desc, delta_desc, pieces_ptr,
    at_once, kv_heads, group, seq_len, padded, kv_len, diagonal, sm_scale, scale_log2, columns, whole, pieces,
    items,
    PARTS: gl.constexpr, WIDTH: gl.constexpr, STAGES: gl.constexpr, CAUSAL: gl.constexpr,
    EDGE: gl.constexpr, EARLY: gl.constexpr, LAUNCH: gl.constexpr, SPLIT: gl.constexpr, APART: gl.constexpr,
    MASKED: gl.constexpr, TURNED: gl.constexpr,
):  # fmt: skip
    # A head has PARTS parts of WIDTH features. EDGE: the mask does not hide all keys outside. EARLY: the kernel starts
    # before the one before it ends. LAUNCH: 0 for all keys; or 1 for the first, whose programs store dQ, and then 2 for
    # the others, which add to it. APART: dQ has its own group. MASKED: the mask cuts more than a group's first tile.
    # TURNED: a program starts with the queries of its keys' rows, so those of a head do not add to the same dQ at once.
    q_s = gl.allocate_shared_memory(q_desc.dtype, [STAGES * PARTS, 1, 1, 64, WIDTH], q_desc.layout)
    k_s = gl.allocate_shared_memory(q_desc.dtype, [2 * PARTS, 1, 1, 64, WIDTH], k_desc.layout)
    v_s = gl.allocate_shared_memory(q_desc.dtype, [2 * PARTS, 1, 1, 64, WIDTH], v_desc.layout)
    do_s = gl.allocate_shared_memory(q_desc.dtype, [STAGES * PARTS, 1, 1, 64, WIDTH], do_desc.layout)
    DS_LAYOUT: gl.constexpr = gl.NVMMASharedLayout(swizzle_byte_width=128, element_bitwidth=16, rank=2)
    ds_s = gl.allocate_shared_memory(q_desc.dtype, [4, 64, 64], DS_LAYOUT)
    if len(dq_desc.block_type.shape) == 2:
        dq_s = gl.allocate_shared_memory(gl.float32, [2, 64, WIDTH], dq_desc.layout)
    else:
        dq_s = gl.allocate_shared_memory(gl.float32, [2, 1, 64, WIDTH], dq_desc.layout)
    lse2_s = gl.allocate_shared_memory(gl.float32, [STAGES, 64], lse2_desc.layout)
    delta_s = gl.allocate_shared_memory(gl.float32, [STAGES, 64], delta_desc.layout)
    kept = gl.allocate_shared_memory(gl.int64, [1, 1], mbarrier.MBarrierLayout())
    q_full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    empty = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    do_full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    ds_full = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    ds_empty = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    done = gl.allocate_shared_memory(gl.int64, [1, 1], mbarrier.MBarrierLayout())
    mbarrier.init(kept.index(0), count=1)
    mbarrier.init(done.index(0), count=1 if APART else 2)
    for i in gl.static_range(2):
        mbarrier.init(ds_full.index(i), count=2)
        mbarrier.init(ds_empty.index(i), count=1)
    for i in gl.static_range(STAGES):
        mbarrier.init(q_full.index(i), count=1)
        mbarrier.init(empty.index(i), count=2)
        mbarrier.init(do_full.index(i), count=1)
    fence_async_shared()
    descs = (q_desc, k_desc, v_desc, do_desc, dk_desc, dv_desc, dq_desc, lse2_desc, delta_desc, pieces_ptr)
    places = (q_s, k_s, v_s, do_s, ds_s, dq_s, lse2_s, delta_s)
    barriers = (kept, ds_full, ds_empty, done, q_full, do_full, empty)
    sizes = (
        at_once, kv_heads, group, seq_len, padded, kv_len, diagonal, sm_scale, scale_log2, columns, whole, pieces,
        items,
    )  # fmt: skip
    if APART:
        gl.warp_specialize(
            [
                (_compute, (descs, places, barriers, sizes, PARTS, WIDTH, STAGES, CAUSAL, EDGE, LAUNCH, APART, MASKED,
                            TURNED, SPLIT, 0)),
                (_compute, (descs, places, barriers, sizes, PARTS, WIDTH, STAGES, CAUSAL, EDGE, LAUNCH, APART, MASKED,
                            TURNED, SPLIT, 1)),
                (_add_dq, (descs, places, barriers, sizes, PARTS, WIDTH, 2, CAUSAL, LAUNCH, SPLIT, False, False)),
                (_fetch, (descs, places, barriers, sizes, PARTS, WIDTH, STAGES, CAUSAL, EARLY, LAUNCH, TURNED, SPLIT)),
            ],
            [4, 4, 1], [208, 72, 24],
        )  # fmt: skip
    else:
        gl.warp_specialize(
            [
                (_compute, (descs, places, barriers, sizes, PARTS, WIDTH, STAGES, CAUSAL, EDGE, LAUNCH, APART, MASKED,
                            TURNED, SPLIT, 0)),
                (_compute, (descs, places, barriers, sizes, PARTS, WIDTH, STAGES, CAUSAL, EDGE, LAUNCH, APART, MASKED,
                            TURNED, SPLIT, 1)),
                (_fetch, (descs, places, barriers, sizes, PARTS, WIDTH, STAGES, CAUSAL, EARLY, LAUNCH, TURNED, SPLIT)),
            ],
            [4, 1], [240, 24],
        )  # fmt: skip


@Kept
def attention_backward_hopper(
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
    stages: int = 2,
    l2_share: float = 1 / 7,
    stored: bool | None = None,
    turned: bool | None = None,
    split: tuple[int, int] | None = None,
) -> Callable[..., tuple[torch.Tensor, torch.Tensor, torch.Tensor]]:
    """dQ, dK and dV, contiguous, as `flash_attention_backward` returns them: float16 or bfloat16, a head_dim up to 128,
    a multiple of 8 and contiguous, other strides multiples of 8. The last bits of dQ may differ from run to run.

    `stored`: the programs of the first keys store dQ before the others add to it. `turned`: without a mask, programs of
    more than 96 features start with different queries. `split`: how many programs stay whole, and into how many pieces
    the queries of each other one are split. None: what is faster.
    Raises ValueError naming the argument that this kernel does not take.
    """
    if refused := refusal(q, k, v, do, most=128):
        raise ValueError(refused)
    parts, width = _parts(q.shape[3])
    apart = parts != 2
    call = _Call.of(q, k, v, causal, sm_scale, diagonal, ROWS, ROWS)
    # Where the last query sees the last key, the mask hides keys outside.
    edge = call.kv_len % KEYS != 0 and (not causal or call.diagonal > call.kv_len - call.seq_len)
    constants = {"PARTS": parts, "WIDTH": width, "STAGES": stages}
    if turned is None:
        turned = call.seq_len >= LONG
    own = {
        "APART": apart, "MASKED": causal and call.diagonal % ROWS != 0, "TURNED": turned and not causal and not apart,
    }  # fmt: skip
    return launches(
        attention_backward_hopper_kernel, call, (q, k, v, o, do), causal, KEYS, constants, edge, own, l2_share,
        128 if apart else 168, stored, split,
    )  # fmt: skip


def _parts(head_dim: int) -> tuple[int, int]:
    """Parts of a head and features of each: a matmul takes a power of two."""
    if head_dim <= 64:
        return 1, 32 if head_dim <= 32 else 64
    return (3, 32) if head_dim <= 96 else (2, 64)
