"""The memory hierarchy with the bytes of each link, and the bars of each level: pictures of one run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate

from explain.chapters.three_numbers import gap_words
from explain.chapters.three_numbers.byte_accounting import UNEXPLAINED, Gap, Prediction
from explain.chapters.three_numbers.levels import WAVEFRONT, Level, Levels, amount
from explain.figures.labels import text_width, wrapped
from explain.figures.numbers import percent
from explain.figures.palette import css, css_ink
from explain.figures.svg import button, line, picture, rect, text
from explain.kept import kept

COLOURS = {**dict.fromkeys(("formula", "traced", "l1", "l2", "shared"), css("slate")), "dram": css("hbm")}
"""The colour of each level in every picture here."""
MARKS = {"formula": "○", "traced": "◉", "measured": "●", "predicted": "□"}
"""The mark of each source; bars of the first three are outlined, half filled, filled."""
WORDS = {"formula": "formula", "predicted": "predicted", "traced": "trace", "measured": "hardware"}
"""The name of each source, as the page introduces it."""
BAR = 26.0
BUTTON = 42.0
"""The width of the button that fills the screen, at the picture's right."""
STEP = BAR + 24
"""The height of a level's or a step's bar, and of a step with its label."""
LINKS = {"l1": "Programs ↔ L1", "l2": "L2 ↔ SM", "dram": "HBM ↔ L2", "shared": "Programs ↔ shared memory"}
"""The links that can be chosen, by level."""
PRESS = "Press an arrow for its bytes."
"""The main control of the page."""
WIDTH = "Width: bytes, with a minimum."
LEGEND = "✓ equal to the number above it, ≠ not"
LINE = 14.0
"""The height of a line of reasons."""
SHARED = 90.0
"""The height of shared memory's numbers where they are below those of L1."""
ABOVE = "compared with the link above:"
PROGRAMS = "The programs, in the SMs' registers"


@kept
def hierarchy(
    found: Levels, between: Sequence[Gap], prediction: Prediction | None, dirty: int | None, chosen: str, *,
    warm: bool = False, narrow: bool = False,
) -> str:  # fmt: skip
    """From registers down to HBM: arrows as wide as their bytes, up for reads and down for writes; `chosen` is
    outlined. A number has ✓ where it is the one above it, to the byte, else ≠; there is room for its cause beside L2's
    links. A prediction stands below the count, with its error. `dirty` bytes were still in L2 at the end of the run;
    if `warm`, as many of the run before at its start.

    A link is a button (`data-press` is its level). A link that was not measured is grey and says why. `narrow` is for a
    phone: the numbers of shared memory and the causes are then below a link's numbers.
    """
    gaps_to = {(one.below, one.written): one for one in between}
    width, box, gap, left, first = (340.0, 30.0, 90.0, 6.0, 42.0) if narrow else (600.0, 30.0, 90.0, 10.0, 26.0)
    below = SHARED * narrow
    causes = {key: _causes(key, gaps_to, 228.0 if narrow else 220.0) for key in ("l2", "dram")}
    most = max((count for level in found for count in (level.read, level.written) if count), default=1)
    held = "{} of it by the run before" if warm else "{} more are still in L2"
    heights = [gap + below, *(gap + LINE * len(causes[key]) * narrow for key in ("l2", "dram"))]
    tops = [*accumulate((box + height for height in heights), initial=first)]
    whole = width - 2 * left
    l1, beside = (118.0, 134.0) if narrow else (340.0, 374.0)
    own, formula, traced = found.l1, found.formula, found.traced
    rows = ("formula", formula), ("traced", traced), ("measured", own)
    predicted = (("predicted", _predicted(prediction, found.dram.read)),) if prediction else ()
    more = held.format(amount(dirty)) if dirty else ""
    parts = [
        text(left, 15, PRESS, bold=True, size=14),
        text(left, 33, LEGEND, faint=True, size=12)
        if narrow
        else text(width - BUTTON, 15, f"{WIDTH} {LEGEND}", anchor="end", faint=True, size=12),
        _box(left, tops[0], whole, box, PROGRAMS, css("slate")),
        _box(left, tops[1], l1, box, "L1, of each SM", COLOURS["l1"]),
        _box(beside, tops[1], width - beside - left, box, "Shared memory, of each SM", COLOURS["shared"]),
        _box(left, tops[2], whole, box, "L2, of the GPU", COLOURS["l2"]),
        _box(left, tops[3], whole, box, "HBM (the counters call it DRAM)", COLOURS["dram"]),
        _link("l1", own, left, tops[0] + box, heights[0], whole if narrow else l1, most, chosen, rows, gaps_to,
              below=below, narrow=narrow),
        _shared(found.shared, beside, tops[1] - (below or gap), below or gap, width - beside - left, chosen),
        _link("l2", found.l2, left, tops[1] + box, heights[1], whole, most, chosen, (("measured", found.l2),), gaps_to,
              causes["l2"], narrow=narrow),
        _link("dram", found.dram, left, tops[2] + box, heights[2], whole, most, chosen,
              (("measured", found.dram), *predicted), gaps_to, causes["dram"], more, narrow=narrow),
    ]  # fmt: skip
    return picture(width, tops[-1] + box + 8, "Bytes between the levels of the GPU's memory", parts, "53rem")


