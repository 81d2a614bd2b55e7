"""Two runs side by side: the first step at which each variable differs, its place and both values."""

from __future__ import annotations

import math

import numpy as np
import pytest

from explain.chapters.what_breaks.divergence import compared, divergences, running_states
from explain.chapters.what_breaks.exhibits import WORDS
from explain.experiment import Experiment
from explain.run_experiment import run_traced
from explain.trace.model import Trace, Value, numbers
from kernels.catalog import KERNELS
from kernels.museum import EXHIBITS


def traced(experiment: Experiment) -> Trace:
    return run_traced(experiment, "all", lambda *_: None)[0]


@pytest.mark.parametrize("exhibit", EXHIBITS.values(), ids=lambda exhibit: exhibit.name)
def test_every_exhibit_diverges_at_its_changed_line_or_after_it_and_reaches_the_output_unless_harmless(exhibit):
    right, broken = (traced(experiment) for experiment in compared(exhibit))
    found = divergences(right, broken)
    assert found
    assert [divergence.step for divergence in found] == sorted(divergence.step for divergence in found)
    reached = KERNELS[exhibit.base].roles["output"] in {divergence.variable for divergence in found}
    assert reached != exhibit.harmless
    first = found[0]
    for step in range(first.step):
        ours, theirs = right.changes(step), broken.changes(step)
        assert {n: _bits(v) for n, v in ours.items()} == {n: _bits(v) for n, v in theirs.items()}


@pytest.mark.parametrize("exhibit", EXHIBITS.values(), ids=lambda exhibit: exhibit.name)
def test_a_symptom_is_what_the_broken_run_shows(exhibit):
    output = KERNELS[exhibit.base].roles["output"]
    right, broken = (
        [numbers(value) for step in range(trace.steps) if (value := trace.changes(step).get(output)) is not None]
        for trace in map(traced, compared(exhibit))
    )
    new = any((np.isnan(b) & ~np.isnan(a)).any() for a, b in zip(right, broken, strict=True))
    zero = any((~b.any(axis=-1) & a.any(axis=-1)).any() for a, b in zip(right, broken, strict=True))
    symptom = WORDS[exhibit.name].symptom
    assert (symptom == "O becomes NaN") == new
    assert (symptom == "O becomes 0") == zero


def _bits(value: Value) -> object:
    try:
        return numbers(value).tobytes()
    except TypeError:
        return value


def test_the_sentence_about_the_falling_maximum():
    right, broken = (traced(experiment) for experiment in compared(EXHIBITS["no_running_max"]))
    divergence, rescale = divergences(right, broken)[0], divergences(right, broken)[2]
    assert (divergence.variable, divergence.elements) == ("m_new", 16)
    query = int(divergence.place.removeprefix("query "))
    assert query == 16  # the first of those that differ about as much, which is the row that the player selects
    rows = numbers(right.state(divergence.step)["rows"])
    at = rows.tolist().index(query)
    assert divergence.right == numbers(right.changes(divergence.step)["m_new"])[at]
    assert divergence.broken == numbers(broken.changes(divergence.step)["m_new"])[at]
    assert divergence.right > divergence.broken
    assert (rescale.variable, rescale.right, rescale.broken) == ("alpha", 1.0, math.inf)


def test_the_running_states_are_of_the_row_in_which_they_differ():
    right, broken = running_states(*(traced(one) for one in compared(EXHIBITS["no_running_max"])))
    assert [one.after for one in right] == ["start", "tile 1", "tile 2"]  # the second program's, with two tiles
    assert right[:2] == broken[:2]
    assert right[2].m == right[1].m > broken[2].m
    assert {one.row for one in right} == {16}
    assert broken[2].total == math.inf


def test_the_running_states_of_runs_that_never_differ_in_m_or_the_sum_are_equal():
    right, broken = running_states(*(traced(one) for one in compared(EXHIBITS["acc_not_rescaled"])))
    assert right == broken
    assert right[-1].m > right[1].m


def test_a_score_is_placed_by_query_and_key():
    right, broken = (traced(experiment) for experiment in compared(EXHIBITS["finite_mask"]))
    assert divergences(right, broken)[0].place == "query 0, key 1"  # the first that the causal mask hides


def test_equal_runs_never_diverge():
    one = traced(Experiment.of("flash_attention", {"seq_len": 8, "head_dim": 16}, "normal"))
    assert divergences(one, one) == []


def test_runs_of_different_lines_are_refused():
    experiment = Experiment.of("flash_attention", {"seq_len": 32, "head_dim": 16}, "normal")
    with pytest.raises(ValueError, match="different lines"):
        divergences(traced(experiment), traced(experiment.with_(block_n=32)))
