"""Bytes level by level: what was recorded agrees with the formula, every gap has its cause, DRAM reads are as predicted
or it is said why.
"""

from __future__ import annotations

import html
import re
from dataclasses import replace

import pytest

from explain import recordings
from explain.chapters.measurements.limited import InBase2, Limits
from explain.chapters.three_numbers import exercises, figures, gap_words, hierarchy
from explain.chapters.three_numbers import shown as lab
from explain.chapters.three_numbers.byte_accounting import (
    LANES,
    UNEXPLAINED,
    WARPS,
    Cause,
    Gap,
    check,
    gaps,
    predicted,
    programs_at_most,
    room,
    sector_bytes,
)
from explain.chapters.three_numbers.levels import (
    RECORDED,
    amount,
    by_buffer,
    first_access,
    levels,
    own_bytes,
    programs_resident,
    recorded_trace,
    whole_trace,
    witness,
)
from explain.compile import cost
from explain.counters.model import SECTOR, Counts
from explain.experiment import Experiment
from explain.gpus import GPUS
from explain.parts import part_of
from explain.records.plans import PLANS
from explain.trace.recorder import record_call
from kernels.launch import launcher, tensors
from kernels.traffic import Term, Traffic
from tests.explain.records.made import SHIPPED as RECORD
from tests.explain.records.made import counters

H200 = GPUS["H200"]
PLANNED = PLANS["levels"].experiments
COUNTED = [one for one in PLANNED if (point := RECORD.point(one)) is not None and point.counters is not None]
WITH_CAUSES = ("topk", "softmax_split", "flash_attention_v1", "_atomic", "decoding", "cross_entropy")
"""The GPU is asked for more than these kernels name: short pieces, and what is left to causes."""


def counts_of(experiment: Experiment, *, warm: bool = False) -> Counts:
    counted = RECORD.points[experiment.key].counters
    assert counted is not None
    return counted.warm if warm else counted.cold


def by_term(experiment: Experiment) -> dict[tuple[str, bool], int]:
    sums: dict[tuple[str, bool], int] = {}
    for term in experiment.traffic.terms:
        sums[term.buffer, term.written] = sums.get((term.buffer, term.written), 0) + term.bytes
    return {key: count for key, count in sums.items() if count}


def traced_here(experiment: Experiment) -> dict[str, dict[str, int]]:
    entry, p = experiment.entry, experiment.values
    launch = launcher(entry, p, tensors(p, entry.make_inputs(experiment.preset, p, experiment.seed), "cpu"))
    counted = by_buffer(experiment, record_call(launch, programs=[]).launches)
    return {way: {name: count for name, count in counts.items() if count} for way, counts in counted.items()}


# Formula and trace


@pytest.mark.parametrize("experiment", PLANNED, ids=lambda one: one.key)
def test_what_was_traced_at_the_measured_sizes_is_the_formula_buffer_by_buffer(experiment):
    traced = recorded_trace(experiment)
    assert traced is not None, "run: python -m explain record bytes"
    assert dict(traced.bytes) == by_term(experiment)


def test_the_recorded_parts_are_what_the_kernels_ask_for_now():
    for experiment in (one for one in PLANNED if one.values.get("cols") == 8192):
        found = part_of(experiment)
        part, times = found.experiment, found.times
        counted = traced_here(part)
        recorded_ = recorded_trace(experiment)
        assert recorded_ is not None
        assert times is not None
        for way in ("read", "written"):
            for name, count in counted[way].items():
                assert recorded_.bytes[name, way == "written"] == times * count


def test_a_term_leads_to_the_first_step_that_moves_it_whatever_the_launch_calls_it():
    experiment = Experiment.of("attention_standard", {"seq_len": 16, "head_dim": 16}, "normal")
    entry, p = experiment.entry, experiment.values
    launch = launcher(entry, p, tensors(p, entry.make_inputs(experiment.preset, p, experiment.seed), "cpu"))
    trace = record_call(launch, experiment=experiment.to_json())
    names = {}
    for term in entry.formula(p).terms:
        step = first_access(experiment, trace, term)
        assert step is not None
        (access,) = trace.accesses(step)
        assert access.kind == ("store" if term.written else "load")
        names[term.buffer, term.written] = trace.launch(step).kernel, access.buffer.name
    assert names["s", False] == ("softmax_row_kernel", "x_ptr")
    assert names["p", False] == ("attention_values_kernel", "p_ptr")
    assert dict(whole_trace(experiment, trace).bytes) == by_term(experiment)


