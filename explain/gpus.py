"""GPUs to choose from: the sizes of their memories, their latencies, and the source of each number.

Sizes are in bytes, bandwidths in bytes per second, latencies in clock cycles of the SM. A number without a published
source that can be checked is None, and pages say so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from explain import recordings

KIB, MIB, GB = 2**10, 2**20, 10**9


@dataclass(frozen=True)
class Latency:
    """Clock cycles from a load to the use of its value on an idle GPU; `source` says who measured it."""

    cycles: float
    source: str


@dataclass(frozen=True)
class Gpu:
    """One GPU. `compute_capability` 90 means sm_90.

    `tensor_flops_per_second` is of 16-bit matmuls with sums in float32, without sparsity (a datasheet that prints the
    rate with sparsity is halved); `fp32_flops_per_second` is outside the tensor cores. `source` has both. An SM has
    `shared_bytes_sm` of shared memory, of which a program may have at most `shared_bytes`. It holds at most `warps_sm`
    warps of 32 threads, from at most `programs_sm` programs. `latencies` are by level: register, shared, l2, hbm,
    host.
    """

    name: str
    compute_capability: int
    sms: int
    register_bytes_sm: int
    shared_bytes_sm: int
    shared_bytes: int
    l2_bytes: int
    hbm_bytes: int
    hbm_bytes_per_second: float
    tensor_flops_per_second: float
    fp32_flops_per_second: float
    source: str
    hbm: str = "HBM"
    warps_sm: int = 64
    programs_sm: int = 32
    latencies: Mapping[str, Latency] = field(default_factory=dict)

    def __hash__(self) -> int:
        return hash(self.name)

    @property
    def target(self) -> str:
        """The compiler's name for it: "sm_90"."""
        return f"sm_{self.compute_capability}"

    @property
    def register_bytes(self) -> int:
        """The register bytes of all SMs together."""
        return self.sms * self.register_bytes_sm

    @property
    def shared_bytes_all(self) -> int:
        """The shared memory of all SMs together, in bytes."""
        return self.sms * self.shared_bytes_sm


LIMITS = "NVIDIA CUDA C++ Programming Guide, technical specifications per compute capability"
"""The source of an SM's limits: its shared memory, its warps and its programs."""

_MT4G = "MT4G, its sample results for the {} (github.com/caps-tum/mt4g)"
_AMPERE = "Abdelkhalik et al., Demystifying the Nvidia Ampere architecture, arXiv 2208.11174, 2022: a dependent add"
_ADA = "M. Dewing, AI_kernels/latency (github.com/markdewing/AI_kernels)"


def _measured(name: str) -> dict[str, Latency]:
    record = recordings.measured(f"latency-{name}") or {"levels": {}}
    return {
        level: Latency(
            said["cycles"], f"measured on an {record['gpu']}, {record['date']} (python -m explain record latency)"
        )
        for level, said in record["levels"].items()
    }


def _published(source: str, **cycles: float) -> dict[str, Latency]:
    return {level: Latency(count, source) for level, count in cycles.items()}


GPUS: Mapping[str, Gpu] = {
    gpu.name: gpu
    for gpu in (
        Gpu("A100", 80, 108, 256 * KIB, 164 * KIB, 163 * KIB, 40 * MIB, 80 * GB, 2.039e12, 312e12, 19.5e12,
            "NVIDIA A100 architecture whitepaper; A100 datasheet, 80 GB SXM (bandwidth and FLOP/s)",
            latencies=_published(_AMPERE, register=4)
            | _published(_MT4G.format("A100-PCIE-40GB"), l2=220.953, hbm=640.112)),
        Gpu("H100", 90, 132, 256 * KIB, 228 * KIB, 227 * KIB, 50 * MIB, 80 * GB, 3.35e12, 989.4e12, 66.9e12,
            "NVIDIA H100 architecture whitepaper, SXM5; H100 datasheet (bandwidth)",
            latencies=_published(_MT4G.format("H100 80GB HBM3"), shared=29.8824, l2=219.345, hbm=834.476)),
        Gpu("H200", 90, 132, 256 * KIB, 228 * KIB, 227 * KIB, 60 * MIB, 141 * GB, 4.8e12, 989.5e12, 67e12,
            "NVIDIA H200 datasheet, SXM (FLOP/s: half of those with sparsity); L2 as the driver reports it",
            latencies=_measured("h200")),
        Gpu("RTX 4090", 89, 128, 256 * KIB, 100 * KIB, 99 * KIB, 72 * MIB, 24 * GB, 1.008e12, 165.2e12, 82.6e12,
            "NVIDIA Ada GPU architecture whitepaper 2.02, appendix A", "GDDR6X", warps_sm=48, programs_sm=24,
            latencies=_published(_ADA, l2=296, hbm=636)),
        Gpu("T4", 75, 40, 256 * KIB, 64 * KIB, 64 * KIB, 4 * MIB, 16 * GB, 0.3e12, 65e12, 8.1e12,
            "NVIDIA Turing architecture whitepaper; T4 datasheet (bandwidth and FLOP/s)",
            "GDDR6", warps_sm=32, programs_sm=16),
    )
}  # fmt: skip
DEFAULT = "H200"


def known_as(name: str) -> str | None:
    """The GPU in GPUS that a driver calls `name` ("NVIDIA H200"); None if it is not among them."""
    found = [known for known in GPUS if known in name]
    return max(found, key=len) if found else None
