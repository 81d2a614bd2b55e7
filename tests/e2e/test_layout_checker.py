"""The checker of layout finds a planted fault of each kind, and none in a page that has none."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from tests.e2e.test_layout import foreign_fonts, looks

CHECKER = Path(__file__).with_name("layout.js")
BOX = "width: 9rem; white-space: nowrap; "
PLANTED = {
    "clipped by a box": (
        "clipped",
        f'<div style="{BOX} overflow: hidden">A sentence that is longer than its box</div>',
    ),
    "clipped by an ellipsis": (
        "clipped",
        f'<div style="{BOX} overflow: hidden; text-overflow: ellipsis">FlashAttention-2 forward</div>',
    ),
    "a line too many": (
        "clipped",
        '<div style="width: 5rem; height: 1lh; overflow: hidden">one line and one more</div>',
    ),
    "a clamped line": (
        "clipped",
        '<div style="width: 9rem; overflow: hidden; display: -webkit-box; -webkit-line-clamp: 1; '
        '-webkit-box-orient: vertical">one line and one more of it</div>',
    ),
    "two texts in one place": ("overlap", '<p>first</p><p style="margin-top: -2.2em">second</p>'),
    "two words of a picture in one place": (
        "overlap",
        '<svg width="200" height="40"><text x="5" y="20">measured</text><text x="40" y="20">100.7 MB</text></svg>',
    ),
    "two words without a gap": ("overlap", '<div style="display: flex"><b>measured</b><b>100.7 MB</b></div>'),
    "two words of a picture without a gap": (
        "overlap",
        '<svg width="200" height="40"><text x="90" y="20" text-anchor="end">measured</text><text x="90" y="20">1</text></svg>',
    ),
    "a word that leaves its picture": (
        "outside",
        '<svg width="60" height="40"><text x="20" y="20">leaves it</text></svg>',
    ),
    "the same where it is not cut": (
        "outside",
        '<svg width="60" height="40" style="overflow: visible"><text x="20" y="20">leaves it</text></svg>',
    ),
    "wider than the window": ("outside", '<div style="width: 5000px">wide</div>'),
    "too pale": ("contrast", '<p style="color: #999">pale</p>'),
    "too pale in a picture": (
        "contrast",
        '<svg width="90" height="40"><rect width="90" height="40" fill="#222"/><text x="5" y="20">dark</text></svg>',
    ),
    "made pale": ("contrast", '<div style="opacity: .4"><p>pale</p></div>'),
    "a level skipped": ("heading", "<h2>two</h2><h4>four</h4>"),
    "a second title": ("heading", "<h1>another</h1>"),
    "a nameless canvas": ("canvas", "<canvas></canvas>"),
    "drawn past the canvas": ("outside", '<canvas aria-label="map" data-draw="hared memory@-6,20"></canvas>'),
    "drawn over another": ("overlap", '<canvas aria-label="map" data-draw="7e-4@10,20 4e-3@20,20"></canvas>'),
    "drawn over the text beside it": (
        "overlap",
        '<div style="position: relative"><canvas aria-label="map" data-draw="scores@10,20"></canvas>'
        '<p style="position: absolute; top: 6px; left: 10px; margin: 0">HBM, to scale</p></div>',
    ),
    "drawn over another canvas": (
        "overlap",
        '<canvas aria-label="map" data-draw="scores@10,20"></canvas>'
        '<canvas aria-label="HBM" data-draw="weights@10,20" style="margin-left: -300px"></canvas>',
    ),
    "a panel below its player": (
        "outside",
        '<div class="player" style="height: 20px"><div class="panel" style="height: 40px"></div></div>',
    ),
    "drawn with an ellipsis": ("clipped", '<canvas aria-label="map" data-draw="rem…@10,20"></canvas>'),
    "dark on a dark ground": ("contrast", '<div style="background: #333"><p style="color: #444">dark</p></div>'),
    "two lines half in one place": ("overlap", '<p style="margin: 0">first</p><p style="margin: -14px 0 0">second</p>'),
    "in a shadow tree": ("contrast", '<div data-shadow="<p style=color:#999>pale</p>"></div>'),
}
SOUND = """
<h2>two</h2><h3>three</h3>
<div style="width: 9rem; overflow: auto; white-space: nowrap">A sentence that is longer than its box</div>
<div style="position: absolute; width: 1px; height: 1px; overflow: hidden">for a screen reader alone</div>
<div style="height: 0; overflow: hidden">folded away</div>
<svg width="200" height="40"><rect width="200" height="40" fill="#222"/><text x="5" y="20" fill="#fff">inside</text></svg>
<svg width="200" height="40"><rect width="200" height="40" fill="#222"/><rect width="200" height="40" fill="#fff"/><text x="5" y="20">on the upper one</text></svg>
<svg width="200" height="40"><text x="5" y="20">under a veil</text><rect width="200" height="40" fill-opacity=".6"/></svg>
<svg width="100" height="20" viewBox="0 0 400 80"><text x="100" y="40" text-anchor="end">a gap</text><text x="108" y="40">made small</text></svg>
<div style="background: linear-gradient(#000, #000)"><p style="color: #fff">on a picture</p></div>
<p><span style="overflow: hidden; font-size: 6px"><span style="font-size: 16px">larger than its line</span></span></p>
<p style="position: absolute; top: 0; left: 600px">under the bar</p><div style="position: fixed; top: 16px; left: 600px">the bar</div>
<p style="margin: 0">one line</p><p style="margin: -9px 0 0">close to the next</p>
<div style="display: flex; align-items: start"><b>step</b><b style="margin-top: 6px">lower</b></div>
<canvas aria-label="map" data-draw="one@10,20 two@60,20"></canvas>
<div style="position: relative"><canvas aria-label="map" data-draw="a_term@10,20"></canvas><p style="position: absolute; top: 6px; left: 10px; margin: 0; color: transparent">a term</p></div>
<div style="height: 20px; overflow: auto"><canvas aria-label="map" data-draw="out_of_sight@10,60"></canvas></div><p>in its place</p>
<button disabled style="color: #999; background: #fff">not now</button>
<p style="color: #767676">dark <b>e</b>nough</p>
"""
DRAW = """() => {
  for (const host of document.querySelectorAll("[data-shadow]")) host.attachShadow({ mode: "open" }).innerHTML = host.dataset.shadow;
  for (const canvas of document.querySelectorAll("[data-draw]")) {
    const pen = canvas.getContext("2d");
    pen.font = "16px sans-serif";
    const layer = document.createElement("canvas").getContext("2d");
    layer.font = pen.font;
    for (const one of canvas.dataset.draw.match(/[^@]+@\\S+/g)) {
      const [words, at] = one.trim().split("@");
      layer.fillText(words, ...at.split(",").map(Number));   // as the player does: by way of a layer
    }
    pen.drawImage(layer.canvas, 0, 0);
  }
}"""


@pytest.fixture(scope="module")
def tab(browser: Browser):
    page = browser.new_page(viewport={"width": 800, "height": 600})
    page.add_init_script(path=CHECKER)
    yield page
    page.close()


@pytest.fixture
def blank(tab: Page) -> Page:
    tab.goto("about:blank")
    return tab


def found(page: Page, html: str) -> list[str]:
    page.set_content(f"<body style='background: #fff; color: #000'><h1>one</h1>{html}")
    page.evaluate(DRAW)
    return [fault["kind"] for fault in page.evaluate("window.layoutFaults()")]


@pytest.mark.parametrize("planted", PLANTED)
def test_it_finds_what_was_planted(blank: Page, planted: str) -> None:
    kind, html = PLANTED[planted]
    assert found(blank, html) == [kind]


def test_it_finds_nothing_where_nothing_is_wrong(blank: Page) -> None:
    assert found(blank, SOUND) == []


def test_the_pages_own_ground_is_under_what_is_scrolled_out_of_sight(blank: Page) -> None:
    below = '<div style="height: 60px"></div><p style="color: #fff">below the fold</p>'
    ground = '<main data-testid="stMain" style="height: 40px; overflow: auto; background: #333">'
    assert found(blank, f"{ground}{below}</main>") == []


def test_a_canvas_that_was_wiped_shows_nothing_of_before(blank: Page) -> None:
    html = '<canvas aria-label="map" data-draw="hared memory@-6,20"></canvas>'
    assert found(blank, html) == ["outside"]
    blank.evaluate("document.querySelector('canvas').getContext('2d').clearRect(0, 0, 300, 150)")
    assert blank.evaluate("window.layoutFaults()") == []


def test_it_finds_a_font_of_the_machines_once_for_each_new_character(blank: Page) -> None:
    blank.set_content("<p style='font-family: serif'>abc</p>")
    blank.evaluate(
        "document.body.append(...['abc', 'abd'].map((text) => Object.assign(document.createElement('p'), { textContent: text, style: 'font-family: serif' })))"
    )
    (font,) = foreign_fonts(blank)
    assert font[1] == "abc"
    assert foreign_fonts(blank) == []
    blank.evaluate("document.querySelector('p').textContent = 'xyz'")
    assert [text for _, text in foreign_fonts(blank)] == ["xyz"]


def test_a_text_that_is_shown_later_has_its_font_then(blank: Page) -> None:
    blank.set_content("<p style='font-family: serif; display: none'>abc</p>")
    assert foreign_fonts(blank) == []
    blank.evaluate("document.querySelector('p').style.display = 'block'")
    assert [text for _, text in foreign_fonts(blank)] == ["abc"]


def test_it_finds_a_font_of_the_machines_on_a_canvas(blank: Page) -> None:
    assert found(blank, '<canvas aria-label="map" data-draw="abc@10,20"></canvas>') == []
    assert {"abc", "one"} <= {text for _, text in foreign_fonts(blank)}  # "one" is the page's heading
    assert foreign_fonts(blank) == []
    assert blank.evaluate("window.layoutFaults()") == []


def test_a_page_that_draws_no_frame_does_not_come_to_rest(blank: Page) -> None:
    assert blank.evaluate("window.layoutSettled()")
    assert not blank.evaluate("window.requestAnimationFrame = () => {}, window.layoutSettled(150, 500)")


def test_each_view_is_seen_in_every_width_and_both_themes_and_little_is_turned() -> None:
    of_views = [looks("dark", "light", view, same_layout=False) for view in range(4)]
    for seen in of_views:
        assert {width for width, theme in seen if theme == "dark"} == {420, 1280, 1440, 1920}
        assert (1440, "light") in seen
    assert (420, "light") in of_views[0]
    assert {width for width, _ in looks("dark", "light", 1, same_layout=True)} == {420, 1440}
    for before, after in pairwise(of_views):
        assert after[0] == before[-1]
    for (width, theme), (next_width, next_theme) in pairwise([look for seen in of_views for look in seen]):
        assert width == next_width or theme == next_theme
