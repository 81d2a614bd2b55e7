"""`trace`: records a kernel, or the kernels of a Python file, and writes the trace."""

from __future__ import annotations

import argparse
from contextlib import closing
from pathlib import Path
from typing import Any

from explain.commands.arguments import (
    INTERPRETER_SECONDS,
    TARGET,
    add_recording,
    check_out,
    command,
    file_of,
    parse_programs,
)  # fmt: skip
from explain.commands.console import FAILED, complain, print_json, print_part, progress_line
from explain.engine import Engine
from explain.experiment import Experiment, ParameterError

STOPPING_SECONDS = 60


def add_to(commands: Any) -> None:
    help = "Record a kernel line by line, or the kernels that a function of any Python file launches."
    parser = command(commands, "trace", trace, help)
    parser.add_argument("target", metavar="TARGET", help=TARGET)
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="the trace file to write")
    parser.add_argument("--only", action="store_true", help="of a file's kernels, run no programs but these")
    add_recording(parser)


def trace(parsed: argparse.Namespace) -> int:
    check_out(parsed.out)
    said, experiment = recorded(parsed, parse_programs(parsed.programs))
    report, failure = said["report"], said["report"]["failure"]
    answer = {name: said[name] for name in ("steps", "trace_seconds", "file_bytes", "launches", "report")}
    answer["traffic"] = {"traced": said["traffic"]}
    if experiment is not None:
        if said["part"]:
            experiment = Experiment.from_json(said["part"]["experiment"])
        answer |= {"experiment": experiment.to_json(), "part": said["part"]}
        answer["traffic"]["formula"] = experiment.traffic.totals()
    if parsed.json:
        print_json(answer)
        return FAILED if failure else 0
    print(report["output"], end="")
    print(f"{parsed.out}: {said['steps']:,} steps, {said['file_bytes']:,} bytes, {said['trace_seconds']:.2f} s")
    for launch in said["launches"]:
        counts = launch["traffic"]
        moved = f"{counts['read_bytes']:,} bytes read, {counts['written_bytes']:,} written"
        print(f"  {launch['kernel']} on grid {tuple(launch['grid'])}: {moved}, {counts['flops']:,} FLOPs")
    for note in report["notes"]:
        print(f"  {note}")
    print_part(answer.get("part"))
    return complain(stopped(failure), FAILED) if failure else 0


def recorded(parsed: argparse.Namespace, programs: object, **options: Any) -> tuple[dict[str, Any], Experiment | None]:
    """What the trace worker answers about the target, and the experiment if the target is a kernel of the list.

    Raises ParameterError and WorkerError.
    """
    limits = {"seconds": parsed.seconds, "megabytes": parsed.megabytes}
    options |= {"max_steps": parsed.max_steps, "max_bytes": int(parsed.max_values * 1e6), "tf32": parsed.tf32}
    path, function = file_of(parsed)
    experiment = None if path else Experiment.from_parsed(parsed.target, parsed)
    if (only := getattr(parsed, "only", False)) and path is None:
        raise ParameterError("--only", "set", "needs a file: the result of a kernel of the list is checked whole")
    with closing(Engine()) as engine, progress_line() as progress:
        if path is not None:
            # The run stops itself at its limit and leaves its trace; the worker is ended only if it does not.
            options |= {"seconds": parsed.seconds, "only": only}
            limits["seconds"] = parsed.seconds + STOPPING_SECONDS
            return engine.trace_file(
                path, function, parsed.out, programs, options=options, progress=progress, **limits
            ), None
        assert experiment is not None
        options |= {} if parsed.whole else {"budget": INTERPRETER_SECONDS}
        return engine.trace_to(
            experiment, parsed.out, programs, options=options, progress=progress, **limits
        ), experiment


def stopped(failure: dict[str, Any]) -> str:
    return f"{failure['message']}\n{failure['traceback']}\nThe trace ends there, at step {failure['step']:,}"
