"""Timelines: Proton's trace read, our file given back or refused, what overlaps, what is drawn."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, replace

import pytest

from explain import cli, recordings
from explain.chapters.speed import timeline
from explain.chapters.speed.timeline import SCOPES, Lane, Program, Span
from explain.gpus import GPUS
from explain.recordings.timelines import RUNS
from explain.records.results import ResultFileError
from kernels import scopes
from kernels.edits import source_of
from kernels.schedule import deal, tile_visits
from tests.explain.chapters.speed import schedules


def test_protons_trace_becomes_programs_with_cycles_of_their_own():
    programs = timeline.from_proton(schedules.trace(visits=4, programs=3), keep=3)
    assert [(program.program, program.sm) for program in programs] == [(0, 10), (1, 11), (2, 12)]
    assert len({program.lanes for program in programs}) == 1  # the same schedule, though they began at other times
    first = programs[0]
    assert [name for name, _ in first.named] == ["producer", "consumer 1", "consumer 2"]
    assert [lane.warp for _, lane in first.named] == [8, 0, 4]
    assert first.visits() == 4
    assert first.lanes[0].spans[0] == Span("wait K", 100, 110)
    assert first.cycles == 100 + 3 * schedules.VISIT + schedules.BEHIND + 560


@pytest.mark.parametrize(("keep", "kept"), [(1, [0]), (2, [0, 4]), (3, [0, 3, 6]), (99, list(range(7)))])
def test_programs_are_kept_from_all_over_the_launch(keep, kept):
    assert [one.program for one in timeline.from_proton(schedules.trace(visits=1, programs=7), keep)] == kept


def test_what_runs_under_what_is_counted_once():
    program = Program(
        0, 0, (Lane(0, (Span("QK", 0, 100), Span("PV", 50, 200), Span("softmax", 150, 250))), Lane(4, (Span("PV", 190,
        220), Span("wait K", 220, 400)))),
    )  # fmt: skip
    assert program.matmuls == 220 / 400
    assert program.hidden == 70 / 100
    assert Program(0, 0, (Lane(0, (Span("load K", 0, 10),)),)).hidden is None


def test_alone_a_group_hides_two_thirds_of_its_softmax_and_a_second_group_the_rest():
    (both,) = timeline.from_proton(schedules.trace(visits=12), 1)
    alone = replace(both, lanes=tuple(lane for lane in both.lanes if lane.warp == 0))
    assert alone.hidden == pytest.approx(200 / 350)  # rescaling counts as softmax
    assert both.hidden is not None
    assert alone.hidden is not None
    assert both.hidden > alone.hidden
    assert both.matmuls > alone.matmuls


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"name": "nap"}, "scope nap"),
        ({"dur": -0.001}, "-1 cycles"),
        ({"pid": "somewhere"}, "somewhere"),
        ({"tid": "thread"}, "thread"),
        ({"ts": None}, "NoneType"),
    ],
)
def test_a_trace_that_proton_did_not_write_so_is_refused(change, words):
    trace = schedules.trace(visits=1)
    trace["traceEvents"][0] |= change
    with pytest.raises(ResultFileError, match=words):
        timeline.from_proton(trace, 1)


def test_an_empty_trace_is_refused():
    with pytest.raises(ResultFileError, match="no scope"):
        timeline.from_proton({"traceEvents": []}, 1)


def test_a_file_gives_back_what_was_saved(tmp_path):
    made = schedules.made()
    path = tmp_path / "timeline-made-d128.json"
    timeline.save(path, made)
    assert asdict(timeline.load(path)) == asdict(made)
    assert [one.name for one in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize(
    "damage",
    [
        {"version": 2},
        {"format": "tilescope-record"},
        {"programs": []},
        {"shape": [1, 2, 3]},
        {"sm_mhz": 0},
        {"more": 1},
        {"programs": [{"program": 0, "sm": 0, "lanes": [{"warp": 0, "spans": [["QK", 5, 4]]}]}]},
        {"programs": [{"program": 0, "sm": 0, "lanes": [{"warp": 0, "spans": [["nap", 4, 5]]}]}]},
        {"programs": [{"program": 0, "sm": 0, "lanes": [{"warp": 0, "spans": []}]}]},
    ],
)
def test_a_file_that_is_no_timeline_is_refused_and_says_how_to_make_one(tmp_path, damage):
    path = tmp_path / "timeline-x-d128.json"
    timeline.save(path, schedules.made())
    path.write_text(json.dumps(json.loads(path.read_text()) | damage))
    with pytest.raises(ResultFileError, match=r"timeline-x-d128.json .*record timelines"):
        timeline.load(path)


def test_every_scope_that_is_marked_has_its_words_and_its_colour():
    marked = (scopes.marked(source_of(module)) for module in {run.module for run in RUNS})
    assert {scope for text in marked for scope in re.findall(r'enter_scope\("([^"]+)"\)', text)} == set(SCOPES)
    drawn = [scope for _, own in timeline.SPANS.values() for scope in own]
    assert sorted(drawn) == sorted(SCOPES)


@pytest.mark.parametrize("path", sorted(recordings.FOLDER.glob("timeline-*.json")), ids=lambda path: path.stem)
def test_a_shipped_timeline_is_whole_and_of_a_kernel_that_there_is(path):
    one = timeline.load(path)
    assert path == timeline.path_of(one.key)
    assert f"def {one.function}(" in source_of(one.module)
    assert all(program.visits() > 1 and program.hidden is not None for program in one.programs)


@pytest.mark.parametrize("run", RUNS, ids=lambda run: f"{run.name}-d{run.shape[3]}{'-causal' * run.causal}")
def test_what_the_recorder_runs_is_there_can_be_marked_and_fits_what_the_profiler_keeps(run):
    source = source_of(run.module)
    assert f"def {run.function}(" in source
    assert "softmax" in scopes.marked(source)
    batch, heads, seq_len, head_dim = run.shape
    rows = 64 * (3 if head_dim == 64 else 2)
    tiles = tile_visits(-(-seq_len // rows), rows, seq_len, 128, 0 if run.causal else None)
    dealt = deal(batch * heads, tiles, 132)
    assert run.module == "kernels.attention_hopper" or len(dealt) == batch * heads * len(tiles)  # one for each SM
    readings = max(2 * 7 * sum(tiles[tile % len(tiles)] for tile in own) + 20 * len(own) for own in dealt)
    assert readings <= (1024 if head_dim == 128 else 256)


def test_without_a_gpu_the_recorder_says_so_writes_nothing_and_fails(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setenv("TRITON_INTERPRET", "0")
    assert cli.main(["record", "timelines", "specialised", "--out", str(tmp_path)]) == 1
    assert capsys.readouterr().out.count("ended with") == 1
    assert list(tmp_path.iterdir()) == []


def test_the_picture_has_a_row_for_products_and_one_for_the_rest_and_opens_on_some_visits():
    made = schedules.made()
    program = made.programs[0]
    figure = timeline.lanes(made, program)
    rows = figure.layout.yaxis.categoryarray[::-1]
    assert rows[0] == "producer"
    assert rows[1:4] == tuple(f"consumer 1 · {what}" for what in ("Q Kᵀ", "P̃ V", "softmax, waits"))
    assert sum(len(trace.x) for trace in figure.data) == sum(len(lane.spans) for lane in program.lanes)
    legend = [trace.name for trace in figure.data if trace.showlegend]
    assert len(legend) == len(set(legend))
    start, end = figure.layout.xaxis.range
    assert end - start == pytest.approx(timeline.SHOWN * schedules.VISIT / 2000)
    (softmax,) = [trace for trace in figure.data if trace.name == "softmax" and trace.y[0].startswith("consumer 1")]
    assert (softmax.base[0], softmax.x[0]) == (pytest.approx(0.155), pytest.approx(0.15))
    assert "300 cycles, 0.150 µs" in softmax.customdata[0][1]


def test_a_short_run_is_shown_whole():
    (program,) = timeline.from_proton(schedules.trace(visits=4), 1)
    assert timeline.window(program) == (0, program.cycles)


def test_runs_side_by_side_are_the_means_of_their_programs():
    made = schedules.made()
    (one,) = timeline.from_proton(schedules.trace(), 1)
    fetch_only = replace(one, lanes=tuple(lane for lane in one.lanes if lane.produces))
    rows = timeline.compared([made, replace(made, programs=(fetch_only,))]).splitlines()
    assert len(rows) == 4
    assert f"| – | **{one.matmuls:.0%}** | **≤ {one.hidden:.0%}** | {one.cycles / 8:,.0f} |" in rows[2]
    assert rows[3].startswith("| persistent")
    assert "**not known: 0 of 2 warpgroups recorded** | – |" in rows[3]


def test_a_share_of_some_warpgroups_says_so():
    for one in timeline.recorded():
        row = timeline.compared([one])
        partly = one.programs[0].unseen > 0
        assert ("within the warpgroup recorded" in row) == partly
        assert ("of the recorded warpgroup" in timeline.timeline_told(one, one.programs[0])) == partly


def test_matmuls_need_no_more_time_than_was_seen_and_fit_one_after_the_other():
    for one in timeline.recorded():
        cycles = one.matmul_cycles
        assert cycles
        *_, n, _ = one.shape
        assert one.causal or all(program.visits() * timeline.KEYS == n for program in one.programs)
        for program in one.programs:
            runs = program.earliest(cycles)
            assert sum(end - start for start, end in runs) / program.cycles == pytest.approx(program.needed(cycles))
            assert program.unseen or program.needed(cycles) <= program.matmuls
    assert [one.name for one in timeline.recorded() if one.programs[0].unseen] == ["specialised"]
    made = schedules.made()  # of a GPU that is not known
    assert made.matmul_cycles is made.needed is None


def test_flops_per_cycle_give_the_datasheets_rate_at_a_plausible_clock():
    for gpu in GPUS.values():
        if gpu.tensor_flops_per_cycle:
            clock = gpu.tensor_flops_per_second / gpu.sms / gpu.tensor_flops_per_cycle
            assert 1.2e9 < clock < 2.2e9, gpu.name


def test_what_the_lanes_come_to_is_told_with_what_the_marks_cost():
    made = schedules.made()
    told = timeline.timeline_told(made, made.programs[0])
    assert f"**{made.programs[0].matmuls:.0%}**" in told
    assert "µs" not in told
    times = timeline.times_told(made, made.programs[0])
    assert "3.0 µs" in times
    assert "launch without it takes 2.5 µs" in times
    assert "launch" not in timeline.times_told(replace(made, plain_us=None), made.programs[0])


def test_a_timeline_says_what_it_is_of_and_where_it_is_from():
    made = schedules.made(causal=True)
    assert made.key == "made_up-d128-causal"
    assert made.title == "persistent, 1 × 2 × 1,024 × 128, bf16, causal"
    assert "recorded · NVIDIA Test 1" in made.source
    assert json.loads(json.dumps(asdict(made)))["name"] == "made_up"
