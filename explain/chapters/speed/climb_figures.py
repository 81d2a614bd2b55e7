"""The climb: its columns, and the sentences on its times and settings. What the GPU counted is in `counted_figures`."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence

from explain.chapters.speed import readable
from explain.chapters.speed.results import Limit, Variant
from explain.chapters.speed.rungs import Rung, Spill, Step, largest, share
from explain.figures import labels, numbers, palette, svg

NO_TIME = "no time"
TOP, TALL, ROW, COLUMN, GAP = 26.0, 220.0, 22.0, 106.0, 18.0
NARROW, NARROW_ROW, NARROW_OTHER = 380.0, 50.0, 36.0
LARGE, LARGE_ROW = 900.0, 36.0
TEXT, PHRASE, PLAIN = 14, 15, 18.0  # a column's name and numbers, its phrase: their sizes, and a line's height
TUNED = ("tuned: the best tile, warps", "and stages for this kernel")
"""What the ticks above columns are, in two lines."""


def tera(per_second: float) -> str:
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
    heads = [labels.wrapped(head, 100, TEXT) for head in ("TFLOP/s", "speedup over the one before")]
    names = [f"{at} {step.rung.label}" for at, step in enumerate(steps, start=1)]
    named = [tuple(labels.wrapped(name, COLUMN - 6, TEXT, bold=True)) for name in names]
    left, base = 1.05 * max(labels.widest(head, TEXT) for head in heads) + 20, TOP + TALL
    right, numbered = left + COLUMN * len(steps), base + PLAIN * max(map(len, named)) + 4
    phrases = [labels.wrapped(_phrase(step, notes), COLUMN - 8, PHRASE) for step in steps]
    foot = numbered + 2 * ROW + PLAIN * max(map(len, phrases))

    parts = _scale(most, left, right, base)
    for at, step in enumerate(steps):
        place = left + at * COLUMN, base, numbered, foot
        parts.append(_column(step, at + 1, (named[at], phrases[at]), place, most, step.rung.name == chosen))
        if speed := dict(tuned).get(step.rung.label):
            y, (x, *_) = base - TALL * speed / most, place
            parts.append(svg.rect(x + 3, y - 1, COLUMN - 6, 2, "currentColor"))
            parts.append(svg.text(x + COLUMN / 2, y - 5, f"tuned {tera(speed)}", size=TEXT, anchor="middle"))
    for at, head in enumerate(heads, start=1):
        for row, words in enumerate(head):
            y = numbered + at * ROW + row * 16
            parts.append(svg.text(left - 10, y, words, size=TEXT, anchor="end", faint=True))
    parts += _brackets(steps, left, foot + 18)
    parts.append(svg.text(left - 10, foot + 2, "press a bar ↗", size=TEXT, anchor="end"))
    lines, room = _lines(libraries, peak, (left, right, base), most)
    for row, words in enumerate(TUNED if tuned else ()):
        parts.append(svg.text(right + 20, base + 19 + row * PLAIN, words, size=TEXT, faint=True))
        room = max(room, 24 + labels.widest([words], TEXT))
    words = f"{len(steps)} kernels on {shape}: " + "; ".join(f"{step.rung.label} {_said(step)}" for step in steps)
    return svg.picture(right + room, foot + 46, words, parts + lines, most=f"{1.25 * (right + room):.0f}px")


def _scale(most: float, left: float, right: float, base: float) -> list[str]:
    """Lines at round TFLOP/s."""
    tera = most / 1e12
    apart = next((step for step in (1, 2, 5, 10, 20, 50, 100, 200, 500) if tera / step <= 6), 1000)
    parts = [svg.text(left - 10, TOP - 10, "TFLOP/s", size=TEXT, anchor="end", faint=True)]
    for mark in range(0, int(tera) + 1, apart):
        y = base - TALL * mark / tera
        parts.append(svg.line(left, y, right, y, opacity=0.14 if mark else 0.5))
        parts.append(svg.text(left - 10, y + 5, f"{mark}", size=TEXT, anchor="end", faint=True))
    return parts


def _column(
    step: Step,
    number: int,
    words: tuple[Sequence[str], Sequence[str]],
    place: tuple[float, float, float, float],
    most: float,
    chosen: bool,
) -> str:
    """One kernel's column, name, numbers and phrase, as a button. `words`: lines of the name and of the phrase."""
    (x, base, numbered, foot), (name, phrase), rung = place, words, step.rung
    middle, colour = x + COLUMN / 2, palette.css(palette.kernel(rung.entry.hue))
    parts = []
    if step.per_second:
        high = TALL * step.per_second / most
        parts.append(svg.rect(x + 3, base - high, COLUMN - 6, high, colour, opacity=0.95 if chosen else 0.62))
    else:
        parts.append(svg.rect(x + 8, base - 26, COLUMN - 16, 26, colour, opacity=0.08, stroke=colour, dashed=True))
        parts.append(svg.text(middle, base - 9, _why_none(step), size=svg.SMALL, anchor="middle", faint=True))
    for row, line in enumerate(name, start=1):
        parts.append(svg.text(middle, base + 1 + row * PLAIN, line, size=TEXT, anchor="middle", bold=chosen))
    for row, (cell, bold, fill) in enumerate((_speed(step), _gain(step)), start=1):
        parts.append(svg.text(middle, numbered + row * ROW, cell, size=PHRASE, anchor="middle", bold=bold, fill=fill))
    for row, line in enumerate(phrase, start=1):
        y = numbered + 2 * ROW + row * PLAIN
        parts.append(svg.text(middle, y + 4, line, size=PHRASE, anchor="middle"))
    frame = x + 1, TOP - 6, COLUMN - 2, foot - TOP + 14
    return svg.button(rung.name, _named(step, number), *frame, parts, chosen=chosen)


