"""Questions of the chapter on attention: about the head and the token that the page shows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from explain.chapters.attention.heads import Head
from explain.exercises import Question, Why
from explain.figures.numbers import count, fixed, number, percent

TIMES = 3
"""How much longer the sentence of the last question is."""


@dataclass(frozen=True)
class Shown:
    """The head and the place of the token that the reader chose."""

    head: Head
    token: int


def _names(shown: Shown) -> list[str]:
    """Each token in quotation marks; those of the same name with their place as well."""
    tokens = shown.head.tokens
    places = [f", token {place}" * (tokens.count(name) > 1) for place, name in enumerate(tokens)]
    return [f"“{name}”{place}" for name, place in zip(tokens, places, strict=True)]


def _seen_most(shown: Shown) -> str:
    return _names(shown)[int(shown.head.weights.mean(axis=0).argmax())]


def _why_seen_most(shown: Shown) -> Why:
    mean = shown.head.weights.mean(axis=0)
    best = int(mean.argmax())
    return Why(
        f"“{shown.head.tokens[best]}” gets {percent(float(mean[best]), 1)} of a token's weight on average: the largest "
        f"mean of a column of P. Equal weights would be {percent(1 / len(mean), 1)} each."
    )


def _sharpest(shown: Shown) -> str:
    return _names(shown)[int(shown.head.weights.max(axis=1).argmax())]


def _why_sharpest(shown: Shown) -> Why:
    row, column = np.unravel_index(int(shown.head.weights.argmax()), shown.head.weights.shape)
    tokens = shown.head.tokens
    return Why(
        f"“{tokens[row]}” gives “{tokens[column]}” {percent(float(shown.head.weights[row, column]), 1)}, the largest "
        "weight of this head. It is the strongest cell of its square above."
    )


def _other_scores(shown: Shown) -> int:
    return (TIMES * len(shown.head.tokens)) ** 2


def _why_other_scores(shown: Shown) -> Why:
    n = len(shown.head.tokens)
    return Why(
        f"{TIMES * n} × {TIMES * n} = {count((TIMES * n) ** 2)}: {TIMES} × {TIMES} times the {n} × {n} = {n * n} of "
        "this sentence."
    )


def _ratio(shown: Shown) -> float:
    weights = np.sort(shown.head.weights[shown.token])
    return float(weights[-1] / weights[-2])


def _why_ratio(shown: Shown) -> Why:
    scores = np.sort(shown.head.scores[shown.token])
    apart = float(scores[-1] - scores[-2])
    return Why(
        f"The two largest scores are {fixed(float(scores[-1]), 3)} and {fixed(float(scores[-2]), 3)}. Both weights are "
        f"divided by the same sum, so their ratio is exp({fixed(apart, 3)}) = {number(_ratio(shown))}."
    )


QUESTIONS = (
    Question[Shown](
        "ratio",
        lambda shown: (
            f"Row **{shown.head.tokens[shown.token]}**: what is the largest weight ÷ the second largest? Use their two "
            "scores."
        ),
        "number",
        _ratio,
        _why_ratio,
        tolerance=0.03,
        hint="Both weights have the same divisor. So their ratio is exp(largest score − second largest score).",
    ),
    Question[Shown](
        "sharpest",
        lambda shown: (
            f"Head {shown.head.number}: which token gives the largest single weight? Press tokens, or look at the "
            "head's square."
        ),
        "choice",
        _sharpest,
        _why_sharpest,
        _names,
        hint="Look for the strongest cell of the square. Its row is the token.",
    ),
    Question[Shown](
        "seen-most",
        lambda shown: f"Head {shown.head.number}: which token gets the most weight from all tokens together?",
        "choice",
        _seen_most,
        _why_seen_most,
        _names,
        hint="Look for the column of the square that is strong in most rows.",
    ),
    Question[Shown](
        "three-times-as-long",
        "How many scores does a sentence with three times as many tokens have in one head?",
        "number",
        _other_scores,
        _why_other_scores,
        hint="Count the cells of S: rows × columns.",
    ),
)
