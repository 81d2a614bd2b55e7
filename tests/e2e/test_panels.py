"""The player's panels in a real browser: memory to scale, the rescale as a movement, names that glow."""

from __future__ import annotations

import itertools
import re
from collections import Counter

import numpy as np
import pytest
from playwright.sync_api import Page, expect

from explain.glossary import definitions
from explain.player.component import Run
from explain.source.liveness import alive
from explain.trace.file import TraceFile, to_bytes
from explain.trace.model import Affine, Tile, Trace
from tests.e2e.conftest import go
from tests.e2e.test_player import TILE, first, flash, flash_view, press, printed
from tests.e2e.waiting import until

CHIP = {"name": "H200", "shared_bytes": 232_448, "register_bytes": 262_144}
SMALL_CHIP = {"name": "a small chip", "shared_bytes": 512, "register_bytes": 256}


@pytest.fixture(scope="module")
def trace() -> Trace:
    return flash()


@pytest.fixture
def opened(alone, page, trace):
    """Opens the player at a step, wide enough for all its panels."""

    def opened(step: int = 0, chip: dict[str, object] = CHIP, width: int = 1800) -> Page:
        page.set_viewport_size({"width": width, "height": 1000})
        return alone(Run(TraceFile(to_bytes(trace)), {**flash_view(trace), "chip": chip}), step=step)

    return opened


def reads_until(trace: Trace, step: int) -> dict[str, Counter[int]]:
    """How often each element was loaded up to a step, by buffer."""
    counts: dict[str, Counter[int]] = {}
    for k in range(step + 1):
        for access in trace.accesses(k):
            if access.kind != "store":
                counts.setdefault(access.buffer.name, Counter()).update(access.indices().tolist())
    return counts


def test_hbm_says_how_often_an_element_was_read_forwards_and_backwards(opened, trace):
    step = trace.launches[0].recorded[2].first_step  # two programs have read all of K and V
    page = opened(step + 3)
    for _ in range(3):
        press(page, "ArrowLeft")
    counts = reads_until(trace, step)
    canvas, tip = page.locator(".hbm canvas"), page.locator(".tip")
    box = canvas.bounding_box()
    assert box is not None
    seen = set()
    for x, y in itertools.product((0.1, 0.6), np.linspace(0.05, 0.95, 20)):
        canvas.hover(position={"x": box["width"] * float(x), "y": box["height"] * float(y)})
        said = re.match(r"(\w+)\[(\d+), (\d+)\]: (\d+) reads?(?:, last at step (\d+))?", tip.text_content() or "")
        if not said:
            continue
        name, row, col, times, last = said.groups()
        buffer = next(b for b in trace.launches[0].buffers if b.name == f"{name}_ptr")
        element = int(row) * buffer.strides[-2] + int(col) * buffer.strides[-1]
        count = counts.get(buffer.name, Counter())[element]
        assert count == int(times), said
        seen.add((name, count))
        if last:
            accesses = trace.accesses(int(last))
            assert any(a.buffer.name == buffer.name and element in a.indices() for a in accesses)
    assert {("q", 0), ("q", 1), ("k", 2), ("v", 2), ("o", 0)} <= seen


def test_hbm_lights_what_the_step_loads_and_stores(opened, trace):
    page = opened()
    for name, way in (("k", "read"), ("o", "written")):
        kind = "load" if way == "read" else "store"
        step = next(
            k
            for k in range(trace.steps)
            for a in trace.accesses(k)
            if a.kind == kind and a.buffer.name == f"{name}_ptr"
        )
        lanes = len(trace.accesses(step)[0].indices())
        go(page, step)
        label = re.compile(rf"Step {step}: {lanes:,} elements of {name} {way}\.$")
        expect(page.locator(".hbm canvas")).to_have_attribute("aria-label", label)
        press(page, "ArrowRight")
        assert "of o written" not in (page.locator(".hbm canvas").get_attribute("aria-label") or "")


