"""The chain rule of softmax on one row: the gradient of each logit, and the same by finite differences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

STEP = 1e-4
"""How far a logit is moved to each side; of float64, the error of the quotient is then below 10⁻⁸."""

Row = NDArray[np.float64]


@dataclass(frozen=True)
class Chain:
    """One row of the backward pass, from the logits x and dp, the gradient of the weights; all float64, of one length.

    The loss is Σ dp p, so that dp is its gradient by p. `measured` is each logit's gradient by finite differences.
    """

    x: Row
    dp: Row
    p: Row
    delta: float
    ds: Row
    measured: Row

    @classmethod
    def of(cls, x: Sequence[float], dp: Sequence[float]) -> Chain:
        """The chain of a row of logits and of the gradient of its weights."""
        logits, upstream = np.asarray(x, np.float64), np.asarray(dp, np.float64)
        p = _softmax(logits)
        delta = float(p @ upstream)
        moved = STEP * np.eye(len(logits))
        measured = [(_softmax(logits + by) - _softmax(logits - by)) @ upstream / (2 * STEP) for by in moved]
        return cls(logits, upstream, p, delta, p * (upstream - delta), np.array(measured))

    def jacobian(self) -> NDArray[np.float64]:
        """∂p_i/∂x_j = p_i (1 if i = j, else 0) − p_i p_j, one row for each weight."""
        return np.diag(self.p) - np.outer(self.p, self.p)


def _softmax(x: Row) -> Row:
    p = np.exp(x - x.max())
    return np.asarray(p / p.sum(), np.float64)
