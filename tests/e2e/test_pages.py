"""Every page, as it opens in light and in dark: whole at a laptop's and at a phone's width, and nothing complains."""

from __future__ import annotations

from typing import Literal

import pytest
from playwright.sync_api import Page, expect

from explain import contents

FITS = """() => [document.scrollingElement, document.querySelector("[data-testid=stMain]")]
  .every((box) => box.scrollWidth <= box.clientWidth + 1)"""
LOOKS: tuple[tuple[Literal["light", "dark"], tuple[int, int]], ...] = (("light", (1440, 420)), ("dark", (420, 1440)))
"""Each theme, and the widths in pixels: the first is the one that the page is loaded at."""


@pytest.mark.parametrize("stem", [page.stem for page in contents.pages()])
def test_it_opens_in_both_themes_and_is_no_wider_than_the_window(page: Page, app_url: str, stem: str):
    """The fixture `page` fails on an error in the console, a foreign request, or a traceback in the server's log."""
    for scheme, widths in LOOKS:
        page.emulate_media(color_scheme=scheme)
        page.goto(f"{app_url}/{'' if stem == 'home' else stem}")
        expect(page.get_by_role("heading", level=1).first).to_be_visible()
        expect(page.locator("[data-test-script-state=notRunning]")).to_be_attached()
        for trouble in ("stException", "stAlertContentError"):
            expect(page.get_by_test_id(trouble)).to_have_count(0)
        for player in page.locator(".player").all():
            expect(player).to_have_attribute("data-testid", "player")
            expect(player.locator(".failure")).to_be_hidden()
            expect(player).to_have_attribute("data-theme", scheme)
        for width in widths:
            page.set_viewport_size({"width": width, "height": 900})
            page.wait_for_function(FITS)  # Streamlit lays its columns out once more after the script has ended
