"""The climb: rungs as columns, others' kernels as lines beside them, the peak above. Values in; SVG, HTML and sentences out."""

from __future__ import annotations

import html
from collections.abc import Callable, Mapping, Sequence

from explain.chapters.speed.results import Limit, Variant
from explain.chapters.speed.results_figures import PEERS, rate
from explain.chapters.speed.rungs import Rung, Step, largest, share
from explain.figures import svg
from explain.records.model import Point

Height = Callable[[float], float]
"""FLOP/s to how far above the baseline."""

PLAIN, GLUON = "#2388C7", "#8073AC"
"""The columns' colours: plain Triton, which the interpreter runs, and Gluon."""
LEFT, COLUMN, RIGHT, TOP, TALL, ROW = 106.0, 92.0, 226.0, 26.0, 240.0, 20.0
MOST = 1.25
"""Times its own size that the picture may have: on a projector it is as wide as the page."""
BELOW = 24.0  # from the foot of the columns to the numbers under them
APART = 17.0  # between the words at two lines' ends


def climb(steps: Sequence[Step], peers: Sequence[Variant], peak: Limit | None, shape: str, chosen: str) -> str:
    """A column a rung, as high as it is fast, to be pressed; under it its number, its share of the peak, its gain. Lines are what others reach."""
    speeds = [step.per_second or 0.0 for step in steps] + [one.per_second or 0.0 for one in peers]
    most = 1.04 * max(*speeds, peak.per_second if peak else 0.0, 1.0)
    right = LEFT + COLUMN * len(steps)
    base = TOP + TALL

    def height(per_second: float) -> float:
        return TALL * per_second / most

    parts = _grid(most, right, base)
    parts += [_column(at, step, height, base, peak, chosen) for at, step in enumerate(steps)]
    heads = ("", "TFLOP/s", "of the peak" if peak else "", "× the rung below")
    parts += [
        svg.text(LEFT - 10, base + BELOW + at * ROW, words, size=12, anchor="end", faint=True)
        for at, words in enumerate(heads)
    ]
    parts += _brackets(steps, base + BELOW + 3 * ROW + 12)
    parts += _lines(peers, peak, right, base, height)
    words = f"{len(steps)} rungs on {shape}: " + "; ".join(_said(step) for step in steps)
    return svg.picture(right + RIGHT, base + BELOW + 3 * ROW + 38, words, parts, most=f"{MOST * (right + RIGHT):.0f}px")


def _grid(most: float, right: float, base: float) -> list[str]:
    """Lines at round TFLOP/s."""
    tera = most / 1e12
    apart = next((step for step in (1, 2, 5, 10, 20, 50, 100, 200, 500) if tera / step <= 6), 1000)
    parts = []
    for mark in range(0, int(tera) + 1, apart):
        y = base - TALL * mark / tera
        parts.append(svg.line(LEFT, y, right, y, opacity=0.14 if mark else 0.5))
        parts.append(svg.text(LEFT - 10, y + 4, f"{mark}", size=12, anchor="end", faint=True))
    parts.append(svg.text(LEFT - 10, TOP - 10, "TFLOP/s", size=12, anchor="end", faint=True))
    return parts


def _column(at: int, step: Step, height: Height, base: float, peak: Limit | None, chosen: str) -> str:
    rung, x = step.rung, LEFT + at * COLUMN
    middle, colour = x + COLUMN / 2, GLUON if rung.gluon else PLAIN
    parts = [svg.rect(x + 3, TOP - 6, COLUMN - 6, base - TOP + BELOW + 3 * ROW + 12, "currentColor", opacity=0.001)]
    if step.per_second:
        tall = height(step.per_second)
        strong = 0.95 if rung.name == chosen else 0.62
        parts.append(svg.rect(x + 3, base - tall, COLUMN - 6, tall, colour, opacity=strong))
    else:
        parts.append(svg.rect(x + 8, base - 26, COLUMN - 16, 26, colour, opacity=0.08, stroke=colour, dashed=True))
        parts.append(svg.text(middle, base - 9, _why_none(step), size=12, anchor="middle", faint=True))
    name = f"{at + 1} {spoken(rung)}"
    parts.append(svg.text(middle, base + 19, name, size=13, anchor="middle", bold=rung.name == chosen))
    of_peak, gain = share(step, peak), step.gain
    cells = (
        (f"{step.per_second / 1e12:.{0 if step.per_second >= 1e13 else 1}f}" if step.per_second else "–", True, ""),
        (f"{of_peak:.0%}" if of_peak else "", False, ""),
        (f"× {gain:.2f}" if gain else "", step.slower, "var(--alarm)" if step.slower else ""),
    )
    for row, (words, bold, fill) in enumerate(cells, start=1):
        parts.append(svg.text(middle, base + BELOW + row * ROW, words, anchor="middle", bold=bold, fill=fill))
    parts.append(
        f'<rect class="frame" x="{x + 1:.1f}" y="{TOP - 6:.1f}" width="{COLUMN - 2:.1f}" height="{base - TOP + BELOW + 3 * ROW + 14:.1f}" rx="4" fill="none"/>'
    )
    state = "true" if rung.name == chosen else "false"
    label = html.escape(f"Rung {at + 1}, {rung.title}: {_said(step)}")
    return f'<g role="button" tabindex="0" data-press="{rung.name}" aria-pressed="{state}" aria-label="{label}">{"".join(parts)}</g>'


def spoken(rung: Rung) -> str:
    """Its name in words."""
    return rung.name.replace("_", " ")


def _why_none(step: Step) -> str:
    if step.variant is None:
        return "not timed"
    return "not right" if step.variant.missed else "no time"


