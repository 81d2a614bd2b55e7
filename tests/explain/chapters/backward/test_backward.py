"""The page Backward: one row's chain rule, the parts of dQ in every order, what is kept, and its views."""

from __future__ import annotations

import html
import re
from decimal import ROUND_HALF_UP, Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from explain import lessons
from explain.beats import beats
from explain.chapters.backward import bugs, exercises, figures, measured, memory, sums, view
from explain.chapters.backward.chain import Chain
from explain.chapters.papers import flashattention
from explain.chapters.speed import results
from explain.engine import engine
from explain.experiment import Experiment
from explain.figures.numbers import duration, moved
from explain.records import registry
from explain.trace.model import numbers
from explain.ui.stepper import by_buffer, lesson
from kernels.edits import source_of
from kernels.museum_backward import BUGS
from tests.pages import page

ATOMIC = lessons.summed_by_atomics(lessons.BACKWARD)


def test_a_rows_gradient_is_what_finite_differences_and_the_jacobian_say():
    row = Chain.of(view.LOGITS, view.UPSTREAM)
    np.testing.assert_allclose(row.ds, row.measured, rtol=0, atol=1e-8)
    np.testing.assert_allclose(row.ds, row.dp @ row.jacobian(), rtol=0, atol=1e-15)
    assert abs(row.ds.sum()) < 1e-15
    assert figures.worked(row).count("0.1406") == 1


@given(*[st.lists(st.sampled_from(view.STEPS), min_size=4, max_size=4)] * 2)
def test_the_line_to_recompute_by_hand_comes_out_at_every_setting_of_the_sliders(s, dp):
    row = Chain.of(s, dp)
    line = figures.worked(row).split("\n")[0].replace("−(", "- (").replace("−", "-")
    *factors, result = map(Decimal, re.findall(r"(?<![\d.])-?\d+\.\d+", re.sub(r"- (?=[\d(])", "", line)))
    p, upstream, delta = factors
    assert (p * (upstream - delta)).quantize(Decimal("0.0001"), ROUND_HALF_UP) == result
    assert abs(float(result) - row.ds[row.p.argmax()]) <= 0.5001e-4


@given(*[st.lists(st.sampled_from(view.STEPS), min_size=4, max_size=4)] * 2)
def test_what_the_page_says_to_try_changes_the_sign_of_the_gradient(s, dp):
    row = Chain.of(s, dp)
    below = "below" in figures.tried(row)
    assert below == (row.ds[2] > 0)
    if (min if below else max)(others := [*dp[:2], dp[3]]) != (-4 if below else 4):
        moved = Chain.of(s, [*dp[:2], (min if below else max)(others) - (0.5 if below else -0.5), dp[3]])
        assert moved.ds[2] * (1 if below else -1) < 0


@pytest.mark.parametrize("kernel", view.WAYS.values())
def test_the_player_calls_the_steps_of_the_method_as_the_page_says(kernel):
    experiment = lessons.BACKWARD.through(kernel)
    roles, found = experiment.entry.roles, set()
    for beat in beats(lesson(experiment.key)[1], roles):
        found |= {f"{beat.kind} {name}" for name in beat.names}
    sums = {f"add {'d' + called[-1].lower()}" for called in view.CALLED if called.startswith("add to d")}
    assert sums | {"weights_gradient dp", "scores_gradient ds"} <= found
    assert ("scores s" in found) == ("exponentials p" in found) == (kernel != memory.KERNELS[0])
    assert any(beat.names == ("dk", "dq") for beat in beats(lesson(experiment.key)[1], roles)) == ("atomic" in kernel)


def test_the_parts_of_dq_in_the_programs_order_are_the_kernels_sum():
    trace = lesson(ATOMIC.key)[1]
    of = sums.parts(trace)
    stored = np.concatenate(
        [numbers(value) for _, value in trace.history("dq")][-len(of) :]
    )  # what scale_kernel stores
    scale = np.float32(ATOMIC.values["head_dim"] ** -0.5)
    np.testing.assert_array_equal(sums.summed(of, tuple(range(len(of)))).reshape(-1) * scale, stored)


def test_another_order_gives_other_bits_and_a_lost_addition_another_result():
    trace = lesson(ATOMIC.key)[1]
    first, *others = sums.orders(trace)
    assert len(others) == 4 * 3 * 2 - 1
    assert first.changed == 0
    assert any(order.changed for order in others)
    assert max(order.error for order in (first, *others)) < 1e-6
    assert sums.lost(trace) > 1e-2
    swapped = next(order for order in others if order.tiles == (1, 0, 2, 3))
    assert swapped.changed == 0  # a + b = b + a: only the third addition depends on the order


