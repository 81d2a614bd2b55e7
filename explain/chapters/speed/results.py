"""How fast each kernel is beside the libraries: what `benchmarks/speed.py` measured, as values.

A case is one shape of one table. A variant is one way to compute it. A variant that exceeds its tolerance or could not
run has a reason instead of a time. A roof is the hardware's measured limit: for bytes a copy or a read in the same run,
for FLOPs the matmul of the GPU's record. Imports neither streamlit nor torch.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from explain import ROOT
from explain.device.measurement import Provenance
from explain.figures import palette
from explain.figures.numbers import count, grouped
from explain.records import results
from explain.records.code import stale_parts
from explain.records.model import Record
from kernels.catalog import KERNELS, of_kind

FILE = results.BENCHMARKS / "speed.json"
COMMAND = "python benchmarks/speed.py --out benchmarks/results/speed.json"
FLOORS = ("copy", "copy of as many bytes", "read")
"""Kernels that only move the bytes, by their names in the file. The fastest of them is the roof of its case."""
DISPATCHERS = ("softmax", "attention", "attention_backward")
"""The functions of `kernels/dispatch.py`: each runs the fastest kernel that takes the shape."""
IN_CATALOG: Mapping[str, str] = {
    "torch.softmax": "torch:softmax",
    "torch.softmax+topk": "torch:softmax_topk",
    "torch.sdpa flash": "torch:flash",
    "torch.sdpa cudnn": "torch:cudnn",
    "torch.sdpa flash backward": "torch:flash_backward",
    "torch.sdpa cudnn backward": "torch:cudnn_backward",
    **{kernel.function: name for name, kernel in of_kind("taught", "fast").items()},
}
"""The catalog's names of the file's kernels. The file calls ours by their functions, PyTorch's as PyTorch does."""
MEASURED_ONLY: Mapping[str, tuple[str, int]] = {
    **dict.fromkeys(DISPATCHERS, ("our dispatcher", 0)),
    "FlashAttention-3": ("FlashAttention-3", 11),
    "FlashAttention-4": ("FlashAttention-4", 12),
    "FlashAttention-4 backward": ("FlashAttention-4", 12),
    "QuACK": ("QuACK", 12),
    **{name: (name, hue) for name, hue in (
        ("softmax_rows", 2), ("softmax_lanes", 4), ("softmax_staged", 10), ("softmax_pipelined", 9),
        ("softmax_shared_row", 1), ("softmax_parts", 5), ("softmax_two_reads", 6), ("flash_decode", 2),
    )},
}  # fmt: skip
"""Label and hue of what the catalog does not have: no experiment runs these."""
RUNG = "rung "
"""What the name of a rung's variant begins with; its module's name in `kernels/rungs` follows."""


@dataclass(frozen=True)
class Table:
    """One kind of work: the names of its shape's numbers, the one that a curve runs along, and what is counted."""

    title: str
    dimensions: tuple[str, ...]
    along: str
    work: str
    ceiling: str
    """Which measured limit bounds it, and why, in sentences."""
    only_reads: bool = False
    """It reads much and writes almost nothing: its limit is HBM's rate of reading, not a copy's."""


