"""The lab's pictures of bytes at every level: the memory hierarchy with what crossed each link, the levels as bars, their gaps, the table of all kernels."""

from __future__ import annotations

import html
from collections.abc import Iterable, Iterator, Mapping, Sequence

from explain.chapters.three_numbers.byte_accounting import SPILLED, WITHIN, Cause, Check, Gap, Prediction, check, gaps
from explain.chapters.three_numbers.levels import Level, Levels, Traced, amount, levels, own_bytes
from explain.counters.model import Counters, Counts
from explain.experiment import Experiment
from explain.figures.palette import css
from explain.figures.svg import line, picture, rect, text
from explain.gpus import Gpu
from kernels.traffic import Term, Traffic

COLOURS = {
    "formula": css("series-4"),
    "traced": css("series-1"),
    "l1": css("series-3"),
    "l2": css("series-5"),
    "dram": css("hbm"),
    "shared": css("series-2"),
}
"""Each level's, in every picture here."""
LINKS = {"l1": "Programs ↔ L1", "l2": "L2 ↔ SM", "dram": "DRAM ↔ L2", "shared": "Programs ↔ shared memory"}
"""The links that can be chosen, by level."""
LETTER = 6.6
"""Units that a letter of a label takes, about."""
NEGLIGIBLE = 1e-3
"""Of a level's bytes: what is left unexplained below this is not drawn."""


# The memory hierarchy


def hierarchy(found: Levels, prediction: Prediction | None, dirty: int | None, chosen: str) -> str:
    """From the programs' registers down to DRAM: at each link what was read (up) and written (down), as wide as its bytes; `chosen` is outlined.

    A link is a button (`data-press` is its level). One that was not measured is grey and says why.
    """
    width, box, gap, left = 600.0, 44.0, 114.0, 10.0
    most = max((count for level in (*found, found.shared) for count in (level.read, level.written) if count), default=1)
    tops = [8.0 + n * (box + gap) for n in range(4)]
    own, formula, traced = found.l1, found.formula, found.traced
    parts = [
        _box(left, tops[0], width - 2 * left, box, "The programs, in the SMs' registers", css("slate")),
        _box(left, tops[1], 340, box, "L1, of each SM", COLOURS["l1"]),
        _box(374, tops[1], width - 374 - left, box, "Shared memory", COLOURS["shared"]),
        _box(left, tops[2], width - 2 * left, box, "L2, of the GPU", COLOURS["l2"]),
        _box(left, tops[3], width - 2 * left, box, "DRAM (HBM)", COLOURS["dram"]),
        _link(
            "l1", own, left + 12, tops[0] + box, gap, 338, most, chosen,
            (("formula", formula), ("traced", traced), ("measured", own)),
        ),
        _shared(found.shared, 374, tops[0] + box, gap, width - 374 - left, most, chosen),
        _link("l2", found.l2, left + 12, tops[1] + box, gap, width - 2 * left - 12, most, chosen, (("measured", found.l2),)),
        _link(
            "dram", found.dram, left + 12, tops[2] + box, gap, width - 2 * left - 12, most, chosen,
            (*((("predicted", _predicted(prediction)),) if prediction else ()), ("measured", found.dram)),
            f"{amount(dirty)} more still lay in L2 when the run ended" if dirty else "",
        ),
    ]  # fmt: skip
    return picture(width, tops[3] + box + 8, "Bytes between the levels of the GPU's memory", parts, "48rem")


