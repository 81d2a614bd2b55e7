"""A kernel compiled for a GPU that is not there: what the compiler says, kept, cancelled, refused in words."""

from __future__ import annotations

import json
import os
import time
from contextlib import nullcontext
from dataclasses import replace
from importlib import metadata
from typing import Any

import pytest

from explain import cli, recordings
from explain.chapters.flash_attention.tiles import tile
from explain.commands import compile as command
from explain.compile import service
from explain.compile.cost import LaunchCost, allocated, occupancy, too_large
from explain.compile.service import COMPILE_WORKER, Answer, Compiler
from explain.experiment import Experiment
from explain.gpus import GPUS
from explain.plain import plain
from explain.recordings.tile_costs import recorded_grid
from explain.workers import WorkerError
from kernels.catalog import KERNELS

SMALL = Experiment.of("flash_attention", {"seq_len": 64, "head_dim": 16, "dtype": "fp16"}, "normal")


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def compiler(monkeypatch, cache, compile_workers):
    """A compiler with a cache of its own, and nothing recorded."""
    monkeypatch.setenv("TILESCOPE_CACHE", str(cache))
    monkeypatch.setattr(service, "_records", lambda: ({}, {}))
    made = Compiler()
    made._pool = compile_workers
    return made


def recorded() -> dict[str, Any]:
    record = recordings.measured(service.RECORDED)
    assert record is not None
    return record


def answer_of(compiler: Compiler, experiment: Experiment, capability: int, seconds: float = 600) -> Answer:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        answer = compiler.look(experiment, capability)
        if answer and not answer.working:
            return answer
        time.sleep(0.05)
    raise AssertionError(f"nothing within {seconds} s")


def test_a_kernel_is_compiled_without_a_gpu_in_the_background_once(compiler):
    assert compiler.look(SMALL, 90) is None
    compiler.start(SMALL, 90)
    known = compiler.look(SMALL, 90)
    assert known
    assert known.working  # a page does not wait for the compiler
    answer = answer_of(compiler, SMALL, 90)
    assert answer.origin == "compiled"
    (launch,) = answer.cost.launches
    assert launch.kernel == "flash_attention_kernel"
    assert launch.shared_bytes > 16 * 16 * 2  # more than one tile of K
    assert 16 < launch.registers <= 255
    assert launch.num_warps == 4
    assert launch.seconds > 0
    assert answer.cost.triton == metadata.version("triton")
    # Another process has it from the disk: this one's worker could not answer.
    other = Compiler(replace(COMPILE_WORKER, target="explain.no_such_module:handle"))
    try:
        assert other.look(SMALL, 90) == answer
        assert other.look(SMALL, 80) is None  # another target is another question
        assert other.look(SMALL.with_(block_n=32), 90) is None
    finally:
        other.close()


def test_every_launch_of_an_experiment_is_compiled(compiler):
    cost = compiler.compile(Experiment.of("attention_standard", {"seq_len": 64, "dtype": "fp16"}, "normal"), 80)
    assert [launch.kernel for launch in cost.launches] == [
        "attention_scores_kernel",
        "softmax_row_kernel",
        "attention_values_kernel",
    ]


def test_a_tile_no_tensor_core_takes_is_refused_in_words(compiler):
    thin = SMALL.with_(block_n=8)
    compiler.start(thin, 90)
    answer = answer_of(compiler, thin, 90)
    assert "sums over 16 elements or more" in answer.error
    assert "Traceback" not in answer.error
    assert compiler.compile(SMALL, 90)  # the worker is well


def test_what_the_assembler_refuses_is_said_in_its_last_words():
    from triton.runtime.errors import PTXASError

    from explain.compile.handler import _explained

    said = (
        "`ptxas` failed with error code 255\n`ptxas` stderr:\nptxas x.ptx, line 3; error   : Unknown symbol "
        "'y'\nRepro command: ptxas x.ptx\n"
    )
    words = _explained(PTXASError(said), 90)
    assert words.endswith("for sm_90: ptxas x.ptx, line 3; error   : Unknown symbol 'y'")


