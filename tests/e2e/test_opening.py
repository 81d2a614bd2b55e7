"""The opening in a browser: it plays by itself, stops and steps on demand, takes no focus, leads to its lines."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from explain.chapters.home import opening as values
from explain.engine import engine
from explain.lessons import OPENING, STANDARD
from tests.e2e.waiting import until

FIRST_MOTION_MS = 2_000
NUMBERS = re.compile(r"(?<![\w.,-])[−-]?\d[\d,]*(?:\.\d+)?")
"""Without the digits of a name, as in fp16 and FlashAttention-2."""
MOST_NUMBERS = 12


@pytest.fixture(scope="module")
def scenes() -> tuple[values.Scene, ...]:
    flash, standard = (engine().trace(one).trace for one in (OPENING, STANDARD))
    return values.scenes(values.run_of(flash, OPENING), flash, standard)


def opening(page: Page):
    return page.get_by_test_id("opening")


def opened(page: Page, visit: Callable[[str], Page], *, paused: bool = True) -> None:
    visit("")
    expect(opening(page)).to_have_attribute("data-playing", "true")
    if paused:
        opening(page).get_by_role("button", name="Pause").click()
        expect(opening(page)).to_have_attribute("data-playing", "false")


def time_of(page: Page) -> float:
    return float(opening(page).get_attribute("data-time") or -1)


def scrub(page: Page, seconds: float) -> None:
    opening(page).get_by_role("slider", name="Time").evaluate(
        "(slider, to) => { slider.value = to; slider.dispatchEvent(new Event('input', { bubbles: true })) }", seconds
    )


def said(page: Page) -> str:
    return opening(page).get_by_role("img").get_attribute("aria-label") or ""


def ends(scenes: tuple[values.Scene, ...]) -> list[float]:
    return [sum(scene.seconds for scene in scenes[: i + 1]) for i in range(len(scenes))]


def test_it_plays_by_itself_in_time_the_focus_stays_and_space_is_its_own_while_it_is_in_sight(
    page: Page, app_url: str, visit
):
    opened(page, visit, paused=False)  # the server's first page reads the traces
    page.goto("about:blank")
    page.goto(app_url)
    expect(opening(page)).to_have_attribute("data-time", re.compile(r"^0\.[1-9]|^[1-9]"))
    moved = page.evaluate("performance.now()")
    assert moved < 10 * FIRST_MOTION_MS  # other tests share these cores; benchmarks/opening.py measures it alone

    expect(opening(page)).to_have_attribute("data-playing", "true")
    first = time_of(page)
    until(
        page,
        "before => document.querySelector('[data-testid=stMain]') && "
        "[...document.querySelectorAll('*')].some((e) => e.shadowRoot?.querySelector('.opening')?.dataset.time > before)",
        arg=first + 0.5,
    )
    assert page.evaluate("document.activeElement.shadowRoot?.activeElement ?? null") is None

    main = page.get_by_test_id("stMain")
    page.keyboard.press("Space")  # on a fresh page, nothing has the focus
    expect(opening(page)).to_have_attribute("data-playing", "false")
    page.get_by_role("heading", name="Tilescope").click()
    page.keyboard.press("Space")
    expect(opening(page)).to_have_attribute("data-playing", "true")
    assert main.evaluate("main => main.scrollTop") == 0
    main.evaluate("main => main.scrollTo(0, 0.6 * main.scrollHeight)")
    expect(opening(page)).not_to_be_in_viewport()
    below = main.evaluate("main => main.scrollTop")
    page.keyboard.press("Space")  # the page's again
    until(page, "below => document.querySelector('[data-testid=stMain]').scrollTop > below", arg=below)


def test_paused_it_steps_and_scrubs_shows_a_scenes_numbers_and_takes_n(page: Page, visit, scenes):
    opened(page, visit)
    steps_and_scrubs_by_keyboard(page, scenes)
    shows_at_most_a_dozen_numbers(page, scenes)
    takes_n_from_its_slider(page, scenes)


def steps_and_scrubs_by_keyboard(page: Page, scenes: tuple[values.Scene, ...]) -> None:
    ended = ends(scenes)
    stage = opening(page).get_by_role("group")
    scrub(page, ended[3] + 0.5)
    expect(opening(page)).to_have_attribute("data-scene", scenes[4].name)
    page.keyboard.press("ArrowLeft")
    expect(opening(page)).to_have_attribute("data-scene", scenes[3].name)
    assert time_of(page) == pytest.approx(ended[3], abs=0.1)
    scrub(page, ended[3] - 1)  # paused within a scene
    for forward in (lambda: page.keyboard.press("ArrowRight"), opening(page).get_by_role("button", name="Next").click):
        at = next(i for i, scene in enumerate(scenes) if scene.name == opening(page).get_attribute("data-scene"))
        forward()  # the next scene at its end, still paused
        expect(opening(page)).to_have_attribute("data-scene", scenes[at + 1].name)
        expect(opening(page)).to_have_attribute("data-playing", "false")
        assert time_of(page) == pytest.approx(ended[at + 1], abs=0.1)
    page.wait_for_timeout(300)
    assert time_of(page) == pytest.approx(ended[5], abs=0.1)
    stage.focus()
    page.keyboard.press("Space")
    expect(opening(page)).to_have_attribute("data-playing", "true")
    expect(opening(page)).to_have_attribute("data-scene", scenes[6].name)
    for key, at in (("ArrowRight", 7), ("ArrowLeft", 6)):  # from the beginning of scene 6: on to 7, and back
        page.keyboard.press(key)
        expect(opening(page)).to_have_attribute("data-scene", scenes[at].name)
        expect(opening(page)).to_have_attribute("data-playing", "true")
        assert ended[at - 1] <= time_of(page) < ended[at] - 1
    page.keyboard.press("Space")
    expect(opening(page)).to_have_attribute("data-playing", "false")
    page.keyboard.press("Space")
    expect(opening(page)).to_have_attribute("data-playing", "true")
    page.keyboard.press("Space")
    expect(opening(page)).to_have_attribute("data-playing", "false")
    stopped = time_of(page)
    slider = opening(page).get_by_role("slider", name="Time")
    slider.press("ArrowLeft")
    assert time_of(page) == pytest.approx(stopped - 1, abs=0.01)
    slider.press("End")
    expect(opening(page)).to_have_attribute("data-scene", scenes[-1].name)
    slider.press("Home")
    expect(opening(page)).to_have_attribute("data-scene", scenes[0].name)
    assert time_of(page) == 0


def test_nothing_runs_while_it_is_paused_or_out_of_sight(page: Page, visit):
    opened(page, visit, paused=False)
    page.evaluate(
        "() => { plain = requestAnimationFrame; frames_asked = 0;"
        "window.requestAnimationFrame = (f) => { if (String(f).includes('frame(')) frames_asked++; return plain(f) } }"
    )
    page.get_by_test_id("stMain").evaluate("main => main.scrollTo(0, main.scrollHeight)")
    asked = -1
    while (now := page.evaluate("frames_asked")) != asked:  # until it has noticed
        asked = now
        page.wait_for_timeout(300)
    assert asked > 0
    page.get_by_test_id("stMain").evaluate("main => main.scrollTo(0, 0)")
    until(page, "before => frames_asked > before", arg=asked)
    opening(page).get_by_role("button", name="Pause").click()
    asked = page.evaluate("frames_asked")
    page.wait_for_timeout(500)
    assert page.evaluate("frames_asked") == asked
    page.evaluate("() => { window.requestAnimationFrame = plain }")


def shows_at_most_a_dozen_numbers(page: Page, scenes: tuple[values.Scene, ...]) -> None:
    for scene, end in zip(scenes, ends(scenes), strict=True):
        scrub(page, round(end - 0.1, 1))
        expect(opening(page)).to_have_attribute("data-scene", scene.name)
        found = NUMBERS.findall(said(page))
        assert len(found) <= MOST_NUMBERS, (scene.name, found)
        if scene.name == "join":
            assert [number for number in NUMBERS.findall(scene.sentence) if number not in found] == []


def takes_n_from_its_slider(page: Page, scenes: tuple[values.Scene, ...]) -> None:
    scrub(page, ends(scenes)[2] - 1)
    slider = opening(page).get_by_role("slider", name="N, tokens")
    slider.press("Home")
    expect(slider).to_have_attribute("aria-valuetext", re.compile("^64 "))
    small = said(page)
    slider.press("End")
    expect(slider).to_have_attribute("aria-valuetext", re.compile("^131,072 "))
    assert said(page) != small
    slider.press("ArrowLeft")
    expect(slider).to_have_attribute("aria-valuetext", re.compile("^65,536 "))


def test_f_fills_the_screen_with_the_film_and_leaves_it(page: Page, visit):
    opened(page, visit)
    full = "Boolean(document.fullscreenElement)"
    for leave in (lambda: page.keyboard.press("f"), opening(page).get_by_role("button", name="Full screen").click):
        page.keyboard.press("f")
        until(page, full)
        box = opening(page).bounding_box()
        assert box
        assert box["width"] == page.evaluate("innerWidth")
        leave()
        until(page, f"!{full}")
        expect(opening(page)).to_have_attribute("data-playing", "false")


def test_a_scene_leads_to_its_step_and_back(page: Page, visit, scenes):
    opened(page, visit)
    for name in ("larger", "trips"):
        at = next(i for i, scene in enumerate(scenes) if scene.name == name)
        scrub(page, round(ends(scenes)[at] - 0.5, 1))
        expect(opening(page)).to_have_attribute("data-scene", name)
        opening(page).locator(".controls .code").click()
        expect(page.get_by_test_id("player"), name).to_have_attribute("data-step", str(scenes[at].step))
        expect(page.get_by_test_id("player"), name).to_be_in_viewport(ratio=0.5)
        assert page.url.split("?")[0].endswith(scenes[at].page)
        page.go_back()
        expect(opening(page)).to_have_attribute("data-scene", name)
        expect(opening(page)).to_have_attribute("data-playing", "false")


def test_without_motion_it_is_a_strip_of_stills(page: Page, visit, scenes):
    page.emulate_media(reduced_motion="reduce")
    visit("")
    stills = opening(page).get_by_role("listitem")
    expect(stills).to_have_count(len(scenes))
    for still, scene in zip(stills.all(), scenes, strict=True):
        expect(still).to_contain_text(scene.sentence.replace("\xa0", " "))
        expect(still.get_by_role("link")).to_have_attribute("href", f"./{scene.link}")
        expect(still.get_by_role("img")).to_have_attribute("aria-label", re.compile("."))
    expect(opening(page).get_by_role("button", name="Play")).to_have_count(0)
    page.emulate_media(reduced_motion="no-preference")
    expect(opening(page)).to_have_attribute("data-scene", scenes[0].name)
    expect(stills).to_have_count(0)