@pytest.mark.parametrize("baseline", memory.PAPERS)
def test_the_formula_of_memory_is_near_what_the_paper_measured(baseline):
    for n, mb in zip(memory.LENGTHS, flashattention.TABLE_21[baseline], strict=False):
        formula = memory.held(memory.PAPERS[baseline], flashattention.of_table(baseline, n).values)
        assert 0.6 < formula / (mb * 1e6) < 1


def test_the_method_on_the_page_is_that_of_the_kernel():
    told = " ".join(source_of("kernels.backward").split())
    assert all(formula in told for formula in figures.METHOD)


def test_a_bill_is_the_kernels_formula():
    like = Experiment.of("flash_attention_backward", {"seq_len": 128, "block_m": 32, "block_n": 32}, "normal")
    standard, flash, atomic = (memory.bill(kernel, like) for kernel in memory.KERNELS)
    assert (standard.matmuls, flash.matmuls, atomic.matmuls) == (4, 7, 5)
    assert flash.matmul_flops * 5 == atomic.matmul_flops * 7 == standard.matmul_flops * 35 / 4
    assert standard.exponentials == 0
    assert flash.exponentials == 2 * atomic.exponentials == 2 * 128 * 128
    assert standard.kept == 128 * 128 * 4
    squares = 7 * 128 * 128 * 4  # P is read twice; dP is written and read; dS is written and read twice
    assert squares < standard.least < squares + 20 * 128 * like.values["head_dim"] * 4
    assert max(flash.least, atomic.least) < standard.least < standard.bytes


def test_the_measured_kernels_of_a_case_had_the_same_inputs_and_tiles():
    for record in registry.shipped():
        found = measured.cases([record])
        assert found
        assert len({case.name for case in found}) == len(found)
        for case in found:
            assert tuple(point.experiment.kernel for point in case.points) == memory.KERNELS
            assert len({str(sorted(point.experiment.values.items())) for point in case.points}) == 1
            assert record.gpu in case.source
            times = [duration(point.seconds) for point in case.points if point.seconds]
            assert len(times) == len(case.points)
            assert all(time in figures.measured_bars(case) for time in times)
            told, counted = figures.concluded(case), " ".join(figures.counted(case))
            assert "Standard attention" in figures.memory_and_bytes(case)
            _, passes, atomic = (point.counters.cold for point in case.points if point.counters)
            both = passes.spilled_bytes and atomic.spilled_bytes
            assert ("Both spill" in told) == bool(both)
            assert ("their shares were not measured" in counted) == (
                (passes.spilled_bytes or 0) < (atomic.spilled_bytes or 0)
            )
            kept = case.points[0].seconds or 0
            slower = [(point.seconds or 0) > kept for point in case.points[1:]]
            assert ("Our two readable kernels are slower" in told) == all(slower)
            for share, hbm in re.findall(r"at least (\d+)% of it: HBM moves ([\d.]+ \w+) in all", counted):
                one = next(one for one in (passes, atomic) if moved(one.hbm_bytes or 0) == hbm)
                assert int(share) / 100 <= 1 - (one.hbm_bytes or 0) / (one.spilled_bytes or 1) < (int(share) + 1) / 100
            p = case.points[0].experiment.values
            rows, pairs = (p["batch"] * p["heads"] * p["seq_len"] * more for more in (1, p["kv_len"]))
            delta, dq = 4 * rows, 4 * rows * p["head_dim"]
            assert [*map(memory.beyond_gradients, case.points)] == [2 * 2 * pairs, delta, delta + dq]
            for one in (passes, atomic):
                assert not one.spilled_bytes or moved(one.spilled_bytes) in counted
    assert measured.cases([]) == []


def test_kernels_written_for_speed_stand_beside_a_case_of_the_same_size_and_gpu():
    speed = results.load()
    assert speed
    for record in registry.shipped():
        found = measured.cases([record], speed)
        assert {case.name for case in found} == {case.name for case in measured.cases([record])}
        assert bool(found[0].fast) == (record.gpu == speed.provenance.gpu)  # it comes first
        for case in found:
            p = case.points[0].experiment.values
            shape = tuple(p[name] for name in ("batch", "heads", "seq_len", "head_dim"))
            same = [one for one in speed.of("backward")
                    if (one.shape, one.dtype, one.causal) == (shape, p["dtype"], p["causal"])]  # fmt: skip
            assert len(case.fast) == len(same[0].best if same and record.gpu == speed.provenance.gpu else ())
            assert all(duration(one.seconds) in figures.measured_bars(case) for one in case.fast if one.seconds)
            assert ("written for speed" in figures.concluded(case)) == bool(case.fast)
            assert figures.concluded(case).startswith(f"**On {record.gpu}, ")


