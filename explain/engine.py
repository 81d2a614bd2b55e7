"""The engine behind the pages and the command line: gets what an Experiment needs from recordings, cache or workers.

Imports neither torch nor triton. Safe to use from any thread.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import itertools
import math
import os
import shutil
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from weakref import WeakValueDictionary
from zipfile import BadZipFile

import platformdirs

from explain import ROOT, recordings
from explain.device.measurement import Measurement
from explain.experiment import Experiment
from explain.jobs import Job
from explain.output import Output
from explain.plain import made
from explain.records.model import Point, Roof
from explain.trace.file import TraceFile, TraceFileError, check_writable
from explain.turns import SCRIPTS
from explain.worker_process import Progress
from explain.workers import WorkerError, WorkerPool, WorkerSpec

T = TypeVar("T")
TRACE_WORKER = WorkerSpec(
    "trace",
    "explain.trace_worker:handle",
    # One thread: the tiles are small, and other processes need the other cores.
    env=(("TRITON_INTERPRET", "1"), ("OMP_NUM_THREADS", "1"), ("CUDA_VISIBLE_DEVICES", "")),
    default_seconds=60,
    default_megabytes=4000,
    nice=5,
)
DEVICE_WORKER = WorkerSpec(
    "device",
    "explain.device.handler:handle",
    env=(("TRITON_INTERPRET", "0"),),
    default_seconds=180,
    default_megabytes=16000,
    address_space_limit=False,
)
CACHED = ("*.tilescope", "*.npz")
"""The kinds of files in the cache: traces and outputs."""
CACHED_FILES = 20_000
CACHED_BYTES = 1e9
"""The most files of each kind, and their most bytes, that the cache keeps: those used last."""
FORGETS_EVERY = 100
"""Files are forgotten at every so many runs: to look at all of them takes longer than to read one."""
HEAD_START_S = 10.0
RUN_SECONDS, TILE_SECONDS = 0.02, 0.00125
"""What a run in the interpreter takes, about: for itself, and for each tile of scores, whatever the tile's size."""
NOT_RECORDED = (
    "This experiment is not among the recorded ones, and Triton runs on Linux only, so it cannot run here. "
    "The experiments that the chapters open on are recorded."
)


@dataclass(frozen=True)
class TraceRun(TraceFile):
    """A trace file and its origin: "recorded" (shipped with Tilescope) or "interpreter" (run on this machine)."""

    origin: str


@dataclass(frozen=True)
class DeviceStatus:
    """Whether compiled kernels can run here, and if not, why."""

    available: bool
    reason: str
    provenance: dict[str, str] | None = None

    @property
    def gpu(self) -> str:
        """The driver's name for the GPU; "" without one."""
        return self.provenance["gpu"] if self.available and self.provenance else ""


