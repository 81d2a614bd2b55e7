"""What the same runs on two GPUs show, in sentences: which is faster, by how much, and what explains it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal

from explain.chapters.measurements.points import (
    OPENING,
    SAME,
    TIME,
    groups,
    hbm_seconds,
    kernels,
    measured,
    name_of,
    names,
    spread,
    with_host,
)
from explain.chapters.measurements.tables import BESIDE, HOST, ONE_LAUNCH, Row, gpu_columns, rows
from explain.experiment import Experiment
from explain.figures.labels import begun, listed
from explain.figures.numbers import aligned, count, duration, fixed, percent, ratio, ratios
from explain.kept import kept
from explain.records.plans import Plan
from explain.records.registry import Entry
from kernels.catalog import KERNELS

FEW = 0.1
"""A kernel that uses HBM for a smaller share of its time cannot gain much from a faster one."""
COARSE = 1e-4
"""Seconds from which on two times are told in ms."""
Bandwidth = Literal["hbm copy", "hbm"]
"""What HBM does, copy or read, as a record names it."""
ALIKE = 0.03
"""Two GPUs' numbers count as equal if they differ by less than this share. Launches of one run differ by up to about
that."""
FIFTHS = "(the slowest and the fastest fifth left out)"
"""What is left out where the launches of a run are compared."""


@dataclass(frozen=True)
class _Both:
    """A quantity of two GPUs: the second one's number ÷ the first one's in each row that has both, and the rows that
    these figures leave out; how many rows have a number of one GPU only, and how many are 0 on both.
    """

    factors: Sequence[float]
    left_out: Sequence[Row]
    alone: int
    zeros: int


def _both(plan: Plan, shown: Sequence[Entry], quantity: str, kernel: str) -> _Both:
    table = rows(plan, shown, quantity, kernel)
    steady = [row for row in table if not row.get(HOST)]
    if quantity == TIME:
        steady = [row for row in steady if not row.get(ONE_LAUNCH)] or steady
    columns = gpu_columns(shown, quantity)
    return _Both(
        [factor for row in steady if isinstance(factor := row.get(BESIDE), float)],
        [row for row in table if row not in steady and row.get(BESIDE)],
        sum(len({row.get(name) is None for name in columns}) > 1 for row in table),
        sum(all(row.get(name) == 0 for name in columns) for row in table),
    )


def seen(plan: Plan, shown: Sequence[Entry], quantity: str, kernel: str) -> str:
    """How many times as fast one of two GPUs is, or how many times the first one's numbers the second one's are, in
    Markdown.
    """
    if len(shown) != 2:
        return ""
    both = _both(plan, shown, quantity, kernel)
    if not both.factors:
        if both.zeros:
            return f"**{begun(name_of(quantity))}: 0 on both GPUs** in {runs_told(both.zeros)}."
        return f"No run was measured on both the {names(shown)[0]} and the {names(shown)[1]}." * (both.alone > 0)
    if quantity != TIME:
        return _compared(shown, quantity, both.factors)
    told = [_timed(shown, both), "" if kernel else _no_gain(plan, shown)]
    told += [_by_bandwidth(plan, shown, both.factors, kernel), _beyond(plan, shown, kernel)]
    return "\n\n".join(filter(None, told))


@kept
def rules(plan: Plan, shown: Sequence[Entry], quantity: str, kernel: str = "") -> str:
    """How two GPUs' numbers are compared: when times count as equal, and which runs the figures leave out; Markdown, ""
    where there is nothing to say.
    """
    if len(shown) != 2 or not (both := _both(plan, shown, quantity, kernel)).factors:
        return ""
    missing = f"{runs_told(both.alone)} {'were' if both.alone > 1 else 'was'} measured on one GPU only." * (
        both.alone > 0
    )
    if quantity != TIME:
        return missing
    near = any(_apart([factor]) < ALIKE for factor in both.factors)
    told = [_rule(_spreads(plan, shown, kernel)) if near else "", _why_won(shown, both.factors)]
    told += [missing, _left_out(both.left_out)]
    return "\n\n".join(filter(None, told))


def _left_out(table: Sequence[Row]) -> str:
    """Which runs the figures leave out, and why, in sentences."""
    whys = {True: "the times there probably contain time on the host", False: "they were timed by one launch"}
    runs = Counter(bool(row.get(HOST)) for row in table)
    return " ".join(
        f"{runs_told(number)} {'are' if number > 1 else 'is'} left out of these figures and drawn open: "
        f"{why if hosted or number > 1 else 'it was timed by one launch'}."
        for hosted, why in whys.items()
        if (number := runs[hosted])
    )


def runs_told(number: int) -> str:
    return f"{count(number)} run{'s' * (number > 1)}"


def _everywhere(number: int) -> str:
    return f"in all {runs_told(number)}" if number > 1 else "in 1 run"


def _apart(factors: Iterable[float]) -> float:
    """By which share the larger of two numbers exceeds the smaller one, at most."""
    return max(max(factor, 1 / factor) - 1 for factor in factors)


def _compared(shown: Sequence[Entry], quantity: str, factors: Sequence[float]) -> str:
    """The ratios of a quantity other than the time, in a sentence of Markdown."""
    first, second = names(shown)
    what, number, far = begun(name_of(quantity)), len(factors), percent(_apart(factors), 1)
    if far == percent(0, 1):
        return f"**{what}: the two GPUs are equal** {_everywhere(number)}."
    if _apart(factors) < ALIKE:
        return f"**{what}: the two GPUs are {'at most ' * (number > 1)}{far} apart** {_everywhere(number)}."
    if ratio(min(factors)) == ratio(max(factors)):
        return f"**{what}: the {second}'s is {ratios(factors)} the {first}'s** {_everywhere(number)}."
    typical = f"**{what}: the {second}'s is typically {ratio(median(factors))} the {first}'s**"
    return f"{typical}, from {ratios(factors)} in {runs_told(number)}."


@kept
def concluded(plan: Plan, shown: Sequence[Entry], kernel: str) -> str:
    """What the times of two GPUs show, as a picture's title; "" without times of both."""
    if not (factors := _both(plan, shown, TIME, kernel).factors):
        return ""
    (faster, most), (slower, least) = _wins(shown, factors)
    if not kernel and (told := _gains(plan, shown, faster)):
        return told
    if not most:
        rate, what = _least_faster(shown), f"Same time on both GPUs, within {percent(ALIKE)}"
        useless = (
            f": HBM that is over {fixed(math.floor(10 * rate) / 10, 1)} × as fast does not help {KERNELS[kernel].title}"
            if kernel and rate
            else ""
        )
        return f"{what}{useless}"
    of = (
        f"{count(len(most))} of {runs_told(len(factors))} are"
        if len(most) < len(factors)
        else f"All {runs_told(len(most))} are"
    )
    of = of if len(factors) > 1 else "The run is"
    told = f"{of} {ratios(most)} as fast on the {faster}"
    within = len(factors) - len(most) - len(least)
    told += f"; {count(within)} take{'s' * (within == 1)} the same time" * (within > 0)
    return told + f"; {count(len(least))} {'are' if len(least) > 1 else 'is'} faster on the {slower}" * bool(least)


