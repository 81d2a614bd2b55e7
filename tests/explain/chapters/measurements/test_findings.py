"""What the measured points show, in sentences: right for every plan, kernel and pair of GPUs."""

from __future__ import annotations

import html
import re
from dataclasses import replace
from statistics import median

import pytest

from explain.chapters.measurements import beside, findings, points, tables, two_gpus
from explain.figures.numbers import aligned, duration, moved, number, percent, ratio, ratios
from explain.records import registry
from explain.records.plans import PLANS, sizes
from kernels.catalog import KERNELS
from tests.explain.records.made import SHIPPED


def test_times_that_contain_time_on_the_host_are_named_as_far_as_the_record_shows():
    for one in registry.entries()[0]:
        for plan in points.plans([one]).values():
            for kernel in points.kernels(plan, [one]):
                told = findings.on_host(plan, one, kernel)
                assert bool(told) == (kernel == "torch:attention_backward" and plan.name == "flashattention-memory")
                assert "at N = 128" in told or not told


def test_times_of_one_launch_are_named():
    for one in registry.entries()[0]:
        for plan in points.plans([one]).values():
            own = points.measured_sizes(plan, [one], "")
            once = [run for run in own if (p := one.record.point(run)) and p.timing and p.timing.launches < 2]
            told = findings.timed_once(plan, [one])
            assert bool(told) == bool(once)
            for kernel in {run.kernel for run in once}:
                rows = [run for run in once if run.kernel == kernel]
                assert f"{len(rows)} run{'s' * (len(rows) > 1)} of {KERNELS[kernel].title}" in told
                alone, sizes = findings.timed_once(plan, [one], kernel), points.measured_sizes(plan, [one], kernel)
                assert ("every run" in alone) == (len(rows) == len(sizes)) != ("medians" in alone)
                assert "every run" in alone or all(sizes[run] in alone for run in rows)
    both = findings.timed_once(PLANS["levels"], registry.entries()[0])
    assert both.count("Timed by one launch") == 1
    assert re.search(r"1 run of [^;]* on the H200; 2 runs of [^;]* on the H100\.", both)


def test_times_with_host_time_are_marked_and_in_no_ratio_that_is_told():
    plan, kernel, both = PLANS["flashattention-memory"], "torch:attention_backward", registry.entries()[0]
    rows = tables.rows(plan, both, points.TIME, kernel)
    hosted = [row for row in rows if row.get(tables.HOST)]
    once = [row for row in rows if row.get(tables.ONE_LAUNCH) and row.get(tables.BESIDE) and row not in hosted]
    steady = [float(row[tables.BESIDE] or 0) for row in rows if row.get(tables.BESIDE) and row not in hosted + once]
    assert hosted
    assert "| probably, H200" in tables.points_table(plan, both, points.TIME, kernel=kernel)
    said = findings.seen(plan, both, points.TIME, kernel)
    assert said.startswith(f"**H200 faster in all {len(steady)} runs**, {ratios(steady)} as fast")
    assert f"{len(hosted)} runs are left out of these figures and drawn open" in two_gpus.rules(
        plan, both, points.TIME, kernel
    )
    drawn = beside.dots(plan, both, points.TIME, kernel)
    assert drawn.count('fill="transparent"') == len(hosted + once) + 1  # and the key
    assert beside.HOSTED in drawn
    assert f">{two_gpus.concluded(plan, both, kernel)}<" in drawn
    assert ">H100 ÷ H200<" in drawn
    of_all = beside.dots(plan, both, points.TIME, "")
    assert of_all.count('fill="transparent"') == 1 + sum(
        bool(row.get(tables.BESIDE) and (row.get(tables.HOST) or row.get(tables.ONE_LAUNCH)))
        for row in tables.rows(plan, both, points.TIME)
    )


def test_the_bytes_of_a_kernel_that_spills_add_up_as_they_are_shown():
    one = registry.Entry("a", SHIPPED, registry.YOURS)
    told = findings.spilled(PLANS["levels"], one, "flash_attention")
    assert told
    spilt = next(point for run in sizes("flash_attention") if (point := SHIPPED.point(run)) and point.counters
                 and point.counters.cold.spill_written_bytes)  # fmt: skip
    cold = spilt.counters.cold
    assert cold.l2_written_bytes
    assert cold.spill_written_bytes
    assert cold.l2_written_bytes == spilt.experiment.traffic.written_bytes + cold.spill_written_bytes
    assert f"{moved(cold.spill_written_bytes)} of the {moved(cold.l2_written_bytes)} written to L2" in told
    assert findings.spilled(PLANS["levels"], one, "softmax_naive") == ""


