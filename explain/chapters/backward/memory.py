"""What a backward pass holds in HBM, and what three ways of it compute and move; by formula."""

from __future__ import annotations

from dataclasses import dataclass

from explain.chapters.papers import flashattention
from explain.experiment import Experiment
from explain.records.model import Point
from kernels.parameters import ITEM_BYTES, Values

KERNELS = ("attention_backward_standard", "flash_attention_backward", "flash_attention_backward_atomic")
PAPERS = {"torch:attention_backward": KERNELS[0], "torch:flash_backward": KERNELS[1]}
"""What the paper measured, and our kernel that keeps the same."""
LENGTHS = flashattention.TABLE_LENGTHS


def kept(kernel: str, p: Values) -> int:
    """Bytes that stay from the forward pass beside Q, K and V: P, or O and lse."""
    heads, item = p["batch"] * p["heads"], ITEM_BYTES[p["dtype"]]
    if kernel == KERNELS[0]:
        return int(heads * p["seq_len"] * p["kv_len"] * item)
    return int(heads * p["seq_len"] * (p["head_dim"] * item + 4))


def beyond_gradients(point: Point) -> int:
    """Bytes that a measured backward pass needs while it runs, without dQ, dK and dV themselves."""
    p = point.experiment.values
    rows = p["heads"] * p["seq_len"] + 2 * p["kv_heads"] * p["kv_len"]
    return (point.peak_bytes or 0) - int(p["batch"] * rows * p["head_dim"] * ITEM_BYTES[p["dtype"]])


def held(kernel: str, p: Values) -> int:
    """Bytes in HBM at the end of a backward pass: inputs, gradients, what was kept, and what it made on the way."""
    heads, item = p["batch"] * p["heads"], ITEM_BYTES[p["dtype"]]
    q, kv = heads * p["seq_len"] * p["head_dim"], p["batch"] * p["kv_heads"] * p["kv_len"] * p["head_dim"]
    both_ways = 2 * (q + 2 * kv) * item + q * item  # Q, K, V, their gradients, dO
    if kernel == KERNELS[0]:
        return int(both_ways + kept(kernel, p) + 2 * heads * p["seq_len"] * p["kv_len"] * item)  # dP and dS
    delta, sums = heads * p["seq_len"] * 4, q * 4 if kernel == KERNELS[2] else 0
    return int(both_ways + kept(kernel, p) + delta + sums)


@dataclass(frozen=True)
class Bill:
    """What a backward kernel computes and moves: FLOPs in matmuls, exponentials, bytes.

    `bytes` are all loads and stores. `least` is what HBM must move: each launch moves a buffer once.
    """

    kernel: str
    matmuls: int
    matmul_flops: int
    exponentials: int
    bytes: int
    least: int
    kept: int


def bill(kernel: str, like: Experiment) -> Bill:
    """The bill of a kernel for the same inputs and tiles."""
    experiment = like.through(kernel)
    traffic, p = experiment.traffic, experiment.values
    matmuls = sum(work.kind == "matmul" for work in traffic.work)
    moved, least = traffic.read_bytes + traffic.written_bytes, sum(term.once for term in traffic.terms)
    return Bill(kernel, matmuls, traffic.flops_of("matmul"), traffic.flops_of("exp"), moved, least, kept(kernel, p))
