"""A device worker with one fault for each seed, as a student's kernel or another program might cause it."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any

import torch
import triton
import triton.language as tl
from torch.profiler import ProfilerActivity, profile

from explain.device.handler import explained
from explain.device.handler import handle as handle_well
from explain.worker_process import Progress


@triton.jit
def stray_kernel(x_ptr):
    tl.store(x_ptr + (1 << 45), 1.0)


@triton.jit
def misaligned_kernel(x_ptr):
    tl.store((x_ptr + 1).to(tl.pointer_type(tl.int64)), 1)


@triton.jit
def trap_kernel(x_ptr):
    tl.store(x_ptr, tl.inline_asm_elementwise("trap; mov.b32 $0, $1;", "=f,f", [tl.load(x_ptr)], tl.float32, False, 1))


@triton.jit
def endless_kernel(x_ptr):
    while tl.load(x_ptr, volatile=True) == 0.0:
        pass


def launched(kernel: Any) -> None:
    kernel[(1,)](torch.zeros(4, device="cuda"))
    torch.cuda.synchronize()


def killed_while_it_runs() -> None:
    endless_kernel[(1,)](torch.zeros(4, device="cuda"))
    os.kill(os.getpid(), signal.SIGKILL)


def full() -> None:
    torch.empty(2**50, dtype=torch.int8, device="cuda")


FAULTS: dict[str, tuple[Callable[[], None], str]] = {
    "illegal access": (lambda: launched(stray_kernel), "an illegal access"),
    "misaligned address": (lambda: launched(misaligned_kernel), "a misaligned address"),
    "trap": (lambda: launched(trap_kernel), "takes over"),
    "endless kernel": (lambda: launched(endless_kernel), "longer than its limit"),
    "killed while its kernel runs": (killed_while_it_runs, "SIGKILL"),
    "memory full": (full, "memory is full"),
}
"""What happens, and what the reader is told. A fault's seed is its place here, counted from 1."""
HELD = len(FAULTS) + 1
"""The seed of a run while another profiler of the process has CUPTI."""


def handle(request: dict[str, Any], progress: Progress) -> dict[str, Any]:
    """The fault of the experiment's seed, then the real handler. The process id goes along as the driver."""
    seed = request["experiment"]["seed"] if "experiment" in request else 0
    if 0 < seed <= len(FAULTS):
        fault, _ = [*FAULTS.values()][seed - 1]
        try:
            fault()
        except Exception as error:
            raise explained(error) from error
    if seed == HELD:
        with profile(activities=[ProfilerActivity.CUDA]):
            return handle_well(request, progress)
    answer = handle_well(request, progress)
    if request["kind"] == "run":
        answer["provenance"]["driver"] = str(os.getpid())
    return answer
