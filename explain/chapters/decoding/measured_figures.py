"""The kernel written for speed beside the readable one and the fastest library: a picture, words and a table."""

from __future__ import annotations

import math
from collections.abc import Sequence

from explain.chapters.decoding import rates
from explain.chapters.decoding.bars import Bar, groups
from explain.chapters.decoding.splits import DTYPE, Curve, Curves
from explain.chapters.decoding.splits_figures import TIME, sequences, splits_of
from explain.chapters.speed.results import TABLES, Case, Result
from explain.figures.labels import listed
from explain.figures.numbers import count, duration, moved, percent, ratio, si
from explain.figures.palette import css
from explain.figures.tables import Column, Columns, markdown
from explain.gpus import Gpu
from explain.kept import kept

LEAST = "least time"
CLOSE = 0.02
"""A kernel that takes so much longer is about as fast."""


@kept
def table(result: Result, gpu: Gpu) -> str:
    """The fast kernel beside the bound and the fastest library, each case of the benchmark, as Markdown."""
    rows = []
    for case, own in _timed(result):
        best = case.baselines[0] if case.baselines else None
        rows.append((
            *case.shape, case.work, _least(case, gpu), own, percent(_least(case, gpu) / own),
            f"{best.label}: {ratio(own / best.seconds)}" if best and best.seconds else "–",
        ))  # fmt: skip
    dtypes = ", ".join(dict.fromkeys(case.dtype for case, _ in _timed(result)))
    columns: Columns = (
        *(Column(name, count) for name in TABLES["decode"].dimensions), Column(f"K and V, {dtypes}", moved),
        Column("at least", duration), Column("flash_decode", duration),
        Column(f"of {si(gpu.hbm_bytes_per_second, 'B/s')}"), Column("time ÷ fastest library's"),
    )  # fmt: skip
    return markdown(columns, rows)


@kept
def bars(result: Result, gpu: Gpu, readable: Curves | None, *, narrow: bool = False) -> str:
    """Each case of the benchmark: the least time, our kernels and the fastest library, as bars from 0.

    In each case the least time is equally long.
    """
    dimensions = TABLES["decode"].dimensions
    cases = [
        (
            ", ".join(f"{name} {count(size)}" for name, size in zip(dimensions, case.shape, strict=True)),
            _bars(case, gpu, _curve(case, readable)),
        )
        for case, _ in _timed(result)
    ]
    return groups(cases, "Times of one decode", narrow=narrow)


def _bars(case: Case, gpu: Gpu, curve: Curve | None) -> list[Bar]:
    least = _least(case, gpu)
    found = [Bar(LEAST, 1.0, duration(least), css("hbm"))]

    def add(name: str, seconds: float | None, colour: str, opacity: float = 0.9) -> None:
        if seconds and math.isfinite(seconds):
            times = seconds / least
            found.append(Bar(name, times, f"{duration(seconds)} · {ratio(times)}", colour, opacity))

    for one in (case.ours, *case.baselines[:1]):
        if one:
            add(one.label.removeprefix("our "), one.seconds, css(one.hue) if one.hue else TIME)
        if one is case.ours and curve:
            add(f"readable, {splits_of(curve.best)}", curve.seconds[curve.best], TIME, 0.3)
    return found


@kept
def words(result: Result, gpu: Gpu, readable: Curves | None) -> str:
    """The fast kernel's time beside the fastest library's, its share of the bandwidth, and the readable kernel's."""
    timed = _timed(result)
    own = [_least(case, gpu) / seconds for case, seconds in timed]
    told = (
        f"{_verdict(timed, gpu)}It reads at {percent(min(own))} to {percent(max(own))} of the bandwidth. The least "
        f"time is bytes ÷ {si(gpu.hbm_bytes_per_second, 'B/s')}, {rates.bandwidth(gpu)}."
    )
    both = [_beside(curve, own) for case, own in timed if (curve := _curve(case, readable))]
    alone = "In the other panels the readable kernel was not timed." if 0 < len(both) < len(timed) else ""
    return "\n\n".join(filter(None, [told, *both, alone]))


def _verdict(timed: Sequence[tuple[Case, float]], gpu: Gpu) -> str:
    """In how many cases the kernel is as fast as the fastest library, or almost, and how much slower in the others."""
    best = [(case.baselines[0], own) for case, own in timed if case.baselines and case.baselines[0].seconds]
    every = [own / one.seconds - 1 for one, own in best if one.seconds]
    if not every:
        return ""
    libraries = " or ".join(dict.fromkeys(one.label for one, _ in best))
    slower, near = [percent(one, 1) for one in sorted(every) if one > CLOSE], [one for one in every if one <= CLOSE]
    within = f", or at most {percent(max(near), 1)} slower" if near and max(near) > 0 else " or faster"
    others = f" In the other{'s' * (len(slower) > 1)} it is {listed(slower)} slower." if slower else ""
    return (
        f"**On the {gpu.name}, in {len(near)} of {len(every)} cases our kernel for speed is as fast as "
        f"{libraries}{within}.{others}** "
    )


def _beside(curve: Curve, own: float) -> str:
    """Which of our two kernels is faster where both are timed."""
    seconds = curve.seconds[curve.best]
    faster = "the readable one" if seconds < own else "the one for speed"
    why = " The two times are of two recordings. We did not measure why they differ."
    return (
        f"At {sequences(curve)} of {count(curve.kv_len)} keys the readable kernel takes {duration(seconds)} with "
        f"{splits_of(curve.best)}, and the kernel for speed {duration(own)}. **Here {faster} is faster: "
        f"{ratio(max(seconds, own) / min(seconds, own))}.**{why * (seconds < own)}"
    )


def _curve(case: Case, readable: Curves | None) -> Curve | None:
    """The readable kernel's times of the same shape."""
    curves: Sequence[Curve] = readable.curves if readable and case.dtype == DTYPE else ()
    return next((one for one in curves if one.shape == tuple(case.shape)), None)


def _timed(result: Result) -> list[tuple[Case, float]]:
    """The cases in which our kernel has a time, and it."""
    return [(case, case.ours.seconds) for case in result.of("decode") if case.ours and case.ours.seconds]


def _least(case: Case, gpu: Gpu) -> float:
    """Seconds to read K and V once."""
    return case.work / gpu.hbm_bytes_per_second
