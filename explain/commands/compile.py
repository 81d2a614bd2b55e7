"""`compile`: what a kernel costs on a GPU you don't have."""

from __future__ import annotations

import argparse
from contextlib import closing
from typing import Any

from explain.commands.arguments import TARGET, add_limits, command, file_of
from explain.commands.console import print_json, progress_line
from explain.compile.cost import occupancy, too_large
from explain.compile.service import Compiler
from explain.experiment import Experiment
from explain.gpus import DEFAULT, GPUS
from explain.plain import plain

TOO_LARGE = 1


def add_to(commands: Any) -> None:
    help = "Compile a kernel for a GPU you don't have: shared memory, registers, spills, occupancy."
    parser = command(commands, "compile", compile, help)
    parser.add_argument("target", metavar="TARGET", help=TARGET)
    parser.add_argument("--gpu", choices=GPUS, default=DEFAULT, help=f"compile for this GPU ({DEFAULT})")
    Experiment.add_arguments(parser)
    add_limits(parser)


def compile(parsed: argparse.Namespace) -> int:
    path, function = file_of(parsed)
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
