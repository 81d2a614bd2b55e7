"""The float64 references: they define what is correct."""

from __future__ import annotations

import numpy as np


def softmax(x: np.ndarray) -> np.ndarray:
    """Softmax over the last axis in float64. A row of nothing but −inf gives zeros; a NaN or +inf makes its row NaN."""
    x = x.astype(np.float64)
    with np.errstate(invalid="ignore"):
        m = x.max(axis=-1, keepdims=True)
        p = np.exp(x - np.where(m == -np.inf, 0.0, m))
        total = p.sum(axis=-1, keepdims=True)
        return p / np.where(total == 0.0, 1.0, total)


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
    j ≤ i + diagonal (kv_len − seq_len unless given). A row that sees nothing is zeros with lse −inf. A hidden key has no part in
    a row, whatever its value.
    """
    q, k, v = q.astype(np.float64), k.astype(np.float64), v.astype(np.float64)
    group = q.shape[1] // k.shape[1]
    k, v = np.repeat(k, group, axis=1), np.repeat(v, group, axis=1)
    seq_len, kv_len = q.shape[2], k.shape[2]
    scale = q.shape[3] ** -0.5 if sm_scale is None else sm_scale
    with np.errstate(invalid="ignore", divide="ignore"):
        s = q @ k.swapaxes(-1, -2) * scale
        if causal:
            limit = np.arange(seq_len) + (kv_len - seq_len if diagonal is None else diagonal)
            s = np.where(np.arange(kv_len) <= limit[:, None], s, -np.inf)
        m = s.max(axis=-1, keepdims=True)
        p = np.exp(s - np.where(m == -np.inf, 0.0, m))
        total = p.sum(axis=-1, keepdims=True)
        weights = p / np.where(total == 0.0, 1.0, total)
        lse = (m + np.log(total))[..., 0]
        return _weigh(weights, v, s == -np.inf), lse


def _weigh(weights: np.ndarray, v: np.ndarray, hidden: np.ndarray) -> np.ndarray:
    """weights @ v in which a hidden key's NaN stays hidden (0 · NaN is NaN)."""
    if np.isfinite(v).all():
        return weights @ v
    products = np.where(hidden[..., None], 0.0, weights[..., None] * v[:, :, None])
    return products.sum(axis=-2)
