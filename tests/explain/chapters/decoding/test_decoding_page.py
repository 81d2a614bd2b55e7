"""Decoding: programs on SMs, the bandwidth bound, caches of models, masks of unequal lengths, and the page itself."""

from __future__ import annotations

import heapq
import math
import re
from collections import Counter
from dataclasses import replace

import pytest

from explain import lessons
from explain.chapters.decoding import figures, measured_figures, rates, splits, timeline, weights
from explain.chapters.decoding.bound import Bound, free_queries, ridge
from explain.chapters.decoding.cache import MODELS
from explain.chapters.decoding.exercises import MASKS, PARTS, QUESTIONS, Shown
from explain.chapters.decoding.masks import seen
from explain.chapters.decoding.programs import Filled, splits_at_once
from explain.chapters.decoding.savings import Saving
from explain.chapters.decoding.view import JUMPS, LENGTHS, SEQUENCES
from explain.chapters.speed.results import load
from explain.figures.numbers import duration, moved, number, percent
from explain.figures.svg import LEGIBLE
from explain.gpus import GPUS
from explain.records import registry
from explain.ui.layout import anchor
from kernels.parameters import ALIGNMENTS
from tests.drawings import width_around_words
from tests.pages import page, texts

H200, T4 = GPUS["H200"], GPUS["T4"]
RATED = rates.rated(H200, registry.shipped())
READABLE = splits.curves(registry.shipped(), RATED)
PHONE = 388
"""The width of a column on a phone of 420 pixels."""


# Programs


@pytest.mark.parametrize("gpu", GPUS.values(), ids=GPUS)
def test_with_the_most_splits_at_once_no_program_waits_and_with_one_more_some_do(gpu):
    most = splits_at_once(8, gpu)
    one, more = Filled(1, 32768, most), Filled(1, 32768, most + 1)
    assert one.waiting(gpu) == 0 < more.waiting(gpu)
    assert one.keys_in_turn(gpu) < more.keys_in_turn(gpu)


def test_the_question_of_splits_does_not_ask_for_a_number_that_needs_a_second_round():
    question = next(one for one in QUESTIONS if one.name == "splits")
    splits = question.answer(Shown(PARTS, H200))
    assert isinstance(splits, int)
    asked = Filled(1, 32768, splits)
    others = [Filled(1, 32768, splits).keys_in_turn(H200) for splits in range(1, 33)]
    assert asked.keys_in_turn(H200) == min(others) == 2048


def test_one_of_a_thing_is_not_many():
    said = figures.sms_words(Filled(1, 32768, 1), H200)
    assert "× 1 split = " in said
    assert "One part needs no merge;" in said
    assert "O and lse of the part are written and read" in said
    assert "less than 0.1% of K and V" in said
    assert "of 1 key if" in figures.masks_words(1, 1)
    assert ">key 0<" in figures.masks(1, 1)


@pytest.mark.parametrize(
    ("batch", "kv_len", "cases"),
    [
        (1, 32768, ["1 sequence of 8,192 keys: **32 splits**", "1 sequence of 131,072 keys: **64 splits**"]),
        (1, 1024, ["1 sequence of 8,192 keys: **32 splits**"]),
        (4, 8192, ["1 sequence of 8,192 keys: **32 splits**", "16 sequences of 8,192 keys: **4 splits**"]),
        (16, 131072, ["16 sequences of 8,192 keys: **4 splits**"]),
        (64, 32768, ["64 sequences of 8,192 keys: **1 split**"]),
    ],
)
def test_below_the_saw_tooth_are_the_best_numbers_of_splits_of_the_nearest_recorded_caches(batch, kv_len, cases):
    said = figures.softer_words(Filled(batch, kv_len, 16), H200, READABLE)
    assert re.findall(r"- (.* splits?\*\*)", said) == cases
    assert ("more splits than fit in one round" in said) == (batch < 64)


