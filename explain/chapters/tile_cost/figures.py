"""An SM with a launch's programs in it, its instructions by kind, and the line of a kernel to look at first."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from explain.chapters.flash_attention.tiles import FORWARD, sides_of
from explain.chapters.measurements.points import inputs_once
from explain.chapters.tile_cost.times import Times
from explain.compile.cost import REGISTER_BYTES, WARP, LaunchCost, Occupancy, allocated, occupancy
from explain.compile.listing import FILLS, LABEL, Listing, counts, in_loops, loops
from explain.counters.model import Counts
from explain.experiment import Experiment
from explain.figures.labels import widest
from explain.figures.numbers import NONE, capacity, count, duration, moved, number, percent, ratio, si
from explain.figures.palette import css, css_ink
from explain.figures.svg import line, picture, rect, text
from explain.figures.tables import Column, buttons
from explain.gpus import Gpu
from explain.kept import kept

STORES = ("registers", "shared memory")
SLOTS = ("warps", "programs")
TALL, GAP, EDGE = 132.0, 20.0, 16.0
ALIKE = 0.05
"""By which share the times of two tiles differ at most where none is called faster."""
FEW = 0.1
"""Which share of the saved loads HBM is spared at most where it hardly sees them."""
LONGEST_BAR = 5.0
"""The bar of the longest time, in rem."""
NOT_PAID = "**Here the larger tile does not pay.**"
OVER = 1.5
"""The most that is drawn of a program that is too large for a store, as a multiple of the store."""


@kept
def sm(launch: LaunchCost, gpu: Gpu, *, named: str = "", narrow: bool = False) -> str:
    """An SM as a box, and its programs in it, in two tints: the parts that each has of the register file, of the shared
    memory, of the places for warps and for programs. The stores are to scale; the one that is used up is the limit.
    Registers that spill have the alarm's tint.

    Where no program fits, one is drawn in outlines; what is too small for it is in the alarm's colour, and the program
    sticks out of it, past a dashed line. `named` is the launch in words. `narrow` is for a phone: the stores stand one
    below the other.
    """
    rows = [[name] for name in (*STORES, *SLOTS)] if narrow else [STORES, SLOTS]
    across, tall = (340.0, 72.0) if narrow else (760.0, TALL)
    fits = occupancy(launch, gpu)
    programs = max(fits.programs, 1)
    own = allocated(launch, gpu)
    spilling = {"registers"} if launch.spill_store_bytes else set()
    whole = {
        "registers": gpu.register_bytes_sm // REGISTER_BYTES, "shared memory": gpu.shared_bytes_sm,
        "warps": gpu.warps_sm, "programs": gpu.programs_sm,
    }  # fmt: skip
    room = {"registers": gpu.register_bytes_sm, "shared memory": gpu.shared_bytes_sm, **{n: whole[n] for n in SLOTS}}
    over = {name: min(max(own[name] / whole[name], 1.0), OVER) for name in room}
    unit = {"registers": ", 4 B each", "shared memory": " B"}
    where = named if named and narrow else f"{f'{named}, on one' if named else 'One'} SM of the {gpu.name}"
    title = f"{where}: {_holds(fits.programs)}"
    parts = [text(EDGE, 28, title, size=16, bold=True)]
    if not fits.programs:
        parts.append(text(EDGE, 48, "Drawn: what one program would take.", faint=True))

    def heading(name: str, x: float, y: float) -> list[str]:
        used = programs * own[name]
        said = f"{programs} × {count(own[name])} = {count(used)} of {count(whole[name])}{unit.get(name, '')}"
        limits = [one for one, allowed in fits.by_limit.items() if allowed == fits.programs]
        full = name in limits
        share = (
            _share(used / whole[name])
            + " (occupancy)" * (name == "warps" and bool(fits.programs))
            + full * (": the limit" if len(limits) == 1 else ": a limit")
        )
        share += "; some values spill" * (name in spilling)
        wide = max(widest([f"{name} {share}"], bold=True), widest([said], 13))
        x = min(x, across - EDGE - wide)
        return [text(x, y - 24, f"{name} {share}", bold=full), text(x, y - 7, said, size=13, faint=True)]

    def store(name: str, x: float, y: float, wide: float) -> list[str]:
        drawn = [rect(x, y, wide, tall, css("slate"), opacity=0.1, stroke=css("slate"))]
        each = min(wide * own[name] / whole[name], wide * over[name])
        numbered = fits.programs and each > widest(map(str, range(programs))) + 8
        for program in range(programs if each else 0):
            at = x + program * each
            drawn.append(_part(program, fits, name, (at, y, each - 1, tall), name in spilling))
            if numbered:
                drawn.append(text(at + each / 2, y + tall / 2 + 5, str(program), anchor="middle", bold=True))
        if over[name] > 1:
            said = f"{count(whole[name])}{unit.get(name, '')}: all there is"
            drawn += [
                line(x + wide, y, x + wide, y + tall + 4, opacity=0.9, thick=1.5, dash="5 4"),
                text(max(x, x + wide - widest([said], 13)), y + tall + 17, said, size=13),
            ]
        if each * programs < wide:
            full, room_left = fits.by_limit[name] == programs, wide - each * programs - 16
            more = fits.by_limit[name] - programs if fits.programs and fits.by_limit[name] <= gpu.programs_sm else 0
            spare = [f"free: room for {more} more"], ["free: room", f"for {more} more"], ["free"]
            small = ["too small for one more"], ["too small", "for one more"], ["too small"]
            ways = small if full else spare if more else spare[-1:]
            lines = next((lines for lines in ways if widest(lines) < room_left), [])
            if not lines and widest(ways[-1]) < tall and room_left > 4:  # too narrow for words: they are turned
                middle = x + (each * programs + wide) / 2
                drawn.append(text(middle + 5, y + tall / 2, *ways[-1], anchor="middle", faint=True, turned=-90))
            drawn += [
                text((x + each * programs + x + wide) / 2, y + tall / 2 + 5 + 20 * (i - (len(lines) - 1) / 2), line,
                     anchor="middle", faint=True)
                for i, line in enumerate(lines)
            ]  # fmt: skip
        return drawn

    def slots(name: str, x: float, y: float, wide: float) -> list[str]:
        side = wide / whole[name]
        places = [(x + slot * side, y, side - 1.5, 18.0) for slot in range(whole[name])]
        return [
            _part(slot // own[name], fits, name, place) if slot < own[name] * programs
            else rect(*place, css("slate"), opacity=0.12)
            for slot, place in enumerate(places)
        ]  # fmt: skip

    y = 88.0 if fits.programs else 112.0
    for row in rows:
        x, stores = EDGE, row[0] in STORES
        needed = {name: room[name] * (over[name] if stores else 1) for name in room}
        scale = max(needed[name] for name in STORES) if narrow and stores else sum(needed[name] for name in row)
        for name in row:
            wide = (across - 2 * EDGE - GAP * (len(row) - 1)) * room[name] / scale
            parts += heading(name, x, y) + (store if stores else slots)(name, x, y, wide)
            x += wide * needed[name] / room[name] + GAP
        y += (tall if stores else 18) + 58 + 10 * (stores and max(over[name] for name in row) > 1)
    high = y - 58 + EDGE
    frame = rect(1, 1, across - 2, high - 2, "none", stroke=css("slate"))
    label = f"{fits.programs} programs of {launch.kernel} per SM of the {gpu.name}, limited by {fits.limit}"
    return picture(across, high, label, [frame, *parts], f"{1.6 * across:.0f}px")


def _holds(programs: int) -> str:
    return f"{programs} program{'s' * (programs != 1)} at a time" if programs else "no program fits"


def _part(
    program: int, fits: Occupancy, name: str, place: tuple[float, float, float, float], spills: bool = False
) -> str:  # fmt: skip
    """A program's part of a store or of its slots: two tints in turn, the alarm's where it spills. Of one that does not
    fit it is an outline, or, of what is too small for it, in the alarm's full colour.
    """
    if not fits.by_limit[name]:
        return rect(*place, css("alarm"))
    if not fits.programs:
        return rect(*place, "none", stroke=css("slate"), dashed=name in STORES)
    return rect(*place, css("alarm" if spills else "slate"), opacity=(0.6, 0.4)[program % 2] / (1 + spills))


def _share(share: float) -> str:
    """A share in percent, with one decimal where it is not 0: "12.5%", "100%"."""
    return percent(share, 0 if round(1000 * share) % 10 == 0 else 1)


@kept
def tiles_table(
    known: Mapping[Experiment, LaunchCost], chosen: Experiment, gpu: Gpu, times: Times | None,
    listings: Mapping[Experiment, Listing],
) -> str:  # fmt: skip
    """What each tile costs on the GPU, as an HTML table of buttons; a press chooses "64x32": the tile's sides.

    Without recorded times there is no column for them, nor one for the loop's instructions without two listings. The
    shortest time is bold.
    """
    looped = {one: each for one, found in listings.items() if (each := per_score(one, known[one], found))}
    heads = [
        *(["time of <br>one call"] if times else []), "programs <br>per SM", "registers <br>per thread",
        "spilled per thread, <br>stored + loaded", "shared memory <br>per program",
        *(["loop instructions <br>per score"] if len(looped) > 1 else []),
    ]  # fmt: skip
    every = [seconds for _, seconds in times.runs.values()] if times else []
    least, longest = min(every, default=None), max(every, default=1.0)
    keys = {one: "x".join(str(one.values[name]) for name in sides_of(one.kernel)) for one in known}
    rows = []
    for one, launch in known.items():
        sides, programs = sides_told(one), occupancy(launch, gpu).programs
        cells = [
            str(programs) if programs else _alarming("too large"), str(launch.registers),
            _alarming(f"{count(launch.spill_store_bytes)} + {count(launch.spill_load_bytes)} B")
            if launch.spill_store_bytes else launch.spills,
            capacity(allocated(launch, gpu)["shared memory"]),
        ]  # fmt: skip
        if len(looped) > 1:
            cells.append(number(looped[one], 3, zeros=True) if one in looped else NONE)
        if times:
            seconds = times.runs[one.key][1] if one.key in times.runs else None
            told = NONE if seconds is None else duration(seconds)
            bar = _bar(seconds / longest) if seconds and len(times.runs) > 1 else ""
            cells.insert(0, bar + (f"<b>{told}</b>" if seconds == least and len(times.runs) > 1 else told))
        rows.append((keys[one], sides, f"Choose {sides}", cells))
    what = " × ".join(name.upper() for name in sides_of(chosen.kernel))
    return buttons([what, *map(Column, heads)], rows, keys.get(chosen, ""))


def _bar(share: float) -> str:
    """A bar before a number, as HTML."""
    look = "display: inline-block; height: .7em; margin-right: .6rem; background: currentColor; opacity: .3"
    return f'<span style="width: {LONGEST_BAR * share:.2f}rem; {look}"></span>'


def sides_told(experiment: Experiment) -> str:
    """A tile's sides in words: "64 × 32"; one side alone where the kernel has one."""
    return " × ".join(count(int(experiment.values[name])) for name in sides_of(experiment.kernel))


