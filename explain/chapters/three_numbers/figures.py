"""Bytes at every memory level: the hierarchy, bars and gaps of one run, and tables of all kernels."""

from __future__ import annotations

import html
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate

from explain.chapters.measurements.limited import NEITHER, UNKNOWN, Limits
from explain.chapters.three_numbers.byte_accounting import (
    SPILLED,
    UNEXPLAINED,
    WITHIN,
    Cause,
    Check,
    Gap,
    Prediction,
    check,
    gaps,
)
from explain.chapters.three_numbers.levels import WAVEFRONT, Level, Levels, Traced, amount, levels, own_bytes
from explain.counters.model import Counters, Counts
from explain.experiment import Experiment
from explain.figures.labels import begun, listed, text_width, wrapped
from explain.figures.numbers import count, number, percent, ratio, si
from explain.figures.palette import css, css_ink
from explain.figures.svg import button, line, picture, rect, text
from explain.figures.tables import Column, buttons, markdown
from explain.gpus import Gpu
from explain.kept import kept
from kernels.traffic import Term, Traffic

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
FAR = 1.05
"""From this factor on one count is said to be more than another."""
NEARLY = 0.9
"""From this share on, "nearly all"."""
SMALL = 0.01
"""A difference below this share of a level's bytes is told as a share too."""
TINY = 1e-3
"""What is not explained is left to the tables below this share of a level's bytes."""
LINE = 14.0
"""The height of a line of reasons."""
GROUPS = 3
"""How many groups of buffers a sentence names."""
UNKNOWN_CAUSE = "No known cause accounts for these bytes."
ABOVE = "compared with the link above:"
PROGRAMS = "The programs, in the SMs' registers"


# The memory hierarchy


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
    phone: shared memory is then above the programs, and the causes are below the numbers.
    """
    gaps_to = {(one.below, one.written): one for one in between}
    width, box, gap, left, first = (340.0, 30.0, 90.0, 6.0, 42.0) if narrow else (600.0, 30.0, 90.0, 10.0, 26.0)
    causes = {key: _causes(key, gaps_to, 228.0 if narrow else 220.0) for key in ("l2", "dram")}
    most = max((count for level in found for count in (level.read, level.written) if count), default=1)
    held = "{} of it by the run before" if warm else "{} more are still in L2"
    heights = [gap, *(gap + LINE * len(causes[key]) * narrow for key in ("l2", "dram"))]
    start = first + (box + gap) * narrow
    tops = [*accumulate((box + height for height in heights), initial=start)]
    whole = width - 2 * left
    l1 = whole if narrow else 340.0
    beside = left if narrow else 374.0
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
        _box(beside, first if narrow else tops[1], width - beside - left, box,
             "Shared memory, beside L1 in each SM" if narrow else "Shared memory, of each SM",
             COLOURS["shared"]),
        _box(left, tops[2], whole, box, "L2, of the GPU", COLOURS["l2"]),
        _box(left, tops[3], whole, box, "HBM (the counters call it DRAM)", COLOURS["dram"]),
        _link("l1", own, left, tops[0] + box, heights[0], l1, most, chosen, rows, gaps_to, narrow=narrow),
        _shared(found.shared, beside, (first if narrow else start) + box, gap, width - beside - left, chosen),
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
            told = f"{_written(written)} {_told(gap)}"
            total, named = told.split(": ", 1)
            single = len(_shown_parts(gap)) == 1
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
    narrow: bool = False,
) -> str:
    """Two arrows, up for reads and down for writes, beside the numbers of each source; then the `causes`."""
    up, down, at, read_at, written_at = (
        x + offset for offset in ((25, 74, 102, 228, 312) if narrow else (34, 84, 114, 244, 326))
    )
    parts = [
        _arrow(up, y, height, level.read, most, key, up=True),
        _arrow(down, y, height, level.written, most, key, up=False),
    ]
    beneath = LINE * len(causes) * narrow
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
    return _button(key, LINKS[key], x, y + 4, width, height - 8, chosen, level, parts)


def _told(gap: Gap) -> str:
    """A difference with what it is the sum of: "−1.08 GB: Hit in L1"."""
    return f"{_signed(gap.bytes)}{_share(gap)}: {_named(gap)}"


def _share(gap: Gap) -> str:
    """A small difference as a share of the bytes that the causes are of: " (0.02%)"; "" for a larger one."""
    share = abs(gap.bytes) / max(gap.of, 1)
    least = 1e-3
    return f" ({percent(share, 1) if share >= least else f'< {percent(least, 1)}'})" if share < SMALL else ""


def _named(gap: Gap) -> str:
    """A difference's one cause, or several with the bytes of each: "Not yet written back −135.4 kB; Not explained
    +155.6 kB". Causes that cancel are only named by their bytes.
    """
    parts = _shown_parts(gap)
    named = "; ".join(name if len(parts) == 1 else f"{name} {_signed(bytes)}" for name, bytes in parts.items())
    cancelled = " and ".join(_signed(cause.bytes) for cause in gap.cancelling)
    return f"{named} ({cancelled} cancel)" if cancelled else named


def _shown_parts(gap: Gap) -> Mapping[str, int]:
    """The parts of a difference without a rest that is TINY beside the level's bytes."""
    tiny = abs(gap.unexplained) < TINY * gap.of and len(gap.parts) > 1
    return {name: bytes for name, bytes in gap.parts.items() if not (tiny and name == UNEXPLAINED)}


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


