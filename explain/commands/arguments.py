"""Arguments that several commands take, and what they say once they are parsed."""

from __future__ import annotations

import argparse
import itertools
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

from explain.experiment import Experiment, ParameterError
from explain.trace.file import is_replaceable
from explain.trace.model import MAX_BYTES, MAX_STEPS
from kernels.catalog import KERNELS

EXPORTED_PAGE = " · Tilescope</title>".encode()
MAX_PROGRAMS = 100_000
INTERPRETER_SECONDS = 10.0
"""A kernel that takes Triton's interpreter longer is run in part, unless all of it is asked for."""
TARGET = "a kernel of the list, or path/to/file.py, with :function, else as a script"


def command(commands: Any, name: str, run: Callable[[argparse.Namespace], int], help: str) -> argparse.ArgumentParser:
    """A command of a parser's commands, with --json."""
    parser: argparse.ArgumentParser = commands.add_parser(name, help=help, description=help)
    parser.set_defaults(command=run)
    parser.add_argument("--json", action="store_true", help="print one JSON object and nothing else")
    return parser


def add_recording(parser: argparse.ArgumentParser) -> None:
    """Adds which programs of a target run, which of them are recorded, and the limits of both."""
    programs = 'the programs to record: all, first, or ids such as "0,0,0 1,0,0" or 0:4; all are counted'
    parser.add_argument("--programs", default="all", help=programs)
    parser.add_argument(
        "--max-steps", type=whole, default=MAX_STEPS, metavar="N", help=f"record at most N steps ({MAX_STEPS:,})"
    )
    most = MAX_BYTES / 1e6
    values = f"record at most so many megabytes of values ({most:.0f})"
    parser.add_argument("--max-values", type=positive, default=most, metavar="MB", help=values)
    parser.add_argument(
        "--tf32", action="store_true", help="round the float32 inputs of tl.dot to TF32, where a GPU does"
    )
    add_run(parser)


def add_run(parser: argparse.ArgumentParser) -> None:
    """Adds the experiment of a kernel of the list, whether all its programs run, and the limits of the run."""
    help = (
        f"interpret all programs of a kernel of the list; without it, a part if all take over {INTERPRETER_SECONDS:g} s"
    )
    parser.add_argument("--whole", action="store_true", help=help)
    Experiment.add_arguments(parser)
    add_limits(parser)


def add_limits(parser: argparse.ArgumentParser, megabytes: float = 8000.0) -> None:
    """Adds the limits of a run's time and memory."""
    parser.add_argument("--seconds", type=positive, default=300.0, help="stop the run after this many seconds (300)")
    parser.add_argument(
        "--megabytes", type=positive, default=megabytes, help=f"stop the run above this much memory ({megabytes:.0f})"
    )


def whole(text: str) -> int:
    """A whole number above 0."""
    if not text.isascii() or not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text}: must be a whole number above 0")
    return int(text)


def positive(text: str) -> float:
    """A number above 0."""
    value = float(text)
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"{text}: must be a number above 0")
    return value


def file_of(parsed: argparse.Namespace) -> tuple[Path | None, str]:
    """The file and the function of a target, "" for a script; (None, "") of a kernel of the list."""
    path, colon, function = parsed.target.rpartition(":")
    if not colon and parsed.target.endswith(".py"):  # runs as a script
        path, colon, function = parsed.target, ":", ""
    if parsed.target in KERNELS or not colon:
        return None, ""
    if parsed.set or parsed.inputs or parsed.seed != "0" or getattr(parsed, "whole", False):
        own = "the function makes its own inputs, and all its programs run"
        raise ParameterError("target", parsed.target, f"takes no --set, --inputs, --seed or --whole: {own}")
    return Path(path), function


def check_out(out: Path) -> None:
    """Raises ParameterError if `out` cannot be written, or if there is another file that is not a run's."""
    if not out.parent.is_dir():
        raise ParameterError("--out", out, "must be in a folder that exists")
    if not is_replaceable(out) and not (out.suffix == ".html" and EXPORTED_PAGE in out.read_bytes()):
        raise ParameterError("--out", out, "exists and is not a file of Tilescope: choose another name, or delete it")


def parse_programs(text: str) -> str | list[list[int]]:
    """ "all", "first", or the ids in text such as "0,0,0 1,0,0" or "0:4,2": x from 0 to 3, y 2, z 0.

    Raises ParameterError.
    """
    if text in ("all", "first"):
        return text
    try:
        places = [[_range(part) for part in word.split(",")] for word in text.split()]
    except ValueError:
        places = []
    count = sum(math.prod(map(len, place)) for place in places)
    if not count or any(len(place) > 3 or min(part.start for part in place) < 0 for place in places):
        allowed = 'must be all, first, or ids such as "0,0,0 1,0,0" or "0:4", which is programs 0 to 3'
        raise ParameterError("--programs", text, allowed)
    if count > MAX_PROGRAMS:
        raise ParameterError("--programs", text, f"names {count:,} programs: at most {MAX_PROGRAMS:,}")
    return [list(one) for place in places for one in itertools.product(*place, *[range(1)] * (3 - len(place)))]


def _range(text: str) -> range:
    """The numbers of "3", or of "0:4"."""
    start, colon, end = text.partition(":")
    return range(int(start), int(end) if colon else int(start) + 1)
