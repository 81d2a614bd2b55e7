"""Runs recorded beforehand and shipped: the chapters' own traces, and what was measured on a real GPU.

`python -m explain record` makes the traces anew; a test holds them against the kernels as they are.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from explain.experiment import Experiment

FOLDER = Path(__file__).parent


def path_of(experiment: Experiment) -> Path:
    """Where this experiment's trace is shipped, if it is."""
    return FOLDER / f"{experiment.kernel}-{hashlib.sha256(experiment.key.encode()).hexdigest()[:12]}.tilescope"


def output_path_of(experiment: Experiment, reverse_keys: bool) -> Path:
    """Where this experiment's output beside float64 is shipped, if it is."""
    order = "-reversed" if reverse_keys else ""
    return FOLDER / f"{experiment.kernel}-{hashlib.sha256(experiment.key.encode()).hexdigest()[:12]}{order}.npz"


def outputs() -> Iterator[Path]:
    """All shipped outputs."""
    yield from sorted(FOLDER.glob("*.npz"))


def traces() -> Iterator[Path]:
    """All shipped traces."""
    yield from sorted(FOLDER.glob("*.tilescope"))


def measured(name: str) -> dict[str, Any] | None:
    """What was recorded on a GPU under this name, with its provenance; None when it was not."""
    path = FOLDER / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else None
