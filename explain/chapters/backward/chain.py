"""The chain rule of softmax on one row: the gradient of each score, and the same by finite differences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from explain.kept import kept

STEP = 1e-4
"""How far a score is moved to each side; of float64, the error of the quotient is then below 10⁻⁸."""

Row = NDArray[np.float64]


@dataclass(frozen=True)
class Chain:
    """One row of the backward pass, from the scores s and dp, the gradient of the weights; all float64, of one length.

    The loss is Σ dp p, so that dp is its gradient by p. `measured` is each score's gradient by finite differences.
    """

    s: Row
    dp: Row
    p: Row
    delta: float
    ds: Row
    measured: Row

    @classmethod
    @kept
    def of(cls, s: Sequence[float], dp: Sequence[float]) -> Chain:
        """The chain of a row of scores and of the gradient of its weights."""
        scores, upstream = np.asarray(s, np.float64), np.asarray(dp, np.float64)
        p = _softmax(scores)
        delta = float(p @ upstream)
        moved = STEP * np.eye(len(scores))
        measured = [(_softmax(scores + by) - _softmax(scores - by)) @ upstream / (2 * STEP) for by in moved]
        return cls(scores, upstream, p, delta, p * (upstream - delta), np.array(measured))

    def jacobian(self) -> NDArray[np.float64]:
        """∂p_i/∂s_j = p_i (1 if i = j, else 0) − p_i p_j, one row for each weight."""
        return np.diag(self.p) - np.outer(self.p, self.p)


def _softmax(s: Row) -> Row:
    p = np.exp(s - s.max())
    return np.asarray(p / p.sum(), np.float64)
