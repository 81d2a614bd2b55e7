"""What is right for attention's gradients, in float64, and what a forward pass leaves for a backward pass.

A hidden key never contributes, whatever its value. A query that sees no key has P = 0. Where a key is visible, IEEE
arithmetic decides: 0 · NaN and 0 · inf are NaN.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import torch

from kernels import verify
from kernels.inputs import Arrays
from kernels.parameters import Values
from kernels.reference import row_chunks

Tensors = Mapping[str, torch.Tensor]


def flash_forward(p: Values, inputs: Tensors) -> dict[str, torch.Tensor]:
    """o of the inputs' dtype and lse float32 (batch, heads, seq_len), as an exact forward pass leaves them.

    It asks for no value, so it also runs on tensors that have none. An infinite V that is seen gives NaN.
    """
    q = inputs["q"]
    o, lse = torch.empty_like(q), torch.empty(q.shape[:3], dtype=torch.float32, device=q.device)
    for at, _, v, weights, hidden, lse_rows in _pieces(p, inputs):
        seen = torch.where(hidden, 0.0, weights)
        lost = torch.where(hidden, 0.0, 1.0).double() @ torch.where(v.isfinite(), 0.0, 1.0).double() > 0
        o[at] = torch.where(lost, math.nan, seen @ torch.where(v.isfinite(), v, 0.0)).to(o.dtype)
        lse[at] = lse_rows.float()
    return {"o": o, "lse": lse}


def standard_forward(p: Values, inputs: Tensors) -> dict[str, torch.Tensor]:
    """p (batch, heads, seq_len, kv_len) of the inputs' dtype, as an exact forward pass keeps it."""
    q, k = inputs["q"], inputs["k"]
    kept = torch.empty((*q.shape[:3], k.shape[2]), dtype=q.dtype, device=q.device)
    for at, _, _, weights, hidden, _ in _pieces(p, inputs):
        kept[at] = torch.where(hidden, 0.0, weights).to(q.dtype)
    return {"p": kept}


