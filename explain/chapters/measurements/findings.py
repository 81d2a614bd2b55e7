"""What a plan's measured points show, in sentences: bytes beside each input once, two GPUs, spills, host time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal

from explain.chapters.measurements import scores
from explain.chapters.measurements.points import (
    BESIDE,
    GRAPH,
    HOST,
    KERNEL,
    QUANTITIES,
    SIZES,
    TIME,
    gpu_columns,
    hbm_seconds,
    loads_of_once,
    measured,
    measured_sizes,
    name_of,
    names,
    of_once,
    rows,
    sizes,
    spread,
    with_host,
    work,
)
from explain.experiment import Experiment
from explain.figures.labels import listed
from explain.figures.numbers import count, duration, moved, number, percent, ratio, ratios
from explain.kept import kept
from explain.records.model import Point, Record
from explain.records.plans import Plan
from explain.records.registry import Entry

Bandwidth = Literal["hbm copy", "hbm"]
"""What HBM does, copy or read, as a record names it."""
FEW = 0.05
"""Which share of the loads caches serve at most where they serve next to nothing."""
MUCH_SLOWER = 4.0
"""How many times as long per FLOP the run that spills most takes at least where that is told."""
ALIGNED = 16
"""Triton compiles a kernel anew for a size that is no multiple of it."""
ALIKE = 0.03
"""Two GPUs' numbers count as alike if they differ by less than this share."""
SAME = 0.1
"""Two numbers count as about the same if they differ by less than this share."""
ABOUT_1 = "about 1"
FIFTHS = "(the slowest and the fastest fifth left out)"
"""What is left out where the launches of a run are compared."""


@kept
def seen(plan: Plan, shown: Sequence[Entry], quantity: str | None, kernel: str = "") -> str:
    """What the table shows, in sentences of Markdown; "" where it has nothing to compare.

    Of one record and one kernel: how often the loads ask for the tensors' bytes, and how often HBM delivers them. Of
    two records: which GPU is faster, and how many times the first one's number the second one has.
    """
    if quantity is not None:
        return _unmeasured(plan, shown, quantity, kernel) or _seen_beside(plan, shown, quantity, kernel)
    points = list(filter(None, map(shown[0].record.point, measured(plan, shown, kernel))))
    own = measured_sizes(plan, shown, kernel)
    if not any(point.counters for point in points):
        nothing = "No bytes were counted in this set: it has times only."
        if any(point.peak_bytes is not None for point in points):
            nothing = "No bytes were counted in this set: it has times and the memory needed."
        return "\n\n".join(filter(None, [nothing, _seen_fastest(points, own)]))
    if len({point.experiment.kernel for point in points}) != 1:
        found = [scores.told(shown[0], points, own), _seen_most(points, own)]
        return _seen_pair(points) or "\n\n".join(filter(None, found))
    fastest = _seen_fastest(points, own)
    told = "" if fastest else scores.told(shown[0], points, own)
    found = [fastest, told, _partly(points), _seen_once(points, own)]
    return "\n\n".join(filter(None, found))


def _unmeasured(plan: Plan, shown: Sequence[Entry], quantity: str, kernel: str) -> str:
    """Why a GPU has no number of this quantity in any row, and which quantities there are; "" where each has some."""
    value = QUANTITIES[quantity]
    runs = measured(plan, shown, kernel)
    points = {gpu: [*filter(None, map(one.record.point, runs))] for gpu, one in zip(names(shown), shown, strict=True)}
    if lacking := [gpu for gpu, own in points.items() if not own]:
        others = [one for one, gpu in zip(shown, points, strict=True) if gpu in lacking and measured(plan, [one], "")]
        what = "kernel" if others else "set"
        return f"**This {what} was not run on the {listed(lacking)}.**"
    lacking = [gpu for gpu, own in points.items() if all(value(point) is None for point in own)]
    if not lacking:
        return ""
    known = [
        name_of(name)
        for name, of in QUANTITIES.items()
        if all(any(of(point) is not None for point in own) for own in points.values())
    ]
    where = f" on the {listed(lacking)}" * (len(lacking) < len(points))
    has = "It has" if not where else "Both have"
    return f"**{begun(name_of(quantity))}: not measured{where} in this set.** {has}: {listed(known)}."


