"""The highest bandwidth of each level of a GPU's memory and throughput of each unit: micro-benchmarks on this GPU.

Imports torch and triton; runs in the device worker. A kernel can come close to these roofs but not above them: a kernel
that does nothing else reaches them. A datasheet gives theoretical peaks instead.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch

from explain.records.model import Roof
from explain.worker_process import Progress
from kernels import bandwidth

Launch = Callable[[], object]
WARM_UP_SECONDS = 0.1  # an idle GPU raises its clocks within this time
LAUNCHES = 15
GIB, MIB = 2**30, 2**20
HBM_BYTES = 2 * GIB
L1_BYTES = 32 * 1024  # fits the smallest L1 beside shared memory
HOST_BYTES = GIB // 4
PROGRAMS_SM = (2, 4, 5, 16, 64)
"""Programs per SM of a reading kernel, to choose the best from: it differs by level and by GPU."""
SHARED_PROGRAMS_SM = (1, 2, 3)
"""Programs per SM of a kernel that reads shared memory, 64 KiB each."""
SIDE = 8192


@dataclass(frozen=True)
class _Benchmark:
    """`prepare` returns launches to choose the fastest of, each with its bytes or FLOPs."""

    level: str
    unit: str
    method: str
    prepare: Callable[[], list[tuple[Launch, int]]]


def measure(progress: Progress) -> dict[str, Roof]:
    """Every roof of this GPU, by level; about 15 s. What does not fit its memory is left out."""
    roofs: dict[str, Roof] = {}
    benchmarks = _benchmarks()
    for done, benchmark in enumerate(benchmarks):
        progress(f"measuring {benchmark.level}", done / len(benchmarks))
        try:
            roofs[benchmark.level] = _roof(benchmark)
        except torch.cuda.OutOfMemoryError:
            continue
        finally:
            torch.cuda.empty_cache()
    return roofs


def _roof(benchmark: _Benchmark) -> Roof:
    launches = benchmark.prepare()
    chosen = f", the fastest of {len(launches)} grids" if len(launches) > 1 else ""
    method = f"{benchmark.method}; median of {LAUNCHES} launches{chosen}, by device events"
    per_second = max(count / _seconds(launch) for launch, count in launches)
    return Roof(benchmark.level, per_second, benchmark.unit, method)


def _seconds(launch: Launch) -> float:
    """The median time of a launch, the GPU warm."""
    start = time.perf_counter()
    while time.perf_counter() - start < WARM_UP_SECONDS:
        launch()
        torch.cuda.synchronize()
    events = []
    # All are queued at once, so no event waits for Python
    for _ in range(LAUNCHES):
        before, after = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        before.record()
        launch()
        after.record()
        events.append((before, after))
    torch.cuda.synchronize()
    return statistics.median(before.elapsed_time(after) / 1e3 for before, after in events)


def _benchmarks() -> tuple[_Benchmark, ...]:
    gpu = torch.cuda.get_device_properties(torch.cuda.current_device())
    sms = gpu.multi_processor_count
    l2_bytes = gpu.L2_cache_size // 4 // MIB * MIB  # may be held twice, once in each half of L2

    def read(size: int, total: int, through_l1: bool = False) -> list[tuple[Launch, int]]:
        x = _random(size // 4)

        def with_programs(programs: int) -> tuple[Launch, int]:
            loads = max(total // bandwidth.read_count(programs, 1), 1)
            count = bandwidth.read_count(programs, loads)
            return lambda: bandwidth.read(x, programs, loads, through_l1=through_l1), count

        return [with_programs(sms * share) for share in PROGRAMS_SM]

    def shared() -> list[tuple[Launch, int]]:
        x, rounds = _random(bandwidth.BUFFERS.value * bandwidth.SHARED_TILE), 16384

        def with_programs(programs: int) -> tuple[Launch, int]:
            count = bandwidth.shared_read_count(programs, rounds)
            return lambda: bandwidth.shared_read(x, programs, rounds), count

        return [with_programs(sms * share) for share in SHARED_PROGRAMS_SM]

    def write() -> list[tuple[Launch, int]]:
        y = _random(HBM_BYTES // 4)
        return [(lambda: bandwidth.write(y), HBM_BYTES)]

    def copy() -> list[tuple[Launch, int]]:
        x = _random(HBM_BYTES // 4)
        y = torch.empty_like(x)
        return [(lambda: bandwidth.copy(x, y), 2 * HBM_BYTES)]

    def host(to_gpu: bool) -> list[tuple[Launch, int]]:
        there = _random(HOST_BYTES // 4)
        here = there.cpu().pin_memory()
        source, target = (here, there) if to_gpu else (there, here)
        return [(lambda: target.copy_(source, non_blocking=True), HOST_BYTES)]

    def exponentials() -> list[tuple[Launch, int]]:
        x, rounds = _random(sms * 8 * bandwidth.TILE), 4096
        return [(lambda: bandwidth.exponentials(x, rounds), x.numel() * rounds)]

    hbm = f"float32, normal values, {HBM_BYTES / GIB:g} GiB"
    l2, matmul = f"{l2_bytes / MIB:g} MiB", f"{SIDE} × {SIDE} × {SIDE}, normal values"
    return (
        _Benchmark("shared", "B/s", (
            f"every SM reads {bandwidth.BUFFERS.value} tiles of {bandwidth.SHARED_TILE} float32 in its shared memory "
            "in turn, 16 bytes a thread"
        ), shared),
        _Benchmark("l1", "B/s", f"every SM reads the same {L1_BYTES // 1024} KiB again and again through its L1",
        lambda: read(L1_BYTES, 64 * GIB, True)),
        _Benchmark("l2", "B/s", f"all SMs read the same {l2} again and again, past L1",
        lambda: read(l2_bytes, 16 * GIB)),
        _Benchmark("hbm", "B/s", f"reading {hbm}", lambda: read(HBM_BYTES, 2 * HBM_BYTES)),
        _Benchmark("hbm write", "B/s", f"writing {hbm}", write),
        _Benchmark("hbm copy", "B/s", f"copying {hbm}; bytes read and written", copy),
        _Benchmark("host", "B/s", f"copying {HOST_BYTES // MIB} MiB of pinned host memory to the GPU",
        lambda: host(True)),
        _Benchmark("host write", "B/s", f"copying {HOST_BYTES // MIB} MiB from the GPU to pinned host memory",
        lambda: host(False)),
        _Benchmark("matmul bf16", "FLOP/s", f"torch.matmul, {matmul}", lambda: _matmul(torch.bfloat16)),
        _Benchmark("matmul fp16", "FLOP/s", f"torch.matmul, {matmul}", lambda: _matmul(torch.float16)),
        _Benchmark("matmul tf32", "FLOP/s", f"torch.matmul of float32, rounded to tf32, {matmul}",
        lambda: _matmul(torch.float32, tf32=True)),
        _Benchmark("matmul fp32", "FLOP/s", f"torch.matmul of float32, no tensor cores, {matmul}",
        lambda: _matmul(torch.float32)),
        _Benchmark("exp", "FLOP/s", "2⁻ˣ of float32 in registers; one exponential counts as one FLOP", exponentials),
    )  # fmt: skip


def _random(elements: int) -> torch.Tensor:
    return torch.randn(elements, device="cuda")


def _matmul(dtype: torch.dtype, tf32: bool = False) -> list[tuple[Launch, int]]:
    a, b = (torch.randn(SIDE, SIDE, device="cuda").to(dtype) for _ in range(2))
    c = torch.empty_like(a)

    def launch() -> None:
        with _tf32(tf32):
            torch.matmul(a, b, out=c)

    return [(launch, 2 * SIDE**3)]


@contextmanager
def _tf32(allowed: bool) -> Iterator[None]:
    """Sets temporarily whether float32 matmuls may round to tf32."""
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = allowed
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before
