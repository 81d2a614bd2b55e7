"""How fast one rung of the ladder is over tile sizes, warps and stages, on this GPU, and why some settings have no
time.

Every setting is first compiled, run and checked against float64, several processes at once; then one process alone
times the right ones in turn, round
after round, as `speed.py` does. The file is written whole after every answer: what is killed goes on where it was,
unless the rung's code, the GPU
or a version has changed. `explain/tuning_grid.py` reads it.

python benchmarks/tuning_grid.py --out benchmarks/results/tuning_grid.json
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks import speed
from explain.chapters.speed.tuning import FILE, RUNGS, SETTINGS, Grid, Point, Tuning, empty, load, save
from explain.device.measurement import Provenance
from explain.records.code import commit
from explain.records.results import ResultFileError


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=FILE, metavar="FILE", help="the result, and what is there already")
    sizes = ("BATCH", "HEADS", "N", "D")
    parser.add_argument("--shape", nargs=4, type=int, default=(2, 16, 8192, 128), metavar=sizes, help="2 16 8192 128")
    parser.add_argument("--causal", action="store_true")
    parser.add_argument("--rounds", type=int, default=10, help="timed launches of each setting (10)")
    parser.add_argument("--seconds", type=float, default=180.0, help="stop measuring after so long (180)")
    parser.add_argument("--child", choices=("check",), help=argparse.SUPPRESS)
    parsed = parser.parse_args()
    if parsed.child:
        for answer in checked(json.load(sys.stdin)):
            print(json.dumps(answer), flush=True)
        return 0
    import torch

    from explain.device.handler import provenance

    if not torch.cuda.is_available():
        raise SystemExit("tuning needs a GPU: PyTorch finds no CUDA GPU on this machine")
    if min(parsed.shape) < 1 or parsed.shape[3] % 8 or parsed.shape[3] > 256:
        parser.error(f"--shape {' '.join(map(str, parsed.shape))}: sizes from 1 on, D a multiple of 8 up to 256")
    try:
        before = load(parsed.out)
    except ResultFileError as error:
        raise SystemExit(f"{error}: move it away, or name another file") from None
    grids = [empty(rung, tuple(parsed.shape), parsed.causal) for rung in RUNGS]
    tuning = measure(before, provenance(), grids, parsed.rounds, parsed.seconds, parsed.out)
    print(*(line for grid in tuning.grids for line in table(grid)), sep="\n")
    return 0


def measure(
    before: Tuning | None, where: Provenance, grids: list[Grid], rounds: int, seconds: float, out: Path
) -> Tuning:
    """The grids, measured as far as `before` has not; the file at `out` is written whole after each answer."""
    deadline = time.monotonic() + seconds
    method = f"median of {rounds} launches by device events, settings in turn, L2 emptied before each"
    same = before is not None and replace(before.provenance, date="") == replace(where, date="")
    grids = [_with_what_there_is(grid, before) if same else grid for grid in grids]
    tuning = Tuning(where, commit(), method, speed.state_of_the_gpu(), {}, tuple(grids))

    def keep(answer: dict[str, Any]) -> None:
        nonlocal tuning
        tuning = told(tuning, answer)
        save(out, tuning)

    new = [(grid, point) for grid in tuning.grids for point in grid.points if point.error is None and not point.failure]
    single = [_task(grid, [point], rounds) for grid, point in new]
    for answer in speed.run("check", single, speed.CHECKERS, deadline, Path(__file__)):
        keep(answer)
    if time.monotonic() < deadline:
        tuning = _silent(tuning)
    right = [
        _task(grid, points, rounds)
        for grid in tuning.grids
        if (points := [p for p in grid.points if p.error is not None and not p.failure and p.seconds is None])
    ]
    print(f"checked after {seconds - deadline + time.monotonic():.0f} s", file=sys.stderr, flush=True)
    for answer in speed.run("time", right, 1, deadline):
        keep(answer)
    tuning = replace(tuning, after=speed.state_of_the_gpu())
    save(out, tuning)
    return tuning


def _with_what_there_is(grid: Grid, before: Tuning | None) -> Grid:
    own = before.of(grid.rung) if before else None
    if own is None or replace(own, points=()) != replace(grid, points=()):
        return grid
    there = {point.settings: point for point in own.points if point.failure != "silent"}
    return replace(grid, points=tuple(there.get(point.settings, point) for point in grid.points))


def _task(grid: Grid, points: list[Point], rounds: int) -> speed.Task:
    case = {name: getattr(grid, name) for name in ("shape", "dtype", "work", "causal")}
    case |= {"table": "attention", "unit": "FLOP/s"}
    options = [dict(zip(SETTINGS, point.settings, strict=True)) for point in points]
    variants = [{"function": f"kernels.rungs.{grid.rung}:attention", "options": one} for one in options]
    return {"case": case, "variants": variants, "rounds": rounds}


def told(tuning: Tuning, answer: dict[str, Any]) -> Tuning:
    """With what a child said of one setting."""
    rung = answer["variant"]["function"].removeprefix("kernels.rungs.").partition(":")[0]
    settings = tuple(answer["variant"]["options"][name] for name in SETTINGS)
    facts = {name: value for name, value in answer.items() if name in Point.__dataclass_fields__}

    return _each(tuning, lambda grid, one: facts if (grid.rung, one.settings) == (rung, settings) else {})


def _silent(tuning: Tuning) -> Tuning:
    """A setting that was asked and said nothing in time."""
    why = f"no word for {speed.SILENCE:.0f} s, or its process ended"

    silent = {"failure": "silent", "why": why}
    return _each(tuning, lambda _, one: {} if one.failure or one.error is not None else silent)


def _each(tuning: Tuning, news: Callable[[Grid, Point], dict[str, Any]]) -> Tuning:
    grids = (replace(grid, points=tuple(replace(p, **news(grid, p)) for p in grid.points)) for grid in tuning.grids)
    return replace(tuning, grids=tuple(grids))


def checked(tasks: list[speed.Task]) -> Iterator[dict[str, Any]]:
    """In a process of its own: each setting compiled, run and checked; with the compiler's numbers."""
    import torch

    from benchmarks.speed_cases import Case, Variant, error_over_tolerance, make_inputs

    inputs: tuple[torch.Tensor, ...] = ()
    for task in tasks:
        case = Case(**{**task["case"], "shape": tuple(task["case"]["shape"])})
        variant = Variant(**task["variants"][0])
        kernel = importlib.import_module(variant.function.partition(":")[0]).attention_kernel
        kernel.device_caches.clear()
        answer = {"case": task["case"], "variant": task["variants"][0]}
        try:
            inputs = inputs or make_inputs(case)
            result = variant.on(case, inputs)()
            torch.cuda.synchronize()
            error = error_over_tolerance(case, inputs, result)
            yield {**answer, **compilers_word(kernel), **verdict_of(error)}
        except Exception as exception:
            yield {**answer, **compilers_word(kernel), **failure_of(exception)}
            if "CUDA error" in str(exception):
                return  # this process can launch nothing more: another goes on
        yield {"done": True}