Cell = tuple[str, bool, str]
"""A number's words, whether they are bold, and their colour."""


def _speed(step: Step) -> Cell:
    return tera(step.per_second) if step.per_second else numbers.NONE, True, ""


def _gain(step: Step) -> Cell:
    hue = palette.css_ink("alarm") if step.slower else ""
    return numbers.ratio(step.gain) if step.gain else "", step.slower, hue


def _cells(step: Step, peak: Limit | None) -> tuple[Cell, ...]:
    """Throughput, share of the peak and speedup."""
    of_peak = share(step, peak)
    return _speed(step), (numbers.percent(of_peak) if of_peak else "", False, ""), _gain(step)


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
        parts += [svg.text(4, y + 15, name), svg.text(columns[0], y + 15, tera(speed), anchor="end")]
        parts.append(svg.rect(4, y + 21, (width - 8) * speed / most, 4, colour))
    return svg.picture(width, end + NARROW_OTHER * len(others), "The kernels, a row each", parts, "30rem")


def _phrase(step: Step, notes: tuple[tuple[str, str], ...]) -> str:
    """The words below a kernel's column."""
    note = dict(notes).get(step.rung.label)
    return f"{step.rung.plain}; {note}" if note else step.rung.plain


def notes(steps: Sequence[Step], spills: Mapping[str, Spill | None], head_dim: int = 0) -> dict[str, str]:
    """What a column's height does not say, by a kernel's label: no more spills; what it also does at this head_dim."""
    said = {
        step.rung.label: "no more spills" for step in steps if (one := spills.get(step.rung.label)) and one.starts_cores
    }
    return said | {
        step.rung.label: f"at d = {head_dim} also: {more}"
        for step in steps
        if (more := step.rung.at_d.get(str(head_dim)))
    }


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


def _brackets(steps: Sequence[Step], left: float, y: float) -> list[str]:
    """Which kernels are plain Triton, and which Gluon."""
    parts = []
    for gluon, words in ((False, "plain Triton"), (True, "Gluon, Triton’s lower level")):
        own = [at for at, step in enumerate(steps) if step.rung.gluon == gluon]
        if own:
            x, end = left + own[0] * COLUMN + 6, left + (own[-1] + 1) * COLUMN - 6
            hue = palette.css(palette.kernel(steps[own[0]].rung.entry.hue))
            parts.append(svg.rect(x, y, end - x, 3, hue))
            parts.append(svg.text((x + end) / 2, y + 21, words, size=TEXT, anchor="middle", faint=True))
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
    names = [f"{name}, {tera(speed)}" for speed, name, *_ in lines]
    heights = [base - TALL * speed / most for speed, *_ in lines]
    places = labels.spread(heights, GAP, low=TOP - 16)
    parts = []
    for (_, _, colour, dash), name, y, label_y in zip(lines, names, heights, places, strict=True):
        path = f"M{left:.1f} {y:.1f}H{right + 4:.1f}L{right + 16:.1f} {label_y:.1f}"
        parts.append(f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="{1.8 if dash else 1}"{dash}/>')
        parts.append(svg.text(right + 20, label_y + 4.5, name, size=TEXT))
    return parts, 32 + labels.widest(names, TEXT)


def climb_told(steps: Sequence[Step], peak: Limit | None) -> str:
    """The climb in sentences: its first and last throughput, what a large matmul reaches; markdown."""
    timed = [step.per_second for step in steps if step.per_second]
    if not timed:
        return "None of the kernels is timed yet. Their code and ideas are below."
    said = f"**{len(steps)} kernels, each one main change away from the one before:** from "
    said += f"{numbers.fixed(timed[0] / 1e12, 0)} to **{numbers.si(timed[-1], 'FLOP/s')}**."
    if peak:
        said += f" A large matmul reaches {tera(peak.per_second)} on this GPU; that is our ceiling."
    said += " The grey lines are other kernels. **Press a bar** to see the kernel's idea and its code."
    if missing := sum(step.variant is None for step in steps):
        said += f" Not timed at this shape: {missing} of {len(steps)}."
    return said


def libraries_told(libraries: Sequence[Variant]) -> str:
    """What the first, the fastest, of the library kernels among these reaches, for readers who only call attention."""
    found = [one for one in libraries if not one.ours]
    if not found:
        return ""
    best = found[0]
    fastest = f"{'the fastest here, ' * (len(found) > 1)}{best.label}{',' * (len(found) > 1)}"
    return (
        f"To use attention, call a library: {fastest} reaches **{tera(best.per_second or 0.0)} TFLOP/s** (10¹² "
        "operations per second). This page shows what makes a kernel that fast."
    )


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
        f"With its best setting, {label} reaches {tera(speed)} (*tuned*)"
    )
    behind = _behind(steps, label, speed)
    said += f", more than {behind[0].rung.label}, which was not tuned." if behind else "."
    after = [one for one in steps[steps.index(behind[-1]) + 1 :] if one.per_second] if behind else []
    if after:
        said += (
            f" {behind[-1].rung.label.capitalize()} is still a step: {after[0].rung.label} builds on it and "
            f"reaches {tera(after[0].per_second or 0.0)}."
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
        f"The speedup compares single settings. With its best setting {lower.label} reaches {tera(best)}, so this "
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
