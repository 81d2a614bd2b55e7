"""The lab's page of three numbers: a link shows its bytes by buffer, a term of the formula leads into the player."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.e2e.conftest import rests


@pytest.fixture
def opened(page: Page, visit):
    """Opens the page from an address and waits until its player can be stepped."""

    def opened(query: str) -> Page:
        visit(f"three_numbers?{query}")
        expect(player(page)).to_have_attribute("data-step", re.compile(r"\d+"))
        return page

    return opened


def player(page: Page) -> Locator:
    return page.get_by_test_id("player")


def test_a_link_shows_its_bytes_by_buffer_by_mouse_and_by_key(opened):
    page = opened("kernel=flash_attention")
    told = page.locator(".stMarkdown")
    by_buffer = told.get_by_role("columnheader", name="◉ trace", exact=True)
    expect(by_buffer).to_be_visible()
    page.get_by_role("button", name="HBM ↔ L2").click()
    expect(page).to_have_url(re.compile("link=dram"))
    expect(by_buffer).to_have_count(0)
    page.get_by_text("The prediction, buffer by buffer").click()
    expect(told.filter(has_text="predicted reads")).to_be_visible()
    rests(page)
    shared = page.get_by_role("button", name="Programs ↔ shared memory")
    shared.focus()
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("link=shared"))
    expect(shared).to_have_attribute("aria-pressed", "true")


def test_a_term_goes_to_its_first_load_and_marks_all_of_them(opened):
    page = opened("kernel=flash_attention&step=0")
    page.get_by_role("button", name="Loads of v", exact=True).click()
    expect(page.locator(".counters td.followed")).to_have_count(1)
    expect(page.locator(".counters td.followed")).to_have_class(re.compile("lit"))
    expect(page.locator(".watch select")).to_have_value("loads of v")
    first = int(player(page).get_attribute("data-step") or 0)
    assert first > 0
    # two tiles of queries, two of keys: V is loaded four times, and the watch's buttons go from load to load
    expect(page.locator(".watch .moves")).to_have_attribute("data-of", "1/4")
    page.locator(".watch [data-do=nextMove]").click()
    expect(page.locator(".watch .moves")).to_have_attribute("data-of", "2/4")
    expect(page.locator(".counters td.followed")).to_have_class(re.compile("lit"))
    page.get_by_role("button", name="Loads of v", exact=True).click()  # asked for again
    expect(player(page)).to_have_attribute("data-step", str(first))


def test_a_term_that_another_launch_calls_otherwise_is_found(opened):
    page = opened("kernel=attention_standard")
    page.get_by_role("button", name="Loads of p", exact=True).click()
    expect(page.locator(".watch .moves")).to_have_attribute("data-of", re.compile("^1/"))
    expect(page.locator(".counters td.followed")).to_have_class(re.compile("lit"))


@pytest.mark.parametrize("depth", ["idea", "code"])
def test_a_terms_loads_are_marked_on_the_timeline_at_each_depth(opened, depth):
    page = opened("kernel=flash_attention")
    page.get_by_role("button", name="Loads of v", exact=True).click()
    expect(page.locator(".watch select")).to_have_value("loads of v")
    chosen = player(page).locator(f"[data-depth={depth}]")
    chosen.click()
    expect(chosen).to_have_attribute("aria-pressed", "true")
    expect(page.locator(".timeline-key .watched")).to_have_text("▼ loads of v")
