"""The benchmark's result as values, its pictures, and the lines that the ideas are quoted from."""

from __future__ import annotations

import dataclasses
import json
import re
from typing import Any

import pytest
import torch

from explain import ROOT
from explain.chapters.speed import kernels
from explain.chapters.speed import results as speed
from explain.figures import palette
from explain.records.model import Roof
from explain.records.results import ResultFileError
from kernels import softmax_fast
from kernels.catalog import KERNELS
from tests.explain.records.made import WHERE
from tests.explain.records.made import record as made_record

GPU = dataclasses.replace(WHERE, gpu="NVIDIA Test 1")
ROOFS = {
    "matmul bf16": Roof("matmul bf16", 800e12, "FLOP/s", "8192³"),
    "hbm copy": Roof("hbm copy", 3e12, "B/s", "2 GiB"),
    "hbm": Roof("hbm", 4e12, "B/s", "2 GiB"),
}
RECORD = dataclasses.replace(made_record(), roofs=ROOFS)


def timed(name: str, per_second: float, work: float, error: float = 0.2) -> dict[str, Any]:
    return {
        "name": name,
        "error": error,
        "right": True,
        "why": "",
        "seconds": work / per_second,
        "per_second": per_second,
    }


def case(
    table: str, shape: list[int], dtype: str, unit: str, *variants: dict[str, Any], causal: bool = False
) -> dict[str, Any]:
    return {
        "case": {"table": table, "shape": shape, "dtype": dtype, "work": 1e12, "unit": unit, "causal": causal},
        "variants": [*variants],
    }