@dataclass(frozen=True)
class Timed:
    """A tile that was timed: its launch as compiled, its `run`, the counts of that, `seconds` of one call, programs and
    warps that fit on an SM. For how many warps a matmul instruction works `at_once`, and the loop's instructions for
    `each` score, if known. `rate`: how fast its matmuls are, in words.
    """

    tile: Experiment
    launch: LaunchCost
    run: Experiment
    counts: Counts | None
    seconds: float
    programs: int
    at_once: int | None
    each: float | None
    rate: str = ""

    @property
    def loads(self) -> int:
        """The bytes of all loads, by formula."""
        return self.run.traffic.read_bytes

    @property
    def read(self) -> int | None:
        """The bytes that HBM delivered, if counted."""
        return self.counts.dram_read_bytes if self.counts else None

    @property
    def spilled(self) -> str:
        """What its spilled registers move, in words."""
        if self.counts and self.counts.spill_written_bytes and self.counts.spill_read_bytes:
            stored, loaded = moved(self.counts.spill_written_bytes), moved(self.counts.spill_read_bytes)
            return f"the timed run stores {stored} and loads {loaded} again (counted)"
        return f"{self.launch.spills} per thread"

    @property
    def warps(self) -> int:
        return self.programs * self.launch.num_warps

    @property
    def sides(self) -> str:
        return sides_told(self.tile)


