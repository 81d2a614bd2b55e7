"""Chapter "Speed" opens with a result, without one and on a broken one; its views and controls choose what is drawn."""

from __future__ import annotations

import dataclasses
import json
import re
from typing import Any

import pytest

from explain.chapters.speed import climb_view, counted_figures, kernels, lengths, rungs, timeline, tuning, view
from explain.chapters.speed import results as speed
from explain.chapters.speed.results import TABLES
from explain.chapters.speed.rungs import CLIMB, RUNGS, TOP
from explain.counters.stalls import Stalls
from explain.engine import DeviceStatus, Engine
from explain.experiment import Experiment
from explain.gpus import known_as
from explain.records import registry
from explain.records.model import Origin, Point
from explain.ui import follow
from explain.workers import WorkerError, WorkerTimeout
from kernels.catalog import KERNELS
from kernels.rungs import ORDER
from tests.explain.chapters.speed import schedules
from tests.explain.chapters.speed.test_results import GPU, RECORD, result_json, timed
from tests.explain.chapters.speed.test_tuning import GRID
from tests.explain.records import made
from tests.pages import codes, page, texts

OTHERS = "Other kernels"


@pytest.fixture
def file(monkeypatch, tmp_path):
    """A result where the page looks for it, and a record of the same GPU."""
    path = tmp_path / "speed.json"
    path.write_text(json.dumps(result_json()))
    monkeypatch.setattr(speed, "FILE", path)
    monkeypatch.setattr(registry, "entries", lambda: ([registry.Entry("test", RECORD, registry.RECORDED)], {}))
    monkeypatch.setattr(timeline, "recorded", tuple)
    return path


def test_the_climb_shows_the_rungs_beside_others_with_the_source(file):
    test = page("speed")
    said = texts(test)
    for number in ("**532 TFLOP/s**", "66%", f"{len(ORDER)} of {len(RUNGS)}", "NVIDIA Test 1", "2026-01-01"):
        assert number in said
    assert len(test.get("plotly_chart")) == 2


@pytest.mark.parametrize("rung", [RUNGS[0], rungs.BY_NAME["tma"], RUNGS[-1]], ids=lambda rung: rung.name)
def test_a_rung_shows_its_idea_its_number_its_code_and_what_is_new(rung, file):
    test = page("speed", rung=rung.name)
    said, code = texts(test), codes(test)
    assert rung.idea.split(".")[0] in said
    assert rung.source.rstrip() in code
    assert (rungs.difference(rung).rstrip() in code) == (rungs.below(rung) is not None)
    assert rung.line in code[0]  # in what is new, first
    assert ("532 TFLOP/s**, 66% of the peak" in said) == (rung.name == TOP)
    assert not rung.twin or rung.twin.words in said  # a page that runs alone shows a link as its words


def test_one_goes_from_rung_to_rung(file):
    test = page("speed", rung=RUNGS[0].name)
    lower, upper = (button for button in test.button if button.label.endswith(" kernel"))
    assert lower.disabled
    upper.click().run()
    assert test.query_params["rung"] in (RUNGS[1].name, [RUNGS[1].name])
    assert RUNGS[1].title in "".join(heading.value for heading in test.header)


def test_the_shape_is_chosen_and_the_address_keeps_it(file):
    test = page("speed")
    test.selectbox(key="N").set_value("2048").run()
    assert "**470 TFLOP/s**" in texts(test)
    assert test.query_params["N"] in ("2048", ["2048"])


def test_a_link_may_name_a_kernel_as_the_chart_does(file):
    test = page("speed", rung="ping-pong")
    assert "Ping-pong scheduling" in "".join(heading.value for heading in test.header)
    assert test.query_params["rung"] in ("two_groups", ["two_groups"])


@pytest.mark.parametrize(("name", "value"), [("N", "77"), ("rung", "tenth")])
def test_an_address_that_means_nothing_is_said(name, value, file):
    refused = [line for line in texts(page("speed", **{name: value})).splitlines() if ":red[" in line]
    assert [line for line in refused if name in line and value in line]


def test_without_a_record_of_that_gpu_there_is_no_share(file, monkeypatch):
    monkeypatch.setattr(registry, "entries", lambda: ([], {}))
    said = texts(page("speed"))
    assert "**532 TFLOP/s**" in said
    assert "66%" not in said


def test_what_the_hardware_did_is_shown_where_it_was_counted_and_else_how_to(file, monkeypatch):
    assert climb_view.COUNTED_BY in texts(page("speed"))
    counted = {one.kernel: one for one in rungs.COUNTED if not one.values["causal"] and one.values["head_dim"] == 128}
    points = {one.key: made.point(one) for one in (counted["rung:bf16"], counted["rung:tma"])}
    older, (key, point) = Origin(GPU, "abc", "of older code"), next(iter(points.items()))
    points[key] = dataclasses.replace(point, origin=older)
    there = dataclasses.replace(RECORD, points=points)
    monkeypatch.setattr(registry, "entries", lambda: ([registry.Entry("test", there, registry.RECORDED)], {}))
    said = texts(page("speed"))
    assert "| bf16 | **" in said
    assert "| TMA | **" in said
    assert "N = 8,192, d = 128" in said
    assert [
        line for line in said.splitlines() if climb_view.COUNTED_BY in line and "bf16" in line and "TMA" not in line
    ]


