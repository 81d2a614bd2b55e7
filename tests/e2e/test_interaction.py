"""The player under keys, pointer and touch: clocks, jumps, the lists behind the counters, questions, the full-screen
view.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from explain import lessons
from explain.engine import engine
from explain.experiment import Experiment
from explain.player.component import Run
from explain.player.view import view
from explain.trace.file import TraceFile, to_bytes
from explain.trace.model import Tile, Trace
from tests.e2e.conftest import CODE_READER, PATIENCE_MS, go, watched
from tests.e2e.server import Server

FLASH = "flash_attention"


@pytest.fixture(scope="module")
def trace() -> Trace:
    """The run that the chapter on FlashAttention opens on."""
    return engine().trace(lessons.OPENING).trace


def player(page: Page) -> Locator:
    return page.get_by_test_id("player")


def at(page: Page, step: int) -> None:
    expect(player(page)).to_have_attribute("data-step", str(step))


def step_of(page: Page) -> int:
    return int(player(page).get_attribute("data-step") or -1)


@pytest.fixture
def opened(alone: Callable[..., Page]) -> Callable[..., Page]:
    """Opens a run on a page of its own, its player with the focus."""

    def opened(experiment: Experiment = lessons.OPENING, step: int = 0) -> Page:
        file = TraceFile(to_bytes(engine().trace(experiment).trace))
        page = alone(Run(file, view(experiment, file.trace, "recorded")), step=step)
        player(page).focus()
        return page

    return opened


@pytest.fixture
def served(page: Page, visit) -> Callable[..., Page]:
    """Opens the chapter in the app, where Streamlit's own parts matter."""

    def served(step: int = 0) -> Page:
        visit(f"{FLASH}?step={step}")
        expect(player(page)).to_have_attribute("data-step", str(step))
        player(page).focus()
        return page

    return served


def settings(trace: Trace, name: str) -> list[int]:
    """Every step that sets a variable, arguments aside."""
    return [step for step, _ in trace.history(name)]


def moves(trace: Trace, name: str) -> list[int]:
    """Every step after which a variable holds other numbers than before, in its program."""
    starts = {program.first_step for launch in trace.launches for program in launch.recorded}
    out: list[int] = []
    before: tuple[int, np.ndarray] | None = None
    for step, value in trace.history(name):
        assert isinstance(value, Tile)
        now = max(start for start in starts if start <= step), value.numpy()
        if before is None or before[0] != now[0] or not np.array_equal(before[1], now[1], equal_nan=True):
            out.append(step)
        before = now
    return out


# --- clocks ---


def test_the_clock_decides_what_the_arrows_do_and_shift_is_coarser(opened, trace):
    page = opened()
    tiles = settings(trace, "cols")
    page.get_by_role("button", name="Step by tile").click()
    expect(player(page)).to_have_attribute("data-clock", "tile")
    expect(page.get_by_role("button", name="Next tile")).to_be_visible()
    page.keyboard.press("ArrowRight")
    at(page, tiles[0])
    page.keyboard.press("ArrowRight")
    at(page, tiles[1])
    page.keyboard.press("ArrowLeft")
    at(page, tiles[0])
    second = trace.launches[0].recorded[1].first_step
    page.keyboard.press("Shift+ArrowRight")  # the next pass over the tiles: the next program's
    at(page, next(step for step in tiles if step > second))
    page.get_by_role("button", name="Step by every line").click()
    page.keyboard.press("ArrowLeft")
    at(page, next(step for step in tiles if step > second) - 1)


def test_tiles_of_one_element_are_called_elements(opened):
    row = engine().trace(lessons.element_by_element(lessons.ONLINE)).trace
    page = opened(lessons.element_by_element(lessons.ONLINE))
    page.get_by_role("button", name="Step by element").click()
    for step in settings(row, "cols")[:4]:
        page.keyboard.press("ArrowRight")
        at(page, step)
    expect(page.locator(".where .tile")).to_have_text(re.compile("^element 4 of"))


