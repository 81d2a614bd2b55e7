"""Vector addition as its chapter tells it: what the trace has of each program, and the same loop in PyTorch."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch

from explain import lessons
from explain.chapters.first_kernel import exercises, figures
from explain.chapters.first_kernel.programs import programs, step_of
from explain.exercises import check
from explain.gpus import DEFAULT, GPUS
from explain.run_experiment import run_traced
from kernels.vector import vector_add, vector_add_in_pytorch


@pytest.fixture(scope="module", params=[(27, 8), (24, 8), (5, 16), (1, 1)], ids=str)
def run(request):
    n, block_n = request.param
    experiment = lessons.VECTORS.with_(n=n, block_n=block_n)
    return experiment, run_traced(experiment, "all", lambda *_: None)[0]


def test_the_programs_tiles_cover_each_element_once(run):
    experiment, trace = run
    each = programs(trace)
    covered = np.concatenate([one.offsets[one.mask] for one in each])
    assert covered.tolist() == list(range(experiment.values["n"]))
    assert [one.number for one in each] == list(range(len(each)))
    for one in each:
        assert len(one.offsets) == experiment.values["block_n"]
        np.testing.assert_array_equal(one.c, one.a + one.b)
        assert one.first_step < step_of(trace, one, "offsets") < step_of(trace, one, "c")


def test_a_variable_that_no_line_sets_is_named(run):
    _, trace = run
    with pytest.raises(ValueError, match="'nothing' is set nowhere in program 0"):
        step_of(trace, programs(trace)[0], "nothing")


@pytest.mark.parametrize(("n", "block_n"), [(27, 8), (24, 8), (1, 4), (100, 1)])
def test_the_loop_and_the_kernel_are_one_addition(n, block_n):
    a, b = torch.randn(2, n)
    assert torch.equal(vector_add_in_pytorch(a, b, block_n), a + b)
    assert torch.equal(vector_add(a, b, block_n=block_n), a + b)


@pytest.mark.parametrize(
    ("a", "b", "message"),
    [
        (torch.zeros(4), torch.zeros(5), r"b of shape \(5,\)"),
        (torch.zeros(2, 2), torch.zeros(2, 2), "one axis"),
        (torch.zeros(4), torch.zeros(4).half(), "must be alike"),
        (torch.zeros(8)[::2], torch.zeros(4), "must be contiguous"),
    ],
)
def test_a_bad_call_names_the_argument(a, b, message):
    with pytest.raises(ValueError, match=message):
        vector_add(a, b, block_n=4)


def test_each_line_of_the_loops_body_stands_beside_its_line_of_the_kernel():
    drawn = figures.side_by_side()
    wide, narrow = drawn.split('<div class="narrow">')
    assert wide.count("<code>") == narrow.count("<code>") == 2 * len(figures.PARTS)
    assert (wide.count("<table"), narrow.count("<table")) == (1, 2)  # on a phone one listing below the other
    explained = set(re.findall(r">(tl[.]\w+|triton[.]\w+)</span>", drawn))
    assert explained == set(re.findall(r"(?:tl|triton)[.]\w+", re.sub(r'"[^"]*"', "", drawn)))
    with pytest.raises(ValueError, match="no line begins with"):
        figures._line("a = 1", "b =")


def test_the_questions_answers_are_the_runs(run):
    experiment, trace = run
    p = experiment.values
    launched = -(-p["n"] // p["block_n"])
    right = {
        "lanes-off": str(launched * p["block_n"] - p["n"]),
        "first-element": str((launched - 1) * p["block_n"]),
        "last-store": str(trace.steps - 1),
        "bytes": str(12 * p["n"]),
    }
    assert right.keys() == {question.name for question in exercises.QUESTIONS}
    for question in exercises.QUESTIONS:
        answer = right[question.name]
        assert check(question, [run], answer).right
        assert not check(question, [run], str(int(answer) + 1)).right
        assert (check(question, [run], answer).step or 0) in range(trace.steps)


def test_a_short_vector_is_not_said_to_be_bound_by_bandwidth():
    gpu = GPUS[DEFAULT]
    said = figures.time_of(lessons.VECTORS, gpu)
    moved = lessons.VECTORS.traffic.read_bytes + lessons.VECTORS.traffic.written_bytes
    [nanoseconds] = map(float, re.findall(r"moves them in ([\d.]+) ns", said))
    assert nanoseconds == pytest.approx(1e9 * moved / gpu.hbm_bytes_per_second, rel=0.01)
    [waits] = map(float, re.findall(r"waits ([\d.]+) ns", said))
    assert waits == pytest.approx(1e9 * (gpu.latencies["hbm"].seconds or 0), rel=0.01)
    assert "For long vectors" in said
