"""Records for tests."""

from __future__ import annotations

from explain.counters.model import METRICS, CopyCheck, Counters, Counts
from explain.counters.stalls import Stalls
from explain.device.measurement import Provenance, Timing
from explain.experiment import Experiment
from explain.records import file, registry
from explain.records.model import Origin, Point, Record, Roof

SHIPPED = file.load(registry.SHIPPED[0])
"""Not made up: the first record that comes with the app."""
WHERE = Provenance("NVIDIA Test 1", "1", "13.0", "2", "3", "3.11", "2026-01-01")
EXPERIMENT = Experiment.of("softmax_online")
TIMING = Timing(80.0, 1.0, 0.9, 1.1, 50, "fake")


def counters(experiment: Experiment = EXPERIMENT, base: float = 1000.0) -> Counters:
    cold, warm = (Counts.of(dict.fromkeys(METRICS, base + one), {"dram_written_bytes": 24.0}) for one in (0, 1))
    return Counters(
        experiment.to_json(), cold, warm, CopyCheck(2**30, 2**30, 2**30), "GH100", "fake", "", ("l1_bytes",), 1, WHERE
    )


STALLS = Stalls(1000, 250, 100, {"selected": 100, "long_scoreboard": 600, "gmma": 200, "wait": 95}, 7)


def point(experiment: Experiment = EXPERIMENT) -> Point:
    return Point(experiment, counters(experiment), TIMING, 4096, "", Origin(WHERE, "abc", experiment.entry.code))


def record(*points: Point, where: Provenance = WHERE) -> Record:
    return Record(
        "abc",
        where,
        {one.experiment.key: one for one in points or (point(),)},
        {"hbm": Roof("hbm", 4e12, "B/s", "a copy of 1 GiB")},
    )
