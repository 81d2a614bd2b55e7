"""Two runs stepped together: they meet at every tile visit, differences are marked, and the first one is found."""

from __future__ import annotations

import math
import re
from typing import Literal

import pytest
from playwright.sync_api import Locator, Page, expect

from explain.chapters.side_by_side.pairs import PAIRS
from explain.engine import engine
from tests.e2e.conftest import rests
from tests.e2e.text_sizes import LETTERS
from tests.e2e.waiting import until

KERNELS = "&a.kernel=softmax_split_wrong&b.kernel=softmax_split"


def player(page: Page) -> Locator:
    return page.get_by_test_id("player")


@pytest.fixture
def opened(page: Page, visit):
    """Opens two runs from an address, waits until they are drawn, and leaves their tour for the code."""

    def opened(query: str = "") -> Page:
        visit(f"side_by_side?{query}")
        expect(player(page)).to_have_attribute("data-step", re.compile(r"\d+"))
        if player(page).get_attribute("data-caption"):
            player(page).press("Escape")
            page.keyboard.press("i")
        return page

    return opened


def difference(page: Page, name: str | None = None) -> Locator:
    """The line that tells the first difference; its data attributes have name, index and both values."""
    box = page.locator(".difference")
    if name is not None:
        expect(box).to_have_attribute("data-name", name)
    return box


def values(page: Page) -> tuple[str, float, float]:
    """The first difference: its index, and its value on the left and on the right."""
    index, *sides = (difference(page).get_attribute(f"data-{part}") or "" for part in ("index", "left", "right"))
    left, right = (float(side.replace("Infinity", "inf")) for side in sides)
    return index, left, right


def keeps_its_size(page: Page) -> None:
    """Waits until the player has kept its size for a while."""
    before = None
    while (now := player(page).bounding_box()) != before or now is None:
        before = now
        page.wait_for_timeout(250)


def press_pair(page: Page, name: str) -> None:
    rests(page)
    page.get_by_role("button", name=name).click()


def test_the_pairs_of_the_page_are_compared_one_after_the_other(opened):
    page = opened()
    standard_attention_parts_in_memory(page)
    wrong_beside_right_parts_in_the_sum_of_the_second_tile(page)
    different_tile_sizes_step_together_by_tile_visit(page)
    an_overflow_counts_as_a_difference_and_passes_are_matched_by_tile(page)
    two_runs_fit_a_laptops_screen_and_a_phones_width(page)


def wrong_beside_right_parts_in_the_sum_of_the_second_tile(page: Page) -> None:
    press_pair(page, "Wrong and right")
    difference(page, "l_i")
    index, *sides = values(page)
    assert index == "0"
    assert sides == pytest.approx([1.8187, 2.7931], abs=1e-4)
    expect(page).to_have_url(re.compile(r"a\.kernel=softmax_blocked_wrong&b\.kernel=softmax_online"))
    first = page.get_by_role("button", name="Go to the first difference")
    first.click()
    expect(player(page)).to_have_attribute("data-visit", "1")
    expect(page.locator(".difference .now")).to_contain_text("≠ l_i in 1 row")
    exponentials = page.locator(".counters td.differs")
    expect(exponentials.first).to_be_visible()
    mark = exponentials.first.locator("b").evaluate("number => getComputedStyle(number, '::before').content")
    assert "≠" in mark  # not by colour alone
    page.keyboard.press("Home")
    expect(page.locator(".difference .now")).to_have_text("")
    page.keyboard.press("d")
    expect(player(page)).to_have_attribute("data-visit", "1")


def different_tile_sizes_step_together_by_tile_visit(page: Page) -> None:
    press_pair(page, "Two tile sizes")
    expect(page.locator(".lane-title").first).to_contain_text("key tile 4")
    expect(page.locator(".lane-title").last).to_contain_text("key tile 8")
    difference(page, "")
    page.locator(".player").focus()
    page.keyboard.press("Home")
    begins = []
    for _ in range(3):  # the right tile is as wide as two on the left
        page.keyboard.press("PageDown")
        lines = [page.locator(".line.now .text").nth(i).inner_text() for i in (0, 1)]
        begins.append(["cols = start" in line for line in lines])
    assert begins == [[True, True], [True, False], [True, True]]


