"""The player in a browser, on runs of the real kernels: what is on screen is what the trace holds, and only that."""

from __future__ import annotations

import itertools
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from playwright.sync_api import Page, expect

from explain import ROOT
from explain.beats import beats
from explain.figures.numbers import number
from explain.player.component import Run
from explain.trace import file as trace_file
from explain.trace.checks import checked
from explain.trace.file import TraceFile
from explain.trace.model import Trace
from explain.trace.recorder import record_call
from kernels import attention, real_inputs, softmax
from kernels.catalog import KERNELS
from tests.e2e.conftest import go
from tests.e2e.server import Server, running_app
from tests.e2e.waiting import until
from tests.explain.checks import faults

HERE = Path(__file__).parent
SENTENCE = real_inputs.sentence("short")
TOKENS = list(SENTENCE.tokens)
N = len(TOKENS)
TILE = 4
ROW = torch.tensor([[-0.3, 0.2, 0.5, 0.7, 0.1, 0.8]])

# The player's elements lie in a shadow root; `step` presses a key and looks at everything in the same task, before any
# repaint.
STEP = """key => {
  const host = [...document.querySelectorAll("*")].find((e) => e.shadowRoot?.querySelector(".player"));
  const player = host.shadowRoot.querySelector(".player");
  const start = performance.now();
  if (key) player.dispatchEvent(new KeyboardEvent("keydown", {key, bubbles: true, composed: true, cancelable: true}));
  const draw = performance.now() - start;
  const text = (selector) => [...player.querySelectorAll(selector)].map((e) => e.textContent.trim());
  return {
    draw, step: Number(player.dataset.step), line: Number(player.dataset.line), visit: Number(player.dataset.visit),
    lit: text(".line.now .no").map(Number), equation: text(".plain"), numbers: text(".worked"), chip: text(".chip:not([hidden])"),
    read: text(".counters table:first-child tr:nth-child(2) b"), written: text(".counters table:first-child tr:nth-child(3) b"),
    flops: text(".counters table:last-child tr:nth-child(2) b"),
  };
}"""

STEPS_IN_A_TASK = 60
PRESS_ALL = """keys => {
  const host = [...document.querySelectorAll("*")].find((e) => e.shadowRoot?.querySelector(".player"));
  const player = host.shadowRoot.querySelector(".player");
  for (const key of keys) {
    player.dispatchEvent(new KeyboardEvent("keydown", {key, bubbles: true, composed: true, cancelable: true}));
  }
}"""


def qkv(dtype=torch.float32):
    return [torch.tensor(np.array(a[4:5]))[None].to(dtype) for a in (SENTENCE.q, SENTENCE.k, SENTENCE.v)]


def flash(causal=False, dtype=torch.float32, nan=False):
    q, k, v = qkv(dtype)
    if nan:
        q[0, 0, 5, 0] = float("nan")
    return record_call(lambda: attention.flash_attention(q, k, v, causal=causal, block_m=TILE, block_n=TILE))


def view(kernel, shape, trace, **more):
    entry = KERNELS[kernel]
    roles = dict(entry.roles)
    return {
        "title": entry.title,
        "kernel": kernel,
        "roles": roles,
        "beats": [tuple(beat) for beat in beats(trace, roles)],
        "score_shape": shape,
        "badge": "trace · here",
        **more,
    }


def flash_view(trace):
    return view("flash_attention", [N, N], trace, row_labels=TOKENS, col_labels=TOKENS, pick_program="query tile")


