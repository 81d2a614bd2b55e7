"""Cross entropy of a language model's last layer and its gradients, fast and in little memory: a part of the tokens at
a time, as Liger's fused linear cross entropy does it (arXiv 2410.10989).

For each part: X = H Wᵀ by cuBLAS into one buffer; a kernel reads each row of X once for its (m, l) and once more to put
dX = (P − 1 at the target) / count in its place; dH = dX W and dW += dXᵀ H by cuBLAS. So the gradients are ready when
the loss is, and backward has nothing to compute.

Why not one fused kernel, which recomputes X in the backward pass (arXiv 2411.09009)? For 8,192 tokens, V = 128,256 and
d = 4,096 in bf16, a matmul is 2 · 8,192 · 128,256 · 4,096 = 8.6 TFLOP: 12 ms at 700 TFLOP/s. Recomputing X adds one to
three matmuls. Writing X instead moves 2.1 GB six times (cuBLAS writes, the kernel reads twice and writes, two matmuls
read): 12.6 GB, 3 ms at 4.2 TB/s. A fused kernel pays off where it skips most tiles of dX, which depends on the data.

How many tokens? Each part reads and writes all of dW: few parts are fast, one part is eager PyTorch. A part of d / 5
tokens has logits of a fifth of W's bytes, a tenth of W and dW together; a few more fit into L2.

**Columns that cuBLAS likes**: V = 50,257 is odd, and matmuls over it took 16 ms where those over 50,240 took 2.5 (H100,
8,192 tokens, d = 2,048). So a multiple of 64 columns is computed at once, and the last few by themselves.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

from kernels.inputs import IGNORE_INDEX
from kernels.traffic_cross_entropy import ALIGNED, part_of_tokens


@triton.jit
def loss_and_gradient_kernel(
    x_ptr, targets_ptr, inverse_ptr, loss_ptr, lse_ptr, stride_xm, vocab, width,
    IGNORE: tl.constexpr, GRADIENT: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    # One program has one token. The second read of its logits comes from L2. A row is `width` ≥ vocab elements wide, a
    # multiple of 16: loads that end there are vector loads, also where the vocabulary is odd.
    row = tl.program_id(0).to(tl.int64)
    x_ptr += row * stride_xm
    target = tl.load(targets_ptr + row)
    lanes = tl.arange(0, BLOCK_N)
    # a target that is no column of the logits has the weight 0
    x_target = tl.load(x_ptr + target, mask=(target >= 0) & (target < vocab), other=-float("inf")).to(tl.float32)
    m_i = -float("inf")
    l_i = 0.0
    for start in range(0, width, BLOCK_N):
        cols = start + lanes
        x = tl.load(x_ptr + cols, mask=cols < width, other=0.0).to(tl.float32)
        x = tl.where(cols < vocab, x, -float("inf"))
        m_new = tl.maximum(m_i, tl.max(x, axis=0))
        m_safe = tl.where(m_new == -float("inf"), 0.0, m_new)
        l_i = l_i * tl.exp(m_i - m_safe) + tl.sum(tl.exp(x - m_safe), axis=0)
        m_i = m_new
    lse = m_i + tl.log(l_i)
    tl.store(loss_ptr + row, tl.where(target == IGNORE, 0.0, lse - x_target))
    tl.store(lse_ptr + row, lse)
    if GRADIENT:
        scale = tl.load(inverse_ptr)
        tl.debug_barrier()  # every thread has read the target's logit before one writes there
        for start in range(0, width, BLOCK_N):
            cols = start + lanes
            x = tl.load(x_ptr + cols, mask=cols < width, other=0.0).to(tl.float32)
            dx = (tl.exp(x - lse) - tl.where(cols == target, 1.0, 0.0)) * scale
            dx = tl.where(target == IGNORE, 0.0, dx)
            tl.store(x_ptr + cols, dx, mask=cols < width)


@triton.jit
def scale_kernel(x_ptr, factor_ptr, n, BLOCK_N: tl.constexpr):
    # x = x · factor in place. A training step's factor is 1: then nothing is read.
    factor = tl.load(factor_ptr).to(tl.float32)
    if factor != 1.0:
        at = tl.program_id(0).to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)
        x = tl.load(x_ptr + at, mask=at < n)
        tl.store(x_ptr + at, x * factor, mask=at < n)


@torch.no_grad()
def losses_and_gradients(
    h: torch.Tensor,
    w: torch.Tensor,
    targets: torch.Tensor,
    *,
    wants_h: bool = True,
    wants_w: bool = True,
    part: int | None = None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None, torch.Tensor | None]:
    """Losses and logsumexps, each (tokens,) float32, and dH and dW of the mean loss over the tokens that count.

    h is (tokens, dim) and w is (vocab, dim), contiguous, both float32 or both bfloat16; targets is (tokens,) int64. In
    bfloat16 dW is rounded once per part of the tokens. Raises ValueError for others: in float16 P / count would become
    0. `part`: the tokens that are computed at once.
    """
    _check(h, w, targets)
    (tokens, dim), vocab = h.shape, w.shape[0]
    part = part or part_of_tokens(tokens, vocab, dim, h.element_size())
    loss, lse = (torch.empty(tokens, dtype=torch.float32, device=h.device) for _ in range(2))
    inverse = 1.0 / (targets != IGNORE_INDEX).sum().clamp(min=1).float()
    dh = torch.empty_like(h) if wants_h else None
    dw = torch.empty_like(w) if wants_w else None
    # rows a multiple of ALIGNED elements apart: cuBLAS is slow on odd strides. Zeros: on some CPUs a product in bf16
    # reads what was there, and NaN stays
    buffer = torch.zeros(part, -(-vocab // ALIGNED) * ALIGNED, dtype=h.dtype, device=h.device)
    aligned = vocab // ALIGNED * ALIGNED
    columns = [of for of in (slice(0, aligned), slice(aligned, vocab)) if of.start < of.stop]
    for start in range(0, tokens, part):
        rows = slice(start, min(start + part, tokens))
        own = h[rows]
        x = buffer[: len(own), :vocab]
        for of in columns:
            torch.mm(own, w[of].T, out=x[:, of])
        loss_and_gradient_kernel[(len(own),)](
            x, targets[rows], inverse, loss[rows], lse[rows], buffer.stride(0), vocab, buffer.shape[1],
            IGNORE=IGNORE_INDEX, GRADIENT=wants_h or wants_w, BLOCK_N=min(triton.next_power_of_2(vocab), 8192),
            num_warps=16,
        )  # fmt: skip
        for of in columns:
            if dh is not None:
                torch.addmm(dh[rows], x[:, of], w[of], beta=1.0 if of.start else 0.0, out=dh[rows])
            if dw is not None:
                torch.addmm(dw[of], x[:, of].T, own, beta=1.0 if start else 0.0, out=dw[of])
    return loss, lse, dh, dw


def linear_cross_entropy(h: torch.Tensor, w: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """The mean of the losses over the tokens that count, a float32 scalar with gradients for h and w.

    NaN if no token counts, as in PyTorch; the gradients are then 0. h, w and targets: see `losses_and_gradients`.
    """
    return _LinearCrossEntropy.apply(h, w, targets)


class _LinearCrossEntropy(torch.autograd.Function):
    """Computes the gradients with the loss, in one pass over the tokens."""

    @staticmethod
    def forward(ctx: Any, h: torch.Tensor, w: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        wants_h, wants_w = ctx.needs_input_grad[:2]
        loss, _, dh, dw = losses_and_gradients(h, w, targets, wants_h=wants_h, wants_w=wants_w)
        ctx.gradients = dh, dw
        return loss.sum() / (targets != IGNORE_INDEX).sum()

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *upstream: torch.Tensor) -> tuple[torch.Tensor | None, torch.Tensor | None, None]:
        if ctx.gradients is None:
            raise RuntimeError("linear_cross_entropy: backward has run; its gradients were scaled in place")
        dh, dw = ctx.gradients
        ctx.gradients = None
        for gradient in (dh, dw):
            if gradient is not None:
                n = gradient.numel()
                scale_kernel[(triton.cdiv(n, 4096),)](gradient, upstream[0].contiguous(), n, BLOCK_N=4096)
        return dh, dw, None


def _check(h: torch.Tensor, w: torch.Tensor, targets: torch.Tensor) -> None:
    if h.ndim != 2 or w.ndim != 2 or h.shape[1] != w.shape[1] or not (h.is_contiguous() and w.is_contiguous()):
        raise ValueError(
            f"h {tuple(h.shape)} and w {tuple(w.shape)}: must be contiguous (tokens, dim) and (vocab, dim)"
        )
    if h.dtype != w.dtype or h.dtype not in (torch.float32, torch.bfloat16):
        raise ValueError(f"h {h.dtype} and w {w.dtype}: must both be torch.float32 or both torch.bfloat16")
    if targets.shape != h.shape[:1] or targets.dtype != torch.int64 or not targets.is_contiguous():
        raise ValueError(f"targets {tuple(targets.shape)} {targets.dtype}: must be contiguous ({len(h)},) torch.int64")
