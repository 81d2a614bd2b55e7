"""How long one load takes from each level of a GPU's memory, in clock cycles of the SM.

One thread follows a chain: each load gives the address of the next one, so no two loads overlap. The chain visits every
cache line of a region in random order. The region is in shared memory, in L2 (the loads bypass L1), in HBM (far larger
than L2), or in pinned host memory. For registers it is a chain of FMAs, each on the result of the last.
"""

from __future__ import annotations

import argparse
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from explain.records import results
from explain.records.code import measured_code

if TYPE_CHECKING:
    import torch

SOURCE = r"""
__device__ long long now() { long long t; asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t)); return t; }
#define TIMED(STEP) { long long t = now(), c = clock64(); _Pragma("unroll 64") for (int i = 0; i < loads; i++) STEP; \
  out[0] = clock64() - c; out[1] = now() - t; out[2] = j; }
extern "C" __global__ void chain(const int* p, long long* out, int kind, int loads, int warm) {
  __shared__ int s[4096];
  int j = out[2]; float x = warm, y = loads;
  for (int i = 0; i < 4096; i++) s[i] = p[i];
  for (int i = 0; i < warm; i++) j = __ldcg(p + j);
  if (kind == 0) TIMED(asm volatile("fma.rn.f32 %0, %0, %0, %1;" : "+f"(x) : "f"(y)))
  if (kind == 1) TIMED(j = ((volatile int*)s)[j])
  if (kind == 2) TIMED(j = __ldcg(p + j))
  if (x == 1.5f) out[2] = 0;
}"""
LINE_BYTES, ITEM_BYTES = 128, 4
LEVELS = (  # name, kind of the kernel above, bytes of the chain, loads timed
    ("register", 0, 2**14, 2**16),
    ("shared", 1, 2**14, 2**16),
    ("l2", 2, 2**22, 2**16),
    ("hbm", 2, 2**31, 2**16),
    ("host", 2, 2**28, 2**13),
)
RUNS = 11  # each continues where the last one ended; their median is recorded


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--name", default="h200", help="the GPU's name in the file's name, latency-NAME.json (h200)")


def run(parsed: argparse.Namespace) -> int:
    """Measures every level and writes explain/recordings/latency-NAME.json; the exit status."""
    import torch

    kernel = torch.cuda._compile_kernel(SOURCE, "chain")
    levels: dict[str, Any] = {}
    for name, kind, size, loads in LEVELS:
        p = chain(size).pin_memory() if name == "host" else chain(size).cuda()
        out = torch.zeros(3, dtype=torch.int64, device="cuda")
        runs = []
        for _ in range(RUNS):
            warm = size // LINE_BYTES if name == "l2" else 0
            kernel(grid=(1, 1, 1), block=(1, 1, 1), args=[p, out, kind, loads, warm])
            runs.append([value / loads for value in out.tolist()[:2]])
        cycles, ns = sorted(runs)[RUNS // 2]
        levels[name] = {"cycles": round(cycles, 1), "ns": round(ns, 2), "chain_bytes": size, "loads": loads}
    record = {
        "gpu": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "date": datetime.now(UTC).date().isoformat(),
        **measured_code(["latency"]),
        "levels": levels,
    }
    results.write(results.RECORDINGS / f"latency-{parsed.name}.json", record)
    return 0


def chain(size: int) -> torch.Tensor:
    """A cycle through every cache line of `size` bytes in random order: each used element is the index of the next."""
    import torch

    order = torch.randperm(size // LINE_BYTES) * (LINE_BYTES // ITEM_BYTES)
    p = torch.zeros(size // ITEM_BYTES, dtype=torch.int32)
    p[order] = order.roll(-1).int()
    return p
