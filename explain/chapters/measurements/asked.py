"""What a kernel's loads ask for, beside what HBM delivers: a picture of a table's rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from explain.chapters.measurements.points import loads_of_once, measured_sizes, tensors_once
from explain.experiment import Experiment
from explain.figures.labels import widest
from explain.figures.numbers import count, moved, ratio
from explain.figures.palette import mid
from explain.figures.svg import line, picture, rect, text
from explain.kept import kept
from explain.records.plans import Plan
from explain.records.registry import Entry

ROWS = 4
"""Rows of the table that are drawn at most."""
BAR, GAP, LONG, NARROW, BESIDE = 16.0, 22.0, 560.0, 300.0, 300.0
"""A bar's height, the gap between rows, the longest bar (wide and on a phone), the widest label beside its bar."""


@kept
def bars(plan: Plan, one: Entry, kernel: str, *, narrow: bool = False) -> str:
    """For each of some rows two bars, as an SVG: the bytes of all loads by formula, and those that HBM delivered with a
    cold L2, both as multiples of every tensor once, which a line marks: so rows of any size have one scale. "" for a
    kernel without counts, or without known loads.

    `narrow` is for a phone.
    """
    counted: dict[Experiment, int] = {}
    sizes = measured_sizes(plan, [one], kernel)
    for run in sizes:
        point = one.record.point(run)
        if run.entry.steppable and point and point.counters and (read := point.counters.cold.dram_read_bytes):
            counted[run] = read
    if not counted or len({run.kernel for run in counted}) > 1:
        return ""
    return _picture(_some(list(counted)), counted, sizes, narrow)


def _some(runs: Sequence[Experiment]) -> list[Experiment]:
    """All runs if they are at most ROWS, else so many of them: from the one whose loads ask least often for each tensor
    to the one whose loads ask most often; where all ask equally often, from the smallest to the largest.
    """
    if len(runs) <= ROWS:
        return list(runs)
    ranked = sorted(runs, key=lambda run: (round(loads_of_once(run), 2), tensors_once(run)))
    return [ranked[round(at * (len(runs) - 1) / (ROWS - 1))] for at in range(ROWS)]


def _picture(
    runs: Sequence[Experiment], counted: Mapping[Experiment, int], sizes: Mapping[Experiment, str], narrow: bool
) -> str:  # fmt: skip
    most = max(max(run.traffic.read_bytes, counted[run]) / tensors_once(run) for run in runs)
    left = widest([sizes[run] for run in runs], bold=True) + 16
    above = narrow or left > BESIDE  # long words stand above their bars
    left = 0.0 if above else left
    long = NARROW if narrow else LONG
    room = widest([_share(number, run) for run in runs for number in (run.traffic.read_bytes, counted[run])]) + 12
    mark = left + (long - room) / most
    parts, y = [text(0, 12, "How often each byte is read, on average", bold=True)], 26.0
    if len(counted) > len(runs):
        alike = len({round(loads_of_once(run), 2) for run in runs}) == 1
        order = "from the smallest to the largest" if alike else "by how often each byte is loaded"
        said = f"{len(runs)} of {count(len(counted))} rows,"
        for words in [said, order] if narrow else [f"{said} {order}"]:
            parts.append(text(0, y + 10, words, faint=True))
            y += 18
        y += 6
    for run in runs:
        if above:
            parts.append(text(0, y + 14, sizes[run], bold=True))
            y += 22
        else:
            parts.append(text(0, y + BAR + 6, sizes[run], bold=True))
        for number, fill in ((run.traffic.read_bytes, mid("slate")), (counted[run], mid("hbm"))):
            wide = (mark - left) * number / tensors_once(run)
            parts.append(rect(left, y, wide, BAR, fill))
            parts.append(text(max(left + wide, mark) + 8, y + 13, _share(number, run)))
            y += BAR + 2
        parts.append(line(mark, y - 2 * BAR - 6, mark, y + 2, opacity=0.9, thick=1.5, dash="3 2"))
        y += GAP
    x = left
    for hue, said in (("slate", "asked for by the loads (formula)"), ("hbm", "delivered by HBM (hardware, L2 cold)")):
        parts += [rect(x, y - 4, 12, 12, mid(hue)), text(x + 18, y + 7, said)]
        x, y = (x, y + 20) if narrow else (x + 18 + widest([said]) + 20, y)
    parts += [
        line(x + 6, y - 6, x + 6, y + 10, opacity=0.9, thick=1.5, dash="3 2"),
        text(x + 18, y + 7, "each tensor once: 1 ×"),
    ]
    label = f"{runs[0].entry.title}: bytes that its loads ask for and bytes that HBM delivers"
    across = max(left + long, x + 36 + widest(["each tensor once: 1 ×"]))
    return picture(across, y + 18, label, parts, f"{1.2 * across:.0f}px")


def _share(number: int, run: Experiment) -> str:
    """The ratio of bytes to those of each tensor once, and the bytes: "21.7 × (2.18 GB)"."""
    return f"{ratio(number / tensors_once(run))} ({moved(number)})"
