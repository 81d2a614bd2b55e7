"""The page of a tile's cost: opens on a recording, takes any kernel and tile, compiles only on a click."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from explain.chapters.flash_attention import figures as flash
from explain.chapters.flash_attention import tiles
from explain.chapters.tile_cost import exercises, figures, launches, times, view
from explain.compile import service
from explain.compile.cost import LaunchCost, allocated, occupancy
from explain.compile.listing import FILLS, counts, in_loops, loops, spills
from explain.compile.service import Answer
from explain.experiment import Experiment
from explain.figures.numbers import capacity, duration, moved, number, percent, si
from explain.figures.palette import css
from explain.gpus import GPUS
from explain.records import registry
from explain.ui import compiling
from kernels.catalog import KERNELS, TAUGHT
from kernels.museum import EXHIBITS
from kernels.museum_backward import BUGS
from tests.explain.chapters.flash_attention.test_page import Slow
from tests.explain.records.made import SHIPPED
from tests.pages import page, texts


@pytest.fixture(autouse=True)
def nothing_compiled_here(monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("TILESCOPE_CACHE", str(tmp_path))


def launch_of_each(tile: Experiment, gpu: str = "H200") -> dict[Experiment, LaunchCost]:
    """The first launch of each tile that the page compares with this one."""
    return {one: cost.launches[0] for one, cost in view.costs(tile, GPUS[gpu]).items()}


def shown(test: AppTest) -> dict[str, Any]:
    """The data of the listing on the page."""
    (component,) = [one for one in test.get("bidi_component") if "first_line" in (one.proto.json or "")]
    return json.loads(component.proto.json)


def test_it_opens_without_triton_on_a_recorded_tile_with_its_instructions(monkeypatch):
    monkeypatch.setattr(service, "has_triton", lambda: False)
    test = page("tile_cost", listing="true")
    data = shown(test)
    assert [code["name"] for code in data["codes"]] == ["SASS", "PTX"]
    lines = ["".join(token if isinstance(token, str) else token[1] for token in line) for line in data["lines"]]
    assert lines[0] == "@triton.jit"
    number = data["chosen"]["line"]
    assert f"come from line {number}" in texts(test)
    assert "tl.exp(s" in lines[number - data["first_line"]]
    (known,) = service.compiler().listings(tiles.tile(64, 64), 90)
    opening = known.sass[data["chosen"]["at"]]  # the code opens in the loop too
    assert opening.lines == (number,)
    assert any(one is opening for one in in_loops(known))
    test = page("tile_cost", block_m="128", dtype="bf16")
    next(b for b in test.button if b.key == "compile tile").click().run()
    assert test.error


def test_each_gpu_has_its_own_instructions():
    first, other = (
        shown(page("tile_cost", gpu=gpu, listing="true"))["codes"][0]["instructions"] for gpu in ("H200", "T4")
    )
    assert any("GMMA" in text for text, *_ in first)
    assert not any("GMMA" in text for text, *_ in other)


def squares(drawn: str) -> Counter[tuple[str, bool]]:
    """How many squares a picture of kinds has of each fill, full and pale: each row of them is a dashed line."""
    found: Counter[tuple[str, bool]] = Counter()
    row = r'<line x1="(.+?)" y1=".+?" x2="(.+?)" y2=".+?" stroke="(.+?)" stroke-width=".+?" stroke-opacity="(.+?)"'
    for begin, end, fill, opacity in re.findall(row, drawn):
        found[fill, opacity != "1"] += round((float(end) - float(begin) + 1) / figures.PITCH)
    return found


def test_of_very_many_instructions_a_square_is_several():
    (known,) = service.compiler().listings(tiles.tile(64, 64), 90)
    many = replace(known, sass=known.sass * 8)
    most = max(counts(many.sass).values())
    assert most > 2 * figures.MOST
    drawn = figures.kinds(many)
    assert "One square: 3 instructions" in drawn
    assert max(squares(drawn).values()) <= figures.MOST
    assert f">{most:,}" in drawn or f" of {most:,}<" in drawn


def test_it_opens_on_the_kinds_of_instruction_and_lists_them_on_demand():
    test = page("tile_cost")
    assert not [one for one in test.get("bidi_component") if "first_line" in (one.proto.json or "")]
    experiment = tiles.compiled_as("flash_attention", tiles.opening("flash_attention"))
    (known,) = service.compiler().listings(experiment, 90)
    kinds = counts(known.sass)
    drawn = re.findall(r">([^<]+)</text>", figures.kinds(known))
    for kind, every in kinds.items():
        assert drawn[drawn.index(kind) + 1].endswith(f" of {every:,}")
    assert drawn[0].startswith(f"{sum(kinds.values()):,} SASS instructions")
    order = [kind for kind in FILLS if kind in kinds]
    inside = counts(in_loops(known))
    for narrow in (False, True):
        found = squares(figures.kinds(known, narrow=narrow))
        full = {fill: number for fill, number in zip(FILLS.values(), map(inside.get, FILLS), strict=True) if number}
        assert {fill: number for (fill, pale), number in found.items() if not pale} == full
        assert list(dict.fromkeys(fill for fill, _ in found)) == [FILLS[kind] for kind in order]
        assert all(found[FILLS[kind], False] + found[FILLS[kind], True] == kinds[kind] for kind in order)
    assert f" of {kinds['matmul']:,}</text>" in texts(test)


@pytest.mark.parametrize("kernel", ["vector_add", "softmax_online", "attention_standard", "cross_entropy_backward"])
def test_every_kernel_opens_on_a_compiled_tile(monkeypatch, kernel):
    monkeypatch.setattr(service, "has_triton", lambda: False)
    said = texts(page("tile_cost", kernel=kernel, gpu="T4"))
    assert "of the T4 holds" in said or "on the T4: the tile does not fit" in said
    assert "K and V are read less often" not in said or kernel == "attention_standard"


def test_a_tile_without_numbers_says_what_to_do(monkeypatch):
    tile = {"kernel": "softmax_tiled", "block_m": "8"}
    assert "Press the button" in texts(page("tile_cost", **tile))
    monkeypatch.setattr(view, "has_triton", lambda: False)
    said = texts(page("tile_cost", **tile))
    assert "Press the button" not in said
    assert "(./tile_cost?kernel=softmax_tiled&gpu=H200)" in said


def test_a_pressed_row_chooses_its_tile():
    test = page("tile_cost", tile="128x128", causal="false")
    chosen = {box.label: box.value for box in test.selectbox}
    assert (chosen["BLOCK_M"], chosen["BLOCK_N"]) == (128, 128)
    assert "tile" not in test.query_params
    (table,) = [one for one in test.get("bidi_component") if "data-press" in (one.proto.json or "")]
    rows = re.findall('<tr data-press="(.*?)"( class=on)?', json.loads(table.proto.json)["html"])
    assert rows == [(f"{m}x{n}", " class=on" * ((m, n) == (128, 128))) for m, n in tiles.COMPARED]
    assert "block_m=24: must be" in texts(page("tile_cost", tile="24x32"))


def test_recorded_times_are_of_one_problem_whichever_tile_is_chosen():
    entry = registry.Entry("a", SHIPPED, registry.RECORDED)
    problems = set()
    for own in [*tiles.COMPARED, (16, 16), (256, 64)]:  # the record has the last two of a smaller problem only
        known = tiles.compared(tiles.tile(*own))
        assert tiles.tile(*own) in known
        found = times.recorded_times(known, entry)
        assert found is not None
        runs = {key: run.values for key, (run, _) in found.runs.items()}
        assert len(runs) > (own in tiles.COMPARED)
        problems |= {(p["batch"], p["heads"], p["seq_len"], p["kv_len"]) for p in runs.values()}
        for tile in known:
            names = ("block_m", "block_n", "head_dim", "dtype", "causal")
            assert tile.key not in runs or all(runs[tile.key][name] == tile.values[name] for name in names)
    assert len(problems) == 1
    fp32 = [tile.with_(dtype="fp32", head_dim=256) for tile in known[:1]]
    assert times.recorded_times(fp32, entry) is None
    assert "time" not in figures.tiles_table({}, fp32[0], GPUS["H200"], None, {})


def larger_told(known: dict[Experiment, LaunchCost], tile: Experiment, found: times.Times, launches: int = 1) -> str:
    return figures.larger_told(figures.timed(known, GPUS["H200"], found, {}), tile, launches)


@pytest.mark.parametrize("kernel", ["flash_attention", "flash_attention_v1", "attention_standard"])
def test_what_a_larger_tile_brings_is_told_with_the_times_of_two_tiles(kernel):
    chosen, larger = (tiles.tile(block_m, 64, kernel=kernel) for block_m in (64, 128))
    known = launch_of_each(chosen)
    found = times.recorded_times(known, registry.Entry("a", SHIPPED, registry.RECORDED))
    assert found
    (_, of_small), (after, of_large) = (found.runs[tile.key] for tile in (chosen, larger))
    told = larger_told(known, chosen, found)
    for words in (moved(after.traffic.read_bytes), duration(of_small), duration(of_large)):
        assert words in told
    assert ("does not pay" in told) == (of_large > 1.03 * of_small)
    assert ("was not measured" in told) == (of_large > 1.03 * of_small)
    read = {key: one.dram_read_bytes or 0 for key, one in found.counts.items()}
    delivered = [moved(read[tile.key]) for tile in (chosen, larger)]
    spared = read[chosen.key] - read[larger.key]
    fewer = found.runs[chosen.key][0].traffic.read_bytes - after.traffic.read_bytes
    hardly = fewer > 0 and of_large > 1.03 * of_small and spared < figures.FEW * fewer
    assert all(words in told for words in delivered) == hardly
    assert "HBM" not in larger_told(known, chosen, replace(found, counts={}))
    if of_large < 0.97 * of_small:
        for warps, each, said in ((1, 38.0, True), (4, 17.5, False)):
            at_once, of_each = {chosen: warps, larger: 4}, {chosen: each, larger: 17.5}
            timed = [
                replace(one, at_once=at_once.get(one.tile), each=of_each.get(one.tile))
                for one in figures.timed(known, GPUS["H200"], found, {})
            ]
            because = figures.larger_told(timed, chosen)
            assert ("four warps" in because) == ("for each score (17.5, not 38.0)" in because) == said
    assert f"{figures.sides_told(larger)} instead of {figures.sides_told(chosen)}" in told
    other = tiles.tile(32, 32, kernel=kernel)
    without = replace(found, runs={key: run for key, run in found.runs.items() if key != other.key})
    assert f"{figures.sides_told(other)} was not timed" in larger_told(known, other, without)
    least = min(seconds for _, seconds in found.runs.values())
    (fastest,) = (tile for tile in known if found.runs[tile.key][1] == least)
    rate = found.runs[fastest.key][0].traffic.flops_of("matmul") / least
    of_peak = percent(rate / GPUS["H200"].tensor_flops_per_second)
    best = f"{duration(least)}, {si(rate, 'FLOP/s')}, {of_peak} of the H200's peak (datasheet)"
    assert f"**The fastest tile timed is {figures.sides_told(fastest)}**: {best}. [Speed]" in told
    largest = list(known)[-1]
    slower = found.runs[largest.key][1] / least
    assert ("the largest tile is not the fastest" in larger_told(known, largest, found)) == (slower > 1 + figures.ALIKE)
    table = figures.tiles_table(known, larger, GPUS["H200"], found, {})
    assert re.findall(r"<b>([^<]+ [mµ]?s)</b>", table) == [duration(least)]
    one = replace(found, runs={chosen.key: found.runs[chosen.key]})
    assert larger_told(known, chosen, one) == ""


def test_the_loops_instructions_for_a_score_are_those_of_all_threads():
    tile = tiles.tile(64, 64)
    known = launch_of_each(tile)
    (listing,) = service.compiler().listings(tile, 90)
    each = figures.per_score(tile, known[tile], listing)
    assert each == sum(counts(in_loops(listing)).values()) * 32 * known[tile].num_warps / 64 / 64
    table = figures.tiles_table(known, tile, GPUS["H200"], None, dict.fromkeys(known, listing))
    assert f"<td class=n>{number(each, 3, zeros=True)}</td>" in table
    assert "per score" not in figures.tiles_table(known, tile, GPUS["H200"], None, {tile: listing})
    softmax = tiles.compiled_as("softmax_online", tiles.opening("softmax_online"))
    assert figures.per_score(softmax, launch_of_each(softmax)[softmax], listing) is None


def test_what_spills_in_a_timed_run_is_told_as_counted():
    tile = tiles.tile(128, 128)
    known = launch_of_each(tile)
    found = times.recorded_times(known, registry.Entry("a", SHIPPED, registry.RECORDED))
    assert found
    counted = found.counts[tile.key]
    assert counted.spill_written_bytes
    stored, loaded = moved(counted.spill_written_bytes), moved(counted.spill_read_bytes or 0)
    words = f"the timed run stores {stored} and loads {loaded} again (counted)"
    assert f"its registers spill: {words}" in larger_told(known, tile, found)
    assert f"its registers spill: {known[tile].spills} per thread" in larger_told(
        known, tile, replace(found, counts={})
    )


def test_a_tile_too_large_for_the_gpu_is_said_with_both_sizes():
    known = launch_of_each(tiles.tile(64, 64), "T4")
    needed = allocated(list(known.values())[-1], GPUS["T4"])["shared memory"]
    assert needed > GPUS["T4"].shared_bytes_sm
    told = figures.grows(known, GPUS["T4"])
    assert told.startswith("**128 × 128 is too large**")
    assert capacity(needed) in told
    assert capacity(GPUS["T4"].shared_bytes_sm) in told


def test_tiles_that_were_not_timed_lead_to_some_that_were():
    elsewhere = texts(page("tile_cost", gpu="A100"))
    assert "[Tiles that were timed, on the H200 →](./tile_cost?kernel=flash_attention&gpu=H200)" in elsewhere
    assert "Tiles that were timed" not in texts(page("tile_cost"))


@pytest.mark.parametrize("kernel", TAUGHT)
def test_the_invitation_names_larger_tiles_that_are_compiled(kernel):
    experiment = tiles.compiled_as(kernel, tiles.opening(kernel))
    said = texts(page("tile_cost", kernel=kernel)).replace("\u00a0", " ")
    known = launch_of_each(experiment)
    larger = [one for one in known if one != experiment and figures.inside(experiment, one)]
    assert ("**Choose " in said) == bool(larger)
    assert "This is the largest tile" not in said or not larger
    assert all(figures.sides_told(one) in said for one in larger)


def test_where_no_tile_is_larger_a_smaller_one_is_named_and_without_a_cost_the_table_stays():
    largest = texts(page("tile_cost", kernel="softmax_online", block_n="16384"))
    assert "**Choose " not in largest
    assert "**This is the largest tile compiled beforehand. Choose BLOCK_N = 4,096 to compare" in largest
    unknown = page("tile_cost", kernel="softmax_online", block_n="8192")
    assert "Press the button" in texts(unknown)
    assert "BLOCK_N = 16,384, and watch" in texts(unknown)
    (table,) = [one for one in unknown.get("bidi_component") if "data-press" in (one.proto.json or "")]
    assert re.findall('<tr data-press="(.*?)"', json.loads(table.proto.json)["html"]) == ["1024", "4096", "16384"]
    pressed = page("tile_cost", kernel="softmax_online", tile="4096")
    assert {box.label: box.value for box in pressed.selectbox}["BLOCK_N"] == 4096


def test_only_a_kernel_with_a_dot_has_products():
    for kernel, products in (("vector_add", False), ("softmax_online", False), ("attention_standard", True)):
        tile = tiles.compiled_as(kernel, tiles.opening(kernel))
        known = service.compiler().listings(tile, 90)[0]
        sass = tuple(one for one in known.sass if one.kind != "matmul")
        told = figures.matmuls_told(replace(known, sass=sass), tile, GPUS["H200"])
        assert ("None of them is a matmul" in told) != products
        assert ("None of them uses the tensor cores" in told) == products


def test_a_matmul_instruction_works_for_four_warps_only_in_tiles_of_64_rows():
    for tile, warps in (((32, 32), "one warp"), ((64, 64), "four warps")):
        (known,) = service.compiler().listings(tiles.tile(*tile), 90)
        assert warps in figures.matmuls_told(known, tiles.tile(*tile), GPUS["H200"])


def test_the_matmul_instructions_of_an_iteration_multiply_the_tiles():
    for rows, cols, capability in ((32, 32, 90), (64, 64, 80), (64, 64, 89), (64, 64, 90), (128, 64, 90)):
        tile = tiles.tile(rows, cols)
        (known,) = service.compiler().listings(tile, capability)
        warps = service.compiler().look(tile, capability).cost.launches[0].num_warps
        said = figures.matmuls_told(known, tile, GPUS["H200"])
        m, k, again, n = map(int, re.search(r"of (\d+) × (\d+) and (\d+) × (\d+),", said).groups())
        assert again == k
        products = counts(in_loops(known))["matmul"] * m * n * k * warps // (4 if "four warps" in said else 1)
        assert products == 2 * rows * cols * int(tile.values["head_dim"])  # S = QKᵀ and P̃V


def test_why_no_matmul_uses_the_tensor_cores_is_said():
    (known,) = service.compiler().listings(tiles.tile(64, 64), 75)
    for dtype, gpu, why in (("fp16", "T4", "has 7.5."), ("bf16", "T4", "no bf16"), ("fp32", "H200", "TF32")):
        assert figures.matmuls_told(known, tiles.tile(64, 64, dtype=dtype), GPUS[gpu]).count(why) == 1


def test_the_busiest_line_is_looked_for_in_the_loop():
    known = service.compiler().listings(
        tiles.compiled_as("flash_attention_backward", tiles.opening("flash_attention_backward")), 90
    )[1]
    line, most = figures.busiest(known) or (0, 0)
    repeated = in_loops(known)
    assert 0 < len(repeated) < len(known.sass)
    assert most == sum(one.lines == (line,) for one in repeated)
    assert "tl.exp" in figures.busiest_told(known)
    alone = replace(known, sass=tuple(one for one in known.sass if one.kind not in ("control", "label")))
    assert "tl.store(dk_ptr" in figures.busiest_told(alone)  # without a loop, all count


def test_the_bars_tell_what_is_in_the_loop():
    known = service.compiler().listings(tiles.tile(64, 64), 90)[0]
    inside = counts(in_loops(known))
    drawn = figures.kinds(known)
    assert f"{sum(inside.values()):,} of them in the loop" in drawn
    for kind, looped in inside.items():
        assert f">{looped:,} of {counts(known.sass)[kind]:,}<" in drawn


@pytest.mark.parametrize("kernel", TAUGHT)
def test_what_tiles_take_is_told_from_their_numbers(kernel):
    known = launch_of_each(tiles.compiled_as(kernel, tiles.opening(kernel)))
    told = figures.grows(known, GPUS["H200"])
    programs = [occupancy(cost, GPUS["H200"]).programs for cost in known.values()]
    assert (f"**{programs[0]} → {programs[-1]}** programs" in told) == (programs[0] != programs[-1])
    assert ("registers spill" in told) == any(cost.spill_store_bytes for cost in known.values())


def test_a_tile_is_compiled_on_a_click_and_can_be_stopped(monkeypatch):
    slow = Slow()
    monkeypatch.setattr(compiling, "compiler", lambda: slow)
    test = page("tile_cost", kernel="softmax_tiled", block_m="8")
    assert slow.asked == []
    next(b for b in test.button if b.key == "compile tile").click().run()
    experiment = tiles.compiled_as("softmax_tiled", {**tiles.opening("softmax_tiled"), "block_m": 8})
    assert slow.asked == [(experiment, 90)]
    assert "3 s" in texts(test)
    assert "Compile it here" not in texts(test)
    next(b for b in test.button if b.key == "stop compiling").click().run()
    test.run()
    assert test.error


def test_a_recorded_cost_without_instructions_says_how_to_get_them(monkeypatch):
    tile = {"kernel": "flash_attention_v1", "block_m": "128", "block_n": "128"}
    test = page("tile_cost", **tile)
    assert "Press the button below" in texts(test)
    assert any(b.key == "compile tile" for b in test.button)
    monkeypatch.setattr(view, "has_triton", lambda: False)
    test = page("tile_cost", **tile)
    assert "Press the button" not in texts(test)
    assert not any(b.key == "compile tile" for b in test.button)
    assert "(./tile_cost?kernel=flash_attention_v1&gpu=H200)" in texts(test)


def test_every_kernel_and_every_broken_one_can_be_chosen_and_the_address_says_which():
    test = page("tile_cost", block_m="128")
    options = test.selectbox[0].options
    assert len(options) == len(TAUGHT) + len(EXHIBITS) + len(BUGS)
    test.selectbox[0].set_value("softmax_online").run()
    assert test.query_params["kernel"] in ("softmax_online", ["softmax_online"])
    assert "block_m" not in test.query_params
    assert len(test.selectbox) == 3  # kernel, dtype, BLOCK_N


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ({"block_m": "24"}, "block_m=24: "),
        ({"kernel": "nonsense"}, "kernel=nonsense: "),
        ({"kernel": "softmax_tiled", "block_m": "1024", "block_n": "1024"}, "65536"),
    ],
)
def test_what_the_address_cannot_mean_is_said(query, words):
    assert words in texts(page("tile_cost", **query))


def test_what_the_compiler_refuses_is_said(monkeypatch):
    slow = Slow()
    monkeypatch.setattr(compiling, "compiler", lambda: slow)
    test = page("tile_cost", kernel="softmax_tiled", block_m="8")
    next(b for b in test.button if b.key == "compile tile").click().run()
    slow.now = Answer(error="Triton could not compile this kernel for sm_90: too large")
    test.run()
    assert "sm_90: too large" in test.error[0].value


def test_where_no_program_fits_the_picture_shows_what_one_would_take_and_no_occupancy():
    known = service.compiler().look(tiles.tile(128, 128), 75)
    assert known
    assert known.cost
    for narrow in (False, True):
        drawn = figures.sm(known.cost.launches[0], GPUS["T4"], narrow=narrow)
        assert "no program fits" in drawn
        assert "the occupancy" not in drawn
        assert drawn.count(css("alarm")) == 1  # the shared memory
        assert "stroke-dasharray" in drawn  # the registers
        assert "65,536 B: all there is" in drawn
        assert "all there is" not in figures.sm(known.cost.launches[0], GPUS["H200"], narrow=narrow)


def test_the_registers_of_a_program_are_a_calculation():
    known = service.compiler().look(tiles.tile(64, 64), 90)
    assert known
    assert known.cost
    (launch,) = known.cost.launches
    assert "128 registers × 128 threads = 16,384 per" in flash.registers_told(launch, GPUS["H200"])
    odd = flash.registers_told(replace(launch, registers=122), GPUS["H200"])
    assert "122 registers, rounded up to 128 (the GPU gives them in steps of 8): 128 × 128 threads = 16,384 per" in odd


def test_registers_that_spill_have_the_alarms_tint_in_words_too():
    drawn = {}
    for side in (64, 128):
        known = service.compiler().look(tiles.tile(side, side), 90)
        assert known
        assert known.cost
        drawn[side] = figures.sm(known.cost.launches[0], GPUS["H200"])
    assert css("alarm") not in drawn[64]
    assert "some values spill" not in drawn[64]
    assert drawn[128].count(css("alarm")) == 2  # two programs
    assert "some values spill" in drawn[128]


def test_numbers_table_and_questions_are_those_of_the_chosen_launch():
    experiment = tiles.compiled_as("flash_attention_backward", tiles.opening("flash_attention_backward"))
    answer = service.compiler().look(experiment, 90)
    assert answer
    assert answer.cost
    fits = [occupancy(launch, GPUS["H200"]).programs for launch in answer.cost.launches]
    assert len(set(fits)) == 3
    for at, programs in enumerate(fits):
        test = page("tile_cost", kernel=experiment.kernel, launch=str(at + 1))
        said = texts(test)
        assert f"`{answer.cost.launches[at].kernel}` writes {('δ', 'dK and dV', 'dQ')[at]}." in said
        assert f"holds {programs} programs at a time" in said
        parts = [re.sub("<.*?>", "", one.proto.json or "") for one in test.get("bidi_component")]
        (questions,) = [one for one in parts if "How many threads" in one]
        assert f"How many threads of launch {at + 1} does" in questions
        assert ("of a tile of S = QK" in questions) == (at > 0)
        tables = [one.proto.json for one in test.get("bidi_component") if "data-press" in (one.proto.json or "")]
        rows = [re.findall("class=on>.*?</tr>", json.loads(table)["html"]) for table in tables]
        assert len(rows) == 2  # of launches, and of tiles
        assert all(f"<td class=n>{programs}</td>" in row for (row,) in rows)


def test_it_opens_on_one_launch_whichever_gpu_and_the_address_names_another():
    for gpu in ("H200", "A100", "T4"):
        assert ">Launch 2 (dK, dV)" in texts(page("tile_cost", kernel="flash_attention_backward", gpu=gpu))
    assert ">Launch 1 (δ), on one SM" in texts(page("tile_cost", kernel="flash_attention_backward", launch="1"))
    for wrong in ("0", "4", "δ"):
        said = texts(page("tile_cost", kernel="flash_attention_backward", launch=wrong))
        assert f"launch={wrong}: must be one of 1, 2, 3" in said


def test_a_thread_holds_as_many_scores_as_its_line_has_exponentials_and_of_small_tiles_nobody_asks():
    (question,) = (one for one in exercises.QUESTIONS if one.name == "scores-per-thread")
    compiler, checked = service.compiler(), 0
    for side in (32, 64, 128):
        tile = tiles.tile(side, side, kernel="flash_attention")
        answer, (listing, *_) = compiler.look(tile, 90), compiler.listings(tile, 90) or (None,)
        if answer and answer.cost and listing:
            (launch,) = answer.cost.launches
            shown = exercises.Shown(tile, GPUS["H200"], launch, listing, None)
            lines = listing.source.splitlines()
            ours = listing.first_line + next(at for at, line in enumerate(lines) if "p = tl.exp(s" in line)
            held = sum(one.kind == "exponential" and one.lines[:1] == (ours,) for one in listing.sass)
            assert question.asked(shown)
            assert question.answer(shown) == held
            checked += 1
            small = replace(shown, experiment=tiles.tile(16, 16, kernel="flash_attention"))  # two warps hold the same
            assert not question.asked(small)
    assert checked == 3


@pytest.mark.parametrize(("kernel", "number"), [("softmax_naive", 2), ("softmax_safe", 3), ("flash_attention", 1)])
def test_every_loop_of_a_launch_counts(kernel, number):
    known = service.compiler().listings(tiles.compiled_as(kernel, tiles.opening(kernel)), 90)[0]
    found = loops(known)
    assert len(found) == number
    assert sum(map(len, found)) == len(in_loops(known)) < len(known.sass)
    told = "the loop" if number == 1 else f"{number} loops"
    assert f"of them in {told}" in figures.kinds(known)
    assert f"in {told}, **" in figures.busiest_told(known)


def test_a_launch_without_a_loop_speaks_of_none():
    known = service.compiler().listings(
        tiles.compiled_as("flash_attention_backward", tiles.opening("flash_attention_backward")), 90
    )[0]
    assert loops(known) == []
    assert "loop" not in figures.kinds(known).replace("those in loops", "")
    assert "loop" not in figures.counted_told(known)


def test_spills_outside_the_loop_are_told_to_run_once():
    backward = tiles.compiled_as("flash_attention_backward", tiles.opening("flash_attention_backward"))
    for tile, told in (((128, 64), "at most once, outside the loops"), ((128, 128), "in each iteration of a loop")):
        experiment = backward.with_(block_m=tile[0], block_n=tile[1])
        known = service.compiler().listings(experiment, 90)[1]
        found = spills(known)
        assert 0 < found.stores + found.loads == counts(known.sass)["spill"]
        assert (found.stores_in_loop + found.loads_in_loop == 0) == ("at most once" in told)
        said = texts(page("tile_cost", kernel=backward.kernel, block_m=str(tile[0]), block_n=str(tile[1])))
        assert told in said


@pytest.mark.parametrize(
    ("kernel", "named"),
    [
        ("attention_standard", ["Launch 1 (S)", "Launch 2 (P)", "Launch 3 (O)"]),
        (
            "flash_attention_backward_atomic",
            ["Launch 1 (δ)", "Launch 2 (dq_sum)", "Launch 3 (dK, dV, dq_sum)", "Launch 4 (dQ)"],
        ),
        ("softmax_online_then_topk", ["Launch 1 (y)", "Launch 2 (top, index)"]),
        ("flash_attention", [""]),
    ],
)
def test_a_launch_is_named_by_what_it_writes(kernel, named):
    answer = service.compiler().look(tiles.compiled_as(kernel, tiles.opening(kernel)), 90)
    assert answer
    assert answer.cost
    assert [launches.title(answer.cost, at) for at in range(len(answer.cost.launches))] == named


def test_a_side_that_a_launch_does_not_have_is_named():
    answer = service.compiler().look(
        tiles.compiled_as("flash_attention_backward", tiles.opening("flash_attention_backward")), 90
    )
    assert answer
    assert answer.cost
    told = [launches.told(answer.cost, at) for at in range(3)]
    assert "has no BLOCK_N:" in told[0]
    assert not any("has no" in one for one in told[1:])


def test_no_launch_is_without_a_name():
    for kernel in (name for name, entry in KERNELS.items() if entry.steppable):
        answer = service.compiler().look(tiles.compiled_as(kernel, tiles.opening(kernel)), 90)
        assert answer
        assert answer.cost
        assert all(launches.written(kernel, launch.kernel) for launch in answer.cost.launches), kernel


def test_a_tile_that_is_not_compiled_stands_beside_one_of_the_launch_to_open_on():
    said = texts(page("tile_cost", kernel="flash_attention_backward", gpu="A100", block_m="128", block_n="128"))
    assert "either way" not in said
    backward = tiles.compiled_as("flash_attention_backward", tiles.opening("flash_attention_backward"))
    one = view.costs(backward, GPUS["A100"])[backward].launches[1]
    assert one.kernel == "flash_attention_backward_keys_kernel"
    assert figures.grows({backward: one}, GPUS["A100"]) == ""


def test_bytes_and_times_of_several_launches_are_those_of_the_whole_call():
    chosen = tiles.compiled_as("flash_attention_backward", tiles.opening("flash_attention_backward"))
    known = launch_of_each(chosen)
    found = times.recorded_times(known, registry.Entry("a", SHIPPED, registry.RECORDED))
    assert found
    told = larger_told(known, chosen, found, 3)
    assert "the 3 launches of a call load" in told
    assert "\n- of this launch " in told
    assert "warps" not in told  # one launch's occupancy says nothing of the call's time
