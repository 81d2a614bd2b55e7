"""The tiles of S in the order in which a run's programs visit them, and how often each tile of O is written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from explain.beats import beats
from explain.experiment import Experiment
from explain.held import Held
from explain.kept import kept
from explain.trace.model import KINDS, Trace, numbers


@dataclass(frozen=True)
class Visits:
    """`order`: the place of each tile (query tile, key tile) among those of its program, from 1, with the program's
    number. `stores`: how often each query tile of O is written to HBM.
    """

    order: Mapping[tuple[int, int], tuple[int, int]]
    stores: Mapping[int, int]


@kept
def visits(experiment: Experiment, trace: Trace) -> Visits:
    """The visits of an attention kernel's run in one launch and one head."""
    roles, p = experiment.entry.roles, experiment.values
    order: dict[tuple[int, int], tuple[int, int]] = {}
    of_program: dict[int, int] = {}
    stores: dict[int, int] = {}
    rows, cols = (Held(trace, roles[side]) for side in ("rows", "cols"))
    for beat in beats(trace, roles):
        if beat.kind == "scores":
            last = beat.end - 1
            tile = _first(rows, last) // p["block_m"], _first(cols, last) // p["block_n"]
            of_program[beat.program] = of_program.get(beat.program, 0) + 1
            order[tile] = beat.program, of_program[beat.program]
    for step in _stores(trace, "o_ptr", "o_hbm_ptr"):
        i = _first(rows, step) // p["block_m"]
        stores[i] = stores.get(i, 0) + 1
    return Visits(order, stores)


def _stores(trace: Trace, *names: str) -> list[int]:
    """The steps that store to buffers of these names."""
    c, buffers = trace.columns, trace.launches[0].buffers
    wanted = [index for index, buffer in enumerate(buffers) if buffer.name in names]
    stores = np.flatnonzero((c.access_kind == KINDS.index("store")) & np.isin(c.access_buffer, wanted))
    return np.unique(np.searchsorted(c.access_at, stores, side="right") - 1).tolist()


def _first(held: Held, step: int) -> Any:
    value = held.after(step)
    assert value is not None  # rows and cols are set before a score is computed
    return int(numbers(value)[0])