@pytest.fixture(scope="module")
def cases(tmp_path_factory) -> tuple[Path, dict[str, Trace]]:
    """Recorded runs, each with its view, in a folder; and the traces by name."""
    folder = tmp_path_factory.mktemp("cases")
    traces = {
        "flash": flash(),
        "causal": flash(causal=True),
        "half": flash(dtype=torch.bfloat16),
        "nan": flash(nan=True),
        "online": record_call(lambda: softmax.softmax_online(ROW, block_n=2)),
        "wrong": record_call(lambda: softmax.softmax_blocked_wrong(ROW, block_n=2)),
        "checked": checked(lambda evidence: record_call(faults.nan, evidence=evidence)),
    }
    for name, trace in traces.items():
        trace_file.write(trace, folder / f"{name}.tilescope")
    whole = folder.joinpath("flash.tilescope").read_bytes()
    folder.joinpath("altered.tilescope").write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    shown = {
        **{name: [(name, flash_view(traces[name]))] for name in ("flash", "causal", "half", "nan")},
        "checked": [("checked", {"title": "a kernel of theirs", "badge": "trace"})],
        "foreign": [("flash", {"title": "a kernel of theirs", "badge": "trace"})],
        "altered": [("altered", flash_view(traces["flash"]))],
        "pair": [
            ("wrong", view("softmax_blocked_wrong", [1, 6], traces["wrong"])),
            ("online", view("softmax_online", [1, 6], traces["online"])),
        ],
    }
    for name, runs in shown.items():
        described = [{"file": f"{file}.tilescope", "view": one} for file, one in runs]
        folder.joinpath(f"{name}.json").write_text(json.dumps(described))
    return folder, traces


@pytest.fixture(scope="module")
def app(cases) -> Iterator[Server]:
    """The small app of player_app.py, in place of Tilescope."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PLAYER_CASES", str(cases[0]))
        patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])))
        with running_app(str(HERE / "player_app.py")) as server:
            yield server


@pytest.fixture
def traces(cases) -> dict[str, Trace]:
    return cases[1]


@pytest.fixture
def opened(alone, cases):
    """Opens a case on a page of its own."""
    folder = cases[0]

    def opened(case: str, step: int = 0) -> Page:
        described = json.loads(folder.joinpath(f"{case}.json").read_text())
        runs = [Run(TraceFile(folder.joinpath(run["file"]).read_bytes()), run["view"]) for run in described]
        return alone(*runs, step=step)

    return opened


@pytest.fixture
def served(page, app):
    """Opens a case in the small app, where the address, a rerun or Streamlit's theme matters."""

    def served(case: str, step: int | None = None) -> Page:
        page.goto(f"{app.url}/?case={case}" + ("" if step is None else f"&step={step}"))
        expect(page.get_by_test_id("player")).not_to_have_attribute("data-steps", "0")
        return page

    return served


def press(page, key=None):
    return page.evaluate(STEP, key)


def printed(x):
    """A number as the player prints it in text."""
    return number(float(x), digits=4)


def first(trace, name, after=0):
    """The first step from `after` on that sets a variable."""
    return next(step for step, _ in trace.history(name) if step >= after)


def test_every_step_shows_its_line_its_counters_and_nothing_late(opened, traces):
    trace, page = traces["flash"], opened("flash")
    (launch,) = trace.launches
    read = dict.fromkeys((buffer.name for buffer in launch.buffers), 0)
    seen = press(page)
    for step in range(150):
        assert seen["step"] == step
        assert seen["line"] == trace.line(step)
        last = trace.source(step).spans.get(seen["line"], seen["line"])
        assert seen["lit"] == list(range(seen["line"], last + 1))
        for access in trace.accesses(step):
            if access.kind == "load":
                read[access.buffer.name] += access.bytes
        assert [int(n.replace(",", "")) for n in seen["read"][:-1]] == list(read.values())
        seen = press(page, "ArrowRight")


def test_at_the_end_the_counters_are_those_of_the_whole_run(opened, traces):
    (launch,) = traces["flash"].launches
    assert launch.programs > 1
    page = opened("flash")
    seen = press(page, "End")
    for way, counted in (("read", launch.read_bytes), ("written", launch.written_bytes)):
        assert [int(n.replace(",", "")) for n in seen[way]] == [*counted.values(), sum(counted.values())]
    flops = page.locator(".counters table").last.locator("b").all_inner_texts()
    counted = launch.flops.matmul, launch.flops.exp, launch.flops.other
    assert tuple(int(n.replace(",", "")) for n in flops) == counted
    expect(page.locator(".scope")).to_have_text(f"so far / all {launch.programs} programs · source: trace")


