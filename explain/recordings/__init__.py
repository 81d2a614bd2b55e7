"""What ships with Tilescope: the chapters' traces and outputs, and measurements of a real GPU.

`python -m explain record` makes them again; each kind has a module here. A test compares the traces with the kernels.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from explain.experiment import Experiment
from explain.records import results

FOLDER = results.RECORDINGS


def path_of(experiment: Experiment) -> Path:
    """The path of this experiment's shipped trace, whether or not there is one."""
    return FOLDER / f"{_stem(experiment)}.tilescope"


def output_path_of(experiment: Experiment, reverse_keys: bool) -> Path:
    """The path of this experiment's shipped output and its float64 reference, whether or not there is one."""
    return FOLDER / f"{_stem(experiment)}{'-reversed' if reverse_keys else ''}.npz"


def _stem(experiment: Experiment) -> str:
    return f"{experiment.kernel}-{hashlib.sha256(experiment.key.encode()).hexdigest()[:12]}"


def files(ending: str) -> list[Path]:
    """All shipped traces, ".tilescope", or outputs, ".npz"."""
    return sorted(FOLDER.glob(f"*{ending}"))


def measured(name: str) -> dict[str, Any] | None:
    """The result recorded under this name, with its provenance; None if there is none. Raises ResultFileError."""
    path = FOLDER / f"{name}.json"
    return results.read(path) if path.exists() else None
