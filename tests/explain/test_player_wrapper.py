"""What Python hands the player, and where it starts. What the player draws is for tests/e2e/test_player.py."""

from __future__ import annotations

import json
import re
import struct

import pytest
from streamlit.testing.v1 import AppTest

from explain import lessons, recordings
from explain.glossary import definitions
from explain.player import files as parts
from explain.player.component import Run, body_of, player, token_lines
from explain.player.files import modules, script
from explain.trace.file import TraceFile

TRACE = recordings.path_of(lessons.OPENING).read_bytes()
OTHER = recordings.path_of(lessons.ONLINE).read_bytes()
VIEW = {"title": "A run", "badge": "trace"}

PAGE = """
import streamlit as st
from explain import lessons, recordings
from explain.player.component import Run, player
from explain.trace.file import TraceFile

experiment = lessons.ONLINE if st.toggle("other") else lessons.OPENING
if not st.toggle("away"):
    run = Run(TraceFile(recordings.path_of(experiment).read_bytes()), {"title": "A run", "badge": "trace"})
    asked = st.number_input("step", value=None, step=1)
    player([run], key="here", step=asked, request=int(st.number_input("request", value=0)))
"""


def test_a_keyword_of_a_call_is_no_variable():
    text = "def k(x, mask):\n    y = tl.load(x,\n                mask=mask)\n    z = tl.sum(ß, axis=0)"
    named = [[token[1] for token in line if token[0] == "v"] for line in token_lines(text)]
    assert named[1:3] == [["y", "tl", "load", "x"], ["mask"]]
    assert "axis" not in named[3]
    assert "".join(token if isinstance(token, str) else token[1] for line in token_lines(text) for token in line) == (
        text.replace("\n", "")
    )


def unpacked(packet):
    (length,) = struct.unpack_from("<I", packet)
    head = json.loads(packet[4 : 4 + length])
    files = [packet[4 + length + run["offset"] :][: run["bytes"]] for run in head["runs"]]
    return head, files


def page(**query):
    test = AppTest.from_string(PAGE, default_timeout=300)
    for name, value in query.items():
        test.query_params[name] = value
    return rerun(test)


def rerun(test):
    test.run()
    assert not test.exception
    return test


def packet(test):
    return test.get("bidi_component")[0].proto.bytes


def first_step(test):
    return unpacked(packet(test))[0]["step"]


def place(test):
    return unpacked(packet(test))[0]["place"]


def test_the_packet_carries_the_trace_and_its_source():
    head, files = unpacked(packet(page()))
    assert files == [TRACE]
    (run,) = head["runs"]
    trace = TraceFile(TRACE).trace
    assert run["error"] is None
    assert run["view"] == VIEW
    for source, sent in zip(trace.sources, run["sources"], strict=True):
        lines = ["".join(token if isinstance(token, str) else token[1] for token in line) for line in sent["lines"]]
        assert "\n".join(lines) == source.text.rstrip()
        assert sent["first_line"] == source.first_line
    alpha = next(made for made in run["sources"][0]["equations"].values() if made["variable"] == "alpha")
    assert "{alpha}" in json.dumps(alpha["numbers"])
    assert any("acc" in names for names in run["sources"][0]["alive"].values())


def test_a_message_of_the_player_holds_the_packet_and_not_the_players_script():
    sent = page().get("bidi_component")[0].proto
    assert sent.ByteSize() < len(sent.bytes) + 2000
    assert parts.address() in sent.js_content


def test_names_in_the_catalogs_kernels_are_explained_and_no_others():
    words = definitions()
    head, _ = unpacked(body_of([Run(TraceFile(TRACE), VIEW | {"kernel": "flash_attention"})]).packet(step=0))
    assert words["alpha"] in head["glossary"]["alpha"]
    assert set(head["glossary"]) < set(words)  # those in this kernel's source
    foreign, _ = unpacked(body_of([Run(TraceFile(TRACE), VIEW)]).packet(step=0))
    assert foreign["glossary"] == {}


def test_variables_keywords_and_comments_are_told_apart():
    (run,) = unpacked(packet(page()))[0]["runs"]
    tokens = {tuple(token) for line in run["sources"][0]["lines"] for token in line if not isinstance(token, str)}
    assert {("v", "alpha"), ("k", "for"), ("f", "flash_attention_kernel")} <= tokens
    assert any(kind == "c" and text.startswith("# ") for kind, text in tokens)


