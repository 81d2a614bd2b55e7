"""Exactness and What breaks: what is drawn follows what is chosen, and the game answers with real runs."""

from __future__ import annotations

import re
from html import escape

import pytest
from streamlit.testing.v1 import AppTest

from explain.chapters.what_breaks import figures
from explain.chapters.what_breaks import view as museum
from explain.chapters.what_breaks.divergence import compared, running_states
from explain.chapters.what_breaks.exhibits import WORDS
from explain.run_experiment import run_traced
from kernels.museum import EXHIBITS
from tests import pages
from tests.pages import page


def texts(test: AppTest) -> str:
    """The page's words, without the marks around those that the glossary has."""
    return re.sub(r"</?span[^>]*>", "", pages.texts(test))


def everything(test: AppTest) -> str:
    return "\n".join([texts(test), *(info.value for info in test.info)])


@pytest.mark.parametrize("exhibit", EXHIBITS.values(), ids=lambda exhibit: exhibit.name)
def test_an_exhibit_shows_its_line_its_story_and_its_verdicts(exhibit):
    test = page("what_breaks", exhibit=exhibit.name)
    shown = everything(test)
    for side, line in (("correct", exhibit.old), ("broken", exhibit.new)):
        assert f'<code data-side="{side}">{escape(line)}</code>' in shown
    words = WORDS[exhibit.name]
    assert words.bug in shown
    assert words.story in shown
    if exhibit.link:
        assert f"[{exhibit.source}]({exhibit.link})" in shown
    verdicts = next(block.value for block in test.markdown if block.value.startswith("| input |")).splitlines()[2:]
    assert (":red" in verdicts[0]) != exhibit.harmless
    plain = verdicts[1]
    assert (":red" in plain) == (exhibit.hidden_by != "normal")


def test_a_button_goes_to_the_step_of_its_variable():
    test = page("what_breaks")
    button = next(b for b in test.button if b.key == "divergence no_running_max alpha")
    _, broken = compared(EXHIBITS["no_running_max"])
    button.click().run()
    assert f"step {test.session_state[museum._GO][broken.key]}," in button.help


def test_choosing_an_exhibit_is_written_to_the_address_and_what_is_none_is_said():
    test = page("what_breaks", exhibit="finite_mask")
    assert escape(EXHIBITS["finite_mask"].new) in everything(test)
    test.segmented_control(key="exhibit").set_value("finite_start").run()
    assert test.query_params["exhibit"] == "finite_start"
    assert "-5e4" in everything(test)
    assert "exhibit=sunshine: " in texts(page("what_breaks", exhibit="sunshine"))


def ask(test: AppTest, exhibit: str, which: str = "ask") -> AppTest:
    next(b for b in test.button if b.key == f"{which} {exhibit}").click().run()
    return test


def test_the_game_counts_attempts_and_a_real_run_answers():
    test = page("what_breaks", exhibit="finite_start")
    ask(test, "finite_start", "plain")
    assert "1 · :green[" in texts(test)
    test.select_slider(key="game offset").set_value(-1000.0).run()
    ask(test, "finite_start")
    assert re.search(r"2 · :green\[.*−1,000", texts(test))
    test.select_slider(key="game offset").set_value(-80000.0).run()
    ask(test, "finite_start")
    assert re.search(r"3 · :red\[.*−80,000", texts(test))
    test.segmented_control(key="exhibit").set_value("sum_from_one").run()
    assert "1 · :" not in texts(test)


def test_an_input_found_in_the_game_can_be_watched():
    test = page("what_breaks", exhibit="inf_minus_inf")
    test.selectbox(key="game hidden").set_value("first_tile").run()
    ask(test, "inf_minus_inf")
    before = player(test)
    next(b for b in test.button if b.key == "watch inf_minus_inf 1").click().run()
    assert "first_tile" in str(test.session_state[museum._WATCHED])
    assert b'"reveal":1' in player(test)
    assert b'"reveal"' not in before  # it is a screen above: then it comes into sight


def test_the_input_and_the_table_are_of_the_watched_run():
    test = page("what_breaks")
    _, falling = compared(EXHIBITS["no_running_max"])
    test.select_slider(key="game scale").set_value(3.0).run()
    ask(test, "no_running_max")
    assert falling.preset.help[1:].rstrip(".") in texts(test)
    next(b for b in test.button if b.key == "watch no_running_max 1").click().run()
    shown = texts(test)
    assert f"{falling.preset.help[1:].rstrip('.')}, under" not in shown
    assert "scaled by 3" in shown
    assert "No difference" in shown
    assert "l = inf" not in shown
    assert "the first row in which" not in shown


def player(test: AppTest) -> bytes:
    """What the page sends to its player."""
    return max((one.proto.bytes for one in test.get("bidi_component")), key=len)


def test_a_dtype_too_narrow_for_an_input_is_still_an_answer():
    test = page("what_breaks", exhibit="finite_start")
    test.segmented_control(key="game dtype").set_value("fp16").run()
    test.select_slider(key="game offset").set_value(-80000.0).run()
    ask(test, "finite_start")
    assert "1 · :green[" in texts(test)  # −80,000 is −∞ in fp16: nothing is seen at all


def test_without_triton_the_game_says_so(monkeypatch):
    monkeypatch.setattr(museum, "has_triton", lambda: False)
    assert "Triton runs on Linux only" in everything(page("what_breaks"))


def test_what_is_not_finite_is_named():
    right, broken = compared(EXHIBITS["inf_minus_inf"])
    assert museum._cell(broken) == ":red[**fails: NaN**]"
    assert museum._cell(right).startswith(":green[passes, ")
    assert museum._cell(compared(EXHIBITS["finite_start"])[1]) == ":red[**fails: L is infinite**]"
    assert "NaN is right" in museum._cell(compared(EXHIBITS["nan_swallowed"])[1])


def test_the_change_that_may_be_harmless_does_not_say_it_before_the_reader_asks():
    test = page("what_breaks", exhibit="sum_from_one")
    table = next(block.value for block in test.markdown if block.value.startswith("| input |"))
    assert table in [one.value for one in next(e for e in test.expander if e.label == "What three inputs say").markdown]
    right, changed = running_states(
        *(run_traced(one, "all", lambda *_: None)[0] for one in compared(EXHIBITS["sum_from_one"]))
    )
    drawn = figures.states(EXHIBITS["sum_from_one"], right, changed)
    assert "start" in drawn
    assert "tile 1" not in drawn


def test_exactness_shows_both_errors_in_every_dtype_and_order():
    shown = texts(page("exactness"))
    for dtype in ("fp32", "fp16", "bf16"):
        assert f"| {dtype}, FlashAttention-2 |" in shown
    for order in ("left to right", "right to left", "tree"):
        assert f"| {order} |" in shown
    assert "✗" not in shown


def test_exactness_follows_its_controls():
    test = page("exactness", causal="true", dtype="bf16", block_n="32")
    shown = texts(test)
    assert "| FlashAttention-2, tiles of 32 keys |" in shown
    assert "| keys in reverse order |" not in shown  # with a causal mask there is none
    merged = re.compile(r"\| tree \|.*")
    assert merged.findall(shown) != merged.findall(texts(page("exactness", **{"row.cols": "32"})))
    assert len(test.get("plotly_chart")) == 1
