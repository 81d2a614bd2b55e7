"""The player's parts that need no page: what it decodes and counts, what it makes of keys, answers, conditions."""

from __future__ import annotations

import math

import numpy as np
import pytest

from explain.experiment import Experiment
from explain.lessons import ONLINE
from explain.player.view import _program_names
from tests.explain.player_modules import ran

VALUES = {"m_i": [1.0, 4.0], "l": [2.0]}
CONDITION = """
const known = new Map(Object.entries(given.values).map(([name, data]) => [name, data.length > 1 ? [data.length] : []]));
const values = new Map(Object.entries(given.values).map(([name, data]) => [name, { data, shape: known.get(name) }]));
return given.texts.map((text) => {
  try { return readCondition(text, known).holds(values); } catch (error) { return "refused"; }
});
"""


def test_a_condition_means_what_it_says():
    asked = {
        "m_i > 3": True, "m_i[0] > 3": False, "m_i[1] >= 4": True, "m_i[2] > 0": "refused", "l[0] > 0": "refused",
        "-l == -2": True, "l != 2": False, "l != 1": True, "l == 1 and l == 1 or l == 2": True,
        "l == 2 or l == 1 and l == 1": True, "l": "refused", "n > 1": "refused", "1 < 2": "refused", "m_i < l": True,
    }  # fmt: skip
    assert ran("condition.js", CONDITION, texts=[*asked], values=VALUES) == [*asked.values()]


def test_nan_is_equal_to_nan_alone():
    body = 'return ["==", "!="].map((sign) => [[NaN, NaN], [NaN, 1], [1, 1]].map(([a, b]) => HOLDS[sign](a, b)));'
    assert ran("condition.js", body) == [[True, False, True], [False, True, False]]


@pytest.mark.parametrize(
    ("text", "truth", "verdict"),
    [
        ("0.25", 0.25, "right"), ("0.2", 0.2493, "rough"), ("0.25", 0.2493, "right"), ("0.26", 0.2493, "wrong"),
        ("2.5e-3", 0.0025, "right"), ("2.5e-3", 0.00251, "right"), ("2.5e-3", 0.0031, "wrong"), ("−1,5", -1.5, "right"),
        ("1.5", -1.5, "wrong"), ("two", 2.0, "invalid"), ("", 0.0, "invalid"),
    ],
)  # fmt: skip
def test_an_answer_is_judged_to_its_digits(text, truth, verdict):
    assert ran("watch.js", "return judge(given.text, given.truth, 'm')[0];", text=text, truth=truth) == verdict


def test_ordinals():
    said = ran("numbers.js", "return given.counts.map(ordinal);", counts=[1, 2, 3, 4, 11, 12, 13, 21, 22, 111, 112])
    assert said == ["1st", "2nd", "3rd", "4th", "11th", "12th", "13th", "21st", "22nd", "111th", "112th"]


def test_only_a_number_that_overflows_the_others_has_an_exponent():
    rows = ([4994.3, 267.0, -16_310.0, math.nan], [0.5, -2.25, 1.0, 0.0])
    body = "return given.rows.map((row) => row.map((x) => x ?? NaN).map(mixed(row.map((x) => x ?? NaN), 4)));"
    said = ran("numbers.js", body, rows=[[None if x != x else x for x in row] for row in rows])
    assert said == [["4994", "267", "−1.6e4", "NaN"], ["0.500", "−2.250", "1.000", "0"]]


def test_the_shortest_figures_of_numbers_of_any_size_are_at_most_four_characters():
    numbers = [0.0, 0.04, -0.52, 1.0, -42.7, 999.0, -1436.0, 9908.0, -16_310.0, 3.4e9]
    said = ran("numbers.js", "return given.numbers.map(briefest(given.numbers));", numbers=numbers)
    assert said == ["0", "0", "−1", "1", "−43", "999", "−1e3", "1e4", "−2e4", "3e9"]


def test_ways_between_chip_and_hbm_cross_only_where_they_must():
    rising = [(1, 0), (6, 9), (2, 4), (3, 7)]
    body = "return given.ways.map((ways) => stacked(ways.map(([from, to]) => ({ from, to }))));"
    (best, turned) = ran("idea/memory.js", body, ways=[rising, [(0, 5), (5, 0)]])
    ends = [(way["from"], way["to"]) for way in best]
    assert sorted(ends) == sorted(rising)

    def crosses(x: int, way: tuple[int, int]) -> bool:
        return min(way) < x < max(way)

    pairs = [(upper, lower) for i, upper in enumerate(ends) for lower in ends[i + 1 :]]
    assert not any(crosses(upper[0], lower) or crosses(lower[1], upper) for upper, lower in pairs)
    assert len(turned) == 2


BAND = """
const ctx = { set font(font) { this.size = parseFloat(font.match(/([\\d.]+)px/)[1]); },
  measureText(text) { return { width: text.length * this.size * 0.5 }; } };
const buffers = given.buffers.map(([name, rows, cols]) =>
  ({ name, matrices: 1, rows, cols, width: cols, height: rows }));
const palette = { size: 14, smallest: 0, font: "sans" };
const band = placeBand(ctx, palette, buffers, { x: 0, ...given.room }, { roles: { scores: "s" } });
return [band.shapes.map(({ text }) => text), new Set(band.places.map(({ top }) => top)).size, band.height];
"""


