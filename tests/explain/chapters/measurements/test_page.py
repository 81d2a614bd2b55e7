"""The page of measurements: what is recorded is shown as such, a reader's file is compared or refused, and no error
with counters closes it.
"""

from __future__ import annotations

import html
import math
import re
import time
from collections.abc import Iterator
from dataclasses import replace
from statistics import median

import pytest
from streamlit.testing.v1 import AppTest

from explain.chapters.measurements import asked, beside, exercises, limits, points, predictions, records, view
from explain.compile.service import compiler
from explain.engine import DeviceStatus, Engine
from explain.experiment import Experiment
from explain.figures import palette
from explain.figures.labels import text_width
from explain.figures.numbers import duration, moved, percent, ratio, si
from explain.figures.plot import FONT
from explain.gpus import GPUS
from explain.prediction import fitted
from explain.records import file, registry
from explain.records.model import Point, Record
from explain.records.plans import PLANS, sizes
from explain.ui import records as choice
from explain.ui.gpu import CHOSEN
from explain.workers import WorkerSpec
from kernels.catalog import KERNELS
from tests.explain.device.fake_worker import WHERE
from tests.explain.records import made
from tests.explain.records.made import SHIPPED
from tests.pages import measured_on, of, page, texts

COUNT = "Count one kernel now"
FAKE = WorkerSpec("device", "tests.explain.device.fake_worker:handle", default_seconds=120, address_space_limit=False)


