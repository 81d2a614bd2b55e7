"""What a run's tokens have in float64: their losses, and the weights P of one of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from explain.experiment import Experiment
from explain.kept import kept
from kernels import reference
from kernels.inputs import IGNORE_INDEX, labels

FIRST = 16
"""The tokens that `losses` names, at most."""


@dataclass(frozen=True)
class Token:
    """A token, its target and its loss; neither counts if `counts` is false."""

    name: str
    target: str
    loss: float
    counts: bool


@dataclass(frozen=True)
class Losses:
    """The run's `first` tokens; of all its tokens, how many there are, how many count, and the sum of their losses."""

    first: Sequence[Token]
    tokens: int
    counting: int
    total: float


@dataclass(frozen=True)
class Row:
    """One token's weights P over the vocabulary, and the column of its target."""

    token: int
    name: str
    target: int
    target_name: str
    weights: Sequence[float]


@kept
def losses(experiment: Experiment) -> Losses:
    """The losses of the run's tokens; its own targets say which of them count."""
    x, targets = _logits(experiment)
    names, counts = _names(experiment), targets != IGNORE_INDEX
    found, _ = reference.cross_entropy(x, targets)
    first = [
        Token(names[0][i], names[1][target] if own else str(IGNORE_INDEX).replace("-", "−"), float(loss), bool(own))
        for i, (target, loss, own) in enumerate(zip(targets[:FIRST], found, counts, strict=False))
    ]
    return Losses(first, len(targets), int(counts.sum()), float(found.sum()))


@kept
def row_of(experiment: Experiment, token: int) -> Row | None:
    """The weights of this token, or of the first one that counts; None if none counts or a weight is no number."""
    x, targets = _logits(experiment)
    counting = np.flatnonzero(targets != IGNORE_INDEX)
    if not len(counting):
        return None
    chosen = token if token in counting else int(counting[0])
    weights = reference.softmax(x[chosen])
    if not np.isfinite(weights).all():
        return None
    names, target = _names(experiment), int(targets[chosen])
    return Row(chosen, names[0][chosen], target, names[1][target], tuple(map(float, weights)))


def _logits(experiment: Experiment) -> tuple[np.ndarray, np.ndarray]:
    arrays = experiment.make_inputs()
    h, w = (np.asarray(arrays[name], np.float64) for name in ("h", "w"))
    return h @ w.T, np.asarray(arrays["targets"])


def _names(experiment: Experiment) -> Sequence[Sequence[str]]:
    """Each token and each entry of the vocabulary: a sentence's own words, or numbers."""
    p = experiment.values
    return labels(experiment.preset, p) or [[str(i) for i in range(p[side])] for side in ("tokens", "vocab")]
