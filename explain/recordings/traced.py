"""What the kernels load and store at the sizes GPUs are measured at, counted by buffer in Triton's interpreter.

Of a large run, only the smallest part that represents the whole is traced (`explain.parts`); the file says so.
Softmaxes are also compiled for sm_90: their registers limit how many rows are in progress at once, and so how much of
them a cache can hold. Needs no GPU; takes a few minutes. The file is written after each run; a stopped run continues.
"""

from __future__ import annotations

import argparse
import os
import platform
import time
from contextlib import closing
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

from explain.chapters.three_numbers.levels import RECORDED, by_buffer
from explain.compile.service import Compiler
from explain.experiment import Experiment
from explain.parts import part_of
from explain.records import results
from explain.records.code import measured_code, stale_parts
from explain.records.plans import MEASURED, sizes

CAPABILITY = 90
ALIGNED = 16  # rows: enough for the compiler to know as much about them as about thousands
OUT = results.RECORDINGS / f"{RECORDED}.json"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--again", action="store_true", help="trace everything again, also what has not changed")


def run(parsed: argparse.Namespace) -> int:
    """Traces what is missing or stale and writes explain/recordings/traced.json; the exit status."""
    before = results.read(OUT) if OUT.exists() and not parsed.again else {"runs": []}
    code = before.get("code") or {}
    fresh = {name: digest for name, digest in code.items() if not stale_parts({name: digest})}
    found = {Experiment.from_json(run["experiment"]).key: run for run in before["runs"]}
    done = {key: run for key, run in found.items() if run["experiment"]["kernel"] in fresh}
    wanted = [experiment for kernel in MEASURED for experiment in sizes(kernel)]
    where = {"triton": version("triton"), "python": platform.python_version()}
    where["date"] = datetime.now(UTC).date().isoformat()
    with closing(Compiler()) as compiler:
        for experiment in wanted:
            if experiment.key in done:
                continue
            start = time.perf_counter()
            done[experiment.key] = traced(experiment, compiler)
            print(f"{time.perf_counter() - start:6.1f} s  {' '.join(experiment.to_arguments())}", flush=True)
            runs = [done[one.key] for one in wanted if one.key in done]
            stamp = measured_code(run["experiment"]["kernel"] for run in runs)
            results.write(OUT, {"format": 1, "provenance": where, **stamp, "runs": runs})
    return 0


def traced(experiment: Experiment, compiler: Compiler) -> dict[str, Any]:
    """The counts of one run: the counts of a part, and how many such parts make up the run."""
    os.environ["TRITON_INTERPRET"] = "1"  # before triton is imported
    from explain.trace.recorder import record_call
    from kernels.launch import launcher, tensors

    found = part_of(experiment)
    part, times, what = found.experiment, found.times, found.words
    entry, p = part.entry, part.values
    launch = launcher(entry, p, tensors(p, part.make_inputs(), "cpu"))
    trace = record_call(launch, programs=[])
    ways = by_buffer(part, trace.launches).items()
    counts = {way: {name: count for name, count in counted.items() if count} for way, counted in ways}
    run: dict[str, Any] = {
        "experiment": experiment.to_json(),
        "part": part.to_json(),
        "times": times,
        "what": what,
        **counts,
    }
    if entry.family == "softmax":
        cost = compiler.compile(experiment.with_(rows=ALIGNED), CAPABILITY, seconds=300)
        run |= {"capability": CAPABILITY, "launches": [asdict(launch) for launch in cost.launches]}
    return run
