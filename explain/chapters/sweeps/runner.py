"""Runs sweeps in the background and keeps every reading as it comes. Imports neither torch nor triton; safe to use from any thread.

A sweep belongs to no session: whoever asks for the same one looks at the same run. Its readings are lines of a file of its own, named by the
sweep, the witness and the code, so that a run that is killed loses the point under way, and the next goes on from there, also in
another process.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from explain.chapters.sweeps.model import Reading, Sweep, formula, of_point
from explain.engine import Engine, cache_folder, code_version, engine, has_triton
from explain.experiment import Experiment
from explain.workers import WorkerCancelled, WorkerError, WorkerFailed, WorkerUnavailable

MOST_UNDER_WAY = 8
MOST_KEPT = 64
TRACED_FLOPS = 10**9
"""The most that a point may compute to be run line by line: some ten seconds."""
TURN_SECONDS = 0.2  # between looks at whether a sweep that waits was cancelled

Key = tuple[str, str]
Ask = Callable[[Experiment, threading.Event], Reading]


@dataclass(frozen=True)
class State:
    """How far a sweep is: its readings by now, `working` what is being done (empty when nothing is), `trouble` what stopped it."""

    readings: tuple[Reading, ...]
    total: int
    working: str = ""
    seconds: float = 0.0
    trouble: str = ""

    @property
    def done(self) -> bool:
        return len(self.readings) == self.total


@dataclass
class _Job:
    working: str = "starting"
    started: float = field(default_factory=time.monotonic)
    cancel: threading.Event = field(default_factory=threading.Event)


class Runner:
    """What runs sweeps. At most one point of each witness is run at a time: a sweep leaves the other workers to other readers."""

    def __init__(self, engine: Engine, folder: Path) -> None:
        self._engine, self._folder = engine, folder
        self._lock = threading.Lock()
        self._jobs: dict[Key, _Job] = {}
        self._trouble: dict[Key, str] = {}
        self._found: OrderedDict[Key, dict[str, Reading]] = OrderedDict()
        self._turn = {"trace": threading.Lock(), "hardware": threading.Lock()}

    def look(self, sweep: Sweep, witness: str) -> State:
        """How far it is, at once. The formula's readings need no run."""
        experiments = sweep.experiments
        if witness == "formula":
            return State(tuple(map(formula, experiments)), len(experiments))
        key = (sweep.key, witness)
        with self._lock:
            found, job = self._readings(key), self._jobs.get(key)
            readings = tuple(found[e.key] for e in experiments if e.key in found)
            if job is None:
                return State(readings, len(experiments), trouble=self._trouble.get(key, ""))
            return State(readings, len(experiments), job.working, time.monotonic() - job.started)

    def start(self, sweep: Sweep, witness: str) -> None:
        """Runs in the background what is left of it; one that is under way goes on. `look` says how far it is."""
        key = (sweep.key, witness)
        with self._lock:
            self._trouble.pop(key, None)
            if key in self._jobs:
                return
            if len(self._jobs) >= MOST_UNDER_WAY:
                self._trouble[key] = f"{len(self._jobs)} sweeps are under way here. Try again when one of them is done."
                return
            job = self._jobs[key] = _Job()
        threading.Thread(target=self._work, args=(key, sweep, job), daemon=True).start()

    def cancel(self, sweep: Sweep, witness: str) -> None:
        """Ends the run, for every session that looks at it; its readings stay."""
        with self._lock:
            if job := self._jobs.get((sweep.key, witness)):
                job.cancel.set()

    def forget(self, sweep: Sweep, witness: str) -> None:
        """Cancels the run, and throws its readings away."""
        self.cancel(sweep, witness)
        key = (sweep.key, witness)
        with self._lock:
            self._found[key] = {}
            self._trouble.pop(key, None)
            self._path(key).unlink(missing_ok=True)

    def _work(self, key: Key, sweep: Sweep, job: _Job) -> None:
        ask: Ask = self._traced if key[1] == "trace" else self._measured
        trouble = ""
        try:
            for experiment in sweep.experiments:
                with self._lock:
                    known = experiment.key in self._readings(key)
                if known:
                    continue
                point = f"{experiment.entry.title}, {sweep.axis} = {experiment.values[sweep.axis]}"
                job.working = f"{point}: waiting for another sweep's point"
                self._take_turn(key[1], job.cancel)
                try:
                    job.working = point
                    reading = ask(experiment, job.cancel)
                finally:
                    self._turn[key[1]].release()
                trouble = self._keep(key, reading) or trouble
        except WorkerCancelled:
            pass
        except Exception as error:  # whatever it is, the page says it, and the sweep can be resumed
            trouble = str(error) or type(error).__name__
        with self._lock:
            self._jobs.pop(key, None)
            if trouble:
                self._trouble[key] = trouble

    def _take_turn(self, witness: str, cancel: threading.Event) -> None:
        while not self._turn[witness].acquire(timeout=TURN_SECONDS):
            if cancel.is_set():
                raise WorkerCancelled
        if cancel.is_set():
            self._turn[witness].release()
            raise WorkerCancelled

    def _traced(self, experiment: Experiment, cancel: threading.Event) -> Reading:
        """The interpreter's count; a point that cannot be run is kept with its reason."""
        if not has_triton():
            raise WorkerUnavailable("Triton runs on Linux only. The formula speaks everywhere.")
        flops = formula(experiment).flops
        source = "trace, Triton's interpreter"
        if flops > TRACED_FLOPS:
            why = f"too large to be run line by line: {flops:,} FLOPs of at most {TRACED_FLOPS:,}"
            return Reading(experiment, "trace", {}, flops, None, why, source)
        try:
            traffic = self._engine.check(experiment, cancel=cancel)["traffic"]
        except (WorkerCancelled, WorkerUnavailable):
            raise
        except WorkerError as error:
            return Reading(experiment, "trace", {}, flops, None, _words(error), source)
        asked = traffic["read_bytes"] + traffic["written_bytes"]
        return Reading(experiment, "trace", {"asked": asked}, traffic["flops"], None, "", source)

    def _measured(self, experiment: Experiment, cancel: threading.Event) -> Reading:
        """The GPU's counters and time; a point that cannot be run is kept with its reason."""
        status = self._engine.device()
        if not status.available:
            raise WorkerUnavailable(status.reason)
        try:
            return of_point(self._engine.point(experiment, cancel=cancel))
        except (WorkerCancelled, WorkerUnavailable):
            raise
        except WorkerError as error:
            source = status.provenance["gpu"] if status.provenance else "hardware"
            return Reading(experiment, "hardware", {}, formula(experiment).flops, None, _words(error), source)

    # What is kept. Each file is one sweep's: a line a reading.

    def _readings(self, key: Key) -> dict[str, Reading]:
        if key not in self._found:
            self._found[key] = _read(self._path(key))
            while len(self._found) > MOST_KEPT:
                self._found.popitem(last=False)
        self._found.move_to_end(key)
        return self._found[key]

    def _keep(self, key: Key, reading: Reading) -> str:
        """Adds a reading, on disk too; why it could not be written, if so."""
        with self._lock:
            self._readings(key)[reading.experiment.key] = reading
            path = self._path(key)
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                if not path.exists():
                    _forget_oldest(path.parent)
                _append(path, json.dumps(reading.to_json(), allow_nan=False))
            except OSError as error:
                return f"The points are kept until Tilescope ends, and not on disk: {error}"
        return ""

    def _path(self, key: Key) -> Path:
        where: Any = None
        if key[1] == "hardware" and (status := self._engine.device_if_known()):
            where = {name: value for name, value in (status.provenance or {}).items() if name != "date"}
        text = json.dumps([*key, where, code_version()], sort_keys=True)
        return self._folder / f"{hashlib.sha256(text.encode()).hexdigest()[:32]}.jsonl"


