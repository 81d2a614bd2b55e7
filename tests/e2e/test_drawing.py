"""What a step costs, whatever else the machine does: nothing is laid out half-way, nothing that is there is drawn."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Page, expect

# Presses → as often as asked, a painted frame apart; for each step, the canvases drawn on and the fonts set on a
# changed page.
WATCH = """async presses => {
  const host = [...document.querySelectorAll("*")].find((e) => e.shadowRoot?.querySelector(".player"));
  const player = host.shadowRoot.querySelector(".player");
  const frame = () => new Promise(requestAnimationFrame);
  const pen = CanvasRenderingContext2D.prototype;
  const font = Object.getOwnPropertyDescriptor(pen, "font"), { clearRect } = pen;
  const changes = new MutationObserver(() => {});
  const attributeFilter = ["class", "hidden", "style", "data-hint"];
  changes.observe(host.shadowRoot, { subtree: true, childList: true, characterData: true, attributeFilter });
  let drawn = [], late = 0;
  Object.defineProperty(pen, "font", { ...font, set(value) {
    if (this.canvas.isConnected && changes.takeRecords().length) late++;
    font.set.call(this, value);
  } });
  pen.clearRect = function (...box) {
    if (this.canvas.isConnected) drawn.push(this.canvas.closest(".panel")?.classList[1] ?? "timeline");
    return clearRect.apply(this, box);
  };
  const steps = [];
  try {
    for (let i = 0; i < presses; i++) {
      await frame();
      await frame();
      changes.takeRecords();
      [drawn, late] = [[], 0];
      player.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowRight", bubbles: true, composed: true, cancelable: true }));
      steps.push({ step: Number(player.dataset.step), drawn: [...drawn], late }); // a movement goes on in later frames
    }
  } finally {
    Object.defineProperty(pen, "font", font);
    pen.clearRect = clearRect;
    changes.disconnect();
  }
  return steps;
}"""


@pytest.fixture
def stepped(page: Page, visit):
    """stepped(address, step, presses): what each of the steps after it drew."""

    def stepped(address: str, step: int, presses: int) -> list[dict[str, Any]]:
        page.set_viewport_size({"width": 1920, "height": 1080})
        visit(f"{address}?step={step}")
        expect(page.get_by_test_id("player")).to_have_attribute("data-step", str(step))
        steps = page.evaluate(WATCH, presses)
        assert [drawn["step"] for drawn in steps] == list(range(step + 1, step + 1 + presses))
        return steps

    return stepped


def has_all_pictures_drawn_before_the_page_changes(steps: list[dict[str, Any]]) -> None:
    # A font set on a canvas of a changed page makes the browser style it, and lay it out, within the step.
    assert any("timeline" in drawn["drawn"] for drawn in steps)
    assert {drawn["step"]: drawn["late"] for drawn in steps if drawn["late"]} == {}


@pytest.mark.parametrize("address", ["softmax", "side_by_side"])
def test_a_step_has_all_its_pictures_drawn_before_it_changes_the_page(stepped, address):
    has_all_pictures_drawn_before_the_page_changes(stepped(address, 8, 40))


def test_a_picture_is_drawn_once_in_a_step_before_the_page_changes_and_only_where_it_changes(stepped):
    steps = stepped("flash_attention", 8, 60)  # from before the first tile to its end and beyond
    has_all_pictures_drawn_before_the_page_changes(steps)
    for drawn in steps:
        assert len(drawn["drawn"]) == len(set(drawn["drawn"])), drawn
        assert "timeline" in drawn["drawn"]
    for panel in ("map", "rows", "output", "hbm"):
        times = sum(panel in drawn["drawn"] for drawn in steps)
        assert 0 < times < len(steps) / 2, (panel, times)