def test_what_warps_wait_for_is_drawn_where_it_was_counted(file, monkeypatch):
    (asked,) = (one for one in rungs.COUNTED if one.kernel == "rung:tma" and not one.values["causal"]
        and one.values["head_dim"] == 128)  # fmt: skip
    point = made.point(asked)
    assert point.counters
    stalls = Stalls(1000, 100, 50, {"selected": 100, "gmma": 900}, 1)
    counters = dataclasses.replace(point.counters, stalls=stalls)
    there = dataclasses.replace(RECORD, points={asked.key: dataclasses.replace(point, counters=counters)})
    monkeypatch.setattr(registry, "entries", lambda: ([registry.Entry("test", there, registry.RECORDED)], {}))
    said = texts(page("speed"))
    assert (
        counted_figures.stall_bars([counted_figures.Waits("TMA", stalls, counters.cold.tensor_active_percent)]) in said
    )
    assert "*GMMA*" in said


def test_a_timeline_is_drawn_where_there_is_one_and_else_the_page_says_how_to_record_it(file, monkeypatch):
    assert timeline.COMMAND in page("speed").info[0].value
    made_up = schedules.made()
    monkeypatch.setattr(timeline, "recorded", lambda: (made_up,))
    test = page("speed")
    assert timeline.timeline_told(made_up, made_up.programs[0]) in texts(test)
    assert len(test.get("plotly_chart")) == 3


def test_settings_are_shown_as_timed_or_as_compiled(file, monkeypatch, tmp_path):
    monkeypatch.setattr(tuning, "FILE", tmp_path / "none.json")
    compiled = tuning.load(tuning.COMPILED)
    for grid in compiled.grids:
        said = texts(page("speed", view="Tuning", tuned=rungs.BY_NAME[grid.rung].label))
        too_large = sum(point.failure == "shared memory" for point in grid.points)
        assert f"{too_large} of {len(grid.points)} " in said
        assert tuning.grid(grid, KERNELS[f"rung:{grid.rung}"].hue) in said
        assert tuning.COMMAND in said
    timed = dataclasses.replace(GRID, code="of older code")
    result = tuning.Tuning(GPU, "abc", "medians", grids=(timed,))
    tuning.FILE.write_text(json.dumps(dataclasses.asdict(result)))
    said = texts(page("speed", view="Tuning"))
    assert "2 of 4 settings" in said
    assert "recorded · NVIDIA Test 1" in said
    assert "Stale" in said
    tuning.FILE.write_text("{}")
    assert tuning.COMMAND in page("speed", view="Tuning").error[0].value


def test_a_first_call_is_shown_from_a_record(file, monkeypatch):
    monkeypatch.undo()
    for record in registry.shipped():
        measured = lengths.of(record)
        flash = measured.by_kernel["flash_attention"][measured.lengths[0]]
        said = texts(page("speed", view="Tuning", gpu=str(known_as(record.gpu))))
        assert f"**{float(f'{flash.first_call_ms / flash.median_ms:.1g}'):,.0f}**" in said
        assert f"recorded · {record.gpu}" in said


@pytest.mark.parametrize("record", registry.shipped(), ids=lambda record: record.gpu)
def test_the_crossing_is_answered_from_a_record(record):
    measured = lengths.of(record)
    said = texts(page("flash_attention", gpu=str(known_as(record.gpu))))
    assert f"recorded · {record.gpu}" in said
    assert f"**N = {measured.crossing.first:,.0f}**" in said
    assert f"N ≈ {measured.crossing.x:,.0f}" in said


def test_the_other_kernels_stay_beside_theirs(file):
    test = page("speed", view=OTHERS, work="Softmax")
    assert "exceeds the tolerance" in texts(test)
    test.segmented_control(key="work").set_value("Decode").run()
    assert "**3.8 TB/s**" in texts(test)


def test_a_table_that_was_left_out_is_said(file):
    test = page("speed", view=OTHERS, work="Attention, backward")
    assert f"{speed.COMMAND} backward" in test.info[0].value
    assert "P from lse" in texts(test)


@pytest.mark.parametrize("title", [table.title for table in TABLES.values()][1:])
def test_without_a_result_it_says_how_to_make_one_and_still_explains(title, monkeypatch, tmp_path):
    monkeypatch.setattr(speed, "FILE", tmp_path / "none.json")
    test = page("speed", view=OTHERS, work=title)
    assert speed.COMMAND in test.info[0].value
    assert not test.get("plotly_chart")
    assert len(codes(test)) >= 3


