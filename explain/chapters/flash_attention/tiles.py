"""A tile of FlashAttention by formula: its bytes on chip, and how often K and V are read. Imports no streamlit."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from explain.compile.cost import REGISTER_BYTES, WARP
from explain.experiment import Experiment, ParameterError
from explain.gpus import Gpu
from explain.kept import kept
from kernels.catalog import KERNELS
from kernels.parameters import ITEM_BYTES, WHOLE_ROW_TILE, Value, next_power_of_two

SIDES = (16, 32, 64, 128)
"""Sides of the tiles that ship with compiled costs."""
LENGTH = 1024
"""N of a compiled tile. The compiled program is the same for every multiple of 16."""
ROWS, TILES = 16, 4
"""Rows of a compiled softmax, and tiles per row."""
LARGEST_SIDE = 16384
"""Largest side to choose: ptxas takes minutes for larger tiles."""
MOST_REGISTERS = 255
"""Registers per thread at most: CUDA C++ Programming Guide, technical specifications per compute capability."""
NUM_WARPS = 4
"""Warps of a program of each attention kernel here."""
FP32_BYTES = 4


@dataclass(frozen=True)
class Part:
    """One array of a program's tile, in bytes. `place` is "shared" (memory) or "registers"."""

    name: str
    quantity: str
    place: str
    shape: str
    bytes: int


def tile(
    block_m: int,
    block_n: int,
    *,
    head_dim: int = 64,
    dtype: str = "fp16",
    causal: bool = False,
    kernel: str = "flash_attention",
) -> Experiment:
    """The experiment to compile for a tile. Raises ParameterError."""
    sizes = {"seq_len": LENGTH, "head_dim": head_dim, "dtype": dtype, "causal": causal}
    return Experiment.of(kernel, {**sizes, "block_m": block_m, "block_n": block_n}, "normal")


COMPARED = ((32, 32), (64, 64), (128, 64), (128, 128))
"""BLOCK_M and BLOCK_N of the tiles in the table of the tile-cost page."""
WIDE = (1024, 4096, 16384)
"""BLOCK_N there of a kernel without a tile of queries or tokens: of a softmax, of the vector addition."""
MASKED: tuple[tuple[Experiment, Experiment], ...] = tuple(
    (one.with_(heads=16, kv_heads=16), one.with_(heads=16, kv_heads=16, causal=True))
    for one in (
        tile(64, 64, head_dim=128, dtype="bf16", kernel="flash_attention_exp2"),
        tile(64, 64, head_dim=64, dtype="bf16", kernel="flash_attention_exp2"),
        tile(128, 64),
    )
)
"""The timed tiles without and with the causal mask: two of the benchmark on Speed, and the sweep's."""


@kept
def settings(kernel: str) -> dict[str, tuple[Value, ...]]:
    """The parameters that change a kernel's compiled code (tile sides, dtype, …), with their allowed values."""
    allowed: dict[str, tuple[Value, ...]] = {}
    for parameter in KERNELS[kernel].parameters:
        match parameter.kind:
            case "tile":
                least = 16 if KERNELS[kernel].family in ("attention", "loss") else parameter.minimum  # tl.dot's
                most = min(parameter.maximum, LARGEST_SIDE)
                allowed[parameter.name] = tuple(1 << bit for bit in range(17) if least <= 1 << bit <= most)
            case "choice":
                allowed[parameter.name] = parameter.choices
            case "flag":
                allowed[parameter.name] = (False, True)
    more: dict[str, tuple[Value, ...]] = {"head_dim": (16, 32, 64, 128, 256), "k": (1, 2, 5, 10, 15, 30)}
    return allowed | {p.name: more[p.name] for p in KERNELS[kernel].parameters if p.name in more}


def opening(kernel: str) -> dict[str, Value]:
    """The setting that the page opens on: one with shipped cost and instructions, if there is one."""
    if KERNELS[kernel].family == "attention":
        start: dict[str, Value] = {"block_m": 64, "block_n": 64, "head_dim": 64, "dtype": "fp16"}
    elif KERNELS[kernel].family == "loss":
        start = {"block_m": 64, "block_n": 64, "block_d": 64, "dtype": "bf16"}
    else:
        start = {"block_m": 4, "block_n": 1024, "dtype": "fp32"}
    own = settings(kernel)
    defaults = {p.name: p.default for p in KERNELS[kernel].parameters if p.name in own and not callable(p.default)}
    return {name: start.get(name, defaults.get(name, values[0])) for name, values in own.items()}


