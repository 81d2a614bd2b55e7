"""The trace worker: answers requests to run and record kernels in Triton's CPU interpreter. Imports torch."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from contextlib import chdir, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch

from explain.experiment import Experiment
from explain.output import Output
from explain.parts import smaller
from explain.run_experiment import judge_sizes, run_output, run_traced
from explain.trace import file as trace_file
from explain.trace.checks import checked
from explain.trace.errors import BadTarget, TookTooLong
from explain.trace.evidence import Evidence
from explain.trace.model import Trace
from explain.trace.python_file import record_file
from explain.trace.sizes import at_sizes
from explain.worker_process import Progress
from kernels.inputs import shapes
from kernels.verify import Verdict

WARM_SIZE = 128
MOST_PREPARED = 20_000_000
"""Elements. So many inputs are made, and their result is checked against float64, within some seconds."""
FASTEST = 1e9
"""Bytes per second that no kernel loads and stores in the interpreter, however large its tiles are."""

# NumPy and torch allocate their buffers at the first matmul, and end the process if memory is short by then.
np.ones((WARM_SIZE, WARM_SIZE), np.float32) @ np.ones((WARM_SIZE, WARM_SIZE), np.float32)
torch.ones(WARM_SIZE, WARM_SIZE) @ torch.ones(WARM_SIZE, WARM_SIZE)


def handle(request: Mapping[str, Any], progress: Progress) -> dict[str, Any]:
    """Answers one request, and writes the file `out` unless it is null. Requests, with `programs` as for `recording`:

        {"kind": "experiment", "experiment": an Experiment's JSON, "programs": …, "out": path or null}
        {"kind": "file", "path": "x.py", "function": "main", "programs": …, "out": path or null}
        {"kind": "sizes", "path": "x.py", "function": "main", "arguments": {"seq_len": 131072}}
        {"kind": "sizes", "experiment": …}
        {"kind": "output", "experiment": …, "reverse_keys": false, "out": path}

    Both may have "options": those of `recording`, `seconds` for a file, and `checks`, which adds findings to the
    report. They write a trace and answer {"steps", "trace_seconds", "file_bytes", "traffic", "launches": [{"kernel",
    "grid", "traffic"}], "report": a Report's fields}, an experiment also {"error", "tolerance", "within_tolerance",
    "output", "part"}. `traffic` is {"read_bytes", "written_bytes", "flops"} of all programs, recorded or not. A file's
    run that fails answers like one that ends, and its report has the failure. "output" records nothing, writes the
    arrays of `run_output` as .npz and answers {}. "sizes" answers the fields of `trace.sizes.Sizes`.

    An experiment that would take longer than the option `budget` allows is cut to a part, unless programs are named.
    Then the answer is about that part, and `part` is {"experiment", "times", "words", "why"}; else `part` is null.
    Where the sizes alone show it, nothing is made for the whole.

    Raises TraceError, OutOfBounds, ValueError, OSError.
    """
    out = None if request["out"] is None else Path(request["out"]).resolve()
    with chdir("."):  # comes back if a run changes the folder
        if out is not None:
            try:
                trace_file.check_writable(out)
            except OSError as error:
                raise BadTarget(f"{out} cannot be written: {error.strerror}") from None
        kind = request["kind"]
        if kind == "experiment":
            return _experiment(request, out, progress)
        if kind == "file":
            start = time.perf_counter()
            path, options = Path(request["path"]), dict(request.get("options", {}))
            checks = options.pop("checks", False)

            def record(evidence: Evidence | None = None) -> Trace:
                return record_file(
                    path, request["function"], request["programs"], progress, evidence=evidence, **options
                )

            return _written(checked(record) if checks else record(), out, start, progress)
        if kind == "sizes":
            options = request["options"]
            if "experiment" in request:
                return asdict(judge_sizes(Experiment.from_json(request["experiment"]), progress, **options))
            path, function = Path(request["path"]), request["function"]
            return asdict(at_sizes(path, function, request["arguments"], progress, **options))
        if kind == "output" and out is not None:
            return _output(request, out, progress)
    raise ValueError(f"kind {kind!r}: allowed are experiment, file, sizes, output")


def _experiment(request: Mapping[str, Any], out: Path | None, progress: Progress) -> dict[str, Any]:
    start = time.perf_counter()
    experiment, programs = Experiment.from_json(request["experiment"]), request["programs"]
    options = dict(request.get("options", {}))
    checks = options.pop("checks", False)
    part: dict[str, Any] | None = None

    def run(experiment: Experiment) -> tuple[Trace, Verdict]:
        if "budget" in options:
            _check_size(experiment, options["budget"])

        verdicts: list[Verdict] = []  # the checks may repeat the run with other values in it

        def record(evidence: Evidence | None = None) -> Trace:
            trace, verdict = run_traced(experiment, programs, progress, evidence=evidence, **options)
            verdicts.append(verdict)
            return trace

        return checked(record) if checks else record(), verdicts[0]

    try:
        trace, verdict = run(experiment)
    except TookTooLong as error:
        if programs and not isinstance(programs, str):
            raise
        trace, verdict, part = _part(experiment, run, error)
    judged = {name: getattr(verdict, name) for name in ("error", "tolerance", "within_tolerance", "output")}
    return _written(trace, out, start, progress) | judged | {"part": part}


def _check_size(experiment: Experiment, budget: float) -> None:
    """Raises TookTooLong if it is clear before anything is made that all of it takes longer than `budget` seconds."""
    entry, p = experiment.entry, experiment.values
    elements = sum(math.prod(shape) for shape in shapes(entry.family, p, entry.gradient).values())
    if elements > MOST_PREPARED:
        raise TookTooLong(f"The inputs have {elements:,} elements: to make and to check them takes too long")
    moved = experiment.traffic.totals()
    if (needed := (moved["read_bytes"] + moved["written_bytes"]) / FASTEST) > budget:
        raise TookTooLong(f"Triton's interpreter needs {needed:.0f} s or more for all programs")


def _part(
    whole: Experiment, run: Callable[[Experiment], tuple[Trace, Verdict]], why: TookTooLong
) -> tuple[Trace, Verdict, dict[str, Any]]:
    """Runs the first part that is fast enough. Raises `why` the whole is not if none is."""
    for part in smaller(whole):
        with suppress(TookTooLong):
            trace, verdict = run(part.experiment)
            said = {"experiment": part.experiment.to_json(), "times": part.times, "words": part.words}
            return trace, verdict, said | {"why": str(why)}
    raise why


def _output(request: Mapping[str, Any], out: Path, progress: Progress) -> dict[str, Any]:
    progress("running the kernel", 0.1)
    Output(*run_output(Experiment.from_json(request["experiment"]), request["reverse_keys"])).write(out)
    return {}


def _written(trace: Trace, out: Path | None, start: float, progress: Progress) -> dict[str, Any]:
    seconds = time.perf_counter() - start
    progress("writing the trace", 0.95)
    return {
        "steps": trace.steps,
        "trace_seconds": seconds,
        "file_bytes": trace_file.write(trace, out) if out is not None else 0,
        "traffic": trace.traffic(),
        "launches": [
            {"kernel": launch.kernel, "grid": list(launch.grid), "traffic": launch.traffic()}
            for launch in trace.launches
        ],
        "report": asdict(trace.report),
    }
