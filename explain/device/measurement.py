"""Measurement: one Experiment on a GPU, with its error, its times and its provenance. Standard library only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Provenance:
    """Where and when a number was measured."""

    gpu: str
    driver: str
    cuda: str
    torch: str
    triton: str
    python: str
    date: str

    @property
    def words(self) -> str:
        """The GPU, the versions and the date, for a caption."""
        versions = f"driver {self.driver}, CUDA {self.cuda}, torch {self.torch}, triton {self.triton}"
        return f"{self.gpu}, {versions}, {self.date}"


@dataclass(frozen=True)
class Timing:
    """Times of one launch in milliseconds, by device events, with L2 cleared before each launch.

    `first_call_ms` holds compilation and the first launch, by the host's clock.
    """

    first_call_ms: float
    median_ms: float
    p20_ms: float
    p80_ms: float
    launches: int
    method: str


@dataclass(frozen=True)
class PrefixState:
    """The compiled kernel on the first `tiles` tiles of K and V, compared with float64: error and tolerance."""

    tiles: int
    keys: int
    error: float
    tolerance: float
    within_tolerance: bool


@dataclass(frozen=True)
class Measurement:
    """One Experiment on the GPU. `error`, `tolerance` and `output` are the worst element against its tolerance."""

    experiment: dict[str, Any]
    error: float
    tolerance: float
    output: str
    within_tolerance: bool
    timing: Timing | None
    prefixes: tuple[PrefixState, ...]
    provenance: Provenance
