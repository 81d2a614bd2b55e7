"""Chapters 6 and 7: what is drawn follows what is chosen, and the game answers with real runs."""

from __future__ import annotations

import re

import pytest
from streamlit.testing.v1 import AppTest

from explain import lessons
from explain.chapters.what_breaks import view as museum
from kernels.museum import EXHIBITS
from tests import test_pages
from tests.test_pages import page


def texts(test: AppTest) -> str:
    """The page's words, without the marks around those that the glossary has."""
    return re.sub(r"</?span[^>]*>", "", test_pages.texts(test))


def everything(test: AppTest) -> str:
    return "\n".join([texts(test), *(code.value for code in test.code), *(info.value for info in test.info)])


@pytest.mark.parametrize("exhibit", EXHIBITS.values(), ids=lambda exhibit: exhibit.name)
def test_an_exhibit_shows_its_line_its_story_and_its_verdicts(exhibit):
    test = page("what_breaks", exhibit=exhibit.name)
    shown = everything(test)
    assert f"- {exhibit.old}" in shown
    assert f"+ {exhibit.new}" in shown
    assert exhibit.story in shown
    if exhibit.link:
        assert f"[{exhibit.source}]({exhibit.link})" in shown
    verdicts = next(block.value for block in test.markdown if block.value.startswith("| input |")).splitlines()[2:]
    assert ("✗" in verdicts[0]) != exhibit.harmless
    plain = next(line for line in verdicts if line.startswith("| plain normal numbers |"))
    assert ("✗" in plain) == (exhibit.hidden_by != "normal")
    assert "They part at step" in shown
    assert ("meet again" in shown) == exhibit.harmless


def test_a_button_goes_to_the_step_of_its_variable():
    test = page("what_breaks")
    button = next(b for b in test.button if b.key == "part no_running_max alpha")
    _, broken = lessons.exhibit(EXHIBITS["no_running_max"])
    button.click().run()
    assert not test.exception
    assert f"step {test.session_state[museum._GO][broken.key] + 1}" in button.label


def test_choosing_an_exhibit_is_written_to_the_address_and_what_is_none_is_said():
    test = page("what_breaks", exhibit="finite_mask")
    assert "- s = tl.where(visible" in everything(test)
    test.segmented_control(key="exhibit").set_value("finite_start").run()
    assert test.query_params["exhibit"] == "finite_start"
    assert "-5e4" in everything(test)
    assert "exhibit=sunshine: must be one of no_running_max" in texts(page("what_breaks", exhibit="sunshine"))


def ask(test: AppTest, exhibit: str, which: str = "ask") -> AppTest:
    next(b for b in test.button if b.key == f"{which} {exhibit}").click().run()
    assert not test.exception
    return test


def test_the_game_counts_attempts_and_a_real_run_answers():
    test = page("what_breaks", exhibit="finite_start")
    ask(test, "finite_start", "plain")
    assert "1 · :green[It holds.] plain normal numbers" in texts(test)
    test.select_slider(key="game offset").set_value(-1000.0).run()
    ask(test, "finite_start")
    assert "2 · :green[It holds.] normal scores, shifted by −1,000" in texts(test)
    test.select_slider(key="game offset").set_value(-80000.0).run()
    ask(test, "finite_start")
    assert "3 · :red[**It breaks.**] normal scores, shifted by −80,000" in texts(test)
    assert "Attempts: **3**" in texts(test)
    test.segmented_control(key="exhibit").set_value("sum_from_one").run()
    assert "No attempt yet" in texts(test)


def test_an_input_found_in_the_game_can_be_watched():
    test = page("what_breaks", exhibit="inf_minus_inf")
    test.selectbox(key="game hidden").set_value("first_tile").run()
    ask(test, "inf_minus_inf")
    next(b for b in test.button if b.key == "watch inf_minus_inf 1").click().run()
    assert not test.exception
    assert "On an input of yours: normal scores, first tile hidden." in texts(test)


def test_a_dtype_too_narrow_for_an_input_is_still_an_answer():
    test = page("what_breaks", exhibit="finite_start")
    test.selectbox(key="game dtype").set_value("fp16").run()
    test.select_slider(key="game offset").set_value(-80000.0).run()
    ask(test, "finite_start")
    assert "1 · :green[It holds.]" in texts(test)  # −80,000 is −∞ in fp16: nothing is seen at all


def test_without_triton_the_game_says_so(monkeypatch):
    monkeypatch.setattr(museum, "has_triton", lambda: False)
    assert "Triton runs on Linux only" in everything(page("what_breaks"))


def test_exactness_shows_both_errors_in_every_dtype_and_order():
    shown = texts(page("exactness"))
    assert "In **fp16** the largest error, |O − float64|, of FlashAttention-2 is" in shown
    for dtype in ("fp32", "fp16", "bf16"):
        assert f"| {dtype} | FlashAttention-2 |" in shown
    assert "| keys in the opposite order |" in shown
    for order in ("left to right", "right to left", "tree"):
        assert f"| {order} |" in shown
    assert "✗" not in shown


def test_exactness_follows_its_controls():
    test = page("exactness", causal="true", dtype="bf16", block_n="32")
    shown = texts(test)
    assert "In **bf16**" in shown
    assert "FlashAttention-2, tiles of 32 keys" in shown
    assert "opposite order |" not in shown
    assert "| order of the joins | other bits, of 256 |" in shown
    assert "| order of the joins | other bits, of 128 |" in texts(page("exactness", **{"row.cols": "32"}))
    figures = [chart.proto.spec for chart in test.get("plotly_chart")]
    assert len(figures) == 2
