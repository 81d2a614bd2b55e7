"""Whether a result is right: its error against float64, element by element, must be within a tolerance.

The tolerance is twice the error of eager PyTorch for the same formula, inputs and dtype, plus a band for rounding.
The band is derived, not tuned: one rounding of the result, one of each stored intermediate, and float32 rounding in
the exponent and the sum.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from kernels import reference
from kernels.catalog import Kernel
from kernels.inputs import Arrays
from kernels.launch import named, tensors
from kernels.parameters import Values
from kernels.traffic import tiles

UNIT = {"fp32": 2.0**-24, "fp16": 2.0**-11, "bf16": 2.0**-8}
"""The largest relative error of one rounding: half the distance from 1 to the next number."""
SMALLEST = {"fp32": 2.0**-126, "fp16": 2.0**-24, "bf16": 2.0**-126}
"""Smaller results may become 0: fp16 has steps of this size, and a GPU's exp2 gives no subnormal float32."""


@dataclass(frozen=True)
class Verdict:
    """The element with the largest error ÷ tolerance: its |result − float64| and its tolerance."""

    error: float
    tolerance: float
    output: str
    index: tuple[int, ...]
    bites: bool
    """Whether a kernel that writes only zeros would exceed the tolerance of its main output."""

    @property
    def within_tolerance(self) -> bool:
        """False for NaN: a comparison with NaN is never true."""
        return self.error <= self.tolerance

    @property
    def ratio(self) -> float:
        """error ÷ tolerance; at most 1 passes. inf if the error is not finite."""
        if not math.isfinite(self.error):
            return math.inf
        return self.error / self.tolerance if self.tolerance else (math.inf if self.error else 0.0)


def verify(
    kernel: Kernel, p: Values, arrays: Arrays, outputs: dict[str, torch.Tensor], diagonal: int | None = None
) -> Verdict:
    """Compares a kernel's outputs (on any device) with float64; returns the verdict on the worst element.

    `arrays` are the kernel's inputs as float32, with exactly its values. Eager PyTorch runs on the outputs' device.
    `diagonal` is attention's, if it is not the default of these sizes.
    """
    inputs = tensors(p, arrays, str(next(iter(outputs.values())).device))
    return judged(expectations_of(kernel, p, arrays, inputs, diagonal), outputs)


def judged(expectations: Expectation, outputs: dict[str, torch.Tensor]) -> Verdict:
    """The verdict on the worst element of the outputs, beside what is right."""
    verdicts = [
        _worst(name, _float64(outputs[name]), expected, allowed)
        for name, (expected, allowed) in expectations.items()
        if name in outputs
    ]
    worst = max(verdicts, key=lambda verdict: verdict.ratio)
    return replace(worst, bites=verdicts[0].bites)


Expectation = dict[str, tuple[np.ndarray, np.ndarray]]
"""By output: the float64 reference and the tolerance of each element."""


def expectations_of(
    kernel: Kernel, p: Values, arrays: Arrays, inputs: dict[str, torch.Tensor], diagonal: int | None
) -> Expectation:
    """What is right for these inputs: by the kernel's own specification if it has one, else by its family's."""
    if kernel.expected:
        expect: Callable[[Values, Arrays, dict[str, torch.Tensor]], Expectation] = named(kernel.expected)
        return expect(p, arrays, inputs)
    if kernel.family == "softmax":
        return {"y": weights(p, reference.softmax(arrays["x"]), torch.softmax(inputs["x"], dim=-1))}
    return attention(p, arrays, inputs, diagonal, stores_scores=kernel.stores_scores)


def weights(p: Values, expected: np.ndarray, by_torch: torch.Tensor) -> tuple[np.ndarray, np.ndarray]:
    """The softmax weights (rows, cols) and the tolerance of each. It is relative, so small weights count too.

    `expected` is the float64 reference; `by_torch` is eager PyTorch's result in the experiment's dtype.
    """
    eager = _float64(by_torch)
    n = tiles(p["cols"], p.get("block_n", 1))  # without tiles a kernel may add one by one
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        relative = np.where(expected > SMALLEST[p["dtype"]], np.abs(eager - expected) / expected, 0.0)
        exponent = np.abs(np.log(np.maximum(expected, 1e-300))) + math.log(p["cols"])  # |x − m|, which float32 rounds
        band = UNIT[p["dtype"]] + UNIT["fp32"] * (8 + 4 * n + 2 * exponent)
        allowed = expected * (2 * _row_max(relative) + band) + SMALLEST[p["dtype"]]
    return expected, allowed