def test_the_equation_holds_the_numbers_of_the_selected_row(opened, traces):
    trace = traces["flash"]
    step = first(trace, "alpha", after=first(trace, "alpha") + 1)
    page = opened("flash", step)
    for row in range(TILE):
        seen = press(page, "ArrowDown" if row else None)
        m_i, m_safe, alpha = (trace.state(step)[name].numpy()[row] for name in ("m_i", "m_safe", "alpha"))
        assert seen["equation"] == ["α=exp(mi−msafe)"]
        assert seen["numbers"] == [f"=exp({printed(m_i)}−{printed(m_safe)})={printed(alpha)}"]
        assert seen["chip"][0].startswith(f"alpha {printed(alpha)} row {row}")
    l_step = first(trace, "l_i", after=step)
    while press(page)["step"] < l_step:
        seen = press(page, "ArrowRight")
    before, after = (trace.state(at)["l_i"].numpy()[TILE - 1] for at in (l_step - 1, l_step))
    added = trace.state(l_step)["p"].numpy()[TILE - 1].sum()
    assert seen["numbers"] == [f"={printed(before)}·{printed(alpha)}+{printed(added)}={printed(after)}"]


def test_keys_go_by_step_by_tile_and_to_the_ends(opened, traces):
    trace, page = traces["flash"], opened("flash")
    tiles = [step for step, _ in trace.history("cols")]
    player = page.get_by_test_id("player")
    page.locator(".source").click()  # the player has the focus
    for key, step in [
        ("ArrowRight", 1),
        ("ArrowLeft", 0),
        ("Shift+ArrowRight", tiles[0]),
        ("PageDown", tiles[1]),
        ("ArrowRight", tiles[1] + 1),
        ("PageUp", tiles[1]),
        ("Shift+ArrowLeft", tiles[0]),
        ("End", trace.steps - 1),
        ("ArrowRight", trace.steps - 1),
        ("Home", 0),
    ]:
        page.keyboard.press(key)
        expect(player).to_have_attribute("data-step", str(step))
        expect(player).to_have_attribute("data-line", str(trace.line(step)))
    page.keyboard.press("PageDown")
    expect(player).to_have_attribute("data-visit", "0")


def test_keys_that_scroll_are_the_pages_until_the_player_has_the_focus(opened, traces):
    page = opened("flash", 9)
    player = page.get_by_test_id("player")
    page.set_viewport_size({"width": 1440, "height": 600})
    assert page.evaluate("document.activeElement === document.body")
    for key in ("PageDown", "PageUp", "End", "Home", " "):
        page.keyboard.press(key)
        prevented = page.evaluate(
            """key => !document.body.dispatchEvent(
                new KeyboardEvent("keydown", {key, bubbles: true, composed: true, cancelable: true}))""",
            key,
        )
        assert not prevented, key
        expect(player).to_have_attribute("data-step", "9")
    page.keyboard.press("ArrowRight")  # while an arrow steps from anywhere
    expect(player).to_have_attribute("data-step", "10")
    page.evaluate("document.body.prepend(Object.assign(document.createElement('div'), { style: 'height: 500px' }))")
    page.keyboard.press("ArrowLeft")  # also where only the player's head and its bar are in the window
    expect(player).to_have_attribute("data-step", "9")
    page.evaluate("document.body.firstChild.style.height = '1500px'")
    page.keyboard.press("ArrowLeft")  # and from nowhere once all of it is below the window
    expect(player).to_have_attribute("data-step", "9")
    page.evaluate("document.body.firstChild.remove()")
    page.keyboard.press("ArrowRight")
    expect(player).to_have_attribute("data-step", "10")
    player.focus()
    page.keyboard.press("PageDown")
    tiles = [step for step, _ in traces["flash"].history("cols")]
    expect(player).to_have_attribute("data-step", str(next(step for step in tiles if step > 10)))
    page.keyboard.press("End")
    expect(player).to_have_attribute("data-step", str(traces["flash"].steps - 1))


