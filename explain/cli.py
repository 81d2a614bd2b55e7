"""Tilescope on the command line: list the kernels, run and check one, trace or export one (or any Triton kernel), look at this machine.

Exit status: 0 done · 1 the result misses its error budget · 2 bad arguments · 3 the run failed, and why is said.
"""

from __future__ import annotations

import argparse
import functools
import io
import json
import math
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from explain import doctor, lessons, recordings
from explain.chapters.exactness import outputs as exactness
from explain.compile.cost import occupancy, too_large
from explain.compile.service import Compiler
from explain.engine import Engine, TraceRun
from explain.experiment import Experiment, ParameterError
from explain.gpus import DEFAULT, GPUS
from explain.records import measure as measuring
from explain.records import registry as shelf
from explain.records.file import RecordFileError
from explain.records.plans import PLANS
from explain.trace.file import TraceFileError
from explain.workers import WorkerDied, WorkerError, WorkerFailed, WorkerOutOfMemory, WorkerTimeout
from kernels.catalog import CATALOG
from kernels.inputs import PRESETS
from kernels.known import KERNELS
from kernels.museum import EXHIBITS
from kernels.recipes import EXAMPLE, SETTINGS

_EXPORTS = (".html", ".tilescope")
OVER_BUDGET, BAD_ARGUMENTS, FAILED = 1, 2, 3
TOO_LARGE = 1


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; the exit status."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # α on a terminal that has none
    parsed = _parser().parse_args(arguments)
    try:
        return parsed.command(parsed)
    except ParameterError as error:
        return _complain(str(error), BAD_ARGUMENTS)
    except WorkerFailed as error:
        status = BAD_ARGUMENTS if error.type in ("BadTarget", "ParameterError") else FAILED
        return _complain(error.message, status)
    except BrokenPipeError:  # `… | head` has read enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 0
    except WorkerDied as error:
        return _complain(f"{error}\n{error.output}".strip(), FAILED)
    except (WorkerError, OSError) as error:
        return _complain(str(error), FAILED)
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
        sub.add_argument("--json", action="store_true", help="print one JSON object, and nothing else")
        return sub

    command("list", _list, "List the kernels, their parameters and the input presets.")

    run = command("run", _run, "Run a kernel, check it against float64, and count its traffic.")
    run.add_argument("kernel", metavar="KERNEL", help=f"one of {', '.join(CATALOG)}")
    run.add_argument(
        "--backend", choices=("auto", "interpreter", "cuda"), default="auto", help="auto: cuda where there is a GPU"
    )
    Experiment.add_arguments(run)
    _add_limits(run)

    trace = command(
        "trace", _trace, "Record a kernel line by line, or the kernels that a function of any Python file launches."
    )
    trace.add_argument("target", metavar="TARGET", help="a kernel of the list, or path/to/file.py:function")
    trace.add_argument("--out", type=Path, required=True, metavar="FILE", help="the trace file to write")
    trace.add_argument(
        "--programs", default="all", help='whose variables to record: all, first, or ids such as "0,0,0 1,0,0"'
    )
    Experiment.add_arguments(trace)
    _add_limits(trace)

    compile_ = command(
        "compile",
        _compile,
        "Compile a kernel for a GPU that need not be here: shared memory, registers, spills, occupancy.",
    )
    compile_.add_argument("kernel", metavar="KERNEL", help=f"one of {', '.join(CATALOG)}")
    compile_.add_argument(
        "--gpu", choices=GPUS, default=DEFAULT, help=f"whose limits and compute capability ({DEFAULT})"
    )
    Experiment.add_arguments(compile_)
    _add_limits(compile_)
    export = command(
        "export", _export, "Make one file of a run: an HTML page that opens without a server, or its trace."
    )
    export.add_argument("target", metavar="TARGET", help="a kernel of the list, or a trace file")
    export.add_argument(
        "--out", type=Path, required=True, metavar="FILE", help=f"its name ends in {', '.join(_EXPORTS)}"
    )
    export.add_argument("--step", default="0", metavar="N", help="the step a page opens on, from 0 as in its address")
    Experiment.add_arguments(export)

    measure = command(
        "measure",
        _measure,
        "Measure kernels on this GPU, their time, memory and the bytes they move, and keep it all in one file, where the pages find it.",
    )
    measure.add_argument("kernels", nargs="*", metavar="KERNEL", help="of these alone; all, unless named")
    measure.add_argument(
        "--plan",
        action="append",
        choices=PLANS,
        help=f"again for more; all, unless named. {'; '.join(f'{plan.name}: {plan.about}' for plan in PLANS.values())}",
    )
    measure.add_argument(
        "--out", type=Path, metavar="DIR", help=f"where the GPU's file is, or will be ({shelf.own_folder()})"
    )
    _add_limits(measure, megabytes=16000.0)

    command("doctor", _doctor, "Say what is on this machine, what is missing, and what to do about it.")
    command("record", _record, "Make the traces that ship with Tilescope anew.")
    return parser