def _timed(shown: Sequence[Entry], both: _Both) -> str:
    """In how many runs which of two GPUs is faster, and how many times as fast; Markdown. Times within `ALIKE` are
    equal.
    """
    first, second = names(shown)
    factors = both.factors
    (faster, most), (slower, least) = _wins(shown, factors)
    if most:
        within = len(factors) - len(most) - len(least)
        once = sum(not row.get(HOST) for row in both.left_out)
        of = (
            f": {count(len(most))} of {runs_told(len(factors))}"
            if len(most) < len(factors)
            else f" {_everywhere(len(most))}"
        )
        told = [f"**{faster} faster{of}**, {ratios(most)} as fast"]
        told[0] += f" ({count(once)} timed once {'are' if once > 1 else 'is'} left out)" * (once > 0)
        told += [f"Equal within {percent(ALIKE)}: {runs_told(within)}"] * (within > 0)
        if least:
            low, high = percent(min(least) - 1), percent(max(least) - 1)
            by = high if low == high else f"{low[:-1]} to {high}"
            told.append(f"{slower} faster: {runs_told(len(least))}, by {by}.{_clock(shown, slower, least)}")
        told[0] += f".{clock}" if (clock := _clock(shown, faster, most)) else "." * (len(told) == 1)
        return "\n".join(f"- {line}" for line in told) if len(told) > 1 else told[0]
    number, far = len(factors), percent(_apart(factors), 1)
    if far == percent(0, 1):
        return f"**Time: the two GPUs are equal** {_everywhere(number)}."
    told_all = f"**Equal within {percent(ALIKE)}**"
    if min(factors) <= 1 <= max(factors):
        return f"{told_all}: the times are {'at most ' * (number > 1)}{far} apart {_everywhere(number)}."
    shorter = [1 - factor for factor in factors] if max(factors) < 1 else [1 - 1 / factor for factor in factors]
    low, high = percent(min(shorter), 1), percent(max(shorter), 1)
    span = high if low == high else f"{low[:-1]} to {high}"
    return f"{told_all}: the {second if max(factors) < 1 else first}'s times are {span} shorter."


