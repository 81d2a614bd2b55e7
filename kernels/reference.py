"""The float64 references: they define what is correct."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from kernels.inputs import IGNORE_INDEX


def softmax(x: np.ndarray) -> np.ndarray:
    """Softmax over the last axis in float64. A row of only −inf gives zeros; a NaN or +inf makes its row NaN."""
    x = x.astype(np.float64)
    with np.errstate(invalid="ignore"):
        m = x.max(axis=-1, keepdims=True)
        p = np.exp(x - np.where(m == -np.inf, 0.0, m))
        total = p.sum(axis=-1, keepdims=True)
        return p / np.where(total == 0.0, 1.0, total)


def softmax_topk(x: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """The k largest weights (rows, k) of `softmax(x)`, largest first, and their columns (rows, k) int64.

    Of equal weights the leftmost comes first. If fewer than k elements are numbers above −inf, the list ends with
    weight 0, column −1. A row with a NaN has weights NaN.
    """
    ranked = np.where(np.isnan(x), -np.inf, x)
    index = np.argsort(-ranked, axis=-1, kind="stable")[:, :k]
    index = np.pad(index, ((0, 0), (0, k - index.shape[1])), constant_values=-1)
    weights = softmax(x)
    lost = np.isnan(weights).any(axis=-1, keepdims=True)
    filled = (index >= 0) & (np.take_along_axis(ranked, index, axis=-1) > -np.inf)
    y = np.where(lost, np.nan, np.where(filled, np.take_along_axis(weights, index, axis=-1), 0.0))
    return y, np.where(filled, index, -1)


def cross_entropy(x: np.ndarray, targets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Losses and logsumexps, each (tokens,), of logits x (tokens, vocab) in float64.

    The loss of a token is lse − x[target], and 0 if its target is IGNORE_INDEX.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        m = x.max(axis=1)
        lse = m + np.log(np.exp(x - np.where(m == -np.inf, 0.0, m)[:, None]).sum(axis=1))
        counted = targets != IGNORE_INDEX
        own = np.take_along_axis(x, np.where(counted, targets, 0)[:, None], axis=1)[:, 0]
        return np.where(counted, lse - own, 0.0), lse


def cross_entropy_gradient(x: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """The gradient of the mean of `cross_entropy` over the tokens that count, for x; 0 for the others."""
    counted = targets != IGNORE_INDEX
    _, lse = cross_entropy(x, targets)
    with np.errstate(invalid="ignore"):
        dx = np.exp(x - lse[:, None])
    dx[counted, targets[counted]] -= 1.0
    return np.where(counted[:, None], dx / max(counted.sum(), 1), 0.0)


def attention(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    *,
    causal: bool,
    sm_scale: float | None = None,
    diagonal: int | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """O (batch, heads, seq_len, head_dim) and lse (batch, heads, seq_len) of q, k, v in float64.

    k and v have kv_heads heads, each shared by heads / kv_heads consecutive query heads. Causal: query i sees keys
    j ≤ i + diagonal (by default kv_len − seq_len). A row that sees no key is zeros with lse −inf. A hidden key never
    contributes, whatever its value.
    """
    o, lse = np.empty(q.shape), np.empty(q.shape[:3])
    for at, weights, v_h, hidden, lse_rows in _pieces(q, k, v, causal, sm_scale, diagonal):
        o[at], lse[at] = _weigh(weights, v_h, hidden), lse_rows
    return o, lse


def attention_magnitudes(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, *, causal: bool, diagonal: int | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Σ P |V| and √Σ (P V)² for each element of O: the scale of errors that all agree, and of independent ones."""
    total, spread = np.empty(q.shape), np.empty(q.shape)
    for at, weights, v_h, _, _ in _pieces(q, k, v, causal, None, diagonal):
        size = np.where(np.isfinite(v_h), np.abs(v_h), 0.0)
        finite = np.nan_to_num(weights)
        total[at], spread[at] = finite @ size, np.sqrt(finite**2 @ size**2)
    return total, spread


def row_chunks(shape: Sequence[int]) -> Iterator[tuple[int, int, slice]]:
    """(batch, head, rows): chunks of a q of this shape with few enough rows that their scores fit in memory."""
    for batch, head in np.ndindex(*shape[:2]):
        for start in range(0, shape[2], 512):
            yield batch, head, slice(start, start + 512)


_Piece = tuple[tuple[int, int, slice], np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def _pieces(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, causal: bool, sm_scale: float | None, diagonal: int | None
) -> Iterator[_Piece]:
    """For each chunk of rows: its place, its weights P, its head's V, the hidden keys, and its lse."""
    group, kv_len = q.shape[1] // k.shape[1], k.shape[2]
    scale = q.shape[3] ** -0.5 if sm_scale is None else sm_scale
    shift = kv_len - q.shape[2] if diagonal is None else diagonal
    with np.errstate(invalid="ignore", divide="ignore"):
        for at in row_chunks(q.shape):
            batch, head, rows = at
            q_i = q[at].astype(np.float64)
            k_h, v_h = (a[batch, head // group].astype(np.float64) for a in (k, v))
            limit = np.arange(q.shape[2])[rows] + shift if causal else np.full(len(q_i), kv_len)
            s = np.where(np.arange(kv_len) <= limit[:, None], q_i @ k_h.T * scale, -np.inf)
            m = s.max(axis=-1, keepdims=True)
            p = np.exp(s - np.where(m == -np.inf, 0.0, m))
            total = p.sum(axis=-1, keepdims=True)
            weights = p / np.where(total == 0.0, 1.0, total)
            yield at, weights, v_h, s == -np.inf, (m + np.log(total))[:, 0]


def _weigh(weights: np.ndarray, v: np.ndarray, hidden: np.ndarray) -> np.ndarray:
    """weights @ v, but a hidden key's NaN or inf stays hidden (0 · NaN is NaN)."""
    if np.isfinite(v).all():
        return weights @ v
    with np.errstate(invalid="ignore"):
        return np.where(hidden[:, :, None], 0.0, weights[:, :, None] * v).sum(axis=1)
