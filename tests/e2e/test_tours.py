"""Tours in the browser: keys, links, the run sheet in a second window, every tour from disk, slides."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from explain import cli, contents, tours
from explain.engine import engine
from explain.slides import page_of
from explain.ui.stepper import toured
from tests.e2e.conftest import PATIENCE_MS, rests
from tests.e2e.text_sizes import LETTERS, SMALLEST, TEXT_PX
from tests.e2e.waiting import until

TOUR = "flash_attention"
OTHER = "softmax"
PRINTED = "side_by_side/1_standard_and_flash"
"""The tour of two runs that is printed; the command line prints one of one run. To print all tests nothing more: each
slide is one drawing of a page's size."""

# What a caption shows: its words, its panels, and what of them is not in the window.
SEEN = """(player) => {
  const shown = [...player.querySelectorAll(".panel, .counters, .tour")].filter((part) => part.checkVisibility());
  const out = (part) => {
    const { left, top, right, bottom } = part.getBoundingClientRect();
    return left < 0 || top < 0 || right > innerWidth + 1 || bottom > innerHeight + 1;
  };
  const nameOf = (part) => (part.matches(".panel") ? part.classList[1] : part.classList[0]);
  return {
    caption: player.dataset.caption,
    text: player.querySelector(".tour .told").textContent,
    panels: shown.map(nameOf).filter((name) => name !== "tour"),
    numbers: [...player.querySelectorAll(".numbers dd b")].filter((one) => one.checkVisibility())
      .map((one) => [one.parentElement.previousElementSibling.textContent, one.textContent]),
    outside: shown.filter(out).map(nameOf),
  };
}"""

STATE = re.compile(r"(?<!ln )([mαℓ]) = (\S+(?: × 10[⁻\d]+)?)[.,:](?=\s|$)")

# What each caption shows: → is pressed in one task, without a picture painted of each.
WALK = f"""(player, captions) => Array.from({{ length: captions }}, (_, i) => {{
  if (i) player.dispatchEvent(new KeyboardEvent("keydown", {{ key: "ArrowRight", bubbles: true, composed: true, cancelable: true }}));
  return ({SEEN})(player);
}})"""


def player(page: Page) -> Locator:
    return page.get_by_test_id("player")


def caption(page: Page, number: int) -> None:
    expect(player(page)).to_have_attribute("data-caption", str(number))


def steps_of(chapter: str) -> list[int]:
    return [one["step"] for one in toured(tours.of(chapter)[0])["captions"]]


def test_keys_turn_the_captions_and_the_run_sheet_follows(page: Page, app_url: str, visit):
    page.goto("about:blank")  # a new session: the app remembers at which step a chapter was left
    steps = steps_of(TOUR)
    visit(TOUR)
    caption(page, 1)
    expect(player(page)).to_have_attribute("data-step", str(steps[0]))
    sheet_page = page.context.new_page()
    sheet_page.goto(f"{app_url}/notes?chapter={TOUR}")
    sheet = sheet_page.get_by_test_id("run-sheet")
    expect(sheet).to_have_attribute("data-caption", "1")

    page.keyboard.press("ArrowRight")  # from anywhere on the page
    caption(page, 2)
    expect(sheet).to_have_attribute("data-caption", "2")
    player(page).press("PageDown")  # a clicker
    caption(page, 3)
    page.keyboard.press("ArrowLeft")
    caption(page, 2)
    page.wait_for_url("**caption=2**")

    sheet_page.locator("h1").click()
    sheet_page.keyboard.press("PageDown")  # the clicker turns the player's captions from there too
    caption(page, 3)
    expect(player(page)).to_have_attribute("data-step", str(steps[2]))
    minutes = [one.minutes for one in tours.of(TOUR)[0].captions]
    expect(sheet).to_have_attribute("data-left", re.compile(rf"^{sum(minutes[2:]):g}$"))
    sheet_page.close()

    player(page).press("Escape")
    expect(player(page)).not_to_have_attribute("data-caption", re.compile(""))
    expect(player(page)).to_have_attribute("data-step", str(steps[2]))
    page.keyboard.press("i")  # from the tiles to the lines
    page.keyboard.press("ArrowRight")
    expect(player(page)).to_have_attribute("data-step", str(steps[2] + 1))
    page.get_by_role("button", name="Tour").click()
    caption(page, 1)

    player(page).press("p")  # at full screen a step on leaves the caption, and a button leads back
    bar = page.locator(".tour")
    expect(bar.locator(".unit")).to_have_text("line")
    bar.get_by_role("button", name="Next step").click()
    expect(player(page)).to_have_attribute("data-step", str(steps[0] + 1))
    caption(page, 1)
    bar.get_by_role("button", name="Leave full screen").click()
    expect(player(page)).not_to_have_class(re.compile("presenting"))
    caption(page, 1)


