"""The measured time over the number of splits: a picture, and what it says in words."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from explain.chapters.decoding import rates
from explain.chapters.decoding.programs import KV_HEADS
from explain.chapters.decoding.splits import Curve, Curves
from explain.chapters.sweeps.figures import ticks
from explain.figures import palette
from explain.figures.labels import text_width
from explain.figures.numbers import count, duration, moved, number, ratio, ratios
from explain.figures.palette import css, css_ink
from explain.figures.svg import circle, line, path, picture, text
from explain.gpus import Gpu
from explain.kept import kept
from kernels.catalog import KERNELS

T = TypeVar("T", int, float)
TIME, FLOOR = css(palette.kernel(KERNELS["flash_decoding"].hue)), css("hbm")
LEFT, HEAD, HIGH, FOOT = 62.0, 46.0, 270.0, 48.0
"""Of a row of panels: the room for the times at its left, for the titles, for the lines, and for the splits below."""


def sequences(curve: Curve) -> str:
    """ "1 sequence", "16 sequences"."""
    return f"{curve.batch} sequence{'s' * (curve.batch > 1)}"


@kept
def words(found: Curves, gpu: Gpu) -> str:
    """Where each minimum is, how many programs it has, and what fewer and more splits cost."""
    curves = found.curves
    fastest = "\n".join(f"- {sequences(one)} of {count(one.kv_len)} keys: **{splits_of(one.best)}**" for one in curves)
    programs = spanned([one.programs for one in curves], count)
    per_sm = spanned([one.programs / gpu.sms for one in curves], lambda n: number(n, 2))
    why = ": while one waits for K and V, another can compute" * all(one.programs > gpu.sms for one in curves)
    fewest, most = (bound(curves[0].seconds) for bound in (min, max))
    unsplit, split = ([one.over_best(splits) for one in curves] for splits in (fewest, most))
    return (
        f"Fastest on the {gpu.name}, as measured:\n\n{fastest}\n\n"
        f"Programs = sequences × {KV_HEADS} heads of keys × splits. The fastest runs have **{programs} programs**, "
        f"**{per_sm} per SM**{why}.\n\n"
        f"**Too few splits** leave SMs idle: {splits_of(fewest)} takes up to {ratio(max(unsplit))} the time of the "
        f"fastest run. "
        f"**Too many** cost too: {splits_of(most)} take {ratios(split)} the time of the fastest run."
    )


@kept
def details(found: Curves, gpu: Gpu) -> str:
    """What one program per SM costs, what bytes explain of the cost of too many, and how far reading alone is away."""
    curves = found.curves
    single = [one.over_best(splits) for one in curves if (splits := one.best_at_once(gpu))]
    once = f"The best run with at most one program per SM takes {ratios(single)} the time of the fastest run."
    parts = (once * bool(single), _extra_bytes(curves, max(curves[0].seconds), gpu), _beside_reading(curves))
    return "\n\n".join(filter(None, parts))


def _extra_bytes(curves: Sequence[Curve], most: int, gpu: Gpu) -> str:
    """What the O and lse of so many parts are of the time that these cost; nothing if they are fastest everywhere."""
    told = ""
    for one in curves:
        lost = one.seconds[most] - one.seconds[one.best]
        if lost <= 0:
            continue
        extra = one.merge_bytes(most) - one.merge_bytes(one.best)
        told += (
            f"\n- {sequences(one)} of {count(one.kv_len)} keys: {moved(extra)} beside {moved(one.cache_bytes)} of "
            f"K and V. **{duration(extra / gpu.hbm_bytes_per_second)} of the {duration(lost)}** lost"
        )
    if not told:
        return ""
    return (
        f"More parts have more O and lse, which go to HBM and back. The extra bytes at {rates.bandwidth(gpu)}:\n"
        f"{told}\n\nThe rest of the lost time was not measured."
    )


def _beside_reading(curves: Sequence[Curve]) -> str:
    """How much longer the fastest runs take than reading K and V, and what that is of the smallest cache's time."""
    small, *larger = sorted(curves, key=lambda one: one.floor)
    beyond = spanned([one.seconds[one.best] - one.floor for one in curves], duration)
    return (
        f"The fastest runs take {beyond} longer than reading K and V (dashed). With the smallest cache, "
        f"{sequences(small)} of {count(small.kv_len)} keys, the run takes {duration(small.seconds[small.best])}, "
        f"**{ratio(small.over_floor)}** the time of reading; with the others, "
        f"{ratios([one.over_floor for one in larger])}. Two launches have a fixed cost, and a small cache does not "
        "hide it. How much of the time this is was not measured."
    )


def splits_of(many: int) -> str:
    """ "1 split", "2 splits"."""
    return f"{many} split{'s' * (many > 1)}"


