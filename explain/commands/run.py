"""`list` and `run`: the kernels, and one run of one of them, checked and counted."""

from __future__ import annotations

import argparse
import math
import sys
from contextlib import closing
from typing import Any

from explain.commands.arguments import INTERPRETER_SECONDS, add_run, command
from explain.commands.console import BAD_ARGUMENTS, complain, print_json, print_part, progress_line, with_remedy
from explain.engine import Engine
from explain.experiment import Experiment
from explain.plain import plain
from explain.trace.errors import TookTooLong
from explain.workers import WorkerFailed, WorkerOutOfMemory, WorkerTimeout
from kernels.catalog import TAUGHT
from kernels.inputs import PRESETS
from kernels.museum import EXHIBITS
from kernels.recipes import EXAMPLE, SETTINGS

OVER_TOLERANCE = 1


def add_to(commands: Any) -> None:
    command(commands, "list", list_kernels, "List the kernels, their parameters and the input presets.")
    parser = command(commands, "run", run, "Run a kernel, check it against float64, and count its traffic.")
    parser.add_argument("kernel", metavar="KERNEL", help=f"one of {', '.join(TAUGHT)}")
    parser.add_argument(
        "--backend", choices=("auto", "interpreter", "cuda"), default="auto", help="auto: cuda if there is a GPU"
    )
    add_run(parser)


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


def _print_run(experiment: Experiment, answer: dict[str, Any]) -> None:
    where = "Triton's CPU interpreter" if answer["backend"] == "interpreter" else answer["provenance"]["gpu"]
    where += ", in part" if answer["backend"] == "interpreter" and answer["part"] else ""
    verdict = "within its tolerance" if answer["within_tolerance"] else "EXCEEDS its tolerance"
    print(" ".join(experiment.to_arguments()))
    print(f"on {where}: error {answer['error']} of {answer['tolerance']} allowed, in {answer['output']}: {verdict}")
    if experiment.entry.wrong and not answer["within_tolerance"]:
        print(f"This kernel is wrong on purpose: {experiment.entry.wrong}.")
    print_part(answer["part"])
    if timing := answer.get("timing"):
        print(f"median {timing['median_ms']:.4f} ms over {timing['launches']} launches ({timing['method']})")
    print(f"{'':<10}{'bytes read':>16}{'bytes written':>16}{'FLOPs':>18}")
    for witness, counts in answer["traffic"].items():
        if counts is not None:
            print(f"{witness:<10}{counts['read_bytes']:>16,}{counts['written_bytes']:>16,}{counts['flops']:>18,}")


def _number(value: float) -> float | str:
    """The number; NaN and infinities by name, since JSON has none."""
    return value if math.isfinite(value) else str(value)
