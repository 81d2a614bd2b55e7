"""What was measured of a file: its launches, each with its time, its counters and its traced bytes. No torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from explain.compile.cost import Footprint
from explain.counters.model import Counts, total
from explain.device.measurement import Provenance, Timing

METHOD = "device events around one launch; before each, its tensors are restored and L2 is emptied"


@dataclass(frozen=True)
class Traced:
    """The bytes and FLOPs that the trace counts of a launch, on the same arguments.

    If only `programs` of the `of` programs ran, the counts are theirs times `of` / `programs`.
    """

    read_bytes: int
    written_bytes: int
    flops: int
    programs: int
    of: int


@dataclass(frozen=True)
class Launch:
    """Equal launches of a kernel, `count` of them: same grid, same constants, same shapes. The first is measured.

    `place` is the line that launches it, "softmax.py:24", and `constants` are its `tl.constexpr` arguments. `counts`
    are of one launch from an empty L2. `why` says what is missing.
    """

    footprint: Footprint
    place: str
    grid: tuple[int, ...]
    count: int
    constants: Mapping[str, str]
    timing: Timing | None = None
    counts: Counts | None = None
    traced: Traced | None = None
    why: tuple[str, ...] = ()

    @property
    def dram_bytes(self) -> int | None:
        """Bytes between DRAM and L2, both ways, as the GPU counts them."""
        return self.counts.hbm_bytes if self.counts else None

    @property
    def traced_bytes(self) -> int | None:
        """Bytes that the kernel loads and stores, as the trace counts them."""
        return self.traced.read_bytes + self.traced.written_bytes if self.traced else None

    def per_second(self, size: int | None) -> float | None:
        """So many bytes in this launch's median time, per second."""
        if size is None or self.timing is None or not self.timing.median_ms:
            return None
        return size / self.timing.median_ms * 1e3


@dataclass(frozen=True)
class FileMeasurement:
    """The launches of a function of a file, in the order of their first one.

    `left` is how many launches were not measured because too many different ones came before. `output` is what the
    file printed, `failure` what stopped it ("" if nothing did), `uncounted` why there are no counters.
    """

    name: str
    launches: tuple[Launch, ...]
    left: int
    output: str
    failure: str
    uncounted: str
    provenance: Provenance


def written_bytes(counts: Counts) -> int | None:
    """Bytes written to DRAM, with those that were still in L2 when the launch ended."""
    return total(counts.dram_written_bytes, counts.dirty_bytes)
