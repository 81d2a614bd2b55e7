"""The device worker's side: runs compiled kernels on the GPU. Imports torch and triton; owns the CUDA context.

An out-of-memory error, a tile that does not fit or a failed compilation leaves the context intact: the worker answers
and continues. An illegal access destroys the context: the worker answers, and must then be replaced (`DeviceLost`).
"""

from __future__ import annotations

import platform
import re
import subprocess
import time
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch
import triton

from explain.device import point, roofs
from explain.device.measurement import Measurement, PrefixState, Provenance
from explain.experiment import Experiment
from explain.plain import plain
from explain.worker_process import Progress
from kernels.launch import launcher, tensors
from kernels.verify import verify

LOST = {
    "illegal memory|unspecified launch": "The kernel used memory that is not its own (an illegal access).",
    "misaligned address": "The kernel used an address that is no multiple of its value's size (a misaligned address).",
    "illegal instruction": "The kernel ran an instruction that this GPU refuses (an illegal instruction).",
    "device-side assert": "An assertion in the kernel failed (a device-side assert).",
}
"""CUDA's words for an error that ends its context, and ours for the reader."""
ILLEGAL = re.compile("|".join(LOST))


class DeviceError(RuntimeError):
    """The GPU could not run this experiment; the message says why and what to do. The worker continues."""


class DeviceLost(RuntimeError):
    """The CUDA context is lost; a new process is needed."""

    retire_worker = True


def handle(request: dict[str, Any], progress: Progress) -> dict[str, Any]:
    """Answers one request. Requests:

    {"kind": "probe"}, {"kind": "roofs"}, {"kind": "run", "experiment", "time": bool, "prefixes": path or None},
    {"kind": "point", "experiment", "counters": bool, "timing": bool, "stalls": bool}
    """
    if request["kind"] == "probe":
        return probe()
    if not torch.cuda.is_available():
        raise DeviceError(probe()["reason"])
    try:
        if request["kind"] == "roofs":
            return {level: asdict(roof) for level, roof in roofs.measure(progress).items()}
        experiment = Experiment.from_json(request["experiment"])
        if request["kind"] == "point":
            asked = (request["counters"], request["timing"], provenance(), progress, request.get("stalls", False))
            return plain(point.measure(experiment, *asked))
        return plain(run(experiment, request["time"], request["prefixes"], progress))
    except (DeviceError, DeviceLost):
        raise
    except Exception as error:
        raise explained(error) from error


def probe() -> dict[str, Any]:
    """{"available", "reason", "provenance"}: whether compiled kernels can run here, and if not why."""
    if torch.cuda.is_available():
        return {"available": True, "reason": "", "provenance": provenance().__dict__}
    if torch.version.cuda is None:
        remedy = "Install the CUDA build: pip install torch==2.13.0 on a machine with an NVIDIA GPU."
        reason = f"This PyTorch was built without CUDA. {remedy}"
    else:
        try:
            torch.cuda.init()  # type: ignore[no-untyped-call]
            reason = "PyTorch sees no CUDA GPU."
        except RuntimeError as error:
            reason = _driver_error(str(error))
    return {"available": False, "reason": reason, "provenance": None}


def run(experiment: Experiment, timed: bool, prefixes: str | None, progress: Progress) -> Measurement:
    """Runs the kernel, checks it against float64, times it if asked, and runs it on every prefix of the keys.

    `prefixes` is the path of an .npz to write: for each j, `o_j` and `lse_j` after j tiles of K and V.
    """
    entry, p = experiment.entry, experiment.values
    arrays = entry.make_inputs(experiment.preset, p, experiment.seed)
    inputs = tensors(p, arrays, "cuda")
    launch = launcher(entry, p, inputs)
    progress("compiling", 0.0)
    start = time.perf_counter()
    outputs = launch()
    torch.cuda.synchronize()
    first_call_ms = 1e3 * (time.perf_counter() - start)
    progress("checking against float64", 0.3)
    verdict = verify(entry, p, arrays, outputs)
    timing = point.measure_time(launch, first_call_ms, progress) if timed else None
    states = run_prefixes(experiment, Path(prefixes), progress) if prefixes and "lse" in entry.outputs else ()
    worst = (verdict.error, verdict.tolerance, verdict.output, verdict.within_tolerance)
    return Measurement(experiment.to_json(), *worst, timing, states, provenance())