@kept
def timed(
    known: Mapping[Experiment, LaunchCost], gpu: Gpu, times: Times, listings: Mapping[Experiment, Listing]
) -> tuple[Timed, ...]:
    """Those of the compiled tiles that were timed, with what their listings say where they are known."""

    def of(tile: Experiment) -> Timed:
        (run, seconds), found = times.runs[tile.key], listings.get(tile)
        at_once = works_for(found) if found and found.sass else None
        return Timed(
            tile, known[tile], run, times.counts.get(tile.key), seconds, occupancy(known[tile], gpu).programs, at_once,
            per_score(tile, known[tile], found) if found else None, _rate(run, seconds, gpu),
        )  # fmt: skip

    return tuple(of(tile) for tile in known if tile.key in times.runs)


@kept
def per_score(tile: Experiment, launch: LaunchCost, listing: Listing) -> float | None:
    """How many instructions of the loop all threads run for each score of a tile of S; None for a kernel without one
    such loop.
    """
    bodies = loops(listing)
    if tile.entry.base not in FORWARD or len(bodies) != 1:
        return None
    scores = int(tile.values["block_m"]) * int(tile.values["block_n"])
    return len(bodies[0]) * WARP * launch.num_warps / scores


def _rate(run: Experiment, seconds: float, gpu: Gpu) -> str:
    """How fast a call's matmuls are, in words, beside the tensor cores' peak where they are of 16 bits; "" without."""
    if not (flops := run.traffic.flops_of("matmul")):
        return ""
    share = f", {percent(flops / seconds / gpu.tensor_flops_per_second)} of the {gpu.name}'s peak (datasheet)"
    share *= run.values["dtype"] in ("fp16", "bf16")
    faster = ". [Speed](./speed) has faster kernels" * (run.entry.family == "attention")
    return f", {si(flops / seconds, 'FLOP/s')}{share}{faster}"


