"""The cost of recording a run: this recorder, Triton's plain interpreter and triton-viz, on the same kernel.

Each variant has its own process, and they take turns, so a busy moment of the machine affects all of them. The
benchmark times one whole run after a first one. For this recorder that is the launch with everything recorded, and
building the trace.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
CONFIGS = ((128, 64, 32), (512, 64, 64))  # sequence, head dimension, tile
AT_MOST_OF_PLAIN = 1.15
AT_MOST_OF_TRITON_VIZ = 0.75
AT_MOST_MEGABYTES = 1000
ENVIRONMENT = """
triton-viz 3.0 needs Triton 3.5.1 and NumPy 2.2.6, so it has its own environment:

  python3.11 -m venv triton-viz
  triton-viz/bin/pip install torch==2.13.0 numpy==2.2.6 triton-viz==3.0
  triton-viz/bin/pip install --no-deps triton==3.5.1
  python benchmarks/tracing.py --triton-viz-python triton-viz/bin/python

pip warns that torch needs another Triton; this does not affect the interpreter. Without --triton-viz-python,
triton-viz is left out.
"""


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=ENVIRONMENT, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--triton-viz-python", metavar="PATH", help="the Python of an environment with triton-viz")
    parser.add_argument("--repeats", type=int, default=15, help="timed runs of each variant, for the median (15)")
    parser.add_argument("--out", type=Path, metavar="FILE", help="also write the result to this file, as JSON")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parsed = parser.parse_args()
    if parsed.child:
        return _child(parsed.child)
    if parsed.repeats < 1:
        parser.error(f"--repeats {parsed.repeats}: must be at least 1")
    sys.path.insert(0, str(ROOT))
    from explain.records import results
    from explain.records.code import measured_code

    result = measure(parsed.triton_viz_python, parsed.repeats) | measured_code(["recorder"])
    print(json.dumps(result, indent=2))
    if parsed.out:
        results.write(parsed.out, result)
    return 0 if result["within_targets"] else 1


def measure(triton_viz_python: str | None, repeats: int) -> dict[str, Any]:
    """Times all variants; returns {"configs", "peak_megabytes", "within_targets", …}."""
    pythons = {"plain": sys.executable, "tilescope": sys.executable}
    if triton_viz_python:
        pythons["triton-viz"] = triton_viz_python
    children = {variant: _start(python, variant) for variant, python in pythons.items()}
    try:
        versions = {variant: _ask(child, {}) for variant, child in children.items()}
        configs = []
        for config in CONFIGS:
            warm = {variant: _ask(child, {"config": config}) for variant, child in children.items()}
            times: dict[str, list[float]] = {variant: [] for variant in children}
            for _ in range(repeats):
                for variant, child in children.items():
                    times[variant].append(_ask(child, {"config": config})["milliseconds"])
            configs.append(_summary(config, times, warm["tilescope"]))
    finally:
        for child in children.values():
            child.stdin.close()
            child.wait()
    memory = _start(sys.executable, "tilescope")
    _ask(memory, {})
    peak = _ask(memory, {"config": CONFIGS[-1]})["peak_megabytes"]
    memory.stdin.close()
    memory.wait()
    return {
        "what": "milliseconds of one run, median; all programs recorded",
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": {"cpu": _cpu(), "cores": os.cpu_count(), "threads_used": 1, "system": platform.system()},
        "versions": versions,
        "repeats": repeats,
        "configs": configs,
        "peak_megabytes": round(peak),
        "targets": {
            "of_plain": AT_MOST_OF_PLAIN,
            "of_triton_viz": AT_MOST_OF_TRITON_VIZ,
            "peak_megabytes": AT_MOST_MEGABYTES,
        },
        "within_targets": peak < AT_MOST_MEGABYTES
        and all(
            one["of_plain"] <= AT_MOST_OF_PLAIN and one.get("of_triton_viz", 0) <= AT_MOST_OF_TRITON_VIZ
            for one in configs
        ),
    }


def _summary(config: tuple[int, int, int], times: dict[str, list[float]], recorded: dict[str, Any]) -> dict[str, Any]:
    median = {variant: statistics.median(values) for variant, values in times.items()}
    seq_len, head_dim, tile = config
    summary = {
        "seq_len": seq_len,
        "head_dim": head_dim,
        "tile": tile,
        "steps": recorded["steps"],
        "milliseconds": {variant: round(value, 1) for variant, value in median.items()},
        "fastest": {variant: round(min(values), 1) for variant, values in times.items()},
        "of_plain": round(median["tilescope"] / median["plain"], 3),
    }
    if "triton-viz" in median:
        summary["of_triton_viz"] = round(median["tilescope"] / median["triton-viz"], 3)
    return summary


def _start(python: str, variant: str) -> Any:
    environment = {**os.environ, "TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    command = [python, str(Path(__file__).resolve()), "--child", variant]
    return subprocess.Popen(command, env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def _ask(child: Any, request: dict[str, Any]) -> dict[str, Any]:
    child.stdin.write(json.dumps(request) + "\n")
    child.stdin.flush()
    answer = child.stdout.readline()
    if not answer:
        raise SystemExit(f"{' '.join(child.args)} ended without an answer; its error is above")
    return dict(json.loads(answer))


def _cpu() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    return next((line.partition(": ")[2] for line in lines if line.startswith("model name")), platform.processor())


# The child process: one line of JSON in, one line out


def _child(variant: str) -> int:
    sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]
    import resource

    lesson = import_module("tracing_kernel")
    runners = {"plain": _plain, "tilescope": _tilescope, "triton-viz": _triton_viz}
    run = runners[variant](lesson)
    for line in sys.stdin:
        request = json.loads(line)
        if not request:
            answer: dict[str, Any] = dict(_versions(variant))
        else:
            seq_len, head_dim, tile = request["config"]
            tensors = lesson.inputs(seq_len, head_dim)
            start = time.perf_counter()
            steps = run(tensors, tile)
            milliseconds = 1e3 * (time.perf_counter() - start)
            lesson.check(tensors)
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
            answer = {"milliseconds": milliseconds, "steps": steps, "peak_megabytes": peak}
        print(json.dumps(answer), flush=True)
    return 0


def _plain(lesson: Any) -> Any:
    def run(tensors: Any, tile: int) -> int:
        lesson.run(lesson.flash_attention, tensors, tile)
        return 0

    return run


def _tilescope(lesson: Any) -> Any:
    from explain.trace.recorder import record_call

    def run(tensors: Any, tile: int) -> int:
        trace = record_call(lambda: lesson.run(lesson.flash_attention, tensors, tile), programs="all")
        return trace.steps

    return run


def _triton_viz(lesson: Any) -> Any:
    triton_viz = import_module("triton_viz")
    launches = sys.modules["triton_viz.core.trace"].launches  # the package has a function of that name
    traced = triton_viz.trace("tracer")(lesson.flash_attention)

    def run(tensors: Any, tile: int) -> int:
        lesson.run(traced, tensors, tile)
        records = len(launches[-1].records)
        triton_viz.clear()
        return records

    return run


def _versions(variant: str) -> dict[str, str]:
    from importlib.metadata import version

    names = ["torch", "triton", "numpy", *(["triton-viz"] if variant == "triton-viz" else [])]
    return {"python": platform.python_version(), **{name: version(name) for name in names}}


if __name__ == "__main__":
    sys.exit(main())
