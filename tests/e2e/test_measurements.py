"""A reader's own file in a browser: loaded, compared with the recorded one on every page of the lab, refused when it
was altered.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from explain.records import file, registry


def test_a_file_is_refused_or_compared_and_goes_along_to_other_pages(page: Page, visit, tmp_path: Path):
    record = registry.recorded()
    assert record is not None
    good, altered = tmp_path / "good.json", tmp_path / "altered.json"
    data = file.written(replace(record, provenance=replace(record.provenance, gpu="NVIDIA Other 9")))
    good.write_bytes(data)
    altered.write_bytes(data.replace(b'"gpu": "NVIDIA Other 9"', b'"gpu": "NVIDIA Other 8"'))
    page.set_viewport_size({"width": 1920, "height": 1080})
    visit("measurements")
    page.get_by_text("Another GPU's file").click()
    page.locator("input[type=file]").set_input_files(altered)
    expect(page.get_by_text("altered.json is refused: damaged or altered")).to_be_visible()
    page.locator("input[type=file]").set_input_files(good)
    expect(page.get_by_text("your file · NVIDIA Other 9")).to_be_visible()
    expect(page.get_by_text("recorded · NVIDIA H200")).to_have_count(1)  # the one of the run before leaves
    page.mouse.click(5, 500)  # beside the popover, which closes it
    expect(page.locator("input[type=file]")).to_have_count(0)
    page.get_by_role("link", name="Three numbers", exact=True).first.click()
    expect(page.get_by_role("cell", name="Other 9 · your file")).to_be_visible()  # the choice itself is folded there


WIDER = """box => box.querySelectorAll("td, th").forEach(cell => cell.style.setProperty("font-size",
    `${1.05 * parseFloat(getComputedStyle(cell).fontSize)}px`, "important"))"""
"""As a font that is 5% wider does."""


@pytest.mark.parametrize(
    ("width", "kernel", "last"),
    [(1440, "all", "memory"), (1440, "flash_attention", "what it is"), (1280, "rung:naive_fp32", "what it is"),
     (1920, "flash_attention", "what it is")],
)  # fmt: skip
def test_everything_that_was_measured_fits_a_laptop(page: Page, app_url: str, width: int, kernel: str, last: str):
    page.set_viewport_size({"width": width, "height": 1500})
    page.goto(f"{app_url}/measurements?every=true&kernel={kernel}")
    box = page.locator("[class*=st-key-numbers-of-] div:has(> table)")
    expect(box.locator("th", has_text=last).last).to_be_attached()
    expect(box.locator("table")).to_have_css("border-collapse", "separate")  # the page's style is there
    box.evaluate(WIDER)
    assert box.evaluate("box => box.scrollWidth - box.clientWidth") <= 0
    assert page.evaluate("document.querySelector('.stMain').scrollWidth <= innerWidth")


@pytest.mark.parametrize(("width", "kernel"), [(1000, "all"), (420, "flash_attention")])
def test_on_a_narrower_window_it_scrolls_in_its_own_box_beside_its_first_column(
    page: Page, app_url: str, width: int, kernel: str
):
    page.set_viewport_size({"width": width, "height": 4000})
    page.goto(f"{app_url}/measurements?every=true&kernel={kernel}")  # a session without another GPU's file
    box = page.locator("[class*=st-key-numbers-of-] div:has(> table)")
    expect(box.locator("tr", has_text="spills").first).to_be_attached()
    expect(box.locator("table")).to_have_css("border-collapse", "separate")  # the page's style is there
    if kernel == "all":
        page.get_by_text("runs as a table").click()
        expect(box).to_be_visible()
    first = box.locator("tbody tr").first.locator("td").first
    left = "cell => cell.getBoundingClientRect().left - cell.closest('div').getBoundingClientRect().left"
    before = first.evaluate(left)
    assert box.evaluate("box => { box.scrollLeft = 1e6; return box.scrollLeft }") > 100
    assert first.evaluate(left) == before
    expect(box.locator("th").last).to_be_in_viewport(ratio=0.3)
    assert page.evaluate("document.querySelector('.stMain').scrollWidth <= innerWidth")
