"""What a call costs on the host, on this GPU: ours beside PyTorch's own, in eager mode and from a CUDA graph.

Small inputs, so that the host is slower than the GPU. Each pair of results is compared first, and one that differs has
no time. Then the ways take turns: the GPU is idle, so many calls follow each other, and the clock stops when the last
one has returned, without waiting for the GPU. A training step is timed until the GPU is done. A median counts.

python benchmarks/host.py --out benchmarks/results/host.json
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch.nn.functional import cross_entropy, scaled_dot_product_attention

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.report import loop_s
from explain.records import results
from explain.records.code import measured_code
from kernels import dispatch
from kernels.operator import attention
from tests.kernels.gpt import GPT, Attend, Size

MEASURED = (
    "kernels.operator:attention",
    *(f"kernels.dispatch:{name}" for name in ("softmax", "attention", "attention_backward")),
)
MODEL = Size(layers=4, heads=8, head_dim=64, context=512, rows=2)
CALLS, TURNS = 20, 40
TOLERANCE = 2.0**-6
"""Four roundings to bfloat16, of the largest value: far below what a wrong mask or scale changes."""

Way = Callable[[], Any]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the result there, as JSON")
    parsed = parser.parse_args()
    if not torch.cuda.is_available():
        raise SystemExit("this benchmark needs a GPU: PyTorch finds no CUDA GPU on this machine")
    from explain.device.handler import provenance

    torch.manual_seed(0)
    rows = []
    for name, ours, theirs in calls():
        rows.append({"call": name, **measured(ours, theirs)})
        print(rows[-1], flush=True)
    pair = partial(attention, causal=True), partial(scaled_dot_product_attention, is_causal=True)
    step = compared(*(training(attend) for attend in pair), calls=4)
    print(step, flush=True)
    result = {
        "provenance": provenance().__dict__,
        "loop_s": loop_s(),
        **measured_code(MEASURED),
        "turns": TURNS,
        "calls": CALLS,
        "rows": rows,
        "step": {"model": MODEL.__dict__, "seconds": step},
    }
    if parsed.out:
        results.write(parsed.out, result)
    return 0


def calls() -> Iterator[tuple[str, Way, Way]]:
    """Each call by its name, ours and PyTorch's."""
    for shape, causal in (((2, 16, 512, 64), True), ((1, 8, 1024, 128), False)):
        pair = partial(attention, causal=causal), partial(scaled_dot_product_attention, is_causal=causal)
        inputs = tuple(random(*shape).requires_grad_() for _ in range(3))
        name = f"{'×'.join(map(str, shape))}{' causal' if causal else ''}"
        for what, way in {"forward": forward, "forward and backward": both}.items():
            ours, theirs = (way(attend, *inputs) for attend in pair)
            yield f"attention {what}, {name}", ours, theirs
    q, k, v = random(1, 32, 1, 128), random(1, 8, 8192, 128), random(1, 8, 8192, 128)
    yield (
        "decode, 32 heads and 8 of keys, 8192 keys × 128",
        lambda: attention(q, k, v),
        lambda: scaled_dot_product_attention(q, k, v, enable_gqa=True),
    )
    x = random(2000, 512)
    yield "softmax, 2000×512", lambda: dispatch.softmax(x), lambda: torch.softmax(x, dim=-1)


def random(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, device="cuda", dtype=torch.bfloat16)


def forward(attend: Attend, *inputs: torch.Tensor) -> Way:
    return torch.no_grad()(lambda: attend(*inputs))


def both(attend: Attend, *inputs: torch.Tensor) -> Way:
    """Forward and backward pass; it returns the gradient of k."""
    do = torch.ones_like(inputs[0])
    return lambda: torch.autograd.grad(attend(*inputs), inputs, do)[1]


def measured(ours: Way, theirs: Way) -> dict[str, Any]:
    """A call's seconds on the host by each way, {"ours", "torch", "ours in a graph", "torch in a graph"}, or {} where
    the two results differ.
    """
    a, b = ours().float(), theirs().float()
    if not torch.allclose(a, b, rtol=0.0, atol=TOLERANCE * float(b.abs().max())):
        return {"seconds": {}, "why": "the results differ"}
    return {"seconds": {**compared(ours, theirs), **graphed({"ours": ours, "torch": theirs})}}


def compared(*ours_and_torchs: Way, calls: int = CALLS) -> dict[str, float]:
    ways = dict(zip(("ours", "torch"), ours_and_torchs, strict=True))
    return timed(ways, calls, TURNS, torch.cuda.synchronize)


def timed(ways: dict[str, Way], calls: int, turns: int, finish: Callable[[], None]) -> dict[str, float]:
    """Median seconds of one call by each way, in turn; `finish` waits for the GPU, before the clock starts."""
    found: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(turns + 2):
        for name, way in ways.items():
            finish()
            began = time.perf_counter()
            for _ in range(calls):
                way()
            took = (time.perf_counter() - began) / calls
            if turn >= 2:  # the first turns compile and warm up
                found[name].append(took)
    finish()
    return {name: statistics.median(each) for name, each in found.items()}


def graphed(ways: dict[str, Way]) -> dict[str, float]:
    """The same from a CUDA graph of so many calls, if its last one has the bits of an eager call."""
    replays: dict[str, Way] = {}
    for name, way in ways.items():
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            held = [way() for _ in range(CALLS)]
        graph.replay()
        if torch.equal(held[-1], way()):
            replays[f"{name} in a graph"] = graph.replay
    each = timed(replays, 1, TURNS, torch.cuda.synchronize)
    return {name: seconds / CALLS for name, seconds in each.items()}


def training(attend: Attend) -> Way:
    """A training step of a small GPT, forward, backward and optimizer, in bf16 by autocast; until the GPU is done."""
    torch.manual_seed(0)
    model = GPT(MODEL, attend).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    text = torch.randint(256, (MODEL.rows, MODEL.context + 1), device="cuda")

    def step() -> None:
        with torch.autocast("cuda", torch.bfloat16):
            loss = cross_entropy(model(text[:, :-1]).flatten(0, 1).float(), text[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        torch.cuda.synchronize()

    return step


if __name__ == "__main__":
    raise SystemExit(main())
