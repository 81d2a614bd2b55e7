"""`python -m explain diff A B`: the first difference of two runs. Exit status 0 same, 1 different, 2 cannot compare."""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Any

from explain.commands.arguments import add_limits, check_out, command
from explain.commands.console import BAD_ARGUMENTS, complain, print_json, progress_line
from explain.difference.compare import CannotCompareError, Difference, first_difference
from explain.engine import Engine, TraceRun, scratch
from explain.experiment import Experiment, ParameterError
from explain.trace.file import TraceFile, TraceFileError
from explain.workers import WorkerDied, WorkerError, WorkerFailed
from kernels.catalog import KERNELS
from kernels.museum import EXHIBITS

HELP = "Compare run B with run A: the first step where they differ, both values, and the likely cause."
TARGET = "a kernel of the list, a trace file, or path/to/file.py:function"
SAME, DIFFERENT = 0, 1
DIGITS = 6


def add_to(commands: Any) -> None:
    parser = command(commands, "diff", run, HELP)
    parser.add_argument("a", metavar="A", help=f"the run that is right: {TARGET}")
    parser.add_argument("b", metavar="B", help="the run to compare with it: the same kinds")
    parser.add_argument(
        "--out", type=Path, metavar="FILE", help="also write a page with both runs side by side; it ends in .html"
    )
    Experiment.add_arguments(parser)
    add_limits(parser)


def run(parsed: argparse.Namespace) -> int:
    """Prints the first difference; the exit status."""
    if parsed.out is not None:
        if parsed.out.suffix != ".html":
            raise ParameterError("--out", parsed.out, "must end in .html")
        check_out(parsed.out)
    experiments = _experiments(parsed)
    with closing(Engine()) as engine:
        try:
            runs = [_run(engine, parsed, name, experiments.get(name)) for name in (parsed.a, parsed.b)]
        except WorkerFailed as error:
            return refused(error.message, parsed.json)
        except WorkerDied as error:
            return refused(f"{error}\n{error.output}".strip(), parsed.json)
        except WorkerError as error:
            return refused(str(error), parsed.json)
    traces = [run.trace for run in runs]
    try:
        found = first_difference(*traces)
    except CannotCompareError as error:
        return refused(f"{parsed.a} and {parsed.b}: {error}", parsed.json)
    if parsed.out is not None:
        parsed.out.write_text(page(runs), encoding="utf-8")
    if parsed.json:
        print_json({"same": found is None, "difference": None if found is None else _json(found)})
    else:
        print(words(found))
    return SAME if found is None else DIFFERENT


def refused(why: str, as_json: bool) -> int:
    """Says why nothing was compared, for a program also as an object; the exit status."""
    if as_json:
        print_json({"error": why})
    return complain(why, BAD_ARGUMENTS)


def words(found: Difference | None) -> str:
    """The answer as lines of text."""
    if found is None:
        return "Same: every output of B agrees with A's."
    counts = ", ".join(f"{name} ({count:,} elements)" for name, count in found.outputs.items())
    lines = [f"Different: {counts}.", *unstored(found), f"First difference: {_said(found)}"]
    for name, place in (("A", found.right), ("B", found.wrong)):
        if place is not None:
            lines.append(f"  {name}  step {place.step:,}, {place.file}:{place.line}  {place.code}")
    lines.append(f"Likely cause: {found.cause or 'unknown'}.")
    lines += [f"  {found.evidence}."] if found.evidence else []
    lines.append(f"{found.compared:.0%} of B's earlier values have an equal counterpart in A.")
    return "\n".join(lines)


def unstored(found: Difference) -> list[str]:
    """A sentence for each output that lacks elements."""
    return [f"{count:,} elements of {name} are never stored." if count > 1 else f"1 element of {name} is never stored."
            for name, count in found.unstored.items()]  # fmt: skip


def _said(found: Difference) -> str:
    place = found.wrong
    name = f"{place.variable}[{', '.join(map(str, place.element))}]" if place.element else place.variable
    values = f"{name} is {place.said(DIGITS)} in B" if place.shown else f"{name} is not set in B"
    if found.right is not None and found.right.shown:
        values += f" and {found.right.said(DIGITS)} in A"
    return f"{values}; {found.elements:,} elements of it differ." if found.elements > 1 else f"{values}."


def _json(found: Difference) -> dict[str, Any]:
    answer = asdict(found)
    for name in ("right", "wrong"):
        place = answer[name]
        if place is not None and not math.isfinite(place["value"]):
            place["value"] = str(place["value"])
    return answer


def _experiments(parsed: argparse.Namespace) -> dict[str, Experiment]:
    """The experiments of the targets that are kernels: with the same inputs and, where both have them, parameters."""
    kernels = [name for name in dict.fromkeys((parsed.a, parsed.b)) if name in KERNELS]
    if not kernels:
        if parsed.set or parsed.inputs or parsed.seed != "0":
            raise ParameterError("A and B", f"{parsed.a} {parsed.b}", "take no --set, --inputs or --seed")
        return {}
    shown = next((one for one in EXHIBITS.values() if one.kernel in kernels), None)
    if shown is not None and not parsed.set and not parsed.inputs:
        first = Experiment.of(kernels[0], shown.sizes, shown.shown_by, parsed.seed)
    else:
        first = Experiment.from_parsed(kernels[0], parsed)
    found = {kernels[0]: first}
    for name in kernels[1:]:
        own = {parameter.name for parameter in KERNELS[name].parameters}
        shared = {parameter: value for parameter, value in first.parameters if parameter in own}
        found[name] = Experiment.of(name, shared, first.inputs, first.seed)
    return found


def _run(engine: Engine, parsed: argparse.Namespace, target: str, experiment: Experiment | None) -> TraceRun:
    """A target's run: recorded, read, or made now. Raises ParameterError and WorkerError."""
    limits = {"seconds": parsed.seconds, "megabytes": parsed.megabytes}
    if experiment is not None:
        with progress_line() as progress:
            return engine.trace(experiment, progress)
    path, colon, function = target.rpartition(":")
    if colon and Path(path).suffix == ".py":
        with scratch() as folder, progress_line() as progress:
            out = Path(folder) / "run.tilescope"
            engine.trace_file(Path(path), function, out, "all", progress=progress, **limits)
            return TraceRun(out.read_bytes(), "interpreter")
    file = Path(target)
    if not file.is_file():
        raise ParameterError("target", target, f"must be {TARGET}; there is no such kernel and no such file")
    made = TraceRun(file.read_bytes(), "recorded")
    try:
        _ = made.trace
    except TraceFileError as error:
        raise ParameterError("target", target, f"cannot be read as a trace: {error}") from None
    return made


def page(runs: Sequence[TraceFile]) -> str:
    """Both runs side by side. The player opens on the first difference that it can draw."""
    from explain.player.component import Run  # brings Streamlit, which the command does without
    from explain.player.export import standalone_html
    from explain.player.view import view_of

    def shown(run: TraceFile) -> Run:
        return Run(run, view_of(run.trace, run.origin if isinstance(run, TraceRun) else "interpreter"))

    return standalone_html([shown(run) for run in runs], step=None)
