"""The fallback: Nsight Compute's command line counts the same ranges in another process. Imports no torch.

ncu empties L2 between ranges without counting. The bytes that a run leaves dirty there are unknown, so `dirty_bytes` is
None and only the reads of the copy are checked.
"""

from __future__ import annotations

import csv
import io
import json
import math
import shutil
import subprocess
import sys
from collections.abc import Sequence

from explain import ROOT
from explain.counters import errors
from explain.counters.model import COPIED_BYTES, METRICS, CopyCheck, Counters, Counts
from explain.device.measurement import Provenance
from explain.experiment import Experiment

SECONDS = 150  # for its own start, two starts of ours (one per pass), and the inputs
RANGES = 3  # the copy, cold, warm


def count(experiment: Experiment, provenance: Provenance, why: errors.CountersUnavailable) -> Counters:
    """Counts with ncu. `why` says why CUPTI cannot; it is raised, with ncu's reason, if ncu cannot either."""
    ncu = shutil.which("ncu")
    if ncu is None:
        raise why
    try:
        asked = command(ncu, experiment)
        done = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, timeout=SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _neither(why, str(error)) from None
    lines = [line for line in done.stdout.splitlines() if line.startswith("==ERROR==")] or done.stderr.splitlines()[-1:]
    if done.returncode:
        raise _neither(why, " ".join(lines))
    try:
        values = read(done.stdout)
    except ValueError as error:
        raise _neither(why, str(error)) from None
    counted = [Counts.of(run, {}) for run in values]
    check = CopyCheck.of(COPIED_BYTES, counted[0])
    if not check.passed:
        raise _neither(why, f"counters not trusted: of a copy {check.read_bytes} bytes were counted")
    return Counters(
        experiment=experiment.to_json(),
        cold=counted[1],
        warm=counted[2],
        copy=check,
        chip=provenance.gpu,
        method="ncu --replay-mode app-range --cache-control none --clock-control none, in a process of its own",
        fallback=str(why),
        lacking=tuple(name for name in METRICS if name not in values[0]),
        passes=0,
        provenance=provenance,
    )


def command(ncu: str, experiment: Experiment) -> Sequence[str]:
    """Counts what `under_ncu` runs between cudaProfilerStart and Stop. Our own code makes L2 cold or warm."""
    metrics = ",".join(name for names, _ in METRICS.values() for name in names)
    options = "--csv --page raw --print-units base --replay-mode app-range --target-processes all"
    keep = "--cache-control none --clock-control none --metrics"
    run = [sys.executable, "-m", "explain.counters.under_ncu", json.dumps(experiment.to_json())]
    return [ncu, *options.split(), *keep.split(), metrics, *run]


def read(text: str) -> list[dict[str, float]]:
    """What each range counted, by name, from ncu's table. Raises ValueError for any other text."""
    lines = text.splitlines()
    start = next((number for number, line in enumerate(lines) if line.startswith('"ID"')), None)
    if start is None:
        raise ValueError("ncu printed no table")
    rows = list(csv.DictReader(io.StringIO("\n".join(line for line in lines[start:] if line.startswith('"')))))
    ranges = [row for row in rows if row["ID"].strip()]  # the first row holds units
    if len(ranges) != RANGES:
        raise ValueError(f"ncu counted {len(ranges)} ranges, not {RANGES}")
    values: list[dict[str, float]] = []
    for row in ranges:
        named = {what: next((row[name] for name in names if row.get(name)), "") for what, (names, _) in METRICS.items()}
        values.append({what: _number(value) for what, value in named.items() if value})
    return values


def _number(text: str) -> float:
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return math.nan


def _neither(why: errors.CountersUnavailable, reason: str) -> errors.CountersUnavailable:
    return errors.CountersUnavailable(why.cause, f"{why.remedy} The profiler ncu could not count either: {reason}")
