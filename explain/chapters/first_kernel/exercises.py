"""Questions of the chapter on the first kernel: what its programs, masks and counters do in the run in the player."""

from __future__ import annotations

from collections.abc import Sequence

from explain.chapters.first_kernel.programs import Program, programs, step_of
from explain.exercises import Question, Runs, Why
from explain.figures.numbers import count
from kernels.parameters import ITEM_BYTES
from kernels.traffic import tiles


def _programs(runs: Runs) -> Sequence[Program]:
    return programs(runs[0][1])


def _off(runs: Runs) -> int:
    return sum(len(program.mask) - program.working for program in _programs(runs))


def _why_off(runs: Runs) -> Why:
    p, last = runs[0][0].values, _programs(runs)[-1]
    launched = tiles(p["n"], p["block_n"])
    return Why(
        f"{launched} programs × {p['block_n']} lanes = {launched * p['block_n']} lanes for {p['n']} elements: "
        f"{launched * p['block_n']} − {p['n']} = {_off(runs)} lanes are off.",
        step_of(runs[0][1], last, "mask"),
    )


def _first_offset(runs: Runs) -> int:
    return int(_programs(runs)[-1].offsets[0])


def _why_first_offset(runs: Runs) -> Why:
    last = _programs(runs)[-1]
    block = len(last.offsets)
    return Why(
        f"Program {last.number} starts at {last.number} × {block} = {_first_offset(runs)}.",
        step_of(runs[0][1], last, "offsets"),
    )


def _last_store(runs: Runs) -> range:
    trace = runs[0][1]
    stores = [k for k in range(trace.steps) if any(access.kind == "store" for access in trace.accesses(k))]
    return range(stores[-1], stores[-1] + 1)


def _why_last_store(runs: Runs) -> Why:
    last = _programs(runs)[-1]
    return Why(
        f"Program {last.number} stores {last.working} elements of c. Its other lanes are masked off."
        if last.working < len(last.mask)
        else f"Program {last.number} stores {last.working} elements of c: all lanes are on."
    )


def _bytes(runs: Runs) -> int:
    moved = runs[0][1].traffic()
    return moved["read_bytes"] + moved["written_bytes"]


def _why_bytes(runs: Runs) -> Why:
    p = runs[0][0].values
    item = ITEM_BYTES[p["dtype"]]
    return Why(
        f"Two loads and one store per element: 3 × {p['n']} × {item} B = {count(_bytes(runs))} B. A lane that is off "
        "moves nothing."
    )


QUESTIONS = (
    Question[Runs](
        "lanes-off",
        "How many lanes, over all programs, does the mask turn off?",
        "number",
        _off,
        _why_off,
        hint="Multiply programs by lanes per program, then subtract the elements.",
    ),
    Question[Runs](
        "first-element",
        "What is the first offset of the last program?",
        "number",
        _first_offset,
        _why_first_offset,
        hint="Multiply the number of the last program by the lanes of a tile.",
    ),
    Question[Runs](
        "last-store",
        "Go to the step at which the last program stores its tile of c.",
        "step",
        _last_store,
        _why_last_store,
        hint="The programs run one after the other here. The last store of the run is the one.",
    ),
    Question[Runs](
        "bytes",
        "How many bytes do all programs load and store together?",
        "number",
        _bytes,
        _why_bytes,
        unit="bytes",
        hint="Count the loads and stores of one element. Multiply by the elements and by the bytes of a number.",
    ),
)
