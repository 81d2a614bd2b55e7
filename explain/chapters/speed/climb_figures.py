"""The climb: its columns, the sentences on it, and what the GPU counted of its kernels."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple

from explain.chapters.speed import readable
from explain.chapters.speed.results import Limit, Variant
from explain.chapters.speed.rungs import BY_NAME, RUNGS, Rung, Spill, Step, largest, share
from explain.counters.stalls import REASONS, Stalls
from explain.figures import labels, numbers, palette, svg, tables
from explain.figures.tables import Column
from explain.gpus import Gpu
from explain.records.model import Point

NO_TIME = "no time"
CLOCK_ROUGH = 1.02
"""Two estimated clocks differ if their ratio is more: time and share are of different launches."""
TOP, TALL, ROW, LEAST_COLUMN, GAP = 26.0, 220.0, 20.0, 88.0, 17.0
NARROW, NARROW_ROW, NARROW_OTHER = 380.0, 50.0, 36.0
LARGE, LARGE_ROW = 900.0, 36.0
BELOW = 24.0  # from the foot of the columns to the numbers under them
PHRASE, PLAIN = 15, 18.0  # a column's phrase: its size, and a line's height
TUNED = ("tuned: the best tile, warps", "and stages for this kernel")
"""What the ticks above columns are, in two lines."""


def _tera(per_second: float) -> str:
    """Under "TFLOP/s": "709", "8.98"."""
    return numbers.number(per_second / 1e12)


@functools.lru_cache(maxsize=64)
def climb(
    steps: tuple[Step, ...], libraries: tuple[Variant, ...], peak: Limit | None, shape: str, chosen: str,
    tuned: tuple[tuple[str, float], ...] = (), notes: tuple[tuple[str, str], ...] = (),
) -> str:  # fmt: skip
    """A column per kernel, as high as its throughput, with its numbers below; libraries and peak are lines.

    `tuned` has the FLOP/s of a kernel's best setting, by its label: a tick above the column. `notes` are words more
    below a column, by its kernel's label.
    """
    speeds = [step.per_second or 0.0 for step in steps] + [one.per_second or 0.0 for one in libraries]
    most = 1.04 * max(*speeds, peak.per_second if peak else 0.0, 1.0)
    heads = ("TFLOP/s", "of the peak" if peak else "", "speedup over the one before")
    names = [f"{at} {step.rung.label}" for at, step in enumerate(steps, start=1)]
    wide = max(LEAST_COLUMN, labels.widest(names, 13, bold=True) + 10)
    heads_wide = max(labels.widest(labels.wrapped(head, 110, svg.SMALL), svg.SMALL) for head in heads)
    left, base = 1.05 * heads_wide + 20, TOP + TALL
    right = left + wide * len(steps)
    phrases = [labels.wrapped(_phrase(step, notes), wide - 8, PHRASE) for step in steps]
    foot = base + BELOW + 3 * ROW + PLAIN * max(map(len, phrases))

    parts = _scale(most, left, right, base)
    for at, step in enumerate(steps):
        place = left + at * wide, wide, base, foot
        parts.append(_column(step, at + 1, phrases[at], place, most, peak, step.rung.name == chosen))
        if speed := dict(tuned).get(step.rung.label):
            y, (x, *_) = base - TALL * speed / most, place
            parts.append(svg.rect(x + 3, y - 1, wide - 6, 2, "currentColor"))
            parts.append(svg.text(x + wide / 2, y - 5, f"tuned {_tera(speed)}", size=svg.SMALL, anchor="middle"))
    for at, head in enumerate(heads, start=1):
        for row, words in enumerate(labels.wrapped(head, 110, svg.SMALL)):
            parts.append(
                svg.text(left - 10, base + BELOW + at * ROW + row * 14, words, size=svg.SMALL, anchor="end", faint=True)
            )
    parts += _brackets(steps, left, wide, foot + 18)
    parts.append(svg.text(left - 10, foot + 2, "press a bar ↗", size=svg.SMALL, anchor="end"))
    lines, room = _lines(libraries, peak, (left, right, base), most)
    for row, words in enumerate(TUNED if tuned else ()):
        parts.append(svg.text(right + 20, base + 19 + row * PLAIN, words, size=svg.SMALL, faint=True))
        room = max(room, 24 + labels.widest([words], svg.SMALL))
    words = f"{len(steps)} kernels on {shape}: " + "; ".join(f"{step.rung.label} {_said(step)}" for step in steps)
    return svg.picture(right + room, foot + 46, words, parts + lines, most=f"{1.25 * (right + room):.0f}px")


def _scale(most: float, left: float, right: float, base: float) -> list[str]:
    """Lines at round TFLOP/s."""
    tera = most / 1e12
    apart = next((step for step in (1, 2, 5, 10, 20, 50, 100, 200, 500) if tera / step <= 6), 1000)
    parts = [svg.text(left - 10, TOP - 10, "TFLOP/s", size=svg.SMALL, anchor="end", faint=True)]
    for mark in range(0, int(tera) + 1, apart):
        y = base - TALL * mark / tera
        parts.append(svg.line(left, y, right, y, opacity=0.14 if mark else 0.5))
        parts.append(svg.text(left - 10, y + 4, f"{mark}", size=svg.SMALL, anchor="end", faint=True))
    return parts


def _column(
    step: Step,
    number: int,
    phrase: Sequence[str],
    place: tuple[float, float, float, float],
    most: float,
    peak: Limit | None,
    chosen: bool,
) -> str:
    """One kernel's column, name, numbers and phrase, as a button."""
    (x, wide, base, foot), rung = place, step.rung
    middle, colour = x + wide / 2, palette.css(palette.kernel(rung.entry.hue))
    parts = []
    if step.per_second:
        high = TALL * step.per_second / most
        parts.append(svg.rect(x + 3, base - high, wide - 6, high, colour, opacity=0.95 if chosen else 0.62))
    else:
        parts.append(svg.rect(x + 8, base - 26, wide - 16, 26, colour, opacity=0.08, stroke=colour, dashed=True))
        parts.append(svg.text(middle, base - 9, _why_none(step), size=svg.SMALL, anchor="middle", faint=True))
    parts.append(svg.text(middle, base + 19, f"{number} {rung.label}", size=13, anchor="middle", bold=chosen))
    for row, (words, bold, fill) in enumerate(_cells(step, peak), start=1):
        parts.append(svg.text(middle, base + BELOW + row * ROW, words, anchor="middle", bold=bold, fill=fill))
    for row, words in enumerate(phrase, start=1):
        y = base + BELOW + 3 * ROW + row * PLAIN
        parts.append(svg.text(middle, y + 4, words, size=PHRASE, anchor="middle"))
    frame = x + 1, TOP - 6, wide - 2, foot - TOP + 14
    return svg.button(rung.name, _named(step, number), *frame, parts, chosen=chosen)


