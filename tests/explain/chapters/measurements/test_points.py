"""The table of measured points: its rows, columns and headings."""

from __future__ import annotations

import html
import re
from dataclasses import replace
from itertools import chain

import pytest

from explain.chapters.measurements import points, tables, view
from explain.figures.numbers import duration, ratio
from explain.records import registry
from explain.records.plans import PLANS, Plan, sizes
from tests.explain.records.made import SHIPPED


def test_what_all_rows_of_a_kernel_share_stands_once_and_a_date_only_where_rows_differ():
    shown = [registry.Entry("a", SHIPPED, registry.YOURS)]
    table = tables.points_table(PLANS["sweeps"], shown, None)
    *_, begins = (line for line in table.splitlines() if line.startswith("| **FlashAttention-2 forward**"))
    assert "16&nbsp;heads" in begins
    rows = table[table.index(begins) + len(begins) :].partition("| **")[0]
    assert rows.count("\n") > 3
    assert "heads" not in rows
    for plan, every in PLANS.items():
        for kernel in points.kernels(every, shown):
            dates = {row["date"] for row in tables.rows(every, shown, None, kernel) if "date" in row}
            head = tables.points_table(every, shown, None, kernel=kernel).partition("\n")[0]
            assert ("| date |" in head) == (len(dates) > 1), plan
            assert ("measured " in tables.in_every_row(every, shown, kernel)) == (len(dates) == 1)


def test_no_two_rows_of_a_kernel_look_alike():
    shown = [registry.Entry("a", SHIPPED, registry.YOURS)]
    for plan in points.plans(shown).values():
        for kernel in ("", *points.kernels(plan, shown)):
            named = [(row["kernel"], row["sizes"]) for row in tables.rows(plan, shown, None, kernel)]
            assert len(set(named)) == len(named)
            assert all(own for _, own in named)


def test_what_varies_stands_in_the_rows_and_what_does_not_above_them():
    shown = [registry.Entry("a", SHIPPED, registry.YOURS)]
    shared = tables.in_every_row(PLANS["sweeps"], shown, "flash_attention").split(", ")
    assert "16 heads" in shared
    assert "d = 64" not in shared
    rows = [str(row["sizes"]).split(", ") for row in tables.rows(PLANS["sweeps"], shown, None, "flash_attention")]
    assert {"d = 32", "d = 64", "d = 128", "BLOCK_M 16", "BLOCK_N 128", "fp32", "bf16", "causal", "not causal"} <= {
        words for row in rows for words in row
    }
    assert not any(set(shared) & set(row) for row in rows)


def test_what_differs_from_the_row_above_is_bold():
    one, two, _, *_ = tables.points_table(
        PLANS["sweeps"], [registry.Entry("a", SHIPPED, registry.YOURS)], None, False, "flash_attention"
    ).splitlines()[2:]
    assert "<b>" not in one
    assert re.findall("<b>(.*?)</b>", html.unescape(two)) == ["N\u00a0=\u00a0256"]


def test_tensor_cores_are_told_of_kernels_with_a_matmul_only():
    busy = points.QUANTITIES["tensor cores busy, %"]
    softmax, attention = (SHIPPED.point(sizes(kernel)[0]) for kernel in ("softmax_naive", "flash_attention"))
    assert softmax is not None
    assert attention is not None
    assert softmax.counters.cold.tensor_active_percent is not None
    assert busy(softmax) is None
    assert busy(attention) == attention.counters.cold.tensor_active_percent


def test_every_heading_has_its_unit_or_its_cells_have_it():
    shown = [registry.Entry("a", SHIPPED, registry.YOURS)]
    few, head = (
        html.unescape(tables.points_table(PLANS["levels"], shown, None, every).splitlines()[0]).replace("<br>", " ")
        for every in (False, True)
    )
    names = {
        name: f"{points.name_of(name)}{'' if unit in ('×', *tables.OWN) else f' <small>{unit}</small>'}"
        for name in points.QUANTITIES
        for unit in [name.rpartition(", ")[2]]
    }
    assert few == f"| kernel, sizes | {' | '.join(names[name] for name in tables.FIRST)} |"
    assert "| date |" not in head  # each kernel has one, below its name
    assert all(f"</em>{name} |" in head for name in names.values())
    rows = tables.points_table(PLANS["levels"], shown, None).splitlines()[2:]
    ratios = [at for at, name in enumerate(head.split(" | ")) if "×" in name or "slow ÷" in name]
    assert len(ratios) == 3
    assert all(re.search("( ×|^–)$", row.split(" | ")[at]) for row in rows for at in ratios)
    for every, lines in ((False, 2), (True, 4)):  # every column is narrow, so its words take more lines
        heads = tables.points_table(PLANS["levels"], shown, None, every).splitlines()[0].split("|")
        assert max(cell.count("<br>") for cell in heads) <= lines