@pytest.fixture(autouse=True)
def nothing_of_this_machine(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("TILESCOPE_CACHE", str(tmp_path))


def other() -> Record:
    """Another GPU's: one of the shipped experiments is faster, one could not be run."""
    where = replace(made.WHERE, gpu="NVIDIA Other 9")
    first, second, _ = sizes("softmax_online")
    return made.record(made.point(first), Point(second, why="The GPU's memory is full"), where=where)


def bring(test: AppTest, data: bytes) -> AppTest:
    test.file_uploader[0].set_value(("gpu.json", data, "application/json"))
    test.run()
    return test


@pytest.mark.parametrize(("gpu", "shows"), [(None, "h100-80gb-hbm3"), ("H100", "h200")])
def test_records_chosen_before_are_shown_again_until_the_reader_chooses_another_gpu(gpu, shows) -> None:
    test = of("pages/measurements.py")
    test.session_state[choice.SHOWN] = gpu, ["recorded:h200.json"]
    test.session_state[CHOSEN] = "H100"
    assert measured_on(test.run()).value == [f"recorded:{shows}.json"]


def choose_kernel(test: AppTest, kernel: str) -> AppTest:
    next(box for box in test.selectbox if box.label == "Kernel").set_value(kernel).run()
    return test


def test_what_is_recorded_is_shown_with_its_gpu_and_its_numbers():
    test = choose_kernel(page("measurements"), view.ALL)
    said = texts(test)
    assert "NVIDIA H200" in said
    plan = PLANS["levels"]
    table = points.rows(plan, [registry.Entry("a", SHIPPED, registry.YOURS)], None)
    assert len(table) == len([one for one in plan.experiments if SHIPPED.point(one)]) > 0
    first = SHIPPED.point(plan.experiments[0])
    read = first.counters.cold.dram_read_bytes
    assert read is not None
    row = next(row for row in table if row["kernel"] == KERNELS[plan.experiments[0].kernel].title)
    assert row["HBM read, L2 cold, MB"] == read / 1e6
    times = ratio(read / points.tensors_once(plan.experiments[0]))
    numbers = f"| 94.02 | 268.4 | 134.2 | {read / 1e6:.1f} | {times} |"
    assert any(line.startswith("| **Naive softmax**<br>") and numbers in line for line in said.splitlines())


def test_what_all_rows_of_a_kernel_share_stands_once_and_a_date_only_where_rows_differ():
    shown = [registry.Entry("a", SHIPPED, registry.YOURS)]
    table = points.points_table(PLANS["sweeps"], shown, None)
    *_, begins = (line for line in table.splitlines() if line.startswith("| **FlashAttention-2 forward**"))
    assert "16&nbsp;heads" in begins
    rows = table[table.index(begins) + len(begins) :].partition("| **")[0]
    assert rows.count("\n") > 3
    assert "heads" not in rows
    for plan, every in PLANS.items():
        for kernel in points.kernels(every, shown):
            dates = {row["date"] for row in points.rows(every, shown, None, kernel) if "date" in row}
            head = points.points_table(every, shown, None, kernel=kernel).partition("\n")[0]
            assert ("| date |" in head) == (len(dates) > 1), plan
            assert ("measured " in points.in_every_row(every, shown, kernel)) == (len(dates) == 1)


def test_no_two_rows_of_a_kernel_look_alike():
    shown = [registry.Entry("a", SHIPPED, registry.YOURS)]
    for plan in points.plans(shown).values():
        for kernel in ("", *points.kernels(plan, shown)):
            named = [(row["kernel"], row["sizes"]) for row in points.rows(plan, shown, None, kernel)]
            assert len(set(named)) == len(named)
            assert all(own for _, own in named)


def test_what_varies_stands_in_the_rows_and_what_does_not_above_them():
    shown = [registry.Entry("a", SHIPPED, registry.YOURS)]
    shared = points.in_every_row(PLANS["sweeps"], shown, "flash_attention").split(", ")
    assert "16 heads" in shared
    assert "d = 64" not in shared
    rows = [str(row["sizes"]).split(", ") for row in points.rows(PLANS["sweeps"], shown, None, "flash_attention")]
    assert {"d = 32", "d = 64", "d = 128", "BLOCK_M 16", "BLOCK_N 128", "fp32", "bf16", "causal", "not causal"} <= {
        words for row in rows for words in row
    }
    assert not any(set(shared) & set(row) for row in rows)


def test_what_differs_from_the_row_above_is_bold():
    one, two, _, *_ = points.points_table(
        PLANS["sweeps"], [registry.Entry("a", SHIPPED, registry.YOURS)], None, False, "flash_attention"
    ).splitlines()[2:]
    assert "<b>" not in one
    assert re.findall("<b>(.*?)</b>", html.unescape(two)) == ["N\u00a0=\u00a0256"]


def test_each_source_says_something_of_the_same_run():
    shown = [registry.Entry("a", SHIPPED, registry.YOURS)]
    _, _, formula, trace, hardware, compiled, predicted = records.sources_table(
        view.EXAMPLE, shown, fitted(SHIPPED)
    ).splitlines()
    assert f"{view.EXAMPLE.traffic.read_bytes:,} B" in formula
    assert f"{view.EXAMPLE.traffic.read_bytes:,} B" in trace
    point = SHIPPED.point(view.EXAMPLE)
    assert point
    assert point.seconds
    assert duration(point.seconds) in hardware
    known = compiler().look(view.EXAMPLE, 90)
    assert known
    assert known.cost
    assert f"{known.cost.launches[0].registers} registers per thread" in compiled
    assert known.cost.triton in compiled
    assert " on an A100: not tested " in predicted
    *_, tested = records.sources_table(view.EXAMPLE, shown, fitted(*registry.shipped())).splitlines()
    assert " on the H100, where " in tested
    bare = records.sources_table(view.EXAMPLE, [], None).splitlines()
    assert bare[4].endswith("| – |")
    assert bare[5].endswith("| – |")
    assert bare[6].endswith("| – |")


def test_every_predicted_time_is_drawn_and_the_worst_kernel_is_named():
    model = fitted(*registry.shipped())
    assert model is not None
    for test in model.tests:
        points = [trace for trace in predictions.predicted_chart(test).data if trace.mode == "markers"]
        assert sum(len(trace.x) for trace in points) == len(test.points)
        assert len({trace.marker.symbol for trace in points}) == len(points)
    rows = predictions.prediction_table(model).splitlines()[2:]
    assert len(rows) == len(model.fitted)
    medians = [float(row.split("|")[3].split()[0]) for row in rows]
    assert medians == sorted(medians, reverse=True)
    said = predictions.told(model, model.tests[0]).replace("\u00a0", " ")
    assert rows[0].split("|")[1].strip() in said
    assert rows[0].split("|")[3].strip() in said


def test_what_is_predicted_too_long_is_told_with_both_gpus_bandwidths():
    model = fitted(*registry.shipped())
    assert model is not None
    elsewhere, own = (predictions.told(model, test).replace("\u00a0", " ") for test in model.tests)
    assert f"{ratio(GPUS['H200'].hbm_bytes_per_second / GPUS['H100'].hbm_bytes_per_second)} the bandwidth" in elsewhere
    assert "bandwidth" not in own


def test_what_no_model_would_say_is_told_beside_the_model():
    model = fitted(*registry.shipped())
    assert model
    elsewhere = model.tests[0]
    own = {one.experiment: one.measured for one in model.points}
    ratios = sorted(math.exp(abs(math.log(own[one.experiment] / one.measured))) for one in elsewhere.points)
    far = sum(one > predictions.FAR for one in ratios)
    told, left_out = (predictions.told(model, test).replace("\u00a0", " ") for test in model.tests)
    modelled = sum(one.factor > predictions.FAR for one in elsewhere.points)
    beside_own = predictions.verdict(model).replace("\u00a0", " ")
    assert f"errors of more than 1.25 × fall from {far} to {modelled} of {len(elsewhere.points)}" in beside_own
    assert f"Of the {modelled} predictions that are more than 1.25 × off" in told
    assert ("own time is at least as good a guess" in beside_own) == (elsewhere.median >= median(ratios))
    assert far > modelled  # the model is worth having
    assert "own time" not in left_out
    rows = [row.split(" | ")[1:] for row in predictions.errors_table(model).splitlines()[2:]]
    by_model, plain, alone = ([cell.strip(" |") for cell in row] for row in rows)
    every = len(elsewhere.points)
    assert by_model == [ratio(elsewhere.median), f"{modelled} of {every}", ratio(elsewhere.worst.factor)]
    assert plain == [ratio(median(ratios)), f"{far} of {every}", ratio(ratios[-1])]
    assert alone[0] == ratio(model.tests[1].median)


def test_tensor_cores_are_told_of_kernels_with_a_matmul_only():
    busy = points.QUANTITIES["tensor cores busy, %"]
    softmax, attention = (SHIPPED.point(sizes(kernel)[0]) for kernel in ("softmax_naive", "flash_attention"))
    assert softmax is not None
    assert attention is not None
    assert softmax.counters.cold.tensor_active_percent is not None
    assert busy(softmax) is None
    assert busy(attention) == attention.counters.cold.tensor_active_percent


def test_one_kernel_can_be_chosen():
    shown = [registry.Entry("a", SHIPPED, registry.YOURS)]
    test = page("measurements")
    for kernel, other in ((view.OPENING, "softmax_safe"), ("softmax_safe", view.OPENING)):
        said = texts(choose_kernel(test, kernel))
        assert points.points_table(PLANS["levels"], shown, None, False, kernel) in said
        assert points.points_table(PLANS["levels"], shown, None, False, other) not in said


def test_every_heading_has_its_unit():
    shown = [registry.Entry("a", SHIPPED, registry.YOURS)]
    head = html.unescape(points.points_table(PLANS["levels"], shown, None).splitlines()[0]).replace("<br>", " ")
    assert head.startswith(f"| kernel, sizes | {' | '.join(points.FIRST)} | ")
    assert head.endswith(" | date |")
    assert all(f"| {name} |" in head for name in points.QUANTITIES)
    heads = points.points_table(PLANS["levels"], shown, None).splitlines()[0].split("|")
    assert max(cell.count("<br>") for cell in heads) <= 2


STALE = sizes("softmax_naive")[1]


def with_one_out_of_date() -> Record:
    """The shipped record's levels, all of today's code except one."""
    dated = []
    for one in PLANS["levels"].experiments:
        if (point := SHIPPED.point(one)) and point.origin:
            code = "older" if one == STALE else one.entry.code
            dated.append(replace(point, origin=replace(point.origin, code=code)))
    return replace(SHIPPED, points={point.experiment.key: point for point in dated})


def test_what_is_out_of_date_is_marked_and_can_be_seen_alone():
    one = registry.Entry("a", with_one_out_of_date(), registry.YOURS)
    fresh = registry.Entry("b", other(), registry.YOURS)
    assert points.plans([one])[points.OUTDATED].experiments == (STALE,)
    assert points.OUTDATED not in points.plans([fresh])
    marked = [":orange[" in line for line in points.points_table(PLANS["levels"], [one], None).splitlines()[2:]]
    kernels = [row["kernel"] for row in points.rows(PLANS["levels"], [one], None)]
    assert marked.count(True) == 1
    assert kernels[marked.index(True)] == STALE.entry.title
    beside = points.points_table(PLANS["levels"], [fresh, one], next(iter(points.QUANTITIES)), kernel="softmax_naive")
    assert beside.count(":orange[on H200]") == 1


def test_a_press_shows_the_rows_that_are_out_of_date(monkeypatch):
    record = with_one_out_of_date()
    monkeypatch.setattr(registry, "shipped", lambda: (record,))
    test = page("measurements")
    next(button for button in test.button if button.label == "Show what is out of date").click().run()
    shown = [registry.Entry("a", record, registry.RECORDED)]
    plan = points.plans(shown)[points.OUTDATED]
    (kernel,) = points.kernels(plan, shown)
    assert points.points_table(plan, shown, None, False, kernel) in texts(test)


def test_every_load_is_told_of_teaching_kernels_only_and_every_tensor_once_of_all():
    shown = [registry.Entry("a", SHIPPED, registry.YOURS)]
    taught = points.rows(PLANS["levels"], shown, None, "flash_attention_v1")[0]
    rung = points.rows(PLANS["rungs"], shown, None, "rung:tma")[0]
    assert points.LOADS not in rung
    run = sizes("flash_attention_v1")[0]
    assert taught[points.LOADS] == run.traffic.read_bytes / 1e6
    p = run.values
    tensor = p["batch"] * p["heads"] * p["seq_len"]
    once = tensor * (3 * 2 + 4) * p["head_dim"] + 2 * 4 * tensor  # Q, K, V in bf16, Õ in float32; m and ℓ
    assert taught[points.ONCE] == once / 1e6
    assert rung[points.ONCE]


def test_times_without_a_second_one_of_their_kernel_are_named():
    model = fitted(SHIPPED)
    assert model is not None
    said = predictions.unpredicted(model, SHIPPED).replace("\u00a0", " ")
    timed = [point for point in SHIPPED.points.values() if point.timing]
    assert len(timed) > len(model.points)
    assert said.count("\n- **") == said.count("**") / 2
    assert said.count("**") == 2 * (len(timed) - len(model.points))
    kept = {key: point for key, point in SHIPPED.points.items() if point.experiment.kernel in model.fitted}
    assert predictions.unpredicted(model, replace(SHIPPED, points=kept)) == ""


def test_no_share_above_100_percent_and_no_overhead_where_none_shows():
    model = fitted(SHIPPED)
    assert model is not None
    (left_out,) = model.tests
    factors = [point.factor for point in left_out.points]
    assert left_out.median == median(factors)
    assert left_out.worst.factor == max(factors)
    for row in predictions.prediction_table(model).splitlines()[2:]:
        *_, overhead, bandwidth, peak = (cell.strip() for cell in row.strip("|").split("|"))
        fit = next(fit for name, fit in model.fitted.items() if KERNELS[name].title == row.split("|")[1].strip())
        assert (overhead == "–") == (not fit.needed[0])
        for cell, (low, high), needed in zip((bandwidth, peak), fit.ranges[1:], fit.needed[1:], strict=True):
            ends = [float(end.removesuffix("%")) / 100 for end in cell.split("–")]
            assert [ends[0], ends[-1]] == pytest.approx([low, high], abs=0.005)
            assert needed or high == 1  # as good without it


def test_the_questions_are_answered_from_the_record():
    run, point = exercises.run_of(SHIPPED, view.EXAMPLE), SHIPPED.point(view.EXAMPLE)
    assert run is not None
    assert point is not None
    assert point.seconds
    formula, read = view.EXAMPLE.traffic, point.counters.cold.dram_read_bytes
    assert read
    least = points.tensors_once(view.EXAMPLE) / SHIPPED.roofs["hbm"].per_second
    rate = formula.flops_of("matmul") / point.seconds / SHIPPED.roofs["matmul bf16"].per_second
    answers = [question.answer(run) for question in exercises.QUESTIONS]
    assert answers == pytest.approx([100 * (1 - read / formula.read_bytes), point.seconds / least, 100 * rate])
    assert exercises.run_of(replace(SHIPPED, roofs={}), view.EXAMPLE) is None


def test_the_bytes_of_a_kernel_that_spills_add_up_as_they_are_shown():
    one = registry.Entry("a", SHIPPED, registry.YOURS)
    told = points.spilled(PLANS["levels"], one, "flash_attention")
    assert told
    whole, output, spill = (int(n.replace(",", "")) for n in re.findall(r"([\d,]+) bytes", told.exact))
    assert whole == output + spill
    assert points.spilled(PLANS["levels"], one, "softmax_naive") is None


def test_the_row_that_spills_most_is_the_one_that_is_named():
    one = registry.Entry("a", SHIPPED, registry.YOURS)
    for plan in ("levels", "sweeps", "rungs"):
        for kernel in points.kernels(PLANS[plan], [one]):
            spilled = {
                e: point.counters.cold.spill_written_bytes or 0
                for e in PLANS[plan].experiments
                if e.kernel == kernel and (point := SHIPPED.point(e)) and point.counters
            }
            told = points.spilled(PLANS[plan], one, kernel)
            assert (told is not None) == any(spilled.values())
            if told:
                assert f"{moved(max(spilled.values()))} are spilled" in told.told
                assert f"in {sum(map(bool, spilled.values()))} of {len(spilled)} counted" in told.told


def test_a_row_that_spills_and_is_slow_is_told_with_what_else_differs():
    one = registry.Entry("a", SHIPPED, registry.YOURS)
    slow, *others = (
        (SHIPPED.points[run.key].seconds or 0) / run.traffic.flops for run in sizes("cross_entropy_standard")
    )
    told = points.spilled(PLANS["levels"], one, "cross_entropy_standard")
    assert told
    assert f"{ratio(slow / median(others))} as long per FLOP" in told.told
    assert "no multiple of 16" in told.told
    fp32 = points.spilled(PLANS["sweeps"], one)  # the only row of its kernel in fp32
    assert fp32
    assert "per FLOP" not in fp32.told


def test_times_that_contain_time_on_the_host_are_named_as_far_as_the_record_shows():
    for one in registry.entries()[0]:
        for plan in points.plans([one]).values():
            for kernel in points.kernels(plan, [one]):
                told = points.on_host(plan, one, kernel)
                assert bool(told) == (kernel == "torch:attention_backward" and plan.name == "flashattention-memory")
                assert "at N = 128" in told or not told


def test_times_with_host_time_are_marked_and_in_no_ratio_that_is_told():
    plan, kernel, both = PLANS["flashattention-memory"], "torch:attention_backward", entries()
    rows = points.rows(plan, both, points.TIME, kernel)
    hosted = [row for row in rows if row.get(points.HOST)]
    steady = [float(row[points.BESIDE] or 0) for row in rows if row.get(points.BESIDE) and row not in hosted]
    assert hosted
    assert "| probably, H200" in points.points_table(plan, both, points.TIME, kernel=kernel)
    said = points.seen(plan, both, points.TIME, kernel)
    assert f"to {ratio(max(steady))} as long" in said
    assert f"median of {len(steady)} rows" in said
    assert f"{len(hosted)} rows are left out of these figures and drawn as rings" in said
    assert beside.dots(plan, both, points.TIME, kernel).count('fill="transparent"') == len(hosted) + 1  # and the key


def test_two_gpus_have_the_note_about_spills_each():
    said = texts(page("measurements", records="H200,H100", kernel="cross_entropy_standard"))
    assert all(f"{gpu}: **" in said for gpu in ("H200", "H100"))
    assert said.count("spill</span> in 1 of 3 counted rows") + said.count("spill in 1 of 3 counted rows") == 2


def test_every_shipped_record_can_be_shown_and_the_chosen_gpus_is_at_once():
    every = {f"recorded:{path.name}" for path in registry.SHIPPED}
    for query, first in ({}, registry.SHIPPED[0]), ({"gpu": "H100"}, registry.SHIPPED[1]):
        test = page("measurements", **query)
        assert test.pills[0].value == [f"recorded:{first.name}"]
        assert f"recorded · {file.load(first).gpu}" in texts(test)
        assert every == {entry.key for entry in registry.entries()[0]}


def test_a_readers_file_is_compared_and_gone_when_it_is_forgotten():
    test = bring(page("measurements"), file.written(other()))
    assert test.pills[0].value == ["recorded:h200.json", registry.uploaded(file.written(other())).key]
    said = texts(test)
    assert "NVIDIA Other 9" in said
    assert " Other 9, µs |" in said.replace("<br>", " ")
    said = texts(test.segmented_control[0].set_value("Where numbers come from").run())
    assert "The GPU's memory is full" in said  # the record's own reason
    assert said.count("experiments timed on NVIDIA") == 2
    test.segmented_control[0].set_value("Limits of a GPU").run()
    assert "HBM, read · H200" in [metric.label for metric in test.metric]
    next(button for button in test.button if button.label == "Forget my files").click().run()
    assert "Other 9" not in texts(test)


def test_a_file_that_cannot_be_believed_is_refused_with_the_reason():
    data = file.written(other())
    test = bring(page("measurements"), data.replace(b"4096", b"4095", 1))
    assert [error.value for error in test.error if "gpu.json" in error.value]
    assert len(test.pills[0].options) == len(registry.SHIPPED)


def test_a_file_of_this_machine_comes_first_and_a_broken_one_is_named():
    registry.own_folder().mkdir(parents=True)
    file.save(registry.own_folder() / "other-9.json", other())
    (registry.own_folder() / "half.json").write_bytes(b'{"format": "tilescope-record"')
    test = page("measurements")
    assert [option.partition(" ·")[0] for option in test.pills[0].options] == ["Other 9", "H200", "H100"]
    assert test.pills[0].value == ["here:other-9.json"]
    assert "NVIDIA Other 9" in texts(test)
    assert "half.json" in test.warning[0].value


def test_without_any_record_the_page_says_how_to_make_one(monkeypatch):
    monkeypatch.setattr(registry, "shipped", tuple)
    assert "python -m explain measure" in page("measurements").info[0].value
    assert "no recorded GPU" in texts(page("measurements", view="Predicted times"))


def test_a_record_without_limits_says_how_to_measure_them():
    test = bring(page("measurements", view="Limits of a GPU"), file.written(replace(other(), roofs={})))
    test.pills[0].set_value([registry.uploaded(file.written(replace(other(), roofs={}))).key]).run()
    assert not test.metric
    assert "No limits were measured here" in texts(test)


@pytest.mark.parametrize("name", view.WORDS)
def test_each_view_has_its_goal_and_its_part(name):
    test = page("measurements", view=name)
    said = texts(test)
    assert view.GOALS[name] in said
    parts = (
        "Things to try",
        "What was measured",
        "What each GPU can do at most",
        "How a time is predicted",
        "Measure it",
    )
    assert [part in [header.value for header in test.header] for part in parts] == [one == name for one in view.WORDS]


def test_text_of_a_file_is_text():
    where = replace(made.WHERE, gpu="<img src=x> | **G** [a](b)")
    shown = [registry.Entry("a", made.record(where=where), registry.YOURS)]
    drawn = records.about(shown)
    assert "<img" not in drawn
    assert "**G**" not in drawn
    assert "](b)" not in drawn


# Counters on this machine


@pytest.fixture(scope="module")
def fake() -> Iterator[Engine]:
    engine = Engine(device=FAKE)
    yield engine
    engine.close()


def counted(fake: Engine, monkeypatch: pytest.MonkeyPatch, seed: int) -> AppTest:
    """The page after its button was pressed, where the worker does what this seed asks of it."""
    monkeypatch.setattr(Engine, "device_if_known", lambda self: DeviceStatus(True, "", WHERE.__dict__))
    monkeypatch.setattr(view, "engine", lambda: fake)
    monkeypatch.setattr(view, "SAMPLE", view.SAMPLE.with_(seed=seed))
    test = page("measurements", view="Your own GPU")
    next(button for button in test.button if button.label == COUNT).click().run()
    deadline = time.monotonic() + 60
    while any(button.label == "Cancel" for button in test.button) and time.monotonic() < deadline:
        time.sleep(0.1)
        test.run()
    assert view.GOALS["Your own GPU"] in texts(test)  # what can be shown is shown
    return test


def test_without_a_gpu_nothing_offers_to_count():
    assert not [button for button in page("measurements", view="Your own GPU").button if button.label == COUNT]


def test_counters_of_this_machine_are_shown_beside_the_formula(fake, monkeypatch):
    said = texts(counted(fake, monkeypatch, 0))
    formula = view.SAMPLE.traffic
    assert f"| {formula.read_bytes:,} | 1,000 | 1,000 |" in said


@pytest.mark.parametrize(
    ("seed", "words"),
    [(7, "NVreg_RestrictProfilingToAdminUsers=0"), (8, "1,073,741,824"), (9, "pip install nvidia-cuda-cupti")],
    ids=["no permission", "copy check fails", "no CUPTI"],
)
def test_where_counters_cannot_be_read_the_cause_and_the_remedy_are_said(fake, monkeypatch, seed, words):
    test = counted(fake, monkeypatch, seed)
    assert words in test.warning[0].value


def test_a_worker_killed_in_mid_measurement_costs_that_measurement(fake, monkeypatch):
    test = counted(fake, monkeypatch, 4)
    assert "abort" in test.error[0].value
    assert "| 1,000 | 1,000 |" in texts(counted(fake, monkeypatch, 0))


def entries() -> list[registry.Entry]:
    return [*registry.entries()[0]]


def test_a_bars_number_stands_before_it_and_the_datasheets_at_its_own_mark():
    for shown in (entries()[:1], entries()):
        for figure in limits.bars(shown):
            bars, marks, words = figure.data
            unit = figure.layout.meta
            before = dict(zip(figure.layout.yaxis.tickvals, figure.layout.yaxis.ticktext, strict=True))
            assert bars.text is None
            assert len(bars.y) == sum(roof.unit == unit for one in shown for roof in one.record.roofs.values())
            for place, rate, stated, told in zip(bars.y, bars.x, marks.x, words.text, strict=True):
                assert before[place].endswith(f"\u2002<b>{si(rate, unit, zeros=True)}</b>")
                assert (f"% of {si(stated, unit)}" in told) if stated else told == ""


def test_a_limit_has_one_colour_whichever_gpus_are_shown_and_each_bar_of_two_names_its_gpu():
    alone, beside = limits.bars(entries()[:1]), limits.bars(entries())
    for one, two in zip(alone, beside, strict=True):
        hues = one.data[0].marker.line.color
        assert two.data[0].marker.line.color == tuple(hue for hue in hues for _ in entries())
        assert two.data[0].marker.color[::2] == hues
        assert set(two.data[0].marker.color[1::2]) == {palette.CLEAR}
        gpus = [re.findall(r"(H\d00)\u2002", text) for text in two.layout.yaxis.ticktext]
        assert gpus == [["H200"], ["H100"]] * len(hues)


def test_a_plot_of_two_gpus_says_what_differs_most_and_by_how_much():
    first, second = (one.record for one in entries())
    moves, computes = (figure.layout.title.text.replace("<br>", " ") for figure in limits.bars(entries()))
    factor = first.roofs["hbm"].per_second / second.roofs["hbm"].per_second
    assert moves == f"Largest measured difference: HBM, read, {ratio(factor)} (H200 ÷ H100)"
    assert "the GPUs are at most" in computes
    faster = replace(second.roofs["exp"], per_second=3 * first.roofs["exp"].per_second)
    other = replace(entries()[1], record=replace(second, roofs={**second.roofs, "exp": faster}))
    _, computes = limits.bars([entries()[0], other])
    assert "exponentials" in computes.layout.title.text
    assert "3.00 × (H100 ÷ H200)" in computes.layout.title.text.replace("<br>", " ")


def test_two_records_of_one_gpu_are_told_apart():
    recorded, yours = (registry.Entry(where, SHIPPED, where) for where in (registry.RECORDED, registry.YOURS))
    assert points.names([recorded, yours]) == [recorded.label, yours.label]


@pytest.mark.parametrize(("kernel", "differ"), [("softmax_safe", True), ("flash_attention", False)])
def test_a_table_of_two_gpus_says_how_they_compare(kernel, differ):
    first, second = (
        [point.seconds for size in sizes(kernel) if (point := one.record.point(size)) and point.seconds]
        for one in entries()
    )
    factors = [two / one for one, two in zip(first, second, strict=True)]
    said = points.seen(PLANS["levels"], entries(), "time, µs", kernel)
    if differ:
        span = f"{ratio(min(factors)).removesuffix(' ×')} to {ratio(max(factors))}"
        assert said.startswith(f"**The H100 takes {span} as long as the H200**")
        assert f"{ratio(median(factors))} in the median of {len(factors)} rows" in said
        assert "\n- Most: " in said
    else:
        apart = max(abs(factor - 1) for factor in factors)
        assert apart < points.ALIKE
        assert said.startswith(f"**Time: the two GPUs are at most {percent(apart, 1)} apart** in {len(factors)} rows.")
    table = points.points_table(PLANS["levels"], entries(), "time, µs", kernel=kernel)
    assert all(f"| {ratio(factor)} |" in table for factor in factors)
    assert points.seen(PLANS["levels"], [*entries(), *entries()], "time, µs") == ""


def test_a_table_of_one_kernel_says_how_often_its_tensors_are_read():
    one = entries()[:1]
    for plan in (PLANS["levels"], PLANS["rungs"]):
        for kernel in points.kernels(plan, one):
            said = points.seen(plan, one, None, kernel)
            counted = [
                (read, size)
                for size in plan.experiments
                if size.kernel == kernel and (point := SHIPPED.point(size)) and point.counters
                if (read := point.counters.cold.dram_read_bytes)
            ]
            assert ratio(max(read / points.tensors_once(size) for read, size in counted)) in said
            assert ("loads add up to" in said) == KERNELS[kernel].steppable
            if "the caches serve the rest" in said:
                assert all(read < size.traffic.read_bytes for read, size in counted)
    shares = {
        run: point.counters.cold.dram_read_bytes / points.tensors_once(run)
        for run in PLANS["levels"].experiments
        if (point := SHIPPED.point(run)) and point.counters and point.counters.cold.dram_read_bytes
    }
    most = max(shares, key=lambda run: shares[run])
    said = points.seen(PLANS["levels"], one, None)
    assert f"In {sum(share < 1.1 for share in shares.values())} of {len(shares)} rows" in said
    assert f"The highest: {most.entry.title} at " in said
    assert said.endswith(f", {ratio(shares[most])}.")
    drawn = beside.once(PLANS["levels"], one)
    assert drawn.count("<circle") == len(shares)
    assert "each tensor once" in drawn


def test_a_longest_bar_fills_its_axis_and_its_words_have_room_beside_it():
    for shown in (entries()[:1], entries()):
        for figure in limits.bars(shown):
            drawn = [trace for trace in figure.data if trace.x]
            longest = max(end for trace in drawn for end in trace.x if end)
            assert longest > 0.95 * figure.layout.xaxis.range[1]
            for trace in drawn:
                for end, words in zip(trace.x, trace.text or (), strict=False):
                    spare = (1 - end / longest) * limits.NARROWEST + figure.layout.margin.r
                    assert text_width(re.sub("<.*?>", "", words), FONT) < spare


def test_the_address_holds_the_kernel_and_the_gpus():
    test = page("measurements", kernel="softmax_online", records="H200,H100")
    assert next(box for box in test.selectbox if box.label == "Kernel").value == "softmax_online"
    assert "H100 ÷ H200" in texts(test)
    choose_kernel(test, view.ALL)
    assert test.query_params["kernel"] in ("all", ["all"])
    (h100,) = [one.key for one in registry.entries()[0] if "H100" in one.label]
    measured_on(test).set_value([h100]).run()
    assert test.query_params["records"] in ("H100", ["H100"])


@pytest.mark.parametrize("narrow", [False, True])
def test_bars_of_loads_and_of_hbm_have_one_scale(narrow):
    (one,) = shown = [registry.Entry("a", SHIPPED, registry.YOURS)]
    plan = PLANS["levels"]
    drawn = asked.bars(plan, one, "flash_attention", narrow=narrow)
    runs = list(points.measured_sizes(plan, shown, "flash_attention"))
    bar = r'width="([\d.]+)" height="16.00" fill="'
    wide = {
        fill: [float(x) for x in re.findall(bar + re.escape(palette.mid(fill)), drawn)] for fill in ("slate", "hbm")
    }
    reads = [SHIPPED.point(run).counters.cold.dram_read_bytes or 0 for run in runs]
    assert len(wide["slate"]) == len(wide["hbm"]) == len(runs) == 3
    once = [points.tensors_once(run) for run in runs]
    scale = wide["slate"][0] / runs[0].traffic.read_bytes * once[0]
    loads = [run.traffic.read_bytes for run in runs]
    assert wide["slate"] == pytest.approx([scale * own / of for own, of in zip(loads, once, strict=True)], abs=0.02)
    assert wide["hbm"] == pytest.approx([scale * own / of for own, of in zip(reads, once, strict=True)], abs=0.02)
    assert drawn.count("stroke-dasharray") == len(runs) + 1  # each tensor once, and the key
    assert asked.bars(plan, one, "") == ""  # several kernels
    many = asked.bars(PLANS["sweeps"], one, "flash_attention")
    every = points.measured_sizes(PLANS["sweeps"], shown, "flash_attention")
    assert f"{asked.ROWS} of the {len(every)} counted rows, from fewest to most loads" in many
    milakov = PLANS["milakov"]
    alike = asked.bars(milakov, one, "softmax_naive")
    assert "counted rows, from the smallest to the largest" in alike
    without = replace(SHIPPED, points={})
    assert asked.bars(plan, replace(one, record=without), "flash_attention") == ""


def test_a_dot_per_row_shows_two_gpus_ratio():
    shown = registry.entries()[0][:2]
    plan = PLANS["levels"]
    rows = [row for row in points.rows(plan, shown, points.TIME) if row.get(points.BESIDE)]
    drawn = beside.dots(plan, shown, points.TIME, "")
    assert drawn.count("<circle") == len(rows)
    assert f"{ratio(points.bandwidths(shown) or 0)}: HBM, copied" in drawn
    assert "HBM, copied" not in beside.dots(plan, shown, points.READ, "")
    own = beside.dots(plan, shown, points.TIME, "flash_attention", narrow=True)
    assert own.count("<circle") == 3
    assert beside.dots(plan, shown[:1] * 2, "tensor cores busy, %", "softmax_online") == ""
    assert beside.dots(plan, shown[:1] * 2, points.TIME, "").count(">1.00 ×</text>") == 1  # all are the same
    many = points.rows(PLANS["sweeps"], shown, points.TIME, "flash_attention")
    assert len(many) > beside.LINES
    folded = beside.dots(PLANS["sweeps"], shown, points.TIME, "flash_attention", narrow=True)
    assert folded.count("<circle") == len(many)
    assert KERNELS["flash_attention"].title in folded


def test_ticks_are_round_and_inside_their_axis():
    for low, high in ((0.94, 1.41), (1.0, 1.0), (0.5, 30.0), (0.999, 1.0004), (1e-3, 0.9), (0.3, 77.8), (1.0, 8.1)):
        ticks = beside._ticks(low, high)
        assert 1 + (low < high) <= len(ticks) <= 6
        assert low - 1e-9 <= ticks[0] <= ticks[-1] <= high + 1e-9


def test_an_error_is_told_without_its_class_and_its_line():
    shown = [one for one in registry.entries()[0] if records.missed(one.record)]
    told = records.missed_table(shown)
    assert "CUDA out of memory" in told
    assert "Error:" not in told
    assert ".py" not in told


def test_experiments_of_one_of_two_records_are_counted():
    h200, h100 = registry.entries()[0][:2]
    timed, other = ({key for key, one in entry.record.points.items() if one.timing} for entry in (h200, h100))
    (said, *_) = records.lacking([h200, h100])
    assert said.startswith(f"**{len(timed - other)}** experiments of the H200 have no time of the H100: ")
    assert records.lacking([h200]) == records.lacking([h200, h200]) == []


def test_experiments_that_were_not_run_are_told_from_those_that_failed_and_name_their_set():
    h200 = registry.entries()[0][0]
    first, second, third = sizes("softmax_online")
    every = {point.experiment: point for point in h200.record.points.values()}

    def told(left: dict[Experiment, Point]) -> str:
        one, fewer = (made.record(*points.values()) for points in (every, left))
        entries = [replace(h200, record=one), replace(h200, record=fewer, key="other")]
        return "".join(records.lacking(entries))

    skipped = {run: point for run, point in every.items() if run not in (first, second)}
    assert told(skipped).endswith(f": 2 were not run, all of the set *{PLANS['levels'].about}*")
    failed = every | {third: Point(third, why="out of memory")}
    assert told(failed).endswith(": 1 failed")
    alone = next(run for run in PLANS["flashattention"].experiments if run not in PLANS["levels"].experiments)
    both = {run: point for run, point in failed.items() if run not in (first, alone)}
    assert told(both).endswith(": 1 failed, 2 were not run")


def test_zeros_in_every_row_are_said():
    both = registry.entries()[0][:2]
    spills = "spills, stored + loaded, MB"
    rows = len(points.rows(PLANS["times"], both, spills))
    assert points.seen(PLANS["times"], both, spills) == f"**Spills, stored + loaded: 0 on both GPUs** in {rows} rows."
    assert ": 0 on both" not in points.seen(PLANS["levels"], both, spills)
    nothing = [replace(one, record=replace(one.record, points={})) for one in both]
    assert ": 0 on both" not in points.seen(PLANS["times"], nothing, spills)


def test_the_row_whose_launches_differ_most_is_named():
    both = registry.entries()[0][:2]
    told = points.seen(PLANS["levels"], both, points.TIME)
    spread = {
        one: max(
            point.timing.p80_ms / point.timing.p20_ms
            for entry in both
            if (point := entry.record.point(one)) and point.timing and not points._with_host(point)
        )
        for one in PLANS["levels"].experiments
    }
    worst = max(spread, key=lambda one: spread[one])
    assert f"most in {worst.entry.title} at " in told
    assert f"the slow ones take {ratio(spread[worst])} as long" in told


def test_bandwidth_limits_are_told_only_where_bandwidths_differ():
    h200, h100 = registry.entries()[0][:2]
    told = points.seen(PLANS["levels"], [h200, h100], points.TIME, "flash_attention")
    assert "**In all rows, the times' ratio is closer to 1" in told
    assert "helps the H200 little" in told
    assert "closer to 1" not in points.seen(PLANS["levels"], [h200, h100], points.TIME, "softmax_safe")
    assert points.bandwidths([h200, h200]) is None


def test_a_prediction_is_worked_through_beside_what_was_measured():
    model = fitted(*registry.shipped())
    assert model
    said = predictions.worked(model)
    (test,) = [one for one in model.tests if not one.left_out]
    found = next(one for one in test.points if f"**{duration(one.seconds)}** is predicted" in said)
    assert abs(found.seconds / model.recorded[found.experiment.key] - 1) > predictions.CLEAR
    assert f"It took {duration(found.measured)}" in said
    took, there, here, result = (float(one) for one in re.findall(r"([\d.]+)\s[µm]s", said.partition("So ")[2])[:4])
    assert f"{took * there / here:.3g}" == f"{result:.3g}"  # as a reader works it out
    alone = fitted(SHIPPED)
    assert alone
    assert predictions.worked(alone) == ""


def test_caches_that_serve_next_to_nothing_are_told():
    shown = [registry.Entry("a", SHIPPED, registry.YOURS)]
    assert "serve next to nothing" in points.seen(PLANS["levels"], shown, None, "flash_attention_v1")
    assert "serve the rest" in points.seen(PLANS["levels"], shown, None, "flash_attention")
