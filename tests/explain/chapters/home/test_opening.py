"""The opening's packet: its numbers are the trace's and the formulas', it is small, and its insight comes in time."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from explain.chapters.attention.contexts import MODELS
from explain.chapters.home import opening
from explain.engine import engine
from explain.experiment import Experiment
from explain.figures.numbers import fixed, moved, percent
from explain.gpus import DEFAULT, GPUS
from explain.lessons import OPENING, STANDARD
from explain.player.files import joinable, modules
from explain.trace.model import Tile, Trace, numbers
from kernels.inputs import labels
from tests.explain.player_modules import evaluated

HOME = Path(opening.__file__).parent
LOADING_S = 2
"""What a page may take until its first motion."""


@pytest.fixture(scope="module")
def flash() -> Trace:
    return engine().trace(OPENING).trace


@pytest.fixture(scope="module")
def standard() -> Trace:
    return engine().trace(STANDARD).trace


@pytest.fixture(scope="module")
def run(flash: Trace) -> opening.Run:
    return opening.run_of(flash, OPENING)


@pytest.fixture(scope="module")
def packet(run: opening.Run, flash: Trace, standard: Trace) -> dict[str, Any]:
    text = opening.packet(run, flash, standard)
    assert len(text.encode()) <= 250_000
    found: dict[str, Any] = json.loads(text)
    return found


def array(packet: dict[str, Any], name: str, *shape: int) -> np.ndarray:
    return np.frombuffer(base64.b64decode(packet["arrays"][name]), "<f4").reshape(shape)


def test_the_arrays_are_those_that_the_kernel_read_made_and_wrote(packet, flash):
    p = OPENING.values
    n, d = p["seq_len"], p["head_dim"]
    inputs = OPENING.entry.make_inputs(OPENING.preset, p, OPENING.seed)
    for name in "qkv":
        assert (array(packet, name, n, d) == inputs[name][0, 0]).all()
    tiles = [value for _, value in flash.history("s") if isinstance(value, Tile)][1::2]  # masked: the second of a tile
    side = n // p["block_n"]
    scores = np.block([[numbers(tiles[i * side + j]) for j in range(side)] for i in range(side)])
    assert (array(packet, "s", n, n) == scores).all()
    outputs = [numbers(value) for _, value in flash.history("o")]
    assert (array(packet, "o", n, d) == np.concatenate(outputs)).all()
    named = labels(OPENING.preset, p)
    assert named is not None
    assert packet["tokens"] == list(named[0])


def test_the_running_state_obeys_its_recurrence(run):
    for tile in range(1, len(run.m)):
        assert np.allclose(run.alpha[tile], np.exp(run.m[tile - 1] - run.m[tile]))
        assert np.allclose(run.l[tile], run.l[tile - 1] * run.alpha[tile] + run.added[tile])
    assert (run.alpha[0] == 0).all()
    assert np.allclose(run.acc[-1] / run.l[-1][:, None], run.o)


def test_both_kernels_give_the_same_result(run, standard):
    last = standard.launches[-1].recorded
    outputs = [numbers(standard.state(program.first_step + program.steps - 1)["acc"]) for program in last]
    assert np.allclose(run.o, np.concatenate(outputs), atol=1e-5)


def test_the_followed_row_is_the_one_that_shrinks_most_in_the_first_tile_that_shrinks_any(run):
    first = next(j for j in range(1, len(run.alpha)) if (run.alpha[j] < 1).any())
    size = OPENING.values["block_m"]
    program = run.row // size
    assert not (run.alpha[first, : program * size] < 1).any()
    own = run.alpha[first, program * size : (program + 1) * size]
    assert run.alpha[first, run.row] == own.min() < 1


def test_every_link_names_a_row_of_its_tile(packet):
    assert all(0 <= scene["row"] < OPENING.values["block_m"] for scene in packet["scenes"])


def test_a_run_without_a_rescale_is_refused():
    flat = OPENING.with_(inputs="constant")
    with pytest.raises(ValueError, match="rescaled"):
        opening.run_of(engine().trace(flat).trace, flat)


def sizes(bill) -> dict[str, int]:
    """The bytes of each buffer of a bill."""
    return {name: size for name, size, _ in bill["parts"]}


def test_the_bills_are_the_formulas_and_the_traces(packet, flash, standard):
    small, large = packet["bills"]
    for bill, (experiment, trace) in zip(small["each"], ((STANDARD, standard), (OPENING, flash)), strict=True):
        traced = trace.traffic()
        assert bill["bytes"] == traced["read_bytes"] + traced["written_bytes"] == sum(sizes(bill).values())
        assert bill["total"] == moved(bill["bytes"])
        assert [said for _, _, said in bill["parts"]] == [moved(size) for _, size, _ in bill["parts"]]
        assert bill["name"] == experiment.entry.short
    for bills in (small, large):
        whole, tiled = map(sizes, bills["each"])
        assert {"s", "p"} <= whole.keys()
        assert {"s", "p"}.isdisjoint(tiled)
        assert bills["share"] == percent(sum(tiled.values()) / sum(whole.values()))
    assert sizes(large["each"][0])["s"] == 2 * 2 * opening.LENGTHS[-1] ** 2  # fp16, there and back


def test_every_symbol_of_a_sentence_has_its_definition(packet):
    for scene in packet["scenes"]:
        letters = set(re.findall(r"(?<!\w)(?:[A-ZΑ-ωℓ]|Õ)(?!\w)", scene["sentence"])) - {"A"}
        assert letters <= packet["terms"].keys(), scene["name"]


def test_s_grows_with_the_square_of_n_and_outgrows_the_chip(packet):
    sizes, chip = packet["sizes"], GPUS[DEFAULT].shared_bytes_all
    assert [size["tokens"] for size in sizes] == [64 * 2**i for i in range(12)]
    assert sizes[0]["tokens"] == OPENING.values["seq_len"]
    for size in sizes:
        assert size["bytes"] == 2 * size["tokens"] ** 2  # fp16
        assert len(size["trips"]) == 4
    assert sizes[0]["bytes"] < packet["chip"]["bytes"] == chip < sizes[-1]["bytes"]


def test_one_heads_scores_have_the_same_bytes_in_the_opening_and_in_the_first_chapter():
    shared = [model for model in MODELS if model.context in opening.LENGTHS]
    assert shared
    for model in shared:
        assert opening.size(model.context)["bytes"] == model.score_bytes


def test_the_scenes_take_about_a_minute_and_the_insight_comes_within_thirty_seconds(packet):
    scenes = packet["scenes"]
    assert 60 <= sum(scene["seconds"] for scene in scenes) <= 90
    names = [scene["name"] for scene in scenes]
    until = sum(scene["seconds"] for scene in scenes[: names.index("larger") + 1])
    assert until + LOADING_S <= 30
    assert all(len(scene["sentence"].split()) <= 15 for scene in scenes)


def test_each_scene_leads_to_a_step_that_does_it(packet, flash, standard, run):
    scenes = {scene["name"]: scene for scene in packet["scenes"]}
    on_page: dict[str, tuple[Experiment, Trace]] = {
        "flash_attention": (OPENING, flash),
        "memory_hierarchy": (STANDARD, standard),
    }
    does = {
        "sentence": "q = tl.load(", "scores": "s = tl.dot(q", "scale": "tl.store(s_ptr", "trips": "p = tl.load(",
        "tile": "s = tl.dot(q", "row": "m_new = tl.maximum(m_i", "larger": "alpha = tl.exp(m_i",
        "join": "l_i = l_i * alpha + tl.sum(p", "next": "m_i = m_new", "write": "tl.store(o_ptr",
        "programs": "s = tl.", "bills": "tl.store(o_ptr",
    }  # fmt: skip
    assert scenes.keys() == does.keys()
    for name, scene in scenes.items():
        _, trace = on_page[scene["page"]]
        source = trace.sources[trace.columns.source[scene["step"]]]
        line = source.text.split("\n")[trace.columns.line[scene["step"]] - source.first_line]
        assert does[name] in line, name
    shrinks = numbers(flash.state(scenes["larger"]["step"])["alpha"])[run.row % OPENING.values["block_m"]]
    assert shrinks == run.alpha[1, run.row]


SCENES = (
    modules("numbers.js")
    + "".join(joinable((HOME / name).read_text(encoding="utf-8")) for name in ("layouts.js", "scenes.js", "opening.js"))
    + """