TABLES: Mapping[str, Table] = {
    "attention": Table(
        "Attention, forward", ("batch", "heads", "N", "d"), "N",
        "4 · batch · heads · N² · d FLOPs: two matmuls; half of that with a causal mask",
        "Attention is mostly matmuls, so its ceiling is a large matmul. What counts is how busy the tensor cores are.",
    ),
    "softmax": Table(
        "Softmax", ("rows", "V"), "V", "each element read once and written once",
        "Softmax does almost no arithmetic, so its ceiling is a copy. Only the bytes count: read a row once, write it "
        "once.",
    ),
    "topk": Table(
        "Softmax and top-5", ("rows", "V"), "V", "each element read once, and the lists of 5 written",
        "Top-5 reads a whole row and writes five numbers with their places, so its ceiling is reading HBM. The work "
        "for each element must fit into the time of its read.", True,
    ),
    "decode": Table(
        "Decode", ("batch", "heads", "KV heads", "keys", "d"), "", "K and V read once: one query per head, a long "
        "KV cache",
        "A decoding step has one query per head and reads all of K and V, so its ceiling is reading HBM. What counts "
        "is that all SMs read at once.", True,
    ),
    "backward": Table(
        "Attention, backward", ("batch", "heads", "N", "d"), "N",
        "10 · batch · heads · N² · d FLOPs: five matmuls, even if a kernel recomputes two of them; half with a "
        "causal mask",
        "The backward pass is mostly matmuls, five for each tile, so its ceiling is a large matmul. What counts is how "
        "busy the tensor cores are, and that S and P never go to HBM.",
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Variant:
    """One way to compute a case.

    `seconds` is a median, or None with the reason in `why`; `error` is error ÷ tolerance: ≤ 1 passes.
    """

    name: str
    seconds: float | None = None
    per_second: float | None = None
    error: float | None = None
    why: str = ""
    settings: int = 1  # tried of the same function; this was the fastest

    @property
    def function(self) -> str:
        """The name without its options."""
        return self.name.partition("[")[0]

    @property
    def options(self) -> str:
        """ "warps=4, stages=3"; empty if the kernel chose its options."""
        return self.name.partition("[")[2].rstrip("]").replace(",", ", ")

    @property
    def label(self) -> str:
        """What it is called on screen."""
        if self.function in MEASURED_ONLY:
            return MEASURED_ONLY[self.function][0]
        kernel = KERNELS.get(f"rung:{self.rung}" if self.rung else IN_CATALOG.get(self.function, ""))
        return self.function if kernel is None else f"{'our ' * (kernel.kind == 'taught')}{kernel.short}"

    @property
    def hue(self) -> str:
        """The palette's name of its colour; empty where the picture chooses one."""
        if self.function in MEASURED_ONLY:
            return palette.kernel(MEASURED_ONLY[self.function][1])
        return palette.kernel(KERNELS[IN_CATALOG[self.function]].hue) if self.function in IN_CATALOG else ""

    @property
    def ours(self) -> bool:
        """Whether it is a kernel of this project."""
        return not self.floor and (bool(self.rung) or self.function in (*DISPATCHERS, *_own_functions()))

    @property
    def rung(self) -> str:
        """The name of its module in `kernels/rungs`; empty for other kernels."""
        return self.function.removeprefix(RUNG) if self.function.startswith(RUNG) else ""

    @property
    def floor(self) -> bool:
        """Whether it only moves bytes."""
        return self.name in FLOORS

    @property
    def missed(self) -> bool:
        """Whether it ran and its error exceeds its tolerance."""
        return self.seconds is None and self.error is not None


@dataclass(frozen=True)
class Case:
    """One shape, and how fast each variant was on it.

    `unit` is "FLOP/s" or "B/s", `work` the FLOPs or bytes of one launch.
    """

    table: str
    shape: tuple[int, ...]
    dtype: str
    causal: bool
    work: float
    unit: str
    variants: tuple[Variant, ...]

    @property
    def values(self) -> dict[str, str]:
        """Its numbers by name, as words: {"N": "8,192", "d": "128", "dtype": "bf16", "causal": "no", …}."""
        numbers = {name: count(size) for name, size in zip(TABLES[self.table].dimensions, self.shape, strict=True)}
        masked = {"causal": "yes" if self.causal else "no"} if self.table in ("attention", "backward") else {}
        return {**numbers, "dtype": self.dtype, **masked}

    @property
    def words(self) -> str:
        """ "1 × 16 × 8,192 × 128, bf16, causal"."""
        shape = " × ".join(map(count, self.shape))
        return f"{shape}, {self.dtype}{', causal' if self.causal else ''}"

    @property
    def named(self) -> str:
        """ "batch 1, heads 16, N 8,192, d 128, bf16, causal"."""
        names = zip(TABLES[self.table].dimensions, self.shape, strict=True)
        return f"{', '.join(f'{name} {count(size)}' for name, size in names)}, {self.words.partition(', ')[2]}"

    @property
    def along(self) -> int:
        """Its place on its table's curve; 0 without a curve."""
        table = TABLES[self.table]
        return self.shape[table.dimensions.index(table.along)] if table.along else 0

    @cached_property
    def best(self) -> tuple[Variant, ...]:
        """The fastest correct variant of each function, fastest first, then those without a time; without floors."""
        chosen = []
        for function in dict.fromkeys(variant.function for variant in self.variants if not variant.floor):
            own = [variant for variant in self.variants if variant.function == function]
            timed = [variant for variant in own if variant.seconds is not None]
            missed = [variant for variant in own if variant.missed]
            first = min(timed, key=lambda variant: variant.seconds or math.inf) if timed else (missed or own)[0]
            chosen.append(replace(first, settings=len(own)))
        return tuple(sorted(chosen, key=lambda variant: variant.seconds or math.inf))

    def seconds_of(self, function: str) -> float | None:
        """The time of this function's fastest correct variant; None without one."""
        return next((one.seconds for one in self.best if one.function == function), None)

    @property
    def ours(self) -> Variant | None:
        """The fastest correct kernel of this project."""
        return next((variant for variant in self.best if variant.ours and variant.seconds is not None), None)

    @property
    def baselines(self) -> tuple[Variant, ...]:
        """The baselines: library kernels that have a time, fastest first."""
        return tuple(variant for variant in self.best if not variant.ours and variant.seconds is not None)

    @cached_property
    def without_rungs(self) -> Case:
        """The case without the climb's kernels, ten too many for a chart; our dispatcher runs the top one."""
        climbed = (f"{RUNG}", "flash_attention_hopper")
        return replace(self, variants=tuple(one for one in self.variants if not one.name.startswith(climbed)))


@dataclass(frozen=True)
class Result:
    """One run of the benchmark: where, when and how it ran, the GPU's state before and after, and the cases."""

    provenance: Provenance
    method: str
    before: Mapping[str, str] = field(default_factory=dict)
    after: Mapping[str, str] = field(default_factory=dict)
    cases: tuple[Case, ...] = ()
    code: Mapping[str, str] = field(default_factory=dict)
    """The digests of the measured functions."""

    @functools.cached_property
    def stale(self) -> Sequence[str]:
        """The measured functions that have other code now."""
        return stale_parts(self.code)

    @property
    def tables(self) -> tuple[str, ...]:
        """The tables that have a case, in the order of TABLES."""
        return tuple(name for name in TABLES if any(case.table == name for case in self.cases))

    def of(self, table: str) -> tuple[Case, ...]:
        """A table's cases, in the file's order."""
        return tuple(case for case in self.cases if case.table == table)

    def source(self, table: str) -> str:
        """Where a table's numbers come from, for a caption: one that was measured again has a method of its own."""
        method, *again = self.method.split("; ")
        for tables, _, own in (one.partition(": ") for one in again):
            method = own if table in tables.split(", ") else method
        return f"recorded · {self.provenance.words} · {method}"

    @property
    def state(self) -> str:
        """The GPU's clock and temperature before and after; empty where the driver did not report them."""
        said = [
            f"{grouped(state['clocks.sm'])} at {state['temperature.gpu']} °C {when}"
            for when, state in (("before the run, idle", self.before), ("at its end", self.after))
            if {"clocks.sm", "temperature.gpu"} <= set(state)
        ]
        return f"GPU clock: {', '.join(said)}" if said else ""


@dataclass(frozen=True)
class Limit:
    """A roof of a case: what it is, how many FLOPs or bytes per second, and how it was measured."""

    name: str
    per_second: float
    source: str
    own: bool = False
    """Whether it was measured in the case's own run, on its shape."""


def roof(case: Case, record: Record | None) -> Limit | None:
    """The hardware's limit for this case.

    For FLOPs the record's matmul; for bytes that are only read its rate of reading; for others the same run's fastest
    copy.
    """
    reads = TABLES[case.table].only_reads
    floors = [variant for variant in case.variants if variant.floor and variant.per_second]
    if case.unit == "B/s" and floors and not reads:
        fastest = max(floors, key=lambda variant: variant.per_second or 0.0)
        return Limit(fastest.name, fastest.per_second or 0.0, "the same run", own=True)
    bound = f"matmul {case.dtype}" if case.unit == "FLOP/s" else "hbm" if reads else "hbm copy"
    measured = record.roofs.get(bound) if record else None
    if measured is None or record is None:
        return None
    name = "matmul" if case.unit == "FLOP/s" else "reading HBM" if reads else "copy"
    return Limit(name, measured.per_second, f"{grouped(measured.method)}; {record.gpu}, {record.provenance.date}")


def choices(cases: Iterable[Case]) -> dict[str, list[str]]:
    """The names that have more than one value in these cases, with the values in order of size."""
    found: dict[str, list[str]] = {}
    for case in cases:
        for name, value in case.values.items():
            if value not in found.setdefault(name, []):
                found[name].append(value)
    return {name: sorted(values, key=size_of) for name, values in found.items() if len(values) > 1}


def beside(case: Case, cases: Iterable[Case]) -> list[Case]:
    """The cases of the same curve, shortest first: they differ only in what it runs along, in batch and in heads."""
    along = TABLES[case.table].along
    if not along:
        return []
    free = (along, "batch", "heads", "rows")

    def fixed(one: Case) -> dict[str, str]:
        return {name: value for name, value in one.values.items() if name not in free}

    return sorted((one for one in cases if fixed(one) == fixed(case)), key=lambda one: one.along)


def load(path: Path = FILE) -> Result | None:
    """The result in a file, None if there is none. Raises ResultFileError."""
    return results.load(path, parse, COMMAND)


def parse(data: Mapping[str, Any]) -> Result:
    """The result that `benchmarks/speed.py` wrote as this JSON. Raises KeyError, TypeError, ValueError for another."""
    state = {name: dict(data.get(name) or {}) for name in ("before", "after")}
    cases = tuple(map(_case, data["cases"]))
    code = dict(data.get("code") or {})
    return Result(Provenance(**data["provenance"]), data["method"], **state, cases=cases, code=code)


def _case(data: Mapping[str, Any]) -> Case:
    case, known = data["case"], TABLES[data["case"]["table"]]
    if len(case["shape"]) != len(known.dimensions):
        raise ValueError(f"the shape {case['shape']} of {case['table']} must be {known.dimensions}")
    numbers = ("seconds", "per_second", "error")
    variants = tuple(
        Variant(one["name"], **{name: one.get(name) for name in numbers}, why=one.get("why", ""))
        for one in data["variants"]
    )
    return Case(
        case["table"], tuple(case["shape"]), case["dtype"], bool(case.get("causal")),
        float(case["work"]), case["unit"], variants,
    )  # fmt: skip


def size_of(value: str) -> tuple[float, str]:
    """A sort key for a case's values: numbers by size, then words."""
    plain = value.replace(",", "")
    return (float(plain), "") if plain.isdigit() else (math.inf, value)


@functools.cache
def _own_functions() -> frozenset[str]:
    """The names of the functions in this project's kernel modules."""
    texts = (path.read_text(encoding="utf-8") for path in (ROOT / "kernels").glob("*.py"))
    return frozenset(name for text in texts for name in re.findall(r"^def (\w+)\(", text, re.MULTILINE))


def ratio(ours: Variant, other: Variant) -> float:
    """How many times as fast ours is."""
    return (other.seconds or math.nan) / (ours.seconds or math.nan)


def all_baselines(cases: Sequence[Case]) -> list[Variant]:
    """The library kernels that have a time in any of the cases, one variant each."""
    return list({one.function: one for case in cases for one in case.baselines}.values())


def colours(cases: Sequence[Case]) -> dict[str, str]:
    """A palette name for each function of these cases: its own hue, or the next of the palette's series."""
    found = {one.function: one.hue for case in cases for one in case.variants if not one.floor}
    series, taken = iter(palette.SERIES), set()
    for function in sorted(found, key=lambda name: (not found[name], name)):
        if not found[function] or found[function] in taken:
            found[function] = next(series)
        taken.add(found[function])
    return found