def _cells(step: Step, peak: Limit | None) -> tuple[tuple[str, bool, str], ...]:
    """Throughput, share of the peak and speedup: words, whether they are bold, and their colour."""
    of_peak = share(step, peak)
    return (
        (_tera(step.per_second) if step.per_second else numbers.NONE, True, ""),
        (numbers.percent(of_peak) if of_peak else "", False, ""),
        (numbers.ratio(step.gain) if step.gain else "", step.slower, palette.css_ink("alarm") if step.slower else ""),
    )


def _named(step: Step, number: int) -> str:
    """A kernel's button, for a screen reader."""
    return f"Kernel {number}, {step.rung.title}: {_said(step)}"


@functools.lru_cache(maxsize=64)
def climb_in_rows(
    steps: tuple[Step, ...], libraries: tuple[Variant, ...], peak: Limit | None, chosen: str,
    notes: tuple[tuple[str, str], ...] = (), *, large: bool = False,
) -> str:  # fmt: skip
    """The same for a phone, or `large` for a hall: a row per kernel, then the libraries and the peak."""
    width, apart = (LARGE, LARGE_ROW) if large else (NARROW, NARROW_ROW)
    others = [(_line_name(one), one.per_second or 0.0, palette.css("slate")) for one in libraries]
    others += [(f"peak: {peak.name}", peak.per_second, "currentColor")] if peak else []
    most = max(1.0, *(step.per_second or 0.0 for step in steps), *(speed for _, speed, _ in others))
    columns = (width - 142, width - 64, width - 4)
    heads = zip(columns, ("TFLOP/s", "of the peak", "speedup"), strict=True)
    parts = [svg.text(x, 12, words, size=svg.SMALL, anchor="end", faint=True) for x, words in heads]
    names = [f"{at} {step.rung.label}" for at, step in enumerate(steps, start=1)]
    left, up = (labels.widest(names, bold=True) + 24, 15.0) if large else (4.0, 0.0)
    phrases = [labels.wrapped(_phrase(step, notes), width - 8 - (left + 210) * large, svg.SMALL) for step in steps]
    end = 20.0
    for at, (step, phrase) in enumerate(zip(steps, phrases, strict=True)):
        y, bold = end, step.rung.name == chosen
        below = 14.0 * (len(phrase) - 1)
        end += apart + below
        drawn = [svg.text(4, y + 15, names[at], bold=bold)]
        cells = zip(columns, _cells(step, peak), strict=True)
        drawn += [svg.text(x, y + 15, words, anchor="end", bold=heavy, fill=fill) for x, (words, heavy, fill) in cells]
        for row, words in enumerate(phrase):
            drawn.append(svg.text(left, y + 30 - up + 14 * row, words, size=svg.SMALL))
        if step.per_second:
            wide = (width - 8) * step.per_second / most
            colour = palette.css(palette.kernel(step.rung.entry.hue))
            drawn.append(svg.rect(4, y + 36 - up + below, wide, 9, colour, opacity=0.95 if bold else 0.62))
        else:
            drawn.append(svg.text(4, y + 45 - up + below, _why_none(step), size=svg.SMALL, faint=True))
        frame = 1, y, width - 2, apart + below - 1
        parts.append(svg.button(step.rung.name, _named(step, at + 1), *frame, drawn, chosen=bold))
    for at, (name, speed, colour) in enumerate(others):
        y = end + NARROW_OTHER * at
        parts += [svg.text(4, y + 15, name), svg.text(columns[0], y + 15, _tera(speed), anchor="end")]
        parts.append(svg.rect(4, y + 21, (width - 8) * speed / most, 4, colour))
    return svg.picture(width, end + NARROW_OTHER * len(others), "The kernels, a row each", parts, "30rem")


