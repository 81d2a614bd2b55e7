"""The ladder in a browser: one rung at a time, held by the address."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect

from explain import tours


def test_the_address_holds_the_rung(page: Page, visit) -> None:
    visit("triton_ladder?rung=Three+passes")
    title = page.locator(".player .title")
    expect(title).to_have_text("Safe softmax, three passes")
    page.get_by_role("button", name=re.compile("^Online:")).click()
    expect(title).to_have_text("Online softmax, two passes")
    page.wait_for_url("**rung=Online**")
    expect(page.locator(".wide [data-press][aria-pressed=true]")).to_have_attribute("data-press", "Online")
    expect(page.locator(".player")).to_have_count(1)
    expect(page.locator(".player .failure")).to_be_hidden()
    expect(page.locator(".player")).to_have_attribute("data-caption", "1")  # each rung has a tour


def test_the_button_leads_to_rung_3_as_it_breaks_with_a_tour_from_the_beginning(page: Page, visit) -> None:
    visit("triton_ladder?rung=Online")
    expect(page.locator(".player")).to_have_attribute("data-caption", "1")
    page.get_by_role("button", name="Up to 89: rung 3 breaks").click()
    expect(page.locator(".player .title")).to_have_text("Naive softmax")
    expect(page.locator(".player")).to_have_attribute("data-caption", "1")
    page.wait_for_url("**inputs=edge**")


def test_the_end_of_a_rungs_tour_leads_to_the_next_rung(page: Page, visit) -> None:
    tour = tours.named("triton_ladder/4_three_passes")
    visit(f"triton_ladder?rung=Three+passes&caption={len(tour.captions)}")
    page.get_by_role("button", name="Next: Online").click()
    expect(page.locator(".player .title")).to_have_text("Online softmax, two passes")
    expect(page.locator(".player")).to_have_attribute("data-caption", "1")