def kept(p: Values, arrays: Arrays, inputs: dict[str, torch.Tensor]) -> Expectation:
    """What is right for softmax_topk: the k largest weights and their columns, each (rows, k)."""
    _, allowed = weights(p, reference.softmax(arrays["x"]), torch.softmax(inputs["x"], dim=-1))
    largest, index = reference.softmax_topk(arrays["x"], p["k"])
    allowed_largest = np.where(index < 0, SMALLEST[p["dtype"]], np.take_along_axis(allowed, index, axis=-1))
    # Inputs are exact and ties go to the left, so only one list of columns is right.
    return {"y": (largest, allowed_largest), "index": (index, np.zeros(index.shape))}


def kept_of_weights(p: Values, arrays: Arrays, inputs: dict[str, torch.Tensor]) -> Expectation:
    """What is right if the k largest are chosen among stored, rounded weights.

    As `kept`, but weights that rounding may reorder, or make 0, may be listed in any order.
    """
    ranked, columns = reference.softmax_topk(arrays["x"], p["cols"])
    _, allowed = weights(p, reference.softmax(arrays["x"]), torch.softmax(inputs["x"], dim=-1))
    allowed = np.where(columns < 0, SMALLEST[p["dtype"]], np.take_along_axis(allowed, columns, axis=-1))
    apart = ranked[:, :-1] - ranked[:, 1:] > allowed[:, :-1] + allowed[:, 1:]
    edge = np.ones((len(ranked), 1), bool)
    certain = np.hstack([edge, apart]) & np.hstack([apart, edge]) & (ranked > allowed)
    certain_or_past = _first(p["k"], certain, True)  # past the row's end a place stays empty
    free = float(p["cols"] + 1)  # larger than any distance of two columns
    return {
        "y": (_first(p["k"], ranked, 0.0), _first(p["k"], allowed, 0.0)),
        "index": (_first(p["k"], columns, -1), np.where(certain_or_past, 0.0, free)),
    }


def gradients(
    inputs: Sequence[torch.Tensor],
    exact: Sequence[torch.Tensor],
    by_torch: Sequence[torch.Tensor],
    through_d: Sequence[torch.Tensor],
) -> list[torch.Tensor]:
    """The tolerance of each element of dQ, dK and dV, for attention's q, k, v and dO with any leading axes.

    A row of a gradient is a sum of many rounded products, so each row has one tolerance: twice eager PyTorch's
    largest error in the row, 8 roundings of the row's largest element, and float32 roundings of the largest summand:
    64, or those of the exponent if they are more, since they become P's: 4 + head_dim / 8 per unit of the largest one,
    as in `attention`. D is subtracted from dP; neither exceeds |dO| |V|. D is computed from the stored, rounded O:
    `through_d` is what the gradients would be with |dO| |O| for dP − D and every term by its absolute value.
    """
    q, k, v, do = (tensor.double() for tensor in inputs)
    scale = q.shape[-1] ** -0.5
    subtracted = scale * do.norm(dim=-1).max() * v.norm(dim=-1).max()
    added = (subtracted * k.abs().max(), subtracted * q.abs().max(), do.abs().max())
    exponent = float(scale * q.norm(dim=-1).max() * k.norm(dim=-1).max())
    roundings = max(64.0, (4 + q.shape[-1] / 8) * exponent)
    unit = torch.finfo(inputs[0].dtype).eps / 2
    allowed = []
    for right, theirs, largest, stored in zip(exact, by_torch, added, through_d, strict=True):
        by_eager = (theirs.double() - right).abs().amax(-1, keepdim=True)
        rounded = 8 * right.abs().amax(-1, keepdim=True) + stored
        in_float32 = roundings * UNIT["fp32"] * torch.maximum(largest, right.abs().max())
        allowed.append(2 * by_eager + unit * rounded + in_float32)
    return allowed


def _first(k: int, rows: np.ndarray, empty: float) -> np.ndarray:
    """The first k of each row, filled up with `empty`."""
    return np.pad(rows[:, :k], ((0, 0), (0, max(0, k - rows.shape[1]))), constant_values=empty)


