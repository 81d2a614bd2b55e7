"""FlashAttention in base 2 compiles without a GPU and saves the multiplications by log2 e."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from explain import ROOT


def ptx(kernel: str, dtype: str) -> tuple[int, int, int]:
    """How often the PTX for Hopper has ex2, and the constant log2 e, and the shared memory in bytes."""
    command = [sys.executable, str(Path(__file__).with_name("compile_for.py")), kernel, dtype, "90"]
    environment = {**os.environ, "TRITON_INTERPRET": "0", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    ex2, log2_e, shared = map(int, done.stdout.split())
    return ex2, log2_e, shared


@pytest.mark.parametrize("dtype", ["fp32", "fp16", "bf16"])
def test_it_compiles_for_hopper_and_multiplies_by_log2_e_once_a_row_instead_of_at_every_exponential(dtype):
    ex2, log2_e, shared = ptx("flash_attention_exp2_kernel", dtype)
    assert ex2 > 1
    assert 8 * log2_e < ex2  # in the logarithm of l, once for each row that a thread has
    assert 0 < shared <= 227 * 1024
    assert ptx("flash_attention_kernel", dtype)[:2] == (ex2, ex2)
