"""What breaks, in a browser: it opens where the runs part, a button goes to a variable's step, the game answers."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect


def test_it_opens_where_they_part_and_a_button_goes_on(page: Page, app_url: str):
    page.goto(f"{app_url}/what_breaks?exhibit=zero_for_minus_inf")
    player = page.get_by_test_id("player")
    first = page.get_by_role("button", name=re.compile(r" · step \d+")).first
    (step,) = re.findall(r"step (\d+)", first.inner_text())
    expect(player).to_have_attribute("data-step", step)
    button = page.get_by_role("button", name=re.compile(r"alpha · step \d+"))
    (step,) = re.findall(r"step (\d+)", button.inner_text())
    for _ in range(2):  # also a second time, after walking away
        button.click()
        expect(player).to_have_attribute("data-step", step)
        page.locator(".player").press("Home")
        expect(player).to_have_attribute("data-step", "0")


@pytest.mark.parametrize(
    ("exhibit", "parts"),
    [
        ("zero_for_minus_inf", ("m_i", "0", "-Infinity", "0")),
        ("finite_mask", ("s", "0,1", "-Infinity", "-10000")),
        ("sum_from_one", ("l_i", "0", "0", "1")),
        ("nan_swallowed", ("l_i", "", "NaN", "1")),
    ],
)
def test_the_player_names_the_first_difference(page: Page, app_url: str, exhibit: str, parts: tuple[str, ...]):
    page.goto(f"{app_url}/what_breaks?exhibit={exhibit}")
    for name, value in zip(("name", "index", "left", "right"), parts, strict=True):
        expect(page.locator(".difference")).to_have_attribute(f"data-{name}", value)
    step = page.get_by_test_id("player").get_attribute("data-step")
    page.locator(".player").press("End")
    page.get_by_role("button", name="Go to the first difference").click()
    expect(page.get_by_test_id("player")).to_have_attribute("data-step", str(step))


def test_the_game_answers(page: Page, app_url: str):
    page.goto(f"{app_url}/what_breaks?exhibit=acc_not_rescaled")
    page.get_by_role("button", name="Try random normal numbers").click()
    expect(page.locator(".verdicts [data-passes=false]")).to_be_visible()
    page.get_by_role("button", name="Watch it").click()
    expect(page.get_by_role("button", name="Back to the exhibit")).to_be_visible()