def _brackets(steps: Sequence[Step], y: float) -> list[str]:
    """Which rungs are plain Triton, and which Gluon."""
    parts = []
    for gluon, words, colour in ((False, "plain Triton", PLAIN), (True, "Gluon", GLUON)):
        own = [at for at, step in enumerate(steps) if step.rung.gluon == gluon]
        if own:
            x, end = LEFT + own[0] * COLUMN + 6, LEFT + (own[-1] + 1) * COLUMN - 6
            parts += [svg.rect(x, y, end - x, 3, colour), svg.text((x + end) / 2, y + 19, words, size=12, anchor="middle", faint=True)]  # fmt: skip
    return parts


def _lines(peers: Sequence[Variant], peak: Limit | None, right: float, base: float, height: Height) -> list[str]:
    """What others reach, and the peak, across all columns; their names apart from one another at the right."""
    lines = [
        (one.per_second or 0.0, one.label, PEERS[at % len(PEERS)], "")
        for at, one in enumerate(sorted(peers, key=lambda one: one.label))
    ]
    if peak:
        lines.append((peak.per_second, f"peak: {peak.name}", "currentColor", ' stroke-dasharray="6 4"'))
    lines.sort()
    places = [base - height(speed) for speed, *_ in lines]
    for at in range(1, len(places)):
        places[at] = min(places[at], places[at - 1] - APART)
    for at in reversed(range(len(places))):  # what was pushed out at the top comes down, and pushes in turn
        places[at] = max(places[at], TOP - 8 if at == len(places) - 1 else places[at + 1] + APART)
    parts = []
    for (speed, name, colour, dash), place in zip(lines, places, strict=True):
        y = base - height(speed)
        line = f"M{LEFT:.1f} {y:.1f}H{right + 4:.1f}L{right + 16:.1f} {place:.1f}"
        parts.append(f'<path d="{line}" fill="none" stroke="{colour}" stroke-width="1.6"{dash}/>')
        parts.append(svg.text(right + 20, place + 4.5, f"{name}, {speed / 1e12:.0f}", size=13))
    return parts


def _said(step: Step) -> str:
    if step.per_second is None:
        return f"{step.rung.name} {_why_none(step)}"
    gain = f", {step.gain:.2f} times the rung below" if step.gain else ""
    return f"{step.rung.name} {rate(step.per_second, 'FLOP/s')}{gain}"


def told(steps: Sequence[Step], peers: Sequence[Variant], peak: Limit | None) -> list[str]:
    """What the climb comes to, in sentences."""
    timed = [step for step in steps if step.per_second]
    if not timed:
        return ["None of the rungs is timed yet; what they do can be read all the same."]
    top, said = timed[-1], []
    speed = top.per_second or 0.0
    reached = f"**{spoken(top.rung)}** reaches **{rate(speed, 'FLOP/s')}**"
    parts = [f"{of_peak:.0%} of the peak"] if (of_peak := share(top, peak)) else []
    parts += [f"{speed / one.per_second:.2f} × {one.label}" for one in peers if one.per_second]
    said.append(f"{reached}: {', '.join(parts)}." if parts else f"{reached}.")
    if len(timed) > 1:
        first = timed[0].per_second or 1.0
        said.append(f"That is {speed / first:,.0f} times what {spoken(timed[0].rung)} reaches.")
    if len(timed) > 2 and (most := largest(steps)) and most.gain:
        said.append(f"The longest step is **{spoken(most.rung)}**, × {most.gain:.1f}.")
    if slow := [f"**{spoken(step.rung)}**" for step in steps if step.slower]:
        said.append(
            f"Slower than the rung below, on this shape: {', '.join(slow)}. What is slower stays, with its number."
        )
    if missing := len([step for step in steps if step.variant is None]):
        is_not = "is not" if missing == 1 else "are not"
        said.append(
            f"{missing} of the {len(steps)} rungs {is_not} timed at this shape yet; what they do can be read all the same."
        )
    return said


def number(step: Step, peak: Limit | None, below: Rung | None) -> str:
    """A rung's number in a sentence, or why it has none."""
    if step.variant is None:
        return "Not timed at this shape yet."
    if step.per_second is None:
        return "It has no time here: " + ("its result exceeded its tolerance." if step.variant.missed else step.variant.why)  # fmt: skip
    parts = [f"**{rate(step.per_second, 'FLOP/s')}**"]
    if of_peak := share(step, peak):
        parts.append(f"{of_peak:.0%} of the peak")
    if step.gain and below:
        slower = " It is slower than the rung below on this shape, and stays, with its number." if step.slower else ""
        return f"{', '.join(parts)}, {step.gain:.2f} × {spoken(below)}.{slower}"
    return ", ".join(parts) + "."


def counters_table(counted: Mapping[str, Point], rungs: Sequence[Rung]) -> str:
    """What the GPU counted of each rung, by its name, as markdown: tensor-core use and bytes, L2 cold."""
    lines = ["| rung | tensor cores at work | L2 ↔ SMs | HBM | spilled |", "|---|---:|---:|---:|---:|"]
    for rung in rungs:
        counters = counted[rung.name].counters if rung.name in counted else None
        if counters is None:
            continue
        cold = counters.cold
        tensor = f"{cold.tensor_active_percent:.0f}%" if cold.tensor_active_percent is not None else "–"
        sizes = [
            svg.size(size) if size is not None else "–" for size in (cold.sm_bytes, cold.hbm_bytes, cold.spilled_bytes)
        ]
        lines.append(f"| {spoken(rung)} | **{tensor}** | {' | '.join(sizes)} |")
    return "\n".join(lines)