def test_the_row_that_spills_most_is_the_one_that_is_named():
    one = registry.Entry("a", SHIPPED, registry.YOURS)
    for plan in ("levels", "sweeps", "rungs"):
        for kernel in points.kernels(PLANS[plan], [one]):
            spilled = {
                e: point.counters.cold.spill_written_bytes or 0
                for e in PLANS[plan].experiments
                if e.kernel == kernel and (point := SHIPPED.point(e)) and point.counters
            }
            told = findings.spilled(PLANS[plan], one, kernel)
            assert bool(told) == any(spilled.values())
            if told:
                assert f" {moved(max(spilled.values()))} of the " in told
                of = f" of {len(spilled)}" if len(spilled) > 1 else ""
                counted = "" if len(spilled) == len(points.measured(PLANS[plan], [one], kernel)) else " counted"
                assert told.startswith(f"**{sum(map(bool, spilled.values()))}{of}{counted} run")


def test_a_row_that_spills_and_is_slow_is_told_with_what_else_differs():
    one = registry.Entry("a", SHIPPED, registry.YOURS)
    slow, *others = (
        (SHIPPED.points[run.key].seconds or 0) / run.traffic.flops for run in sizes("cross_entropy_standard")
    )
    told = findings.spilled(PLANS["levels"], one, "cross_entropy_standard")
    assert told
    assert f"{ratio(slow / median(others))} as long per FLOP" in told
    assert "no multiple of 16" in told
    fp32 = findings.spilled(PLANS["sweeps"], one)  # the only row of its kernel in fp32
    assert fp32
    assert "per FLOP" not in fp32


@pytest.mark.parametrize(("kernel", "differ"), [("softmax_safe", True), ("flash_attention", False)])
def test_a_table_of_two_gpus_says_how_they_compare(kernel, differ):
    first, second = (
        [point.seconds for size in sizes(kernel) if (point := one.record.point(size)) and point.seconds]
        for one in registry.entries()[0]
    )
    factors = [two / one for one, two in zip(first, second, strict=True)]
    said = findings.seen(PLANS["levels"], registry.entries()[0], "time, µs", kernel)
    if differ:
        assert said.startswith(f"**H200 faster in all {len(factors)} runs**, {ratios(factors)} as fast.")
        of_all = findings.seen(PLANS["levels"], registry.entries()[0], "time, µs")
        every = [
            float(row[tables.BESIDE] or 0)
            for row in tables.rows(PLANS["levels"], registry.entries()[0], points.TIME)
            if not row.get(tables.ONE_LAUNCH)
        ]
        wins = [factor for factor in every if factor >= 1 + two_gpus.ALIKE]
        told = f"**H200 faster: {len(wins)} of {len(every)} runs**, {ratios(wins)} as fast (2 timed once are left out)"
        assert of_all.startswith(f"- {told}")
        assert "kernels gain nothing on the H200.\n" in of_all
        rates = [two_gpus.bandwidths(registry.entries()[0], what) or 0 for what in ("hbm", "hbm copy")]
        assert 0.9 * min(rates) <= min(factors)
        assert max(factors) <= 1.1 * max(rates)
        assert "**That is about the ratio of the two HBMs.**" in said
    else:
        least, most = (1 - factor for factor in (max(factors), min(factors)))
        assert 0 < least < most < two_gpus.ALIKE
        told, _ = said.split("\n\n")
        rule = two_gpus.rules(PLANS["levels"], registry.entries()[0], "time, µs", kernel)
        assert rule.startswith("Times within 3% count as equal: ")
        assert told == f"**Equal within 3%**: the H100's times are {100 * least:.1f} to {100 * most:.1f}% shorter."
    table = tables.points_table(PLANS["levels"], registry.entries()[0], "time, µs", kernel=kernel)
    assert len(re.findall(r"[\d.]+ × \|", table)) == len(factors)
    assert findings.seen(PLANS["levels"], [*registry.entries()[0], *registry.entries()[0]], "time, µs") == ""


