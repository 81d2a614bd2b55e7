"""What `benchmarks/speed.py` measures: shapes, kernels with options, baselines, tolerances. Imports torch."""

from __future__ import annotations

import importlib
import itertools
import math
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from kernels import reference, verify
from kernels.rungs import ORDER

TORCH_DTYPE = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
Options = dict[str, Any]
RUNGS = "kernels.rungs."


@dataclass(frozen=True)
class Case:
    """One table's row: a shape. `work` is the bytes that must be moved or the FLOPs that must be done.

    Attention may have fewer heads of keys than of queries, another number of keys, and rows before heads in memory
    (`by_rows`).
    """

    table: str
    shape: tuple[int, ...]
    dtype: str
    work: float
    unit: str
    causal: bool = False
    kv_heads: int | None = None
    keys: int | None = None
    by_rows: bool = False

    @property
    def name(self) -> str:
        said = f"{self.table} {'×'.join(map(str, self.shape))} {self.dtype}{' causal' if self.causal else ''}"
        if self.kv_heads and self.kv_heads != self.shape[1]:
            said += f", {self.kv_heads} heads of keys"
        if self.keys and self.keys != self.shape[2]:
            said += f", {self.keys} keys"
        return said + (", by rows" if self.by_rows else "")


@dataclass(frozen=True)
class Variant:
    """One way to compute a case: a function of this project or a baseline, with options."""

    function: str  # "module:function" of this project, or a baseline's name
    options: Options = field(default_factory=dict)

    @property
    def name(self) -> str:
        said = ",".join(f"{key}={value}" for key, value in self.options.items())
        module, _, function = self.function.partition(":")
        if module.startswith(RUNGS):  # every rung calls its function alike
            function = f"rung {module.removeprefix(RUNGS)}"
        return function + (f"[{said}]" if said else "") or self.function

    def on(self, case: Case, inputs: tuple[torch.Tensor, ...]) -> Callable[[], Any]:
        """A function that launches it."""
        if self.function in BASELINES:
            return BASELINES[self.function](case, *inputs)
        module, name = self.function.split(":")
        function = getattr(importlib.import_module(module), name)
        options = self.options | ({"causal": case.causal} if case.table in ("attention", "backward") else {})
        if case.table == "backward":
            q, k, v, do, o, lse = inputs
            inputs = (q, k, v, o, lse, do)
        return lambda: function(*inputs, **options)


