"""The merge of a run's first row: each part's weight β = exp(lse − m), as a share of all weights' sum."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from explain.exercises import set_to
from explain.experiment import Experiment
from explain.figures.labels import text_width, widest
from explain.figures.numbers import fixed, percent
from explain.figures.palette import SYMBOLS, css
from explain.figures.svg import line, picture, rect, text
from explain.kept import kept
from explain.trace.model import Trace

PART = css(SYMBOLS["O"])
LANE, GAP = 22.0, 6.0


def of_parts(experiment: Experiment, trace: Trace) -> list[float]:
    """lse of each part of row 0, as the merge reads it; −∞ for a part without keys."""
    found = set_to((experiment, trace), "other_max")[: experiment.values["splits"]]
    return [float(np.ravel(value)[0]) for _, value in found]


def shares(lse: Sequence[float]) -> list[float]:
    """Each part's share of O: β ÷ Σ β. All are 0 if no part has a key."""
    largest = max(lse)
    terms = [math.exp(one - largest) if one > -math.inf else 0.0 for one in lse]
    return [term / (sum(terms) or 1.0) for term in terms]


def equations(lse: Sequence[float]) -> list[str]:
    """The merge as equations, the last one with row 0's numbers."""
    found = shares(lse)
    terms = [f"{percent(share)}\u00a0O_{part}" for part, share in enumerate(found) if share]
    row = f"O of row 0 = {' + '.join(terms)}" if terms else "O of row 0 = 0   no part has a key"
    return ["β_j = exp(lse_j − m)   m: the largest lse of the row", "O = Σ_j β_j O_j ÷ Σ_j β_j", row]


@kept
def drawn(lse: Sequence[float], *, narrow: bool = False) -> str:
    """A bar per part, as long as its share of O; a dashed line where each part would be in a plain average."""
    names = [f"part {part}" for part in range(len(lse))]
    told = [f"{percent(share)} · lse {fixed(one, 2)}" for share, one in zip(shares(lse), lse, strict=True)]
    left = widest(names) + 12
    width = (354.0 if narrow else 700.0) - left - widest(told) - 8
    scale = width / max(*shares(lse), 1 / len(lse))
    body = [text(0, 16, "Row 0: each part's share of O, β ÷ Σ β", bold=True)]
    top = 28.0
    for part, share in enumerate(shares(lse)):
        y = top + part * (LANE + GAP)
        body += [
            text(left - 8, y + 16, names[part], anchor="end", faint=True),
            rect(left, y, share * scale, LANE, PART, opacity=0.9, title=f"{names[part]}: {told[part]}"),
            text(max(left + share * scale, left + scale / len(lse)) + 8, y + 16, told[part]),
        ]
    end = top + len(lse) * (LANE + GAP)
    x, whole = left + scale / len(lse), left + width + widest(told) + 14
    average = f"a plain average: {percent(1 / len(lse))} each"
    half = text_width(average) / 2
    body += [
        line(x, top - 4, x, end, dash="4 4"),
        text(min(max(x, half), whole - half - 4), end + 16, average, anchor="middle", faint=True),
    ]
    return picture(whole, end + 24, "The parts' shares of O", body, "30rem" if narrow else "52rem")
