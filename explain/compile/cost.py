"""What the compiler says of a launch, and how many programs of it an SM holds. Standard library only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from explain.gpus import Gpu

WARP = 32
REGISTER_BYTES = 4
# How registers and shared memory are allocated: CUDA Occupancy Calculator, compute capabilities 7.5 to 9.0. What CUDA
# reserves: NVIDIA Ampere and Hopper Tuning Guides, "Unified Shared Memory/L1/Texture Cache".
REGISTER_UNIT = 256  # registers, to a warp
WARP_UNIT = 4  # warps that registers are counted for at a time
SHARED_UNIT = 128  # bytes, to a program
RESERVED_SHARED = 1024  # bytes of each program that CUDA keeps to itself, from compute capability 8.0 on


@dataclass(frozen=True)
class Footprint:
    """What a compiled kernel takes of an SM. Bytes are of one program, registers and `stack_bytes` of one thread.

    Registers that do not fit are spilled to local memory, which is in HBM behind the caches: to the stack.
    """

    kernel: str
    num_warps: int
    num_stages: int
    shared_bytes: int
    registers: int
    stack_bytes: int

    @property
    def register_bytes(self) -> int:
        """Bytes of registers that one program's threads hold."""
        return self.registers * REGISTER_BYTES * WARP * self.num_warps


@dataclass(frozen=True)
class LaunchCost(Footprint):
    """One kernel that an experiment launches, and what the compiler says of it.

    The spill bytes are those of the instructions that store and load spilled registers. `seconds` is the compile time.
    """

    spill_store_bytes: int
    spill_load_bytes: int
    seconds: float

    @property
    def spills(self) -> str:
        """What one thread spills, in words: "52 B stored, 52 B loaded"; "none" where nothing spills.

        `stack_bytes` is no such number: it is the room of all spilled values in local memory, in steps of 8 bytes.
        """
        if not self.spill_store_bytes:
            return "none"
        return f"{self.spill_store_bytes:,} B stored, {self.spill_load_bytes:,} B loaded"


@dataclass(frozen=True)
class Cost:
    """An experiment's launches, compiled for a compute capability (90 is sm_90), and by what."""

    kernel: str
    parameters: Mapping[str, Any]
    capability: int
    launches: tuple[LaunchCost, ...]
    triton: str
    ptxas: str
    date: str


@dataclass(frozen=True)
class Occupancy:
    """How many programs an SM holds at once, and the limit: "shared memory", "registers", "warps" or "programs"."""

    programs: int
    limit: str
    by_limit: Mapping[str, int]


def reserved(gpu: Gpu) -> int:
    """The bytes of shared memory that CUDA keeps for itself in each program."""
    return RESERVED_SHARED if gpu.compute_capability >= 80 else 0


def allocated(cost: Footprint, gpu: Gpu) -> Mapping[str, int]:
    """How much of each limit of an SM one program takes: bytes of shared memory, registers, warps, programs."""
    unit = SHARED_UNIT if gpu.compute_capability >= 80 else 2 * SHARED_UNIT
    return {
        "shared memory": _up(cost.shared_bytes + reserved(gpu), unit),
        "registers": _up(cost.registers * WARP, REGISTER_UNIT) * cost.num_warps,
        "warps": cost.num_warps,
        "programs": 1,
    }


def occupancy(cost: Footprint, gpu: Gpu) -> Occupancy:
    """The occupancy of a launch on an SM of `gpu`; 0 programs if one needs more shared memory than it may have."""
    own = allocated(cost, gpu)
    warp_registers, shared = own["registers"] // cost.num_warps, own["shared memory"]
    warps = gpu.register_bytes_sm // REGISTER_BYTES // warp_registers // WARP_UNIT * WARP_UNIT
    by_limit = {
        "shared memory": gpu.shared_bytes_sm // shared if shared else gpu.programs_sm,
        "registers": warps // cost.num_warps,
        "warps": gpu.warps_sm // cost.num_warps,
        "programs": gpu.programs_sm,
    }
    if cost.shared_bytes > gpu.shared_bytes:
        by_limit["shared memory"] = 0
    limit = min(by_limit, key=lambda name: by_limit[name])
    return Occupancy(by_limit[limit], limit, by_limit)


def too_large(cost: LaunchCost, gpu: Gpu, title: str = "") -> str:
    """Why the launch, named by its kernel's `title` if given, cannot run on `gpu`; "" if it can."""
    if cost.shared_bytes <= gpu.shared_bytes:
        return ""
    return (
        f"{title or f'`{cost.kernel}`'} needs {cost.shared_bytes:,} bytes of shared memory. One program may have "
        f"{gpu.shared_bytes:,} on the {gpu.name}: the tile does not fit. Choose a smaller BLOCK_M or BLOCK_N."
    )


def _up(value: int, unit: int) -> int:
    return -(-value // unit) * unit