def test_a_table_of_one_kernel_says_how_many_times_the_minimum_is_read():
    one = registry.entries()[0][:1]
    for plan in (PLANS["levels"], PLANS["rungs"]):
        for kernel in points.kernels(plan, one):
            said = findings.seen(plan, one, None, kernel)
            counted = [
                (read, size)
                for size in plan.experiments
                if size.kernel == kernel and (point := SHIPPED.point(size)) and point.counters
                if (read := point.counters.cold.dram_read_bytes)
            ]
            delivered = [read / points.inputs_once(size) for read, size in counted]
            title = findings.loaded_and_delivered(plan, one[0], kernel)
            assert bool(title) == KERNELS[kernel].steppable
            if not title:
                assert re.search(f"HBM delivers( [\\d.]+ to)? {ratio(max(delivered))} the minimum\\*\\*", said)
                continue
            sent = re.search(
                r"(?:HBM delivers|from HBM)(?: only)? (?:about 1|(once)|(?:[\d.,]+ to )?([\d.,]+)) ?[×t]?", title
            )
            assert sent
            assert sent[2] == number(max(delivered), 2) if sent[2] else max(abs(times - 1) for times in delivered) < 0.1
            served = [1 - read / size.traffic.read_bytes for read, size in counted]
            assert title.endswith(": caches serve the rest") == (min(served) >= findings.FEW)
            assert "next to nothing" not in title or max(map(abs, served)) < findings.FEW
            own = all({*findings._read_by(size)} <= {*points.inputs(size)} for _, size in counted)
            assert title.startswith("Each input byte is loaded ") == own
    shares = {
        run: point.counters.cold.dram_read_bytes / points.inputs_once(run)
        for run in PLANS["levels"].experiments
        if (point := SHIPPED.point(run)) and point.counters and point.counters.cold.dram_read_bytes
    }
    said = findings.seen(PLANS["levels"], one, None)
    assert said.startswith("**Standard attention (our Triton teaching kernel) reads ")
    assert "\n\n**Softmax: each pass over a row reads it once more from HBM: 1, 2, 3 and 4 ×**; less where " in said
    for run, share in shares.items():
        title = run.entry.title
        assert share <= findings.FAR or title in said
    causes = said.partition(f"more than {findings.FAR} ×. These loads explain it, in the run that reads most:\n\n")[
        2
    ].splitlines()
    far = {kernel: max((run for run in shares if run.kernel == kernel), key=lambda run: shares[run])
            for kernel in ("attention_standard", "flash_attention_v1")}  # fmt: skip
    loads = {kernel: {term.buffer: (term.times, term.once) for term in run.whole_terms if not term.written}
             for kernel, run in far.items()}  # fmt: skip
    scores = loads["attention_standard"]
    assert causes[0] == f"- Standard attention: S and P, 1 × {moved(scores['s'][1] + scores['p'][1])}"
    again = [loads["flash_attention_v1"][tensor] for tensor in ("q", "o_hbm", "m_hbm", "l_hbm")]
    run = far["flash_attention_v1"]
    times = run.values["kv_len"] // run.values["block_n"]
    assert {times} == {often for often, _ in again}
    each = moved(sum(once for _, once in again))
    assert causes[1] == (
        f"- FlashAttention-1 forward: Q, O (fp32), m and ℓ, {times} × {each} (once for each tile of "
        f"{run.values['block_n']} keys, which also writes O, m and ℓ again)"
    )
    assert "atomics" not in " ".join(
        causes[:4]
    )  # the formula with a tensor does not explain it, so spilled registers are told
    run = max((run for run in shares if run.kernel == "flash_attention_backward_atomic"), key=lambda run: shares[run])
    spilt = SHIPPED.point(run).counters.cold
    assert spilt.spill_written_bytes
    assert spilt.spill_read_bytes
    both = f"{moved(spilt.spill_written_bytes)} stored, {moved(spilt.spill_read_bytes)} read back"
    assert f"{run.entry.title} gets {ratio(shares[run])} at " in said
    assert f"It spills registers: {both}." in said
    tiles = findings.seen(PLANS["tiles"], one, None)  # with no pattern
    every = [
        once for run in PLANS["tiles"].experiments if (point := SHIPPED.point(run)) and (once := points.of_once(point))
    ]
    assert (
        f"**HBM typically delivers {ratio(median(every))} the minimum** (each input once), from {ratios(every)}."
        in tiles
    )
    assert "The highest is FlashAttention-1 forward at BLOCK_M 32, BLOCK_N 32." in tiles
    drawn = beside.once(PLANS["levels"], one)
    assert len(re.findall("<(?:circle|polygon)[^>]*><title>", drawn)) == len(shares)
    assert "1 × = every input read once" in drawn
    of: dict[str, list[float]] = {}
    for run, share in shares.items():
        of.setdefault(run.kernel, []).append(share)
    few = sum(round(max(own), 1) <= 3 for own in of.values())
    title = html.unescape(" ".join(re.findall(r'font-weight="650"[^>]*>([^<]*)<', drawn)))
    assert f"{few} of {len(of)} kernels read at most 3 × their inputs from HBM; the most: " in title
    most = sorted(of, key=lambda kernel: -max(of[kernel]))[:3]
    assert all(f"{KERNELS[kernel].short} {ratio(max(of[kernel]))}" in title for kernel in most)
    assert "Grey name: wrong or overflows, on purpose; marks on top of each other: equal." in drawn
    assert "opacity" in next(said for said in re.findall("<text[^>]*>[^<]*<", drawn) if ">Softmax tile by tile" in said)


