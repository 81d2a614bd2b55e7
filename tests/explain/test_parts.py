"""A part of a run, counted as often as there are such parts, counts what the whole run counts: buffer by buffer."""

from __future__ import annotations

import pytest

from explain.chapters.three_numbers.levels import by_buffer
from explain.experiment import Experiment
from explain.parts import part_of, smaller
from explain.trace.recorder import record_call
from kernels.catalog import TAUGHT
from kernels.launch import launcher, tensors

HEADS = {"batch": 2, "heads": 4, "kv_heads": 2, "head_dim": 16}
SIZES = {
    "vector": ({"n": 32}, {"n": 30}),
    "softmax": ({"rows": 24}, {"rows": 9}),
    "loss": ({"tokens": 32}, {"tokens": 20}),
    "attention": (
        HEADS | {"seq_len": 32, "kv_len": 40},
        HEADS | {"seq_len": 24, "kv_len": 40},
        HEADS | {"seq_len": 32, "kv_len": 40, "causal": True},
    ),
}


def counted(experiment: Experiment) -> tuple[dict[tuple[str, str], int], int]:
    entry, p = experiment.entry, experiment.values
    arrays = entry.make_inputs(experiment.preset, p, experiment.seed)
    trace = record_call(launcher(entry, p, tensors(p, arrays, "cpu")), programs=[])
    ways = by_buffer(experiment, trace.launches).items()
    return {(way, name): count for way, of in ways for name, count in of.items()}, trace.traffic()["flops"]


@pytest.mark.parametrize("kernel", TAUGHT)
def test_the_parts_are_the_whole(kernel):
    smallest = []
    for sizes in SIZES[TAUGHT[kernel].family]:
        whole = Experiment.of(kernel, sizes)
        part = part_of(whole)
        smallest.append(part.experiment != whole)
        moved, flops = counted(part.experiment)
        assert part.times is not None
        assert ({where: part.times * count for where, count in moved.items()}, part.times * flops) == counted(whole)
    # A backward pass reads W once for all of dW: its launch that holds rows of W has all tokens.
    assert smallest[0] or kernel == "cross_entropy_backward", "sizes that divide have parts"


@pytest.mark.parametrize(
    ("kernel", "causal", "queries", "times"),
    [
        ("flash_attention", False, 16, 16),
        ("attention_standard", False, 16, 16),
        ("flash_attention", True, 32, 8),
        ("flash_attention_v1", False, 32, 8),  # it loads K and V once for all queries
    ],
)
def test_queries_are_a_part_where_programs_count_the_same(kernel, causal, queries, times):
    part = part_of(Experiment.of(kernel, SIZES["attention"][0] | {"causal": causal}))
    assert (part.experiment.values["seq_len"], part.times) == (queries, times)


def test_heads_that_share_keys_are_one_part_where_one_program_has_them_all():
    part = part_of(Experiment.of("flash_decoding", SIZES["attention"][1]))
    assert (part.experiment.values["heads"], part.experiment.values["kv_heads"], part.times) == (2, 1, 4)
    assert part.words == "one head of keys of 4, counted 4 times"


def test_a_sample_that_represents_only_itself_comes_last():
    parts = list(smaller(Experiment.of("flash_attention", SIZES["attention"][2])))
    assert [part.times for part in parts] == [8, None]
    assert parts[-1].experiment.values["seq_len"] == 16