def _no_gain(plan: Plan, shown: Sequence[Entry]) -> str:
    """How many kernels gain nothing on the GPU that is faster in most runs, in a sentence; "" for none, or all."""
    faster = _wins(shown, _both(plan, shown, TIME, "").factors)[0][0]
    gains = _gains_of(plan, shown, faster)
    same = [kernel for kernel, own in gains.items() if not own]
    if not same or len(same) == len(gains):
        return ""
    return f"{count(len(same))} of {count(len(gains))} kernels gain nothing on the {faster}."


def _gains_of(plan: Plan, shown: Sequence[Entry], gpu: str) -> dict[str, list[float]]:
    """How many times as fast one of two GPUs is in the runs that it wins, of each kernel that both have."""
    found = {kernel: _both(plan, shown, TIME, kernel).factors for kernel in kernels(plan, shown)}
    return {kernel: dict(_wins(shown, own))[gpu] for kernel, own in found.items() if own}


def _gains(plan: Plan, shown: Sequence[Entry], faster: str) -> str:
    """How many kernels of the kind that gains most have at least half of what the faster HBM allows (`_half`) in every
    run, as far as HBM explains that, and a kernel that gains nothing: the opening one, or the one with most work; ""
    without them, where HBM explains less than half of the gains, or where the GPU with the slower HBM wins.
    """
    rate, gains, causes = bandwidths(shown), _gains_of(plan, shown, faster), _causes(plan, shown, "")
    same = [run for run in measured(plan, shown, "") if run.kernel in gains and not gains[run.kernel]]
    by_hbm = [one for one in causes if one.explained]
    if not same or 2 * len(by_hbm) <= len(causes) or rate is None or faster != names(shown)[rate < 1]:
        return ""
    kinds = groups(plan, shown)
    title = max(by_hbm, key=lambda one: one.gain).run.entry.title
    what = kinds.get(title, title)
    kind = {kernel: own for kernel, own in gains.items() if kinds.get(KERNELS[kernel].title) == what}
    much = [
        min(own)
        for kernel, own in kind.items()
        if len(own) == len(_both(plan, shown, TIME, kernel).factors) and min(own) >= _half(rate)
    ]
    if not much:
        return ""
    nothing = max(same, key=lambda run: (run.kernel == OPENING, run.traffic.flops)).entry.title
    what = " ".join(reversed(what.split(", ")))  # "backward attention"
    return (
        f"The more a kernel waits for HBM, the more it gains: {count(len(much))} of {count(len(kind))} {what} kernels "
        f"{ratio(min(much))} or more, {nothing} nothing"
    )


