"""GPUs to choose from: how much each keeps where, from their makers' papers. Sizes in bytes, bandwidths in bytes a second."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

KIB, MIB, GB = 2**10, 2**20, 10**9


@dataclass(frozen=True)
class Gpu:
    """One GPU. `compute_capability` 90 means sm_90; `shared_bytes` is the most one program may have, `shared_bytes_sm` what an SM has."""

    name: str
    compute_capability: int
    sms: int
    register_bytes_sm: int
    shared_bytes_sm: int
    shared_bytes: int
    l2_bytes: int
    hbm_bytes: int
    hbm_bytes_per_second: float
    source: str


GPUS: Mapping[str, Gpu] = {
    gpu.name: gpu
    for gpu in (
        Gpu("A100", 80, 108, 256 * KIB, 164 * KIB, 163 * KIB, 40 * MIB, 80 * GB, 2.039e12,
            "NVIDIA A100 Tensor Core GPU architecture whitepaper and A100 80GB SXM datasheet"),
        Gpu("H100", 90, 132, 256 * KIB, 228 * KIB, 227 * KIB, 50 * MIB, 80 * GB, 3.35e12,
            "NVIDIA H100 Tensor Core GPU architecture whitepaper, SXM5"),
        Gpu("H200", 90, 132, 256 * KIB, 228 * KIB, 227 * KIB, 50 * MIB, 141 * GB, 4.8e12, "NVIDIA H200 datasheet, SXM"),
        Gpu("RTX 4090", 89, 128, 256 * KIB, 100 * KIB, 99 * KIB, 72 * MIB, 24 * GB, 1.008e12,
            "NVIDIA Ada GPU architecture whitepaper"),
        Gpu("T4", 75, 40, 256 * KIB, 64 * KIB, 64 * KIB, 4 * MIB, 16 * GB, 0.32e12, "NVIDIA Turing architecture whitepaper and T4 datasheet"),
    )
}  # fmt: skip
