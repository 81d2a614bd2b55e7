"""The beats of every shipped run: they cover it, come in the algorithm's order, and events are where they happen."""

from __future__ import annotations

import time
from itertools import groupby

import numpy as np
import pytest

from explain import lessons, recordings
from explain.beats import KINDS, beats, step_of
from explain.chapters.what_breaks.divergence import compared, divergences
from explain.experiment import Experiment
from explain.player.view import view, view_of
from explain.trace.file import TraceFile
from explain.trace.model import Tile, numbers
from kernels.catalog import KERNELS, TAUGHT, of_kind
from kernels.museum import EXHIBITS

FILES = sorted(recordings.path_of(lessons.OPENING).parent.glob("*.tilescope"))
ONLINE = ("load", "new_max", "exponentials", "rescale", "drop")
SUM = ("load", "exponentials", "add")
OUT = ("load", "normalise", "write")
PAIR = ("load", "new_max", "exponentials", "add", "write")
FLASH = ("load", "scores", "new_max", "exponentials", "rescale", "load", "add", "drop")
LISTED = ("load", "keep")
AGAIN = ("load", "scores", "exponentials")  # P, from lse
GRADIENTS = ("weights_gradient", "scores_gradient")
MERGED = (PAIR, ("load", "new_max", "merge"), OUT)
# Per kernel, the beats of its tile visits, in the order in which these kinds of visit begin.
LOSS = ("pick", "new_max", "exponentials", "rescale", "drop")
TILES = {
    "vector_add": (),
    "softmax_naive": (SUM, OUT),
    "softmax_safe": (("load", "new_max"), SUM, OUT),
    "softmax_row": (("load", "new_max", "exponentials", "add", "normalise", "write"),),
    "softmax_blocked_wrong": (("load", "new_max", "exponentials", "add", "normalise", "write"),),
    "softmax_online": (ONLINE, OUT),
    "softmax_tiled": (ONLINE, OUT),
    "softmax_topk": (("load", "new_max", "exponentials", "rescale", "keep"),),
    "softmax_safe_topk": (("load", "new_max"), (*SUM, "keep")),
    "softmax_safe_then_topk": (("load", "new_max"), SUM, OUT, LISTED),
    "softmax_online_then_topk": (ONLINE, OUT, LISTED),
    "softmax_split": MERGED,
    "softmax_split_wrong": MERGED,
    "attention_standard": (
        ("load", "scores", "write"),
        ("load", "new_max", "exponentials", "add", "normalise", "write"),
        ("load", "add"),
    ),
    "flash_attention_v1": (("load", "scores", "new_max", "exponentials", "rescale", "add", "write"),),
    "flash_attention": (FLASH,),
    "flash_attention_exp2": (FLASH,),
    "attention_backward_standard": (
        ("load", "add"),
        ("load", "weights_gradient", "write"),
        ("load", "row_gradient", "scores_gradient", "write"),
    ),
    "flash_attention_backward": ((*AGAIN, "add", *GRADIENTS, "add"), (*AGAIN, *GRADIENTS, "add")),
    "flash_attention_backward_atomic": ((*AGAIN, "add", *GRADIENTS, "add", "write"),),
    "flash_decoding": (FLASH, ("load", "new_max", "merge")),
    "cross_entropy_standard": (("load", "scores", "write"), ("load", *LOSS)),
    "cross_entropy_fused": (("load", "scores", *LOSS),),
    "cross_entropy_backward": (("load", "scores", *LOSS), ("load", "scores", "exponentials", "gradient", "add")),
}


def traced(experiment):
    return TraceFile(recordings.path_of(experiment).read_bytes()).trace


@pytest.fixture(scope="module")
def shipped():
    found = []
    for path in FILES:
        trace = TraceFile(path.read_bytes()).trace
        found.append((Experiment.from_json(trace.experiment), trace))
    return found


def test_every_kernel_to_step_through_is_among_the_shipped_runs(shipped):
    assert {experiment.kernel for experiment, _ in shipped} == set(of_kind("taught", "broken"))
    assert set(TILES) == set(TAUGHT)