@kept
def larger_told(tiles: Sequence[Timed], chosen: Experiment, launches: int = 1) -> str:
    """What a larger tile brings and costs, in sentences with the formula's loads, the programs that fit and the times:
    of the chosen tile and the next larger one, or, of the largest, the next smaller one. Loads and times are those of a
    whole call, of all its `launches`. Markdown; "" without two timed tiles.
    """
    pairs = [(a, b) for a in tiles for b in tiles if a != b and inside(a.tile, b.tile)]
    below, above = ([pair for pair in pairs if pair[at].tile == chosen] for at in (1, 0))
    near = above or below[::-1] or pairs
    if not near:
        return ""
    small, large = near[0]
    shown = chosen in (small.tile, large.tile)
    untimed = "" if shown else f"{sides_told(chosen)} was not timed. Two tiles that were, for comparison. "
    fastest = min(tiles, key=lambda one: one.seconds)
    slower = large.seconds / fastest.seconds
    larger = ""
    if below and not above and slower > 1 + ALIKE and large.launch.num_warps == fastest.launch.num_warps:
        larger = f"\n\n**So the largest tile is not the fastest**: it takes {ratio(slower)} as long as {fastest.sides}."
    told = moved(large.loads)
    load = f"the {launches} launches of a call load" if launches > 1 else "all programs together load"
    asked = f"the same {told}" if large.loads == small.loads else f"{told}, not {moved(small.loads)}"
    of = "of this launch " * (launches > 1)
    fit = f"{of}{large.programs} {'program fits' if large.programs == 1 else 'programs fit'} on an SM"
    beside = ", as before" if large.programs == small.programs else f", not {small.programs}"
    more = large.launch.spill_store_bytes > small.launch.spill_store_bytes
    spill = [f"its registers spill: {large.spilled}"] * more
    before, after = duration(small.seconds), duration(large.seconds)
    takes = f"**{after}** with either" if after == before else f"**{after}**, not {before}"
    best = f"**The fastest tile timed is {fastest.sides}**: {duration(fastest.seconds)}{fastest.rate}.\n\n"
    changes = [f"{load} {asked} (formula)", f"{fit}{beside} (as compiled here)", *spill, f"one call takes {takes}"]
    return (
        f"{best}{untimed}**With a tile of {large.sides} instead of {small.sides}**:\n\n"
        + "".join(f"- {change}\n" for change in changes)
        + f"\n{_worth(small, large, launches)}{larger}"
    )


