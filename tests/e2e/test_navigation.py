"""The bar above every page: it leads to each page at each width by mouse and keyboard; keys that scroll do.

By touch on a phone: test_newcomer.py.
"""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Locator, Page, expect

from explain import contents
from tests.e2e.server import Server
from tests.e2e.waiting import until

LISTED = [page for page in contents.pages() if page.kind != "hidden"]
TOP = "document.querySelector('[data-testid=stMain]').scrollTop"


def bar_of(page: Page) -> Locator:
    """The bar, its list of pages unfolded where it is folded."""
    bar = page.get_by_role("navigation", name="Pages")
    expect(bar).to_be_visible()
    menu = bar.get_by_role("button")
    if menu.is_visible() and menu.get_attribute("aria-expanded") == "false":
        menu.click()
    return bar


def test_every_page_is_in_sight_at_every_width_and_the_one_shown_is_marked(page: Page, visit) -> None:
    visit("speed")
    for width in (420, 1280, 1440, 1920):
        page.set_viewport_size({"width": width, "height": 900})
        links = bar_of(page).locator("li a")
        expect(links).to_have_count(len(LISTED))
        for link in links.all():
            expect(link).to_be_in_viewport(ratio=1)
        expect(page.locator("nav li [aria-current=page]")).to_have_attribute("href", "./speed")
        page.keyboard.press("Escape")


def test_the_keyboard_reaches_a_page_and_the_next(page: Page, visit) -> None:
    visit("glossary")
    link = bar_of(page).locator("li a[href='./measurements']")
    link.focus()
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("/measurements"))
    expect(page.locator("nav li [aria-current=page]")).to_have_attribute("href", "./measurements")
    before, after = page.locator("nav [rel=prev]"), page.locator("nav [rel=next]")
    expect(before).to_have_attribute("href", "./papers")
    expect(after).to_be_visible()
    before.click()
    expect(page).to_have_url(re.compile("/papers"))
    page.go_back()
    expect(page).to_have_url(re.compile("/measurements"))


@pytest.mark.parametrize(
    "address", ["softmax?temperature=4.0", "online_softmax?read=Tile+by+tile", "sweeps?sweep=Your+own"]
)
def test_a_page_is_left_with_its_controls_moved(page: Page, visit, address: str) -> None:
    """What a control keeps in the address stands in no page's way, and does not go along."""
    visit(address)
    bar_of(page).locator("li a[href='./questions']").click()
    expect(page).to_have_url(re.compile("/questions$"))
    expect(page.get_by_role("heading", level=1)).to_have_text("What people ask")


@pytest.mark.parametrize("stem", ["papers", "flash_attention"])
def test_the_keys_scroll_a_page_that_was_just_opened(page: Page, app: Server, stem: str) -> None:
    page.goto(f"{app.url}/{stem}")
    expect(page.locator("[data-test-script-state=notRunning]")).to_be_attached()
    expect(page.get_by_test_id("stMain")).to_be_focused()
    until(page, "(main => main.scrollHeight > 2 * main.clientHeight)(document.querySelector('[data-testid=stMain]'))")
    for key in ("PageDown", "Space", "End"):
        page.keyboard.press(key)
        until(page, f"{TOP} > 300")
        for _ in range(50):  # again while the page still grows
            page.keyboard.press("Home")
            page.wait_for_timeout(100)
            if page.evaluate(f"{TOP} === 0"):
                break
        assert page.evaluate(f"{TOP} === 0")


def test_back_right_after_a_control_has_been_used(page: Page, visit) -> None:
    """Two runs are asked for at once; the second refers to what the browser has from the page before.

    A busy machine may ask for them in the other order: then the page stays.
    """
    visit("online_softmax")
    visit("speed")
    for width, pause_ms in ((420, 1_000), (1440, 10)):
        page.set_viewport_size({"width": width, "height": 900})  # plots are drawn anew for a phone: the page runs
        page.wait_for_timeout(pause_ms)
    page.go_back(wait_until="commit")
    page.wait_for_timeout(1_000)
    expect(page.get_by_role("heading", level=1)).to_have_text(re.compile("Online softmax|Speed"))
    expect(page.get_by_role("dialog")).to_have_count(0)
