"""What a sweep shows, in sentences: where kernels cross, what repeats, spills and jumps, what is missing, and why."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from explain.chapters.sweeps import masking
from explain.chapters.sweeps.analysis import ALIKE, FITTED, crossing, curve, numbers
from explain.chapters.sweeps.figures import (
    MOSTLY,
    PARTLY,
    TILES,
    UNMEASURED,
    at_value,
    compared,
    covered_by,
    fastest,
    leaves_l2,
    name_of,
    said,
    source_of,
)
from explain.chapters.sweeps.model import AXES, LEVELS, SPILLED, Reading, Sweep, formula, once_per_launch
from explain.experiment import Experiment
from explain.figures.labels import listed
from explain.figures.numbers import fixed, grouped, moved, percent, ratio, si
from explain.gpus import Gpu
from explain.prediction import programs
from explain.source.equations import quantity
from kernels.parameters import Value

APART_SEEN = 1.05
"""Bytes of a smaller ratio are one line in a chart."""
HANDED: Mapping[str, str] = {"S": "scores S", "P": "weights P", "m": "maxima m", "ℓ": "sums ℓ"}
"""What one launch leaves in HBM for the next, in words."""


def origin(sweep: Sweep, readings: Sequence[Reading], what: str) -> str:
    """Where each theory comes from, as a Markdown list: the sum of its powers of N, each as transfers."""
    if what != "hbm" or sweep.axis != "seq_len" or len(sweep.values) < 2 or source_of(readings) in UNMEASURED:
        return ""
    kernels: dict[str, list[str]] = {}
    for kernel in sweep.kernels:
        kernels.setdefault(_transfers(sweep, kernel), []).append(name_of(kernel))
    return "\n".join(f"- **{', '.join(names)}**: {lines}" for lines, names in kernels.items())


def _transfers(sweep: Sweep, kernel: str) -> str:
    """A kernel's bytes at HBM, every element once, as a sum: "128 N² = 4 × 16 N² × 2 B: S written, …"."""
    last, before = (sweep.at(kernel, value).traffic.terms for value in sweep.values[-1:-3:-1])
    n, step = float(sweep.values[-1]), math.log(float(sweep.values[-1]) / float(sweep.values[-2]))
    groups: dict[tuple[int, float, int], list[str]] = {}
    for term, smaller in zip(last, before, strict=True):
        power = round(math.log(term.elements / smaller.elements) / step)
        words = f"{term.buffer.upper()} {'written' if term.written else 'read'}"
        groups.setdefault((power, term.elements / n**power, term.item_bytes), []).append(words)
    return "; plus ".join(
        f"{fixed(len(names) * each * size, 0)} {(x := 'N' + '²' * (power == 2))} = {len(names)} × "
        f"{fixed(each, 0)} {x} × {size} B ({', '.join(names)})"
        for (power, each, size), names in sorted(groups.items(), reverse=True)
    )


def covered(sweep: Sweep, readings: Sequence[Reading], what: str) -> list[str]:
    """A sentence for each kernel with a curve on which another one lies: they are the same, within a share."""
    curves = {kernel: curve(sweep, readings, kernel, what) for kernel in sweep.kernels if sweep.numeric}
    does = "take the same time" if what == "seconds" else "move the same bytes"
    sentences = []
    for kernel, other in covered_by({kernel: points for kernel, points in curves.items() if points}).items():
        off = max(abs(y / curves[other][x] - 1) for x, y in curves[kernel].items())
        within = f", within {percent(off, 1)}" if off else ""
        sentences.append(f"{name_of(kernel)} and {name_of(other)} {does}{within}: their curves lie on each other.")
    return sentences


def slope_note(sweep: Sweep, readings: Sequence[Reading], what: str) -> str:
    """How growth was fitted, where the theory of time meets its curve, and what dotted and dashed lines mean."""
    told = [f"**Fitted growth**: the power that fits the last {min(FITTED, len(sweep.values))} points (least squares)."]
    source = source_of(readings)
    if source == "predicted":
        told.append("A dashed line is predicted, not measured.")
    if source not in UNMEASURED and what == "hbm":
        told.append(
            "**Theory**, two columns: each element moves once per launch (dotted in the chart), or at each load and "
            "store, as if there were no cache."
        )
    if source not in UNMEASURED and what == "seconds":
        spilled = any(reading.bytes.get(SPILLED) for reading in readings)
        last = "last point without register spills" if spilled else "last point"
        told.append(f"**Theory**: time grows as the FLOPs do. The dotted line passes through each curve's {last}.")
    if source not in UNMEASURED and what != "shared":
        told.append("If you see no dotted line, it lies on the curve: theory and measurement coincide.")
    return " ".join(told)


