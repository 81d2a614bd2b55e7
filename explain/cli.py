"""Tilescope on the command line: list, run, trace, check, debug, export, compile, measure and write kernels.

Exit status: 0 done · 1 the result exceeds its tolerance, two runs differ, or a check found an error · 2 bad arguments ·
3 the run failed; the message says why.
"""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Mapping, Sequence
from types import ModuleType

from explain.commands import check, compile, export, machine, measure, run, trace
from explain.commands.console import BAD_ARGUMENTS, FAILED, complain, with_remedy
from explain.difference import command as difference
from explain.experiment import ParameterError
from explain.puzzles import command as puzzles
from explain.recordings import chapter_traces, latency, tile_costs, timelines, traced, tuning, verification
from explain.workers import WorkerDied, WorkerError, WorkerFailed

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
        return complain(with_remedy(error, parsed), status)
    except BrokenPipeError:  # `… | head` has read enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 0
    except WorkerDied as error:
        return complain(f"{error}\n{error.output}".strip(), FAILED)
    except WorkerError as error:
        return complain(with_remedy(error, parsed), FAILED)
    except OSError as error:
        return complain(str(error), FAILED)
    except KeyboardInterrupt:
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m explain", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for module in (run, trace, check, compile, export, difference, puzzles, measure, machine):
        module.add_to(commands)
    help = "Record what ships with Tilescope: the app shows it on machines without Triton or a GPU."
    recorders = commands.add_parser("record", help=help, description=help).add_subparsers(required=True, metavar="WHAT")
    for name, recorder in RECORDERS.items():
        lines = (recorder.__doc__ or "").split("\n\n")
        sub = recorders.add_parser(name, help=lines[0].replace("\n", " "), description=recorder.__doc__)
        sub.set_defaults(command=recorder.run)
        if options := getattr(recorder, "add_arguments", None):
            options(sub)
    return parser