def run_prefixes(experiment: Experiment, path: Path, progress: Progress) -> tuple[PrefixState, ...]:
    """The kernel on the first j tiles of K and V, for every j, each against float64 on those keys alone.

    What a launch on j tiles returns is the running state after j tiles: O = acc / l and lse = m + ln l.
    """
    entry, p = experiment.entry, experiment.values
    arrays = entry.make_inputs(experiment.preset, p, experiment.seed)
    diagonal = p["kv_len"] - p["seq_len"]  # of the full launch: a query sees the same keys in every prefix
    states: list[PrefixState] = []
    saved: dict[str, np.ndarray] = {}
    ends = [*range(p["block_n"], p["kv_len"], p["block_n"]), p["kv_len"]]
    for j, end in enumerate(ends, start=1):
        progress(f"first {j} of {len(ends)} tiles", 0.6 + 0.4 * j / len(ends))
        k, v = (np.ascontiguousarray(arrays[name][:, :, :end]) for name in ("k", "v"))
        prefix = {**arrays, "k": k, "v": v}
        sizes = {**p, "kv_len": end}
        outputs = launcher(entry, sizes, tensors(p, prefix, "cuda"), diagonal=diagonal)()
        verdict = verify(entry, sizes, prefix, outputs, diagonal)
        states.append(PrefixState(j, end, verdict.error, verdict.tolerance, verdict.within_tolerance))
        saved |= {f"{name}_{j}": outputs[name].float().cpu().numpy() for name in ("o", "lse")}
    np.savez(path, allow_pickle=False, **saved)
    return tuple(states)


def provenance() -> Provenance:
    """This GPU, its driver and the versions here."""
    query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        driver = subprocess.run(query, capture_output=True, text=True, timeout=10, check=True).stdout.split("\n")[0]
    except (OSError, subprocess.SubprocessError):
        driver = "unknown"
    return Provenance(
        gpu=torch.cuda.get_device_name(),
        driver=driver,
        cuda=str(torch.version.cuda),
        torch=torch.__version__,
        triton=triton.__version__,
        python=platform.python_version(),
        date=datetime.now(UTC).date().isoformat(),
    )


def explained(error: Exception) -> Exception:
    """The GPU's error as a message that a student understands."""
    text = str(error)
    if type(error).__name__ == "OutOfResources":
        needs = f"one program needs {_resource(error)} than this GPU has"
        return DeviceError(f"The tile is too large: {needs}. Choose a smaller block_m or block_n.")
    if isinstance(error, torch.cuda.OutOfMemoryError) or "out of memory" in text:
        return DeviceError(f"The GPU's memory is full: {text.split('. ', maxsplit=1)[0]}. Choose smaller sizes.")
    if said := next((words for pattern, words in LOST.items() if re.search(pattern, text)), ""):
        return DeviceLost(f"{said} Its GPU process was ended, and a new one takes over.")
    if _context_is_lost():
        return DeviceLost(f"The GPU process failed: {text.splitlines()[0]}. A new one takes over.")
    if "NVIDIA driver" in text:
        return DeviceError(_driver_error(text))
    if type(error).__name__ in ("CompilationError", "PTXASError", "CompileTimeAssertionFailure"):
        return DeviceError(f"Triton could not compile this kernel for the GPU: {text.strip().splitlines()[-1]}")
    return error


def _context_is_lost() -> bool:
    """Whether every later CUDA call fails too, as after some errors."""
    if not torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        return False
    try:
        torch.cuda.synchronize()
    except RuntimeError:
        return True
    return False


def _resource(error: Exception) -> str:
    required, limit, name = (getattr(error, attribute, "?") for attribute in ("required", "limit", "name"))
    known = isinstance(required, int) and isinstance(limit, int)
    return f"more {name} ({required:,} of {limit:,} bytes)" if known else f"more {name}"


def _driver_error(text: str) -> str:
    if "too old" in text:
        why = text.split(". ", maxsplit=1)[0]
        return f"The NVIDIA driver is too old for this PyTorch: {why}. Update the driver, or install an older PyTorch."
    if "no NVIDIA driver" in text:
        return "No NVIDIA driver was found. Install it, or continue without a GPU: kernels run in Triton's interpreter."
    return f"CUDA could not start: {text.splitlines()[0]}"