def crossings(sweep: Sweep, readings: Sequence[Reading], whats: Iterable[str]) -> list[str]:
    """A sentence for each of `whats`: from where on the second kernel stays below the first; their ratio at each value
    of an axis that is no number.
    """
    if len(sweep.kernels) < 2:
        return []
    above, below = compared(sweep)
    if not sweep.numeric:
        return [told for what in whats if (told := _ratios(sweep, readings, above, below, what))]
    how = {"formula": "computed", "trace": "traced", "predicted": "predicted"}
    sentences, known = [], how.get(source_of(readings), "measured")
    for what in whats:
        found = crossing(*(numbers(curve(sweep, readings, kernel, what)) for kernel in (above, below)))
        if found:
            known_as = {"seconds": "is faster", "asked": "requests fewer bytes"}
            does = known_as.get(what, f"moves fewer bytes {LEVELS.get(what, '')}")
            costs = {"seconds": "takes … as long", "asked": "requests … as many bytes"}
            cost = costs.get(what, f"moves … as many bytes {LEVELS.get(what, '')}")
            subject, other, x = name_of(below), name_of(above), AXES[sweep.axis][0]
            sentences.append(found.told(subject, other, does, cost, x, exact=sweep.axis in TILES, known=known))
    return sentences


def _ratios(sweep: Sweep, readings: Sequence[Reading], above: str, below: str, what: str) -> str:
    """One kernel's time or bytes ÷ another's, at each value of an axis that is no number."""
    more, less = (curve(sweep, readings, kernel, what) for kernel in (above, below))
    each = ", ".join(
        f"{ratio(more[v] / less[v])} {at_value(sweep.axis, v)}" for v in sweep.values if v in more and v in less
    )
    unit = "Time" if what == "seconds" else "Bytes"
    return each and f"{unit} of {name_of(above)} ÷ {unit.lower()} of {name_of(below)}: {each}."


def spills(sweep: Sweep, readings: Sequence[Reading]) -> list[str]:
    """A sentence for each kernel with register spills: where, and how many bytes."""
    sentences = []
    for kernel in sweep.kernels:
        found = {value: count for value, count in curve(sweep, readings, kernel, SPILLED).items() if count}
        if found:
            worst = max(found, key=lambda value: found[value])
            where = listed([said(value) for value in found])
            most = f"{'up to ' if len(found) > 1 else ''}{si(found[worst], 'B')}"
            place = at_value(sweep.axis, worst) if sweep.axis == "causal" else f"at {AXES[sweep.axis][0]} = {where}"
            told = f"{begins(place)}, {name_of(kernel)} spills registers to local memory: {most}."
            if at_hbm := curve(sweep, readings, kernel, "hbm").get(worst):
                more = max(0, at_hbm - once_per_launch(sweep.at(kernel, worst)))
                share = percent(min(1.0, more / found[worst]))
                at = f"{begins(at_value(sweep.axis, worst))}, " if len(found) > 1 else ""
                told += f" {at}{share} of these bytes reach HBM; the caches serve the rest."
            sentences.append(told)
    return sentences


def fastest_told(sweep: Sweep, readings: Sequence[Reading]) -> list[str]:
    """`fastest` as a sentence."""
    best = fastest(sweep, readings).items()
    each = ", ".join(f"{name_of(kernel)} {at_value(sweep.axis, value)}" for kernel, value in best)
    return [f"Fastest: {each}."] if each else []


def again_at_hbm(sweep: Sweep, readings: Sequence[Reading], kernel: str, value: Value) -> float | None:
    """The share that passes HBM of what a kernel moves beyond every element once; None if it moves little more, or
    spills.
    """
    at_hbm = curve(sweep, readings, kernel, "hbm").get(value)
    if at_hbm is None or source_of(readings) in UNMEASURED or curve(sweep, readings, kernel, SPILLED).get(value):
        return None
    least, asked = once_per_launch(sweep.at(kernel, value)), formula(sweep.at(kernel, value)).bytes["asked"]
    return min(1.0, max(0.0, (at_hbm - least) / (asked - least))) if asked > APART_SEEN * least else None