def test_on_chip_are_the_tiles_that_a_later_line_still_reads(opened, trace):
    page = opened()
    for name in ("s", "p", "acc"):
        step = first(trace, name, after=first(trace, "alpha"))
        source = trace.source(step)
        names = alive(source.text, source.first_line)[trace.line(step)]
        state = trace.state(step)
        sizes = {
            n: state[n].numpy().size * (1 if state[n].dtype == "i1" else 8 if state[n].dtype == "i64" else 4)
            for n in names
            if isinstance(state.get(n), Tile | Affine) and state[n].shape
        }
        assert {"q", "l_i", "acc"} <= sizes.keys()
        go(page, step)
        items = page.locator(".sram .tiles li")
        shown = {(item.get_attribute("data-name"), item.locator("span").inner_text()) for item in items.all()}
        assert shown == {(n, f"{size} B" if size < 1024 else f"{size / 1024:.3g} KiB") for n, size in sizes.items()}


def test_tiles_that_the_chip_cannot_hold_are_said_to_overflow(opened, trace):
    step = first(trace, "p")
    expect(opened(step, SMALL_CHIP).locator(".sram h3 em")).to_be_visible()
    expect(opened(step).locator(".sram h3 em")).to_have_count(0)


PICTURES = """() => {
  const host = [...document.querySelectorAll("*")].find((e) => e.shadowRoot?.querySelector(".player"));
  return ["rows", "output"].map((name) => host.shadowRoot.querySelector(`.${name} canvas`).toDataURL());
}"""


def test_a_rescale_is_a_movement_that_ends_in_the_still_picture(opened, trace):
    second = first(trace, "alpha", after=first(trace, "alpha") + 1)
    shrinks = first(trace, "acc", after=second)
    for step, at in ((first(trace, "l_i", after=second), 0), (first(trace, "acc", after=shrinks + 1), 1)):
        page = opened(step)
        still = page.evaluate(PICTURES)[at]
        for _ in range(5):  # a busy machine may look only when the movement is over
            press(page, "ArrowLeft")
            press(page, "ArrowRight")
            if page.evaluate(PICTURES)[at] != still:  # the numbers beside it are those of the step already
                break
        else:
            pytest.fail("nothing moved")
        until(page, f"still => ({PICTURES})()[{at}] === still", arg=still)


def test_a_rescale_stands_still_when_it_is_scrubbed_to_or_motion_is_unwanted(opened, trace):
    step = first(trace, "l_i", after=first(trace, "alpha", after=first(trace, "alpha") + 1))
    page = opened(step)
    still = page.evaluate(PICTURES)
    press(page, "ArrowLeft")
    page.get_by_role("slider", name="Step").fill(str(step))
    assert page.evaluate(PICTURES) == still
    page.emulate_media(reduced_motion="reduce")
    press(page, "ArrowLeft")
    press(page, "ArrowRight")
    assert page.evaluate(PICTURES) == still


def test_the_tile_is_enlarged_and_its_values_can_be_chosen(opened, trace):
    step = first(trace, "p")
    page = opened(step)
    p = trace.state(step)["p"].numpy()
    canvas = page.locator(".zoom canvas")
    label = canvas.get_attribute("aria-label") or ""
    figures = [float(x.replace("−", "-")) for x in label.split(": ")[1].split()]
    assert figures == pytest.approx(p[0].tolist(), abs=0.01)
    box = canvas.bounding_box()
    assert box is not None
    canvas.click(position={"x": box["width"] * 0.3, "y": 40})
    seen = press(page)
    numbers = [printed(x) for x in p.ravel()]
    assert seen["numbers"][0].split("=")[-1] in numbers
    expect(page.locator(".tip")).to_contain_text("p = ")