# The levels as bars, and what leads from one to the next


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
            for name, count, words, source in _steps(gap):
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
    return max(accumulate((count for _, count, _, _ in _steps(gap)), initial=above))


def _steps(gap: Gap) -> Iterator[tuple[str, int, str, str]]:
    for cause in gap.causes if gap.bytes else ():
        yield cause.name, cause.bytes, cause.words, cause.source
    if gap.unexplained:
        yield UNEXPLAINED, gap.unexplained, UNKNOWN_CAUSE, "hardware"


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


# Tables


def gap_table(found: Levels, between: Sequence[Gap]) -> str:
    """Every difference between neighbouring levels, its causes and the unexplained rest, as Markdown."""
    names = {level.key: level.name for level in found}
    rows: list[tuple[str, ...]] = []
    for gap in between:
        head = (f"{names[gap.above]} → {names[gap.below]}", _written(gap.written))
        for cause in gap.causes if gap.bytes else ():
            rows.append((*head, f"**{cause.name}**", _signed(cause.bytes), cause.source))
            head = ("", "")
        if gap.unexplained:
            rows.append((*head, f"*{UNEXPLAINED}*", _signed(gap.unexplained), ""))
    return markdown(("between", "direction", "cause of the difference", Column("bytes"), "source"), rows)


def cause_words(between: Sequence[Gap]) -> str:
    """The explanation of each cause, once, with its bytes, as a Markdown list."""
    said: dict[tuple[str, str], list[str]] = {}
    for gap in between:
        for name, bytes, words, _ in _steps(gap):
            said.setdefault((name, words), []).append(f"{_signed(bytes)} {_written(gap.written)}")
    return "\n".join(f"- **{name}** ({', '.join(bytes)}): {words}" for (name, words), bytes in said.items())


def caches_words(traffic: Traffic, l1: int | None, delivered: int | None, spilled: int = 0) -> str:
    """What the programs request by the formula and what HBM delivers, as Markdown; first what L1 counts where that is
    far above: because of `spilled` bytes that are read back, or its count.
    """
    asked, said = traffic.read_bytes, requested_words(traffic)
    at_hbm = f"HBM delivers **{amount(delivered or 0)}**"
    if l1 and l1 > FAR * asked and spilled >= NEARLY * (l1 - asked):
        said += f" Spilled registers add **{amount(spilled)}** at L1"
        if delivered and asked / FAR <= delivered <= FAR * asked:
            served = _served(delivered - asked, spilled)
            return f"{said}, and the caches serve {served} of that: {at_hbm}, {_beside(delivered / asked)}."
        said += "."
    elif l1 and l1 > FAR * asked:
        with_spills = ", with spilled registers" if spilled else ""
        said += f" L1 counts **{amount(l1)}** of reads{with_spills}, {ratio(l1 / asked)} the formula."
    if not delivered:
        return said
    said += f" {at_hbm}"
    if asked > FAR * delivered:
        made_here = {term.buffer for term in traffic.terms if term.written}
        once = {term.buffer: term.once for term in traffic.terms if not term.written}
        each = not made_here & set(once) and abs(delivered - sum(once.values())) <= WITHIN * delivered
        part = f"1 byte of every {number(asked / delivered)}" if asked >= 2 * delivered else percent(delivered / asked)
        of = " requested" if asked >= 2 * delivered else " of the request"
        return f"{said}{': each input once' * each}, {part}{of}. L1 and L2 serve the rest."
    if delivered > FAR * asked:
        return f"{said}, {_beside(delivered / asked)}."
    if l1 and l1 > FAR * asked:
        return f"{said}, about as much as the formula: the caches serve what L1 counts beyond it, and little more."
    return f"{said}, about as much: the caches save almost nothing."


