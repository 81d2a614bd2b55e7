"""Questions of the chapter on online softmax. The kernel in question is the right one: the last run."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from explain.chapters.online_softmax import running_sum_demo
from explain.exercises import Question, Runs, Why, set_to
from explain.figures.numbers import count, number
from explain.trace.model import numbers

YES, NO = "yes", "no"
SHIFT = np.float32(100)


def _merges(runs: Runs) -> bool:
    return "other_max" in runs[-1][0].entry.roles


def _pieces(runs: Runs) -> str:
    if _merges(runs):
        return "merges"
    return "elements" if runs[-1][0].values["block_n"] == 1 else "tiles"


def _how_often(runs: Runs) -> str:
    any_row = " in at least one row" if runs[-1][0].values["rows"] > 1 else ""
    return f"At how many {_pieces(runs)} is 0 < α < 1{any_row}?"


def _shrinks(alpha: np.ndarray) -> np.ndarray:
    return (alpha > 0) & (alpha < 1)


def _rescales(runs: Runs) -> list[range]:
    """The steps of each α that shrinks the old sum of at least one row."""
    return [steps for steps, alpha in set_to(runs[-1], "rescale") if _shrinks(alpha).any()]


def _why_first(runs: Runs) -> Why:
    trace, roles = runs[-1][1], runs[-1][0].entry.roles
    step = _rescales(runs)[0][0]
    before = trace.state(step)
    alpha, old, new = (np.ravel(numbers(before[roles[role]])) for role in ("rescale", "running_max", "new_max"))
    row = int(np.argmax(_shrinks(alpha)))
    where = f" of row {row}" if len(alpha) > 1 else ""
    return Why(
        f"The maximum{where} moves from {number(float(old[row]), 4)} to {number(float(new[row]), 4)}: "
        f"α = exp({number(float(old[row]), 4)} − {number(float(new[row]), 4)}) = {number(float(alpha[row]), 4)}.",
        step,
    )


def _why_rescales(runs: Runs) -> Why:
    values = [float(np.min(alpha)) for _, alpha in set_to(runs[-1], "rescale")]
    least = ", ".join(number(alpha) for alpha in values)
    several = "the smallest α of any row" if runs[-1][0].values["rows"] > 1 else "α"
    found = _rescales(runs)
    first_tile = (
        "" if _merges(runs) else f" α = 0 at the first {_pieces(runs).removesuffix('s')}: there is no old sum yet."
    )
    return Why(f"In order, {several} is {least}.{first_tile}", found[0][0] if found else None)


def _without_alpha(runs: Runs) -> tuple[float, float, int]:
    """ℓ with and without α after the row where they differ most, and that row; float32, element by element."""
    update = {one.written: one for one in running_sum_demo.UPDATES}
    forgetful, right = update["ℓ ← ℓ + exp(x − m_new)"], running_sum_demo.UPDATES[-1]
    pairs = [(right.run(row)[0], forgetful.run(row)[0]) for row in _rows(runs)]
    worst = max(range(len(pairs)), key=lambda row: abs(pairs[row][0] - pairs[row][1]))
    return *pairs[worst], worst


def _rows(runs: Runs) -> np.ndarray:
    experiment = runs[-1][0]
    return np.asarray(experiment.make_inputs()["x"])


def _why_forgotten(runs: Runs) -> Why:
    right, wrong, row = _without_alpha(runs)
    found, piece = _rescales(runs), _pieces(runs).removesuffix("s")
    seen = (
        f"0 < α < 1 at {len(found)} of {len(set_to(runs[-1], 'rescale'))} {_pieces(runs)}."
        if found
        else f"The maximum never moves after the first {piece}, so α is 1 at every later {piece}."
    )
    return Why(
        f"{seen} Element by element, row {row} has ℓ = {number(right, 4)} with α and {number(wrong, 4)} without.",
        found[0][0] if found else None,
    )


def _sums_to_1(update: running_sum_demo.Update, runs: Runs) -> bool:
    row = _rows(runs)[0]
    right = float((row > -np.inf).any())
    totals = (float(running_sum_demo.weights(update, x).sum()) for x in (row, row + SHIFT))
    return all(abs(total - right) < 1e-4 for total in totals)


def _surviving(runs: Runs) -> list[str]:
    return [update.written for update in running_sum_demo.UPDATES if _sums_to_1(update, runs)]


def _why_updates(runs: Runs) -> Why:
    names = _surviving(runs)
    wrong = (one for one in running_sum_demo.UPDATES if one.written not in names)
    faults = " ".join(f"**{one.written}** {one.fault}." for one in wrong)
    return Why(f"Right on both rows: {', '.join(f'**{name}**' for name in names)}. The others: {faults}")


def _merge_launches(runs: Runs) -> int:
    trace = runs[-1][1]
    name = runs[-1][0].entry.roles["rescale"]
    return len({id(trace.launch(step)) for step, _ in trace.history(name)})


def _tiles(runs: Runs) -> int:
    return int(runs[-1][1].launches[0].grid[1])


def _why_merges(runs: Runs) -> Why:
    done, tiles = len(set_to(runs[-1], "rescale")), _tiles(runs)
    return Why(f"{tiles} tiles give {tiles} pairs. Each merge makes one pair of two: {tiles} − 1 = {done} per row.")


def _why_launches(runs: Runs) -> Why:
    order, tiles = runs[-1][0].values["order"], _tiles(runs)
    each = "one launch per level, ⌈log₂ T⌉ levels" if order == "tree" else "one launch does all merges, in a line"
    return Why(f"The order is *{order}*: {each}. T = {tiles} tiles, so {_merge_launches(runs)}.")


def _first_wrong_merge(runs: Runs) -> Sequence[int]:
    pairs = zip(set_to(runs[0], "running_sum"), set_to(runs[-1], "running_sum"), strict=True)
    return next((steps for (steps, wrong), (_, right) in pairs if np.any(wrong != right)), range(0))


def _why_wrong_merge(runs: Runs) -> Why:
    steps = _first_wrong_merge(runs)
    at = [steps for steps, _ in set_to(runs[0], "running_sum")].index(steps)  # type: ignore[arg-type]
    wrong, right = (float(set_to(run, "running_sum")[at][1]) for run in (runs[0], runs[-1]))
    before = runs[0][1].state(steps[0] - 1)
    roles = runs[0][0].entry.roles
    m = [number(float(numbers(before[roles[role]])), 4) for role in ("running_max", "other_max")]
    return Why(
        f"The two maxima are {m[0]} and {m[1]}, so the sums have different units. Added as they are they give "
        f"{number(wrong, 4)}; rescaled to the larger maximum, {number(right, 4)}.",
        steps[0],
        0,
    )


def _why_written(runs: Runs) -> Why:
    experiment, trace = runs[-1]
    written = trace.launches[-1].written_bytes
    parts = " + ".join(f"{count(size)} ({name.removesuffix('_ptr')})" for name, size in written.items() if size)
    return Why(f"{parts} bytes: K = {experiment.values['k']} weights and their columns. No other weight is stored.")


QUESTIONS = (
    Question[Runs](
        "first-rescale",
        "Go to the step where α first shrinks the sum: 0 < α < 1.",
        "step",
        lambda runs: (_rescales(runs) or [range(0)])[0],
        _why_first,
        run=0,
        asked=lambda runs: "rescale" in runs[-1][0].entry.roles and len(runs) == 1,
        hint="Look for the first time that a larger maximum follows a smaller one.",
    ),
    Question[Runs](
        "how-often",
        _how_often,
        "number",
        lambda runs: len(_rescales(runs)),
        _why_rescales,
        asked=lambda runs: "rescale" in runs[-1][0].entry.roles and len(runs) == 1,
        hint="Count where a row's maximum rises. Leave out the first time: then there is no old sum.",
    ),
    Question[Runs](
        "forgotten",
        "A kernel forgets α and uses 1. Does it give a wrong ℓ on this input?",
        "choice",
        lambda runs: YES if _without_alpha(runs)[0] != _without_alpha(runs)[1] else NO,
        _why_forgotten,
        (YES, NO),
        asked=lambda runs: "new_max" in runs[-1][0].entry.roles and not _merges(runs) and len(runs) == 1,
        hint="Does the maximum rise after the first tile? Only then does α change a sum.",
    ),
    Question[Runs](
        "merges",
        "How many merges does the row take?",
        "number",
        lambda runs: len(set_to(runs[-1], "rescale")),
        _why_merges,
        asked=_merges,
        hint="Each merge makes one tile of two. It ends with a single one.",
    ),
    Question[Runs](
        "launches",
        "How many launches do these merges take, in the chosen order?",
        "number",
        _merge_launches,
        _why_launches,
        asked=_merges,
        hint="Merges that do not need each other run in one launch. Count the rounds.",
    ),
    Question[Runs](
        "wrong-merge",
        "In the wrong kernel (left), go to a step at which its sum first differs from the right kernel's.",
        "step",
        _first_wrong_merge,
        _why_wrong_merge,
        run=0,
        asked=lambda runs: len(runs) == 2 and _merges(runs),
        hint="The wrong kernel adds the sums as they are. That is right only if both maxima are equal.",
    ),
    Question[Runs](
        "written",
        "How many bytes does this run write to HBM?",
        "number",
        lambda runs: runs[-1][1].traffic()["written_bytes"],
        _why_written,
        unit="bytes",
        asked=lambda runs: "kept" in runs[-1][0].entry.roles,
        hint="x is only read. Count what is stored for a row: the kept weights and their columns.",
    ),
    Question[Runs](
        "updates",
        "*Wrong updates, and the right one*: how many of them give weights that sum to 1 on both rows?",
        "number",
        lambda runs: len(_surviving(runs)),
        _why_updates,
        hint="Look at the sums of weights in both columns. An update must pass on both rows.",
    ),
)
