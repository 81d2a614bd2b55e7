"""What people ask is answered where docs/questions.md says: every screen opens, without an error, and has the words."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from explain.chapters.questions.asked import Question, questions


@pytest.mark.parametrize("question", questions(), ids=lambda question: f"{question.address}-{question.words}")
def test_the_screen_answers(page: Page, visit, question: Question):
    visit(question.address.strip("/"))
    # Words that the player keeps hidden in another view are not on screen.
    words = page.get_by_text(question.words).filter(visible=True).first
    expect(words).to_be_visible()
    if "#" in question.address:
        expect(words).to_be_in_viewport()
    expect(page.get_by_test_id("stException")).to_have_count(0)
    expect(page.get_by_text("Page not found")).to_have_count(0)


def test_the_app_has_the_table_too(page: Page, visit):
    visit("questions")
    for question in questions():
        if question.page is None:  # tests/explain/chapters/questions/test_questions.py says so
            continue
        expect(page.get_by_role("article").filter(has_text=question.answer.replace("*", "")[:40])).to_have_count(1)
