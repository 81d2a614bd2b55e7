"""Pages are found by what they say of themselves, and each chapter is whole."""

from __future__ import annotations

import re

import pytest

from explain import contents as chapters


def test_the_navigation_begins_at_home_and_goes_by_number():
    kinds = [page.kind for page in chapters.pages()]
    assert kinds[0] == "home"
    assert kinds == sorted(kinds, key=chapters.KINDS.index)
    for kind in ("chapter", "lab"):
        assert [page.number for page in chapters.of_kind(kind)] == list(range(1, len(chapters.of_kind(kind)) + 1))


def test_a_page_that_does_not_say_what_it_is_is_named(tmp_path, monkeypatch):
    (tmp_path / "odd.py").write_text('"""Something else."""\n')
    monkeypatch.setattr(chapters, "PAGES", tmp_path)
    chapters.pages.cache_clear()
    try:
        with pytest.raises(ValueError, match=r"pages/odd\.py: the docstring must begin with"):
            chapters.pages()
    finally:
        chapters.pages.cache_clear()


@pytest.mark.parametrize("page", chapters.chapters(), ids=lambda page: page.stem)
def test_a_chapter_has_its_goal_its_things_to_try_its_questions_and_its_sources(page):
    text = page.path.read_text()
    for part in ("goal=", "ui.try_this(", "ui.questions(", "ui.sources("):
        assert part in text, part


@pytest.mark.parametrize("page", chapters.of_kind("lab"), ids=lambda page: page.stem)
def test_a_page_of_the_lab_has_its_goal_and_its_sources(page):
    text = page.path.read_text()
    for part in ("goal=", "ui.sources("):
        assert part in text, part


@pytest.mark.parametrize("page", [*chapters.chapters(), *chapters.of_kind("lab")], ids=lambda page: page.stem)
def test_a_chapter_and_a_page_of_the_lab_have_notes_for_their_lecturer(page):
    text = page.notes.read_text()
    assert page.minutes
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == ["Say", "What students get wrong", "If there is time"]
