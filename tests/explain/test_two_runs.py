"""Two runs on one timeline: where they meet, and what is told as their first difference."""

from __future__ import annotations

import pytest

from explain import tours
from explain.chapters.side_by_side.pairs import PAIRS, opening
from explain.engine import engine
from explain.experiment import Experiment
from tests.explain.player_modules import ran

PAIR = {pair.name: pair for pair in PAIRS}
WOVEN = """
const { woven } = weave(stories);
const positionOf = woven.map((steps) => new Map(Array.from(steps, (step, t) => [step, t]).reverse()));
"""
SHARED = f"""{WOVEN}
const [left, right] = stretchesOfBoth(stories);
const corner = (i, steps) => (({{ rows, cols }}) => [rows[0], cols[0]])(stories[i].tile(steps.at(-1)));
return [...left.keys()].filter((key) => isVisit(key) && right.has(key))
  .map((key) => [corner(0, left.get(key)), corner(1, right.get(key))]);
"""
FIRST = f"""{WOVEN}
const player = {{ stories, woven, positionOf, depth: {{ shown: given.depth }}, $: nothing }};
const comparison = new Comparison(player);
comparison.load();
comparison.render(comparison.first.t);
return {{ ...comparison.first, told: comparison.told(), marked: [...player.lanes[0].marks.roles] }};
"""


def first_difference(name: str, depth: str = "idea"):
    return told_of(PAIR[name].left, PAIR[name].right, depth)


def told_of(left: Experiment, right: Experiment, depth: str = "idea"):
    body = FIRST.replace("$: nothing", "$: nothing, lanes: [{ view: {} }, { view: {} }]")
    return ran("compare.js", body, left, right, depth=depth)


def test_a_run_of_three_launches_meets_the_other_at_every_tile_of_s():
    pair = PAIR["Standard and flash"]
    tiles = ran("compare.js", SHARED, pair.left, pair.right)
    assert len(tiles) == 4 * 4
    assert all(left == right for left, right in tiles)


def test_a_run_waits_in_the_pass_that_only_the_other_makes():
    found = first_difference("Naive and safe")
    assert (found["name"], found["index"]) == ("p", [0, 0])
    assert "exponentials" in found["marked"]
    assert "left: tile 1 of 2, pass 1 of 2; right: tile 1 of 2, pass 2 of 3" in found["told"]


def test_a_run_with_larger_tiles_waits_until_the_other_has_read_as_many_keys():
    pair = PAIR["Two tile sizes"]
    tiles = ran("compare.js", SHARED, pair.left, pair.right)
    assert tiles == [[[row, col], [row, col]] for row in (0, 8) for col in (0, 8)]
    seen = """
      const last = (i, step) => stories[i].tile(step)?.cols.at(-1) ?? -1;
      return Array.from(woven[0], (step, t) => [last(0, step), last(1, woven[1][t])]);"""
    assert all(left <= right for left, right in ran("compare.js", WOVEN + seen, pair.left, pair.right))


def test_the_first_access_to_a_buffer_of_one_run_counts_a_load_too():
    found = first_difference("Loop order")
    assert found["name"] == "o_hbm"
    first = engine().trace(PAIR["Loop order"].left).trace
    loads = [
        step for step in range(found["steps"][0] + 1) for one in first.accesses(step) if one.buffer.name == "o_hbm_ptr"
    ]
    assert loads == [found["steps"][0]]
    assert found["told"].startswith(
        "First difference: the left reads a tile of O so far from HBM; the right never does"
    )


@pytest.mark.parametrize(("depth", "said"), [("idea", "ℓ[0] = "), ("code", "l_i[0] = ")])
def test_idea_says_the_symbol_and_code_the_name_and_the_line(depth, said):
    told = first_difference("Wrong and right", depth)["told"]
    assert said in told
    assert ("line" in told) == (depth == "code")


@pytest.mark.parametrize(("depth", "unit"), [("idea", ", at beat 7"), ("code", ", at step 1,234")])
def test_elsewhere_the_first_difference_says_at_which_step_it_is(depth, unit):
    body = """
      const player = { transport: { countsBeats: given.depth === "idea" }, beatAt: () => 7 };
      const told = (begin, last) => Comparison.prototype.elsewhere.call(
        { player: { ...player, steps: { begin, last } }, first: { t: 1234 } });
      return [told(1230, 1240), told(0, 1233), told(1235, 1300)];
    """
    assert ran("compare.js", body, depth=depth) == ["", unit, unit]


