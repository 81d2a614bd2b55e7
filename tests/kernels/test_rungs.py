"""Every plain rung of the ladder in Triton's interpreter, and what each of them promises."""

from __future__ import annotations

import pytest
import torch

from benchmarks.speed_cases import Case, variants
from explain.speed import RUNG
from explain.trace.fidelity import interpreter_fidelity
from kernels.rungs import ORDER
from tests.kernels.rungs import PLAIN, experiments, module, verdict


@pytest.mark.parametrize("rung", PLAIN)
def test_every_sixth_experiment_of_the_grid(rung):
    missed = []
    with interpreter_fidelity():
        for e in experiments(rung, 6):
            tile = {name: e.values[name] for name in ("block_m", "block_n")}
            if not (v := verdict(module(rung), e, "cpu", **tile)).within_budget:
                missed.append((e.key, v))
    assert not missed


@pytest.mark.parametrize("rung", [rung for rung in ORDER if rung != "naive_fp32"])
def test_what_it_does_not_take_is_named(rung):
    x = torch.randn(1, 2, 8, 64)
    with pytest.raises(ValueError, match=r"q of dtype torch\.float32: this kernel takes float16 and bfloat16"):
        module(rung).attention(x, x, x)
    half = x.half()
    with pytest.raises(ValueError, match="v of shape"):
        module(rung).attention(half, half, half[:, :, :4])


def test_a_rung_is_called_alike_on_every_step_and_told_apart_in_the_benchmark():
    case = Case("attention", (1, 2, 8192, 64), "bf16", 1.0, "FLOP/s")
    names = [variant.name for variant in variants(case, tune=False)]
    assert [name for name in names if name.startswith(RUNG)] == [f"{RUNG}{rung}" for rung in ORDER]
    assert len(set(names)) == len(names)


def test_the_slowest_rung_is_not_timed_at_the_longest_rows():
    case = Case("attention", (1, 2, 16384, 64), "bf16", 1.0, "FLOP/s")
    names = [variant.name for variant in variants(case, tune=False)]
    assert [name for name in names if name.startswith(RUNG)] == [f"{RUNG}{rung}" for rung in ORDER[1:]]
