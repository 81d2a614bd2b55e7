"""A kernel's launches: what each writes, and on which of them the page opens."""

from __future__ import annotations

import re

from explain.chapters.flash_attention.tiles import sides_of
from explain.compile.cost import Cost, occupancy
from explain.figures.labels import listed
from explain.gpus import Gpu
from explain.kept import kept
from explain.source.equations import quantity
from explain.source.functions import defining, function_source, stored
from kernels.catalog import KERNELS


def written(kernel: str, launched: str) -> list[str]:
    """What the function `launched` of a kernel writes: ["dK", "dV"]."""
    entry = KERNELS[kernel]
    own = entry.buffers.get(launched, {})
    names = [own.get(name, name) for name in stored(defining(entry.module, launched), launched)]
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
    source = function_source(defining(KERNELS[kernel].module, launched), launched)
    return re.search(rf"\b{side.upper()}\b", source) is not None


@kept
def table(cost: Cost, chosen: int, gpu: Gpu) -> str:
    """What each launch writes and takes of the GPU, as an HTML table of buttons; a press chooses "2": its number."""
    rows = []
    for at, launch in enumerate(cost.launches):
        programs, number = occupancy(launch, gpu).programs, at + 1
        name = f"{number}. {', '.join(written(cost.kernel, launch.kernel))}"
        cells = (str(launch.registers), str(programs) if programs else "too large")
        rows.append(
            f'<tr data-press="{number}"{" class=on" * (at == chosen)}><th><button data-press="{number}" '
            f'aria-pressed="{str(at == chosen).lower()}" aria-label="Choose launch {number}">{name}</button></th>'
            f"{''.join(f'<td class=n>{cell}</td>' for cell in cells)}</tr>"
        )
    head = (
        "<th>launch, by what it writes</th><th class=n>registers<br>per thread</th><th class=n>programs<br>per SM</th>"
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"


def opening(cost: Cost) -> int:
    """The index of the launch to open on: of those with most matmuls, the one with the longest source. It is the same
    for every GPU, so that two of them are compared on one launch.
    """

    def size(at: int) -> tuple[int, int]:
        name = cost.launches[at].kernel
        source = function_source(defining(KERNELS[cost.kernel].module, name), name)
        return source.count("tl.dot("), len(source)

    return max(range(len(cost.launches)), key=size)