@pytest.mark.parametrize("gpu", GPUS.values(), ids=GPUS)
@pytest.mark.parametrize("kv_len", LENGTHS)
@pytest.mark.parametrize("batch", SEQUENCES)
def test_what_is_said_of_the_programs_holds_at_every_setting(batch, kv_len, gpu):
    for many in range(1, figures.SPLITS_SHOWN + 1):
        filled = Filled(batch, kv_len, many)
        said = figures.sms_words(filled, gpu)
        p = filled.experiment.values
        run = timeline.parts(filled.experiment.with_(block_n=64))
        with_keys = sum(len(part) > 0 for part in run)
        numbers = [int(one.replace(",", "")) for one in re.findall(r"\*\*([\d,]+) programs\*\*", said)]
        assert numbers[0] == batch * 8 * many == p["batch"] * p["kv_heads"] * len(run)
        assert numbers[1:] == [batch * 8 * with_keys] * (with_keys < many)
        assert moved(2 * 4 * batch * 32 * many * (128 + 1)) in said
        of_sms = filled.keys_of_sms(gpu)
        most, part = max(of_sms), max(map(len, run)) * 64
        assert sum(of_sms.values()) == gpu.sms
        assert sum(keys * sms for keys, sms in of_sms.items()) == batch * 8 * kv_len
        mean = batch * 8 * kv_len / gpu.sms
        assert mean <= most <= mean + part
        assert f"at most **{most:,} keys** one after the other; the mean is {round(mean):,}." in said
        cliff = re.search(r"up to \*\*(\d+) splits?\*\* runs? at once. With (\d+) there is a second round", said)
        if cliff:
            most, more = map(int, cliff.groups())
            assert Filled(batch, kv_len, most).waiting(gpu) == 0 < Filled(batch, kv_len, more).waiting(gpu)
        if enough := re.search(r"With (?:up to )?\*\*(\d+) splits?\*\* one round is enough", said):
            assert Filled(batch, kv_len, int(enough[1])).waiting(gpu) == 0
        assert ("more than the" in said) == (Filled(batch, kv_len, 1).waiting(gpu) > 0)


@pytest.mark.parametrize("gpu", GPUS.values(), ids=GPUS)
@pytest.mark.parametrize(("batch", "kv_len", "splits"), [(64, 1024, 15), (64, 1024, 17), (1, 8192, 17), (16, 2048, 31)])
def test_each_part_goes_to_the_sm_that_is_free_first(batch, kv_len, splits, gpu):
    filled, free = Filled(batch, kv_len, splits), [0] * gpu.sms
    for part in filled.unsplit * [part for part in timeline.parts(filled.experiment) if part]:
        heapq.heapreplace(free, free[0] + 64 * len(part))
    assert filled.keys_of_sms(gpu) == Counter(free)


def test_where_one_more_split_costs_nothing_the_page_speaks_of_no_cliff():
    assert Filled(1, 32768, 16).cliff(H200)
    assert "Move *Splits* to 1, to 16, then to 17." in texts(page("decoding", fill_splits="8"))
    for batch, kv_len in ((64, 32768), (16, 32768), (1, 1024)):
        assert not Filled(batch, kv_len, 16).cliff(H200)
        assert "second round" not in figures.softer_words(Filled(batch, kv_len, 16), H200, READABLE)
        assert "Move *Splits*" not in texts(page("decoding", fill_batch=str(batch), fill_keys=f"{kv_len:,}"))
    assert figures.softer_words(Filled(1, 32768, 16), T4, None).endswith(
        "so a second round can cost less than in this model.**"
    )


def test_a_split_without_keys_is_launched_and_merged_and_not_drawn():
    filled = Filled(64, 1024, 17)
    assert (filled.launched, filled.programs) == (8704, 8192)
    assert "17 splits = **8,704 programs**" in figures.sms_words(filled, H200)
    assert "only 16 parts have keys: **8,192 programs**. The kernel launches the other 512 too" in figures.sms_words(
        filled, H200
    )
    assert "8,192 programs with keys on 132 SMs" in figures.sms(filled, H200)


