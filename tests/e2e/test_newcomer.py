"""A newcomer's way in: the opening, a line of it, the first chapter and a question, a first kernel, online softmax.

Once with the keyboard alone in dark mode, once by touch alone on a phone. The mouse is every other test's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.e2e.conftest import PATIENCE_MS, watched
from tests.e2e.server import Server

WAYS: Mapping[str, Mapping[str, Any]] = {
    "keyboard": {"viewport": {"width": 1440, "height": 900}, "color_scheme": "dark"},
    "touch": {"viewport": {"width": 420, "height": 900}, "color_scheme": "light", "has_touch": True, "is_mobile": True},
}


@dataclass(frozen=True)
class Reader:
    """A reader with one kind of input."""

    page: Page
    way: str

    def press(self, target: Locator) -> None:
        """Presses a link, a button or a field that this reader can reach."""
        expect(target).to_be_visible()
        if self.way == "keyboard":
            target.focus()
            assert target.evaluate("element => element.tabIndex") >= 0
            assert target.evaluate("element => element.getRootNode().activeElement === element")
            if not target.evaluate("element => element.matches('input')"):
                self.page.keyboard.press("Enter")
        else:
            target.tap()

    def opens(self, page: str) -> None:
        """Follows the bar's link to a page."""
        bar = self.page.get_by_role("navigation", name="Pages")
        expect(bar).to_be_visible()
        menu = bar.get_by_role("button")
        if menu.is_visible():
            self.press(menu)
        self.press(bar.locator(f"li a[href='./{page}']"))
        expect(self.page).to_have_url(re.compile(f"/{page}"))
        if self.way == "touch":
            expect(menu).to_have_attribute("aria-expanded", "false")  # it folds itself

    def forward(self, button: Locator) -> None:
        """Goes on: → on the keyboard, else its button."""
        if self.way == "keyboard":
            self.page.keyboard.press("ArrowRight")
        else:
            self.press(button)

    def to_the_end(self, slider: Locator) -> None:
        """Moves a slider to its end."""
        box = slider.bounding_box()
        assert box
        end = (box["x"] + box["width"] - 2, box["y"] + box["height"] / 2)
        if self.way == "keyboard":
            self.press(slider)
            self.page.keyboard.press("End")
        else:
            self.page.touchscreen.tap(*end)

    def answers(self, question: Locator, given: int) -> str:
        """Gives an answer and returns the verdict on it."""
        field, verdict = question.locator("input"), question.locator(".verdict")
        before = verdict.get_attribute("data-verdict") if verdict.count() else ""
        self.press(field)
        self.page.keyboard.press("ControlOrMeta+a")
        self.page.keyboard.type(str(given))
        if self.way == "keyboard":
            self.page.keyboard.press("Enter")
        else:
            self.press(question.locator("[type=submit]"))
        expect(verdict).not_to_have_attribute("data-verdict", before or "")
        return verdict.get_attribute("data-verdict") or ""


@pytest.fixture(params=WAYS)
def reader(request: pytest.FixtureRequest, browser: Browser, app: Server) -> Iterator[Reader]:
    context = browser.new_context(**WAYS[request.param])
    context.set_default_timeout(PATIENCE_MS)
    page = context.new_page()
    with watched(page, app):
        yield Reader(page, request.param)
        page.goto("about:blank")
    context.close()


def step_of(page: Page) -> int:
    return int(page.get_by_test_id("player").get_attribute("data-step") or -1)


def test_a_newcomer_finds_the_way_in(reader: Reader, app_url: str):
    page = reader.page
    page.goto(app_url)
    opening, player = page.get_by_test_id("opening"), page.get_by_test_id("player")

    # The opening plays by itself; the reader skips through it to its end.
    expect(opening).to_have_attribute("data-playing", "true")
    expect(opening).to_have_attribute("data-theme", WAYS[reader.way]["color_scheme"])
    onward, scenes = opening.locator(".on"), int(opening.get_attribute("data-scenes") or 0)
    seen = [opening.get_attribute("data-scene")]
    while seen[-1] != "bills":
        reader.forward(onward)
        expect(opening).not_to_have_attribute("data-scene", seen[-1] or "")
        seen.append(opening.get_attribute("data-scene"))
    assert len(seen) == len(set(seen))
    assert scenes / 2 < len(seen) <= scenes  # on a busy machine some end by themselves
    reader.to_the_end(opening.locator(".time"))
    expect(opening).to_have_attribute("data-playing", "false")
    assert float(opening.get_attribute("data-time") or 0) > float(opening.get_attribute("data-seconds") or 0) - 1

    # Back to the scene of the insight, and from it to its line.
    while opening.get_attribute("data-scene") != "larger":
        reader.press(opening.locator(".back"))
    link = opening.locator(".controls .code")
    step = int((link.get_attribute("href") or "").split("step=")[1].split("&")[0])
    reader.press(link)
    expect(player).to_have_attribute("data-step", str(step))
    expect(player.locator("[aria-current=step]")).to_contain_text("alpha")

    # The first chapter, by the first door; one question answered wrong and then right.
    reader.opens("attention")
    chosen = page.get_by_role("img", name=re.compile("^Attention of")).locator("[data-press]")
    expect(chosen.first).to_be_visible()
    tokens = chosen.count()
    question = page.locator(".exercises li[data-name=three-times-as-long]")
    assert reader.answers(question, tokens * tokens) == "wrong"
    assert reader.answers(question, 9 * tokens * tokens) == "right"
    expect(question).to_have_attribute("data-done", "")

    # A first kernel: its tour begins by itself and goes on.
    reader.opens("first_kernel")
    expect(player).to_have_attribute("data-caption", "1")
    first = step_of(page)
    reader.press(player.locator(".tour [data-do=next]"))
    expect(player).to_have_attribute("data-caption", "2")
    assert step_of(page) > first

    # Online softmax by its tour, to the end.
    reader.opens("online_softmax")
    expect(player).to_have_attribute("data-caption", "1")
    captions = int((player.locator(".tour .of").text_content() or "").split()[-1])
    onward, steps = player.locator(".tour [data-do=next]"), [step_of(page)]
    for caption in range(2, captions + 1):
        reader.press(onward)
        expect(player).to_have_attribute("data-caption", str(caption))
        steps.append(step_of(page))
    assert steps == sorted(steps)
    assert len(set(steps)) == captions
    reader.press(onward)
    expect(player).not_to_have_attribute("data-caption", re.compile("."))
    expect(player.locator(".tour")).to_be_hidden()