def result_json() -> dict[str, Any]:
    """Made up: attention at two lengths, softmax with a variant that exceeds its tolerance, decode without a floor."""
    attention = [
        case(
            "attention", [16384 // n, 16, n, 128], "bf16", "FLOP/s",
            timed("torch.sdpa cudnn", 500e12, 1e12), timed("torch.sdpa flash", 300e12, 1e12),
            {"name": "FlashAttention-3", "right": False, "why": "ModuleNotFoundError: No module named 'fa3'"},
            timed("flash_attention_hopper[groups=3]", 400e12 + n * 1e10, 1e12),
            timed("flash_attention_hopper[groups=2]", 450e12 + n * 1e10, 1e12),
            causal=causal,
        )
        for n in (2048, 8192) for causal in (False, True)
    ]  # fmt: skip
    softmax = case(
        "softmax", [4096, 65536], "fp32", "B/s",
        timed("copy", 4.2e12, 1e12, 0.0), timed("torch.softmax", 2e12, 1e12), timed("softmax_shared_row", 3.9e12, 1e12),
        timed("softmax", 3.8e12, 1e12), {"name": "softmax_two_reads", "error": 3.2, "right": False,
        "why": "exceeds its tolerance"},
    )  # fmt: skip
    decode = case(
        "decode",
        [16, 64, 8, 16384, 128],
        "bf16",
        "B/s",
        timed("torch.sdpa cudnn", 3.6e12, 1e12),
        timed("flash_decode", 3.8e12, 1e12),
    )
    return {
        "provenance": dataclasses.asdict(GPU), "method": "median of 30 launches",
        "before": {"clocks.sm": "345 MHz", "temperature.gpu": "38"}, "after": {},
        "cases": [*attention, softmax, decode],
    }  # fmt: skip


@pytest.fixture
def result() -> speed.Result:
    return speed.parse(result_json())


def of(result: speed.Result, table: str) -> speed.Case:
    return result.of(table)[0]


def test_ours_peers_and_floors_are_told_apart(result):
    softmax = of(result, "softmax")
    assert softmax.ours.name == "softmax_shared_row"
    assert [baseline.name for baseline in softmax.baselines] == ["torch.softmax"]
    assert [one.name for one in softmax.variants if one.floor] == ["copy"]
    assert "copy" not in {one.name for one in softmax.best}
    assert [one.label for one in softmax.best if one.function == "softmax"] == ["our dispatcher"]


def test_of_several_settings_the_fastest_counts(result):
    ours = of(result, "attention").ours
    assert (ours.name, ours.settings, ours.options) == ("flash_attention_hopper[groups=2]", 2, "groups=2")


def test_what_misses_its_tolerance_has_no_time_and_comes_last(result):
    last = of(result, "softmax").best[-1]
    assert last.missed
    assert last.seconds is None
    assert not of(result, "attention").best[-1].missed  # a baseline that is not installed was not wrong


def test_a_roof_of_bytes_is_of_the_same_run_and_one_of_flops_of_the_record(result):
    own = speed.roof(of(result, "softmax"), RECORD)
    assert own == speed.Limit("copy", 4.2e12, "the same run", own=True)
    matmul = speed.roof(of(result, "attention"), RECORD)
    assert (matmul.name, matmul.per_second) == ("matmul", 800e12)
    reading = speed.roof(of(result, "decode"), RECORD)
    assert reading.per_second == 4e12
    assert speed.roof(of(result, "attention"), None) is None


def test_a_curve_has_the_lengths_of_one_mask_shortest_first(result):
    cases = speed.beside(of(result, "attention"), result.of("attention"))
    assert [(one.along, one.causal) for one in cases] == [(2048, False), (8192, False)]
    assert speed.beside(of(result, "decode"), result.of("decode")) == []


def test_what_can_be_chosen_is_what_differs_in_order_of_size(result):
    assert speed.choices(result.of("attention")) == {
        "batch": ["2", "8"],
        "N": ["2,048", "8,192"],
        "causal": ["no", "yes"],
    }


def test_a_file_is_read_anew_when_it_changes_and_a_bad_one_is_refused_in_words(tmp_path):
    path = tmp_path / "speed.json"
    assert speed.load(path) is None
    path.write_text(json.dumps(result_json()))
    first = speed.load(path)
    assert first.tables == ("attention", "softmax", "decode")
    path.write_text("{")
    with pytest.raises(ResultFileError, match=r"speed\.json"):
        speed.load(path)
    path.write_text('{"cases": []}')
    with pytest.raises(ResultFileError, match=r"speed\.json .*provenance"):
        speed.load(path)


def test_bars_say_the_share_the_error_and_why_there_is_no_time(result):
    softmax = of(result, "softmax")
    limit = speed.roof(softmax, RECORD)
    for narrow in (False, True):
        picture = kernels.bars(softmax, limit, narrow=narrow)
        for words in ("3.90 TB/s · 93%", "copy, 4.20 TB/s", kernels.NO_TIME):
            assert words in picture
        assert picture.count('height="15.00"') == 3  # the one that missed has no bar
    assert "exceeds the tolerance, 320% of it" in kernels.bars(softmax, limit)
    assert "≤ 1 passes" in kernels.errors_told(softmax)
    missing = kernels.bars(of(result, "attention"), None)
    assert "it was not installed when this was measured" in missing
    assert "4.20 TB/s" not in missing


def test_the_bars_have_three_colours_and_a_title_that_says_what_they_show(result):
    softmax, attention = of(result, "softmax"), of(result, "attention")
    bars = re.findall(r'height="15.00"[^>]*fill="([^"]+)"', kernels.bars(softmax, speed.roof(softmax, RECORD)))
    assert set(bars) <= {palette.css(hue) for hue in kernels.WHOSE.values()}
    assert len(bars) == 3
    assert kernels.bars_title(softmax, speed.roof(softmax, RECORD)).startswith("softmax_")
    assert "% of a copy" in kernels.bars_title(softmax, speed.roof(softmax, RECORD))
    assert "59% of a large matmul, cuDNN 63%" in kernels.bars_title(attention, speed.roof(attention, RECORD))
    assert kernels.bars_title(attention, None) == "Our kernels beside the libraries"


def test_the_sentence_and_the_table_have_ratios_to_baselines_and_the_roof(result):
    attention = of(result, "attention")
    limit = speed.roof(attention, RECORD)
    said = kernels.bars_told(attention, limit)
    assert "is faster than persistent: " in kernels.beaten_told(attention)
    assert "**470 TFLOP/s**: 59% of the peak, 0.94 × cuDNN, 1.57 × " in said
    head, _, first, *_ = kernels.shapes_table(result.of("attention"), [limit] * 4).splitlines()
    cells = [cell.strip() for cell in first.strip("|").split("|")]
    assert len(head.strip("|").split("|")) == len(cells)
    assert cells == ["8 × 16 × 2,048 × 128, bf16", "persistent", "**470 TFLOP/s**", "59%", "0.94 ×", "1.57 ×"]


def test_the_curve_has_every_kernel_and_the_roof(result):
    cases = speed.beside(of(result, "attention"), result.of("attention"))
    limits = [speed.roof(one, RECORD) for one in cases]
    lines = {line.name: (list(line.x), list(line.y)) for line in kernels.curve(cases, limits).data}
    assert lines["persistent"][0] == [2048, 8192]
    assert lines["peak: matmul"][1] == [800.0, 800.0]
    assert "FlashAttention-3" not in lines


def test_a_curve_beside_its_own_copy_is_in_percent_and_draws_the_chosen_kernel_only(result):
    softmax = of(result, "softmax")
    limits = [speed.roof(softmax, RECORD)]
    lines = {line.name: line for line in kernels.curve([softmax], limits).data}
    assert list(lines["our dispatcher"].y) == [pytest.approx(100 * 3.8 / 4.2)]
    own = {one.function for one in softmax.variants if one.ours and one.function not in speed.DISPATCHERS}
    assert own
    assert not own & set(lines)
    first = next(one.function for one in softmax.best if one.function in own and one.per_second)
    assert own & {line.name for line in kernels.curve([softmax], limits, first).data} == {first}


def test_a_kernels_colour_is_its_own_and_no_two_in_a_picture_share_one(result):
    shown = speed.colours(result.of("softmax") + result.of("attention"))
    assert shown["torch.sdpa cudnn"] == palette.kernel(KERNELS["torch:cudnn"].hue)
    assert len(set(shown.values())) == len(shown)


@pytest.mark.parametrize("kernel", kernels.KERNELS, ids=lambda kernel: kernel.call)
def test_each_ideas_line_is_in_the_kernels_source(kernel):
    lines = (ROOT / kernel.file).read_text(encoding="utf-8").splitlines()
    assert f"\ndef {kernel.call}(" in "\n".join(lines)
    for idea in kernel.ideas:
        assert lines[kernel.line_number(idea) - 1].strip() == idea.line
    places = [kernel.source.index(idea.line) for idea in kernel.ideas]
    assert places == sorted(places), "ideas stand in the order of their lines"
    if kernel.below:
        assert any(line.startswith("+") for line in kernel.difference.splitlines())


def test_an_idea_that_does_nothing_on_the_chosen_rows_says_so(result):
    softmax = of(result, "softmax")
    short, odd = (dataclasses.replace(softmax, shape=(8, columns)) for columns in (256, 257))
    rows = next(kernel for kernel in kernels.of("softmax") if kernel.call == "softmax_rows")
    told = {idea.name: [idea.idle_told(case) for case in (softmax, short, odd)] for idea in rows.ideas}
    several, vectors = told["Several rows per program"], told["Whole vectors, wherever a row starts"]
    assert several == [" *Here it changes nothing: a program takes one row.*", "", ""]
    assert ["" if not said else "idle" for said in vectors] == ["idle", "idle", ""]
    assert told["One division per row"] == ["", "", ""]


def test_that_a_program_takes_one_row_is_said_where_the_launch_gives_it_one(result, monkeypatch):
    rows = next(kernel for kernel in kernels.of("softmax") if kernel.call == "softmax_rows")
    several = next(idea for idea in rows.ideas if idea.name == "Several rows per program")
    launched: list[int] = []

    def launch(_kernel: Any, _grid: int, _x: Any, _sizes: Any, constants: dict[str, Any], _warps: int) -> Any:
        launched.append(constants["BLOCK_M"])
        return lambda x: x

    monkeypatch.setattr(softmax_fast, "_launch", launch)
    softmax = of(result, "softmax")
    for name, dtype in (("fp32", torch.float32), ("bf16", torch.bfloat16), ("fp16", torch.float16)):
        for columns in (*range(250, 260), *range(496, 530), 1000, 1024, 1025, 1500, 2040, 2047, 2048, 2049, 4096):
            softmax_fast.softmax_rows(torch.empty(4, columns, dtype=dtype))
            case = dataclasses.replace(softmax, shape=(4, columns), dtype=name)
            assert bool(several.idle_told(case)) == (launched[-1] == 1), (name, columns)


def test_libraries_without_a_backward_time_are_named(result):
    attention = of(result, "attention")
    backward = dataclasses.replace(
        attention, table="backward", variants=(speed.Variant("torch.sdpa cudnn backward", 1.0, 1e12, 0.1),)
    )
    said = kernels.unmeasured_told(backward, result.of("attention"))
    assert said == "Not measured: the backward pass of FlashAttention-2 (PyTorch)."
    assert kernels.unmeasured_told(attention, result.of("attention")) == ""


def test_every_table_has_a_kernel_to_explain():
    assert {kernel.table for kernel in kernels.KERNELS} == set(speed.TABLES) - {"attention"}  # that has rungs


def test_a_rung_is_one_of_ours_and_known_by_its_module():
    one = speed.Variant("rung bf16[block_m=64]", seconds=1.0)
    assert one.ours
    assert (one.rung, one.label, one.options) == ("bf16", "bf16", "block_m=64")
    assert speed.Variant("attention").rung == speed.Variant("torch.sdpa cudnn").rung == ""


def test_a_table_that_was_measured_again_says_its_own_method():
    result = speed.load()
    assert result
    again = dataclasses.replace(result, method="median of 30; backward, decode: median of 20; softmax: best of 3")
    ends = [again.source(table).rpartition(" · ")[2] for table in ("forward", "backward", "decode", "softmax")]
    assert ends == ["median of 30", "median of 20", "median of 20", "best of 3"]
