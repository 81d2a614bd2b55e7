"""What ran in a trace and what it cost, in two lines."""

from __future__ import annotations

from explain.figures.labels import listed
from explain.figures.numbers import count, moved
from explain.trace.model import Trace

NAMED = 3
"""A run of more kernels says how many."""


def told(trace: Trace) -> str:
    """The kernels, launches and programs of a run, the bytes that they request and their FLOPs; Markdown."""
    launches, total = trace.launches, trace.traffic()
    kernels = list(dict.fromkeys(f"`{launch.kernel}`" for launch in launches))
    named = listed(kernels) if len(kernels) <= NAMED else _counted(len(kernels), "kernel")
    ran = [_counted(len(launches), "launch", "es")] * (len(launches) > 1)
    ran.append(_counted(sum(launch.programs for launch in launches), "program"))
    return (
        f"**What ran:** {named}, {', '.join(ran)}  \n"
        f"**What it cost:** {moved(total['read_bytes'])} requested by loads, "
        f"{moved(total['written_bytes'])} by stores, {_counted(total['flops'], 'FLOP')}."
    )


def _counted(number: int, what: str, plural: str = "s") -> str:
    return f"{count(number)} {what}{plural * (number != 1)}"
