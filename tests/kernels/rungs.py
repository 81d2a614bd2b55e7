"""The ladder's rungs: each must pass the grid of FlashAttention-2 within its tolerance."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from types import ModuleType

from explain.experiment import Experiment
from explain.verification import grid
from kernels.catalog import KERNELS
from kernels.launch import tensors
from kernels.rungs import GLUON, ORDER
from kernels.verify import Verdict, verify

ENTRY = KERNELS["flash_attention"]
PLAIN = tuple(rung for rung in ORDER if rung not in GLUON)


def module(rung: str) -> ModuleType:
    """The rung's module."""
    return importlib.import_module(f"kernels.rungs.{rung}")


def experiments(rung: str, every: int) -> Iterator[Experiment]:
    """Every nth experiment of the grid that the rung takes."""
    for experiment in grid(ENTRY, every=every):
        if experiment.values["dtype"] != "fp32" or rung == "naive_fp32":
            yield experiment


def verdict(rung: ModuleType, experiment: Experiment, device: str, **tile: int) -> Verdict:
    """The verdict on the rung's worst element."""
    p = experiment.values
    arrays = ENTRY.make_inputs(experiment.preset, p, experiment.seed)
    outputs = rung.attention(**tensors(p, arrays, device), causal=p["causal"], **tile)
    return verify(ENTRY, p, arrays, dict(zip(ENTRY.outputs, outputs, strict=True)))