def test_without_a_result_the_rungs_can_be_read_all_the_same(monkeypatch, tmp_path):
    monkeypatch.setattr(speed, "FILE", tmp_path / "none.json")
    test = page("speed", rung="exp2")
    assert speed.COMMAND in test.info[0].value
    assert "TFLOP/s**" not in texts(test)
    assert rungs.BY_NAME["exp2"].source.rstrip() in codes(test)


def test_a_broken_file_is_said(file):
    file.write_text("[]")
    assert file.name in page("speed").error[0].value
    file.write_text("{}")
    assert speed.COMMAND in page("speed").error[0].value


@pytest.mark.parametrize("kernel", kernels.of("softmax"), ids=lambda kernel: kernel.call)
def test_each_kernel_shows_its_ideas_and_its_code(kernel, file):
    test = page("speed", view=OTHERS, work="Softmax", **{"softmax kernel": kernel.call})
    shown = codes(test)
    assert {kernel.excerpt(idea) for idea in kernel.ideas} == set(shown[: len(kernel.ideas)])
    assert all(idea.line in kernel.excerpt(idea) for idea in kernel.ideas)
    assert not any(re.sub(r"\s*#.*", "", kernel.excerpt(idea)).endswith(":") for idea in kernel.ideas)
    assert all(2 < len(kernel.excerpt(idea).splitlines()) < 9 for idea in kernel.ideas)
    assert kernel.source.rstrip() in shown
    assert (kernel.difference.rstrip() in shown) == bool(kernel.below)


class Gpu(Engine):
    """An engine on a GPU that answers at once, or fails."""

    def __init__(self) -> None:
        self.fails: WorkerError | None = None
        self.asked: list[Experiment] = []

    def point(self, experiment: Experiment, *_: Any, **__: Any) -> Point:
        self.asked.append(experiment)
        if self.fails:
            raise self.fails
        return made.point(experiment)

    def device_if_known(self) -> DeviceStatus:
        return DeviceStatus(True, "", {**GPU.__dict__})


@pytest.fixture
def gpu(monkeypatch):
    """This machine has a GPU."""
    here = Gpu()
    for module in (view, follow):
        monkeypatch.setattr(module, "engine", lambda: here)
    return here


def test_a_rung_is_timed_live_where_there_is_a_gpu(file, gpu):
    test = page("speed", rung="tma")
    (button,) = (one for one in test.button if one.label.startswith("Time it on this machine's NVIDIA Test 1"))
    button.click().run()
    assert gpu.asked[-1].kernel == "rung:tma"
    assert gpu.asked[-1].values["seq_len"] == 8192
    assert "**1 PFLOP/s**" in texts(test)  # 10¹² FLOPs in the millisecond of a made-up timing
    gpu.fails = WorkerTimeout(1.0)
    next(one for one in test.button if one.label.startswith("Time it")).click().run()
    assert len(test.error) == 1


def test_without_a_gpu_nothing_offers_to_time_a_rung(file):
    assert not [one for one in page("speed").button if one.label.startswith("Time it")]


def test_a_first_call_is_timed_live_where_there_is_a_gpu(file, gpu, monkeypatch):
    monkeypatch.setattr(registry, "entries", lambda: ([], {}))
    test = page("speed", view="Tuning")
    next(one for one in test.button if one.label.startswith("Time a first call")).click().run()
    assert gpu.asked[-1].kernel == "flash_attention"
    assert "hardware · NVIDIA Test 1, now" in texts(test)
    assert "80 ms" in texts(test)


@pytest.mark.parametrize("pair", CLIMB)
def test_the_link_to_the_same_arithmetic_opens_both_runs_without_triton(pair, monkeypatch, tmp_path):
    monkeypatch.setattr("explain.engine.has_triton", lambda: False)
    monkeypatch.setenv("TILESCOPE_CACHE", str(tmp_path))
    test = page("side_by_side", **rungs.side_by_side(pair, "").query)
    assert not test.error
    assert "must be" not in texts(test)
    assert [box.value for box in test.selectbox if str(box.key).endswith("kernel")] == [
        run.kernel for run in CLIMB[pair]
    ]


def test_the_curve_over_n_has_no_rungs_and_a_colour_for_each_line(monkeypatch, tmp_path):
    data = result_json()
    for one in data["cases"]:
        if one["case"]["table"] == "attention":
            one["variants"] += [timed(f"{speed.RUNG}{name}", 1e14, 1e12) for name in ORDER]
            one["variants"].append(timed("flash_attention_exp2", 3e14, 1e12))
    (tmp_path / "speed.json").write_text(json.dumps(data))
    monkeypatch.setattr(speed, "FILE", tmp_path / "speed.json")
    lines = json.loads(page("speed").get("plotly_chart")[-1].proto.spec)["data"]
    assert speed.Variant("flash_attention_exp2").label in [line["name"] for line in lines]
    assert not [line["name"] for line in lines if line["name"].startswith(speed.RUNG)]
    colours = [line["line"]["color"] for line in lines]
    assert len(set(colours)) == len(colours)
