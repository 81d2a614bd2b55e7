"""A training step's last layer on this GPU: loss and both gradients, ours beside PyTorch and Liger, in time and memory.

For each size every variant runs once in turn, is compared with float64 on a sample of rows, and its peak memory is
taken. Then the right ones are timed in turn, round after round, by device events, L2 emptied before each step. Data are
random: logits of variance 1, every 50th token does not count. A median counts.

python benchmarks/cross_entropy.py --out benchmarks/results/cross_entropy.json
"""

from __future__ import annotations

import argparse
import importlib
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional as F

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks import speed
from explain.records import results
from explain.records.code import measured_code
from kernels.cross_entropy_fast import linear_cross_entropy
from kernels.inputs import IGNORE_INDEX

OURS = "kernels.cross_entropy_fast:linear_cross_entropy"
EAGER = "PyTorch eager"
SAMPLE = 64
"""Rows of dH and of dW that are compared with float64."""
UNIT = 2.0**-8
"""bfloat16's rounding, relative."""
Loss = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]


@dataclass(frozen=True)
class Case:
    """A layer: tokens of `dim` numbers, a vocabulary."""

    tokens: int
    vocab: int
    dim: int

    @property
    def name(self) -> str:
        return f"{self.tokens:,} tokens, V = {self.vocab:,}, d = {self.dim:,}"

    @property
    def flops(self) -> int:
        """Of the three matmuls that no variant can do without."""
        return 6 * self.tokens * self.vocab * self.dim


CASES = tuple(Case(8192, vocab, dim) for vocab in (50_257, 128_256, 262_144) for dim in (2048, 4096))


@dataclass(frozen=True)
class Inputs:
    """h (tokens, dim) and w (vocab, dim), which want gradients, and targets (tokens,) int64."""

    h: torch.Tensor
    w: torch.Tensor
    targets: torch.Tensor

    @classmethod
    def of(cls, case: Case, device: str, dtype: torch.dtype = torch.bfloat16) -> Inputs:
        random = torch.Generator(device).manual_seed(0)
        h, w = (
            torch.randn(rows, case.dim, generator=random, device=device, dtype=dtype)
            for rows in (case.tokens, case.vocab)
        )
        w *= case.dim**-0.5
        targets = torch.randint(case.vocab, (case.tokens,), generator=random, device=device)
        targets[::50] = IGNORE_INDEX
        return cls(h.requires_grad_(), w.requires_grad_(), targets)


