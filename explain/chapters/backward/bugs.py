"""What a bug of the backward pass does to a gradient: its largest error, its largest element without the bug, and dV
from a forward pass's L that lacks m; from traces.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from explain.trace.model import Trace, Value, numbers


def wrong(broken: Trace, right: Trace, output: str) -> tuple[float, float]:
    """The largest error of what a broken run stores in an output, and the largest |element| of the right run."""
    expected = _stored(right, output)
    return float(abs(_stored(broken, output) - expected).max()), float(abs(expected).max())


def values_error(forward: Trace, backward: Trace) -> tuple[float, float]:
    """The largest error of dV if the backward pass gets this forward pass's lse, and the largest |dV| without it.

    Both runs have the same q, k and v, and one head.
    """
    lse = np.concatenate([_float64(value) for _, value in forward.history("lse")])
    right: dict[int, NDArray[np.float64]] = {}
    wrong: dict[int, NDArray[np.float64]] = {}
    for step, p in backward.history("p"):
        if "dv" not in (state := backward.state(step)):
            continue  # the launch that holds queries has P too, and no dV
        of_keys, factor = int(numbers(state["cols"])[0]), _factor(state, lse)
        weights, do = _float64(p), _float64(state["do"])
        for total, by in ((right, np.ones_like(factor)), (wrong, factor)):
            total[of_keys] = total.get(of_keys, 0.0) + (by[:, None] * weights).T @ do
    return (
        max(float(abs(wrong[keys] - right[keys]).max()) for keys in right),
        max(float(abs(one).max()) for one in right.values()),
    )


def _stored(trace: Trace, output: str) -> NDArray[np.float64]:
    """The elements of an output as the run stored them; 0 where it stored none."""
    name = f"{output}_ptr"
    buffer = next(one for launch in trace.launches for one in launch.buffers if one.name == name)
    found = np.zeros(math.prod(buffer.shape))
    for step in range(trace.steps):
        for access in trace.accesses(step):
            if access.buffer.name == name and access.stored is not None:
                values = np.broadcast_to(_float64(access.stored), access.elements.numpy().shape)
                found[access.indices()] = (values if access.mask is None else values[access.mask.numpy()]).reshape(-1)
    return found


def _factor(state: Mapping[str, Value], lse: NDArray[np.float64]) -> NDArray[np.float64]:
    """How much too large each row of P is: exp(S − L) with the broken L ÷ with the right one."""
    return np.asarray(np.exp(_float64(state["lse"]) - lse[numbers(state["rows"])]), np.float64)


def _float64(value: Value) -> NDArray[np.float64]:
    return numbers(value).astype(np.float64)
