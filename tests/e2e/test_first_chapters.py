"""The first two chapters: tokens, heads and programs are chosen by mouse and by keyboard, and pictures follow."""

from __future__ import annotations

import re

from playwright.sync_api import Locator, Page, expect

from tests.e2e.conftest import rests


def picture(page: Page, label: str) -> Locator:
    return page.get_by_role("img", name=label)


def test_a_token_and_a_head_are_chosen_and_every_picture_follows(page: Page, visit):
    visit("attention")
    row = picture(page, "Attention of “it”")
    expect(row).to_be_visible()
    row.locator("[data-press='2']").click()
    expect(page).to_have_url(re.compile(r"token=2"))
    expect(picture(page, "Attention of “cat”")).to_be_visible()
    rests(page)
    heads = picture(page, "The weights of 12 heads")
    heads.locator("[data-press='2']").focus()
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"token=2.*head=2|head=2.*token=2"))
    expect(picture(page, "scores of head 2")).to_be_visible()
    expect(heads.locator("[aria-pressed=true]")).to_have_attribute("data-press", "2")


def test_a_larger_score_takes_from_the_others_while_the_page_stays(page: Page, visit):
    visit("attention?token=8")
    drawn = picture(page, "The weights, before and after")
    expect(drawn).to_be_visible()
    shares = drawn.locator("text", has_text="%")
    before = shares.all_text_contents()
    page.get_by_role("slider", name=re.compile("Add to the score")).press("End")
    expect(page).to_have_url(re.compile(r"more=8"))
    expect(shares).not_to_have_text(before)
    percents = [float(text.strip("<%")) for text in shares.all_text_contents()]
    assert abs(sum(percents) - 100) <= len(percents)  # each is rounded to a whole percent, up to 1% where it is less
    expect(picture(page, "Attention of “it”")).to_be_visible()


def test_a_program_is_chosen_and_its_lanes_are_shown(page: Page, visit):
    visit("first_kernel")
    programs = picture(page, "4 programs of 8 lanes")
    expect(programs.locator("[aria-pressed=true]")).to_have_attribute("data-press", "3")
    expect(picture(page, "The lanes of program 3")).to_be_visible()
    programs.locator("[data-press='1']").focus()
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"program=1"))
    for label in ("The offsets of program 1", "from which program 1 loads a", "The lanes of program 1"):
        expect(picture(page, label)).to_be_visible()


def test_the_kernels_tour_ends_at_the_last_store(page: Page, visit):
    visit("first_kernel?caption=9")
    player = page.get_by_test_id("player")
    expect(player).to_have_attribute("data-step", "31")
    expect(player.locator("[aria-current=step]")).to_contain_text("tl.store")
