"""What Idea says is on chip: the followed row's m and ℓ after each beat."""

from __future__ import annotations

import re

import pytest

from explain.lessons import BACKWARD, MERGED, SHORT, first_order
from tests.explain.player_modules import ran

FIRST_ORDER = first_order(SHORT)  # FlashAttention-1: m and ℓ of 8 rows go to HBM and back at every visit
STATES = """
const [story] = stories;
const lane = { story, view: story.view, output: (role) => role, annotations: { sources: story.sources.map(() =>
  ({ alive: {} })) }, ranges: { max: [0, 1], sum: 1 } };
const scenes = new Scenes(lane);
return story.beats.map((beat) => {
  const scene = scenes.of(beat, beat.end - 1);
  const states = scene.columns.filter(({ state }) => state).map(({ main }) => main);
  const of = (quantity) => states.find((item) => item.quantity === quantity);
  const told = Object.fromEntries(["max", "sum"].map((quantity) => {
    const item = of(quantity), panel = { scene, story };
    return [quantity, item?.here ? { now: Array.from(item.now),
      inside: item.inside,
      before: Array.from(IdeaPanel.prototype.before.call(panel, item) ?? []) } : null];
  }));
  return { ...beat, ...told, says: beatSentence(story, beat, 0) };
});
"""


@pytest.fixture(scope="module")
def beats():
    return ran("idea/panel.js", STATES, FIRST_ORDER)


def test_after_a_visit_m_and_l_are_those_that_it_made(beats):
    made = [beat for beat in beats if beat["kind"] == "write"][-1]
    end = beats[-1]
    assert end["kind"] == "finish"
    assert end["max"]["now"] == made["max"]["now"]
    assert end["sum"]["now"] == made["sum"]["now"]
    m, sum_ = (f"{made[name]['now'][0]:.3f}" for name in ("max", "sum"))
    assert f"m = {m}, ℓ = {sum_}" in end["says"]


def test_a_load_of_other_rows_is_no_change_of_m_and_l(beats):
    loads = [beat for beat in beats if beat["kind"] == "load" and "m_hbm" in beat["names"]]
    assert len(loads) == 4
    assert all(beat["max"]["now"] and not beat["max"]["before"] and not beat["sum"]["before"] for beat in loads)


def test_an_arrow_of_m_is_of_one_row_so_it_never_falls(beats):
    arrows = [(beat["max"]["before"], beat["max"]["now"]) for beat in beats if beat["max"] and beat["max"]["before"]]
    assert arrows
    for before, now in arrows:  # −∞ is None in JSON
        assert all(was is None or is_now >= was for was, is_now in zip(before, now, strict=True))


def test_a_row_of_padding_is_no_row_of_s(beats):
    """15 tokens in tiles of 8: the second tile of queries has 7."""
    inside = [beat["max"]["inside"] for beat in beats if beat["kind"] == "new_max"]
    assert inside == [8, 7, 8, 7]


BACKWARD_SCENES = """
const [story] = stories;
const lane = { story, view: story.view, output: (role) => role, annotations: { sources: story.sources.map(() =>
  ({ alive: {} })) }, ranges: { max: [0, 1], sum: 1, p: 1, accumulator: 1, output: 1 } };
const scenes = new Scenes(lane);
return story.beats.map((beat) => {
  const { columns } = scenes.of(beat, beat.end - 1);
  const items = columns.flatMap(({ main, above }) => (above ? [main, above] : [main]));
  return { ...beat, launch: story.programs[beat.program].launch, says: beatSentence(story, beat, 5),
    items: Object.fromEntries(items.map(({ role, symbol, here, turned, ofKeys, now }) =>
      [role, { symbol, here, turned, ofKeys, some: now ? Array.from(now).some((x) => x) : false }])) };
});
"""


def test_a_backward_pass_keeps_the_gradients_of_its_keys_while_queries_pass():
    beats = ran("idea/panel.js", BACKWARD_SCENES, BACKWARD)
    keys = [beat for beat in beats if beat["launch"] == 1]
    second = next(beat for beat in keys if beat["tile"] == 1 and beat["kind"] == "load")
    for role in ("keys_gradient", "values_gradient"):  # made in the first tile, on chip in the second
        assert second["items"][role]["here"]
        assert second["items"][role]["some"]
        assert second["items"][role]["ofKeys"]
    shown = second["items"]
    assert (shown["keys"]["turned"], shown["values"]["turned"]) == (True, True)
    assert (shown["keys"]["symbol"], shown["values"]["symbol"]) == ("Kᵀ", "Vᵀ")
    assert "queries_gradient" not in shown
    queries = next(beat for beat in beats if beat["launch"] == 2 and beat["kind"] == "add")
    assert queries["items"]["queries_gradient"]["here"]
    assert "keys_gradient" not in queries["items"]


def test_a_backward_pass_is_told_with_the_numbers_of_its_row():
    beats = ran("idea/panel.js", BACKWARD_SCENES, BACKWARD)
    said = {beat["kind"]: beat["says"] for beat in beats if beat["launch"] == 1 and beat["tile"] == 0}
    p, dp, delta, ds = map(
        float, re.findall(r"[-−]?\d+\.?\d*(?: × 10\S+)?", said["scores_gradient"].replace("−", "-"))[1:5]
    )
    assert p * (dp - delta) == pytest.approx(ds, rel=0.05)
    assert "P: the largest is" in said["exponentials"]
    assert "Pᵀ dO of this tile is added to dV." in {beat["says"] for beat in beats}


def test_the_bar_of_a_negative_number_goes_left_of_zero():
    bars = ran("idea/chip.js", "return given.bars.map(([v, range]) => barOf(v, range));",
               bars=[[-1, [-1, 3]], [3, [-1, 3]], [0, [-1, 3]], [-2, [-4, 0]], [5, [4, 8]], [4, [4, 8]]])  # fmt: skip
    assert [(bar["from"], bar["to"]) for bar in bars] == [
        (0.25, 0), (0.25, 1), (0.25, 0.25), (1, 0.5), (0, 0.25), (0, 0),
    ]  # fmt: skip


HELD = """
const [story] = stories;
const scenes = new Scenes({ story, view: story.view });
const { buffers } = scenes.launched(given.launch).hbm;
const written = writtenContents({ story, scenes, buffers, launch: given.launch });
const { first, end } = story.programs.find(({ launch }) => launch === given.launch);
return Object.fromEntries([...written].map(([{ name }, held]) =>
  [name, [first, end - 1].map((k) => held.upTo(k).cells.length)]));
"""


def test_hbm_has_what_a_store_computes_from_a_tile():
    """The kernel writes dK times sm_scale: 16 rows by 32 of the first program."""
    held = ran("idea/panel.js", HELD, BACKWARD, launch=1)
    assert held["dk"] == held["dv"] == [0, 16 * 32]


def test_hbm_has_from_the_start_what_a_launch_reads_before_it_writes_there():
    held = ran("idea/panel.js", HELD, MERGED, launch=1)
    assert {held["m"][0], held["l"][0]} == {4}


def test_numbers_in_a_low_box_have_a_size():
    body = """
      const ctx = { set font(font) { this.size = parseFloat(font.match(/([\\d.]+)px/)[1]); },
        measureText(text) { return { width: text.length * this.size * 0.5 }; } };
      const column = { state: true, main: { symbol: "m", rows: 1, cols: 1 } };
      const box = { x: 0, y: 0, width: 660, height: 100 };
      return placeTiles(ctx, { size: 15, smallest: 0, font: "sans" }, Array(6).fill(column), box, null).scale.u;"""
    assert 60 < ran("idea/chip.js", body) < 100
