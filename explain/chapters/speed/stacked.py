"""Kernels of one shape, under each other on one axis: what their warps do, and when no matmul runs."""

from __future__ import annotations

from collections.abc import Sequence

from explain.chapters.speed.legend import legend
from explain.chapters.speed.timeline import SCOPES, SPANS, WAIT_OPACITY, Timeline, window
from explain.figures import labels, numbers, palette, svg
from explain.kept import kept

TILES = 2
"""Tiles of keys of the slowest kernel in sight."""
WIDE, PHONE = 700.0, 340.0
HEAD, BUSY, ROW, APART, AXIS = 24.0, 12.0, 11.0, 14.0, 56.0
"""Heights: a kernel's name, its tensor cores, a row of a warp, the room under a kernel, the axis."""
MATMUL_ROWS = {"QK": 0, "PV": 1}
"""Each matmul's row. Everything else is in a third one: all three may run at the same time."""
KINDS = {kind: (hue, WAIT_OPACITY if kind == "wait" else 1.0) for kind, (hue, _) in SPANS.items()}
KIND_OF = {scope: kind for kind, (_, scopes) in SPANS.items() for scope in scopes}
TENSOR = "tensor cores"
BOUNDED = "A matmul was started and not yet waited for. The cores may already be idle."


def comparable(timelines: Sequence[Timeline]) -> tuple[Timeline, ...]:
    """The runs of the shape, dtype and mask that most runs have; empty if no two are alike."""
    alike: dict[tuple[object, ...], list[Timeline]] = {}
    for one in timelines:
        alike.setdefault((one.shape, one.dtype, one.causal), []).append(one)
    most = max(alike.values(), key=len, default=[])
    return tuple(most) if len(most) > 1 else ()


def shown_cycles(timelines: Sequence[Timeline]) -> int:
    """How many cycles of each run are in sight: as long as the slowest takes for TILES tiles of keys."""
    programs = [one.programs[0] for one in timelines]
    return round(TILES * max(one.cycles / max(one.visits(), 1) for one in programs))


@kept
def stacked(timelines: Sequence[Timeline], *, narrow: bool = False) -> str:
    """The first program of each run, from the middle of its work, over the same number of cycles.

    A kernel's first row is hatched while a matmul is started and not yet waited for, and filled as long as the matmuls
    take at the SM's peak. `narrow` is for a phone.
    """
    names = {name for one in timelines for name, _ in one.programs[0].consumers}
    width, left = (PHONE if narrow else WIDE), labels.widest((TENSOR, *names), svg.SMALL) + 17
    cycles = shown_cycles(timelines)
    place = left, width, (width - left) / cycles, HEAD + 18 * narrow
    scale = place[2]
    seen = {kind for one in timelines for kind in _seen(one, cycles)}
    parts, y = legend({kind: look for kind, look in KINDS.items() if kind in seen}, width)
    for one in timelines:
        drawn, y = _kernel(one, y, place, cycles)
        parts += drawn
    step = next(size for size in (500, 1000, 2000, 5000, 10**4, 10**5, 10**9) if size * scale >= 60)
    for mark in range(0, cycles + 1, step):
        x = left + mark * scale
        parts.append(svg.line(x, y, x, y + 5))
        parts.append(svg.text(x, y + 18, numbers.count(mark), size=svg.SMALL, anchor="middle", faint=True))
    parts.append(svg.line(left, y, width, y))
    parts.append(
        svg.text(
            width, y + 36, "cycles, in the middle of a run: no start, no end", size=svg.SMALL, anchor="end", faint=True
        )
    )
    said = ", ".join(f"{one.short} {_bounds(one, cycles)}" for one in timelines)
    return svg.picture(width, y + AXIS, f"Share of the cycles in sight: {said}", parts, "1000px")


def shares(one: Timeline, cycles: int) -> tuple[float, float | None]:
    """The shares of the cycles in sight in which the tensor cores are busy: at least (solid), and at most (solid or
    hatched; None if a warpgroup is unseen).
    """
    program = one.programs[0]
    first = window(program)[0]
    least, most = (
        sum(max(0.0, min(end, first + cycles) - max(start, first)) for start, end in spans) / cycles
        for spans in (program.earliest(one.matmul_cycles or 0.0), program.multiplies)
    )
    return least, None if program.unseen else most


def _bounds(one: Timeline, cycles: int) -> str:
    """ "tensor cores busy: 78–96%", of the cycles in sight."""
    least, most = shares(one, cycles)
    if most is None:
        return f"{TENSOR} busy: {numbers.percent(least)} or more"
    if not one.matmul_cycles:
        return f"{TENSOR} busy: at most {numbers.percent(most)}"
    return f"{TENSOR} busy: {numbers.percent(least).removesuffix('%')}–{numbers.percent(most)}"


def _kernel(one: Timeline, y: float, place: tuple[float, float, float, float], cycles: int) -> tuple[list[str], float]:
    """A run's rows from `y` on, and where they end."""
    (left, width, scale, head), program = place, one.programs[0]
    first = window(program)[0]
    said = _bounds(one, cycles)

    def bar(start: float, end: float, top: float, high: float, fill: str, opacity: float, title: str) -> list[str]:
        begin = max(start - first, 0)
        wide = (min(end - first, cycles) - begin) * scale
        return [svg.rect(left + begin * scale, top, wide, high, fill, opacity=opacity, title=title)] if wide > 0 else []

    parts = [svg.text(0, y + 15, one.short, bold=True), svg.text(width, y + head - 9, said, anchor="end", bold=True)]
    y += head
    parts.append(svg.text(left - 10, y + 10, TENSOR, size=svg.SMALL, anchor="end"))
    parts.append(svg.rect(left, y, width - left, BUSY, palette.css("slate"), opacity=0.12))
    for start, end in program.multiplies:
        parts += bar(start, end, y, BUSY, "currentColor", 0.15, BOUNDED)
        parts.append(_hatch(left + max(start - first, 0) * scale, left + min(end - first, cycles) * scale, y))
    for begin, done in program.earliest(one.matmul_cycles or 0.0):
        parts += bar(begin, done, y, BUSY, "currentColor", 1, "a matmul runs, at the peak")
    y += BUSY + 5
    for name, lane in program.consumers:
        parts.append(svg.text(left - 10, y + 1.5 * ROW + 4, name, size=svg.SMALL, anchor="end", faint=True))
        for span in lane.spans:
            hue, opacity = KINDS[KIND_OF[span.scope]]
            top = y + ROW * MATMUL_ROWS.get(span.scope, 2)
            parts += bar(span.start, span.end, top, ROW - 1, palette.css(hue), opacity, SCOPES[span.scope])
        y += 3 * ROW + 5
    return parts, y + APART


def _hatch(x: float, end: float, y: float) -> str:
    """Slanted lines from x to its end, as high as the row of the tensor cores; nothing if it has no width."""
    lines = []
    for at in range(int(x // 5) * 5 - int(BUSY), int(end) + 1, 5):
        low, high = max(at, x), min(at + BUSY, end)
        if low < high:
            lines.append(f"M{low:.1f} {y + BUSY - (low - at):.1f}L{high:.1f} {y + BUSY - (high - at):.1f}")
    return svg.path("".join(lines), "currentColor", opacity=0.6) if lines else ""


def _seen(one: Timeline, cycles: int) -> set[str]:
    """The kinds of spans that its consumers have in sight."""
    first = window(one.programs[0])[0]
    spans = (span for _, lane in one.programs[0].consumers for span in lane.spans)
    return {KIND_OF[span.scope] for span in spans if span.start < first + cycles and span.end > first}
