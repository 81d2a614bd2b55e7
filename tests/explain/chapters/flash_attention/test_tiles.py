"""Memory hierarchy and FlashAttention in numbers: tiles, trips to HBM, and pictures that are to scale."""

from __future__ import annotations

import inspect
import re

import pytest

import kernels.attention
from explain import lessons
from explain.chapters.flash_attention import algorithm as paper
from explain.chapters.flash_attention import figures as flash
from explain.chapters.flash_attention import tiles
from explain.chapters.memory_hierarchy import figures as memory
from explain.compile.cost import Cost, LaunchCost
from explain.experiment import Experiment
from explain.figures import numbers
from explain.gpus import GPUS, known_as
from explain.run_experiment import run_traced
from explain.trace.model import Trace

RAGGED = {"seq_len": 40, "kv_len": 56, "head_dim": 24, "block_m": 16, "block_n": 32, "heads": 2}


def traced(experiment: Experiment) -> Trace:
    return run_traced(experiment, [], lambda *_: None)[0]


def cost(**changes: int) -> Cost:
    launch = {"shared_bytes": 40960, "registers": 128, "stack_bytes": 0, "spill_store_bytes": 0, "spill_load_bytes": 0}
    return Cost(
        "flash_attention",
        {},
        90,
        (LaunchCost("k", 4, 2, **{**launch, **changes}, seconds=1.0),),
        "3",
        "12",
        "2026-11-21",
    )


def boxes(picture: str) -> list[tuple[float, float]]:
    return [(float(w), float(h)) for w, h in re.findall(r'<rect [^>]*width="([\d.]+)" height="([\d.]+)"', picture)]


@pytest.mark.parametrize("causal", [False, True])
def test_every_trip_of_standard_attention_is_in_formula_and_trace_alike(causal):
    experiment = Experiment.of("attention_standard", {**RAGGED, "causal": causal}, "normal")
    trace = traced(experiment)
    found = list(memory.trips(experiment, trace))
    assert [trip.launch for trip in found] == [1, 1, 1, 2, 2, 3, 3, 3]
    assert all(trip.traced == trip.term.bytes > 0 for trip in found)
    table = memory.trips_table(experiment, trace)
    large = 4 * 2 * 40 * 56 * 4  # four trips of two heads' scores
    assert f"{large:,} | {large:,}" in table


def test_each_element_of_q_is_read_once_a_tile_of_keys():
    experiment = Experiment.of("attention_standard", RAGGED, "normal")
    table = memory.product_reads(experiment, traced(experiment))
    assert "| Q | ⌈56 / 32⌉ = 2 | 2 | 2 |" in table
    assert "| K | ⌈40 / 16⌉ = 3 | 3 | 3 |" in table


@pytest.mark.parametrize("narrow", [False, True])
@pytest.mark.parametrize("gpu", GPUS.values(), ids=lambda gpu: gpu.name)
def test_areas_are_bytes(gpu, narrow):
    hbm, l2, *chip = (w * h for w, h in boxes(memory.sizes(gpu, narrow=narrow)))
    assert hbm / l2 == pytest.approx(gpu.hbm_bytes / gpu.l2_bytes, rel=2e-2)  # drawn to a hundredth of a pixel
    l2, shared, shared_sm, registers, registers_sm = chip
    assert shared / l2 == pytest.approx(gpu.shared_bytes_all / gpu.l2_bytes, rel=1e-2)
    assert registers / l2 == pytest.approx(gpu.register_bytes / gpu.l2_bytes, rel=1e-2)
    assert shared / shared_sm == pytest.approx(gpu.sms, rel=1e-2)
    assert registers / registers_sm == pytest.approx(gpu.sms, rel=1e-2)


def test_s_is_as_much_larger_than_q_as_n_is_than_d():
    drawn = boxes(memory.scores(2048, 64, "fp16", GPUS["H200"]))
    (q, height), (s, side) = drawn[0], drawn[4]
    assert height == side == s
    assert s / q == pytest.approx(2048 / 64, rel=1e-2)


def test_times_are_to_scale_and_what_nobody_measured_is_said():
    gpu = GPUS["H200"]
    drawn = [w for w, _ in boxes(memory.times(gpu, 2**34))]
    assert drawn[3] / drawn[2] == pytest.approx(gpu.latencies["hbm"].cycles / gpu.latencies["l2"].cycles, rel=1e-3)
    assert memory.times(GPUS["T4"], 2**34).count("no published figure") == 5
    minutes, seconds = divmod(round(gpu.latencies["hbm"].cycles / memory.REGISTER_CYCLES), 60)
    assert f"{minutes} min {seconds} s" in memory.times(gpu, 2**34)