def test_the_picture_has_a_square_for_each_sm_and_fills_those_with_keys():
    drawn = figures.sms(Filled(1, 32768, 4), H200)
    filled = re.findall(r"<title>SM \d+: 8,192 keys</title>", drawn)
    idle = re.findall(r'fill="none"[^>]*><title>SM \d+: 0 keys</title>', drawn)
    assert (len(filled), len(idle)) == (32, 100)
    assert len(re.findall(r"<title>SM \d+:", figures.sms(Filled(1, 32768, 20), H200))) == 132


@pytest.mark.parametrize(
    ("filled", "told"),
    [
        (Filled(1, 8192, 16), ["512 keys", "idle"]),
        (Filled(1, 32768, 17), ["3,904 keys, the most", "1,920 keys, the fewest"]),
        (Filled(64, 8192, 1), ["32,768 keys, the most", "24,576 keys, the fewest"]),
        (Filled(64, 8192, 17), ["31,552 to 32,064 keys"]),
    ],
)
def test_squares_that_look_alike_have_one_entry_in_the_legend(filled, told):
    entry = r">(?:reads )?([\d,]+(?: to [\d,]+)? keys(?:, the \w+)?|idle)</text>"
    assert re.findall(entry, figures.sms(filled, H200)) == told


@pytest.mark.parametrize("narrow", [False, True])
@pytest.mark.parametrize("filled", [Filled(64, 131072, 63), Filled(64, 1024, 15), Filled(1, 8192, 16)])
def test_no_word_leaves_the_picture_of_the_sms(filled, narrow):
    for gpu in (RATED, T4):
        width = width_around_words(figures.sms(filled, gpu, READABLE, narrow=narrow))
        assert not narrow or width * LEGIBLE <= PHONE


def test_the_measured_time_lies_below_the_computed_keys_where_this_cache_was_measured_on_this_gpu():
    assert READABLE
    for filled, gpu in ((Filled(1, 8192, 16), RATED), (Filled(1, 4096, 16), RATED), (Filled(1, 8192, 16), T4)):
        curve = READABLE.of(filled, gpu)
        assert (curve is not None) == (gpu is RATED and filled.kv_len == 8192)
        measured = re.findall(r"(\d+) splits?: [\d.]+ µs, measured", figures.sms(filled, gpu, READABLE))
        assert measured == ([str(splits) for splits in curve.seconds if splits <= 64] if curve else [])
    said = figures.softer_words(Filled(1, 8192, 16), RATED, READABLE)
    assert said.startswith(
        "**One program per SM predicts 16 splits. Measured, 32 splits are fastest.** 16 splits take "
    )
    said = figures.softer_words(Filled(64, 8192, 16), RATED, READABLE)
    assert said.startswith("**Without a split there are 512 programs for 132 SMs: enough. Measured, 1 split is fast")


@pytest.mark.parametrize("gpu", GPUS.values(), ids=GPUS)
def test_the_introduction_says_how_many_sms_one_query_leaves_idle(gpu):
    assert f"The {gpu.name} has {gpu.sms} processors (SMs): **{gpu.sms - 8} are idle.**" in figures.idle_words(gpu)


@pytest.mark.parametrize(("asked", "gpu"), [("T4", T4), ("A100", GPUS["A100"]), ("none", H200)])
def test_the_introduction_is_about_the_gpu_of_the_page_s_control(asked, gpu):
    shown = page("decoding", gpu=asked)
    assert f"**{gpu.sms - 8} are idle.**" in texts(shown)
    assert f"programs on {gpu.sms} SMs" in texts(shown)


@pytest.mark.parametrize(
    ("filled", "told"),
    [
        (Filled(1, 32768, 16), ["2,048", "4,096", "8,192", "16,384", "32,768"]),
        (Filled(1, 1024, 1), ["64", "128", "256", "512", "1,024"]),
        (Filled(64, 32768, 1), ["65,536", "131,072", "262,144"]),
    ],
)
def test_the_axis_of_the_keys_has_a_step_for_each_doubling(filled, told):
    keys = re.findall(r'text-anchor="end"[^>]*>([\d,]+)</text>', figures.sms(filled, H200))
    assert keys == told


