"""The table of questions is whole: each leads to a page there is."""

from __future__ import annotations

import pytest

from explain.chapters.questions import asked as questions


def test_a_question_leads_to_a_page_and_names_its_source():
    for question in questions.questions():
        assert question.page is not None, question
        assert question.group
        assert "](https://github.com/" in question.sources
        assert question.answer
        assert question.words


def test_a_row_with_a_cell_missing_is_named(tmp_path, monkeypatch):
    document = tmp_path / "questions.md"
    document.write_text("## group\n| question | b | c | d |\n|---|---|---|---|\n| why? | `/` | here |\n")
    monkeypatch.setattr(questions, "DOCUMENT", document)
    with pytest.raises(ValueError, match=r"why.*has 3 cells, not 4"):
        questions.questions()