# The record


@pytest.mark.parametrize("experiment", COUNTED, ids=lambda one: one.key)
def test_traced_and_l1_differ_by_named_causes_to_within_a_thousandth(experiment):
    traced = recorded_trace(experiment)
    assert traced is not None
    for warm in (False, True):
        counts = counts_of(experiment, warm=warm)
        found = levels(experiment.traffic, traced, counts, "hardware", "")
        down = [gap for gap in gaps(experiment, found, counts, warm=warm) if gap.below == "l1"]
        assert [gap.above for gap in down] == ["traced", "traced"]
        asked = sum(traced.bytes.values())
        assert sum(abs(gap.unexplained) for gap in down) <= 1e-3 * asked
        if not any(name in experiment.kernel for name in WITH_CAUSES):
            assert own_bytes(counts) == pytest.approx(asked, rel=1e-3)


@pytest.mark.parametrize("experiment", COUNTED, ids=lambda one: one.key)
def test_dram_reads_are_predicted_within_one_percent_or_the_causes_add_up(experiment):
    done = check(experiment, counts_of(experiment), H200)
    assert done is not None
    if not done.met:
        assert done.causes
        assert abs(done.unexplained) <= 0.01 * done.prediction.read
        assert all(cause.words for cause in done.causes)


@pytest.mark.parametrize("experiment", COUNTED, ids=lambda one: one.key)
def test_every_gap_of_the_record_is_explained_to_within_a_percent(experiment):
    traced = recorded_trace(experiment)
    for warm in (False, True):
        counts = counts_of(experiment, warm=warm)
        found = levels(experiment.traffic, traced, counts, "hardware", "")
        for gap in gaps(experiment, found, counts, warm=warm):
            moved = found.formula.of(gap.written) or 0
            assert abs(gap.unexplained) <= max(0.01 * moved, 500_000), gap


@pytest.mark.parametrize(("kernel", "times"), [("softmax_safe", 3), ("softmax_online", 2), ("softmax_row", 1)])
def test_the_prediction_is_the_theorys(kernel, times):
    experiment = next(one for one in COUNTED if one.kernel == kernel and one.values["cols"] == 32768)
    p = experiment.values
    assert predicted(experiment, H200).read == times * p["rows"] * p["cols"] * 4


def test_flash_attention_is_predicted_to_read_q_k_and_v_once():
    experiment = [one for one in COUNTED if one.kernel == "flash_attention"][-1]
    p = experiment.values
    assert predicted(experiment, H200).read == 3 * p["batch"] * p["heads"] * p["seq_len"] * p["head_dim"] * 2


def test_what_fits_l2_is_predicted_to_be_read_once_and_what_the_call_wrote_itself_not_at_all():
    small = Experiment.of("softmax_online", {"rows": 64, "cols": 1024}, "normal")
    assert predicted(small, H200).read == 64 * 1024 * 4
    v1 = Experiment.of("flash_attention_v1", {"seq_len": 64, "head_dim": 32}, "normal")
    assert predicted(v1, H200).read == 3 * 64 * 32 * 4
    standard = Experiment.of("attention_standard", {"seq_len": 64, "head_dim": 32}, "normal")
    assert predicted(standard, H200).read == 3 * 64 * 32 * 4


def test_what_an_earlier_launch_read_is_predicted_again_only_if_the_call_does_not_fit_l2():
    sizes = {"seq_len": 128, "head_dim": 32}
    small = Experiment.of("flash_attention_backward", sizes, "normal")
    inputs = 5 * 128 * 32 * 4 + 128 * 4  # Q, K, V, O, dO and lse
    assert predicted(small, H200).read == inputs
    assert predicted(small, replace(H200, l2_bytes=inputs)).read == inputs + 5 * 128 * 32 * 4 + 128 * 4  # but O twice


