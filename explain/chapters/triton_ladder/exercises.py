"""Questions of the Triton ladder: the rung in the player, and all rungs on the same row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from explain.chapters.triton_ladder.ladder import RUNGS, Outcome
from explain.exercises import Question, Runs, Why, set_to
from explain.experiment import Experiment
from explain.figures.numbers import count, number
from kernels.traffic import tiles

SIDES = [1 << bit for bit in range(8)]


@dataclass(frozen=True)
class Shown:
    """The row that all rungs read, the rung in the player, and the outcome of every rung that could run."""

    row: Experiment
    runs: Runs
    outcomes: Sequence[Outcome]


def _why_wrong(shown: Shown) -> Why:
    wrong = [one for one in shown.outcomes if not one.right]
    errors = ", ".join(f"*{one.rung.name}* (largest error {number(one.error)})" for one in wrong) or "none"
    are = "is" if len(wrong) == 1 else "are"
    return Why(f"{len(wrong)} of {len(shown.outcomes)} rungs {are} wrong on this input: {errors}.")


def _fewest(shown: Shown) -> Outcome:
    return min((one for one in shown.outcomes if one.right), key=lambda one: one.accesses)


def _why_fewest(shown: Shown) -> Why:
    right = ", ".join(f"*{one.rung.name}* {number(one.accesses)}" for one in shown.outcomes if one.right)
    return Why(f"Reads and writes per element, of the rungs that are right: {right}.")


def _side_of_one_tile(shown: Shown) -> int:
    return next(side for side in SIDES if tiles(shown.row.values["cols"], side) == 1)


def _why_one_tile(shown: Shown) -> Why:
    cols, side = shown.row.values["cols"], _side_of_one_tile(shown)
    half = f" With {side // 2} it has {tiles(cols, side // 2)}, each with a sum of its own." if side > 1 else ""
    return Why(
        f"A row of {cols} elements has {tiles(cols, side)} tile of {side}.{half} "
        "A test with short rows alone would let the wrong kernel pass."
    )


def _shrinking(shown: Shown) -> list[range]:
    return [steps for steps, alpha in set_to(shown.runs[0], "rescale") if ((alpha > 0) & (alpha < 1)).any()]


def _why_shrinking(shown: Shown) -> Why:
    least = ", ".join(number(float(alpha.min())) for _, alpha in set_to(shown.runs[0], "rescale"))
    found = _shrinking(shown)
    return Why(f"Tile after tile, the smallest α of any row is {least}.", found[0][0] if found else None)


def _extra_bytes(shown: Shown) -> int:
    return next(one.read_bytes for one in shown.outcomes if one.rung.kernel == "softmax_safe") - next(
        one.read_bytes for one in shown.outcomes if one.rung.kernel == "softmax_online"
    )


def _why_extra_bytes(shown: Shown) -> Why:
    safe, online = (
        next(one.read_bytes for one in shown.outcomes if one.rung.kernel == kernel)
        for kernel in ("softmax_safe", "softmax_online")
    )
    return Why(f"Three passes read {count(safe)} bytes, two read {count(online)}: {count(safe - online)} fewer.")


QUESTIONS = (
    Question[Shown](
        "wrong",
        "How many of the rungs are wrong on this input?",
        "number",
        lambda shown: sum(not one.right for one in shown.outcomes),
        _why_wrong,
        asked=lambda shown: len(shown.outcomes) == len(RUNGS),
        hint="Look at the result of each rung in the picture.",
    ),
    Question[Shown](
        "fewest",
        "Some rungs are right on this input. Which of them reads and writes the least per element?",
        "choice",
        lambda shown: _fewest(shown).rung.name,
        _why_fewest,
        [rung.name for rung in RUNGS],
        asked=lambda shown: len(shown.outcomes) == len(RUNGS),
        hint="Leave out the rungs that are wrong. Then add reads and writes.",
    ),
    Question[Shown](
        "saved",
        "How many bytes fewer does *Online* read than *Three passes* on this row?",
        "number",
        _extra_bytes,
        _why_extra_bytes,
        unit="bytes",
        asked=lambda shown: len(shown.outcomes) == len(RUNGS),
        hint="Subtract the bytes read by the two rungs.",
    ),
    Question[Shown](
        "one-tile",
        "*Per tile* is right if one tile holds the row. What is the smallest such BLOCK_N here?",
        "number",
        _side_of_one_tile,
        _why_one_tile,
        hint="One tile must be at least as long as the row. Tiles are powers of two.",
    ),
    Question[Shown](
        "shrinking",
        "At how many tiles of the run in the player is 0 < α < 1 in at least one row?",
        "number",
        lambda shown: len(_shrinking(shown)),
        _why_shrinking,
        asked=lambda shown: bool(shown.runs) and "rescale" in shown.runs[0][0].entry.roles,
        hint="Count where a row has a sum and its maximum rises. A first tile finds no old sum.",
    ),
)
