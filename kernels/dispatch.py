"""The fastest rung that takes a call, whatever its shape, dtype, strides and GPU: a special rung says what it refuses,
and a general one takes the rest.

The lengths at which one rung gives way to the next were measured on an H200 (`benchmarks/results/speed.json`);
elsewhere they are a guess, and the answer is right all the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import triton

from kernels import attention_hopper, attention_split, softmax_lanes, softmax_parts, softmax_staged
from kernels.attention import _Call, flash_attention_exp2
from kernels.attention_backward import flash_attention_backward
from kernels.attention_backward_hopper import attention_backward_hopper
from kernels.attention_backward_launches import refusal
from kernels.attention_backward_wide import attention_backward_wide
from kernels.decode import MOST, flash_decode, rows_of_tiles
from kernels.gpu import is_hopper, shared_memory, sms
from kernels.kept import Kept
from kernels.softmax import check
from kernels.softmax_fast import Launch, softmax_rows, softmax_two_reads


@Kept
def softmax(x: torch.Tensor) -> Launch:
    """Softmax over the last axis of x (rows, cols): any length, any strides, float32, float16 or bfloat16. Raises
    ValueError for anything else.

    | rows                                          | kernel            | made for                     |
    |-----------------------------------------------|-------------------|------------------------------|
    | 16 bits under 1k, 32 bits to 512              | softmax_lanes     | 1827983×35 fp16, 98381×570   |
    | of 40 KB and more, up to 128 MiB in all       | softmax_parts     | 95×32768 bf16, 802×15730     |
    | 16 bits, three fit an SM                      | softmax_staged    | 4096×12345 bf16              |
    | 32 bits over 16384, two fit an SM             | softmax_staged    | 4096×25001 fp32              |
    | 32 bits to 16384, others to 32768             | softmax_rows      | 4096×12345 fp32              |
    | longer, where 16 bytes can be copied at once  | softmax_parts     | 394×152064 fp16, 459×83013   |
    | other                                         | softmax_two_reads | columns that are strided     |
    """
    check(x)
    n_cols, size = x.shape[1], x.element_size()
    if n_cols <= softmax_lanes.longest(x):
        return softmax_lanes.softmax_lanes.prepare(x)
    few = n_cols * size >= 40_000 and x.numel() * size <= softmax_parts.FEW
    if x.is_cuda and few and not softmax_parts.refusal(x):
        return softmax_parts.softmax_parts.prepare(x)
    at_once, shortest = (3, 512) if size == 2 else (2, 16384)
    if x.is_cuda and n_cols > shortest and not softmax_staged.refusal(x, at_once=at_once):
        return softmax_staged.softmax_staged.prepare(x)
    if n_cols <= (16384 if size == 4 and x.is_cuda else 32768):
        return softmax_rows.prepare(x)
    if x.is_cuda and not softmax_parts.refusal(x):
        return softmax_parts.softmax_parts.prepare(x)
    return softmax_two_reads.prepare(x)


@Kept
def attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, causal: bool = False, sm_scale: float | None = None
) -> attention_hopper.Launch:
    """O, contiguous, in the dtype of q, and lse. Raises ValueError naming an argument that does not fit."""
    call = _Call.of(q, k, v, causal, sm_scale, None, 16, 16)
    scale = call.sm_scale
    on_hopper = is_hopper(q) and not attention_hopper.refusal(q, k, v, scale)
    packs = not causal and _tiles(call, packed=True) < 0.9 * _tiles(call, packed=False) and _is_cheap_to_pack(q, call)
    if on_hopper and call.seq_len <= MOST and call.kv_len >= 2048 and _rows(call) > _rows_to_split(q, call):
        whole, packed = _times_of_whole_tiles(q, k, v, call, causal)
        packs = packed < whole
        if attention_split.time_of(q, call) < min(whole, packed):
            return attention_split.flash_attention_split.prepare(q, k, v, causal=causal, sm_scale=scale)
    elif call.seq_len <= MOST and _has_few_queries(q, call, causal):
        return flash_decode.prepare(q, k, v, causal=causal, sm_scale=scale)
    if on_hopper and packs:
        pack, packed_q = attention_split.packer(q, call), attention_split.packed_like(q, call)
        launch = attention_hopper.flash_attention_hopper.prepare(
            packed_q, k, v, causal=causal, sm_scale=scale, packed=attention_split.time_to_pack(q, call) > 0
        )
        return lambda q, k, v: _unpacked(launch(pack(q), k, v), q.shape)
    if on_hopper:
        return attention_hopper.flash_attention_hopper.prepare(q, k, v, causal=causal, sm_scale=scale)
    tile: dict[str, Any] = {"block_m": tile_side(q), "block_n": tile_side(q)}
    return lambda q, k, v: _contiguous(flash_attention_exp2(q, k, v, causal=causal, sm_scale=scale, **tile))


def _rows(call: _Call) -> int:
    """Rows of a kv head: the queries of all heads that share it."""
    return call.group * call.seq_len


def _rows_to_split(q: torch.Tensor, call: _Call) -> int:
    """Rows of a kv head above which tiles of 64 rows are faster than those of 16 of `flash_decode`. But that kernel is
    slow with 16 features and where heads fill the SMs, and pads 144 or 160 to 256.

    2×48×4×16, 12 kv heads, 9365 keys: 45 → 20 µs; 6×64×9×96, 3707 keys: 167 → 140; 2×112×1×160, 14 kv heads, 12490
    keys: 84 → 73.
    """
    if q.shape[3] <= 16 or call.batch * call.kv_heads >= sms(q):
        return 0
    return 4 if 128 < q.shape[3] <= 160 else 16


def _times_of_whole_tiles(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, call: _Call, causal: bool
) -> tuple[float, float]:
    """µs of `flash_attention_hopper`, about: with each head's queries in tiles of their own, and with those of all
    heads that share keys.
    """
    whole = attention_hopper.time_of(q, call)
    if causal or call.group == 1:
        return whole, math.inf
    shared = _Call.of(attention_split.packed_like(q, call), k, v, causal, call.sm_scale, None, 16, 16)
    return whole, attention_hopper.time_of(q, shared) + attention_split.time_to_pack(q, call)


def _has_few_queries(q: torch.Tensor, call: _Call, causal: bool) -> bool:
    """Whether tiles of 128 rows would be so empty, or so few, that `flash_decode` is faster. It takes about twice as
    long for a row, and three or four times where its heads are padded to 256 features.

    1×28×142×128, 4 kv heads, 18910 keys: 115 µs, by the Hopper kernel 233; 3×16×90×168, 7081 keys: 164 and 144.
    """
    if call.kv_len < 2048:
        return call.seq_len <= 64
    rounds = triton.cdiv(_tiles(call, packed=not causal), sms(q))
    slower = 2.2 if q.shape[3] <= 128 else 4.2 if q.shape[3] <= 192 else 3.0
    return slower * rows_of_tiles(q, call) <= 128 * rounds * sms(q)


def _tiles(call: _Call, *, packed: bool) -> int:
    """Tiles of 128 rows; packed: without a mask, queries of all heads that share keys are rows of one tile."""
    rows = _rows(call) if packed else call.seq_len
    return call.batch * (call.kv_heads if packed else call.heads) * triton.cdiv(rows, 128)


def _is_cheap_to_pack(q: torch.Tensor, call: _Call) -> bool:
    """Whether the heads of a group follow each other in memory, or there are so many keys that a copy of Q is nothing.
    By rows 2×28×140×160, 14 kv heads, was slower with the copy: 0.76 × cuDNN.
    """
    return q.stride(1) == call.seq_len * q.stride(2) or call.kv_len >= 16 * call.seq_len


def _unpacked(result: tuple[torch.Tensor, torch.Tensor], shape: torch.Size) -> tuple[torch.Tensor, torch.Tensor]:
    return result[0].view(shape), result[1].view(shape[:3])


def _contiguous(result: tuple[torch.Tensor, torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
    return result[0].contiguous(), result[1]


@Kept
def attention_backward(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    o: torch.Tensor,
    lse: torch.Tensor,
    do: torch.Tensor,
    *,
    causal: bool = False,
    sm_scale: float | None = None,
    deterministic: bool = False,
) -> Callable[..., tuple[torch.Tensor, torch.Tensor, torch.Tensor]]:
    """dQ, dK and dV for all that `attention` takes; `deterministic`: the same bits every time.

    On Hopper, 16-bit heads of 24 to 256 features run five matmuls, unless the result must be deterministic:

    | head_dim, up to | keys a program | × cuDNN on an H200: seven matmuls → five                           |
    |-----------------|----------------|--------------------------------------------------------------------|
    | 96              | 128            | 7×16×4096×72 causal 0.96 → 1.31, 2×8×8192×40 0.86 → 1.09            |
    | 128             | 128            | 2×16×8192×128 0.71 → 1.01, 55×32×257×128 causal 0.96 → 1.05        |
    | 192             | 64, `_wide`    | 2×10×5958×176 1.12 → 1.57, 1×8×1500×160 causal 0.96 → 1.70         |
    | 256             | 64, `_wide`    | 2×16×4096×256 0.83 → 1.14, 1×2×10747×256 causal 0.60 → 1.21        |

    Tiles of 16-bit tensors elsewhere, where an SM has over 200 KiB of shared memory:

    | head_dim, up to | queries × keys | warps, stages | made for                                                  |
    |-----------------|----------------|---------------|-----------------------------------------------------------|
    | 64              | 64 × 64        | 4, 3          | several programs at once on an SM                         |
    | 96              | 64 × 64        | 4, 3          | 2×16×2048×80: 500 → 350 µs                                |
    | 128, causal     | 64 × 64        | 4, 2          | 2×16×2048×128                                             |
    | 144             | 64 × 64        | 4, 2          | 2×16×2048×136, causal: 382 → 355 µs                       |
    | 160             | 64 × 128       | 8, 3          | 2×16×2048×144: 613 µs                                     |
    | 192             | 32 × 128       | 8, 3          | 2×16×2048×192: 1810 → 786 µs                              |
    | 256             | 32 × 128       | 8, 3          | dK and dV in a launch each. 2×16×2048×256: 1800 → 1122 µs |

    Of 128 keys each of two groups of four warps has 64 rows, so their P stays in registers. Tiles of short rows are
    smaller (`_short`), since an edge or the mask would hide most of a large one.
    """
    side, head_dim = tile_side(q), q.shape[3]
    large = q.element_size() == 2 and shared_memory(q) > 200 * 1024
    short = _short(q, k, causal) if large else {}
    if is_hopper(q) and not deterministic and head_dim > 16 and not refusal(q, k, v, do, most=256):
        prepare = (attention_backward_wide if head_dim > 128 else attention_backward_hopper).prepare
        return prepare(q, k, v, o, lse, do, causal=causal, sm_scale=sm_scale)
    if short:
        return flash_attention_backward.prepare(q, k, v, o, lse, do, causal=causal, sm_scale=sm_scale, **short)
    options: dict[str, Any] = {"block_m": side, "block_n": side}
    if q.element_size() == 2 and head_dim <= 96:
        options["stages"] = 3
    if q.element_size() == 2 and head_dim <= 64:
        # Of an SM's 65536 registers three programs that hold keys get 168 a thread, four that hold queries 128.
        options["registers"] = (168, 128)
    if large and 128 < head_dim <= 144:
        options = {"block_m": 64, "block_n": 64, "warps": 4, "stages": 2}
    elif large and head_dim > (128 if causal else 96):
        options = {
            "block_m": 64 if head_dim <= 160 else 32, "block_n": 128, "warps": 8, "stages": 3, "apart": head_dim > 192,
        }  # fmt: skip
    return flash_attention_backward.prepare(q, k, v, o, lse, do, causal=causal, sm_scale=sm_scale, **options)


def _short(q: torch.Tensor, k: torch.Tensor, causal: bool) -> dict[str, Any]:
    """Tiles of seven matmuls for few keys; {} where those of `attention_backward` are faster.

    | head_dim        | keys, up to | queries × keys | stages | made for                                 |
    |-----------------|-------------|----------------|--------|------------------------------------------|
    | 88–128, causal  | 260         | 32 × 64        | 2      | 24×64×197×128: 482 → 440 µs              |
    | 152–160         | 512         | 32 × 64        | 3      | 3×12×152×152, causal: 41 → 32 µs         |
    | 168–192         | 320         | 32 × 64        | 2      | 34×60×164×168, causal: 946 → 757 µs      |
    | 200–256, causal | 260         | 32 × 32        | 2      | 23×7×174×248: 151 → 128 µs               |

    With heads of 152 to 160 also where SMs would have no tile of 128 keys: 1×3×2563×160, causal, 211 → 169 µs.
    """
    head_dim, keys = q.shape[3], k.shape[2]
    idle = k.shape[0] * k.shape[1] * triton.cdiv(keys, 128) <= sms(q)
    ways = (
        (81, 128, 260, causal, 64, 2), (145, 160, 512, True, 64, 3), (161, 192, 320, True, 64, 2),
        (193, 256, 260, causal, 32, 2),
    )  # fmt: skip
    for least, most, longest, fits, block_n, stages in ways:
        if least <= head_dim <= most and fits and (keys <= longest or (most == 160 and idle)):
            return {"block_m": 32, "block_n": block_n, "warps": 4, "stages": stages}
    return {}


def tile_side(q: torch.Tensor) -> int:
    """Rows of a tile, 16 to 64: a backward pass holds eight such tiles in shared memory."""
    rows = shared_memory(q) // (8 * triton.next_power_of_2(q.shape[-1]) * q.element_size())
    return max(16, min(64, 2 ** rows.bit_length() // 2))