def test_play_goes_at_the_speed_that_was_chosen(opened):
    page = opened()
    page.get_by_label("Speed of play").select_option("8")
    gone: list[int] = []
    while max(gone, default=0) <= 8 and len(gone) < 5:  # at normal speed 3; a busy machine may play slower than asked
        before = step_of(page)
        page.keyboard.press("Space")
        page.wait_for_timeout(2000)
        page.keyboard.press("Space")
        gone.append(step_of(page) - before)
    assert gone[-1] > 8, gone


def test_after_a_click_space_plays_and_by_keyboard_it_presses_the_button(opened):
    page = opened()
    onward = page.locator(".buttons [data-do=next]")
    onward.click()
    page.keyboard.press("Space")
    expect(page.get_by_role("button", name="Pause")).to_be_visible()
    page.keyboard.press("Space")
    step = step_of(page)
    onward.focus()
    page.keyboard.press("Space")
    at(page, step + 1)
    expect(page.get_by_role("button", name="Play", exact=True)).to_be_visible()


def test_play_follows_the_clock(opened, trace):
    page = opened()
    page.get_by_role("button", name="Step by tile").click()
    page.keyboard.press("Space")
    expect(player(page)).not_to_have_attribute("data-step", "0")
    page.keyboard.press("Space")
    assert step_of(page) in settings(trace, "cols")


# --- jumps ---


def test_n_goes_to_the_next_move_of_the_watched_variable(opened, trace):
    page = opened()
    expected = moves(trace, "m_i")
    assert len(expected) < len(settings(trace, "m_i"))  # in some tiles no maximum moves
    for step in expected[:6]:
        page.keyboard.press("n")
        at(page, step)
    page.keyboard.press("Shift+N")
    at(page, expected[4])
    page.get_by_label("Watched variable").last.select_option("l_i")
    page.keyboard.press("n")
    at(page, next(step for step in moves(trace, "l_i") if step > expected[4]))
    page.get_by_role("button", name="Previous change").click()
    at(page, max(step for step in moves(trace, "l_i") if step < step_of(page) or step <= expected[4]))


def test_a_name_in_the_source_is_watched_by_alt_click_or_its_menu(opened, trace):
    page = opened(step=settings(trace, "cols")[0])
    watched = page.get_by_label("Watched variable").last
    for name, how in (("alpha", {"modifiers": ["Alt"]}), ("acc", {"button": "right"})):
        start = step_of(page)
        expect(watched).not_to_have_value(name)
        page.locator(f".listing:not([hidden]) [data-name={name}]").first.click(**how)
        at(page, next(step for step in moves(trace, name) if step > start))
        expect(watched).to_have_value(name)


def test_g_goes_to_a_step_and_says_what_it_cannot_use(opened, trace):
    page = opened()
    page.keyboard.press("g")
    box = page.get_by_role("textbox", name="Step number")
    expect(box).to_be_focused()
    for wrong in ("-1", str(trace.steps), "many", ""):
        box.fill(wrong)
        box.press("Enter")
        expect(page.get_by_role("alert").last).to_contain_text(f"0 to {trace.steps - 1}")
        at(page, 0)
    box.fill("40")
    box.press("Enter")
    at(page, 40)
    expect(player(page)).to_be_focused()
    page.get_by_role("button", name="Go to a step by its number").click()
    page.get_by_role("textbox", name="Step number").press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    at(page, 40)


# --- counters ---


def test_a_counter_lists_what_made_it_and_each_entry_leads_to_its_step(opened, trace):
    tiles = settings(trace, "cols")
    page = opened(step=tiles[2])
    counter = page.get_by_role("button", name="List the loads of k")
    bytes_so_far = counter.locator("b").inner_text()
    counter.click()
    dialog = page.get_by_role("dialog", name="Loads of k")
    total = dialog.locator(".sum")
    expect(total).to_have_attribute("data-count", "2")
    expect(total).to_have_attribute("data-bytes", bytes_so_far.replace(",", ""))
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    expect(counter).to_be_focused()
    counter.press("Enter")
    loads = [
        step
        for step in range(tiles[2] + 1)
        if any(a.kind == "load" and a.buffer.name == "k_ptr" for a in trace.accesses(step))
    ]
    dialog.get_by_role("button", name="Go to step").nth(1).click()
    at(page, loads[1])
    expect(player(page)).to_be_focused()


