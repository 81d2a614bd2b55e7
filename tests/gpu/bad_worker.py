"""A device worker whose kernel stores far outside its memory, as a student's might."""

from __future__ import annotations

import os
from typing import Any

import torch
import triton
import triton.language as tl

from explain.device.handler import explained
from explain.device.handler import handle as handle_well


@triton.jit
def stray_kernel(x_ptr, offset):
    tl.store(x_ptr + offset, 1.0)


def handle(request: dict[str, Any], progress) -> dict[str, Any]:
    """Seed 1: an illegal access. Otherwise the real handler; the process id goes along as the driver."""
    if request["kind"] == "run" and request["experiment"]["seed"] == 1:
        try:
            stray_kernel[(1,)](torch.zeros(1, device="cuda"), 1 << 45)
            torch.cuda.synchronize()
        except Exception as error:
            raise explained(error) from error
    answer = handle_well(request, progress)
    if request["kind"] == "run":
        answer["provenance"]["driver"] = str(os.getpid())
    return answer