def spanned(values: Sequence[T], told: Callable[[T], str]) -> str:
    """The least and the largest: "256 to 512"."""
    low, high = told(min(values)), told(max(values))
    return low if low == high else f"{low} to {high}"


@kept
def drawn(found: Curves, gpu: Gpu, *, narrow: bool = False) -> str:
    """A panel per cache, all on one scale: time over splits, the least one marked; dashed, the time to read K and V."""
    across, wide, gap = (2, 134.0, 24.0) if narrow else (4, 176.0, 22.0)
    seconds = [one for curve in found.curves for one in (*curve.seconds.values(), curve.floor)]
    low, high = math.log10(min(seconds)) - 0.3, math.log10(max(seconds)) + 0.1
    body: list[str] = []
    for n, curve in enumerate(found.curves):
        left, top = LEFT + n % across * (wide + gap), n // across * (HEAD + HIGH + FOOT) + HEAD

        def down(one: float, top: float = top) -> float:
            return top + HIGH * (high - math.log10(one)) / (high - low)

        for one in ticks(low, high):
            body.append(line(left, down(one), left + wide, down(one), opacity=0.15))
            if n % across == 0:
                said = duration(one, zeros=False)
                body.append(text(left - 8, down(one) + 5, said, anchor="end", faint=True))
        if n % across == 0:
            body.append(text(left - 8, top - 10, "time", anchor="end"))
        body += _panel(curve, gpu, left, top, wide, down)
    rows = math.ceil(len(found.curves) / across)
    width = LEFT + across * (wide + gap)
    return picture(
        width,
        rows * (HEAD + HIGH + FOOT),
        "Measured time over the number of splits",
        body,
        "30rem" if narrow else "58rem",
    )


def _panel(
    curve: Curve, gpu: Gpu, left: float, top: float, wide: float, down: Callable[[float], float]
) -> Iterable[str]:
    """One cache: its title, its line, the least time, the floor, and where each SM has one program."""
    low, high = math.log2(min(curve.seconds)), math.log2(max(curve.seconds))
    bottom = top + HIGH

    def at(splits: float) -> float:
        return left + wide * (math.log2(splits) - low) / (high - low)

    yield text(left, top - 28, sequences(curve), bold=True)
    yield text(left, top - 10, f"{count(curve.kv_len)} keys{' each' * (curve.batch > 1)}", faint=True)
    yield line(left, bottom, left + wide, bottom)
    for splits in list(curve.seconds)[::2]:
        yield line(at(splits), bottom, at(splits), bottom + 4)
        yield text(at(splits), bottom + 19, count(splits), anchor="middle", faint=True)
    yield text(left + wide / 2, bottom + 37, "splits", anchor="middle")
    one_each = gpu.sms / curve.unsplit
    if low <= math.log2(one_each) < high:
        x = at(one_each)
        yield line(x, top, x, down(min(curve.seconds.values())), dash="2 4")
        for row, said in enumerate(("one program", "per SM")):
            yield text(x + 5, top + 12 + 15 * row, said, size=12, faint=True)
    y = down(curve.floor)
    yield line(left, y, left + wide, y, stroke=FLOOR, opacity=1, thick=2, dash="6 4")
    short = f"K and V: {duration(curve.floor)}"
    said = f"reading {short}"
    yield text(left, y + 18, said if text_width(said) < wide else short, fill=css_ink("hbm"))
    places = [(at(splits), down(one)) for splits, one in curve.seconds.items()]
    yield path("M" + " L".join(f"{x:.1f} {y:.1f}" for x, y in places), TIME, thick=2.5)
    for (x, y), (splits, one) in zip(places, curve.seconds.items(), strict=True):
        yield circle(x, y, 7 if splits == curve.best else 3.5, TIME, title=f"{splits_of(splits)}: {duration(one)}")
    yield from _least(curve, places, left, at(one_each))


def _least(curve: Curve, places: Sequence[tuple[float, float]], left: float, one_each: float) -> Iterable[str]:
    """The label of the least time, above the line and not on the dotted one at `one_each`."""
    said = (splits_of(curve.best), duration(curve.seconds[curve.best]))
    half = max(text_width(one, bold=True) for one in said) / 2
    x = places[list(curve.seconds).index(curve.best)][0]
    if abs(x - one_each) < half + 5:
        x = one_each + (half + 5 if x >= one_each else -half - 5)
    x = max(min(x, places[-1][0] + 16 - half), left + half)
    y = min(y for at, y in places if abs(at - x) < half + 8) - 14
    yield text(x, y - 17, said[0], anchor="middle", bold=True)
    yield text(x, y, said[1], anchor="middle", bold=True)