# Steps on as often as asked; the line of each step, and the code that the values beside it cover.
COVERED = """steps => {
  const host = [...document.querySelectorAll("*")].find((e) => e.shadowRoot?.querySelector(".player"));
  const root = host.shadowRoot, player = root.querySelector(".player");
  const covered = () => {
    const chip = root.querySelector(".chip");
    if (!chip?.isConnected || chip.hidden) return [];
    const a = chip.getBoundingClientRect();
    return [...root.querySelectorAll(".listing:not([hidden]) .text *")]
      .flatMap((e) => [...e.getClientRects()].map((b) => [e.textContent, b]))
      .filter(([, b]) => a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 3 && b.top < a.bottom - 3)
      .map(([text]) => text);
  };
  return Array.from({ length: steps }, () => {
    const seen = [player.dataset.line, covered()];
    player.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowRight", bubbles: true, composed: true, cancelable: true }));
    return seen;
  });
}"""


def test_the_values_beside_a_line_never_cover_code(opened, trace):
    page = opened()
    for width in (1800, 1280):
        page.set_viewport_size({"width": width, "height": 1000})
        press(page, "Home")
        covered = page.evaluate(COVERED, 60)
        assert len(covered) == 60
        assert [(line, texts) for line, texts in covered if texts] == [], width


def test_a_name_glows_in_source_equation_and_pictures(opened, trace):
    page = opened(first(trace, "l_i", after=first(trace, "alpha")))
    glowing = page.locator(".glow:not(.panel)")
    page.locator(".line.now .text [data-name=alpha]").hover()
    expect(page.locator(".formula .plain .glow")).to_have_text("α")
    assert set(glowing.evaluate_all("all => all.map(e => e.dataset.name)")) == {"alpha"}
    page.locator(".formula .plain [data-name=p]").hover()
    expect(page.locator(".source .text .glow").first).to_have_text("p")
    expect(page.locator(".panel.glow")).to_have_class(re.compile("zoom"))  # the picture of p
    page.locator(".map canvas").hover()
    expect(page.locator(".source .text .glow").first).to_have_text("s")
    page.locator(".counters").hover()
    expect(glowing).to_have_count(0)


def test_a_name_is_kept_glowing_by_a_click_until_escape(opened, trace):
    page = opened(first(trace, "acc", after=first(trace, "alpha")))
    page.locator(".line.now .text [data-name=acc]").first.click()
    page.locator(".counters").hover()
    for _ in range(3):
        expect(page.locator(".source .text .glow").first).to_have_text("acc")
        press(page, "ArrowRight")
    expect(page.locator(".sram .tiles .glow")).to_have_attribute("data-name", "acc")
    press(page, "Escape")
    expect(page.locator(".glow")).to_have_count(0)


def test_a_names_tip_draws_its_array(opened, trace):
    page = opened(first(trace, "p"))
    page.locator(".line.now .text [data-name=p]").hover()
    tip = page.locator(".tip")
    expect(tip).to_contain_text(f"p  {TILE} × {TILE} f32, {TILE * TILE * 4} B")
    inks = "c => new Set(new Uint32Array(c.getContext('2d').getImageData(0, 0, c.width, c.height).data.buffer)).size"
    assert tip.locator("canvas").evaluate(inks) > 4


def test_a_names_tip_says_what_it_means(opened, trace):
    page = opened(first(trace, "alpha"))
    tip = page.locator(".tip")
    for place in (".line.now .text", ".chip", ".formula .plain"):
        page.locator(f"{place} [data-name=alpha]").first.hover()
        expect(tip, place).to_contain_text(f"alpha  {TILE} f32, {TILE * 4} B")
        expect(tip, place).to_contain_text(definitions()["alpha"])
        page.mouse.move(0, 0)
        expect(tip, place).to_be_hidden()


def test_state_and_memory_take_turns_where_there_is_no_room_for_both(opened, trace):
    page = opened(first(trace, "p"), width=1440)
    rows, hbm = page.locator(".rows"), page.locator(".hbm")
    expect(rows).to_be_visible()
    expect(hbm).to_be_hidden()
    page.get_by_role("button", name="Memory").click()
    expect(hbm).to_be_visible()
    expect(rows).to_be_hidden()
    expect(hbm.locator("canvas")).to_have_attribute("aria-label", re.compile("^HBM, 5 buffers"))
    page.set_viewport_size({"width": 1800, "height": 1000})
    expect(rows).to_be_visible()
    expect(hbm).to_be_visible()
