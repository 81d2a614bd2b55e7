"""The worker of puzzles: makes inputs, runs a reader's kernels on them, compares the outputs. Imports torch.

It runs in two processes. One runs the reader's code, and gets neither the seed nor the expected result. The other one
makes the inputs and compares the outputs. They exchange .npz files in folders that the caller names.
"""

from __future__ import annotations

import importlib
import importlib.util
import linecache
import sys
import traceback
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch

from explain.experiment import Experiment
from explain.puzzles.puzzles import Puzzle, puzzles
from explain.run_experiment import run_traced
from explain.trace import file as trace_file
from explain.trace.errors import OutOfBounds, TraceError
from explain.trace.patches import replaced
from explain.trace.recorder import record_call
from explain.worker_process import Progress
from kernels.catalog import Kernel
from kernels.launch import Outputs, launcher, tensors
from kernels.verify import expectations_of, verify


def handle(request: Mapping[str, Any], progress: Progress) -> dict[str, Any]:
    """Answers one request about the cases of a puzzle; `folder` has `0.npz`, `1.npz` …, one for each case.

        {"kind": "inputs", "cases": [an Experiment's JSON, …], "folder"}                    {}
        {"kind": "run", "puzzle", "path", "numbers", "parameters", "given", "folder"}       {} or a failure
        {"kind": "verdict", "cases", "numbers", "folder"}                                   {"verdicts": […]}
        {"kind": "trace", "puzzle", "path" or null, "case", "given", "out"}                 {} or a failure

    "run" runs some cases by their number, with their parameters but neither their inputs' name nor their seed, and
    writes their outputs and the bytes requested. A failure of the reader's code is {"failed": the case's number,
    "message", "line"}. "trace" records one case of the reader's kernel, or of ours. Raises ValueError.
    """
    match request["kind"]:
        case "inputs":
            for number, data in enumerate(request["cases"]):
                np.savez(Path(request["folder"]) / f"{number}.npz", **_inputs(Experiment.from_json(data)))
            return {}
        case "run":
            return _run(request, progress)
        case "verdict":
            pairs = zip(request["numbers"], request["cases"], strict=True)
            folder = Path(request["folder"])
            return {"verdicts": [_verdict(Experiment.from_json(case), folder / f"{n}.npz") for n, case in pairs]}
        case "trace":
            return _trace(request)
    raise ValueError(f"kind {request['kind']!r}: allowed are inputs, run, verdict, trace")


def _inputs(experiment: Experiment) -> dict[str, Any]:
    return experiment.entry.make_inputs(experiment.preset, experiment.values, experiment.seed)


def _run(request: Mapping[str, Any], progress: Progress) -> dict[str, Any]:
    puzzle, path = puzzles()[request["puzzle"]], Path(request["path"])
    given, folder, number = Path(request["given"]), Path(request["folder"]), request["numbers"][0]
    try:
        with _in_place(puzzle, path):
            for number, p in zip(request["numbers"], request["parameters"], strict=True):
                outputs, traffic = _counted(puzzle.entry, p, dict(np.load(given / f"{number}.npz")))
                arrays: dict[str, Any] = {name: output.double().numpy() for name, output in outputs.items()}
                np.savez(folder / f"{number}.npz", traffic=traffic, **arrays)
                progress(f"case {number + 1}", 0.0)
    except BaseException as error:  # a reader's code may raise SystemExit too
        return {"failed": number, **_failure(error, path)}
    return {}


def _failure(error: BaseException, path: Path) -> dict[str, Any]:
    """What went wrong in the reader's file: a sentence, and the line if it is known."""
    root, line = error, None
    while True:
        lines = [frame.lineno for frame in traceback.extract_tb(root.__traceback__) if frame.filename == str(path)]
        line = lines[-1] if lines else line
        if root.__cause__ is None:
            break
        root = root.__cause__
    said = str(root) if isinstance(root, TraceError | OutOfBounds) else f"{type(root).__name__}: {root}"
    return {"message": said.strip().removesuffix(":"), "line": line}


def _counted(entry: Kernel, p: dict[str, Any], arrays: dict[str, np.ndarray]) -> tuple[Outputs, np.ndarray]:
    """The outputs, and (bytes read, bytes written, FLOPs) of all programs."""
    outputs: Outputs = {}
    launch = launcher(entry, p, tensors(p, arrays, "cpu"))
    traffic = record_call(lambda: outputs.update(launch()), programs=[]).traffic()
    return outputs, np.array([traffic[name] for name in ("read_bytes", "written_bytes", "flops")])


def _verdict(experiment: Experiment, path: Path) -> dict[str, Any]:
    """Whether a case's outputs are within tolerance: the worst element, and what it should be."""
    entry, p, arrays = experiment.entry, experiment.values, _inputs(experiment)
    stored = dict(np.load(path))
    traffic = stored.pop("traffic").tolist()
    given = tensors(p, arrays, "cpu")
    found = verify(entry, p, arrays, {name: torch.from_numpy(array) for name, array in stored.items()})
    expected, _ = expectations_of(entry, p, arrays, given, None)[found.output]
    return {
        "right": found.within_tolerance,
        "element": f"{found.output}[{', '.join(map(str, found.index))}]",
        "found": f"{float(stored[found.output][found.index]):.6g}",
        "expected": f"{float(expected[found.index]):.6g}",
        "traffic": traffic,
    }


def _trace(request: Mapping[str, Any]) -> dict[str, Any]:
    """Records a case: the reader's kernel on the given inputs, or, without a path, the catalog's kernel."""
    out = Path(request["out"])
    if request["path"] is None:
        trace, _ = run_traced(Experiment.from_json(request["case"]), "all", lambda *_: None)
        trace_file.write(trace, out)
        return {}
    puzzle, p, path = puzzles()[request["puzzle"]], request["case"], Path(request["path"])
    arrays = dict(np.load(request["given"]))
    try:
        with _in_place(puzzle, path):
            trace = record_call(launcher(puzzle.entry, p, tensors(p, arrays, "cpu")), "all")
    except BaseException as error:
        return {"failed": 0, **_failure(error, path)}
    trace_file.write(trace, out)
    return {}


@contextmanager
def _in_place(puzzle: Puzzle, path: Path) -> Iterator[None]:
    """The reader's functions in place of ours, in the module that launches them."""
    theirs, ours = _imported(path), importlib.import_module(puzzle.entry.module)
    with ExitStack() as stack:
        # torch.empty then holds NaN: an element that nobody wrote is never right.
        stack.callback(torch.use_deterministic_algorithms, torch.are_deterministic_algorithms_enabled())
        torch.use_deterministic_algorithms(True)
        for name in puzzle.functions:
            stack.enter_context(replaced(ours, name, getattr(theirs, name)))
        yield


def _imported(path: Path) -> ModuleType:
    linecache.checkcache(str(path))
    spec = importlib.util.spec_from_file_location("_puzzle", path)
    if spec is None or spec.loader is None:
        raise ValueError(f"{path}: not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules["_puzzle"] = module
    with replaced(sys, "dont_write_bytecode", True):  # as for a file that is traced
        spec.loader.exec_module(module)
    return module