def _add_limits(parser: argparse.ArgumentParser, megabytes: float = 8000.0) -> None:
    parser.add_argument("--seconds", type=_positive, default=300.0, help="give up after this long (300)")
    parser.add_argument(
        "--megabytes", type=_positive, default=megabytes, help=f"give up above this much memory ({megabytes:.0f})"
    )


def _list(parsed: argparse.Namespace) -> int:
    kernels: list[dict[str, Any]] = [
        {
            "name": kernel.name,
            "title": kernel.title,
            "idea": kernel.idea,
            "family": kernel.family,
            "wrong": kernel.wrong,
            "inputs": kernel.inputs,
            "parameters": {
                parameter.name: {
                    "default": dict(Experiment.of(kernel.name).parameters)[parameter.name],
                    "allowed": parameter.allowed,
                    "help": parameter.help,
                }
                for parameter in kernel.parameters
            },
        }
        for kernel in CATALOG.values()
    ]
    if parsed.json:
        return _print_json(
            {
                "kernels": kernels,
                "presets": {preset.name: preset.help for preset in PRESETS.values()},
                "broken": {e.kernel.name: e.title for e in EXHIBITS.values()},
            }
        )
    for kernel in kernels:
        wrong = f"  WRONG ON PURPOSE: {kernel['wrong']}." if kernel["wrong"] else ""
        print(f"{kernel['name']:<24}{kernel['idea']}{wrong}")
        defaults = " ".join(f"{name}={spec['default']}" for name, spec in kernel["parameters"].items())
        print(f"{'':<24}{defaults}\n")
    print("Broken on purpose, by one line (chapter 7)")
    for exhibit in EXHIBITS.values():
        causal = " --set causal=true" if exhibit.sizes.get("causal") else ""
        shown = "no input shows it" if exhibit.harmless else f"shown by --inputs {exhibit.shown_by}{causal}"
        print(f"  {exhibit.kernel.name:<38}{exhibit.title}; {shown}")
    print("\nInput presets")
    for preset in PRESETS.values():
        print(f"  {preset.name:<22}{preset.help}")
    print(f"  {EXAMPLE}  a recipe of your own; its settings: {', '.join(SETTINGS)}")
    return 0


def _run(parsed: argparse.Namespace) -> int:
    experiment = Experiment.from_parsed(parsed.kernel, parsed)
    engine = Engine()
    try:
        with _Progress() as progress:
            backend = parsed.backend
            if backend != "interpreter":
                status = engine.device()
                if backend == "cuda" and not status.available:
                    return _complain(f"--backend=cuda: {status.reason}", BAD_ARGUMENTS)
                backend = "cuda" if status.available else "interpreter"
            limits = {"seconds": parsed.seconds, "megabytes": parsed.megabytes, "progress": progress}
            if backend == "cuda":
                result = engine.measure(experiment, **limits).to_json()
                traced = _counted(engine, experiment, limits)
            else:
                result = traced = engine.check(experiment, **limits)
    finally:
        engine.close()
    formula = experiment.entry.formula(experiment.values)
    answer = {
        "experiment": experiment.to_json(),
        "backend": backend,
        "error": _number(float(result["error"])),
        "budget": _number(float(result["budget"])),
        "within_budget": result["within_budget"],
        "output": result["output"],
        "traffic": {"formula": formula.totals(), "traced": traced and traced["traffic"]},
    }
    if backend == "cuda":
        answer |= {"timing": result["timing"], "provenance": result["provenance"]}
    if parsed.json:
        _print_json(answer)
    else:
        _print_run(experiment, answer)
    return 0 if answer["within_budget"] else OVER_BUDGET