def softmax_cases() -> Iterator[Case]:
    for dtype, columns in itertools.product(("fp32", "bf16"), (256, 1024, 4096, 8192, 32768, 65536, 131072, 262144)):
        yield Case("softmax", (2**28 // columns, columns), dtype, 2 * 2**28 * TORCH_DTYPE[dtype].itemsize, "B/s")


def topk_cases() -> Iterator[Case]:
    for columns in (1000, 4032, 25000, 129024):
        yield Case("topk", (4000, columns), "fp32", 4000 * columns * 4 + 4000 * 5 * 12, "B/s")


def decode_cases() -> Iterator[Case]:
    for batch, heads, kv_heads, keys, head_dim in (
        (1, 64, 8, 131072, 128),
        (16, 64, 8, 16384, 128),
        (64, 32, 8, 8192, 128),
        (8, 32, 32, 8192, 128),
        (16, 32, 4, 32768, 64),
    ):
        work = 2 * batch * kv_heads * keys * head_dim * 2
        yield Case("decode", (batch, heads, kv_heads, keys, head_dim), "bf16", work, "B/s")


def attention_cases(table: str, products: float) -> Iterator[Case]:
    for head_dim, seq_len, causal in itertools.product((128, 64), (2048, 4096, 8192, 16384), (False, True)):
        batch, heads = 16384 // seq_len, 2048 // head_dim
        work = products * 4 * batch * heads * seq_len**2 * head_dim / (2 if causal else 1)
        yield Case(table, (batch, heads, seq_len, head_dim), "bf16", work, "FLOP/s", causal)


CASES: dict[str, Callable[[], Iterator[Case]]] = {
    "softmax": softmax_cases,
    "topk": topk_cases,
    "decode": decode_cases,
    "attention": lambda: attention_cases("attention", 1.0),
    "backward": lambda: attention_cases("backward", 2.5),  # five matmuls where the forward pass has two
}


def make_inputs(case: Case) -> tuple[torch.Tensor, ...]:
    """Random normal tensors on the GPU; for the backward pass q, k, v, dO, and what a forward pass left, O and lse."""
    torch.manual_seed(0)
    dtype = TORCH_DTYPE[case.dtype]
    shapes: list[tuple[int, ...]] = [case.shape]
    if case.table == "decode":
        batch, heads, kv_heads, keys, head_dim = case.shape
        shapes = [(batch, heads, 1, head_dim), *2 * [(batch, kv_heads, keys, head_dim)]]
    if case.table in ("attention", "backward"):
        batch, heads, seq_len, head_dim = case.shape
        shapes += 2 * [(batch, case.kv_heads or heads, case.keys or seq_len, head_dim)]
    if case.table == "backward":
        shapes.append(case.shape)
    if case.by_rows:
        inputs = tuple(
            torch.randn((batch, length, heads, head_dim), device="cuda", dtype=dtype).transpose(1, 2)
            for batch, heads, length, head_dim in shapes
        )
    else:
        inputs = tuple(torch.randn(shape, device="cuda", dtype=dtype) for shape in shapes)
    if case.table == "backward":
        o, lse, *_ = torch.ops.aten._scaled_dot_product_flash_attention(*inputs[:3], is_causal=case.causal)
        inputs += (o.contiguous(), lse)
    return inputs


# Baselines: what others give for the same call


def _sdpa(backend: str) -> Callable[..., Callable[[], Any]]:
    def of(case: Case, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Callable[[], Any]:
        from torch.nn.attention import SDPBackend, sdpa_kernel

        def launch() -> torch.Tensor:
            with sdpa_kernel(getattr(SDPBackend, backend)):
                return torch.nn.functional.scaled_dot_product_attention(
                    q, k, v, is_causal=case.causal, enable_gqa=q.shape[1] != k.shape[1]
                )

        return launch

    return of


def _sdpa_backward(backend: str) -> Callable[..., Callable[[], Any]]:
    def of(case: Case, *inputs: torch.Tensor) -> Callable[[], Any]:
        q, k, v = leaves = [tensor.detach().requires_grad_() for tensor in inputs[:3]]
        with torch.enable_grad():
            o = _sdpa(backend)(case, q, k, v)()
        return lambda: torch.autograd.grad(o, leaves, inputs[3], retain_graph=True)

    return of


def _copy(case: Case, x: torch.Tensor, *_: torch.Tensor) -> Callable[[], Any]:
    y = torch.empty_like(x)
    return lambda: y.copy_(x)


def _copy_all(case: Case, *inputs: torch.Tensor) -> Callable[[], Any]:
    moved = (
        case.work if case.unit == "B/s" else inputs[0].nbytes + sum(one.nbytes for one in inputs)
    )  # O is as large as Q
    half = torch.empty(int(moved / 2), dtype=torch.int8, device="cuda")  # read and written: as many bytes in all
    y = torch.empty_like(half)
    return lambda: y.copy_(half)


def _fa3(case: Case, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Callable[[], Any]:
    flash_attn_func = importlib.import_module("fa3_fwd_interface").flash_attn_func
    q, k, v = (tensor.transpose(1, 2).contiguous() for tensor in (q, k, v))  # as FlashAttention keeps them
    return lambda: flash_attn_func(q, k, v, causal=case.causal).transpose(1, 2)


def _fa4(case: Case, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Callable[[], Any]:
    flash_attn_func = _flash_attention_4()
    q, k, v = (tensor.transpose(1, 2).contiguous() for tensor in (q, k, v))
    return lambda: flash_attn_func(q, k, v, causal=case.causal)[0].transpose(1, 2)


def _fa4_backward(case: Case, *inputs: torch.Tensor) -> Callable[[], Any]:
    flash_attn_func = _flash_attention_4()
    *leaves, do = (tensor.detach().transpose(1, 2).contiguous() for tensor in inputs[:4])
    with torch.enable_grad():
        o = flash_attn_func(*(leaf.requires_grad_() for leaf in leaves), causal=case.causal)[0]
    return lambda: tuple(d.transpose(1, 2) for d in torch.autograd.grad(o, leaves, do, retain_graph=True))


def _flash_attention_4() -> Callable[..., Any]:
    """FlashAttention-4's function. It keeps what it compiles on disk, for the process that times."""
    os.environ.setdefault("FLASH_ATTENTION_CUTE_DSL_CACHE_ENABLED", "1")  # read once, as it is imported
    return importlib.import_module("flash_attn.cute").flash_attn_func


def _quack(case: Case, x: torch.Tensor) -> Callable[[], Any]:
    softmax = importlib.import_module("quack").softmax
    return lambda: softmax(x)


BASELINES: dict[str, Callable[..., Callable[[], Any]]] = {
    "copy": _copy,
    "read": lambda case, x: lambda: torch.amax(x, dim=-1),
    "torch.softmax": lambda case, x: lambda: torch.softmax(x, dim=-1),
    "torch.softmax+topk": lambda case, x: lambda: torch.topk(torch.softmax(x, dim=-1), 5),
    "copy of as many bytes": _copy_all,
    "FlashAttention-3": _fa3,
    "FlashAttention-4": _fa4,
    "FlashAttention-4 backward": _fa4_backward,
    "QuACK": _quack,
    "torch.sdpa flash": _sdpa("FLASH_ATTENTION"),
    "torch.sdpa cudnn": _sdpa("CUDNN_ATTENTION"),
    "torch.sdpa flash backward": _sdpa_backward("FLASH_ATTENTION"),
    "torch.sdpa cudnn backward": _sdpa_backward("CUDNN_ATTENTION"),
}
FLOORS = ("copy", "copy of as many bytes", "read")  # they compute nothing, so there is nothing to check


def variants(case: Case, tune: bool) -> list[Variant]:
    """What runs on a case: baselines and our kernels, with their own options or, to `tune`, over a grid of them."""
    baselines = {
        "softmax": ["copy", "torch.softmax", "QuACK"],
        "topk": ["read", "torch.softmax+topk"],
        "decode": ["copy of as many bytes", "torch.sdpa flash", "torch.sdpa cudnn"],
        "attention": ["torch.sdpa cudnn", "FlashAttention-3", "FlashAttention-4", "torch.sdpa flash"],
        "backward": ["torch.sdpa flash backward", "torch.sdpa cudnn backward", "FlashAttention-4 backward"],
    }[case.table]
    if case.keys and case.keys != case.shape[2]:  # few queries: their keys' bytes can be what takes the time
        baselines = [*baselines, "copy of as many bytes"]
    return [*map(Variant, baselines), *(tuned(case) if tune else map(Variant, chosen(case)))]


def chosen(case: Case) -> Iterator[str]:
    """Our kernels, which choose their options by themselves."""
    if case.table == "softmax":
        yield "kernels.dispatch:softmax"
        if case.shape[1] <= 32768:
            yield from ("kernels.softmax_fast:softmax_rows", "kernels.softmax_fast:softmax_pipelined")
            yield "kernels.softmax_staged:softmax_staged"
            if case.shape[1] < 1024:
                yield "kernels.softmax_lanes:softmax_lanes"
        else:
            yield from ("kernels.softmax_fast:softmax_two_reads", "kernels.softmax_fast:softmax_shared_row")
            yield "kernels.softmax_parts:softmax_parts"
    if case.table == "topk":
        yield "kernels.topk_fast:softmax_topk_lanes"
    if case.table == "decode":
        yield "kernels.decode:flash_decode"
    if case.table == "attention":
        yield from ("kernels.dispatch:attention", "kernels.attention:flash_attention_exp2")
        # Without tensor cores a launch takes up to a second where N is 16384, and as long a share of peak as where it
        # is 8192.
        yield from (f"{RUNGS}{rung}:attention" for rung in ORDER if rung != "naive_fp32" or case.shape[2] <= 8192)
        yield "kernels.attention_hopper:flash_attention_hopper"
    if case.table == "backward":
        yield "kernels.dispatch:attention_backward"


def _grid(function: str, **options: tuple[Any, ...]) -> Iterator[Variant]:
    for values in itertools.product(*options.values()):
        yield Variant(function, dict(zip(options, values, strict=True)))


def tuned(case: Case) -> Iterator[Variant]:
    """Our kernels over the options worth trying."""
    if case.table == "softmax":
        columns = case.shape[1]
        if columns * TORCH_DTYPE[case.dtype].itemsize <= 224 * 1024 and columns >= 1024:
            for warps in (1, 2, 4, 8, 16, 32):
                if 1024 <= columns // warps <= 8192:
                    yield Variant("kernels.softmax_staged:softmax_staged", {"warps": warps})
        if columns <= 32768:
            for elements, warps in itertools.product((1024, 4096, 8192, columns), (4, 8, 16)):
                if elements >= columns and 256 <= elements // warps <= 2048:
                    options = {"block_m": elements // columns, "warps": warps}
                    yield Variant("kernels.softmax_fast:softmax_rows", options)
            if columns == 32768:
                for warps, stages in itertools.product((8, 16, 32), (3, 4)):
                    options = {"stages": stages, "programs": 1, "warps": warps}
                    yield Variant("kernels.softmax_fast:softmax_pipelined", options)
        if columns < 1024:
            for lanes, warps in itertools.product((4, 8, 16, 32), (4, 8)):
                options = {"lanes": lanes, "warps": warps}
                yield Variant("kernels.softmax_lanes:softmax_lanes", options)
        if columns >= 32768:
            for part, warps in ((2**13, 2), (2**14, 2), (2**14, 4), (3 * 2**13, 4), (2**15, 4)):
                yield Variant("kernels.softmax_parts:softmax_parts", {"part": part, "warps": warps})
            for block_n, warps in ((2048, 2), (2048, 4), (4096, 4), (4096, 8), (8192, 8)):
                yield Variant("kernels.softmax_fast:softmax_shared_row", {"block_n": block_n, "warps": warps})
            for block_n, warps in ((4096, 4), (8192, 8)):
                for apart in (2**20, 2**21, 2**22):
                    options = {"block_n": block_n, "apart": apart, "warps": warps}
                    yield Variant("kernels.softmax_fast:softmax_two_reads", options)
    if case.table == "topk":
        grid = {"block_n": (512, 1024, 2048), "warps": (2, 4, 8), "unroll": (1, 2, 4)}
        yield from _grid("kernels.topk_fast:softmax_topk_lanes", **grid)
    if case.table == "decode":
        pairs = case.shape[0] * case.shape[2]
        for block_n, warps, stages in ((64, 4, 3), (64, 4, 4), (128, 4, 3), (128, 8, 3), (32, 4, 5), (64, 2, 3)):
            for waves in (1, 2, 4):
                splits = max(1, waves * 132 // pairs)
                options = {"splits": splits, "block_n": block_n, "warps": warps, "stages": stages}
                yield Variant("kernels.decode:flash_decode", options)
    if case.table == "attention":
        tried = (2, 3) if case.shape[3] == 64 else (2,)
        yield from _grid("kernels.attention_hopper:flash_attention_hopper", groups=tried, stages=tried)
    if case.table == "backward":
        tiles = ((64, 128, 8, 2), (64, 128, 8, 1), (128, 128, 8, 1), (128, 128, 8, 2), (64, 64, 4, 2), (64, 128, 4, 2))
        for dq, (block_m, block_n, warps, stages) in itertools.product(("again", "tma"), tiles):
            ways: Options = {"dq": dq, "block_m": block_m, "block_n": block_n, "warps": warps, "stages": stages}
            yield Variant("kernels.attention_backward:flash_attention_backward", ways)
        yield Variant("kernels.attention_backward:flash_attention_backward", {"dq": "add"})


# What is right


def error_over_tolerance(case: Case, inputs: tuple[torch.Tensor, ...], result: Any) -> float:
    """The worst error ÷ tolerance on a sample of rows, by the rule of `kernels/verify.py`. At most 1 is right."""
    outputs = result if isinstance(result, tuple) else (result,)
    if case.table in ("softmax", "topk"):
        return _weights_error(case, inputs[0], outputs)
    if case.table == "backward":
        return _gradient_error(case, inputs, outputs)
    return _attention_error(case, inputs, outputs[0])


def _weights_error(case: Case, x: torch.Tensor, outputs: tuple[torch.Tensor, ...]) -> float:
    rows = torch.randint(len(x), (min(16, 2**21 // x.shape[1]),), device="cuda")
    rows = torch.cat([rows, torch.tensor([0, len(x) - 1], device="cuda")])
    sample = x[rows]
    p = {"dtype": case.dtype, "cols": x.shape[1], "block_n": 1024}
    exact = reference.softmax(sample.float().cpu().numpy())
    expected, allowed = verify.weights(p, exact, torch.softmax(sample, dim=-1))
    if case.table == "topk":
        expected, index = reference.softmax_topk(sample.float().cpu().numpy(), 5)
        allowed = np.take_along_axis(allowed, index, axis=-1)
        if not np.array_equal(outputs[1][rows].cpu().numpy(), index):
            return math.inf
    return _worst(np.abs(outputs[0][rows].double().cpu().numpy() - expected) / allowed)


def _attention_error(case: Case, inputs: tuple[torch.Tensor, ...], o: torch.Tensor) -> float:
    q, k, v = inputs
    group, seq_len, unit = q.shape[1] // k.shape[1], q.shape[2], verify.UNIT[case.dtype]
    worst = 0.0
    for _ in range(6):
        batch, head = (int(torch.randint(size, ())) for size in q.shape[:2])
        rows = torch.unique(torch.cat([torch.randint(seq_len, (128,)), torch.tensor([0, seq_len - 1])])).cuda()
        hidden = torch.arange(k.shape[2], device="cuda") > rows[:, None] if case.causal else None

        def weights(dtype: torch.dtype, rows=rows, hidden=hidden, batch=batch, head=head) -> torch.Tensor:
            s = q[batch, head, rows].to(dtype) @ k[batch, head // group].to(dtype).T * q.shape[-1] ** -0.5
            return torch.softmax(s if hidden is None else s.masked_fill(hidden, -math.inf), dim=-1)

        values = v[batch, head // group]
        p = weights(torch.float64)
        expected = p @ values.double()
        spread = (p**2 @ values.double() ** 2).sqrt()
        eager = (weights(q.dtype) @ values).double()
        allowed = 2 * (eager - expected).abs().amax(-1, keepdim=True) + unit * (2 * expected.abs() + 4 * spread)
        worst = max(worst, _worst(((o[batch, head, rows].double() - expected).abs() / allowed).cpu().numpy()))
    return worst


def _gradient_error(case: Case, inputs: tuple[torch.Tensor, ...], outputs: tuple[torch.Tensor, ...]) -> float:
    """Of two heads."""
    worst = 0.0
    for _ in range(2):
        at = tuple(int(torch.randint(size, ())) for size in case.shape[:2])
        head = [tensor[at] for tensor in inputs[:4]]
        exact, through_d = _gradients([tensor.double() for tensor in head], case.causal)
        eager, _ = _gradients(head, case.causal)
        for ours, right, allowed in zip(outputs, exact, verify.gradients(head, exact, eager, through_d), strict=True):
            worst = max(worst, _worst(((ours[at].double() - right).abs() / allowed).cpu().numpy()))
    return worst


def _gradients(head: list[torch.Tensor], causal: bool) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """One head's (dQ, dK, dV) by the formula, in the dtype of (q, k, v, dO); and `through_d` of `verify.gradients`."""
    q, k, v, do = head
    scale, wide = q.shape[-1] ** -0.5, torch.promote_types(q.dtype, torch.float32)
    dq, dk, dv = torch.empty_like(q), torch.zeros_like(k, dtype=wide), torch.zeros_like(v, dtype=wide)
    dq_off, dk_off = torch.empty_like(q), torch.zeros_like(k)
    for start in range(0, len(q), 1024):
        rows = slice(start, start + 1024)
        s = q[rows] @ k.T * scale
        if causal:
            s.masked_fill_(~torch.ones_like(s, dtype=torch.bool).tril(start), -math.inf)
        p = torch.softmax(s, dim=-1)
        dp = do[rows] @ v.T
        ds = p * (dp - (p * dp).sum(-1, keepdim=True))
        dq[rows] = ds @ k * scale
        dk += ds.T @ q[rows] * scale
        dv += p.T @ do[rows]
        off = (do[rows] * (p @ v)).abs().sum(-1, keepdim=True) * scale
        dq_off[rows] = off * (p @ k.abs())
        dk_off += p.T @ (off * q[rows].abs())
    return [dq, dk, dv], [dq_off, dk_off, torch.zeros_like(v)]


def _worst(ratios: np.ndarray) -> float:
    return float(ratios.max()) if np.isfinite(ratios).all() else math.inf
