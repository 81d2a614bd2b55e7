"""What each command of `python -m explain` does: it returns the exit status."""

from __future__ import annotations

import argparse
import ast
import functools
import itertools
import json
import math
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from explain import ROOT, tours
from explain import doctor as looking
from explain.app_process import AppError, has_screen, serving
from explain.browser import NoBrowserError
from explain.compile.cost import occupancy, too_large
from explain.compile.service import Compiler
from explain.engine import Engine, TraceRun, scratch
from explain.experiment import Experiment, ParameterError
from explain.gpus import GPUS
from explain.hall import Hall, HallError, serve
from explain.own_file import report
from explain.own_file import service as own_file
from explain.plain import plain
from explain.records import measure as measuring
from explain.records import registry, results
from explain.records.code import stale_words
from explain.records.file import RecordFileError
from explain.records.plans import PLANS
from explain.trace.errors import TookTooLong
from explain.trace.file import TraceFile, TraceFileError, is_replaceable
from explain.trace.model import SORTS
from explain.workers import WorkerError, WorkerFailed, WorkerOutOfMemory, WorkerPool, WorkerTimeout
from kernels.catalog import KERNELS, TAUGHT
from kernels.inputs import PRESETS
from kernels.museum import EXHIBITS
from kernels.recipes import EXAMPLE, SETTINGS

EXPORTS = (".html", ".tilescope")
EXPORTED_PAGE = " · Tilescope</title>".encode()
OVER_TOLERANCE, BAD_ARGUMENTS, FAILED = 1, 2, 3
TOO_LARGE = FOUND = 1
STOPPING_SECONDS = 60
NOTHING_LAUNCHED = "no Triton kernel was launched"
MAX_PROGRAMS = 100_000
INTERPRETER_SECONDS = 10.0
"""A kernel that takes Triton's interpreter longer is run in part, unless all of it is asked for."""


def list_kernels(parsed: argparse.Namespace) -> int:
    kernels: list[dict[str, Any]] = [
        {name: getattr(kernel, name) for name in ("name", "title", "idea", "family", "wrong", "inputs")}
        | {
            "parameters": {
                one.name: {"default": default, "allowed": one.allowed, "help": one.help}
                for one, default in zip(kernel.parameters, Experiment.of(kernel.name).values.values(), strict=True)
            }
        }
        for kernel in TAUGHT.values()
    ]
    if parsed.json:
        presets = {preset.name: preset.help for preset in PRESETS.values()}
        broken = {exhibit.kernel: exhibit.title for exhibit in EXHIBITS.values()}
        return print_json({"kernels": kernels, "presets": presets, "broken": broken})
    for kernel in kernels:
        wrong = f"  WRONG ON PURPOSE: {kernel['wrong']}." if kernel["wrong"] else ""
        print(f"{kernel['name']:<26}{kernel['idea']}{wrong}")
        defaults = " ".join(f"{name}={spec['default']}" for name, spec in kernel["parameters"].items())
        print(f"{'':<26}{defaults}\n")
    print("Broken on purpose, by one line (chapter What breaks)")
    for exhibit in EXHIBITS.values():
        causal = " --set causal=true" if exhibit.sizes.get("causal") else ""
        shown = "no input shows it" if exhibit.harmless else f"shown by --inputs {exhibit.shown_by}{causal}"
        print(f"  {exhibit.kernel:<38}{exhibit.title}; {shown}")
    print("\nInput presets")
    for preset in PRESETS.values():
        print(f"  {preset.name:<22}{preset.help}")
    print(f"  {EXAMPLE}  a recipe of your own; its settings: {', '.join(SETTINGS)}")
    return 0


def run(parsed: argparse.Namespace) -> int:
    experiment = Experiment.from_parsed(parsed.kernel, parsed)
    with closing(Engine()) as engine, progress_line() as progress:
        backend = parsed.backend
        if backend != "interpreter":
            status = engine.device()
            if backend == "cuda" and not status.available:
                return complain(f"--backend=cuda: {status.reason}", BAD_ARGUMENTS)
            backend = "cuda" if status.available else "interpreter"
        limits = {"seconds": parsed.seconds, "megabytes": parsed.megabytes, "progress": progress}
        options = {} if parsed.whole else {"budget": INTERPRETER_SECONDS}
        if backend == "cuda":
            result = plain(engine.measure(experiment, **limits))
            traced = _counted(engine, experiment, parsed, options=options, **limits)
        else:
            result = traced = engine.check(experiment, options=options, **limits)
    formula = experiment.traffic
    answer = {
        "experiment": experiment.to_json(),
        "backend": backend,
        "error": _number(float(result["error"])),
        "tolerance": _number(float(result["tolerance"])),
        "within_tolerance": result["within_tolerance"],
        "output": result["output"],
        "traffic": {"formula": formula.totals(), "traced": traced and _of_whole(traced)},
        "part": traced and traced["part"],
    }
    if backend == "cuda":
        answer |= {"timing": result["timing"], "provenance": result["provenance"]}
    if parsed.json:
        print_json(answer)
    else:
        _print_run(experiment, answer)
    return 0 if answer["within_tolerance"] else OVER_TOLERANCE


