"""What a trace is, what ran in it and what it cost, in a few lines."""

from __future__ import annotations

from collections.abc import Callable

from explain.chapters.your_run import given
from explain.experiment import Experiment
from explain.figures.labels import listed
from explain.figures.numbers import count, moved
from explain.figures.tables import Column, markdown
from explain.trace.model import Launch, Trace

LISTED = 12
"""So many launches have a row each."""
NAMED = 3
"""A run of more kernels says how many."""


def told(trace: Trace) -> str:
    """The kernels, launches and programs of a run, its mask and tiles, the bytes that they move and their FLOPs;
    Markdown.
    """
    launches, total = trace.launches, trace.traffic()
    kernels = list(dict.fromkeys(f"`{launch.kernel}`" for launch in launches))
    named = listed(kernels) if len(kernels) <= NAMED else _counted(len(kernels), "kernel")
    ran = [_counted(len(launches), "launch", "es")] * (len(launches) > 1)
    ran.append(_counted(sum(launch.programs for launch in launches), "program"))
    ran += _chosen(trace)
    return (
        f"**What ran:** {named}, {', '.join(ran)}  \n"
        f"**What it cost:** {moved(total['read_bytes'])} loaded and {moved(total['written_bytes'])} stored "
        f"(masked lanes move nothing). {_counted(total['flops'], 'FLOP')}, masked lanes counted."
    )


def shown(trace: Trace, file: str) -> str:
    """The file of a run and the day on which it was recorded; Markdown."""
    day = trace.created[: len("2026-01-31")].replace("-", "\N{NON-BREAKING HYPHEN}")
    return f"`{file}`, recorded {day}"


def tensors(trace: Trace) -> str:
    """The tensors of a run of one launch with their sizes and dtypes; Markdown. Several launches are in a table."""
    named = _tensors(trace.launches[0]) if len(trace.launches) == 1 else ""
    return f"**Tensors:** {named}" if named else ""


def launches(trace: Trace) -> str:
    """A row for each launch of a run of several, with its cost and its tensors, as Markdown; "" for one launch."""
    if len(trace.launches) == 1:
        return ""
    rows = [
        (number, f"`{one.kernel}`", one.programs, *one.traffic().values(), _tensors(one))
        for number, one in enumerate(trace.launches[:LISTED], start=1)
    ]
    columns = (
        Column("launch"), "kernel", Column("programs"), Column("loaded", moved), Column("stored", moved),
        Column("FLOPs"), "tensors",
    )  # fmt: skip
    more = len(trace.launches) - LISTED
    return markdown(columns, rows) + (f"\n\n{_counted(more, 'more launch', 'es')}." if more > 0 else "")


def _tensors(launch: Launch) -> str:
    return ", ".join(f"`{given.short(one.name)}` {given.sizes(one.shape)} {one.dtype}" for one in launch.buffers)


def difference(left: Trace, right: Trace) -> str:
    """What two runs of the same inputs cost where they differ: "loaded 10.6 → 9.72 kB, stored equal"; Markdown."""
    a, b = left.traffic(), right.traffic()
    parts: dict[str, tuple[str, Callable[[int], str]]] = {
        "read_bytes": ("loaded", moved), "written_bytes": ("stored", moved), "flops": ("FLOPs", count),
    }  # fmt: skip
    told = (
        f"{name} {'equal' if a[key] == b[key] else f'{words(a[key])} → {words(b[key])}'}"
        for key, (name, words) in parts.items()
    )
    return f"**What they cost, left → right:** {', '.join(told)}."


def _chosen(trace: Trace) -> list[str]:
    """The mask and the tiles of a kernel of the catalog: "causal", "`block_m` = 16"."""
    if trace.experiment is None:
        return []
    experiment = Experiment.from_json(trace.experiment)
    values = experiment.values
    mask = ["causal" if values["causal"] else "not causal"] if "causal" in values else []
    tiles = [one.name for one in experiment.entry.parameters if one.kind == "tile"]
    return mask + [f"`{name}` = {values[name]}" for name in tiles]


def _counted(number: int, what: str, plural: str = "s") -> str:
    return f"{count(number)} {what}{plural * (number != 1)}"
