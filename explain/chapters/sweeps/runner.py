"""Runs sweeps in the background and saves every reading as it comes. Imports neither torch nor triton; thread-safe.

A sweep belongs to no session: all readers of the same sweep see the same run. Its readings are the lines of a
file, named by the sweep, the source of its numbers and the digest of the code. A run that is killed loses only the
point it was at, and the next run, in any process, continues there.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from explain.chapters.sweeps.model import Reading, Sweep, formula, of_point
from explain.engine import Engine, cache_folder, code_version, engine, forget_oldest, has_triton
from explain.experiment import Experiment
from explain.figures.numbers import si
from explain.jobs import Job, Jobs
from explain.plain import made, plain
from explain.workers import WorkerCancelled, WorkerError, WorkerUnavailable

MOST_RUNNING = 8
MOST_KEPT = 64
TRACED_FLOPS = 10**9
"""Points with more FLOPs are not traced: this many take about ten seconds."""
TURN_SECONDS = 0.2  # how often a waiting sweep checks whether it was cancelled

Key = tuple[str, str]
Ask = Callable[[Experiment, threading.Event], Reading]


@dataclass(frozen=True)
class State:
    """How far a sweep is: its readings, what it is `working` on ("": nothing), the `error` that stopped it."""

    readings: tuple[Reading, ...]
    total: int
    working: str = ""
    seconds: float = 0.0
    error: str = ""

    @property
    def done(self) -> bool:
        return len(self.readings) == self.total


class Runner:
    """Runs sweeps, at most one point of each source at a time: the other workers stay free for other readers."""

    def __init__(self, engine: Engine, folder: Path) -> None:
        self._engine, self._folder = engine, folder
        self._jobs: Jobs[str] = Jobs(MOST_RUNNING, MOST_KEPT)
        self._lock = threading.Lock()
        self._found: OrderedDict[Key, dict[str, Reading]] = OrderedDict()
        self._turn = {"trace": threading.Lock(), "hardware": threading.Lock()}

    def look(self, sweep: Sweep, witness: str) -> State:
        """How far the sweep is. Answers at once: the formula's readings need no run."""
        experiments = sweep.experiments
        if witness == "formula":
            return State(tuple(map(formula, experiments)), len(experiments))
        key = (sweep.key, witness)
        job = self._jobs.get(_name(key))
        with self._lock:
            found = self._readings(key)
            readings = tuple(found[e.key] for e in experiments if e.key in found)
        if job is not None and job.running:
            return State(readings, len(experiments), job.doing, job.seconds)
        return State(readings, len(experiments), error=(job.error or job.result or "") if job else "")

    def start(self, sweep: Sweep, witness: str) -> None:
        """Runs the missing points in the background, unless that runs already."""
        key = (sweep.key, witness)
        self._jobs.start(_name(key), functools.partial(self._work, key, sweep), "starting")

    def cancel(self, sweep: Sweep, witness: str) -> None:
        """Ends the run, for every session that looks at it. Its readings stay."""
        self._jobs.cancel(_name((sweep.key, witness)))

    def start_over(self, sweep: Sweep, witness: str) -> None:
        """Cancels the run, deletes its readings and runs all points again."""
        key = (sweep.key, witness)
        self._jobs.forget(_name(key))
        with self._lock:
            self._found[key] = {}
            self._path(key).unlink(missing_ok=True)
        self.start(sweep, witness)

    def _work(self, key: Key, sweep: Sweep, job: Job[str]) -> str:
        """Runs the missing points; why their readings could not be saved, "" if they were."""
        ask: Ask = self._traced if key[1] == "trace" else self._measured
        unsaved = ""
        for experiment in sweep.experiments:
            with self._lock:
                known = experiment.key in self._readings(key)
            if known:
                continue
            point = f"{experiment.entry.title}, {sweep.axis} = {experiment.values[sweep.axis]}"
            job.doing = f"{point}: waiting for another sweep's point"
            self._take_turn(key[1], job.cancel)
            try:
                job.doing = point
                reading = ask(experiment, job.cancel)
            finally:
                self._turn[key[1]].release()
            unsaved = self._keep(key, reading) or unsaved
        return unsaved

    def _take_turn(self, witness: str, cancel: threading.Event) -> None:
        while not self._turn[witness].acquire(timeout=TURN_SECONDS):
            if cancel.is_set():
                raise WorkerCancelled
        if cancel.is_set():
            self._turn[witness].release()
            raise WorkerCancelled

    def _traced(self, experiment: Experiment, cancel: threading.Event) -> Reading:
        """The interpreter's count. A point that cannot run is kept with the reason."""
        if not has_triton():
            raise WorkerUnavailable("Triton runs on Linux only. The formula works everywhere.")
        flops = formula(experiment).flops
        source = "trace, Triton's interpreter"
        if flops > TRACED_FLOPS:
            why = (
                f"it is too large to trace: it needs {si(flops, 'FLOP')}, and at most {si(TRACED_FLOPS, 'FLOP')} are "
                "traced. Choose smaller values, or the source Formula."
            )
            return Reading(experiment, "trace", {}, flops, None, why, source)
        try:
            traffic = self._engine.check(experiment, cancel=cancel)["traffic"]
        except (WorkerCancelled, WorkerUnavailable):
            raise
        except WorkerError as error:
            return Reading(experiment, "trace", {}, flops, None, error.words, source)
        asked = traffic["read_bytes"] + traffic["written_bytes"]
        return Reading(experiment, "trace", {"asked": asked}, traffic["flops"], None, "", source)

    def _measured(self, experiment: Experiment, cancel: threading.Event) -> Reading:
        """The GPU's counters and time. A point that cannot run is kept with the reason."""
        status = self._engine.device()
        if not status.available:
            raise WorkerUnavailable(status.reason)
        try:
            return of_point(self._engine.point(experiment, cancel=cancel))
        except (WorkerCancelled, WorkerUnavailable):
            raise
        except WorkerError as error:
            source = status.gpu or "hardware"
            return Reading(experiment, "hardware", {}, formula(experiment).flops, None, error.words, source)

    # Saved readings: one file a sweep, one line a reading.

    def _readings(self, key: Key) -> dict[str, Reading]:
        if key not in self._found:
            self._found[key] = _read(self._path(key))
            while len(self._found) > MOST_KEPT:
                self._found.popitem(last=False)
        self._found.move_to_end(key)
        return self._found[key]

    def _keep(self, key: Key, reading: Reading) -> str:
        """Keeps a reading in memory and on disk; why it could not be written, "" if it was."""
        with self._lock:
            self._readings(key)[reading.experiment.key] = reading
            path = self._path(key)
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                if not path.exists():
                    forget_oldest(path.parent, "*.jsonl", MOST_KEPT - 1)
                _append(path, json.dumps(plain(reading), allow_nan=False))
            except OSError as error:
                return f"The points are not saved on disk and are lost when Tilescope ends: {error}"
        return ""

    def _path(self, key: Key) -> Path:
        where: Any = None
        if key[1] == "hardware" and (status := self._engine.device_if_known()):
            where = {name: value for name, value in (status.provenance or {}).items() if name != "date"}
        text = json.dumps([*key, where, code_version()], sort_keys=True)
        return self._folder / f"{hashlib.sha256(text.encode()).hexdigest()[:32]}.jsonl"


def _read(path: Path) -> dict[str, Reading]:
    """The readings in a file, without a last line that a killed process left unfinished."""
    found = {}
    try:
        lines = path.read_bytes().split(b"\n")[:-1]
    except OSError:
        return {}
    for line in lines:
        try:
            reading = made(Reading, json.loads(line))
        except (ValueError, KeyError, TypeError, AttributeError):
            continue
        found[reading.experiment.key] = reading
    return found


def _append(path: Path, line: str) -> None:
    """Adds a line after the last complete one."""
    with path.open("ab+") as file:
        file.seek(0)
        file.truncate(file.read().rfind(b"\n") + 1)
        file.write(line.encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())


def _name(key: Key) -> str:
    return json.dumps(key)


@functools.cache
def runner() -> Runner:
    """The runner of this process, shared by every session."""
    return Runner(engine(), cache_folder().parent / "sweeps")
