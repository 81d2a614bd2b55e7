"""Memory hierarchy and FlashAttention in numbers: tiles, trips to HBM, and pictures that are to scale."""

from __future__ import annotations

import inspect
import re
from dataclasses import replace

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
from explain.gpus import GPUS, card, known_as
from explain.records import registry
from explain.run_experiment import run_traced
from explain.trace.model import Scalar, Trace

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
    said = memory.trips_total(experiment, trace)
    large = 4 * 2 * 40 * 56 * 4  # four trips of two heads' scores
    assert f"**{large:,} B**" in said
    assert "✓" in said
    for narrow in (False, True):
        drawn = memory.trips_picture(experiment, trace, narrow=narrow)
        for trip in found:
            way = "write" if trip.term.written else "read"
            assert f"{way} {trip.term.buffer.upper()}: {trip.traced:,} B" in drawn


def test_a_run_that_moves_other_bytes_than_the_formula_is_called_out():
    experiment = Experiment.of("attention_standard", RAGGED, "normal")
    other = traced(experiment.with_(block_m=32))
    assert "✗" in memory.trips_total(experiment, other)
    assert "✗" in memory.product_reads(experiment, other)


def test_the_text_about_s_says_what_fits_in_l2():
    gpu = GPUS["H200"]
    assert "does not fit" in memory.fate_of_scores(8192, "fp16", 16, gpu)  # 2 · 8192² = 134 MB > 62.9 MB
    assert "do not fit" in memory.fate_of_scores(4096, "fp16", 16, gpu)  # 33.6 MB fits; 32 of them do not
    assert "still fit" in memory.fate_of_scores(512, "fp16", 16, gpu)


def test_larger_tiles_give_s_and_p_a_larger_share():
    of_s, of_q = 4 * 64 * 64, 4 * 64 * 32  # elements of S and P moved; of Q, K or V read once by each of 4 tiles
    here = memory.share_of_scores(lessons.STANDARD)
    assert here == pytest.approx(of_s / (of_s + 3 * of_q + 64 * 32))
    n, d, block = 4096, 64, 128
    assert memory.share_of_scores(lessons.LONG) == pytest.approx(4 * n / (4 * n + 3 * n * d / block + d))


def test_each_element_of_q_is_read_once_a_tile_of_keys():
    experiment = Experiment.of("attention_standard", RAGGED, "normal")
    of_q, of_k, verdict = memory.product_reads(experiment, traced(experiment)).splitlines()
    assert "**2 ×**" in of_q
    assert "⌈56 / 32⌉ = 2" in of_q
    assert "**3 ×**" in of_k
    assert "⌈40 / 16⌉ = 3" in of_k
    assert "✓" in verdict


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
    for record in registry.shipped():
        known = card(record.gpu)
        assert known is not None
        for latency in known.latencies.values():
            assert latency.source.startswith(f"measured on an {record.gpu}, ")
            assert f"python -m explain record latency --name {known.name.lower()}" in latency.source


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
    assert f"spills {numbers.capacity(120 * 128)}" in registers
    assert "spills" not in shared
    assert "+ 16 KiB: the next K and V" in shared
    assert "255 per thread" in registers
    assert "4 programs at a time.** The limit: registers." in flash.verdict(calm, gpu)
    assert spilled.launches[0].spills == "120 B stored, 140 B loaded"
    assert calm.launches[0].spills == "none"
    assert "Nothing spills." in flash.verdict(calm, gpu)
    assert "Registers spill." in flash.verdict(spilled, gpu)
    twice = replace(spilled, launches=(*calm.launches, *spilled.launches))
    assert "Registers spill in `k`." in flash.verdict(twice, gpu)
    assert "spill" not in flash.registers_told(calm.launches[0], gpu)
    (launch,) = spilled.launches
    assert launch.spills in flash.registers_told(launch, gpu)
    assert "may have 255 registers, and this one has them all" in flash.registers_told(launch, gpu)
    assert "ptxas stopped at 64 " in flash.registers_told(replace(launch, registers=64), gpu)
    assert "needs 300,000 bytes of shared memory. One program may have 232,448 " in flash.verdict(
        cost(shared_bytes=300000), gpu
    )
    drawn = flash.grid({(64, 64): calm, (128, 128): spilled}, gpu, (64, 64))
    assert drawn.count(">not compiled<") == 14
    assert f"spills per thread: {spilled.launches[0].spills}" in drawn
    assert re.findall(r'data-press="(\w+)"[^>]*aria-pressed="true"', drawn) == ["64x64"]


@pytest.mark.parametrize(
    ("block_m", "gpu", "shared", "said"),
    [(16, "H200", 20480, "+ 2 KiB: P̃<"), (64, "A100", 24576, "each array once"), (64, "T4", 32768, "+ 8 KiB<")],
)
def test_what_the_compiler_adds_is_named_only_where_it_is_known(block_m, gpu, shared, said):
    launch = cost(shared_bytes=shared).launches[0]
    drawn, _ = flash.tanks(tiles.tile(block_m, 64).values, GPUS[gpu], launch)
    assert said in drawn


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
    formulas = [(run.kernel, run.traffic) for run in runs]
    drawn = flash.traffic_bars(formulas, flash.WITH_SCORES)
    parts = [int(found.replace(",", "")) for found in re.findall(r"<title>[^<]*: ([\d,]+) B</title>", drawn)]
    assert sum(parts) == sum(formula.read_bytes + formula.written_bytes for _, formula in formulas)
    # by standard attention only, in the order of its launches
    assert re.findall(r"<title>([SP] \w+)", drawn) == ["S written", "S read", "P written", "P read"]