def _causes(key: str, gaps_to: Mapping[tuple[str, bool], Gap], room: float) -> list[str]:
    """Why a link's bytes differ from the link above, in lines; a sum of several causes has a line of its own."""
    lines: list[str] = []
    for written in (False, True):
        if (gap := gaps_to.get((key, written))) and gap.bytes:
            told = f"{gap_words.written(written)} {gap_words.told(gap)}"
            total, named = told.split(": ", 1)
            single = len(gap_words.shown_parts(gap)) == 1
            lines += wrapped(told, room, 12) if single else [f"{total}:", *wrapped(named, room, 12)]
    return [ABOVE, *lines] if lines else []


def _predicted(prediction: Prediction, counted: int | None) -> Level:
    """The predicted reads; its note says how far they are from the `counted` ones."""
    off = "" if not counted or not prediction.read else f"{percent(abs(counted / prediction.read - 1), 2)} off"
    return Level("dram", "", prediction.read, None, "formula", off)


def _box(x: float, y: float, width: float, height: float, words: str, colour: str) -> str:
    return rect(x, y, width, height, colour, opacity=0.2, stroke=colour) + text(
        x + width / 2, y + height / 2 + 5, words, anchor="middle", bold=True
    )


def _link(
    key: str,
    level: Level,
    x: float,
    y: float,
    height: float,
    width: float,
    most: int,
    chosen: str,
    rows: Sequence[tuple[str, Level]],
    gaps_to: Mapping[tuple[str, bool], Gap],
    causes: Sequence[str] = (),
    more: str = "",
    *,
    below: float = 0.0,
    narrow: bool = False,
) -> str:
    """Two arrows, up for reads and down for writes, beside the numbers of each source; then the `causes`. Only the
    arrows take the room `below`.
    """
    up, down, at, read_at, written_at = (
        x + offset for offset in ((25, 72, 96, 222, 304) if narrow else (34, 82, 108, 236, 316))
    )
    parts = [
        _arrow(up, y, height, level.read, most, key, up=True),
        _arrow(down, y, height, level.written, most, key, up=False),
    ]
    beneath = below + LINE * len(causes) * narrow
    top = y + (height - beneath - 20 * (len(rows) + (1 if more else 0))) / 2 + 5
    parts += [
        text(read_at, top, "read", anchor="end", faint=True, size=12),
        text(written_at, top, "written", anchor="end", faint=True, size=12),
    ]
    for n, (who, said) in enumerate(rows, start=1):
        own = who == "measured"
        if who == "predicted":
            parts.append(text(read_at + 8, top + 20 * n, said.note, faint=True, size=12))
        parts.append(text(at, top + 20 * n, f"{MARKS[who]} {WORDS[who]}", faint=not own, bold=own, size=13))
        if own and not said.known:
            parts.append(text(written_at, top + 20 * n, "not measured", anchor="end", faint=True, size=13))
            continue
        for edge, bytes, written in ((read_at, said.read, False), (written_at, said.written, True)):
            words = amount(bytes) if bytes is not None else "–" if who != "predicted" else ""
            parts.append(text(edge, top + 20 * n, words, anchor="end", bold=own, size=13))
            if who != "predicted" and bytes is not None and (gap := gaps_to.get((said.key, written))):
                mark, hue = ("≠", "") if gap.bytes else ("✓", css_ink("right"))
                parts.append(text(edge + 3, top + 20 * n, mark, bold=True, size=12, fill=hue))
    first = y + height - beneath + 4 if narrow else y + height / 2 + 11 - LINE / 2 * len(causes)
    for n, words in enumerate(causes):
        parts.append(text(at if narrow else written_at + 28, first + LINE * n, words, size=12, faint=not n))
    if more:
        parts.append(text(at, top + 20 * (len(rows) + 1), more, faint=True, size=12))
    return _button(key, LINKS[key], x, y + 4, width, height - below - 8, chosen, level, parts)


def _shared(level: Level, x: float, y: float, height: float, width: float, chosen: str) -> str:
    """Its bytes without an arrow: it is none of the three numbers."""
    middle, centre, known = y + height / 2, x + width / 2, level.known
    told = amount(level.read) if level.read is not None else "not measured"
    bound = known and level.note.startswith("at most")
    why = (f"each cycle counts as {WAVEFRONT} B,", "also where it moves less") if bound else ("no formula",)
    top = middle - 8 * len(why) - 4
    parts = [
        text(centre, top, "loads + stores", anchor="middle", faint=True, size=12),
        text(centre, top + 20, "at most " * bound + told, anchor="middle", bold=known, faint=not known, size=13),
    ]
    for n, words in enumerate(why):
        parts.append(text(centre, top + 40 + 16 * n, words, anchor="middle", faint=True, size=12))
    return _button("shared", LINKS["shared"], x, y + 4, width, height - 8, chosen, level, parts)