def _half(bandwidth: float) -> float:
    """The speedup of a run that gains half of what the faster HBM allows, from the ratio of the bandwidths."""
    return (1 + max(bandwidth, 1 / bandwidth)) / 2


@dataclass(frozen=True)
class _Cause:
    """A run that the GPU with the faster HBM wins: how many times as fast it is there, and would be if only the times
    differed that both HBMs need for the bytes; how many times as many bytes the GPU with the slower HBM reads.
    """

    run: Experiment
    gain: float
    by_hbm: float
    reads: float

    @property
    def enough(self) -> bool:
        """Whether HBM, at these bytes, explains the gain."""
        return self.gain - 1 <= (1 + SAME) * (self.by_hbm - 1)

    @property
    def explained(self) -> bool:
        """Whether the faster HBM alone explains the gain: both GPUs read the same bytes."""
        return self.enough and abs(self.reads - 1) < ALIKE


@kept
def _causes(plan: Plan, shown: Sequence[Entry], kernel: str) -> list[_Cause]:
    """The runs that the GPU with the faster HBM wins and that are counted on both; [] where no HBM is faster."""
    if (rate := bandwidths(shown)) is None:
        return []
    fast, slow = (one.record for one in (shown if rate > 1 else shown[::-1]))
    found = []
    for run in measured(plan, shown, kernel):
        points = [one.point(run) for one in (fast, slow)]
        of = [
            (point.seconds, needed, point.counters.cold.dram_read_bytes)
            for point, record in zip(points, (fast, slow), strict=True)
            if point and point.seconds and point.counters and not with_host(point)
            if point.timing and (point.timing.launches > 1) and (needed := hbm_seconds(record, point))
        ]
        if len(of) < 2 or of[1][0] < (1 + ALIKE) * of[0][0]:
            continue
        (took, needed, read), (longer, more, reads) = of
        found.append(_Cause(run, longer / took, 1 + (more - needed) / took, (reads or 0) / (read or 1)))
    return found


def _reading_more(causes: Sequence[_Cause]) -> list[_Cause]:
    """The runs that gain more than the faster HBM alone explains, as the slower GPU also reads more."""
    explained = max((one.gain for one in causes if one.explained), default=1.0)
    return [one for one in causes if one.enough and one.reads >= 1 + ALIKE and one.gain > explained]


@kept
def reads_more(plan: Plan, shown: Sequence[Entry]) -> dict[str, str]:
    """The kernels that gain more than the faster HBM alone explains, each with how much more the slower GPU reads."""
    slow = names(shown)[(bandwidths(shown) or 1.0) > 1]
    more = sorted(_reading_more(_causes(plan, shown, "")), key=lambda one: one.gain)
    return {one.run.entry.title: f"{slow} reads {percent(one.reads - 1)} more" for one in more}


def _beyond(plan: Plan, shown: Sequence[Entry], kernel: str) -> str:
    """Which gains the faster HBM alone does not explain, in sentences: the largest one where the slower GPU also reads
    more, then those that have another cause.
    """
    causes = _causes(plan, shown, kernel)
    if not causes:
        return ""
    fast, slow = names(shown) if (bandwidths(shown) or 1) > 1 else names(shown)[::-1]
    told = []
    if more := _reading_more(causes):
        most = max(more, key=lambda one: one.gain)
        which = "A run" if kernel else most.run.entry.title
        told.append(
            f"{which} gains up to {ratio(most.gain)}, but there the {slow} also reads {percent(most.reads - 1)} more "
            "bytes from HBM."
        )
    others: dict[str, list[_Cause]] = {}
    for one in causes:
        if not one.enough:
            others.setdefault(one.run.entry.title, []).append(one)
    each = [
        f"{'this kernel' if kernel else title} is {ratios([one.gain for one in own])} as fast on the {fast}; its bytes "
        f"explain at most {ratio(max(one.by_hbm for one in own))}"
        for title, own in others.items()
    ]
    if each:
        told.append(f"**Not explained by HBM**: {'. '.join(each)}. Why was not measured.")
    return "\n\n".join(told)


