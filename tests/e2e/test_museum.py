"""What breaks, in a browser: it opens where the runs part, a button goes to a variable's step, the game answers."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect

PATIENCE_MS = 90_000  # both kernels are run, on a busy machine


def test_it_opens_where_they_part_and_a_button_goes_on(page: Page, app_url: str):
    page.goto(f"{app_url}/what_breaks?exhibit=no_running_max")
    player = page.get_by_test_id("player")
    expect(page.get_by_text("They part at step")).to_be_visible(timeout=PATIENCE_MS)
    words = page.get_by_text("They part at step").inner_text()
    (step,) = re.findall(r"part at step (\d+)", words)
    expect(player).to_have_attribute("data-step", str(int(step) - 1))
    button = page.get_by_role("button", name=re.compile(r"alpha · step \d+"))
    (step,) = re.findall(r"step (\d+)", button.inner_text())
    for _ in range(2):  # also a second time, after walking away
        button.click()
        expect(player).to_have_attribute("data-step", str(int(step) - 1), timeout=PATIENCE_MS)
        page.locator(".player").press("Home")
        expect(player).to_have_attribute("data-step", "0")


def test_the_game_answers(page: Page, app_url: str):
    page.goto(f"{app_url}/what_breaks?exhibit=acc_not_rescaled")
    page.get_by_role("button", name="Try plain normal numbers").click(timeout=PATIENCE_MS)
    expect(page.get_by_text("It breaks.")).to_be_visible(timeout=PATIENCE_MS)
    page.get_by_role("button", name="Watch it").click()
    expect(page.get_by_text("On an input of yours: plain normal numbers.")).to_be_visible(timeout=PATIENCE_MS)