def few_runs() -> list[tuple[Plan, registry.Entry, str]]:
    """Each of at most four runs of one kernel that were recorded: their plan, their GPU and the kernel."""
    return [
        (plan, one, kernel)
        for one in registry.entries()[0]
        for kernel in points.every_kernel([one])
        for plan in points.of_kernel([one], kernel).values()
        if len(tables.rows(plan, [one], None, kernel)) <= view.RUNS
    ]


def lines_of(table: str) -> list[list[str]]:
    """A table's cells, line after line, the heading first."""
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in html.unescape(table).splitlines()]


def test_few_runs_stand_beside_each_other_with_a_line_for_every_quantity_that_the_record_has():
    assert len(few_runs()) > 50
    for plan, one, kernel in few_runs():
        rows = tables.rows(plan, [one], None, kernel)
        head, _, *lines = lines_of(tables.runs_table(plan, [one], kernel))
        assert [re.sub("</?b>", "", cell).replace("\u00a0", " ") for cell in head[1:-1]] == [
            row["sizes"] for row in rows
        ]
        named: dict[str, list[str]] = {}
        group = ""
        for name, *_, what in lines:
            if name.startswith("**"):
                group = name.strip("*")
            elif group:
                named.setdefault(group, []).append(name.partition(" <small>")[0])
                assert what.endswith("."), name
        known = {name for row in rows for name, value in row.items() if value is not None}
        there = {group: [points.name_of(name) for name in names if name in known]
                 for group, names in tables.GROUPS.items()}  # fmt: skip
        assert named == {group: names for group, names in there.items() if names}


def test_the_numbers_of_few_runs_are_the_records_and_all_bytes_have_one_unit():
    units = {"MB": 1e6, "GB": 1e9, "µs": 1e-6, "ms": 1e-3, "": 1, "%": 1, "TFLOP/s": 1e12, "×\u00a0minimum": 1}
    seen = set()
    for plan, one, kernel in few_runs():
        rows, in_bytes = tables.rows(plan, [one], None, kernel), set()
        for line, *cells, _ in lines_of(tables.runs_table(plan, [one], kernel))[2:]:
            words, _, unit = line.removesuffix("</small>").partition(" <small>")
            for name in (name for name in chain(*tables.GROUPS.values()) if points.name_of(name) == words):
                own = name.rpartition(", ")[2]
                if own == "MB":
                    in_bytes.add(unit)
                    most = max(float(cell.replace(",", "")) for cell in cells if cell != "–")
                    assert most < 1e5
                for cell, row in zip(cells, rows, strict=True):
                    if (value := row.get(name)) is None:
                        assert cell == "–"
                        continue
                    expected = float(value) * units[own.replace(" ", "\u00a0") if own not in ("×", "count") else ""]
                    shown = float(cell.removesuffix(" ×").replace(",", "")) * units[unit]
                    assert shown == pytest.approx(expected, rel=5.1e-3, abs=0.051 if own == "%" else 5e-4 * units[unit])
        assert len(in_bytes) == 1, (plan.name, kernel)
        seen |= in_bytes
    assert seen == {"MB", "GB"}  # both occur


def test_what_differs_from_the_run_before_is_bold_and_what_is_out_of_date_is_marked():
    one = registry.entries()[0][0]
    head = lines_of(tables.runs_table(PLANS["levels"], [one], "flash_attention"))[0]
    assert [re.findall("<b>(.*?)</b>", cell.replace("\u00a0", " ")) for cell in head[1:-1]] == [
        [], ["N = 8,192"], ["batch 2", "d = 128"]
    ]  # fmt: skip
    kernel = PLANS["levels"].experiments[0].kernel
    points_ = {
        point.experiment.key: replace(point, origin=replace(point.origin, code="older"))
        for run in PLANS["levels"].experiments
        if run.kernel == kernel and (point := SHIPPED.point(run)) and point.origin
    }
    old = registry.Entry("old", replace(SHIPPED, points=points_), registry.YOURS)
    (line,) = (line for line in lines_of(tables.runs_table(PLANS["levels"], [old], kernel)) if line[0] == "out of date")
    assert line[1:] == [":orange[kernel changed]"] * len(points_) + [tables.MEANINGS[points.OUTDATED]]


