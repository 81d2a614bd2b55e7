"""Every Triton rung of the ladder in the interpreter, and the one idea of each."""

from __future__ import annotations

import json

import pytest
import torch

from explain.experiment import Experiment
from explain.records.plans import PLANS
from explain.trace.fidelity import interpreter_fidelity
from kernels import edits
from kernels.edits import Edit
from kernels.gpu import shared_memory
from kernels.launch import launcher, tensors
from kernels.rungs import GLUON, ORDER
from kernels.rungs.shape import tile
from kernels.verify import verify
from tests.kernels.quick import quick, tiles
from tests.kernels.rungs import PLAIN, experiments, module, verdict


@pytest.fixture(autouse=True)
def fidelity():
    with interpreter_fidelity():
        yield


@pytest.mark.parametrize("rung", PLAIN)
def test_every_twentieth_experiment_of_the_grid(rung):
    missed = []
    for e in quick(experiments(rung, 20)):
        sides = {name: e.values[name] for name in ("block_m", "block_n")}
        if not (v := verdict(module(rung), e, "cpu", **sides)).within_tolerance:
            missed.append((e.key, v))
    assert not missed


@pytest.mark.parametrize("rung", ORDER[1:])
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


@pytest.mark.parametrize("rung", GLUON)
def test_what_a_gluon_rung_does_not_take_is_named(rung):
    attention = module(rung).attention
    x = torch.randn(1, 2, 8, 64)
    half, thin = x.half(), x[..., :32].half().contiguous()
    with pytest.raises(ValueError, match="q has head_dim 32: this kernel takes 64 and 128"):
        attention(thin, thin, thin)
    with pytest.raises(ValueError, match="k of strides"):
        attention(half, torch.randn(1, 2, 8, 65).half()[..., :64], half)
    with pytest.raises(ValueError, match="sm_scale=0: this kernel takes a scale above 0"):
        attention(half, half, half, sm_scale=0)
    with pytest.raises(ValueError, match="q is on cpu: this kernel is made of a Hopper GPU's own instructions"):
        attention(half, half, half)


OTHERS = {  # a plain rung for other GPUs, and for the widest heads: its instruction, and a program's most KiB
    "80,fp16,64,tma": ("mma.sync", 163),
    "120,bf16,128,pipelined": ("mma.sync", 99),
    "90,bf16,256,pipelined": ("wgmma.mma_async", 227),
}


def test_every_rung_compiles_without_spilling_to_the_instructions_that_its_idea_is_about(compile_workers):
    hopper = {rung: f"90,bf16,128,{rung}" for rung in ORDER}
    script = {"script": "tests.kernels.compile_rung", "arguments": [*hopper.values(), *OTHERS]}
    printed = compile_workers.call(script)["printed"]
    all_found = {one["asked"]: one for one in map(json.loads, printed.splitlines())}
    assert list(all_found) == [*hopper.values(), *OTHERS]
    for asked, (instruction, most) in OTHERS.items():
        assert instruction in all_found[asked]["ptx"], asked
        assert all_found[asked]["shared"] <= most * 1024, asked
    found = {rung: all_found[asked] for rung, asked in hopper.items()}
    assert {rung: one["spills"] for rung, one in found.items()} == dict.fromkeys(ORDER, 0)
    assert max(one["shared"] for one in found.values()) <= 227 * 1024

    def rungs_with(instruction: str) -> tuple[str, ...]:
        return tuple(rung for rung in ORDER if instruction in found[rung]["ptx"])

    assert rungs_with("wgmma.mma_async") == ORDER[1:]
    assert rungs_with("cp.async.cg.shared") == ("pipelined",)
    assert rungs_with("cp.async.bulk.tensor") == ("tma", *GLUON)
    assert rungs_with("setmaxnreg") == GLUON
    log2_e = {rung: found[rung]["ptx"].upper().count("0F3FB8AA3B") for rung in ("bf16", "exp2")}
    assert 8 * log2_e["exp2"] < log2_e["bf16"]


def test_the_formulas_of_the_lower_rungs_count_the_keys_that_they_visit_under_a_mask():
    sizes = {"heads": 2, "seq_len": 1024, "head_dim": 64, "causal": True}
    flops = [(e := Experiment.of(f"rung:{rung}", sizes)).entry.formula(e.values).flops_of("matmul") for rung in ORDER]
    assert flops == [4 * 2 * 1024**2 * 64] * 3 + [2 * 2 * 1024**2 * 64] * (len(ORDER) - 3)


def test_the_plan_measures_every_rung_and_the_baselines_alike():
    experiments = PLANS["rungs"].experiments
    names = [f"rung:{rung}" for rung in ORDER] + ["fast:flash_attention_hopper", "torch:flash", "torch:cudnn"]
    settings = {(e.values["head_dim"], e.values["causal"]) for e in experiments}
    assert settings == {(128, False), (128, True), (64, False), (64, True)}
    assert [e.kernel for e in experiments] == 4 * names


@pytest.mark.parametrize("rung", PLAIN)
def test_a_rung_runs_its_own_module(rung):
    e = Experiment.of(f"rung:{rung}", {"seq_len": 70, "head_dim": 32, "dtype": "fp16", "causal": True}, "ascending")
    arrays = e.entry.make_inputs(e.preset, e.values, 0)
    verdict = verify(e.entry, e.values, arrays, launcher(e.entry, e.values, tensors(e.values, arrays, "cpu"))())
    assert verdict.within_tolerance, verdict


@pytest.mark.parametrize(
    ("rung", "old", "new"),
    [
        ("naive_fp32", "acc * alpha[:, None]", "acc"),
        ("bf16", "acc = tl.dot(p.to(v.dtype), v, acc * alpha[:, None])",
         "acc = (acc * alpha[:, None] + tl.dot(p.to(v.dtype), v)).to(v.dtype).to(tl.float32)"),
        ("exp2", "alpha = tl.exp2(m_i - m_safe)", "alpha = tl.exp(m_i - m_safe)"),
        ("causal", "tl.maximum(first_row + diagonal + 1, 0)", "tl.maximum(first_row + diagonal + BLOCK_N, 0)"),
        ("causal", "tl.minimum(first_row + BLOCK_M, seq_len) + diagonal", "first_row + diagonal"),
        ("causal", "whole = whole // BLOCK_N * BLOCK_N", "whole = (whole + BLOCK_N - 1) // BLOCK_N * BLOCK_N"),
        ("pipelined", "tl.cast(start, tl.int64) * stride_vn", "tl.cast(start, tl.int64) * stride_kd"),
        ("tma", "v_desc.load([batch, head // group, start, 0])", "v_desc.load([batch, head % group, start, 0])"),
    ],
)  # fmt: skip
def test_a_rung_that_is_broken_by_one_edit_misses(rung, old, new):
    broken = edits.load(f"kernels.rungs.{rung}", Edit(f"{rung} {new}", "attention_kernel", old, new))
    dtype = "fp32" if rung == "naive_fp32" else "bf16"
    wanted = [e for e in experiments(rung, 2) if e.values["dtype"] == dtype]
    wanted.sort(key=tiles, reverse=rung == "bf16")  # what is rounded at every tile shows where there are many
    sides = ("block_m", "block_n")
    assert any(
        not verdict(broken, e, "cpu", **{name: e.values[name] for name in sides}).within_tolerance for e in wanted
    )