def _worth(small: Timed, large: Timed, launches: int) -> str:
    """Whether the larger tile is faster, and what is known of the cause."""
    if abs(large.seconds / small.seconds - 1) < ALIKE:
        spilled = large.launch.spill_store_bytes > small.launch.spill_store_bytes
        return f"The times are within {percent(ALIKE)}{'; what the spills cost was not measured apart' * spilled}."
    if large.seconds < small.seconds:
        told = ["Here the larger tile is worth its cost."]
        if small.read and large.read and large.read < (1 - FEW) * small.read:
            told.append(f"{_delivered(small, large)}.")
        elif small.read and large.read and large.loads < (1 - FEW) * small.loads:
            told.append(f"{_delivered(small, large)}: the caches serve the other loads.")
        reasons = ["fewer loads"] * (large.loads < (1 - FEW) * small.loads)
        if launches == 1 and small.each and large.each and large.each < (1 - FEW) * small.each:
            own, other = (number(one.each or 0, 3, zeros=True) for one in (large, small))
            reasons.append(f"fewer instructions in the loop for each score ({own}, not {other})")
        if launches == 1 and 0 < (small.at_once or 0) < (large.at_once or 0):
            reasons.append(
                f"with {large.sides} one matmul instruction works for four warps together, with {small.sides} for one"
            )
        if len(reasons) > 1:
            told.append(f"Possible reasons, not measured one by one: {'; '.join(reasons)}.")
        return " ".join(told)
    if launches > 1:
        return f"{NOT_PAID} Which launch takes longer was not measured."
    told = [NOT_PAID]
    saved = small.loads - large.loads
    if saved > 0 and small.read and large.read and small.read - large.read < FEW * saved:
        told.append(
            f"{_delivered(small, large)}: the loads that it saves would have come from the caches, not from HBM."
        )
    if large.warps < small.warps:
        told.append(f"One possible reason: an SM holds {large.warps} warps, not {small.warps}, as compiled here.")
        told.append("Fewer are left to hide waiting. This was not measured.")
    else:
        told.append("Why it takes longer was not measured.")
    return " ".join(told)


def _delivered(small: Timed, large: Timed) -> str:
    """What HBM delivers to two tiles with known counts, in words."""
    own, other = moved(large.read or 0), moved(small.read or 0)
    once = ", each input once" * (own == moved(inputs_once(large.run)))
    either = f" with either tile{once}" if own == other else f", not {other}"
    return f"HBM delivers {own}{either} (counted, L2 cold)"


def grows(known: Mapping[Experiment, LaunchCost], gpu: Gpu) -> str:
    """What the tiles take of an SM, from the smallest to the largest, in sentences of Markdown; "" for one tile."""
    tiles, costs = list(known), list(known.values())
    if len(tiles) == 1:
        return ""
    needed = allocated(costs[-1], gpu)["shared memory"]
    if occupancy(costs[0], gpu).programs and needed > gpu.shared_bytes_sm:
        return (
            f"**{sides_told(tiles[-1])} is too large**: a program needs {capacity(needed)} of shared memory. An SM of "
            f"the {gpu.name} has {capacity(gpu.shared_bytes_sm)}."
        )
    fit = _change([occupancy(cost, gpu).programs for cost in costs], "programs fit on an SM")
    need = _change([cost.registers for cost in costs], "registers per thread")
    if costs[-1].registers < costs[0].registers and costs[-1].spill_store_bytes:
        need += ": the larger tile needs more, but ptxas gives it fewer"
    spilled = [sides_told(tile) for tile, cost in known.items() if cost.spill_store_bytes]
    spill = f" From {spilled[0]} on, **registers spill** to local memory." if len(spilled) > 1 else (
        f" With {spilled[0]}, **registers spill** to local memory." if spilled else ""
    )  # fmt: skip
    return f"From {sides_told(tiles[0])} to {sides_told(tiles[-1])}: {fit}, {need}.{spill}"


