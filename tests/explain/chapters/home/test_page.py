"""The first page leads to every chapter and tool, and says what was measured beforehand."""

from __future__ import annotations

import pytest

from explain import contents as chapters
from explain import recordings
from explain.chapters.home import figures
from tests.pages import opened, texts


def test_it_leads_to_every_chapter_lab_and_tool():
    test = opened("main.py")
    links = [link.proto.label for link in test.get("page_link")]
    said = texts(test)
    for page in (*chapters.chapters(), *chapters.of_kind("lab"), *chapters.of_kind("tool")):
        assert any(page.title in link for link in links), page.title
        assert page.about in said
        assert page.minutes is None or f"{page.minutes} min" in said
    assert figures.about(sum(page.minutes or 0 for page in chapters.chapters())) in said


def test_a_door_leads_to_the_first_chapter_and_to_the_notes():
    pages = [link.proto.page for link in opened("main.py").get("page_link")]
    first = chapters.chapters()[0].stem
    assert pages[:3] == [first, "online_softmax", "flash_attention"]
    assert pages[3:7] == [first, "write_it", "notes", "your_kernel"]


@pytest.mark.parametrize(("minutes", "like"), [(5, 30), (46, 60), (80, 90), (124, 120), (144, 150), (370, 360)])
def test_a_length_of_time_is_said_in_half_hours(minutes, like):
    assert figures.about(minutes) == figures.about(like)
    with pytest.raises(ValueError, match="minutes=600"):
        figures.about(600)


@pytest.mark.parametrize(
    ("minutes", "said"), [(0.3, "about a minute"), (1.05, "about a minute"), (1.6, "about 2 minutes")]
)
def test_the_films_length_is_said_in_minutes(minutes, said):
    assert figures.in_minutes(minutes) == said


def test_an_old_link_to_a_step_leads_to_the_same_step_of_the_chapter():
    test = opened("main.py", step="330")
    assert test.query_params["step"] == "330"
    assert test.title[0].value == chapters.page_of("flash_attention").title


def test_what_was_measured_is_what_the_files_say():
    test = opened("main.py")
    assert (recordings.measured("verification-h200") or {})["provenance"]["gpu"] in texts(test)


def test_without_a_measurement_nothing_is_claimed(monkeypatch, tmp_path):
    monkeypatch.setattr(recordings, "FOLDER", tmp_path)
    assert figures.verified() == ""