def _served(past: int, spilled: int) -> str:
    """How much of the spilled bytes the caches serve, where so many bytes more than the formula's come `past` them."""
    share = 1 - max(past, 0) / spilled
    return "nearly all" if share >= NEARLY else percent(share)


def _beside(factor: float) -> str:
    """How many times the formula's bytes: "1% more than the formula"."""
    share = percent(abs(factor - 1))
    return (
        "as much as the formula"
        if share == percent(0)
        else f"{share} {'more' if factor > 1 else 'less'} than the formula"
    )


def requested_words(traffic: Traffic) -> str:
    """How often the programs read each input, the most bytes first, what they read of their own results, and the bytes
    of all reads; as Markdown: "The programs read `k` and `v` (33.6 MB each) 32 times and `q` (33.6 MB) once:
    **2.18 GB** requested."
    """
    groups: dict[tuple[int, int], list[str]] = {}
    own: dict[str, int] = {}
    written = {term.buffer for term in traffic.terms if term.written}
    for first, *rest in terms_by_key(traffic).values():
        name, whole = f"`{first.buffer}`", sum(term.bytes for term in (first, *rest))
        if first.written:
            continue
        if first.buffer in written:
            own[name] = whole
        else:
            groups.setdefault((max(term.once for term in (first, *rest)), whole), []).append(name)
    ordered = sorted(groups.items(), key=lambda group: -group[0][1] * len(group[1]))
    parts = [
        f"{listed(names)} ({amount(once)}{' each' * (len(names) > 1)}) {_times(whole / once)}"
        for (once, whole), names in ordered[:GROUPS]
        if once
    ]
    if left := sum(len(names) for _, names in ordered[GROUPS:]):
        parts.append(f"{count(left)} smaller buffer{'s' * (left > 1)}")
    if own:
        parts.append(f"{amount(sum(own.values()))} of what they wrote before ({', '.join(own)})")
    return f"The programs read {listed(parts)}: **{amount(traffic.read_bytes)}** requested."


def _times(factor: float) -> str:
    """How often: "once", "twice", "32 times", "16.5 times"."""
    words = {1.0: "once", 2.0: "twice"}
    return words.get(factor) or f"{count(int(factor)) if factor.is_integer() else number(factor)} times"


def dram_words(counts: Counts) -> str:
    """The sum that a run's bytes at HBM are: "FlashAttention-2's 135.3 MB at HBM: 100.7 MB read, …";
    empty if a part was not counted.
    """
    parts = counts.dram_read_bytes, counts.dram_written_bytes, counts.dirty_bytes
    if None in parts:
        return ""
    read, written, dirty = (amount(part or 0) for part in parts)
    return (
        f"FlashAttention-2's {amount(counts.hbm_bytes or 0)} at HBM: {read} read, {written} written, and {dirty} "
        "still in L2 at the end, to be written later."
    )