def test_a_long_list_is_counted_whole_and_drawn_in_part(opened, trace):
    page = opened(lessons.OPENING.with_(block_m=4, block_n=4))
    page.keyboard.press("End")
    page.get_by_role("button", name="List the loads of all buffers").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("checkbox").check()
    total = dialog.locator(".sum")
    expect(total).to_have_attribute("data-all", "true")
    # Q once, K and V sixteen times, for each of 16 tiles of queries
    expect(total).to_have_attribute("data-count", str(16 * (1 + 2 * 16)))
    assert dialog.locator("button.entry").count() < 60
    page.keyboard.press("Escape")


# --- keys ---


def test_the_keys_are_listed_in_a_dialog_that_keeps_the_focus(opened):
    page = opened()
    page.keyboard.press("?")
    dialog = page.get_by_role("dialog", name="Keys")
    listed = " ".join(dialog.locator("dt").all_text_contents())
    for key in ("→", "Shift ←", "Page ↓", "Home", "Space", "N", "G", "A", "D", "P or F", "Esc"):
        assert key in listed
    for _ in range(4):
        page.keyboard.press("Tab")
        page.keyboard.press("ArrowRight")
    at(page, 0)  # the keys are the dialog's
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    expect(player(page)).to_be_focused()
    page.get_by_role("button", name="Keys", exact=True).click()
    expect(dialog).to_be_visible()
    dialog.get_by_role("button", name="Close").click()
    expect(dialog).to_have_count(0)


def test_in_the_app_streamlits_letters_are_its_own_and_a_changed_run_keeps_its_tile_and_line(served, trace):
    step = settings(trace, "l_i")[-1] - 1  # in the last tile of the last program
    page = served(step=step)
    taken = player(page).evaluate(
        """player => ["c", "C", "r", "R"].filter(
          (key) => !player.dispatchEvent(new KeyboardEvent("keydown", {key, bubbles: false, cancelable: true})))"""
    )
    assert taken == []  # nobody called preventDefault
    at(page, step)
    line = player(page).get_attribute("data-line") or ""
    program = page.locator(".picker select").input_value()
    causal = page.get_by_test_id("stCheckbox").get_by_text("Causal")
    causal.click()
    expect(player(page)).not_to_have_attribute("data-steps", str(trace.steps))
    expect(player(page)).to_have_attribute("data-line", line)
    expect(page.locator(".picker select")).to_have_value(program)
    assert step_of(page) != step  # fewer tiles came before it
    causal.click()
    at(page, step)
    page.keyboard.press("ArrowRight")  # a checkbox leaves the arrows to the player
    at(page, step + 1)


# --- the full-screen view ---


def test_the_presenters_view_fills_the_whole_window_with_few_panels_or_one(opened, trace):
    page = opened(step=moves(trace, "m_i")[1])
    page.keyboard.press("p")
    for panel in ("source", "equation", "rows"):
        expect(page.locator(f".panel.{panel}")).to_be_visible()
    expect(page.locator(".panel.map")).to_be_hidden()
    frame = player(page).bounding_box()
    size = page.viewport_size
    assert frame is not None
    assert size is not None
    assert (frame["x"], frame["y"], frame["width"], frame["height"]) == (0, 0, size["width"], size["height"])
    page.keyboard.press("3")
    expect(page.locator(".panel.map")).to_be_visible()
    expect(page.locator(".panel.source")).to_be_hidden()
    step = step_of(page)
    page.keyboard.press("ArrowRight")  # the transport stays
    at(page, step + 1)
    expect(page.get_by_role("button", name="Next step")).to_be_visible()
    page.get_by_label("Panel at full screen").select_option("rows")
    expect(page.locator(".panel.rows")).to_be_visible()
    page.keyboard.press("0")
    for panel in ("source", "map", "rows"):
        expect(page.locator(f".panel.{panel}")).to_be_visible()
    page.keyboard.press("Escape")
    page.wait_for_timeout(300)
    frame = player(page).bounding_box()
    assert frame is not None
    assert frame["y"] > 0
    expect(page.locator(".panel.equation")).to_be_visible()


