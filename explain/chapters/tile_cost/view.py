"""A tile's compiled cost and instructions, for a GPU you don't have."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import urlencode

import streamlit as st

from explain.chapters.flash_attention import figures, tiles
from explain.chapters.measurements.points import in_words
from explain.chapters.tile_cost import exercises, launches
from explain.chapters.tile_cost.figures import (
    busiest_told,
    counted_told,
    grows,
    inside,
    kinds,
    larger_told,
    matmuls_told,
    sides_told,
    sm,
    tiles_table,
    timed,
)  # fmt: skip
from explain.chapters.tile_cost.listing_view import listing
from explain.chapters.tile_cost.times import Times, recorded_times
from explain.compile.cost import Cost, reserved
from explain.compile.listing import Listing, spills
from explain.compile.service import Answer, compiler
from explain.engine import has_triton
from explain.experiment import Experiment, ParameterError
from explain.figures.labels import listed
from explain.figures.numbers import NONE, capacity, count
from explain.gpus import GPUS, Gpu, known_as
from explain.records import registry
from explain.ui import layout
from explain.ui.charts import sourced
from explain.ui.compiling import offer, once_compiled, source
from explain.ui.controls import labels_of
from explain.ui.exercises import ask
from explain.ui.pictures import drawing, pressable
from explain.ui.repeat import repeated
from explain.ui.titles import kernel_title
from kernels.catalog import KERNELS, TAUGHT
from kernels.parameters import WHOLE_ROW_TILE, Value

OPENING = "flash_attention"
_SHORT = {"block_m": "BLOCK_M", "block_n": "BLOCK_N", "block_d": "BLOCK_D", "head_dim": "d"}
"""Labels that stay on one line above their narrow boxes."""
FOLDED = ("causal", "dtype")
"""The settings under More."""
HEADS = ". Compiled for one head."
LESS_OFTEN = {
    "block_m": "A larger BLOCK_M saves loads: with twice as many queries in a tile, K and V are loaded half as often. "
    "A larger BLOCK_N needs fewer iterations of the loop.",
    "block_n": "A larger BLOCK_N saves loads: with twice as many keys in a tile, Q and O are loaded half as often. "
    "A larger BLOCK_M needs fewer iterations of the loop.",
}
"""What a larger tile saves in attention's forward pass, by the tile of the outer loop."""
BRINGS = {
    "attention": "A larger tile uses each number that it loads more often.",
    "loss": "A larger tile uses each number that it loads more often.",
    "softmax": "A larger tile needs fewer iterations of the loop over a row.",
    "vector": "With a larger tile the whole array needs fewer programs.",
}
"""What it brings in another kernel, by family."""
WHOLE_ROW = "The tile holds the whole row, so a longer row needs a larger tile."
UNTIMED = "None of these tiles was timed on the {}, so what a larger one costs in time is not known here."
PRESS = "**Press a row to choose its tile.**"
ALONE = "Only one of these tiles was timed, so there is no time to compare it with."
READING = """
- A line that calls a function, such as `tl.max`, has the instructions of that function too.
- The compiler moves instructions, so neighbours may come from lines far apart.
- An instruction with the predicate `@!PT` runs in no thread. The compiler leaves some of these in.
"""