def _wins(shown: Sequence[Entry], factors: Sequence[float]) -> list[tuple[str, list[float]]]:
    """How many times as fast each GPU is in the runs that it wins by `ALIKE` or more, the one with most first."""
    first, second = names(shown)
    wins = {
        first: [factor for factor in factors if factor >= 1 + ALIKE],
        second: [1 / factor for factor in factors if 1 / factor >= 1 + ALIKE],
    }
    return sorted(wins.items(), key=lambda win: -len(win[1]))


def _why_won(shown: Sequence[Entry], factors: Sequence[float]) -> str:
    """Of the GPU with the faster HBM, how many of its wins are as large as that allows, in a sentence; "" without."""
    if (bandwidth := bandwidths(shown)) is None:
        return ""
    fast = names(shown)[bandwidth < 1]
    if not (wins := dict(_wins(shown, factors))[fast]):
        return ""
    half = _half(bandwidth)
    much = sum(gain >= half for gain in wins)
    return (
        f"The {fast} is faster in {runs_told(len(wins))}: in {count(much)} by at least half of what its faster "
        f"HBM allows ({ratio(half)}), in {count(len(wins) - much)} by less."
    )


def _clock(shown: Sequence[Entry], gpu: str, gains: Sequence[float]) -> str:
    """Whether a higher clock of a GPU may explain that it is faster, in a sentence: its fp32 matmuls are faster too; ""
    where its HBM may explain it.
    """
    if (hbm := bandwidths(shown)) and gpu == names(shown)[hbm < 1]:
        return ""
    own, other = sorted(shown, key=lambda one: names(shown)[shown.index(one)] != gpu)
    rates = [roof.per_second for one in (own, other) if (roof := one.record.roofs.get("matmul fp32"))]
    if len(rates) < 2 or rates[0] <= rates[1]:
        return " Why was not measured."
    clock = percent(rates[0] / rates[1] - 1, 1)
    if max(gains) > rates[0] / rates[1]:
        return f" Not explained (its fp32 matmuls are only {clock} faster)."
    return f" Its fp32 matmuls are {clock} faster, which hints at a higher clock."


def _spreads(plan: Plan, shown: Sequence[Entry], kernel: str) -> list[tuple[float, str]]:
    """By which share the slow launches of each run exceed its fast ones, on the GPU where they differ more, and that
    GPU; of the runs with several launches.
    """
    spreads = []
    for run in measured(plan, shown, kernel):
        points = ((one.record.point(run), gpu) for one, gpu in zip(shown, names(shown), strict=True))
        own = [(times, gpu) for point, gpu in points if point and not with_host(point) and (times := spread(point))]
        if own:
            times, gpu = max(own)
            spreads.append((times - 1, gpu))
    return spreads


def _rule(spreads: Sequence[tuple[float, str]]) -> str:
    """From when on two GPUs' times count as different, and why, in sentences."""
    rule = f"Times within {percent(ALIKE)} count as equal"
    if not spreads:
        return f"{rule}."
    rule += (
        f": launches of one of these runs typically differ by {percent(median(one for one, _ in spreads), 1)} {FIFTHS}"
    )
    far = [gpu for one, gpu in spreads if one >= ALIKE]
    if not far:
        return f"{rule}."
    of, on = f"{count(len(far))} of the {runs_told(len(spreads))} with several launches", listed([*dict.fromkeys(far)])
    return f"{rule}. In {of} they differ by more (on the {on})."


