"""Questions about a recorded run: what the caches serve, and how far it is from the limits of HBM and of a matmul; of a
run on two GPUs, what the faster HBM brings.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from explain.chapters.measurements.points import (
    hbm_seconds,
    inputs,
    inputs_once,
    matmul_rate,
    names,
    sizes,
    stored,
    written,
)
from explain.exercises import Question, Why
from explain.experiment import Experiment
from explain.figures.labels import unbroken
from explain.figures.numbers import count, duration, fixed, moved, number, percent, ratio, si
from explain.records.model import Record
from explain.records.registry import Entry
from explain.source.equations import quantity

LIMITS = "./measurements?view=Limits+of+a+GPU"
"""Where the limits are that two questions ask for."""


@dataclass(frozen=True)
class Shown:
    """A recorded run: the bytes that it read from HBM and wrote there, now or later, its time, and the GPU's measured
    limits per second: of HBM, and of a matmul in the `arithmetic` that the run's matmuls use. `hbm`: the seconds that
    HBM alone takes for these bytes.
    """

    experiment: Experiment
    gpu: str
    read: int
    written: int
    hbm: float
    seconds: float
    bandwidth: float
    writing: float
    arithmetic: str
    peak: float

    @property
    def words(self) -> str:
        """The run in words."""
        told = f"**{self.experiment.entry.title}** on the {self.gpu}, at {sizes(self.experiment)}"
        own = self.experiment.traffic.flops_of("matmul") and self.arithmetic != self.experiment.values.get("dtype")
        return unbroken(f"{told}{f', matmuls in {self.arithmetic}' if own else ''}")


IDLE = 1.0
"""Which percentage of the time the tensor cores are busy at most where a run's matmuls do not use them."""
SERVED = 0.05
"""Which share of the loads the caches serve at least where a question asks for it."""


def run_of(record: Record, experiment: Experiment) -> Shown | None:
    """The run as the record has it; None where the record lacks its time, its bytes or a limit."""
    point, reading = record.point(experiment), record.roofs.get("hbm")
    counts, hbm = (point.counters.cold, hbm_seconds(record, point)) if point and point.counters else (None, None)
    if not (point and counts and counts.dram_read_bytes and point.seconds and reading and hbm):
        return None
    on_tensor_cores = (counts.tensor_active_percent or 0) > IDLE
    arithmetic = str(experiment.values.get("dtype", "fp32")) if on_tensor_cores else "fp32"
    matmul = record.roofs.get(f"matmul {arithmetic}")
    if matmul is None:
        return None
    return Shown(
        experiment, record.gpu, counts.dram_read_bytes, written(point) or 0, hbm, point.seconds,
        reading.per_second, record.roofs.get("hbm write", reading).per_second, arithmetic, matmul.per_second,
    )  # fmt: skip


def _served(shown: Shown) -> float:
    return 100 * (1 - shown.read / shown.experiment.traffic.read_bytes)


def _caches_serve(shown: Shown) -> bool:
    return shown.experiment.entry.steppable and _served(shown) >= 100 * SERVED


def _why_served(shown: Shown) -> Why:
    loads = shown.experiment.traffic.read_bytes
    return Why(f"The loads are {moved(loads)}, and HBM delivers {moved(shown.read)}: {percent(shown.read / loads, 1)}. "
               f"The caches serve the other {number(_served(shown))}%.")  # fmt: skip


def _slower(shown: Shown) -> float:
    return shown.seconds * shown.bandwidth / inputs_once(shown.experiment)


def _of(shown: Shown) -> str:
    """Which inputs these are, where the run also reads what a forward pass stored."""
    return f" ({', '.join(map(quantity, inputs(shown.experiment)))})" if stored(shown.experiment) else ""


def _why_slower(shown: Shown) -> Why:
    least = inputs_once(shown.experiment) / shown.bandwidth
    read = moved(inputs_once(shown.experiment))
    return Why(f"{read} ÷ {si(shown.bandwidth, 'B/s')} = {duration(least)}. The run takes "
               f"{duration(shown.seconds)}, {ratio(_slower(shown))} as long.")  # fmt: skip


def _flops(shown: Shown) -> int:
    return shown.experiment.traffic.flops_of("matmul")


def _reached(shown: Shown) -> float:
    return matmul_rate(shown.experiment, shown.seconds) or 0.0


def _rate(shown: Shown) -> float:
    return 100 * _reached(shown) / shown.peak


def _why_rate(shown: Shown) -> Why:
    return Why(f"{count(_flops(shown))} FLOPs ÷ {duration(shown.seconds)} = {si(_reached(shown), 'FLOP/s')}, of "
               f"{si(shown.peak, 'FLOP/s')}: {number(_rate(shown))}%.")  # fmt: skip


