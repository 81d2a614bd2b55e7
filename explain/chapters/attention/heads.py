"""One attention head of a real language model reading a sentence, computed step by step in float64."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from kernels import real_inputs, reference
from kernels.inputs import HEADS_TO_SHOW

Array = NDArray[np.float64]

SENTENCE, LAYER = "short", real_inputs.OPENING_LAYER


@dataclass(frozen=True, eq=False)
class Head:
    """One head on a sentence of N tokens; `q`, `k` and `v` are (N, d), as the model computed them."""

    number: int
    tokens: tuple[str, ...]
    q: Array
    k: Array
    v: Array

    @cached_property
    def scores(self) -> Array:
        """S = Q Kᵀ / √d, (N, N): row i has token i's scores with all tokens."""
        return self.q @ self.k.T / np.sqrt(self.q.shape[1])

    @cached_property
    def weights(self) -> Array:
        """P, (N, N): the softmax of each row of S. Each row sums to 1."""
        return softmax(self.scores)

    @cached_property
    def output(self) -> Array:
        """O = P V, (N, d): for each token the weighted sum of the rows of V."""
        return self.weights @ self.v

    @property
    def mean_before(self) -> float:
        """The mean weight that a token gives to the token before it."""
        return float(np.diagonal(self.weights, -1).mean())

    @property
    def mean_first(self) -> float:
        """The mean weight that the tokens after the first give to the first."""
        return float(self.weights[1:, 0].mean())


def heads_that_differ(token: int, best: int) -> int:
    """How many heads give the largest weight of a token's row to another token than `best`; both by place."""
    return sum(int(head(number).weights[token].argmax()) != best for number in HEADS_TO_SHOW)


@lru_cache
def head(number: int) -> Head:
    """One of HEADS_TO_SHOW reading the sentence. Raises ValueError for a number that is not among them."""
    if number not in HEADS_TO_SHOW:
        raise ValueError(f"head {number} is unknown; allowed: {', '.join(map(str, sorted(HEADS_TO_SHOW)))}")
    text = real_inputs.sentence(SENTENCE, LAYER)
    q, k, v = (part[number].astype(np.float64) for part in (text.q, text.k, text.v))
    return Head(number, text.tokens, q, k, v)


def softmax(scores: Array) -> Array:
    """The softmax of each row, in float64."""
    return reference.softmax(np.atleast_2d(scores)).reshape(scores.shape)


def with_larger(scores: Array, token: int, more: float) -> Array:
    """The weights of one row of scores (N,), with `more` added to one token's score."""
    changed = scores.copy()
    changed[token] += more
    return softmax(changed)
