"""The page of measurements: what is recorded is shown as such, a reader's file is compared or refused, and no error
with counters closes it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest
from streamlit.testing.v1.element_tree import Block, Selectbox

from explain.chapters.measurements import exercises, findings, limited, points, records, tables, view
from explain.engine import DeviceStatus, Engine
from explain.figures.numbers import duration, moved, ratio
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


@pytest.mark.parametrize("kernel", ["all", "flash_attention", "flash_decoding"])
def test_the_runs_that_a_browser_shows_by_itself_are_those_of_the_picture(kernel: str) -> None:
    """A run that another one interrupts may not tell the browser which value it set."""
    test = page("measurements", kernel=kernel).run()
    (box,) = (box for box in test.selectbox if box.label == "Runs")
    assert not box.proto.set_value
    assert box.proto.default == 0
    assert box.options[0] == box.format_func(box.value)


def choose_kernel(test: AppTest, kernel: str) -> AppTest:
    next(box for box in test.selectbox if box.label == "Kernel").set_value(kernel).run()
    return test


def test_what_is_recorded_is_shown_with_its_gpu_and_its_numbers():
    test = choose_kernel(page("measurements"), view.ALL)
    said = texts(test)
    assert "NVIDIA H200" in said
    plan = PLANS["levels"]
    table = tables.rows(plan, [registry.Entry("a", SHIPPED, registry.YOURS)], None)
    assert len(table) == len([one for one in plan.experiments if SHIPPED.point(one)]) > 0
    first = SHIPPED.point(plan.experiments[0])
    read = first.counters.cold.dram_read_bytes
    assert read is not None
    assert first.seconds is not None
    row = next(row for row in table if row["kernel"] == KERNELS[plan.experiments[0].kernel].title)
    assert row["HBM read, MB"] == read / 1e6
    times = ratio(read / points.inputs_once(plan.experiments[0]))
    numbers = f"| {duration(first.seconds)} | 2.00 × | {times} | {moved(read)} | 134 MB |"
    assert any(line.startswith("| **Naive softmax**<br>") and numbers in line for line in said.splitlines())


def test_one_kernel_can_be_chosen():
    shown = [registry.Entry("a", SHIPPED, registry.YOURS)]
    test = page("measurements")
    for kernel, other in ((points.OPENING, "softmax_safe"), ("softmax_safe", points.OPENING)):
        said = texts(choose_kernel(test, kernel))
        assert tables.points_table(PLANS["levels"], shown, None, False, kernel) in said
        assert tables.points_table(PLANS["levels"], shown, None, False, other) not in said


def test_a_table_is_folded_where_its_picture_has_all_of_it():
    def folded(**query: str) -> bool:
        return any("runs as a table" in one.label for one in page("measurements", **query).expander)

    assert folded()
    assert folded(kernel=view.ALL)
    assert not folded(every="true")
    assert folded(records="H200,H100")
    assert not folded(set=PLANS["sweeps"].about)  # more runs than the picture has
    assert not folded(set=PLANS["flashattention-memory"].about, kernel="torch:attention_backward")  # no bytes


def test_what_limits_one_kernel_follows_what_was_found():
    one, test = registry.entries()[0][0], page("measurements")
    limits = limited.limits(PLANS["levels"], one, points.OPENING)
    assert limits
    said = texts(test)
    assert said.index(limits.told) > said.index(findings.seen(PLANS["levels"], [one], None, points.OPENING)[:20])
    assert limited.drawn(PLANS["levels"], [one], points.OPENING) in said
    both = texts(page("measurements", records="H200,H100"))
    assert limited.drawn(PLANS["levels"], registry.entries()[0], points.OPENING) in both
    read = texts(page("measurements", records="H200,H100", quantity=points.name_of(points.READ)))
    assert limits.told not in read
    assert "limit this kernel" not in texts(choose_kernel(test, view.ALL))


def runs(test: AppTest) -> Selectbox[str]:
    return next(box for box in test.selectbox if box.label == "Runs")


def test_a_kernel_is_found_without_knowing_its_set_and_its_runs_can_be_seen_together():
    shown = registry.entries()[0][:1]
    test = choose_kernel(page("measurements"), "rung:tma")
    assert runs(test).value == "rungs"
    assert test.query_params["kernel"] in ("rung:tma", ["rung:tma"])
    of_one = choose_kernel(test, points.OPENING)
    assert runs(of_one).value == "levels"
    every = points.of_kernel(shown, points.OPENING)[points.EVERY]
    found = {run for plan in points.plans(shown).values() for run in plan.experiments if run.kernel == points.OPENING}
    assert {*every.experiments} == found > {run for run in PLANS["levels"].experiments if run.kernel == points.OPENING}
    runs(of_one).set_value(points.EVERY).run()
    assert tables.points_table(every, shown, None, False, points.OPENING) in texts(of_one)


def test_an_address_that_names_runs_alone_opens_on_a_kernel_of_them():
    ladder = page("measurements", set=PLANS["rungs"].about)
    assert runs(ladder).value == "rungs"
    (kernel,) = (box.value for box in ladder.selectbox if box.label == "Kernel")
    assert kernel == points.kernels(PLANS["rungs"], registry.entries()[0][:1])[0]


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
    marked = [":orange[" in line for line in tables.points_table(PLANS["levels"], [one], None).splitlines()[2:]]
    kernels = [row["kernel"] for row in tables.rows(PLANS["levels"], [one], None)]
    assert marked.count(True) == 1
    assert kernels[marked.index(True)] == STALE.entry.title
    beside = tables.points_table(PLANS["levels"], [fresh, one], next(iter(points.QUANTITIES)), kernel="softmax_naive")
    assert beside.count(":orange[on H200]") == 1


def test_a_press_shows_the_rows_that_are_out_of_date(monkeypatch):
    record = with_one_out_of_date()
    monkeypatch.setattr(registry, "shipped", lambda: (record,))
    test = page("measurements")
    next(button for button in test.button if button.label.startswith("Show the outdated runs")).click().run()
    shown = [registry.Entry("a", record, registry.RECORDED)]
    plan = points.plans(shown)[points.OUTDATED]
    (kernel,) = points.kernels(plan, shown)
    assert tables.points_table(plan, shown, None, False, kernel) in texts(test)


def test_a_table_of_all_kernels_can_begin_with_its_largest_numbers():
    test = choose_kernel(page("measurements"), view.ALL)
    order = next(box for box in test.selectbox if box.label == "Order")
    assert order.options[0] == view.AS_RUN
    order.set_value(points.TIME).run()
    table = next(one.value for one in test.markdown if "kernel, sizes" in one.value)
    one = registry.entries()[0][0]
    seconds = [point.seconds for run in PLANS["levels"].experiments if (point := one.record.point(run))]
    times = [row.split("|")[2].strip() for row in table.splitlines()[2:]]
    assert times == [duration(took) for took in sorted(filter(None, seconds), reverse=True)]
    assert len(times) == len(tables.rows(PLANS["levels"], registry.entries()[0][:1], None))
    choose_kernel(test, points.OPENING)
    assert not [box for box in test.selectbox if box.label == "Order"]


@pytest.mark.parametrize(
    ("kernel", "asked_for"), [("flash_attention_v1", "flash_attention_v1"), ("softmax_safe", "softmax_safe"),
                              (view.ALL, points.OPENING), ("no kernel", points.OPENING)]
)  # fmt: skip
def test_the_questions_are_about_the_chosen_kernel(kernel, asked_for, monkeypatch):
    seen = []
    monkeypatch.setattr(view, "ask", lambda *arguments: seen.append(arguments))
    page("measurements", kernel=kernel)
    ((_, questions, run, _),) = seen
    assert run.experiment.kernel == asked_for
    names = [question.name for question in questions if question.asked(run)]
    assert "slower" in names
    assert ("rate" in names) == (run.experiment.traffic.flops_of("matmul") > 0)
    assert run.words in next(question for question in questions if question.asked(run)).prompt_of(run)


def test_where_no_bytes_were_counted_the_memory_held_is_shown_and_nothing_is_asked(monkeypatch):
    seen = []
    monkeypatch.setattr(view, "ask", lambda *arguments: seen.append(arguments))
    memory = PLANS["flashattention-memory"]
    test = page("measurements", set=memory.about, kernel="torch:attention_backward")
    table = next(one.value for one in test.markdown if "| sizes |" in one.value)
    assert points.name_of(points.HELD) in table.splitlines()[0].replace("<br>", " ")
    assert "tensor" not in table.splitlines()[0]
    ((_, questions, *_),) = seen
    assert not questions


@pytest.mark.parametrize(
    ("plan", "kernel", "arithmetic"), [("levels", "flash_attention", "bf16"), ("tiles", "flash_attention", "fp16"),
                                       ("rungs", "rung:naive_fp32", "fp32")]
)  # fmt: skip
def test_a_rate_is_compared_with_a_matmul_of_the_same_arithmetic(plan, kernel, arithmetic):
    runs = (run for run in PLANS[plan].experiments if run.kernel == kernel)
    shown = next(filter(None, (exercises.run_of(SHIPPED, run) for run in runs)))
    assert shown.peak == SHIPPED.roofs[f"matmul {arithmetic}"].per_second
    rate = next(question for question in exercises.QUESTIONS if question.name == "rate")
    assert f"measured {arithmetic} matmul rate" in rate.prompt_of(shown)


def test_the_questions_are_answered_from_the_record():
    run, point = exercises.run_of(SHIPPED, view.EXAMPLE), SHIPPED.point(view.EXAMPLE)
    assert run is not None
    assert point is not None
    assert point.seconds
    formula, read = view.EXAMPLE.traffic, point.counters.cold.dram_read_bytes
    assert read
    least = points.inputs_once(view.EXAMPLE) / SHIPPED.roofs["hbm"].per_second
    rate = formula.flops_of("matmul") / point.seconds / SHIPPED.roofs["matmul bf16"].per_second
    answers = [question.answer(run) for question in exercises.OF_ONE if question.asked(run)]
    assert answers == pytest.approx([100 * (1 - read / formula.read_bytes), point.seconds / least, 100 * rate])
    assert exercises.run_of(replace(SHIPPED, roofs={}), view.EXAMPLE) is None


def measured(record: Record, run: Any) -> Any:
    point = record.point(run)
    assert point
    assert point.counters
    return point


def test_a_run_on_two_gpus_has_questions_about_both(monkeypatch):
    seen = []
    monkeypatch.setattr(view, "ask", lambda *arguments: seen.append(arguments))
    for kernel in (points.OPENING, "softmax_safe"):
        page("measurements", records="H200,H100", kernel=kernel)
        _, questions, run, _ = seen.pop()
        asked = [question for question in questions if question.asked(run)]
        one, other = (measured(entry.record, run.first.experiment) for entry in registry.entries()[0])
        assert run.first.experiment.kernel == kernel
        moving = [
            points.hbm_seconds(entry.record, point)
            for point, entry in zip((one, other), registry.entries()[0], strict=True)
        ]
        assert one.seconds
        assert other.seconds
        assert moving[0]
        assert moving[1]
        answers = [other.seconds / one.seconds, moving[1] / moving[0], 100 * moving[1] / other.seconds]
        assert [question.answer(run) for question in asked] == pytest.approx(answers)
        assert all("H100" in question.prompt_of(run) for question in asked)
    lacking = replace(registry.entries()[0][1], record=replace(registry.entries()[0][1].record, roofs={}))
    assert exercises.both([registry.entries()[0][0], lacking], view.EXAMPLE) is None


def test_two_gpus_have_the_note_about_spills_each():
    said = texts(
        page("measurements", records="H200,H100", kernel="cross_entropy_standard", quantity=points.name_of(points.READ))
    )
    assert all(f"{gpu}: **" in said for gpu in ("H200", "H100"))
    assert said.count(": **1 of 3 runs ") == 2


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
    assert "**This kernel was not run on the " in said
    said = texts(choose_kernel(test, "softmax_online"))
    assert " Other 9 <small>µs</small> |" in said.replace("<br>", " ")
    said = texts(test.segmented_control[0].set_value("Where numbers come from").run())
    assert "The GPU's memory is full" in said  # the record's own reason
    assert said.count("experiments timed on NVIDIA") == 2
    test.segmented_control[0].set_value("Limits of a GPU").run()
    assert ">H200 4.67 TB/s (97%)</text>" in texts(test)
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
    assert "no recorded GPU" in texts(page("measurements", view="How good are predictions?"))


def test_a_record_without_runs_says_how_to_measure_them():
    empty = file.written(replace(other(), points={}))
    test = bring(page("measurements"), empty)
    test.pills[0].set_value([registry.uploaded(empty).key]).run()
    assert not test.exception
    assert "This record has no runs" in test.info[0].value


def test_a_record_without_limits_says_how_to_measure_them():
    test = bring(page("measurements", view="Limits of a GPU"), file.written(replace(other(), roofs={})))
    test.pills[0].set_value([registry.uploaded(file.written(replace(other(), roofs={}))).key]).run()
    said = texts(test)
    assert "No limits were measured here" in said
    assert "measured limits in" not in said


@pytest.mark.parametrize("name", view.WORDS)
def test_each_view_has_its_goal_and_its_part(name):
    test = page("measurements", view=name)
    said = texts(test)
    assert view.GOALS[name] in said
    headers = [header.value for header in test.header]
    parts = {
        "Look up a number": "Things to try" in headers,
        "Where numbers come from": "What was measured" in headers,
        "Limits of a GPU": "measured limits in B/s" in said,
        "How good are predictions?": "Every prediction beside its measured time" in headers,
        "Your own GPU": "3. Measure everything" in headers,
    }
    assert parts == {one: one == name for one in view.WORDS}


def test_the_choice_of_gpus_stands_where_it_governs_what_is_shown():
    for name in view.WORDS:
        assert len(page("measurements", view=name).pills) == (name != "How good are predictions?")
    own = page("measurements", view="Your own GPU", records="H100")
    in_order = [one.value if one.type == "header" else getattr(one, "label", "") for one in elements(own.main)]
    assert in_order.index("Measured on") > in_order.index("Load and download numbers")
    assert [button.label for button in own.get("download_button")] == ["Download: H100 · recorded"]


def elements(block: Block) -> Iterator[Any]:
    """What a part of the page shows, from top to bottom."""
    for child in block.children.values():
        if isinstance(child, Block):
            yield from elements(child)
        else:
            yield child


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


def test_the_address_holds_the_kernel_and_the_gpus():
    test = page("measurements", kernel="softmax_online", records="H200,H100")
    assert next(box for box in test.selectbox if box.label == "Kernel").value == "softmax_online"
    assert "H100 ÷ H200" in texts(test)
    choose_kernel(test, view.ALL)
    assert test.query_params["kernel"] in ("all", ["all"])
    (h100,) = [one.key for one in registry.entries()[0] if "H100" in one.label]
    measured_on(test).set_value([h100]).run()
    assert test.query_params["records"] in ("H100", ["H100"])
