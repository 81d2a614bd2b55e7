"""A record of everything that the papers' panels need, from a simple model of a GPU."""

from __future__ import annotations

from dataclasses import replace

from explain.chapters.papers import flashattention, milakov
from explain.counters.model import Counts
from explain.device.measurement import Timing
from explain.experiment import Experiment
from explain.records.model import Origin, Point, Record, Roof
from tests.explain.records.made import WHERE, counters

BYTES_PER_SECOND, LAUNCH_SECONDS, FITS = 4e12, 4e-6, 8192
"""Bandwidth, the shortest time of a run, and the longest row that the caches hold."""


def record() -> Record:
    """Every point of the papers' plans, and the roofs."""
    experiments = (*milakov.COUNTED, *milakov.TIMED, *flashattention.COUNTED, *flashattention.TIMED)
    roofs = {"shared": 31e12, "l2": 10e12, "hbm": 4.2e12, "host": 55e9}
    return Record(
        "abc",
        replace(WHERE, gpu="NVIDIA H200"),
        {one.key: point(one) for one in experiments},
        {level: Roof(level, value, "B/s", "made up") for level, value in roofs.items()},
    )


def point(experiment: Experiment) -> Point:
    """Bytes by formula; DRAM reads rows of at most FITS elements once, longer rows at every load."""
    moved = experiment.traffic
    read, written = moved.read_bytes, moved.written_bytes
    if experiment.entry.family == "softmax":
        p = experiment.values
        dram = 4 * p["rows"] * p["cols"] if p["cols"] <= FITS else read
    else:
        dram = sum(term.elements * term.item_bytes for term in moved.terms if not term.written)
    counts = Counts(dram, written, 0, read, written, read + written, 0, 0, 1000, 1000)
    ms = 1e3 * (LAUNCH_SECONDS + (dram + written) / BYTES_PER_SECOND)
    timing = Timing(1.0, ms, ms, ms, 10, "made up")
    return Point(
        experiment, replace(counters(experiment), cold=counts, warm=counts), timing, written, "", Origin(WHERE)
    )
