"""The first page leads to every chapter and tool, and says what was measured beforehand."""

from __future__ import annotations

import json

from streamlit.testing.v1 import AppTest

from explain import ROOT, recordings
from explain import contents as chapters
from explain.chapters.home import figures
from tests.pages import texts


def opened() -> AppTest:
    test = AppTest.from_file(str(ROOT / "app.py"), default_timeout=60).run()
    assert not test.exception
    return test


def test_it_leads_to_every_chapter_lab_and_tool():
    test = opened()
    links = [link.proto.label for link in test.get("page_link")]
    said = texts(test)
    for page in (*chapters.chapters(), *chapters.of_kind("lab"), *chapters.of_kind("tool")):
        assert any(page.title in link for link in links), page.title
        assert page.about in said
        assert page.minutes is None or f"{page.minutes} min" in said
    assert f"{sum(page.minutes or 0 for page in chapters.chapters())} min" in said


def test_what_was_measured_is_what_the_files_say():
    test = opened()
    hall = json.loads((ROOT / "benchmarks/results/classroom_load.json").read_text())
    assert str(hall["students"]) in texts(test)
    assert (recordings.measured("verification-h200") or {})["provenance"]["gpu"] in texts(test)


def test_without_a_measurement_nothing_is_claimed(monkeypatch, tmp_path):
    monkeypatch.setattr(figures, "HALL", tmp_path / "none.json")
    monkeypatch.setattr(recordings, "FOLDER", tmp_path)
    assert figures.lecture_hall() == figures.verified() == ""