def test_beats_cover_every_step_once_in_order(shipped):
    for experiment, trace in shipped:
        found = beats(trace, experiment.entry.roles)
        assert [beat.begin for beat in found] == [0, *(beat.end for beat in found[:-1])]
        assert found[-1].end == trace.steps
        programs = [(trace.launch(b.begin).kernel, trace.program(b.begin).id) for b in found]
        for beat, program in zip(found, programs, strict=True):
            assert beat.begin <= beat.at < beat.end
            assert beat.kind in KINDS
            assert (trace.launch(beat.end - 1).kernel, trace.program(beat.end - 1).id) == program
        ordinals = [beat.program for beat in found]
        assert list(dict.fromkeys(ordinals)) == list(range(sum(len(launch.recorded) for launch in trace.launches)))


def test_beats_come_in_the_order_of_the_algorithm(shipped):
    for experiment, trace in shipped:
        found = beats(trace, experiment.entry.roles)
        visits = [
            tuple(b.kind for b in own) for key, own in groupby(found, lambda b: (b.program, b.tile)) if key[1] >= 0
        ]
        assert tuple(dict.fromkeys(visits)) == TILES[experiment.entry.base], experiment.key
        for _, own in groupby(found, lambda beat: beat.program):
            tiles = [beat.tile for beat in own if beat.tile >= 0]
            assert list(dict.fromkeys(tiles)) == list(range(max(tiles, default=-1) + 1))


def test_the_step_that_shows_a_beat_sets_one_of_its_names_or_moves_it(shipped):
    for experiment, trace in shipped:
        for beat in beats(trace, experiment.entry.roles):
            moved = {access.buffer.name.removesuffix("_ptr") for access in trace.accesses(beat.at)}
            if beat.names:
                assert set(beat.names) & (moved if beat.kind in ("load", "write") else set(trace.changes(beat.at)))


def test_a_variable_is_set_where_its_line_runs():
    trace, roles = traced(lessons.VECTORS), lessons.VECTORS.entry.roles
    first, last = (step_of(trace, roles, f"{which} set of mask") for which in ("first", "last"))
    assert "mask" in trace.changes(first)
    assert first < step_of(trace, roles, "first load of a") < step_of(trace, roles, "first add") < last
    assert int(numbers(trace.state(last)["mask"]).sum()) == 27 % 8
    with pytest.raises(ValueError, match="set of VARIABLE"):
        step_of(trace, roles, "first set")
    with pytest.raises(ValueError, match="does not happen"):
        step_of(trace, roles, "first set of nothing")


def test_a_trace_without_roles_has_no_beats():
    trace = traced(lessons.ONLINE)
    assert beats(trace, {}) == ()
    assert len(view(lessons.ONLINE, trace, "recorded")["beats"]) == len(beats(trace, lessons.ONLINE.entry.roles))
    object.__setattr__(trace, "experiment", None)
    assert "beats" not in view_of(trace, "recorded")


def test_beats_are_found_while_a_page_opens():
    trace = traced(lessons.OPENING)
    times = []
    for _ in range(5):
        started = time.thread_time()  # of this thread alone: other processes may have the core in between
        beats(trace, lessons.OPENING.entry.roles)
        times.append(time.thread_time() - started)
    assert min(times) < 0.05  # 372 steps: 5 ms on an idle core


@pytest.mark.parametrize("row", range(lessons.OPENING.values["seq_len"]))
def test_a_rescale_of_a_row_is_where_its_alpha_shrinks_a_finite_maximum(row):
    trace, roles = traced(lessons.OPENING), lessons.OPENING.entry.roles
    size = lessons.OPENING.values["block_m"]
    program, at = divmod(row, size)
    each = [beat for beat in beats(trace, roles) if beat.program == program and beat.kind == "rescale"]
    alphas = [float(numbers(trace.state(beat.at)["alpha"])[at]) for beat in each]
    shrunk = [(alpha, beat.at) for alpha, beat in zip(alphas[1:], each[1:], strict=True) if alpha < 1]
    if not shrunk:
        with pytest.raises(ValueError, match="does not happen"):
            step_of(trace, roles, f"first rescale of row {row}")
        return
    assert step_of(trace, roles, f"first rescale of row {row}") == shrunk[0][1]
    assert step_of(trace, roles, f"largest drop of row {row}") == min(shrunk)[1]
    state, before = (trace.state(shrunk[0][1] - back) for back in (0, 1))
    expected = numbers(before["l_i"])[at] * numbers(state["alpha"])[at] + numbers(state["p"])[at].sum()
    assert numbers(state["l_i"])[at] == pytest.approx(expected, rel=1e-5)


