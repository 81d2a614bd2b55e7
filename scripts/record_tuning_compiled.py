"""Compiles the rungs of the tuning grid for an H200 at all of its settings, and writes explain/recordings/tuning-compiled.json: the compiler's word on each, and no
times. No GPU needed; some two minutes a rung, none for one whose code has not changed.

nice python scripts/record_tuning_compiled.py
"""

from __future__ import annotations

import importlib
import os
import platform
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
os.environ["TRITON_INTERPRET"] = "0"

import torch
import triton

from benchmarks.tuning_grid import RUNGS, empty, save
from explain.chapters.speed.tuning import COMPILED, Point, Tuning, load
from explain.compile.handler import CompileError, compiled_launches
from explain.device.measurement import Provenance
from explain.gpus import DEFAULT, GPUS

GPU = GPUS[DEFAULT]
SHAPE = (2, 16, 8192, 128)


def compiled(rung: str, point: Point) -> Point:
    """The setting with what the compiler says of it. How long a sequence is plays no part, so short tensors will do."""
    q, k, v = (torch.zeros(1, 1, 1024, SHAPE[3], dtype=torch.bfloat16) for _ in range(3))
    attention = importlib.import_module(f"kernels.rungs.{rung}").attention

    def launch() -> Any:
        return attention(q, k, v, block_m=point.block_m, block_n=point.block_n, warps=point.warps, stages=point.stages)

    print(rung, point.block_m, point.block_n, point.warps, point.stages, flush=True)
    try:
        cost = compiled_launches(launch, GPU.compute_capability, lambda *_: None)[0][0]
    except CompileError as error:
        return replace(point, trouble="error", why=str(error))
    fits = cost.shared_bytes <= GPU.shared_bytes
    return replace(
        point,
        trouble="" if fits else "shared memory",
        why="" if fits else f"{cost.shared_bytes:,} bytes of the {GPU.shared_bytes:,} that a program may have",
        shared_bytes=cost.shared_bytes,
        registers=cost.registers,
        spills=cost.stack_bytes // 4,
    )


def main() -> None:
    before, grids = load(COMPILED), []
    for grid in (empty(rung, SHAPE, causal=False) for rung in RUNGS):
        there = before.of(grid.rung) if before and before.provenance.triton == triton.__version__ else None
        if there is None or replace(there, points=()) != replace(grid, points=()):
            there = replace(grid, points=tuple(compiled(grid.rung, point) for point in grid.points))
        grids.append(there)
    today = datetime.now(UTC).date().isoformat()
    where = Provenance(GPU.name, "", "", torch.__version__, triton.__version__, platform.python_version(), today)
    save(COMPILED, Tuning(where, "", f"compiled for {GPU.target} on a machine without a GPU", grids=tuple(grids)))


if __name__ == "__main__":
    main()
