"""What waits for a page leaves it alone."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect


@pytest.mark.parametrize("selector", ["h2", "p", "h1"], ids=["missing", "hidden", "another text"])
def test_a_look_that_finds_nothing_does_not_describe_the_page(page: Page, selector: str) -> None:
    page.set_content("<h1>One</h1><p hidden>Two</p>")
    looked = expect(page.locator(selector))
    look = looked.to_have_text if selector == "h1" else looked.to_be_visible
    arguments = ("Two",) if selector == "h1" else ()
    with pytest.raises(AssertionError) as failed:
        look(*arguments, timeout=200)
    assert "Aria snapshot" not in str(failed.value)
