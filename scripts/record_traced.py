"""Traces, in Triton's interpreter, what the kernels ask for at the sizes that GPUs are measured at, and keeps the counts by buffer; compiles softmaxes.

    python scripts/record_traced.py

Writes explain/recordings/traced.json after each run, and goes on where it was stopped; --again starts over. A few minutes, no GPU. Where a run
is too large, the least part that stands for all of it is traced (`explain.chapters.three_numbers.levels.slice_of`), and the file says so. A softmax is compiled too, for
sm_90: its registers say how many rows are under way at once, and that what a cache can hold of them.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

os.environ["TRITON_INTERPRET"] = "1"  # before triton is imported
ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import triton  # noqa: E402

from explain.chapters.three_numbers.levels import RECORDED, by_buffer, slice_of  # noqa: E402
from explain.compile.service import compiler  # noqa: E402
from explain.experiment import Experiment  # noqa: E402
from explain.records.plans import sizes  # noqa: E402
from explain.trace.recorder import record_call  # noqa: E402
from kernels.catalog import CATALOG  # noqa: E402
from kernels.launch import launcher, tensors  # noqa: E402

CAPABILITY = 90
ALIGNED = 16  # rows: as many as needed for the compiler to know what it knows of thousands
OUT = ROOT / "explain" / "recordings" / f"{RECORDED}.json"


def traced(experiment: Experiment) -> dict[str, Any]:
    """One run's counts: of a part of it, and how many times that part makes the whole."""
    part, times, what = slice_of(experiment)
    entry, p = part.entry, part.values
    launch = launcher(entry, p, tensors(p, entry.make_inputs(part.preset, p, part.seed), "cpu"))
    trace = record_call(launch, programs=[])
    counts = {
        way: {name: count for name, count in counted.items() if count}
        for way, counted in by_buffer(part, trace.launches).items()
    }
    run = {"experiment": experiment.to_json(), "part": part.to_json(), "times": times, "what": what, **counts}
    if entry.family == "softmax":
        cost = compiler().compile(experiment.with_(rows=ALIGNED), CAPABILITY, seconds=300)
        run |= {"capability": CAPABILITY, "launches": [asdict(launch) for launch in cost.launches]}
    return run


def main() -> int:
    """Traces what is missing; a line each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--again", action="store_true", help="trace all anew")
    again = parser.parse_args().again
    provenance = {
        "triton": triton.__version__,
        "python": platform.python_version(),
        "date": datetime.now(UTC).date().isoformat(),
    }
    before = json.loads(OUT.read_text())["runs"] if OUT.exists() and not again else []
    done = {Experiment.from_json(run["experiment"]).key: run for run in before}
    wanted = [experiment for kernel in CATALOG for experiment in sizes(kernel)]
    for experiment in wanted:
        if experiment.key in done:
            continue
        start = time.perf_counter()
        done[experiment.key] = traced(experiment)
        print(f"{time.perf_counter() - start:6.1f} s  {' '.join(experiment.to_arguments())}", flush=True)
        runs = [done[one.key] for one in wanted if one.key in done]
        beside = OUT.with_suffix(".part")
        beside.write_text(json.dumps({"format": 1, "provenance": provenance, "runs": runs}, indent=1) + "\n")
        beside.replace(OUT)
    compiler().close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
