"""What a plan's measured points show, in sentences: bytes beside each input once, spills, host time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from statistics import median

from explain.chapters.measurements import scores, two_gpus
from explain.chapters.measurements.points import (
    GRAPH,
    QUANTITIES,
    SAME,
    STORED,
    inputs,
    inputs_once,
    loads_of_once,
    measured,
    measured_sizes,
    name_of,
    names,
    of_once,
    sizes,
    spread,
    with_host,
    work,
)
from explain.chapters.measurements.two_gpus import FIFTHS, runs_told
from explain.experiment import Experiment
from explain.figures.labels import begun, listed
from explain.figures.numbers import count, duration, moved, number, percent, ratio, ratios
from explain.kept import kept
from explain.records.model import Point, Record
from explain.records.plans import Plan
from explain.records.registry import Entry
from explain.source.equations import quantity as quantity_of

FAR = 5
"""A kernel that gets more than so many times the minimum from HBM is named."""
FEW = 0.05
"""Which share of the loads caches serve at most where they serve next to nothing."""
MUCH_SLOWER = 4.0
"""How many times as long per FLOP the run that spills most takes at least where that is told."""
ALIGNED = 16
"""Triton compiles a kernel anew for a size that is no multiple of it."""
ABOUT_1 = "about 1"


@kept
def seen(plan: Plan, shown: Sequence[Entry], quantity: str | None, kernel: str = "") -> str:
    """What the table shows, in sentences of Markdown; "" where it has nothing to compare.

    Of one record and one kernel: how often the loads ask for the tensors' bytes, and how often HBM delivers them. Of
    two records: which GPU is faster, and how many times the first one's number the second one has.
    """
    if quantity is not None:
        return _unmeasured(plan, shown, quantity, kernel) or two_gpus.seen(plan, shown, quantity, kernel)
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
    found = [fastest, told, _partly(points), _delivered_alone(points)]
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
    """Of several kernels: how many times the minimum HBM delivers for each number of passes over the row, and who gets
    most; where that is no pattern, how much it typically delivers. Markdown.
    """
    found = [(times, point.experiment) for point in points if (times := of_once(point))]
    if not found:
        return ""
    if told := _by_passes(found):
        return "\n\n".join(filter(None, [told, _far(points, own)]))
    every = [times for times, _ in found]
    _, row = max(found, key=lambda one: one[0])
    return (
        f"**HBM typically delivers {ratio(median(every))} the minimum** (each input once), from {ratios(every)}. The "
        f"highest is {row.entry.title}{_own_size(row, [run for _, run in found], own)}."
    )


def _own_size(run: Experiment, runs: Iterable[Experiment], own: Mapping[Experiment, str]) -> str:
    """The sizes that a run does not share with all `runs` of its kernel: " at d = 128"."""
    alike = [own[one].split(", ") for one in runs if one.kernel == run.kernel]
    at = ", ".join(words for words in own[run].split(", ") if not all(words in one for one in alike))
    return f" at {at}" if at else ""


def _by_passes(found: Sequence[tuple[float, Experiment]]) -> str:
    """How many times the minimum HBM delivers to a softmax of one, two, three passes, in a sentence of Markdown; ""
    where the most that it delivers is not one time for each pass.
    """
    passes: dict[int, float] = {}
    less = False
    for times, run in found:
        if run.entry.steppable and len(inputs(run)) == 1:
            number_of = round(loads_of_once(run))
            passes[number_of] = max(times, passes.get(number_of, 0.0))
            less |= times < (1 - FEW) * number_of
    if len(passes) < 2 or any(abs(times / number_of - 1) >= SAME for number_of, times in passes.items()):
        return ""
    each = listed([count(number_of) for number_of in sorted(passes)])
    told = f"**Softmax: each pass over a row reads it once more from HBM: {each} ×**"
    return f"{told}{'; less where a row read before is still in L2' * less}."


def _symbol(buffer: str) -> str:
    """A tensor in HBM as formulas write it, without what a kernel's name for it adds: "dQ" of `dq_sum`."""
    return quantity_of(buffer.partition("_")[0])


