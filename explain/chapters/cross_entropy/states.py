"""One token's state after each tile of the vocabulary, and its loss, from a trace of a kernel with logits in tiles."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from explain.beats import beats
from explain.experiment import Experiment
from explain.held import Held
from explain.kept import kept
from explain.trace.model import Trace, numbers


@dataclass(frozen=True)
class State:
    """After one tile: its columns from `first` to `last`, the running m and ℓ, α, the target's logit (−∞: not yet)."""

    first: int
    last: int
    m: float
    alpha: float
    total: float
    target: float
    step: int


@dataclass(frozen=True)
class Loss:
    """A token's logsumexp, target's logit and loss, and the step that sets the loss."""

    lse: float
    target: float
    loss: float
    step: int


@kept
def states(experiment: Experiment, trace: Trace, token: int) -> list[State]:
    """The token's state after each tile, in order."""
    roles, found = experiment.entry.roles, []
    rows = Held(trace, roles["rows"])
    for beat in beats(trace, roles):
        at = _place(rows, beat.end - 1, token) if beat.kind == "drop" else None
        if at is None:
            continue
        state = trace.state(beat.end - 1)
        cols = np.ravel(numbers(state[roles["cols"]]))
        m, alpha, total, target = (
            float(np.ravel(numbers(state[roles[role]]))[at])
            for role in ("running_max", "rescale", "running_sum", "target")
        )
        last = min(int(cols[-1]), experiment.values["vocab"] - 1)
        found.append(State(int(cols[0]), last, m, alpha, total, target, beat.end - 1))
    return found


@kept
def loss_of(experiment: Experiment, trace: Trace, token: int) -> Loss | None:
    """The token's loss; None if its program was not recorded."""
    roles = experiment.entry.roles
    rows = Held(trace, roles["rows"])
    for step, value in trace.history(roles["loss"]):
        at = _place(rows, step, token)
        if at is not None:
            state = trace.state(step)
            lse, target = (float(np.ravel(numbers(state[roles[role]]))[at]) for role in ("lse", "target"))
            return Loss(lse, target, float(np.ravel(numbers(value))[at]), step)
    return None


def _place(rows: Held, step: int, token: int) -> int | None:
    """The place of a token in its tile at a step; None if it is not there."""
    held = rows.after(step)
    if held is None:
        return None
    places = np.flatnonzero(np.ravel(numbers(held)) == token)
    return int(places[0]) if len(places) else None
