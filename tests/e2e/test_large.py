"""A plot or a picture across the whole window, for a hall: its text grows with it."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect

HEIGHT = "text => text.getBoundingClientRect().height"


def test_a_plots_full_screen_button_enlarges_its_text_too(page: Page, visit):
    visit("sweeps?witness=formula")
    plot = page.get_by_test_id("stPlotlyChart").first
    expect(plot.locator(".main-svg").first).to_be_visible()
    before = plot.locator("text.gtitle").evaluate(HEIGHT)
    plot.hover()
    plot.locator("[data-title='Fullscreen']").click()
    large = page.locator("dialog.large")
    assert large.locator("text.gtitle").evaluate(HEIGHT) > 1.3 * before
    page.keyboard.press("Escape")
    expect(large).to_have_count(0)


def test_the_key_l_shows_the_picture_under_the_pointer_and_closes_it(page: Page, visit):
    visit("tile_cost")
    picture = page.get_by_role("img", name="limited by").first
    before = picture.locator("text").first.evaluate(HEIGHT)
    picture.hover()
    expect(page.get_by_title("Large · L")).to_be_visible()
    page.keyboard.press("l")
    large = page.locator("dialog.large")
    assert large.locator("text").first.evaluate(HEIGHT) > 1.3 * before
    page.keyboard.press("l")
    expect(large).to_have_count(0)
    page.keyboard.press("f")
    expect(large).to_have_count(1)
    page.keyboard.press("f")
    expect(large).to_have_count(0)
    page.get_by_role("combobox", name="Kernel").press("l")  # who types wants no picture
    expect(large).to_have_count(0)


def test_the_key_f_is_the_players_where_a_page_has_one(page: Page, visit):
    visit("online_softmax")
    player = page.get_by_test_id("player")
    expect(player).to_be_visible()
    page.keyboard.press("f")
    expect(player).to_have_class(re.compile("presenting"))
    expect(page.locator("dialog.large")).to_have_count(0)