def begun(words: str) -> str:
    """The words with a capital at their beginning."""
    return words[0].upper() + words[1:]


def _seen_pair(points: Sequence[Point]) -> str:
    """Of two kernels that compute the same: by how much the first is slower, and reads more, in the largest run that
    both have; Markdown, "" for other kernels.
    """
    if not (both := _pairs(points)):
        return ""
    slow, fast = max(both, key=lambda pair: pair[0].experiment.traffic.flops)
    longer = ratio((slow.seconds or 0.0) / (fast.seconds or 1.0))
    one, other = (point.experiment.entry.title for point in (slow, fast))
    told = f"**At {_shared(slow.experiment, fast.experiment)}, {one} takes {longer} as long as {other}**"
    reads = [point.counters.cold.dram_read_bytes if point.counters else None for point in (slow, fast)]
    if reads[0] and reads[1]:
        told += f" and reads {ratio(reads[0] / reads[1])} the bytes from HBM, {moved(reads[0])} and {moved(reads[1])}"
    return f"{told}."


@kept
def pair(plan: Plan, shown: Sequence[Entry]) -> list[tuple[Point, Point]]:
    """Of a plan with two kernels, the timed runs in which both compute the same: the kernel that is slower in the
    largest one first. [] for other plans.
    """
    return _pairs([*filter(None, map(shown[0].record.point, measured(plan, shown, "")))])


def _pairs(points: Sequence[Point]) -> list[tuple[Point, Point]]:
    if len({point.experiment.kernel for point in points}) != 2:
        return []
    runs: dict[tuple[object, ...], list[Point]] = {}
    for point in points:
        if point.seconds:
            runs.setdefault(work(point.experiment), []).append(point)
    both = [own for own in runs.values() if len({one.experiment.kernel for one in own}) == len(own) == 2]
    if not both:
        return []
    largest = max(both, key=lambda own: own[0].experiment.traffic.flops)
    slow = max(largest, key=lambda point: point.seconds or 0.0).experiment.kernel
    ordered = (sorted(own, key=lambda point: point.experiment.kernel != slow) for own in both)
    return [(first, second) for first, second in ordered]


def _shared(one: Experiment, other: Experiment) -> str:
    """The sizes that two runs share, without their tiles."""
    words = sizes(other).split(", ")
    return ", ".join(word for word in sizes(one).split(", ") if word in words and not word.startswith("BLOCK"))


def _seen_most(points: Sequence[Point], own: Mapping[Experiment, str]) -> str:
    """Of several kernels: in how many rows HBM delivers each input about once, and where most; Markdown."""
    found = [(times, point.experiment) for point in points if (times := of_once(point))]
    if not found:
        return ""
    about = sum(times < 1 + SAME for times, _ in found)
    most, row = max(found, key=lambda one: one[0])
    rows = f"all {count(about)}" if about == len(found) else f"{count(about)} of {count(len(found))}"
    rows += " counted" * (len(found) < len(points))
    return (
        f"**In {rows} rows HBM delivers hardly more than the minimum, at most {ratio(1 + SAME)}.** "
        f"The highest is {ratio(most)}: {row.entry.title} at {own[row]}."
    )


def _seen_fastest(points: Sequence[Point], own: Mapping[Experiment, str]) -> str:
    """Of rows with the same work, which is the fastest and which the slowest, in a sentence of Markdown; else ""."""
    timed = sorted((point.seconds, own[point.experiment]) for point in points if point.seconds)
    if len(timed) < 2 or len({work(point.experiment) for point in points}) > 1:
        return ""
    (least, best), (most, worst) = timed[0], timed[-1]
    return (
        f"**The fastest of these {count(len(timed))} rows, {best}, takes {duration(least)}.** The slowest, {worst}, "
        f"takes {duration(most)}, {ratio(most / least)} as long. All compute the same."
    )