def an_overflow_counts_as_a_difference_and_passes_are_matched_by_tile(page: Page) -> None:
    press_pair(page, "Naive and safe")
    difference(page, "p")
    index, left, right = values(page)
    assert (index, left) == ("0,0", math.inf)
    assert math.isfinite(right)
    press_pair(page, "Loop order")
    difference(page, "o_hbm")  # left writes O of the keys so far, right keeps its Õ on chip


def standard_attention_parts_in_memory(page: Page) -> None:
    """A part of a row is not held against the whole."""
    difference(page, "s")
    assert not difference(page).get_attribute("data-index")  # the whole buffer: the right never stores it
    page.get_by_role("button", name="Go to the first difference").click()
    expect(page.locator(".line.now .text").first).to_contain_text("tl.store(s_ptr")
    expect(page.locator(".difference .now")).to_have_text("")  # their scores are the same


def test_tiles_of_two_sizes_are_compared_where_both_have_seen_as_many_keys(opened):
    page = opened("a.kernel=softmax_blocked_wrong&b.kernel=softmax_online&b.block_n=4")
    difference(page, "l_i")
    index, left, _ = values(page)
    assert index == "0"
    assert left == pytest.approx(1.8187, abs=1e-4)
    expect(difference(page)).to_contain_text(re.compile("2–3.*0–3"))  # the columns of the two tiles


def test_a_tile_that_both_runs_have_is_as_large_and_as_high_in_both_pictures(opened, page: Page):
    opened()
    page.keyboard.press("i")
    lanes = page.locator(".lane")

    def place(symbol: str, i: int) -> list[float]:
        term = lanes.nth(i).locator(".scene .term", has_text=re.compile(f"^{symbol}$")).first  # the later is HBM's
        return term.evaluate("({ style }) => [style.left, style.top].map(parseFloat)")

    apart = []
    for i in (0, 1):
        (q, high), (s, _) = place("Q", i), place("S", i)
        apart.append([s - q, high])
    assert apart[0] == pytest.approx(apart[1], abs=1)


def test_at_full_screen_each_run_says_its_beat_and_its_cells_have_the_numbers_of_the_run(opened, page: Page):
    opened("a.kernel=softmax_blocked_wrong&b.kernel=softmax_online")
    page.evaluate(f"() => {{{LETTERS}}}")
    player(page).press("i")
    page.keyboard.press("f")

    def drawn(motion: Literal["reduce", "no-preference"]) -> set[str]:
        """All that the pictures say in the first two tiles."""
        page.emulate_media(reduced_motion=motion)
        page.keyboard.press("Home")
        page.evaluate("drawn.length = 0")
        for _ in range(12):
            page.keyboard.press("ArrowRight")
            page.wait_for_timeout(700 if motion == "no-preference" else 50)
        return {text for _, text in page.evaluate("drawn.splice(0)")}

    still = drawn("reduce")
    assert {"−0.300", "0.200", "0.800"} <= still  # of x in HBM
    for i in (0, 1):
        beats = page.locator(".beats").nth(i)
        expect(beats).to_contain_text("Tile 2 of 3")
        expect(beats.locator("[aria-current]")).to_be_visible()
    assert drawn("no-preference") <= still  # no digit is on its way from one number to another
    page.keyboard.press("f")


def test_at_full_screen_code_has_several_lines_and_its_counters_say_so_far(opened, page: Page):
    page.set_viewport_size({"width": 1920, "height": 1080})
    opened()
    page.keyboard.press("f")
    for i in (0, 1):
        code = page.locator(".lane .code").nth(i)
        lines = code.evaluate("box => box.clientHeight / parseFloat(getComputedStyle(box).lineHeight)")
        assert lines >= 5
        heading = page.locator(".count-of").nth(i).locator("th").first
        assert "so far" in heading.evaluate("box => getComputedStyle(box, '::after').content")
    page.get_by_role("button", name="Last step").click()
    expect(page.locator(".lane-title .apart").last).to_have_text("finished")
    page.keyboard.press("i")
    expect(page.locator(".idea .says").last).to_have_text("Finished: the other run goes on.")
    expect(page.locator(".idea .says").first).to_contain_text("Writes")
    page.keyboard.press("f")


