"""The lab's page of sweeps: its sources, what it runs, what it says where something is missing."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from explain.chapters.sweeps import sources
from explain.chapters.sweeps.choice import OWN
from explain.chapters.sweeps.model import LEVELS, READY, RECORDED, formula
from explain.chapters.sweeps.runner import Runner
from explain.engine import DeviceStatus, Engine
from explain.experiment import Experiment
from explain.records import file, registry
from explain.records.model import Point, Roof, roof_name
from explain.ui.gpu import CHOSEN
from explain.workers import WorkerTimeout
from tests.explain.records import made
from tests.explain.records.made import SHIPPED, WHERE
from tests.pages import page, texts

SMALL = {"sweep": OWN, "witness": "trace", "attention values": "32, 64"}


class Here(Engine):
    """An engine that answers at once: a trace is the formula's, a point on its GPU is the recorded one, if there is
    one.
    """

    def __init__(self, gpu: bool = False) -> None:
        self.gpu = gpu
        self.fails: Exception | None = None

    def check(self, experiment: Experiment, **_: Any) -> dict[str, Any]:
        if self.fails:
            raise self.fails
        return {"traffic": experiment.traffic.totals()}

    def point(self, experiment: Experiment, *_: Any, **__: Any) -> Point:
        point = SHIPPED.point(experiment)
        assert point is not None
        return point

    def roofs(self, *_: Any, **__: Any) -> dict[str, Roof]:
        return {"hbm": Roof("hbm", 3e12, "B/s", "made for this test")}

    def device(self) -> DeviceStatus:
        return DeviceStatus(True, "", {**WHERE.__dict__}) if self.gpu else DeviceStatus(False, "No driver here.")

    def device_if_known(self) -> DeviceStatus:
        return self.device()


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Here]:
    fake = Here()
    runner = Runner(fake, tmp_path)
    monkeypatch.setattr(sources, "runner", lambda: runner)
    monkeypatch.setattr(sources, "engine", lambda: fake)
    monkeypatch.setattr(registry, "own_folder", lambda: tmp_path / "records")
    sources._roofs_kept.clear()
    yield fake
    sources._roofs_kept.clear()


def press(test: AppTest, label: str) -> AppTest:
    (button,) = (button for button in test.button if button.label == label)
    return button.click().run()


def settled(test: AppTest) -> AppTest:
    """What a browser does by itself: looks again until nothing runs."""
    deadline = time.monotonic() + 60
    while any(button.label == "Cancel" for button in test.button):
        assert time.monotonic() < deadline
        time.sleep(0.02)
        test.run()
    return test


def plots(test: AppTest) -> list[str]:
    return [chart.proto.spec for chart in test.get("plotly_chart")]


def test_every_ready_sweep_is_recorded_with_counters_and_times():
    missing = [e for e in RECORDED if (point := SHIPPED.point(e)) is None or not point.holds(True, True)]
    assert not missing


def test_it_opens_on_what_the_gpu_recorded_bytes_time_and_roofline(here):
    test = page("sweeps")
    said = texts(test)
    assert "NVIDIA H200" in said
    assert len(plots(test)) == 3
    for level, name in (("hbm", "HBM"), ("shared", "shared memory")):
        shown = plots(page("sweeps", roof=name))[2]
        assert f"{roof_name(level)} {SHIPPED.roofs[level].per_second / 1e12:.3g} TB" in shown
    assert f"matmuls in bf16 reach {SHIPPED.roofs['matmul bf16'].per_second / 1e12:.3g} TFLOP" in said
    assert "exp takes 6 instructions per score, 3 of them to keep very small results exact; exp2 takes 2" in said
    assert "FlashAttention-1 reads Q, O, m and ℓ again for every tile of keys. From N = 8,192 on they no longer" in said


def source(test: AppTest) -> str:
    return str(test.button_group(key="witness").value)


def test_a_sweep_of_ones_own_leaves_the_source_of_the_recorded_ones_alone(here):
    test = page("sweeps")
    first, recorded = next(iter(READY)), source(test)
    test.selectbox(key="sweep").select(OWN).run()
    assert source(test) == "formula"
    test.button_group(key="witness").set_value("trace").run()
    test.selectbox(key="sweep").select(first).run()
    assert source(test) == recorded
    assert len(plots(test)) == 3
    test.selectbox(key="sweep").select(OWN).run()
    assert source(test) == "trace"


@pytest.mark.parametrize("start", [{}, {"sweep": OWN}, {"sweep": list(READY)[2]}])
def test_a_source_without_a_roofline_has_a_button_to_a_record_that_has_one(here, start):
    test = page("sweeps", witness="formula", **start)
    assert len(plots(test)) == 1
    test.button(key="show record").click().run()
    assert len(plots(test)) == 3
    assert test.selectbox(key="sweep").value == (next(iter(READY)) if OWN in start.values() else
        start.get("sweep", next(iter(READY))))  # fmt: skip


@pytest.mark.parametrize("sweep", READY)
def test_every_ready_sweep_can_be_shown(here, sweep):
    test = page("sweeps", sweep=sweep)
    assert len(plots(test)) == 3


def test_a_loss_can_be_swept_over_its_vocabulary(here):
    own = {"sweep": OWN, "witness": "trace", "family": "loss", "loss values": "32, 64"}
    test = settled(press(page("sweeps", **own), "Run 4 points"))
    assert any("Cross entropy" in spec or "cross entropy" in spec for spec in plots(test))
    assert "vocabulary" in "".join(plots(test))


def test_a_readers_own_file_has_a_say_where_it_has_points_of_the_sweep(here):
    sweep = next(iter(READY.values()))
    points = [made.point(experiment) for experiment in sweep.experiments]
    brought = file.written(made.record(*points, where=replace(WHERE, gpu="NVIDIA Other 9")))
    test = page("sweeps")
    test.file_uploader[0].set_value(("gpu.json", brought, "application/json"))
    test.run()
    test.button_group(key="witness").set_value(registry.uploaded(brought).key).run()
    assert "NVIDIA Other 9" in texts(test)
    other = page("sweeps")
    elsewhere = file.written(made.record(made.point(Experiment.of("softmax_online"))))
    other.file_uploader[0].set_value(("gpu.json", elsewhere, "application/json"))
    other.run()
    assert "Test 1 · your file: " in texts(other)


def test_the_page_opens_on_the_record_of_the_gpu_that_the_reader_chose(here):
    assert source(page("sweeps")) == source(page("sweeps", gpu="H200")) == "recorded:h200.json"
    test = page("sweeps", gpu="H100")
    assert source(test) == "recorded:h100-80gb-hbm3.json"
    assert "recorded · NVIDIA H100" in texts(test)
    assert len(plots(test)) == 3
    assert source(page("sweeps", gpu="A100")) == "recorded:h200.json"


def test_a_prediction_is_of_a_gpu_without_a_record_and_says_why_there_is_none(here):
    for gpu in ("H200", "A100"):
        test = page("sweeps", witness="predicted", gpu=gpu)
        assert "Predicted, not measured" in texts(test)
        assert not {"H200", "H100"} & set(test.button_group(key="gpu").options)
        assert "Tested on the H100's" in texts(test)
        assert len(plots(test)) == 1
    first = page("sweeps", witness="predicted")
    assert CHOSEN not in first.session_state  # other pages open on their own GPU
    first.button_group(key="gpu").set_value("RTX 4090").run()
    assert first.session_state[CHOSEN] == "RTX 4090"
    own = page("sweeps", witness="predicted", sweep=OWN)  # of sizes that no record has
    assert "H100" in own.button_group(key="gpu").options
    assert "with that time left out" in texts(own)
    old = page("sweeps", witness="predicted", gpu="T4")
    assert not plots(old)
    assert ["compute capability 8.0" in info.value for info in old.info] == [True]
    softmax = page("sweeps", witness="predicted", gpu="T4", sweep="Softmax: length N from 256 to 131,072")
    assert plots(softmax)
    assert not softmax.info


def test_a_phone_has_narrow_plots_below_their_titles(here):
    wide = page("sweeps")
    titles = [json.loads(spec)["layout"]["title"]["text"].replace("<br>", " ") for spec in plots(wide)]
    wide.session_state["bar"] = {"narrow": True}
    wide.run()
    said = [one.value for one in wide.markdown]
    for title, spec in zip(titles, plots(wide), strict=True):
        assert f"**{title}**" in said
        assert not json.loads(spec)["layout"].get("title", {}).get("text")


@pytest.mark.parametrize("narrow", [False, True])
def test_a_phone_has_the_words_below_their_pictures(here, narrow):
    test = page("sweeps")
    test.session_state["bar"] = {"narrow": narrow}
    test.run()
    shown = [(one.type, str(getattr(one, "value", ""))) for one in test.main]
    pictures = [at for at, (kind, _) in enumerate(shown) if kind == "plotly_chart"]
    told = ("**255\u00a0×** as many", "The curves cross at", "Arithmetic intensity")
    for picture, words in zip(pictures, told, strict=True):
        at = next(at for at, (_, value) in enumerate(shown) if words in value)
        assert (at > picture) == narrow


def test_the_source_is_told_once(here):
    said = [one.value for one in page("sweeps").caption]
    assert sum("NVIDIA H200" in one for one in said) == 1


def test_the_first_paragraphs_about_bytes_are_open_and_no_other_is_lost(here):
    test = page("sweeps")
    (folded,) = (one for one in test.expander if one.label == "More about these bytes")
    inside = "".join(one.value for one in folded.markdown)
    assert "their curves lie on each other" in inside
    assert "L2 still holds a part" in inside
    assert "these repeats" in texts(test).replace(inside, "")


def test_the_growth_of_bytes_and_of_time_is_folded_away_with_what_its_columns_mean(here):
    test = page("sweeps")
    bytes_of, time_of = (one for one in test.expander if one.label == "How it grows: theory and fit")
    for folded, column in ((bytes_of, "theory: each element once"), (time_of, "theory, FLOPs")):
        inside = "".join(one.value for one in folded.markdown)
        assert column in inside
        assert "**Fitted growth**" in inside
    assert "Every element is read or written once per launch." in "".join(one.value for one in bytes_of.markdown)


def test_a_ratio_in_words_has_no_line_break_before_its_sign(here):
    said = [one.value for one in page("sweeps").markdown if "as many bytes" in one.value]
    assert said
    assert "\u00a0×" in said[0]
    assert not [one for one in said if " ×" in one]


def test_another_level_changes_the_bytes(here):
    hbm, asked = page("sweeps"), page("sweeps", level=LEVELS["asked"])
    assert plots(hbm)[0] != plots(asked)[0]
    assert plots(hbm)[1] == plots(asked)[1]


def test_without_any_record_the_formula_speaks_and_the_roofline_says_what_it_needs(here, monkeypatch):
    monkeypatch.setattr(registry, "shipped", tuple)
    test = page("sweeps")
    assert len(plots(test)) == 1  # without times there is no roofline
    assert "N<sup>2.00</sup>" in texts(test)


def test_a_sweep_is_run_and_drawn(here):
    test = page("sweeps", **SMALL)
    assert not plots(test)
    press(test, "Run 4 points")
    settled(test)
    said = texts(test)
    assert "4 of 4 points" in said
    assert len(plots(test)) == 1
    own = Experiment.of("flash_attention", {"seq_len": 64, "block_m": 64, "block_n": 64})
    (row,) = (line for line in said.splitlines() if line.startswith("| 64 | FlashAttention-2 |"))
    assert f"| {formula(own).bytes['asked'] / 1e3:.0f} |" in row
    assert page("sweeps", **SMALL).get("plotly_chart")  # another session has it too


def test_what_failed_is_shown_with_its_reason_and_can_be_tried_again(here):
    here.fails = WorkerTimeout(60)
    test = settled(press(page("sweeps", **SMALL), "Run 4 points"))
    assert [expander for expander in test.expander if expander.label.startswith("4 ")]
    assert "60 s" in texts(test)
    here.fails = None
    settled(press(test, "Start over"))
    assert "60 s" not in texts(test)
    assert len(plots(test)) == 1


def test_a_gpu_here_is_measured_and_so_are_its_roofs(here):
    here.gpu = True
    test = page("sweeps", sweep="Attention: without and with the causal mask", witness="hardware")
    settled(press(test, "Run 4 points"))
    assert len(plots(test)) == 3
    assert "made for this test" not in texts(test)
    press(test, "Measure this GPU's roofs")
    assert "made for this test" in texts(test)
    assert "HBM, read 3 TB" in plots(test)[2]


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ({"attention values": "32, many"}, "N: many."),
        ({"attention values": ""}, "24 values"),
        ({"attention held": "head_dim"}, "name=value"),
        ({"attention held": "head_dim=3"}, "d: 3."),
        ({"attention held": "sky=blue"}, "sky: blue."),
    ],
)
def test_what_cannot_be_swept_is_said_and_nothing_is_run(here, query, words):
    test = page("sweeps", **{**SMALL, **query})
    assert words in texts(test)
    assert not [button for button in test.button if button.label.startswith("Run")]


def test_a_wrong_value_is_told_with_the_limit_of_its_parameter(here):
    said = texts(page("sweeps", **{**SMALL, "attention values": "100, 300, abc"}))
    assert "whole number from 1 to 1,073,741,824" in said


def test_a_value_that_a_kernel_cannot_take_is_told_with_the_reason_before_anything_runs(here):
    test = page("sweeps", **{**SMALL, "attention values": "64, 100000000"})
    (told,) = (one.value for one in test.caption if "is left out there" in one.value)
    assert "standard attention cannot run at N = 100,000,000" in told
    assert "at most 65,536" in told
    assert [button for button in test.button if button.label == "Run 3 points"]


def test_a_point_that_is_left_out_is_told_once(here):
    own = {**SMALL, "attention values": "64, 100000000"}
    for query in ({"sweep": "Softmax: length N from 256 to 131,072"}, {**own, "witness": "formula"}):
        assert texts(page("sweeps", **query)).count("is left out there") == 1, query


def test_a_record_without_some_points_says_how_many_there_are(here, monkeypatch):
    some = {key: point for key, point in SHIPPED.points.items() if '"seq_len":128' in key}
    monkeypatch.setattr(registry, "shipped", lambda: (replace(SHIPPED, points=some),))
    assert "4 of 32 points" in texts(page("sweeps"))