def tile_choice() -> Experiment:
    """Controls for a kernel and its compile-time parameters, kept in the address; a wrong value is reported."""
    kernels = [name for name, entry in KERNELS.items() if entry.steppable]
    query = st.query_params
    kernel = query.get("kernel", OPENING)
    refused = "" if kernel in kernels else f"kernel={kernel}: must be one of {', '.join(TAUGHT)}"
    kernel = kernel if kernel in kernels else OPENING
    if pressed := query.pop("tile", ""):  # a row of the table below
        query.update(zip(tiles.sides_of(kernel), pressed.split("x"), strict=False))
    allowed, start = tiles.settings(kernel), tiles.opening(kernel)
    folded = [name for name in allowed if name in FOLDED]
    columns = st.columns([5, *[2] * (len(allowed) - len(folded)), 2], vertical_alignment="bottom")
    with columns[0]:
        _choice("Kernel", kernels, kernel, "kernel", _kernel_title, forget=[*start, "launch"])
    more = columns[-1].popover("More", width="stretch")
    places = dict(zip((name for name in allowed if name not in folded), columns[1:], strict=False))
    chosen = dict(start)
    for name, values in allowed.items():
        texts = {str(value).lower(): value for value in values}
        asked = query.get(name, str(start[name])).lower()
        if asked in texts:
            chosen[name] = texts[asked]
        else:
            refused = f"{name}={asked}: must be one of {', '.join(texts)}"
        with places.get(name, more):
            _choice(_SHORT.get(name) or labels_of(kernel)[name], values, chosen[name], name, _plain)
    try:
        experiment = tiles.compiled_as(kernel, chosen)
    except ParameterError as error:
        refused, experiment = str(error), tiles.compiled_as(kernel, start)
    if refused:
        st.markdown(f":small[:red[**{refused}**]]")
    return experiment


def _choice(
    label: str,
    options: Sequence[Value],
    value: Value,
    name: str,
    words: Callable[[Any], str],
    forget: Sequence[str] = (),
) -> None:
    """A control for the address's value of `name`; a new choice removes the names in `forget` from the address."""
    key = f"tile: {name}"
    st.session_state[key] = value

    def put() -> None:
        for other in forget:
            st.query_params.pop(other, None)
        st.query_params[name] = str(st.session_state[key]).lower()

    st.selectbox(label, options, key=key, on_change=put, format_func=words)


def _kernel_title(name: str) -> str:
    entry = KERNELS[name]
    return f"{kernel_title(name)}{f': {entry.idea}' * bool(entry.edit)}"


def _plain(value: Value) -> str:
    return {True: "yes", False: "no"}.get(value, str(value)) if isinstance(value, bool) else str(value)


def costs(experiment: Experiment, gpu: Gpu) -> dict[Experiment, Cost]:
    """This tile and those that the page compares with it, as far as their cost is known."""
    answers = {one: compiler().look(one, gpu.compute_capability) for one in tiles.compared(experiment)}
    return {one: answer.cost for one, answer in answers.items() if answer and answer.cost}


def introduce(experiment: Experiment, gpu: Gpu, known: Mapping[Experiment, Cost]) -> None:
    """What a larger tile of this kernel brings and costs, and which of those with a known cost to try first."""
    larger = [sides_told(one) for one in known if one != experiment and inside(experiment, one)]
    sides = " × ".join(_SHORT[name] for name in tiles.sides_of(experiment.kernel))
    spilled = any(launch.spill_store_bytes for cost in known.values() for launch in cost.launches)
    watched = "programs, registers and spills" if spilled else "programs and registers"
    brings = _saved(experiment) or BRINGS.get(experiment.entry.family, "")
    if WHOLE_ROW_TILE in experiment.entry.parameters:
        brings = WHOLE_ROW
    shared = {tuple(launch.shared_bytes for launch in cost.launches) for cost in known.values()}
    needs = "registers" if len(known) > 1 and len(shared) == 1 else "registers and shared memory"
    layout.introduce(
        f"{brings} But a larger tile needs more {needs}, so fewer programs may fit on an SM at once. If a thread runs "
        "out of registers, some of its values **spill** to local memory. Only a measurement tells which tile is "
        f"faster{_fastest(known, gpu)}."
    )
    if larger:
        layout.prose(f"**Choose {sides} = {', then '.join(larger)}, and watch {watched}.**")
    elif smaller := [sides_told(one) for one in known if one != experiment and inside(one, experiment)]:
        layout.prose(
            f"**This is the largest tile compiled beforehand. Choose {sides} = {smaller[-1]} to compare {watched}.**"
        )