def test_a_broken_lse_makes_dv_too_large_by_exp_m():
    bug = BUGS["lse_without_m"]
    broken = Experiment.of(bug.kernel, bug.sizes, bug.shown_by)
    backward = engine().trace(broken.through("flash_attention_backward")).trace
    error, largest = bugs.values_error(engine().trace(broken).trace, backward)
    stored = [numbers(value) for _, value in backward.history("dv")]
    assert largest == pytest.approx(max(float(abs(one).max()) for one in stored), rel=1e-5)
    assert error > largest
    right = engine().trace(broken.through("flash_attention")).trace
    assert bugs.values_error(right, backward)[0] < 1e-5


def test_times_are_those_of_the_chosen_gpu_or_labelled_as_of_another():
    assert not page("backward").exception
    app = page("backward", gpu="T4")
    told = " ".join(one.value for one in app.markdown)
    source = measured.cases([one.record for one in registry.entries()[0]])[0].source
    assert [one.value.split(" To ")[0] for one in app.info] == [f"Not recorded on T4. Below: {source}."]
    assert "**Memory,**" in re.sub("<[^>]+>", "", told)


def test_a_kernel_that_keeps_p_names_the_questions_and_leads_to_a_kernel_that_has_them():
    app = page("backward", way="P kept")
    told = " ".join(one.value for one in app.caption)
    assert all(str(one.prompt) in told for one in exercises.QUESTIONS)
    next(one for one in app.button if one.label == "Answer them with two passes").click().run()
    assert app.segmented_control(key="way").value == "Two passes"
    assert not [one for one in app.button if one.label == "Answer them with two passes"]


@pytest.mark.parametrize("kernel", view.WAYS.values())
def test_each_buffer_has_one_row_of_bytes_a_direction_and_its_numbers_agree(kernel):
    experiment = lessons.BACKWARD.through(kernel)
    rows = by_buffer(experiment.traffic, lesson(experiment.key)[1])
    assert len({row[:2] for row in rows}) == len(rows)
    assert all(formula == traced for *_, formula, traced, _ in rows)
    assert sum(row[3] for row in rows) == experiment.traffic.read_bytes + experiment.traffic.written_bytes


@pytest.mark.parametrize(("way", "kernel"), view.WAYS.items())
def test_each_way_opens_with_its_kernel_and_its_bytes_agree(way, kernel):
    app = page("backward", way=way)
    told = " ".join(one.value for one in app.markdown)
    assert "✓\u00a0formula\u00a0=\u00a0trace" in told
    assert "one addition lost: a race" in told
    assert any(kernel.split("_")[-1] in one.value or "backward" in one.value for one in app.caption)


@pytest.mark.parametrize("name", BUGS)
def test_a_bug_is_shown_with_its_line_and_its_verdict(name):
    app = page("backward", bug=BUGS[name].title)
    told = re.sub("<[^>]+>", "", " ".join(one.value for one in app.markdown))  # without the glossary's marks
    bug = BUGS[name]
    lines = re.findall(r'<code data-side="(\w+)">(.*?)</code>', " ".join(one.value for one in app.markdown))
    for side, said in (("correct", bug.old), ("broken", bug.new)):
        assert said in html.unescape("\n".join(line for name, line in lines if name == side))
    assert f"**{bug.title}.**" in told
    assert ("**Right here.**" if bug.harmless else "**Wrong:**") in told
    assert ("its largest element should be" in told) != bug.harmless


def test_the_answers_follow_from_the_run():
    for experiment, made in ((lessons.BACKWARD, 2), (ATOMIC, 1)):
        runs = [(experiment, lesson(experiment.key)[1])]
        answers = {question.name: question.answer(runs) for question in exercises.QUESTIONS}
        assert answers["scores-made"] == made
        assert answers["times-less"] == 64
        trace = runs[0][1]
        first = answers["first-ds"]
        assert isinstance(first, range)
        assert "ds" in trace.changes(first[0])
        assert "0" in next(one for one in exercises.QUESTIONS if one.name == "row-sum").why(runs).words
