"""The ladder in a browser: one rung at a time, held by the address."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect


def test_the_address_holds_the_rung(page: Page, visit) -> None:
    visit("triton_ladder?rung=Three+passes")
    title = page.locator(".player .title")
    expect(title).to_have_text("Safe softmax, three passes")
    page.get_by_role("button", name=re.compile("^Online:")).click()
    expect(title).to_have_text("Online softmax, two passes")
    page.wait_for_url("**rung=Online**")
    expect(page.locator("[data-press][aria-pressed=true]")).to_have_attribute("data-press", "Online")
    expect(page.locator(".player")).to_have_count(1)
    expect(page.locator(".player .failure")).to_be_hidden()
    expect(page.locator(".player")).to_have_attribute("data-caption", "1")  # each rung has a tour