def test_a_caption_names_its_depth_only_where_it_has_changed_it(page: Page, visit):
    captions = toured(tours.of("online_softmax")[0])["captions"]
    depths = [one["depth"] for one in captions]
    turns = [at for at in range(1, len(depths)) if depths[at] != depths[at - 1]]
    visit("online_softmax")
    onward, told = player(page).locator(".tour [data-do=next]"), player(page).locator(".tour .told")
    for number in range(2, turns[0] + 2):
        expect(told).to_have_attribute("data-turn", "")
        onward.click()
        caption(page, number)
    expect(told).to_have_attribute("data-turn", f"{depths[turns[0]].capitalize()}: ")
    player(page).locator(f".depth [data-depth={depths[turns[0] - 1]}]").click()  # the reader's own choice stays
    expect(told).to_have_attribute("data-turn", "")
    for number in range(turns[0] + 2, turns[1] + 2):
        onward.click()
        caption(page, number)
    expect(told).to_have_attribute("data-turn", "")


def test_a_run_sheet_without_a_player_takes_a_clicker_at_once(page: Page, visit):
    visit(f"notes?chapter={TOUR}")
    sheet = page.get_by_test_id("run-sheet")
    expect(sheet).to_be_focused()
    page.keyboard.press("PageDown")
    expect(sheet).to_have_attribute("data-caption", "2")
    page.keyboard.press("ArrowLeft")
    expect(sheet).to_have_attribute("data-caption", "1")


def test_a_run_sheet_says_how_many_minutes_ahead_or_behind_its_plan_a_lecturer_is(page: Page, visit):
    minutes = [one.minutes for one in tours.of(TOUR)[0].captions]
    visit(f"notes?chapter={TOUR}")
    sheet, late = page.get_by_test_id("run-sheet"), page.locator(".run-sheet [role=status].late")
    expect(sheet).to_be_focused()
    for number in range(2, 5):
        page.keyboard.press("PageDown")
        expect(sheet).to_have_attribute("data-caption", str(number))
    expect(late).to_have_text(f"{round(sum(minutes[:3]) - 0.1)} min ahead")
    page.evaluate("window.sooner = Date.now; Date.now = () => window.sooner() + 3_600_000")  # an hour later
    try:
        expect(late).to_have_text(f"{round(60 - sum(minutes[:4]) + 0.1)} min behind")
    finally:
        page.evaluate("Date.now = window.sooner")


def choose(page: Page, stem: str, title: str) -> None:
    """Chooses a chapter on the lecturer's page."""
    page.get_by_label("Chapter").click()
    page.get_by_role("option", name=title, exact=True).click()
    page.wait_for_url(f"**chapter={stem}")
    rests(page)


def sheet_beside(page: Page, app_url: str) -> tuple[Page, Locator]:
    """The run sheet of TOUR in a second window, beside a player at its first caption."""
    caption(page, 1)
    second = page.context.new_page()
    second.goto(f"{app_url}/notes?chapter={TOUR}")
    return second, second.get_by_test_id("run-sheet")


def test_a_run_sheet_follows_only_a_player_of_its_chapter(page: Page, app_url: str, visit):
    visit(OTHER)
    sheet_page, sheet = sheet_beside(page, app_url)
    expect(sheet.locator(".other")).to_contain_text(f"Another window plays {contents.page_of(f'{OTHER}.py').title}.")
    expect(sheet.locator(".title")).to_have_text(tours.of(TOUR)[0].title)
    expect(sheet.locator(".say")).to_have_text(tours.of(TOUR)[0].captions[0].say)
    sheet_page.keyboard.press("ArrowRight")  # turns the sheet's own caption, not the other chapter's
    expect(sheet).to_have_attribute("data-caption", "2")
    caption(page, 1)
    sheet.get_by_role("link", name="Follow it").click()
    expect(sheet.locator(".title")).to_have_text(tours.of(OTHER)[0].title)
    expect(sheet).to_have_attribute("data-caption", "1")
    expect(sheet.locator(".other")).to_be_hidden()
    sheet_page.keyboard.press("ArrowRight")
    caption(page, 2)
    sheet_page.close()


