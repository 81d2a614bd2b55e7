"""GPUs to choose from: the sizes of their memories, their latencies, and the source of each number.

Sizes are in bytes, bandwidths in bytes per second, latencies in clock cycles of the SM. A number without a published
source that can be checked is None, and pages say so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from explain import data, recordings


@dataclass(frozen=True)
class Latency:
    """Clock cycles from a load to the use of its value on an idle GPU; `source` says who measured it. `seconds` is the
    same where the clock was measured too.
    """

    cycles: float
    source: str
    seconds: float | None = None


@dataclass(frozen=True)
class Gpu:
    """One GPU. `compute_capability` 90 means sm_90.

    `tensor_flops_per_second` is of 16-bit matmuls with sums in float32, without sparsity (a datasheet that prints the
    rate with sparsity is halved), `tensor_flops_per_cycle` the same of one SM and cycle; `fp32_flops_per_second` is
    outside the tensor cores. `source` has them. An SM has `shared_bytes_sm` of shared memory; a program may have at
    most `shared_bytes` of it. It holds at most `warps_sm` warps of 32 threads, from at most `programs_sm` programs.
    `latencies` are by level: register, shared, l2, hbm, host.
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
    tensor_flops_per_cycle: int | None = None
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


def _measured(name: str) -> dict[str, Latency]:
    """The latencies recorded of a GPU, named as in its file; none without a record."""
    record = recordings.measured(f"latency-{name}") or {"levels": {}}
    words = "measured on an {gpu}, {date} (python -m explain record latency --name {name})"
    return {
        level: Latency(said["cycles"], words.format(**record, name=name), said["ns"] / 1e9)
        for level, said in record["levels"].items()
    }


def _gpu(latencies: Sequence[Mapping[str, Any]] = (), **fields: Any) -> Gpu:
    published = {one["level"]: Latency(one["cycles"], one["source"]) for one in latencies}
    return Gpu(**fields, latencies=published or _measured(fields["name"].lower()))


GPUS: Mapping[str, Gpu] = {gpu["name"]: _gpu(**gpu) for gpu in data(__file__)["gpu"]}
DEFAULT = "H200"


def known_as(name: str) -> str | None:
    """The GPU in GPUS that a driver calls `name` ("NVIDIA H200"); None if it is not among them."""
    found = [known for known in GPUS if known in name]
    return max(found, key=len) if found else None


def card(name: str) -> Gpu | None:
    """The GPU that a driver calls `name`; None if it is not in GPUS."""
    return GPUS.get(known_as(name) or "")


def specified(level: str, gpu: str) -> float | None:
    """The datasheet's rate for a measured limit, bytes or FLOPs per second; None where no public source states it.

    In every datasheet TF32 has half the 16-bit rate.
    """
    known = card(gpu)
    if known is None:
        return None
    if level.startswith("hbm"):
        return known.hbm_bytes_per_second
    tensor = known.tensor_flops_per_second
    fp32 = known.fp32_flops_per_second
    rates = {"matmul bf16": tensor, "matmul fp16": tensor, "matmul tf32": tensor / 2, "matmul fp32": fp32}
    return rates.get(level)