def test_a_kernel_launched_again_and_again_is_compiled_once(compiler):
    rounds = Experiment.of("softmax_split", {"rows": 1, "cols": 256, "block_n": 16, "order": "tree"}, "normal")
    names = [launch.kernel for launch in compiler.compile(rounds, 90).launches]
    assert names.count("softmax_partial_kernel") == names.count("softmax_write_kernel") == 1
    assert names.count("softmax_merge_kernel") <= 3  # of four rounds: an argument that is 1 is compiled apart


def test_all_that_compile_share_the_workers_of_one_process(compiler, request):
    assert request.node.get_closest_marker("xdist_group").args == ("compile",)
    if "PYTEST_XDIST_WORKER" in os.environ:
        assert request.node.nodeid.endswith("@compile")  # by this pytest-xdist tells who runs it


def test_a_long_compilation_keeps_nobody_else_waiting_and_can_be_stopped(compiler):
    long, short = tile(128, 128, head_dim=128, dtype="fp32"), SMALL.with_(head_dim=32)
    compiler.start(long, 75)
    compiler.start(short, 90)
    assert answer_of(compiler, short, 90).cost is not None
    assert compiler.look(long, 75).working
    compiler.cancel(long, 75)
    assert answer_of(compiler, long, 75).error == "The compilation was stopped."


def test_a_hall_that_compiles_everything_is_told_to_wait(compiler):
    compiler._jobs.most_running = 0
    compiler.start(SMALL.with_(causal=True), 90)
    answer = answer_of(compiler, SMALL.with_(causal=True), 90)
    assert "0 others are running" in answer.error


