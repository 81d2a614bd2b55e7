"""FlashAttention in base 2 compiles without a GPU and saves the multiplications by log2 e; and what Triton 3.6 asks."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from explain.compile.listing import unpacked
from explain.experiment import Experiment

SIZES = {"seq_len": 64, "head_dim": 16, "block_m": 64, "block_n": 64, "causal": True}


@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
def test_it_multiplies_by_log2_e_once_a_row_instead_of_at_every_exponential(compile_workers, tmp_path, dtype):
    counts = {}
    for kernel in ("flash_attention", "flash_attention_exp2"):
        experiment = Experiment.of(kernel, {**SIZES, "dtype": dtype}, "normal")
        asked = {"experiment": experiment.to_json(), "capability": 90, "listing": str(tmp_path / kernel)}
        compile_workers.call(asked)
        (listing,) = unpacked((tmp_path / kernel).read_bytes())
        ptx = "\n".join(one.text for one in listing.ptx)
        counts[kernel] = ptx.count("ex2.approx"), ptx.upper().count("0F3FB8AA3B")
    ex2, log2_e = counts["flash_attention_exp2"]
    assert ex2 > 1
    assert 8 * log2_e < ex2  # in the logarithm of l, once for each row that a thread has
    assert counts["flash_attention"] == (ex2, ex2)


KERNELS = Path(__file__).parents[2] / "kernels"


@pytest.mark.parametrize("module", [one.name for one in sorted(KERNELS.glob("*.py")) if ".jit" in one.read_text()])
def test_all_returns_of_a_device_function_have_as_many_values(module):
    """Triton 3.6 goes on after an `if` on a constant that has returned, and compares what comes after with it."""
    for function in ast.walk(ast.parse((KERNELS / module).read_text())):
        if isinstance(function, ast.FunctionDef) and any("jit" in ast.unparse(one) for one in function.decorator_list):
            returned = [one.value for one in ast.walk(function) if isinstance(one, ast.Return)]
            sizes = {len(value.elts) if isinstance(value, ast.Tuple) else 1 for value in returned}
            assert len(sizes) <= 1, function.name