def _predicted(prediction: Prediction) -> Level:
    return Level("dram", "", prediction.read, None, "formula", "")


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
    more: str = "",
) -> str:
    """Two arrows, up for what is read and down for what is written, and the numbers of each witness beside them."""
    parts = [
        _arrow(x + 20, y, height, level.read, most, key, up=True),
        _arrow(x + 70, y, height, level.written, most, key, up=False),
    ]
    at, read_at, written_at = x + 100, x + 234, x + 322
    top = y + (height - 22 * (len(rows) + (1 if more else 0))) / 2 + 2
    parts += [
        text(read_at, top, "read", anchor="end", faint=True, size=12),
        text(written_at, top, "written", anchor="end", faint=True, size=12),
    ]
    for n, (who, said) in enumerate(rows, start=1):
        own = who == "measured"
        parts.append(text(at, top + 22 * n, who, faint=not own, bold=own, size=13))
        if own and not said.known:
            parts.append(text(written_at, top + 22 * n, "not measured", anchor="end", faint=True, size=13))
            continue
        for edge, count in ((read_at, said.read), (written_at, said.written)):
            words = amount(count) if count is not None else "–" if who != "predicted" else ""
            parts.append(text(edge, top + 22 * n, words, anchor="end", bold=own, size=13))
    if more:
        parts.append(text(at, top + 22 * (len(rows) + 1), more, faint=True, size=12))
    return _button(key, LINKS[key], x - 10, y + 4, width, height - 8, chosen, level, parts)


def _shared(level: Level, x: float, y: float, height: float, width: float, most: int, chosen: str) -> str:
    middle = y + height / 2
    parts = [
        _arrow(x + 34, y, height, level.read, most, "shared", up=True),
        text(x + 66, middle - 14, "asked for", faint=True, size=12),
        text(
            x + 66,
            middle + 8,
            amount(level.read) if level.read is not None else "not measured",
            bold=level.known,
            faint=not level.known,
            size=13,
        ),
        text(
            x + 66,
            middle + 28,
            "at most" if level.known and level.note.startswith("at most") else "",
            faint=True,
            size=12,
        ),
    ]
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
    pressed = str(key == chosen).lower()
    said = f"{name}: {level.note or name}" if level.known else f"{name}: not measured. {level.why}"
    frame = f'<rect class="frame" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="6" fill="transparent"/>'
    return (
        f'<g data-press="{key}" role="button" tabindex="0" aria-pressed="{pressed}" aria-label="{html.escape(name)}">'
        f"<title>{html.escape(said)}</title>{frame}{''.join(parts)}</g>"
    )


def _arrow(x: float, y: float, height: float, count: int | None, most: int, key: str, *, up: bool) -> str:
    """A shaft as wide as its bytes, 36 at most, with a head that shows where they go; dashed where they were not measured."""
    colour = COLOURS[key]
    if count is None:
        return f'<line x1="{x:.1f}" y1="{y + 6:.1f}" x2="{x:.1f}" y2="{y + height - 6:.1f}" stroke="currentColor" stroke-opacity="0.4" stroke-dasharray="4 4"/>'
    wide = max(36 * count / most, 1.0)
    half, head, side = wide / 2, 13.0, max(wide / 2 + 5, 7.0)
    top, bottom = y + 4, y + height - 4
    if not up:
        top, bottom = bottom, top
    neck = top + (head if up else -head)
    points = [
        (x, top),
        (x + side, neck),
        (x + half, neck),
        (x + half, bottom),
        (x - half, bottom),
        (x - half, neck),
        (x - side, neck),
    ]
    path = " ".join(f"{px:.1f},{py:.1f}" for px, py in points)
    way = "read" if up else "written"
    return f'<polygon points="{path}" fill="{colour}" fill-opacity="0.9"><title>{amount(count)} {way}</title></polygon>'


# The levels as bars, and what leads from one to the next


def bars(found: Levels, between: Sequence[Gap], *, written: bool) -> str:
    """A bar a level, read or written; between two, each cause of their difference as a step from one length to the next."""
    width, left, right = 560.0, 78.0, 84.0
    known = [level.of(written) or 0 for level in found]
    scale = (width - left - right) / max(*known, 1)
    way = "written" if written else "read"
    rows = [text(left, 14, way.capitalize(), bold=True)]
    y = 24.0
    by_level = {gap.below: gap for gap in between if gap.written is written}
    for level in found:
        if gap := by_level.get(level.key):
            above = next(one for one in found if one.key == gap.above).of(written) or 0
            for name, count, words, source in _steps(gap, above):
                rows += _step(left, y, scale, above, count, name, words, source, width)
                above += count
                y += 30
        own = level.of(written)
        rows.append(text(left - 10, y + 18, level.name, anchor="end", bold=True, size=13))
        if own is None:
            rows.append(
                rect(
                    left,
                    y,
                    width - left - right,
                    26,
                    "none",
                    stroke="currentColor",
                    dashed=True,
                    opacity=0.3,
                    title=level.why,
                )
            )
            rows.append(
                text(left + 8, y + 18, "not measured" if level.key in LINKS else "not traced", faint=True, size=13)
            )
        else:
            rows.append(rect(left, y, scale * own, 26, COLOURS[level.key], title=f"{own:,} bytes. {level.note}"))
            rows.append(text(left + scale * own + 8, y + 18, amount(own), bold=True, size=13))
        y += 36
    return picture(width, y, f"Bytes {way}, level by level", [line(left, 20, left, y - 4), *rows], "46rem")