def test_without_triton_what_was_not_recorded_is_said_in_words(compiler, monkeypatch):
    def missing(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(service, "has_triton", lambda: False)
    monkeypatch.setattr(metadata, "version", missing)
    service._version.cache_clear()
    compiler.start(SMALL.with_(causal=True), 90)
    assert "Triton runs on Linux only" in answer_of(compiler, SMALL.with_(causal=True), 90).error
    service._version.cache_clear()


def test_the_shipped_costs_are_those_of_the_kernels_as_they_are():
    record = recorded()
    kernels = {experiment.kernel for experiment, _ in recorded_grid()}
    assert record["code"] == {name: KERNELS[name].code for name in kernels}, "run python -m explain record tile-costs"
    compiler = Compiler(replace(COMPILE_WORKER, target="explain.no_such_module:handle"))
    for experiment, capability in recorded_grid():
        answer = compiler.look(experiment, capability)
        assert answer.origin == "recorded"


def test_a_shipped_cost_is_what_the_compiler_says(compiler):
    record = recorded()
    if record["costs"][0]["triton"] != metadata.version("triton"):
        pytest.skip("recorded with another triton")
    said = plain(compiler.compile(tile(64, 32), 90))
    (shipped,) = (
        cost
        for cost in record["costs"]
        if (cost["kernel"], cost["capability"], cost["parameters"]) == (said["kernel"], 90, said["parameters"])
    )
    for cost in (said, shipped):
        del cost["launches"][0]["seconds"], cost["date"]
    assert json.loads(json.dumps(said)) == shipped


def cost(shared: int, registers: int, num_warps: int = 4) -> LaunchCost:
    return LaunchCost("kernel", num_warps, 2, shared, registers, 0, 0, 0, 0.1)


@pytest.mark.parametrize(
    ("gpu", "launch", "programs", "limit"),
    [
        ("H100", cost(0, 40), 12, "registers"),  # 51 warps of 40 × 32 registers fit; they are counted by fours: 48
        ("H100", cost(0, 16), 16, "warps"),
        ("H100", cost(0, 128), 4, "registers"),
        ("H100", cost(0, 129), 3, "registers"),  # a warp's registers come by 256: 16 warps no longer fit
        ("H100", cost(40960, 64), 5, "shared memory"),  # 228 KiB / (40 KiB + 1 KiB that CUDA keeps)
        ("H100", cost(16, 16, 1), 32, "programs"),
        ("T4", cost(32768, 64), 2, "shared memory"),
        ("RTX 4090", cost(0, 32), 12, "warps"),
        ("H100", cost(232449, 64), 0, "shared memory"),
    ],
)
def test_occupancy_is_what_the_limits_of_an_sm_allow(gpu, launch, programs, limit):
    found = occupancy(launch, GPUS[gpu])
    assert (found.programs, found.limit) == (programs, limit)


@pytest.mark.parametrize(("gpu", "shared"), [("H200", 41_984), ("T4", 40_960)])
def test_a_program_takes_what_is_allocated_to_it_with_the_part_that_cuda_reserves(gpu, shared):
    taken = allocated(cost(40_960, 129), GPUS[gpu])
    assert (taken["shared memory"], taken["registers"]) == (shared, 4 * 4352)  # 129 × 32, rounded up to 256s


def test_a_tile_that_does_not_fit_says_what_it_needs_and_what_there_is():
    assert too_large(cost(65536, 64), GPUS["T4"]) == ""
    assert "needs 65,552 bytes of shared memory. One program may have 65,536 " in too_large(cost(65552, 64), GPUS["T4"])


FOREIGN = """
import torch, triton, triton.language as tl

@triton.autotune([triton.Config({"BLOCK": 128}, num_warps=8), triton.Config({"BLOCK": 64})], key=["n"])
@triton.jit
def scale_kernel(x_ptr, y_ptr, n, factor, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + at, tl.load(x_ptr + at, mask=at < n) * factor, mask=at < n)

@triton.jit
def square_kernel(x_ptr, y_ptr, SIDE: tl.constexpr):
    at = tl.arange(0, SIDE)[:, None] * SIDE + tl.arange(0, SIDE)[None, :]
    x = tl.load(x_ptr + at)
    tl.store(y_ptr + at, tl.dot(x, x))

def main(n=1000):
    x, y = torch.randn(n), torch.empty(n)
    scale_kernel[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, y, n, 2.5)
    square_kernel[(1,)](torch.randn(16, 16), torch.empty(16, 16), SIDE=16)
    torch.testing.assert_close(y, 2.5 * x)

def small():
    square_kernel[(1,)](torch.randn(8, 8), torch.empty(8, 8), SIDE=8)

def wrong():
    square_kernel[(1,)](torch.randn(8, 8), SIDE=8)

def nothing():
    return torch.ones(3)
"""


def test_the_launches_of_any_file_are_compiled_though_the_result_is_then_wrong(compiler, tmp_path):
    (tmp_path / "mine.py").write_text(FOREIGN)
    cost = compiler.compile_file(tmp_path / "mine.py", "main", 90)
    assert [(one.kernel, one.num_warps) for one in cost.launches] == [("scale_kernel", 8), ("square_kernel", 4)]
    assert all(one.registers > 0 for one in cost.launches)
    assert (cost.kernel, cost.capability, cost.triton) == ("mine.py:main", 90, metadata.version("triton"))


@pytest.mark.parametrize(
    ("function", "words"),
    [("small", "16 elements"), ("wrong", "y_ptr"), ("nothing", "no Triton kernel"), ("gone", "no function gone")],
)
def test_a_file_that_cannot_be_compiled_says_why(compiler, tmp_path, function, words):
    (tmp_path / "mine.py").write_text(FOREIGN)
    with pytest.raises(WorkerError, match=words):
        compiler.compile_file(tmp_path / "mine.py", function, 90)


def test_the_command_line_names_a_file_that_is_not_there(compiler, monkeypatch, capsys):
    monkeypatch.setattr(command, "Compiler", lambda: compiler)
    monkeypatch.setattr(command, "closing", nullcontext)
    assert cli.main(["compile", "some.py"]) == 2
    said = capsys.readouterr()
    assert "some.py" in said.err
    assert "Traceback" not in said.err
    assert not said.out
