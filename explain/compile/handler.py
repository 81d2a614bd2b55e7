"""The compile worker: runs a kernel's wrapper and compiles each launch for a GPU instead of launching it.

The wrapper runs as it does on the GPU. The signature, the specialisation of each argument, num_warps and num_stages are
therefore those of the real launch. Imports torch and triton.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import re
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import triton
from triton import knobs
from triton.backends.compiler import GPUTarget
from triton.backends.nvidia.compiler import get_ptxas_version
from triton.runtime import driver
from triton.runtime.autotuner import Autotuner
from triton.runtime.jit import JITFunction

from explain.compile.cost import Cost, LaunchCost
from explain.compile.listing import Listing, packed
from explain.experiment import Experiment
from explain.plain import plain
from explain.trace.patches import replaced
from explain.trace.python_file import opened
from explain.worker_process import Progress
from kernels.launch import launcher, tensors

DISASSEMBLY_SECONDS = 60
Launch = tuple[LaunchCost, Any, Any]
"""What a launch costs, its kernel's function, its assembly."""


class CompileError(RuntimeError):
    """The kernel cannot be compiled for this GPU; the message says why."""


class _Target:
    """Replaces the driver of a GPU that this machine does not have."""

    def __init__(self, capability: int) -> None:
        self.capability = capability

    def get_current_device(self) -> int:
        return self.capability  # Triton caches compiled kernels by device

    def get_current_stream(self, device: int) -> int:
        return 0

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("cuda", self.capability, 32)


def handle(request: dict[str, Any], progress: Progress) -> dict[str, Any]:
    """Answers {"experiment": …, "capability": 90, "listing": path} with a Cost as JSON; the listings go to the file.

    {"path": "x.py", "function": "main", "capability": 90} is answered with a Cost of all that the function launches.
    Raises CompileError, and TraceError for a file or a function that cannot be run.
    """
    if "path" in request:
        return plain(compiled_file(Path(request["path"]), request["function"], request["capability"], progress))
    cost, listings = compiled(Experiment.from_json(request["experiment"]), request["capability"], progress)
    Path(request["listing"]).write_bytes(packed(listings))
    return plain(cost)


def compiled(experiment: Experiment, capability: int, progress: Progress) -> tuple[Cost, list[Listing]]:
    """Compiles every launch of the experiment for a compute capability: cost and listings. Raises CompileError."""
    p = experiment.values
    inputs = tensors(p, experiment.make_inputs(), "cpu")
    launches = compiled_launches(launcher(experiment.entry, p, inputs), capability, progress)
    progress("reading the instructions", 0.9)
    cost = _cost_of(experiment.kernel, p, capability, launches)
    return cost, [_listing(function, asm) for _, function, asm in launches]


def compiled_file(path: Path, function: str, capability: int, progress: Progress) -> Cost:
    """Compiles every launch of a function of any Python file. Raises CompileError and TraceError.

    An autotuned kernel is compiled with its first configuration. The outputs stay as they are, so the function may fail
    after a launch: what it launched before counts.
    """
    with opened(path, function, progress) as file, replaced(Autotuner, "_bench", lambda *_, **__: [0.0] * 3):
        launches = compiled_launches(file.call, capability, progress, fails_later=True)
    if not launches:
        raise CompileError(f"{file.name} launched no Triton kernel")
    return _cost_of(file.name, {}, capability, launches)


def _cost_of(name: str, parameters: Mapping[str, Any], capability: int, launches: Sequence[Launch]) -> Cost:
    return Cost(
        name,
        parameters,
        capability,
        tuple(cost for cost, _, _ in launches),
        triton.__version__,
        _version(get_ptxas_version(capability)),
        datetime.now(UTC).date().isoformat(),
    )


