"""What allows no more programs on an SM: a launch's limits as bars. Numbers in, SVG out."""

from __future__ import annotations

from explain.compile.cost import WARP, LaunchCost, occupancy
from explain.figures.palette import css
from explain.figures.svg import picture, rect, text
from explain.gpus import Gpu

LEFT, WIDE, HIGH = 140.0, 330.0, 30.0


def limits(launch: LaunchCost, gpu: Gpu) -> str:
    """How many programs each of an SM's four limits allows; the least of them is what holds, and is drawn full."""
    fits = occupancy(launch, gpu)
    uses = {
        "shared memory": f"{launch.shared_bytes:,} B a program, of {gpu.shared_bytes_sm:,}",
        "registers": f"{launch.registers} a thread, {WARP * launch.num_warps * launch.registers:,} a program, of {gpu.register_bytes_sm // 4:,}",
        "warps": f"{launch.num_warps} a program, of {gpu.warps_sm}",
        "programs": f"at most {gpu.programs_sm}",
    }
    drawn = []
    for row, (name, count) in enumerate(fits.by_limit.items()):
        y, holds = 6 + row * HIGH, name == fits.limit
        length = WIDE * min(count, gpu.programs_sm) / gpu.programs_sm
        fill = css("alarm") if not count else css("slate")
        drawn += [
            text(LEFT - 12, y + 16, name, anchor="end", bold=holds),
            rect(LEFT, y, WIDE, HIGH - 8, css("slate"), opacity=0.07),
            rect(LEFT, y, length, HIGH - 8, fill, opacity=0.85 if holds else 0.3),
            text(LEFT + WIDE + 10, y + 16, f"{count}", bold=holds),
            text(LEFT + WIDE + 50, y + 16, uses[name], faint=not holds),
        ]
    label = f"Programs of {launch.kernel} that each limit of an SM of the {gpu.name} allows: {fits.programs}, by {fits.limit}"
    return picture(820, 10 + HIGH * len(fits.by_limit), label, drawn, "54rem")
