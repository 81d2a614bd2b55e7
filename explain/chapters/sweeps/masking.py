"""What the compiler's loop over the keys says: what a causal mask adds to it, and what an exponential takes in it."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass

from explain.chapters.flash_attention.tiles import MASKED
from explain.compile.cost import LaunchCost
from explain.compile.listing import Instruction, Listing, counts, loops
from explain.compile.service import compiler
from explain.experiment import Experiment
from explain.figures import palette, svg
from explain.figures.numbers import count, duration, percent, ratio
from kernels.catalog import KERNELS
from kernels.parameters import Value

CAPABILITY = 90
TILE = ("head_dim", "dtype", "block_m", "block_n")
"""The values that choose a compiled kernel."""
GUARD = re.compile(r"first_nan|v == v")
"""The lines that keep a NaN in a hidden V out of the result."""


@dataclass(frozen=True)
class Compiled:
    """A kernel compiled for one tile: its launch, its source, and the SASS of its loop over the keys."""

    experiment: Experiment
    launch: LaunchCost
    listing: Listing
    loop: tuple[Instruction, ...]

    @property
    def guards(self) -> tuple[str, ...]:
        """The source lines of GUARD."""
        lines = (line.strip() for line in self.listing.source.splitlines())
        return tuple(line for line in lines if GUARD.search(line) and not line.startswith("#"))

    @property
    def guarding(self) -> int:
        """The loop's instructions that come from the lines of GUARD alone."""
        source = dict(enumerate(self.listing.source.splitlines(), start=self.listing.first_line))
        return sum(len(one.lines) == 1 and bool(GUARD.search(source[one.lines[0]])) for one in self.loop)


def compiled(kernel: str, values: Mapping[str, Value]) -> tuple[Compiled, Compiled] | None:
    """The kernel's loop without and with the mask, of a recorded tile with these values; None if there is none."""
    for pair in MASKED:
        own = pair[0].values
        if pair[0].kernel == kernel and all(own[name] == values[name] for name in TILE if name in values):
            known = [_compiled(one) for one in pair]
            if known[0] and known[1]:
                return known[0], known[1]
    return None


def _compiled(experiment: Experiment) -> Compiled | None:
    answer = compiler().look(experiment, CAPABILITY)
    listings = compiler().listings(experiment, CAPABILITY)
    if not (answer and answer.cost and listings):
        return None
    bodies = [one for one in loops(listings[0]) if any(inside.kind == "matmul" for inside in one)]
    return Compiled(experiment, answer.cost.launches[0], listings[0], max(bodies, key=len, default=()))


BASES = ("flash_attention", "flash_attention_exp2")
"""The same kernel with exp and with exp2."""
_P = re.compile(r"p = tl\.exp2?\(")


def _of_p(known: Compiled) -> list[Instruction]:
    """The loop's instructions of the line of P̃ alone."""
    lines = enumerate(known.listing.source.splitlines(), start=known.listing.first_line)
    line = next(number for number, text in lines if _P.match(text.strip()))
    return [one for one in known.loop if one.lines == (line,)]


@functools.lru_cache
def per_exponential(kernel: str) -> int | None:
    """Instructions of the line of P̃ for each of its exponentials, in the loop of the kernel's recorded tile without a
    mask; None if none was recorded.
    """
    found = next((known for pair in MASKED if pair[0].kernel == kernel and (known := _compiled(pair[0]))), None)
    if found is None:
        return None
    own = counts(_of_p(found))
    return round((own["exponential"] + own["float arithmetic"]) / own["exponential"])


@functools.lru_cache
def for_tiny(kernel: str) -> int:
    """How many of them guard results below the smallest normal float: a comparison, and what it alone lets run."""
    found = next((known for pair in MASKED if pair[0].kernel == kernel and (known := _compiled(pair[0]))), None)
    own = _of_p(found) if found else []
    guards = sum(one.text.startswith(("FSETP", "@")) for one in own)
    return round(guards / counts(own)["exponential"]) if guards else 0


def computed(seq_len: int, block_m: int, block_n: int) -> float:
    """The share of the tiles that a causal kernel computes: the others are hidden from every row."""
    rows = range(block_m, seq_len + block_m, block_m)
    whole = -(-seq_len // block_n)
    return sum(-(-min(end, seq_len) // block_n) for end in rows) / (whole * len(rows))


def longer(pair: tuple[Compiled, Compiled], plain: float, masked: float, seq_len: int) -> float:
    """How many times as long a tile takes with the mask, from the kernel's seconds without and with it."""
    return masked / plain / _share(pair[0].experiment, seq_len)


def _share(of: Experiment, seq_len: int) -> float:
    return computed(seq_len, of.values["block_m"], of.values["block_n"])


def timed(pair: tuple[Compiled, Compiled], plain: float, masked: float, seq_len: int) -> str:
    """The kernel's seconds without and with the mask, and what that means per tile; markdown."""
    of = pair[0].experiment
    share = _share(of, seq_len)
    name = KERNELS[of.kernel].short
    first = f"{name} takes **{duration(plain)}** without the mask and **{duration(masked)}** with it"
    if masked <= plain:
        return f"{first}: it computes {percent(share)} of the tiles."
    return (
        f"{first}, although it then computes only {percent(share)} of the tiles. So one tile takes "
        f"{ratio(longer(pair, plain, masked, seq_len))} as long."
    )


def explained(pair: tuple[Compiled, Compiled]) -> str:
    """What the compiler's output says of the mask's cost; markdown."""
    before, after = pair
    heads, more = before.experiment.values["heads"], ratio(len(after.loop) / len(before.loop))
    spills = after.launch.spill_store_bytes
    return (
        f"The compiler shows what a tile costs. The loop over the keys has **{count(len(before.loop))}** instructions "
        f"without the mask and **{count(len(after.loop))}** with it: {more}. **{count(after.guarding)}** of them come "
        "from the lines that keep a NaN in a hidden V out of the result. The rest of the mask compares positions. "
        f"Registers per thread, compiled for {heads} heads: {before.launch.registers} → {after.launch.registers}; "
        + (f"each thread spills {count(spills)} B." if spills else "none spill.")
    )


ROW, BAR, WIDE = 54.0, 22.0, 360.0


def picture(pair: tuple[Compiled, Compiled]) -> str:
    """The loop's instructions without and with the mask, as bars on one scale; the lines of GUARD are set apart."""
    most = max(len(one.loop) for one in pair)
    parts = []
    for at, (one, name) in enumerate(zip(pair, ("no mask", "causal mask"), strict=True)):
        y, size = at * ROW, len(one.loop)
        parts.append(svg.text(0, y + 16, f"{name}: {count(size)} instructions per tile", bold=True))
        wide, guard = WIDE * size / most, WIDE * one.guarding / most
        parts.append(svg.rect(0, y + 24, wide - guard, BAR, palette.css("slate"), opacity=0.5))
        if guard:
            parts.append(svg.rect(wide - guard, y + 24, guard, BAR, palette.css("series-2")))
            ink = palette.letters(palette.fill("series-2"))
            parts.append(svg.text(wide - guard / 2, y + 40, f"NaN: {count(one.guarding)}", anchor="middle", fill=ink))
    high = 2 * ROW + 4
    return svg.picture(
        WIDE, high, "Instructions in the loop over the keys, without and with a causal mask", parts, most="38rem"
    )


SOURCE = "Instructions: SASS for sm_90, compiled without a GPU. How much of the time these lines take is not measured."
