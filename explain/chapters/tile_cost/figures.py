"""The limits of a launch's occupancy as bars."""

from __future__ import annotations

from explain.compile.cost import WARP, LaunchCost, occupancy
from explain.figures.labels import widest
from explain.figures.palette import css
from explain.figures.svg import picture, rect, text
from explain.gpus import Gpu

WIDE, HIGH = 330.0, 30.0


def limits(launch: LaunchCost, gpu: Gpu) -> str:
    """How many programs each of an SM's four limits allows; the lowest, which decides, is drawn strongest."""
    fits = occupancy(launch, gpu)
    uses = {
        "shared memory": f"{launch.shared_bytes:,} B per program; the SM has {gpu.shared_bytes_sm:,} B",
        "registers": f"{launch.registers} per thread, {WARP * launch.num_warps * launch.registers:,} per program; "
        f"the SM has {gpu.register_bytes_sm // 4:,}",
        "warps": f"{launch.num_warps} per program; the SM has room for {gpu.warps_sm}",
        "programs": f"at most {gpu.programs_sm}",
    }
    left, drawn = widest(fits.by_limit, bold=True) + 24, []
    for row, (name, count) in enumerate(fits.by_limit.items()):
        y, holds = 6 + row * HIGH, name == fits.limit
        length = WIDE * min(count, gpu.programs_sm) / gpu.programs_sm
        fill = css("alarm") if not count else css("slate")
        drawn += [
            text(left - 12, y + 16, name, anchor="end", bold=holds),
            rect(left, y, WIDE, HIGH - 8, css("slate"), opacity=0.07),
            rect(left, y, length, HIGH - 8, fill, opacity=0.85 if holds else 0.3),
            text(left + WIDE + 10, y + 16, f"{count}", bold=holds),
            text(left + WIDE + 50, y + 16, uses[name], faint=not holds),
        ]
    label = f"Programs of {launch.kernel} per SM of the {gpu.name}: {fits.programs}, limited by {fits.limit}"
    width = left + WIDE + 60 + widest(uses.values())
    return picture(width, 10 + HIGH * len(fits.by_limit), label, drawn, "54rem")
