"""Runs a file that asks for a GPU on a machine without one: its tensors on "cuda" are made on the CPU.

Kernels are recorded in Triton's CPU interpreter, and a tensor's device changes nothing in them. A launcher may ask how
many SMs the GPU has, or put a stream around a launch; it is answered as on an H100. A time would be the interpreter's,
so each is NaN: a benchmark runs its function once, and of its sizes the first.
"""

from __future__ import annotations

import math
import sys
import sysconfig
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from types import SimpleNamespace
from typing import Any

import torch
import triton.testing
from torch.overrides import TorchFunctionMode
from torch.utils import _device
from triton.backends.compiler import GPUTarget
from triton.runtime import driver

from explain.trace.cuda_graphs import Capture, Graph, make_graphed_callables
from explain.trace.instrument import PROJECT
from explain.trace.patches import replaced

LIBRARIES = ("<", *(sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")))
OURS = str(PROJECT / "explain")
"""How the names of files begin that are not the reader's: of libraries, and of Tilescope."""
INSTALLED = "/site-packages/", "/dist-packages/"
CAPABILITY = 9, 0
H100 = SimpleNamespace(
    name="NVIDIA H100 80GB HBM3", major=9, minor=0, multi_processor_count=132, warp_size=32, total_memory=80 * 10**9,
    gcnArchName="sm_90",  # torch.compile asks for it where PyTorch has no CUDA
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


CUDA = torch.device("cuda", 0)


class OnCpu(TorchFunctionMode):
    """While active, PyTorch's functions take the CPU for a CUDA device.

    `asked`: whether any of them was asked for one. From then on each tensor says that it is on CUDA.
    """

    def __init__(self) -> None:
        super().__init__()
        self.asked = False

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs, moves = dict(kwargs or {}), func == torch.Tensor.to
        if func == torch.device:
            return func("cuda", *args) if args and type(args[0]) is int else func(*args, **kwargs)
        if func == _IS_CUDA or (self.asked and func in _SAID):
            self.asked = True
            return _SAID[func]
        if func in (torch.Tensor.cuda, torch.Tensor.pin_memory):
            self.asked = True
            return args[0]
        if _is_cuda(kwargs.get("device")) or (moves and any(map(_is_cuda, args[1:]))):
            self.asked = True
            kwargs |= {"device": torch.device("cpu")} if "device" in kwargs else {}
            args = args[:1] + tuple(torch.device("cpu") if moves and _is_cuda(one) else one for one in args[1:])
        elif _is_cuda(_device.CURRENT_DEVICE) and func in _device._device_constructors():
            self.asked = True  # by torch.set_default_device, or inside `with torch.device("cuda")`
            kwargs.setdefault("device", torch.device("cpu"))
        kwargs.pop("pin_memory", None)  # it needs a GPU too
        return func(*args, **kwargs)


def _is_cuda(device: object) -> bool:
    """Whether this names a CUDA device: "cuda:1", `torch.device("cuda")`, 1."""
    kind = device.type if isinstance(device, torch.device) else device
    return type(device) is int or (isinstance(kind, str) and kind.split(":")[0] == "cuda")


def _getter(name: str) -> Any:
    return getattr(torch.Tensor, name).__get__


_IS_CUDA = _getter("is_cuda")
_SAID = {_IS_CUDA: True, _getter("is_cpu"): False, _getter("device"): CUDA, torch.Tensor.get_device: 0}
"""What a tensor says of where it is."""


class _Driver:
    """Stands for the driver that Triton asks for its device."""

    utils = SimpleNamespace(get_device_properties=lambda device: TRITONS)

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("cuda", CAPABILITY[0] * 10 + CAPABILITY[1], H100.warp_size)

    def get_active_torch_device(self) -> torch.device:
        return CUDA

    def get_device_interface(self) -> Any:
        return torch.cuda

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: object = None) -> int:
        return 0

    def set_current_device(self, device: object) -> None:
        pass

    def get_benchmarker(self) -> Callable[..., Any]:
        return _timed

    def get_empty_cache_for_benchmark(self) -> torch.Tensor:
        return torch.empty(0)

    def clear_cache(self, cache: object) -> None:
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

    def query(self) -> bool:
        return True

    def is_capturing(self) -> bool:
        return Graph.capturing is not None

    def elapsed_time(self, end: object) -> float:
        return math.nan


class _Nothing(nullcontext[None]):
    """A context that changes nothing, such as another device; a class, because PyTorch asks what is one."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()


def _timed(
    fn: Callable[[], object], *args: Any, quantiles: Sequence[float] | None = None, return_mode: str = "mean", **_: Any
) -> float | list[float]:
    """`triton.testing.do_bench`: calls the function once; its times are NaN."""
    fn()
    if quantiles is not None:
        return [math.nan] * len(quantiles) if len(quantiles) > 1 else math.nan
    return [math.nan] if return_mode == "all" else math.nan


def _benchmarked(self: Any, *args: Any, **kwargs: Any) -> None:
    """`triton.testing.Mark.run`: calls the function at each benchmark's first size, for each line; plots nothing."""
    many = isinstance(self.benchmarks, list)
    for bench in self.benchmarks if many else [self.benchmarks]:
        first = bench.x_vals[0]
        sizes = first if isinstance(first, list | tuple) else [first] * len(bench.x_names)
        for line in bench.line_vals:
            self.fn(**dict(zip(bench.x_names, sizes, strict=True)), **{bench.line_arg: line}, **bench.args)


class _Generator(torch.Generator):
    """A generator on the CPU, whatever device is named."""

    def __new__(cls, device: object = None) -> _Generator:
        return super().__new__(cls)


def is_library(file: str | None) -> bool:
    """Whether a file is an installed package's, or Python's own."""
    return file is not None and (file.startswith(LIBRARIES) or any(part in file for part in INSTALLED))


def _is_there() -> bool:
    """The answer to "is there a GPU?": yes for the file that runs, no for libraries and for Tilescope."""
    asking = sys._getframe(1).f_code.co_filename
    return not is_library(asking) and not asking.startswith(OURS)


def _answers() -> dict[str, Any]:
    """What attributes of `torch.cuda` are instead; each is an object of its own, since torch.compile lists them."""
    classes: dict[str, type] = dict.fromkeys(("device", "device_of", "_DeviceGuard", "stream"), _Nothing)
    classes |= dict.fromkeys(("Stream", "Event", "current_stream", "default_stream", "ExternalStream"), _Stream)
    return {
        **{name: type(name, (base,), {}) for name, base in classes.items()},
        **{name: _always(None) for name in DONE},
        **{name: _always(math.nan) for name in UNKNOWN},
        "memory_stats": _always(defaultdict(int)),
        "mem_get_info": _always((H100.total_memory, H100.total_memory)),
        "is_available": _is_there,
        "is_initialized": _is_there,
        "current_device": _always(0),
        "device_count": _always(1),
        "is_bf16_supported": _always(True),
        "CUDAGraph": Graph,
        "graph": Capture,
        "make_graphed_callables": make_graphed_callables,
        "graph_pool_handle": _always((0, 0)),
        "is_current_stream_capturing": lambda: Graph.capturing is not None,
        "get_device_name": _always(H100.name),
        "get_device_properties": _always(H100),
        "get_device_capability": _always(CAPABILITY),
        "get_rng_state": lambda device=None: torch.get_rng_state(),
        "set_rng_state": lambda new_state, device=None: torch.set_rng_state(new_state),
        "default_generators": (torch.default_generator,),
    }


DONE = (
    "synchronize", "set_device", "set_stream", "empty_cache", "ipc_collect", "init", "manual_seed", "manual_seed_all",
    "seed", "seed_all", "reset_peak_memory_stats", "reset_max_memory_allocated", "reset_accumulated_memory_stats",
)  # fmt: skip
"""Functions of `torch.cuda` with nothing to do."""
UNKNOWN = ("memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved")
"""Functions of `torch.cuda` that ask for the bytes on the GPU."""


def _always(answer: object) -> Callable[..., Any]:
    return lambda *args, **kwargs: answer


def _accelerators() -> dict[str, Any]:
    """What functions of `torch.accelerator` do instead."""
    return {
        "is_available": _is_there,
        "current_accelerator": lambda check_available=False: torch.device("cuda"),
        "current_device_index": _always(0),
        "device_count": _always(1),
        "get_device_capability": _always({"supported_dtypes": set()}),
        "current_stream": _always(_Stream()),
        **dict.fromkeys(("set_stream", "set_device_index", "empty_cache", "synchronize"), _always(None)),
    }


def _autocast() -> Iterator[tuple[Any, str, object]]:
    """What methods of `torch.autocast` do instead: what asks it of CUDA gets it on the CPU too."""
    autocast: Any = torch.autocast
    enter, leave = autocast.__enter__, autocast.__exit__

    def entered(self: Any) -> Any:
        if self.device == "cuda":
            self.on_cpu = autocast("cpu", self.fast_dtype, self._enabled, self._cache_enabled)
            enter(self.on_cpu)
        return enter(self)

    def left(self: Any, *error: Any) -> Any:
        if self.device == "cuda":
            leave(self.on_cpu, *error)
        return leave(self, *error)

    yield autocast, "__enter__", entered
    yield autocast, "__exit__", left
    yield torch.cuda.amp.common, "amp_definitely_not_available", _always(False)


@contextmanager
def without_gpu() -> Iterator[OnCpu]:
    """While open, and if there is no GPU, code that asks for one runs on the CPU."""
    on_cpu = OnCpu()
    if torch.cuda.is_available():
        yield on_cpu
        return
    made: Any = torch._C._dynamo.guards
    attributes: list[tuple[Any, str, object]] = [
        *((torch.cuda, name, answer) for name, answer in _answers().items()),
        *((torch.accelerator, name, answer) for name, answer in _accelerators().items()),
        *_autocast(),
        (torch, "Generator", _Generator),
        (triton.testing, "do_bench", _timed),
        (triton.testing, "do_bench_cudagraph", _timed),
        (triton.testing.Mark, "run", _benchmarked),
        # What the code that torch.compile writes imports.
        (torch._C, "_cuda_getCurrentRawStream", lambda device: 0),
        (made, "_empty_strided_cuda", made._empty_strided_cpu),
    ]
    with ExitStack() as stack:
        for one in attributes:
            stack.enter_context(replaced(*one))
        stack.callback(torch.set_default_device, None)
        before = driver._active
        stack.callback(setattr, driver, "_active", before)
        driver.set_active(_Driver())
        stack.enter_context(on_cpu)
        yield on_cpu