def _button(
    key: str,
    name: str,
    x: float,
    y: float,
    width: float,
    height: float,
    chosen: str,
    level: Level,
    parts: Sequence[str],
) -> str:
    said = f"{name}: {level.note or name}" if level.known else f"{name}: not measured. {level.why}"
    return button(key, name, x, y, width, height, parts, chosen=key == chosen, title=said)


def _arrow(x: float, y: float, height: float, count: int | None, most: int, key: str, *, up: bool) -> str:
    """An arrow as wide as its bytes, at most 48 units; a dashed line if they were not measured."""
    colour = COLOURS[key]
    if count is None:
        return line(x, y + 6, x, y + height - 6, opacity=0.4, dash="4 4")
    half = max(48 * count / most, 1.0) / 2
    side = max(half, 5.0)
    head = 6 + side / 2
    top, bottom = y + 4, y + height - 4
    if not up:
        top, bottom = bottom, top
    neck = top + (head if up else -head)
    shaft = [(x + half, neck), (x + half, bottom), (x - half, bottom), (x - half, neck)]
    points = [(x, top), (x + side, neck), *shaft, (x - side, neck)]
    path = " ".join(f"{px:.1f},{py:.1f}" for px, py in points)
    way = "read" if up else "written"
    title = f"<title>{amount(count)} {way}</title>"
    return f'<polygon points="{path}" fill="{colour}" fill-opacity="0.9">{title}</polygon>'


@kept
def bars(found: Levels, between: Sequence[Gap], *, written: bool, narrow: bool = False) -> str:
    """One bar per level, read or written; between two bars, each cause of their difference as a step. `narrow` is for a
    phone.
    """
    width, left, right = 340.0 if narrow else 560.0, 86.0 if narrow else 94.0, 76.0 if narrow else 84.0
    known = [level.of(written) or 0 for level in found]
    peaks = [_peak(gap, found) for gap in between if gap.written is written]
    scale = (width - left - right) / max(*known, *peaks, 1)
    way = "written" if written else "read"
    rows = [text(left, 14, way.capitalize(), bold=True)]
    y = 24.0
    by_level = {gap.below: gap for gap in between if gap.written is written}
    for level in found:
        if gap := by_level.get(level.key):
            above = next(one for one in found if one.key == gap.above).of(written) or 0
            for name, count, words, source in gap_words.steps(gap):
                rows += _step(left, y, scale, above, count, name, words, source, width)
                above += count
                y += STEP
        own = level.of(written)
        source = level.key if level.key in MARKS else "measured"
        rows.append(text(left - 10, y + 18, f"{MARKS[source]} {level.name}", anchor="end", bold=True, size=13))
        if own is None:
            wide, why = width - left - right, level.why
            rows.append(rect(left, y, wide, BAR, "none", stroke="currentColor", dashed=True, opacity=0.3, title=why))
            unknown = "not measured" if level.key in LINKS else "not traced"
            rows.append(text(left + 8, y + 18, unknown, faint=True, size=13))
        else:
            colour, filled = COLOURS[level.key], {"formula": 0.0, "traced": 0.45, "measured": 1.0}[source]
            said = f"{own:,} bytes. {level.note}"
            rows.append(rect(left, y, scale * own, BAR, colour, opacity=filled, stroke=colour, title=said))
            rows.append(text(left + scale * own + 8, y + 18, amount(own), bold=True, size=13))
        y += BAR + 10
    return picture(width, y, f"Bytes {way}, level by level", [line(left, 20, left, y - 4), *rows], "46rem")


def _peak(gap: Gap, found: Levels) -> int:
    """The most bytes on the way from the level above a gap to the one below."""
    above = next(one for one in found if one.key == gap.above).of(gap.written) or 0
    return max(accumulate((count for _, count, _, _ in gap_words.steps(gap)), initial=above))


def _step(
    left: float, y: float, scale: float, above: float, count: int, name: str, words: str, source: str, width: float
) -> list[str]:
    """A step: its label, and a bar from the length above to the one below; filled: bytes added, outlined: fewer."""
    start, end = left + scale * min(above, above + count), left + scale * max(above, above + count)
    more = count > 0
    label = f"{name}  {'+' if more else ''}{amount(count)}"
    ahead = start + text_width(label, 12) < width
    at, anchor = (start, "start") if ahead else (end, "end")
    fill, opacity = (css("slate"), 0.85) if more else ("none", 1.0)
    size, title, edge = end - start, f"{words} ({source})", css("slate")
    return [
        text(at, y + 11, label, size=12, anchor=anchor, faint=name == UNEXPLAINED),
        rect(start, y + 16, size, BAR, fill, opacity=opacity, stroke=edge, dashed=not more, title=title),
    ]
