"""Runs a kernel: arrays in, tensors out, on the CPU (Triton's interpreter) or on a GPU. Imports torch."""

from __future__ import annotations

import importlib
import inspect
import math
from collections.abc import Callable
from typing import Any

import torch

from kernels import edits
from kernels.catalog import Kernel
from kernels.inputs import IGNORE_INDEX, Arrays, Preset, shapes
from kernels.parameters import Values

TORCH_DTYPE = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}

LARGE = 2**24  # elements

Outputs = dict[str, torch.Tensor]


def tensors(p: Values, arrays: Arrays, device: str) -> dict[str, torch.Tensor]:
    """The arrays as tensors of the experiment's dtype on `device`, targets as int64.

    Exact: presets make representable values.
    """
    return {name: torch.from_numpy(array).to(device, dtype_of(name, p)) for name, array in arrays.items()}


def dtype_of(name: str, p: Values) -> torch.dtype:
    """An input's dtype: the experiment's, but targets are whole numbers."""
    return torch.int64 if name == "targets" else TORCH_DTYPE[p["dtype"]]


def tensors_on(device: str, kernel: Kernel, preset: Preset, p: Values, seed: int) -> dict[str, torch.Tensor]:
    """The kernel's inputs as tensors on `device`, for runs that are measured and not checked.

    Large normal inputs are drawn on the device: other numbers of the same distribution. NumPy would take seconds.
    """
    own = shapes(kernel.family, p, kernel.gradient) if kernel.make is None else {}
    if preset.name == "normal" and own and sum(map(math.prod, own.values())) >= LARGE:
        random = torch.Generator(device).manual_seed(seed)
        drawn = {
            name: torch.randn(shape, generator=random, device=device, dtype=TORCH_DTYPE[p["dtype"]])
            for name, shape in own.items()
            if name != "targets"
        }
        if kernel.family == "loss":
            drawn["w"] *= p["dim"] ** -0.5
            drawn["targets"] = torch.randint(p["vocab"], own["targets"], generator=random, device=device)
            drawn["targets"][: p["ignored"]] = IGNORE_INDEX
        return drawn
    return tensors(p, kernel.make_inputs(preset, p, seed), device)


def launcher(kernel: Kernel, p: Values, inputs: dict[str, torch.Tensor], **options: object) -> Callable[[], Outputs]:
    """A function that runs the kernel's wrapper on `inputs` and returns its outputs by name.

    The wrapper gets the parameters that its signature names, and `options` (such as `diagonal`, for a prefix of the
    keys). What an earlier pass leaves for the kernel is made here, so it is not part of what is launched.
    """
    if kernel.given:
        inputs = {**inputs, **named(kernel.given)(p, inputs)}
    module = edits.load(kernel.module, kernel.edit) if kernel.edit else importlib.import_module(kernel.module)
    wrapper = getattr(module, kernel.function)
    own = {name: p[name] for name in inspect.signature(wrapper).parameters if name in p}

    def launch() -> Outputs:
        result = wrapper(**inputs, **own, **options)
        return dict(zip(kernel.outputs, result if isinstance(result, tuple) else (result,), strict=True))

    return launch


def named(place: str) -> Callable[..., Any]:
    """The function at "module:function"."""
    module, function = place.split(":")
    found: Callable[..., Any] = getattr(importlib.import_module(module), function)
    return found
