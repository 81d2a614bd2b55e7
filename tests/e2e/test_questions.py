"""An address of docs/questions.md scrolls to its section."""

from __future__ import annotations

from playwright.sync_api import Page, expect

from explain.chapters.questions.asked import questions


def test_an_address_scrolls_to_its_section(page: Page, visit):
    """tests/explain/chapters/questions finds each address's section on its page."""
    address = next(one.address for one in questions() if "#" in one.address)
    visit(address)
    expect(page.locator(f"[id='{address.partition('#')[2]}']")).to_be_in_viewport()