@pytest.mark.parametrize(
    ("splits", "words"),
    [
        (4, "100 of 132 SMs are idle.** One SM reads at most **8,192 keys**"),
        (16, "4 of 132 SMs are idle.** One SM reads at most **2,048 keys**"),
        (17, "**4 programs wait** until an SM is free. One SM reads at most **3,904 keys**"),
    ],
)
def test_the_words_say_how_full_the_gpu_is(splits, words):
    assert words in figures.sms_words(Filled(1, 32768, splits), H200)


def test_the_slider_of_splits_begins_without_a_split_and_the_page_says_how_far_to_move_it():
    shown = page("decoding")
    assert shown.slider(key="fill_splits").value == 1
    most = splits_at_once(8, H200)
    assert f"Move *Splits* to {most}, then to {most + 1}." in texts(shown)


def test_the_merge_grows_with_the_splits_and_the_cache_does_not():
    one, many = Filled(2, 8192, 1), Filled(2, 8192, 32)
    assert many.cache_bytes == one.cache_bytes == 2 * 8 * 8192 * 128 * 2 * 2
    assert many.merge_bytes == 32 * one.merge_bytes


# The timeline


def test_the_timeline_has_a_box_for_each_tile_of_keys_twice_and_the_parts_begin_together():
    drawn = timeline.drawn(lessons.DECODED)
    boxes = re.findall(r'<rect x="([\d.]+)"[^>]*><title>(SM \d+): keys (\d+)–(\d+)</title>', drawn)
    alone, split = boxes[:8], boxes[8:]
    assert [(sm, int(first)) for _, sm, first, _ in alone] == [("SM 0", 8 * tile) for tile in range(8)]
    assert [(sm, int(first)) for _, sm, first, _ in split] == [(f"SM {n // 2}", 8 * n) for n in range(8)]
    assert {x for x, _, first, _ in split if int(first) % 16 == 0} == {alone[0][0]}
    assert timeline.keys_in_turn(lessons.DECODED) == 16


@pytest.mark.parametrize("narrow", [False, True])
def test_the_timeline_says_that_one_program_leaves_the_other_sms_idle(narrow):
    drawn = timeline.drawn(lessons.DECODED, narrow=narrow)
    assert drawn.count(f">{timeline.OTHERS}</text>") == drawn.count(">idle</text>") == 1


@pytest.mark.parametrize("splits", [1, 3, 16])
def test_the_parts_of_the_timeline_have_every_tile_once(splits):
    run = lessons.DECODED.with_(splits=splits, kv_len=60)
    assert [tile for part in timeline.parts(run) for tile in part] == list(range(8))
    assert "SM 0: keys 56–59" in timeline.drawn(run)


@pytest.mark.parametrize("splits", [1, 4, 16])
def test_the_merge_beside_a_long_cache_is_a_share_of_its_bytes(splits):
    said = timeline.to_scale(lessons.DECODED.with_(splits=splits))
    share = splits * 4 * (16 + 1) * 4 / (2 * 32768 * 16 * 4)
    assert f"launch 2 would read {percent(share, 2)} of the first row's bytes" in said
    assert "thinner than a pixel" in said


# The bound


@pytest.mark.parametrize("gpu", GPUS.values(), ids=GPUS)
def test_the_rates_are_measured_where_a_record_has_them_and_the_datasheet_s_elsewhere(gpu):
    rated = rates.rated(gpu, registry.shipped())
    measured = {record.roofs["hbm"].per_second for record in registry.shipped() if gpu.name in record.gpu}
    assert {rated.hbm_bytes_per_second} == (measured or {gpu.hbm_bytes_per_second})
    assert ("measured" in rates.bandwidth(rated)) == ("measured" in rated.source) == bool(measured)
    assert rates.bandwidth(rated) in figures.bound_words(Bound(1, 4096), rated)


def test_in_16_bits_the_intensity_is_the_number_of_rows_that_share_a_key():
    for queries in (1, 3, 64):
        assert Bound(queries, 4096).intensity == Bound(queries, 4096).rows == 4 * queries