def test_space_plays_and_pauses(opened):
    page = opened("flash")
    page.get_by_test_id("player").focus()
    player, button = page.get_by_test_id("player"), page.get_by_role("button", name="Play", exact=True)
    page.keyboard.press("Space")
    expect(page.get_by_role("button", name="Pause")).to_have_attribute("aria-pressed", "true")
    moving = re.compile(r"^([2-9]|\d{2,})$")  # a busy machine may be asked too late to see step 2 itself
    expect(player).to_have_attribute("data-step", moving)
    page.keyboard.press("Space")
    expect(button).to_have_attribute("aria-pressed", "false")
    stopped = press(page)["step"]
    page.wait_for_timeout(1200)
    assert press(page)["step"] == stopped


def test_buttons_the_scrub_bar_and_the_picker_move_too(opened, traces):
    trace, page = traces["flash"], opened("flash")
    player = page.get_by_test_id("player")
    page.get_by_role("button", name="Next tile").click()
    expect(player).to_have_attribute("data-step", str(trace.history("cols")[0][0]))
    page.get_by_label("query tile", exact=True).select_option("2")
    expect(player).to_have_attribute("data-step", str(trace.launches[0].recorded[2].first_step))
    page.get_by_role("slider", name="Step").fill("50")
    expect(player).to_have_attribute("data-step", "50")


def test_the_step_is_in_the_address_and_outlives_reload_rerun_and_absence(served):
    page = served("flash", step=70)
    player = page.get_by_test_id("player")
    expect(player).to_have_attribute("data-step", "70")
    page.keyboard.press("ArrowRight")
    page.wait_for_url(re.compile(r"[?&]step=71\b"))
    page.get_by_role("button", name="Rerun").click()
    expect(page.get_by_text("run again")).to_be_visible()
    expect(player).to_have_attribute("data-step", "71")
    page.get_by_text("Elsewhere").click()
    expect(player).to_have_count(0)
    page.get_by_text("Elsewhere").click()
    expect(player).to_have_attribute("data-step", "71")
    page.reload()
    expect(player).to_have_attribute("data-step", "71")


def test_no_step_reaches_the_server_also_when_it_rests(served, page):
    sent: list[str | bytes] = []

    def count(frame: str | bytes) -> None:
        sent.append(frame)

    page.on("websocket", lambda socket: socket.on("framesent", count))
    served("flash")
    page.wait_for_timeout(1000)
    before = len(sent)
    assert before  # the page has asked for its first run
    for step in (1, 2):
        page.keyboard.press("ArrowRight")
        page.wait_for_url(re.compile(rf"[?&]step={step}\b"))
    page.wait_for_timeout(1000)
    assert len(sent) == before


def test_nan_is_said_and_shown(opened, traces):
    step = first(traces["nan"], "q", after=traces["nan"].launches[0].recorded[1].first_step)
    page = opened("nan", first(traces["nan"], "l_i", after=first(traces["nan"], "s", after=step)))
    said = page.get_by_role("button", name="NaN, first in q")
    expect(said).to_be_visible()
    assert "NaN" in press(page, "ArrowDown")["numbers"][0]
    expect(page.get_by_text("4 NaN")).to_be_visible()  # of the tile's scores, in the map's heading
    said.click()
    expect(page.get_by_test_id("player")).to_have_attribute("data-step", str(step))


def test_a_checked_runs_finding_is_marked_and_leads_back(opened, traces):
    (found,) = traces["checked"].report.findings
    page = opened("checked", 0)
    player = page.get_by_test_id("player")
    expect(page.get_by_label("Watched variable").get_by_role("combobox")).to_have_value("findings")
    page.get_by_role("button", name="Next change").click()
    expect(player).to_have_attribute("data-step", str(found.step))
    expect(page.locator(".line[data-found=nan].now")).to_have_count(1)
    page.locator(".nan").click()  # what the NaN was made of
    expect(player).to_have_attribute("data-step", str(first(traces["checked"], "x")))


