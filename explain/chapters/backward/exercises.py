"""Questions of the backward pass: what is recomputed, what is kept, and which sums depend on the order."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from explain.beats import beats, step_of
from explain.exercises import Question, Runs, Why
from explain.experiment import Experiment
from explain.figures.numbers import count, number
from explain.trace.model import Trace, numbers


def _run(runs: Runs) -> tuple[Experiment, Trace]:
    return runs[0]


def _recomputes(runs: Runs) -> bool:
    return "scores" in _run(runs)[0].entry.roles


def _first_ds(runs: Runs) -> Sequence[int]:
    experiment, trace = _run(runs)
    step = step_of(trace, experiment.entry.roles, "first scores_gradient")
    return range(step, step + 1)


def _why_first_ds(runs: Runs) -> Why:
    step = _first_ds(runs)[0]
    return Why(f"Line {_run(runs)[1].line(step)}: dS = P ∘ (dP − δ). δ is one number per query, the same for all keys.",
               step)  # fmt: skip


def _times_less(runs: Runs) -> float:
    return float(_run(runs)[0].values["kv_len"])


def _why_times_less(runs: Runs) -> Why:
    p = _run(runs)[0].values
    return Why(f"P has {count(p['seq_len'])} × {count(p['kv_len'])} numbers per head, L has {count(p['seq_len'])}: one "
               f"for each row of {count(p['kv_len'])}.")  # fmt: skip


def _scores_made(runs: Runs) -> float:
    """How often the run computes S of the first head's first pair of tiles."""
    experiment, trace = _run(runs)
    roles, made = experiment.entry.roles, 0
    for beat in beats(trace, roles):
        if beat.kind == "scores" and not trace.program(beat.at).id[1]:
            rows, cols = (numbers(trace.state(beat.at)[roles[side]]) for side in ("rows", "cols"))
            made += int(rows[0] == 0 and cols[0] == 0)
    return float(made)


def _why_scores_made(runs: Runs) -> Why:
    made = int(_scores_made(runs))
    launches = (
        "once by the launch that holds keys, once by the launch that holds queries" if made == 2 else "in one launch"
    )
    return Why(f"{made} ×: {launches}. The forward pass had computed it too.")


def _row_sum(runs: Runs) -> float:
    """Σ of dS over all keys of query 0, from the last launch that has it."""
    experiment, trace = _run(runs)
    roles, total = experiment.entry.roles, {}
    for beat in beats(trace, roles):
        if beat.kind == "scores_gradient" and not trace.program(beat.at).id[1]:
            state = trace.state(beat.at)
            rows, cols = (numbers(state[roles[side]]) for side in ("rows", "cols"))
            if rows.ndim and rows[0] == 0:
                total[int(cols[0])] = float(numbers(state[roles["scores_gradient"]])[0].astype(np.float64).sum())
    return sum(total.values())


def _why_row_sum(runs: Runs) -> Why:
    return Why(f"In this run row 0 of dS sums to {number(_row_sum(runs))}. Σ p (dp − δ) = Σ p dp − δ Σ p = δ − δ = 0: "
               "adding the same number to all scores of a row changes no weight.")  # fmt: skip


SUMS = ("0", "1", "δ", "ℓ")
QUESTIONS = (
    Question[Runs](
        "first-ds",
        "Go to the step that subtracts δ for the first time.",
        "step",
        _first_ds,
        _why_first_ds,
        hint="Which formula has δ? Look for its beat, *dS*.",
        asked=_recomputes,
    ),
    Question[Runs](
        "times-less",
        "The kernel keeps L instead of P. How many times fewer numbers is that, at the size in the player?",
        "number",
        _times_less,
        _why_times_less,
        hint="P has a row for each query. How long is the row?",
        asked=_recomputes,
    ),
    Question[Runs](
        "scores-made",
        "How often does this run compute the tile of S of queries 0 and keys 0?",
        "number",
        _scores_made,
        _why_scores_made,
        hint="Count the beats *scores S* of that tile, over all launches.",
        asked=_recomputes,
    ),
    Question[Runs](
        "row-sum",
        "Without rounding, what does a row of dS sum to, over all keys?",
        "choice",
        lambda runs: SUMS[round(abs(_row_sum(runs)))],  # 0 or 1, whichever is nearer
        _why_row_sum,
        SUMS,
        hint="dS = P ∘ (dP − δ). Sum it over the row, with Σ P = 1 and δ = Σ P dP.",
        asked=_recomputes,
    ),
)
