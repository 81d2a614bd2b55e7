"""The worker that runs a reader's kernels, each time in a locked process that it forks. Imports torch.

What runs there gets the arrays of each case, neither seed nor expected result. It sends bytes: a line of JSON for each
case. Nothing here reads them.
"""

from __future__ import annotations

import base64
import functools
import importlib
import json
import linecache
import sys
import tempfile
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch

from explain.experiment import Experiment
from explain.puzzles.puzzles import Puzzle, puzzles
from explain.sandbox.process import Limits, run
from explain.sandbox.protections import protections
from explain.trace import file as trace_file
from explain.trace.errors import OutOfBounds, TraceError
from explain.trace.patches import replaced
from explain.trace.python_file import record_file
from explain.trace.recorder import record_call
from explain.worker_process import Progress
from kernels.catalog import Kernel
from kernels.launch import Outputs, launcher, tensors

EARLIER_S = 2.0
"""A file's run ends so much before its process, so that what it recorded can be sent."""
COUNTED = ("read_bytes", "written_bytes", "flops")


def handle(request: Mapping[str, Any], _progress: Progress) -> dict[str, Any]:
    """Answers one request.

        {"kind": "protections"}                                                              {"line", "complete"}
        {"kind": "run", "puzzle", "name", "text", "numbers", "parameters", "given", …}       {"why"}
        {"kind": "trace", "puzzle", "name", "text", "parameters", "given", …}                {"why"}

        {"kind": "file", "name", "text", "function", …}                                      {"why"}

    `name` is that of the reader's file, `text` its content; `given` is the folder of the inputs, of a trace the file.
    "file" traces what a function of the text launches, or sends {"message"} in JSON.
    All write what they receive to the file `out`, within `seconds` and `megabytes`; `why` says why there is no more.
    Where this machine cannot lock a process they run if `unlocked` allows it. Raises ValueError, PermissionError.
    """
    known = protections()
    if request["kind"] == "protections":
        return {"line": known.line, "complete": known.complete}
    if not (known.complete or request["unlocked"]):
        raise PermissionError(f"Code of others does not run on this machine: {known.line}.")
    name, text = request["name"], request["text"]
    limits = Limits(request["seconds"], request["megabytes"])
    match request["kind"]:
        case "run":
            puzzle = puzzles()[request["puzzle"]]
            arrays = [dict(np.load(Path(request["given"]) / f"{number}.npz")) for number in request["numbers"]]
            cases = list(zip(request["parameters"], arrays, strict=True))
            ended = run(lambda: _outputs(puzzle, name, text, cases), limits, locked=known.complete)
        case "trace":
            puzzle = puzzles()[request["puzzle"]]
            given = dict(np.load(request["given"]))
            ended = run(lambda: _trace(puzzle, name, text, request["parameters"], given), limits, locked=known.complete)
        case "file":
            with tempfile.TemporaryDirectory(prefix="tilescope-") as folder:
                path = Path(folder, Path(name).name)
                path.write_text(text, encoding="utf-8")
                seconds = max(limits.seconds - EARLIER_S, limits.seconds / 2)
                own = [Path(folder)]
                file = functools.partial(_file, path, request["function"], seconds)
                ended = run(file, limits, locked=known.complete, readable=own)
        case kind:
            raise ValueError(f"kind {kind!r}: allowed are protections, run, trace, file")
    Path(request["out"]).write_bytes(ended.answer)
    return {"why": ended.why}


def _outputs(
    puzzle: Puzzle, name: str, text: str, cases: Sequence[tuple[dict[str, Any], dict[str, np.ndarray]]]
) -> Iterator[bytes]:
    """In the reader's process: a line for each case, and one for a failure."""
    try:
        with _in_place(puzzle, name, text):
            for p, arrays in cases:
                outputs, traffic = _counted(puzzle.entry, p, arrays)
                sent = {output: _packed(tensor.double().numpy()) for output, tensor in outputs.items()}
                yield json.dumps({"outputs": sent, "traffic": traffic}).encode() + b"\n"
    except BaseException as error:  # a reader's code may raise SystemExit too
        yield json.dumps(_failure(error, name)).encode() + b"\n"


def _packed(array: np.ndarray) -> dict[str, Any]:
    return {"shape": array.shape, "data": base64.b64encode(array.tobytes()).decode()}


def _failure(error: BaseException, name: str) -> dict[str, Any]:
    """What went wrong in the reader's file: a sentence, and the line if it is known."""
    root, line = error, None
    while True:
        lines = [frame.lineno for frame in traceback.extract_tb(root.__traceback__) if frame.filename == name]
        line = lines[-1] if lines else line
        if root.__cause__ is None:
            break
        root = root.__cause__
    said = str(root) if isinstance(root, TraceError | OutOfBounds) else f"{type(root).__name__}: {root}"
    return {"message": said.strip().removesuffix(":"), "line": line}


def _counted(entry: Kernel, p: dict[str, Any], arrays: dict[str, np.ndarray]) -> tuple[Outputs, list[int]]:
    """The outputs, and what COUNTED names, of all programs."""
    outputs: Outputs = {}
    launch = launcher(entry, p, tensors(p, arrays, "cpu"))
    traffic = record_call(lambda: outputs.update(launch()), programs=[]).traffic()
    return outputs, [traffic[name] for name in COUNTED]


def _trace(puzzle: Puzzle, name: str, text: str, p: dict[str, Any], arrays: dict[str, np.ndarray]) -> Iterator[bytes]:
    """In the reader's process: the bytes of the trace of one case, nothing if it fails."""
    with _in_place(puzzle, name, text):
        yield trace_file.to_bytes(record_call(launcher(puzzle.entry, p, tensors(p, arrays, "cpu")), "all"))


def _file(path: Path, function: str, seconds: float) -> Iterator[bytes]:
    """In the reader's process: the bytes of the trace of a file's function, or why there is none, as JSON."""
    try:
        trace = record_file(path, function, "all", lambda *_: None, seconds=seconds)
    except (TraceError, OutOfBounds, ValueError, OSError) as error:
        yield json.dumps({"message": str(error)}).encode()
    else:
        yield trace_file.to_bytes(trace)


@contextmanager
def _in_place(puzzle: Puzzle, name: str, text: str) -> Iterator[None]:
    """The reader's functions in place of ours, in the module that launches them."""
    theirs, ours = _imported(name, text), importlib.import_module(puzzle.entry.module)
    with ExitStack() as stack:
        # torch.empty then holds NaN: an element that nobody wrote is never right.
        stack.callback(torch.use_deterministic_algorithms, torch.are_deterministic_algorithms_enabled())
        torch.use_deterministic_algorithms(True)
        for function in puzzle.functions:
            stack.enter_context(replaced(ours, function, getattr(theirs, function)))
        yield


def _imported(name: str, text: str) -> ModuleType:
    """The text as a module. It is no file: kernels are read line by line, from Python's cache of lines."""
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    module = ModuleType("_puzzle")
    sys.modules["_puzzle"] = module
    exec(compile(text, name, "exec"), module.__dict__)
    return module


def _warm() -> None:
    """Runs our kernel as an answer once: what that imports and allocates, each forked process then has."""
    puzzle = puzzles()["flash"]
    case = puzzle.cases(0)[0]
    text = "\n\n\n".join([puzzle.head(), *puzzle.solution().values()])
    _ = list(_outputs(puzzle, "warm.py", text, [(case.values, _arrays(case))]))


def _arrays(case: Experiment) -> dict[str, np.ndarray]:
    return case.entry.make_inputs(case.preset, case.values, case.seed)


_warm()
