"""A chapter's questions in the browser: answered wrong and right, led to the step, remembered and forgotten."""

from __future__ import annotations

import json
import re

from playwright.sync_api import Page, expect

from tests.e2e.conftest import rests
from tests.e2e.waiting import until

KEPT = "localStorage.getItem('tilescope.progress')"


def question(page: Page, name: str):
    return page.locator(f".exercises li[data-name={name}]")


def test_a_question_is_checked_shown_in_the_player_and_remembered(page: Page, visit):
    visit("online_softmax")
    player = page.get_by_test_id("player")
    expect(player).to_be_visible()
    tiles = question(page, "how-often")
    verdict = tiles.locator(".verdict")
    assert page.locator(".exercises li[data-done]").count() == 0
    tiles.get_by_role("button").click()  # nothing typed
    expect(verdict).to_have_attribute("data-verdict", "none")
    tiles.locator("input").fill("0")
    tiles.get_by_text("Check").click()
    expect(verdict).to_have_attribute("data-verdict", "wrong")
    assert page.evaluate(KEPT) is None
    assert page.locator(".exercises li[data-done]").count() == 0

    hint = verdict.inner_text()
    tiles.locator("[data-show]").click()
    expect(tiles.locator("[data-show]")).to_have_count(0)
    assert verdict.inner_text() != hint
    tiles.locator("[data-step]").click()  # the explanation leads to the step that shows it
    shown = tiles.locator("[data-step]").get_attribute("data-step")
    expect(player).to_have_attribute("data-step", str(shown))
    step = question(page, "first-rescale")
    page.evaluate("scrollTo(0, 0), document.querySelector('[data-testid=stMain]').scrollTo(0, 1e6)")
    step.get_by_role("button", name="To the player").click()
    expect(player).to_be_in_viewport(ratio=0.5)
    expect(player).to_have_attribute("data-step", str(shown))
    step.get_by_role("button", name="I am at the step").click()  # and that is the step the next question asks for
    expect(step.locator(".verdict")).to_have_attribute("data-verdict", "right")
    expect(step).to_have_attribute("data-done", "")
    assert json.loads(page.evaluate(KEPT)) == {"online_softmax": ["first-rescale"]}

    page.reload()
    expect(step).to_have_attribute("data-done", "")
    expect(page.locator(".exercises .tally")).to_contain_text(
        re.compile(r"1 of this page's 8 questions answered\. Not shown here: 4, for another tab or choice")
    )
    mark = """(li, verdict) => {
        li.insertAdjacentHTML("beforeend", `<p class="verdict" data-verdict="${verdict}"></p>`);
        const shown = getComputedStyle(li.querySelector("p"), "::before").content;
        li.lastElementChild.remove();
        return shown;
    }"""
    assert (step.evaluate(mark, "right"), step.evaluate(mark, "wrong")) == ('"✓ "', "none")  # no ✓ beside "Not quite"
    page.locator(".exercises [data-forget]").click()
    expect(step).not_to_have_attribute("data-done", "")
    assert page.evaluate(KEPT) is None

    choice = page.get_by_role("radio", name="Tile by tile")
    steps = player.get_attribute("data-steps")
    choice.click()
    expect(player).not_to_have_attribute("data-steps", str(steps))
    rests(page)
    before = player.get_attribute("data-step")
    page.keyboard.press("ArrowRight")  # the player's, after a press with the pointer
    expect(player).not_to_have_attribute("data-step", str(before))
    expect(choice).to_be_checked()

    steps = player.get_attribute("data-steps")
    page.get_by_role("radio", name="Tiles in parallel").click()
    expect(player).not_to_have_attribute("data-steps", str(steps))
    rests(page)
    page.get_by_text("Wrong kernel beside it").click()
    expect(page.locator(".lane-title")).to_have_count(2)
    rests(page)
    merge = question(page, "wrong-merge")
    for _ in range(2):  # the second time it tells the answer
        page.keyboard.press("ArrowRight")
        merge.get_by_role("button", name="I am at the step").click()
        expect(merge.locator(".verdict")).to_be_visible()
    expect(merge.locator("[data-step]")).to_be_visible()
    place = (
        "() => { const at = {}; dispatchEvent(new CustomEvent('tilescope:where', { detail: at })); return at.steps }"
    )
    own = int(merge.locator("[data-step]").get_attribute("data-step") or -1)
    run = int(merge.locator("[data-step]").get_attribute("data-run") or -1)
    merge.locator("[data-step]").click()
    until(page, f"({place})()[{run}] === {own}")
    assert player.get_attribute("data-step") != str(own)  # of two runs the player has a count of its own


def test_a_card_counts_the_questions_of_its_chapter(page: Page, visit):
    visit("")
    mark = page.locator("[data-progress=online_softmax]")
    counted = "(element) => getComputedStyle(element, '::after').content"
    expect(mark).to_be_visible()
    until(page, f"({counted})(document.querySelector('[data-progress=online_softmax]')) !== 'none'")
    before = mark.evaluate(counted)
    page.evaluate("localStorage.setItem('tilescope.progress', '{\"online_softmax\": [\"updates\"]}')")
    page.reload()
    expect(page.locator(".exercises [data-forget]")).to_be_visible()
    assert mark.evaluate(counted) != before
    page.locator(".exercises [data-forget]").click()
    until(page, f"({counted})(document.querySelector('[data-progress=online_softmax]')) === {before!r}")


def test_answers_and_ticks_belong_to_what_the_page_shows(page: Page, visit):
    visit("tile_cost")
    threads, scores = question(page, "threads"), question(page, "scores-per-thread")
    threads.locator("input").fill("512")
    threads.get_by_text("Check").click()
    expect(threads).to_have_attribute("data-done", "")
    scores.locator("input").fill("5")
    page.get_by_role("button", name="Choose 128 × 128").click()
    expect(page.get_by_text("Registers spill.")).to_be_visible()
    rests(page)
    expect(page.locator(".exercises li[data-done]")).to_have_count(0)
    expect(threads.locator("input")).to_have_value("")
    expect(scores.locator("input")).to_have_value("")
    expect(page.locator(".exercises .tally")).to_contain_text("Not yet for what is shown now: 1.")
    scores.locator("input").fill("7")
    page.get_by_role("button", name="Choose 64 × 64").click()
    expect(page.get_by_text("Nothing spills.")).to_be_visible()
    expect(threads).to_have_attribute("data-done", "")
    expect(page.locator(".exercises .tally")).to_contain_text("1 of this page's 4 questions answered")
    expect(page.locator(".exercises .tally")).not_to_contain_text("Not yet")