def _change(numbers: Sequence[int], what: str) -> str:
    """ "**4 → 2** programs fit on an SM"; one number if the first and the last are the same."""
    first, last = numbers[0], numbers[-1]
    return f"**{first} → {last}** {what}" if first != last else f"{first} {what} either way"


def inside(small: Experiment, large: Experiment) -> bool:
    """Whether no side of the tile `small` is longer than that of `large`."""
    return all(small.values[name] <= large.values[name] for name in sides_of(small.kernel))


def _alarming(words: str) -> str:
    return f'<b style="color: {css_ink("alarm")}">{words}</b>'


KIND, ROW = 156.0, 26.0
"""The width of the kinds' names, and the height of a kind with one row of squares."""
SIDE, PITCH = 5.0, 6.0
"""A square's side, and the way to the next one."""
A_ROW, NARROW = 78, 56
"""Squares in a row: on a wide screen, and on a phone, where each kind's words stand above them."""
MOST = 1500
"""The most squares of one kind. Of more instructions a square is several."""


@kept
def kinds(listing: Listing, *, narrow: bool = False) -> str:
    """The launch's SASS by kind, a square for each instruction, in the listing's colours: full those in a loop, pale
    those that run once. PTX where there is no SASS. Every launch has its kinds in the same order, so that two of them
    can be compared.

    `narrow` is for a phone: each kind's words are above its squares.
    """
    name, code = next(iter(listing.codes().items()))
    number_of, repeated = counts(code), counts(in_loops(listing))
    every, each = sum(number_of.values()), math.ceil(max(number_of.values()) / MOST)
    left, in_row = (0.0, NARROW) if narrow else (KIND, A_ROW)
    inside = f", {count(sum(repeated.values()))} of them in {_loops_told(listing)}" if repeated else ""
    titles = [f"{count(every)} {name} instructions{inside}", *[f"One square: {each} instructions"] * (each > 1)]
    titles = titles if narrow else [". ".join(titles)]
    parts = [text(0, 18 + 20 * at, title, bold=True) for at, title in enumerate(titles)]
    y = ROW + 6 + 20 * (len(titles) - 1)
    for kind, every_one in number_of.items():
        own = repeated.get(kind, 0)
        said = f"{count(own)} of {count(every_one)}" if repeated else count(every_one)
        if narrow:
            parts.append(text(0, y + 12, f"{kind}: {said}"))
            y += 20
        squares, full = math.ceil(every_one / each), math.ceil((own if repeated else every_one) / each)
        rows = math.ceil(squares / in_row)
        if not narrow:
            parts.append(text(left - 12, y + 13, kind, anchor="end"))
            parts.append(text(left + PITCH * min(squares, in_row) + 8, y + 13, said))
        top = y + (6 if rows == 1 and not narrow else 2)
        parts += [
            *_squares(left, top, (0, full), in_row, FILLS[kind]),
            *_squares(left, top, (full, squares), in_row, FILLS[kind], 0.45),
        ]
        y += max(ROW - 4 * narrow - 4, PITCH * rows + 10)
    label = f"{name} instructions of {listing.kernel} by kind, and those in loops"
    across = PITCH * NARROW if narrow else KIND + PITCH * A_ROW + 100
    return picture(across, y, label, parts, "60rem")


def _squares(
    x: float, y: float, between: tuple[int, int], in_row: int, fill: str, opacity: float = 1.0
) -> Iterator[str]:  # fmt: skip
    """The squares `between` two numbers, in rows of `in_row` squares; each row is one dashed line."""
    first, last = between
    while first < last:
        row, at = divmod(first, in_row)
        until = min(last, (row + 1) * in_row)
        middle, begin = y + PITCH * row + SIDE / 2, x + PITCH * at
        end = begin + PITCH * (until - first) - (PITCH - SIDE)
        yield line(
            begin, middle, end, middle, stroke=fill, opacity=opacity, thick=SIDE, dash=f"{SIDE:g} {PITCH - SIDE:g}"
        )
        first = until