class Engine:
    """Warm trace workers, and a device worker if there is an NVIDIA GPU."""

    def __init__(self, trace: WorkerSpec = TRACE_WORKER, device: WorkerSpec = DEVICE_WORKER) -> None:
        self._traces = WorkerPool(trace, size=2)  # one student's long run leaves the other worker free
        self._device = WorkerPool(device, size=3, at_once=1)  # spare ones replace those whose CUDA context is lost
        self._probing: Job[DeviceStatus] | None = None
        self._probing_lock = threading.Lock()
        self._asked_to_warm = threading.Lock()  # the first caller takes it and keeps it
        self._making: WeakValueDictionary[str, threading.Lock] = WeakValueDictionary()  # by name: who makes it
        self._choosing = threading.Lock()
        self._made = itertools.count()

    def warm(self) -> None:
        """Starts the trace workers in the background: the first trace then waits for no import.

        They start HEAD_START_S later, because the first page needs the cores. Only the first call counts.
        """
        if has_triton() and self._asked_to_warm.acquire(blocking=False):
            later = threading.Timer(HEAD_START_S, self._traces.warm)
            later.daemon = True
            later.start()

    def trace(self, experiment: Experiment, progress: Progress | None = None) -> TraceRun:
        """The trace of an experiment: shipped, cached or made now. Raises WorkerError."""
        must_be_a_kernel(experiment)
        if run := _existing(recordings.path_of(experiment), experiment, "recorded"):
            return run
        if not has_triton():
            raise WorkerError(NOT_RECORDED)
        run = self._made_once(
            f"{experiment.key}.tilescope",
            lambda path: _existing(path, experiment, "interpreter"),
            lambda path: self.trace_to(experiment, path, progress=progress),
        )
        if run is None:
            raise WorkerError("The run ended, but its trace is missing or damaged. Run it again.")
        return run

    def _made_once(self, name: str, read: Callable[[Path], T | None], make: Callable[[Path], object]) -> T | None:
        """What `read` finds in the cache's file of this name and code; if it finds None, after `make` has written it.

        Where the cache cannot be written the file is made again each time.
        """
        key, kind = name.rsplit(".", 1)
        cached = cache_folder() / f"{_digest(key, code_version())}.{kind}"
        if (found := read(cached)) is not None:
            with suppress(OSError):  # a cache that cannot be written
                os.utime(cached)  # a file's time says when it was last used
            return found
        with self._choosing:
            making = self._making.setdefault(name, threading.Lock())
        with SCRIPTS.lent(), making:  # a whole class asks for it at one time
            if (found := read(cached)) is not None:
                return found
            try:
                cached.parent.mkdir(parents=True, exist_ok=True)
                if next(self._made) % FORGETS_EVERY == 0:
                    for pattern in CACHED:
                        forget_oldest(cached.parent, pattern, CACHED_FILES, CACHED_BYTES)
                check_writable(cached)
            except OSError:
                with scratch() as folder:
                    make(scratched := Path(folder) / cached.name)
                    return read(scratched)
            make(cached)
            return read(cached)

    def trace_to(
        self, experiment: Experiment, out: Path | None, programs: object = "all", **call: Any
    ) -> dict[str, Any]:
        """Runs and records, and writes a trace file if `out` is given; the trace worker's answer. `options` as there.

        Raises WorkerError.
        """
        must_be_a_kernel(experiment)
        call |= {"expected": expected_seconds(experiment)}
        return self._ask({"kind": "experiment", "experiment": experiment.to_json(), "programs": programs}, out, call)

    def check(self, experiment: Experiment, **call: Any) -> dict[str, Any]:
        """Runs in the interpreter and records only counts: {"error", "tolerance", "within_tolerance", "traffic", …}.

        Raises WorkerError.
        """
        return self.trace_to(experiment, None, [], **call)

    def output(self, experiment: Experiment, *, reverse_keys: bool = False, **call: Any) -> Output:
        """The first output beside float64: shipped, cached or made now in the interpreter. Raises WorkerError."""
        recorded = recordings.output_path_of(experiment, reverse_keys)
        if recorded.exists():
            return Output.read(recorded)
        if not has_triton():
            raise WorkerError(NOT_RECORDED)
        found = self._made_once(
            f"{experiment.key}{' reversed' * reverse_keys}.npz",
            _output,
            lambda path: self.output_to(experiment, path, reverse_keys=reverse_keys, **call),
        )
        if found is None:
            raise WorkerError("The run ended, but its output is missing or damaged. Run it again.")
        return found

    def output_to(self, experiment: Experiment, out: Path, *, reverse_keys: bool = False, **call: Any) -> None:
        """Runs in the interpreter and writes what `output` reads. Raises WorkerError."""
        must_be_a_kernel(experiment)
        call |= {"expected": expected_seconds(experiment)}
        self._ask({"kind": "output", "experiment": experiment.to_json(), "reverse_keys": reverse_keys}, out, call)

    def trace_file(self, path: Path, function: str, out: Path | None, programs: object, **call: Any) -> dict[str, Any]:
        """Runs a function of any Python file and records the kernels it launches. Raises WorkerError."""
        request = {"kind": "file", "path": str(path.resolve()), "function": function, "programs": programs}
        return self._ask(request, out, call)

    def at_sizes(self, path: Path, function: str, arguments: dict[str, object], **call: Any) -> dict[str, Any]:
        """Judges the addresses of a function's kernels at sizes too large to run: `trace.sizes.Sizes` as JSON.

        Raises WorkerError.
        """
        request = {"kind": "sizes", "path": str(path.resolve()), "function": function, "arguments": arguments}
        return self._ask(request, None, call)

    def at_sizes_of(self, experiment: Experiment, **call: Any) -> dict[str, Any]:
        """The same of an experiment's kernel. Raises WorkerError."""
        must_be_a_kernel(experiment)
        return self._ask({"kind": "sizes", "experiment": experiment.to_json()}, None, call)

    def _ask(self, request: dict[str, Any], out: Path | None, call: dict[str, Any]) -> dict[str, Any]:
        request |= {"out": str(out.resolve()) if out else None, "options": call.pop("options", {})}
        with SCRIPTS.lent():
            return self._traces.call(request, **{name: value for name, value in call.items() if value is not None})

    def device(self) -> DeviceStatus:
        """Whether there is a GPU to run on. The device worker is asked once."""
        job = self._probe_started().wait()
        return job.result or DeviceStatus(False, job.error)

    def device_if_known(self) -> DeviceStatus | None:
        """`device()` if it is known by now; None while a job finds it out."""
        if not (has_triton() and nvidia_driver()) or not self._probe_started().running:
            return self.device()
        return None

    def _probe_started(self) -> Job[DeviceStatus]:
        with self._probing_lock:
            self._probing = self._probing or Job(self._probe, "looking for a GPU")
            return self._probing

    def _probe(self, _: Job[DeviceStatus]) -> DeviceStatus:
        if not has_triton():
            return DeviceStatus(False, "Triton runs on Linux only; recorded runs are shown.")
        if not nvidia_driver():
            return DeviceStatus(False, "This machine has no NVIDIA driver.")
        return DeviceStatus(**self._device.call({"kind": "probe"}))

    def measure(
        self,
        experiment: Experiment,
        *,
        timed: bool = True,
        prefixes: Path | None = None,
        progress: Progress | None = None,
        **call: Any,
    ) -> Measurement:
        """Runs the compiled kernel on the GPU, checks and times it. Raises WorkerError with the cause in words."""
        request = {"kind": "run", "experiment": experiment.to_json(), "time": timed}
        request["prefixes"] = str(prefixes) if prefixes else None
        return made(Measurement, self._device.call(request, progress=progress, **call))

    def point(
        self,
        experiment: Experiment,
        counters: bool = True,
        timing: bool = True,
        progress: Progress | None = None,
        stalls: bool = False,
        **call: Any,
    ) -> Point:
        """Runs the compiled kernel on the GPU: its hardware counters, its time and its memory.

        `stalls` also counts why its warps waited, which takes more runs. If counters cannot be read, the point says
        why. Raises WorkerError with the cause in words if the kernel cannot run.
        """
        asked = {"counters": counters or stalls, "timing": timing, "stalls": stalls}
        request = {"kind": "point", "experiment": experiment.to_json(), **asked}
        return made(Point, self._device.call(request, progress=progress, **call))

    def roofs(self, progress: Progress | None = None, **call: Any) -> dict[str, Roof]:
        """The highest rates of this GPU's memories and arithmetic units, by level. Raises WorkerError."""
        answer = self._device.call({"kind": "roofs"}, progress=progress, **call)
        return {level: Roof(**roof) for level, roof in answer.items()}

    def close(self) -> None:
        """Ends all workers."""
        self._traces.close()
        self._device.close()