def _steps(gap: Gap, above: int) -> Iterator[tuple[str, int, str, str]]:
    for cause in gap.causes:
        yield cause.name, cause.bytes, cause.words, cause.source
    if gap.unexplained and abs(gap.unexplained) > NEGLIGIBLE * max(above, 1):
        yield "Not explained", gap.unexplained, "No cause here accounts for these bytes.", "hardware"


def _step(
    left: float, y: float, scale: float, above: float, count: int, name: str, words: str, source: str, width: float
) -> list[str]:
    """From the length above to the one below: its label, and under it a bar, filled where bytes are added, an outline where they fall away."""
    start, end = left + scale * min(above, above + count), left + scale * max(above, above + count)
    more = count > 0
    label = f"{name}  {'+' if more else ''}{amount(count)}"
    ahead = start + LETTER * len(label) < width
    at, anchor = (start, "start") if ahead else (end, "end")
    return [
        text(at, y + 11, label, size=12, anchor=anchor, faint=name == "Not explained"),
        rect(
            start,
            y + 16,
            end - start,
            8,
            css("slate") if more else "none",
            opacity=0.85 if more else 1.0,
            stroke=css("slate"),
            dashed=not more,
            title=f"{words} ({source})",
        ),
    ]


# Tables


def gap_table(found: Levels, between: Sequence[Gap]) -> str:
    """Every difference between neighbouring levels, its causes and what is left, as markdown."""
    names = {level.key: level.name for level in found}
    lines = ["| from, to | | difference | cause | bytes | source |", "|---|---|---:|---|---:|---|"]
    for gap in between:
        head = f"{names[gap.above]} → {names[gap.below]} | {_way(gap)} | {_signed(gap.bytes)}"
        for cause in gap.causes if gap.bytes else ():
            lines.append(f"| {head} | **{cause.name}** | {_signed(cause.bytes)} | {cause.source} |")
            head = "| | "
        if gap.unexplained:
            lines.append(f"| {head} | *not explained* | {_signed(gap.unexplained)} | |")
    return "\n".join(lines) if len(lines) > 2 else ""


def cause_words(between: Sequence[Gap]) -> str:
    """What each cause is, once, as a markdown list."""
    said = {(cause.name, cause.words): None for gap in between for cause in gap.causes if gap.bytes}
    return "\n".join(f"- **{name}**: {words}" for name, words in said)


def equal_words(found: Levels, between: Sequence[Gap]) -> str:
    """Which neighbours agree to the byte, in a sentence; empty where none do."""
    names = {level.key: level.name for level in found}
    equal = [f"{names[gap.above]} = {names[gap.below]} ({_way(gap)})" for gap in between if not gap.bytes]
    return f"Equal to the byte: {', '.join(equal)}." if equal else ""


def _way(gap: Gap) -> str:
    return "written" if gap.written else "read"