def test_in_code_the_first_difference_names_the_symbol_of_idea_where_it_is_another_word():
    assert "reads a tile of o_hbm (O so far) from HBM" in first_difference("Loop order", "code")["told"]
    assert "writes a tile of s to HBM" in first_difference("Standard and flash", "code")["told"]


def test_a_changed_line_meets_the_line_that_it_replaces():
    """The right run's line rescales nothing, so it is part of another beat than the left run's."""
    runs = next(tour.runs for tour in tours.of("what_breaks") if "~acc_not_rescaled" in tour.runs[1].kernel)
    body = f"""{WOVEN}
      const isChanged = (i, t) => /acc = acc \\*/.test(stories[i].text(woven[i][t]));
      const there = [...woven[1].keys()].filter((t) => isChanged(1, t));
      return [there.length, there.every((t) => isChanged(0, t))];"""
    count, met = ran("weave.js", body, *runs)
    assert count > 0
    assert met


FINISHED = f"""{WOVEN}
return Array.from(woven[0], (_, t) => [0, 1].map((i) => Player.prototype.hasFinished.call(
  {{ stories, positionOf, steps: {{ begin: t, last: t }} }}, i)));
"""


def test_a_run_that_has_finished_says_so_while_the_other_goes_on():
    pair = PAIR["Standard and flash"]
    said = ran("player.js", FINISHED, pair.left, pair.right)
    idle = [right for _, right in said]
    assert idle == sorted(idle)
    steps = engine().trace(pair.right).trace.steps
    assert steps <= idle.index(True) < len(idle)
    assert not any(left for left, _ in said)


@pytest.mark.parametrize("tour", tours.of("side_by_side"), ids=lambda tour: tour.title)
def test_the_captions_of_two_runs_follow_the_timeline(tour):
    traces = [engine().trace(run).trace for run in tour.runs]
    captions = tours.resolved(tour, traces)["captions"]
    stops = [(one["run"], one["step"]) for one in captions]
    at = ran(
        "weave.js",
        f"{WOVEN} return given.stops.map(([run, step]) => positionOf[run].get(step));",
        *tour.runs,
        stops=stops,
    )
    assert at == sorted(at)


def test_equal_numbers_look_equal_in_both_runs_unless_one_run_would_hardly_be_seen():
    shared = ran(
        "lane.js",
        """
        const lane = (ranges) => ({
          ranges: { max: [0, 4], p: 1, accumulator: 1, output: 1, ...ranges },
          story: { roles: { running_sum: "l", running_max: "m" } },
        });
        return given.pairs.map((pair) => {
          const lanes = pair.map(lane);
          lanes.forEach((one, i) => Lane.prototype.shareScale.call(one, lanes[1 - i]));
          return lanes.map(({ ranges: { sum, max, p } }) => [sum, max, p]);
        });
        """,
        pairs=[[{"sum": 4, "p": 2}, {"sum": 12, "max": [-2, 3]}], [{"sum": 4}, {"sum": 1e30, "max": [0, 100]}]],
    )
    assert shared == [
        [[12, [-2, 4], 2], [12, [-2, 4], 1]],  # p is no role of theirs: each keeps its own
        [[4, [0, 4], 1], [1e30, [0, 100], 1]],
    ]


def test_a_sum_that_differs_stays_marked_while_another_pass_reads_it():
    marked = ran(
        "compare.js",
        f"""{WOVEN}
        const lanes = [{{ view: {{}} }}, {{ view: {{}} }}];
        const player = {{ stories, woven, positionOf, depth: {{ shown: "idea" }}, $: nothing, lanes }};
        const comparison = new Comparison(player);
        comparison.load();
        return Array.from(woven[0], (_, t) => (comparison.render(t), lanes[0].marks.roles.has("running_sum")));
        """,
        PAIR["Naive and safe"].left,
        PAIR["Naive and safe"].right,
    )
    assert any(marked)
    assert all(marked[marked.index(True) :])


def test_a_buffer_of_one_run_is_told_with_the_places_of_both():
    runs = opening("cross_entropy_fused"), opening("cross_entropy_standard")
    told = told_of(*runs)["told"]
    assert told.endswith(
        "the right writes a tile of X to HBM; the left drops it (left: tile 1 of 4; right: tile 1 of 1)."
    )