def _counted(engine: Engine, experiment: Experiment, limits: dict[str, Any]) -> dict[str, Any] | None:
    """The trace's counters beside a run on the GPU, or None for what is too large to interpret within the limits."""
    try:
        return engine.check(experiment, **limits)
    except (WorkerTimeout, WorkerOutOfMemory) as error:
        print(f"explain: traffic is not traced: {error}", file=sys.stderr)
        return None


def _print_run(experiment: Experiment, answer: dict[str, Any]) -> None:
    where = "Triton's CPU interpreter" if answer["backend"] == "interpreter" else answer["provenance"]["gpu"]
    verdict = "within its budget" if answer["within_budget"] else "OVER its budget"
    print(" ".join(experiment.to_arguments()))
    print(f"on {where}: error {answer['error']} of {answer['budget']} allowed, in {answer['output']}: {verdict}")
    if experiment.entry.wrong and not answer["within_budget"]:
        print(f"This kernel is wrong on purpose: {experiment.entry.wrong}.")
    if timing := answer.get("timing"):
        print(f"median {timing['median_ms']:.4f} ms over {timing['launches']} launches ({timing['method']})")
    print(f"{'':<10}{'bytes read':>16}{'bytes written':>16}{'FLOPs':>18}")
    for witness, counts in answer["traffic"].items():
        if counts is not None:
            print(f"{witness:<10}{counts['read_bytes']:>16,}{counts['written_bytes']:>16,}{counts['flops']:>18,}")


def _trace(parsed: argparse.Namespace) -> int:
    programs = parse_programs(parsed.programs)
    limits = {"seconds": parsed.seconds, "megabytes": parsed.megabytes}
    path, colon, function = parsed.target.rpartition(":")
    foreign = parsed.target not in KERNELS and (bool(colon) or parsed.target.endswith(".py"))
    if foreign and not colon:
        raise ParameterError("target", parsed.target, "must name a function too: path/to/file.py:function")
    if foreign and (parsed.set or parsed.inputs or parsed.seed != "0"):
        raise ParameterError(
            "target", parsed.target, "takes no --set, --inputs or --seed: the function makes its own inputs"
        )
    if not parsed.out.parent.is_dir():
        raise ParameterError("--out", parsed.out, "must be in a folder that exists")
    experiment = None if foreign else Experiment.from_parsed(parsed.target, parsed)
    engine = Engine()
    try:
        with _Progress() as progress:
            if experiment is None:
                said = engine.trace_file(Path(path), function, parsed.out, programs, progress=progress, **limits)
            else:
                said = engine.trace_to(experiment, parsed.out, programs, progress=progress, **limits)
    finally:
        engine.close()
    answer: dict[str, Any] = {name: said[name] for name in ("steps", "trace_seconds", "file_bytes", "launches")}
    answer["traffic"] = {"traced": said["traffic"]}
    if experiment is not None:
        answer |= {"experiment": experiment.to_json()}
        answer["traffic"]["formula"] = experiment.entry.formula(experiment.values).totals()
    if parsed.json:
        return _print_json(answer)
    print(
        f"{parsed.out}: {said['steps']:,} steps, {said['file_bytes']:,} bytes, traced in {said['trace_seconds']:.2f} s"
    )
    for launch in said["launches"]:
        counts = launch["traffic"]
        print(
            f"  {launch['kernel']} on grid {tuple(launch['grid'])}: "
            f"{counts['read_bytes']:,} bytes read, {counts['written_bytes']:,} written, {counts['flops']:,} FLOPs"
        )
    return 0


