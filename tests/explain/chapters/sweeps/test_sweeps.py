"""Sweeps: what they run, what a run keeps, and what their points come to."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from explain.chapters.sweeps import analysis
from explain.chapters.sweeps import runner as running
from explain.chapters.sweeps.model import READY, RECORDED, Reading, Sweep, formula, once_per_launch
from explain.chapters.sweeps.runner import Runner, State
from explain.engine import DeviceStatus, Engine
from explain.experiment import Experiment, ParameterError
from explain.records.model import Roof
from explain.workers import WorkerCancelled, WorkerTimeout

PAIR = ("attention_standard", "flash_attention")
SMALL = Sweep.of(PAIR, "seq_len", [32, 64, 128], {"head_dim": 16})


# What a sweep is


def test_a_ready_sweep_is_named_by_its_values():
    for name, sweep in READY.items():
        if sweep.numeric:
            assert name.endswith(f" from {sweep.values[0]:,} to {sweep.values[-1]:,}")


def test_all_kernels_of_a_value_come_before_the_next_value():
    assert [(e.kernel, e.values["seq_len"], e.values["head_dim"]) for e in SMALL.experiments] == [
        (kernel, n, 16) for n in (32, 64, 128) for kernel in PAIR
    ]
    assert SMALL.numeric
    assert not READY["Attention: fp32, fp16, bf16"].numeric
    assert not READY["Attention: without and with the causal mask"].numeric


@pytest.mark.parametrize("sweep", READY.values(), ids=READY)
def test_a_sweep_survives_json_and_an_address(sweep):
    assert Sweep.from_json(json.loads(json.dumps(sweep.to_json()))) == sweep
    assert Sweep.from_query(sweep.to_query()) == sweep


def test_a_value_that_one_kernel_cannot_take_is_left_out_for_it_alone():
    sweep = READY["Softmax: length N from 256 to 131,072"]
    ((kernel, value, error),) = sweep.left_out
    assert (kernel, value, error.parameter) == ("softmax_row", 131072, "cols")
    assert "from 1 to 65,536" in error.allowed
    assert sum(e.values["cols"] == 131072 for e in sweep.experiments) == 4


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ({"kernels": "", "over": "seq_len", "values": "64"}, "kernels=: must be one to 8 kernels"),
        ({"kernels": "flash", "over": "seq_len", "values": "64"}, "kernel=flash: must be one of"),
        ({"kernels": "flash_attention,softmax_row", "over": "seq_len", "values": "64"}, "must be of one family"),
        ({"kernels": "flash_attention", "over": "cols", "values": "64"}, "axis=cols: "),
        ({"kernels": "flash_attention", "over": "kv_len", "values": "64"}, "choose one of seq_len, head_dim"),
        ({"kernels": "flash_attention", "over": "seq_len", "values": ""}, "seq_len=0 values: must be 1 to 24"),
        ({"kernels": "flash_attention", "over": "seq_len", "values": "64,x"}, "seq_len=x: must be a whole number"),
        ({"kernels": "flash_attention", "over": "block_m", "values": "48"}, "block_m=48: must be a power of two"),
        ({"kernels": "flash_attention", "over": "seq_len", "values": "64", "fixed": "d"}, "fixed=d: "),
        ({"kernels": "flash_attention", "over": "seq_len", "values": "64", "fixed": "d=8"}, "d=8: "),
        ({"kernels": "flash_attention", "over": "seq_len", "values": "64", "fixed": "seq_len=8"}, "cannot be fixed"),
        ({"kernels": "flash_attention", "over": "heads", "values": "6", "fixed": "kv_heads=4"}, "must divide heads=6"),
    ],
)
def test_what_cannot_be_swept_is_named(query, words):
    with pytest.raises(ParameterError, match=words):
        Sweep.from_query(query)


def test_what_is_recorded_is_every_point_of_the_ready_sweeps_once():
    assert len(RECORDED) == len({experiment.key for experiment in RECORDED}) <= 150
    assert {e.key for sweep in READY.values() for e in sweep.experiments} == {e.key for e in RECORDED}


def test_reading_every_element_once_is_the_least_there_can_be():
    flash = Experiment.of("flash_attention", {"seq_len": 256, "heads": 2, "head_dim": 64, "dtype": "fp16"})
    q = 2 * 256 * 64 * 2
    assert once_per_launch(flash) == 4 * q + 2 * 256 * 4  # Q, K, V, O and lse
    assert once_per_launch(flash) < formula(flash).bytes["asked"]
    standard = flash.through("attention_standard")
    assert once_per_launch(standard) == 4 * q + 4 * (2 * 256 * 256 * 2)  # and S and P, written and read


def test_a_causal_kernel_needs_no_more_bytes_once_than_without_its_mask():
    flash = Experiment.of("flash_attention", {"seq_len": 256})
    assert once_per_launch(flash.with_(causal=True)) == once_per_launch(flash)


# Running one


class Fake(Engine):
    """An engine that gives its points when told to, and counts what it is asked."""

    def __init__(self, answer: Callable[[Experiment], Any] = lambda e: None, *, gated: bool = False) -> None:
        self.answer = answer
        self.asked: list[Experiment] = []
        self.gate = threading.Semaphore(0 if gated else 10**6)
        self.at_once = self.most_at_once = 0

    def check(self, experiment: Experiment, cancel: threading.Event) -> dict[str, Any]:  # type: ignore[override]
        self.asked.append(experiment)
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            while not self.gate.acquire(timeout=0.02):
                if cancel.is_set():
                    raise WorkerCancelled
            self.answer(experiment)
            return {"traffic": experiment.traffic.totals()}
        finally:
            self.at_once -= 1

    def device(self) -> DeviceStatus:
        return DeviceStatus(False, "No NVIDIA driver on this machine.")

    def device_if_known(self) -> DeviceStatus:
        return self.device()


def wait(runner: Runner, until: Callable[[State], bool], sweep: Sweep = SMALL, source: str = "trace") -> State:
    deadline = time.monotonic() + 60
    while not until(state := runner.look(sweep, source)):
        assert time.monotonic() < deadline, state
        time.sleep(0.01)
    return state


def finished(state: State) -> bool:
    return not state.working


def ran(runner: Runner, sweep: Sweep = SMALL) -> State:
    """What a sweep has at its end."""
    runner.start(sweep, "trace")
    return wait(runner, finished, sweep)


def test_the_formula_needs_no_run(tmp_path):
    state = Runner(Fake(), tmp_path).look(SMALL, "formula")
    assert state.done
    assert [r.bytes["asked"] for r in state.readings] == [formula(e).bytes["asked"] for e in SMALL.experiments]


def test_a_sweep_runs_to_its_end_and_says_how_far_it_is(tmp_path):
    engine = Fake(gated=True)
    runner = Runner(engine, tmp_path)
    runner.start(SMALL, "trace")
    state = wait(runner, lambda s: s.working.startswith("Standard attention, seq_len = 32"))
    assert (len(state.readings), state.total) == (0, 6)
    engine.gate.release(2)
    state = wait(runner, lambda s: s.working == "Standard attention, seq_len = 64")
    assert [r.experiment for r in state.readings] == list(SMALL.experiments[:2])
    engine.gate.release(4)
    state = wait(runner, finished)
    assert state.done
    assert [r.bytes for r in state.readings] == [formula(e).bytes for e in SMALL.experiments]


def test_what_a_cancelled_sweep_has_is_kept_and_only_the_rest_is_run_on_resuming(tmp_path):
    engine = Fake(gated=True)
    runner = Runner(engine, tmp_path)
    runner.start(SMALL, "trace")
    engine.gate.release(2)
    wait(runner, lambda s: len(s.readings) == 2 and len(engine.asked) == 3)
    runner.cancel(SMALL, "trace")
    state = wait(runner, finished)
    assert len(state.readings) == 2
    assert not state.error
    engine.gate.release(10)
    assert ran(runner).done
    assert engine.asked[3:] == list(SMALL.experiments[2:])


def test_another_process_goes_on_where_a_killed_one_stopped(tmp_path):
    engine = Fake(gated=True)
    killed = Runner(engine, tmp_path)
    killed.start(SMALL, "trace")
    engine.gate.release(3)
    wait(killed, lambda s: len(s.readings) == 3 and len(engine.asked) == 4)
    (path,) = tmp_path.glob("*.jsonl")
    kept = path.read_bytes()
    killed.cancel(SMALL, "trace")
    wait(killed, finished)
    path.write_bytes(kept + kept[:40])  # the fourth was being written
    engine = Fake()
    runner = Runner(engine, tmp_path)
    assert len(runner.look(SMALL, "trace").readings) == 3
    assert ran(runner).done
    assert engine.asked == list(SMALL.experiments[3:])
    assert Runner(Fake(), tmp_path).look(SMALL, "trace").done
    assert len(path.read_text().splitlines()) == 6


def test_readings_of_other_code_are_not_taken_for_this_ones(tmp_path, monkeypatch):
    ran(Runner(Fake(), tmp_path))
    monkeypatch.setattr(running, "code_version", lambda: "other")
    assert Runner(Fake(), tmp_path).look(SMALL, "trace").readings == ()


def test_a_point_that_fails_is_kept_with_its_reason_and_the_others_go_on(tmp_path):
    def fails(experiment: Experiment) -> None:
        if experiment.values["seq_len"] == 64:
            raise WorkerTimeout(60)

    state = ran(Runner(Fake(fails), tmp_path))
    assert state.done
    assert [bool(r.bytes) for r in state.readings] == [True, True, False, False, True, True]
    assert "longer than its limit of 60 s" in state.readings[2].why
    assert ran(Runner(engine := Fake(), tmp_path)).readings == state.readings
    assert not engine.asked


def test_what_nobody_foresaw_is_said_and_the_sweep_can_be_resumed(tmp_path):
    def breaks(experiment: Experiment) -> None:
        if len(engine.asked) == 2:
            raise RuntimeError("out of luck")

    engine = Fake(breaks)
    runner = Runner(engine, tmp_path)
    state = ran(runner)
    assert state.error == "out of luck"
    assert len(state.readings) == 1
    assert ran(runner).done


def test_a_point_too_large_to_trace_says_so_and_is_not_run(tmp_path):
    sweep = Sweep.of(["flash_attention"], "seq_len", [64, 16384], {"head_dim": 64, "block_m": 64, "block_n": 64})
    state = ran(Runner(engine := Fake(), tmp_path), sweep)
    assert [e.values["seq_len"] for e in engine.asked] == [64]
    assert "Choose smaller values" in state.readings[1].why
    assert not state.readings[1].bytes


def test_sweeps_take_one_worker_between_them(tmp_path):
    engine = Fake(lambda e: time.sleep(0.02))
    runner = Runner(engine, tmp_path)
    sweeps = [Sweep.of(PAIR, "seq_len", [32, 48, size], {"head_dim": 16}) for size in (64, 80, 96)]
    for sweep in sweeps:
        runner.start(sweep, "trace")
    for sweep in sweeps:
        assert wait(runner, finished, sweep).done
    assert engine.most_at_once == 1


def test_a_sweep_that_waits_can_be_cancelled(tmp_path):
    engine = Fake(gated=True)
    runner = Runner(engine, tmp_path)
    other = Sweep.of(PAIR, "seq_len", [48], {"head_dim": 16})
    runner.start(SMALL, "trace")
    wait(runner, lambda s: bool(engine.asked))
    runner.start(other, "trace")
    wait(runner, lambda s: "waiting for another sweep" in s.working, other)
    runner.cancel(other, "trace")
    assert wait(runner, finished, other).readings == ()
    runner.cancel(SMALL, "trace")
    wait(runner, finished)


def test_without_a_gpu_the_hardware_says_why(tmp_path):
    runner = Runner(Fake(), tmp_path)
    runner.start(SMALL, "hardware")
    state = wait(runner, finished, source="hardware")
    assert "No NVIDIA driver on this machine." in state.error
    assert state.readings == ()


def test_a_sweep_that_starts_over_asks_for_every_point_again(tmp_path):
    runner = Runner(engine := Fake(), tmp_path)
    ran(runner)
    asked = list(engine.asked)
    runner.start_over(SMALL, "trace")
    wait(runner, finished)
    assert engine.asked == asked * 2
    (file,) = tmp_path.glob("*.jsonl")
    assert len(file.read_text().splitlines()) == len(asked)


def test_a_disk_that_takes_nothing_is_said_and_loses_nothing(tmp_path):
    place = tmp_path / "file"
    place.write_text("")
    state = ran(Runner(Fake(), place))
    assert state.done
    assert str(place) in state.error


# What its points come to


@given(power=st.floats(-3, 3), factor=st.floats(1e-3, 1e12))
def test_the_slope_of_a_power_is_the_power(power, factor):
    assert analysis.slope({2.0**i: factor * 2.0 ** (i * power) for i in range(8)}) == pytest.approx(power, abs=1e-6)


def test_a_slope_is_that_of_the_far_end():
    flat_then_square = {float(x): max(1000.0, x * x) for x in (1, 2, 4, 8, 64, 128, 256, 512)}
    assert analysis.slope(flat_then_square) == pytest.approx(2)
    assert (analysis.slope(flat_then_square, fitted=8) or 2) < 1.5
    assert analysis.slope({1.0: 2.0}) is None
    assert analysis.slope({1.0: 2.0, 2.0: 0.0}) is None


@given(power=st.floats(-3, 3))
def test_a_step_that_no_power_describes_is_a_jump(power):
    points = {2.0**i: 2.0 ** (i * power) for i in range(8)}
    assert analysis.jump(points) is None
    found = analysis.jump({x: y * (1000 if x >= 64 else 1) for x, y in points.items()})
    assert found is not None
    assert list(found) == pytest.approx([64, 1000 * 2**power])
    assert analysis.jump({1.0: 1.0, 2.0: 1e9}) is None


@pytest.mark.parametrize(
    ("ys", "at"),
    [
        ((174, 55, 55, 54), 32),  # about FlashAttention-1's bytes over the key tile
        ((52, 52, 82, 54), 64),  # and over the query tile: up and down again is not flat
        ((17, 34, 73, 446), 128),  # about FlashAttention-2's over d
        ((1, 2.2, 4, 8), None),
        ((54, 55, 54, 55), None),
    ],
)
def test_a_power_is_told_only_of_points_that_follow_it(ys, at):
    found = analysis.jump({2.0 ** (4 + i): float(y) for i, y in enumerate(ys)})
    assert (found and found[0]) == at


def test_curves_cross_between_two_points_below_the_first_or_never():
    xs = [2.0**i for i in range(8)]
    square, line = {x: x * x for x in xs}, {x: 12.5 * x for x in xs}
    found = analysis.crossing(square, line)
    assert found.x == pytest.approx(12.5)  # both are straight on this plot: no error of interpolation
    assert found.first == 16.0
    assert found.ratios[128.0] == pytest.approx(128 / 12.5)
    always = analysis.crossing(square, {x: x * x / 2 for x in xs})
    assert (always.first, always.x) == (1.0, None)
    never = analysis.crossing(square, {x: x * x * 2 for x in xs})
    assert (never.first, never.x) == (None, None)
    assert analysis.crossing(square, {}) is None


def test_times_that_hardly_differ_have_no_winner():
    words = ("**A**", "**B**", "is faster", "takes … as long", "N")
    close = analysis.crossing({1.0: 1.0, 2.0: 0.98, 4.0: 1.04}, {1.0: 1.0, 2.0: 1.0, 4.0: 1.0})
    assert "hardly differ" in close.told(*words)
    assert "1.04 × as long as **A**, at every" in close.told(*words)
    assert "hardly" not in close.told(*words, known="computed")  # a formula's bytes are exact
    apart = analysis.crossing({1.0: 1.0, 2.0: 0.98, 4.0: 1.06}, {1.0: 1.0, 2.0: 1.0, 4.0: 1.0})
    assert "At N = 4, **B** takes **1.06 ×** as long." in apart.told(*words)


def reading(seconds: float | None, **bytes: int) -> Reading:
    experiment = Experiment.of("flash_attention", {"seq_len": 256, "head_dim": 64, "dtype": "fp16"})
    return Reading(experiment, "hardware", bytes, formula(experiment).flops, seconds, "", "test")


def roof(level: str, per_second: float) -> Roof:
    return Roof(level, per_second, "B/s", "test")


ROOFS = {r.level: r for r in (roof("hbm", 4e12), roof("hbm copy", 4.2e12), roof("l2", 8e12), roof("matmul fp16", 7e14))}


def test_a_kernel_has_a_point_at_each_level_of_the_roofline():
    measured = reading(1e-3, hbm=10**6, l2=10**9)
    hbm, l2 = sorted(analysis.roofline_points([measured], ROOFS), key=lambda point: point.level)
    flops = measured.flops
    assert (hbm.level, l2.level) == ("hbm", "l2")
    assert hbm.intensity == flops / 10**6
    assert hbm.flops_per_second == l2.flops_per_second == flops / 1e-3
    assert hbm.memory == 4.2e12 * flops / 10**6  # the best of reading, writing and copying
    assert l2.memory == 8e12 * flops / 10**9
    assert hbm.roof == min(hbm.memory, 7e14)
    assert l2.roof == l2.memory


def test_what_was_not_measured_has_no_point_and_no_roof():
    assert analysis.roofline_points([reading(None, hbm=10**6), reading(1e-3)], ROOFS) == []
    (point,) = analysis.roofline_points([reading(1e-3, shared=10**6)], {})
    assert point.roof is None


def test_the_unit_whose_roof_counts_is_the_one_that_does_the_work():
    fp32 = Experiment.of("flash_attention", {"seq_len": 64})
    assert analysis.compute_roof_name(formula(fp32)) == "matmul fp32"
    assert analysis.compute_roof_name(reading(None)) == "matmul fp16"
    assert analysis.compute_roof_name(formula(Experiment.of("softmax_row", {"dtype": "bf16"}))) == "matmul fp32"


def test_the_formula_of_standard_attention_grows_with_the_square_and_crosses_flash():
    sweep = READY["Attention: length N from 128 to 16,384"]
    readings = [formula(e) for e in sweep.experiments]
    standard, flash = (analysis.numbers(analysis.curve(sweep, readings, kernel, "asked")) for kernel in PAIR)
    assert analysis.slope(standard) == pytest.approx(2, abs=0.05)
    found = analysis.crossing(standard, flash)
    assert found.first == min(standard)