def _read(path: Path) -> dict[str, Reading]:
    """The readings of a file; a line that a killed process left unfinished is none."""
    found = {}
    try:
        lines = path.read_bytes().split(b"\n")[:-1]
    except OSError:
        return {}
    for line in lines:
        try:
            reading = Reading.from_json(json.loads(line))
        except (ValueError, KeyError, TypeError, AttributeError):
            continue
        found[reading.experiment.key] = reading
    return found


def _append(path: Path, line: str) -> None:
    """Adds a line, after the last whole one."""
    with path.open("ab+") as file:
        file.seek(0)
        file.truncate(file.read().rfind(b"\n") + 1)
        file.write(line.encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())


def _forget_oldest(folder: Path) -> None:
    """Keeps the newest MOST_KEPT sweeps."""

    def changed(path: Path) -> float:
        try:
            return path.stat().st_mtime
        except OSError:  # another process has just forgotten it
            return 0.0

    for path in sorted(folder.glob("*.jsonl"), key=changed, reverse=True)[MOST_KEPT - 1 :]:
        path.unlink(missing_ok=True)


def _words(error: WorkerError) -> str:
    return error.message if isinstance(error, WorkerFailed) else str(error)


@functools.cache
def runner() -> Runner:
    """This process's runner; shared by every session."""
    return Runner(engine(), cache_folder().parent / "sweeps")
