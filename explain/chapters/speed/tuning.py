"""One rung at many tile sizes, warps and stages: what `benchmarks/tuning_grid.py` measured, as values.

The file is JSON: {"provenance", "commit", "method", "before", "after", "grids"}. "before" and "after" are the GPU's
clocks and temperature. "grids" has an object per `Grid` with an object per `Point`, under the names of their fields.
Imports neither streamlit nor torch.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from explain.device.measurement import Provenance
from explain.figures.tables import csv_of
from explain.plain import made
from explain.records import results
from explain.records.results import ResultFileError
from kernels.catalog import KERNELS

RUNGS = ("pipelined", "tma")
SETTINGS = ("block_m", "block_n", "warps", "stages")
VALUES = ((64, 128, 256), (32, 64, 128), (4, 8), (1, 2, 3, 4))
"""The values of each setting; a grid has all their combinations."""
FILE = results.BENCHMARKS / "tuning_grid.json"
COMPILED = results.RECORDINGS / "tuning-compiled.json"
"""The same settings compiled, never run: no times (`python -m explain record tuning`)."""
COMMAND = "python benchmarks/tuning_grid.py --out benchmarks/results/tuning_grid.json"
FAILURES: Mapping[str, tuple[str, str]] = {
    "shared memory": ("too large", "its tiles do not fit shared memory"),
    "registers": ("registers", "its threads need more registers than an SM has"),
    "wrong": ("wrong result", "its error exceeds the tolerance"),
    "error": ("cannot run", "it could not be run"),
    "silent": ("no answer", "it did not answer in time"),
}
"""Why a point has no time: in two words, and in a sentence. The point's own `why` has the details."""


@dataclass(frozen=True)
class Point:
    """One setting. `seconds` is the median of a launch, with its 20% and 80% quantiles.

    Without a time, `failure` is one of FAILURES and `why` has the details; both are empty if the run was cut short.
    `error` is error ÷ tolerance: ≤ 1 passes. The compiler reports the rest: bytes of shared memory per program,
    registers per thread, and spills, the 4-byte values per thread that found no register.
    """

    block_m: int
    block_n: int
    warps: int
    stages: int
    seconds: float | None = None
    p20: float | None = None
    p80: float | None = None
    error: float | None = None
    failure: str = ""
    why: str = ""
    shared_bytes: int | None = None
    registers: int | None = None
    spills: int | None = None

    def __post_init__(self) -> None:
        if self.failure and self.failure not in FAILURES:
            raise ValueError(f"failure={self.failure}: must be one of {', '.join(FAILURES)}")

    @property
    def settings(self) -> tuple[int, int, int, int]:
        """block_m, block_n, warps and stages: which point of a grid it is."""
        return self.block_m, self.block_n, self.warps, self.stages


@dataclass(frozen=True)
class Grid:
    """All settings of one rung at one shape. `code` is the measured code's digest, `work` a launch's FLOPs."""

    rung: str
    code: str
    shape: tuple[int, int, int, int]
    dtype: str
    causal: bool
    work: float
    points: tuple[Point, ...]

    @property
    def timed(self) -> tuple[Point, ...]:
        """The points that have a time, fastest first."""
        return tuple(sorted((p for p in self.points if p.seconds is not None), key=lambda p: p.seconds or 0.0))

    @property
    def words(self) -> str:
        """ "2 × 16 × 8,192 × 128, bf16, causal": batch, heads, N, d."""
        return f"{' × '.join(f'{size:,}' for size in self.shape)}, {self.dtype}{', causal' if self.causal else ''}"

    @property
    def csv(self) -> str:
        """Every setting, a line each."""
        return csv_of([[one.name for one in fields(Point)], *map(astuple, self.points)])


@dataclass(frozen=True)
class Tuning:
    """One run of the benchmark: where, when and how it ran, the GPU's state before and after, and its grids."""

    provenance: Provenance
    commit: str
    method: str
    before: Mapping[str, str] = field(default_factory=dict)
    after: Mapping[str, str] = field(default_factory=dict)
    grids: tuple[Grid, ...] = ()

    @property
    def source(self) -> str:
        """Where its numbers come from, for a caption."""
        return f"recorded · {self.provenance.words} · {self.method}"

    def of(self, rung: str) -> Grid | None:
        """A rung's grid; None if it has none."""
        return next((grid for grid in self.grids if grid.rung == rung), None)


def best(shape: Sequence[int], dtype: str, causal: bool, gpu: str) -> dict[str, float]:
    """FLOP/s of each rung at its fastest setting on this shape and GPU, by its short name; empty if none was tuned."""
    try:
        found = load(FILE)
    except ResultFileError:
        return {}
    grids = [grid for grid in found.grids if grid.timed] if found and found.provenance.gpu == gpu else []
    own = [grid for grid in grids if (grid.shape, grid.dtype, grid.causal) == (tuple(shape), dtype, causal)]
    return {KERNELS[f"rung:{grid.rung}"].short: grid.work / (grid.timed[0].seconds or 1.0) for grid in own}


def completed(grid: Grid, compiled: Grid | None) -> Grid:
    """The grid, with the compiler's reason for settings that did not answer because they do not fit.

    The grid is unchanged if other code or another shape was compiled.
    """
    if compiled is None or (compiled.code, compiled.words) != (grid.code, grid.words):
        return grid
    known = {point.settings: point for point in compiled.points if point.failure}
    points = (known.get(point.settings, point) if point.failure == "silent" else point for point in grid.points)
    return replace(grid, points=tuple(points))


def empty(rung: str, shape: tuple[int, ...], causal: bool) -> Grid:
    """All settings of a rung at a shape (batch, heads, seq_len, head_dim), with nothing measured yet."""
    batch, heads, seq_len, head_dim = shape
    work = 4 * batch * heads * seq_len**2 * head_dim / (2 if causal else 1)
    points = tuple(Point(*values) for values in itertools.product(*VALUES))
    code = KERNELS[f"rung:{rung}"].code
    return Grid(rung, code, (batch, heads, seq_len, head_dim), "bf16", causal, work, points)


def load(path: Path = FILE) -> Tuning | None:
    """The result in a file, None if there is none. Raises ResultFileError."""
    return results.load(path, parse, COMMAND)


def save(path: Path, tuning: Tuning) -> None:
    """Writes the whole file at once."""
    path.parent.mkdir(parents=True, exist_ok=True)
    results.write(path, asdict(tuning))


def parse(data: Mapping[str, Any]) -> Tuning:
    """The result in this JSON object. Raises TypeError or ValueError for any other object."""
    return made(Tuning, data)