def _fastest(known: Mapping[Experiment, Cost], gpu: Gpu) -> str:
    """The fastest tile where several were timed, in words that go on; "" elsewhere."""
    times = _times(known, gpu)
    if times is None or len(times.runs) < 2:
        return ""
    best = min((one for one in known if one.key in times.runs), key=lambda one: times.runs[one.key][1])
    return f": **here it is {sides_told(best)}**, of {len(times.runs)} timed"


def _times(known: Mapping[Experiment, Cost], gpu: Gpu) -> Times | None:
    """The recorded times of these tiles on the GPU; None if none was timed."""
    records = [one for one in registry.entries()[0] if known_as(one.record.gpu) == gpu.name] if known else []
    return next(filter(None, (recorded_times(tuple(known), record) for record in records)), None)


def compiled_with(experiment: Experiment, cost: Cost | None) -> None:
    """What the settings under More are, and the warps and stages that the kernel's call sets, in one line."""
    words = ", ".join(in_words(name, value) for name, value in experiment.values.items() if name in FOLDED)
    if cost is not None:
        at = _launch(cost)
        launch, where = cost.launches[at], f"launch {at + 1}" if len(cost.launches) > 1 else "the kernel's launch"
        words += f" · fixed in {where}: num_warps = {launch.num_warps}, num_stages = {launch.num_stages}"
    st.caption(words)


def _saved(experiment: Experiment) -> str:
    """What a larger tile of the outer loop saves, in a sentence; "" where it saves no loads."""
    return LESS_OFTEN[experiment.entry.outer] if experiment.entry.base in tiles.FORWARD else ""


def tile_report(experiment: Experiment, gpu: Gpu, known: Mapping[Experiment, Cost]) -> None:
    """A tile's compiled launches, occupancy and instructions, or the progress of the compilation; and the tiles whose
    cost is `known`.
    """
    once_compiled(experiment, gpu, lambda answer: _tile_report(experiment, gpu, known, answer))
    if experiment not in known:
        tiles_beside(experiment, gpu, known, next(map(_launch, known.values()), 0))


def _tile_report(
    experiment: Experiment, gpu: Gpu, known: Mapping[Experiment, Cost], answer: Answer | None
) -> None:  # fmt: skip
    if answer is None or answer.cost is None:
        layout.header(f"What the programs use of an SM of the {gpu.name}")
        layout.prose(_not_compiled(experiment, gpu, working=bool(answer and answer.working)))
        return
    words, picture = layout.sides(f"What the programs use of an SM of the {gpu.name}")
    with words:
        at = _launch_choice(answer.cost, gpu)
        launch, found = answer.cost.launches[at], _listing(experiment, gpu, at)
        spilled = spills(found) if found and found.sass else None
        own = replace(answer.cost, launches=(launch,))
        layout.prose(
            f"{figures.verdict(own, gpu)}\n\n{figures.registers_told(launch, gpu, spilled)}\n\n"
            "Shared memory belongs to a program as a whole. The resource that first lacks room for one more program "
            "sets how many fit. **Occupancy** is the share of an SM's warp slots that these programs fill. While one "
            "warp waits for memory, another can run; with fewer programs there are fewer to switch to."
        )
    with picture:
        named = launches.title(answer.cost, at)
        drawing(*(sm(launch, gpu, named=named, narrow=narrow) for narrow in (False, True)))
        _use_captions(gpu, source(answer) + HEADS * (experiment.values.get("heads") == 1))
    if experiment in known:
        tiles_beside(experiment, gpu, known, at)
    instructions(experiment, gpu, found, at)


def _launch_choice(cost: Cost, gpu: Gpu) -> int:
    """The launches of a kernel that has several, in a table: a press chooses one, kept in the address. Its index."""
    at = _launch(cost)
    if len(cost.launches) == 1:
        return at
    if (asked := st.query_params.get("launch", str(at + 1))) != str(at + 1):
        st.markdown(f":small[:red[**launch={asked}: must be one of {', '.join(_numbers(cost))}**]]")
    pressable(launches.table(cost, at, gpu), "launch")
    layout.prose(launches.told(cost, at))
    return at


