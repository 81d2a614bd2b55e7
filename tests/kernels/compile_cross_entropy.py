"""Compiles the cross entropy kernels for a Hopper GPU you don't have; prints each launch's registers, its vector loads
from global memory, and its spills.
"""

import re
from functools import partial

import torch

from explain.compile import handler
from kernels.cross_entropy import cross_entropy_backward, cross_entropy_fused, cross_entropy_standard
from kernels.cross_entropy_fast import linear_cross_entropy

TILES = {"block_m": 32, "block_n": 32, "block_d": 64}
targets = torch.zeros(256, dtype=torch.int64)


def taught(h: torch.Tensor, w: torch.Tensor) -> None:
    """The kernels to step through."""
    for kernel in (cross_entropy_standard, cross_entropy_fused, cross_entropy_backward):
        kernel(h, w, targets, **TILES)


def fast(h: torch.Tensor, w: torch.Tensor) -> None:
    """The fast kernel, forward and backward."""
    linear_cross_entropy(h.requires_grad_(), w.requires_grad_(), targets).backward()


for dtype in (torch.float32, torch.bfloat16):
    for call in (taught, fast):
        h, w = (torch.zeros(rows, 64, dtype=dtype) for rows in (256, 9001))
        for launch, _, asm in handler.compiled_launches(partial(call, h, w), 90, lambda *_: None):
            vectors = len(re.findall(r"ld\.global\S*\.v4", asm["ptx"]))
            print(str(dtype).removeprefix("torch."), launch.kernel, launch.registers, vectors, launch.spills)