def test_another_chapter_brings_its_own_run_sheet(page: Page, app_url: str, visit):
    visit(TOUR)
    sheet_page, sheet = sheet_beside(page, app_url)
    page.keyboard.press("ArrowRight")
    expect(sheet).to_have_attribute("data-caption", "2")

    titles = {one.stem: one.title for one in contents.pages() if one.has_notes}
    without = next(stem for stem in titles if not tours.of(stem))
    choose(sheet_page, without, titles[without])
    expect(sheet.locator(".title")).to_have_text(titles[without])
    expect(sheet.locator(".text")).to_be_hidden()  # it has points instead of captions
    expect(sheet.locator(".say")).not_to_be_empty()
    choose(sheet_page, OTHER, titles[OTHER])
    expect(sheet.locator(".title")).to_have_text(tours.of(OTHER)[0].title)
    expect(sheet).to_have_attribute("data-caption", "0")
    expect(sheet.locator(".clock")).to_have_text("0:00")

    page.keyboard.press("ArrowRight")  # the player of another chapter speaks
    expect(sheet.locator(".other")).to_contain_text(titles[TOUR])
    choose(sheet_page, TOUR, titles[TOUR])
    expect(sheet).to_have_attribute("data-caption", "3")
    sheet_page.close()


def test_a_link_holds_what_is_seen(page: Page, app_url: str, visit):
    steps = steps_of(TOUR)
    visit(f"{TOUR}?caption={len(steps)}")
    caption(page, len(steps))
    player(page).focus()
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Panels", exact=True).click()
    page.get_by_role("dialog").get_by_role("checkbox", name="Scores").uncheck()
    page.keyboard.press("Escape")
    page.get_by_label("Watched variable").and_(page.locator("select")).select_option("alpha")
    page.wait_for_url("**watch=alpha**")
    address, words = page.url, page.locator(".words").inner_text()
    page.evaluate("sessionStorage.clear()")
    visit(address.removeprefix(f"{app_url}/"))
    expect(player(page)).to_have_attribute("data-step", str(steps[-1]))
    expect(page.locator(".words")).to_have_text(words)
    expect(page.locator(".panel.map")).to_be_hidden()
    expect(page.locator(".panel.rows")).to_be_visible()
    expect(page.get_by_label("Watched variable").and_(page.locator("select"))).to_have_value("alpha")
    assert "caption" not in address
    expect(player(page)).not_to_have_attribute("data-caption", re.compile(""))


def test_panels_are_composed_and_the_text_grows_at_full_screen(page: Page, visit):
    visit(f"{TOUR}?step=47")
    player(page).press("p")
    expect(page.locator(".panel.source")).to_be_visible()
    expect(page.locator(".panel.equation")).to_be_visible()
    page.keyboard.press("Shift+Digit2")
    expect(page.locator(".panel.equation")).to_be_hidden()
    page.keyboard.press("Shift+Digit2")
    expect(page.locator(".panel.equation")).to_be_visible()
    expect(page.locator(".panel.source")).to_be_visible()
    page.keyboard.press("Shift+Digit1")
    expect(page.locator(".panel.source")).to_be_hidden()
    size = "(player) => parseFloat(getComputedStyle(player).fontSize)"
    before = player(page).evaluate(size)
    page.keyboard.press("+")
    assert player(page).evaluate(size) > before
    page.keyboard.press("-")
    assert player(page).evaluate(size) == pytest.approx(before)


SCROLLED = """() => document.querySelector("[data-testid=stMain]").scrollTop"""
MOVED = f"""before => location.pathname.endsWith("/online_softmax") || ({SCROLLED})() > before"""


