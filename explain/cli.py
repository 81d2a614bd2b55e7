"""Tilescope on the command line: list, run, trace, check, debug, export, compile, measure and write kernels.

Exit status: 0 done · 1 the result exceeds its tolerance, two runs differ, or a check found an error · 2 bad arguments ·
3 the run failed; the message says why.
"""

from __future__ import annotations

import argparse
import io
import math
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType

from explain import commands as do
from explain import tours
from explain.commands import BAD_ARGUMENTS, EXPORTS, FAILED, INTERPRETER_SECONDS, complain
from explain.difference import command as difference
from explain.experiment import Experiment, ParameterError
from explain.gpus import DEFAULT, GPUS
from explain.puzzles import command as puzzles
from explain.recordings import chapter_traces, latency, tile_costs, timelines, traced, tuning, verification
from explain.records import registry
from explain.records.plans import PLANS
from explain.trace.model import MAX_BYTES, MAX_STEPS
from explain.workers import WorkerDied, WorkerError, WorkerFailed
from kernels.catalog import TAUGHT

RECORDERS: Mapping[str, ModuleType] = {
    "traces": chapter_traces,
    "bytes": traced,
    "tile-costs": tile_costs,
    "tuning": tuning,
    "verification": verification,
    "timelines": timelines,
    "latency": latency,
}
"""What `record` makes, and the module that makes it."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; the exit status."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # α on a terminal that has none
    parsed = _parser().parse_args(arguments)
    try:
        return parsed.command(parsed)
    except ParameterError as error:
        return complain(str(error), BAD_ARGUMENTS)
    except WorkerFailed as error:
        status = BAD_ARGUMENTS if error.type in ("BadTarget", "ParameterError") else FAILED
        return complain(do.with_remedy(error, parsed), status)
    except BrokenPipeError:  # `… | head` has read enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 0
    except WorkerDied as error:
        return complain(f"{error}\n{error.output}".strip(), FAILED)
    except WorkerError as error:
        return complain(do.with_remedy(error, parsed), FAILED)
    except OSError as error:
        return complain(str(error), FAILED)
    except KeyboardInterrupt:
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m explain", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(name: str, run: Callable[[argparse.Namespace], int], help: str) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=help, description=help)
        sub.set_defaults(command=run)
        sub.add_argument("--json", action="store_true", help="print one JSON object and nothing else")
        return sub

    command("list", do.list_kernels, "List the kernels, their parameters and the input presets.")

    run = command("run", do.run, "Run a kernel, check it against float64, and count its traffic.")
    run.add_argument("kernel", metavar="KERNEL", help=f"one of {', '.join(TAUGHT)}")
    run.add_argument(
        "--backend", choices=("auto", "interpreter", "cuda"), default="auto", help="auto: cuda where there is a GPU"
    )
    _add_whole(run)
    Experiment.add_arguments(run)
    _add_limits(run)

    trace = command(
        "trace", do.trace, "Record a kernel line by line, or the kernels that a function of any Python file launches."
    )
    trace.add_argument(
        "target", metavar="TARGET", help="a kernel of the list, or path/to/file.py, with :function, else as a script"
    )
    trace.add_argument("--out", type=Path, required=True, metavar="FILE", help="the trace file to write")
    trace.add_argument("--only", action="store_true", help="of a file's kernels, run no programs but these")
    _add_recording(trace)
    _add_whole(trace)
    Experiment.add_arguments(trace)
    _add_limits(trace)

    check = command("check", do.check, "Find what is wrong in the kernels that a function of any Python file launches.")
    check.add_argument(
        "target", metavar="TARGET", help="a kernel of the list, or path/to/file.py, with :function, else as a script"
    )
    at = (
        "judge the addresses where the function, or the kernel, gets this argument, without the memory; may be repeated"
    )
    check.add_argument("--at", action="append", default=[], metavar="NAME=VALUE", help=at)
    check.add_argument("--out", type=Path, metavar="FILE", help="also write the trace, with its findings")
    _add_recording(check)
    _add_whole(check)
    Experiment.add_arguments(check)
    _add_limits(check)

    debug = command(
        "debug", do.debug, "Check the kernels of a Python file, and open the app on the run, at what is wrong with it."
    )
    debug.add_argument(
        "target", metavar="TARGET", help="path/to/file.py, with :function, else as a script; or a kernel of the list"
    )
    debug.add_argument("--out", type=Path, metavar="FILE", help="also keep the trace, with its findings")
    debug.add_argument("--no-open", action="store_true", help="open no browser; say the address")
    debug.add_argument("--port", type=_whole, metavar="N", help="the app's port; default: a free one")
    _add_recording(debug)
    _add_whole(debug)
    Experiment.add_arguments(debug)
    _add_limits(debug)

    compile_ = command(
        "compile", do.compile, "Compile a kernel for a GPU you don't have: shared memory, registers, spills, occupancy."
    )
    compile_.add_argument(
        "target", metavar="TARGET", help="a kernel of the list, or path/to/file.py, with :function, else as a script"
    )
    compile_.add_argument("--gpu", choices=GPUS, default=DEFAULT, help=f"compile for this GPU ({DEFAULT})")
    Experiment.add_arguments(compile_)
    _add_limits(compile_)
    export = command(
        "export", do.export, "Write a run to one file: an HTML page that opens without a server, or its trace."
    )
    export.add_argument("target", metavar="TARGET", help="a kernel of the list, or a trace file")
    names = f"the file to write; its name ends in {' or '.join(EXPORTS)}"
    export.add_argument("--out", type=Path, required=True, metavar="FILE", help=names)
    export.add_argument(
        "--step",
        default="",
        metavar="N",
        help="the step the page opens on, from 0; default: the one that failed, the first error, or 0",
    )
    Experiment.add_arguments(export)

    diff = command("diff", difference.run, difference.HELP)
    difference.add_arguments(diff)
    Experiment.add_arguments(diff)
    _add_limits(diff)

    puzzles.add_commands(commands, _positive)

    tour = command("tour", do.tour, "Show a tour's run sheet, or write the tour as slides or as a page to take along.")
    names = f"a tour file, or one of {', '.join(tours.files())}; a chapter's name alone means its first"
    tour.add_argument("target", metavar="TOUR", help=names)
    slides = "slides, a caption on each; Chrome or Chromium prints them"
    tour.add_argument("--pdf", type=Path, metavar="FILE", help=slides)
    tour.add_argument("--html", type=Path, metavar="FILE", help="a page that plays the tour without a server")

    plans = "; ".join(f"{plan.name}: {plan.about}" for plan in PLANS.values())
    help = "Measure kernels on this GPU: time, memory, bytes moved. The pages show the file it writes. Or a file's."
    measure = command("measure", do.measure, help)
    only = "only these kernels; default: all. Or one path/to/file.py:function: all that it launches is measured"
    measure.add_argument("kernels", nargs="*", metavar="KERNEL", help=only)
    measure.add_argument(
        "--plan", action="append", choices=PLANS, help=f"a plan to measure, may be repeated; default: all. {plans}"
    )
    measure.add_argument(
        "--out", type=Path, metavar="DIR", help=f"the folder of the GPU's file ({registry.own_folder()})"
    )
    _add_limits(measure, megabytes=16000.0)

    command("doctor", do.doctor, "Check this machine: what works, what is missing, and how to fix it.")
    help = "Serve the app to a lecture hall: several processes behind nginx, with TLS (docs/hall.md)."
    hall = commands.add_parser("hall", help=help, description=help)
    hall.set_defaults(command=do.hall)
    hall.add_argument("name", metavar="NAME", help="the host's name, or its IPv4 address, as readers type it")
    hall.add_argument("--processes", type=_whole, default=4, metavar="N", help="how many; each uses one core (4)")
    hall.add_argument("--port", type=_whole, default=8443, metavar="N", help="where readers ask (8443)")
    hall.add_argument("--address", default="0.0.0.0", metavar="IP", help="this machine's address to listen at (all)")
    hall.add_argument(
        "--certificate", type=Path, metavar="FILE", help="for NAME, PEM, with its chain; default: makes one"
    )
    hall.add_argument("--key", type=Path, metavar="FILE", help="the certificate's key, PEM")

    help = "Record what ships with Tilescope: the app shows it on machines without Triton or a GPU."
    recorders = commands.add_parser("record", help=help, description=help).add_subparsers(required=True, metavar="WHAT")
    for name, module in RECORDERS.items():
        lines = (module.__doc__ or "").split("\n\n")
        sub = recorders.add_parser(name, help=lines[0].replace("\n", " "), description=module.__doc__)
        sub.set_defaults(command=module.run)
        if options := getattr(module, "add_arguments", None):
            options(sub)

    stale = command(
        "results", do.committed_results, "List the committed results, and which are stale: measured on older code."
    )
    stale.add_argument("--stale", action="store_true", help="only the stale ones")
    return parser


def _add_recording(parser: argparse.ArgumentParser) -> None:
    programs = 'the programs to record: all, first, or ids such as "0,0,0 1,0,0" or 0:4; all are counted'
    parser.add_argument("--programs", default="all", help=programs)
    parser.add_argument(
        "--max-steps", type=_whole, default=MAX_STEPS, metavar="N", help=f"record at most N steps ({MAX_STEPS:,})"
    )
    most = MAX_BYTES / 1e6
    values = f"record at most so many megabytes of values ({most:.0f})"
    parser.add_argument("--max-values", type=_positive, default=most, metavar="MB", help=values)
    parser.add_argument(
        "--tf32", action="store_true", help="round the float32 inputs of tl.dot to TF32, where a GPU does"
    )


def _add_whole(parser: argparse.ArgumentParser) -> None:
    help = (
        f"interpret all programs of a kernel of the list; without it, a part if all take over {INTERPRETER_SECONDS:g} s"
    )
    parser.add_argument("--whole", action="store_true", help=help)


def _add_limits(parser: argparse.ArgumentParser, megabytes: float = 8000.0) -> None:
    parser.add_argument("--seconds", type=_positive, default=300.0, help="stop the run after this many seconds (300)")
    parser.add_argument(
        "--megabytes", type=_positive, default=megabytes, help=f"stop the run above this much memory ({megabytes:.0f})"
    )


def _whole(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text}: must be a whole number above 0")
    return int(text)


def _positive(text: str) -> float:
    value = float(text)
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"{text}: must be a number above 0")
    return value