def test_a_condition_is_watched_and_a_bad_one_is_refused(opened, traces):
    trace = traces["flash"]
    history = [(step, value.numpy()[0]) for step, value in trace.history("m_new")]
    limit = float(np.median([value for _, value in history]))
    expected = [step for step, value in history if value > limit]
    page = opened("flash")
    page.get_by_label("Watched variable").get_by_role("combobox").select_option("condition …")
    box = page.get_by_role("textbox", name="Condition")
    refusal = page.get_by_role("dialog").get_by_role("alert")
    for refused in ("", "m_new >", "nothing > 1", "m_new[0, 7] > 1", "m_new.constructor"):
        box.fill(refused)
        box.press("Enter")
        expect(refusal).not_to_be_empty()
    box.fill(f"m_new[0] > {limit} and m_new[0] != nan")
    box.press("Enter")
    player = page.get_by_test_id("player")
    for step in expected[:3]:
        expect(player).to_have_attribute("data-step", str(step))
        press(page, "n")
    assert page.locator(".moves").get_attribute("data-of").endswith(f"/{len(expected)}")


def test_a_hidden_score_is_minus_infinity_and_a_skipped_tile_is_named(opened, traces):
    page = opened("causal", first(traces["causal"], "m_new"))
    expect(page.locator(".map .legend .masked")).to_be_visible()
    expect(page.locator(".map .legend .skipped")).to_be_visible()
    canvas = page.locator(".map canvas")
    box = canvas.bounding_box()
    assert box is not None
    tip = page.locator(".tip")
    canvas.hover(position={"x": box["width"] * 0.8, "y": box["height"] * 0.35})
    expect(tip).to_contain_text("skipped")


def test_bf16_values_are_the_exact_ones(opened, traces):
    trace = traces["half"]
    step = first(trace, "q")
    page = opened("half", step)
    q = trace.state(step)["q"].numpy()
    page.locator(".line.now .text [data-name=q]").hover()
    low, high = [float(x) for x in (q.min(), q.max())]
    text = page.locator(".tip").inner_text().replace("−", "-")
    values = next(line for line in text.split("\n") if " … " in line)
    shown = [float(x) for x in re.findall(r"-?\d+\.?\d*(?:e-?\d+)?", values)]
    assert "bf16" in text
    assert shown == pytest.approx([low, high], rel=1e-3)


def test_a_kernel_without_roles_still_steps(opened, traces):
    step = first(traces["flash"], "alpha")
    page = opened("foreign", step)
    expect(page.locator(".variables li.changed .name")).to_have_text(re.compile(r"^alpha"))
    assert press(page, "ArrowRight")["line"] == traces["flash"].line(step + 1)
    expect(page.locator(".variables li.changed .name")).to_have_text(re.compile(r"^p"))


def test_two_runs_step_together_and_one_is_wrong(opened):
    page = opened("pair")
    page.get_by_test_id("player").focus()
    page.keyboard.press("End")
    sums = page.locator(".output").evaluate_all("all => all.map(e => Number(e.dataset.sum))")
    assert sums == pytest.approx([3, 1], rel=1e-6)
    page.keyboard.press("Home")
    page.keyboard.press("PageDown")
    page.keyboard.press("PageDown")
    lit = page.locator(".line.now .no")
    expect(lit).to_have_count(2)
    lines = [page.locator(".line.now .text").nth(i).inner_text() for i in (0, 1)]
    assert all("cols = start" in line for line in lines)  # both at the start of the same tile
    expect(page.locator(".words")).to_have_text([re.compile("2–3")] * 2)


def test_a_run_that_cannot_be_read_is_said(page, app):
    page.goto(f"{app.url}/?case=altered")
    alert = page.get_by_test_id("player").get_by_role("alert")
    expect(alert).to_contain_text(re.compile("digest|altered"))