def at_full_screen_in_idea(page: Page) -> None:
    """Remembers from now on what the pictures say, in `drawn`."""
    page.evaluate(f"() => {{{LETTERS}}}")
    page.keyboard.press("f")
    expect(player(page)).to_have_class(re.compile("presenting"))
    if player(page).get_attribute("data-depth") == "code":
        page.keyboard.press("i")
    keeps_its_size(page)


def test_at_full_screen_the_whole_s_that_is_never_stored_is_drawn(opened, page: Page):
    page.set_viewport_size({"width": 1920, "height": 1080})
    at_full_screen_in_idea(opened())
    page.keyboard.press("ArrowRight")
    assert any("never whole in memory" in text for _, text in page.evaluate("drawn.splice(0)"))
    page.keyboard.press("f")


def test_at_full_screen_numbers_of_any_size_have_digits(opened, page: Page):
    page.set_viewport_size({"width": 1920, "height": 1080})
    pair = next(pair for pair in PAIRS if pair.name == "Naive and safe")
    runs = zip("ab", (pair.left, pair.right), strict=True)
    asked = [f"{side}.{name}={value}" for side, run in runs for name, value in run.to_query().items()]
    at_full_screen_in_idea(opened("&".join(asked)))
    page.keyboard.press("Home")
    page.evaluate("drawn.length = 0")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    drawn = {text for _, text in page.evaluate("drawn.splice(0)")}
    assert {"4994", "267", "9767", "−1436"} <= drawn  # on chip
    assert {"5e3", "1e4", "−1e3", "−2e4"} <= drawn  # in HBM, where a cell has no room for more
    page.keyboard.press("f")


def test_totals_are_of_the_launch_and_of_the_run_as_their_words_say(opened, page: Page):
    launches = engine().trace(PAIRS[0].left).trace.launches
    opened()
    player(page).press("Home")
    last = page.locator(".count-of").first.locator("table").first.locator("tr:nth-child(2) .of").last
    of_launches = [sum(launch.read_bytes.values()) for launch in launches]
    expect(last).to_have_text(f" / {of_launches[0]:,} / {sum(of_launches):,}")
    expect(page.locator(".scope").first).to_contain_text(f"of launch 1 of {len(launches)} / all launches")
    expect(page.locator(".scope").last).not_to_contain_text("launch")
    expect(page.locator(".count-of").last.locator("th", has_text="lse = L")).to_be_visible()


def test_after_a_switch_of_depth_the_keys_are_the_players(opened, page: Page):
    opened()
    for depth in ("idea", "code"):
        before = int(player(page).get_attribute("data-step") or 0)
        page.locator(f".depth [data-depth={depth}]").click()
        page.keyboard.press("ArrowRight")
        expect(player(page)).not_to_have_attribute("data-step", str(before))


def test_each_run_names_the_program_that_it_is_in(opened, page: Page):
    opened()
    names = page.locator(".lane-title .program")
    expect(names.first).to_have_text("attention_scores_kernel · 0, 0")
    expect(names.last).to_have_text(re.compile("^Query tile 0 · tokens 0–15$"))
    player(page).press("End")
    expect(names.first).to_have_text(re.compile("^attention_values_kernel"))


def test_programs_of_different_work_are_not_compared(opened, page: Page):
    opened()
    player(page).press("PageDown")
    player(page).press("PageDown")
    scope = page.locator(".count-of .scope").first
    expect(scope).to_contain_text("not compared")
    expect(page.locator(".counters td.differs")).to_have_count(0)
    opened("a.kernel=flash_attention&b.kernel=flash_attention&a.block_n=8&b.block_n=4&b.causal=true")
    expect(scope).to_contain_text("left and right differ")
    player(page).press("PageDown")
    player(page).press("PageDown")
    expect(page.locator(".counters td.differs")).not_to_have_count(0)


