"""The steps of a sweep: where a kernel's time or bytes follow no power, and what else changes there."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence

from explain.chapters.flash_attention.tiles import tile
from explain.chapters.sweeps import masking
from explain.chapters.sweeps.analysis import curve, jump, numbers
from explain.chapters.sweeps.figures import TILES, leaves_l2, name_of
from explain.chapters.sweeps.model import AXES, SPILLED, Reading, Sweep
from explain.compile.cost import occupancy
from explain.compile.service import compiler
from explain.experiment import Experiment, ParameterError
from explain.figures.numbers import count, fixed, moved, number, percent, ratio, si
from explain.figures.tables import Column, markdown
from explain.gpus import Gpu
from explain.prediction import programs
from kernels.traffic import tiles

STEP = 1.15
"""The least ratio that is a step over the side of a tile, where theory is flat."""
EXPLAINS = 0.5
"""The least share of a step, on a logarithmic scale, that explains it."""
SAME = 1.02
"""Numbers of a smaller ratio are the same."""
REQUESTED = "bytes requested at L1"
Step = tuple[float, float]
Facts = Mapping[str, tuple[float, str]]
Found = tuple[str, Step, float, Facts, Facts]


def _found(sweep: Sweep, readings: Sequence[Reading], what: str, gpu: Gpu | None) -> list[Found]:
    """Each step of a kernel's time or bytes on a GPU: its ratio, and the facts before and after it."""
    found = []
    for kernel in sweep.kernels if sweep.numeric else ():
        own = {r.experiment.values[sweep.axis]: r for r in readings if r.experiment.kernel == kernel}
        points = numbers(curve(sweep, readings, kernel, what))
        for step in _large(points) if sweep.axis in TILES else _off(points):
            before, after = (own[int(one)] for one in step)
            if before.witness == "hardware":
                times = points[step[1]] / points[step[0]]
                found.append((kernel, step, times, _facts(before, what, gpu), _facts(after, what, gpu)))
    return found


def unexplained(sweep: Sweep, readings: Sequence[Reading], what: str, gpu: Gpu | None) -> list[str]:
    """A sentence for each step that the columns of `steps` do not explain.

    Time needs a fact that changes. Bytes at HBM need requested bytes that account for EXPLAINS of the step, or the L2
    that a kernel's tiles leave there.
    """
    sentences = []
    for kernel, step, times, before, after in _found(sweep, readings, what, gpu):
        start = f"{name_of(kernel)}, {AXES[sweep.axis][0]} {fixed(step[0], 0)} → {fixed(step[1], 0)}"
        told = f"{start}: the columns above do not explain this {'jump' if times > 1 else 'drop'}"
        if what == "seconds":
            if not any(_changed(name, before, after) for name in before):
                sentences.append(f"{told}.")
        elif REQUESTED in before and leaves_l2(sweep, kernel, numbers(curve(sweep, readings, kernel, what))) != step:
            asked = after[REQUESTED][0] / before[REQUESTED][0]
            if math.log(asked) / math.log(times) < EXPLAINS:
                sentences.append(
                    f"{told}: {ratio(times)} the bytes at HBM for {ratio(asked)} the bytes requested at L1."
                )
    return sentences


def steps(sweep: Sweep, readings: Sequence[Reading], what: str, gpu: Gpu | None) -> str:
    """What changes with each step of a kernel's time or of its bytes on a GPU, as a Markdown table; "" without one."""
    found = _found(sweep, readings, what, gpu)
    names = dict.fromkeys(name for *_, before, after in found for name in before if name in after)
    varied = [name for name in names if any(_changed(name, before, after) for *_, before, after in found)]
    x = AXES[sweep.axis][0]
    rows = (
        (
            name_of(kernel), f"{fixed(start, 0)} → {fixed(end, 0)}", f"**{ratio(times)}**",
            *(_changed(name, before, after) or (after[name][1] if name in after else None) for name in varied),
        )
        for kernel, (start, end), times, before, after in found
    )  # fmt: skip
    columns = map(Column, (x, "time" if what == "seconds" else "bytes", *varied))
    return markdown(("kernel", *columns), rows)


def _changed(name: str, before: Facts, after: Facts) -> str:
    """ "1,024 → 512" in two lines; "" of what stays."""
    if name not in before or name not in after or _ratio(before[name][0], after[name][0]) < SAME:
        return ""
    return f"{before[name][1]}<br>→ {after[name][1]}"


def _large(points: Mapping[float, float]) -> list[Step]:
    """The neighbours with a ratio that is a step."""
    return [step for step in itertools.pairwise(sorted(points)) if _ratio(*(points[one] for one in step)) >= STEP]


def _off(points: Mapping[float, float]) -> list[Step]:
    """The two neighbours between which the curve leaves its power."""
    found = jump(points)
    return [(max(one for one in points if one < found[0]), found[0])] if found else []


def _ratio(one: float, other: float) -> float:
    """The larger ÷ the smaller; ∞ where only one of them is 0."""
    low, high = sorted((one, other))
    return 1.0 if low == high else high / low if low else math.inf


def _facts(reading: Reading, what: str, gpu: Gpu | None) -> Facts:
    """What may explain a step, by name: formula, counters, and the compiler's answer where there is one."""
    experiment, size, p = reading.experiment, reading.bytes, reading.experiment.values
    facts: dict[str, tuple[float, str]] = {}
    if math.isfinite(launched := programs(experiment)):
        facts["programs"] = launched, count(int(launched))
        if experiment.entry.family == "attention" and not p["causal"]:
            visits = p["batch"] * p["heads"] * tiles(p["seq_len"], p["block_m"]) * tiles(p["kv_len"], p["block_n"])
            facts["tiles of S per program"] = visits / launched, number(visits / launched, 4)
    if gpu and (held := _at_once(experiment, gpu)):
        facts["programs at once on an SM"] = held, str(held)
    facts["FLOPs"] = reading.flops, si(reading.flops, "FLOP")
    for name, level in ((REQUESTED, "asked"), ("spilled registers", SPILLED)):
        if level in size:
            facts[name] = size[level], moved(size[level]) if size[level] else "none"
    if what == "hbm" and size.get("asked"):
        missed = size["hbm"] / size["asked"]
        facts[f"HBM bytes ÷ {REQUESTED}"] = missed, percent(missed, 1)
    return facts


def _at_once(experiment: Experiment, gpu: Gpu) -> int:
    """How many programs of its tile an SM holds at once; 0 where its compiled code is not known."""
    p = experiment.values
    try:
        own = tile(kernel=experiment.kernel, causal=p["causal"], **{name: p[name] for name in masking.TILE})
    except (KeyError, ParameterError):
        return 0
    known = (compiler().look(one, gpu.compute_capability) for one in (experiment, own))
    cost = next((answer.cost for answer in known if answer and answer.cost), None)
    return min((occupancy(launch, gpu).programs for launch in cost.launches), default=0) if cost else 0
