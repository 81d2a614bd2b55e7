"""The tuning grid's rungs compiled for an H200 at all settings: shared memory, registers, spills.

Needs no GPU; takes about two minutes per rung. A rung with unchanged code is skipped.
"""

from __future__ import annotations

import argparse
import importlib
import os
import platform
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from explain.chapters.speed.tuning import COMPILED, RUNGS, Point, Tuning, empty, load, save
from explain.device.measurement import Provenance
from explain.gpus import DEFAULT, GPUS
from explain.records.code import commit

GPU = GPUS[DEFAULT]
SHAPE = (2, 16, 8192, 128)


def run(parsed: argparse.Namespace) -> int:
    """Compiles what is missing or stale and writes explain/recordings/tuning-compiled.json; the exit status."""
    os.environ["TRITON_INTERPRET"] = "0"  # before triton is imported
    import torch
    import triton

    before, grids = load(COMPILED), []
    for grid in (empty(rung, SHAPE, causal=False) for rung in RUNGS):
        there = before.of(grid.rung) if before and before.provenance.triton == triton.__version__ else None
        if there is None or replace(there, points=()) != replace(grid, points=()):
            there = replace(grid, points=tuple(compiled(grid.rung, point) for point in grid.points))
        grids.append(there)
    today = datetime.now(UTC).date().isoformat()
    where = Provenance(GPU.name, "", "", torch.__version__, triton.__version__, platform.python_version(), today)
    method = f"compiled for {GPU.target} on a machine without a GPU"
    save(COMPILED, Tuning(where, commit(), method, grids=tuple(grids)))
    return 0


def compiled(rung: str, point: Point) -> Point:
    """The setting with the compiler's numbers. They do not depend on the sequence length, so the tensors are short."""
    import torch

    from explain.compile.handler import CompileError, compiled_launches

    q, k, v = (torch.zeros(1, 1, 1024, SHAPE[3], dtype=torch.bfloat16) for _ in range(3))
    attention = importlib.import_module(f"kernels.rungs.{rung}").attention

    def launch() -> Any:
        return attention(q, k, v, block_m=point.block_m, block_n=point.block_n, warps=point.warps, stages=point.stages)

    print(rung, point.block_m, point.block_n, point.warps, point.stages, flush=True)
    try:
        cost = compiled_launches(launch, GPU.compute_capability, lambda *_: None)[0][0]
    except CompileError as error:
        return replace(point, failure="error", why=str(error))
    fits = cost.shared_bytes <= GPU.shared_bytes
    return replace(
        point,
        failure="" if fits else "shared memory",
        why="" if fits else f"{cost.shared_bytes:,} bytes; the limit for a program is {GPU.shared_bytes:,}",
        shared_bytes=cost.shared_bytes,
        registers=cost.registers,
        spills=cost.stack_bytes // 4,
    )
