"""What a launch's programs use of an SM, as bars, and the line of a kernel to look at first."""

from __future__ import annotations

from statistics import mode

from explain.compile.cost import REGISTER_BYTES, LaunchCost, allocated, occupancy
from explain.compile.listing import Listing
from explain.figures.labels import widest
from explain.figures.numbers import count, duration, percent
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
    whole_sm = {
        "shared memory": (gpu.shared_bytes_sm, " B"),
        "registers": (gpu.register_bytes_sm // REGISTER_BYTES, ""),
        "warps": (gpu.warps_sm, ""),
        "programs": (gpu.programs_sm, ""),
    }
    per_program = {name: (own, *whole_sm[name]) for name, own in allocated(launch, gpu).items()}
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
            text(left + WIDE + 10, y + 20, _share(share), bold=holds),
            text(left + WIDE + 62, y + 20, said[name], bold=holds, faint=not holds),
        ]
    label = f"{fits.programs} programs of {launch.kernel} per SM of the {gpu.name}, limited by {fits.limit}"
    width = left + WIDE + 72 + widest(said.values(), bold=True)
    return picture(width, HIGH * len(per_program), label, drawn, f"{1.3 * width:.0f}px")


def _share(share: float) -> str:
    """A decimal where there is one: "12.5%", "100%"."""
    return percent(share, 0 if round(1000 * share) % 10 == 0 else 1)


def compiled(launch: LaunchCost) -> str:
    """What the bars do not say of a launch: registers of a thread, spills and the compile time; Markdown."""
    spills = (
        f"**{count(launch.spill_store_bytes)} B** stored, {count(launch.spill_load_bytes)} B loaded"
        if launch.spill_store_bytes
        else "none"
    )
    return (
        f"Registers per thread: **{launch.registers}** · spills per thread: {spills} · "
        f"compiled in {duration(launch.seconds)}"
    )


def first_shown(listing: Listing) -> tuple[int, str] | None:
    """The kernel's line with most matmuls, or else with most exponentials, and that kind; None if it has neither."""
    for kind in ("matmul", "exponential"):
        if lines := sorted(line for one in listing.sass or listing.ptx if one.kind == kind for line in one.lines):
            return mode(lines), kind
    return None
