"""The fast kernels, each with the taught kernel that it must agree with: same grid, same tolerance."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from typing import Any

import torch

from explain.experiment import Experiment
from explain.verification import SYNTHETIC, grid
from kernels.attention_hopper import flash_attention_hopper, ways
from kernels.catalog import KERNELS
from kernels.decode import flash_decode
from kernels.launch import tensors
from kernels.parameters import next_power_of_two
from kernels.softmax_fast import softmax_pipelined, softmax_rows, softmax_shared_row, softmax_two_reads
from kernels.softmax_lanes import softmax_lanes
from kernels.topk_fast import softmax_topk_lanes
from kernels.verify import Verdict, verify


def shared_row(x: torch.Tensor, p: dict[str, Any]) -> torch.Tensor:
    """In parts where they can wait for each other: the interpreter runs one program after the other."""
    return softmax_shared_row(
        x, block_n=32 if x.is_cuda else next_power_of_two(p["cols"] + 7)
    )  # with a vector of the row before


FAST: dict[str, tuple[str, Callable[..., Any]]] = {
    "softmax_rows": ("softmax_online", lambda x, p: softmax_rows(x, block_m=2)),
    "softmax_rows, one": ("softmax_online", lambda x, p: softmax_rows(x, block_m=1)),
    "softmax_lanes": ("softmax_online", lambda x, p: softmax_lanes(x)),
    "softmax_pipelined": ("softmax_online", lambda x, p: softmax_pipelined(x)),
    "softmax_two_reads": ("softmax_online", lambda x, p: softmax_two_reads(x, block_n=32, apart=2 * p["cols"])),
    "softmax_shared_row": ("softmax_online", shared_row),
    "softmax_topk_lanes": ("softmax_topk", lambda x, p: softmax_topk_lanes(x, k=p["k"], block_n=32)),
    "flash_decode": (
        "flash_attention",
        lambda q, k, v, p: flash_decode(q, k, v, causal=p["causal"], splits=3, block_n=p["block_n"]),
    ),
}


def by_way(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, p: dict[str, Any], number: int) -> Any:
    """By the first, second … way to compute heads of so many features; by the last one where there are fewer."""
    way = ways(q.shape[3])[:number][-1]
    return flash_attention_hopper(q, k, v, causal=p["causal"], groups=way.groups, block_n=way.keys)


HOPPER: dict[str, tuple[str, Callable[..., Any]]] = {
    "flash_attention_hopper": (
        "flash_attention",
        lambda q, k, v, p: flash_attention_hopper(q, k, v, causal=p["causal"]),
    ),
    **{
        f"flash_attention_hopper, {name} way": ("flash_attention", partial(by_way, number=number))
        for number, name in enumerate(("first", "second", "third", "fourth"), start=1)
    },
}

_DECODE = (
    {"batch": 2, "heads": 4, "kv_heads": 2, "seq_len": 9, "kv_len": 97, "head_dim": 24, "causal": True, "block_n": 32},
    {"heads": 6, "kv_heads": 2, "seq_len": 20, "kv_len": 7, "head_dim": 16, "causal": True, "block_n": 16},
    {"batch": 2, "seq_len": 1, "kv_len": 257, "head_dim": 80, "block_n": 32},
    {"heads": 6, "kv_heads": 2, "seq_len": 1, "kv_len": 97, "head_dim": 16, "block_n": 16},
    {"heads": 2, "seq_len": 1, "kv_len": 1, "head_dim": 16, "block_n": 16},
)
_HOPPER = (
    {"heads": 2, "seq_len": 97, "kv_len": 257, "head_dim": 64, "causal": True, "block_n": 128},
    {"heads": 3, "kv_heads": 1, "seq_len": 64, "kv_len": 97, "head_dim": 128, "block_n": 128},
    {"seq_len": 257, "kv_len": 97, "head_dim": 64, "causal": True, "block_n": 128},
    {
        "batch": 2,
        "heads": 4,
        "kv_heads": 2,
        "seq_len": 1100,
        "kv_len": 1100,
        "head_dim": 128,
        "causal": True,
        "block_n": 128,
    },
    {"heads": 5, "seq_len": 700, "kv_len": 2100, "head_dim": 64, "block_n": 128},
    {"heads": 3, "seq_len": 576, "kv_len": 1088, "head_dim": 64, "causal": True, "block_n": 128},
    {"heads": 6, "kv_heads": 2, "seq_len": 300, "kv_len": 577, "head_dim": 16, "causal": True, "block_n": 128},
    {"seq_len": 1, "kv_len": 1, "head_dim": 64, "block_n": 128},
    {"heads": 2, "seq_len": 300, "kv_len": 577, "head_dim": 136, "block_n": 64},
    {"heads": 2, "kv_heads": 1, "seq_len": 200, "kv_len": 200, "head_dim": 192, "causal": True, "block_n": 64},
    {"heads": 2, "seq_len": 130, "kv_len": 300, "head_dim": 80, "block_n": 128},
    {"heads": 9, "seq_len": 200, "kv_len": 200, "head_dim": 40, "causal": True, "block_n": 64},
    {"heads": 2, "seq_len": 130, "kv_len": 300, "head_dim": 256, "causal": True, "block_n": 64},
    {"batch": 9, "heads": 16, "seq_len": 256, "kv_len": 384, "head_dim": 128, "causal": True, "block_n": 128},
)


def experiments(name: str, every: int) -> Iterator[Experiment]:
    """The experiments that the kernel must pass; with `every` = n every nth."""
    if name == "flash_decode":
        cases = product(_DECODE, ("fp32", "fp16", "bf16"), SYNTHETIC)
    elif name in HOPPER:
        cases = product(_HOPPER, ("fp16", "bf16"), SYNTHETIC)
    else:
        yield from grid(KERNELS[FAST[name][0]], every=every)
        return
    for number, (shape, dtype, preset) in enumerate(cases):
        if sum(divmod(number, len(SYNTHETIC))) % every == 0:
            yield Experiment.of("flash_attention", {**shape, "dtype": dtype}, preset, number)


def verdict(name: str, experiment: Experiment, device: str) -> Verdict:
    """The verdict on the kernel's worst element, by the specification of the taught kernel."""
    base, function = {**FAST, **HOPPER}[name]
    entry, p = KERNELS[base], experiment.values
    arrays = entry.make_inputs(experiment.preset, p, experiment.seed)
    result = function(**tensors(p, arrays, device), p=p)
    outputs = dict(zip(entry.outputs, result if isinstance(result, tuple) else (result,), strict=True))
    return verify(entry, p, arrays, outputs)
