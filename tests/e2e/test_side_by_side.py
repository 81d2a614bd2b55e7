"""Two runs stepped together: they meet at every tile visit, what differs is marked, and the first difference is found."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Locator, Page, expect

KERNELS = "&a.kernel=softmax_split_wrong&b.kernel=softmax_split"
EQUAL = "Up to rounding, the two runs hold the same values wherever both have seen the same columns."


def player(page: Page) -> Locator:
    return page.get_by_test_id("player")


@pytest.fixture
def opened(page: Page, app_url: str):
    """Opens two runs from an address and waits until they are drawn."""

    def opened(query: str = "") -> Page:
        page.goto(f"{app_url}/side_by_side?{query}")
        expect(player(page)).to_have_attribute("data-step", re.compile(r"\d+"))
        return page

    return opened


def says(page: Page) -> Locator:
    return page.locator(".parting .says")


def press_pair(page: Page, name: str) -> None:
    page.get_by_role("button", name=name).click()


def test_wrong_beside_right_part_in_the_sum_of_the_second_tile(opened):
    page = opened()
    press_pair(page, "Wrong and right")
    expect(says(page)).to_contain_text(re.compile(r"They first part in l_i: of row 0 it is 1\.819 .* and 2\.793"))
    expect(page).to_have_url(re.compile(r"a\.kernel=softmax_blocked_wrong&b\.kernel=softmax_online"))
    first = page.get_by_role("button", name="Go to the first difference")
    first.click()
    expect(player(page)).to_have_attribute("data-visit", "1")
    expect(page.locator(".parting .now")).to_contain_text("≠ l_i in 1 row")
    exponentials = page.locator(".counters td.differs")
    expect(exponentials.first).to_be_visible()
    mark = exponentials.first.evaluate("cell => getComputedStyle(cell, '::after').content")
    assert "≠" in mark  # not by colour alone
    page.keyboard.press("Home")
    expect(page.locator(".parting .now")).to_have_text("")
    page.keyboard.press("d")
    expect(player(page)).to_have_attribute("data-visit", "1")


def test_different_tile_sizes_step_together_by_tile_visit(opened):
    page = opened()
    press_pair(page, "Two tile sizes")
    expect(page.locator(".lane-title").first).to_contain_text("block_n 4")
    expect(page.locator(".lane-title").last).to_contain_text("block_n 8")
    expect(says(page)).to_have_text(EQUAL)
    page.locator(".player").focus()
    page.keyboard.press("Home")
    for _ in range(2):
        page.keyboard.press("PageDown")
        lines = [page.locator(".line.now .text").nth(i).inner_text() for i in (0, 1)]
        assert all("cols = start" in line for line in lines)


def test_an_overflow_counts_as_a_difference_and_passes_are_matched_by_tile(opened):
    page = opened()
    press_pair(page, "Naive and safe")
    expect(says(page)).to_contain_text(re.compile(r"They first part in p: of row 0, column 0 it is ∞ on the left"))
    press_pair(page, "Keys or queries outside")
    expect(says(page)).to_contain_text("They first part in o_i and acc")


def test_a_part_of_a_row_is_not_held_against_the_whole_and_standard_attention_parts_in_memory(opened):
    page = opened()
    expect(says(page)).to_have_text(
        re.compile(
            r"They first part in memory: the left writes s to HBM \(tile visit 1, line \d+\); the right has no s there\."
        )
    )
    page.get_by_role("button", name="Go to the first difference").click()
    expect(page.locator(".line.now .text").first).to_contain_text("tl.store(s_ptr")
    expect(page.locator(".parting .now")).to_have_text("")  # their scores are the same


def test_tiles_of_two_sizes_are_compared_where_both_have_seen_as_many_keys(opened):
    page = opened("a.kernel=softmax_blocked_wrong&b.kernel=softmax_online&b.block_n=4")
    expect(says(page)).to_contain_text("They first part in l_i: of row 0 it is 1.819 on the left")
    expect(says(page)).to_contain_text("The left is at columns 2–3, the right at 0–3.")


def test_equal_runs_are_said_to_be_equal(opened):
    page = opened("a.kernel=softmax_online&b.kernel=softmax_online")
    expect(says(page)).to_have_text("Up to rounding, the two runs hold the same values.")
    expect(page.get_by_role("button", name="Go to the first difference")).to_be_disabled()
    page.keyboard.press("End")
    expect(page.locator(".counters td.differs")).to_have_count(0)


def test_a_kernel_of_the_list_takes_its_side_and_the_address_leads_back(opened):
    page = opened("a.kernel=softmax_safe&b.kernel=softmax_online&b.inputs=ascending")
    titles = page.locator(".lane-title")
    expect(titles.first).to_contain_text("Safe softmax")
    page.get_by_role("combobox", name="Left kernel").click()
    page.get_by_role("option", name="Online softmax, two passes").click()
    expect(titles.first).to_contain_text("inputs notebook")
    expect(titles.last).to_contain_text("inputs ascending")
    page.wait_for_url("**a.kernel=softmax_online**")
    page.reload()
    expect(titles.first).to_contain_text("inputs notebook")
    expect(titles.last).to_contain_text("inputs ascending")


def test_two_runs_fit_a_laptops_screen_and_a_phones_width(opened):
    page = opened()
    press_pair(page, "Keys or queries outside")
    expect(page.locator(".lane-title").first).to_contain_text("FlashAttention-1")
    page.wait_for_timeout(500)
    for panel in ("source", "map", "rows"):
        for i in (0, 1):
            box = page.locator(f".panel.{panel}").nth(i).bounding_box()
            assert box is not None
            assert box["height"] > 90, panel
    frame = player(page).bounding_box()
    assert frame is not None
    assert frame["y"] + frame["height"] <= 900
    page.set_viewport_size({"width": 390, "height": 844})
    page.wait_for_timeout(500)
    assert page.evaluate("document.scrollingElement.scrollWidth <= innerWidth")


@pytest.mark.parametrize("order", ["tree", "left to right", "right to left"])
def test_sums_added_as_they_are_part_at_the_first_join_of_two_maxima_and_both_stand_on_its_line(opened, order):
    sizes = f"inputs=sentence_short&rows=1&cols=15&block_n=4&order={order.replace(' ', '+')}"
    page = opened("&".join(f"{side}.{part}" for side in "ab" for part in sizes.split("&")) + KERNELS)
    columns = "8–14" if order == "right to left" else "0–7"
    expect(says(page)).to_contain_text(
        f"They first part in l_i: of row 0, where the tiles of columns {columns} are joined"
    )
    first = page.get_by_role("button", name="Go to the first difference")
    first.click()
    lines = page.locator(".line.now .text")
    expect(lines.first).to_contain_text("l_i = l_i + l_j")
    expect(lines.last).to_contain_text("l_i = l_i * alpha + l_j * beta")
    expect(page.locator(".parting .now")).to_have_text("≠ l_i in 1 row")
    page.keyboard.press("ArrowLeft")
    expect(page.locator(".parting .now")).to_have_text("")


def test_pairs_joined_in_two_orders_are_the_same_wherever_they_hold_the_same_columns(opened):
    sizes = "inputs=sentence_short&rows=1&cols=15&block_n=4"
    both = "&".join(f"{side}.{part}" for side in "ab" for part in ["kernel=softmax_split", *sizes.split("&")])
    page = opened(f"{both}&a.order=tree&b.order=right+to+left")
    expect(says(page)).to_have_text(EQUAL)
