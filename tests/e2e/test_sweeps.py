"""A sweep in a browser: run, cancelled, resumed, taken home."""

from __future__ import annotations

import csv
import re
from contextlib import suppress
from pathlib import Path

import pytest
from playwright.sync_api import Page, TimeoutError, expect

from explain.chapters.sweeps.model import Sweep, formula
from tests.e2e.conftest import rests

KERNELS = "attention_standard,flash_attention"
ADDRESS = (
    "sweeps?sweep=Your+own&witness=trace&attention+values={}&attention+held=head_dim%3D32,block_m%3D16,block_n%3D16"
)
LONG = "300,600," + ",".join(map(str, range(1200, 1425, 25)))  # ever longer: something is left to cancel
TOTAL = 2 * (1 + len(LONG.split(",")))
HELD = {"head_dim": 32, "block_m": 16, "block_n": 16}


def rows(path: str | Path) -> list[dict[str, str]]:
    with Path(path).open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def download(page: Page, name: str) -> list[dict[str, str]]:
    rests(page)  # the button is of what is shown
    with page.expect_download() as started:
        page.get_by_role("button", name=name, exact=True).click()
    assert started.value.suggested_filename.endswith(".csv")
    return rows(started.value.path())


@pytest.fixture
def first(request: pytest.FixtureRequest) -> int:
    """The first sequence length of a sweep: another one in each try, since the server keeps the points of a sweep."""
    return 31 + int(getattr(request.node, "execution_count", 1))


def points(page: Page) -> int:
    """How many points the page says it has."""
    found = re.search(r"(\d+) of \d+ points", page.get_by_test_id("stMain").inner_text())
    return int(found[1]) if found else 0


def test_a_small_sweep_is_traced_drawn_and_taken_home(page: Page, visit, first: int):
    lengths = [str(first), "64"]
    visit(ADDRESS.format(",".join(lengths)))
    page.get_by_role("button", name="Run 4 points").click()
    expect(page.get_by_text(re.compile(r"^4 of 4 points"))).to_be_visible()
    expect(page.get_by_test_id("stPlotlyChart")).to_be_visible()
    found = download(page, "All points as CSV")
    sweep = Sweep.of(KERNELS.split(","), "seq_len", lengths, HELD)
    assert [(row["kernel"], row["seq_len"], row["witness"]) for row in found] == [
        (e.kernel, str(e.values["seq_len"]), "trace") for e in sweep.experiments
    ]
    for row, experiment in zip(found, sweep.experiments, strict=True):
        assert int(row["bytes_asked"]) == formula(experiment).bytes["asked"]
        assert int(row["flops"]) == formula(experiment).flops
        assert row["head_dim"] == "32"
        assert row["seconds"] == ""


def test_a_sweep_is_cancelled_and_resumed_and_keeps_what_it_had(page: Page, visit, first: int):
    cancel, resume = (page.get_by_role("button", name=name) for name in ("Cancel", "Resume"))

    def cancelled(above: int) -> list[dict[str, str]]:
        """The points, once there are more than that many and the sweep has been cancelled."""
        expect(cancel).to_be_visible()
        counts = "|".join(map(str, range(above + 1, TOTAL)))
        expect(page.get_by_text(re.compile(f"^({counts}) of {TOTAL} points"))).to_be_visible()
        for _ in range(60):  # each point draws it anew, and a press may meet the one before
            with suppress(TimeoutError):
                cancel.click(timeout=1_000)
            if resume.is_visible():
                break
        expect(resume).to_be_visible()
        return download(page, "All points as CSV")

    visit(ADDRESS.format(f"{first},{LONG}"))
    page.get_by_role("button", name=f"Run {TOTAL} points").click()
    before = cancelled(0)
    assert 0 < len(before) < TOTAL
    assert points(page) == len(before)
    page.reload()  # it is the machine's, not the session's
    expect(resume).to_be_visible()
    rests(page)
    resume.click()
    after = cancelled(len(before))
    assert after[: len(before)] == before
    assert len({(row["kernel"], row["seq_len"]) for row in after}) == len(after) > len(before)


def test_a_phone_has_plots_that_fit_with_their_labels_below(page: Page, visit):
    page.set_viewport_size({"width": 420, "height": 900})
    visit("sweeps?witness=formula")
    plot = page.get_by_test_id("stPlotlyChart").first
    expect(plot.locator(".legendtext").first).to_be_visible()
    box = plot.locator(".main-svg").first.bounding_box()
    assert box
    assert 0 <= box["x"] < box["x"] + box["width"] <= 420
    page.set_viewport_size({"width": 1440, "height": 900})
    expect(plot.locator(".annotation-text").first).to_be_visible()
    expect(plot.locator(".legendtext")).to_have_count(0)


def test_a_plot_is_saved_as_a_picture_without_a_connection(page: Page, visit):
    visit("sweeps?witness=formula&image+format=PNG")
    plot = page.get_by_test_id("stPlotlyChart").first
    expect(plot).to_be_visible()
    expect(plot.locator(".main-svg").first).to_be_visible()
    page.context.set_offline(True)
    try:
        plot.hover()
        with page.expect_download() as started:
            plot.locator("[data-title^='Download plot']").click()
        data = Path(started.value.path()).read_bytes()
    finally:  # the tab is every test's
        page.context.set_offline(False)
    assert started.value.suggested_filename == "tilescope-bytes-requested-by-loads-and-stores-over-seq-len.png"
    assert data.startswith(b"\x89PNG")


def test_what_cannot_be_swept_is_said_where_it_was_typed(page: Page, visit):
    visit(ADDRESS.format("32,many"))
    expect(page.get_by_text(re.compile(r"many\..*whole number"))).to_be_visible()
    values = page.get_by_label(re.compile("^Values"))
    values.fill("64, 128")
    values.press("Enter")
    expect(page.get_by_role("button", name="Run 4 points")).to_be_visible()