def _export(parsed: argparse.Namespace) -> int:
    from explain.player import Run
    from explain.player.export import standalone_html  # brings Streamlit, which the other commands do without

    if parsed.out.suffix not in _EXPORTS:
        made_in_browser = ".png, .svg and .webm are made by the Export menu of the player, there and in the page"
        raise ParameterError("--out", parsed.out, f"must end in {' or '.join(_EXPORTS)}; {made_in_browser}")
    if not parsed.out.parent.is_dir():
        raise ParameterError("--out", parsed.out, "must be in a folder that exists")
    run = _recorded_run(parsed)
    try:
        trace = run.trace
    except TraceFileError as error:
        raise ParameterError("target", parsed.target, f"cannot be read: {error}") from None
    step = int(parsed.step) if parsed.step.isascii() and parsed.step.isdecimal() else -1
    if not 0 <= step < trace.steps:
        raise ParameterError(
            "--step", parsed.step, f"must be a whole number from 0 to {trace.steps - 1}, this run's last"
        )
    if parsed.out.suffix == ".html":
        parsed.out.write_text(standalone_html([Run(run, lessons.view_of(trace, run.origin))], step), encoding="utf-8")
    else:
        parsed.out.write_bytes(run.data)
    answer = {"file": str(parsed.out), "file_bytes": parsed.out.stat().st_size, "steps": trace.steps, "step": step}
    if parsed.json:
        return _print_json(answer | {"experiment": trace.experiment})
    print(f"{parsed.out}: {answer['file_bytes']:,} bytes, {trace.steps:,} steps")
    return 0


def _recorded_run(parsed: argparse.Namespace) -> TraceRun:
    """The run that `export` is asked for: of a trace file, or of a kernel, made now unless it was recorded."""
    if parsed.target in CATALOG:
        engine = Engine()
        try:
            with _Progress() as progress:
                return engine.trace(Experiment.from_parsed(parsed.target, parsed), progress)
        finally:
            engine.close()
    path = Path(parsed.target)
    if not path.is_file():
        raise ParameterError("target", parsed.target, f"must be a trace file, or one of {', '.join(CATALOG)}")
    if parsed.set or parsed.inputs or parsed.seed != "0":
        raise ParameterError("target", parsed.target, "takes no --set, --inputs or --seed: the file holds its run")
    return TraceRun(path.read_bytes(), "recorded")


def parse_programs(text: str) -> str | list[list[int]]:
    """ "all", "first", or the ids in text such as "0,0,0 1,0,0". Raises ParameterError."""
    if text in ("all", "first"):
        return text
    try:
        ids = [[int(number) for number in word.split(",")] for word in text.split()]
    except ValueError:
        ids = []
    if not ids or any(len(one) > 3 or min(one) < 0 for one in ids):
        raise ParameterError("--programs", text, 'must be all, first, or ids such as "0,0,0 1,0,0"')
    return [[*one, *[0] * (3 - len(one))] for one in ids]


def _compile(parsed: argparse.Namespace) -> int:
    experiment, gpu = Experiment.from_parsed(parsed.kernel, parsed), GPUS[parsed.gpu]
    compiler = Compiler()
    try:
        with _Progress() as progress:
            limits = {"seconds": parsed.seconds, "megabytes": parsed.megabytes, "progress": progress}
            cost = compiler.compile(experiment, gpu.compute_capability, **limits)
    finally:
        compiler.close()
    refused = [words for launch in cost.launches if (words := too_large(launch, gpu))]
    held = [occupancy(launch, gpu) for launch in cost.launches]
    if parsed.json:
        fits = [{"programs_on_an_sm": one.programs, "limited_by": one.limit} for one in held]
        _print_json(
            {
                "experiment": experiment.to_json(),
                "gpu": gpu.name,
                "cost": cost.to_json(),
                "occupancy": fits,
                "too_large": refused,
            }
        )
    else:
        print(
            f"compiled for the {gpu.name} ({gpu.target}) by triton {cost.triton}, ptxas {cost.ptxas}; nothing was run"
        )
        for launch, one in zip(cost.launches, held, strict=True):
            print(
                f"  {launch.kernel}: {launch.shared_bytes:,} bytes of shared memory, {launch.registers} registers a thread, "
                f"{launch.spill_store_bytes:,} bytes spilled, {launch.num_warps} warps; {one.programs} on an SM, limited by {one.limit}; "
                f"compiled in {launch.seconds:.1f} s"
            )
        for words in refused:
            print(words.replace("`", ""))
    return TOO_LARGE if refused else 0