def again(sweep: Sweep, readings: Sequence[Reading]) -> list[str]:
    """Paragraphs: what passes HBM between the launches of a kernel; where the loads and stores beyond every element
    once are answered, at the last value; from where on they no longer stay in L2.
    """
    value = sweep.values[-1]
    shares: dict[float, list[str]] = {}
    between, left = [], []
    for kernel in sweep.kernels:
        if leaves := _leaves(sweep, readings, kernel):
            left.append(leaves)
            continue
        found = again_at_hbm(sweep, readings, kernel, value)
        if found is not None:
            share = round(found, 2)  # as it is read
            shares.setdefault(share, []).append(name_of(kernel))
            between += _between(sweep, readings, kernel, cached=share < PARTLY)
    told = list[str]()
    for share, kernels in sorted(shares.items(), reverse=True):
        names = listed(kernels)
        if share == 1:
            told.append(f"All these repeats reach HBM in {names}.")
        elif share:
            told.append(f"{percent(share)} of these repeats reach HBM in {names}, and a cache answers the rest.")
        else:
            told.append(f"In {names}, a cache answers them.")
    if not told:
        return left
    at = at_value(sweep.axis, value)
    first, *others = told
    if first.startswith("In "):
        first = f"{begins(at)}, a cache answers these repeats in {names}."
    else:
        first = f"{begins(at)}, {first[0].lower()}{first[1:]}"
    repeats = " ".join(["Some elements are loaded or stored several times.", first, *others])
    return [*([" ".join(between)] if between else []), repeats, *left]


def _leaves(sweep: Sweep, readings: Sequence[Reading], kernel: str) -> str:
    """Where the re-reads of a kernel with an outer loop over keys begin to go to HBM, in sentences; "" for others."""
    if not sweep.numeric or source_of(readings) in UNMEASURED:
        return ""
    found = numbers(curve(sweep, readings, kernel, "hbm"))
    leaves = leaves_l2(sweep, kernel, found)
    if leaves is None:
        return ""
    times = ratio(found[leaves[1]] / found[leaves[0]])
    before, at = (f"{AXES[sweep.axis][0]} = {fixed(one, 0)}" for one in leaves)
    return (
        f"{name_of(kernel)} reads Q, O, m and ℓ again for every tile of keys. From {at} on they no longer stay in L2, "
        f"so the re-reads go to HBM: **{times} the bytes** at {before}."
    )


def _between(sweep: Sweep, readings: Sequence[Reading], kernel: str, *, cached: bool) -> list[str]:
    """What a kernel writes to HBM for its next launch at the last value, and whether these are most of its bytes. None
    where so few bytes pass HBM that L2 may have kept it.
    """
    experiment = sweep.at(kernel, sweep.values[-1])
    handed = _handed_over(experiment)
    least = once_per_launch(experiment)
    if not handed or curve(sweep, readings, kernel, "hbm")[sweep.values[-1]] * APART_SEEN < least:
        return []
    terms = experiment.whole_terms
    most = cached and sum(term.once for term in terms if quantity(term.buffer) in handed) >= MOSTLY * least
    p = experiment.values
    square = "N\u00a0×\u00a0N " if {"S", "P"} & set(handed) and p["seq_len"] == p.get("kv_len", p["seq_len"]) else ""
    words = listed([HANDED.get(one, one) for one in handed])
    does = f"{'the ' * (handed[0] in HANDED)}{square}{words} to HBM, and its next launch reads them."
    return [begins(f"{name_of(kernel)} writes {does}{' These are most of its bytes.' * most}")]


def _handed_over(experiment: Experiment) -> list[str]:
    """The buffers that one launch writes and a later one reads."""
    if experiment.entry.outer == "block_n":  # one launch, which reads back what it writes
        return []
    terms = experiment.whole_terms
    written = {term.buffer for term in terms if term.written}
    return list(dict.fromkeys(quantity(term.buffer) for term in terms if not term.written and term.buffer in written))


def begins(sentence: str) -> str:
    """The sentence with a capital letter at its start, also of a name in bold such as **online softmax**."""
    first = 2 if sentence.startswith("**") else 0
    return sentence[:first] + sentence[first : first + 1].upper() + sentence[first + 1 :]


def jumps(sweep: Sweep, readings: Sequence[Reading], gpu: Gpu | None) -> list[str]:
    """A sentence for each kernel with an outer loop over keys and a jump at HBM: what it reuses, beside `gpu`'s L2."""
    sentences, x = [], AXES[sweep.axis][0]
    for kernel in sweep.kernels if gpu and sweep.numeric else ():
        found = numbers(curve(sweep, readings, kernel, "hbm"))
        leaves = leaves_l2(sweep, kernel, found)
        if leaves is None or gpu is None:
            continue
        before, after = (moved(_again(sweep.at(kernel, int(one)), gpu)) for one in leaves)
        last, at = (f"{x} = {fixed(one, 0)}" for one in leaves)
        shares = {f"{x} = {fixed(one, 0)}": again_at_hbm(sweep, readings, kernel, int(one)) for one in leaves}
        served = " and ".join(f"{percent(share)} at {place}" for place, share in shares.items() if share is not None)
        reach = f" The share of its repeats that reach HBM: {served}." if served else ""
        sentences.append(
            f"What {name_of(kernel)} reads again for every tile of keys: {before} at {last}, {after} at {at}. K and V "
            f"pass through L2 as well, and L2 holds {moved(gpu.l2_bytes)}.{reach}"
        )
    return sentences


