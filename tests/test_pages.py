"""The pages' logic: each runs alone, controls change what is drawn, an unusable value is named beside its control."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from explain import ROOT, lessons, recordings
from explain.chapters.flash_attention import gpu_view
from explain.chapters.triton_ladder import ladder
from explain.device.measurement import Measurement
from explain.engine import DeviceStatus, engine
from explain.experiment import Experiment
from explain.plain import made
from explain.recordings.shipped import shipped
from explain.records import registry
from explain.trace import file as trace_file
from explain.ui.controls import LABELS, ROW_LABELS
from tests.pages import codes, measured_on, opened, page, texts

PAGES = sorted((ROOT / "pages").glob("*.py"))


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_each_page_runs_alone_and_loads_no_highlighter_of_all_languages(path):
    test = page(path.stem)
    assert test.title[0].value
    assert not test.code
    assert not [words.value for words in test.markdown if "```" in words.value]


def test_the_app_opens_on_the_real_sentence():
    test = opened("main.py")
    assert test.title[0].value == "Tilescope"
    assert lessons.OPENING.inputs == "sentence"


def test_a_control_changes_what_is_drawn():
    test = page("flash_attention")
    before = texts(test)
    test.toggle[0].set_value(True).run()
    after = texts(test)
    assert "**73,728 B**" in before
    causal = lessons.OPENING.with_(causal=True)
    assert f"**{causal.traffic.read_bytes:,} B**" in after
    assert test.query_params["causal"] == "true"


def test_an_address_leads_to_its_experiment():
    experiment = lessons.OPENING.with_(causal=True, block_n=32)
    test = page("flash_attention", causal="true", block_n="32")
    assert f"**{experiment.traffic.read_bytes:,} B**" in texts(test)


@pytest.mark.parametrize(
    ("name", "query"),
    [
        ("flash_attention", {"block_n": "24"}),
        ("flash_attention", {"seq_len": "many"}),
        ("flash_attention", {"seq_len": "0"}),
        ("flash_attention", {"inputs": "sunshine"}),
        ("flash_attention", {"seed": "x"}),
        ("flash_attention", {"head_dim": "4"}),
        ("flash_attention", {"kernel": "nonsense"}),
        ("flash_attention", {"kernel": "softmax_safe"}),  # another page's
        ("flash_attention", {"inputs": "normal", "seq_len": "4096"}),
        ("online_softmax", {"cols": "7"}),
        ("online_softmax", {"block_n": "3"}),
    ],
)
def test_what_cannot_be_used_is_said_beside_its_control(name, query):
    refused, value = list(query.items())[-1]
    labels = ROW_LABELS if name == "online_softmax" else LABELS
    assert f"**{labels.get(refused, refused)}: {value}.**" in texts(page(name, **query))


def test_controls_that_do_not_fit_together_say_so_and_lose_nothing():
    test = page("flash_attention")
    test.number_input[0].set_value(65).run()
    assert f"**{LABELS['seq_len']}: 65.**" in texts(test)
    test.number_input[0].set_value(48).run()
    assert f"**{LABELS['seq_len']}: " not in texts(test)


def test_what_was_refused_is_shown_until_it_is_mended():
    test = page("flash_attention", inputs="normal")
    for refused in (500, 0):
        test.number_input[0].set_value(refused).run()
        assert test.number_input[0].value == refused
        assert f"**{LABELS['seq_len']}: {refused}.**" in texts(test)
    test.number_input[0].set_value(64).run()  # what the page still shows
    assert f"**{LABELS['seq_len']}: " not in texts(test)


def test_a_changed_address_wins_and_another_page_loses_nothing():
    test = page("flash_attention")
    test.toggle[0].set_value(True).run()
    del test.query_params["causal"]  # the browser's Back
    test.run()
    assert [toggle.value for toggle in test.toggle] == [False]
    test.toggle[0].set_value(True).run()
    for other in ("online_softmax", "flash_attention"):
        test.switch_page(str(ROOT / "pages" / f"{other}.py")).run()
    assert [toggle.value for toggle in test.toggle] == [True]
    assert test.query_params["causal"] == "true"


def test_a_kernel_that_two_pages_show_begins_on_each_with_its_own_controls():
    """Two pages' controls of one key are two controls: the second one's number stood at 0, and was refused."""
    app = opened("main.py")
    for name in ("online_softmax", "triton_ladder"):
        app.switch_page(str(ROOT / "pages" / f"{name}.py")).run()
        assert all(number.value for number in app.number_input)


def test_the_chosen_gpu_records_go_along_to_the_next_page():
    app = opened("main.py")
    for name in ("papers", "measurements"):
        app.switch_page(str(ROOT / "pages" / f"{name}.py")).run()
        assert measured_on(app).value == [registry.entries()[0][0].key]


def test_the_address_of_another_preset_leads_back_to_it():
    test = page("online_softmax")
    test.selectbox[0].set_value("ascending").run()
    query = {name: str(value) for name, value in test.query_params.items()}
    there = page("online_softmax", **query)
    assert texts(there) == texts(test)
    assert test.query_params["cols"] in ("6", ["6"])  # the row keeps its length: this preset has none of its own


def test_the_tile_of_one_element_is_no_choice():
    test = page("online_softmax")
    before = len(test.selectbox)
    test.segmented_control[0].set_value("Tile by tile").run()
    assert len(test.selectbox) == before + 1


def test_without_triton_a_chapter_opens_on_shipped_traces_alone(monkeypatch, tmp_path):
    for module in ("engine", "chapters.home.view"):
        monkeypatch.setattr(f"explain.{module}.has_triton", lambda: False)
    monkeypatch.setenv("TILESCOPE_CACHE", str(tmp_path))
    assert page("home")
    assert not page("flash_attention").error
    assert page("flash_attention", block_m="64", block_n="64").error


def test_each_way_to_read_a_row_opens():
    test = page("online_softmax")
    shown = {texts(test)}
    for way in test.segmented_control[0].options[1:]:
        test.segmented_control[0].set_value(way).run()
        shown.add(texts(test))
    assert len(shown) == len(test.segmented_control[0].options)


@pytest.mark.parametrize(
    ("way", "right", "wrong"), [("Tile by tile", "1.0000", "3.0000"), ("Tiles in parallel", "1.0000", "0.5528")]
)
def test_the_wrong_kernel_beside_the_right_one(way, right, wrong):
    test = page("online_softmax", read=way)
    assert f":red[**{wrong}**]" not in texts(test)
    test.toggle[0].set_value(True).run()
    assert f":green[**{right}**]" in texts(test)
    assert f":red[**{wrong}**]" in texts(test)


def test_the_updates_of_the_sum_follow_the_row():
    test = page("online_softmax")
    assert "<br>right | :green[**1.0000**] | :green[**1.0000**] |" in texts(test)
    assert texts(test).count("α is missing") == 1
    missing = "<br>adds terms of different maxima: α is missing"
    assert f"{missing} | :red[**0.7252**] | :red[**0.7252**] |" in texts(test)
    test.selectbox[0].set_value("constant").run()
    assert f"{missing} | :green[**1.0000**] | :green[**1.0000**] |" in texts(test)  # one maximum: α is 1


def test_the_ladder_shows_one_rung_and_counts_them_all():
    test = page("triton_ladder")
    assert "| **4** | 72 | 24 |" in texts(test)  # three passes
    assert re.search(r"\| \*\*2\*\* \| 24 \| 24 \|[^|]+\| :red\[", texts(test))  # each tile by itself
    new = "+        alpha = tl.exp(m_i - m_safe)"
    assert [new in "\n".join(codes(shown)) for shown in (test, page("triton_ladder", rung="Online"))] == [False, True]


def test_an_address_leads_to_its_rung_and_its_row():
    test = page("triton_ladder", rung="Per tile", inputs="large_magnitude", cols="16", block_n="4")
    assert "| **3** | 128 | 64 | NaN | :red[" in texts(test)


def test_without_triton_the_ladder_counts_the_rungs_that_were_recorded(monkeypatch, tmp_path):
    for rung in ladder.RUNGS:
        assert rung.experiment(lessons.ONLINE) in list(shipped())
    monkeypatch.setattr("explain.engine.has_triton", lambda: False)
    monkeypatch.setenv("TILESCOPE_CACHE", str(tmp_path))
    counted = re.compile(r"^\|.*\| \*\*\d\*\* \|", re.MULTILINE)
    assert len(counted.findall(texts(page("triton_ladder")))) == len(ladder.RUNGS)
    assert len(counted.findall(texts(page("triton_ladder", inputs="ascending")))) < len(ladder.RUNGS)


@pytest.mark.parametrize("experiment", list(shipped()), ids=lambda experiment: experiment.key)
def test_shipped_traces_are_of_the_kernels_as_they_are(experiment):
    path = recordings.path_of(experiment)
    assert path.exists(), "run: python -m explain record traces"
    trace = trace_file.read(path)
    assert Experiment.from_json(trace.experiment) == experiment
    for source in trace.sources:
        file, edited, _ = source.file.partition("~")  # a run may also use kernels of a file that has no bug
        text, edit = (ROOT / file).read_text(), experiment.entry.edit
        assert source.text.rstrip() in (edit.apply(text) if edit and edited else text), (
            "run: python -m explain record traces"
        )
    assert trace.traffic() == experiment.traffic.totals()


def test_no_shipped_trace_is_left_over():
    assert set(recordings.files(".tilescope")) == {recordings.path_of(experiment) for experiment in shipped()}


def test_a_measurement_is_made_once_and_shown_by_later_reruns(monkeypatch):
    record = recordings.measured("verification-h200") or {}
    calls = []

    class Gpu:
        def __getattr__(self, name: str):
            return getattr(engine(), name)

        def device_if_known(self) -> DeviceStatus:
            return DeviceStatus(True, "", record["provenance"])

        def measure(self, experiment: Experiment, prefixes: Path, **_: object) -> Measurement:
            calls.append(experiment)
            return made(Measurement, {**record["opening"], "prefixes": []})

    monkeypatch.setattr(gpu_view, "engine", Gpu)
    test = page("flash_attention")
    test.button[0].click().run()
    told = texts(test)
    assert f"{record['opening']['timing']['median_ms'] * 1e3:.1f}" in told
    test.run()
    assert texts(test) == told
    assert calls == [lessons.OPENING]