def terms_table(traffic: Traffic, traced: Traced | None, chosen: str) -> str:
    """The formula's terms as a table of HTML whose rows are buttons (`data-press` is the term's key): the player shows their loads and stores."""
    rows = []
    seen = {key: _traced_of(traced, term) for key, term in terms_by_key(traffic).items()}
    for key, term in terms_by_key(traffic).items():
        way = "written" if term.written else "read"
        times = f" × {term.times:,}" if term.times > 1 else ""
        counted = f"{seen[key]:,}" if seen[key] is not None else "–"
        rows.append(
            f'<tr data-press="{key}"{" class=on" if key == chosen else ""}><th><button data-press="{key}" aria-pressed="{str(key == chosen).lower()}" '
            f'aria-label="{"Stores" if term.written else "Loads"} of {term.buffer}">{html.escape(term.buffer)}</button></th><td>{way}</td>'
            f"<td class=n>{term.elements:,}{times} × {term.item_bytes} B</td><td class=n>{term.bytes:,}</td><td class=n>{counted}</td>"
            f"<td>{html.escape(term.why)}</td></tr>"
        )
    head = "<tr><th>buffer</th><th></th><th class=n>elements × times × size</th><th class=n>formula, bytes</th><th class=n>trace, bytes</th><th>why</th></tr>"
    return f"<table><thead>{head}</thead><tbody>{''.join(rows)}</tbody></table>"


def terms_by_key(traffic: Traffic) -> dict[str, Term]:
    """The terms by "read-k" or "written-o", as an address names them."""
    return {f"{'written' if term.written else 'read'}-{term.buffer}": term for term in traffic.terms}


def _traced_of(traced: Traced | None, term: Term) -> int | None:
    return None if traced is None else traced.bytes.get((term.buffer, term.written), 0)


def buffers_table(key: str, traffic: Traffic, traced: Traced | None, prediction: Prediction | None) -> str:
    """A link's bytes by buffer, as far as anybody can tell, as markdown: the GPU counts sectors and does not know of buffers."""
    if key == "shared":
        return ""  # no formula here knows of it: the compiler puts there what the threads of a program share
    parts = {part.term.buffer: part for part in prediction.parts} if prediction and key == "dram" else {}
    if parts:
        lines = ["| buffer | predicted reads | why |", "|---|---:|---|"]
        lines += [f"| `{name}` | {amount(part.bytes)} | {part.words} |" for name, part in parts.items()]
        return "\n".join(lines)
    lines = ["| buffer | | formula | trace |", "|---|---|---:|---:|"]
    for term in traffic.terms:
        seen = _traced_of(traced, term)
        lines.append(
            f"| `{term.buffer}` | {'written' if term.written else 'read'} | {amount(term.bytes)} | {amount(seen) if seen is not None else '–'} |"
        )
    return "\n".join(lines)


def link_words(key: str, found: Levels) -> str:
    """What a link's number is, or why there is none."""
    level: Level = getattr(found, key)
    if not level.known:
        return f"not measured. {level.why}"
    says = f"{level.note[0].upper()}{level.note[1:]}."
    if key == "shared":
        return says
    only = "what is predicted" if key == "dram" else "what was asked for"
    return f"{says} The GPU counts sectors and does not know which buffer they are of; by buffer there is only {only}:"


def _signed(count: int) -> str:
    return f"{'+' if count > 0 else ''}{amount(count)}"


def prediction_words(check: Check) -> str:
    """What DRAM reads should be and are, in a sentence; a miss says why."""
    words = f"Predicted DRAM reads, L2 cold: **{amount(check.prediction.read)}**. Counted: **{amount(check.measured)}**, {_percent(check.off)}"
    if check.met:
        return f"{words}, within 1%."
    return f"{words}. " + " ".join(f"{cause.name}: {_signed(cause.bytes)}. {cause.words}" for cause in check.causes)


