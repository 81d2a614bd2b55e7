"""The panels of online softmax in a browser: the loop invariant at every step, merged pairs, a top-k's list."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest
from playwright.sync_api import Page

from explain import lessons
from explain.figures.numbers import number
from explain.player.component import Run
from explain.player.view import view
from explain.run_experiment import run_traced
from explain.trace.file import TraceFile, to_bytes
from explain.trace.model import Trace, numbers

EXPERIMENTS = {
    "elements": lessons.element_by_element(lessons.ONLINE),
    "wrong": lessons.wrong_twin(lessons.ONLINE),
    "masked": lessons.ONLINE.with_(inputs="first_tile_masked", cols=6),
    "rows": lessons.ROWS,
    "tree": lessons.MERGED,
    "line": lessons.MERGED.with_(order="right to left"),
    "added": lessons.added_twin(lessons.MERGED),
    "topk": lessons.TOPK,
    "bf16": lessons.ONLINE.with_(inputs="large_magnitude", cols=9, block_n=4, dtype="bf16"),
}

# Walks the whole run in one task, and reads the panel at every step.
WALK = """selector => {
  const host = [...document.querySelectorAll("*")].find((e) => e.shadowRoot?.querySelector(".player"));
  const player = host.shadowRoot.querySelector(".player");
  const press = (key) => player.dispatchEvent(new KeyboardEvent("keydown", {key, bubbles: true, composed: true, cancelable: true}));
  const out = [];
  press("Home");
  for (let last = -1; Number(player.dataset.step) !== last; press("ArrowRight")) {
    last = Number(player.dataset.step);
    out.push([...player.querySelectorAll(selector)].map((e) => e.textContent));
  }
  return out;
}"""


@pytest.fixture(scope="module")
def traces() -> dict[str, Trace]:
    return {name: run_traced(experiment, "all", lambda *_: None)[0] for name, experiment in EXPERIMENTS.items()}


@pytest.fixture
def opened(alone: Callable[..., Page], traces: dict[str, Trace]) -> Callable[[str], Page]:
    def opened(case: str) -> Page:
        trace = traces[case]
        return alone(Run(TraceFile(to_bytes(trace)), view(EXPERIMENTS[case], trace, "interpreter")))

    return opened


@pytest.mark.parametrize("case", ["elements", "masked", "rows", "topk", "bf16"])
def test_the_loop_invariant_holds_at_every_step(opened, traces, case):
    page = opened(case)
    verdicts = page.evaluate(WALK, ".invariant table:not([hidden]) .verdict")
    assert len(verdicts) == traces[case].steps
    started = [each for each in verdicts if each]
    assert len(started) > 0.6 * len(verdicts)
    assert all(each == ["✓", "✓"] for each in started)


def test_the_loop_invariant_counts_the_elements_recomputes_their_sum_and_is_proved_by_induction(opened):
    page = opened("elements")
    heads = [
        [int(n) for n in re.findall(r"\d+", head)] for (head,) in page.evaluate(WALK, ".invariant h3 span") if head
    ]
    assert list(map(list, dict.fromkeys(map(tuple, heads)))) == [[n, 6] for n in range(7)]
    sums = [cells[-1] for cells in page.evaluate(WALK, ".invariant table:not([hidden]) td.value") if cells]
    row = np.array([-0.3, 0.2, 0.5, 0.7, 0.1, 0.8])
    expected = [np.exp(row[:n] - row[:n].max(initial=-np.inf)).sum() for n in range(7)]
    assert list(dict.fromkeys(sums)) == [f"= {number(float(value), digits=4)}" for value in expected]

    phases = [said for (said,) in page.evaluate(WALK, ".invariant li.now")]
    assert list(dict.fromkeys(phases)) == page.locator(".invariant li").all_text_contents()
    assert page.locator(".invariant li").evaluate_all("all => all.map(e => e.dataset.phase)") == ["base", "step", "end"]


def test_the_loop_invariant_breaks_where_a_kernel_forgets_what_it_saw(opened):
    page = opened("wrong")
    verdicts = [each for each in page.evaluate(WALK, ".invariant table:not([hidden]) .verdict") if each]
    assert verdicts[0] == ["✓", "✓"]
    assert verdicts[-1][1] == "✗"
    assert page.locator(".invariant ol li").count() == 0  # nothing to prove
    assert page.locator(".invariant.broken em").is_visible()


@pytest.mark.parametrize(("case", "leaves", "levels"), [("tree", 4, 3), ("line", 4, 4), ("added", 4, 3)])
def test_merged_pairs_are_a_tree_of_what_the_kernel_computed(opened, traces, case, leaves, levels):
    page = opened(case)
    made = [len(each) for each in page.evaluate(WALK, ".pairs .made")]
    assert made == sorted(made)
    assert made[-1] == 2 * leaves - 1
    heights = {box.get_attribute("y") for box in page.locator(".pairs rect").all()}
    assert len(heights) == levels
    shown = page.locator(".pairs .l").all_text_contents()
    sums = [float(text.removeprefix("ℓ ")) for text in shown[leaves:]]
    assert sums == pytest.approx(joined(traces[case]), abs=5e-4)
    factors = page.locator(".pairs .factor").count()
    assert factors == (0 if case == "added" else 2 * (leaves - 1))


def joined(trace: Trace) -> list[float]:
    """Each sum that a merge made, in order: the change of l_i that follows the load of another's."""
    found, joining = [], False
    for step in range(trace.steps):
        changed = trace.changes(step)
        joining |= "l_j" in changed
        if joining and "l_i" in changed:
            found.append(float(numbers(changed["l_i"])))
            joining = False
    return found


def test_the_list_of_a_top_k_fills_and_ends_with_its_weights(opened, traces):
    page = opened("topk")
    heads = [[int(n) for n in re.findall(r"\d+", said)] for (said,) in page.evaluate(WALK, ".kept h3 span")]
    assert [0, 4] in heads
    assert heads[-1] == [4, 4]
    label = page.locator(".kept canvas").get_attribute("aria-label")
    top = np.asarray(numbers(traces["topk"].history("top_x")[-1][1]))[:4]
    columns = np.asarray(numbers(traces["topk"].history("top_i")[-1][1]))[:4]
    said = "; ".join(f"{number(float(x), digits=4)} in column {c}" for x, c in zip(top, columns, strict=True))
    assert (label or "").endswith(f": {said}")
