"""Cross entropy of a language model's last layer: logits X = H Wᵀ, loss[t] = logsumexp(X[t]) − X[t, target of t].

`cross_entropy_standard`   two launches; X, tokens × vocabulary elements, goes through HBM
`cross_entropy_fused`      one launch; each tile of X is used where it is computed: m, l and the target's logit stay
`cross_entropy_backward`   the fused launch, then dH and dW; P = exp(X − L) is recomputed, tile by tile

h is (tokens, dim), w is (vocab, dim), targets is contiguous (tokens,) int64. Any strides of h and w; float32, float16,
bfloat16; maxima, sums and losses are float32. A token with the target IGNORE_INDEX has loss 0 and no gradient. A target
that is no row of W has no logit: its loss is inf. A token with only logits of −inf has loss NaN, as in PyTorch. A NaN
in a row of H reaches its token's loss and dH if the token counts, and all of dW, where 0 · NaN is NaN.
Offsets are 64-bit: a tensor may have more than 2³¹ elements.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kernels.inputs import IGNORE_INDEX


@triton.jit
def logits_kernel(
    h_ptr, w_ptr, x_ptr, stride_hm, stride_hd, stride_wn, stride_wd, tokens, vocab, dim,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    # One program computes one tile of X, a contiguous matrix in HBM.
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M).to(tl.int64)
    cols = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N).to(tl.int64)
    # X_ij = H_i W_jᵀ                                                               (BLOCK_M, BLOCK_N)
    x = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start_d in range(0, dim, BLOCK_D):
        dims = start_d + tl.arange(0, BLOCK_D).to(tl.int64)
        inside_h = (rows < tokens)[:, None] & (dims < dim)[None, :]
        inside_w = (cols < vocab)[:, None] & (dims < dim)[None, :]
        h = tl.load(h_ptr + rows[:, None] * stride_hm + dims[None, :] * stride_hd, mask=inside_h, other=0.0)
        w = tl.load(w_ptr + cols[:, None] * stride_wn + dims[None, :] * stride_wd, mask=inside_w, other=0.0)
        x = x + tl.dot(h, tl.trans(w), input_precision="ieee")
    inside = (rows < tokens)[:, None] & (cols < vocab)[None, :]
    tl.store(x_ptr + rows[:, None] * vocab + cols[None, :], x, mask=inside)


@triton.jit
def loss_of_logits_kernel(
    x_ptr, targets_ptr, loss_ptr, lse_ptr, tokens, vocab,
    IGNORE: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    # One program reads the logits of one tile of tokens, once.
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M).to(tl.int64)
    target = tl.load(targets_ptr + rows, mask=rows < tokens, other=IGNORE)
    m_i = tl.full((BLOCK_M,), -float("inf"), tl.float32)
    l_i = tl.zeros((BLOCK_M,), tl.float32)
    x_target = tl.full((BLOCK_M,), -float("inf"), tl.float32)
    for start in range(0, vocab, BLOCK_N):
        cols = start + tl.arange(0, BLOCK_N).to(tl.int64)
        inside = (rows < tokens)[:, None] & (cols < vocab)[None, :]
        x = tl.load(x_ptr + rows[:, None] * vocab + cols[None, :], mask=inside, other=-float("inf")).to(tl.float32)
        # x_t: the target's logit, if its column is in this tile                    (BLOCK_M,)
        here = tl.where(cols[None, :] == target[:, None], x, -float("inf"))
        x_target = tl.maximum(x_target, tl.max(here, axis=1))
        # m_new = max(m, rowmax X_ij)                                               (BLOCK_M,)
        m_new = tl.maximum(m_i, tl.max(x, axis=1))
        m_safe = tl.where(m_new == -float("inf"), 0.0, m_new)  # no finite logit yet: −inf − −inf would be NaN
        # α = exp(m − m_new) ≤ 1                                                    (BLOCK_M,)
        alpha = tl.exp(m_i - m_safe)
        # P̃ = exp(X_ij − m_new)                                                     (BLOCK_M, BLOCK_N)
        p = tl.exp(x - m_safe[:, None])
        # l = α l + rowsum P̃                                                        (BLOCK_M,)
        l_i = l_i * alpha + tl.sum(p, axis=1)
        m_i = m_new
    # L = m + ln l, the logsumexp of all logits                                     (BLOCK_M,)
    lse = m_i + tl.log(l_i)
    # loss = L − x_t; 0 for a token that does not count                             (BLOCK_M,)
    loss = tl.where(target == IGNORE, 0.0, lse - x_target)
    tl.store(loss_ptr + rows, loss, mask=rows < tokens)
    tl.store(lse_ptr + rows, lse, mask=rows < tokens)


@triton.jit
def cross_entropy_fused_kernel(
    h_ptr, w_ptr, targets_ptr, loss_ptr, lse_ptr, stride_hm, stride_hd, stride_wn, stride_wd, tokens, vocab, dim,
    IGNORE: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    # One program computes the losses of one tile of tokens. It sees every logit and stores none.
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M).to(tl.int64)
    target = tl.load(targets_ptr + rows, mask=rows < tokens, other=IGNORE)
    m_i = tl.full((BLOCK_M,), -float("inf"), tl.float32)
    l_i = tl.zeros((BLOCK_M,), tl.float32)
    x_target = tl.full((BLOCK_M,), -float("inf"), tl.float32)
    for start in range(0, vocab, BLOCK_N):
        cols = start + tl.arange(0, BLOCK_N).to(tl.int64)
        # X_ij = H_i W_jᵀ, a part of the dimensions at a time                       (BLOCK_M, BLOCK_N)
        x = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
        for start_d in range(0, dim, BLOCK_D):
            dims = start_d + tl.arange(0, BLOCK_D).to(tl.int64)
            inside_h = (rows < tokens)[:, None] & (dims < dim)[None, :]
            inside_w = (cols < vocab)[:, None] & (dims < dim)[None, :]
            h = tl.load(h_ptr + rows[:, None] * stride_hm + dims[None, :] * stride_hd, mask=inside_h, other=0.0)
            w = tl.load(w_ptr + cols[:, None] * stride_wn + dims[None, :] * stride_wd, mask=inside_w, other=0.0)
            x = x + tl.dot(h, tl.trans(w), input_precision="ieee")
        x = tl.where((cols < vocab)[None, :], x, -float("inf"))
        # x_t: the target's logit, if its column is in this tile                    (BLOCK_M,)
        here = tl.where(cols[None, :] == target[:, None], x, -float("inf"))
        x_target = tl.maximum(x_target, tl.max(here, axis=1))
        # m_new = max(m, rowmax X_ij)                                               (BLOCK_M,)
        m_new = tl.maximum(m_i, tl.max(x, axis=1))
        m_safe = tl.where(m_new == -float("inf"), 0.0, m_new)  # no finite logit yet: −inf − −inf would be NaN
        # α = exp(m − m_new) ≤ 1                                                    (BLOCK_M,)
        alpha = tl.exp(m_i - m_safe)
        # P̃ = exp(X_ij − m_new)                                                     (BLOCK_M, BLOCK_N)
        p = tl.exp(x - m_safe[:, None])
        # l = α l + rowsum P̃                                                        (BLOCK_M,)
        l_i = l_i * alpha + tl.sum(p, axis=1)
        m_i = m_new
    # L = m + ln l, the logsumexp of all logits                                     (BLOCK_M,)
    lse = m_i + tl.log(l_i)
    # loss = L − x_t; 0 for a token that does not count                             (BLOCK_M,)
    loss = tl.where(target == IGNORE, 0.0, lse - x_target)
    tl.store(loss_ptr + rows, loss, mask=rows < tokens)
    tl.store(lse_ptr + rows, lse, mask=rows < tokens)


@triton.jit
def cross_entropy_dh_kernel(
    h_ptr, w_ptr, targets_ptr, lse_ptr, dloss_ptr, dh_ptr, stride_hm, stride_hd, stride_wn, stride_wd,
    tokens, vocab, dim, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    # One program holds one tile of tokens and computes its dH. One tile spans all dimensions.
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M).to(tl.int64)
    dims = tl.arange(0, BLOCK_D).to(tl.int64)
    inside_h = (rows < tokens)[:, None] & (dims < dim)[None, :]
    h = tl.load(h_ptr + rows[:, None] * stride_hm + dims[None, :] * stride_hd, mask=inside_h, other=0.0)
    target = tl.load(targets_ptr + rows, mask=rows < tokens, other=0)
    lse = tl.load(lse_ptr + rows, mask=rows < tokens, other=0.0)
    dloss = tl.load(dloss_ptr + rows, mask=rows < tokens, other=0.0)
    dh = tl.zeros((BLOCK_M, BLOCK_D), tl.float32)
    for start in range(0, vocab, BLOCK_N):
        cols = start + tl.arange(0, BLOCK_N).to(tl.int64)
        inside_w = (cols < vocab)[:, None] & (dims < dim)[None, :]
        w = tl.load(w_ptr + cols[:, None] * stride_wn + dims[None, :] * stride_wd, mask=inside_w, other=0.0)
        # X_ij = H_i W_jᵀ, again                                                    (BLOCK_M, BLOCK_N)
        x = tl.dot(h, tl.trans(w), input_precision="ieee")
        x = tl.where((cols < vocab)[None, :], x, -float("inf"))
        # P = exp(X_ij − L): the weights at once, from one number per token         (BLOCK_M, BLOCK_N)
        p = tl.exp(x - lse[:, None])
        # dX = (P − 1 at the target) · dloss                                        (BLOCK_M, BLOCK_N)
        dx = (p - tl.where(cols[None, :] == target[:, None], 1.0, 0.0)) * dloss[:, None]
        dx = tl.where(dloss[:, None] == 0.0, 0.0, dx)  # a token that does not count: 0 · NaN would be NaN
        # dH = dH + dX W_j                                                          (BLOCK_M, BLOCK_D)
        dh = dh + tl.dot(dx.to(w.dtype), w, input_precision="ieee")
    tl.store(dh_ptr + rows[:, None] * dim + dims[None, :], dh, mask=inside_h)


@triton.jit
def cross_entropy_dw_kernel(
    h_ptr, w_ptr, targets_ptr, lse_ptr, dloss_ptr, dw_ptr, stride_hm, stride_hd, stride_wn, stride_wd,
    tokens, vocab, dim, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    # One program holds one tile of the vocabulary and computes its dW. One tile spans all dimensions.
    cols = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N).to(tl.int64)
    dims = tl.arange(0, BLOCK_D).to(tl.int64)
    inside_w = (cols < vocab)[:, None] & (dims < dim)[None, :]
    w = tl.load(w_ptr + cols[:, None] * stride_wn + dims[None, :] * stride_wd, mask=inside_w, other=0.0)
    dw = tl.zeros((BLOCK_N, BLOCK_D), tl.float32)
    for start in range(0, tokens, BLOCK_M):
        rows = start + tl.arange(0, BLOCK_M).to(tl.int64)
        inside_h = (rows < tokens)[:, None] & (dims < dim)[None, :]
        h = tl.load(h_ptr + rows[:, None] * stride_hm + dims[None, :] * stride_hd, mask=inside_h, other=0.0)
        target = tl.load(targets_ptr + rows, mask=rows < tokens, other=0)
        lse = tl.load(lse_ptr + rows, mask=rows < tokens, other=0.0)
        dloss = tl.load(dloss_ptr + rows, mask=rows < tokens, other=0.0)
        # X_ij = H_i W_jᵀ, once more: the launch before kept none                   (BLOCK_M, BLOCK_N)
        x = tl.dot(h, tl.trans(w), input_precision="ieee")
        # P = exp(X_ij − L)                                                         (BLOCK_M, BLOCK_N)
        p = tl.exp(x - lse[:, None])
        # dX = (P − 1 at the target) · dloss                                        (BLOCK_M, BLOCK_N)
        dx = (p - tl.where(cols[None, :] == target[:, None], 1.0, 0.0)) * dloss[:, None]
        dx = tl.where(dloss[:, None] == 0.0, 0.0, dx)  # a token that does not count: 0 · NaN would be NaN
        # dW = dW + dXᵀ H_i                                                         (BLOCK_N, BLOCK_D)
        dw = dw + tl.dot(tl.trans(dx).to(h.dtype), h, input_precision="ieee")
    tl.store(dw_ptr + cols[:, None] * dim + dims[None, :], dw, mask=inside_w)


def cross_entropy_standard(
    h: torch.Tensor, w: torch.Tensor, targets: torch.Tensor, *, block_m: int, block_n: int, block_d: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Losses and logsumexps, each (tokens,) float32, through the logits (tokens, vocab) in HBM."""
    tokens, vocab = _check(h, w, targets)
    x = torch.empty(tokens, vocab, dtype=h.dtype, device=h.device)
    loss, lse = (torch.empty(tokens, dtype=torch.float32, device=h.device) for _ in range(2))
    grid = (triton.cdiv(tokens, block_m), triton.cdiv(vocab, block_n))
    logits_kernel[grid](
        h, w, x, *h.stride(), *w.stride(), tokens, vocab, h.shape[1],
        BLOCK_M=block_m, BLOCK_N=block_n, BLOCK_D=block_d,
    )  # fmt: skip
    loss_of_logits_kernel[grid[:1]](
        x, targets, loss, lse, tokens, vocab, IGNORE=IGNORE_INDEX, BLOCK_M=block_m, BLOCK_N=block_n
    )
    return loss, lse