def expected_seconds(experiment: Experiment) -> float:
    """About how long the interpreter needs for an experiment."""
    p = experiment.values
    rows, cols = experiment.entry.score_shape(p)
    heads = p.get("batch", 1) * p.get("kv_heads" if experiment.entry.shares_keys else "heads", 1)
    tiles = heads * -(-rows // p.get("block_m", 1)) * -(-cols // p.get("block_n", cols))
    return float(RUN_SECONDS + TILE_SECONDS * tiles)


def must_be_a_kernel(experiment: Experiment) -> None:
    """Raises WorkerError, in words, for a kernel that is only measured: it cannot be traced or compiled."""
    if not experiment.entry.steppable:
        raise WorkerError(f"{experiment.kernel} is only measured, on a GPU: it cannot be traced or compiled here")


@functools.cache
def engine() -> Engine:
    """The engine of this process, shared by every session."""
    return Engine()


@functools.cache
def has_triton() -> bool:
    """Whether kernels can run here, compiled or interpreted: whether the packages are installed. Imports neither."""
    return importlib.util.find_spec("triton") is not None and importlib.util.find_spec("torch") is not None


@functools.cache
def nvidia_driver() -> bool:
    """Whether an NVIDIA driver seems to be installed."""
    return shutil.which("nvidia-smi") is not None or Path("/dev/nvidiactl").exists() or Path("/dev/nvidia0").exists()


def cache_folder() -> Path:
    """The folder of the traces and outputs made on this machine; the variable TILESCOPE_CACHE names another place."""
    return Path(os.environ.get("TILESCOPE_CACHE") or _users_cache()) / "traces"


@functools.cache
def _users_cache() -> str:
    return platformdirs.user_cache_dir("tilescope", appauthor=False)


@functools.cache
def code_version() -> str:
    """A digest of the code that a trace depends on: the kernels and the recorder."""
    patterns = ("kernels/**/*.py", "kernels/**/*.npz", "explain/trace/**/*.py")
    files = sorted(path for pattern in patterns for path in ROOT.glob(pattern))
    return _digest(*(hashlib.sha256(path.read_bytes()).hexdigest() for path in files))


def _digest(*texts: str) -> str:
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:32]


def forget_oldest(folder: Path, pattern: str, most: int, most_bytes: float = math.inf) -> None:
    """Keeps the files of this pattern with the latest times: at most `most`, and at most `most_bytes` in all."""
    files = []
    for path in folder.glob(pattern):
        with suppress(FileNotFoundError):  # another process has just forgotten it
            known = path.stat()
            files.append((known.st_mtime, known.st_size, path))
    size = 0
    for number, (_, of_file, path) in enumerate(sorted(files, reverse=True), start=1):
        size += of_file
        if number > most or size > most_bytes:
            path.unlink(missing_ok=True)


def _existing(path: Path, experiment: Experiment, origin: str) -> TraceRun | None:
    """The trace file at `path`; None if there is none, it is damaged, or it is of another experiment."""
    try:
        run = TraceRun(path.read_bytes(), origin)
        return run if run.trace.experiment == experiment.to_json() else None
    except (OSError, TraceFileError):
        return None


def _output(path: Path) -> Output | None:
    """The output in the file at `path`; None if there is none, or it is damaged."""
    try:
        return Output.read(path)
    except (OSError, ValueError, KeyError, EOFError, BadZipFile):
        return None


def scratch() -> tempfile.TemporaryDirectory[str]:
    """A temporary folder for files that workers write and the caller reads."""
    return tempfile.TemporaryDirectory(prefix="tilescope-")
