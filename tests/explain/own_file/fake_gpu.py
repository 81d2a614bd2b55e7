"""A worker that measures files as if there were a GPU: its launches run nothing, and their numbers are given."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace

import torch
from triton.runtime.autotuner import Autotuner
from triton.runtime.jit import JITFunction

from explain.compile.cost import Footprint
from explain.device.measurement import Timing
from explain.own_file import on_gpu
from explain.own_file.model import METHOD, Launch
from explain.plain import plain
from explain.trace.patches import replaced
from tests.explain.own_file.made import PROVENANCE

ILLEGAL = "CUDA error: an illegal memory access was encountered\nCUDA kernel errors might be reported later."


def launched(kernel, *args, grid, warmup, **kwargs):
    """What a GPU does that runs nothing: kernels named after what goes wrong go wrong."""
    name = kernel.fn.__name__
    if name == "astray_kernel":
        raise RuntimeError(ILLEGAL)
    if name == "endless_kernel":
        time.sleep(600)
    return SimpleNamespace()


def benchmarked(self, *args, config, **kwargs):
    """Autotuning: launches each configuration, and the last is the fastest."""
    self.fn.run(*args, **kwargs, **config.all_kwargs())
    return [1 / (1 + self.configs.index(config))] * 3


def hidden(function):
    """The function as a library's: no line of it is the user's."""
    function.__code__ = function.__code__.replace(co_filename="<gpu>")
    return function


def handle(request, progress):
    """As `on_gpu.handle`."""

    @hidden
    def measure(call, number):
        progress(f"running {call.name} ({call.place})", 0.5)
        binary = call.run()
        footprint = Footprint(call.name, call.options.get("num_warps", 4), 3, 0, 32, 0)
        timing = Timing(100.0, 0.5, 0.4, 0.6, 100, METHOD)
        why = on_gpu.saved(call, Path(request["folder"]) / f"{number}.pt")
        return Launch(footprint, call.place, call.grid, 1, call.constants, timing, why=tuple(why)), binary

    with (
        replaced(JITFunction, "run", hidden(launched)),
        replaced(Autotuner, "_bench", benchmarked),
        replaced(torch.cuda, "is_current_stream_capturing", lambda: False),
    ):
        path, function = Path(request["path"]), request["function"]
        return plain(on_gpu.measured_file(path, function, measure, "a test", PROVENANCE, progress))
