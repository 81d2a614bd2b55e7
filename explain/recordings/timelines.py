"""What the warps of our Gluon attention kernels do, cycle by cycle. Needs a Hopper GPU; about half a minute a kernel.

A kernel runs as it is and is timed. Then it runs once more with its scopes marked (kernels/scopes.py) under Proton,
Triton's profiler, which reads the SM's clock where a scope begins and ends. Both results must be equal bit by bit. Each
kernel has a process of its own; one that fails is reported, and the others continue.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from explain import ROOT
from explain.chapters.speed import timeline
from explain.experiment import ParameterError
from explain.records.results import RECORDINGS

KEEP = 3
"""How many programs of a launch the file keeps."""
SECONDS = 150.0
BUSY = 2_000_000
"""The GPU idles this many cycles, a millisecond, before a timed launch: Python prepares the launch meanwhile."""


@dataclass(frozen=True)
class Run:
    """One launch and the warps to watch: the first of each consumer warpgroup, and the producer warp.

    Triton fills a launch with idle warps up to a multiple of four, and numbers larger parts first: after eight consumer
    warps come two idle ones, the producer, and another idle one.
    """

    name: str
    module: str
    function: str
    shape: tuple[int, int, int, int]
    warps: str
    causal: bool = False


LONG = (1, 8, 2048, 128)
"""About one row tile for each of 132 SMs, and 16 key tiles: as many scopes as fit the shared memory the kernel leaves.
"""
RUNS = (
    Run("specialised", "kernels.rungs.specialised", "attention", LONG, "0,10"),
    Run("two_groups", "kernels.rungs.two_groups", "attention", LONG, "0,4,10"),
    Run("overlapped", "kernels.rungs.overlapped", "attention", LONG, "0,4,10"),
    Run("attention_hopper", "kernels.attention_hopper", "flash_attention_hopper", LONG, "0,4,10"),
    Run("attention_hopper", "kernels.attention_hopper", "flash_attention_hopper", (1, 16, 2048, 128), "0,4,10", True),
    Run("attention_hopper", "kernels.attention_hopper", "flash_attention_hopper", (1, 16, 1536, 64), "0,4,8,14"),
)


NAMES = tuple(dict.fromkeys(one.name for one in RUNS))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", nargs="*", metavar="KERNEL", help=f"only these, of {', '.join(NAMES)}")
    parser.add_argument("--out", type=Path, default=RECORDINGS, metavar="DIR", help="where the files go")
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)


def run(parsed: argparse.Namespace) -> int:
    """Records the timelines and writes timeline-*.json; the exit status."""
    if unknown := set(parsed.names) - set(NAMES):
        raise ParameterError("kernel", ", ".join(sorted(unknown)), f"must be one of {', '.join(NAMES)}")
    if parsed.one is not None:
        record(RUNS[parsed.one], parsed.out)
        return 0
    failed = 0
    for number, one in enumerate(RUNS):
        if parsed.names and one.name not in parsed.names:
            continue
        start = time.monotonic()
        command = [sys.executable, "-m", "explain", "record", "timelines", "--one", str(number)]
        try:
            command += ["--out", str(parsed.out.resolve())]
            done = subprocess.run(command, cwd=ROOT, timeout=SECONDS, check=False)
            said = f"ended with {done.returncode}" if done.returncode else "recorded"
        except subprocess.TimeoutExpired:
            said = f"did not end in {SECONDS:.0f} s"
        failed += said != "recorded"
        causal = " causal" if one.causal else ""
        print(f"{one.name} {one.shape}{causal}: {said}, {time.monotonic() - start:.0f} s", flush=True)
    return 1 if failed else 0


def record(run: Run, folder: Path) -> None:
    """Writes the timeline of one run into the folder. Raises what the kernel, Proton or the check raises."""
    import importlib

    import torch

    from explain.device.handler import provenance
    from explain.records.code import commit
    from kernels import scopes
    from kernels.digest import digest_of

    torch.manual_seed(0)
    q, k, v = (torch.randn(run.shape, dtype=torch.bfloat16, device="cuda") for _ in range(3))
    plain = getattr(importlib.import_module(run.module), run.function)
    o, lse = plain(q, k, v, causal=run.causal)
    torch.cuda.synchronize()
    plain_us = timed(lambda: plain(q, k, v, causal=run.causal))
    sm_mhz = clock(lambda: plain(q, k, v, causal=run.causal))
    marked = getattr(scopes.load(run.module), run.function)
    with tempfile.TemporaryDirectory() as scratch:
        trace, (marked_o, marked_lse) = profiled(run, Path(scratch), lambda: marked(q, k, v, causal=run.causal))
    if not (torch.equal(o, marked_o) and torch.equal(lse, marked_lse)):
        raise SystemExit("the marked kernel's result differs from the plain kernel's")
    everything = timeline.from_proton(trace, keep=10**9)
    longest = max(program.cycles for program in everything)
    result = timeline.Timeline(
        run.name, run.module, run.function, run.shape, "bf16", run.causal, sm_mhz, plain_us, longest / sm_mhz,
        timeline.from_proton(trace, KEEP), commit(), digest_of(run.module, run.function), provenance(),
    )  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    timeline.save(timeline.path_of(result.key, folder), result)
    print(f"  wrote {timeline.path_of(result.key, folder)}")
    for program in result.programs:
        hidden = "" if program.hidden is None else f", {program.hidden:.0%} of the softmax hidden behind them"
        print(
            f"  program {program.program} on SM {program.sm}: {len(program.lanes)} warps, {program.visits()} visits, "
            f"{program.cycles:,} cycles, matmuls in flight at most {program.matmuls:.0%} of them{hidden}"
        )
    times = f"plain {plain_us:.1f} us, marked {result.marked_us:.1f} us, {sm_mhz:.0f} MHz"
    print(f"  {times}, {len(everything)} programs", flush=True)


def profiled(run: Run, folder: Path, launch: Any) -> tuple[dict[str, Any], Any]:
    """Proton's trace of one launch, and what the launch returned."""
    import torch
    import triton.profiler as proton

    mode = proton.mode.Default(
        optimizations="clock32", sampling_strategy="selective", sampling_options=run.warps, buffer_type="shared"
    )
    session = proton.start(str(folder / "timeline"), data="trace", backend="instrumentation", mode=mode)
    result = launch()
    torch.cuda.synchronize()
    proton.finalize(session)
    written = sorted(folder.glob("*.chrome_trace"))
    if len(written) != 1:
        raise SystemExit(f"Proton wrote {[path.name for path in folder.iterdir()]}, not one trace")
    return json.loads(written[0].read_text().splitlines()[0]), result  # one object per line