def attention(
    p: Values,
    arrays: Arrays,
    inputs: dict[str, torch.Tensor],
    diagonal: int | None,
    *,
    stores_scores: bool = False,
    parts: int = 0,
) -> Expectation:
    """What is right for O and lse of attention's q, k and v, under the causal mask of this diagonal.

    `stores_scores`: S is rounded to the dtype. `parts`: how many parts of the keys are merged by their lse.
    """
    q, k, v = (arrays[name] for name in "qkv")
    diagonal = k.shape[2] - q.shape[2] if diagonal is None else diagonal
    block_n = p.get("block_n", 1)  # without tiles a kernel may add one by one
    mask = {"causal": p["causal"], "diagonal": diagonal}
    expected, lse = reference.attention(q, k, v, **mask)
    eager, eager_lse = _eager_attention(inputs["q"], inputs["k"], inputs["v"], **mask)
    with np.errstate(invalid="ignore"):
        magnitude, spread = reference.attention_magnitudes(q, k, v, **mask)
        scores = _largest_scores(_finite(q), _finite(k)) * p["head_dim"] ** -0.5
        # Tensor cores add 16 products at a time and truncate: up to 2 units per step.
        in_scores = UNIT["fp32"] * (4 + p["head_dim"] / 8) * scores
        in_sums = np.full(scores.shape, UNIT["fp32"] * (8 + (4 + block_n / 8) * tiles(p["kv_len"], block_n)))
        if parts:
            # A part's weight exp(lse − m): |lse| ≤ the largest score + ln kv_len is rounded when it is made and when m
            # is subtracted, in numerator and denominator. Then each merge rounds as a tile does.
            largest_lse = scores + np.log(p["kv_len"])
            in_sums = in_sums + UNIT["fp32"] * (8 + 4 * parts + 4 * largest_lse)
        # Each P is rounded once before P V, independently, by at most a unit: 4 is 7 standard deviations.
        rounded = UNIT[p["dtype"]] * (2 * np.abs(np.nan_to_num(expected)) + 4 * spread)
        if stores_scores:
            stored = UNIT[p["dtype"]] * scores  # the same for S; above 0.1 exp is no longer nearly linear
            rounded = rounded + stored * np.where(
                stored < 0.1, 2 * np.abs(np.nan_to_num(expected)) + 4 * spread, 2 * magnitude
            )
        band = rounded + magnitude * (in_sums + 2 * in_scores)
        allowed = 2 * _row_max(np.abs(eager - expected)) + band + SMALLEST[p["dtype"]]
        worst_lse = np.nan_to_num(np.abs(eager_lse - lse), nan=0.0, posinf=0.0).max(initial=0.0)
        allowed_lse = 2 * worst_lse + in_scores[..., 0] + in_sums[..., 0] + 2 * UNIT["fp32"] * np.abs(lse)
    return {"o": (expected, allowed), "lse": (lse, allowed_lse)}


def _finite(array: np.ndarray) -> np.ndarray:
    return np.where(np.isfinite(array), np.abs(array), 0.0)


def _largest_scores(q: np.ndarray, k: np.ndarray) -> np.ndarray:
    """The largest Σ |q| |k| of each row, (batch, heads, seq_len, 1): the rounding of a score is relative to it."""
    largest = np.empty((*q.shape[:3], 1))
    group = q.shape[1] // k.shape[1]
    for batch, head, rows in reference.row_chunks(q.shape):
        scores = q[batch, head, rows] @ k[batch, head // group].T
        largest[batch, head, rows] = scores.max(axis=-1, keepdims=True)
    return largest


def _eager_attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool, diagonal: int
) -> tuple[np.ndarray, np.ndarray]:
    """Attention in eager PyTorch, every step in the tensors' dtype; a chunk of rows at a time."""
    o, lse = np.empty(q.shape), np.empty(q.shape[:3])
    group = q.shape[1] // k.shape[1]
    for at in reference.row_chunks(q.shape):
        batch, head, rows = at
        s = q[at] @ k[batch, head // group].T * q.shape[-1] ** -0.5
        if causal:
            seen = torch.ones(s.shape, dtype=torch.bool, device=s.device).tril(diagonal + rows.start)
            s = s.masked_fill(~seen, -math.inf)
        o[at] = _float64(torch.softmax(s, dim=-1) @ v[batch, head // group])
        lse[at] = _float64(torch.logsumexp(s.float(), dim=-1))
    return o, lse


def _worst(output: str, result: np.ndarray, expected: np.ndarray, allowed: np.ndarray) -> Verdict:
    with np.errstate(invalid="ignore", divide="ignore"):
        same = (result == expected) | (np.isnan(result) & np.isnan(expected))  # NaN and ±inf must agree
        error = np.where(same, 0.0, np.abs(result - expected))
        ratio = np.where(same, 0.0, np.where(np.isfinite(error), error / allowed, np.inf))
        ratio = np.where(np.isnan(ratio), np.inf, ratio)
    index = np.unravel_index(int(np.argmax(ratio)), ratio.shape)
    tolerance = allowed[index] if np.isfinite(allowed[index]) else 0.0
    bites = bool((~(np.abs(expected) <= allowed)).any())
    return Verdict(float(error[index]), float(tolerance), output, tuple(int(i) for i in index), bites)


def _row_max(errors: np.ndarray) -> np.ndarray:
    """The largest finite entry of each row. Where eager PyTorch has no finite result it adds no tolerance."""
    return np.where(np.isfinite(errors), errors, 0.0).max(axis=-1, keepdims=True)


def _float64(tensor: torch.Tensor) -> np.ndarray:
    return tensor.detach().to("cpu", torch.float64).numpy()
