"""Every plain rung of the ladder in Triton's interpreter, and what each of them promises."""

from __future__ import annotations

import pytest
import torch

from benchmarks.speed_cases import Case, variants
from explain.speed import RUNG
from explain.trace.fidelity import interpreter_fidelity
from kernels.gpu import shared_memory
from kernels.rungs import ORDER
from kernels.rungs.shape import tile
from tests.kernels.rungs import PLAIN, experiments, module, verdict


@pytest.fixture(autouse=True)
def fidelity():
    with interpreter_fidelity():
        yield


@pytest.mark.parametrize("rung", PLAIN)
def test_every_eighth_experiment_of_the_grid(rung):
    missed = []
    for e in experiments(rung, 8):
        sides = {name: e.values[name] for name in ("block_m", "block_n")}
        if not (v := verdict(module(rung), e, "cpu", **sides)).within_budget:
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


def test_what_the_copy_engine_cannot_address_is_named():
    x = torch.randn(1, 2, 8, 65).half()
    for name, q in (("q", x[..., 1:]), ("q", x[..., :64]), ("q", x[..., ::2])):
        with pytest.raises(ValueError, match=f"{name} of strides"):
            module("tma").attention(q, q, q)
    thin = torch.empty(1, 1, 8, 16).half()[..., :12]  # its rows are aligned, those of an O of 12 features are not
    with pytest.raises(ValueError, match="o of strides"):
        module("tma").attention(thin, thin, thin)


@pytest.mark.parametrize("rung", PLAIN)
def test_strides_are_respected(rung):
    q, k, v = (torch.randn(2, 37, 3, 32).half().transpose(1, 2) for _ in range(3))
    strided, whole = (
        module(rung).attention(*tensors, causal=True, block_m=16, block_n=16)
        for tensors in ((q, k, v), [t.contiguous() for t in (q, k, v)])
    )
    assert all(torch.equal(one, other) for one, other in zip(strided, whole, strict=True))


@pytest.mark.parametrize("rung", PLAIN)
def test_a_query_that_sees_no_key_gives_zeros_and_an_lse_of_minus_infinity(rung):
    q, kv = torch.randn(1, 1, 40, 16).half(), torch.randn(1, 1, 8, 16).half()
    o, lse = module(rung).attention(q, kv, kv, causal=True, block_m=16, block_n=16)
    assert not o[:, :, :32].any()
    assert (lse[:, :, :32] == -torch.inf).all()
    assert lse[:, :, 32:].isfinite().all()


@pytest.mark.parametrize(("head_dim", "stages"), [(16, 1), (64, 3), (128, 1), (128, 3), (256, 1), (256, 4)])
def test_a_tile_is_chosen_that_fits_shared_memory(head_dim, stages):
    q = torch.empty(1, 1, 1, head_dim, dtype=torch.float16)
    rows, keys = tile(q, stages)
    assert min(rows, keys) >= 16
    assert (rows + 2 * stages * keys) * head_dim * 2 < shared_memory(q)
    assert (rows, keys) == (128, 64) or (rows + 4 * stages * keys) * head_dim * 2 > shared_memory(q) - 4096


def test_a_rung_is_called_alike_on_every_step_and_told_apart_in_the_benchmark():
    case = Case("attention", (1, 2, 8192, 64), "bf16", 1.0, "FLOP/s")
    names = [variant.name for variant in variants(case, tune=False)]
    assert [name for name in names if name.startswith(RUNG)] == [f"{RUNG}{rung}" for rung in ORDER]
    assert len(set(names)) == len(names)


def test_the_slowest_rung_is_not_timed_at_the_longest_rows():
    case = Case("attention", (1, 2, 16384, 64), "bf16", 1.0, "FLOP/s")
    names = [variant.name for variant in variants(case, tune=False)]
    assert [name for name in names if name.startswith(RUNG)] == [f"{RUNG}{rung}" for rung in ORDER[1:]]
