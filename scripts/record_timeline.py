"""Records what the warps of our Gluon attention kernels do, cycle by cycle: writes timeline-*.json. Needs a Hopper GPU.

    python scripts/record_timeline.py            all of them, each in a process of its own; about half a minute each, most of it compiling
    python scripts/record_timeline.py overlapped attention_hopper --out explain/recordings

A kernel is run as it is, timed, then run once more with its scopes marked (kernels/scopes.py) under Proton, Triton's profiler, whose instrumentation
reads the SM's clock where a scope begins and ends. The marked run's result must be the plain one's, bit by bit. What fails is said, and the rest goes on.
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

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from explain import recordings  # noqa: E402
from explain.chapters.speed import timeline  # noqa: E402

KEEP = 3
"""Programs of each launch that are kept, of those that there are."""
SECONDS = 150.0
BUSY = 2_000_000
"""Cycles that the GPU idles before a launch that is timed: a millisecond, in which Python has prepared it, so that only the kernel is between the events."""


@dataclass(frozen=True)
class Run:
    """One launch. `warps` are watched: the first of each group that computes, and the one that fetches.

    Triton fills a launch up to a multiple of four warps with idle ones, and numbers larger parts first: behind eight warps that compute come two idle
    ones, the one that fetches, and another idle one.
    """

    name: str
    module: str
    function: str
    shape: tuple[int, int, int, int]
    warps: str
    causal: bool = False


LONG = (1, 8, 2048, 128)
"""About a tile of rows for each of 132 SMs, and 16 tiles of keys: as many scopes as fit the kernel's last shared memory."""
RUNS = (
    Run("specialised", "kernels.rungs.specialised", "attention", LONG, "0,10"),
    Run("two_groups", "kernels.rungs.two_groups", "attention", LONG, "0,4,10"),
    Run("overlapped", "kernels.rungs.overlapped", "attention", LONG, "0,4,10"),
    Run("attention_hopper", "kernels.attention_hopper", "flash_attention_hopper", LONG, "0,4,10"),
    Run("attention_hopper", "kernels.attention_hopper", "flash_attention_hopper", (1, 16, 2048, 128), "0,4,10", True),
    Run("attention_hopper", "kernels.attention_hopper", "flash_attention_hopper", (1, 16, 1536, 64), "0,4,8,14"),
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "names", nargs="*", help=f"of {', '.join(dict.fromkeys(run.name for run in RUNS))}; all unless given"
    )
    parser.add_argument(
        "--out", type=Path, default=recordings.FOLDER, metavar="FOLDER", help="where the files go (explain/recordings)"
    )
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    parsed = parser.parse_args()
    if unknown := set(parsed.names) - {run.name for run in RUNS}:
        parser.error(f"{', '.join(sorted(unknown))}: no such kernel")
    if parsed.one is not None:
        record(RUNS[parsed.one], parsed.out)
        return 0
    failed = 0
    for number, run in enumerate(RUNS):
        if parsed.names and run.name not in parsed.names:
            continue
        start = time.monotonic()
        try:
            command = [sys.executable, str(Path(__file__)), "--one", str(number), "--out", str(parsed.out)]
            code = subprocess.run(command, cwd=ROOT, timeout=SECONDS, check=False).returncode
            said = f"ended with {code}" if code else "recorded"
        except subprocess.TimeoutExpired:
            code, said = 1, f"did not end in {SECONDS:.0f} s"
        failed += bool(code)
        print(
            f"{run.name} {run.shape}{' causal' if run.causal else ''}: {said}, {time.monotonic() - start:.0f} s",
            flush=True,
        )
    return 1 if failed else 0


def record(run: Run, folder: Path) -> None:
    """One run's timeline, into its file in the folder. Raises what the kernel, Proton or the check of the result raises."""
    import importlib

    import torch

    from explain.device.handler import provenance
    from explain.records.code import commit, digest_of
    from kernels import scopes

    torch.manual_seed(0)
    q, k, v = (torch.randn(run.shape, dtype=torch.bfloat16, device="cuda") for _ in range(3))
    plain = getattr(importlib.import_module(run.module), run.function)
    o, lse = plain(q, k, v, causal=run.causal)
    torch.cuda.synchronize()
    plain_us, sm_mhz = (
        timed(lambda: plain(q, k, v, causal=run.causal)),
        clock(lambda: plain(q, k, v, causal=run.causal)),
    )
    marked = getattr(scopes.load(run.module), run.function)
    with tempfile.TemporaryDirectory() as scratch:
        trace, (marked_o, marked_lse) = profiled(run, Path(scratch), lambda: marked(q, k, v, causal=run.causal))
    if not (torch.equal(o, marked_o) and torch.equal(lse, marked_lse)):
        raise SystemExit("the marked kernel's result is not the plain one's")
    everything = timeline.from_proton(trace, keep=10**9)
    longest = max(program.cycles for program in everything)
    result = timeline.Timeline(
        run.name, run.module, run.function, run.shape, "bf16", run.causal, sm_mhz, plain_us, longest / sm_mhz,
        timeline.from_proton(trace, KEEP), commit(), digest_of(run.module), provenance(),
    )  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    timeline.save(timeline.path_of(result.key, folder), result)
    print(f"  wrote {timeline.path_of(result.key, folder)}")
    for program in result.programs:
        hidden = "" if program.hidden is None else f", {program.hidden:.0%} of the softmax meanwhile"
        print(
            f"  program {program.program} on SM {program.sm}: {len(program.lanes)} warps, {program.visits()} visits, "
            f"{program.cycles:,} cycles, products under way at most {program.products:.0%}{hidden}"
        )
    print(
        f"  plain {plain_us:.1f} us, marked {result.marked_us:.1f} us, {sm_mhz:.0f} MHz, {len(everything)} programs",
        flush=True,
    )


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
    return json.loads(written[0].read_text().splitlines()[0]), result  # an object a line


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
    """The SMs' clock in MHz, as the driver says it while launches are queued."""
    import torch

    query = [
        "nvidia-smi",
        "--query-gpu=clocks.sm",
        "--format=csv,noheader,nounits",
        f"--id={torch.cuda.current_device()}",
    ]
    asked = None
    until = time.monotonic() + 0.3  # the clock of a GPU that was idle rises in this time
    while asked is None or asked.poll() is None:
        if asked is None and time.monotonic() > until:
            asked = subprocess.Popen(query, stdout=subprocess.PIPE, text=True)
        for _ in range(20):
            launch()
        torch.cuda.synchronize()
    return float(asked.communicate()[0].split()[0])


if __name__ == "__main__":
    raise SystemExit(main())