def served_by_l2(sweep: Sweep, readings: Sequence[Reading]) -> list[str]:
    """The N up to which a kernel moves fewer bytes at HBM than theory: L2 still has what was used before."""
    if not sweep.numeric or sweep.axis in TILES or source_of(readings) in UNMEASURED:
        return []
    until: dict[str, float] = {}
    for kernel in sweep.kernels:
        found = numbers(curve(sweep, readings, kernel, "hbm"))
        theory = {value: once_per_launch(sweep.at(kernel, int(value))) for value in found}
        below = [value for value, size in found.items() if APART_SEEN * size < theory[value]]
        if below:
            until[kernel] = max(below)
    if not until:
        return []
    named = ", ".join(
        f"{name_of(kernel)} up to {AXES[sweep.axis][0]} = {fixed(value, 0)}" for kernel, value in until.items()
    )
    return [
        "The theory counts every element once per launch. L2 still holds a part, so these move at least "
        f"{percent(1 - 1 / APART_SEEN)} less: {named}."
    ]


def _again(experiment: Experiment, gpu: Gpu) -> int:
    """The bytes that a kernel uses between two uses of the same element, at most."""
    entry, p = experiment.entry, experiment.values
    traffic = entry.formula(p)
    return max(entry.between(p, traffic, term, gpu.sms) for term in traffic.terms)


def base_2(sweep: Sweep, readings: Sequence[Reading]) -> list[str]:
    """Why FlashAttention-2 in base 2 is faster at the last value: the instructions of one exponential, by SASS."""
    if not sweep.numeric:
        return []
    both = [numbers(curve(sweep, readings, kernel, "seconds")) for kernel in masking.BASES]
    each = [masking.per_exponential(kernel) for kernel in masking.BASES]
    at = max((x for x in both[0] if x in both[1]), default=None)
    if at is None or not all(each) or source_of(readings) in UNMEASURED or both[0][at] < (1 + ALIKE) * both[1][at]:
        return []
    plain, base = (name_of(kernel) for kernel in masking.BASES)
    times = ratio(both[0][at] / both[1][at])
    return [
        f"{base} is **{times} as fast** as {plain} {at_value(sweep.axis, int(at))}. The GPU has an instruction for "
        f"2ˣ only. {base} puts log₂e into `sm_scale`, so a score needs no multiply of its own. In the compiled code, "
        f"exp takes {each[0]} instructions per score, {_for_tiny(masking.BASES[0])}exp2 takes {each[1]}."
    ]


def _for_tiny(kernel: str) -> str:
    """How many of an exponential's instructions are for tiny results, in words that go on; "" for none."""
    number = masking.for_tiny(kernel)
    return f"{number} of them to keep very small results exact; " * bool(number)


def idle(sweep: Sweep, readings: Sequence[Reading], gpu: Gpu | None) -> list[str]:
    """A sentence for each kernel with an outer loop over keys and fewer programs than `gpu` has SMs, at the last
    value."""
    sentences = []
    for kernel in sweep.kernels:
        last = [one.experiment for one in readings if one.experiment.kernel == kernel and one.seconds][-1:]
        if gpu and last and last[0].entry.outer == "block_n" and (few := programs(last[0])) < gpu.sms:
            sentences.append(
                f"Our {name_of(kernel)} is slow: it launches {fixed(few, 0)} programs, one per head, on "
                f"{gpu.sms} SMs. Each program loads and stores O, m and ℓ at every tile. The authors' CUDA kernel is "
                "written differently and is not timed here."
            )
    return sentences


def missing(sweep: Sweep, readings: Sequence[Reading]) -> list[str]:
    """A sentence for each reading that is incomplete: what was asked, why it is not there."""
    return [
        f"{name_of(one.experiment.kernel)} was asked for "
        f"{at_value(sweep.axis, one.experiment.values[sweep.axis])} and has no full answer: {one.why}"
        for one in readings
        if one.why
    ]


def left_out(sweep: Sweep) -> list[str]:
    """A sentence for each point that a kernel cannot take, and why."""
    sentences = []
    for kernel, value, error in sweep.left_out:
        name = AXES[error.parameter][0] if error.parameter in AXES else error.parameter
        at = at_value(sweep.axis, value)
        why = f"its {name} {grouped(error.allowed)}."
        sentences.append(f"{name_of(kernel)} cannot run {at} and is left out there: {why}")
    return sentences
