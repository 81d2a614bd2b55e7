"""FlashAttention of a few queries over many keys on Hopper: the kernel of `attention_hopper.py` with the keys shared.

There are fewer tiles of queries than SMs, so several programs share the keys of a tile. Three ideas:

- **Even shares** (Stream-K, Osama et al. 2023). The tiles of keys of all heads are counted through, and each share has
  as many of them as every other, one more at most. A share may end one head and begin the next. Equal parts of each
  head would leave SMs idle: 100 heads in 2 parts each take 2 rounds of 132 SMs.
- **Keep the group together**: the queries of all heads that share keys are rows of one tile. A head's tiles of rows
  have the same shares, so each tile of keys is read from HBM once.
- **Join early**: each program writes O and lse of its part of a tile, float32. A second kernel joins the parts by the
  rule for pairs in `merge.py`. It is launched while the first still runs, and waits for it.

A causal mask aligns the last query with the last key. A hidden V must be finite: 0 · NaN is NaN.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import triton

from kernels.attention import LOG2_E, _Call
from kernels.attention_backward import multiple
from kernels.attention_hopper import (
    REGISTERS,
    ROOM,
    ROWS,
    UNALIGNED,
    Launch,
    Way,
    _widths,
    descriptors,
    flash_attention_hopper_kernel,
    refusal,
)
from kernels.decode import join_parts_kernel, pack_rows_kernel
from kernels.gpu import sms, starts_early
from kernels.kept import Kept, prepared

WAYS = {
    16: (Way(1, 128, 2, 8.5, 0.8, 2), Way(2, 128, 1, 8.5, 0.9, 2), Way(3, 128, 1, 8.5, 1.15, 2)),
    32: (Way(1, 128, 2, 10, 1.1, 2), Way(2, 128, 1, 10, 1.1, 2), Way(3, 128, 1, 10, 1.35, 2)),
    48: (Way(1, 128, 2, 10, 1.3, 2), Way(2, 128, 1, 10, 1.3, 2), Way(3, 128, 1, 10, 1.6, 2)),
    64: (Way(1, 128, 2, 10, 1.5, 2), Way(2, 128, 1, 10, 1.45, 2), Way(3, 128, 1, 10, 1.8, 2)),
    80: (Way(1, 128, 1, 10, 1.3, 2), Way(2, 128, 1, 10, 1.6, 2), Way(3, 64, 1, 10, 1.15, 2)),
    96: (Way(1, 128, 1, 10, 1.3, 2), Way(2, 128, 1, 10, 1.65, 2), Way(3, 64, 1, 10, 1.3, 2)),
    128: (Way(1, 128, 1, 10, 1.4, 2), Way(2, 128, 1, 10, 1.75, 2), Way(3, 64, 1, 10, 1.6, 2)),
    144: (Way(1, 64, 2, 10, 1.6, 2), Way(2, 64, 1, 10, 1.2, 2)),
    160: (Way(1, 64, 2, 10, 1.6, 2), Way(2, 64, 1, 10, 1.3, 2)),
    192: (Way(1, 64, 1, 10, 1.1, 2), Way(2, 64, 1, 10, 1.5, 2)),
    256: (Way(1, 64, 1, 10, 1.3, 2), Way(2, 64, 1, 10, 1.8, 2)),
}
"""Ways by features, padded, as in `attention_hopper.py`, but with the kernel that joins in `launch`, and keys that come
from HBM, not L2. Fitted to shapes of seeds 11 to 25 on an H200, for 16 features to 24 other shapes. One group is for up
to 64 rows: a second one would compute nothing.
"""
BANDWIDTH = 3.9e6  # bytes in a µs
PARTS = 3e6  # bytes of parts in a µs, written and read again
PACK = 2.5
"""µs of a copy of Q with the rows of a head together, beside which the kernel starts."""
JOINED = 2**11
"""Elements of O that a program loads at once when it joins parts, or more where a row has many parts. One warp has up
to 4096: no sum then crosses warps. By four warps 2×28×200×128 took 28 µs more.
"""


@Kept
def flash_attention_split(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: bool = False,
    sm_scale: float | None = None,
    groups: int | None = None,
) -> Launch:
    """What `flash_attention_hopper` takes and returns: O, contiguous, and lse. Raises ValueError naming the argument
    that this kernel does not take.
    """
    call = _Call.of(q, k, v, causal, sm_scale, None, 16, 16)
    rows, heads = call.group * call.seq_len, call.batch * call.kv_heads
    if refused := refusal(q, k, v, call.sm_scale):
        raise ValueError(refused)
    of_groups = packed_like(q, call)
    widths = _widths(q.shape[3])
    width = sum(widths)
    own = [way for way in ways(q.shape[3]) if groups in (None, way.groups)]
    way = min(own, key=lambda way: _time(way, q, call))
    block_m, m_tiles, visits, shares = _shape(way, q, call)
    stages = next(n for n in (4, 3, 2) if 2 * width * (block_m + 2 * n * way.keys) <= ROOM // way.at_once)
    registers, consumers = REGISTERS[way.groups, way.at_once]
    slots, packed = shares + heads, not _is_in_order(q, call)
    sizes = (
        heads * m_tiles, m_tiles, call.kv_heads, 1, rows, call.seq_len, call.kv_len, call.diagonal,
        call.sm_scale * LOG2_E,
    )  # fmt: skip
    kernel = prepared(
        flash_attention_hopper_kernel, (shares * m_tiles,), sizes,
        {"FIRST": widths[0], "REST": sum(widths[1:]), "BLOCK_N": way.keys, "STAGES": stages, "CAUSAL": causal,
         "SPLIT": True, "GROUPS": way.groups, "O_APART": False, "REGISTERS": consumers, "PACKED": packed},
        descriptors(of_groups, k, v, of_groups, widths, way.keys), num_warps=4, maxnreg=registers, launch_pdl=packed,
    )  # fmt: skip
    each, more = divmod(heads * visits, shares)
    block_d, early = triton.next_power_of_2(width), starts_early(q)
    most = min(64, triton.next_power_of_2(triton.cdiv(visits, each) + 1))  # parts of a row
    share = max(1, JOINED // (most * block_d))
    join = prepared(
        join_parts_kernel, (triton.cdiv(rows, share), heads), (rows, visits, each, more, slots),
        {"HEAD_DIM": q.shape[3], "WIDTH": width, "BLOCK_M": block_m, "BLOCK_D": block_d, "SHARE": share,
         "AT_ONCE": most, "EARLY": early},
        num_warps=max(1, most * share * block_d // 2**12), launch_pdl=early,
    )  # fmt: skip
    pack = packer(q, call)
    shape, dtype, device, parts = q.shape, q.dtype, q.device, (m_tiles * slots, block_m)
    none = torch.empty(0, dtype=torch.int32, device=device)

    def launch(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        q = pack(q)
        o = torch.empty(shape, dtype=dtype, device=device)
        lse, part_o, part_lse = (
            torch.empty(size, dtype=torch.float32, device=device) for size in (shape[:3], (*parts, width), parts)
        )
        kernel(q, k, v, q, q, k, v, q, part_lse, part_o, none, none)
        join(part_o, part_lse, o, lse)
        return o, lse

    return launch


def ways(head_dim: int) -> tuple[Way, ...]:
    """The ways to compute heads of so many features."""
    return WAYS[sum(_widths(head_dim))]


def time_of(q: torch.Tensor, call: _Call) -> float:
    """µs that it takes by its fastest way, about."""
    return min(_time(way, q, call) for way in ways(q.shape[3]))


def _time(way: Way, q: torch.Tensor, call: _Call) -> float:
    """A visit computes, or waits for the keys of all shares."""
    _, _, visits, shares = _shape(way, q, call)
    heads = call.batch * call.kv_heads
    computes = way.visit * (UNALIGNED[way.groups] if q.shape[3] % 16 else 1.0)
    visit = max(computes, shares * way.keys * q.shape[3] * 2 * q.element_size() / BANDWIDTH)
    parts = (shares + heads) * call.group * call.seq_len * sum(_widths(q.shape[3])) * 4 / PARTS
    launch = way.launch + parts + time_to_pack(q, call)
    return launch + visit * (triton.cdiv(heads * visits, shares) + way.start * (1 + heads / shares))


def packed_like(q: torch.Tensor, call: _Call) -> torch.Tensor:
    """Q with the queries of all heads that share keys as rows of one head: its shape and strides, not its numbers."""
    packed = (call.batch, call.kv_heads, call.group * call.seq_len, q.shape[3])
    return q.view(packed) if _is_in_order(q, call) else q.new_empty(packed)


def packer(q: torch.Tensor, call: _Call) -> Callable[[torch.Tensor], torch.Tensor]:
    """A function of q: its queries, `packed_like`. A view where heads follow each other in memory, else moved by a
    kernel: PyTorch's copy takes twice as long.
    """
    packed = packed_like(q, call).shape
    if _is_in_order(q, call):
        return lambda q: q.view(packed)
    rows = call.batch * call.heads * call.seq_len
    pack = prepared(
        pack_rows_kernel, (triton.cdiv(rows, 16),), (*q.stride()[:3], call.heads, call.seq_len, rows),
        {"HEAD_DIM": q.shape[3], "BLOCK_D": triton.next_power_of_2(q.shape[3]), "BLOCK_M": 16, "MULTIPLE": multiple(q),
         "EARLY": starts_early(q)},
    )  # fmt: skip

    def moved(q: torch.Tensor) -> torch.Tensor:
        pack(q, of_q := torch.empty(packed, dtype=q.dtype, device=q.device))
        return of_q

    return moved


def time_to_pack(q: torch.Tensor, call: _Call) -> float:
    """µs that `packer`'s function takes, about."""
    return 0.0 if _is_in_order(q, call) else PACK


def _is_in_order(q: torch.Tensor, call: _Call) -> bool:
    """Whether the queries of a head follow those of the head before in memory, where heads share keys."""
    return call.group == 1 or q.stride(1) == call.seq_len * q.stride(2)


def _shape(way: Way, q: torch.Tensor, call: _Call) -> tuple[int, int, int, int]:
    """Rows of a tile, tiles of rows and of keys of a head, and shares of all heads' keys."""
    block_m = way.groups * ROWS
    m_tiles, visits = triton.cdiv(call.group * call.seq_len, block_m), triton.cdiv(call.kv_len, way.keys)
    return block_m, m_tiles, visits, max(1, min(way.at_once * sms(q) // m_tiles, call.batch * call.kv_heads * visits))
