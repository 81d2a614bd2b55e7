"""The worker that runs a reader's kernels. It forks a locked process for each run. Imports torch.

The locked process gets the arrays of each case. It does not get the seed or the expected result. It sends a line of
JSON for each case. The worker stores these lines in a file and does not read them.
"""

from __future__ import annotations

import ast
import base64
import difflib
import functools
import importlib
import json
import linecache
import os
import re
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch

from explain.experiment import Experiment
from explain.outside import in_words
from explain.puzzles import language
from explain.puzzles.answer import COUNTED
from explain.puzzles.puzzles import Puzzle, puzzles
from explain.sandbox.process import Limits, run, run_together
from explain.sandbox.protections import protections
from explain.trace import file as trace_file
from explain.trace.checks import checked
from explain.trace.errors import OutOfBounds, TookTooLong, TraceError
from explain.trace.evidence import Evidence
from explain.trace.model import Trace
from explain.trace.patches import replaced
from explain.trace.python_file import record_file
from explain.trace.recorder import record_call
from explain.worker_process import Progress
from kernels.launch import Outputs, launcher, tensors

AT_ONCE = min(2, len(os.sched_getaffinity(0)))
"""So many processes share the cases of an answer."""
AFTER_S = 10.0
"""Seconds between the end of a file's run and the end of its process: the time to check and send what was recorded."""


def handle(request: Mapping[str, Any], progress: Progress) -> dict[str, Any]:
    """Answers one request.

        {"kind": "protections"}                                                              {"line", "complete"}
        {"kind": "run", "puzzle", "name", "text", "parameters", "given", …}                  {"why"}
        {"kind": "trace", "puzzle", "name", "text", "parameters", "given", …}                {"why"}

        {"kind": "file", "name" and "text", or "path"; "function", …}                        {"why"}

    `name` is that of the reader's file, `text` its content; `given` is the folder of the inputs, of a trace the file.
    "file" traces and checks what a function of the text launches, or of the file at `path`, which may import from its
    folder; or it sends {"message"} in JSON.
    All write what they receive to the file `out`, within `seconds` and `megabytes`; `why` says why there is no more.
    "run" appends the line of a case to `out` when it and those before have arrived; the fraction reported as progress
    is that of the lines. It ends when `out` is removed. Where this machine cannot lock a process they run if `unlocked`
    allows it. Raises ValueError, PermissionError.
    """
    known = protections()
    if request["kind"] == "protections":
        return {"line": known.line, "complete": known.complete}
    if not (known.complete or request["unlocked"]):
        raise PermissionError(f"Third-party code does not run on this machine: {known.line}.")
    name, text = request.get("name", ""), request.get("text", "")
    seconds = request["seconds"]
    limits = Limits(seconds, request["megabytes"])
    match request["kind"]:
        case "run":
            puzzle = puzzles()[request["puzzle"]]
            given = Path(request["given"])
            cases = [(p, dict(np.load(given / f"{number}.npz"))) for number, p in enumerate(request["parameters"])]
            works = [functools.partial(_outputs, puzzle, name, text, cases[start::AT_ONCE]) for start in range(AT_ONCE)]
            lines = Lines(Path(request["out"]), AT_ONCE, lambda number: progress("running", number / len(cases)))
            runs = run_together(works, limits, locked=known.complete, watch=lines.receive)
            return {"why": runs[lines.missing].why}
        case "trace":
            puzzle = puzzles()[request["puzzle"]]
            arrays = dict(np.load(request["given"]))
            traced = functools.partial(_trace, puzzle, name, text, request["parameters"], arrays)
            ended = run(traced, limits, locked=known.complete)
        case "file":
            with tempfile.TemporaryDirectory(prefix="tilescope-") as folder:
                path = Path(request.get("path") or Path(folder, Path(name).name))
                if "path" not in request:
                    path.write_text(text, encoding="utf-8")
                file = functools.partial(_file, path, request["function"], seconds)
                longer = replace(limits, seconds=seconds + AFTER_S)
                ended = run(file, longer, locked=known.complete, readable=[_imports_from(path)])
        case kind:
            raise ValueError(f"kind {kind!r}: allowed are protections, run, trace, file")
    Path(request["out"]).write_bytes(ended.answer)
    return {"why": ended.why}


