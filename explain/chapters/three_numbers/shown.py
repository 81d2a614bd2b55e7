"""The values of the page Three numbers: the sizes, the bytes at every level, and the small run for the player."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from explain import lessons
from explain.chapters.side_by_side.pairs import opening
from explain.chapters.sweeps.model import PAIR
from explain.chapters.three_numbers.byte_accounting import Check, Gap, Prediction, check, gaps, predicted
from explain.chapters.three_numbers.figures import Run, dram_table, sizes_words, terms_by_key, traced_tables
from explain.chapters.three_numbers.levels import Levels, Traced, Witness, first_access, levels, recorded_trace
from explain.counters.model import Counts
from explain.experiment import Experiment
from explain.gpus import DEFAULT, GPUS, Gpu, card
from explain.kept import kept
from explain.records.model import Record
from explain.records.plans import MEASURED, PLANS, sizes
from explain.records.registry import Entry
from explain.trace.model import Trace
from kernels.traffic import Traffic

KERNELS = MEASURED
"""The kernels to choose from."""


def experiments(kernel: str) -> Mapping[str, Experiment]:
    """The sizes to choose from: three larger than L2, and the size in the player."""
    return {**{str(n): one for n, one in enumerate(sizes(kernel), start=1)}, "small": opening(kernel, lessons.SHORT)}


def standard_and_flash(experiment: Experiment) -> list[Experiment]:
    """Standard attention and FlashAttention-2 at this run's sizes, in this order; empty for a softmax or small run."""
    at = sizes_words(experiment)
    return [one for kernel in PAIR for one in sizes(kernel) if sizes_words(one) == at]


@dataclass(frozen=True)
class Shown:
    """Everything the page shows of one run: its levels, the gaps between them, the predicted HBM reads."""

    traffic: Traffic
    traced: Traced | None
    counts: Counts | None
    levels: Levels
    gaps: Sequence[Gap]
    prediction: Prediction | None
    check: Check | None


@kept
def shown(experiment: Experiment, traced: Traced | None, witness: Witness, *, warm: bool) -> Shown:
    """One run by formula, trace and counters. The prediction is for a cold L2, so a warm run has none."""
    counters, gpu = witness.counters, gpu_of(witness)
    counts = None if counters is None else counters.warm if warm else counters.cold
    traffic = experiment.traffic
    shared = counters.shared_bytes if counters else None
    found = levels(traffic, traced, counts, witness.source, witness.why, shared)
    between = gaps(experiment, found, counts, warm=warm)
    held = check(experiment, counts, gpu) if counts and not warm else None
    return Shown(traffic, traced, counts, found, between, None if warm else predicted(experiment, gpu), held)


def on_each(experiment: Experiment, records: Sequence[Entry], *, warm: bool) -> list[tuple[str, Counts]]:
    """The run's counts on every GPU that has them, with the label of each record."""
    points = [(one.label, one.record.point(experiment)) for one in records]
    counted = [(label, point.counters) for label, point in points if point and point.counters]
    return [(label, counters.warm if warm else counters.cold) for label, counters in counted]


def gpu_of(witness: Witness) -> Gpu:
    """The GPU that counted, for the size of its L2; the default GPU if it is unknown."""
    return gpu_named(witness.counters.provenance.gpu if witness.counters else DEFAULT)


def gpu_named(name: str) -> Gpu:
    """The GPU with this driver name; the default GPU if it is unknown."""
    return card(name) or GPUS[DEFAULT]


def runs(record: Record) -> list[Run]:
    """Every kernel at its three sizes, if the record has counts of them."""
    points = [(one, record.point(one)) for one in PLANS["levels"].experiments]
    return [
        (experiment, recorded_trace(experiment), point.counters.cold)
        for experiment, point in points
        if point is not None and point.counters is not None
    ]


@functools.lru_cache(maxsize=16)
def tables(record: Record) -> tuple[str, str, int, str]:
    """Every kernel at three sizes: bytes requested, where L1 counts others than the trace and where it does not, with
    the number of these runs; and HBM reads, as Markdown. Computed once per record.
    """
    counted = runs(record)
    return *traced_tables(counted), dram_table(counted, gpu_named(record.gpu))


def not_counted(record: Record) -> list[Experiment]:
    """The experiments of the three sizes that the record has no counts of."""
    counted = {experiment.key for experiment, _, _ in runs(record)}
    return [experiment for experiment in PLANS["levels"].experiments if experiment.key not in counted]


def step_of(experiment: Experiment, term: str) -> Callable[[Sequence[Trace]], int | None]:
    """For the player: the step that first loads or stores the buffer of a term ("read-k"); None without a term."""
    terms = terms_by_key(experiment.traffic)
    return lambda traces: first_access(experiment, traces[0], terms[term][0]) if term in terms else None


def watched(experiment: Experiment, term: str) -> str | None:
    """What the player marks on its timeline, as in "loads of k"."""
    terms = terms_by_key(experiment.traffic)
    return f"{'stores' if terms[term][0].written else 'loads'} of {terms[term][0].buffer}" if term in terms else None
