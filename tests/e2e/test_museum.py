"""What breaks, in a browser: a button goes to a variable's first difference, the game answers."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from explain import recordings
from explain.chapters.what_breaks.divergence import compared, divergences
from explain.player.component import Run
from explain.player.view import view
from explain.trace.file import TraceFile
from kernels.museum import EXHIBITS
from tests.e2e.conftest import rests


def test_a_button_goes_to_the_first_difference_of_its_variable(page: Page, visit):
    visit("what_breaks?exhibit=zero_for_minus_inf&step=0&depth=code")
    player = page.get_by_test_id("player")
    expect(player).to_have_attribute("data-step", "0")
    button = page.locator(".st-key-chain").get_by_role("button", name="α", exact=True)
    steps = set()
    for _ in range(2):  # also a second time, after walking away
        button.click()
        expect(player).not_to_have_attribute("data-step", "0")
        steps.add(player.get_attribute("data-step"))
        rests(page)
        page.locator(".player").press("Home")
        expect(player).to_have_attribute("data-step", "0")
    assert len(steps) == 1


def test_another_exhibit_opens_at_its_own_first_difference_after_the_tour_was_left(page: Page, visit):
    visit("what_breaks")
    player = page.get_by_test_id("player")
    page.get_by_role("button", name="Go to the first difference").click()
    expect(player).not_to_have_attribute("data-caption", re.compile("."))
    page.locator(".st-key-exhibit").get_by_role("radio", name="Sum from 1?").click()
    right, broken = (
        TraceFile(recordings.path_of(one).read_bytes()).trace for one in compared(EXHIBITS["sum_from_one"])
    )
    expect(player).to_have_attribute("data-step", str(divergences(right, broken)[0].step))


def test_the_game_answers(page: Page, visit):
    visit("what_breaks?exhibit=acc_not_rescaled")
    page.get_by_role("button", name="Try random normal numbers").click()
    expect(page.locator(".verdicts [data-passes=false]")).to_be_visible()
    page.get_by_role("button", name="Watch it").click()
    expect(page.get_by_role("button", name="Back to the exhibit")).to_be_visible()


@pytest.mark.parametrize(
    ("exhibit", "parts"),
    [
        ("zero_for_minus_inf", ("m_i", "0", "-Infinity", "0")),
        ("finite_mask", ("s", "0,1", "-Infinity", "-10000")),
        ("sum_from_one", ("l_i", "0", "0", "1")),
        ("nan_swallowed", ("l_i", "", "NaN", "1")),
    ],
)
def test_the_player_names_the_first_difference(alone: Callable[..., Page], exhibit: str, parts: tuple[str, ...]):
    """At the step of the page's first button."""
    pair = compared(EXHIBITS[exhibit])
    files = [TraceFile(recordings.path_of(one).read_bytes()) for one in pair]
    page = alone(*(Run(file, view(one, file.trace, "recorded")) for one, file in zip(pair, files, strict=True)))
    for name, value in zip(("name", "index", "left", "right"), parts, strict=True):
        expect(page.locator(".difference")).to_have_attribute(f"data-{name}", value)
    right, broken = (file.trace for file in files)
    page.get_by_role("button", name="Go to the first difference").click()
    step = min(one.step for one in divergences(right, broken))
    expect(page.get_by_test_id("player")).to_have_attribute("data-step", str(step))
