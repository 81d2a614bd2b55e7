"""At which sizes a kernel's bytes are counted: inputs of 100 MB and more, beyond the L2 of any GPU here."""

from __future__ import annotations

from collections.abc import Mapping

from explain.experiment import Experiment
from kernels.catalog import CATALOG
from kernels.parameters import ParameterError

SOFTMAX = ((4096, 8192), (2048, 32768), (4096, 32768))
"""(rows, cols) of float32"""
ATTENTION = ((4, 16, 4096, 64), (4, 16, 8192, 64), (2, 16, 8192, 128))
"""(batch, heads, seq_len, head_dim) of bfloat16"""
_TILES: Mapping[str, Mapping[str, int]] = {
    "softmax_tiled": {"block_m": 4, "block_n": 1024},
    "softmax_topk": {"block_n": 1024},
}


def sizes(kernel: str) -> tuple[Experiment, ...]:
    """The three experiments of a catalog kernel. Raises ParameterError for another name."""
    if kernel not in CATALOG:
        raise ParameterError("kernel", kernel, f"must be one of {', '.join(CATALOG)}")
    if CATALOG[kernel].family == "attention":
        return tuple(
            Experiment.of(
                kernel,
                {
                    "batch": batch,
                    "heads": heads,
                    "seq_len": seq_len,
                    "head_dim": head_dim,
                    "dtype": "bf16",
                    "block_m": 128,
                    "block_n": 64,
                },
                "normal",
            )
            for batch, heads, seq_len, head_dim in ATTENTION
        )
    return tuple(
        Experiment.of(
            kernel,
            {
                "rows": rows,
                "cols": cols,
                "block_n": cols if kernel == "softmax_row" else 4096,
                **_TILES.get(kernel, {}),
            },
            "normal",
        )
        for rows, cols in SOFTMAX
    )