def test_latencies_rise_from_level_to_level_and_name_their_source():
    for gpu in GPUS.values():
        cycles = [
            gpu.latencies[key].cycles for key in ("register", "shared", "l2", "hbm", "host") if key in gpu.latencies
        ]
        assert cycles == sorted(cycles)
        assert all(latency.source for latency in gpu.latencies.values())
    assert "python -m explain record latency" in GPUS["H200"].latencies["hbm"].source


def test_a_gpu_is_known_by_its_drivers_name():
    assert known_as("NVIDIA H200") == "H200"
    assert known_as("NVIDIA GeForce RTX 4090") == "RTX 4090"
    assert known_as("NVIDIA GeForce GTX 1080") is None


@pytest.mark.parametrize("head_dim", [32, 64, 128])
def test_the_theorem_with_its_constant_is_the_kernels_formula(head_dim):
    for row in tiles.reads(4096, head_dim):
        assert row.by_formula == row.by_theorem
        assert row.on_chip == 4 * row.block_m * head_dim


def test_a_tiles_parts_are_its_shapes():
    found = {part.name: part.bytes for part in tiles.parts(tiles.tile(64, 128).values)}
    assert found["Q tile"] == 64 * 64 * 2
    assert found["K tile"] == found["V tile"] == 128 * 64 * 2
    assert found["S, then P̃"] == 64 * 128 * 4
    assert found["acc (Õ)"] == 64 * 64 * 4


def test_a_tank_overflows_where_the_tile_is_larger():
    small, large = tiles.tile(64, 64), tiles.tile(256, 256, head_dim=128, dtype="fp32")
    shared, registers = flash.tanks(small.values, GPUS["H200"], None)
    assert "overflows" not in shared + registers
    assert "not compiled yet" in shared
    shared, registers = flash.tanks(large.values, GPUS["H200"], None)
    needed = sum(part.bytes for part in tiles.parts(large.values) if part.place == "shared")
    assert f"overflows by {needed - GPUS['H200'].shared_bytes:,} B" in shared
    assert "overflows" in registers


def test_the_compilers_numbers_stand_beside_the_formula():
    gpu = GPUS["H200"]
    calm, spilled = cost(), cost(registers=255, stack_bytes=100, spill_store_bytes=120, spill_load_bytes=140)
    shared, registers = flash.tanks(tiles.tile(64, 64).values, gpu, spilled.launches[0])
    assert "40,960 B" in shared
    assert f"spills {numbers.capacity(100 * 128)}" in registers
    assert "spills" not in shared
    assert "| 128 | none | **4** (16 of 64 warps) | registers |" in flash.cost_table(calm, gpu)
    assert "**120 B** stored, 140 B loaded" in flash.cost_table(spilled, gpu)
    assert "4 programs" in flash.verdict(calm, gpu)
    assert "100 bytes" in flash.verdict(spilled, gpu)
    assert "300,000 of the 232,448" in flash.verdict(cost(shared_bytes=300000), gpu)
    drawn = flash.grid({(64, 64): calm, (128, 128): spilled}, gpu, (64, 64))
    assert drawn.count("not compiled") == 14
    assert "spills 120 B" in drawn


def test_the_loop_orders_shares_are_all_the_bytes_there_are():
    experiment = Experiment.of("flash_attention", RAGGED, "normal")
    for run in (experiment, lessons.first_order(experiment)):
        found = flash.shares(run, trace := traced(run))
        moved = trace.traffic()
        assert sum(s.read for s in found) == sum(s.traced_read for s in found) == moved["read_bytes"]
        assert sum(s.written for s in found) == sum(s.traced_written for s in found) == moved["written_bytes"]
    state, *_ = flash.shares(experiment, traced(experiment))
    assert state.read == 0  # FlashAttention-2 never reads O back


def test_the_bars_hold_all_bytes_of_both_kernels():
    experiment = Experiment.of("flash_attention", RAGGED, "normal")
    runs = [experiment.through("attention_standard"), experiment]
    formulas = [(run.kernel, run.entry.formula(run.values)) for run in runs]
    drawn = flash.traffic_bars(formulas, flash.WITH_SCORES)
    parts = [int(found.replace(",", "")) for found in re.findall(r"<title>[^<]*: ([\d,]+) B</title>", drawn)]
    assert sum(parts) == sum(formula.read_bytes + formula.written_bytes for _, formula in formulas)
    assert len(re.findall(r"<title>S and P", drawn)) == 2  # read and written, by standard attention only


def test_each_quoted_line_is_in_the_kernel():
    source = inspect.getsource(kernels.attention)
    own = [line.strip() for line in source.splitlines()]
    for _, _, codes in paper.ALGORITHM:
        for code in codes:
            assert code in own, code
    assert [n for n, _, _ in paper.ALGORITHM] == ["1–2", *map(str, range(3, 14)), "14–15"]