const data = new Story(given.packet), layout = layoutOf({ width: 1200, height: 560 });
/** What a scene says at each of 100 moments: [{text, x, y}], in the layout's places. */
const moments = (name) => penned(name).map(({ said }) => said);
/** What a scene draws with at each of 100 moments. */
const penned = (name) => Array.from({ length: 100 }, (_, i) => {
  const said = [], nowhere = () => {};
  const pen = { layout, palette: nothing, ctx: nothing, fill: () => "", onFill: () => "", width: () => 1, box: nowhere,
    rule: nowhere, slot: nowhere, empty: nowhere, cells: nowhere, faded: (there, draw) => there > 0 && draw(),
    text: (text, x, y) => said.push({ text, x, y }) };
  SCENES[name](pen, data, i / 99);
  return Object.assign(pen, { said });
});
"""
)


def said_in(packet: dict[str, Any], scene: str, where: str) -> list[str]:
    """The texts of a scene at a place of the layout, in the order of time, each once."""
    body = f"const at = {where}; return moments(given.scene).flat().filter(at).map(({{ text }}) => text);"
    return list(dict.fromkeys(evaluated(SCENES, body, packet=packet, scene=scene)))


@pytest.mark.parametrize(("scene", "from_", "to"), [("larger", 0, 2), ("join", 1, 3)])
def test_the_number_beside_l_is_always_one_of_the_calculation(packet, run, scene, from_, to):
    l, alpha = (values[:, run.row].astype(float) for values in (run.l, run.alpha))  # noqa: E741
    calculation = [fixed(number, 3) for number in (l[0], l[0] * alpha[1], l[1])]
    body = """return moments(given.scene).flat().filter(({ x, y }) => x === layout.row.value && y === layout.row.l)
      .map(({ text }) => text);"""
    told = list(dict.fromkeys(evaluated(SCENES, body, packet=packet, scene=scene)))
    assert told == calculation[from_:to]


def test_in_the_bills_a_kernel_has_its_total_and_its_whole_bar_from_the_first_moment(packet):
    body = "return moments('bills').map((said) => said.map(({ text }) => text));"
    for said in evaluated(SCENES, body, packet=packet):
        totals = {bill["total"] for bills in packet["bills"] for bill in bills["each"]}
        assert len(totals.intersection(said)) == sum(bill["name"] in said for bill in packet["bills"][0]["each"])


def test_the_bytes_beside_hbm_are_named_after_their_kernel(packet):
    body = "return moments('bills').map((said) => said.map(({ text }) => text));"
    for said in evaluated(SCENES, body, packet=packet):
        assert f"{OPENING.entry.short}, matrix by matrix" in said


def test_the_bytes_of_s_are_never_where_the_chip_covers_them(packet):
    body = """return data.sizes.map((shown, chosen) => {
        const said = [], boxes = [];
        const pen = { layout, palette: nothing, ctx: nothing, fill: () => "", onFill: () => "", width: () => 1,
          box: (at) => boxes.push(at), text: (text, x, y) => said.push({ text, y }) };
        SCENES.scale(pen, Object.assign(data, { chosen }), 1);
        const chip = boxes.at(-1), { y } = said.find(({ text }) => text === `S  ${shown.s}`);
        return shown.bytes < data.chip.bytes || y + layout.large / 2 <= chip.y;
      });"""
    assert all(evaluated(SCENES, body, packet=packet))


def test_a_moment_with_numbers_for_more_tokens_than_the_run_has_says_that_they_are_computed(packet):
    longer = {size[name] for size in packet["sizes"][1:] for name in ("s", "all")}
    recorded, computed = (bill["size"] for bill in packet["bills"])
    body = """return given.packet.scenes.map(({ name }) => penned(name).map(({ computed = false, said }) =>
      [computed, said.map(({ text }) => text)]));"""
    names = [scene["name"] for scene in packet["scenes"]]
    for name, moments in zip(names, evaluated(SCENES, body, packet=packet), strict=True):
        if name == "bills":
            assert [of_formulas for of_formulas, _ in moments] == [computed in said for _, said in moments]
            assert [not of_formulas for of_formulas, _ in moments] == [recorded in said for _, said in moments]
        else:
            told = any(number in text for number in longer for _, said in moments for text in said)
            assert {of_formulas for of_formulas, _ in moments} == {told}, name
