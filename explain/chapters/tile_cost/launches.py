"""A kernel's launches: what each writes, and on which of them the page opens."""

from __future__ import annotations

from explain.compile.cost import Cost
from explain.figures.labels import listed
from explain.source.equations import quantity
from explain.source.functions import defining, stored
from kernels.catalog import KERNELS


def written(kernel: str, launched: str) -> list[str]:
    """What the function `launched` of a kernel writes: ["dK", "dV"]."""
    entry = KERNELS[kernel]
    own = entry.buffers.get(launched, {})
    names = [own.get(name, name) for name in stored(defining(entry.module, launched), launched)]
    return [quantity(name) for name in names]


def titles(cost: Cost) -> list[str]:
    """A short name for each launch: "2. dK, dV"."""
    return [
        f"{number}. {', '.join(written(cost.kernel, launch.kernel))}"
        for number, launch in enumerate(cost.launches, start=1)
    ]


def told(cost: Cost, at: int) -> str:
    """What launch `at` writes, and how many there are, in a sentence of Markdown; "" for the only one."""
    if len(cost.launches) == 1:
        return ""
    name = cost.launches[at].kernel
    writes = listed(written(cost.kernel, name))
    return f"Launch {at + 1} of {len(cost.launches)}, `{name}`, writes {writes}. All that follows is about this launch."


def heaviest(cost: Cost) -> int:
    """The index of the launch that needs most registers."""
    return max(range(len(cost.launches)), key=lambda at: cost.launches[at].registers)
