"""Questions that the glossary's entries answer."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from explain.exercises import Question, Why
from explain.glossary import Term

Terms = Sequence[Term]


ASKED = ("m", "ℓ", "α", "Õ")
"""The symbols of the names that can be chosen."""


def _with(terms: Terms, symbol: str) -> Term:
    return next(term for term in terms if term.symbol == symbol)


def _code(terms: Terms, symbol: str) -> str:
    return _with(terms, symbol).code[0]


def _why(terms: Terms, symbol: str) -> Why:
    term = _with(terms, symbol)
    return Why(f"{symbol} is the **{term.name}**, `{term.code[0]}` in the code. {term.definition}")


QUESTIONS = tuple(
    Question[Terms](
        f"code-of-{name}",
        f"Which name does {symbol} have in the kernels?",
        "choice",
        partial(_code, symbol=symbol),
        partial(_why, symbol=symbol),
        lambda terms: sorted(_code(terms, symbol) for symbol in ASKED),
        hint="Search for the symbol. Its names in the kernels stand beside its definition.",
    )
    for name, symbol in (("sum", "ℓ"), ("rescale", "α"))
)