def test_in_the_app_it_counts_as_the_address_does_follows_the_theme_and_fits_the_screen(served, traces):
    page = served("flash", 48)
    player = page.get_by_test_id("player")
    counter = page.get_by_role("button", name="Go to a step by its number")
    assert [int(n) for n in re.findall(r"\d+", counter.inner_text())] == [48, traces["flash"].steps - 1]
    counter.click()
    expect(page.get_by_role("textbox", name="Step number")).to_have_value("48")
    page.keyboard.press("Escape")

    expect(player).to_have_attribute("data-theme", "light")
    page.emulate_media(color_scheme="dark")
    expect(player).to_have_attribute("data-theme", "dark")

    go(page, first(traces["flash"], "o"))
    frame = player.bounding_box()
    assert frame is not None
    assert frame["height"] <= 720
    for panel in ("source", "equation", "map", "zoom", "rows", "output"):
        box = page.locator(f".{panel}").bounding_box()
        assert box is not None, panel
        assert box["height"] > 60, panel
        assert box["y"] + box["height"] <= frame["y"] + frame["height"], panel
        assert box["x"] + box["width"] <= frame["x"] + frame["width"] + 1, panel


def test_a_phone_shows_it_without_sideways_scrolling(opened):
    page = opened("flash")
    page.set_viewport_size({"width": 390, "height": 844})
    page.keyboard.press("Shift+ArrowRight")
    until(page, "document.documentElement.scrollWidth <= innerWidth")
    for panel in ("source", "map", "rows"):
        box = page.locator(f".{panel}").bounding_box()
        assert box is not None
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 390


def test_what_is_heard_and_named(opened, traces):
    step = first(traces["flash"], "alpha")
    page = opened("flash", step - 1)
    page.keyboard.press("ArrowRight")
    live = page.get_by_test_id("player").locator("[aria-live=polite]")
    trace = traces["flash"]
    sentence = page.locator(".words").inner_text()
    assert "α = 0" in sentence
    expect(live).to_have_text(
        re.compile(
            rf"^Step {step} of {trace.steps - 1}, line {trace.line(step)}, tile 1 of \d+\. {re.escape(sentence)}$"
        )
    )
    for button in page.get_by_test_id("player").get_by_role("button").all():
        assert button.get_attribute("aria-label")
    unnamed = "all => all.filter(c => !c.getAttribute('aria-label') && c.getAttribute('aria-hidden') !== 'true').length"
    assert page.locator(".player canvas:visible").evaluate_all(unnamed) == 0
    levels = page.locator(".player :is(h1, h2, h3, h4):visible").evaluate_all("all => all.map(e => +e.localName[1])")
    assert levels[0] == 2
    assert all(after - before <= 1 for before, after in itertools.pairwise(levels))
    expect(page.get_by_test_id("player")).to_have_role("group")


def test_a_step_is_drawn_within_a_frame(opened):
    page = opened("flash")
    draws = [press(page, "ArrowRight")["draw"] for _ in range(120)]
    assert np.quantile(draws, 0.25) < 8, draws  # ms; other tests take their turns on the same cores


def test_a_step_is_drawn_without_asking_for_a_layout(opened):
    """A layout that drawing asks for takes as long as all the drawing, and the frame lays out once more."""
    page = opened("flash")
    client = page.context.new_cdp_session(page)
    client.send("Performance.enable")

    def layouts() -> float:
        metrics = client.send("Performance.getMetrics")["metrics"]
        return next(one["value"] for one in metrics if one["name"] == "LayoutCount")

    keys = ["ArrowRight"] * STEPS_IN_A_TASK
    page.evaluate(PRESS_ALL, keys)  # where a line's values fit is found out once for each line
    page.evaluate(PRESS_ALL, ["ArrowLeft"] * STEPS_IN_A_TASK)
    before = layouts()
    page.evaluate(PRESS_ALL, keys)
    assert (
        layouts() - before < 0.75 * STEPS_IN_A_TASK
    )  # some lines scroll; one that is asked for by each step makes more
