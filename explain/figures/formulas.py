"""Formulas as HTML: a line for each equation, each quantity in its hue, indices below the line."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape

from explain.figures.palette import SYMBOLS, css_ink

SYMBOL = re.compile(rf"(?<![\w.])({'|'.join([*SYMBOLS, 'Σ', 'δ', 'β', 'lse'])})(?:_(new|ij|[ij]|\d+))?(?![a-zA-Z_\[])")
"""A quantity in an equation, a sum, or what the merge of parts adds, and its index."""


def formula(lines: Sequence[str]) -> str:
    """Equations as HTML, one per line, each quantity in its hue; a condition stands below its equation. Where an
    equation is too long for a line, it breaks before "=".

    Three spaces come before a condition, ",   " before another equation.
    """
    equations = [one for line in lines for one in line.split(",   ")]
    return f'<div class="formula">{"".join(map(_equation, equations))}</div>'


def _equation(line: str) -> str:
    equation, _, condition = line.partition("   ")
    said = escape(equation)
    if "=" in equation:
        said = SYMBOL.sub(lambda found: _symbol(*found.groups("")), said)
    sides = "".join(f"<span>{side} </span>" for side in re.split(" (?== )", said))
    return f"<div>{sides}{f'<small>{escape(condition)}</small>' if condition else ''}</div>"


def _symbol(name: str, index: str) -> str:
    said = f"{name}<sub>{index}</sub>" if index else name
    return f'<b style="color:{css_ink(SYMBOLS[name])}">{said}</b>' if name in SYMBOLS else said
