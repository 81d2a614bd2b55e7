"""Output: what a kernel computed, beside float64. Imports neither torch nor triton."""

from __future__ import annotations

import functools
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Output:
    """A kernel's main output, its float64 reference, and the tolerance of each element. Equal shapes, float64."""

    result: Floats
    expected: Floats
    allowed: Floats

    @classmethod
    def read(cls, path: Path) -> Output:
        """The output in a file that a trace worker wrote."""
        with np.load(path) as arrays:
            return cls(*(arrays[name].astype(np.float64) for name in ("result", "expected", "allowed")))

    def write(self, path: Path) -> None:
        """Writes the file at once or not at all. Raises OSError."""
        temporary = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            with temporary.open("wb") as file:
                np.savez_compressed(file, result=self.result, expected=self.expected, allowed=self.allowed)
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)

    @functools.cached_property
    def error(self) -> Floats:
        """|result − float64| of each element; 0 where both are the same infinity, or both are NaN."""
        with np.errstate(invalid="ignore"):
            same = (self.result == self.expected) | (np.isnan(self.result) & np.isnan(self.expected))
            return np.where(same, 0.0, np.abs(self.result - self.expected))

    @property
    def within_tolerance(self) -> bool:
        """Whether every element is within its tolerance."""
        return bool((self.error <= self.allowed).all())

    def most_of_tolerance(self) -> float:
        """The largest error ÷ tolerance of any element; 0 where the error is 0."""
        error = self.error
        with np.errstate(divide="ignore", invalid="ignore"):
            return float(np.where(error == 0, 0.0, error / self.allowed).max())

    def quantile(self, share: float) -> float:
        """This share of the elements has at most this error."""
        return float(np.quantile(self.error, share))

    def largest(self) -> float:
        """The largest error of any element."""
        return float(self.error.max())

    def changed_from(self, than: Output) -> int:
        """How many elements are not exactly the same number as in another run."""
        same = (self.result == than.result) | (np.isnan(self.result) & np.isnan(than.result))
        return int((~same).sum())
