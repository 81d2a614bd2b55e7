"""What limits one kernel: how near HBM and its matmuls come to their full rates, in a sentence and as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from explain.chapters.measurements.exercises import run_of
from explain.chapters.measurements.points import hbm_seconds, matmul_rate, measured
from explain.figures.labels import listed, widest, wrapped
from explain.figures.numbers import count, number, percent
from explain.figures.palette import mid
from explain.figures.svg import line, picture, rect, text
from explain.kept import kept
from explain.records.plans import Plan
from explain.records.registry import Entry

LIMIT = 0.6
"""From which share of its full rate on something counts as a kernel's limit."""
WIDE, BAR, ROW, LINE = 300.0, 14.0, 26.0, 18.0
"""How wide the picture is, how high a bar, its row and a line of words are."""


@dataclass(frozen=True)
class Limits:
    """Of each counted run of a kernel the share of HBM's full rate, and of a matmul's in the `arithmetic` of the run's
    matmuls; of the latter none for a kernel without matmuls.
    """

    of_hbm: Sequence[float]
    of_matmuls: Sequence[float]
    arithmetic: Sequence[str]

    @property
    def told(self) -> str:
        """What limits the kernel, in how many rows; a sentence of Markdown."""
        of = {"HBM": self.of_hbm, "the matmuls": self.of_matmuls}
        rows = {name: number for name, shares in of.items() if (number := sum(share >= LIMIT for share in shares))}
        if not rows:
            what = "Neither HBM nor the matmuls limit" if self.of_matmuls else "HBM does not limit"
            return f"**{what} this kernel.**"
        (name, number), *others = rows.items()
        where = f" in {count(number)} of {count(len(self.of_hbm))} rows" * (number < len(self.of_hbm))
        also = "".join(f", {other} in {count(times)}" for other, times in others)
        return f"**{'HBM limits' if name == 'HBM' else 'The matmuls limit'} this kernel{where}{also}.**"


@kept
def limits(plan: Plan, one: Entry, kernel: str) -> Limits | None:
    """How near one kernel comes to a GPU's measured rates; None where a rate or the bytes are not known."""
    points = filter(None, map(one.record.point, measured(plan, [one], kernel) if kernel else []))
    timed = [(point, point.seconds) for point in points if point.seconds]
    of_hbm = [needed / seconds for point, seconds in timed if (needed := hbm_seconds(one.record, point))]
    if not of_hbm:
        return None
    known = [run for point, _ in timed if (run := run_of(one.record, point.experiment))]
    rates = [(rate / run.peak, run) for run in known if (rate := matmul_rate(run.experiment, run.seconds))]
    return Limits(of_hbm, [share for share, _ in rates], [*dict.fromkeys(run.arithmetic for _, run in rates)])


@kept
def drawn(plan: Plan, one: Entry, kernel: str) -> str:
    """A bar of the full rate for HBM and for the matmuls, filled as far as the kernel's runs reach: up to the least,
    and fainter up to the most. An SVG, "" where that is not known.
    """
    if (found := limits(plan, one, kernel)) is None:
        return ""
    rows = [("HBM", "hbm", found.of_hbm)]
    if found.of_matmuls:
        rows.append((f"matmuls, {listed(found.arithmetic)}", "series-1", found.of_matmuls))
    left = widest([name for name, *_ in rows]) + 10
    long = WIDE - left - widest([_percents(shares) for *_, shares in rows], bold=True) - 14
    parts, y = [], 4.0
    if long < WIDE / 4:  # long names stand above their bars
        left, long, above = 0.0, long + left, LINE
    else:
        above = 0.0
    for name, hue, shares in rows:
        parts.append(text(0, y + 12, name))
        y += above
        parts.append(rect(left, y, long, BAR, mid("slate"), opacity=0.2))
        parts.append(rect(left, y, long * min(1.0, max(shares)), BAR, mid(hue), opacity=0.5))
        parts.append(rect(left, y, long * min(1.0, *shares), BAR, mid(hue)))
        parts.append(text(left + long + 8, y + 12, _percents(shares), bold=True))
        y += ROW
    parts.append(line(left + LIMIT * long, 0, left + LIMIT * long, y - 8, opacity=0.9, dash="3 2"))
    told = f"Share of the GPU's measured rate, over the whole run. From {percent(LIMIT)} on (dashed), it is the limit."
    for words in wrapped(told, 0.95 * WIDE, 13):
        parts.append(text(0, y + 9, words, size=13, faint=True))
        y += LINE
    label = "; ".join(f"{name}: {_percents(shares)} of the measured rate" for name, _, shares in rows)
    return picture(WIDE, y + 2, label, parts, f"{1.2 * WIDE:.0f}px")


def _percents(shares: Sequence[float]) -> str:
    """The least and the largest share, in two digits: "0.91 to 1.5%"."""
    least, most = (number(100 * share, 2) for share in (min(shares), max(shares)))
    return f"{most}%" if least == most else f"{least} to {most}%"
