"""Chapter "Speed" in a browser: a rung is pressed, and its idea, its code and what is new in it are there; the keyboard
does the same.
"""

from __future__ import annotations

from playwright.sync_api import Page, expect

from explain.chapters.speed.rungs import BY_NAME, RUNGS
from tests.e2e.conftest import rests


def test_a_rung_is_pressed_and_its_code_and_what_is_new_are_shown(page: Page, visit) -> None:
    visit("speed")
    rung = page.get_by_role("button", name=f"Kernel 3, {BY_NAME['exp2'].title}")
    expect(page.locator(".board svg").filter(visible=True).locator("[data-press]")).to_have_count(len(RUNGS))
    rung.click()
    page.wait_for_url("**rung=exp2**")
    expect(page.get_by_role("heading", name=f"3. {BY_NAME['exp2'].title}")).to_be_visible()
    expect(rung).to_have_attribute("aria-pressed", "true")
    diff = page.locator(".source").filter(has_text="+        p = tl.exp2(s - m_safe[:, None])")
    expect(diff.first).to_be_visible()
    rests(page)
    page.context.grant_permissions(["clipboard-read"])
    diff.first.get_by_role("button", name="Copy").click()
    assert "\n+        p = tl.exp2(s - m_safe[:, None])\n" in page.evaluate("navigator.clipboard.readText()")
    page.get_by_role("tab", name="The whole kernel").click()
    whole = page.locator(".source").filter(has_text="def attention_kernel(")
    expect(whole.first).to_be_visible()
    page.get_by_role("button", name=f"Kernel 8, {BY_NAME['two_groups'].title}").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name=f"8. {BY_NAME['two_groups'].title}")).to_be_visible()
    rests(page)
    page.get_by_role("button", name="Next kernel").click()
    page.wait_for_url("**rung=overlapped**")
    expect(page.get_by_role("heading", name=f"9. {BY_NAME['overlapped'].title}")).to_be_visible()