def expected(p: Values, arrays: Arrays, inputs: dict[str, torch.Tensor]) -> verify.Expectation:
    """dQ, dK and dV in float64, and the tolerance of `verify.gradients`.

    P, dP, dS and O are rounded on their way, each term of a sum by at most a unit: the sums of their terms' absolute
    values say by how much. Eager PyTorch's gradients are those of autograd, in the inputs' dtype.
    """
    q, k, v, do = given = [inputs[name] for name in ("q", "k", "v", "do")]
    exact = {name: torch.zeros(x.shape, dtype=torch.float64, device=x.device) for name, x in _like(q, k).items()}
    eager = {name: torch.zeros_like(x) for name, x in exact.items()}
    terms = {name: torch.zeros_like(x) for name, x in exact.items()}
    scale, group = q.shape[3] ** -0.5, q.shape[1] // k.shape[1]
    for at, k_h, v_h, seen_or_nan, hidden, _ in _pieces(p, inputs):
        key_head = (at[0], at[1] // group)
        q_i, do_i = q[at].double(), do[at].double()
        dp = torch.where(hidden, 0.0, do_i @ v_h.mT)
        weights = torch.where(hidden, 0.0, seen_or_nan)  # a row with a NaN is NaN where it sees
        delta = (weights * dp).sum(-1, keepdim=True)
        ds = torch.where(hidden, 0.0, weights * (dp - delta) * scale)
        exact["dq"][at] = _sum_of(ds, k_h, hidden)
        exact["dk"][key_head] += _sum_of(ds.mT, q_i, hidden.mT)
        exact["dv"][key_head] += _sum_of(weights.mT, do_i, hidden.mT)
        in_eager = _autograd(q[at], k[key_head], v[key_head], do[at], hidden)
        eager["dq"][at] = in_eager[0]
        eager["dk"][key_head] += in_eager[1]
        eager["dv"][key_head] += in_eager[2]
        o_i = _sum_of(weights, v_h, hidden)
        rounded = _size(weights) * scale * (_size(dp) + (_size(do_i) * _size(o_i)).sum(-1, keepdim=True))
        terms["dq"][at] = rounded @ _size(k_h)
        terms["dk"][key_head] += rounded.mT @ _size(q_i)
        terms["dv"][key_head] += _size(weights).mT @ _size(do_i)
    finite = {name: torch.where(right.isfinite(), right, 0.0) for name, right in exact.items()}
    by_torch = [torch.where(eager[name].isfinite(), eager[name], right) for name, right in finite.items()]
    by_torch = [torch.where(exact[name].isfinite(), one, 0.0) for name, one in zip(finite, by_torch, strict=True)]
    sane = [torch.where(one.isfinite(), one, 0.0) for one in given]
    allowed = verify.gradients(sane, [*finite.values()], by_torch, [*terms.values()])
    named = zip(exact.items(), allowed, strict=True)
    smallest = verify.SMALLEST[p["dtype"]]
    return {
        name: (right.cpu().numpy(), (most + smallest).expand_as(right).cpu().numpy()) for (name, right), most in named
    }


def _like(q: torch.Tensor, k: torch.Tensor) -> dict[str, torch.Tensor]:
    return {"dq": q, "dk": k, "dv": k}


_Piece = tuple[tuple[int, int, slice], torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]


def _pieces(p: Values, inputs: Tensors) -> Iterator[_Piece]:
    """For each chunk of rows: its place, its head's K and V, its weights, its hidden keys (bool), its lse; float64."""
    q, k, v = (inputs[name] for name in "qkv")
    group, diagonal = q.shape[1] // k.shape[1], k.shape[2] - q.shape[2]
    for at in row_chunks(q.shape):
        batch, head, rows = at
        k_h, v_h = k[batch, head // group].double(), v[batch, head // group].double()
        s = q[at].double() @ k_h.mT * q.shape[3] ** -0.5
        hidden = torch.zeros(s.shape, dtype=torch.bool, device=s.device)
        if p.get("causal"):
            hidden = ~torch.ones_like(hidden).tril(diagonal + rows.start)
        s = torch.where(hidden, -math.inf, s)
        m = s.amax(-1, keepdim=True)
        weights = torch.exp(s - torch.where(m == -math.inf, 0.0, m))
        total = weights.sum(-1, keepdim=True)
        yield at, k_h, v_h, weights / torch.where(total == 0.0, 1.0, total), hidden, (m + torch.log(total))[:, 0]


def _sum_of(weights: torch.Tensor, x: torch.Tensor, hidden: torch.Tensor, one_a_row: bool = False) -> torch.Tensor:
    """weights @ x, or with `one_a_row` Σ weights · x of each row; what is hidden does not count, not even a NaN."""
    if one_a_row:
        return torch.where(hidden, 0.0, weights * x).sum(-1, keepdim=True)
    if bool(weights.isfinite().all()) and bool(x.isfinite().all()):
        return torch.where(hidden, 0.0, weights) @ x
    return torch.where(hidden[:, :, None], 0.0, weights[:, :, None] * x).sum(1)


def _autograd(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, do: torch.Tensor, hidden: torch.Tensor
) -> tuple[torch.Tensor, ...]:
    """dQ, dK and dV of one head in eager PyTorch; a query that sees no key has none."""
    q, k, v = leaves = [tensor.detach().clone().requires_grad_() for tensor in (q, k, v)]
    with torch.enable_grad():
        s = torch.where(hidden, -math.inf, q @ k.mT * q.shape[1] ** -0.5)
        p = torch.softmax(s, dim=-1).masked_fill(hidden.all(-1, keepdim=True), 0.0)
        return torch.autograd.grad(p @ v, leaves, do)


def _size(x: torch.Tensor) -> torch.Tensor:
    """|x|, 0 where it is not finite."""
    return torch.where(x.isfinite(), x.abs(), 0.0)