@kept
def loaded_and_delivered(plan: Plan, one: Entry, kernel: str) -> str:
    """How often one kernel asks for each byte of its inputs, how often HBM delivers it, and who serves the rest, in a
    sentence; "" where nothing was counted, or the loads are not known.
    """
    delivered = _delivered([*filter(None, map(one.record.point, measured(plan, [one], kernel)))])
    loaded = _loaded(delivered)
    if not loaded:
        return ""
    served = [1 - hbm / loads for hbm, loads in zip(delivered.values(), loaded, strict=True)]
    rest = ": the caches serve the rest" * (min(served) >= FEW)
    rest = rest or ": the caches serve next to nothing" * (max(map(abs, served)) < FEW and max(loaded) > 1 + SAME)
    asked, sent = (_times(times) for times in (loaded, [*delivered.values()]))
    if any(term.written and term.buffer in _read_by(run) for run in delivered for term in run.whole_terms):
        return f"The kernel loads {asked} × the bytes of its inputs; HBM delivers {sent} ×{rest}"
    asked, sent = ("about once" if times == ABOUT_1 else f"{times} times" for times in (asked, sent))
    asked = "once" if {*loaded} == {1.0} else asked
    unequal = any(len({*_read_by(run).values()}) > 1 for run in delivered)
    return f"The kernel asks for each input byte {asked}{' on average' * unequal}; HBM delivers it {sent}{rest}"


def _times(factors: Sequence[float]) -> str:
    """Factors in two digits: "about 1", "22 to 43"."""
    if max(abs(factor - 1) for factor in factors) < SAME:
        return ABOUT_1
    least, most = (number(times, 2) for times in (min(factors), max(factors)))
    return most if least == most else f"{least} to {most}"


def _read_by(run: Experiment) -> dict[str, float]:
    """How often a run loads each byte of a tensor, on average, by the tensor's name."""
    loads: dict[str, tuple[int, int]] = {}
    for term in run.whole_terms:
        if not term.written:
            asked, once = loads.get(term.buffer, (0, 0))
            loads[term.buffer] = asked + term.bytes, max(once, term.once)
    return {tensor: asked / once for tensor, (asked, once) in loads.items()}


def _delivered(points: Sequence[Point]) -> dict[Experiment, float]:
    """How many times the minimum HBM delivers, in the runs in which that was counted."""
    return {point.experiment: times for point in points if (times := of_once(point))}


def _loaded(runs: Iterable[Experiment]) -> list[float]:
    """How many times the minimum runs load; [] where the loads are not known."""
    return [loads_of_once(run) for run in runs if run.entry.steppable]


def _seen_once(points: Sequence[Point], own: Mapping[Experiment, str]) -> str:
    """Where caches serve one kernel's loads in some rows only, and which tensors are loaded how often; "" where nothing
    was counted.
    """
    delivered = _delivered(points)
    loaded = _loaded(delivered)
    if not delivered:
        return ""
    if not loaded:
        return f"**HBM delivers {ratios([*delivered.values()])} the minimum**, the bytes of the inputs."
    served = [1 - hbm / loads for hbm, loads in zip(delivered.values(), loaded, strict=True)]
    told = _of_tensors([*delivered], own)
    share, run = max(zip(served, delivered, strict=True), key=lambda one: one[0])
    if min(served) < FEW <= share:
        least = percent(max(0.0, min(served)))
        told = f"**The caches serve {least} to {percent(share)} of the loads**, most at {own[run]}. {told}"
    return told.strip()


def _partly(points: Sequence[Point]) -> str:
    """In how many runs bytes were counted, in a sentence; "" for all."""
    counted = sum(point.counters is not None for point in points)
    return f"Bytes were counted in {count(counted)} of {count(len(points))} runs." if counted < len(points) else ""


