"""A tile's instructions in a browser: a line chosen shows its own, an instruction chosen shows its line."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect


def test_a_line_and_its_instructions_find_each_other(page: Page, visit):
    visit("tile_cost?listing=true")
    line = page.locator(".lines .row", has_text="p = tl.exp(s - m_safe")
    expect(line).to_have_class(re.compile("chosen"))  # the line with most instructions, until another is chosen
    line.click()
    expect(line).not_to_have_class(re.compile("chosen"))
    line.click()
    expect(page.get_by_text(re.compile(r"Line \d+: 32 × exponential"))).to_be_visible()
    chosen = page.locator(".code .row.chosen")
    assert chosen.count() > 32
    assert chosen.first.evaluate(
        "row => row.getBoundingClientRect().top >= row.parentElement.getBoundingClientRect().top"
    )
    page.get_by_role("button", name="matmul").click()
    matmul = page.locator(".code .row:not(.faded)", has_text="GMMA").first
    matmul.click()
    expect(page.locator(".lines .row.chosen")).to_contain_text("tl.dot")
    page.get_by_role("button", name="PTX", exact=True).click()
    expect(page.locator(".code")).to_contain_text("wgmma.mma_async")
    first = page.locator(".lines .row[tabindex]").first
    first.focus()
    page.keyboard.press("ArrowDown")
    second = page.locator(".lines .row[tabindex]").nth(1)
    expect(second).to_be_focused()
    expect(second).to_have_class(re.compile("chosen"))


def test_a_kind_pressed_by_key_keeps_the_focus_and_shows_its_first_instruction(page: Page, visit):
    visit("tile_cost?listing=true")
    kind = page.get_by_role("button", name="exponential")
    kind.focus()
    for pressed in ("true", "false", "true"):
        page.keyboard.press("Enter")
        expect(kind).to_have_attribute("aria-pressed", pressed)
        expect(kind).to_be_focused()
    first = page.locator(".code .row:not(.faded)", has_text="MUFU.EX2").first
    expect(first).to_be_in_viewport()
    page.keyboard.press("Tab")
    expect(page.get_by_role("button", name="float arithmetic")).to_be_focused()