def gpus_table(counted: Sequence[tuple[str, Counts]]) -> str:
    """The same run on several GPUs, by what each is called, as markdown."""
    lines = [
        "| measured on | L1 | L2 → SM | DRAM read | DRAM written | still dirty in L2 |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for name, c in counted:
        cells = (c.l1_bytes, c.l2_read_bytes, c.dram_read_bytes, c.dram_written_bytes, c.dirty_bytes)
        lines.append(f"| {name} | {' | '.join('–' if cell is None else amount(cell) for cell in cells)} |")
    return "\n".join(lines)


def heat_words(counters: Counters) -> str:
    """What a warm L2 changes of DRAM's reads, in a sentence; empty where they were not counted."""
    cold, warm = counters.cold.dram_read_bytes, counters.warm.dram_read_bytes
    if cold is None or warm is None:
        return ""
    if abs(warm - cold) <= WITHIN * cold:
        why = "as good as nothing of the inputs stayed in L2 from the run before"
    elif warm < cold:
        why = "so much of the inputs stayed in L2 from the run before"
    else:
        why = "more and not fewer, since L2 begins full of what the run before wrote"
    return f"L2 warm instead of cold changes DRAM reads by {_signed(warm - cold)}: {why}."


def _percent(share: float) -> str:
    return f"{100 * share:+.2f}%".replace("-", "−")


# Every kernel


def sizes_words(experiment: Experiment) -> str:
    """An experiment's sizes, short: "4096 × 8192 fp32", "4 · 16 heads, N 4096, d 64, bf16"."""
    p = experiment.values
    if experiment.entry.family == "softmax":
        return f"{p['rows']:,} × {p['cols']:,}, {p['dtype']}"
    return f"{p['batch']} × {p['heads']} heads, N = {p['seq_len']:,}, d = {p['head_dim']}, {p['dtype']}"


Run = tuple[Experiment, Traced | None, Counts]
"""A run: what was traced of it, and what was counted, L2 cold."""


def traced_table(runs: Iterable[Run]) -> str:
    """Formula, trace and L1 of each run, read and written together, and what makes L1's more, as markdown."""
    rows = []
    for experiment, traced, counts in runs:
        traffic = experiment.entry.formula(experiment.values)
        asked = own_bytes(counts)
        found = gaps(experiment, levels(traffic, traced, counts, "", ""), counts, warm=False)
        down = [gap for gap in found if gap.below == "l1"]
        causes = _together(cause for gap in down for cause in gap.causes if cause.name != SPILLED)
        total = traced.of(False) + traced.of(True) if traced else None
        rows.append(
            {
                "kernel": f"`{experiment.kernel}`",
                "sizes": sizes_words(experiment),
                "formula": amount(traffic.read_bytes + traffic.written_bytes),
                "traced": amount(total) if total is not None else "–",
                "L1": amount(asked) if asked is not None else "–",
                "L1 over traced": _percent(asked / total - 1) if asked is not None and total else "–",
                "what makes the difference": "; ".join(f"{name} {_signed(count)}" for name, count in causes.items())
                or "–",
                "not explained": f"{sum(gap.unexplained for gap in down):,} B" if down else "–",
                "spilled besides": amount(counts.spilled_bytes) if counts.spilled_bytes else "–",
            }
        )
    return _table(rows)


def dram_table(runs: Iterable[Run], gpu: Gpu) -> str:
    """What DRAM reads should be and were in each run, L2 cold, and why where the prediction is missed by more than 1%, as markdown."""
    rows = []
    for experiment, _, counts in runs:
        done = check(experiment, counts, gpu)
        if done is None:
            continue
        causes = "; ".join(f"{cause.name} {_signed(cause.bytes)}" for cause in done.causes)
        rows.append(
            {
                "kernel": f"`{experiment.kernel}`",
                "sizes": sizes_words(experiment),
                "L2 → SM": amount(counts.l2_read_bytes) if counts.l2_read_bytes is not None else "–",
                "DRAM read, predicted": amount(done.prediction.read),
                "DRAM read": amount(done.measured),
                "off by": _percent(done.off) if done.met else f"**{_percent(done.off)}**",
                "why": causes or "–",
            }
        )
    return _table(rows)


def _together(causes: Iterable[Cause]) -> dict[str, int]:
    sums: dict[str, int] = {}
    for cause in causes:
        sums[cause.name] = sums.get(cause.name, 0) + cause.bytes
    return sums


def _table(rows: Sequence[Mapping[str, str]]) -> str:
    """Rows of equal keys as markdown; numbers to the right."""
    if not rows:
        return ""
    words = ("kernel", "sizes", "what makes the difference", "why")
    lines = [f"| {' | '.join(rows[0])} |", f"|{'|'.join('---' if name in words else '---:' for name in rows[0])}|"]
    lines += [f"| {' | '.join(row.values())} |" for row in rows]
    return "\n".join(lines)
