"""Right and wrong ways to update a running sum ℓ with the next element, computed on a row in float32."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from explain.figures.numbers import fixed, number
from explain.figures.tables import Column, markdown

Step = Callable[[np.float32, np.float32, np.float32, np.float32], np.float32]
"""(ℓ, x, m before x, m with x, 0 for −inf) -> the new ℓ."""


@dataclass(frozen=True)
class Update:
    """One way to update ℓ. `fault` says in words what is wrong with it; it is empty for the right one."""

    written: str
    step: Step
    fault: str = ""
    subtracts: bool = True
    """Whether the maximum is subtracted before exp."""

    def run(self, row: np.ndarray) -> tuple[float, float]:
        """ℓ and m after the whole row, element by element in float32."""
        l_i, m_i = np.float32(0), np.float32(-np.inf)
        with np.errstate(over="ignore", invalid="ignore"):
            for x in row.astype(np.float32):
                m_new = np.maximum(m_i, x)
                m_safe = m_new if m_new > -np.inf else np.float32(0)  # −inf − −inf would be NaN
                l_i, m_i = self.step(l_i, x, m_i, m_safe), m_new
        return float(l_i), float(m_i)


UPDATES = (
    Update(
        "ℓ ← ℓ + x",
        lambda l_i, x, m_i, m_new: l_i + x,
        "adds the elements, not their exponentials: ℓ changes when the row is shifted, and can be 0 or negative",
    ),
    Update(
        "ℓ ← ℓ + exp(x)",
        lambda l_i, x, m_i, m_new: l_i + np.exp(x),
        "is right only in exact arithmetic: in float32 it overflows above x = 88.72",
        subtracts=False,
    ),
    Update(
        "ℓ ← ℓ + exp(x − m_new)",
        lambda l_i, x, m_i, m_new: l_i + np.exp(x - m_new),
        "adds terms of different maxima: α is missing",
    ),
    Update("ℓ ← α ℓ + exp(x − m_new)", lambda l_i, x, m_i, m_new: l_i * np.exp(m_i - m_new) + np.exp(x - m_new)),
)


def weights(update: Update, row: np.ndarray) -> np.ndarray:
    """The softmax weights with this ℓ, float32 (cols,)."""
    l_i, m_i = update.run(row)
    base = np.float32(m_i if update.subtracts and m_i > -np.inf else 0)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        return np.exp(row.astype(np.float32) - base) / np.float32(l_i or 1)  # no weight at all: zeros, not 0/0


def table(row: np.ndarray, shift: float = 100.0) -> str:
    """Each update on a row and on the shifted row, which have the same softmax, as Markdown."""
    right = float((row > -np.inf).any())  # a row of nothing but −inf has no weight
    rows = []
    for update in UPDATES:
        cells = []
        for values in (row, row + np.float32(shift)):
            total = float(weights(update, values).sum())
            mark = ":green" if abs(total - right) < 1e-4 else ":red"
            cells.append(f"{mark}[**{fixed(total, 4)}**]")
        written = update.written.replace(" ", "\u00a0")  # a formula does not break
        rows.append((f"**{written}**<br>{update.fault or 'right'}", *cells))
    columns = ("update, and what it does", Column("sum of weights"), Column(f"for row\u00a0+\u00a0{number(shift)}"))
    return markdown(columns, rows)