def test_queries_are_free_up_to_the_ridge_and_not_beyond():
    for gpu in (H200, T4):
        most = free_queries(gpu)
        first = Bound(1, 4096).seconds(gpu)
        assert Bound(most, 4096).seconds(gpu) == first < Bound(most + 1, 4096).seconds(gpu)
        assert Bound(most, 4096).intensity <= ridge(gpu)
    assert "the same time as one query" in figures.bound_words(Bound(8, 4096), H200)
    assert "× the time of one query" in figures.bound_words(Bound(256, 4096), H200)


def test_a_token_needs_all_layers_and_the_weights():
    said = figures.token_words(Bound(1, 32768), H200)
    assert "32 × 27.96 µs = 895 µs" in said
    assert f"attention is **{percent(0.895 / (0.895 + 3.333))}**" in said
    assert "8\u00a0billion × 2 bytes ÷ 4.8 TB/s = 3.33 ms" in said


def test_to_verify_many_tokens_is_a_step_with_the_arithmetic_of_the_weights():
    few, many = figures.token_words(Bound(8, 32768), RATED), figures.token_words(Bound(256, 32768), RATED)
    assert "of one verification step of 8 tokens" in few
    assert "Their arithmetic" not in few
    weights = 2 * 8e9 * 256 / RATED.tensor_flops_per_second
    assert f"256 tokens × 8\u00a0billion × 2 FLOPs ÷ 768 TFLOP/s = {duration(weights)}" in many
    layers = 32 * Bound(256, 32768).seconds(RATED)
    assert f"**{percent(layers / (layers + weights))}** of one verification step of 256 tokens" in many


def test_the_axis_of_the_least_time_has_round_steps():
    for narrow in (False, True):
        drawn = figures.bound_chart(Bound(1, 32768), H200, narrow=narrow)
        assert [f">{one}</text>" in drawn for one in ("20 µs", "50 µs", "100 µs", "200 µs")] == [True] * 4


# Caches


def test_a_cache_is_that_of_its_heads_of_keys():
    by_name = {model.name: model for model in MODELS}
    assert {model.kind for model in MODELS} == {"MHA", "GQA", "MQA"}
    assert by_name["Llama 2 7B"].cache_bytes(1) == 524_288
    assert by_name["Llama 3.1 8B"].cache_bytes(1) * by_name["Llama 3.1 8B"].group == 524_288
    assert all(model.source for model in MODELS)


@pytest.mark.parametrize(("tokens", "beyond"), [(2048, 0), (8192, 2), (131072, 3)])
def test_a_cache_beyond_what_its_model_was_trained_for_says_so(tokens, beyond):
    for narrow in (False, True):
        written = re.findall(r">[^<]*trained for [\d,]+</text>", figures.caches(tokens, narrow=narrow))
        assert len(written) == beyond


# Where it does not help


@pytest.mark.parametrize("narrow", [False, True])
def test_the_bars_of_bytes_name_their_tiles_and_are_as_long_as_their_bytes(narrow):
    found = [Saving(queries, 8192) for queries in (1, 8192)]
    assert [saving.tile for saving in found] == [(16, 128), (128, 128)]
    drawn = figures.savings(found, narrow=narrow)
    assert re.findall(r">[\d,]+ quer\w+, tile (\d+) × (\d+)<", drawn) == [("16", "128"), ("128", "128")]
    lengths = [float(one) for one in re.findall(r'width="([\d.]+)"[^>]*><title>', drawn)]
    sizes = [size / one.standard for one in found for size in (one.standard, one.flash, one.split)]
    assert [one / lengths[0] for one in lengths] == pytest.approx(sizes, rel=0.01)


def test_flash_attention_saves_little_with_one_query_and_much_with_many():
    assert Saving(1, 8192).saved < 0.02
    assert Saving(8192, 8192).saved > 0.7
    assert Saving(1, 8192).flash < Saving(1, 8192).split < 1.01 * Saving(1, 8192).flash


# Masks