def _counted(
    engine: Engine, experiment: Experiment, parsed: argparse.Namespace, **limits: Any
) -> dict[str, Any] | None:
    """The trace's counts for a run on the GPU; None if the run is too large to interpret within the limits."""
    try:
        return engine.check(experiment, **limits)
    except (WorkerTimeout, WorkerOutOfMemory) as error:
        why = with_remedy(error, parsed)
    except WorkerFailed as error:
        if error.type != TookTooLong.__name__:
            raise
        why = with_remedy(error, parsed)
    print(f"explain: traffic is not traced: {why}", file=sys.stderr)
    return None


def _of_whole(traced: dict[str, Any]) -> dict[str, int] | None:
    """The counts of all programs. None if the part that ran does not represent them."""
    times = traced["part"]["times"] if traced["part"] else 1
    return {name: times * count for name, count in traced["traffic"].items()} if times else None


def with_remedy(error: WorkerError, parsed: argparse.Namespace) -> str:
    """The message, with the option or the argument that helps if there is one."""
    message = error.message if isinstance(error, WorkerFailed) else str(error).removesuffix(".")
    match error:
        case WorkerFailed(type=TookTooLong.__name__) if "--seconds" not in message:  # of a file's run it says more
            return f"{message}; --whole runs them, or set smaller sizes"
        case WorkerFailed() if message.startswith(NOTHING_LAUNCHED) and parsed.target.endswith(".py"):
            said = f"{NOTHING_LAUNCHED}: it ran as a script; {parsed.target}:FUNCTION calls a function of it"
            return message.replace(NOTHING_LAUNCHED, said, 1)
        case WorkerOutOfMemory() if hasattr(parsed, "megabytes"):
            return f"{message}: raise --megabytes"
        case WorkerTimeout() if hasattr(parsed, "seconds"):
            return f"{message}: raise --seconds"
    return message


def _print_part(part: dict[str, Any] | None) -> None:
    if part:
        print(f"{part['why']}. It ran a part: {part['words']} (--whole runs all)")


def _print_run(experiment: Experiment, answer: dict[str, Any]) -> None:
    where = "Triton's CPU interpreter" if answer["backend"] == "interpreter" else answer["provenance"]["gpu"]
    where += ", in part" if answer["backend"] == "interpreter" and answer["part"] else ""
    verdict = "within its tolerance" if answer["within_tolerance"] else "EXCEEDS its tolerance"
    print(" ".join(experiment.to_arguments()))
    print(f"on {where}: error {answer['error']} of {answer['tolerance']} allowed, in {answer['output']}: {verdict}")
    if experiment.entry.wrong and not answer["within_tolerance"]:
        print(f"This kernel is wrong on purpose: {experiment.entry.wrong}.")
    _print_part(answer["part"])
    if timing := answer.get("timing"):
        print(f"median {timing['median_ms']:.4f} ms over {timing['launches']} launches ({timing['method']})")
    print(f"{'':<10}{'bytes read':>16}{'bytes written':>16}{'FLOPs':>18}")
    for witness, counts in answer["traffic"].items():
        if counts is not None:
            print(f"{witness:<10}{counts['read_bytes']:>16,}{counts['written_bytes']:>16,}{counts['flops']:>18,}")


def trace(parsed: argparse.Namespace) -> int:
    check_out(parsed.out)
    said, experiment = _recorded(parsed, parse_programs(parsed.programs))
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
    _print_part(answer.get("part"))
    return complain(_stopped(failure), FAILED) if failure else 0


def check(parsed: argparse.Namespace) -> int:
    if parsed.at:
        return _check_at(parsed)
    if parsed.out:
        check_out(parsed.out)
    said, _ = _recorded(parsed, parse_programs(parsed.programs), checks=True)
    if parsed.json:
        print_json(_findings(said))
    else:
        _print_checked(said, parsed.out)
    return _status(said)


def _check_at(parsed: argparse.Namespace) -> int:
    """Checks the addresses at the sizes that the function is called with."""
    path, function = _file_of(parsed)
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
        said, _ = _recorded(parsed, parse_programs(parsed.programs), checks=True)
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


