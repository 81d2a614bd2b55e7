"""Compiles softmax of short and of long rows for a Hopper GPU you don't have; prints a JSON object for each launch: its
kernel, bits that a thread loads at once, whether it copies past the registers, spills.
"""

import json
import re
from functools import partial
from typing import Any

import torch

from explain.compile import handler
from kernels import softmax_parts
from kernels.softmax_lanes import softmax_lanes

vars(softmax_parts).update(sms=lambda x: 132)
CALLS: list[tuple[Any, int, int, torch.dtype]] = [
    *((softmax_lanes, 70, cols, torch.float16) for cols in (35, 59, 330, 52, 48, 990)),
    *((softmax_lanes, 70, cols, torch.float32) for cols in (35, 114, 512)),
    *(
        (softmax_parts.softmax_parts, 600, cols, dtype)
        for cols in (83013, 128256)
        for dtype in (torch.half, torch.float)
    ),
]
for softmax, rows, cols, dtype in CALLS:
    x = torch.zeros(rows, cols, dtype=dtype)
    for launch, _, asm in handler.compiled_launches(partial(softmax, x), 90, lambda *_: None):
        widths = re.findall(r"ld\.global(?:\.v(\d))?\.b(\d+)", asm["ptx"])
        found = {
            "kernel": launch.kernel, "x": [cols, str(dtype)], "bits": sorted({int(n or 1) * int(b) for n, b in widths}),
            "copies": "cp.async.cg.shared.global" in asm["ptx"], "spills": launch.spills,
        }  # fmt: skip
        print(json.dumps(found))