def time_words(fewer: float, faster: float, found: Limits | None, peak: float = 0.0) -> str:
    """Why FlashAttention-2 is `faster` than standard attention by less than it moves `fewer` bytes at HBM: how near its
    own run comes to the GPU's rates, as Markdown; empty where the rates do not say it. `peak`: the measured rate
    of the matmuls.
    """
    if found is None or not found.of_matmuls or faster >= fewer:
        return ""
    at = f" (at the measured {si(peak, 'FLOP/s')})" if peak else ""
    busy = (
        f"HBM is busy {percent(found.of_hbm[0])} of the time and the matmuls need {percent(found.of_matmuls[0])}{at}."
    )
    why = found.told.replace("**", "").replace(UNKNOWN, "").rstrip()
    if found.verdict == NEITHER and (two := found.in_base_2):
        link = f"./measurements?kernel={two.other.kernel}"
        why = f"[Computing 2ˣ instead of eˣ]({link}) saves {percent(1 - two.seconds / two.own)} with the same bytes."
    return f"{number(fewer, 2)} × fewer bytes, yet only {number(faster, 2)} × faster: {busy} {why}"


def levels_table(found: Levels, between: Sequence[Gap]) -> str:
    """A row for each level, with its bytes read and written: ✓ where they are those of the row above, to the byte, else
    ≠ with the causes; as Markdown.
    """
    gap_to = {(gap.below, gap.written): gap for gap in between}
    rows = [
        (
            f"{MARKS.get(level.key, MARKS['measured'])} **{level.name}**",
            *(_level_cell(level, gap_to.get((level.key, written)), level.of(written)) for written in (False, True)),
        )
        for level in found
    ]
    return markdown(("", _written(False), _written(True)), rows)


def _level_cell(level: Level, gap: Gap | None, count: int | None) -> str | None:
    if count is None or gap is None:
        return None if count is None else amount(count)
    if not gap.bytes:
        return f":green[**✓**] {amount(count)}"
    return f"**≠** {amount(count)} · {_told(gap)}"


def _written(written: bool) -> str:
    return "written" if written else "read"


def terms_table(traffic: Traffic, traced: Traced | None, small: Traffic, chosen: str) -> str:
    """The formula's terms as an HTML table of buttons; `data-press` is a term's key. `small` is the player's run."""
    rows, in_player = [], {key: sum(term.bytes for term in terms) for key, terms in terms_by_key(small).items()}
    for key, terms in terms_by_key(traffic).items():
        buffer, way = terms[0].buffer, _written(terms[0].written)
        sizes = " + ".join(
            f"{term.elements:,}{f' × {term.times:,}' * (term.times > 1)} × {term.item_bytes} B" for term in terms
        )
        seen = _traced_of(traced, terms[0])
        counted = f"{seen:,}" if seen is not None else "–"
        why = "; ".join(dict.fromkeys(term.why for term in terms))
        asked = f"{sum(term.bytes for term in terms):,}"
        cells = (way, sizes, asked, counted, f"{in_player[key]:,}", html.escape(why))
        rows.append((key, html.escape(buffer), f"{'Stores' if terms[0].written else 'Loads'} of {buffer}", cells))
    heads = (
        "buffer", "direction", Column("elements × times × size"), Column(f"{MARKS['formula']} formula, bytes"),
        Column(f"{MARKS['traced']} trace, bytes"), Column("in the player, bytes"), "why",
    )  # fmt: skip
    return buttons(heads, rows, chosen, stacked=True)


def terms_by_key(traffic: Traffic) -> Mapping[str, Sequence[Term]]:
    """The terms of each buffer, read or written, over all launches, by a name in an address: "read-k", "written-o"."""
    found: dict[str, list[Term]] = {}
    for term in traffic.terms:
        found.setdefault(f"{_written(term.written)}-{term.buffer}", []).append(term)
    return found


def _traced_of(traced: Traced | None, term: Term) -> int | None:
    return None if traced is None else traced.bytes.get((term.buffer, term.written), 0)


