"""What a trace worker does for an Experiment: makes the inputs, runs and records the kernel, checks the result. Imports torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from explain.experiment import Experiment
from explain.trace.model import Trace
from explain.trace.recorder import Programs, record_call
from kernels.launch import launcher, tensors
from kernels.verify import Verdict, verify


def run_traced(
    experiment: Experiment, programs: Programs, progress: Callable[[str, float], None]
) -> tuple[Trace, Verdict]:
    """Runs the experiment's kernel in the interpreter, recording `programs`; the trace and the verdict against float64."""
    entry, p = experiment.entry, experiment.values
    arrays = entry.make_inputs(experiment.preset, p, experiment.seed)
    launch = launcher(entry, p, tensors(p, arrays, "cpu"))
    outputs: dict[str, Any] = {}
    progress("running the kernel", 0.1)
    trace = record_call(lambda: outputs.update(launch()), programs=programs, experiment=experiment.to_json())
    progress("checking against float64", 0.8)
    return trace, verify(entry, p, arrays, outputs)
