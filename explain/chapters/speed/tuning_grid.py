"""One rung over tile sizes, warps and stages: what `benchmarks/tuning_grid.py` wrote, as values. Imports neither streamlit nor torch.

The file is JSON: {"provenance", "commit", "method", "before", "after", "grids"}; provenance as every record's, before and after the GPU's clocks and
temperature, and in "grids" an object for each `Grid` with an object for each `Point`, under the names of their fields.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from explain.device.measurement import Provenance
from explain.records import results
from kernels.catalog import KERNELS

FILE = results.BENCHMARKS / "tuning_grid.json"
COMPILED = results.RECORDINGS / "tuning-compiled.json"
"""The same settings compiled, never run: shared memory, registers and spills, no times (`python -m explain record tuning`)."""
COMMAND = "python benchmarks/tuning_grid.py --out benchmarks/results/tuning_grid.json"
RUNGS = ("pipelined", "tma")
SETTINGS = ("block_m", "block_n", "warps", "stages")
VALUES = ((64, 128, 256), (32, 64, 128), (4, 8), (1, 2, 3, 4))
"""The values of each setting; a grid has all their combinations."""
TROUBLES: Mapping[str, str] = {
    "shared memory": "its tiles do not fit shared memory",
    "registers": "its threads need more registers than there are",
    "wrong": "its result exceeds the tolerance",
    "error": "it could not be run",
    "silent": "it did not answer in time",
}
"""Why a point has no time: the kinds, each in words. The point's own `why` says it in full."""


@dataclass(frozen=True)
class Point:
    """One setting. `seconds` is the median of a launch; where it is None, `trouble` is one of TROUBLES and `why` says more, or the run was cut short and both
    are empty. `error` is over its tolerance, so at most 1 is right. The rest is the compiler's word and there wherever it compiled: bytes of shared
    memory a program, registers a thread, and of each thread's values those that found no register, 4 bytes each.
    """

    block_m: int
    block_n: int
    warps: int
    stages: int
    seconds: float | None = None
    p20: float | None = None
    p80: float | None = None
    error: float | None = None
    trouble: str = ""
    why: str = ""
    shared_bytes: int | None = None
    registers: int | None = None
    spills: int | None = None

    @property
    def settings(self) -> tuple[int, int, int, int]:
        """block_m, block_n, warps and stages: which point of a grid it is."""
        return self.block_m, self.block_n, self.warps, self.stages


@dataclass(frozen=True)
class Grid:
    """All settings of one rung at one shape. `code` is the digest of the rung's source that was measured, `work` the FLOPs of a launch."""

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


@dataclass(frozen=True)
class Tuning:
    """One run of the benchmark: where, when, how, the GPU's state before and after, and its grids."""

    provenance: Provenance
    commit: str
    method: str
    before: Mapping[str, str] = field(default_factory=dict)
    after: Mapping[str, str] = field(default_factory=dict)
    grids: tuple[Grid, ...] = ()

    @property
    def source(self) -> str:
        """Where its numbers come from, for a caption."""
        where = self.provenance
        return f"recorded · {where.gpu}, driver {where.driver}, CUDA {where.cuda}, torch {where.torch}, triton {where.triton}, {where.date} · {self.method}"

    def of(self, rung: str) -> Grid | None:
        """A rung's grid; None where it has none."""
        return next((grid for grid in self.grids if grid.rung == rung), None)


def completed(grid: Grid, compiled: Grid | None) -> Grid:
    """The grid with the compiler's word on settings that did not answer and, by that word, do not fit; as it is where other code or another shape was compiled."""
    if compiled is None or (compiled.code, compiled.words) != (grid.code, grid.words):
        return grid
    word = {point.settings: point for point in compiled.points if point.trouble}
    points = (word.get(point.settings, point) if point.trouble == "silent" else point for point in grid.points)
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
    """Writes the file whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    results.write(path, asdict(tuning))


def parse(data: Mapping[str, Any]) -> Tuning:
    """The result in this JSON object. Raises KeyError, TypeError or ValueError for any other object."""
    state = {name: dict(data.get(name) or {}) for name in ("before", "after")}
    grids = tuple(map(_grid, data["grids"]))
    return Tuning(Provenance(**data["provenance"]), data["commit"], data["method"], **state, grids=grids)


def _grid(data: Mapping[str, Any]) -> Grid:
    batch, heads, seq_len, head_dim = data["shape"]
    points = tuple(Point(**point) for point in data["points"])
    if unknown := {point.trouble for point in points} - {"", *TROUBLES}:
        raise ValueError(f"no such trouble: {', '.join(sorted(unknown))}")
    return Grid(**{**data, "shape": (batch, heads, seq_len, head_dim), "points": points})
