"""The worker that makes a puzzle's inputs and judges outputs. It never runs a reader's code. Imports torch.

The outputs come from the process that `explain.puzzles.runner` locks: a file with a line of JSON for each case. They
are read as anything from outside is.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch

from explain.difference.compare import CannotCompareError, first_difference
from explain.experiment import Experiment
from explain.figures.numbers import number
from explain.plain import plain
from explain.puzzles.answer import COUNTED, LARGEST_TRACE
from explain.puzzles.puzzles import puzzles
from explain.run_experiment import run_traced
from explain.trace import file as trace_file
from explain.worker_process import Progress
from kernels.launch import tensors
from kernels.verify import Expectation, expectations_of, judged

LONGEST_MESSAGE = 2_000  # characters
MOST_COUNTED = 1 << 62
DIGITS = 6


def handle(request: Mapping[str, Any], progress: Progress) -> dict[str, Any]:
    """Answers one request; `folder` has a case's arrays as `0.npz`, `1.npz` …

        {"kind": "inputs", "cases": [an Experiment's JSON, …], "folder"}   {}
        {"kind": "verdict", "cases", "sent": path, "first": line}          {"verdicts": […], "message", "line"}
        {"kind": "trace", "case": an Experiment's JSON, "out"}             {}; records our kernel
        {"kind": "difference", "ours": path, "theirs": path}               {"difference": a Difference's fields or null}

    "verdict" reads what the other worker received, for the first case the line `first`, from 0. If a case has no
    outputs, the verdicts end before it, and `message` and `line` are what the reader's process said of it, or "" and
    None. Raises ValueError.
    """
    match request["kind"]:
        case "inputs":
            for number, data in enumerate(request["cases"]):
                np.savez(Path(request["folder"]) / f"{number}.npz", **_inputs(Experiment.from_json(data)))
            return {}
        case "verdict":
            cases = [Experiment.from_json(case) for case in request["cases"]]
            return _verdicts(cases, Path(request["sent"]), request["first"])
        case "trace":
            trace, _ = run_traced(Experiment.from_json(request["case"]), "all", progress)
            trace_file.write(trace, Path(request["out"]))
            return {}
        case "difference":
            traces = (trace_file.read(Path(request[which]), LARGEST_TRACE) for which in ("ours", "theirs"))
            with suppress(CannotCompareError):
                return {"difference": plain(first_difference(*traces, secret=True))}
            return {"difference": None}
    raise ValueError(f"kind {request['kind']!r}: allowed are inputs, verdict, trace, difference")


def _inputs(experiment: Experiment) -> dict[str, Any]:
    return experiment.make_inputs()


@lru_cache(maxsize=1024)
def _expectations(experiment: Experiment) -> Expectation:
    """The expected outputs and tolerances; kept, because a reader checks the same puzzle many times."""
    p, arrays = experiment.values, _inputs(experiment)
    return expectations_of(experiment.entry, p, arrays, tensors(p, arrays, "cpu"), None)


def _verdicts(cases: list[Experiment], sent: Path, first: int) -> dict[str, Any]:
    verdicts: list[dict[str, Any]] = []
    said: dict[str, Any] = {"message": "", "line": None}
    with sent.open("rb") as lines:
        for experiment, line in zip(cases, islice(lines, first, None), strict=False):
            found = _object(line)
            if "message" in found:
                number = found.get("line")
                message = str(found["message"])[:LONGEST_MESSAGE]
                said = {"message": message, "line": number if type(number) is int and number > 0 else None}
                break
            verdict = _verdict(experiment, found)
            if verdict is None:
                said["message"] = "What its process sent is not the outputs of this kernel."
                break
            verdicts.append(verdict)
    return {"verdicts": verdicts, **said}


def _object(line: bytes) -> dict[str, Any]:
    """The line's JSON object; empty if it is none."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _array(packed: Any, like: np.ndarray) -> np.ndarray | None:
    """The array that was sent, in float64; None if it has not the expected one's shape."""
    try:
        data = base64.b64decode(packed["data"], validate=True)
        same = packed["shape"] == list(like.shape) and len(data) == 8 * like.size
    except (TypeError, KeyError, ValueError, binascii.Error):
        return None
    return np.frombuffer(bytearray(data), np.float64).reshape(like.shape) if same else None


def _counts(sent: Any) -> bool:
    whole = isinstance(sent, list) and all(type(one) is int and 0 <= one < MOST_COUNTED for one in sent)
    return whole and len(sent) == len(COUNTED)


def _verdict(experiment: Experiment, sent: dict[str, Any]) -> dict[str, Any] | None:
    """Whether a case's outputs are within tolerance: the worst element, and what it should be. None for no outputs."""
    entry, expectations = experiment.entry, _expectations(experiment)
    packed, traffic = sent.get("outputs"), sent.get("traffic")
    if not (isinstance(packed, dict) and _counts(traffic)):
        return None
    outputs = {}
    for name in entry.outputs:
        if name in expectations:
            array = _array(packed.get(name), expectations[name][0])
            if array is None:
                return None
            outputs[name] = array
    found = judged(expectations, {name: torch.from_numpy(array) for name, array in outputs.items()})
    return {
        "right": found.within_tolerance,
        "element": f"{found.output}[{', '.join(map(str, found.index))}]",
        "found": number(float(outputs[found.output][found.index]), DIGITS),
        "expected": number(float(expectations[found.output][0][found.index]), DIGITS),
        "traffic": traffic,
        "stores": bool(sent.get("stores", True)),
    }


def _warm() -> None:
    """Computes one gradient: PyTorch imports 485 modules for the first, which takes longer than any verdict."""
    _expectations(puzzles()["backward_queries"].cases(0)[0])


_warm()
