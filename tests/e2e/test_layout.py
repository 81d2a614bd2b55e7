"""Nothing lies under anything else: the panels of a row's run have room, also on a laptop's screen."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.server import Server

OVERLAPS = """(player) => {
  const shown = [...player.querySelectorAll(".panel, .counters, header")].map((part) => [part, part.getBoundingClientRect()]).filter(([, box]) => box.height);
  const name = (part) => part.classList[1] ?? part.className ?? part.localName;
  return shown.flatMap(([part, a], i) => shown.slice(i + 1).flatMap(([other, b]) => {
    const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left), high = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
    return wide > 2 && high > 2 ? [`${name(part)} and ${name(other)}`] : [];
  }));
}"""
CLIPPED = """(player) => [...player.querySelectorAll(".words, .formula, .column")]
  .filter((part) => part.scrollHeight > part.clientHeight + 2 || part.scrollWidth > part.clientWidth + 2).map((part) => part.className)"""
RUNS = [
    "softmax",
    "online_softmax",
    "online_softmax?walk=Tile+by+tile&beside=true",
    "online_softmax?walk=Rows+at+once",
    "online_softmax?walk=Tiles+in+parallel",
    "online_softmax?walk=Tiles+in+parallel&beside=true",
    "online_softmax?walk=With+top-k",
    "triton_ladder",
    "triton_ladder?rung=Rows+and+columns",
]


@pytest.mark.parametrize("size", [(1440, 900), (1920, 1080), (420, 900)], ids=lambda size: f"{size[0]} wide")
@pytest.mark.parametrize("run", RUNS)
def test_no_panel_overlaps_another_and_no_words_are_cut(
    page: Page, app: Server, run: str, size: tuple[int, int]
) -> None:
    page.set_viewport_size({"width": size[0], "height": size[1]})
    page.goto(f"{app.url}/{run}")
    player = page.get_by_test_id("player")
    expect(player).to_be_visible()
    for tab in ("State", "Memory"):
        for button in player.get_by_role("button", name=tab, exact=True).all():
            if button.is_visible():
                button.click()
        assert player.evaluate(OVERLAPS) == [], tab
        assert player.evaluate(CLIPPED) == [], tab


def test_the_keys_of_play_stay_in_sight_where_the_player_is_higher_than_the_window(page: Page, app: Server) -> None:
    page.set_viewport_size({"width": 1440, "height": 700})
    page.goto(f"{app.url}/online_softmax")
    player = page.get_by_test_id("player")
    expect(player).to_be_visible()
    assert player.evaluate("(player) => player.getBoundingClientRect().bottom > innerHeight")
    expect(player.get_by_role("button", name="Next step")).to_be_in_viewport(ratio=1)