def verdict_of(error: float) -> dict[str, Any]:
    """An error over its tolerance, as the file says it."""
    if error <= 1:
        return {"error": error}
    known = error if math.isfinite(error) else None
    return {"error": known, "failure": "wrong", "why": f"{error:.3g} times the error that is allowed"}


def compilers_word(kernel: Any) -> dict[str, int]:
    """Shared memory, registers and spills of the kernel's one launch; what is unknown is left out."""
    compiled = [one for caches in kernel.device_caches.values() for one in caches[0].values()]
    if not compiled:
        return {}
    facts = {"shared_bytes": compiled[0].metadata.shared}
    # What does not fit cannot be loaded, and is not asked its registers: Triton raises what the launch raised.
    with suppress(Exception):
        facts |= {"registers": compiled[0].n_regs, "spills": compiled[0].n_spills}
    return {name: value for name, value in facts.items() if value is not None}


def failure_of(exception: Exception) -> dict[str, str]:
    """Why a setting could not be run, as the file says it."""
    kind = type(exception).__name__
    name = getattr(exception, "name", "") if kind == "OutOfResources" else ""
    failure = {"": "error", "shared memory": "shared memory"}.get(name, "registers")
    return {"failure": failure, "why": f"{kind}: {exception}"[:300]}


def table(grid: Grid) -> Iterator[str]:
    """The ten fastest, and how many settings have no time."""
    yield f"{grid.rung}, {grid.words}: {len(grid.timed)} of {len(grid.points)} settings have a time"
    for point in grid.timed[:10]:
        settings = " ".join(f"{name}={value}" for name, value in zip(SETTINGS, point.settings, strict=True))
        speed_ = grid.work / (point.seconds or float("nan")) / 1e12
        yield (
            f"  {1e3 * (point.seconds or 0):8.3f} ms {speed_:6.0f} TFLOP/s  registers {point.registers} spills "
            f"{point.spills} shared {point.shared_bytes}  {settings}"
        )
    for failure in sorted({point.failure for point in grid.points if point.failure}):
        yield f"  {sum(point.failure == failure for point in grid.points)} × {failure}"


if __name__ == "__main__":
    raise SystemExit(main())
