"""What ships with Tilescope: the chapters' traces and outputs, and measurements of a real GPU.

`python -m explain record` makes them again; each kind has a module here. A test compares the traces with the kernels.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from explain.experiment import Experiment
from explain.records import results

FOLDER = results.RECORDINGS


def path_of(experiment: Experiment) -> Path:
    """The path of this experiment's shipped trace, whether or not there is one."""
    return FOLDER / f"{experiment.kernel}-{hashlib.sha256(experiment.key.encode()).hexdigest()[:12]}.tilescope"


def output_path_of(experiment: Experiment, reverse_keys: bool) -> Path:
    """The path of this experiment's shipped output and its float64 reference, whether or not there is one."""
    order = "-reversed" if reverse_keys else ""
    return FOLDER / f"{experiment.kernel}-{hashlib.sha256(experiment.key.encode()).hexdigest()[:12]}{order}.npz"


def outputs() -> Iterator[Path]:
    """All shipped outputs."""
    yield from sorted(FOLDER.glob("*.npz"))


def traces() -> Iterator[Path]:
    """All shipped traces."""
    yield from sorted(FOLDER.glob("*.tilescope"))


def measured(name: str) -> dict[str, Any] | None:
    """The result recorded under this name, with its provenance; None if there is none. Raises ResultFileError."""
    path = FOLDER / f"{name}.json"
    return results.read(path) if path.exists() else None