def _far(points: Sequence[Point], own: Mapping[Experiment, str]) -> str:
    """Which kernels get more than `FAR` times the minimum, each with the cause: the tensors that it loads again, or
    spilled registers. Sentences; "" for none, or where nothing known explains it.
    """
    far: dict[str, tuple[float, Point]] = {}
    for point in points:
        times = of_once(point) or 0.0
        if times > max(FAR, far.get(point.experiment.kernel, (0.0,))[0]):
            far[point.experiment.kernel] = times, point
    loaded, others = [], []
    for times, point in far.values():
        run, counts = point.experiment, point.counters.cold if point.counters else None
        if tensors := _loaded_from_hbm(run, times):
            loaded.append(f"{run.entry.title}: {_passes(run, tensors)}")
        elif counts and counts.spill_written_bytes and counts.spill_read_bytes:
            at = _own_size(run, [point.experiment for point in points], own)
            both = f"{moved(counts.spill_written_bytes)} stored, {moved(counts.spill_read_bytes)} read back"
            others.append(
                f"{run.entry.title} gets {ratio(times)}{at}. Its tensors do not explain that. It spills registers: "
                f"{both}."
            )
    told = "\n".join(
        [
            f"These kernels read more than {count(FAR)} ×. These loads explain it, in the run that reads most:\n",
            *(f"- {one}" for one in loaded),
        ]
    )
    return "\n\n".join([told] * bool(loaded) + others)


def _passes(run: Experiment, tensors: Sequence[str]) -> str:
    """How often a run loads these tensors, × their bytes; the dtype of a large one that has more bits than the others;
    for which tiles it loads them again, and which of them it also writes again. In words.
    """
    terms = {term.buffer: term for term in run.whole_terms if term.buffer in tensors and not term.written}
    narrowest = min(terms.values(), key=lambda term: term.item_bytes)
    of: dict[float, dict[str, str]] = {}  # by how often they are loaded
    for tensor, term in terms.items():
        wide = term.item_bytes > narrowest.item_bytes and term.elements >= narrowest.elements
        symbol = _symbol(tensor) + f" (fp{8 * term.item_bytes})" * wide
        of.setdefault(_read_by(run)[tensor], {})[tensor] = symbol
    told = []
    for times, own in of.items():
        written = {term.buffer for term in run.whole_terms if term.written and term.times > 1}
        again = [_symbol(tensor) for tensor in own if tensor in written]
        why = next(filter(None, (_for_tiles(run, tensor, times) for tensor in own)), "")
        why = f"{why.removesuffix(')')}, which also writes {listed(again)} again)" if why and again else why
        told.append(f"{listed([*own.values()])}, {number(times)} × {moved(sum(terms[one].once for one in own))}{why}")
    return "; ".join(told)


def _loaded_from_hbm(run: Experiment, times: float) -> list[str]:
    """Which tensors explain that HBM delivers so many `times` the minimum: all their loads, and each other input once,
    are as many bytes. First those that the run or its forward pass wrote, then all that it loads again; [] for neither.
    """
    if not run.entry.steppable:
        return []
    bytes_of: Counter[str] = Counter()
    for term in run.whole_terms:
        bytes_of[term.buffer] += 0 if term.written else term.bytes
    large = [tensor for tensor, loads in bytes_of.items() if loads > FEW * inputs_once(run)]
    wrote = {term.buffer for term in run.whole_terms if term.written} | {*STORED}
    again = [tensor for tensor in large if _read_by(run)[tensor] > 1]
    for named in ([tensor for tensor in large if tensor in wrote], again):
        loads = sum(bytes_of[tensor] for tensor in named)
        others = sum(once for tensor, once in inputs(run).items() if tensor not in named)
        if named and abs((loads + others) / inputs_once(run) / times - 1) < SAME:
            return named
    return []


