"""Compiles a Gluon attention for a Hopper GPU you don't have, with and without scopes, in a process of its own.

kernels.attention_hopper:flash_attention_hopper:128 …     prints a line for each: whether the
marked copy with no profiler at work has the plain kernel's instructions, how many clock readings it has with one at
work, the bytes of shared memory then, and its warps
"""

import importlib
import re
import sys
from types import SimpleNamespace
from typing import Any

import torch
from triton import knobs
from triton.backends.compiler import GPUTarget
from triton.backends.nvidia.compiler import CUDABackend
from triton.profiler import mode
from triton.profiler.hooks.instrumentation import InstrumentationHook
from triton.runtime import driver
from triton.runtime.jit import JITFunction

from kernels import scopes

HOPPER = SimpleNamespace(
    get_current_device=lambda: 0,
    get_current_stream=lambda device: 0,
    get_current_target=lambda: GPUTarget("cuda", 90, 32),
    utils=SimpleNamespace(get_device_properties=lambda device: {"max_shared_mem": 232448}),
)
compiled: list[Any] = []
run = JITFunction.run


def compile_only(kernel, *arguments, grid, warmup, **options):
    compiled.append(run(kernel, *arguments, grid=grid, warmup=True, **options))
    return compiled[-1]


def instructions(kernel) -> str:
    """The PTX without references to source lines."""
    text = kernel.asm["ptx"].partition(".section")[0]
    return "\n".join(
        line for line in text.splitlines() if not re.match(r"\s*(\.loc|\.file|//|\$L__(tmp|info|func))", line)
    )


CUDABackend.make_cubin = lambda *_: b""  # PTX says it all: the assembler would take a third of the time
driver.set_active(HOPPER)
knobs.compilation.always_compile = True
JITFunction.run = compile_only
hook = InstrumentationHook(mode.Default(optimizations="clock32", sampling_strategy="selective", sampling_options="0,4"))
for wanted in sys.argv[1:]:
    name, function, head_dim = wanted.split(":")
    q = torch.randn(1, 2, 768, int(head_dim), dtype=torch.bfloat16)
    plain, marked = importlib.import_module(name), scopes.load(name)
    for module in (plain, marked):
        for asked, answer in (("sms", 132), ("hopper_refusal", "")):  # of a GPU, which is not here
            if hasattr(module, asked):
                setattr(module, asked, lambda *_, answer=answer: answer)
        getattr(module, function)(q, q, q)
    hook.activate()
    getattr(marked, function)(q, q, q)
    hook.deactivate()
    same = instructions(compiled[-3]) == instructions(compiled[-2])
    readings = len(re.findall(r"mov\.u32 \S+ %clock;", compiled[-1].asm["ptx"]))
    print(same, readings, compiled[-1].metadata.shared, compiled[-1].metadata.num_warps)