# Causes


def test_atomic_additions_are_among_l1s_loads_and_in_no_counter_of_l2():
    experiment = next(one for one in COUNTED if one.kernel == "flash_attention_backward_atomic")
    p, counts = experiment.values, counts_of(experiment)
    added = p["batch"] * p["heads"] * p["seq_len"] * p["head_dim"] * 4 * p["kv_len"] // p["block_n"]
    found = gaps(experiment, levels(experiment.traffic, None, counts, "", ""), counts, warm=False)
    named = {(gap.below, gap.written): cause.bytes for gap in found for cause in gap.causes if "Atomic" in cause.name}
    assert named == {("l2", False): -added, ("l1", True): -added}


def test_rows_that_begin_anywhere_are_accessed_one_element_per_thread():
    sizes = {"tokens": 64, "dim": 64, "dtype": "bf16", "block_n": 64}
    odd, even = (Experiment.of("cross_entropy_standard", {**sizes, "vocab": vocab}, "normal") for vocab in (4097, 4096))
    stored = [term for one in (odd, even) for term in one.traffic.terms if term.buffer == "x" and term.written]
    # a warp's 64 B from one of 16 places in a sector: 3 sectors, but from one place 2
    assert sector_bytes(odd, stored[0]) == pytest.approx(stored[0].bytes * (15 * 3 + 2) / 32, rel=3e-3)
    assert sector_bytes(even, stored[1]) == stored[1].bytes


def test_short_pieces_move_whole_sectors():
    topk = Experiment.of("softmax_topk", {"rows": 8, "cols": 1024}, "normal")
    by_name = {term.buffer: term for term in topk.traffic.terms}
    assert sector_bytes(topk, by_name["x"]) == by_name["x"].bytes
    # five float32 from 0, 20, 40, … B: sectors 0 | 0 1 | 1 | 1 2 | 2 3 | 3 | 3 4 | 4
    assert sector_bytes(topk, by_name["y"]) == 12 * SECTOR
    assert sector_bytes(topk, by_name["index"]) == 8 * 2 * SECTOR  # 40 B, from a multiple of 8
    split = Experiment.of("softmax_split", {"rows": 4, "cols": 64, "block_n": 16}, "normal")
    pair = next(term for term in split.traffic.terms if term.buffer == "m_tile")
    assert sector_bytes(split, pair) == 8 * pair.bytes


def test_a_program_has_the_warps_that_the_compiler_gave_it():
    record = recordings.measured(RECORDED)
    assert record is not None
    launches = [launch for run in record["runs"] for launch in run.get("launches", ())]
    assert {launch["kernel"] for launch in launches} >= {"softmax_merge_kernel", "softmax_write_kernel", "topk_kernel"}
    assert {launch["num_warps"] for launch in launches} == {WARPS}
    assert cost.WARP == LANES


def test_how_many_rows_are_under_way_is_what_the_registers_allow():
    experiment = next(one for one in PLANNED if one.kernel == "softmax_safe_topk")
    programs = programs_resident(experiment, H200)
    assert programs is not None
    assert 0 < programs < programs_at_most(H200)
    assert f"{programs_at_most(H200)} programs per SM, and the registers allow {programs}:" in room(experiment, H200)
    assert f"{H200.sms * programs:,} rows" in room(experiment, H200)
    assert "at most 1,728 rows" in room(experiment, GPUS["A100"])  # compiled for another GPU


