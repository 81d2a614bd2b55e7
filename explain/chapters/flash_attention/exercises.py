"""Questions of the chapter on FlashAttention, for each of its views."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from explain.chapters.flash_attention import algorithm
from explain.chapters.flash_attention.tiles import SIDES
from explain.compile.cost import LaunchCost, occupancy, too_large
from explain.exercises import Question, Runs, Why, first, set_to
from explain.experiment import Experiment
from explain.figures.numbers import count, number
from explain.gpus import Gpu
from explain.trace.model import numbers
from kernels.traffic import tiles

NO_SIDE = "none"
OUTPUTS = ("o", "o_hbm")
"""The buffers of O: finished, and unfinished between visits."""


@dataclass(frozen=True)
class Shown:
    """One view of the page. Tile sizes has an experiment, a GPU, and `cost`: what a tile compiles to, or ValueError."""

    view: str
    runs: Runs = ()
    experiment: Experiment | None = None
    gpu: Gpu | None = None
    cost: Callable[[Experiment], LaunchCost] | None = None


# Step through


def _smallest(shown: Shown) -> tuple[range, float]:
    """The steps of the smallest α that is not 0, of any row, and that α."""
    found = [
        (steps, float(np.min(alpha[alpha > 0])))
        for steps, alpha in set_to(shown.runs[0], "rescale")
        if (alpha > 0).any()
    ]
    return min(found, key=lambda one: one[1], default=(range(0), 1.0))


def _why_smallest(shown: Shown) -> Why:
    steps, least = _smallest(shown)
    trace, roles = shown.runs[0][1], shown.runs[0][0].entry.roles
    state = trace.state(steps[0])
    alpha, old, new = (numbers(state[roles[role]]) for role in ("rescale", "running_max", "new_max"))
    row = int(np.argmin(np.where(alpha > 0, alpha, np.inf)))
    query = int(numbers(state[roles["rows"]])[row])
    old_m, new_m = number(float(old[row]), 4), number(float(new[row]), 4)
    return Why(f"Query {query}: its maximum moves from {old_m} to {new_m}. α = exp({old_m} − {new_m}) = "
               f"{number(least, 4)}: so much of the old ℓ and Õ stays.", steps[0])  # fmt: skip


def _why_zero(shown: Shown) -> Why:
    return Why("No key was seen yet: m_i = −∞, so α = exp(−∞ − m_new) = 0 in every row. There is nothing to keep.")


def _why_tiles(shown: Shown) -> Why:
    p, computed = shown.runs[0][0].values, len(set_to(shown.runs[0], "rescale"))
    rows, cols = tiles(p["seq_len"], p["block_m"]), tiles(p["kv_len"], p["block_n"])
    every, heads = rows * cols, p["batch"] * p["heads"]
    of = f"{rows} × {cols} = {every} tiles" + (f" in each of {heads} heads" if heads > 1 else "")
    left = every * heads - computed
    skipped = f"{left} of them are right of the diagonal and are never loaded" if left else "none of them is hidden"
    return Why(f"S has {of}; {skipped}. So {computed} are computed.")


def _bytes(experiment: Experiment, *buffers: str) -> int:
    return sum(t.bytes for t in experiment.traffic.terms if t.buffer in buffers)


def _wider(shown: Shown, side: str) -> Experiment:
    experiment = shown.runs[0][0]
    return experiment.with_(**{side: 2 * experiment.values[side]})


def _why_reads(shown: Shown) -> Why:
    now, wide = shown.runs[0][0], _wider(shown, "block_m")
    return Why(
        f"Every tile of queries reads all keys and values it may see. BLOCK_M = {now.values['block_m']}: "
        f"{count(_bytes(now, 'k', 'v'))} bytes. BLOCK_M = {wide.values['block_m']}: "
        f"{count(_bytes(wide, 'k', 'v'))} bytes."
    )


# Tile sizes


def _compiled(shown: Shown, side: int = 0) -> LaunchCost:
    assert shown.experiment is not None
    assert shown.cost is not None
    return shown.cost(shown.experiment.with_(block_m=side, block_n=side) if side else shown.experiment)


def _gpu(shown: Shown) -> Gpu:
    assert shown.gpu is not None
    return shown.gpu


def _why_registers(shown: Shown) -> Why:
    own, wide = _compiled(shown), _compiled(shown, 128)
    return Why(
        f"128 × 128 takes {wide.registers} registers per thread; the tile above takes {own.registers}. A thread has "
        f"255 at most. Spills per thread of 128 × 128: {wide.spills}."
    )


def _programs(shown: Shown) -> int:
    return occupancy(_compiled(shown), _gpu(shown)).programs


def _why_programs(shown: Shown) -> Why:
    fits = occupancy(_compiled(shown), _gpu(shown))
    limits = ", ".join(f"{name} {programs}" for name, programs in fits.by_limit.items())
    return Why(f"Programs that each limit allows: {limits}. The smallest decides: {fits.limit}, {fits.programs}.")


def _largest_square(shown: Shown) -> str:
    fitting = [side for side in SIDES if _fits(shown, side)]
    return f"{max(fitting)} × {max(fitting)}" if fitting else NO_SIDE


def _fits(shown: Shown, side: int) -> bool:
    cost = _compiled(shown, side)
    return not too_large(cost, _gpu(shown)) and not cost.spill_store_bytes


def _why_square(shown: Shown) -> Why:
    costs = ((side, _compiled(shown, side)) for side in SIDES)
    each = "; ".join(f"{side}: {count(one.shared_bytes)} bytes, spills {one.spills}" for side, one in costs)
    return Why(
        f"Shared memory of a program and spills of a thread, by side: {each}. A program of the {_gpu(shown).name} may "
        f"have {count(_gpu(shown).shared_bytes)} bytes."
    )


# Loop order


def _moved(shown: Shown, run: int, *buffers: str) -> int:
    launches = shown.runs[run][1].launches
    return sum(
        counted.get(f"{buffer}_ptr", 0) for launch in launches for counted in (launch.read_bytes, launch.written_bytes)
        for buffer in buffers
    )  # fmt: skip


def _why_times(shown: Shown) -> Why:
    left, right = (_moved(shown, run, *OUTPUTS) for run in (0, 1))
    return Why(f"Left: {count(left)} bytes of O are read and written. Right: {count(right)} bytes, each written once. "
               f"{count(left)} ÷ {count(right)} = {number(left / right)}.")  # fmt: skip


def _why_wide(shown: Shown) -> Why:
    left, right = ([_bytes(one, *OUTPUTS) for one in (run, _double(run))] for run, _ in shown.runs)
    sides = [run.values["block_n"] for run in (shown.runs[0][0], _double(shown.runs[0][0]))]
    return Why(f"BLOCK_N = {sides[0]}: {count(left[0])} bytes. BLOCK_N = {sides[1]}: {count(left[1])} bytes. "
               f"The right kernel moves {count(right[0])} bytes of O and then {count(right[1])}.")  # fmt: skip


def _double(experiment: Experiment) -> Experiment:
    return experiment.with_(block_n=2 * experiment.values["block_n"])


# The paper's algorithm


def _line_that_sets(variable: str) -> str:
    return next(
        line for line, _, _, code in algorithm.ALGORITHM if any(one.startswith(f"{variable} = acc *") for one in code)
    )


def _why_line(shown: Shown) -> Why:
    line = _line_that_sets(_accumulator(shown))
    told, code = next((told, code) for own, told, _, code in algorithm.ALGORITHM if own == line)
    return Why(f"Line {line}: {told} In the kernel: `{code[0]}`.")


def _accumulator(shown: Shown) -> str:
    assert shown.experiment is not None
    return str(shown.experiment.entry.roles["accumulator"])


STEP, SIZES, ORDER, PAPER = "Step through", "Tile sizes", "Loop order", "The paper's algorithm"
QUESTIONS = (
    Question[Shown](
        "nothing-to-keep",
        "Go to a step at which α is 0 in every row.",
        "step",
        lambda shown: first(set_to(shown.runs[0], "rescale"), lambda alpha: np.all(alpha == 0)),
        _why_zero,
        asked=lambda shown: shown.view == STEP,
        hint="Before the first tile of keys, m is −∞.",
    ),
    Question[Shown](
        "smallest-alpha",
        "Which α of this run is the smallest above 0? Go to the step that sets it.",
        "step",
        lambda shown: _smallest(shown)[0],
        _why_smallest,
        asked=lambda shown: shown.view == STEP,
        hint="α is small where the maximum of a row rises far.",
    ),
    Question[Shown](
        "tiles",
        "How many tiles of S does this run compute?",
        "number",
        lambda shown: len(set_to(shown.runs[0], "rescale")),
        _why_tiles,
        asked=lambda shown: shown.view == STEP,
        hint="Multiply the tiles of queries by the tiles of keys. A causal mask skips some.",
    ),
    Question[Shown](
        "reads",
        lambda shown: (
            f"Make BLOCK_M twice as large, {_wider(shown, 'block_m').values['block_m']}. How many bytes of K "
            "and V are read then?"
        ),
        "number",
        lambda shown: _bytes(_wider(shown, "block_m"), "k", "v"),
        _why_reads,
        unit="bytes",
        asked=lambda shown: shown.view == STEP and shown.runs[0][0].values["block_m"] < 64,
        hint="Each tile of queries reads the keys and values that it may see. Larger tiles are fewer.",
    ),
    Question[Shown](
        "registers",
        "Make both sides of the tile 128, with 4 warps. How many registers does a thread use?",
        "number",
        lambda shown: _compiled(shown, 128).registers,
        _why_registers,
        asked=lambda shown: shown.view == SIZES,
        hint="Press the tile 128 × 128. Its registers per thread stand below the compiler's bar.",
    ),
    Question[Shown](
        "programs",
        lambda shown: f"How many programs of the chosen tile does an SM of the {_gpu(shown).name} hold at once?",
        "number",
        _programs,
        _why_programs,
        asked=lambda shown: shown.view == SIZES,
        hint="Each resource allows a number of programs. The smallest number decides.",
    ),
    Question[Shown](
        "square",
        lambda shown: (
            f"Which is the largest square tile that runs on the {_gpu(shown).name} with 4 warps and without spills?"
        ),
        "choice",
        _largest_square,
        _why_square,
        [*(f"{side} × {side}" for side in SIDES), NO_SIDE],
        asked=lambda shown: shown.view == SIZES,
        hint="Begin with the largest side. It must fit in shared memory, and nothing may spill.",
    ),
    Question[Shown](
        "times",
        "How many times as many bytes of O does the left kernel move as the right one?",
        "number",
        lambda shown: _moved(shown, 0, *OUTPUTS) / _moved(shown, 1, *OUTPUTS),
        _why_times,
        unit="×",
        asked=lambda shown: shown.view == ORDER and len(shown.runs) == 2,
        hint="Add the left kernel's bytes of O, read and written. Divide by the right kernel's.",
    ),
    Question[Shown](
        "wide-keys",
        lambda shown: (
            f"Make BLOCK_N twice as large, {_double(shown.runs[0][0]).values['block_n']}. How many bytes of O does the "
            "left kernel move then?"
        ),
        "number",
        lambda shown: _bytes(_double(shown.runs[0][0]), *OUTPUTS),
        _why_wide,
        unit="bytes",
        asked=lambda shown: shown.view == ORDER and len(shown.runs) == 2 and shown.runs[0][0].values["block_n"] < 64,
        hint="With the outer loop over keys, O is read and written once per tile of keys. Larger tiles are fewer.",
    ),
    Question[Shown](
        "line",
        "In which line of algorithm 1 does the old Õ shrink?",
        "choice",
        lambda shown: _line_that_sets(_accumulator(shown)),
        _why_line,
        [line for line, *_ in algorithm.ALGORITHM],
        asked=lambda shown: shown.view == PAPER,
        hint="Look for the line that multiplies the old Õ by an exponential.",
    ),
)