def test_one_clicker_goes_through_the_tour_to_the_chapters_end_and_to_the_next_chapter(page: Page, visit):
    page.goto("about:blank")  # a new session: the app remembers at which caption a chapter was left
    last = len(steps_of("softmax"))
    visit(f"softmax?caption={last}")
    caption(page, last)
    player(page).press("PageDown")
    expect(player(page)).not_to_have_attribute("data-caption", re.compile(""))
    for _ in range(60):
        before = page.evaluate(SCROLLED)
        page.keyboard.press("PageDown")
        until(page, MOVED, arg=before)  # each press scrolls or turns the page, so that none is left over
        rests(page)
        if "/online_softmax" in page.url:
            break
    expect(page).to_have_url(re.compile("/online_softmax"))
    caption(page, 1)
    page.keyboard.press("PageDown")
    caption(page, 2)


def is_shown(told: str, numbers: list[str]) -> bool:
    """Whether a number of a caption is among those of the picture, which may round it to fewer digits."""
    if told in numbers:
        return True
    try:
        values = [float(text.replace("−", "-").replace(",", "").replace("∞", "inf")) for text in (told, *numbers)]
    except ValueError:  # a "–", or an exponent
        return False
    return any(math.isclose(values[0], value, rel_tol=1e-3, abs_tol=1e-3) for value in values[1:])


@pytest.fixture(scope="module")
def offline(browser: Browser) -> Iterator[Page]:
    """A tab without a network; `drawn` in it has the sizes of the text on canvases."""
    context = browser.new_context(offline=True)
    context.set_default_timeout(PATIENCE_MS)
    context.add_init_script(LETTERS)
    yield context.new_page()
    context.close()


@pytest.mark.parametrize("name", tours.files())
def test_every_tour_plays_from_disk_and_is_large_on_the_projector(offline: Page, tmp_path: Path, name: str):
    """Without a network: each caption's step, panels and numbers, all in the window, text of 36 px; slides."""
    page, tour = offline, tours.named(name)
    content, html = page_of(tour, engine())
    file = tmp_path / "tour.html"
    file.write_text(html, encoding="utf-8")
    page.set_viewport_size({"width": 1440, "height": 900})
    page.goto(file.as_uri())
    caption(page, 1)
    captions = content["captions"]
    walked = player(page).evaluate(WALK, len(captions))
    for number, (told, seen) in enumerate(zip(captions, walked, strict=True), 1):
        where = f"{name}, caption {number}"
        assert (seen["caption"], seen["text"]) == (str(number), told["text"]), where
        assert seen["outside"] == [], where
        assert set(told["panels"] or ["idea"]) == set(seen["panels"]), where
        for symbol, value in STATE.findall(" ".join(told["text"].split())) if seen["numbers"] else ():
            shown = [text for name, text in seen["numbers"] if name == symbol and text != "–"]
            assert is_shown(value, shown), f"{where}: {symbol} = {value}, shown {shown}"
    page.keyboard.press("ArrowRight")
    caption(page, len(captions))  # the last one stays
    page.keyboard.press("Escape")
    if tour == tours.of(tour.chapter)[0]:
        page.set_viewport_size({"width": 1920, "height": 1080})
        for key in ("p", "t", "ArrowRight"):
            page.keyboard.press(key)
        caption(page, 2)
        page.evaluate("globalThis.drawn.length = 0")  # what was drawn on the way to full screen
        page.keyboard.press("ArrowLeft")
        caption(page, 1)
        for number in range(1, len(captions) + 1):
            size, text = player(page).evaluate(SMALLEST)
            assert size >= TEXT_PX - 0.5, f"{name}, caption {number}: {text!r} has {size:.1f} px"
            page.keyboard.press("ArrowRight")
        if name == PRINTED:
            slides = page.pdf(prefer_css_page_size=True)
            assert len(re.findall(rb"/Type\s*/Page\b", slides)) == len(captions), name
        else:
            page.evaluate("dispatchEvent(new Event('beforeprint'))")
        expect(page.locator(".slides > svg"), name).to_have_count(len(captions))
        last = page.locator(".slides > svg").last
        assert last.get_attribute("viewBox") == "0 0 1920 1080", name
        assert f"{tour.title} · {len(captions)} / {len(captions)}" in (last.text_content() or ""), name


