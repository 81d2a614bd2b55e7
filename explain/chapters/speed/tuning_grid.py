"""One rung over tile sizes, warps and stages: what `benchmarks/tuning_grid.py` wrote, as values. Imports neither streamlit nor torch.

The file is JSON: {"provenance", "commit", "method", "before", "after", "grids"}; provenance as every record's, before and after the GPU's clocks and
temperature, and in "grids" an object for each `Grid` with an object for each `Point`, under the names of their fields.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from explain import recordings
from explain.device.measurement import Provenance

FILE = Path(__file__).resolve().parents[3] / "benchmarks" / "results" / "tuning_grid.json"
COMPILED = recordings.FOLDER / "tuning-compiled.json"
"""The same of settings that were compiled and never run: the compiler's word on each, and no times. `scripts/record_tuning_compiled.py` writes it."""
COMMAND = "python benchmarks/tuning_grid.py --out benchmarks/results/tuning_grid.json"
TROUBLES: Mapping[str, str] = {
    "shared memory": "its tiles do not fit shared memory",
    "registers": "its threads need more registers than there are",
    "wrong": "its result misses the error budget",
    "error": "it could not be run",
    "silent": "it did not answer in time",
}
"""Why a point has no time: the kinds, each in words. The point's own `why` says it in full."""


class TuningFileError(Exception):
    """A file that is no result of `benchmarks/tuning_grid.py`; says why."""


@dataclass(frozen=True)
class Point:
    """One setting. `seconds` is the median of a launch; where it is None, `trouble` is one of TROUBLES and `why` says more, or the run was cut short and both
    are empty. `error` is over its budget, so at most 1 is right. The rest is the compiler's word and there wherever it compiled: bytes of shared
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


def load(path: Path = FILE) -> Tuning | None:
    """The result in a file, None where there is none. Raises TuningFileError."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return _loaded(path, status.st_mtime_ns, status.st_size)


@functools.lru_cache(maxsize=4)
def _loaded(path: Path, changed_ns: int, size: int) -> Tuning:
    try:
        return parse(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        raise TuningFileError(f"{path.name} cannot be read: {error}") from None


def parse(data: Any) -> Tuning:
    """The result that `benchmarks/tuning_grid.py` wrote as this JSON. Raises TuningFileError."""
    try:
        state = {name: dict(data.get(name) or {}) for name in ("before", "after")}
        grids = tuple(map(_grid, data["grids"]))
        return Tuning(Provenance(**data["provenance"]), data["commit"], data["method"], **state, grids=grids)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise TuningFileError(
            f"this is no result of benchmarks/tuning_grid.py: {type(error).__name__} {error}"
        ) from None


def _grid(data: Mapping[str, Any]) -> Grid:
    batch, heads, seq_len, head_dim = data["shape"]
    points = tuple(Point(**point) for point in data["points"])
    if unknown := {point.trouble for point in points} - {"", *TROUBLES}:
        raise ValueError(f"no such trouble: {', '.join(sorted(unknown))}")
    return Grid(**{**data, "shape": (batch, heads, seq_len, head_dim), "points": points})
