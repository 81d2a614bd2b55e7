"""Milakov & Gimelshein, "Online normalizer calculation for softmax" (arXiv 1805.02867, 2018): accesses per element,
figures 1 to 4, larger K.

The paper prints curves without numbers. Its measurements are given here as its text states them, with the section.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from explain import data
from explain.experiment import Experiment
from explain.figures.numbers import count
from explain.gpus import Gpu
from explain.records.model import Point, Record
from kernels.catalog import KERNELS
from kernels.parameters import ITEM_BYTES, next_power_of_two

THEIR_GPU = "Tesla V100 PCIe 16 GB"
THEIR_SMS, THEIR_L2_BYTES, THEIR_THREADS = 80, 6 * 2**20, 256
THEIR_PROGRAMS = 2048 // THEIR_THREADS
"""The V100's SMs and L2 (NVIDIA's whitepaper); threads per row (github.com/NVIDIA/online-softmax); an SM's
programs."""
K = 5
LARGEST_TILE, LARGEST_TOPK_TILE = 4096, 2048
"""Elements in a tile. For kernels with a list: the fastest of TILES on an H200."""
THREADS = 128
"""Threads of one of our programs, which computes one row: Triton's default of four warps."""

_DATA = data(__file__)
PAPERS_ACCESSES: Mapping[str, tuple[int, str]] = {
    kernel: (n, where) for kernel, (n, where) in _DATA["accesses"].items()
}
"""The paper's accesses to memory per element of x, and where it states them."""


@dataclass(frozen=True)
class Said:
    """A sentence of the paper about a figure: the speedup `ratio`, or its range, for V (or K) from `at` to `until`.

    `until` None means to the end.
    """

    words: str
    where: str
    at: int
    ratio: float | tuple[float, float]
    until: int | None = None


@dataclass(frozen=True)
class Figure:
    """One figure of the paper: elements per second over V, and the speedup over `slow`.

    `fast` are our fast kernels, the paper's own algorithm first.
    """

    number: int
    batch: int
    kernels: tuple[str, ...]
    slow: str
    fast: tuple[str, ...]
    lengths: tuple[int, ...]
    said: tuple[Said, ...]

    @property
    def title(self) -> str:
        what = f"softmax and top-{K}" if "index" in KERNELS[self.slow].outputs else "softmax"
        return f"{what}, {count(self.batch)} rows"

    @property
    def brief(self) -> str:
        """The title in short, for a button."""
        return f"{self.number} · {'top-5, ' * ('top' in self.title)}{count(self.batch)}"

    @property
    def largest_bytes(self) -> int:
        """Bytes of the float32 matrix with the longest V."""
        return self.batch * self.lengths[-1] * ITEM_BYTES["fp32"]

    def experiments(self) -> Iterator[Experiment]:
        """Every point of the figure."""
        for cols in self.lengths:
            for kernel in self.kernels:
                yield experiment(kernel, self.batch, cols)


LANES = "fast:softmax_topk_lanes"
LONG = 25_000
"""The V that the paper says most about. Its others are 63 · 2^k."""


def _said(ratio: float | list[float], **fields: Any) -> Said:
    return Said(ratio=(ratio[0], ratio[1]) if isinstance(ratio, list) else ratio, **fields)


def _figure(said: list[dict[str, Any]], **fields: Any) -> Figure:
    own: dict[str, Any] = {n: tuple(value) if isinstance(value, list) else value for n, value in fields.items()}
    return Figure(**own, said=tuple(_said(**one) for one in said))


FIGURES: tuple[Figure, ...] = tuple(_figure(**figure) for figure in _DATA["figure"])
LARGER_K: tuple[Said, ...] = tuple(_said(**one) for one in _DATA["larger_k"])
"""The speedup of the fused kernel by K; the paper does not say at which V."""


@functools.cache
def experiment(kernel: str, batch: int, cols: int, k: int = K) -> Experiment:
    """One point: a float32 matrix, batch × cols; one program per row; tiles as long as the row, up to LARGEST_TILE."""
    given: dict[str, object] = {"rows": batch, "cols": cols}
    own = {parameter.name for parameter in KERNELS[kernel].parameters}
    if "k" in own:
        given["k"] = k
    if "block_n" in own:
        given["block_n"] = min(LARGEST_TOPK_TILE if "k" in own else LARGEST_TILE, next_power_of_two(cols))
    return Experiment.of(kernel, given, "normal")


@functools.cache
def counting(kernel: str) -> Experiment:
    """The run that is traced for the accesses: one row of 64 elements in four tiles."""
    given: dict[str, object] = {"rows": 1, "cols": 64, "block_n": 16}
    if "k" in {parameter.name for parameter in KERNELS[kernel].parameters}:
        given["k"] = K
    return Experiment.of(kernel, given, "normal")


