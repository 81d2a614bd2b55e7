"""Compiles the rung "pipelined" for an H200 over tile sizes, warps and stages, and writes explain/recordings/tuning-compiled.json: what the compiler says of each, and
no times. No GPU needed; some two minutes.

nice python scripts/record_tuning_compiled.py
"""

from __future__ import annotations

import json
import os
import platform
import sys
from dataclasses import asdict
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
os.environ["TRITON_INTERPRET"] = "0"

import torch
import triton

from explain.compile.handler import CompileError, compiled_launches
from explain.device.measurement import Provenance
from explain.gpus import DEFAULT, GPUS
from explain.records.code import digest_of
from explain.tuning_grid import COMPILED, Grid, Point, Tuning
from kernels.rungs import pipelined

RUNG = "pipelined"
SHAPE = (2, 16, 8192, 128)
SETTINGS = tuple(product((64, 128, 256), (32, 64, 128), (4, 8), (1, 2, 3, 4)))
"""(BLOCK_M, BLOCK_N, warps, stages)."""


def compiled(setting: tuple[int, int, int, int]) -> Point:
    """What the compiler says of one setting. The length of the sequence is no part of it, so short tensors will do."""
    block_m, block_n, warps, stages = setting
    q, k, v = (torch.zeros(1, 1, 1024, SHAPE[3], dtype=torch.bfloat16) for _ in range(3))

    def launch() -> Any:
        return pipelined.attention(q, k, v, block_m=block_m, block_n=block_n, warps=warps, stages=stages)

    gpu = GPUS[DEFAULT]
    try:
        cost = compiled_launches(launch, gpu.compute_capability, lambda *_: None)[0][0]
    except CompileError as error:
        return Point(*setting, trouble="error", why=str(error))
    fits = cost.shared_bytes <= gpu.shared_bytes
    return Point(
        *setting,
        trouble="" if fits else "shared memory",
        why="" if fits else f"{cost.shared_bytes:,} bytes of the {gpu.shared_bytes:,} that a program may have",
        shared_bytes=cost.shared_bytes,
        registers=cost.registers,
        spills=cost.stack_bytes // 4,
    )


def main() -> None:
    points = []
    for setting in SETTINGS:
        points.append(compiled(setting))
        print(points[-1], flush=True)
    batch, heads, seq_len, head_dim = SHAPE
    grid = Grid(
        RUNG,
        digest_of(pipelined.__name__),
        SHAPE,
        "bf16",
        False,
        4.0 * batch * heads * seq_len**2 * head_dim,
        tuple(points),
    )
    gpu = GPUS[DEFAULT]
    where = Provenance(
        gpu.name, "", "", torch.__version__, triton.__version__, platform.python_version(), datetime.now(UTC).date().isoformat()
    )  # fmt: skip
    tuning = Tuning(where, "", f"compiled for {gpu.target} on a machine without a GPU", grids=(grid,))
    part = COMPILED.with_suffix(".part")
    part.write_text(json.dumps(asdict(tuning), indent=1), encoding="utf-8")
    part.replace(COMPILED)


if __name__ == "__main__":
    main()
