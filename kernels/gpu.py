"""Properties of a tensor's GPU. In the interpreter, on the CPU, small numbers, so that tests take every path."""

from __future__ import annotations

import torch
from triton.runtime import driver

CAPTURING = -1


def sms(x: torch.Tensor) -> int:
    """Streaming multiprocessors; 2 in the interpreter, so that a persistent program has more than one item."""
    return int(torch.cuda.get_device_properties(x.device).multi_processor_count) if x.is_cuda else 2


def shared_memory(x: torch.Tensor) -> int:
    """Bytes of shared memory that one program can have; 128 KiB in the interpreter."""
    if not x.is_cuda:
        return 2**17
    properties = torch.cuda.get_device_properties(x.device)
    return int(properties.shared_memory_per_block_optin)  # type: ignore[attr-defined]


def l2(x: torch.Tensor) -> int:
    """Bytes of L2; 64 KiB in the interpreter."""
    return int(torch.cuda.get_device_properties(x.device).L2_cache_size) if x.is_cuda else 2**16


def is_hopper(x: torch.Tensor) -> bool:
    """Whether x is on a GPU of sm_90."""
    return x.is_cuda and torch.cuda.get_device_capability(x.device)[0] == 9


def starts_early(x: torch.Tensor) -> bool:
    """Whether x's GPU can start a kernel before the one before it ends: sm_90 and later."""
    return x.is_cuda and torch.cuda.get_device_capability(x.device)[0] >= 9


def stream(x: torch.Tensor) -> int:
    """The current stream of x's GPU; `CAPTURING` while it records a graph; 0 in the interpreter."""
    if not x.is_cuda:
        return 0
    return CAPTURING if torch.cuda.is_current_stream_capturing() else driver.active.get_current_stream(x.get_device())
