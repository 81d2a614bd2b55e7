"""A timeline made up for tests: a schedule with plain numbers, in the form of Proton's trace. It is not a recording,
and is never shown as one.

Two groups take turns. In each visit a group waits 10 cycles for K, starts Q Kᵀ, which takes 200 cycles, and with it P V
of the tile before, which is
done 200 cycles after that; its softmax takes the 300 cycles after Q Kᵀ, so that 200 of them lie under P V; then O is
rescaled in 50. The second
group is 300 cycles behind the first. The warp that fetches asks for K and V of each visit 100 cycles before it, in 20
cycles each.
"""

from __future__ import annotations

from typing import Any

from explain.chapters.speed import timeline
from explain.device.measurement import Provenance

VISIT, BEHIND, FIRST = 570, 300, 1000
WHERE = Provenance("NVIDIA Test 1", "1", "13.0", "2", "3", "3.11", "2026-01-01")


def trace(visits: int = 8, programs: int = 3) -> dict[str, Any]:
    """What Proton would write of that schedule."""
    events: list[dict[str, Any]] = []
    for program in range(programs):
        origin = 7_000 * program  # programs do not begin at the same cycle

        def add(warp: int, scope: str, start: int, cycles: int, program: int = program, origin: int = origin) -> None:
            place = f"kernel Core{10 + program} CTA{program}"
            times = {"ts": (origin + start) / 1000, "dur": cycles / 1000}
            events.append({"ph": "X", "name": scope, "pid": place, "tid": f"warp {warp} (line 0)", **times})

        for visit in range(visits):
            at = FIRST + visit * VISIT
            add(8, "load K", at - 100, 20)
            add(8, "load V", at - 80, 20)
            for group in range(2):
                begin = at + BEHIND * group
                add(4 * group, "wait K", begin, 10)
                add(4 * group, "QK", begin + 10, 200)
                add(4 * group, "PV", begin + 10, 400)
                add(4 * group, "softmax", begin + 210, 300)
                add(4 * group, "rescale", begin + 510, 50)
    return {"traceEvents": events}


def made(**other: Any) -> timeline.Timeline:
    """Its timeline, at 2,000 cycles a microsecond."""
    values: dict[str, Any] = {
        "name": "made_up", "module": "kernels.attention_hopper", "function": "flash_attention_hopper",
        "shape": (1, 2, 1024, 128),
        "dtype": "bf16", "causal": False, "sm_mhz": 2000.0, "plain_us": 2.5, "marked_us": 3.0,
        "programs": timeline.from_proton(trace(), 2), "commit": "abc", "code": "def", "provenance": WHERE,
    }  # fmt: skip
    return timeline.Timeline(**values | other)
