"""Pages are found by what they say of themselves, and each chapter is whole."""

from __future__ import annotations

import re

import pytest

from explain import contents


def test_the_navigation_begins_at_home_and_goes_by_number():
    kinds = [page.kind for page in contents.pages()]
    assert kinds[0] == "home"
    assert kinds == sorted(kinds, key=contents.KINDS.index)
    for kind, first in (("chapter", 0), ("lab", 1)):
        pages = contents.of_kind(kind)
        assert [page.number for page in pages] == list(range(first, first + len(pages)))


def test_a_page_that_does_not_say_what_it_is_is_named(tmp_path, monkeypatch):
    (tmp_path / "odd.py").write_text('"""Something else."""\n')
    monkeypatch.setattr(contents, "PAGES", tmp_path)
    contents.pages.cache_clear()
    try:
        with pytest.raises(ValueError, match=r"pages/odd\.py: the docstring must begin with"):
            contents.pages()
    finally:
        contents.pages.cache_clear()


def test_a_chapter_and_a_page_of_the_lab_have_notes_for_their_lecturer():
    for page in (*contents.chapters(), *contents.of_kind("lab")):
        assert page.notes.exists(), page.stem
        assert page.minutes, page.stem


def test_a_chapters_number_stands_in_its_page_only():
    """Chapters move; a mention by title stays right."""
    files = [
        path
        for pattern in ("README.md", "docs/**/*.md", "pages/*.py", "explain/**/*.py", "explain/**/*.toml")
        for path in contents.PAGES.parent.glob(pattern)
        if path.name != "contents.py"
    ]
    assert len(files) > 100
    numbered = [
        (path.name, line)
        for path in files
        for at, line in enumerate(path.read_text(encoding="utf-8").splitlines())
        if re.search(r"\bchapters? \d", line, re.IGNORECASE) and not (path.parent == contents.PAGES and at == 0)
    ]
    assert not numbered