def timed(launch: Any) -> float:
    """The median time of a launch in microseconds, by device events, L2 warm as in the marked run."""
    import torch

    times = []
    for _ in range(60):
        before, after = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        torch.cuda._sleep(BUSY)  # type: ignore[no-untyped-call]
        before.record()
        launch()
        after.record()
        torch.cuda.synchronize()
        times.append(1e3 * before.elapsed_time(after))
    return statistics.median(times[10:])


def clock(launch: Any) -> float:
    """The SMs' clock in MHz, as reported by the driver while launches are queued."""
    import torch

    # By its UUID: PyTorch's numbers leave out the GPUs that CUDA_VISIBLE_DEVICES hides, the driver's do not.
    device = f"--id=GPU-{torch.cuda.get_device_properties().uuid}"
    query = ["nvidia-smi", "--query-gpu=clocks.sm", "--format=csv,noheader,nounits", device]
    asked = None
    until = time.monotonic() + 0.3  # an idle GPU raises its clock within this time
    while asked is None or asked.poll() is None:
        if asked is None and time.monotonic() > until:
            asked = subprocess.Popen(query, stdout=subprocess.PIPE, text=True)
        for _ in range(20):
            launch()
        torch.cuda.synchronize()
    return float(asked.communicate()[0].split()[0])