def test_the_two_corners_are_the_same_only_if_the_lengths_are():
    bottom_right, top_left = ALIGNMENTS
    assert [seen(query, 3, 8, bottom_right) for query in range(3)] == [6, 7, 8]
    assert [seen(query, 3, 8, top_left) for query in range(3)] == [1, 2, 3]
    assert [seen(query, 5, 3, bottom_right) for query in range(5)] == [0, 0, 1, 2, 3]
    assert [seen(query, 5, 3, top_left) for query in range(5)] == [1, 2, 3, 3, 3]
    assert "both masks are the same" in figures.masks_words(4, 4)
    assert "**2 see none**" in figures.masks_words(5, 3)


def test_the_question_of_the_masks_is_about_the_picture_of_the_masks():
    shown = page("decoding", view=MASKS)
    queries, keys = (int(str(shown.slider(key=key).value)) for key in ("mask_queries", "mask_keys"))
    question = next(one for one in QUESTIONS if one.name == "top-left")
    prompt = question.prompt_of(Shown(MASKS, H200))
    assert prompt.startswith(f"{queries} queries, {keys} keys")
    assert question.answer(Shown(MASKS, H200)) == seen(queries - 1, queries, keys, ALIGNMENTS[1])


# Pictures and the page


def test_no_picture_of_a_phone_is_wider_than_its_column():
    filled, bound, result = Filled(1, 32768, 17), Bound(8, 32768), load()
    assert result is not None
    savings = [Saving(queries, 8192) for queries in (1, 8192)]
    drawn = [
        figures.sms(filled, H200, narrow=True),
        figures.bound_chart(bound, H200, narrow=True),
        figures.caches(131072, narrow=True),
        figures.masks(12, 12, narrow=True),
        timeline.drawn(lessons.DECODED.with_(splits=16), narrow=True),
        figures.savings(savings, narrow=True),
        measured_figures.bars(result, RATED, READABLE, narrow=True),
    ]
    for svg in drawn:
        (width,) = re.findall(r'viewBox="0 0 ([\d.]+)', svg)
        assert float(width) * LEGIBLE <= PHONE


@pytest.mark.parametrize("narrow", [False, True])
@pytest.mark.parametrize("splits", [1, 2, 16])
def test_no_word_leaves_its_picture(splits, narrow):
    masked, one_sided = [-math.inf] * splits, [4.0, *[-math.inf] * (splits - 1)]
    for svg in (
        timeline.drawn(lessons.DECODED.with_(splits=splits), narrow=narrow),
        *(weights.drawn(lse, narrow=narrow) for lse in (masked, one_sided)),
    ):
        assert width_around_words(svg) > 0


def test_every_committed_case_of_the_fast_kernel_is_in_the_table():
    result = load()
    assert result is not None
    table = measured_figures.table(result, RATED)
    assert len(table.splitlines()) == 2 + len(result.of("decode"))
    assert "PyTorch" in table or "cuDNN" in table
    times = [(case.work / RATED.hbm_bytes_per_second, case.ours.seconds or 0.0) for case in result.of("decode")]
    assert all(least < taken for least, taken in times)
    assert all(
        duration(least) in row and percent(least / taken) in row
        for (least, taken), row in zip(times, table.splitlines()[2:], strict=True)
    )
    low, high = (percent(bound(least / taken for least, taken in times)) for bound in (min, max))
    said = measured_figures.words(result, RATED, READABLE)
    assert f"reads at {low} to {high} of the bandwidth" in said
    slower = sorted(
        (case.ours.seconds or 0.0) / (case.baselines[0].seconds or math.inf) - 1 for case in result.of("decode")
    )
    near = sum(one <= measured_figures.CLOSE for one in slower)
    assert f"in {near} of {len(slower)} cases" in said
    assert percent(slower[near - 1], 1) in said
    assert all(percent(one, 1) in said for one in slower[near:])


def bars_of(result, readable, narrow):
    """Length, name and time of each bar, case by case; each case begins with its least time."""
    drawn = measured_figures.bars(result, RATED, readable, narrow=narrow)
    bars = re.findall(r'width="([\d.]+)"[^>]*><title>([^:]+): ([\d.]+) µs[^<]*</title>', drawn)
    starts = [at for at, (_, name, _) in enumerate(bars) if name == measured_figures.LEAST]
    return [bars[at:end] for at, end in zip(starts, [*starts[1:], len(bars)], strict=True)]


