"""FlashAttention in base 2 compiles without a GPU and saves the multiplications by log2 e."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import product
from pathlib import Path

import pytest

from explain import ROOT

KERNELS = ("flash_attention_exp2_kernel", "flash_attention_kernel")
DTYPES = ("fp32", "fp16", "bf16")


@pytest.fixture(scope="module")
def ptx() -> dict[tuple[str, str], list[int]]:
    """By kernel and dtype: how often the PTX for Hopper has ex2, and log2 e; the shared memory in bytes."""
    wanted = [f"{kernel}:{dtype}" for kernel in KERNELS for dtype in DTYPES]
    command = [sys.executable, str(Path(__file__).with_name("compile_for.py")), "90", *wanted]
    environment = {**os.environ, "TRITON_INTERPRET": "0", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=900)
    assert done.returncode == 0, done.stderr
    found = [[int(number) for number in line.split()] for line in done.stdout.splitlines()]
    return dict(zip(product(KERNELS, DTYPES), found, strict=True))


@pytest.mark.parametrize("dtype", DTYPES)
def test_it_compiles_for_hopper_and_multiplies_by_log2_e_once_a_row_instead_of_at_every_exponential(ptx, dtype):
    ex2, log2_e, shared = ptx["flash_attention_exp2_kernel", dtype]
    assert ex2 > 1
    assert 8 * log2_e < ex2  # in the logarithm of l, once for each row that a thread has
    assert 0 < shared <= 227 * 1024
    assert ptx["flash_attention_kernel", dtype][:2] == [ex2, ex2]