def plain(h: torch.Tensor, w: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """The layer as PyTorch's users write it."""
    return F.cross_entropy(F.linear(h, w), targets)


def liger() -> Loss:
    """Liger's fused linear cross entropy. Raises ImportError where it is not installed."""
    module = importlib.import_module("liger_kernel.ops.fused_linear_cross_entropy")
    apply: Callable[..., tuple[torch.Tensor, ...]] = module.LigerFusedLinearCrossEntropyFunction.apply
    return lambda h, w, targets: apply(h, w, targets)[0]


WAYS: dict[str, Callable[[], Loss]] = {
    "ours": lambda: linear_cross_entropy,
    EAGER: lambda: plain,
    "torch.compile": lambda: torch.compile(plain, dynamic=False),
    "Liger": liger,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10, help="timed steps of each variant (10)")
    parser.add_argument("--seconds", type=float, default=190.0, help="begin no further size after so long (190)")
    parser.add_argument("--without", nargs="*", default=[], choices=list(WAYS), help="leave variants out")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the result there, as JSON")
    parsed = parser.parse_args()
    if not torch.cuda.is_available():
        raise SystemExit("this benchmark needs a GPU: PyTorch finds no CUDA GPU on this machine")
    from explain.device.handler import provenance

    before, deadline = speed.state_of_the_gpu(), time.monotonic() + parsed.seconds
    ways = {name: way for name, way in WAYS.items() if name not in parsed.without}
    found = []
    for case in CASES:
        if time.monotonic() < deadline:
            found.append(measured(case, ways, "cuda", parsed.rounds))
            print(*lines(found[-1]), sep="\n", flush=True)
    result = {
        "provenance": provenance().__dict__,
        **measured_code([OURS]),
        "before": before,
        "after": speed.state_of_the_gpu(),
        "method": f"bf16, loss and both gradients; median of {parsed.rounds} steps by device events, variants in turn, "
        "L2 emptied before each; peak: most memory that PyTorch's allocator held, inputs and gradients included",
        "cases": found,
    }
    if parsed.out:
        results.write(parsed.out, result)
    return 0


def measured(case: Case, ways: dict[str, Callable[[], Loss]], device: str, rounds: int) -> dict[str, Any]:
    """One size: {"case", "loss", "variants": [{"name", "right", "why", "errors", "peak_bytes", "seconds" …}]}."""
    inputs = Inputs.of(case, device)
    right = exact(inputs)
    rows: list[dict[str, Any]] = []
    steps: dict[str, Callable[[], None]] = {}
    for name, way in ways.items():
        try:
            loss = way()
            row = checked(loss, inputs, right)
        except ImportError:
            rows.append({"name": name, "right": False, "why": "not installed"})
            continue
        except Exception as why:  # a baseline that does not run here: said in the result
            rows.append({"name": name, "right": False, "why": f"{type(why).__name__}: {why}"[:300]})
            continue
        rows.append({"name": name, **row})
        steps[name] = stepping(loss, inputs)
    judge(rows)
    steps = {row["name"]: steps[row["name"]] for row in rows if row["right"]}
    for name, peak in peaks(steps, inputs, device):
        next(row for row in rows if row["name"] == name)["peak_bytes"] = peak
    for name, seconds in timed(steps, rounds, device).items():
        row = next(row for row in rows if row["name"] == name)
        row["seconds"], row["all_seconds"] = statistics.median(seconds), seconds
    return {"case": asdict(case), "flops": case.flops, "loss": right.loss, "variants": rows}


@dataclass(frozen=True)
class Exact:
    """The float64 loss, and a sample of rows of the gradients: dH of `tokens`, dW of `columns`."""

    loss: float
    tokens: torch.Tensor
    columns: torch.Tensor
    dh: torch.Tensor
    dw: torch.Tensor


@torch.no_grad()
def exact(inputs: Inputs) -> Exact:
    """The right answer in float64, a part of the tokens at a time."""
    h, w, targets = inputs.h.double(), inputs.w.double(), inputs.targets
    counted = targets != IGNORE_INDEX
    own = targets.clamp(min=0)
    part = max(1, 2**26 // len(w))
    lse = torch.cat([torch.logsumexp(rows @ w.T, dim=1) for rows in h.split(part)])
    losses = lse - (h * w[own]).sum(dim=1)
    random = torch.Generator().manual_seed(1)
    tokens = torch.randperm(len(h), generator=random)[:SAMPLE].to(h.device)
    some = torch.randperm(len(w), generator=random)[: SAMPLE // 2].to(h.device)
    columns = torch.cat([own[counted][: SAMPLE // 2], some]).unique()
    scale = counted.double() / counted.sum()
    dx = torch.exp(h[tokens] @ w.T - lse[tokens, None])
    dx[torch.arange(len(tokens)), own[tokens]] -= 1.0
    dh = (dx * scale[tokens, None]) @ w
    dx = torch.exp(h @ w[columns].T - lse[:, None]) - (own[:, None] == columns[None, :]).double()
    return Exact(float((losses * scale).sum()), tokens, columns, dh, (dx * scale[:, None]).T @ h)


def stepping(loss: Loss, inputs: Inputs) -> Callable[[], None]:
    """A function that computes the loss and both gradients, and drops them."""

    def step() -> None:
        inputs.h.grad = inputs.w.grad = None
        loss(inputs.h, inputs.w, inputs.targets).backward()

    return step


def checked(loss: Loss, inputs: Inputs, right: Exact) -> dict[str, Any]:
    """One step's errors: of the loss, and of the sampled rows of the gradients, relative to their norms."""
    found = loss(inputs.h, inputs.w, inputs.targets)
    gradients = torch.autograd.grad(found, (inputs.h, inputs.w))
    pairs = zip(gradients, ((right.tokens, right.dh), (right.columns, right.dw)), strict=True)
    dh, dw = (float((ours[rows].double() - exact).norm() / exact.norm()) for ours, (rows, exact) in pairs)
    return {"errors": {"loss": abs(float(found.detach()) - right.loss) / abs(right.loss), "dh": dh, "dw": dw}}


def judge(rows: Sequence[dict[str, Any]]) -> None:
    """Says of each variant whether it is right: no error above twice eager PyTorch's and one rounding to bfloat16."""
    eager: dict[str, float] = next((row["errors"] for row in rows if row["name"] == EAGER and "errors" in row), {})
    for row in rows:
        if "errors" in row:
            wrong = [name for name, error in row["errors"].items() if not error <= 2 * eager.get(name, 0.0) + UNIT]
            row |= {"right": not wrong, "why": f"exceeds its tolerance: {', '.join(wrong)}" if wrong else ""}


def peaks(steps: dict[str, Callable[[], None]], inputs: Inputs, device: str) -> Iterator[tuple[str, int]]:
    """The most memory that PyTorch held during a step of each variant, in bytes; nothing on a CPU."""
    for name, step in steps.items() if device == "cuda" else ():
        inputs.h.grad = inputs.w.grad = None
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        step()
        torch.cuda.synchronize()
        yield name, torch.cuda.max_memory_allocated()


def timed(steps: dict[str, Callable[[], None]], rounds: int, device: str) -> dict[str, list[float]]:
    """Seconds of each step, variants in turn; on a CPU by the clock, which says nothing of a GPU."""
    found: dict[str, list[float]] = {name: [] for name in steps}
    if device != "cuda":
        for _ in range(rounds):
            for name, step in steps.items():
                began = time.perf_counter()
                step()
                found[name].append(time.perf_counter() - began)
        return found
    empty = torch.empty(speed.EMPTIED, dtype=torch.int8, device=device)
    for turn in range(rounds + 1):
        for name, step in steps.items():
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            empty.zero_()
            start.record()
            step()
            end.record()
            torch.cuda.synchronize()
            if turn:  # the first round warms up
                found[name].append(1e-3 * start.elapsed_time(end))
    return found


def lines(one: dict[str, Any]) -> Iterator[str]:
    """A size's variants, the fastest first: milliseconds, TFLOP/s of the three matmuls, peak memory, errors."""
    yield Case(**one["case"]).name
    for row in sorted(one["variants"], key=lambda row: row.get("seconds", float("inf"))):
        if "seconds" not in row:
            yield f"  {row['name']}: {row['why']}"
            continue
        memory = f"{1e-9 * row['peak_bytes']:6.2f} GB" if "peak_bytes" in row else ""
        errors = ", ".join(f"{name} {error:.1e}" for name, error in row["errors"].items())
        rate = 1e-12 * one["flops"] / row["seconds"]
        yield f"  {1e3 * row['seconds']:8.2f} ms  {rate:6.1f} TFLOP/s  {memory}  {row['name']} ({errors})"


if __name__ == "__main__":
    raise SystemExit(main())
