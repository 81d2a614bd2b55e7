"""A file's measurement, made up."""

from __future__ import annotations

from explain.compile.cost import Footprint
from explain.counters.model import Counts
from explain.device.measurement import Provenance, Timing
from explain.own_file.model import METHOD, FileMeasurement, Launch, Traced

PROVENANCE = Provenance("NVIDIA H200", "580.1", "13.0", "2.11.0", "3.6.0", "3.12.3", "2026-11-23")
COUNTS = Counts(
    dram_read_bytes=537_000_000, dram_written_bytes=230_000_000, dirty_bytes=38_000_000, l2_read_bytes=536_870_912,
    l2_written_bytes=268_435_456, l1_bytes=805_306_368, spill_read_bytes=0, spill_written_bytes=0, shared_wavefronts=0,
    time_ns=300_000, tensor_active_percent=0.0,
)  # fmt: skip
ADD = Launch(
    Footprint("add_kernel", 4, 3, 0, 32, 0),
    "vector_add.py:21",
    (65536, 1, 1),
    2,
    {"BLOCK": "1024"},
    Timing(900.0, 0.2, 0.19, 0.21, 100, METHOD),
    COUNTS,
    Traced(536_870_912, 268_435_456, 67_108_864, 256, 65536),
)
SCALE = Launch(Footprint("scale_kernel", 8, 3, 1024, 255, 48), "vector_add.py:30", (8, 2, 1), 1, {}, why=("no room",))
MEASURED = FileMeasurement("vector_add.py:main", (ADD, SCALE), 3, "", "", "", PROVENANCE)
