"""The page of speed opens with a result, without one and on a broken one; its controls choose what is drawn."""

from __future__ import annotations

import json

import pytest

from explain import fast_kernels, speed
from explain.records import shelf
from explain.speed import TABLES
from tests.explain.test_speed import RECORD, result_json
from tests.test_pages import page, texts


@pytest.fixture
def file(monkeypatch, tmp_path):
    """A result where the page looks for it, and a record of the same GPU."""
    path = tmp_path / "speed.json"
    path.write_text(json.dumps(result_json()))
    monkeypatch.setattr(speed, "FILE", path)
    monkeypatch.setattr(shelf, "shelved", lambda: ([shelf.Shelved("test", RECORD, shelf.RECORDED)], {}))
    return path


def test_it_shows_ours_beside_others_with_the_source(file):
    test = page("speed")
    said = texts(test)
    assert "**flash_attention_hopper** does **532 TFLOP/s**: 66% of the roof, 1.06 × cuDNN" in said
    assert "NVIDIA Test 1, driver 1" in said
    assert "2026-01-01" in said
    assert "flash_attention_hopper with turns=False, the fastest of 2 settings" in said
    assert len(test.get("plotly_chart")) == 1
    assert "not stepped through" in said


def test_the_controls_choose_the_case_and_the_address_keeps_it(file):
    test = page("speed")
    test.selectbox(key="N").set_value("2048").run()
    assert not test.exception
    assert "does **470 TFLOP/s**" in texts(test)
    assert test.query_params["N"] in ("2048", ["2048"])
    test.segmented_control[0].set_value("Softmax").run()
    assert not test.exception
    assert "N" not in test.query_params
    assert "misses its error budget" in texts(test)
    assert "no time: the result misses its error budget" in texts(page("speed", work="Softmax"))


def test_an_address_that_means_nothing_is_said(file):
    assert "N=77: must be one of 2048, 8192" in texts(page("speed", N="77"))


def test_a_table_that_was_left_out_is_said(file):
    test = page("speed", work="Attention, backward")
    assert "speed.json backward` measures it" in test.info[0].value
    assert "P from lse" in texts(test)


def test_without_a_record_of_that_gpu_there_is_no_roof(file, monkeypatch):
    monkeypatch.setattr(shelf, "shelved", lambda: ([], {}))
    assert "No roof is drawn" in texts(page("speed"))


@pytest.mark.parametrize("title", [table.title for table in TABLES.values()])
def test_without_a_result_it_says_how_to_make_one_and_still_explains(title, monkeypatch, tmp_path):
    monkeypatch.setattr(speed, "FILE", tmp_path / "none.json")
    test = page("speed", work=title)
    assert speed.COMMAND in test.info[0].value
    assert not test.get("plotly_chart")
    assert len(test.code) >= 3


def test_a_broken_file_is_said(file):
    file.write_text("[]")
    assert "no result of benchmarks/speed.py" in page("speed").error[0].value


@pytest.mark.parametrize("kernel", fast_kernels.of("softmax"), ids=lambda kernel: kernel.call)
def test_each_kernel_shows_its_ideas_and_its_code(kernel, file):
    test = page("speed", work="Softmax", **{"softmax kernel": kernel.title})
    shown = [code.value for code in test.code]
    assert [idea.line for idea in kernel.ideas] == shown[: len(kernel.ideas)]
    assert kernel.source in shown
    assert (kernel.difference in shown) == bool(kernel.below)
