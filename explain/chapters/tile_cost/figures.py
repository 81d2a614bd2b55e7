"""What a launch's programs use of an SM, as bars."""

from __future__ import annotations

from explain.compile.cost import WARP, LaunchCost, occupancy
from explain.figures.labels import widest
from explain.figures.numbers import count, percent
from explain.figures.palette import css
from explain.figures.svg import picture, rect, text
from explain.gpus import Gpu

WIDE, HIGH = 300.0, 46.0


def limits(launch: LaunchCost, gpu: Gpu) -> str:
    """How much of each of an SM's four resources its programs use; the one that is used up, the limit, is strongest.

    Where no program fits, the bars are of one program, and what is too small for it is in the alarm's colour.
    """
    fits = occupancy(launch, gpu)
    programs = max(fits.programs, 1)
    per_program = {
        "shared memory": (launch.shared_bytes, gpu.shared_bytes_sm, " B"),
        "registers": (WARP * launch.num_warps * launch.registers, gpu.register_bytes_sm // 4, ""),
        "warps": (launch.num_warps, gpu.warps_sm, ""),
        "programs": (1, gpu.programs_sm, ""),
    }
    said = {
        name: f"{programs} × {count(own)} = {count(programs * own)} of {count(whole)}{unit}"
        for name, (own, whole, unit) in per_program.items()
    }
    left, drawn = widest(per_program, bold=True) + 18, []
    for row, (name, (own, whole, _)) in enumerate(per_program.items()):
        y, holds, share = 4 + row * HIGH, name == fits.limit, programs * own / whole
        fill = css("slate" if fits.by_limit[name] else "alarm")
        drawn += [
            text(left - 12, y + 20, name, anchor="end", bold=holds),
            rect(left, y, WIDE, HIGH - 16, css("slate"), opacity=0.1),
            rect(left, y, WIDE * min(share, 1.0), HIGH - 16, fill, opacity=0.85 if holds else 0.35),
            text(left + WIDE + 10, y + 20, percent(share), bold=holds),
            text(left + WIDE + 62, y + 20, said[name], bold=holds, faint=not holds),
        ]
    label = f"{fits.programs} programs of {launch.kernel} per SM of the {gpu.name}, limited by {fits.limit}"
    width = left + WIDE + 72 + widest(said.values(), bold=True)
    return picture(width, HIGH * len(per_program), label, drawn, f"{1.3 * width:.0f}px")
