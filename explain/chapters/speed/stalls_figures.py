"""Pictures of why warps wait: a kernel's time as one bar of kinds, for kernels side by side, and its reasons one by one. Values in, SVG out."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence

from explain.counters.stalls import KINDS, REASONS, Stalls
from explain.figures import svg

COLOURS: Mapping[str, str] = {
    "issued": "#009E73",
    "ready": "#9AA83A",
    "tensor": "#0072B2",
    "memory": "#E69F00",
    "chip": "#56B4E9",
    "pace": "#8073AC",
    "barrier": "#CC79A7",
    "code": "#D55E00",
    "other": "#63788E",
}
WIDTH, ROW, BAR, LETTER = 700.0, 46.0, 18.0, 6.6
LEAST = 0.01
"""The least part of the time that is told in a line of its own."""
LABELLED = 0.06
"""The least part whose percentage fits its piece of the bar."""


def bars(kernels: Sequence[tuple[str, Stalls]]) -> str:
    """A bar a kernel, all of its warps' time, cut into kinds; the same kinds in the same order and colour in each."""
    shown = [kind for kind in KINDS if any(stalls.by_kind[kind] >= LEAST / 2 for _, stalls in kernels)]
    parts, top = _legend(shown)
    for at, (name, stalls) in enumerate(kernels):
        y, x = top + at * ROW, 0.0
        parts.append(svg.text(0, y + 15, name, bold=True))
        said = f"{stalls.warps:.1f} warps a scheduler, one issues in {stalls.busy:.0%} of cycles"
        parts.append(svg.text(WIDTH, y + 15, said, size=12, anchor="end", faint=True))
        whole = (
            sum(stalls.by_kind[kind] for kind in shown) or 1.0
        )  # runs differ a little: the kinds miss 100% by as much
        for kind in shown:
            share = stalls.by_kind[kind]
            wide = WIDTH * share / whole
            if wide <= 0:
                continue
            parts.append(svg.rect(x, y + 22, wide, BAR, COLOURS[kind], title=_title(stalls, kind)))
            if share >= LABELLED:
                parts.append(svg.text(x + wide / 2, y + 22 + 13.5, f"{share:.0%}", size=12, anchor="middle", fill="#FFFFFF" if kind in DARK else "#111111"))  # fmt: skip
            x += wide
    label = f"What the warps of {', '.join(name for name, _ in kernels)} spend their time on"
    return svg.picture(WIDTH, top + ROW * len(kernels), label, parts, most="900px")


DARK = ("tensor", "pace", "other", "code", "issued")
"""Kinds whose colour needs white letters."""


def _legend(kinds: Sequence[str]) -> tuple[list[str], float]:
    parts, x, y = [], 0.0, 4.0
    for kind in kinds:
        wide = 18 + LETTER * len(KINDS[kind]) + 18
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
        for line in textwrap.wrap(reason.words[0].upper() + reason.words[1:], 84):
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
