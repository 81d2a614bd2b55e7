"""Random cases of every right kernel against float64: random sizes, inputs, dtypes and seeds, at tiles of the grid.

    python -m benchmarks.cases --cases 20000 --out benchmarks/results/cases_cpu.json
    python -m benchmarks.cases --gpu --cases 84480 --out benchmarks/results/cases_gpu.json

The taught kernels, in Triton's interpreter; with --gpu on a GPU, and the fast ones and the rungs of the climb too.
Sizes are random, most of them at most one off a whole number of tiles. Every preset with numbers of its own takes part
(`explain.verification`), such as descending scores, scores near −5,000,000 and masked tiles. A case passes if it is
within the tolerance of `kernels.verify`. 84,480 is the number of cases of FlashAttention-2's own test.

Exits with 1 if a case misses. `--jobs` processes share the work, by default one for each core.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from datetime import UTC, datetime
from itertools import islice
from typing import Any

from benchmarks.report import parser_of
from explain.plain import plain
from explain.records import results
from explain.records.code import measured_code
from explain.verification import drawn, must_pass, shapes
from kernels.catalog import KERNELS, TAUGHT

AT_A_TIME = 80
"""Cases of one shape that a process runs before it takes the next shape: they share compiled kernels."""
MOST_NAMED = 50
"""Cases that missed, named in the result."""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = parser_of(__doc__)
    parser.add_argument("--gpu", action="store_true", help="on this machine's NVIDIA GPU")
    parser.add_argument("--cases", type=int, default=20_000, help="how many (20000)")
    parser.add_argument("--seed", type=int, default=1, help="of the cases (1)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes")
    parser.add_argument("--only", nargs="*", metavar="KERNEL", help="these kernels; default: all")
    options = parser.parse_args(arguments)
    os.environ["TRITON_INTERPRET"] = "0" if options.gpu else "1"  # before a process imports triton
    os.environ["OMP_NUM_THREADS"] = "1"  # the processes share the cores
    began = time.monotonic()
    kernels = options.only or _names(options.gpu)
    jobs = _jobs(kernels, options.cases, options.seed)
    with ProcessPoolExecutor(options.jobs, multiprocessing.get_context("spawn")) as pool:
        running = [pool.submit(run, *job, "cuda" if options.gpu else "cpu") for job in jobs]
        found = [one.result() for one in _told(running)]
        provenance = pool.submit(_provenance, options.gpu).result()
    missed = [case for one in found for case in one["missed"]]
    result = {
        "cases": sum(one["cases"] for one in found),
        "within_tolerance": sum(one["cases"] - len(one["missed"]) for one in found),
        "zeros_would_miss": sum(one["bites"] for one in found),
        "kernels": {name: sum(one["cases"] for one in found if one["kernel"] == name) for name in kernels},
        "presets": dict(sum((Counter(one["presets"]) for one in found), Counter())),
        "worst": max(found, key=lambda one: one["worst"]["ratio"])["worst"],
        "missed": missed[:MOST_NAMED],
        "seed": options.seed,
        "seconds": round(time.monotonic() - began),
        "provenance": provenance,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        **measured_code(kernels),
    }
    summary = {name: value for name, value in result.items() if name not in ("kernels", "code", "presets")}
    print(json.dumps(summary, indent=1))
    if options.out:
        results.write(options.out, result)
    return 1 if missed else 0


def _names(gpu: bool) -> list[str]:
    """The kernels that must be right; the fast ones and the rungs of the climb need a GPU."""
    fast = [name for name, kernel in KERNELS.items() if gpu and kernel.kind in ("fast", "rung")]
    return [name for name, kernel in TAUGHT.items() if not kernel.wrong] + fast


def _jobs(kernels: Sequence[str], cases: int, seed: int) -> Iterator[tuple[str, int, int, int]]:
    """(kernel, number of its shape, number of cases, seed): as many cases of each kernel, and of each of its shapes."""
    for nth, name in enumerate(kernels):
        own = cases * (nth + 1) // len(kernels) - cases * nth // len(kernels)
        many = len(shapes(KERNELS[name]))
        for shape in range(many):
            of_shape = own * (shape + 1) // many - own * shape // many
            for part, start in enumerate(range(0, of_shape, AT_A_TIME)):
                yield name, shape, min(AT_A_TIME, of_shape - start), hash((seed, nth, shape, part))


def _told(running: Sequence[Any]) -> Iterator[Any]:
    for number, one in enumerate(as_completed(running), 1):
        if number % 50 == 0:
            print(f"{number} of {len(running)} parts", file=sys.stderr, flush=True)
        yield one


def run(name: str, shape: int, cases: int, seed: int, device: str) -> dict[str, Any]:
    """Runs so many cases of one kernel at one of its shapes; those that missed are Experiments as JSON."""
    from explain.run_experiment import verdict_of

    found: dict[str, Any] = {"kernel": name, "cases": 0, "bites": 0, "presets": Counter(), "missed": []}
    found["worst"] = {"ratio": -1.0}
    for experiment in islice(drawn(KERNELS[name], shape, seed), cases):
        verdict = verdict_of(experiment, device)
        found["cases"] += 1
        found["bites"] += verdict.bites
        found["presets"][experiment.inputs] += 1
        if must_pass(experiment) and not verdict.within_tolerance:
            found["missed"].append({**experiment.to_json(), "error": str(verdict.error), "output": verdict.output})
        elif verdict.ratio > found["worst"]["ratio"]:
            found["worst"] = {**experiment.to_json(), "ratio": verdict.ratio}
    return found


def _provenance(gpu: bool) -> dict[str, str]:
    import platform
    from importlib.metadata import version

    if gpu:
        from explain.device.handler import provenance

        return dict(plain(provenance()))
    return {name: version(name) for name in ("torch", "triton")} | {"python": platform.python_version()}


if __name__ == "__main__":
    sys.exit(main())