def test_zeros_in_every_row_are_said():
    both = registry.entries()[0][:2]
    spills = points.SPILLS
    rows = len(tables.rows(PLANS["times"], both, spills))
    assert findings.seen(PLANS["times"], both, spills) == f"**Spills, stored + loaded: 0 on both GPUs** in {rows} runs."
    assert ": 0 on both" not in findings.seen(PLANS["levels"], both, spills)
    nothing = [replace(one, record=replace(one.record, points={})) for one in both]
    assert ": 0 on both" not in findings.seen(PLANS["times"], nothing, spills)


def test_what_was_not_measured_is_named_with_what_was():
    both = registry.entries()[0][:2]
    h200, h100 = both
    memory = PLANS["flashattention-memory"]
    said = findings.seen(memory, both, points.READ, "torch:attention_backward")
    assert said.startswith("**HBM read: not measured in this set.** It has: time, matmuls, memory for results")
    assert "No bytes were counted" in findings.seen(memory, [h200], None, "torch:attention_backward")
    assert "No bytes were counted" not in findings.seen(PLANS["levels"], [h200], None, "flash_attention")
    fewer = replace(h100, record=replace(h100.record, points={}))
    assert findings.seen(memory, [h200, fewer], points.TIME) == "**This set was not run on the H100.**"
    kept = {key: one for key, one in h100.record.points.items() if one.experiment.kernel != "softmax_safe"}
    one_less = [h200, replace(h100, record=replace(h100.record, points=kept))]
    levels = PLANS["levels"]
    assert findings.seen(levels, one_less, points.TIME, "softmax_safe") == "**This kernel was not run on the H100.**"
    untimed = {key: replace(one, counters=None) for key, one in h100.record.points.items()}
    said = findings.seen(levels, [h200, replace(h100, record=replace(h100.record, points=untimed))], points.READ)
    assert said.startswith("**HBM read: not measured on the H100 in this set.** Both have: time, ")


