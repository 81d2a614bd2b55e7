"""Stalls: what a kernel's warps spent their time on, as the GPU's own counters have it. Standard library only.

In every cycle each warp that is on an SM is in one state: its instruction is issued, or it waits for one named reason. The counters add up, over all
cycles and schedulers, how many warps were in each; all of them together are the warps that were there. Names and meanings are those that CUPTI gives
for its metrics smsp__warps_issue_stalled_…; what a reason means in full: NVIDIA, Nsight Compute, Kernel Profiling Guide, "Warp Scheduler States".
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Reason:
    """One state of a warp: its name, what the warp is doing, and the kind of time that it is, of KINDS."""

    name: str
    words: str
    kind: str


KINDS: Mapping[str, str] = {
    "issued": "issuing",
    "ready": "ready, another's turn",
    "tensor": "tensor cores and arithmetic",
    "memory": "L2 and HBM",
    "chip": "shared memory and exponentials",
    "pace": "the instruction before",
    "barrier": "other warps",
    "code": "fetching code",
    "other": "anything else",
}
"""What a warp's time goes to, by kind: what it waits for, in a word or two."""

REASONS: Mapping[str, Reason] = {
    "selected": Reason("issued", "its next instruction is issued in this cycle: the warp works.", "issued"),
    "not_selected": Reason("not selected", "able to go on, while the scheduler took another warp that was too.", "ready"),
    "gmma": Reason("GMMA", "waiting for the other warps of its group, to start a product that the four do together.", "tensor"),
    "math_pipe_throttle": Reason("math pipe throttle", "waiting for the unit that computes its next instruction, which is busy.", "tensor"),
    "long_scoreboard": Reason("long scoreboard", "waiting for data from L2 or HBM, through L1.", "memory"),
    "lg_throttle": Reason("LG throttle", "waiting for a place in the queue of loads and stores of global memory.", "memory"),
    "tex_throttle": Reason("TEX throttle", "waiting for a place in the queue of the texture unit.", "memory"),
    "membar": Reason("membar", "waiting until others can see what it wrote to memory.", "memory"),
    "imc_miss": Reason("IMC miss", "waiting for a constant that was not in the constant cache.", "memory"),
    "short_scoreboard": Reason("short scoreboard", "waiting for shared memory, or for the unit that takes exponentials.", "chip"),
    "mio_throttle": Reason("MIO throttle", "waiting for a place in the queue to shared memory and the unit of exponentials.", "chip"),
    "wait": Reason("wait", "waiting the few fixed cycles that its last instruction takes.", "pace"),
    "dispatch_stall": Reason("dispatch stall", "held back by the scheduler, since registers or a unit were taken.", "pace"),
    "barrier": Reason("barrier", "waiting for the other warps of its program at a barrier.", "barrier"),
    "sleeping": Reason("sleeping", "asleep for a while that it set itself.", "barrier"),
    "no_instruction": Reason("no instruction", "waiting for its next instruction to be fetched.", "code"),
    "branch_resolving": Reason("branch resolving", "waiting to know where a branch leads.", "code"),
    "drain": Reason("drain", "ended, with its last stores still on their way.", "other"),
    "misc": Reason("misc", "waiting for a reason that the hardware does not name.", "other"),
}  # fmt: skip
"""Every state, by the name in its metric."""

METRICS: Mapping[str, tuple[str, ...]] = {
    "warp_cycles": ("smsp__warps_active.sum",),
    "cycles": ("smsp__cycles_active.sum",),
    "issued": ("smsp__issue_active.sum",),
    **{key: (f"smsp__warps_issue_stalled_{key}.sum",) for key in REASONS},
}
"""What is counted -> its metric. Not every chip has every reason: GMMA is Hopper's own, and Blackwell counts no misses of constants."""


@dataclass(frozen=True)
class Stalls:
    """One run of a kernel, L2 cold. All counts are over all schedulers, four an SM.

    `warp_cycles`: for each cycle, the warps that were there. `cycles`: those in which a scheduler had a warp at all; `issued`: those in which it issued
    an instruction. `reasons`: the warp cycles in each state of REASONS that the chip counts. `passes`: the runs that these took together, since a GPU
    counts only some at a time, so that the sum of the reasons misses `warp_cycles` by what runs differ.
    """

    warp_cycles: int
    cycles: int
    issued: int
    reasons: Mapping[str, int]
    passes: int

    @classmethod
    def of(cls, values: Mapping[str, float], passes: int) -> Stalls | None:
        """From the values of METRICS; None where the chip did not give what everything is a share of."""
        known = {name: round(value) for name, value in values.items() if math.isfinite(value)}
        if not known.keys() >= {"warp_cycles", "cycles", "issued"} or not known["warp_cycles"] or not known["cycles"]:
            return None
        reasons = {key: known[key] for key in REASONS if key in known}
        return cls(known["warp_cycles"], known["cycles"], known["issued"], reasons, passes)

    def share(self, reason: str) -> float:
        """The part of all warps' time that was spent in this state; 0 of one that the chip does not count."""
        return self.reasons.get(reason, 0) / self.warp_cycles

    @property
    def by_kind(self) -> Mapping[str, float]:
        """The part of all warps' time that each of KINDS has."""
        return {kind: sum(self.share(key) for key, reason in REASONS.items() if reason.kind == kind) for kind in KINDS}

    @property
    def most(self) -> Sequence[str]:
        """The reasons to wait, the greatest first; without those that never were."""
        waits = [key for key, count in self.reasons.items() if key != "selected" and count]
        return sorted(waits, key=self.share, reverse=True)

    @property
    def unnamed(self) -> float:
        """The part of all warps' time that no reason has. Below 0 where the reasons were counted in longer runs."""
        return 1 - sum(map(self.share, self.reasons))

    @property
    def warps(self) -> float:
        """How many warps a scheduler had, on average."""
        return self.warp_cycles / self.cycles

    @property
    def busy(self) -> float:
        """The part of the cycles in which a scheduler issued an instruction."""
        return self.issued / self.cycles

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Stalls:
        """The stalls of `dataclasses.asdict`'s object. Raises KeyError or TypeError for what is no such object."""
        whole = {name: data[name] for name in ("warp_cycles", "cycles", "issued", "passes")}
        reasons = dict(data["reasons"])
        for name, value in {**whole, **reasons}.items():
            if type(value) is not int:
                raise TypeError(f"{name}={value!r}, which should be int")
        if whole["warp_cycles"] <= 0 or whole["cycles"] <= 0:
            raise TypeError("stalls of no warps")
        return cls(reasons={key: reasons[key] for key in REASONS if key in reasons}, **whole)
