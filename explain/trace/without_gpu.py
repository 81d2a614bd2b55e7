"""Runs a file that asks for a GPU on a machine without one: its tensors on "cuda" are made on the CPU.

Kernels are recorded in Triton's CPU interpreter, and a tensor's device changes nothing in them. A launcher may ask how
many SMs the GPU has, or put a stream around a launch; it is answered as on an H100.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from types import SimpleNamespace
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from triton.backends.compiler import GPUTarget
from triton.runtime import driver

from explain.trace.patches import replaced

CAPABILITY = 9, 0
H100 = SimpleNamespace(
    name="NVIDIA H100 80GB HBM3", major=9, minor=0, multi_processor_count=132, warp_size=32, total_memory=80 * 10**9,
    max_threads_per_multi_processor=2048, regs_per_multiprocessor=65_536, L2_cache_size=50 * 2**20,
    shared_memory_per_block=49_152, shared_memory_per_block_optin=232_448, shared_memory_per_multiprocessor=233_472,
)  # fmt: skip
"""`torch.cuda.get_device_properties` of an H100 SXM (NVIDIA H100 Tensor Core GPU Architecture, table 3)."""
TRITONS = {
    "max_shared_mem": H100.shared_memory_per_block_optin, "max_num_regs": H100.regs_per_multiprocessor,
    "multiprocessor_count": H100.multi_processor_count, "warpSize": H100.warp_size,
    "sm_clock_rate": 1_980_000, "mem_clock_rate": 2_619_000, "mem_bus_width": 5120,
}  # fmt: skip
"""What Triton's driver says of it; clocks in kHz, the bus in bits."""


class OnCpu(TorchFunctionMode):
    """While active, PyTorch's functions take the CPU for a CUDA device, and `is_cuda` is true.

    `asked`: whether any of them was asked for one.
    """

    def __init__(self) -> None:
        super().__init__()
        self.asked = False

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs, moves = dict(kwargs or {}), func == torch.Tensor.to
        if func in (torch.Tensor.cuda, torch.Tensor.pin_memory, _IS_CUDA):
            self.asked = True
            return True if func == _IS_CUDA else args[0]
        if _is_cuda(kwargs.get("device")) or (moves and any(map(_is_cuda, args[1:]))):
            self.asked = True
            kwargs |= {"device": torch.device("cpu")} if "device" in kwargs else {}
            args = args[:1] + tuple(torch.device("cpu") if moves and _is_cuda(one) else one for one in args[1:])
        kwargs.pop("pin_memory", None)  # it needs a GPU too
        return func(*args, **kwargs)


def _is_cuda(device: object) -> bool:
    """Whether this names a CUDA device: "cuda:1", `torch.device("cuda")`, 1."""
    kind = device.type if isinstance(device, torch.device) else device
    return type(device) is int or (isinstance(kind, str) and kind.split(":")[0] == "cuda")


_IS_CUDA: Any = torch.Tensor.is_cuda.__get__  # type: ignore[attr-defined]


class _Driver:
    """Stands for the driver that Triton asks for its device."""

    utils = SimpleNamespace(get_device_properties=lambda device: TRITONS)

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("cuda", CAPABILITY[0] * 10 + CAPABILITY[1], H100.warp_size)

    def get_active_torch_device(self) -> torch.device:
        return torch.device("cpu")

    def get_device_interface(self) -> Any:
        return torch.cuda

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: object = None) -> int:
        return 0

    def set_current_device(self, device: object) -> None:
        pass


class _Stream:
    """A stream or an event: on the CPU everything is done in order."""

    cuda_stream = 0

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    def __getattr__(self, name: str) -> Callable[..., None]:
        if name in ("synchronize", "wait_stream", "wait_event", "wait", "record_event", "record"):
            return lambda *args, **kwargs: None
        raise AttributeError(f"there is no GPU, so a stream or an event has no {name}")


def _answers() -> dict[str, Any]:
    """What functions of `torch.cuda` do instead; each is an object of its own, since torch.compile lists them."""
    return {
        **{name: _always(nullcontext()) for name in ("device", "device_of", "_DeviceGuard", "stream")},
        **{
            name: _always(None)
            for name in ("synchronize", "set_device", "empty_cache", "manual_seed", "manual_seed_all")
        },
        **{name: type(name, (_Stream,), {}) for name in ("Stream", "Event", "current_stream", "default_stream")},
        "current_device": _always(0),
        "device_count": _always(1),
        "is_bf16_supported": _always(True),
        "get_device_name": _always(H100.name),
        "get_device_properties": _always(H100),
        "get_device_capability": _always(CAPABILITY),
    }


def _always(answer: object) -> Callable[..., Any]:
    return lambda *args, **kwargs: answer


@contextmanager
def without_gpu() -> Iterator[OnCpu]:
    """While open, and if there is no GPU, code that asks for one runs on the CPU."""
    on_cpu = OnCpu()
    if torch.cuda.is_available():
        yield on_cpu
        return
    with ExitStack() as stack:
        for name, answer in _answers().items():
            stack.enter_context(replaced(torch.cuda, name, answer))
        # What the code that torch.compile writes imports.
        stack.enter_context(replaced(torch._C, "_cuda_getCurrentRawStream", lambda device: 0))
        made: Any = torch._C._dynamo.guards
        stack.enter_context(replaced(made, "_empty_strided_cuda", made._empty_strided_cpu))
        before = driver._active
        stack.callback(setattr, driver, "_active", before)
        driver.set_active(_Driver())
        stack.enter_context(on_cpu)
        yield on_cpu