def cross_entropy_fused(
    h: torch.Tensor, w: torch.Tensor, targets: torch.Tensor, *, block_m: int, block_n: int, block_d: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Losses and logsumexps, each (tokens,) float32; the logits are never written."""
    tokens, vocab = _check(h, w, targets)
    loss, lse = (torch.empty(tokens, dtype=torch.float32, device=h.device) for _ in range(2))
    cross_entropy_fused_kernel[(triton.cdiv(tokens, block_m),)](
        h, w, targets, loss, lse, *h.stride(), *w.stride(), tokens, vocab, h.shape[1],
        IGNORE=IGNORE_INDEX, BLOCK_M=block_m, BLOCK_N=block_n, BLOCK_D=block_d,
    )  # fmt: skip
    return loss, lse


def cross_entropy_backward(
    h: torch.Tensor, w: torch.Tensor, targets: torch.Tensor, *, block_m: int, block_n: int, block_d: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Losses, logsumexps, and the gradients dH (tokens, dim) and dW (vocab, dim) of the mean loss; block_d ≥ dim.

    The mean is over the tokens that count. If none counts, the gradients are 0.
    """
    tokens, vocab = _check(h, w, targets)
    dim = h.shape[1]
    loss, lse = cross_entropy_fused(h, w, targets, block_m=block_m, block_n=block_n, block_d=block_d)
    counted = targets != IGNORE_INDEX
    dloss = counted / counted.sum().clamp(min=1).float()
    dh = torch.empty(tokens, dim, dtype=h.dtype, device=h.device)
    dw = torch.empty(vocab, dim, dtype=w.dtype, device=w.device)
    tiles = {"BLOCK_M": block_m, "BLOCK_N": block_n, "BLOCK_D": block_d}
    saved = (h, w, targets, lse, dloss)
    sizes = (*h.stride(), *w.stride(), tokens, vocab, dim)
    cross_entropy_dh_kernel[(triton.cdiv(tokens, block_m),)](*saved, dh, *sizes, **tiles)
    cross_entropy_dw_kernel[(triton.cdiv(vocab, block_n),)](*saved, dw, *sizes, **tiles)
    return loss, lse, dh, dw


def _check(h: torch.Tensor, w: torch.Tensor, targets: torch.Tensor) -> tuple[int, int]:
    """(tokens, vocab) of a call. Raises ValueError for tensors that do not fit together."""
    if h.ndim != 2 or w.ndim != 2 or h.shape[1] != w.shape[1] or h.dtype != w.dtype:
        raise ValueError(
            f"h {tuple(h.shape)} {h.dtype} and w {tuple(w.shape)} {w.dtype}: must be (tokens, dim) and (vocab, dim) "
            "of one dtype"
        )
    if targets.shape != h.shape[:1] or targets.dtype != torch.int64 or not targets.is_contiguous():
        raise ValueError(
            f"targets {tuple(targets.shape)} {targets.dtype}: must be contiguous ({h.shape[0]},) torch.int64"
        )
    return h.shape[0], w.shape[0]
