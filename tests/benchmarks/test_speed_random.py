"""Shapes drawn by lot: the same for a seed, within what a GPU can hold; and the summary's shares and means."""

from __future__ import annotations

import math

import pytest

from benchmarks.speed_cases import TORCH_DTYPE, Case, Variant, variants
from benchmarks.speed_random import ELEMENTS, TOKENS, cases
from benchmarks.speed_random_table import LARGE, WAYS, backward_by_head_dim, beside, lines, summary, untimed


def test_a_seed_draws_the_same_shapes_again_and_another_draws_others():
    assert list(cases(1, 60, [])) == list(cases(1, 60, []))
    assert list(cases(1, 60, [])) != list(cases(2, 60, []))


def test_every_shape_is_one_that_the_kernels_take_and_a_gpu_has_room_for():
    drawn = list(cases(3, 300, []))
    assert {case.table for case in drawn} == set(WAYS)
    for case in drawn:
        if case.table == "softmax":
            assert math.prod(case.shape) <= ELEMENTS + max(case.shape)
            assert case.work == 2 * math.prod(case.shape) * TORCH_DTYPE[case.dtype].itemsize
        else:
            batch, heads, seq_len, head_dim = case.shape
            assert case.kv_heads
            assert case.keys
            assert heads % case.kv_heads == 0
            assert 16 <= head_dim <= 256
            assert head_dim % 8 == 0
            assert batch == 1 or batch * case.keys <= TOKENS
            assert not case.causal or case.keys == seq_len
    assert any(case.causal for case in drawn)
    assert any(case.by_rows for case in drawn)
    assert any(case.keys and case.keys > case.shape[2] for case in drawn)
    assert any(case.kv_heads and case.kv_heads < case.shape[1] for case in drawn)


def test_names_tell_all_shapes_apart():
    drawn = list(cases(4, 200, []))
    assert len({case.name for case in drawn}) == len(set(drawn))


def test_only_known_tables_are_drawn():
    assert {case.table for case in cases(1, 6, ["softmax"])} == {"softmax"}
    with pytest.raises(ValueError, match="'decode'"):
        list(cases(1, 6, ["decode"]))


@pytest.mark.parametrize("table", WAYS)
def test_what_is_run_beside_our_dispatcher_is_what_the_benchmark_knows(table):
    known = {one.function for one in variants(Case(table, (2, 2, 64, 64), "bf16", 1.0, "B/s", keys=128), tune=False)}
    assert set(WAYS[table]) <= known | {"QuACK"}
    assert WAYS[table][0].startswith("kernels.dispatch:")


def made(ours: float, theirs: float, host: float, work: float = 1e12):
    """A softmax case with seconds of ours, of torch's, and of our call on the host."""
    rows = [("torch.softmax", theirs, 0.0), (Variant(WAYS["softmax"][0]).name, ours, host)]
    return {
        "case": {"table": "softmax", "name": f"softmax {ours}", "work": work, "unit": "B/s"},
        "variants": [{"name": name, "seconds": s, "host_seconds": h} for name, s, h in rows],
    }


def test_the_share_won_the_geometric_mean_and_the_worst_first():
    result = {"cases": [made(1.0, 2.0, 0.0), made(4.0, 2.0, 0.0), made(1.0, 8.0, 16.0)]}
    gpu, host = (one for one in beside(result) if one.baseline == "torch.softmax")
    assert (gpu.host, host.host) == (False, True)
    assert gpu.won == pytest.approx(2 / 3)
    assert gpu.mean == pytest.approx(2.0)  # of 2, 1/2 and 8
    assert gpu.ratios[0] == (0.5, "softmax 4.0")
    assert host.won == pytest.approx(1 / 3)
    assert host.mean == pytest.approx((2.0 * 0.5 * 0.5) ** (1 / 3))


def test_a_copy_is_a_bar_for_large_inputs_alone():
    small, large = made(1.0, 1.0, 0.0, work=LARGE), made(1.0, 1.0, 0.0, work=1.5 * LARGE)
    for case in (small, large):
        case["variants"].append({"name": "copy", "seconds": 0.9, "host_seconds": 0.0})
    (copy,) = (one for one in beside({"cases": [small, large]}) if one.baseline == "copy")
    assert (len(copy.ratios), copy.won) == (1, 1.0)