def accesses(experiment: Experiment, totals: Mapping[str, int]) -> float:
    """Reads and writes per element of x, from the totals of a trace or a formula, without the stored list of K."""
    p = experiment.values
    item = ITEM_BYTES[p["dtype"]]
    kept = p["rows"] * p.get("k", 0) * (item + 8)  # a weight, and its column as int64
    return (totals["read_bytes"] + totals["written_bytes"] - kept) / (p["rows"] * p["cols"] * item)


def _larger_k() -> Iterator[Experiment]:
    for said in LARGER_K[1:]:
        for kernel in (FIGURES[2].slow, *FIGURES[2].fast):
            yield experiment(kernel, 4000, LONG, said.at)


TILES = (512, 1024, 2048, 4096)


def by_tile(kernel: str, block_n: int) -> Experiment:
    """Figure 3 at V = LONG, in tiles of another size."""
    return experiment(kernel, 4000, LONG).with_(block_n=block_n)


COUNTED: tuple[Experiment, ...] = tuple(e for e in FIGURES[0].experiments() if e.entry.steppable)
"""Figure 1's runs; their DRAM bytes explain the knee."""
_FIGURES = (e for figure in FIGURES for e in figure.experiments())
_TILES = (by_tile(kernel, block_n) for kernel in (FIGURES[2].slow, FIGURES[2].fast[0]) for block_n in TILES)
TIMED: tuple[Experiment, ...] = tuple(dict.fromkeys((*_FIGURES, *_larger_k(), *_TILES)))


# The same values from a record


def rate(point: Point | None) -> float | None:
    """Elements per second, the figures' vertical axis."""
    if point is None or point.timing is None:
        return None
    p = point.experiment.values
    return float(p["rows"] * p["cols"] / (point.timing.median_ms / 1e3))


def rates(record: Record, figure: Figure, kernel: str) -> list[tuple[int, float]]:
    """(V, elements per second) of a kernel, where measured."""
    found = ((cols, rate(record.point(experiment(kernel, figure.batch, cols)))) for cols in figure.lengths)
    return [(cols, value) for cols, value in found if value is not None]


def gains(record: Record, figure: Figure, fast: str = "") -> list[tuple[int, float]]:
    """(V, speedup over the figure's `slow`) of its first fast kernel, or of `fast`."""
    slow, better = (dict(rates(record, figure, kernel)) for kernel in (figure.slow, fast or figure.fast[0]))
    return [(cols, better[cols] / slow[cols]) for cols in figure.lengths if cols in better and cols in slow]


def gains_by_k(record: Record, fast: str) -> list[tuple[int, float]]:
    """(K, speedup of a fused kernel over safe softmax, then top-k), for 4,000 rows of LONG elements."""
    found = []
    for said in LARGER_K:
        points = (record.point(experiment(kernel, 4000, LONG, said.at)) for kernel in (FIGURES[2].slow, fast))
        slow, better = map(rate, points)
        if slow and better:
            found.append((said.at, better / slow))
    return found


GAIN = 1.1
"""A kernel counts as faster from this speedup on."""


def knee(gained: list[tuple[int, float]], least: float = GAIN) -> int | None:
    """The first V from which every speedup is at least `least`; None if the last is not."""
    start = None
    for cols, gain in gained:
        start = None if gain < least else start or cols
    return start


def reads(record: Record, kernel: str, level: str) -> list[tuple[int, float]]:
    """(V, reads per element of x) in figure 1, from a cold L2. `level` is "dram" or "l2"."""
    found = []
    for cols in FIGURES[0].lengths:
        point = record.point(experiment(kernel, FIGURES[0].batch, cols))
        if point and point.counters:
            counted = getattr(point.counters.cold, f"{level}_read_bytes")
            if counted is not None:
                found.append((cols, counted / (FIGURES[0].batch * cols * ITEM_BYTES["fp32"])))
    return found


def fits(sms: int, threads_sm: int, threads: int, cache_bytes: int) -> int:
    """The longest float32 row, in elements, so that the cache holds all rows in flight, a program for each."""
    return cache_bytes // (sms * (threads_sm // threads) * ITEM_BYTES["fp32"])


def fits_l2(gpu: Gpu) -> int:
    """`fits` for this GPU's L2 and our programs."""
    return fits(gpu.sms, 32 * gpu.warps_sm, THREADS, gpu.l2_bytes)


def fitted_theirs() -> int:
    """`fits` for the paper's GPU and programs; an SM of the V100 holds 2,048 threads."""
    return fits(THEIR_SMS, 2048, THEIR_THREADS, THEIR_L2_BYTES)