def test_a_bar_names_only_what_moves():
    experiment = Experiment.of("flash_attention", RAGGED, "normal")
    runs = [lessons.first_order(experiment), experiment]
    formulas = [(run.kernel, run.traffic) for run in runs]
    drawn = re.findall(r"<title>([^<]*): [\d,]+ B</title>", flash.traffic_bars(formulas, flash.GROUPS))
    first = ["O, m and ℓ read", "O, m, ℓ and L written", "Q read", "K and V read"]
    assert drawn == [*first, "O and L written", "Q read", "K and V read"]


def test_a_line_is_seen_in_the_first_programs_second_tile():
    trace = run_traced(lessons.SHORT, "all", lambda *_: None)[0]
    source = inspect.getsource(kernels.attention).splitlines()
    line = next(at for at, one in enumerate(source, 1) if one.strip() == "alpha = tl.exp(m_i - m_safe)")
    step = paper.steps(trace, [line])[line]
    assert trace.line(step) == line
    assert trace.program(step) == trace.program(0)
    assert trace.state(step)["start"] == Scalar(str(lessons.SHORT.values["block_n"]), "int")


def test_a_shortened_line_leaves_out_addresses_alone():
    load = "k = tl.load(k_ptr + cols[:, None] * stride_kn + dims[None, :] * stride_kd, mask=inside_kv, other=0.0)"
    assert paper.shortened(load) == "k = tl.load(k_ptr + …, mask=inside_kv)"
    stored = "tl.store(lse_ptr + rows * stride_lm, lse, mask=rows < seq_len)"
    assert paper.shortened(stored) == "tl.store(lse_ptr + …, lse, mask=rows < seq_len)"
    assert paper.shortened("m_i = m_new") == "m_i = m_new"


def test_each_quoted_line_is_in_the_kernel():
    source = inspect.getsource(kernels.attention)
    own = [line.partition("  # ")[0].strip() for line in source.splitlines()]
    for *_, codes in paper.ALGORITHM:
        for code in codes:
            assert code in own, code
    assert [n for n, *_ in paper.ALGORITHM] == ["1–2", *map(str, range(3, 14)), "14–15"]


def test_no_steep_line_crosses_the_number_of_a_speedup():
    seconds = {"attention_standard": {128: 1.0, 256: 2.0, 512: 4.0, 1024: 4.0}, "flash_attention": dict.fromkeys(
        (128, 256, 512, 1024), 1.0
    )}  # fmt: skip
    drawn = flash.crossing_chart(seconds, predicted=False)
    dots = [tuple(map(float, dot)) for dot in re.findall(r'<circle[^>]*cx="([\d.]+)" cy="([\d.]+)"', drawn)]
    numbers = [
        (float(x), float(y), "end" if 'text-anchor="end"' in rest else "middle")
        for x, y, rest in re.findall(r'<text x="([\d.]+)" y="([\d.]+)"([^>]*)>[\d.]+ ×<', drawn)
    ]
    assert [anchor for *_, anchor in numbers] == ["middle", "end", "middle", "middle"]
    assert [y < dot for (_, y, _), (_, dot) in zip(numbers, dots, strict=True)] == [False, True, True, True]
    assert numbers[1][0] < dots[1][0]


def test_from_which_length_on_is_said_with_what_the_shorter_ones_have():
    seconds = {"attention_standard": {128: 2.0, 256: 3.0, 512: 8.0}, "flash_attention": {128: 1.9, 256: 4.0, 512: 4.0}}
    said = flash.faster(seconds, {"heads": 4, "block_m": 64}, GPUS["H200"])
    assert "From **N = 512** on" in said
    assert "up to 2.00 ×" in said
    assert "0.75 × to 1.05 ×" in said
    assert "at N = 256 FlashAttention has 16 programs for 132 SMs" in said
    drawn = flash.crossing_chart(seconds, predicted=False)
    assert re.findall(r">([\d.]+ ×)<", drawn) == ["1.05 ×", "0.75 ×", "2.00 ×"]
    heights = [float(y) for y in re.findall(r'<circle[^>]*cy="([\d.]+)"', drawn)]
    equal, *_ = map(float, re.findall(r'<line[^>]*y1="([\d.]+)"', drawn))
    assert heights[0] < equal < heights[1]  # above the line where FlashAttention is faster
    assert re.findall(r">(\S+ s)<", drawn) == ["2.00 s", "1.90 s", "3.00 s", "4.00 s", "8.00 s", "4.00 s"]
    slower = {"attention_standard": {128: 1.0, 256: 1.0}, "flash_attention": {128: 2.0, 256: 2.0}}
    assert "N = " not in flash.faster(slower, {"heads": 4, "block_m": 64}, GPUS["H200"])