def _imports_from(path: Path) -> Path:
    """The folder of a file; of a package's file, the folder where the package lies."""
    folder = path.parent
    while (folder / "__init__.py").is_file() and folder != folder.parent:
        folder = folder.parent
    return folder


class Lines:
    """The lines of several processes in a file, one of each in turn, as far as none is missing.

    `written` is called with the number of lines in the file whenever there are more.
    """

    def __init__(self, file: Path, processes: int, written: Callable[[int], object]) -> None:
        self._file, self._written = file, written
        self._received = [bytearray() for _ in range(processes)]
        self._number = 0
        self._lock = threading.Lock()

    @property
    def missing(self) -> int:
        """The process whose line comes next."""
        return self._number % len(self._received)

    def receive(self, process: int, chunk: bytes) -> bool:
        """Takes what a process sent. Returns False once the file is gone: then nobody reads on."""
        with self._lock:
            self._received[process] += chunk
            whole = []
            while b"\n" in (own := self._received[self.missing]):
                line, _, self._received[self.missing] = own.partition(b"\n")
                whole.append(line + b"\n")
                self._number += 1
            if whole:
                try:
                    with self._file.open("r+b") as file:
                        file.seek(0, os.SEEK_END)
                        file.write(b"".join(whole))
                except FileNotFoundError:
                    return False
                self._written(self._number)
        return self._file.exists()


def _outputs(
    puzzle: Puzzle, name: str, text: str, cases: Sequence[tuple[dict[str, Any], dict[str, np.ndarray]]]
) -> Iterator[bytes]:
    """In the reader's process: a line for each case, and one for a failure."""
    try:
        with _in_place(puzzle, name, text):
            for p, arrays in cases:
                outputs, counted = _counted(puzzle, p, arrays)
                sent = {output: _packed(tensor.double().numpy()) for output, tensor in outputs.items()}
                yield json.dumps({"outputs": sent, **counted}).encode() + b"\n"
    except GeneratorExit:  # nobody reads on
        raise
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
    return {"message": _in_words(root, name).strip().removesuffix(":"), "line": line}


def _in_words(error: BaseException, name: str) -> str:
    """An error as a teacher would say it, if it is one that students meet; else its type and its own words."""
    said = str(error)
    if isinstance(error, TraceError):
        return said
    if isinstance(error, OutOfBounds):
        return in_words(error.program, error.access)
    if isinstance(error, NameError) and error.name:
        return _unknown(error, "".join(linecache.getlines(name)))
    for pattern, words in _SAID.items():
        if found := re.search(pattern, said):
            return found.expand(words)
    return f"{type(error).__name__}: {said}"


def _unknown(error: NameError, text: str) -> str:
    """What to say of a name that has no value: it may be a library's, Triton's, or mistyped."""
    wrong = str(error.name)
    if wrong in ("np", "numpy", "torch", "math"):
        return f"{wrong} is not here: a kernel computes with tl, as in tl.exp(x)."
    if wrong in language.names():
        return f"{wrong} is not defined. Is it tl.{wrong}?"
    nodes = [*ast.walk(ast.parse(text))]
    own = {one.id for one in nodes if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)}
    own |= {one.arg for one in nodes if isinstance(one, ast.arg)} | {"None", "True", "False"}
    same = sorted(one for one in own if one.lower() == wrong.lower())
    near = same or difflib.get_close_matches(wrong, sorted(own), 1)
    return f"{wrong} is not defined." + (f" Is it {near[0]}?" if near else "")