def compiled_as(kernel: str, chosen: Mapping[str, Value]) -> Experiment:
    """The experiment to compile for a kernel with these settings. Raises ParameterError."""
    if KERNELS[kernel].family == "attention":
        return Experiment.of(kernel, {"seq_len": LENGTH, **chosen}, "normal")
    if KERNELS[kernel].family == "loss":
        sizes = {"tokens": LENGTH, "vocab": LENGTH, "dim": chosen["block_d"]}
        return Experiment.of(kernel, {**sizes, **chosen}, "normal")
    tile = int(chosen.get("block_n", 1))
    cols = tile if WHOLE_ROW_TILE in KERNELS[kernel].parameters else max(LENGTH, TILES * tile)
    sizes = {"n": cols} if KERNELS[kernel].family == "vector" else {"rows": ROWS, "cols": cols}
    return Experiment.of(kernel, {**sizes, **chosen}, "normal")


@kept
def compared(experiment: Experiment) -> tuple[Experiment, ...]:
    """The tiles in the table of the tile-cost page: this one, and those that differ in their sides only."""
    own = {name: experiment.values[name] for name in settings(experiment.kernel)}
    matmul = experiment.entry.family in ("attention", "loss")
    sides = [{"block_m": m, "block_n": n} for m, n in COMPARED] if matmul else [{"block_n": n} for n in WIDE]
    found = {experiment}
    for one in sides:
        with suppress(ParameterError):  # this kernel cannot have it
            found.add(compiled_as(experiment.kernel, {**own, **one}))
    return tuple(sorted(found, key=lambda one: [one.values[name] for name in sides_of(one.kernel)]))


def sides_of(kernel: str) -> list[str]:
    """The parameters that are the sides of a kernel's tile in that table: BLOCK_M, BLOCK_N."""
    return [name for name in ("block_m", "block_n") if name in settings(kernel)]


FORWARD = tuple(
    name
    for name, entry in KERNELS.items()
    if entry.kind == "taught" and entry.family == "attention" and not (entry.gradient or entry.shares_keys)
)
"""The kernels of attention's forward pass with a tile of queries and a tile of keys."""


def parts(p: Mapping[str, Any]) -> list[Part]:
    """The arrays that one program of flash_attention holds at once, each once. The compiler may keep more."""
    m, n, item = p["block_m"], p["block_n"], ITEM_BYTES[p["dtype"]]
    d = max(16, next_power_of_two(p["head_dim"]))
    return [
        Part("Q tile", "q", "shared", f"{m} × {d} × {item} B", m * d * item),
        Part("K tile", "k", "shared", f"{n} × {d} × {item} B", n * d * item),
        Part("V tile", "v", "shared", f"{n} × {d} × {item} B", n * d * item),
        Part("S, then P̃", "scores", "registers", f"{m} × {n} × {FP32_BYTES} B", m * n * FP32_BYTES),
        Part("acc (Õ)", "acc", "registers", f"{m} × {d} × {FP32_BYTES} B", m * d * FP32_BYTES),
        Part("m and ℓ", "max", "registers", f"2 × {m} × {FP32_BYTES} B", 2 * m * FP32_BYTES),
    ]


def capacity(gpu: Gpu, place: str) -> int:
    """The most bytes that one program may use there."""
    if place == "shared":
        return gpu.shared_bytes
    return min(gpu.register_bytes_sm, MOST_REGISTERS * REGISTER_BYTES * WARP * NUM_WARPS)


@dataclass(frozen=True)
class Reads:
    """Elements of K and V read with one BLOCK_M: by the kernel's formula, and 8 N² d² / M with M = 4 d BLOCK_M."""

    block_m: int
    on_chip: int
    by_formula: int
    by_theorem: float
    bytes: int


def reads(seq_len: int, head_dim: int, dtype: str = "fp16") -> list[Reads]:
    """Elements of K and V that one head reads, for each BLOCK_M.

    M is not measured: it is the room of four tiles of BLOCK_M × d (Q, K, V, O), as in FlashAttention's
    B_c = ⌈M / 4d⌉; the tile of S comes on top. Each tile of queries reads all of K and V, so N / BLOCK_M × 2 N d
    elements are read, which is 8 N² d² / M by definition of M: theorem 2's order, Θ(N² d² / M), with the constant of
    this loop order.
    """
    rows = []
    for block_m in (16, 32, 64, 128, 256):
        sizes = {"seq_len": seq_len, "head_dim": head_dim, "dtype": dtype, "block_m": block_m, "block_n": 64}
        experiment = Experiment.of("flash_attention", sizes, "normal")
        terms = [t for t in experiment.traffic.terms if t.buffer in ("k", "v")]
        on_chip = 4 * head_dim * block_m
        read, size = sum(t.elements * t.times for t in terms), sum(t.bytes for t in terms)
        rows.append(Reads(block_m, on_chip, read, 8 * seq_len**2 * head_dim**2 / on_chip, size))
    return rows