def test_the_faster_of_two_gpus_is_named_with_its_number_of_runs():
    both = registry.entries()[0][:2]
    for factors, told in (
        ([1.4], "**H200 faster in 1 run**, 1.40 × as fast."),
        ([1.4, 1.1], "**H200 faster in all 2 runs**, 1.10 to 1.40 × as fast."),
        ([0.8, 0.9, 1.01, 1.3], "- **H100 faster: 2 of 4 runs**, 1.11 to 1.25 × as fast. Not explained (its fp32 "
                                "matmuls are only 1.2% faster).\n- Equal within 3%: 1 run\n"
                                "- H200 faster: 1 run, by 30%."),
        ([0.99, 1.01, 1.02], "**Equal within 3%**: the times are at most 2.0% apart in all 3 runs."),
        ([0.99, 0.98], "**Equal within 3%**: the H100's times are 1.0 to 2.0% shorter."),
        ([1.01], "**Equal within 3%**: the H200's times are 1.0% shorter."),
        ([1.0, 1.0], "**Time: the two GPUs are equal** in all 2 runs."),
    ):  # fmt: skip
        assert two_gpus._timed(both, two_gpus._Both(factors, [], 0, 0)) == told
        turned = two_gpus._timed(both[::-1], two_gpus._Both([1 / factor for factor in factors], [], 0, 0))
        assert turned == told  # whichever is chosen first
    assert two_gpus._compared(both, points.READ, [1.07]) == "**HBM read: the H100's is 1.07 × the H200's** in 1 run."
    assert two_gpus._compared(both, points.READ, [1.003]) == "**HBM read: the two GPUs are 0.3% apart** in 1 run."
    assert two_gpus._compared(both, points.READ, [0.5, 0.5]) == (
        "**HBM read: the H100's is 0.50 × the H200's** in all 2 runs."
    )
    assert two_gpus._compared(both, points.READ, [0.5, 2.0]) == (
        "**HBM read: the H100's is typically 1.25 × the H200's**, from 0.50 to 2.00 × in 2 runs."
    )


def test_two_kernels_that_compute_the_same_are_compared_at_their_largest_run():
    (one,) = shown = registry.entries()[0][:1]
    plan = PLANS["times"]
    slow, fast = (
        max(
            (point for run in plan.experiments if run.kernel == kernel and (point := one.record.point(run))),
            key=lambda point: point.experiment.traffic.flops,
        )
        for kernel in ("attention_standard", "flash_attention")
    )
    assert slow.seconds
    assert fast.seconds
    assert slow.counters
    assert fast.counters
    said = findings.seen(plan, shown, None)
    told = f"{slow.experiment.entry.title} takes {ratio(slow.seconds / fast.seconds)} as long as"
    assert said.startswith(f"**At 16 heads, N = {slow.experiment.values['seq_len']:,}, d = 64, fp16, ")
    assert told in said
    more, less = slow.counters.cold.dram_read_bytes, fast.counters.cold.dram_read_bytes
    assert more
    assert less
    assert f"reads {ratio(more / less)} the bytes from HBM, {moved(more)} and {moved(less)}" in said
    assert " as long as " not in findings.seen(PLANS["levels"], shown, None)  # many kernels


def test_how_often_a_tensor_is_loaded_has_its_reason():
    one = registry.entries()[0][0]
    told = findings.loads(PLANS["levels"], one, "attention_standard")
    runs = [run for run in PLANS["levels"].experiments if run.kernel == "attention_standard"]
    p = max(runs, key=lambda run: run.traffic.flops).values
    of_q, of_k = p["kv_len"] // p["block_n"], p["seq_len"] // p["block_m"]
    assert f"q is loaded {of_q} times (once for each tile of {p['block_n']} keys)" in told
    assert f"k and v {of_k} times (once for each tile of {p['block_m']} queries)" in told
    assert "tile of" not in findings.loads(PLANS["levels"], one, "softmax_naive")


def test_how_much_launches_of_one_run_differ_is_said():
    both = registry.entries()[0][:2]
    told = two_gpus.rules(PLANS["levels"], both, points.TIME)
    spreads = [
        max(
            (point.timing.p80_ms / point.timing.p20_ms - 1, gpu)
            for entry, gpu in zip(both, points.names(both), strict=True)
            if (point := entry.record.point(run)) and point.timing and not points.with_host(point)
        )
        for run in PLANS["levels"].experiments
        if any((point := entry.record.point(run)) and points.spread(point) for entry in both)
    ]
    far = [gpu for one, gpu in spreads if one >= two_gpus.ALIKE]
    assert 0 < len(far) < len(spreads)
    middle = percent(median(one for one, _ in spreads), 1)
    assert (
        f"Times within 3% count as equal: launches of one of these runs typically differ by {middle} "
        f"{two_gpus.FIFTHS}. In {len(far)} of the {len(spreads)} runs with several launches they differ by more "
        f"(on the {far[0]})."
    ) in told
    assert "they differ by more" not in two_gpus.rules(PLANS["levels"], both, points.TIME, "flash_attention")
    assert "count as equal" not in two_gpus.rules(PLANS["levels"], both, points.TIME, "softmax_safe")  # none is