def _of_tensors(runs: Sequence[Experiment], own: Mapping[Experiment, str]) -> str:
    """How often each tensor is loaded, in the run that does most work, in a sentence; "" where all are alike."""
    run = max(runs, key=lambda run: run.traffic.flops)
    named: dict[str, list[str]] = {}
    for tensor, often in _read_by(run).items():
        times = "once" if often == 1 else f"{number(often)} times{_for_tiles(run, tensor, often)}"
        named.setdefault(times, []).append(tensor)
    if len(named) < 2:
        return ""
    (first, ones), *others = named.items()
    told = "".join(f", {listed(tensors)} {times}" for times, tensors in others)
    return f"At {own[run]}, {listed(ones)} {'are' if len(ones) > 1 else 'is'} loaded {first}{told}."


def _for_tiles(run: Experiment, tensor: str, times: float) -> str:
    """Why a tensor of attention is loaded so many times, where the tiles of the other side are the reason; else ""."""
    side, length, tile = ("keys", "kv_len", "block_n") if tensor == "q" else ("queries", "seq_len", "block_m")
    if not {length, tile} <= set(run.values) or times != -(-run.values[length] // run.values[tile]):
        return ""
    return f" (once for each tile of {count(run.values[tile])} {side})"


def _seen_beside(plan: Plan, shown: Sequence[Entry], quantity: str, kernel: str) -> str:
    """Which of two GPUs is faster, and how many times the first one's numbers the second one's are, in Markdown."""
    table, named_by = rows(plan, shown, quantity, kernel), (SIZES,) if kernel else (KERNEL, SIZES)
    steady = [row for row in table if not row.get(HOST)]
    named = [(row.get(BESIDE), ", ".join(str(row[name]) for name in named_by)) for row in steady]
    found = sorted((factor, name) for factor, name in named if isinstance(factor, float))
    if len(shown) != 2:
        return ""
    columns = gpu_columns(shown, quantity)
    alone = sum(len({row.get(name) is None for name in columns}) > 1 for row in table)
    left_out = sum(bool(row.get(HOST) and row.get(BESIDE)) for row in table)
    if not found:
        zeros = sum(all(row.get(name) == 0 for name in columns) for row in table)
        if zeros:
            return f"**{begun(name_of(quantity))}: 0 on both GPUs** in {count(zeros)} row{'s' * (zeros > 1)}."
        return f"No row was measured on both the {names(shown)[0]} and the {names(shown)[1]}." * (alone > 0)
    factors = [factor for factor, _ in found]
    spreads = _spreads(plan, shown, kernel) if quantity == TIME else []
    told = _compared(shown, quantity, factors, median(spreads) if spreads else 0.0)
    if not kernel and len(found) > 1 and _apart(factors) >= ALIKE:  # which rows these are is in no picture
        (low, least), *_, (high, most) = found
        told += f"\n\n- Least: {ratio(low)}, {least}\n- Most: {ratio(high)}, {most}"
    missing = f"{count(alone)} more {'were' if alone > 1 else 'was'} measured on one of them only." * (alone > 0)
    if quantity != TIME:
        return "\n\n".join(filter(None, [told, missing]))
    host = (
        f"{count(left_out)} {'rows are' if left_out > 1 else 'row is'} left out of these figures and drawn open: "
        "the times there probably contain time on the host."
    ) * (left_out > 0)
    also = " ".join(filter(None, [missing, host, _noise(spreads)]))
    return "\n\n".join(filter(None, [told, _by_bandwidth(plan, shown, factors, kernel), also]))


def _apart(factors: Sequence[float]) -> float:
    """The largest distance of a ratio from 1."""
    return max(abs(factor - 1) for factor in factors)


def _compared(shown: Sequence[Entry], quantity: str, factors: Sequence[float], noise: float = 0.0) -> str:
    """The ratios in one or two sentences of Markdown: of times the faster GPU first, in how many rows. Times as near
    to each other as the `noise` count for neither.
    """
    first, second = names(shown)
    what, number = begun(name_of(quantity)), len(factors)
    rows = f"{count(number)} row{'s' * (number > 1)}"
    far = f"{'at most ' * (number > 1)}{percent(_apart(factors), 1)} apart"
    every = f"in all {rows}" if number > 1 else "in 1 row"
    if percent(_apart(factors), 1) == percent(0, 1):
        return f"**{what}: the two GPUs are equal** {every}."
    middle = f", {ratio(median(factors))} in the median" if ratio(min(factors)) != ratio(max(factors)) else ""
    one_side = [one for one, wins in zip((first, second), (min(factors) > 1, max(factors) < 1), strict=True) if wins]
    if _apart(factors) < ALIKE and quantity == TIME and one_side:
        most = f"{'at most ' * (number > 1)}{percent(_apart(factors), 1)}"
        near = sum(round(abs(factor - 1), 3) <= round(noise, 3) for factor in factors)  # as they are shown
        if near == number:
            return f"**The two GPUs are equally fast {every}**: {most} apart, less than launches of one run."
        if near:
            rest = "the other one" if near == 1 else f"the other {count(near)}"
            every = f"in {count(number - near)} of {rows}, by {most}**; in {rest} the difference may be noise"
            return f"**The {one_side[0]} is a little faster {every}."
        return f"**The {one_side[0]} is a little faster {every}, by {most}.**"
    if _apart(factors) < ALIKE:
        return f"**{what}: the two GPUs are {far}** {every}."
    if quantity != TIME:
        where = f"{middle} of {rows}" if middle else f" {every}"
        return f"**{what}: the {second}'s is {ratios(factors)} the {first}'s**{where}."
    return f"**{_won(shown, factors)}.** The {second} takes {ratios(factors)} as long as the {first}{middle}."


def _won(shown: Sequence[Entry], factors: Sequence[float]) -> str:
    """In how many rows which of two GPUs is faster by more than `ALIKE`: the one with more of them first."""
    first, second = names(shown)
    wins = {
        first: sum(factor >= 1 + ALIKE for factor in factors),
        second: sum(factor <= 1 - ALIKE for factor in factors),
    }
    (faster, most), (slower, least) = sorted(wins.items(), key=lambda win: -win[1])
    if most == len(factors):
        return f"The {faster} is faster" + f" in all {count(most)} rows" * (most > 1)
    within = len(factors) - most - least
    return (
        f"The {faster} is faster in {count(most)} of {count(len(factors))} rows"
        + f", the {slower} in {count(least)}" * (least > 0)
        + f"; in {count(within)} they are within {percent(ALIKE)}" * (within > 0)
    )


def _spreads(plan: Plan, shown: Sequence[Entry], kernel: str) -> list[float]:
    """By which share the slow launches of each row exceed its fast ones, on the GPU where they differ more."""
    spreads = []
    for run in measured(plan, shown, kernel):
        points = filter(None, (one.record.point(run) for one in shown))
        if own := [times for point in points if not with_host(point) and (times := spread(point))]:
            spreads.append(max(own) - 1)
    return spreads


def _noise(spreads: Sequence[float]) -> str:
    """How much the launches of one run differ, in a sentence; "" if that is not known."""
    if not spreads:
        return ""
    far = sum(one >= ALIKE for one in spreads)
    more = f", in {count(far)} of {count(len(spreads))} rows by more than {percent(ALIKE)}" if far else ""
    return (
        f"Launches of one run typically differ by {percent(median(spreads), 1)} {FIFTHS}{more}. GPUs that differ by no "
        "more may be equally fast."
    )


def bandwidths(shown: Sequence[Entry], what: Bandwidth = "hbm copy") -> float | None:
    """How many times as fast HBM of the first of two GPUs copies, or reads, as that of the second; None if that is
    unknown, or about the same.
    """
    rates = [roof.per_second for one in shown if (roof := one.record.roofs.get(what))]
    return rates[0] / rates[1] if len(rates) == len(shown) == 2 and abs(rates[0] / rates[1] - 1) >= SAME else None


def _by_bandwidth(plan: Plan, shown: Sequence[Entry], factors: Sequence[float], kernel: str) -> str:
    """How the ratios of two GPUs' times compare with that of their bandwidths, in sentences; "" if that is unknown."""
    if (faster := bandwidths(shown)) is None:
        return ""
    gains = [factor if faster > 1 else 1 / factor for factor in factors]
    slower = sum(gain <= 1 - ALIKE for gain in gains)
    nothing = sum(gain < 1 + ALIKE for gain in gains) - slower
    little = sum(1 + ALIKE <= gain < (1 + max(faster, 1 / faster)) / 2 for gain in gains)
    fast = names(shown)[faster < 1]
    reads = bandwidths(shown, "hbm")
    also = f"reads {ratio(max(reads, 1 / reads))} and " if reads else ""
    copies = ratio(max(faster, 1 / faster))
    rates = f"HBM of the {fast} {also}copies {copies} as fast (measured)."
    both = [max(rate, 1 / rate) for rate in (faster, reads) if rate]
    if not slower + nothing + little:
        near = min(both) * (1 - SAME) <= min(gains) and max(gains) <= max(both) * (1 + SAME)
        return f"**That is about the ratio of the two HBMs.** {rates}" * near
    gained = {
        f"the faster HBM of the {fast} gains nothing (within {percent(ALIKE)})": nothing,
        f"the {fast} is faster by less than half of what {copies} would give": little,
        f"the {fast} is slower": slower,
    }
    (told, number), *others = ((words, rows) for words, rows in gained.items() if rows)
    if slower + nothing == len(gains):
        told = f"The faster HBM of the {fast} does not help here"
    elif len(gains) > 1:
        told = f"In {count(number)} of {count(len(gains))} rows {told}"
        told += "".join(f", in {count(rows)} {words}" for words, rows in others)
    return f"**{begun(told)}.** {rates}{'' if kernel or not slower + nothing else _hbm_alone(plan, shown)}"


def _hbm_alone(plan: Plan, shown: Sequence[Entry]) -> str:
    """How long HBM needs for the bytes of the run that does most work, beside the run's time, in a sentence that says
    why faster HBM brings little; "" where it needs much of the time, or that is unknown.
    """
    first = shown[0].record
    points = filter(None, map(first.point, measured(plan, shown, "")))
    counted = [
        (point.experiment, point.seconds, needed)
        for point in points
        if point.seconds and (needed := hbm_seconds(first, point))
    ]
    if not counted:
        return ""
    run, seconds, needed = max(counted, key=lambda one: one[0].traffic.flops)
    if needed > SAME * seconds:
        return ""
    where = f"{run.entry.title} at {measured_sizes(plan, shown, '')[run]}"
    return (
        f" For example, {where} takes {duration(seconds)} on the {names(shown)[0]}, where HBM would need "
        f"{duration(needed)} for the bytes read and written."
    )


def _slower(worst: Experiment, runs: Collection[Experiment], record: Record) -> str:
    """By how much the run that spills most is slower than others of its kernel and dtype, in words; "" below
    MUCH_SLOWER.
    """
    alike = [run for run in runs if (run.kernel, run.values.get("dtype")) == (worst.kernel, worst.values.get("dtype"))]
    points = [point for run in alike if (point := record.point(run)) and point.seconds]
    each = {point.experiment: (point.seconds or 0.0) / point.experiment.traffic.flops for point in points}
    own, others = each.pop(worst, 0.0), list(each.values())
    if not others or own < MUCH_SLOWER * median(others):
        return ""
    told = f" It takes **{ratio(own / median(others))} as long per FLOP** as the kernel's other rows (median)."
    vocab = worst.values.get("vocab")
    if vocab and vocab % ALIGNED and not any(run.values["vocab"] % ALIGNED for run in each):
        told += (
            f" It is also the only one with a V that is no multiple of {ALIGNED}. Triton compiles other code for that. "
            "How much each costs was not measured."
        )
    return told


@kept
def on_host(plan: Plan, one: Entry, kernel: str = "") -> str:
    """Which recorded times probably contain time on the host, in sentences of Markdown; "" for none."""
    own = measured_sizes(plan, [one], kernel)
    unsteady = [point for run in own if (point := one.record.point(run)) and with_host(point)]
    if not unsteady:
        return ""
    of: dict[str, list[str]] = {}
    for point in unsteady:
        of.setdefault(point.experiment.entry.title, []).append(own[point.experiment])
    rows = "; ".join(f"{title} at {listed(each)}" for title, each in of.items())
    apart = ratio(max(spread(point) or 1.0 for point in unsteady))
    return (
        f"**These times probably contain time on the host**: {rows}. Their launches were not replayed as a {GRAPH}. "
        f"A row's slowest takes up to {apart} as long as its fastest {FIFTHS}."
    )


@kept
def timed_once(plan: Plan, one: Entry, kernel: str = "") -> str:
    """Which recorded times are of one launch, in sentences of Markdown; "" for none."""
    own = measured_sizes(plan, [one], kernel)
    points = filter(None, map(one.record.point, own))
    once = [point.experiment for point in points if point.timing and point.timing.launches == 1]
    if not once:
        return ""
    if kernel:
        rows = "every run" if len(once) == len(own) else "; ".join(own[run] for run in once)
    else:
        of = Counter(run.entry.title for run in once)
        rows = listed([f"{count(number)} row{'s' * (number > 1)} of {title}" for title, number in of.items()])
    return f"**Timed by one launch**: {rows}.{' Other times are medians.' * (len(once) < len(own))}"


@dataclass(frozen=True)
class Spilled:
    """What the page says of spilled registers: a sentence about the row that spilled most, and details. Markdown."""

    told: str
    more: str


@kept
def spilled(plan: Plan, one: Entry, kernel: str = "") -> Spilled | None:
    """What the plan's kernels, or this `kernel`, wrote to L2 besides their output; None if nothing was spilled."""
    own = measured_sizes(plan, [one], kernel)
    found = [
        (point.counters.cold.spill_written_bytes, point.counters.cold.l2_written_bytes, experiment)
        for experiment in own
        if (point := one.record.point(experiment)) and point.counters
    ]
    most = sorted(((s, w, e) for s, w, e in found if s and w), key=lambda row: -row[0])
    if not most:
        return None
    spill, wrote, worst = most[0]
    point = one.record.point(worst)
    both = point.counters.cold.spilled_bytes if point and point.counters else None
    row = f"{'' if kernel else f'in {worst.entry.title}, '}at {own[worst]}"
    of = f" of {count(len(found))}" * (len(found) > 1) + " counted" * (len(found) < len(own))
    runs = f"{count(len(most))}{of} {'runs' if len(found) > 1 else 'run'} {'spills' if len(most) == 1 else 'spill'}"
    told = (
        f"**{runs} registers**{', most' * (len(most) > 1)} {row}: a thread needs more than it has. {moved(spill)} of "
        f"the {moved(wrote)} written to L2 ({percent(spill / wrote, spill > 0.995 * wrote)}) are spilled registers."
        f"{_slower(worst, own, one.record)}"
    )
    more = []
    if both and both > spill:
        again = ", so some of them more than once" * (both > 2 * spill)
        more.append(
            f"{begun(row)}, {moved(both - spill)} of spilled registers are read back{again}. Part may come back from "
            "HBM."
        )
    if wrote == (output := worst.traffic.written_bytes) + spill:
        stored = " and ".join(term.buffer for term in worst.traffic.terms if term.written)
        more.append(
            f"Exactly, it wrote {count(wrote)} bytes to L2: {count(output)} of {stored}, and {count(spill)} of spilled "
            "registers."
        )
    return Spilled(told, " ".join(more))