@pytest.mark.parametrize(
    ("buffers", "width", "shapes", "lines"),
    [
        ([("q", 64, 32), ("k", 64, 32), ("s", 64, 64)], 560, ["64 × 32", "64 × 32", "64 × 64"], 1),
        ([("q", 64, 32), ("k", 64, 32), ("lse", 64, 1)], 560, ["Q, K 64 × 32 · L 64 × 1"], 1),
        ([("x", 1, 8), ("y", 1, 8)], 500, ["each 1 × 8"], 2),
        ([("x", 1, 2), ("y", 1, 2)], 1400, ["1 × 2", "1 × 2"], 1),
    ],
)
def test_a_shape_in_hbm_says_what_has_it_and_buffers_take_lines_where_they_are_narrow(buffers, width, shapes, lines):
    said, tops, height = ran("idea/memory.js", BAND, buffers=buffers, room={"width": width, "height": 110})
    assert (said, tops) == (shapes, lines)
    assert height <= 110 * 1.1 + 1


def test_a_clock_goes_to_the_next_stop_and_stays_at_neither():
    body = "return given.asked.map(([t, direction]) => tick({ stops: [0, 4, 9] }, t, direction, 12));"
    asked = {(0, 1): 4, (4, 1): 9, (5, 1): 9, (9, 1): 11, (11, -1): 9, (9, -1): 4, (5, -1): 4, (0, -1): 0}
    assert ran("clocks.js", body, asked=[*asked]) == [*asked.values()]


def test_every_16_bit_float_is_decoded_as_numpy_does():
    body = """
    const bits = Uint16Array.from({ length: 65536 }, (_, k) => k);
    return Array.from(read(bits.buffer, 0, "f16", 65536), String);
    """
    expected = np.arange(2**16, dtype=np.uint16).view(np.float16).astype(np.float64)
    decoded = np.array([float(x.replace("Infinity", "inf")) for x in ran("trace.js", body)])
    assert np.array_equal(decoded, expected, equal_nan=True)


def test_an_affine_tile_counts_the_last_axis_first():
    tile = ran("trace.js", "return Array.from(affine([2, 3], 5, [10, 1]));")
    assert tile == [5, 6, 7, 15, 16, 17]


def test_a_variable_holds_what_its_step_has_set():
    """At every step of a run of two programs: a program's variables end with it."""
    from explain.engine import engine
    from explain.trace.model import Affine, Scalar, Tile, numbers

    body = """
    const [story] = stories, names = story.trace.header.names;
    const told = (value) => (value?.data ? Array.from(value.data, String) : null);
    return Array.from({ length: story.steps }, (_, k) =>
      Object.fromEntries(names.map(([, name], at) => [name, told(story.at(at, k))]).filter(([, data]) => data)));
    """
    trace = engine().trace(ONLINE).trace
    for step, told in enumerate(ran("story.js", body, ONLINE)):
        state = {n: v for n, v in trace.state(step).items() if isinstance(v, Tile | Affine | Scalar)}
        assert {*told} <= {*trace.state(step)}
        for name, value in state.items():
            if isinstance(value, Scalar) and value.kind not in ("int", "float", "bool"):
                continue
            theirs = [float(x.replace("Infinity", "inf").replace("true", "1")) for x in told[name]]
            ours = numbers(value).astype(np.float64).reshape(-1).tolist()
            assert all(a == b or (math.isnan(a) and math.isnan(b)) for a, b in zip(theirs, ours, strict=True)), name


KEYS = """
const pressed = [];
const target = (tagName, type) => ({ tagName, type, closest: () => null });
for (const [key, more, tagName, type] of given.keys) {
  const player = { ready: true, presenter: { blanked: false }, press: (action) => { pressed.push(action); } };
  const event = { key, shiftKey: false, preventDefault() {}, target: target(tagName ?? "SECTION", type), ...more };
  const before = pressed.length;
  keyPressed(player, event);
  if (pressed.length === before) pressed.push(null);
}
return pressed;
"""


def test_a_key_does_what_the_list_says_and_nothing_while_one_types():
    asked = [
        (["ArrowRight", {}], "next"), (["ArrowRight", {"shiftKey": True}], "nextCoarse"), (["N", {}], "nextMove"),
        (["n", {"shiftKey": True}], "previousMove"), (["?", {"shiftKey": True}], "help"), (["x", {}], None),
        (["n", {"ctrlKey": True}], None), (["n", {"altKey": True}], None), (["n", {"metaKey": True}], None),
        (["n", {}, "INPUT", "text"], None), (["n", {}, "INPUT", "range"], "nextMove"), (["n", {}, "SELECT"], None),
        (["Escape", {}, "INPUT", "text"], "escape"), ([" ", {}, "BUTTON"], None), ([" ", {}], "play"),
    ]  # fmt: skip
    assert ran("keys.js", KEYS, keys=[key for key, _ in asked]) == [action for _, action in asked]


def test_a_query_tile_is_named_by_its_own_queries():
    sizes = {"batch": 1, "heads": 1, "kv_heads": 1, "seq_len": 20, "kv_len": 20, "block_m": 16}
    names = _program_names(Experiment.of("flash_attention", sizes, "normal"))
    assert names == {"0,0,0": "0 · queries 0–15", "1,0,0": "1 · queries 16–19"}