def test_what_a_cache_served_is_no_more_than_was_asked_for_again():
    experiment = next(one for one in COUNTED if one.kernel == "softmax_row")  # nothing is asked for twice
    counts = counts_of(experiment)
    assert counts.l2_read_bytes is not None
    short = replace(counts, l2_read_bytes=counts.l2_read_bytes // 2)
    found = levels(experiment.traffic, None, short, "hardware", "")
    (gap,) = [one for one in gaps(experiment, found, short, warm=False) if one.below == "l2" and not one.written]
    assert gap.causes == ()
    assert gap.unexplained == gap.bytes < 0


@pytest.mark.parametrize("warm", [False, True], ids=["cold", "warm"])
@pytest.mark.parametrize("experiment", COUNTED, ids=lambda one: one.key)
def test_a_difference_is_the_sum_of_what_is_named_for_it_in_text_picture_table_and_list(experiment, warm):
    counts = counts_of(experiment, warm=warm)
    found = levels(experiment.traffic, recorded_trace(experiment), counts, "", "")
    between = gaps(experiment, found, counts, warm=warm)
    drawn = hierarchy.hierarchy(found, between, None, counts.dirty_bytes, "dram", warm=warm)
    text = html.unescape(" ".join(re.findall(r">([^<>]+)</text>", drawn)))
    table, sums, listed = (
        figures.levels_table(found, between), figures.gap_table(found, between), figures.cause_words(between)
    )  # fmt: skip
    for gap in between:
        assert sum(gap.parts.values()) == gap.bytes
        assert not {one.name for one in gap.cancelling} & set(gap.parts)
        assert (UNEXPLAINED in gap.parts) == bool(gap.unexplained)
        if gap.bytes:
            assert gap_words.told(gap) in table
            assert gap.below not in ("l2", "dram") or gap_words.told(gap) in text
        if gap.unexplained:
            assert f"*{UNEXPLAINED}* | {gap_words.signed(gap.unexplained)}" in sums
            assert f"{gap_words.signed(gap.unexplained)} {gap_words.written(gap.written)}" in listed


def test_causes_that_cancel_are_no_cause_of_the_rest():
    cause = Cause("A", 23_500_000, "hardware", "")
    gap = Gap("l2", "dram", True, 662_000, (cause, replace(cause, name="B", bytes=-cause.bytes)), 134_200_000)
    assert gap.parts == {UNEXPLAINED: 662_000}
    assert gap_words.told(gap) == "+662.0 kB (0.5%): Not explained (+23.5 MB and −23.5 MB besides: together 0)"


def test_a_level_that_was_not_counted_is_passed_over_and_says_why():
    experiment = COUNTED[0]
    counts = replace(counts_of(experiment), l1_bytes=None)
    traffic, traced = experiment.traffic, recorded_trace(experiment)
    found = levels(traffic, traced, counts, "hardware · H200", "")
    assert found.l1.read is None
    pairs = [(gap.above, gap.below) for gap in gaps(experiment, found, counts, warm=False) if not gap.written]
    assert pairs == [("formula", "traced"), ("traced", "l2"), ("l2", "dram")]
    nobody = levels(traffic, traced, None, "", "No NVIDIA driver.")
    assert nobody.dram.why == "No NVIDIA driver."
    assert [gap.below for gap in gaps(experiment, nobody, None, warm=False)] == ["traced", "traced"]


def test_shared_memory_is_in_bytes_where_they_were_counted_and_else_at_most_its_wavefronts():
    experiment = COUNTED[0]
    traffic = experiment.traffic
    counts = replace(counts_of(experiment), shared_wavefronts=10)
    bound = levels(traffic, None, counts, "hardware", "").shared
    assert bound.read == 1280
    assert bound.note.startswith("at most")
    counted = levels(traffic, None, counts, "hardware", "", 999).shared
    assert counted.read == 999
    assert not counted.note.startswith("at most")


def test_shared_bytes_are_believed_only_where_both_runs_of_the_same_asked_for_the_same():
    both = counters()
    alike = replace(both, cold=replace(both.cold, shared_bytes=8), warm=replace(both.warm, shared_bytes=8))
    assert alike.shared_bytes == 8
    assert replace(alike, warm=replace(alike.warm, shared_bytes=9)).shared_bytes is None


# Whose counters


def test_the_first_way_there_is_is_taken_and_the_reason_said():
    here, there = counters(), counters()
    by_ncu = replace(here, fallback="This user may not read the GPU's counters (ERR_NVGPUCTRPERM).")
    assert witness(here, there, "").way == "CUPTI"
    ncu = witness(by_ncu, there, "")
    assert ncu.way == "ncu"
    assert "ERR_NVGPUCTRPERM" in ncu.why
    old = witness(None, there, "No NVIDIA driver.", "your file")
    assert (old.way, old.why) == ("recorded", "No NVIDIA driver.")
    assert old.source.startswith("your file · NVIDIA Test 1")
    assert witness(None, None, "No NVIDIA driver.").way == "formula only"


def test_an_unknown_gpu_is_held_to_the_default_ones_l2():
    assert lab.gpu_named("NVIDIA H200") is H200
    assert lab.gpu_named("NVIDIA Test 1") is H200
    assert lab.gpu_named("NVIDIA A100-SXM4-80GB").name == "A100"


def test_the_bytes_at_dram_are_told_as_the_sum_that_they_are():
    counts = replace(
        counters().cold, dram_read_bytes=100_700_000, dram_written_bytes=23_900_000, dirty_bytes=10_700_000
    )
    assert figures.dram_words(counts) == (
        "FlashAttention-2's 135.3 MB at HBM: 100.7 MB read, 23.9 MB written, and 10.7 MB still in L2 at the end, to be "
        "written later."
    )
    assert figures.dram_words(replace(counts, dirty_bytes=None)) == ""


def test_the_time_says_what_the_records_rates_say():
    told = figures.time_words(64.2, 1.7, Limits([0.02], [0.23], ["bf16"]))
    start = "64 × fewer bytes, yet only 1.7 × as fast: HBM is busy 2% of the time and the matmuls need 23%."
    assert told.startswith(start)
    in_base_2 = InBase2(Experiment.of("flash_attention_exp2"), 0.6, 1.0, "")
    told = figures.time_words(64.2, 1.7, Limits([0.02], [0.23], ["bf16"], in_base_2=in_base_2))
    link = "[Computing 2ˣ instead of eˣ](./measurements?kernel=flash_attention_exp2)"
    assert told == f"{start} {link} saves 40% with the same bytes."
    assert "The matmuls limit this kernel" in figures.time_words(64.2, 1.7, Limits([0.02], [0.7], ["bf16"]))
    assert figures.time_words(64.2, 1.7, None) == figures.time_words(2.0, 2.5, Limits([0.02], [0.7], ["bf16"]))


def test_amounts_are_told_in_powers_of_ten():
    assert [amount(n) for n in (12, 3_400, -25_500_000, 6_640_000_000)] == ["12 B", "3.4 kB", "−25.5 MB", "6.64 GB"]


@pytest.mark.parametrize("narrow", [False, True])
def test_each_link_is_drawn_with_its_own_bytes(narrow):
    flash = next(one for one in COUNTED if one.kernel == "flash_attention")
    found = levels(flash.traffic, None, counts_of(flash), "", "")
    drawn = hierarchy.hierarchy(found, [], None, None, "dram", narrow=narrow)
    links = {part.partition('"')[0]: part for part in drawn.split('data-press="')[1:]}
    reads = {key: amount(getattr(found, key).read) for key in ("l1", "l2", "dram")}
    assert len(set(reads.values())) == 3
    for key, read in reads.items():
        assert read in links[key]


@pytest.mark.parametrize(("counted", "said"), [(None, True), (999, False)])
def test_the_picture_says_why_shared_memorys_number_is_only_a_bound(counted, said):
    experiment = COUNTED[0]
    counts = replace(counts_of(experiment), shared_wavefronts=10)
    found = levels(experiment.traffic, None, counts, "hardware", "", counted)
    drawn = hierarchy.hierarchy(found, [], None, None, "dram")
    assert ("at most 1.3 kB" in drawn) == ("each cycle counts as 128 B" in drawn) == said


def test_what_the_caches_save_is_said_only_where_they_save_something():
    def traffic(bytes: int, times: int = 2) -> Traffic:
        return Traffic((Term("x", False, bytes // 4 // times, times, 4, ""),), ())

    often = figures.caches_words(traffic(2_180, 5), 2_180, 100)
    assert often.startswith("**The programs ask for 2.2 kB. HBM delivers only 100 B: 21.8 × less.** The caches")
    assert figures.caches_words(traffic(2_000, 5), None, 400) == (
        "**The programs ask for 2.0 kB. HBM delivers only 400 B: 5 × less, each input once.** The caches serve the "
        "rest.\n\nThe programs read `x` (400 B) 5 times."
    )
    assert figures.caches_words(traffic(2_000, 5), None, None).endswith("requested.")
    assert figures.caches_words(traffic(2_000), 2_000, 1_720).endswith(
        ", 86% of the request. L1 and L2 serve the rest."
    )
    told = figures.caches_words(traffic(6_640), 10_940, 6_630)  # FlashAttention-1, about
    assert "L1 counts **10.9 kB** of reads, 1.65 × the formula." in told
    assert "the caches serve what L1 counts beyond it" in told
    assert figures.caches_words(traffic(5_369), 8_242, 5_431, 2_873).endswith(
        "Spilled registers add **2.9 kB** at L1, and the caches serve nearly all of that: HBM delivers **5.4 kB**, 1% "
        "more than the formula."
    )
    told = figures.caches_words(traffic(5_369), 8_242, 5_431, 1_000)
    assert "of reads, with spilled registers, 1.54 × the formula." in told
    assert "less" not in told


@pytest.mark.parametrize("experiment", COUNTED, ids=lambda one: one.key)
def test_a_buffer_has_one_row_whose_formula_and_trace_are_of_the_same_launches(experiment):
    traced = recorded_trace(experiment)
    rows = figures.buffers_table("l1", experiment.traffic, traced, None).splitlines()[2:]
    cells = [[cell.strip() for cell in row.strip("| ").split("|")] for row in rows]
    assert len({(buffer, way) for buffer, way, *_ in cells}) == len(cells)
    assert [formula for *_, formula, _ in cells] == [trace for *_, trace in cells]
    for link in ("l2", "dram", "shared"):  # the GPU counts no buffers there
        assert not figures.buffers_table(link, experiment.traffic, traced, None)


def test_what_the_programs_read_is_told_the_most_bytes_first():
    terms = Term("q", False, 100, 1, 2, ""), Term("k", False, 100, 4, 2, ""), Term("o", True, 100, 1, 2, "")
    told = figures.requested_words(Traffic(terms, ()))
    assert told == "The programs read `k` (200 B) 4 times and `q` (200 B) once."


@pytest.mark.parametrize(("cold", "warm", "said"), [
    (100_000_000, 100_033_000, "almost nothing (+33.0 kB)"), (100_000_000, 40_000_000, "A warm L2 saves 60.0 MB"),
    (100_000_000, 103_000_000, "HBM delivers 3.0 MB more"),
])  # fmt: skip
def test_the_words_on_l2_are_of_the_pressed_start(cold, warm, said):
    counted, counts = RECORD.points[COUNTED[0].key].counters, counts_of(COUNTED[0])
    assert counted
    at_cold, at_warm = (replace(counts, dram_read_bytes=reads) for reads in (cold, warm))
    changed = replace(counted, cold=at_cold, warm=at_warm)
    assert said in figures.heat_words(changed, warm=False)
    assert "L2 is **warm**" in figures.heat_words(changed, warm=True)


@pytest.mark.parametrize("experiment", COUNTED, ids=lambda one: one.key)
def test_a_question_is_asked_only_where_it_has_one_answer_among_several(experiment):
    counted = lab.shown(experiment, None, witness(None, RECORD.points[experiment.key].counters, ""), warm=False)
    shown = exercises.Shown(experiment, counted)
    for question in exercises.QUESTIONS:
        if question.kind == "choice" and question.asked(shown):
            assert len(set(question.options_of(shown))) > 1
            assert question.answer(shown) in question.options_of(shown)
    names = {question.name for question in exercises.QUESTIONS if question.asked(shown)}
    equal = max(exercises._steps(shown).values()) < figures.FAR
    assert not (equal and "largest-step" in names)