_SAID = {
    r"incompatible dimensions at index (\d+): (\d+) and (\d+)": r"These two shapes do not fit: on axis \1 one has \2 "
    r"elements, the other \3. x[:, None] makes a vector a column, x[None, :] a row.",
    r"`other` cannot be provided without `mask`": r"tl.load has other= without mask=. other= fills the elements that "
    r"the mask leaves out.",
    r"Mask argument cannot be block type": r"The mask is a tile, but the pointer is one address: add the offsets "
    r"to it.",
    r"Unsupported ptr type .* in `tl\.(\w+)`": r"The first argument of tl.\1 is not a pointer. It is a pointer plus "
    r"offsets; tl.store takes the values second.",
    r"arange's arguments must be of type tl.constexpr": r"tl.arange needs whole numbers that the compiler knows: "
    r"constexpr parameters such as BLOCK_N. // divides them, / does not.",
    r"'int' object is not iterable": r"Triton needs several numbers here and got one. A shape is a tuple: (BLOCK_N,). "
    r"A tile and a pointer have no element x[0]: add the offset, then tl.load.",
    r"(?:min|max) requires at least 2 values": r"Python's min and max compare two values. Within a tile it is "
    r"tl.max(x, axis=0).",
    r"Both operands must be same dtype\. Got (\w+) and (\w+)": r"tl.dot needs one dtype on both sides, and has \1 and "
    r"\2. p.to(v.dtype) converts.",
    r"must have equal reduction dimensions": r"tl.dot multiplies M × K by K × N, and the two K differ here. "
    r"tl.trans(k) exchanges the axes of k.",
    r"cannot access local variable '(\w+)'": r"\1 has no value yet on this line.",
    r"is not string": r'print in a kernel begins with a text: print("x", x).',
    r"(\w+)\(\) got an unexpected keyword argument '(\w+)'": r"\1 has no argument \2=.",
    r"(\w+)\(\) missing \d+ required positional arguments?: (.*)": r"\1 lacks an argument: \2.",
}
"""What Triton says of a common mistake, and what it means."""


def _counted(puzzle: Puzzle, p: dict[str, Any], arrays: dict[str, np.ndarray]) -> tuple[Outputs, dict[str, Any]]:
    """The outputs; of all programs what COUNTED names, and whether the reader's functions store anything."""
    outputs: Outputs = {}
    launch = launcher(puzzle.entry, p, tensors(p, arrays, "cpu"))
    trace = record_call(lambda: outputs.update(launch()), programs=[])
    stores = any(one.traffic()["written_bytes"] for one in trace.launches if one.kernel in puzzle.functions)
    return outputs, {"traffic": [trace.traffic()[name] for name in COUNTED], "stores": stores}


def _trace(puzzle: Puzzle, name: str, text: str, p: dict[str, Any], arrays: dict[str, np.ndarray]) -> Iterator[bytes]:
    """In the reader's process: the bytes of the trace of one case, nothing if it fails."""
    with _in_place(puzzle, name, text):
        yield trace_file.to_bytes(record_call(launcher(puzzle.entry, p, tensors(p, arrays, "cpu")), "all"))


def _file(path: Path, function: str, seconds: float) -> Iterator[bytes]:
    """In the reader's process: the bytes of the checked trace of a file's function, or why there is none, as JSON."""
    # An optimizer's step imports PyTorch's compiler, which makes its cache's folder: here it may make none.
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(path.parent)
    try:
        trace = _checked(path, function, seconds)
    except (TraceError, OutOfBounds, ValueError, OSError) as error:
        yield json.dumps({"message": str(error)}).encode()
    else:
        yield trace_file.to_bytes(trace)


def _checked(path: Path, function: str, seconds: float) -> Trace:
    """The trace of a file's function with its findings. All its runs together take at most `seconds`."""
    end = time.monotonic() + seconds

    def record(evidence: Evidence) -> Trace:
        if (left := end - time.monotonic()) <= 0:
            raise TookTooLong(f"its runs took longer than {seconds:g} s")
        return record_file(path, function, "all", lambda *_: None, seconds=left, evidence=evidence)

    return checked(record)


@contextmanager
def _in_place(puzzle: Puzzle, name: str, text: str) -> Iterator[None]:
    """The reader's functions in place of ours, in the module that launches them."""
    theirs, ours = _imported(name, text), importlib.import_module(puzzle.entry.module)
    with ExitStack() as stack:
        # torch.empty then holds NaN: an element that was not written is never right. The debug mode is the same switch;
        # torch.use_deterministic_algorithms also imports PyTorch's compiler, which takes as long as PyTorch itself.
        stack.callback(torch.set_deterministic_debug_mode, torch.get_deterministic_debug_mode())
        torch.set_deterministic_debug_mode("error")
        for function in puzzle.functions:
            stack.enter_context(replaced(ours, function, getattr(theirs, function)))
        yield


def _imported(name: str, text: str) -> ModuleType:
    """The text as a module. It is not a file: kernels are read line by line, from Python's cache of lines."""
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
    return case.make_inputs()


_warm()
