"""Compiles the micro-benchmarks for a Hopper GPU you don't have, and counts instructions in the PTX of their loops."""

import torch

from explain.compile import handler
from kernels import bandwidth

COUNTED = ("ld.shared.v4", "ld.global.cg", "ld.global.v4", "ex2.approx")

x = torch.rand(4 * bandwidth.TILE)
for call in (
    lambda: bandwidth.shared_read(x, 1, 100),
    lambda: bandwidth.read(x, 8, 100),
    lambda: bandwidth.exponentials(x, 100),
):
    ((launch, _, asm),) = handler.compiled_launches(call, 90, lambda *_: None)
    loop = asm["ptx"][asm["ptx"].index("$L__BB") :]
    print(launch.kernel, *(loop.count(instruction) for instruction in COUNTED))
