"""What is right for a cross entropy: the float64 result, and the tolerance of each element, derived as in `verify`."""

from __future__ import annotations

import numpy as np
import torch
from torch.nn import functional as F

from kernels import reference
from kernels.inputs import IGNORE_INDEX, Arrays
from kernels.parameters import ITEM_BYTES, Values
from kernels.traffic import tiles
from kernels.traffic_cross_entropy import part_of_tokens
from kernels.verify import SMALLEST, UNIT, Expectation


def expected(p: Values, arrays: Arrays, inputs: dict[str, torch.Tensor]) -> Expectation:
    """Losses and logsumexps of logits that stay in float32."""
    return _losses(p, arrays, inputs, stored=False)


def through_logits(p: Values, arrays: Arrays, inputs: dict[str, torch.Tensor]) -> Expectation:
    """Losses and logsumexps of logits that are rounded to the experiment's dtype on their way through HBM."""
    return _losses(p, arrays, inputs, stored=True)


def with_gradients(p: Values, arrays: Arrays, inputs: dict[str, torch.Tensor]) -> Expectation:
    """Losses, logsumexps, and dH and dW of the mean loss, of logits that stay in float32."""
    return _with_gradients(p, arrays, inputs, parts=None)


def in_parts(p: Values, arrays: Arrays, inputs: dict[str, torch.Tensor]) -> Expectation:
    """The same of logits that are rounded, with a dW that is rounded once per part of the tokens."""
    return _with_gradients(
        p,
        arrays,
        inputs,
        parts=tiles(p["tokens"], part_of_tokens(p["tokens"], p["vocab"], p["dim"], ITEM_BYTES[p["dtype"]])),
    )


def _with_gradients(p: Values, arrays: Arrays, inputs: dict[str, torch.Tensor], parts: int | None) -> Expectation:
    """A gradient is a sum of rounded products. P is as wrong as its exponent X − L; dX is rounded to the dtype before
    the matmul, and one that is too small for it becomes 0.
    """
    found = _losses(p, arrays, inputs, stored=parts is not None)
    h, w = (arrays[name].astype(np.float64) for name in "hw")
    sizes = {"h": np.abs(_finite(h)), "w": np.abs(_finite(w))}
    with np.errstate(invalid="ignore", over="ignore"):
        x = h @ w.T
        lse, lse_allowed = (np.nan_to_num(one)[:, None] for one in found["lse"])
        dx = reference.cross_entropy_gradient(x, arrays["targets"])
        size = np.abs(np.nan_to_num(dx))
        counted = (arrays["targets"] != IGNORE_INDEX)[:, None] / max((arrays["targets"] != IGNORE_INDEX).sum(), 1)
        weight = counted * np.nan_to_num(reference.softmax(x))
        exponent = _in_logits(p, sizes) + lse_allowed + UNIT["fp32"] * (8 + 2 * np.abs(lse) + np.abs(_finite(x)))
        if parts is not None:
            exponent = np.expm1(np.minimum(exponent + UNIT[p["dtype"]] * np.abs(_finite(x)), 700.0))
        by_eager = _eager_gradients(inputs)
        for name, exact, wrong, other, steps in (
            ("dh", dx @ w, lambda d: d @ sizes["w"], "w", p["vocab"]),
            ("dw", dx.T @ h, lambda d: d.T @ sizes["h"], "h", p["tokens"]),
        ):
            in_sums = UNIT["fp32"] * (8 + _added(p, steps))
            roundings = 1 + (parts or 0 if name == "dw" else 0)
            band = wrong(weight * exponent) + (in_sums + roundings * UNIT[p["dtype"]]) * wrong(size)
            lost = SMALLEST[p["dtype"]] * (1 + sizes[other].sum(axis=0))
            eager = np.abs(_finite(by_eager[name] - exact)).max(axis=-1, keepdims=True)
            found[name] = exact, 2 * eager + band + lost + UNIT[p["dtype"]] * np.abs(_finite(exact))
    return found


def _losses(p: Values, arrays: Arrays, inputs: dict[str, torch.Tensor], stored: bool) -> Expectation:
    """Eager PyTorch computes the logits in float32, or in the dtype if they are `stored`.

    The largest error of a logit is the largest error of L: L moves at most as far as the logit that moves most.
    """
    targets = arrays["targets"]
    h, w = (arrays[name].astype(np.float64) for name in "hw")
    with np.errstate(invalid="ignore", over="ignore"):
        x = h @ w.T
        loss, lse = reference.cross_entropy(x, targets)
        sizes = {"h": np.abs(_finite(h)), "w": np.abs(_finite(w))}
        in_logits = _in_logits(p, sizes)[:, 0]
        if stored:
            in_logits = in_logits + UNIT[p["dtype"]] * np.abs(_finite(x)).max(axis=1)
        in_sums = UNIT["fp32"] * (8 + _added(p, p["vocab"]))
        one, other = inputs["h"], inputs["w"]
        logits = F.linear(one, other).float() if stored else F.linear(one.float(), other.float())
        by_eager = {
            "loss": F.cross_entropy(logits, inputs["targets"], reduction="none"),
            "lse": torch.logsumexp(logits, dim=1),
        }
        found = {}
        for name, exact, roundings in (("loss", loss, 2), ("lse", lse, 1)):
            eager = np.abs(_finite(_float64(by_eager[name]) - exact)).max(initial=0.0)
            rounded = UNIT["fp32"] * (2 * np.abs(_finite(lse)) + np.abs(_finite(exact)))
            found[name] = exact, 2 * eager + roundings * in_logits + in_sums + rounded
    return found


def _added(p: Values, terms: int) -> float:
    """The roundings of a sum: a tile's terms 8 at a time, then tile by tile; without tiles one by one."""
    block = p.get("block_n", 1)
    return (4 + block / 8) * tiles(terms, block)


def _in_logits(p: Values, sizes: dict[str, np.ndarray]) -> np.ndarray:
    """The error of a row's logits, (tokens, 1): tensor cores add 16 products at a time and truncate."""
    largest = (sizes["h"] @ sizes["w"].T).max(axis=1, keepdims=True)
    return np.asarray(UNIT["fp32"] * (4 + p["dim"] / 8) * largest)


def _eager_gradients(inputs: dict[str, torch.Tensor]) -> dict[str, np.ndarray]:
    """dH and dW by PyTorch's autograd, each step in the tensors' dtype, the loss in float32."""
    with torch.enable_grad():
        h, w = (inputs[name].detach().clone().requires_grad_() for name in "hw")
        losses = F.cross_entropy(F.linear(h, w).float(), inputs["targets"], reduction="sum")
        (losses / (inputs["targets"] != IGNORE_INDEX).sum().clamp(min=1)).backward()
    assert h.grad is not None
    assert w.grad is not None
    return {"dh": _float64(h.grad), "dw": _float64(w.grad)}


def _finite(array: np.ndarray) -> np.ndarray:
    return np.where(np.isfinite(array), array, 0.0)


def _float64(tensor: torch.Tensor) -> np.ndarray:
    return np.asarray(tensor.detach().to("cpu", torch.float64).numpy())
