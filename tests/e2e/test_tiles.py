"""Memory hierarchy and FlashAttention in a browser: pictures are drawn, a tile is compiled in the background."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect

from tests.e2e.conftest import rests

AT_WORK = re.compile("waiting for the compiler|compiling flash_attention_kernel")
DONE = re.compile("compiled on this machine · triton")


def test_the_memory_is_drawn_and_changes_with_the_gpu(page: Page, visit):
    visit("memory_hierarchy")
    rests(page)  # before its style has come, the picture for phones is seen too
    picture = page.get_by_role("img", name="Memory of the H200 to scale, by area", exact=True)
    expect(picture).to_be_visible()
    box = picture.bounding_box()
    assert box is not None
    assert box["width"] > 300
    page.get_by_text("T4", exact=True).click()
    expect(page.get_by_role("img", name="Memory of the T4 to scale, by area", exact=True)).to_be_visible()


def test_a_tile_is_compiled_in_the_background_and_its_numbers_arrive_by_themselves(page: Page, visit):
    visit("flash_attention?view=Tile+sizes")
    held = page.get_by_text(re.compile("An SM of the H200 holds"))
    expect(held).to_contain_text("4 programs")
    page.get_by_role("button", name=re.compile("^16 × 16:")).click()
    expect(held).to_contain_text("9 programs")
    page.wait_for_url("**tile=16x16**")
    rests(page)
    page.get_by_text("bf16", exact=True).click()
    expect(page.get_by_role("radio", name="bf16", exact=True)).to_be_checked()
    rests(page)
    compiling, compiled = page.get_by_text("Compile this tile for sm_90", exact=True), page.get_by_text(DONE)
    expect(compiling.or_(compiled)).to_be_visible()
    if compiling.is_visible():  # a try before may have compiled it
        compiling.click()
        expect(page.get_by_text(AT_WORK)).to_be_visible()
    expect(compiled).to_be_visible()
    expect(held).to_be_visible()
