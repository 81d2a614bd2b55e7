"""Which keys a query sees under a causal mask, where there are not as many queries as keys."""

from __future__ import annotations

from kernels.parameters import diagonal_of


def seen(query: int, seq_len: int, kv_len: int, align: str) -> int:
    """How many keys this query sees, the first ones; 0 for a row without any."""
    return max(0, min(kv_len, query + 1 + diagonal_of(align, seq_len, kv_len)))