@kept
def matmuls_told(listing: Listing, experiment: Experiment, gpu: Gpu) -> str:
    """How the launch multiplies: which matrices one matmul instruction multiplies and for how many warps, or why there
    is none. Markdown.
    """
    multiplies = [one.text for one in listing.sass if one.kind == "matmul"]
    if not multiplies:
        if "tl.dot(" not in listing.source:
            return "None of them is a matmul."
        none = "**None of them uses the tensor cores**: `tl.dot` becomes float arithmetic."
        return f"{none} {_without_cores(experiment, gpu)}".rstrip()
    sizes = sorted({found for one in multiplies if (found := _multiplied(one))}, reverse=True)
    matrices = ", or of ".join(f"{m} × {k} and {k} × {n}" for m, n, k in sizes)
    return (
        f"One matmul instruction multiplies {f'matrices of {matrices}' if sizes else 'small matrices'}, "
        f"for {_warps(works_for(listing))}."
    )


@kept
def works_for(listing: Listing) -> int:
    """For how many warps at once the launch's matmul instructions work: 4 (wgmma), 1, or 0 without one."""
    multiplies = [one.text for one in listing.sass if one.kind == "matmul"]
    return 4 if any("HGMMA" in one for one in multiplies) else int(bool(multiplies))


def _warps(number: int | None) -> str:
    return "four warps" if number == 4 else "one warp"


def _multiplied(instruction: str) -> tuple[int, int, int] | None:
    """(M, N, K) of the matrices that an instruction of SASS multiplies, M × K by K × N, if its name has them: wgmma of
    Hopper, "HGMMA.64x128x16", or a warp's mma, "HMMA.16816".
    """
    found = re.search(r"\bHGMMA\.(\d+)x(\d+)x(\d+)\b|\bHMMA\.(16)(8)(\d+)\b", instruction)
    if found is None:
        return None
    m, n, k = (int(side) for side in found.groups() if side)
    return m, n, k


def _without_cores(experiment: Experiment, gpu: Gpu) -> str:
    """Why a dtype's matmuls do not use a GPU's tensor cores, in sentences."""
    dtype = experiment.values.get("dtype")
    if gpu.compute_capability < 80:
        bf16 = " It has no bf16 arithmetic: each number becomes fp32 first." * (dtype == "bf16")
        own = f"{gpu.compute_capability // 10}.{gpu.compute_capability % 10}"
        return f"Triton uses tensor cores only from compute capability 8.0 on. The {gpu.name} has {own}.{bf16}"
    return "They have no fp32: they would round the inputs to TF32." if dtype == "fp32" else ""


def _loops_told(listing: Listing) -> str:
    """ "the loop", "3 loops"."""
    number = len(loops(listing))
    return "the loop" if number == 1 else f"{number} loops"


def counted_told(listing: Listing) -> str:
    """How the bars' numbers are counted, in sentences of Markdown."""
    if not loops(listing):
        return "Squares are instructions. Counts are not times."
    return (
        "Squares are instructions. **Full colour**: in a loop, so it may run in every iteration. **Faint**: outside, "
        "so it runs at most once. Some run only if their predicate, such as `@P2`, is true. Counts are not times."
    )


def busiest(listing: Listing) -> tuple[int, int] | None:
    """The kernel's line with most SASS instructions of its own in its loops, and their number; of all SASS where there
    is no loop. None without SASS.
    """
    code = in_loops(listing) or listing.sass
    found = Counter(one.lines[0] for one in code if one.kind != LABEL and len(one.lines) == 1)
    return found.most_common(1)[0] if found else None


@kept
def busiest_told(listing: Listing) -> str:
    """The kernel's line with most SASS instructions of its own, in a sentence of Markdown; "" without SASS."""
    if (found := busiest(listing)) is None:
        return ""
    line, most = found
    repeated, lines = in_loops(listing), listing.source.splitlines()
    every = sum(one.kind != LABEL for one in repeated or listing.sass)
    at = line - listing.first_line
    words, above = " ".join(lines[at].partition("#")[0].split()), lines[at - 1].strip()
    note = above.removeprefix("#").strip().partition("   ")[0]  # without the shape at its end
    comment = f" The comment above it: `{note}`" * above.startswith("#")
    where = f"the {count(every)} in {_loops_told(listing)}" if repeated else count(every)
    said = f"Of {where}, **{count(most)}** come from line {line}, more than from any other"
    return f"{said}: `{words}` (by the compiler's line table).{comment}"
