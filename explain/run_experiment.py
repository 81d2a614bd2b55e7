"""Runs an Experiment in the interpreter: makes the inputs, records the kernel, checks the result. Imports torch."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np
import torch

from explain.experiment import Experiment
from explain.trace.fidelity import interpreter_fidelity
from explain.trace.model import Trace
from explain.trace.recorder import Programs, record_call
from explain.trace.sizes import Sizes, judged
from kernels.catalog import Kernel
from kernels.inputs import shapes
from kernels.launch import dtype_of, launcher, tensors
from kernels.verify import Verdict, expectations_of, verify


def run_traced(
    experiment: Experiment, programs: Programs, progress: Callable[[str, float], None], **options: Any
) -> tuple[Trace, Verdict]:
    """Runs the experiment's kernel and records `programs`; the trace, and the verdict against float64.

    `options` as for `recording`.
    """
    entry, p = experiment.entry, experiment.values
    arrays = experiment.make_inputs()
    launch = launcher(entry, p, tensors(p, arrays, "cpu"))
    outputs: dict[str, Any] = {}
    progress("running the kernel", 0.1)
    header = experiment.to_json()
    trace = record_call(lambda: outputs.update(launch()), programs, experiment=header, **options)
    progress("checking against float64", 0.8)
    return trace, verify(entry, p, arrays, outputs)


def verdict_of(experiment: Experiment, device: str, kernel: Kernel | None = None) -> Verdict:
    """Runs the experiment's kernel, or another one on its inputs, and records nothing; the verdict against float64.

    `device` is "cuda", or "cpu" for Triton's interpreter.
    """
    entry, p = kernel or experiment.entry, experiment.values
    arrays = entry.make_inputs(experiment.preset, p, experiment.seed)
    with interpreter_fidelity() if device == "cpu" else nullcontext():
        outputs = launcher(entry, p, tensors(p, arrays, device))()
    return verify(entry, p, arrays, outputs)


def judge_sizes(experiment: Experiment, progress: Callable[[str, float], None], seconds: float | None = None) -> Sizes:
    """The addresses of the experiment's kernel, on tensors of its sizes that have no memory and no values.

    The kernel's inputs are its family's. Raises TraceError.
    """
    entry, p = experiment.entry, experiment.values
    sizes = shapes(entry.family, p, entry.gradient)

    def call() -> object:
        return launcher(entry, p, {name: torch.empty(size, dtype=dtype_of(name, p)) for name, size in sizes.items()})()

    return judged(entry.name, call, progress, seconds)


def run_output(experiment: Experiment, reverse_keys: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Runs the experiment's kernel: its first output, the float64 reference and the tolerance of each element.

    The shapes are equal; the dtypes are float32 (which holds the numbers of every dtype), float64 and float32.
    `reverse_keys` gives attention its keys and values in the opposite order, which changes only the order of additions.
    Raises ValueError for a kernel or a mask where it changes more.
    """
    entry, p = experiment.entry, experiment.values
    arrays = experiment.make_inputs()
    if reverse_keys:
        if entry.family != "attention" or p["causal"]:
            raise ValueError(f"{experiment.kernel}: only attention without a mask is the same with its keys reversed")
        arrays = {**arrays, "k": arrays["k"][:, :, ::-1].copy(), "v": arrays["v"][:, :, ::-1].copy()}
    inputs = tensors(p, arrays, "cpu")
    launch = launcher(entry, p, inputs)
    with interpreter_fidelity():  # without a recording, whose counters of bytes and FLOPs take a quarter of the time
        outputs = launch()
    name = entry.outputs[0]
    expected, allowed = expectations_of(entry, p, arrays, inputs, None)[name]
    return outputs[name].float().numpy(), expected, allowed.astype(np.float32)