def test_a_clickers_key_blanks_the_screen_and_any_key_brings_it_back(opened):
    page = opened()
    for key in ("b", "."):
        page.keyboard.press(key)
        expect(page.locator(".blank"), key).to_be_hidden()  # only at full screen
    page.keyboard.press("f")
    leave = page.get_by_role("button", name="Leave full screen")
    expect(leave).to_be_visible()
    for key in ("b", "."):
        player(page).focus()
        page.keyboard.press(key)
        expect(page.locator(".blank"), key).to_be_visible()
        page.keyboard.press("PageDown")
        expect(page.locator(".blank"), key).to_be_hidden()
        at(page, 0)
        page.keyboard.press(key)
        expect(page.locator(".blank"), key).to_be_visible()
        leave.focus()
        page.keyboard.press("Space")
        expect(page.locator(".blank"), key).to_be_hidden()
        expect(leave).to_be_visible()
    leave.click()
    expect(leave).to_be_hidden()


def test_a_panel_that_was_hidden_stays_hidden_in_this_window(opened):
    page = opened()
    page.get_by_role("button", name="Panels").click()
    page.get_by_role("dialog").get_by_role("checkbox", name="Scores").uncheck()
    page.keyboard.press("Escape")
    expect(page.locator(".panel.map")).to_be_hidden()
    page.reload()
    at(page, 0)
    expect(page.locator(".panel.map")).to_be_hidden()
    page.get_by_role("button", name="Panels").click()
    page.get_by_role("dialog").get_by_role("checkbox", name="Scores").check()
    expect(page.locator(".panel.map")).to_be_visible()
    page.get_by_role("dialog").get_by_role("button", name="Show Running state at full screen").click()
    expect(page.locator(".panel.rows")).to_be_visible()
    expect(page.locator(".panel.map")).to_be_hidden()


# --- questions ---


def value_in_row(trace: Trace, step: int, name: str, row: int = 0) -> float:
    value = trace.state(step)[name]
    assert isinstance(value, Tile)
    return float(value.numpy()[row])


def test_the_player_asks_before_it_shows(opened, trace):
    alphas = settings(trace, "alpha")
    page = opened(step=settings(trace, "cols")[1])
    page.get_by_label("Watched variable").last.select_option("alpha")
    page.keyboard.press("a")
    page.keyboard.press("PageDown")  # stops on the way
    at(page, alphas[1] - 1)
    box = page.get_by_role("region", name="Prediction")
    expect(box).to_have_attribute("data-asked", "alpha")
    expect(box).to_have_attribute("data-line", str(trace.line(alphas[1])))
    expect(box.locator(".change")).to_be_hidden()
    old, new = value_in_row(trace, alphas[0], "alpha"), value_in_row(trace, alphas[1], "alpha")
    page.keyboard.press("ArrowRight")
    at(page, alphas[1])
    expect(box).to_contain_text(f"alpha {old:.0f} → {new:.4g}")
    page.keyboard.press("ArrowRight")
    at(page, alphas[1] + 1)
    expect(box).to_be_hidden()


