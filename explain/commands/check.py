"""`check` and `debug`: what is wrong with the kernels of a target, printed, or shown in the app."""

from __future__ import annotations

import argparse
import ast
from contextlib import closing
from pathlib import Path
from typing import Any

from explain.app_process import AppError, has_screen, serving
from explain.commands.arguments import TARGET, add_recording, check_out, command, file_of, parse_programs, whole
from explain.commands.console import FAILED, complain, ended_by_sigterm, print_json, print_part, progress_line
from explain.commands.trace import STOPPING_SECONDS, recorded, stopped
from explain.engine import Engine, scratch
from explain.experiment import Experiment, ParameterError
from explain.trace.file import TraceFile
from explain.trace.model import SORTS

FOUND = 1


def add_to(commands: Any) -> None:
    help = "Find what is wrong in the kernels that a function of any Python file launches."
    parser = command(commands, "check", check, help)
    parser.add_argument("target", metavar="TARGET", help=TARGET)
    at = (
        "judge the addresses where the function, or the kernel, gets this argument, without the memory; may be repeated"
    )
    parser.add_argument("--at", action="append", default=[], metavar="NAME=VALUE", help=at)
    parser.add_argument("--out", type=Path, metavar="FILE", help="also write the trace, with its findings")
    add_recording(parser)
    help = "Check the kernels of a Python file, and open the app on the run, at what is wrong with it."
    parser = command(commands, "debug", debug, help)
    parser.add_argument("target", metavar="TARGET", help=TARGET)
    parser.add_argument("--out", type=Path, metavar="FILE", help="also keep the trace, with its findings")
    parser.add_argument("--no-open", action="store_true", help="open no browser; say the address")
    parser.add_argument("--port", type=whole, metavar="N", help="the app's port; default: a free one")
    add_recording(parser)


def check(parsed: argparse.Namespace) -> int:
    if parsed.at:
        return _check_at(parsed)
    if parsed.out:
        check_out(parsed.out)
    said, _ = recorded(parsed, parse_programs(parsed.programs), checks=True)
    if parsed.json:
        print_json(_findings(said))
    else:
        _print_checked(said, parsed.out)
    return _status(said)


def _check_at(parsed: argparse.Namespace) -> int:
    """Checks the addresses at the sizes that the function is called with."""
    path, function = file_of(parsed)
    if (path is not None and not function) or parsed.out:
        what = "is for path/to/file.py:function or a kernel of the list, and writes no trace"
        raise ParameterError("--at", " ".join(parsed.at), what)
    arguments = dict(map(_argument, parsed.at))
    limits = {"seconds": parsed.seconds + STOPPING_SECONDS, "megabytes": parsed.megabytes}
    options = {"seconds": parsed.seconds}
    if path is None:
        parsed.set += parsed.at
        experiment = Experiment.from_parsed(parsed.target, parsed)
        if experiment.entry.make is not None:
            words = "its inputs are results of another kernel: they cannot be without values"
            raise ParameterError("--at", parsed.target, words)
    with closing(Engine()) as engine, progress_line() as progress:
        if path is None:
            said = engine.at_sizes_of(experiment, options=options, progress=progress, **limits)
        else:
            said = engine.at_sizes(path, function, arguments, options=options, progress=progress, **limits)
    errors, where = len(said["findings"]), " ".join(parsed.at)
    if parsed.json:
        print_json(said | {"errors": errors, "at": arguments})
    else:
        print(said["output"], end="")
        for one in said["findings"]:
            _print_finding(one)
        for launch in said["launches"]:
            ran = ", ".join(str(tuple(program)) for program in launch["programs"])
            held = f"its tensors have {launch['tensor_bytes']:,} bytes"
            print(f"{launch['kernel']} on grid {tuple(launch['grid'])}, {held}; programs that ran: {ran}")
        print(f"{_counted_words(errors, 'error')} in addresses at {where}")
        if said["stopped"]:
            print(f"After the launches: {said['stopped']}")
        if said["failure"]:
            complain(said["failure"], FAILED)
    return FOUND if errors else FAILED if said["failure"] else 0


def _argument(text: str) -> tuple[str, object]:
    """The name and the value of "seq_len=131072"; a value that is no Python literal is a text."""
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise ParameterError("--at", text, "must be NAME=VALUE")
    try:
        return name, ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return name, value


def debug(parsed: argparse.Namespace) -> int:
    """Records and checks, and shows the run in the app until it is ended."""
    opens = not parsed.no_open and has_screen()
    with scratch() as folder:
        if parsed.out:
            check_out(parsed.out)
        kept, parsed.out = parsed.out, parsed.out or Path(folder) / "run.tilescope"
        said, _ = recorded(parsed, parse_programs(parsed.programs), checks=True)
        if not parsed.json:
            _print_checked(said, kept)
        step = TraceFile(parsed.out.read_bytes()).trace.report.worst or 0
        try:
            with ended_by_sigterm(), serving([parsed.out], parsed.port, opens) as (address, app):
                if parsed.json:
                    print_json(_findings(said) | {"address": address, "step": step})
                else:
                    where = "In your browser" if opens else "Open it in a browser of this machine"
                    print(f"{where}, at step {step:,}: {address}\nCtrl+C ends the app.", flush=True)
                app.wait()
        except KeyboardInterrupt:  # how a reader ends it
            pass
        except AppError as error:
            return complain(str(error), FAILED)
    return _status(said)


def _findings(said: dict[str, Any]) -> dict[str, Any]:
    findings = said["report"]["findings"]
    errors = sum(one["error"] for one in findings)
    return {
        "findings": findings, "errors": errors, "failure": said["report"]["failure"], "launches": said["launches"],
        "part": said.get("part"),
    }  # fmt: skip


def _status(said: dict[str, Any]) -> int:
    answer = _findings(said)
    return FOUND if answer["errors"] else FAILED if answer["failure"] else 0


def _print_checked(said: dict[str, Any], kept: Path | None) -> None:
    report = said["report"]
    print(report["output"], end="")
    findings = sorted(report["findings"], key=lambda one: not one["error"])
    for one in findings:
        _print_finding(one)
    errors = sum(one["error"] for one in findings)
    launched = ", ".join(dict.fromkeys(launch["kernel"] for launch in said["launches"]))
    print(f"{launched}: {_counted_words(errors, 'error')}, {_counted_words(len(findings) - errors, 'hint')}")
    print_part(said.get("part"))
    if kept:
        print(f"{kept}: {said['steps']:,} steps, with the findings")
    if report["failure"]:
        complain(stopped(report["failure"]), FAILED)


def _counted_words(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def _print_finding(one: dict[str, Any]) -> None:
    sort = SORTS[one["sort"]].title
    place = f"{one['kernel']}, line {one['line']}, program {tuple(one['program'])}"
    print(f"{'ERROR' if one['error'] else 'hint'}  {sort}: {place}\n  {one['words']}.")
    if one["remedy"]:
        print(f"  → {one['remedy']}")