def test_a_new_maximum_of_a_row_raises_it():
    words = lessons.ONLINE.with_(inputs="sentence_short", cols=15, block_n=4)
    trace, roles = traced(words), words.entry.roles
    maxima = [float(numbers(value)) for _, value in trace.history("m_new")]
    before = [-np.inf, *maxima[:-1]]
    raised = [k for (k, _), old, new in zip(trace.history("m_new"), before, maxima, strict=True) if new > old]
    names = ("first", "second", "third", "fourth")
    assert len(raised) < min(len(maxima), len(names))  # a tile leaves the maximum as it is
    found = [step_of(trace, roles, f"{name} new maximum of row 0") for name, _ in zip(names, raised, strict=False)]
    assert found == raised
    with pytest.raises(ValueError, match="does not happen"):
        step_of(trace, roles, f"{names[len(raised)]} new maximum of row 0")


def test_loads_tiles_and_writes_are_found_by_buffer_and_place():
    trace, roles = traced(lessons.OPENING), lessons.OPENING.entry.roles
    loads = [step for step in range(trace.steps) for a in trace.accesses(step) if a.buffer.name == "k_ptr"]
    assert step_of(trace, roles, "first load of k") == step_of(trace, roles, "load of k") == loads[0]
    assert step_of(trace, roles, "last load of k") == loads[-1]
    assert [step_of(trace, roles, f"{n} tile") for n in ("second", "last")] == [loads[1], loads[3]]
    assert step_of(trace, roles, "second tile of row 20") == loads[5]
    (store,) = trace.accesses(step_of(trace, roles, "write of o"))
    assert (store.kind, store.buffer.name) == ("store", "o_ptr")
    merged, of_pairs = traced(lessons.MERGED), lessons.MERGED.entry.roles
    assert "l_i" in merged.changes(step_of(merged, of_pairs, "first merge"))


def test_the_first_nan_is_where_a_value_has_one():
    experiment = next(e for e in lessons.in_every_dtype(lessons.naive_twin(lessons.SAFE)))
    trace = traced(experiment)
    step = step_of(trace, experiment.entry.roles, "first NaN")

    def has_nan(k):
        return any(isinstance(v, Tile) and np.isnan(v.numpy()).any() for v in trace.changes(k).values())

    assert [k for k in range(step + 1) if has_nan(k)] == [step]


@pytest.mark.parametrize("exhibit", EXHIBITS.values(), ids=lambda exhibit: exhibit.name)
def test_the_first_difference_is_the_first_that_a_role_shows(exhibit):
    right, broken = compared(exhibit)
    ours, theirs = traced(right), traced(broken)
    roles = KERNELS[exhibit.base].roles
    first = next(d for d in divergences(ours, theirs) if d.variable in roles.values())
    assert step_of(ours, roles, "first difference", theirs) == first.step


def test_the_first_difference_of_two_kernels_is_in_the_same_beat():
    online, wrong = lessons.ONLINE, lessons.wrong_twin(lessons.ONLINE)
    roles = online.entry.roles
    step = step_of(traced(online), roles, "first difference", traced(wrong))
    (beat,) = (beat for beat in beats(traced(online), roles) if beat.begin <= step < beat.end)
    assert beat.tile == 1  # the first tile is each one's own maximum


@pytest.mark.parametrize("event", ["rescale row 3", "seventh load", "first lunch", "largest drop", ""])
def test_an_unknown_event_is_refused_with_what_is_allowed(event):
    with pytest.raises(ValueError, match=r"allowed are .*rescale.*first NaN"):
        step_of(traced(lessons.ONLINE), lessons.ONLINE.entry.roles, event)
