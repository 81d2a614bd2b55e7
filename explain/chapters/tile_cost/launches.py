"""A kernel's launches: what each writes, and on which of them the page opens."""

from __future__ import annotations

import re

from explain.chapters.flash_attention.tiles import sides_of
from explain.compile.cost import Cost, occupancy
from explain.figures.labels import listed
from explain.figures.tables import Column, buttons
from explain.gpus import Gpu
from explain.kept import kept
from explain.source.equations import quantity
from explain.source.functions import function_found, stored
from kernels.catalog import KERNELS


def written(kernel: str, launched: str) -> list[str]:
    """What the function `launched` of a kernel writes: ["dK", "dV"]."""
    entry = KERNELS[kernel]
    own = entry.buffers.get(launched, {})
    names = [own.get(name, name) for name in stored(function_found(entry.module, launched))]
    return [quantity(name) for name in names]


def title(cost: Cost, at: int) -> str:
    """A short name for launch `at`: "Launch 2 (dK, dV)"; "" for the only one."""
    if len(cost.launches) == 1:
        return ""
    return f"Launch {at + 1} ({', '.join(written(cost.kernel, cost.launches[at].kernel))})"


def told(cost: Cost, at: int) -> str:
    """What launch `at` writes, and which sides of the tile it has, in sentences of Markdown."""
    name = cost.launches[at].kernel
    fixed = [side.upper() for side in sides_of(cost.kernel) if not uses(cost.kernel, name, side)]
    without = f" It has no {listed(fixed)}: that side changes nothing here." if fixed else ""
    return (
        f"`{name}` writes {listed(written(cost.kernel, name))}.{without} All that follows is about this launch. "
        "**Press a row to choose another.**"
    )


def uses(kernel: str, launched: str, side: str) -> bool:
    """Whether the function `launched` of a kernel has this side of a tile."""
    return re.search(rf"\b{side.upper()}\b", function_found(KERNELS[kernel].module, launched)) is not None


@kept
def table(cost: Cost, chosen: int, gpu: Gpu) -> str:
    """What each launch writes and takes of the GPU, as an HTML table of buttons; a press chooses "2": its number."""
    rows = []
    for at, launch in enumerate(cost.launches):
        programs, number = occupancy(launch, gpu).programs, at + 1
        name = f"{number}. {', '.join(written(cost.kernel, launch.kernel))}"
        cells = (str(launch.registers), str(programs) if programs else "too large")
        rows.append((str(number), name, f"Choose launch {number}", cells))
    heads = ("launch, by what it writes", Column("registers <br>per thread"), Column("programs <br>per SM"))
    return buttons(heads, rows, str(chosen + 1))


def opening(cost: Cost) -> int:
    """The index of the launch to open on: of those with most matmuls, the one with the longest source. It is the same
    for every GPU, so that two of them are compared on one launch.
    """

    def size(at: int) -> tuple[int, int]:
        source = function_found(KERNELS[cost.kernel].module, cost.launches[at].kernel)
        return source.count("tl.dot("), len(source)

    return max(range(len(cost.launches)), key=size)
