"""Definitions on hover, focus and tap; a page that stays as wide as its window while one is shown."""

from __future__ import annotations

from playwright.sync_api import Locator, Page, expect

from explain.glossary import definitions

SHOWN = "e => { const s = getComputedStyle(e, '::after'); return s.content === 'none' ? '' : s.content }"


def term(page: Page, word: str) -> Locator:
    return page.locator(".term").filter(has_text=word, visible=True).first


def test_a_word_says_what_it_means_to_pointer_and_keyboard(page: Page, visit):
    visit("online_softmax")
    word = term(page, "rescale factor")
    expect(word).to_be_visible()
    assert word.evaluate(SHOWN) == ""
    word.hover()
    assert definitions()["alpha"] in word.evaluate(SHOWN)
    page.mouse.move(0, 0)
    assert word.evaluate(SHOWN) == ""
    word.focus()
    assert definitions()["alpha"] in word.evaluate(SHOWN)
    assert definitions()["alpha"] in (word.get_attribute("aria-description") or "")


def test_a_definition_stays_inside_the_window(page: Page, visit):
    visit("softmax?step=0")
    expect(page.get_by_test_id("player")).to_have_attribute("data-step", "0")
    for width in (1440, 390):
        page.set_viewport_size({"width": width, "height": 900})
        words = page.locator(".term").filter(visible=True)
        assert words.count() > 5, width
        for word in words.all():
            word.focus()
            expect(word).to_be_focused()
            assert page.evaluate("document.scrollingElement.scrollWidth <= innerWidth"), width
            assert 0 < word.evaluate("e => parseFloat(getComputedStyle(e, '::after').width)") < width - 16


def test_a_terms_address_and_its_colour(page: Page, visit):
    visit("glossary?term=alpha")
    entry = page.locator(".glossary.card")
    expect(entry).to_contain_text("rescale factor")
    assert entry.locator("dt s").evaluate("e => getComputedStyle(e).backgroundColor") == "rgb(213, 94, 0)"
    page.get_by_label("Search").fill("spill")
    page.get_by_label("Search").press("Enter")
    page.wait_for_url("**search=spill**")
    expect(page.locator(".glossary").nth(1).locator("dt").first).to_contain_text("spill")


def test_a_terms_card_is_no_wider_than_the_window(page: Page, visit):
    visit("glossary?term=acc")
    expect(page.locator(".glossary.card")).to_be_visible()
    for width in (1920, 390):
        page.set_viewport_size({"width": width, "height": 900})
        expect(page.locator(".glossary.card")).to_be_visible()
        assert page.evaluate("document.scrollingElement.scrollWidth <= window.innerWidth"), width