def hall(parsed: argparse.Namespace) -> int:
    """Serves a hall until it is ended."""
    try:
        asked = Hall(parsed.name, parsed.address, parsed.port, parsed.processes, parsed.certificate, parsed.key)
        with ended_by_sigterm(), scratch() as folder:
            for said in serve(asked, Path(folder)):
                print(said, flush=True)
    except KeyboardInterrupt:  # how a lecturer ends it
        return 0
    except HallError as error:
        return complain(str(error), FAILED)
    raise AssertionError("serve ends by an error only")


@contextmanager
def ended_by_sigterm() -> Iterator[None]:
    """While open, SIGTERM ends this process as Ctrl+C does, so that what it started ends with it."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


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
    _print_part(said.get("part"))
    if kept:
        print(f"{kept}: {said['steps']:,} steps, with the findings")
    if report["failure"]:
        complain(_stopped(report["failure"]), FAILED)


def _counted_words(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def _print_finding(one: dict[str, Any]) -> None:
    sort = SORTS[one["sort"]].title
    place = f"{one['kernel']}, line {one['line']}, program {tuple(one['program'])}"
    print(f"{'ERROR' if one['error'] else 'hint'}  {sort}: {place}\n  {one['words']}.")
    if one["remedy"]:
        print(f"  → {one['remedy']}")


def _stopped(failure: dict[str, Any]) -> str:
    return f"{failure['message']}\n{failure['traceback']}\nThe trace ends there, at step {failure['step']:,}"


def _recorded(parsed: argparse.Namespace, programs: object, **options: Any) -> tuple[dict[str, Any], Experiment | None]:
    """What the trace worker answers about the target, and the experiment if the target is a kernel of the list.

    Raises ParameterError and WorkerError.
    """
    limits = {"seconds": parsed.seconds, "megabytes": parsed.megabytes}
    options |= {"max_steps": parsed.max_steps, "max_bytes": int(parsed.max_values * 1e6), "tf32": parsed.tf32}
    path, function = _file_of(parsed)
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


def _file_of(parsed: argparse.Namespace) -> tuple[Path | None, str]:
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


def export(parsed: argparse.Namespace) -> int:
    from explain.player.component import Run
    from explain.player.export import standalone_html  # brings Streamlit, which the other commands do without
    from explain.player.view import view_of

    if parsed.out.suffix not in EXPORTS:
        made_in_browser = ".png, .svg and .webm are made by the Export menu of the player, there and in the page"
        raise ParameterError("--out", parsed.out, f"must end in {' or '.join(EXPORTS)}; {made_in_browser}")
    check_out(parsed.out)
    run = _recorded_run(parsed)
    try:
        trace = run.trace
    except TraceFileError as error:
        raise ParameterError("target", parsed.target, f"cannot be read: {error}") from None
    asked = parsed.step or str(trace.report.worst or 0)
    step = int(asked) if asked.isascii() and asked.isdecimal() else -1
    if not 0 <= step < trace.steps:
        raise ParameterError("--step", asked, f"must be a whole number from 0 to {trace.steps - 1}")
    if parsed.out.suffix == ".html":
        parsed.out.write_text(standalone_html([Run(run, view_of(trace, run.origin))], step), encoding="utf-8")
    else:
        parsed.out.write_bytes(run.data)
    answer = {"file": str(parsed.out), "file_bytes": parsed.out.stat().st_size, "steps": trace.steps, "step": step}
    if parsed.json:
        return print_json(answer | {"experiment": trace.experiment})
    print(f"{parsed.out}: {answer['file_bytes']:,} bytes, {trace.steps:,} steps")
    return 0


def tour(parsed: argparse.Namespace) -> int:
    from explain.slides import SlidesError, page_of, pdf_of  # brings Streamlit, which the other commands do without

    try:
        one = tours.named(parsed.target)
    except tours.TourError as error:
        return complain(f"{error}; the tours are {', '.join(tours.files())}", BAD_ARGUMENTS)
    files = {"--html": parsed.html, "--pdf": parsed.pdf}
    for option, path in files.items():
        if path and not path.parent.is_dir():
            raise ParameterError(option, path, "must be in a folder that exists")
    try:
        with closing(Engine()) as engine, progress_line() as progress:
            content, page = page_of(one, engine, progress)
        if parsed.html:
            parsed.html.write_text(page, encoding="utf-8")
        if parsed.pdf:
            parsed.pdf.write_bytes(pdf_of(page))
    except tours.TourError as error:
        return complain(str(error), BAD_ARGUMENTS)
    except (NoBrowserError, SlidesError, ValueError) as error:
        return complain(f"--pdf: {error}. Or write --html FILE, open it and print it: each caption is a page", FAILED)
    written = {str(path): path.stat().st_size for path in files.values() if path}
    if parsed.json:
        return print_json({"minutes": one.minutes, "files": written, **content})
    for i, caption in enumerate(content["captions"], 1):
        print(f"{i:>2}. {caption['minutes']:g} min  {caption['text']}\n{'':>12}{caption['say']}")
    for path, size in written.items():
        print(f"{path}: {size:,} bytes")
    return 0


def _recorded_run(parsed: argparse.Namespace) -> TraceRun:
    """The run to export: of a trace file, or of a kernel, recorded or made now."""
    if parsed.target in TAUGHT:
        with closing(Engine()) as engine, progress_line() as progress:
            return engine.trace(Experiment.from_parsed(parsed.target, parsed), progress)
    path = Path(parsed.target)
    if not path.is_file():
        raise ParameterError("target", parsed.target, f"must be a trace file, or one of {', '.join(TAUGHT)}")
    if parsed.set or parsed.inputs or parsed.seed != "0":
        raise ParameterError("target", parsed.target, "takes no --set, --inputs or --seed: the file holds its run")
    return TraceRun(path.read_bytes(), "recorded")


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


def compile(parsed: argparse.Namespace) -> int:
    path, function = _file_of(parsed)
    experiment, gpu = None if path else Experiment.from_parsed(parsed.target, parsed), GPUS[parsed.gpu]
    with closing(Compiler()) as compiler, progress_line() as progress:
        limits = {"seconds": parsed.seconds, "megabytes": parsed.megabytes, "progress": progress}
        if path is not None:
            cost = compiler.compile_file(path, function, gpu.compute_capability, **limits)
        else:
            assert experiment is not None
            cost = compiler.compile(experiment, gpu.compute_capability, **limits)
    refused = [words for launch in cost.launches if (words := too_large(launch, gpu))]
    held = [occupancy(launch, gpu) for launch in cost.launches]
    if parsed.json:
        fits = [{"programs_on_an_sm": one.programs, "limited_by": one.limit} for one in held]
        answer = {
            "experiment": experiment and experiment.to_json(),
            "gpu": gpu.name,
            "cost": plain(cost),
            "occupancy": fits,
        }
        print_json({**answer, "too_large": refused})
    else:
        print(f"compiled for the {gpu.name} ({gpu.target}) by triton {cost.triton}, ptxas {cost.ptxas}; not run")
        for launch, one in zip(cost.launches, held, strict=True):
            print(
                f"  {launch.kernel}: {launch.shared_bytes:,} bytes of shared memory, "
                f"{launch.registers} registers per thread, {launch.spill_store_bytes:,} bytes spilled, "
                f"{launch.num_warps} warps; {one.programs} programs per SM, limited by {one.limit}; "
                f"compiled in {launch.seconds:.1f} s"
            )
        for words in refused:
            print(words.replace("`", ""))
    return TOO_LARGE if refused else 0


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


def doctor(parsed: argparse.Namespace) -> int:
    findings = list(looking.examine())
    if parsed.json:
        print_json({"findings": [finding.__dict__ for finding in findings]})
    else:
        for finding in findings:
            print(f"{'✓' if finding.ok else '✗'} {finding.what:<22}{finding.found}")
            if finding.remedy:
                print(f"  {'':<22}→ {finding.remedy}")
    return 0 if all(finding.ok or not finding.needed for finding in findings) else 1


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
            print(f"       again{' on a GPU' if row['needs_gpu'] else ''}: {row['command']}")
    return 0


@contextmanager
def progress_line() -> Iterator[Callable[[str, float], None]]:
    """Shows the progress of long work on one line of a terminal; prints nothing if the output is piped."""
    terminal = sys.stderr.isatty()

    def show(text: str, fraction: float) -> None:
        if terminal:
            sys.stderr.write(f"\r\x1b[K{100 * fraction:3.0f}%  {text}")
            sys.stderr.flush()

    yield show
    if terminal:
        sys.stderr.write("\r\x1b[K")


def _number(value: float) -> float | str:
    """The number; NaN and infinities by name, since JSON has none."""
    return value if math.isfinite(value) else str(value)


def print_json(value: object) -> int:
    """Prints one JSON object; the exit status of success."""
    print(json.dumps(value, allow_nan=False))
    return 0


def complain(message: str, status: int) -> int:
    """Prints an error; the exit status."""
    print(f"explain: {message}", file=sys.stderr)
    return status
