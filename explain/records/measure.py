"""Measures plans on this GPU and saves after every point: a killed run loses one point, and the next continues."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from explain.device.measurement import Provenance
from explain.engine import Engine
from explain.experiment import Experiment
from explain.records import file
from explain.records.code import commit
from explain.records.model import Origin, Point, Record, settings
from explain.records.plans import Plan
from explain.records.registry import file_name
from explain.workers import WorkerError

Say = Callable[[str], None]


@dataclass(frozen=True)
class Task:
    """One point to measure: an experiment, and what to measure of it."""

    experiment: Experiment
    counters: bool
    timing: bool
    stalls: bool = False


@dataclass(frozen=True)
class Outcome:
    """The outcome of a run: the file, its record, how many points were measured or kept, and (what, why) was missed."""

    path: Path
    record: Record
    measured: int
    kept: int
    missed: tuple[tuple[str, str], ...]


def tasks(plans: Iterable[Plan], kernels: Sequence[str] = ()) -> list[Task]:
    """Each experiment of the plans once, with all that any plan measures of it; of all kernels or some."""
    found: dict[str, Task] = {}
    for plan in plans:
        for experiment in plan.experiments:
            if not kernels or experiment.kernel in kernels:
                before = found.get(experiment.key, Task(experiment, False, False))
                asked = {
                    name: getattr(before, name) or getattr(plan, name) for name in ("counters", "timing", "stalls")
                }
                found[experiment.key] = Task(experiment, **asked)
    return list(found.values())


def measure(
    engine: Engine,
    plans: Sequence[Plan],
    folder: Path,
    say: Say,
    *,
    kernels: Sequence[str] = (),
    seconds: float | None = None,
    megabytes: float | None = None,
) -> Outcome:
    """Measures what this GPU's file in the folder lacks, for this code and these versions.

    `say` gets a line for each point. Raises WorkerError if there is no GPU, RecordFileError if the file is not valid.
    """
    status = engine.device()
    if not status.available or status.provenance is None:
        raise WorkerError(f"Measuring needs a GPU: {status.reason}")
    where = Provenance(**status.provenance)
    limits: dict[str, Any] = {"seconds": seconds, "megabytes": megabytes}
    path = folder / file_name(where.gpu)
    record = file.load(path) if path.exists() else Record(commit(), where)
    if record.gpu != where.gpu:
        raise file.RecordFileError(f"it is a record of another GPU, the {record.gpu}")
    same = _versions(record.provenance) == _versions(where)
    record = replace(record, commit=commit(), provenance=where)
    folder.mkdir(parents=True, exist_ok=True)
    missed: list[tuple[str, str]] = []
    if any(plan.roofs for plan in plans) and not kernels and not (record.roofs and same):
        try:
            record = replace(record, roofs=engine.roofs(progress=lambda text, _: say(f"roofs: {text}"), **limits))
            file.save(path, record)
        except WorkerError as error:  # the points can still be measured
            missed.append(("roofs", str(error)))
            say(f"roofs: missed: {error}")
    wanted = tasks(plans, kernels)
    left = [task for task in wanted if not _has(record, task, where)]
    if len(left) < len(wanted):
        say(f"{len(wanted) - len(left)} of {len(wanted)} points are in {path} already")
    start = time.monotonic()
    for number, task in enumerate(left):
        began = time.monotonic()
        point = _point(engine, task, record, where, limits)
        took = time.monotonic() - began
        record = record.with_(point)
        file.save(path, record)
        if point.why:
            missed.append((_label(task.experiment), point.why))
        spent = time.monotonic() - start
        remaining = spent / (number + 1) * (len(left) - number - 1)
        times = f"took {took:.2f} s · {spent:.0f} s, about {remaining:.0f} s left"
        say(f"[{number + 1}/{len(left)}] {_label(task.experiment)}: {said(point)}, {times}")
    file.save(path, record)
    return Outcome(path, record, len(left), len(wanted) - len(left), tuple(missed))


def _point(engine: Engine, task: Task, record: Record, where: Provenance, limits: dict[str, Any]) -> Point:
    """The measured point, with everything the record's point has; or a point that says why there is none."""
    before = record.point(task.experiment)
    counters = task.counters or bool(before and before.counters)
    timing = task.timing or bool(before and before.timing)
    stalls = task.stalls or bool(before and before.counters and before.counters.stalls)
    try:
        return engine.point(task.experiment, counters, timing, stalls=stalls, **limits)
    except WorkerError as error:
        origin = Origin(where, commit(), task.experiment.entry.code)
        return Point(task.experiment, why=str(error), origin=origin)


def _has(record: Record, task: Task, where: Provenance) -> bool:
    """Whether the record has the point, measured on the current code with the versions here."""
    point = record.point(task.experiment)
    if point is None or point.origin is None or not point.holds(task.counters, task.timing, task.stalls):
        return False
    return point.origin.code == task.experiment.entry.code and _versions(point.origin.provenance) == _versions(where)


def _versions(provenance: Provenance) -> dict[str, str]:
    return {name: value for name, value in asdict(provenance).items() if name != "date"}


def _label(experiment: Experiment) -> str:
    return f"{experiment.kernel} {settings(experiment)}".strip()


def said(point: Point) -> str:
    """A point in a few words."""
    words = []
    if point.timing:
        words.append(f"{point.timing.median_ms:.4g} ms")
    if point.counters and point.counters.cold.dram_read_bytes is not None:
        passes = f" in {point.counters.passes} passes" if point.counters.passes else ""
        words.append(f"DRAM read {point.counters.cold.dram_read_bytes / 1e6:,.1f} MB{passes}")
    if point.counters and point.counters.stalls:
        words.append(f"stalls in {point.counters.stalls.passes} passes")
    if point.counters and point.counters.fallback:
        words.append(f"counted by {point.counters.method}")
    if point.why:
        words.append(f"missed: {point.why}")
    return ", ".join(words) or "nothing to measure"