def _phrase(step: Step, notes: tuple[tuple[str, str], ...]) -> str:
    """The words below a kernel's column."""
    note = dict(notes).get(step.rung.label)
    return f"{step.rung.plain}; {note}" if note else step.rung.plain


def notes(
    steps: Sequence[Step], tuned: Mapping[str, float], spills: Mapping[str, Spill | None], head_dim: int = 0
) -> dict[str, str]:
    """What a column's height does not say, by a kernel's label: no more spills; what it also does at this head_dim; a
    tuned kernel before it is faster.
    """
    said = {
        step.rung.label: "no more spills" for step in steps if (one := spills.get(step.rung.label)) and one.starts_cores
    }
    said |= {
        step.rung.label: f"at d = {head_dim} also: {more}"
        for step in steps
        if (more := step.rung.at_d.get(str(head_dim)))
    }
    for label, speed in tuned.items():
        for step in _behind(steps, label, speed):
            after = steps[steps.index(step) + 1 :]
            needed = f"; {after[0].rung.label} needs this step" if after else ""
            if step.rung.label not in tuned:
                said[step.rung.label] = f"not tuned: tuned {label} is faster{needed}"
    return said


def _why_none(step: Step) -> str:
    if step.variant is None:
        return "not timed"
    return "wrong result" if step.variant.missed else NO_TIME


def _said(step: Step) -> str:
    """Its throughput and speedup, for a screen reader."""
    if step.per_second is None:
        return _why_none(step)
    gain = f", {numbers.ratio(step.gain)} the kernel before" if step.gain else ""
    return f"{numbers.si(step.per_second, 'FLOP/s')}{gain}"


def _brackets(steps: Sequence[Step], left: float, wide: float, y: float) -> list[str]:
    """Which kernels are plain Triton, and which Gluon."""
    parts = []
    for gluon, words in ((False, "plain Triton"), (True, "Gluon, Triton’s lower level")):
        own = [at for at, step in enumerate(steps) if step.rung.gluon == gluon]
        if own:
            x, end = left + own[0] * wide + 6, left + (own[-1] + 1) * wide - 6
            hue = palette.css(palette.kernel(steps[own[0]].rung.entry.hue))
            parts.append(svg.rect(x, y, end - x, 3, hue))
            parts.append(svg.text((x + end) / 2, y + 19, words, size=svg.SMALL, anchor="middle", faint=True))
    return parts


def _line_name(one: Variant) -> str:
    """A line's name. Our own kernel beside the climb is the readable one: its short name is also a column's."""
    return "our readable kernel" if one.function == readable.KERNEL else one.label


