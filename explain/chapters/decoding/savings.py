"""What not writing S saves, by formula: much with as many queries as keys, almost nothing with one."""

from __future__ import annotations

from dataclasses import dataclass

from explain.experiment import Experiment

HEAD_DIM, DTYPE, SPLITS, ROWS, KEYS = 128, "fp16", 16, 128, 128
"""Of one head; the tiles of the kernels that hold many queries have so many rows and keys."""


@dataclass(frozen=True)
class Saving:
    """Bytes that one head moves for `queries` over `kv_len` keys: standard attention, then the kernel without S."""

    queries: int
    kv_len: int

    @property
    def tile(self) -> tuple[int, int]:
        """Queries and keys of a tile: no more rows than there are queries, and at least the 16 of a matmul."""
        return min(ROWS, max(16, self.queries)), KEYS

    def _run(self, kernel: str, **more: object) -> int:
        sizes = {"seq_len": self.queries, "kv_len": self.kv_len, "head_dim": HEAD_DIM, "dtype": DTYPE}
        tile = dict(zip(("block_m", "block_n"), self.tile, strict=True))
        traffic = Experiment.of(kernel, {**sizes, **tile, **more}, "normal").traffic
        return traffic.read_bytes + traffic.written_bytes

    @property
    def standard(self) -> int:
        """S and P go through HBM."""
        return self._run("attention_standard")

    @property
    def flash(self) -> int:
        """S stays on chip."""
        return self._run("flash_attention")

    @property
    def split(self) -> int:
        """S stays on chip, and parts are merged."""
        return self._run("flash_decoding", splits=SPLITS)

    @property
    def saved(self) -> float:
        """The share of standard attention's bytes that FlashAttention does not move."""
        return 1 - self.flash / self.standard
