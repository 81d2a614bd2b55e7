"""The bandwidth bound: how fast a cache can be read, and how many queries it takes until arithmetic is the limit."""

from __future__ import annotations

from dataclasses import dataclass

from explain.chapters.decoding.programs import DTYPE, HEAD_DIM, HEADS, KV_HEADS, PARAMETERS
from explain.gpus import Gpu
from kernels.parameters import ITEM_BYTES

GROUP = HEADS // KV_HEADS


@dataclass(frozen=True)
class Bound:
    """`queries` per head over `kv_len` keys, in one layer of one sequence: what K and V cost, and the two matmuls."""

    queries: int
    kv_len: int

    @property
    def rows(self) -> int:
        """Rows of scores that share each key: the queries of all heads of a group."""
        return GROUP * self.queries

    @property
    def bytes(self) -> int:
        """K and V, read once."""
        return 2 * KV_HEADS * self.kv_len * HEAD_DIM * ITEM_BYTES[DTYPE]

    @property
    def flops(self) -> int:
        """Q Kᵀ and P V: two matmuls of 2 FLOPs per element of K and per row."""
        return 4 * KV_HEADS * self.kv_len * HEAD_DIM * self.rows

    @property
    def intensity(self) -> float:
        """FLOPs per byte: in 16 bits as many as rows share a key."""
        return self.flops / self.bytes

    def seconds_to_read(self, gpu: Gpu) -> float:
        """The least time to read K and V, at the GPU's bandwidth."""
        return self.bytes / gpu.hbm_bytes_per_second

    def seconds_to_compute(self, gpu: Gpu) -> float:
        """The least time for both matmuls, at the GPU's rate of matmuls."""
        return self.flops / gpu.tensor_flops_per_second

    def seconds(self, gpu: Gpu) -> float:
        """The least time: whichever takes longer."""
        return max(self.seconds_to_read(gpu), self.seconds_to_compute(gpu))


def seconds_to_read_weights(gpu: Gpu) -> float:
    """The least time to read all weights of the model once, in 16 bits."""
    return PARAMETERS * ITEM_BYTES[DTYPE] / gpu.hbm_bytes_per_second


def seconds_to_multiply_weights(tokens: int, gpu: Gpu) -> float:
    """The least time for the matmuls of all weights: 2 FLOPs per weight and token."""
    return 2 * PARAMETERS * tokens / gpu.tensor_flops_per_second


def ridge(gpu: Gpu) -> float:
    """The arithmetic intensity above which arithmetic takes longer than reading, FLOPs per byte."""
    return gpu.tensor_flops_per_second / gpu.hbm_bytes_per_second


def free_queries(gpu: Gpu) -> int:
    """Queries per head up to which the bound stays the time of reading."""
    return int(ridge(gpu) * ITEM_BYTES[DTYPE] / 2 // GROUP)