def test_a_rerun_sends_the_same_bytes():
    test = page()
    before = packet(test)
    assert packet(rerun(test)) == before


def test_the_address_says_where_to_start():
    assert first_step(page(step="7")) == 7


@pytest.mark.parametrize("step", ["-1", "²", "x", "1e3", "9" * 30, ""])
def test_an_address_that_says_no_step_starts_at_the_first(step):
    assert first_step(page(step=step)) == 0


def test_the_address_counts_for_the_first_run_only():
    test = page(step="7")
    test.toggle[0].set_value(True)
    assert first_step(rerun(test)) == 0


def test_a_step_that_is_asked_for_wins_and_can_change():
    test = page(step="7")
    for asked in (12, 30):
        test.number_input[0].set_value(asked)
        assert first_step(rerun(test)) == asked


def test_the_same_step_can_be_asked_for_again():
    test = page()
    test.number_input[0].set_value(12)
    before = packet(rerun(test))
    assert packet(rerun(test)) == before
    test.number_input[1].set_value(1)
    assert (first_step(rerun(test)), place(test)) == (12, "here 3")


def test_away_and_back_is_the_same_start_so_that_the_page_goes_on_where_it_was_left():
    test = page()
    before = packet(test)
    test.toggle[1].set_value(True)
    assert not rerun(test).get("bidi_component")
    test.toggle[1].set_value(False)
    assert packet(rerun(test)) == before


def test_a_run_that_is_chosen_again_starts_anew():
    test = page()
    for other in (True, False):
        test.toggle[0].set_value(other)
        rerun(test)
    assert place(test) == "here 3"


def test_after_back_the_address_goes_before_what_was_left_and_what_is_asked_for(monkeypatch):
    test = page(step="7")
    test.number_input[0].set_value(12)
    assert first_step(rerun(test)) == 12
    test.query_params["step"] = "30"
    assert first_step(rerun(test)) == 12
    monkeypatch.setattr("explain.ui.address.returned", lambda: True)
    assert first_step(rerun(test)) == 30


def test_other_runs_have_another_id():
    test = page()
    before = unpacked(packet(test))[0]["id"]
    test.toggle[0].set_value(True)
    head, files = unpacked(packet(rerun(test)))
    assert head["id"] != before
    assert files == [OTHER]


def test_a_damaged_trace_is_sent_with_what_is_wrong():
    test = AppTest.from_string(PAGE.replace(".read_bytes())", ".read_bytes()[:-9])"), default_timeout=300)
    (run,) = unpacked(packet(rerun(test)))[0]["runs"]
    assert "cut short" in run["error"]
    assert run["sources"] == []


@pytest.mark.parametrize(
    ("view", "message"),
    [
        ({"title": "A run"}, "view: badge is missing"),
        (VIEW | {"colour": "red"}, "view: colour is unknown; allowed are title, badge"),
        (VIEW | {"roles": ["s"]}, r"view: roles=\['s'\]: must be a table"),
        (VIEW | {"chip": {"name": "H200"}}, r"view\['chip'\]=.* must have name, shared_bytes and register_bytes"),
        (VIEW | {"score_shape": [4, 0]}, "must be two positive integers"),
        (VIEW | {"score_shape": [2, 3], "col_labels": ["a", "b"]}, r"'col_labels'\] has 2 labels; .* needs 3"),
    ],
)
def test_a_view_that_does_not_fit_is_named(view, message):
    with pytest.raises(ValueError, match=message):
        player([Run(TraceFile(TRACE), view)], key="k")


@pytest.mark.parametrize("count", [0, 3])
def test_it_shows_one_run_or_two(count):
    with pytest.raises(ValueError, match=f"one run or two, not {count}"):
        player([Run(TraceFile(TRACE), VIEW)] * count, key="k")


def test_a_number_that_is_no_json_is_refused():
    with pytest.raises(ValueError, match="JSON"):
        player([Run(TraceFile(TRACE), VIEW | {"program_names": {"0,0,0": float("nan")}})], key="k")


def test_the_modules_join_into_one():
    joined = modules()
    assert not re.search(r"^(import|export) ", joined, re.MULTILINE)
    assert "\nfunction mount(component) {" in joined
    declared = re.findall(r"^(?:async )?(?:function|class|const|let) (\w+)", joined, re.MULTILINE)
    assert len(declared) == len(set(declared)) > 30


def test_text_enters_the_page_as_text_only():
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function", script())