def buffers_table(key: str, traffic: Traffic, traced: Traced | None, prediction: Prediction | None) -> str:
    """The bytes by buffer, as Markdown: at the top link those that formula and trace request, at HBM those predicted.
    The GPU counts sectors, not buffers.
    """
    if prediction and prediction.parts and key == "dram":
        rows = [(f"`{part.term.buffer}`", amount(part.bytes), part.words) for part in prediction.parts]
        return markdown(("buffer", Column(f"{MARKS['predicted']} predicted reads"), "why"), rows)
    if key != "l1":
        return ""
    columns = (
        "buffer",
        "direction",
        Column(f"{MARKS['formula']} formula", amount),
        Column(f"{MARKS['traced']} trace", amount),
    )
    by_buffer = [
        (f"`{first.buffer}`", _written(first.written), sum(term.bytes for term in terms), _traced_of(traced, first))
        for terms in terms_by_key(traffic).values()
        for first in terms[:1]
    ]
    return markdown(columns, by_buffer)


def link_words(key: str, found: Levels, *, predicted: bool) -> str:
    """The meaning of a link's number, or the reason why there is none; `predicted`: its table has a prediction."""
    level: Level = getattr(found, key)
    if not level.known:
        return f"not measured. {level.why}"
    says = f"{begun(level.note)}."
    if key == "shared":
        bound = f" So a cycle that moves less counts as {WAVEFRONT} B too." if level.note.startswith("at most") else ""
        return (
            f"{says}{bound} It can be more than the programs load from L1: they can read a tile here many times. The "
            "compiler decides what passes through shared memory, so neither formula nor trace knows it."
        )
    if predicted:
        table = f"the table shows {MARKS['predicted']} the prediction, by the formula with a model of L2:"
    elif key == "l1":
        table = "the table shows what the programs request:"
    else:
        table = f"press *{LINKS['l1']}* for what the programs request of each."
    return f"{says} The GPU counts sectors, not buffers: {table}"


def _signed(count: int) -> str:
    return f"{'+' if count > 0 else ''}{amount(count)}"


def prediction_words(check: Check) -> str:
    """Predicted and counted HBM reads from a cold L2 in a sentence, with the reason for a miss."""
    words = (
        "HBM reads, L2 cold: "
        f"{MARKS['predicted']} predicted **{check.prediction.read:,} B**, "
        f"{MARKS['measured']} hardware **{check.measured:,} B** "
        f"({percent(abs(check.off), 2)} {'more' if check.off > 0 else 'less'})"
    )
    if check.met:
        return f"{words}."
    return f"{words}. " + " ".join(f"{cause.name}: {_signed(cause.bytes)}. {cause.words}" for cause in check.causes)


def gpus_table(counted: Sequence[tuple[str, Counts]]) -> str:
    """The same run on several GPUs, by the label of each record, as Markdown."""
    headings = ("L1", "L2 → SM", "HBM read", "HBM written", "still dirty in L2")
    rows = [
        (name, c.l1_bytes, c.l2_read_bytes, c.dram_read_bytes, c.dram_written_bytes, c.dirty_bytes)
        for name, c in counted
    ]
    return markdown(("measured on", *(Column(heading, amount) for heading in headings)), rows)


def heat_words(counters: Counters, *, warm: bool) -> str:
    """What L2 has at the start, and the effect of a warm L2 on HBM reads; empty if they were not counted."""
    at_cold, at_warm = counters.cold.dram_read_bytes, counters.warm.dram_read_bytes
    if at_cold is None or at_warm is None:
        return ""
    changed = amount(abs(at_warm - at_cold))
    almost = f"({_signed(at_warm - at_cold)}): almost none of the inputs"
    little, more = abs(at_warm - at_cold) <= WITHIN * at_cold, at_warm > at_cold
    if warm:
        said = "L2 is **warm**: the same kernel ran just before. HBM delivers "
        if little:
            return f"{said}almost the same as with a cold L2 {almost} were still in L2."
        if more:
            return f"{said}{changed} more than with a cold L2: L2 started full of data that the run before wrote."
        return f"{said}{changed} less than with a cold L2: these inputs were still in L2."
    said = "L2 is **cold**: it has none of the inputs. "
    if little:
        return f"{said}A warm L2 changes almost nothing {almost} stay in it."
    if more:
        return f"{said}With a warm L2 HBM delivers {changed} more: L2 is then full of data that the run before wrote."
    return f"{said}A warm L2 saves {changed}: these inputs are still in it from the run before."


def _percent(share: float) -> str:
    return percent(share, 2, signed=True)