OF_ONE: tuple[Question[Shown], ...] = (
    Question[Shown](
        "served",
        lambda shown: f"{shown.words}, L2 cold: what share of the bytes that it loads comes from the caches?",
        "number",
        _served,
        _why_served,
        unit="%",
        tolerance=0.02,
        asked=_caches_serve,
        hint=lambda shown: (
            f"Its loads ask for {moved(shown.experiment.traffic.read_bytes)} (formula). HBM delivers "
            f"{moved(shown.read)} (counted). The caches serve the rest of the loads."
        ),
    ),
    Question[Shown](
        "slower",
        lambda shown: (
            f"{'The same run' if _caches_serve(shown) else shown.words}: how many times as long does it take as "
            f"reading each input once{_of(shown)} at the [full rate of HBM]({LIMITS})?"
        ),
        "number",
        _slower,
        _why_slower,
        tolerance=0.05,
        hint=lambda shown: (
            f"Each input once{_of(shown)} is {moved(inputs_once(shown.experiment))}, and HBM reads "
            f"{si(shown.bandwidth, 'B/s', zeros=True)}: that gives the shortest time. The run takes "
            f"{duration(shown.seconds)}."
        ),
    ),
    Question[Shown](
        "rate",
        lambda shown: (
            f"Its matmuls are {si(_flops(shown), 'FLOP')}s. What share of the [measured {shown.arithmetic} matmul "
            f"rate]({LIMITS}) does it reach?"
        ),
        "number",
        _rate,
        _why_rate,
        unit="%",
        tolerance=0.03,
        asked=lambda shown: _flops(shown) > 0,
        hint=lambda shown: (
            f"The run takes {duration(shown.seconds)}: FLOPs ÷ time is its rate. A matmul in {shown.arithmetic} "
            f"reaches {si(shown.peak, 'FLOP/s', zeros=True)}."
        ),
    ),
)


@dataclass(frozen=True)
class Both:
    """A run that two GPUs have, and the GPUs' names."""

    first: Shown
    second: Shown
    gpus: tuple[str, str]

    @property
    def words(self) -> str:
        """The run in words."""
        run = self.first.experiment
        return unbroken(f"**{run.entry.title}** at {sizes(run)}")


def both(shown: Sequence[Entry], experiment: Experiment) -> Both | None:
    """The run as two records `shown` have it; None where one lacks what `run_of` needs."""
    first, second = (run_of(one.record, experiment) for one in shown)
    if not (first and second):
        return None
    of_first, of_second = names(shown)
    return Both(first, second, (of_first, of_second))


def _moves(run: Shown) -> str:
    read = f"{moved(run.read)} read at {si(run.bandwidth, 'B/s', zeros=True)}"
    return f"{read} and {moved(run.written)} written at {si(run.writing, 'B/s', zeros=True)}"


def _longer(both: Both) -> float:
    return both.second.seconds / both.first.seconds


def _by_hbm(both: Both) -> float:
    return both.second.hbm / both.first.hbm


def _of_hbm(both: Both) -> float:
    return 100 * both.second.hbm / both.second.seconds


def _why_longer(both: Both) -> Why:
    second, first = (duration(run.seconds) for run in (both.second, both.first))
    return Why(f"{second} on the {both.gpus[1]} ÷ {first} on the {both.gpus[0]} = {fixed(_longer(both), 3)} ×.")


def _why_by_hbm(both: Both) -> Why:
    second, first = (duration(run.hbm) for run in (both.second, both.first))
    return Why(
        f"{second} ÷ {first} = {ratio(_by_hbm(both))}. Measured, the run takes {fixed(_longer(both), 3)} × as long."
    )


def _why_of_hbm(both: Both) -> Why:
    run = both.second
    return Why(f"{_moves(run)} take {duration(run.hbm)}, of {duration(run.seconds)}: {number(_of_hbm(both))}%.")


OF_TWO: tuple[Question[Both], ...] = (
    Question[Both](
        "longer",
        lambda both: (
            f"{both.words}: how many times as long does it take on the {both.gpus[1]} as on the {both.gpus[0]}?"
        ),
        "number",
        _longer,
        _why_longer,
        unit="×",
        hint=lambda both: (
            f"It takes {duration(both.first.seconds)} on the {both.gpus[0]} and {duration(both.second.seconds)} on the "
            f"{both.gpus[1]}."
        ),
    ),
    Question[Both](
        "by_hbm",
        lambda both: (
            "The same run: how many times as long would HBM alone take to read and write its bytes on the "
            f"{both.gpus[1]} as on the {both.gpus[0]}, each at [its measured rate]({LIMITS})?"
        ),
        "number",
        _by_hbm,
        _why_by_hbm,
        unit="×",
        hint=lambda both: f"On the {both.gpus[0]}: {_moves(both.first)}. On the {both.gpus[1]}: {_moves(both.second)}.",
    ),
    Question[Both](
        "of_hbm",
        lambda both: (
            f"On the {both.gpus[1]}: what share of the run's time would HBM alone take for the bytes read and written?"
        ),
        "number",
        _of_hbm,
        _why_of_hbm,
        unit="%",
        tolerance=0.03,
        hint=lambda both: f"{_moves(both.second)} give the time of HBM. The run takes {duration(both.second.seconds)}.",
    ),
)


QUESTIONS: tuple[Question[Any], ...] = (*OF_ONE, *OF_TWO)
