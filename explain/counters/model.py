"""Counters: what the GPU counted while one Experiment ran, where and how. Standard library only."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from explain.counters.stalls import Stalls
from explain.device.measurement import Provenance

COPIED_BYTES = 2**30  # of the copy check
TOLERANCE = 1e-3
SECTOR = 32  # bytes; L2 serves an SM in sectors

METRICS: Mapping[str, tuple[tuple[str, ...], int]] = {
    "dram_read_bytes": (("dram__bytes_read.sum", "dram__bytes_op_read.sum"), 1),
    "dram_written_bytes": (("dram__bytes_write.sum", "dram__bytes_op_write.sum"), 1),
    "l2_read_bytes": (("lts__t_sectors_srcunit_tex_op_read.sum",), SECTOR),
    "l2_written_bytes": (("lts__t_sectors_srcunit_tex_op_write.sum",), SECTOR),
    "l1_bytes": (("l1tex__t_bytes.sum",), 1),
    "spill_read_bytes": (("l1tex__t_bytes_pipe_lsu_mem_local_op_ld.sum",), 1),
    "spill_written_bytes": (("l1tex__t_bytes_pipe_lsu_mem_local_op_st.sum",), 1),
    "shared_wavefronts": (("l1tex__data_pipe_lsu_wavefronts_mem_shared.sum",), 1),
    "shared_bytes": (("smsp__sass_data_bytes_mem_shared.sum",), 1),
    # In the cycles in which an SM had work: the counted time also includes Python preparing the launch.
    "tensor_active_percent": (("sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active",), 1),
    "time_ns": (("gpu__time_duration.sum",), 1),
}
"""What is counted: (the names of its metric, the first one a chip has is used; what one unit stands for)."""


@dataclass(frozen=True)
class Counts:
    """The counts of one run. A count is None if this chip has no such counter.

    Bytes: `dram_*` between DRAM and L2; `l2_*` between L2 and the SMs, in sectors of 32 B; `l1_bytes` requested from L1
    by loads and stores, including `spill_*`, registers spilled to local memory. `dirty_bytes` were written to L2 but
    not yet to DRAM when the run ended, and are not in `dram_written_bytes`. `shared_bytes` were requested from shared
    memory (`Counters.shared_bytes` checks them). `shared_wavefronts` are cycles of its data pipe, at most 128 B each.
    `tensor_active_percent` is of the tensor cores' peak while their SM had work. `time_ns` includes counting, so it is
    not a timing.
    """

    dram_read_bytes: int | None
    dram_written_bytes: int | None
    dirty_bytes: int | None
    l2_read_bytes: int | None
    l2_written_bytes: int | None
    l1_bytes: int | None
    spill_read_bytes: int | None
    spill_written_bytes: int | None
    shared_wavefronts: int | None
    time_ns: int | None
    shared_bytes: int | None = None  # older files have none
    tensor_active_percent: float | None = (
        None  # older files have `tensor_percent`, of the time in which Python launched, too
    )

    @classmethod
    def of(cls, run: Mapping[str, float], after: Mapping[str, float]) -> Counts:
        """From the values of METRICS over the run, and over the reads that then evicted its dirty lines from L2."""
        counted = {name: _count(name, run.get(name, math.nan)) for name in METRICS}
        return cls(**counted, dirty_bytes=_count("dram_written_bytes", after.get("dram_written_bytes", math.nan)))

    @property
    def hbm_bytes(self) -> int | None:
        """Bytes between DRAM and L2, both ways, including what the run left dirty in L2."""
        return total(self.dram_read_bytes, self.dram_written_bytes, self.dirty_bytes)

    @property
    def sm_bytes(self) -> int | None:
        """Bytes between L2 and the SMs, both ways."""
        return total(self.l2_read_bytes, self.l2_written_bytes)

    @property
    def spilled_bytes(self) -> int | None:
        """Bytes of spilled registers, both ways."""
        return total(self.spill_read_bytes, self.spill_written_bytes)


def total(*counts: int | None) -> int | None:
    """The sum; None if one of them is not known."""
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def _count(name: str, value: float) -> Any:
    """A metric's value as a count, a whole number unless it is a percentage; None if the GPU gave none."""
    if not math.isfinite(value):
        return None
    return value if name == "tensor_active_percent" else round(value) * METRICS[name][1]


@dataclass(frozen=True)
class CopyCheck:
    """The counts of a copy of known size, which checks the counters."""

    copied_bytes: int
    read_bytes: int | None
    written_bytes: int | None

    @classmethod
    def of(cls, copied_bytes: int, counted: Counts) -> CopyCheck:
        """From the counts of the copy. What it left dirty in L2 counts as written."""
        parts = (counted.dram_written_bytes, counted.dirty_bytes)
        written = None if None in parts else sum(part for part in parts if part is not None)
        return cls(copied_bytes, counted.dram_read_bytes, written)

    @property
    def passed(self) -> bool:
        """Whether DRAM moved the copy's bytes, within TOLERANCE. Reads must be counted, writes may be unknown."""
        known = [counted for counted in (self.read_bytes, self.written_bytes) if counted is not None]
        exact = all(abs(counted - self.copied_bytes) <= TOLERANCE * self.copied_bytes for counted in known)
        return self.read_bytes is not None and exact


@dataclass(frozen=True)
class Counters:
    """The counts of one Experiment: `cold`, with none of its inputs in L2, and `warm`, directly after the same run.

    `method` is what read the counters, and `fallback` says why it was not CUPTI ("" if it was). `lacking` are the
    Counts this chip has no metric for. `passes` is how many runs each count took. `stalls` are counted only if asked
    for.
    """

    experiment: dict[str, Any]
    cold: Counts
    warm: Counts
    copy: CopyCheck
    chip: str
    method: str
    fallback: str
    lacking: tuple[str, ...]
    passes: int
    provenance: Provenance
    stalls: Stalls | None = None

    @property
    def shared_bytes(self) -> int | None:
        """Bytes requested from shared memory; None if cold and warm differ, as for asynchronous copies on Hopper.

        The same instructions request the same bytes, so two different counts cannot both be right.
        """
        return self.cold.shared_bytes if self.cold.shared_bytes == self.warm.shared_bytes else None