def test_a_launch_without_m_and_l_has_no_state_that_is_not_set_yet(opened, page: Page):
    opened()
    first, last = (page.locator(".panel.rows").nth(i) for i in (0, 1))
    expect(first).to_have_attribute("data-hint", "This launch's kernel keeps none.")
    expect(first).not_to_contain_text("not set yet")
    expect(last).to_have_attribute("data-hint", "")


def test_equal_runs_are_said_to_be_equal(opened):
    page = opened("a.kernel=softmax_online&b.kernel=softmax_online")
    difference(page, "")
    expect(page.get_by_role("button", name="Go to the first difference")).to_be_disabled()
    page.keyboard.press("End")
    expect(page.locator(".counters td.differs")).to_have_count(0)


def test_a_kernel_of_the_list_takes_its_side_and_the_address_leads_back(opened):
    page = opened("a.kernel=softmax_safe&b.kernel=softmax_online&b.inputs=ascending")
    titles = page.locator(".lane-title")
    expect(titles.first).to_contain_text("Safe softmax")
    page.get_by_role("combobox", name="Left kernel").click()
    page.get_by_role("option", name="Online softmax, two passes").click()
    expect(titles.first).to_contain_text("input notebook")
    expect(titles.last).to_contain_text("input ascending")
    page.wait_for_url("**a.kernel=softmax_online**")
    page.reload()
    expect(titles.first).to_contain_text("input notebook")
    expect(titles.last).to_contain_text("input ascending")


def two_runs_fit_a_laptops_screen_and_a_phones_width(page: Page) -> None:
    """Of the pair that was pressed last."""
    expect(page.locator(".lane-title").first).to_contain_text("FlashAttention-1")
    rests(page)
    keeps_its_size(page)
    for panel in ("source", "map", "rows"):
        for i in (0, 1):
            box = page.locator(f".panel.{panel}").nth(i).bounding_box()
            assert box is not None
            assert box["height"] > 90, panel
    frame = player(page).bounding_box()
    assert frame is not None
    assert frame["y"] + frame["height"] <= 900
    page.set_viewport_size({"width": 390, "height": 844})
    until(page, "document.scrollingElement.scrollWidth <= innerWidth")


@pytest.mark.parametrize("order", ["tree", "left to right", "right to left"])
def test_sums_added_as_they_are_part_at_the_first_join_of_two_maxima_and_both_stand_on_its_line(opened, order):
    sizes = f"inputs=sentence_short&rows=1&cols=15&block_n=4&order={order.replace(' ', '+')}"
    page = opened("&".join(f"{side}.{part}" for side in "ab" for part in sizes.split("&")) + KERNELS)
    columns = "8–14" if order == "right to left" else "0–7"
    difference(page, "l_i")
    assert values(page)[0] == "0"
    expect(difference(page)).to_contain_text(columns)
    first = page.get_by_role("button", name="Go to the first difference")
    first.click()
    lines = page.locator(".line.now .text")
    expect(lines.first).to_contain_text("l_i = l_i + l_j")
    expect(lines.last).to_contain_text("l_i = l_i * alpha + l_j * beta")
    expect(page.locator(".difference .now")).to_have_text("≠ l_i in 1 row")
    page.keyboard.press("ArrowLeft")
    expect(page.locator(".difference .now")).to_have_text("")


def test_pairs_joined_in_two_orders_are_the_same_wherever_they_hold_the_same_columns(opened):
    sizes = "inputs=sentence_short&rows=1&cols=15&block_n=4"
    both = "&".join(f"{side}.{part}" for side in "ab" for part in ["kernel=softmax_split", *sizes.split("&")])
    page = opened(f"{both}&a.order=tree&b.order=right+to+left")
    difference(page, "")
    expect(page.get_by_role("button", name="Go to the first difference")).to_be_disabled()
