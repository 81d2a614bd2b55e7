"""`measure` and `results`: measures kernels, or a file's, on this GPU; lists what is committed."""

from __future__ import annotations

import argparse
import functools
from contextlib import closing
from pathlib import Path
from typing import Any

from explain import ROOT
from explain.commands.arguments import add_limits, command
from explain.commands.console import FAILED, complain, print_json, progress_line
from explain.engine import Engine
from explain.experiment import ParameterError
from explain.own_file import report
from explain.own_file import service as own_file
from explain.records import measure as measuring
from explain.records import registry, results
from explain.records.code import stale_words
from explain.records.file import RecordFileError
from explain.records.plans import PLANS
from explain.workers import WorkerPool


def add_to(commands: Any) -> None:
    plans = "; ".join(f"{plan.name}: {plan.about}" for plan in PLANS.values())
    help = (
        "Measure kernels on this GPU: time, memory, bytes moved. The pages show the file it writes. A Python file's "
        "kernels are measured too."
    )
    parser = command(commands, "measure", measure, help)
    only = "only these kernels; default: all. Or one path/to/file.py:function: all that it launches is measured"
    parser.add_argument("kernels", nargs="*", metavar="KERNEL", help=only)
    parser.add_argument(
        "--plan", action="append", choices=PLANS, help=f"a plan to measure, may be repeated; default: all. {plans}"
    )
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help=f"the folder of the GPU's file ({registry.own_folder()})"
    )
    add_limits(parser, megabytes=16000.0)
    help = "List the committed results, and which are stale: measured on older code."
    parser = command(commands, "results", committed_results, help)
    parser.add_argument("--stale", action="store_true", help="only the stale ones")


def measure(parsed: argparse.Namespace) -> int:
    if any(kernel.endswith(".py") or ".py:" in kernel for kernel in parsed.kernels):
        return _measure_file(parsed)
    plans = [plan for plan in PLANS.values() if plan.name in (parsed.plan or PLANS)]
    planned = {experiment.kernel for plan in plans for experiment in plan.experiments}
    for kernel in parsed.kernels:
        if kernel not in planned:
            raise ParameterError("kernel", kernel, f"must be one of {', '.join(sorted(planned))}")
    folder = parsed.out or registry.own_folder()
    limits = {"seconds": parsed.seconds, "megabytes": parsed.megabytes}
    say = (lambda _: None) if parsed.json else functools.partial(print, flush=True)
    try:
        with closing(Engine()) as engine:
            outcome = measuring.measure(engine, plans, folder, say, kernels=parsed.kernels, **limits)
    except RecordFileError as error:
        return complain(f"{folder}: the file there cannot be continued: {error}. Move it away", FAILED)
    if parsed.json:
        counts = {"measured": outcome.measured, "kept": outcome.kept}
        missed = [{"what": what, "why": why} for what, why in outcome.missed]
        print_json({"file": str(outcome.path), **counts, "missed": missed})
    else:
        for what, why in outcome.missed:
            print(f"missed: {what}: {why}")
        print(f"{outcome.path}: {outcome.measured} measured, {outcome.kept} kept, {len(outcome.missed)} incomplete")
    return FAILED if outcome.missed else 0


def _measure_file(parsed: argparse.Namespace) -> int:
    """Measures what a function of a Python file launches."""
    given = parsed.kernels[0]
    if len(parsed.kernels) > 1:
        raise ParameterError("kernel", " ".join(parsed.kernels), "must be one file alone, or kernels of the list")
    for option, value in (("--plan", parsed.plan), ("--out", parsed.out)):
        if value:
            raise ParameterError(
                option, value, "is for kernels of the list; a file's measurement is printed: see --json"
            )
    path, function = (given, "") if given.endswith(".py") else given.rsplit(":", 1)
    if not Path(path).is_file():
        raise ParameterError("kernel", given, f"must be a file that exists: there is no {path}")
    with (
        closing(WorkerPool(own_file.GPU_WORKER)) as gpu,
        closing(WorkerPool(own_file.COUNTER)) as counter,
        progress_line() as progress,
    ):
        limits = {"seconds": parsed.seconds, "megabytes": parsed.megabytes}
        found = own_file.measure(Path(path), function, progress, gpu=gpu, counter=counter, **limits)
    if parsed.json:
        print_json(report.as_json(found))
    else:
        print(found.output, end="")
        print("\n".join(report.lines(found)))
    return complain(found.failure, FAILED) if found.failure else 0


def committed_results(parsed: argparse.Namespace) -> int:
    """Lists the committed results: fresh, or stale because the code they measured has changed."""
    rows = []
    for one in results.committed():
        try:
            words = stale_words(one.stale)
        except results.ResultFileError as error:
            words = str(error)
        if words or not parsed.stale:
            file = one.path.relative_to(ROOT).as_posix()
            rows.append({"file": file, "stale": words, "command": one.command, "needs_gpu": one.needs_gpu})
    if parsed.json:
        return print_json({"results": rows})
    for row in rows:
        print(f"{'stale' if row['stale'] else 'fresh'}  {row['file']}{': ' if row['stale'] else ''}{row['stale']}")
        if row["stale"]:
            print(f"       repeat{' on a GPU' if row['needs_gpu'] else ''}: {row['command']}")
    return 0