def _launch(cost: Cost) -> int:
    """The index of the launch that the address names, or of the one to open on."""
    numbers, asked = _numbers(cost), st.query_params.get("launch")
    return numbers.index(asked) if asked in numbers else launches.opening(cost)


def _numbers(cost: Cost) -> list[str]:
    """What the address may say of the launch: "1", "2" …"""
    return [str(number) for number in range(1, len(cost.launches) + 1)]


def _listing(experiment: Experiment, gpu: Gpu, at: int) -> Listing | None:
    """The instructions of launch `at`, where they are kept."""
    found = compiler().listings(experiment, gpu.compute_capability)
    return found[at] if at < len(found) else None


@repeated
def _use_captions(gpu: Gpu, whence: str) -> None:
    to_scale = "The two large bars are to one scale, in bytes."
    if kept := reserved(gpu):
        to_scale += f" Shared memory includes the {capacity(kept)} that CUDA keeps for each program."
    st.caption(to_scale)
    st.caption(whence)


def _not_compiled(experiment: Experiment, gpu: Gpu, *, working: bool) -> str:
    """What a reader can do about a tile without compiled numbers, as Markdown."""
    if working:
        return "The compiler works on this tile. Its numbers appear here when it is done."
    start = _start(experiment)
    back = f" Or [go to a tile of this kernel that is compiled]({_link(start, gpu)})."
    back *= bool(compiler().look(start, gpu.compute_capability))
    return (
        "This tile is not compiled yet. **Press the button below**: it takes seconds to a minute and needs no GPU. "
        f"Then its programs per SM, its registers, its spills and its instructions appear here.{back}"
        if has_triton()
        else f"This tile was not compiled beforehand, and Triton, which would compile it, runs on Linux only.{back}"
    )


def _without_instructions(experiment: Experiment, gpu: Gpu) -> str:
    """What a reader can do about a tile with a compiled cost and without instructions, as Markdown."""
    start = _start(experiment)
    there = f"[a tile of this kernel that has them]({_link(start, gpu)})"
    there *= bool(compiler().listings(start, gpu.compute_capability))
    none = "Only the registers and memory of this tile were kept, not its instructions."
    if has_triton():
        press = "**Press the button below** to compile it again: seconds to a minute, without a GPU."
        return f"{none} {press}{there and f' Or go to {there}.'}"
    return f"{none} Triton, which would compile it, runs on Linux only.{there and f' Go to {there}.'}"


def _start(experiment: Experiment) -> Experiment:
    """The tile on which the page opens for this kernel."""
    return tiles.compiled_as(experiment.kernel, tiles.opening(experiment.kernel))


def _link(tile: Experiment, gpu: Gpu) -> str:
    """The page's address for a kernel's first tile."""
    return f"./tile_cost?{urlencode({'kernel': tile.kernel, 'gpu': gpu.name})}"


def instructions(experiment: Experiment, gpu: Gpu, known: Listing | None, at: int) -> None:
    """The instructions of launch `at` by kind, and on demand each beside the line that it comes from."""
    words, picture = layout.sides("Its instructions, by kind")
    with words:
        layout.prose(
            "The compiler turns the kernel into instructions. **PTX** is what Triton writes. ptxas compiles it to "
            "**SASS**, and the GPU runs that."
            + (f" {matmuls_told(known, experiment, gpu)}\n\n{busiest_told(known)}" if known and known.sass else "")
        )
    if known is None:
        with picture:
            layout.prose(_without_instructions(experiment, gpu))
            if has_triton():
                offer(experiment, gpu)
        return
    with picture:
        drawing(kinds(known), kinds(known, narrow=True))
        st.caption(counted_told(known))
        if known.error:
            st.caption(known.error)
    with words:
        every = st.toggle("Every instruction, beside its line", key="listing", bind="query-params")
    if every:
        st.markdown("Press a line, or a kind of instruction, to mark it.")
        listing(known, key=f"listing {experiment.key} {gpu.target} {at}")
        with st.expander("How to read the instructions"):
            layout.prose(READING)