def test_an_answer_is_judged_within_its_rounding(opened, trace):
    sums = settings(trace, "l_i")
    start = settings(trace, "cols")[0]
    page = opened(step=start)
    page.get_by_label("Watched variable").last.select_option("l_i")
    page.get_by_role("button", name="Predict").click()
    box = page.get_by_role("region", name="Prediction")
    answered = page.get_by_role("textbox", name="Your answer")
    for answer, verdict in (("{:.3f}", "right"), ("{:.1f}", "right"), ("17", "wrong"), ("a lot", "invalid")):
        player(page).focus()
        page.keyboard.press("n")
        at(page, sums[1] - 1)
        answered.fill(answer.format(value_in_row(trace, sums[1], "l_i")))
        answered.press("Enter")
        at(page, sums[1])
        expect(box, answer).to_have_attribute("data-verdict", verdict)
        go(page, start)
        expect(box).to_be_hidden()


def test_the_maximum_is_asked_for_where_it_is_made_and_play_waits(opened, trace):
    page = opened(step=settings(trace, "cols")[0])
    page.keyboard.press("a")
    page.get_by_label("Speed of play").select_option("8")
    page.keyboard.press("Space")
    at(page, settings(trace, "m_new")[0] - 1)
    box = page.get_by_role("region", name="Prediction")
    expect(box).to_have_attribute("data-asked", "m_new")
    expect(box.get_by_role("textbox")).to_be_focused()
    # all that the answer needs: the old maximum, and the tile's scores of the row
    before = trace.state(settings(trace, "m_new")[0] - 1)
    assert box.locator(".given dt").all_inner_texts() == ["m_i", "s"]
    scores = box.locator(".given dd").last.inner_text().replace("−", "-").split(", ")
    assert [float(score) for score in scores] == pytest.approx(before["s"].numpy()[0], rel=1e-3)
    page.wait_for_timeout(600)
    at(page, settings(trace, "m_new")[0] - 1)
    page.keyboard.press("Escape")
    expect(page.get_by_role("region", name="Prediction")).to_be_hidden()


# --- touch ---


@pytest.fixture
def phone(browser: Browser, app: Server) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 420, "height": 860}, has_touch=True, is_mobile=True)
    context.set_default_timeout(PATIENCE_MS)
    context.add_init_script(CODE_READER)
    page = context.new_page()
    with watched(page, app):
        page.goto(f"{app.url}/{FLASH}?step=0")
        expect(player(page)).to_have_attribute("data-step", "0")
        expect(page.locator("[data-test-script-state=notRunning]")).to_be_attached()
        yield page
    context.close()


def swipe(page: Page, start: tuple[float, float], end: tuple[float, float]) -> None:
    touch = page.context.new_cdp_session(page)
    places = [(start[0] + (end[0] - start[0]) * i / 5, start[1] + (end[1] - start[1]) * i / 5) for i in range(6)]
    for kind, place in [("touchStart", places[0]), *(("touchMove", place) for place in places[1:])]:
        touch.send(
            "Input.dispatchTouchEvent", {"type": kind, "touchPoints": [{"x": round(place[0]), "y": round(place[1])}]}
        )
    touch.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})


def test_a_finger_hits_every_button_and_a_swipe_steps_and_a_scroll_does_not(phone: Page):
    sizes = phone.locator(".player button:visible, .player select:visible").evaluate_all(
        "all => all.map((e) => { const r = e.getBoundingClientRect(); return [e.getAttribute('aria-label'), "
        "r.height]; })"
    )
    assert len(sizes) > 12
    assert [name for name, height in sizes if height < 39.5] == []
    assert phone.evaluate("document.scrollingElement.scrollWidth <= innerWidth"), "wider than the phone"

    phone.locator(".panel.map canvas").scroll_into_view_if_needed()
    box = phone.locator(".panel.map canvas").bounding_box()
    assert box is not None
    y = max(box["y"], 60) + 40
    swipe(phone, (320, y), (90, y + 5))
    at(phone, 1)
    swipe(phone, (320, y), (90, y - 5))
    at(phone, 2)
    swipe(phone, (90, y), (320, y))
    at(phone, 1)
    swipe(phone, (200, y + 100), (230, y - 20))
    phone.wait_for_timeout(300)
    at(phone, 1)