def _lines(
    libraries: Sequence[Variant], peak: Limit | None, place: tuple[float, float, float], most: float
) -> tuple[list[str], float]:  # fmt: skip
    """The libraries and the peak across all columns, their names at the right; and how wide these are."""
    left, right, base = place
    lines = [(one.per_second or 0.0, _line_name(one), palette.css("slate"), "") for one in libraries]
    if peak:
        lines.append((peak.per_second, f"peak: {peak.name}", "currentColor", ' stroke-dasharray="6 4"'))
    names = [f"{name}, {_tera(speed)}" for speed, name, *_ in lines]
    heights = [base - TALL * speed / most for speed, *_ in lines]
    places = labels.spread(heights, GAP, low=TOP - 16)
    parts = []
    for (_, _, colour, dash), name, y, label_y in zip(lines, names, heights, places, strict=True):
        path = f"M{left:.1f} {y:.1f}H{right + 4:.1f}L{right + 16:.1f} {label_y:.1f}"
        parts.append(f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="{1.8 if dash else 1}"{dash}/>')
        parts.append(svg.text(right + 20, label_y + 4.5, name, size=13))
    return parts, 32 + labels.widest(names, 13)


def climb_told(steps: Sequence[Step], peak: Limit | None) -> str:
    """The climb in sentences: its first and last throughput, what a large matmul reaches; markdown."""
    timed = [step.per_second for step in steps if step.per_second]
    if not timed:
        return "None of the kernels is timed yet. Their code and ideas are below."
    said = f"**{len(steps)} kernels, each one main change away from the one before:** from "
    said += f"{numbers.fixed(timed[0] / 1e12, 0)} to **{numbers.si(timed[-1], 'FLOP/s')}**."
    if peak:
        said += f" A large matmul reaches {_tera(peak.per_second)} on this GPU; that is our ceiling."
    said += " The grey lines are other kernels."
    if missing := sum(step.variant is None for step in steps):
        said += f" Not timed at this shape: {missing} of {len(steps)}."
    return said


def shape_told(steps: Sequence[Step], head_dim: int, more: str = "") -> str:
    """What is special on this shape, `more` last; markdown, empty if nothing is."""
    said = [*_differs(steps, head_dim), *filter(None, [more])]
    return f"**On this shape:** {'; '.join(said)}." if said else ""


def _differs(steps: Sequence[Step], head_dim: int) -> list[str]:
    """Kernels that are slower than the one before, and those that do something else at this head_dim; markdown."""
    said = []
    for at, step in enumerate(steps, start=1):
        name = f"kernel {at}, *{step.rung.label}*,"
        if step.slower and step.gain:
            said.append(f"{name} is slower than kernel {at - 1} (**{numbers.ratio(step.gain)}**)")
        elif step.gain and (why := step.rung.at_d.get(str(head_dim))):
            said.append(f"{name} gains **{numbers.ratio(step.gain)}**, because {why}")
    return said


def tuned_told(steps: Sequence[Step], tuned: Mapping[str, float]) -> str:
    """What the kernel that gains most from tuning reaches, and the kernels above that are slower; markdown."""
    label, speed = max(tuned.items(), key=lambda one: one[1])
    said = (
        "Each bar has one fixed tile, number of warps and stages; *Tuning* tries others. "
        f"With its best setting, {label} reaches {_tera(speed)} (*tuned*)"
    )
    behind = _behind(steps, label, speed)
    said += f", more than {behind[0].rung.label}, which was not tuned." if behind else "."
    after = [one for one in steps[steps.index(behind[-1]) + 1 :] if one.per_second] if behind else []
    if after:
        said += (
            f" {behind[-1].rung.label.capitalize()} is still a step: {after[0].rung.label} builds on it and "
            f"reaches {_tera(after[0].per_second or 0.0)}."
        )
    return said


def _behind(steps: Sequence[Step], label: str, speed: float) -> list[Step]:
    """The kernels after the one of this label that are slower than it at its best setting."""
    names = [step.rung.label for step in steps]
    after = steps[names.index(label) + 1 :] if label in names else ()
    return [step for step in after if step.per_second and step.per_second < speed]


def not_yet(step: Step, lower: Rung | None, tuned: Mapping[str, float]) -> str:
    """That a kernel with its one setting is slower than the one below with its best; markdown, else empty."""
    best = tuned.get(lower.label) if lower else None
    if not lower or not best or not step.per_second or step.per_second >= best or step.rung.label in tuned:
        return ""
    return (
        f"The speedup compares single settings. With its best setting {lower.label} reaches {_tera(best)}, so this "
        "kernel gains nothing yet over a tuned one. It is still a step: the next kernels need its idea."
    )


def climb_more(
    steps: Sequence[Step], peak: Limit | None, spill: Spill | None = None, specified: float | None = None
) -> list[str]:
    """The largest speedup and the top kernel's shares, as sentences; markdown.

    `spill`: what the kernel below the largest speedup spills. `specified`: the datasheet's FLOP/s.
    """
    timed = [step for step in steps if step.per_second]
    if not timed:
        return []
    top, first = timed[-1], timed[0]
    speed = top.per_second or 0.0
    said, parts = [], []
    if len(timed) > 2 and (most := largest(steps)) and most.gain:
        said.append(f"The largest speedup is **{most.rung.label}**, {numbers.ratio(most.gain)}{largest_why(spill)}.")
    if of_peak := share(top, peak):
        parts.append(f"{numbers.percent(of_peak)} of what a large matmul reaches here")
    if specified:
        stated = numbers.si(specified, "FLOP/s")
        parts.append(f"{numbers.percent(speed / specified)} of the datasheet's {stated}")
    if len(timed) > 1:
        parts.append(f"{numbers.ratio(speed / (first.per_second or 1.0))} {first.rung.label}")
    if parts:
        said.append(f"**{top.rung.label}** reaches {', '.join(parts)}.")
    return said


def largest_why(spill: Spill | None) -> str:
    """The causes that were counted: tensor cores that idled below, and registers that were spilled there."""
    if not spill:
        return ""
    cores = "it uses the tensor cores, and " if spill.starts_cores else ""
    return f": {cores}it no longer spills {numbers.moved(spill.size)} of registers"


def number(step: Step, peak: Limit | None, lower: Rung | None, spill: Spill | None = None) -> str:
    """A kernel's throughput and speedup in sentences, or why it has none; markdown."""
    if step.variant is None:
        return "Not timed at this shape yet."
    if step.per_second is None:
        return f"No time: {'its error exceeds the tolerance' if step.variant.missed else step.variant.why}."
    parts = [f"**{numbers.si(step.per_second, 'FLOP/s')}**"]
    if of_peak := share(step, peak):
        parts.append(f"{numbers.percent(of_peak)} of the peak")
    why = ""
    if step.gain and lower:
        parts.append(f"{numbers.ratio(step.gain)} as fast as *{lower.label}*")
        if spill:
            cores = f"its matmuls run on the tensor cores, and {lower.label} also spills registers"
            why = f": {cores if spill.starts_cores else 'it spills fewer registers'}"
    said = [f"{', '.join(parts)}{why}."]
    if step.slower:
        said.append("On this shape it is slower than the kernel before.")
    return " ".join(said)


def spill_title(spill: Spill) -> str:
    """What `spill_told` answers."""
    return f"Where {spill.rung.label} spends its {numbers.duration(spill.of) if spill.of else 'time'}"


def spill_told(spill: Spill) -> str:
    """The two causes of a speedup over a kernel that spills, from the counters: busier tensor cores, and no spills."""
    said, (before, now) = "", spill.tensor
    if before is not None and now is not None:
        here, there = (numbers.percent(share / 100) for share in (now, before))
        said += f"The tensor cores are active in {here} of the cycles; in {spill.rung.label} in {there}. "
    said += f"{spill.rung.label} moves {numbers.moved(spill.size)} of spilled registers, this kernel none."
    if spill.seconds and spill.of and spill.bandwidth:
        cost, whole = numbers.duration(spill.seconds), numbers.duration(spill.of)
        said += f" At the measured {numbers.si(spill.bandwidth, 'B/s')} of L2 that takes {cost} of its {whole}."
        if spill.of > spill.seconds:
            idle = ": its matmuls run outside the tensor cores" if before is not None and before < 1 else ""
            said += f" The other {numbers.duration(spill.of - spill.seconds)} are not spills{idle}."
    return said


class Waits(NamedTuple):
    """What the warps of one kernel spend their time on.

    `tensor`: how busy its tensor cores are, in percent. `empty`: the fraction of its warps that have no work. They stay
    at a barrier, so that part of the barrier's time costs nothing.
    """

    kernel: str
    stalls: Stalls
    tensor: float | None = None
    empty: float = 0.0

    def share(self, reason: str) -> float:
        """The fraction of all warps' time in this state. Warps without work do not count as waiting at a barrier."""
        return max(0.0, self.stalls.share(reason) - self.empty * (reason == "barrier"))

    @property
    def by_group(self) -> Mapping[str, float]:
        """The fraction of all warps' time in each of GROUPS."""
        states = {group: [key for key, one in REASONS.items() if one.kind in kinds] for group, kinds in GROUPS.items()}
        return {group: sum(map(self.share, keys)) for group, keys in states.items()} | {EMPTY: self.empty}


GROUPS: Mapping[str, Sequence[str]] = {
    "issues, or is ready to": ("issued", "ready"),
    "waits for arithmetic, or its last instruction": ("tensor", "pace"),
    "waits for memory": ("memory",),
    "waits on chip: exponentials, shared memory": ("chip",),
    "waits for other warps (barrier)": ("barrier",),
    "anything else": ("code", "other"),
}
EMPTY = "has no work"
"""The bars' parts: kinds of a warp's time (`stalls.KINDS`)."""
HUES: Mapping[str, str] = {
    "issues, or is ready to": "series-1", "waits for arithmetic, or its last instruction": "series-4",
    "waits for memory": "hbm", "waits on chip: exponentials, shared memory": "series-3",
    "waits for other warps (barrier)": "series-2",
}  # fmt: skip
SHADES: Mapping[str, float] = dict(zip((*(one for one in GROUPS if one not in HUES), EMPTY), (0.36, 0.04), strict=True))
"""How dark the grey of each other wait is."""
WIDTH, PHONE, STALL_ROW, BAR, AXIS = 700.0, 330.0, 46.0, 18.0, 40.0
WORKING = GROUPS["issues, or is ready to"]


def counters_table(counted: Mapping[str, Point], rungs: Sequence[Rung]) -> str:
    """What the GPU counted of each kernel, as markdown: tensor-core use and bytes, L2 cold."""
    found = ((rung, counted[rung.name].counters) for rung in rungs if rung.name in counted)
    shown = [(rung, counters.cold) for rung, counters in found if counters]
    gigabytes = partial(numbers.aligned, unit="B", prefix="G")
    moved = (Column(name, gigabytes) for name in ("L2 ↔ SMs", "DRAM (HBM)", "spilled"))
    active = Column("tensor pipe active", lambda percent: f"**{numbers.fixed(percent, 0)}%**")
    columns: tables.Columns = ("kernel", active, *moved)
    rows = [
        (rung.label, c.tensor_active_percent, c.sm_bytes, c.hbm_bytes, c.spilled_bytes or None) for rung, c in shown
    ]
    return tables.markdown(columns, rows)


def tensor_bars(counted: Mapping[str, Point], rungs: Sequence[Rung], *, narrow: bool = False) -> str:
    """A bar per kernel: the share of cycles in which its tensor pipe was active, L2 cold; empty if none was counted.

    `narrow` is for a phone: a kernel's name and share stand above its bar.
    """
    found = [(at, rung, counted[rung.name].counters) for at, rung in enumerate(rungs, 1) if rung.name in counted]
    shown = [
        (f"{at} {rung.label}", rung, active / 100)
        for at, rung, counters in found
        if counters and (active := counters.cold.tensor_active_percent) is not None
    ]
    if not shown:
        return ""
    beside = 0.0 if narrow else labels.widest((name for name, *_ in shown), 15) + 16
    wide, above, room = (PHONE, 20.0, 0.0) if narrow else (440.0, 0.0, 70.0)
    row, places = above + 30, (0.0, wide) if narrow else (beside - 10, beside + wide + 10)
    anchors, parts = ("start", "end") if narrow else ("end", "start"), []
    for at, (name, rung, part) in enumerate(shown):
        y = row * at
        parts += [
            svg.text(places[0], y + 18, name, size=15, anchor=anchors[0]),
            svg.rect(beside, y + above + 3, wide, 22, palette.css("slate"), opacity=0.12),
            svg.rect(beside, y + above + 3, wide * part, 22, palette.css(palette.kernel(rung.entry.hue)), opacity=0.8),
            svg.text(places[1], y + 18, numbers.percent(part), size=15, bold=True, anchor=anchors[1]),
        ]
    foot = row * len(shown)
    parts.append(svg.text(beside + wide, foot + 16, "100% of the cycles", size=13, anchor="end", faint=True))
    label = f"Tensor pipe active: {', '.join(f'{name} {numbers.percent(part)}' for name, _, part in shown)}"
    return svg.picture(beside + wide + room, foot + 24, label, parts, "52rem")


def tensor_told(counted: Mapping[str, Point], rungs: Sequence[Rung]) -> str:
    """The lowest and the highest of `tensor_bars` in a sentence; markdown, empty if fewer than two were counted."""
    counters = [(rung.label, counted[rung.name].counters) for rung in rungs if rung.name in counted]
    active = [(name, one.cold.tensor_active_percent) for name, one in counters if one]
    known = [(name, percent) for name, percent in active if percent is not None]
    if len(known) < 2:
        return ""
    (first, low), (last, high) = known[0], known[-1]
    return f"From {first} to {last}: **{numbers.percent(low / 100)} → {numbers.percent(high / 100)}**."


def shares_told(
    steps: Sequence[Step],
    peak: Limit | None,
    counted: Mapping[str, Point],
    specified: float | None = None,
    gpu: Gpu | None = None,
    after: str = "",
) -> str:
    """Why the top kernel's share of the peak is not its share of the cycles; markdown, empty unless both are known.

    `specified`: the datasheet's FLOP/s. `gpu` was measured: with its FLOPs per cycle a clock is estimated.
    `after`: the clock that the driver reported behind the last launch.
    """
    top = steps[-1]
    of_peak, point = share(top, peak), counted.get(top.rung.name)
    cycles = point.counters.cold.tensor_active_percent if point and point.counters else None
    if not of_peak or not peak or not top.per_second or cycles is None:
        return ""
    busy, shares = (
        numbers.percent(cycles / 100),
        [f"{numbers.percent(of_peak)} of a large matmul's {_tera(peak.per_second)}"],
    )
    if specified:
        shares.append(f"{numbers.percent(top.per_second / specified)} of the datasheet's {_tera(specified)}")
    return (
        f"\n\n**Why {busy} here, and {numbers.percent(of_peak)} of the peak above?** One counts cycles, the other "
        f"FLOPs per second. All are of {top.rung.label}:\n\n"
        f"- Its **{numbers.si(top.per_second, 'FLOP/s')}** are {' and '.join(shares)}.\n"
        f"- Its tensor cores multiply in **{busy}** of the cycles. If the GPU lowers its clock to save power, this "
        "share stays and the FLOPs per second fall.\n"
        f"- {_clock(top.per_second, cycles / 100, gpu, after)}{_clocks_told(steps, counted, gpu)}"
    )


def _clocks_told(steps: Sequence[Step], counted: Mapping[str, Point], gpu: Gpu | None) -> str:
    """That the estimated clock falls as the tensor cores get busier, as a sentence; empty where it does not.

    Kernels that multiply what a causal mask hides are left out: that work is in their cycles and not in their FLOPs.
    """
    if not gpu or not gpu.tensor_flops_per_cycle:
        return ""
    found = []
    for step in steps:
        point = counted.get(step.rung.name)
        percent = point.counters.cold.tensor_active_percent if point and point.counters else None
        if not step.per_second or not point or not percent or percent < 1:
            continue
        if not point.experiment.values["causal"] or RUNGS.index(step.rung) >= RUNGS.index(BY_NAME["causal"]):
            clock = step.per_second / (percent / 100 * gpu.tensor_flops_per_cycle * gpu.sms)
            found.append((percent / 100, clock, step.rung.label))
    found.sort()
    rises = any(later[1] > CLOCK_ROUGH * former[1] for former, later in itertools.combinations(found, 2))
    if len(found) < 3 or rises or found[-1][1] * CLOCK_ROUGH > found[0][1]:
        return ""
    still = [one for one in found if one[1] * CLOCK_ROUGH >= found[0][1]]  # up to where it hardly falls
    shown = dict.fromkeys((found[0], still[-1], found[-1]))
    said = (f"{numbers.si(clock, 'Hz')} at {numbers.percent(busy)} busy ({name})" for busy, clock, name in shown)
    return f" The busier the tensor cores, the lower this clock: {', '.join(said)}."


def _clock(per_second: float, share: float, gpu: Gpu | None, after: str) -> str:
    """The clock that both numbers would have together, as an estimate; or why neither gives the other."""
    if gpu is None or not gpu.tensor_flops_per_cycle or not share:
        return "So neither gives the other: the clock was not recorded."
    clock = per_second / (share * gpu.tensor_flops_per_cycle * gpu.sms)
    return (
        f"FLOPs per second = share × {numbers.count(gpu.tensor_flops_per_cycle)} FLOPs per cycle and SM × "
        f"{gpu.sms} SMs × clock. So the clock is about {numbers.si(clock, 'Hz')}: an estimate, "
        "because time and share are of different launches."
        + f" The driver's {numbers.grouped(after)} were read after the last launch, without load."
        * bool(after)
    )


def stall_bars(kernels: Sequence[Waits], *, narrow: bool = False) -> str:
    """A bar per kernel: all of its warps' time, divided into GROUPS and EMPTY, in one order and the same colours.

    `narrow` is for a phone.
    """
    width, row, below = (PHONE, STALL_ROW + 16, 16) if narrow else (WIDTH, STALL_ROW, 0)
    divided = [one.by_group for one in kernels]
    shown = [group for group in (*GROUPS, EMPTY) if any(by_group[group] >= 0.005 for by_group in divided)]
    parts, top = legend({group: _look(group) for group in shown}, width, (EMPTY,))
    for at, (one, by_group) in enumerate(zip(kernels, divided, strict=True)):
        name, stalls, tensor, _ = one
        y, x = top + at * row + below, 0.0
        parts.append(svg.text(0, y + 15 - below, name, bold=True))
        who = "" if narrow else f"a scheduler's {numbers.fixed(stalls.warps, 1)} "
        busy = f"{who}warps issue in {numbers.percent(stalls.busy)} of cycles"
        if tensor is not None:
            busy += f" · tensor pipe active in {numbers.fixed(tensor, 0)}%"
        parts.append(
            svg.text(
                0 if narrow else width, y + 15, busy, size=svg.SMALL, anchor="start" if narrow else "end", faint=True
            )
        )
        whole = sum(by_group[group] for group in shown) or 1.0  # counted in several runs, so not exactly 1
        for group in shown:
            part, (colour, shade) = by_group[group], _look(group)
            wide = width * part / whole
            if wide <= 0:
                continue
            title = _stall_title(one, group)
            edge = palette.css(colour) if group == EMPTY else "none"
            dashed = group == EMPTY
            box = svg.rect(
                x, y + 22, wide, BAR, palette.css(colour), opacity=shade, stroke=edge, dashed=dashed, title=title
            )
            parts.append(box)
            words = numbers.percent(part)
            if labels.text_width(words, svg.SMALL) + 6 <= wide:
                ink = palette.letters(palette.fill(colour)) if shade == 1 else ""
                parts.append(svg.text(x + wide / 2, y + 35.5, words, size=svg.SMALL, anchor="middle", fill=ink))
            x += wide
    foot = top + row * len(kernels)
    parts.append(svg.line(0, foot + 4, width, foot + 4))
    for part, anchor, words in ((0.0, "start", ""), (0.5, "middle", " of the warps' time"), (1.0, "end", "")):
        x = part * width
        parts.append(svg.line(x, foot, x, foot + 8))
        parts.append(svg.text(x, foot + 24, numbers.percent(part) + words, size=svg.SMALL, anchor=anchor, faint=True))
    label = f"What the warps of {', '.join(name for name, *_ in kernels)} spend their time on"
    return svg.picture(width, foot + AXIS, label, parts, most="900px")


def _look(group: str) -> tuple[str, float]:
    """A group's hue and opacity."""
    return ("slate", SHADES[group]) if group in SHADES else (HUES[group], 1.0)


def legend(looks: Mapping[str, tuple[str, float]], width: float, dashed: Sequence[str] = ()) -> tuple[list[str], float]:
    """Names beside squares of their hue and opacity, in lines of this width, and where they end."""
    parts, x, y = [], 0.0, 4.0
    for name, (hue, opacity) in looks.items():
        wide = 36 + labels.text_width(name, svg.SMALL)
        if x and x + wide > width:
            x, y = 0.0, y + 20
        colour, is_dashed = palette.css(hue), name in dashed
        edge = colour if is_dashed else "none"
        parts.append(svg.rect(x, y, 11, 11, colour, opacity=opacity, stroke=edge, dashed=is_dashed))
        parts.append(svg.text(x + 17, y + 10.5, name, size=svg.SMALL))
        x += wide
    return parts, y + 22


def _stall_title(one: Waits, group: str) -> str:
    own = [(key, one.share(key)) for key, reason in REASONS.items() if reason.kind in GROUPS.get(group, ())]
    said = ", ".join(f"{REASONS[key].name} {numbers.percent(part, 1)}" for key, part in own if part > 0)
    told = f"{group}, {numbers.percent(one.by_group[group], 1)} of the warps' time"
    return f"{told}: {said}" if said else told


def spilling_told(waits: Sequence[Waits], counted: Mapping[str, Point], rungs: Sequence[Rung]) -> str:
    """Which part of a bar has the loads of spilled registers, for the kernel that spills most; markdown, else empty."""
    spills = {
        rung.label: point.counters.cold.spilled_bytes or 0
        for rung in rungs
        if (point := counted.get(rung.name)) and point.counters
    }
    most = max(waits, key=lambda one: spills.get(one.kernel, 0))
    if not (size := spills.get(most.kernel, 0)):
        return ""
    memory, chip = (most.by_group[name] for name in GROUPS if GROUPS[name] in (("memory",), ("chip",)))
    said = (
        f"\n\n**{most.kernel}** spills {numbers.moved(size)}. Its loads of spilled registers are part of *waits for "
        f"memory*, {numbers.percent(memory)}."
    )
    if chip > memory:
        said += f" The larger part, *waits on chip*, {numbers.percent(chip)}, is not the spill."
    return said


def stalls_told(one: Waits) -> str:
    """The bar of one kernel in sentences; markdown."""
    _, stalls, tensor, empty = one
    said = []
    if stalls.most:
        key = max(stalls.most, key=one.share)
        part = f"**{numbers.percent(one.share(key))}** of the warps' time"
        said.append(f"The most common stall is *{REASONS[key].name}*, {part}: {REASONS[key].words}")
    waiting = 1 - sum(stalls.by_kind[kind] for kind in WORKING) / (1 - empty)
    if tensor is not None and tensor > 100 * stalls.busy and tensor > 50 < 100 * waiting:
        said.append(
            "Its warps wait most of the time, and yet the tensor pipe is active in "
            f"**{numbers.fixed(tensor, 0)}%** of cycles: one instruction starts a long matmul. Waiting costs little "
            "while the tensor pipe is busy."
        )
    if empty:
        said.append(
            f"The dashed part, {numbers.percent(empty)}: warps without work. Triton rounds the number of warps of a "
            "Gluon kernel up to a multiple of four; they stay at a barrier and cost no time."
        )
    return " ".join(said)
