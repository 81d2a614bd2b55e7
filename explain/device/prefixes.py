"""Compares the states of the compiled kernel and of the trace after each tile of keys.

A launch on the first j tiles returns O = acc / l and lse = m + ln l. That is the state of the traced program after its
j-th tile. NumPy only.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from explain.experiment import Experiment
from explain.trace.model import Affine, Tile, Trace
from kernels.catalog import KERNELS


def compare_prefixes(trace: Trace, experiment: Experiment, prefixes: Path) -> list[dict[str, Any]]:
    """For each j the largest |O − O'| and |lse − lse'| between GPU and trace, over all recorded programs.

    `prefixes` is the device worker's file: `o_j` (batch, heads, seq_len, head_dim) and `lse_j` (batch, heads, seq_len).
    """
    p = experiment.values
    differences: dict[int, np.ndarray] = {}
    with np.load(prefixes, allow_pickle=False) as states:
        count = sum(name.startswith("lse_") for name in states.files)
        device = {j: (states[f"o_{j}"], states[f"lse_{j}"]) for j in range(1, count + 1)}
    for number, rows, visited in traced_states(trace, experiment):
        batch, head = divmod(number, p["heads"])
        for j, (o, lse) in device.items():
            traced_o, traced_lse = visited[min(j, len(visited) - 1)]
            own = rows < p["seq_len"]
            at = rows[own]
            in_o = _distance(o[batch, head, at], traced_o[own, : p["head_dim"]])
            in_lse = _distance(lse[batch, head, at], traced_lse[own])
            differences[j] = np.maximum(differences.get(j, np.zeros(2)), (in_o, in_lse))
    return [
        {
            "tiles": j,
            "keys": min(j * p["block_n"], p["kv_len"]),
            "largest difference in O": float(worst[0]),
            "largest difference in lse": float(worst[1]),
        }
        for j, worst in sorted(differences.items())
    ]


States = list[tuple[np.ndarray, np.ndarray]]
"""O (BLOCK_M, BLOCK_D) and lse (BLOCK_M,) before the first tile and after each."""


def traced_states(trace: Trace, experiment: Experiment) -> Iterator[tuple[int, np.ndarray, States]]:
    """For each recorded program of flash_attention: its batch × head number, its rows, and its states tile by tile."""
    if not experiment.entry.prefixes:
        allowed = ", ".join(name for name, kernel in KERNELS.items() if kernel.prefixes)
        raise ValueError(f"kernel={experiment.kernel}: states after each tile are compared only for {allowed}")
    histories = {name: trace.history(name) for name in ("rows", "m_i", "l_i", "acc")}
    for program in trace.launches[0].recorded:
        steps = range(program.first_step, program.first_step + program.steps)
        own = {
            name: [(k, v.numpy()) for k, v in history if k in steps and isinstance(v, Tile | Affine)]
            for name, history in histories.items()
        }
        visits = []
        for step, m_i in own["m_i"]:  # m_i is set first to −inf, then as the last statement of each visit
            l_i = _last_before(own["l_i"], step)
            acc = _last_before(own["acc"], step)
            visits.append(_finished(m_i, l_i, acc) if l_i is not None and acc is not None else None)
        rows = own["rows"][0][1]
        empty = (np.zeros((len(rows), 1)), np.full(len(rows), -np.inf))
        yield program.id[1], rows, [state if state is not None else empty for state in visits]


def _finished(m_i: np.ndarray, l_i: np.ndarray, acc: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    with np.errstate(divide="ignore"):
        return acc / np.where(l_i == 0.0, 1.0, l_i)[:, None], m_i + np.log(l_i)


def _last_before(history: list[tuple[int, np.ndarray]], step: int) -> np.ndarray | None:
    earlier = [value for at, value in history if at <= step]
    return earlier[-1] if earlier else None


def _distance(device: np.ndarray, traced: np.ndarray) -> float:
    """The largest difference; 0 where both are the same infinity or both NaN, inf where only one is."""
    with np.errstate(invalid="ignore"):
        same = (device == traced) | (np.isnan(device) & np.isnan(traced))
        gap = np.where(same, 0.0, np.abs(device.astype(np.float64) - traced))
    return float(np.nan_to_num(gap, nan=np.inf, posinf=np.inf).max(initial=0.0))
