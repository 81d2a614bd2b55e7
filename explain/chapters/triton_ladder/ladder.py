"""The ladder of softmax kernels: the rungs in order, and the results of their runs.

Imports neither streamlit nor torch: results are read from the traces.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from explain import data
from explain.experiment import Experiment
from explain.figures.numbers import number, scientific
from explain.figures.tables import Column, markdown
from explain.kept import kept
from explain.plain import made
from explain.source.functions import function_source, marked
from explain.trace.model import Tile, Trace, numbers
from kernels import reference
from kernels.catalog import KERNELS
from kernels.parameters import ITEM_BYTES, WHOLE_ROW_TILE

RIGHT_WITHIN = 1e-5
"""Largest error of a right float32 result: hundreds of roundings, and far less than the error of any wrong kernel."""


SMALLEST = 1e-45
"""The smallest positive float32; an error below it is shown as 0."""


@dataclass(frozen=True)
class Rung:
    """One step of the ladder: a kernel, its one idea, and what it lacks, which the next rung fixes.

    In a few words: what is `new` in it, and its `limit`, or what makes it wrong on some rows. `lines` of its source
    carry the idea, as a diff from the rung below.
    """

    kernel: str
    name: str
    new: str
    idea: str
    lines: tuple[str, ...]
    lacks: str
    limit: str = ""

    def experiment(self, row: Experiment) -> Experiment:
        """This rung on the inputs of a one-row experiment; the last rung on four rows at once."""
        own = {parameter.name for parameter in KERNELS[self.kernel].parameters}
        shared = {name: value for name, value in row.values.items() if name in own}
        if WHOLE_ROW_TILE in KERNELS[self.kernel].parameters:
            del shared["block_n"]  # the default tile holds the whole row
        if "block_m" in own:
            shared |= {"rows": 4, "block_m": 4}
        return Experiment.of(self.kernel, shared, row.inputs, row.seed)


RUNGS = tuple(made(Rung, rung) for rung in data(__file__)["rung"])


def source(kernel: str) -> str:
    """The text of a catalog kernel's own `…_kernel` function, with its decorator."""
    return function_source(KERNELS[kernel].module, f"{kernel}_kernel")


def difference(below: str, above: str) -> str:
    """The source of `above` marked as a diff from `below`'s, both of the catalog."""
    return marked(source(below), source(above))


def accesses(experiment: Experiment, totals: Mapping[str, int]) -> float:
    """Reads and writes per element of x: the total bytes of a trace or a formula, divided by the bytes of x."""
    p = experiment.values
    return (totals["read_bytes"] + totals["written_bytes"]) / (p["rows"] * p["cols"] * ITEM_BYTES[p["dtype"]])


def reads_of_x(experiment: Experiment, trace: Trace) -> float:
    """How often each element of x is read, counted in the trace."""
    p = experiment.values
    read = sum(launch.read_bytes.get("x_ptr", 0) for launch in trace.launches)
    return read / (p["rows"] * p["cols"] * ITEM_BYTES[p["dtype"]])


def stored(trace: Trace, variable: str, buffer: str, shape: Sequence[int]) -> np.ndarray:
    """The values of `variable` that a run stored into a contiguous buffer: float64, NaN where it stored nothing."""
    out = np.full(int(np.prod(shape)), np.nan)
    latest = np.zeros(1)
    for step in range(trace.steps):
        value = trace.changes(step).get(variable)
        if isinstance(value, Tile):
            latest = numbers(value)
        for access in trace.accesses(step):
            if access.kind == "store" and access.buffer.name == buffer:
                active = np.ones(latest.shape, bool) if access.mask is None else numbers(access.mask).astype(bool)
                out[access.indices()] = np.broadcast_to(latest, active.shape)[active]
    return out.reshape(shape)


@dataclass(frozen=True)
class Outcome:
    """The result of one rung's run."""

    rung: Rung
    rows: int
    accesses: float
    read_bytes: int
    written_bytes: int
    error: float
    """The largest |y − float64|; NaN if a result is NaN and the reference is not."""

    @property
    def right(self) -> bool:
        return self.error <= RIGHT_WITHIN


@kept
def outcome(rung: Rung, experiment: Experiment, trace: Trace) -> Outcome:
    """A rung's run, counted and compared with the float64 reference."""
    x = experiment.make_inputs()["x"]
    expected = reference.softmax(x)
    y = stored(trace, "y", "y_ptr", x.shape)
    both = np.isnan(y) & np.isnan(expected)
    error = float(np.max(np.where(both, 0.0, np.abs(y - expected))))
    moved = trace.traffic()
    rows = int(experiment.values["rows"])
    return Outcome(rung, rows, accesses(experiment, moved), moved["read_bytes"], moved["written_bytes"], error)


@kept
def table(outcomes: Sequence[Outcome]) -> str:
    """All rungs side by side, as Markdown."""
    columns = (
        "rung", Column("reads + writes per element"), Column("bytes read per row"), Column("bytes written per row"),
        Column("largest error against float64"), "on this row", "wrong on purpose",
    )  # fmt: skip
    rows = [
        (
            one.rung.name,
            f"**{number(one.accesses)}**",
            one.read_bytes // one.rows,
            one.written_bytes // one.rows,
            scientific(one.error if one.error > SMALLEST else 0.0) if one.error == one.error else "NaN",
            ":green[right]" if one.right else ":red[wrong]",
            KERNELS[one.rung.kernel].wrong,
        )
        for one in outcomes
    ]
    return markdown(columns, rows)