def _seen_fastest(points: Sequence[Point], own: Mapping[Experiment, str]) -> str:
    """Of runs with the same work, which is the fastest and which the slowest, in a sentence of Markdown; else ""."""
    timed = sorted((point.seconds, own[point.experiment]) for point in points if point.seconds)
    if len(timed) < 2 or len({work(point.experiment) for point in points}) > 1:
        return ""
    (least, best), (most, worst) = timed[0], timed[-1]
    return (
        f"**The fastest of these {count(len(timed))} runs, {best}, takes {duration(least)}.** The slowest, {worst}, "
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
    rest = ": caches serve the rest" * (min(served) >= FEW)
    rest = rest or ": caches serve next to nothing" * (max(map(abs, served)) < FEW and max(loaded) > 1 + SAME)
    asked, sent = (_times(times) for times in (loaded, [*delivered.values()]))
    if any({*_read_by(run)} > {*inputs(run)} for run in delivered):  # it also reads what is no input
        return f"The kernel loads {asked} × the bytes of its inputs; HBM delivers {sent} ×{rest}"
    asked, sent = ("once" if times == ABOUT_1 else f"{times} times" for times in (asked, sent))
    if sent == "once" and ratio(max(delivered.values())) != ratio(1.0):
        sent = f"once ({ratios([*delivered.values()])})"
    unequal = any(len({*_read_by(run).values()}) > 1 for run in delivered)
    comes = f", but comes from HBM only {sent}" if min(served) >= FEW else f" and comes from HBM {sent}"
    return f"Each input byte is loaded {asked}{' on average' * unequal}{comes}{rest}"


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


def _delivered_alone(points: Sequence[Point]) -> str:
    """The bytes from HBM ÷ the minimum, in words, of a kernel whose loads are unknown; "" for other kernels."""
    delivered = _delivered(points)
    if not delivered or _loaded(delivered):
        return ""
    return f"**HBM delivers {ratios([*delivered.values()])} the minimum**, the bytes of the inputs."


@kept
def loads(plan: Plan, one: Entry, kernel: str) -> str:
    """Where caches serve one kernel's loads in some runs only, and which tensors are loaded how often; "" where nothing
    was counted, or the loads are not known.
    """
    own = measured_sizes(plan, [one], kernel)
    delivered = _delivered([*filter(None, map(one.record.point, own))])
    loaded = _loaded(delivered)
    if not loaded:
        return ""
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
    told = f" It takes **{ratio(own / median(others))} as long per FLOP** as the kernel's other runs (median)."
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
        f"A run's slowest launch takes up to {apart} as long as its fastest {FIFTHS}."
    )


@kept
def timed_once(plan: Plan, shown: Sequence[Entry], kernel: str = "") -> str:
    """Which recorded times are of one launch, of several GPUs on which one, in a sentence of Markdown; "" for none."""
    told: dict[str, list[str]] = {}
    others = False
    for one, gpu in zip(shown, names(shown), strict=True):
        own = measured_sizes(plan, [one], kernel)
        points = [point for run in own if (point := one.record.point(run)) and point.timing]
        once = [point.experiment for point in points if point.timing and point.timing.launches == 1]
        others |= len(once) < len(points)
        if not once:
            continue
        if kernel:
            runs = "every run" if len(once) == len(own) else "; ".join(own[run] for run in once)
        else:
            of = Counter(run.entry.title for run in once)
            runs = listed([f"{runs_told(number)} of {title}" for title, number in of.items()])
        told.setdefault(runs, []).append(gpu)
    where = "; ".join(f"{runs}{f' on the {listed(gpus)}' * (len(shown) > 1)}" for runs, gpus in told.items())
    return f"**Timed by one launch**: {where}.{' Other times are medians.' * others}" if told else ""


@kept
def spilled(plan: Plan, one: Entry, kernel: str = "") -> str:
    """What the plan's kernels, or this `kernel`, wrote to L2 besides their output: the run that spilled most, then its
    details. Markdown; "" if nothing was spilled.
    """
    own = measured_sizes(plan, [one], kernel)
    found = [
        (point.counters.cold.spill_written_bytes, point.counters.cold.l2_written_bytes, experiment)
        for experiment in own
        if (point := one.record.point(experiment)) and point.counters
    ]
    most = sorted(((s, w, e) for s, w, e in found if s and w), key=lambda row: -row[0])
    if not most:
        return ""
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
    if not (both and both > spill):
        return told
    again = ", so some of them more than once" * (both > 2 * spill)
    back = f"{moved(both - spill)} of spilled registers are read back{again}. Part may come back from HBM."
    return f"{told}\n\n{begun(row)}, {back}"
