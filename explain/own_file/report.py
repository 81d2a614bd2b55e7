"""A file's measurement as text and as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from explain.compile.cost import Occupancy, occupancy
from explain.gpus import Gpu, card
from explain.own_file.model import FileMeasurement, Launch, written_bytes
from explain.plain import plain

NONE = "–"
INDENT = " " * 4


def as_json(found: FileMeasurement) -> dict[str, Any]:
    """The measurement with what follows from it: rates in bytes per second, and the programs that an SM holds."""
    launches = []
    for launch in found.launches:
        held = _occupancy(found, launch)
        launches.append(
            plain(launch)
            | {
                "dram_bytes_per_second": launch.per_second(launch.dram_bytes),
                "traced_bytes_per_second": launch.per_second(launch.traced_bytes),
                "programs_on_an_sm": held and held.programs,
                "limited_by": held and held.limit,
            }
        )
    return plain(found) | {"launches": launches}


def lines(found: FileMeasurement) -> Iterator[str]:
    """The measurement as text."""
    yield f"{found.name} on {found.provenance.words}"
    if timing := next((launch.timing for launch in found.launches if launch.timing), None):
        yield f"time: median by {timing.method}; bytes of L2 and DRAM: of one launch, L2 empty before it"
    for number, launch in enumerate(found.launches, 1):
        yield ""
        yield from _launch(number, launch, found)
    if found.left:
        yield f"\n{found.left:,} more launches are not measured: {len(found.launches)} different ones came before"
    if found.uncounted:
        yield f"\nnot counted by the GPU: {found.uncounted}"


def _launch(number: int, launch: Launch, found: FileMeasurement) -> Iterator[str]:
    gpu, compiled = card(found.provenance.gpu), launch.footprint
    times = "once" if launch.count == 1 else f"{launch.count:,} times"
    yield f"{number:>2}  {compiled.kernel} on grid {launch.grid}, launched {times}, first at {launch.place}"
    if launch.constants:
        yield f"{INDENT}{'constants':<11}" + ", ".join(f"{name}={value}" for name, value in launch.constants.items())
    if timing := launch.timing:
        spread = f"20% to 80% of {timing.launches}: {timing.p20_ms:.4f} to {timing.p80_ms:.4f} ms"
        yield f"{INDENT}{'time':<11}{timing.median_ms:.4f} ms ({spread})"
    held = _occupancy(found, launch)
    fits = f"; {held.programs} programs per SM, limited by {held.limit}" if held else ""
    yield (
        f"{INDENT}{'compiled':<11}{compiled.registers} registers per thread, {compiled.stack_bytes:,} bytes spilled, "
        f"{compiled.shared_bytes:,} bytes of shared memory, {compiled.num_warps} warps{fits}"
    )
    yield from _bytes(launch, gpu)
    if counts := launch.counts:
        yield f"{INDENT}{'tensor':<11}{_percent(counts.tensor_active_percent)} of the tensor cores' peak"
        yield (
            f"{INDENT}{'shared':<11}{_count(counts.shared_wavefronts)} wavefronts of shared memory; "
            f"{_count(counts.spilled_bytes)} bytes of registers spilled and read back"
        )
    for words in launch.why:
        yield f"{INDENT}{words}"


def _bytes(launch: Launch, gpu: Gpu | None) -> Iterator[str]:
    """A row for each that counts bytes: the trace, L2, DRAM."""
    rows: list[tuple[str, int | None, int | None, int | None, str]] = []
    if traced := launch.traced:
        part = "" if traced.programs == traced.of else f"  from {traced.programs:,} of {traced.of:,} programs"
        rows.append(("trace", traced.read_bytes, traced.written_bytes, launch.traced_bytes, part))
    if counts := launch.counts:
        share, rate = "", launch.per_second(launch.dram_bytes)
        if gpu and rate:
            peak = gpu.hbm_bytes_per_second
            share = f"  {rate / peak:.0%} of the datasheet's {peak / 1e12:.2f} TB/s"
        rows.append(("L2 to SMs", counts.l2_read_bytes, counts.l2_written_bytes, counts.sm_bytes, ""))
        rows.append(("DRAM", counts.dram_read_bytes, written_bytes(counts), launch.dram_bytes, share))
    if rows:
        yield f"{INDENT}{'':<11}{'bytes read':>16}{'bytes written':>16}{'TB/s':>8}"
    for name, read, written, both, note in rows:
        rate = launch.per_second(both)
        speed = NONE if rate is None else f"{rate / 1e12:.2f}"
        yield f"{INDENT}{name:<11}{_count(read):>16}{_count(written):>16}{speed:>8}{note}"


def _occupancy(found: FileMeasurement, launch: Launch) -> Occupancy | None:
    """How many of its programs an SM holds; None for a GPU that is not in the list."""
    gpu = card(found.provenance.gpu)
    return occupancy(launch.footprint, gpu) if gpu else None


def _count(value: int | None) -> str:
    return NONE if value is None else f"{value:,}"


def _percent(value: float | None) -> str:
    return NONE if value is None else f"{value:.1f}%"
