"""Idea, the player's second depth: it goes beat by beat through any kernel, says each with its numbers, and fits."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Browser, Page, expect

from explain import lessons, recordings
from explain.beats import beats, step_of
from explain.chapters.side_by_side.pairs import PAIRS
from explain.chapters.what_breaks.divergence import compared
from explain.experiment import Experiment
from explain.figures.numbers import fixed, number
from explain.player.component import Run
from explain.player.export import standalone_html
from explain.player.view import view
from explain.trace.file import TraceFile
from explain.trace.model import numbers
from kernels.museum import EXHIBITS
from tests.e2e.conftest import PATIENCE_MS, go, move
from tests.e2e.server import Server
from tests.e2e.text_sizes import LETTERS, SMALLEST, TEXT_PX
from tests.e2e.waiting import until

LONGEST = 20  # words of a beat's sentence
CAUSAL = lessons.OPENING.with_(causal=True)
KINDS = [lessons.OPENING, CAUSAL, lessons.first_order(lessons.OPENING), lessons.STANDARD, lessons.ONLINE, lessons.SAFE]
KINDS += [lessons.ROWS, lessons.MERGED, lessons.TOPK, lessons.wrong_twin(lessons.ONLINE)]
PRESENTED = [lessons.first_order(lessons.OPENING), lessons.STANDARD, lessons.MERGED, lessons.TOPK]  # all panels
# Remembers what a canvas draws: words, and the ways between HBM and the chip, the only lines that bend.
ARROWS = """(() => {
  const pen = CanvasRenderingContext2D.prototype, drawn = new WeakMap();
  const of = (ctx) => drawn.get(ctx.canvas) ?? drawn.set(ctx.canvas, { words: [], ways: [], path: [], boxes: [] })
    .get(ctx.canvas);
  const also = (name, note) => {
    const plain = pen[name];
    pen[name] = function (...given) {
      note.call(this, of(this), ...given);
      return plain.apply(this, given);
    };
  };
  also("clearRect", (all) => Object.assign(all, { words: [], ways: [], boxes: [] }));
  also("strokeRect", (all, x, y, width, height) => all.boxes.push([width, height]));
  globalThis.boxes = (canvas) => drawn.get(canvas).boxes;
  globalThis.wordsOf = (canvas) => drawn.get(canvas).words.map(({ text }) => text);
  also("beginPath", (all) => Object.assign(all, { path: [], bends: false }));
  for (const name of ["moveTo", "lineTo"]) also(name, (all, x, y) => all.path.push([x, y]));
  also("arcTo", (all, x, y) => (all.path.push([x, y]), (all.bends = true)));
  also("stroke", (all) => all.bends && all.ways.push(all.path));
  also("fillText", function (all, text, x, y) {
    const { actualBoundingBoxLeft: left, actualBoundingBoxRight: right, actualBoundingBoxAscent: up,
      actualBoundingBoxDescent: down } = this.measureText(text);
    all.words.push({ text, left: x - left, right: x + right, top: y - up, bottom: y + down });
  });
  // The words that a way between HBM and the chip runs through: all its parts are level or upright.
  globalThis.crossed = (canvas) => {
    const { words, ways } = drawn.get(canvas);
    const parts = ways.flatMap((way) => way.slice(1).map((end, i) => [way[i], end]));
    return words.filter(({ left, right, top, bottom }) => parts.some(([[x0, y0], [x1, y1]]) => Math.min(x0, x1) < right
      && Math.max(x0, x1) > left && Math.min(y0, y1) < bottom && Math.max(y0, y1) > top)).map(({ text }) => text);
  };
})()"""
# Presses a key at each beat from the first on, and reads what is on screen at each.
WALK = """() => {
  const player = document.querySelector(".player") ?? [...document.querySelectorAll("*")]
    .find((e) => e.shadowRoot?.querySelector(".player")).shadowRoot.querySelector(".player");
  const press = (key) => player.dispatchEvent(new KeyboardEvent("keydown", {key, bubbles: true, composed: true}));
  const seen = [];
  press("Home");
  for (let before = -1; before !== player.dataset.step && seen.length < 2000;) {
    before = player.dataset.step;
    seen.push({step: Number(before), lanes: [...player.querySelectorAll(".lane")].map((lane) => ({
      kind: lane.querySelector(".beats [aria-current]")?.dataset.kind,
      said: lane.querySelector(".says").textContent,
      picture: lane.querySelector(".idea canvas").getAttribute("aria-label"),
      crossed: crossed(lane.querySelector(".idea canvas")),
      explained: [...lane.querySelectorAll(".scene .term")].filter((term) => term.dataset.definition)
        .map((term) => term.textContent),
    }))});
    press("ArrowRight");
  }
  return seen;
}"""


# Goes through all beats of two runs, and reads what is said to differ at each.
SAID_TO_DIFFER = """() => {
  const root = [...document.querySelectorAll("*")].find((e) => e.shadowRoot?.querySelector(".player")).shadowRoot;
  const player = root.querySelector(".player"), seen = [];
  const press = (key) => player.dispatchEvent(new KeyboardEvent("keydown", {key, bubbles: true, composed: true}));
  press("Home");
  for (let before = -1; before !== player.dataset.step && seen.length < 2000; press("ArrowRight")) {
    before = player.dataset.step;
    seen.push(player.querySelector(".difference .now").textContent);
  }
  return seen;
}"""


def run_of(experiment: Experiment) -> Run:
    file = TraceFile(recordings.path_of(experiment).read_bytes())
    return Run(file, view(experiment, file.trace, "recorded"))


def player(page: Page):
    return page.get_by_test_id("player")


# How many pixels of the picture's lowest quarter, which is HBM, have a quantity's hue; inputs there are amber.
IN_HBM = """(canvas) => {
  const { width, height } = canvas, top = Math.round(0.75 * height);
  const { data } = canvas.getContext("2d").getImageData(0, top, width, height - top);
  const found = { scores: 0, p: 0, acc: 0 };
  for (let i = 0; i < data.length; i += 4) {
    const [r, g, b] = data.slice(i, i + 3);
    if (b - g > 25 && r - g > 5 && b > r) found.scores++;
    if (b - r > 25 && g - r > 10) found.p++;
    if (r - g > 25 && b - g > 10 && r > b) found.acc++;
  }
  return found;
}"""


@pytest.fixture(scope="module")
def reader(browser: Browser) -> Iterator[Page]:
    """A reader who comes for the first time, with the network off."""
    context = browser.new_context(viewport={"width": 1440, "height": 900}, offline=True, reduced_motion="reduce")
    context.set_default_timeout(PATIENCE_MS)
    context.add_init_script(ARROWS)
    context.add_init_script(LETTERS)
    page = context.new_page()
    faults: list[str] = []
    page.on("pageerror", lambda error: faults.append(str(error)))
    yield page
    context.close()
    assert not faults


@pytest.fixture
def opened(reader: Page, tmp_path: Path):
    """opened(*experiments, step, depth): their exported page."""

    def opened(*experiments: Experiment, step: int = 0, depth="idea") -> Page:
        path = tmp_path / "page.html"
        path.write_text(standalone_html([run_of(one) for one in experiments], step, depth=depth), encoding="utf-8")
        reader.goto(path.as_uri())
        expect(player(reader)).to_have_attribute("data-depth", depth)
        return reader

    return opened


@pytest.mark.parametrize("experiment", KINDS, ids=lambda one: one.kernel)
def test_the_arrows_go_through_every_beat_and_each_is_said_and_drawn(opened, experiment):
    trace = run_of(experiment).trace.trace
    found = beats(trace, experiment.entry.roles)
    seen = opened(experiment).evaluate(WALK)
    assert [one["step"] for one in seen] == [0, *(beat.at for beat in found[1:])] + (
        [trace.steps - 1] if found[-1].at < trace.steps - 1 else []
    )
    for beat, one in zip(found, seen, strict=False):
        (lane,) = one["lanes"]
        assert lane["kind"] == beat.kind
        assert 2 <= len(lane["said"].split()) <= LONGEST, lane["said"]
        assert lane["crossed"] == [], one["step"]
        on_chip, _ = lane["picture"].split(" HBM: ")
        symbols = re.findall(r"(\S+) \d+ by \d+", on_chip)
        assert {"HBM", *symbols} <= {*lane["explained"]}, (symbols, lane["explained"])


def test_a_symbol_tells_its_meaning_to_pointer_keyboard_and_finger(opened):
    page = opened(lessons.OPENING, step=47)
    shown = "(symbol) => getComputedStyle(symbol, '::after').content"
    for name in ("α", "S", "HBM"):
        symbol = page.locator(".scene .terms").get_by_text(name, exact=True)
        assert symbol.evaluate(shown) == "none"
        symbol.hover()
        assert len(symbol.evaluate(shown)) > 20
        page.mouse.move(0, 0)
        symbol.focus()
        assert len(symbol.evaluate(shown)) > 20
        assert symbol.get_attribute("aria-description") in symbol.evaluate(shown).replace('\\"', '"')
        page.keyboard.press("ArrowRight")  # still a key of the player
        expect(player(page)).not_to_have_attribute("data-step", "47")
        page.keyboard.press("ArrowLeft")
        symbol.blur()


def test_hbm_has_the_numbers_that_a_launch_wrote_in_their_own_colour(opened):
    one = lessons.ONE_TILE
    trace = run_of(one).trace.trace
    page = opened(one)
    for event, quantity in (("last write of s", "scores"), ("last write of y", "p"), ("last write of o", "acc")):
        step = step_of(trace, one.entry.roles, event)
        page.keyboard.press("i")
        go(page, step)
        page.keyboard.press("i")
        assert page.locator(".panel.idea .scene canvas").evaluate(IN_HBM)[quantity] > 100, quantity


@pytest.mark.parametrize(("event", "told"), [("first load of x", "84"), ("first exponentials", "84.00")])
def test_a_number_in_hbm_has_the_digits_that_it_has_on_chip(opened, event, told):
    one = lessons.SAFE
    page = opened(one, step=step_of(run_of(one).trace.trace, one.entry.roles, event))
    words = page.locator(".panel.idea .scene canvas").evaluate("wordsOf")
    assert [word for word in words if word.startswith("84")] == [told, told]


@pytest.mark.parametrize(("event", "shown"), [("first load of w", False), ("first scores", True)])
def test_logits_are_on_chip_once_a_matmul_made_them(opened, event, shown):
    one = lessons.LOSS
    page = opened(one, step=step_of(run_of(one).trace.trace, one.entry.roles, event))
    words = page.locator(".panel.idea .scene canvas").evaluate("wordsOf")
    shape = f"{one.values['block_m']} × {one.values['block_n']}"
    assert "X" in words
    assert (shape in words) == shown


def test_idea_counts_beats_and_code_counts_steps_wherever_a_place_is_said(opened):
    found = beats(run_of(lessons.OPENING).trace.trace, lessons.OPENING.entry.roles)
    page = opened(lessons.OPENING, step=found[6].at)
    counter = page.locator(".where .count")
    expect(counter).to_have_text(f"beat 7 of {len(found)}")
    counter.click()
    box = page.get_by_role("textbox", name="Beat number")
    expect(box).to_have_value("7")
    box.fill(str(len(found) + 1))
    page.keyboard.press("Enter")
    expect(page.get_by_text(f"There is no beat {len(found) + 1}.")).to_be_visible()
    box.fill("3")
    page.keyboard.press("Enter")
    expect(player(page)).to_have_attribute("data-step", str(found[2].at))
    page.keyboard.press("i")
    expect(counter).to_contain_text(f"step {found[2].at} of")


def test_the_switch_keeps_the_step_and_the_beat_holds_it(opened):
    trace, roles = run_of(lessons.OPENING).trace.trace, lessons.OPENING.entry.roles
    page = opened(lessons.OPENING, step=40, depth="code")  # a line that only computes a mask
    page.keyboard.press("i")
    expect(player(page)).to_have_attribute("data-depth", "idea")
    expect(player(page)).to_have_attribute("data-step", "40")
    (holds,) = (beat for beat in beats(trace, roles) if beat.begin <= 40 < beat.end)
    expect(player(page)).to_have_attribute("data-beat", holds.kind)
    expect(page.locator(".panel.source")).to_be_hidden()
    page.get_by_role("button", name="Code", exact=True).click()
    expect(player(page)).to_have_attribute("data-step", "40")
    expect(page.locator(".panel.source")).to_be_visible()
    expect(page.locator(".panel.idea")).to_be_hidden()


def test_the_rescale_shows_the_followed_rows_numbers(opened):
    row = 15
    trace, roles = run_of(lessons.OPENING).trace.trace, lessons.OPENING.entry.roles
    step = step_of(trace, roles, f"first rescale of row {row}")
    page = opened(lessons.OPENING, step=step)
    for _ in range(row):
        page.keyboard.press("ArrowDown")
    before, after = (trace.state(at) for at in (step - 1, step))
    old, alpha, new = (float(numbers(v)[row]) for v in (before["l_i"], after["alpha"], after["l_i"]))
    added = float(numbers(after["p"])[row].sum())
    for text in (number(x, digits=4) for x in (old, alpha, added, new)):
        expect(page.locator(".idea .says")).to_contain_text(text)
    shown = page.locator(".numbers dd[data-q=sum]")
    expect(shown).to_contain_text(f"{old:.3f}")
    expect(shown.locator("b")).to_have_text(f"{new:.3f}")
    expect(page.locator(".numbers dd[data-q=alpha] b")).to_have_text(number(alpha, digits=4))


@pytest.mark.parametrize(
    "pair",
    [
        (lessons.ONLINE, lessons.wrong_twin(lessons.ONLINE)),
        (lessons.first_order(lessons.OPENING), lessons.OPENING),
        compared(EXHIBITS["acc_not_rescaled"]),
    ],
    ids=lambda pair: pair[1].kernel,
)
def test_two_runs_show_the_same_beat_or_one_waits(opened, pair):
    seen = opened(*pair).evaluate(WALK)
    sums = {"rescale", "add", "merge"}
    before: list[object] = [None, None]
    steps = [one["step"] for one in seen]
    assert steps == sorted(steps)
    for one in seen[:-1]:
        now = [(lane["kind"], lane["said"]) for lane in one["lanes"]]
        kinds = {kind for kind, _ in now}
        waits = [a == b or a[1].startswith("Finished") for a, b in zip(now, before, strict=True)]
        assert len(kinds) == 1 or kinds <= sums or any(waits), one
        before = [*now]
    for i, experiment in enumerate(pair):
        own = {beat.kind for beat in beats(run_of(experiment).trace.trace, experiment.entry.roles)}
        assert own == {one["lanes"][i]["kind"] for one in seen}


@pytest.mark.parametrize(
    ("exhibit", "event"), [("finite_start", "first set of m_i"), ("zero_for_minus_inf", "first drop")]
)
def test_what_a_wrong_kernel_keeps_for_its_next_tile_is_marked(opened, exhibit, event):
    pair = compared(EXHIBITS[exhibit])
    page = opened(*pair, step=step_of(run_of(pair[0]).trace.trace, pair[0].entry.roles, event))
    expect(page.locator(".difference .now")).to_contain_text("m in 16 rows")


@pytest.mark.parametrize("exhibit", ["acc_not_rescaled", "inf_minus_inf"])
def test_the_wrong_output_is_marked_when_it_is_written(opened, exhibit):
    page = opened(*compared(EXHIBITS[exhibit]))
    player(page).press("End")
    expect(page.locator(".difference .now")).to_contain_text("O in 256 elements")


@pytest.mark.parametrize("name", ["Loop order", "Two tile sizes"])
def test_two_right_kernels_never_differ(opened, name):
    (pair,) = (pair for pair in PAIRS if pair.name == name)
    marked = opened(pair.left, pair.right).evaluate(SAID_TO_DIFFER)
    assert marked
    assert not [one for one in marked if one]


def test_a_merge_finds_the_pairs_of_all_tiles_in_hbm(opened):
    trace = run_of(lessons.MERGED).trace.trace
    page = opened(lessons.MERGED, step=step_of(trace, lessons.MERGED.entry.roles, "first merge"))
    words = page.locator(".idea canvas").evaluate("canvas => wordsOf(canvas)")
    first = [float(np.ravel(numbers(value))[0]) for _, value in trace.history("m_i")[:4]]
    assert {fixed(one, 3) for one in first} <= {*words}


def test_a_tile_that_both_runs_have_is_as_large_in_both(opened):
    page = opened(lessons.OPENING.through("attention_standard"), lessons.OPENING)
    player(page).press("ArrowRight")
    left, right = page.locator(".idea canvas").evaluate_all("all => all.map(boxes)")
    assert len([size for size in left if size in right]) >= 3  # Q, K and S


def test_lines_that_only_compute_addresses_and_masks_are_passed_over_but_for_every_line(opened):
    trace = run_of(CAUSAL).trace.trace
    page = opened(CAUSAL, depth="code")
    seen = [0]
    while len(seen) < 40:
        page.keyboard.press("ArrowRight")
        seen.append(int(player(page).get_attribute("data-step") or -1))
    first = {program.first_step for program in trace.launches[0].recorded}
    for step in range(seen[-1] + 1):
        changed = [getattr(value, "dtype", "") for value in trace.changes(step).values()]
        tells = bool(trace.accesses(step)) or step in first or any(dtype.startswith(("f", "bf")) for dtype in changed)
        assert (step in seen) == tells, step
    page.get_by_role("button", name="Step by every line").click()
    page.keyboard.press("ArrowRight")
    expect(player(page)).to_have_attribute("data-step", str(seen[-1] + 1))
    page.evaluate("localStorage.clear()")


def test_it_fits_the_window_is_touched_with_a_finger_and_its_pictures_are_still(opened):
    page = opened(lessons.OPENING, step=47)
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        until(page, "document.documentElement.scrollHeight <= innerHeight")
        picture = page.locator(".idea canvas")
        page.keyboard.press("ArrowRight")
        page.wait_for_timeout(200)  # for the frame that shows the step
        still = picture.evaluate("canvas => canvas.toDataURL()")
        page.wait_for_timeout(700)
        assert picture.evaluate("canvas => canvas.toDataURL()") == still
    page.set_viewport_size({"width": 420, "height": 860})
    until(page, "document.documentElement.scrollWidth <= innerWidth")
    expect(page.locator(".idea canvas")).to_be_visible()
    page.get_by_role("button", name="drop the tile").click()
    expect(player(page)).to_have_attribute("data-beat", "drop")
    page.set_viewport_size({"width": 1440, "height": 900})


@pytest.mark.parametrize("experiment", PRESENTED, ids=lambda one: one.kernel)
def test_at_full_screen_no_text_of_any_panel_is_smaller_than_a_thirtieth_of_the_height(opened, experiment):
    page = opened(experiment, step=run_of(experiment).trace.trace.steps // 2)
    page.set_viewport_size({"width": 1920, "height": 1080})
    page.keyboard.press("p")
    for depth in ("idea", "code"):
        expect(player(page)).to_have_attribute("data-depth", depth)
        panels = page.locator(".stage select option").count() - 1
        for panel in range(1, min(panels, 9) + 1):
            page.keyboard.press(str(panel))
            page.evaluate("globalThis.drawn.length = 0")
            page.keyboard.press("ArrowRight")
            size, text = player(page).evaluate(SMALLEST)
            assert size >= TEXT_PX - 0.5, f"{depth}, panel {panel}: {text!r} has {size:.1f} px"
        page.keyboard.press("i")
    page.set_viewport_size({"width": 1440, "height": 900})


def test_at_full_screen_a_tile_of_a_few_rows_and_the_running_state_keep_their_numbers(opened):
    trace = run_of(lessons.ROWS).trace.trace
    rescale = [step for step in range(trace.steps) if "alpha" in trace.changes(step)][2]
    page = opened(lessons.ROWS, step=rescale)
    for size in ((1440, 900), (1920, 1080)):
        page.set_viewport_size({"width": size[0], "height": size[1]})
        page.keyboard.press("p")
        for depth, name in (("idea", "x"), ("code", "alpha")):
            expect(player(page)).to_have_attribute("data-depth", depth)
            values = np.ravel(numbers(trace.state(rescale)[name]))
            picture = page.locator(".idea canvas" if depth == "idea" else ".rows canvas")
            page.wait_for_timeout(200)  # for the frame of the new size
            told = {fixed(float(value), 3) for value in values if np.isfinite(value)}
            assert told <= {*picture.evaluate("canvas => wordsOf(canvas)")}, (size, depth)
            page.keyboard.press("i")
        page.keyboard.press("p")
    page.set_viewport_size({"width": 1440, "height": 900})


def test_the_columns_of_a_top_k_stand_in_hbm_below_their_weights(opened):
    trace = run_of(lessons.TOPK).trace.trace
    page = opened(lessons.TOPK, step=trace.steps - 1)
    k = int(lessons.TOPK.values["k"])
    columns = [str(int(column)) for column in np.ravel(numbers(trace.history("top_i")[-1][1]))[:k]]
    words = page.locator(".idea canvas").evaluate("canvas => wordsOf(canvas)")
    assert any(words[at : at + k] == columns for at in range(len(words))), words


def test_online_softmax_opens_with_its_whole_player_in_the_window(page: Page, app: Server):
    move(page, app, "questions")
    page.evaluate("[sessionStorage, localStorage].forEach((storage) => storage.clear())")
    move(page, app, "online_softmax")
    expect(player(page)).to_have_attribute("data-depth", "idea")
    box = player(page).bounding_box()
    assert box is not None
    assert box["y"] + box["height"] <= 900


def test_a_first_reader_gets_idea_a_link_to_a_step_code_and_the_choice_is_kept(page: Page, app: Server):
    """In the app, without what conftest's CODE_READER chose before."""
    move(page, app, "questions")
    page.evaluate("[sessionStorage, localStorage].forEach((storage) => storage.clear())")

    def opens(query: str) -> None:
        """A new player: its page is left in between."""
        move(page, app, "questions")
        move(page, app, f"flash_attention?causal=true{query}")

    opens("")
    expect(player(page)).to_have_attribute("data-depth", "idea")
    page.keyboard.press("ArrowRight")
    page.wait_for_url(re.compile(r"[?&]depth=idea\b"))
    opens("&step=40")
    expect(player(page)).to_have_attribute("data-depth", "code")
    opens("&step=40&depth=idea")
    expect(player(page)).to_have_attribute("data-depth", "idea")
    expect(player(page)).to_have_attribute("data-step", "40")
    box = player(page).bounding_box()
    assert box is not None
    assert box["height"] <= 900
    page.get_by_role("button", name="Code", exact=True).click()
    page.wait_for_url(re.compile(r"[?&]depth=code\b"))
    opens("")
    expect(player(page)).to_have_attribute("data-depth", "code")


def test_only_a_maximum_that_goes_on_from_tile_to_tile_is_called_running(opened):
    for experiment, words in ((lessons.ONLINE, {"running max"}), (lessons.wrong_twin(lessons.ONLINE), {"maximum"})):
        terms = opened(experiment).locator(".scene .term")
        expect(terms.first).to_be_visible()
        assert {"running max", "maximum"} & {*terms.all_text_contents()} == words


def test_full_screen_on_a_phone_is_one_column_with_its_way_out_in_sight(opened, reader: Page):
    before = reader.viewport_size
    assert before
    reader.set_viewport_size({"width": 420, "height": 900})
    page = opened(lessons.ONLINE, step=20, depth="code")
    player(page).press("p")
    out = page.locator(".stage").get_by_role("button", name="Leave full screen").bounding_box()
    across = [page.locator(f".lane .{panel}").bounding_box() for panel in ("equation", "rows")]
    reader.set_viewport_size(before)
    assert out["x"] + out["width"] <= 420
    assert across[0]["x"] == across[1]["x"]  # below each other, so the numbers of m, alpha and l have room