def _measure(parsed: argparse.Namespace) -> int:
    plans = [plan for plan in PLANS.values() if plan.name in (parsed.plan or PLANS)]
    planned = {experiment.kernel for plan in plans for experiment in plan.experiments}
    for kernel in parsed.kernels:
        if kernel not in planned:
            raise ParameterError("kernel", kernel, f"must be one of {', '.join(sorted(planned))}")
    folder = parsed.out or shelf.own_folder()
    engine = Engine()
    try:
        limits = {"seconds": parsed.seconds, "megabytes": parsed.megabytes}
        say = (lambda _: None) if parsed.json else functools.partial(print, flush=True)
        outcome = measuring.measure(engine, plans, folder, say, kernels=parsed.kernels, **limits)
    except RecordFileError as error:
        return _complain(f"{folder}: the file that is there cannot be gone on with: {error}. Move it away", FAILED)
    finally:
        engine.close()
    if parsed.json:
        counts = {"measured": outcome.measured, "kept": outcome.kept}
        missed = [{"what": what, "why": why} for what, why in outcome.missed]
        _print_json({"file": str(outcome.path), **counts, "missed": missed})
    else:
        for what, why in outcome.missed:
            print(f"missed: {what}: {why}")
        print(
            f"{outcome.path}: {outcome.measured} measured, {outcome.kept} kept, {len(outcome.missed)} with something missed"
        )
    return FAILED if outcome.missed else 0


def _doctor(parsed: argparse.Namespace) -> int:
    findings = doctor.examine()
    if parsed.json:
        _print_json({"findings": [finding.__dict__ for finding in findings]})
    else:
        for finding in findings:
            print(f"{'✓' if finding.ok else '✗'} {finding.what:<22}{finding.found}")
            if finding.remedy:
                print(f"  {'':<22}→ {finding.remedy}")
    return 0 if all(finding.ok or not finding.needed for finding in findings) else 1


def _record(parsed: argparse.Namespace) -> int:
    engine, made = Engine(), []
    try:
        with _Progress() as progress:
            for experiment in lessons.shipped():
                path = recordings.path_of(experiment)
                said = engine.trace_to(experiment, path, progress=progress)
                made.append({"file": path.name, "experiment": experiment.to_json(), "file_bytes": said["file_bytes"]})
            for way in exactness.shipped(lessons.EXACT, lessons.JOINED):
                path = recordings.output_path_of(way.experiment, way.reverse_keys)
                engine.output_to(way.experiment, path, reverse_keys=way.reverse_keys, progress=progress)
                made.append(
                    {"file": path.name, "experiment": way.experiment.to_json(), "file_bytes": path.stat().st_size}
                )
    finally:
        engine.close()
    kept = {entry["file"] for entry in made}
    for path in (*recordings.traces(), *recordings.outputs()):
        if path.name not in kept:
            path.unlink()
    if parsed.json:
        return _print_json({"traces": made})
    for entry in made:
        print(f"{entry['file']}: {entry['file_bytes']:,} bytes")
    return 0


class _Progress:
    """Shows on one line of a terminal how far long work is; silent elsewhere, so that output can be piped."""

    def __enter__(self) -> Callable[[str, float], None]:
        return self._show

    def __exit__(self, *_: object) -> None:
        if sys.stderr.isatty():
            sys.stderr.write("\r\x1b[K")

    def _show(self, text: str, fraction: float) -> None:
        if sys.stderr.isatty():
            sys.stderr.write(f"\r\x1b[K{100 * fraction:3.0f}%  {text}")
            sys.stderr.flush()


def _number(value: float) -> float | str:
    """The number, or its name where JSON has none."""
    return value if math.isfinite(value) else str(value)


def _positive(text: str) -> float:
    value = float(text)
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"{text}: must be a number above 0")
    return value


def _print_json(value: object) -> int:
    print(json.dumps(value, allow_nan=False))
    return 0


def _complain(message: str, status: int) -> int:
    print(f"explain: {message}", file=sys.stderr)
    return status
