"""The ladder: every rung's outcome is what its run stored and moved, and the updates of ℓ are told apart."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from explain import lessons
from explain.chapters.online_softmax import running_sum_demo
from explain.chapters.triton_ladder import figures, ladder
from explain.chapters.triton_ladder.ladder import RUNGS
from explain.run_experiment import run_traced
from explain.trace.model import numbers
from kernels import reference
from kernels.inputs import NOTEBOOK_ROW


def outcomes(row):
    runs = [(rung, rung.experiment(row)) for rung in RUNGS]
    return [ladder.outcome(rung, own, run_traced(own, "all", lambda *_: None)[0]) for rung, own in runs]


def test_the_rungs_on_the_notebooks_row():
    found = outcomes(lessons.ONLINE)
    assert [one.accesses for one in found] == [2, 2, 3, 4, 3, 3]
    assert [one.right for one in found] == [True, False, True, True, True, True]


def test_the_naive_rung_turns_wrong_on_large_numbers_and_the_wrong_one_right_on_one_tile():
    large = lessons.ONLINE.with_(inputs="large_magnitude", cols=16, block_n=4)
    assert [one.rung.kernel for one in outcomes(large) if not one.right] == ["softmax_blocked_wrong", "softmax_naive"]
    assert all(one.right for one in outcomes(lessons.ONLINE.with_(block_n=8)))


def test_the_button_breaks_rung_3_and_the_picture_says_which_rungs_are_wrong():
    found = outcomes(lessons.ONLINE.with_(inputs="edge"))
    assert [at for at, one in enumerate(found, 1) if not one.right] == [2, 3]
    for narrow in (False, True):
        drawn = figures.ladder(found, 0, narrow=narrow)
        assert drawn.count(">wrong</text>") == 2
        assert all(one.rung.limit in drawn for one in found[:-1])


def test_the_last_rungs_rows_rescale_at_tiles_of_their_own_on_the_notebooks_row():
    trace, _ = run_traced(RUNGS[-1].experiment(lessons.ONLINE), "all", lambda *_: None)
    shrunk = np.array([(numbers(alpha) > 0) & (numbers(alpha) < 1) for _, alpha in trace.history("alpha")])
    assert len({tuple(row) for row in shrunk.T}) > 1


def test_what_a_run_stored_is_put_together_from_its_stores():
    own = lessons.ROWS.with_(rows=5)  # the second tile of rows is ragged
    trace, _ = run_traced(own, "all", lambda *_: None)
    x = own.make_inputs()["x"]
    np.testing.assert_allclose(ladder.stored(trace, "y", "y_ptr", x.shape), reference.softmax(x), atol=1e-6)


def test_a_place_that_nothing_wrote_is_nan():
    trace, _ = run_traced(lessons.ONLINE, "all", lambda *_: None)
    assert np.isnan(ladder.stored(trace, "y", "y_ptr", (8,))[6:]).all()


@pytest.mark.parametrize(("below", "above"), list(itertools.pairwise(RUNGS)), ids=lambda rung: rung.name)
def test_a_difference_holds_the_whole_of_the_rung_above(below, above):
    lines = ladder.difference(below.kernel, above.kernel).splitlines()
    kept = "\n".join(line[1:] for line in lines if line[0] in " +")
    assert kept == ladder.source(above.kernel)
    assert any(line[0] == " " for line in lines)


def test_lines_that_only_moved_into_a_loop_are_kept():
    kept = [line for line in ladder.difference("softmax_row", "softmax_blocked_wrong").splitlines() if line[0] == " "]
    assert any("tl.load" in line for line in kept)


def test_only_the_right_update_gives_weights_on_the_row_and_on_the_row_shifted():
    row = np.array(NOTEBOOK_ROW, np.float32)
    right = [
        update.written
        for update in running_sum_demo.UPDATES
        if all(
            abs(running_sum_demo.weights(update, values).sum() - 1) < 1e-5 for values in (row, row + np.float32(100))
        )
    ]
    assert right == ["ℓ ← α ℓ + exp(x − m_new)"]
    np.testing.assert_allclose(
        running_sum_demo.weights(running_sum_demo.UPDATES[-1], row), reference.softmax(row), atol=1e-7
    )


def test_an_update_takes_masked_elements():
    masked = np.array([-np.inf, -np.inf, 0.5, -np.inf], np.float32)
    assert running_sum_demo.UPDATES[-1].run(masked) == (1.0, 0.5)
    assert not running_sum_demo.weights(running_sum_demo.UPDATES[-1], masked[:2]).any()
    assert ":green[**0.0000**]" in running_sum_demo.table(masked[:2]).splitlines()[-1]


def test_the_lines_that_carry_a_rungs_idea_are_lines_of_its_difference():
    for below, above in itertools.pairwise(RUNGS):
        changed = {line[0] + line[1:].strip() for line in ladder.difference(below.kernel, above.kernel).splitlines()}
        assert {line[0] + line[1:].strip() for line in above.lines} <= {one for one in changed if one[0] in "+-"}
    first = {line.strip() for line in ladder.source(RUNGS[0].kernel).splitlines()}
    assert {line.strip() for line in RUNGS[0].lines} <= first