@pytest.mark.parametrize(("queries", "keys", "bars"), [(1, 2**15, 1), (1, 2**10, 0), (256, 2**15, 0)])
def test_a_copy_is_a_bar_for_few_queries_where_their_bytes_are_many_and_their_flops_few(queries, keys, bars):
    case = {
        "table": "attention", "name": "attention", "unit": "FLOP/s", "shape": [1, 8, queries, 128], "kv_heads": 8,
        "keys": keys, "dtype": "bf16", "work": 4.0 * 8 * queries * keys * 128,
    }  # fmt: skip
    names = ("copy of as many bytes", Variant(WAYS["attention"][0]).name)
    variants = [{"name": name, "seconds": 1.0, "host_seconds": 0.0} for name in names]
    found = [one for one in beside({"cases": [{"case": case, "variants": variants}]}) if "copy" in one.baseline]
    assert [(one.host, one.bar, one.won) for one in found] == [(False, 0.9, 1.0)] * bars


@pytest.mark.parametrize(
    ("queries", "keys", "words"),
    [
        (1024, 1024, ["up to 1,024 tokens"]),
        (1025, 1025, []),
        (1000, 1025, []),
        (256, 2048, ["over 2,048 keys or more"]),
        (257, 2048, []),
        (1, 2047, []),
    ],
)
def test_short_rows_and_few_queries_are_comparisons_of_their_own(queries, keys, words):
    case = {
        "table": "attention", "name": "attention", "unit": "FLOP/s", "shape": [1, 8, queries, 128], "keys": keys,
        "kv_heads": 8, "dtype": "bf16", "work": 1.0,
    }  # fmt: skip
    ours, cudnn, flash2, flash3, _ = WAYS["attention"]
    seconds = {ours.partition(":")[2]: 2.0, cudnn: 1.0, flash2: 4.0, flash3: 3.0}
    rows = [{"name": name, "seconds": s, "host_seconds": 0.0} for name, s in seconds.items()]
    found = [one for one in beside({"cases": [{"case": case, "variants": rows}]}) if one.words != "attention forward"]
    assert [one.host for one in found] == [False, True] * len(words)
    for one in found:
        assert words[0] in one.words
        assert one.mean == pytest.approx(0.5 if "tokens" in one.words else 1.5)  # cuDNN; the faster of two


@pytest.mark.parametrize("number", [0, 1])
def test_who_has_no_time_has_no_ratio_and_is_named_with_the_reason(number):
    wrong, right = made(1.0, 1.0, 0.0), made(2.0, 2.0, 0.0)
    row = wrong["variants"][number]
    del row["seconds"]
    row["why"] = "inf"
    result = {"cases": [wrong, right]}
    assert [len(one.ratios) for one in beside(result)] == [1, 1]
    (line,) = untimed(result)
    assert row["name"] in line
    assert "1 of 2" in line
    assert ("softmax 1.0" in line) == (row["name"] == "softmax")


def test_the_tables_have_every_comparison():
    case = made(1.0, 1.0, 0.0)
    case["variants"].append({"name": "copy", "seconds": 0.9, "host_seconds": 0.0})
    where = dict.fromkeys(("gpu", "driver", "torch", "triton", "date"), "")
    result = {"cases": [case], "provenance": where, "seeds": [1], "method": ""}
    rows = [line for line in lines(result) if line.startswith("| softmax")]
    assert [row.count("|") for row in rows] == [9, 9]
    assert len(list(summary(result))) == 3


def test_backward_by_head_dim_counts_each_shape_once_and_all_at_the_end():
    ours, cudnn, flash = WAYS["backward"]
    result = {"cases": [
        {
            "case": {"table": "backward", "shape": [1, 1, 64, head_dim]},
            "variants": [
                {"name": name, "seconds": seconds, "host_seconds": 0.0}
                for name, seconds in ((ours.partition(":")[2], 1.0), (cudnn, cudnn_s), (flash, 1.2))
            ],
        }
        for head_dim, cudnn_s in ((64, 2.0), (128, 0.5), (128, 2.0), (256, 1.0))
    ]}  # fmt: skip
    heading, _, *rows = (
        [cell.strip() for cell in line.strip("|").split("|")] for line in backward_by_head_dim(result).splitlines()
    )
    assert heading[2] == "≥ 1 × cuDNN"
    assert [row[:5] for row in rows] == [
        ["64", "1", "100%", "2.00", "2.00"],
        ["128", "2", "50%", "1.00", "0.50"],
        ["256", "1", "100%", "1.00", "1.00"],
        ["all", "4", "75%", "1.19", "0.50"],
    ]
    assert {row[5] for row in rows} == {"0%"}