@pytest.mark.parametrize("narrow", [False, True])
def test_the_bars_of_each_case_are_as_long_as_its_times(narrow):
    result = load()
    assert result is not None
    cases = bars_of(result, None, narrow)
    assert len(cases) == len(result.of("decode"))
    for case in cases:
        long, names, times = zip(*case, strict=True)
        assert names == (measured_figures.LEAST, "flash_decode", "cuDNN")
        lengths = [float(one) / float(long[0]) for one in long]
        assert lengths == pytest.approx([float(one) / float(times[0]) for one in times], rel=0.01)


@pytest.mark.parametrize("faster", [True, False])
def test_the_readable_kernel_stands_where_it_has_the_same_shape_and_the_words_say_which_is_faster(faster):
    result = load()
    assert result is not None
    assert READABLE is not None
    (curve,) = (one for one in READABLE.curves if one.batch == 64)
    (own,) = (case.ours.seconds for case in result.of("decode") if case.shape == curve.shape)
    assert own
    curve = replace(curve, seconds={1: 2 * own, 2: own * (0.5 if faster else 1.5)})
    readable = replace(READABLE, curves=[curve])
    named = [name for case in bars_of(result, readable, False) for _, name, _ in case if "readable" in name]
    assert named == ["readable, 2 splits"]
    said = measured_figures.words(result, RATED, readable)
    assert said.count("Here the readable one is faster: 2.00 ×.") == faster
    assert said.count("Here the one for speed is faster: 1.50 ×.") == (not faster)


@pytest.mark.parametrize("view", [PARTS, MASKS, "Bytes and time"])
def test_whatever_the_player_shows_every_section_is_on_the_page(view):
    shown = page("decoding", view=view)
    assert not shown.error
    headings = [one.value for one in shown.header]
    assert set(JUMPS.values()) < set(headings)
    assert len(set(headings)) == len(headings)
    for words in (
        "at the same time", "8 programs on 132 SMs", f"ridge: {number(ridge(RATED))}",
        "Llama 3.1 70B", "With one query, S is one row",
        "recorded · NVIDIA H200", "the last query is the last token",
    ):  # fmt: skip
        assert words in texts(shown)
    assert "formula\u00a0=\u00a0trace" in texts(shown)
    assert "a part counts as one key" in texts(shown)


def test_the_links_of_the_introduction_lead_to_the_sections_of_the_page():
    shown = page("decoding")
    linked = re.findall(r"\(#([\w-]+)\)", texts(shown))
    headings = [anchor(one.value) for one in shown.header]
    assert [*dict.fromkeys(linked)] == [one for one in headings if one in linked]
    assert len({*linked}) == len(JUMPS) <= 3


def test_nothing_is_said_of_bf16_on_a_gpu_that_has_none():
    result = load()
    assert result is not None
    said = texts(page("decoding", gpu="T4")).replace(measured_figures.table(result, RATED), "")
    said = said.replace(READABLE.source, "")  # of the recorded GPU
    assert "16 bits" in said
    assert "bf16" not in said
    asked = Shown(PARTS, T4)
    assert not [one.name for one in QUESTIONS if one.asked(asked) and "bf16" in one.prompt_of(asked)]


def test_a_link_sets_the_sliders():
    assert "**3 see none**" in texts(page("decoding", view=MASKS, mask_queries="8", mask_keys="5"))
    assert "64 programs on 132 SMs" in texts(page("decoding", fill_splits="8"))


def test_as_many_heads_as_a_tile_shows_can_be_chosen_here_and_no_more():
    assert not page("decoding", heads="8").error
    assert "**Query heads: 9.** This page takes at most 8" in texts(page("decoding", heads="9"))
    assert "**Query heads: 2.** This page takes at most 1" in texts(page("flash_attention", heads="2"))
