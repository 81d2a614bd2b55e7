"""The backward kernels to step through compile for Hopper without a GPU, with and without atomics."""

from __future__ import annotations

import re

import pytest

from explain.compile.listing import unpacked
from explain.experiment import Experiment

SIZES = {"seq_len": 64, "head_dim": 16, "block_m": 16, "block_n": 16, "causal": True}


@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
@pytest.mark.parametrize(
    ("kernel", "launches"),
    [("attention_backward_standard", 5), ("flash_attention_backward", 3), ("flash_attention_backward_atomic", 4)],
)
def test_it_compiles_for_hopper(compile_workers, tmp_path, kernel, launches, dtype):
    experiment = Experiment.of(kernel, {**SIZES, "dtype": dtype}, "normal")
    compile_workers.call({"experiment": experiment.to_json(), "capability": 90, "listing": str(tmp_path / "out")})
    listings = unpacked((tmp_path / "out").read_bytes())
    assert len(listings) == launches
    ptx = "\n".join(one.text for listing in listings for one in listing.ptx)
    assert bool(re.search(r"\b(atom|red)\.(global|gpu)", ptx)) == kernel.endswith("atomic")
    assert ("ex2.approx" in ptx) == kernel.startswith("flash")
