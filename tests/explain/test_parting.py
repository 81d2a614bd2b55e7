"""Two runs side by side: the first step at which each variable differs, its place and both values."""

from __future__ import annotations

import math

import pytest

from explain import lessons
from explain.chapters.what_breaks.divergence import partings
from explain.experiment import Experiment
from explain.run_experiment import run_traced
from explain.trace.model import Trace, Value, numbers
from kernels.museum import EXHIBITS


def traced(experiment: Experiment) -> Trace:
    return run_traced(experiment, "all", lambda *_: None)[0]


@pytest.mark.parametrize("exhibit", EXHIBITS.values(), ids=lambda exhibit: exhibit.name)
def test_every_exhibit_parts_at_its_changed_line_or_after_it_and_reaches_the_output_unless_harmless(exhibit):
    right, broken = (traced(experiment) for experiment in lessons.exhibit(exhibit))
    found = partings(right, broken)
    assert found
    assert [parting.step for parting in found] == sorted(parting.step for parting in found)
    reached = exhibit.kernel.roles["output"] in {parting.variable for parting in found}
    assert reached != exhibit.harmless
    first = found[0]
    for step in range(first.step):
        ours, theirs = right.changes(step), broken.changes(step)
        assert {n: _bits(v) for n, v in ours.items()} == {n: _bits(v) for n, v in theirs.items()}


def _bits(value: Value) -> object:
    try:
        return numbers(value).tobytes()
    except TypeError:
        return value


def test_the_sentence_about_the_falling_maximum():
    right, broken = (traced(experiment) for experiment in lessons.exhibit(EXHIBITS["no_running_max"]))
    parting, rescale = partings(right, broken)[0], partings(right, broken)[2]
    assert (parting.variable, parting.elements) == ("m_new", 16)
    query = int(parting.place.removeprefix("query "))
    assert query == 16  # the first of those that differ about as much, which is the row that the player selects
    rows = numbers(right.state(parting.step)["rows"])
    at = rows.tolist().index(query)
    assert parting.right == numbers(right.changes(parting.step)["m_new"])[at]
    assert parting.broken == numbers(broken.changes(parting.step)["m_new"])[at]
    assert parting.right > parting.broken
    assert (rescale.variable, rescale.right, rescale.broken) == ("alpha", 1.0, math.inf)


def test_a_score_is_placed_by_query_and_key():
    right, broken = (traced(experiment) for experiment in lessons.exhibit(EXHIBITS["finite_mask"]))
    assert partings(right, broken)[0].place == "query 0, key 1"  # the first that the causal mask hides


def test_runs_alike_never_part():
    one = traced(Experiment.of("flash_attention", {"seq_len": 8, "head_dim": 16}, "normal"))
    assert partings(one, one) == []


def test_runs_of_different_lines_are_refused():
    experiment = Experiment.of("flash_attention", {"seq_len": 32, "head_dim": 16}, "normal")
    with pytest.raises(ValueError, match="different lines"):
        partings(traced(experiment), traced(experiment.with_(block_n=32)))