def test_bandwidth_limits_are_told_only_where_bandwidths_differ():
    h200, h100 = registry.entries()[0][:2]
    told = findings.seen(PLANS["levels"], [h200, h100], points.TIME, "flash_attention")
    both = [points.measured(PLANS["levels"], [one], "flash_attention") for one in (h200, h100)]
    own = [(one.record, point) for one, runs in zip((h200, h100), both, strict=True) for run in runs
           if (point := one.record.point(run)) and point.seconds]  # fmt: skip
    share = max((points.hbm_seconds(record, point) or 0) / (point.seconds or 1) for record, point in own)
    gains = f"as fast, but this kernel uses it for at most {percent(share)} of its time.**"
    assert gains in told
    of_all = findings.seen(PLANS["levels"], [h200, h100], points.TIME)
    run = max((one for one in PLANS["levels"].experiments if (point := h200.record.point(one)) and point.counters),
              key=lambda one: one.traffic.flops)  # fmt: skip
    point = h200.record.point(run)
    assert point
    assert point.seconds
    needs = points.hbm_seconds(h200.record, point)
    assert needs
    assert needs < 0.1 * point.seconds
    needed = f"takes {aligned(point.seconds, 's', 'm')} on the H200; HBM needs {aligned(needs, 's', 'm')} of it."
    assert f"{run.entry.title} gains nothing: it {needed}" in of_all
    turned = findings.seen(PLANS["levels"], [h100, h200], points.TIME, "flash_attention")
    assert gains in turned
    assert "does not help" not in findings.seen(PLANS["levels"], [h200, h100], points.TIME, "softmax_safe")
    assert two_gpus.bandwidths([h200, h200]) is None


def test_hbm_is_named_as_a_cause_only_as_far_as_the_bytes_explain_it():
    h200, h100 = both = registry.entries()[0][:2]
    plan = PLANS["levels"]
    gains, reads = {}, {}
    for run in points.measured(plan, both, "softmax_safe"):
        fast, slow = h200.record.point(run), h100.record.point(run)
        assert fast
        assert slow
        assert fast.counters
        assert slow.counters
        gains[run] = (slow.seconds or 0) / (fast.seconds or 1)
        reads[run] = (slow.counters.cold.dram_read_bytes or 0) / (fast.counters.cold.dram_read_bytes or 1)
    most = max(gains, key=lambda run: gains[run])
    equal = max(gains[run] for run in gains if abs(reads[run] - 1) < two_gpus.ALIKE)
    assert gains[most] > equal
    told = two_gpus.seen(plan, both, points.TIME, "")
    more = f"up to {ratio(gains[most])}, but there the H100 also reads {percent(reads[most] - 1)} more bytes from HBM."
    assert f"{most.entry.title} gains {more}" in told
    assert f"A run gains {more}" in two_gpus.seen(plan, both, points.TIME, "softmax_safe")
    atomic = "flash_attention_backward_atomic"
    for kernel, what in (("", KERNELS[atomic].title), (atomic, "this kernel")):
        assert f"**Not explained by HBM**: {what} is " in two_gpus.seen(plan, both, points.TIME, kernel)
    assert "Not explained" not in two_gpus.seen(plan, both, points.TIME, "softmax_row")
    assert two_gpus.seen(plan, [h100, h200], points.TIME, "").split("\n\n")[-1] == told.split("\n\n")[-1]


def test_a_run_timed_by_one_launch_says_so_in_its_row():
    both = registry.entries()[0][:2]
    table = tables.points_table(PLANS["levels"], both, points.TIME)
    marked = [row for row in tables.rows(PLANS["levels"], both, points.TIME) if row.get(tables.ONE_LAUNCH)]
    assert marked
    assert table.count("(one launch on the ") == len(marked)
    assert tables.ONE_LAUNCH not in table.splitlines()[0]