def test_the_bytes_of_a_wide_table_have_one_unit():
    for one in registry.entries()[0]:
        for kernel in ("", *points.every_kernel([one])):
            for plan in (points.of_kernel([one], kernel) if kernel else points.plans([one])).values():
                for every in (False, True):
                    head = tables.points_table(plan, [one], None, every, kernel).partition("\n")[0]
                    units = {*re.findall("<small>([MG]B)</small>", head)}
                    assert len(units) == 1 or not units, (plan.name, kernel)


def test_numbers_that_are_far_apart_have_a_unit_each():
    (one,) = shown = registry.entries()[0][:1]
    table = tables.points_table(PLANS["levels"], shown, None, every=False)
    runs = points.measured(PLANS["levels"], shown, "")
    times = [point.seconds for run in runs if (point := one.record.point(run)) and point.seconds]
    assert max(times) >= tables.APART * min(times)
    assert all(f"| {duration(seconds)} |" in table for seconds in times)
    assert "<small>µs" not in table
    assert "<small>ms" in tables.points_table(PLANS["levels"], shown, None, every=False, kernel="flash_attention")


def test_every_quantity_has_its_meaning():
    assert tables.MEANINGS.keys() >= {*chain(*tables.GROUPS.values())}
    assert "not the share of the measured matmul rate" in tables.MEANINGS[points.BUSY]


def test_columns_stand_below_their_groups_where_every_one_is_shown():
    shown = [registry.Entry("a", SHIPPED, registry.YOURS)]
    columns = tables.columns_of(PLANS["levels"], shown, None, True, "flash_attention")
    assert {*chain(*tables.GROUPS.values())} >= {*points.QUANTITIES, points.LOADS, points.ONCE}
    assert len(columns) == len({*columns}) == len([*chain(*tables.GROUPS.values())])
    head = tables.points_table(PLANS["levels"], shown, None, True, "flash_attention").splitlines()[0].split(" | ")[1:]
    assert re.findall("<em>([^<]+)</em>", " ".join(head)) == [*tables.GROUPS]
    for title, names in tables.GROUPS.items():
        (at,) = (place for place, heading in enumerate(head) if heading.startswith(f"<em>{title}</em>"))
        assert columns[at : at + len(names)] == [*names]
    assert "<em>" not in tables.points_table(PLANS["levels"], shown, None, False, "flash_attention")
    assert "<em>" not in tables.points_table(PLANS["levels"], registry.entries()[0], points.READ, True)


def test_every_load_is_told_of_teaching_kernels_only_and_every_input_once_of_all():
    shown = [registry.Entry("a", SHIPPED, registry.YOURS)]
    taught = tables.rows(PLANS["levels"], shown, None, "flash_attention_v1")[0]
    rung = tables.rows(PLANS["rungs"], shown, None, "rung:tma")[0]
    assert points.LOADS not in rung
    run = sizes("flash_attention_v1")[0]
    assert taught[points.LOADS] == run.traffic.read_bytes / 1e6
    p = run.values
    once = (
        p["batch"] * p["heads"] * p["seq_len"] * 3 * 2 * p["head_dim"]
    )  # Q, K, V in bf16; it reads its own Õ, m and ℓ
    assert taught[points.ONCE] == once / 1e6
    assert rung[points.ONCE]
    same = [points.inputs_once(sizes(kernel)[0]) for kernel in ("attention_standard", "flash_attention")]
    assert same == [once, once]


def test_two_records_of_one_gpu_are_told_apart():
    recorded, yours = (registry.Entry(where, SHIPPED, where) for where in (registry.RECORDED, registry.YOURS))
    assert points.names([recorded, yours]) == [recorded.label, yours.label]


def test_a_table_says_where_the_numbers_of_each_column_come_from():
    one = [registry.Entry("a", SHIPPED, registry.YOURS)]
    first, every = (tables.columns_of(PLANS["levels"], one, None, full, "flash_attention") for full in (False, True))
    assert tables.sources(first) == (
        "Measured: time, HBM read and memory for results. Computed from the sizes: kernel loads. Measured bytes ÷ the "
        "minimum: HBM delivers."
    )
    told = tables.sources(every)
    assert "Computed from the sizes: kernel loads, every load and minimum." in told
    assert told.startswith("Computed FLOPs ÷ measured time: matmuls.")
    assert told.endswith(" Measured: all others.")
    assert tables.sources([points.TIME, points.HELD]) == "All numbers are measured."
    pair = registry.entries()[0][:2]
    both = tables.columns_of(PLANS["levels"], pair, points.OF_ONCE, kernel="flash_attention")
    assert tables.sources(both, points.OF_ONCE) == "Measured bytes ÷ the minimum: HBM delivers."
    reads = tables.columns_of(PLANS["levels"], pair, points.READ, kernel="flash_attention")
    assert tables.sources(reads, points.READ) == (
        "Computed from the sizes: every load and minimum. Measured: HBM read."
    )


