"""Pictures of why warps wait: a kernel's time as one bar of kinds, for kernels side by side, and its reasons one by one. Values in, SVG out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from explain.counters.stalls import KINDS, REASONS, Stalls
from explain.figures import numbers, palette, svg
from explain.figures.labels import text_width, wrapped

COLOURS: Mapping[str, str] = {
    "issued": palette.mid("series-3"),
    "ready": palette.mid("series-9"),
    "tensor": palette.mid("series-1"),
    "memory": palette.mid("series-2"),
    "chip": palette.mid("series-7"),
    "pace": palette.mid("series-4"),
    "barrier": palette.mid("series-8"),
    "code": palette.mid("series-5"),
    "other": palette.mid("slate"),
}
WIDTH, ROW, BAR = 700.0, 46.0, 18.0
LEAST = 0.01
"""The smallest share of the time with a line of its own."""
LABELLED = 0.06
"""The smallest share with its percentage in the bar."""


def bars(kernels: Sequence[tuple[str, Stalls]]) -> str:
    """A bar a kernel, all of its warps' time, cut into kinds; the same kinds in the same order and colour in each."""
    shown = [kind for kind in KINDS if any(stalls.by_kind[kind] >= LEAST / 2 for _, stalls in kernels)]
    parts, top = _legend(shown)
    for at, (name, stalls) in enumerate(kernels):
        y, x = top + at * ROW, 0.0
        parts.append(svg.text(0, y + 15, name, bold=True))
        said = f"{stalls.warps:.1f} warps a scheduler, one issues in {stalls.busy:.0%} of cycles"
        parts.append(svg.text(WIDTH, y + 15, said, size=12, anchor="end", faint=True))
        whole = sum(stalls.by_kind[kind] for kind in shown) or 1.0  # runs differ: kinds do not add up to 100% exactly
        for kind in shown:
            share = stalls.by_kind[kind]
            wide = WIDTH * share / whole
            if wide <= 0:
                continue
            parts.append(svg.rect(x, y + 22, wide, BAR, COLOURS[kind], title=_title(stalls, kind)))
            if share >= LABELLED:
                letters = palette.letters(COLOURS[kind])
                words = numbers.percent(share)
                parts.append(svg.text(x + wide / 2, y + 35.5, words, size=12, anchor="middle", fill=letters))
            x += wide
    label = f"What the warps of {', '.join(name for name, _ in kernels)} spend their time on"
    return svg.picture(WIDTH, top + ROW * len(kernels), label, parts, most="900px")


def _legend(kinds: Sequence[str]) -> tuple[list[str], float]:
    parts, x, y = [], 0.0, 4.0
    for kind in kinds:
        wide = 18 + text_width(KINDS[kind], 12) + 18
        if x and x + wide > WIDTH:
            x, y = 0.0, y + 20
        parts += [svg.rect(x, y, 11, 11, COLOURS[kind]), svg.text(x + 17, y + 10.5, KINDS[kind], size=12)]
        x += wide
    return parts, y + 22


def _title(stalls: Stalls, kind: str) -> str:
    own = [(key, stalls.share(key)) for key, reason in REASONS.items() if reason.kind == kind]
    said = ", ".join(f"{REASONS[key].name} {share:.1%}" for key, share in own if share > 0)
    return f"{KINDS[kind]}, {stalls.by_kind[kind]:.1%} of the warps' time: {said}"


def reasons(stalls: Stalls) -> str:
    """One kernel's reasons, the greatest first, each with what it means; what has less than LEAST of the time is one line together."""
    told = [key for key in stalls.most if stalls.share(key) >= LEAST]
    told = (["selected"] if stalls.share("selected") >= LEAST else []) + told
    longest = max([stalls.share(key) for key in told] or [1.0])
    parts: list[str] = []
    y = 0.0
    for key in told:
        reason, share = REASONS[key], stalls.share(key)
        colour = COLOURS[reason.kind]
        parts += [
            svg.text(0, y + 15, reason.name, bold=True),
            svg.text(190, y + 15, f"{share:.1%}", anchor="end"),
            svg.rect(202, y + 4, (WIDTH - 202) * share / longest, 14, colour, title=f"{reason.name}: {share:.2%} of the warps' time"),
        ]  # fmt: skip
        for line in wrapped(reason.words[0].upper() + reason.words[1:], WIDTH - 202, 12):
            y += 18
            parts.append(svg.text(202, y + 14, line, size=12, faint=True))
        y += 28
    rest = sum(stalls.share(key) for key in stalls.most if key not in told)
    if rest > 0:
        parts += [
            svg.text(0, y + 15, "all others", faint=True),
            svg.text(190, y + 15, f"{rest:.1%}", anchor="end", faint=True),
        ]
        y += 24
    return svg.picture(WIDTH, y, "Why this kernel's warps wait", parts, most="900px")


def told(stalls: Stalls) -> str:
    """What the bars come to, in two sentences; markdown."""
    first = (
        f"A scheduler has **{stalls.warps:.1f} warps** to choose from and issues an instruction in **{stalls.busy:.0%}** of its cycles."
    )  # fmt: skip
    if not stalls.most:
        return first
    key = stalls.most[0]
    share = f"**{stalls.share(key):.0%}** of its warps' time"
    return f"{first} The most common reason to wait is *{REASONS[key].name}*, {share}: {REASONS[key].words}"