def compiled_launches(
    call: Callable[[], Any], capability: int, progress: Progress, fails_later: bool = False
) -> list[Launch]:
    """Compiles what `call` would launch for a compute capability: (cost, kernel, assembly) of each different launch.

    `call` gets CPU tensors. With `fails_later` it may fail after a launch. Raises CompileError.
    """
    launches: dict[str, Launch] = {}
    seen: set[int] = set()

    def compile_instead(kernel: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
        progress(f"compiling {kernel.fn.__name__} for sm_{capability}", 0.1 + 0.2 * len(launches))
        if id(kernel) not in seen:
            kernel.device_caches.clear()  # of an earlier request: a cached kernel has no ptxas log
            seen.add(id(kernel))
        log = io.StringIO()
        start = time.perf_counter()
        with contextlib.redirect_stdout(log):
            try:
                binary = run(kernel, *args, grid=grid, warmup=True, **kwargs)
            except Exception as error:
                raise CompileError(_explained(error, capability)) from error
        seconds = time.perf_counter() - start
        if binary.hash not in launches:  # a loop launches the same one again
            cost = _cost(kernel.fn.__name__, binary.metadata, log.getvalue(), seconds)
            launches[binary.hash] = (cost, kernel.fn, binary.asm)
        return binary

    run, before = JITFunction.run, driver._active
    with (
        tempfile.TemporaryDirectory(prefix="tilescope-") as folder,
        replaced(JITFunction, "run", compile_instead),
        knobs.cache.scope(),
        knobs.compilation.scope(),
        knobs.nvidia.scope(),
    ):
        knobs.cache.dir = folder
        knobs.compilation.always_compile = True
        knobs.nvidia.dump_ptxas_log = True
        driver.set_active(_Target(capability))
        try:
            call()
        except Exception as error:
            if isinstance(error, CompileError) or not (fails_later and launches):
                raise CompileError(_explained(error, capability)) from error
        finally:
            driver._active = before
    return list(launches.values())


def _listing(function: Any, asm: Any) -> Listing:
    lines, first_line = inspect.getsourcelines(function)
    sass, problem = _disassembled(asm["cubin"])
    file = function.__code__.co_filename
    return Listing.of(function.__name__, file, first_line, "".join(lines), asm["ptx"], sass, problem)


def _disassembled(cubin: bytes) -> tuple[str, str]:
    """(The SASS of a cubin with its line numbers, why there is none); one of them is ""."""
    with tempfile.NamedTemporaryFile(prefix="tilescope-", suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        try:
            command = [knobs.nvidia.nvdisasm.path, "-c", "-g", file.name]
            done = subprocess.run(command, capture_output=True, text=True, timeout=DISASSEMBLY_SECONDS, check=True)
        except (OSError, RuntimeError, subprocess.SubprocessError) as error:
            return "", f"nvdisasm, the GPU's disassembler, gave no SASS: {error}"
    return done.stdout, ""


def _cost(name: str, metadata: Any, log: str, seconds: float) -> LaunchCost:
    return LaunchCost(
        name,
        metadata.num_warps,
        metadata.num_stages,
        metadata.shared,
        _number(r"Used (\d+) registers", log),
        _number(r"(\d+) bytes stack frame", log),
        _number(r"(\d+) bytes spill stores", log),
        _number(r"(\d+) bytes spill loads", log),
        round(seconds, 2),
    )


def _number(pattern: str, log: str) -> int:
    found = re.search(pattern, log)
    if found is None:
        raise CompileError(f"ptxas's log has no match for {pattern!r}: {log.strip()!r}")
    return int(found[1])


def _version(text: str) -> str:
    found = re.search(r"V(\d[\d.]*)", text)
    return found[1] if found else text.strip()


def _explained(error: Exception, capability: int) -> str:
    """What the reader can do about the error, or else the compiler's last message."""
    if isinstance(error, CompileError):
        return str(error)
    chain: list[BaseException] = [error]
    while (cause := chain[-1].__cause__) is not None:
        chain.append(cause)
    texts = [str(e).strip() for e in chain]
    for text in texts:
        if "K >= 16" in text or "K >= 32" in text:
            return "On a GPU a matmul sums over 16 elements or more. Make every side of the tile 16 or more."
    if type(error).__name__ == "PTXASError":
        return f"ptxas, the GPU's assembler, refused the kernel for sm_{capability}: {_last_line(_ptxas(texts[0]))}"
    return f"Triton could not compile this kernel for sm_{capability}: {_last_line(texts[-1]) or type(error).__name__}"


def _ptxas(text: str) -> str:
    errors = [line for line in text.splitlines() if "error" in line.lower() and "stderr" not in line]
    return errors[-1] if errors else text


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else ""