def bandwidths(shown: Sequence[Entry], what: Bandwidth = "hbm copy") -> float | None:
    """How many times as fast HBM of the first of two GPUs copies, or reads, as that of the second; None if that is
    unknown, or about the same.
    """
    rates = [roof.per_second for one in shown if (roof := one.record.roofs.get(what))]
    return rates[0] / rates[1] if len(rates) == len(shown) == 2 and abs(rates[0] / rates[1] - 1) >= SAME else None


def _least_faster(shown: Sequence[Entry]) -> float | None:
    """How many times as fast the faster HBM is at least, as it copies or reads; None if unknown, or about the same."""
    both = bandwidths(shown), bandwidths(shown, "hbm")
    return min((max(rate, 1 / rate) for rate in both if rate), default=None) if both[0] else None


def _by_bandwidth(plan: Plan, shown: Sequence[Entry], factors: Sequence[float], kernel: str) -> str:
    """How the ratios of two GPUs' times compare with that of their bandwidths, in sentences; "" if that is unknown."""
    if (faster := bandwidths(shown)) is None:
        return ""
    gains = [factor if faster > 1 else 1 / factor for factor in factors]
    both = [max(rate, 1 / rate) for rate in (faster, bandwidths(shown, "hbm")) if rate]
    rates = f"The {names(shown)[faster < 1]}'s HBM is {ratios(both)} as fast"
    if min(both) * (1 - SAME) <= min(gains) and max(gains) <= max(both) * (1 + SAME):
        return f"**That is about the ratio of the two HBMs.** {rates} (measured)."
    if min(gains) >= (1 + both[0]) / 2:
        return ""
    helps_not = max(gains) < 1 + ALIKE
    if kernel and helps_not and (share := _share_of_hbm(plan, shown, kernel)) and share < FEW:
        return f"**{rates}, but this kernel uses it for at most {percent(share, share < 0.01)} of its time.**"
    rates = f"{rates} (measured)."
    alone = _hbm_alone(plan, shown) if not kernel and min(gains) < 1 + ALIKE else ""
    return " ".join(filter(None, ["**The faster HBM does not help here.**" * helps_not, rates, alone]))


def _share_of_hbm(plan: Plan, shown: Sequence[Entry], kernel: str) -> float | None:
    """The largest share of its time for which a run of a kernel needs HBM; None where one is not known."""
    runs = measured(plan, shown, kernel)
    points = [(one.record, point) for run in runs for one in shown if (point := one.record.point(run))]
    shares = [
        needed / point.seconds if point.seconds and (needed := hbm_seconds(record, point)) else None
        for record, point in points
    ]
    known = [share for share in shares if share is not None]
    return max(known) if known and len(known) == len(shares) else None


def _hbm_alone(plan: Plan, shown: Sequence[Entry]) -> str:
    """Of the kernels that do not gain on the GPU with the faster HBM, the run with most work: how long it takes, and
    how long HBM needs for its bytes, in a sentence; "" where it needs much of the time, or that is unknown.
    """
    first, fast = shown[0].record, names(shown)[(bandwidths(shown) or 1.0) < 1]
    same = [kernel for kernel, gains in _gains_of(plan, shown, fast).items() if not gains]
    points = [first.point(run) for kernel in same for run in measured(plan, shown, kernel)]
    counted = [
        (point.experiment, point.seconds, needed)
        for point in points
        if point and point.seconds and (needed := hbm_seconds(first, point))
    ]
    if not counted:
        return ""
    run, seconds, needed = max(counted, key=lambda one: one[0].traffic.flops)
    if needed > SAME * seconds:
        return ""
    told = [aligned(one, "s", "m") if needed >= COARSE else duration(one) for one in (seconds, needed)]
    return f"{run.entry.title} gains nothing: it takes {told[0]} on the {names(shown)[0]}; HBM needs {told[1]} of it."
