"""Dao et al., "FlashAttention" (arXiv 2205.14135, 2022): figures 1 and 2, tables 20 and 21, theorem 2."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from explain import data
from explain.experiment import Experiment
from explain.records.model import Point, Record
from kernels.catalog import KERNELS

THEIR_GPU = "A100, 40 GB"


@dataclass(frozen=True)
class Level:
    """A level of figure 1's pyramid: bandwidth in bytes per second, size as printed; `roof` is its name in a record."""

    name: str
    bytes_per_second: float
    size: str
    roof: str


_DATA = data(__file__)
FIGURE_1 = tuple(Level(**level) for level in _DATA["level"])
"""Figure 1, left: bandwidth and memory size of an A100"""


@dataclass(frozen=True)
class Row:
    """A column of figure 2's table: GPT-2 medium, forward and backward; `baseline` is the kernel that repeats it."""

    name: str
    gflops: float
    hbm_gb: float
    ms: float
    baseline: str
    matmuls: int
    """Matmuls of 2 N² d FLOPs per head: 2 forward, 4 backward, and 1 more where the backward pass recomputes S."""


GPT2_MEDIUM: Mapping[str, object] = {"batch": 64, "heads": 16, "seq_len": 1024, "head_dim": 64, "dtype": "fp16"}
FIGURE_2 = tuple(Row(**row) for row in _DATA["row"])
"""Figure 2, left: GPT-2 medium, sequences of 1,024 tokens, d = 64, 16 heads, batch 64, on an A100"""

TABLE_LENGTHS = (128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536)
TABLE_SIZES: Mapping[str, object] = {"batch": 16, "heads": 8, "head_dim": 64, "dtype": "fp16"}
"""Appendix E.6: 8 heads of dimension 64, batch 16, an A100 with 40 GB, no dropout, no mask"""
Table = Mapping[str, Sequence[float]]
"""By baseline, a value for each of TABLE_LENGTHS, until the paper's GPU was out of memory."""
TABLE_20: Table = _DATA["milliseconds"]
"""Table 20: milliseconds of forward and backward pass."""
TABLE_21: Table = _DATA["megabytes"]
"""Table 21: memory of forward and backward pass, in MB."""
LAST = {"torch:attention_backward": 8192, "torch:flash_backward": 32768}
"""The longest N measured here"""


def gpt2(kernel: str, **tile: int) -> Experiment:
    """A kernel at figure 2's sizes."""
    return Experiment.of(kernel, {**GPT2_MEDIUM, **tile}, "normal")


OURS = (
    gpt2("attention_standard", block_m=128, block_n=64),
    gpt2("flash_attention_v1", block_m=64, block_n=64),
    gpt2("flash_attention", block_m=128, block_n=64),
)
"""Our kernels at figure 2's sizes, forward only"""
BASELINES = tuple(
    gpt2(f"torch:{name}{way}") for name in ("attention", "flash", "cudnn") for way in ("", "_backward")
)  # fmt: skip
BLOCKS = (16, 32, 64, 128, 256)


def by_block(kernel: str, block: int) -> Experiment:
    """Figure 2, middle: the tile that stays on chip has `block` rows. It is a tile of K and V in FlashAttention-1, of Q
    in FlashAttention-2.

    Algorithm 1 takes B_c = ⌈M/4d⌉ and B_r = min(⌈M/4d⌉, d), so the other tile has at most d = 64 rows.
    """
    other = min(block, 64)
    return gpt2(kernel, **{"block_m": other, "block_n": other, KERNELS[kernel].outer: block})


LENGTHS = (512, 1024, 2048, 4096, 8192, 16384)


def by_length(kernel: str, seq_len: int) -> Experiment:
    """Theorem 2 at a fixed M: 16 heads, d = 64, tiles 128 × 64."""
    sizes = {"heads": 16, "head_dim": 64, "dtype": "fp16", "block_m": 128, "block_n": 64, "seq_len": seq_len}
    return Experiment.of(kernel, sizes, "normal")


def of_table(baseline: str, seq_len: int) -> Experiment:
    """Tables 20 and 21."""
    return Experiment.of(baseline, {**TABLE_SIZES, "seq_len": seq_len}, "normal")


IN_ORDER = ("attention_standard", "flash_attention_v1", "flash_attention")
_BLOCKS = (by_block(kernel, block) for kernel in IN_ORDER[1:] for block in BLOCKS)
_LENGTHS = (by_length(kernel, seq_len) for seq_len in LENGTHS for kernel in IN_ORDER)
COUNTED: tuple[Experiment, ...] = tuple(dict.fromkeys((*BASELINES, *OURS, *_BLOCKS, *_LENGTHS)))
"""The experiments that figure 2 and theorem 2 need bytes of."""
TIMED: tuple[Experiment, ...] = tuple(
    of_table(baseline, seq_len) for baseline, last in LAST.items() for seq_len in TABLE_LENGTHS if seq_len <= last
)


# The same values from a record

Bytes = Callable[[Point], int | None]


def hbm_bytes(point: Point) -> int | None:
    """Read from and written to DRAM from a cold L2, including what the run left dirty in L2."""
    return point.counters.cold.hbm_bytes if point.counters else None


def sm_bytes(point: Point) -> int | None:
    """Between L2 and the SMs, both ways."""
    return point.counters.cold.sm_bytes if point.counters else None


def formula_bytes(experiment: Experiment) -> int:
    """Bytes by formula: all that the kernel's loads and stores request."""
    moved = experiment.traffic
    return moved.read_bytes + moved.written_bytes


def matmul_flops(row: Row) -> int:
    """The FLOPs of figure 2's matmuls, counted."""
    sizes = (int(str(GPT2_MEDIUM[name])) for name in ("batch", "heads", "seq_len", "head_dim"))
    batch, heads, seq_len, head_dim = sizes
    return row.matmuls * 2 * batch * heads * seq_len**2 * head_dim


def series(record: Record, experiments: Sequence[Experiment], axis: str, count: Bytes) -> list[tuple[int, int]]:
    """(value of the axis, bytes) of the counted experiments."""
    found = []
    for experiment in experiments:
        point = record.point(experiment)
        if point and (counted := count(point)):
            found.append((experiment.values[axis], counted))
    return found


def spilled(point: Point) -> bool:
    """Whether the run spilled registers through L1 and L2: bytes that theorem 2 does not include."""
    return bool(point.counters and point.counters.cold.spilled_bytes)


def inputs_bytes(seq_len: int) -> int:
    """Bytes of Q, K, V and dO in tables 20 and 21: the paper counts them, a point's peak does not."""
    sizes = of_table("torch:flash_backward", seq_len).values
    return 4 * int(sizes["batch"] * sizes["heads"] * seq_len * sizes["head_dim"]) * 2