def test_a_prediction_comes_before_its_caption(offline: Page, tmp_path: Path):
    page = offline
    file = tmp_path / "tour.html"
    file.write_text(page_of(tours.named(TOUR), engine())[1], encoding="utf-8")
    page.goto(file.as_uri())
    caption(page, 1)
    steps, question = steps_of(TOUR), page.locator(".ask .question")
    page.keyboard.press("a")
    page.keyboard.press("ArrowRight")
    expect(question).to_contain_text("What will m_new be")
    caption(page, 1)
    page.keyboard.press("ArrowRight")  # without an answer
    expect(page.locator(".ask .change")).to_contain_text("m_new")
    expect(player(page)).to_have_attribute("data-step", str(steps[1]))
    page.keyboard.press("ArrowRight")
    caption(page, 2)
    page.keyboard.press("a")
    page.keyboard.press("ArrowRight")
    caption(page, 3)
    expect(player(page)).to_have_attribute("data-step", str(steps[2]))


def test_at_full_screen_the_code_has_its_explanation_formula_and_state_in_sight(offline: Page, tmp_path: Path):
    page, number = offline, 6
    file = tmp_path / "tour.html"
    file.write_text(page_of(tours.named(TOUR), engine())[1], encoding="utf-8")
    page.set_viewport_size({"width": 1920, "height": 1080})
    page.goto(file.as_uri())
    caption(page, 1)
    for key in ("p", "i"):
        page.keyboard.press(key)
    expect(player(page)).to_have_attribute("data-depth", "code")
    page.evaluate("globalThis.drawn.length = 0")  # what was drawn on the way
    for _ in range(number - 1):
        page.keyboard.press("ArrowRight")
    caption(page, number)
    seen = player(page).evaluate(SEEN)
    assert seen["panels"] == ["source", "equation", "rows", "counters"]
    assert seen["outside"] == []
    for part in (".equation .words", ".formula .worked", ".counters"):
        expect(page.locator(part)).to_be_in_viewport(ratio=1)
    fits = (
        "({ scrollWidth, scrollHeight, clientWidth, clientHeight }) => "
        "scrollWidth <= clientWidth && scrollHeight <= clientHeight"
    )
    assert page.locator(".equation .formula").evaluate(fits)
    counters = page.locator(".counters").bounding_box()
    assert counters is not None
    assert counters["height"] < 2 * TEXT_PX  # one line
    size, text = player(page).evaluate(SMALLEST)
    assert size >= TEXT_PX - 0.5, f"{text!r} has {size:.1f} px"


def test_at_full_screen_one_rows_elements_have_numbers_and_its_code_the_free_height(offline: Page, tmp_path: Path):
    page = offline
    file = tmp_path / "tour.html"
    file.write_text(page_of(tours.named("online_softmax"), engine())[1], encoding="utf-8")
    page.set_viewport_size({"width": 1440, "height": 900})
    page.goto(file.as_uri())
    caption(page, 1)
    page.evaluate("globalThis.drawn.length = 0")
    page.keyboard.press("p")
    elements = "new Set(globalThis.drawn.map(([, text]) => text).filter((text) => /^−?0\\.\\d00$/.test(text)))"
    until(page, f"{elements}.size >= 6")  # of x in HBM; on chip there is one
    page.keyboard.press("i")
    expect(player(page)).to_have_attribute("data-depth", "code")
    code, line = page.locator(".code").bounding_box(), page.locator(".panel.equation").bounding_box()
    assert code is not None
    assert line is not None
    assert code["height"] > line["height"]


def test_the_command_line_writes_a_tour_as_a_page_and_as_slides(tmp_path: Path, capsys):
    html, pdf = tmp_path / "tour.html", tmp_path / "tour.pdf"
    assert cli.main(["tour", "online_softmax", "--html", str(html), "--pdf", str(pdf)]) == 0
    captions = len(steps_of("online_softmax"))
    assert len(re.findall(rb"/Type\s*/Page\b", pdf.read_bytes())) == captions
    assert capsys.readouterr().out.count(" min ") == captions
    assert html.read_text(encoding="utf-8").count("</html>") == 1


def test_a_tour_that_is_not_there_is_named(capsys, tmp_path):
    assert cli.main(["tour", "no_such_tour"]) == 2
    said = capsys.readouterr().err
    for word in ("no_such_tour", "flash_attention"):
        assert word in said