def test_a_columns_numbers_have_a_larger_unit_where_all_are_large():
    shown = registry.entries()[0][:2]
    head, _, *lines = tables.points_table(PLANS["levels"], shown[:1], None, False, "flash_attention").splitlines()
    assert "time<br><small>ms</small>" in head
    runs = points.measured(PLANS["levels"], shown[:1], "flash_attention")
    took = [1e3 * (point.seconds or 0) for run in runs if (point := SHIPPED.point(run))]
    assert [float(line.split("|")[2]) for line in lines] == pytest.approx(took, rel=1e-3)
    assert "time<br><small>µs</small>" in tables.points_table(PLANS["levels"], shown[:1], None, False, "softmax_safe")
    beside = tables.points_table(PLANS["levels"], shown, points.TIME, kernel="flash_attention").splitlines()[0]
    assert beside.count("<small>ms") == 2
    mixed = tables.points_table(PLANS["levels"], shown, points.TIME).splitlines()[0]
    assert "<small>" not in mixed  # far apart: each has its unit


def test_a_kernels_one_date_stands_below_its_name():
    shown = registry.entries()[0][:1]
    for name in ("levels", "tiles"):
        dates: dict[str, set[str]] = {}
        for row in tables.rows(PLANS[name], shown, None):
            dates.setdefault(str(row["kernel"]), set()).add(str(row[tables.DATE]))
        one_each = all(len(own) == 1 for own in dates.values())
        assert one_each == (name == "levels")
        table = tables.points_table(PLANS[name], shown, None)
        assert ("| date |" in table) != one_each
        assert table.count("measured&nbsp;2") == len(dates) * one_each


def test_ratios_that_would_look_alike_have_three_decimals():
    both = registry.entries()[0]
    for kernel, decimals in (("flash_attention", 3), ("softmax_safe", 2)):
        factors = [float(row[tables.BESIDE] or 0) for row in tables.rows(PLANS["levels"], both, points.TIME, kernel)]
        assert (len({*map(ratio, factors)}) < len(factors)) == (decimals == 3)
        table = tables.points_table(PLANS["levels"], both, points.TIME, kernel=kernel)
        assert all(f"| {factor:.{decimals}f} × |" in table for factor in factors)


def test_a_warm_l2_saves_next_to_nothing_where_the_counts_say_so():
    one = registry.Entry("a", SHIPPED, registry.YOURS)
    plan = PLANS["levels"]
    told = tables.meanings(plan, [one], "flash_attention")[points.WARM]
    assert told.endswith("Here that saves next to nothing: the inputs are larger than L2 (62.9 MB).")
    fewer = {
        key: replace(point, counters=replace(point.counters, warm=replace(point.counters.warm, dram_read_bytes=1000)))
        for key, point in SHIPPED.points.items()
        if point.counters and point.counters.warm
    }
    saves = [replace(one, record=replace(SHIPPED, points=fewer))]
    assert tables.meanings(plan, saves, "flash_attention") == tables.MEANINGS
    unknown = [replace(one, record=replace(SHIPPED, provenance=replace(SHIPPED.provenance, gpu="another")))]
    assert tables.meanings(plan, unknown, "flash_attention")[points.WARM].endswith("saves next to nothing.")


def test_a_very_small_number_of_bytes_has_its_own_unit():
    assert tables._megabytes(0.004096) == "4.10 kB"
    assert tables._megabytes(100.66) == "100.7"
    assert tables._megabytes(0) == "0"


def test_what_a_forward_pass_stored_is_no_input():
    backward = [sizes(kernel)[0] for kernel in ("attention_backward_standard", "flash_attention_backward")]
    assert [points.stored(run) for run in backward] == [["P"], ["O", "L"]]
    assert points.inputs(backward[0]) == points.inputs(backward[1])
    assert {*points.inputs(backward[0])} == {"q", "k", "v", "do"}
    assert points.stored(sizes("attention_standard")[0]) == []