def tiles_beside(experiment: Experiment, gpu: Gpu, costs: Mapping[Experiment, Cost], at: int) -> None:
    """What other tiles of the kernel's launch `at` cost on the same GPU, and their recorded times: a press chooses one.
    Nothing where no other tile is compiled.
    """
    known = {one: cost.launches[at] for one, cost in costs.items()}
    listings = {one: found for one in known if (found := _listing(one, gpu, at))}
    several = max((len(cost.launches) for cost in costs.values()), default=1)
    heading = f"Launch {at + 1} with other tiles" if several > 1 else "The same kernel with other tiles"
    if not {*known} - {experiment}:
        if len(tiles.compared(experiment)) > 1:
            layout.header(heading)
            layout.prose(f"No other tile with these settings was compiled for the {gpu.name} beforehand.")
        return
    times = _times(costs, gpu)
    words, table = layout.sides(heading)
    with words:
        told = larger_told(timed(known, gpu, times, listings), experiment, several) if times else ""
        if not told:
            told = f"{ALONE if times else UNTIMED.format(gpu.name)} {_timed_elsewhere(experiment, gpu)}"
        layout.prose(f"{told}\n\n{PRESS}")
        if _saved(experiment):
            link = "The bytes that a tile moves: FlashAttention →"
            layout.chapter_link("flash_attention", link, {"view": "Tile sizes"})
    with table:
        if times:
            together = f", its {several} launches together" if several > 1 else ""
            st.markdown(f"**Times of one call**{together}: {times.sizes}")
        pressable(tiles_table(known, experiment, gpu, times, listings), "tile")
        layout.prose(grows(known, gpu))
        if times:
            untimed = f"{NONE}: not timed. " * any(one.key not in times.runs for one in known)
            untimed += "Other masks, dtypes, d and GPUs can be timed at other sizes: compare within this table only. "
            warps = {launch.num_warps for launch in known.values()}
            if len(warps) == 1:
                untimed += f"All have {warps.pop()} warps per program; other numbers of warps were not timed. "
            st.caption(untimed + _compiled_as(costs, times))
            sourced(times.source)


def _timed_elsewhere(experiment: Experiment, gpu: Gpu) -> str:
    """A link to tiles of the same kernel that were timed; "" where these are the ones, or none were."""
    start = _start(experiment)
    for record in registry.entries()[0]:
        known = GPUS.get(known_as(record.record.gpu) or "")
        if known and (known, start) != (gpu, experiment) and recorded_times(tiles.compared(start), record):
            return f"[Tiles that were timed, on the {known.name} →]({_link(start, known)})"
    return ""


def _compiled_as(costs: Mapping[Experiment, Cost], times: Times) -> str:
    """Names the compiler and the number of heads: those of registers and spills, and those of the times."""
    tritons = listed(sorted({cost.triton for cost in costs.values()}))
    heads = [next(iter(runs)).values.get("heads") for runs in (costs, [run for run, _ in times.runs.values()])]
    compiled, timed = (f", {count(n)} head{'s' * (n != 1)}" if n else "" for n in heads)
    same = (tritons, compiled) == (times.triton, timed)
    return (
        f"Registers, spills and shared memory: triton {tritons}{compiled}. Times: triton {times.triton}{timed}"
        f"{'.' if same else '; its registers and spills can differ.'}"
    )


def closing(experiment: Experiment, gpu: Gpu, cost: Cost | None) -> None:
    """Things to try with a tile that is compiled; sources."""
    if cost is not None:
        at = _launch(cost)
        number = at + 1 if len(cost.launches) > 1 else None
        shown = exercises.Shown(experiment, gpu, cost.launches[at], _listing(experiment, gpu, at), number)
        ask("tile_cost", exercises.QUESTIONS, shown, f"{experiment.key} {gpu.name} {at}")
    layout.closing("tile_cost")