def test_each_run_of_two_gpus_is_counted_once():
    both = registry.entries()[0][:2]
    told = findings.seen(PLANS["levels"], both, points.TIME)
    rows = tables.rows(PLANS["levels"], both, points.TIME)
    factors = [float(row[tables.BESIDE] or 0) for row in rows if not row.get(tables.ONE_LAUNCH)]
    half = (1 + (two_gpus.bandwidths(both) or 0)) / 2
    faster, slower = sum(f >= 1.03 for f in factors), sum(1 / f >= 1.03 for f in factors)
    much = sum(f >= half for f in factors)
    assert f"- **H200 faster: {faster} of {len(factors)} runs**" in told
    assert f"- Equal within 3%: {len(factors) - faster - slower} runs\n- H100 faster: {slower} runs, by " in told
    assert re.search(r"%\. Not explained \(its fp32 matmuls are only [\d.]+% faster\)\.", told)
    softmax: dict[str, list[float]] = {}
    for row in rows:
        if points.groups(PLANS["levels"], both)[str(row[tables.KERNEL])] == "softmax":
            softmax.setdefault(str(row[tables.KERNEL]), []).append(float(row[tables.BESIDE] or 0))
    least = [min(own) for own in softmax.values() if min(own) >= half]
    assert 0 < len(least) < len(softmax)
    assert two_gpus.concluded(PLANS["levels"], both, "") == (
        f"The more a kernel waits for HBM, the more it gains: {len(least)} of {len(softmax)} softmax kernels "
        f"{ratio(min(least))} or more, FlashAttention-2 forward nothing"
    )
    rules = two_gpus.rules(PLANS["levels"], both, points.TIME)
    assert (
        f"The H200 is faster in {faster} runs: in {much} by at least half of what its faster HBM allows "
        f"({ratio(half)}), in {faster - much} by less."
    ) in rules
    assert "H100 is faster" not in rules  # the page says it once, beside the picture
    assert f"{len(rows) - len(factors)} runs are left out of these figures and drawn open: they were timed by" in rules
    turned = two_gpus.rules(PLANS["levels"], both[::-1], points.TIME)
    assert f"The H200 is faster in {faster} runs" in turned


def test_caches_that_serve_next_to_nothing_are_told():
    shown = [registry.Entry("a", SHIPPED, registry.YOURS)]
    nothing = findings.loaded_and_delivered(PLANS["levels"], shown[0], "flash_attention_v1")
    assert nothing.endswith(": caches serve next to nothing")
    reads = [SHIPPED.point(run) for run in points.measured(PLANS["levels"], shown, "softmax_safe")]
    served = [
        1 - (p.counters.cold.dram_read_bytes or 0) / p.experiment.traffic.read_bytes for p in reads if p and p.counters
    ]
    said = findings.loads(PLANS["levels"], shown[0], "softmax_safe")
    assert (
        f"The caches serve {percent(min(served))} to {percent(max(served))} of the loads**, most at 4,096 × 8,192."
        in said
    )
    title = findings.loaded_and_delivered(PLANS["levels"], shown[0], "flash_attention")
    runs = points.measured(PLANS["levels"], shown, "flash_attention")
    asked = sorted(number(points.loads_of_once(run), 2) for run in runs)
    sent = [times for run in runs if (point := shown[0].record.point(run)) and (times := points.of_once(point))]
    assert title == (
        f"Each input byte is loaded {asked[0]} to {asked[-1]} times on average, but comes from HBM only once "
        f"({ratios(sent)}): caches serve the rest"
    )


def test_the_fastest_tile_is_named_where_all_rows_compute_the_same():
    (one,) = shown = registry.entries()[0][:1]
    told = findings.seen(PLANS["tiles"], shown, None, "flash_attention")
    timed = {run: p.seconds for run in points.measured(PLANS["tiles"], shown, "flash_attention")
             if (p := one.record.point(run)) and p.seconds}  # fmt: skip
    fastest = min(timed, key=lambda run: timed[run])
    own = points.measured_sizes(PLANS["tiles"], shown, "flash_attention")
    assert told.startswith(
        f"**The fastest of these {len(timed)} runs, {own[fastest]}, takes {duration(timed[fastest])}.**"
    )


def test_how_many_runs_were_counted_is_said_where_not_all_were():
    (one,) = shown = registry.entries()[0][:1]
    levels = PLANS["levels"]
    first, *others = points.measured(levels, shown, "flash_attention")
    assert "Bytes were counted" not in findings.seen(levels, shown, None, "flash_attention")
    fewer = {**one.record.points, first.key: replace(one.record.points[first.key], counters=None)}
    half = [replace(one, record=replace(one.record, points=fewer))]
    told = f"Bytes were counted in {len(others)} of {1 + len(others)} runs."
    assert told in findings.seen(levels, half, None, "flash_attention")
