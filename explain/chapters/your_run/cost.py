"""What a trace is, what ran in it and what it cost, in a few lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from explain.chapters.three_numbers.levels import formula_name
from explain.chapters.your_run import given
from explain.experiment import Experiment
from explain.figures.labels import listed
from explain.figures.numbers import count, moved, number, percent, ratio
from explain.figures.tables import Column, markdown
from explain.trace.model import Buffer, Launch, Trace

LISTED = 12
"""So many launches have a row each."""
NAMED = 3
"""A run of more kernels says how many."""
CLOSE = 1.2
"""Below this factor a difference is told in percent."""

COSTS: Mapping[str, str] = {"read_bytes": "bytes loaded", "written_bytes": "stored", "flops": "FLOPs"}
"""What a run costs, in a sentence."""


def told(trace: Trace) -> str:
    """What ran, the bytes that it moves and its FLOPs; Markdown."""
    total = trace.traffic()
    return (
        f"{ran(trace)}  \n"
        f"**What it cost:** {moved(total['read_bytes'])} loaded and {moved(total['written_bytes'])} stored "
        f"(masked lanes move nothing). {_counted(total['flops'], 'FLOP')}, masked lanes counted."
    )


def ran(trace: Trace) -> str:
    """The kernels, launches and programs of a run, its mask and tiles; Markdown."""
    launches = trace.launches
    kernels = list(dict.fromkeys(f"`{launch.kernel}`" for launch in launches))
    named = listed(kernels) if len(kernels) <= NAMED else _counted(len(kernels), "kernel")
    parts = [number_of_launches(trace)] * (len(launches) > 1)
    parts.append(_counted(sum(launch.programs for launch in launches), "program"))
    return f"**What ran:** {named}, {', '.join([*parts, *_chosen(trace)])}"


def number_of_launches(trace: Trace) -> str:
    """ "5 launches"."""
    return _counted(len(trace.launches), "launch", "es")


def shown(trace: Trace, file: str) -> str:
    """The file of a run and the day on which it was recorded; Markdown."""
    day = trace.created[: len("2026-01-31")].replace("-", "\N{NON-BREAKING HYPHEN}")
    return f"`{file}`, recorded {day}"


def tensors(trace: Trace) -> str:
    """The tensors of a run, each once, with their sizes and dtypes; Markdown. Two launches may name one tensor
    differently: the catalog knows it of its kernels, but a third-party trace does not say so.
    """
    found: dict[str, str] = {}
    for one in (one for launch in trace.launches for one in _buffers(trace, launch)):
        found.setdefault(one.name if trace.experiment else _tensor(one), _tensor(one))
    whose = ", as each launch names them" * (trace.experiment is None and len(trace.launches) > 1)
    return f"**Tensors{whose}:** {', '.join(found.values())}" if found else ""


def launches(trace: Trace) -> str:
    """A row for each launch of a run of several, with its cost and its tensors, as Markdown; "" for one launch."""
    if len(trace.launches) == 1:
        return ""
    rows = [
        (
            number,
            f"`{one.kernel}`",
            one.programs,
            *one.traffic().values(),
            ", ".join(map(_tensor, _buffers(trace, one))),
        )
        for number, one in enumerate(trace.launches[:LISTED], start=1)
    ]
    columns = (
        Column("launch"), "kernel", Column("programs"), Column("loaded", moved), Column("stored", moved),
        Column("FLOPs"), "tensors",
    )  # fmt: skip
    more = len(trace.launches) - LISTED
    return markdown(columns, rows) + (f"\n\n{_counted(more, 'more launch', 'es')}." if more > 0 else "")


def _buffers(trace: Trace, launch: Launch) -> Sequence[Buffer]:
    """The tensors of a launch, by the names that the catalog's formulas have for them."""
    if trace.experiment is None:
        return launch.buffers
    run = Experiment.from_json(trace.experiment)
    return [replace(one, name=formula_name(run, launch, one.name)) for one in launch.buffers]


def _tensor(buffer: Buffer) -> str:
    return f"`{given.short(buffer.name)}` {given.sizes(buffer.shape)} {buffer.dtype}"


def table(left: Trace, right: Trace, *, alike: bool) -> str:
    """What two runs cost, a row for each; of runs of `alike` inputs also the ratio; Markdown."""
    a, b = left.traffic(), right.traffic()
    rows = [(side, *(one[key] for key in COSTS)) for side, one in (("left", a), ("right", b))]
    rows += [("right ÷ left", *(ratio(b[key] / a[key]) if a[key] else None for key in COSTS))] * alike
    return markdown(("", Column("loaded", moved), Column("stored", moved), Column("FLOPs")), rows)


def compared(left: Trace, right: Trace) -> str:
    """What the right run costs beside the left: "1.8 × fewer bytes loaded, …"; Markdown."""
    a, b = left.traffic(), right.traffic()
    told = ", ".join(f"{_compared(a[key], b[key])} {words}" for key, words in COSTS.items())
    return f"**The right beside the left:** {told}."


def _compared(left: int, right: int) -> str:
    """How the right number compares: "1.8 × fewer", "1.3% more", "equally many"."""
    if left == right:
        return "equally many"
    way = "more" if right > left else "fewer"
    least, most = sorted((left, right))
    if not least or most < CLOSE * least:
        return f"{percent(abs(right / left - 1), 1)} {way}" if left else way
    return f"{number(most / least, 2)} × {way}"


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
