"""The ladder of softmax kernels: the rungs in order, their sources and what changes from one to the next, and what their runs show.

Imports neither streamlit nor torch: sources are read from the files, results from the traces.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from explain.experiment import Experiment
from explain.source.functions import function_source, marked
from explain.trace.model import Tile, Trace, numbers
from kernels import reference
from kernels.catalog import KERNELS
from kernels.parameters import ITEM_BYTES

RIGHT_WITHIN = 1e-5
"""Of float64, in float32: hundreds of roundings, and far below what any of the wrong kernels misses by."""


@dataclass(frozen=True)
class Rung:
    """One step of the ladder: a kernel, its one idea in a few words, and what it lacks, which the next rung mends."""

    kernel: str
    name: str
    idea: str
    lacks: str

    def experiment(self, row: Experiment) -> Experiment:
        """This rung on the inputs of a one-row experiment; the last one on four rows of them at once."""
        own = {parameter.name for parameter in KERNELS[self.kernel].parameters}
        shared = {name: value for name, value in row.values.items() if name in own}
        if self.kernel == "softmax_row":
            del shared["block_n"]  # its tile is the whole row
        if "block_m" in own:
            shared |= {"rows": 4, "block_m": 4}
        return Experiment.of(self.kernel, shared, row.inputs, row.seed)


RUNGS = (
    Rung(
        "softmax_row", "Whole row",
        "One program, one tile, the whole row: load it once, keep it on chip, write it once.",
        "The row must fit on chip. A row of 131,072 elements does not, so it has to come in tiles.",
    ),
    Rung(
        "softmax_blocked_wrong", "Per tile, wrong",
        "A loop over tiles, each with the same lines as before.",
        "It is wrong: every tile is divided by its own sum. The tiles must share one maximum and one sum.",
    ),
    Rung(
        "softmax_naive", "Two passes, unsafe",
        "A first pass adds up exp(x), a second divides by the sum that all tiles now share.",
        "exp(x) overflows in float32 above x = 88.7, and ∞ / ∞ is NaN. The maximum must go first.",
    ),
    Rung(
        "softmax_safe", "Three passes",
        "A pass more at the front finds the row's maximum, so that no exponential exceeds 1.",
        "Each element is read three times. Maximum and sum want to share a pass, but the sum needs the maximum.",
    ),
    Rung(
        "softmax_online", "Online",
        "Maximum and sum in one pass: when the maximum moves, α brings the old sum along.",
        "One row at a time leaves most of the chip's lanes without work where rows are short.",
    ),
    Rung(
        "softmax_tiled", "Rows and columns",
        "The same on tiles of rows and columns: m, ℓ and α become columns, one number for each row.",
        "Still two reads of each element, for the weights themselves are written. Attention needs only their product with V, "
        "so there the second pass goes too: FlashAttention.",
    ),
)  # fmt: skip


def source(kernel: str) -> str:
    """The text of a catalog kernel's own `…_kernel` function, with its decorator."""
    return function_source(KERNELS[kernel].module, f"{kernel}_kernel")


def difference(below: str, above: str) -> str:
    """The source of `above` marked as a diff from `below`'s, both of the catalog."""
    return marked(source(below), source(above))


def accesses(experiment: Experiment, totals: Mapping[str, int]) -> float:
    """Reads and writes per element of x: all bytes of a trace's, or a formula's, totals over those of x once."""
    p = experiment.values
    return (totals["read_bytes"] + totals["written_bytes"]) / (p["rows"] * p["cols"] * ITEM_BYTES[p["dtype"]])


def reads_of_x(experiment: Experiment, trace: Trace) -> float:
    """How often each element of x is read, counted in the trace."""
    p = experiment.values
    read = sum(launch.read_bytes.get("x_ptr", 0) for launch in trace.launches)
    return read / (p["rows"] * p["cols"] * ITEM_BYTES[p["dtype"]])


def stored(trace: Trace, variable: str, buffer: str, shape: Sequence[int]) -> np.ndarray:
    """What a run wrote to a contiguous buffer from `variable`, float64, NaN where it wrote nothing."""
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
    """What one rung's run came to."""

    rung: Rung
    accesses: float
    read_bytes: int
    written_bytes: int
    error: float
    """The largest |y − float64|; NaN when a result is NaN where the reference is not."""

    @property
    def right(self) -> bool:
        return self.error <= RIGHT_WITHIN


def outcome(rung: Rung, experiment: Experiment, trace: Trace) -> Outcome:
    """A rung's run, counted and compared with the float64 reference."""
    x = experiment.entry.make_inputs(experiment.preset, experiment.values, experiment.seed)["x"]
    expected = reference.softmax(x)
    y = stored(trace, "y", "y_ptr", x.shape)
    both = np.isnan(y) & np.isnan(expected)
    error = float(np.max(np.where(both, 0.0, np.abs(y - expected))))
    moved = trace.traffic()
    return Outcome(rung, accesses(experiment, moved), moved["read_bytes"], moved["written_bytes"], error)


def table(outcomes: Sequence[Outcome]) -> str:
    """All rungs side by side, as markdown."""
    lines = [
        "| rung | reads + writes per element | bytes read | bytes written | largest error against float64 | |",
        "|---|---:|---:|---:|---:|---|",
    ]
    for one in outcomes:
        verdict = ":green[right]" if one.right else ":red[wrong]"
        lines.append(
            f"| {one.rung.name} | **{one.accesses:g}** | {one.read_bytes:,} | {one.written_bytes:,} | {_said(one.error)} | {verdict} |"
        )
    return "\n".join(lines)


def _said(error: float) -> str:
    """An error for a table; what float32 itself cannot hold is none."""
    return "NaN" if math.isnan(error) else f"{error:.1e}" if error > 1e-45 else "0"