# Every kernel


def sizes_words(experiment: Experiment) -> str:
    """An experiment's sizes in short: "4,096 × 8,192, fp32", "4 × 16 heads, N = 4,096, d = 64, bf16"; with other keys
    than queries "16 × 32/8 heads, N = 1, 8,192 keys, d = 128, bf16"; "2,048 tokens, V = 128,256, d = 256, bf16".
    """
    p = experiment.values
    if experiment.entry.family == "softmax":
        return f"{p['rows']:,} × {p['cols']:,}, {p['dtype']}"
    if experiment.entry.family == "loss":
        return f"{p['tokens']:,} tokens, V = {p['vocab']:,}, d = {p['dim']}, {p['dtype']}"
    shared = f"/{p['kv_heads']}" if p["kv_heads"] != p["heads"] else ""
    keys = f", {p['kv_len']:,} keys" if p["kv_len"] != p["seq_len"] else ""
    heads = f"{p['batch']} × {p['heads']}{shared} heads"
    return f"{heads}, N = {p['seq_len']:,}{keys}, d = {p['head_dim']}, {p['dtype']}"


Run = tuple[Experiment, Traced | None, Counts]
"""A run, its trace, and its counts with a cold L2."""


def traced_tables(runs: Iterable[Run]) -> tuple[str, str, int]:
    """Formula, trace and L1 of each run, read and written together, and the causes of L1's difference, as Markdown: of
    the runs with a difference, of those without one, and how many these are.
    """
    differing: list[tuple[object, ...]] = []
    equal: list[tuple[object, ...]] = []
    for experiment, traced, counts in runs:
        traffic = experiment.traffic
        asked = own_bytes(counts)
        found = gaps(experiment, levels(traffic, traced, counts, "", ""), counts, warm=False)
        down = [gap for gap in found if gap.below == "l1"]
        causes = _together(cause for gap in down for cause in gap.causes if cause.name != SPILLED)
        total = traced.of(False) + traced.of(True) if traced else None
        more = round(asked / total - 1, 4) if asked is not None and total else None
        unexplained = sum(gap.unexplained for gap in down) if down else None
        run = experiment.entry.title, sizes_words(experiment), traffic.read_bytes + traffic.written_bytes
        why = more, _listed(causes.items()), unexplained, counts.spilled_bytes or None
        (differing if any(why) or None in (more, unexplained) else equal).append((*run, total, asked, *why))
    columns = (
        "kernel", "sizes", Column("formula", amount), Column("trace", amount), Column("L1", amount),
        Column("L1 ÷ trace − 1: reads + writes, without spills", _percent), "causes of the difference",
        Column("not explained", lambda bytes: f"{bytes:,} B"), Column("spilled registers, besides", amount),
    )  # fmt: skip
    return markdown(columns, differing), markdown(columns, equal), len(equal)


def dram_table(runs: Iterable[Run], gpu: Gpu) -> str:
    """Predicted and counted HBM reads of each run, L2 cold, with the causes of a miss of more than 1%, as Markdown."""
    rows = []
    for experiment, _, counts in runs:
        done = check(experiment, counts, gpu)
        if done is None:
            continue
        off = _percent(done.off) if done.met else f"**{_percent(done.off)}**"
        causes = _listed((cause.name, cause.bytes) for cause in done.causes)
        own = (experiment.entry.title, sizes_words(experiment), counts.l2_read_bytes)
        rows.append((*own, done.prediction.read, done.measured, off, causes))
    columns = (
        "kernel", "sizes", Column("L2 → SM", amount), Column("HBM read, predicted", amount),
        Column("HBM read", amount),
        Column("off by"), "causes",
    )  # fmt: skip
    return markdown(columns, rows)


def _listed(causes: Iterable[tuple[str, int]]) -> str | None:
    return "; ".join(f"{name} {_signed(count)}" for name, count in causes if count) or None


def _together(causes: Iterable[Cause]) -> dict[str, int]:
    sums: dict[str, int] = {}
    for cause in causes:
        sums[cause.name] = sums.get(cause.name, 0) + cause.bytes
    return sums
