"""Stalls: what a kernel's warps spent their time on, by the GPU's own counters. Standard library only.

In every cycle, each warp on an SM is in one state: its instruction is issued, or it waits for one named reason. The
counters add up the warps in each state over all cycles and schedulers. Names and meanings are those of CUPTI's metrics
smsp__warps_issue_stalled_…. Source: NVIDIA, Nsight Compute, Kernel Profiling Guide, "Warp Scheduler States".
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from explain import data


@dataclass(frozen=True)
class Reason:
    """One state of a warp: its name, what the warp is doing, and the kind of time it is, one of KINDS."""

    name: str
    words: str
    kind: str


_DATA = data(__file__)
KINDS: Mapping[str, str] = _DATA["kinds"]
"""The kinds of a warp's time: what it waits for."""
REASONS: Mapping[str, Reason] = {key: Reason(**reason) for key, reason in _DATA["reasons"].items()}
"""Every state, by the name in its metric."""

METRICS: Mapping[str, tuple[str, ...]] = {
    "warp_cycles": ("smsp__warps_active.sum",),
    "cycles": ("smsp__cycles_active.sum",),
    "issued": ("smsp__issue_active.sum",),
    **{key: (f"smsp__warps_issue_stalled_{key}.sum",) for key in REASONS},
}
"""What is counted -> its metric. Not every chip has every reason: only Hopper has GMMA, Blackwell has no IMC miss."""


@dataclass(frozen=True)
class Stalls:
    """One run of a kernel, L2 cold. All counts are sums over all schedulers, four per SM.

    `warp_cycles`: the warps present in each cycle, added up. `cycles`: those in which a scheduler had a warp. `issued`:
    those in which it issued an instruction. `reasons`: the warp cycles in each state of REASONS that the chip counts.
    `passes`: the runs it took, since a GPU counts only some reasons at a time. Runs differ, so the reasons do not add
    up to `warp_cycles` exactly.
    """

    warp_cycles: int
    cycles: int
    issued: int
    reasons: Mapping[str, int]
    passes: int

    def __post_init__(self) -> None:
        if self.warp_cycles <= 0 or self.cycles <= 0:
            raise ValueError("stalls of no warps")

    @classmethod
    def of(cls, values: Mapping[str, float], passes: int) -> Stalls | None:
        """From the values of METRICS; None if the chip did not count the total."""
        known = {name: round(value) for name, value in values.items() if math.isfinite(value)}
        if not known.keys() >= {"warp_cycles", "cycles", "issued"} or not known["warp_cycles"] or not known["cycles"]:
            return None
        reasons = {key: known[key] for key in REASONS if key in known}
        return cls(known["warp_cycles"], known["cycles"], known["issued"], reasons, passes)

    def share(self, reason: str) -> float:
        """The fraction of all warps' time in this state; 0 for a state the chip does not count."""
        return self.reasons.get(reason, 0) / self.warp_cycles

    @property
    def by_kind(self) -> Mapping[str, float]:
        """The fraction of all warps' time in each of KINDS."""
        return {kind: sum(self.share(key) for key, reason in REASONS.items() if reason.kind == kind) for kind in KINDS}

    @property
    def most(self) -> Sequence[str]:
        """The reasons to wait that occurred, most frequent first."""
        waits = [key for key, count in self.reasons.items() if count and key in REASONS and key != "selected"]
        return sorted(waits, key=self.share, reverse=True)

    @property
    def warps(self) -> float:
        """The average number of warps of a scheduler."""
        return self.warp_cycles / self.cycles

    @property
    def busy(self) -> float:
        """The fraction of cycles in which a scheduler issued an instruction."""
        return self.issued / self.cycles
