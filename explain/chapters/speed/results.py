"""How fast kernels are beside each other: what `benchmarks/speed.py` wrote, as values. Imports neither streamlit nor torch.

A case is one shape of one table; a variant is one way to compute it. A variant that exceeds its tolerance, or could not run, has no time but
a reason. A roof is what the hardware gave at best: for bytes a copy, or a read, in the same run; for FLOPs the matrix product of the GPU's record.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from explain.device.measurement import Provenance
from explain.records import results
from explain.records.code import ROOT, stale_parts
from explain.records.model import Record

FILE = results.BENCHMARKS / "speed.json"
COMMAND = "python benchmarks/speed.py --out benchmarks/results/speed.json"
FLOORS: Mapping[str, str] = {"copy": "copy", "copy of as many bytes": "copy of as many bytes", "read": "one read"}
"""What only moves the bytes, by its name in the file: it computes nothing, so its speed is the roof of its case."""
DISPATCHERS = ("softmax", "attention", "attention_backward")
"""What `kernels/dispatch.py` calls its functions: each takes the fastest kernel that accepts the shape."""
LABELS: Mapping[str, str] = {
    **dict.fromkeys(DISPATCHERS, "our dispatcher"),
    "torch.softmax": "PyTorch",
    "torch.softmax+topk": "PyTorch, two calls",
    "torch.sdpa flash": "PyTorch's FlashAttention-2",
    "torch.sdpa cudnn": "cuDNN",
    "torch.sdpa flash backward": "PyTorch's FlashAttention-2",
    "torch.sdpa cudnn backward": "cuDNN",
    "FlashAttention-4 backward": "FlashAttention-4",
}
"""What variants are called on screen, where the file's name says less."""
RUNG = "rung "
"""What the name of a rung's variant begins with; its module's name in `kernels/rungs` follows."""


@dataclass(frozen=True)
class Table:
    """One kind of work: the names of its shape's numbers in order, the one that a curve runs along, and what its work counts."""

    title: str
    dimensions: tuple[str, ...]
    along: str
    work: str


TABLES: Mapping[str, Table] = {
    "attention": Table(
        "Attention, forward", ("batch", "heads", "N", "d"), "N",
        "4 · batch · heads · N² · d FLOPs: two matrix products; half of that under a causal mask",
    ),
    "backward": Table(
        "Attention, backward", ("batch", "heads", "N", "d"), "N",
        "10 · batch · heads · N² · d FLOPs: five matrix products, whether or not a kernel makes two of them again; half of that under a causal mask",
    ),
    "softmax": Table("Softmax", ("rows", "V"), "V", "each element read once and written once"),
    "topk": Table("Softmax and top-5", ("rows", "V"), "V", "each element read once, and the lists of 5 written"),
    "decode": Table(
        "Decode", ("batch", "heads", "KV heads", "keys", "d"), "", "K and V read once: one query a head over a long cache",
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Variant:
    """One way to compute a case. `seconds` is a median, None with a reason in `why`; `error` is over its tolerance, so at most 1 is right."""

    name: str
    seconds: float | None = None
    per_second: float | None = None
    error: float | None = None
    why: str = ""
    settings: int = 1  # of the same function, of which this was the fastest

    @property
    def function(self) -> str:
        """The name without its options."""
        return self.name.partition("[")[0]

    @property
    def options(self) -> str:
        """ "warps=4, stages=3"; empty where the kernel chose by itself."""
        return self.name.partition("[")[2].rstrip("]").replace(",", ", ")

    @property
    def label(self) -> str:
        """What it is called on screen."""
        return LABELS.get(self.function, self.function)

    @property
    def ours(self) -> bool:
        """Whether it is a kernel of this project."""
        return not self.floor and (bool(self.rung) or self.function in (*DISPATCHERS, *_own_functions()))

    @property
    def rung(self) -> str:
        """The name of its module in `kernels/rungs`; empty where it is none of the ladder's."""
        return self.function.removeprefix(RUNG) if self.function.startswith(RUNG) else ""

    @property
    def floor(self) -> bool:
        """Whether it only moves bytes."""
        return self.name in FLOORS

    @property
    def missed(self) -> bool:
        """Whether it ran, and its result was not right."""
        return self.seconds is None and self.error is not None


@dataclass(frozen=True)
class Case:
    """One shape, and how fast each variant was on it. `unit` is "FLOP/s" or "B/s", `work` the FLOPs or bytes of one launch."""

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
        numbers = {name: f"{size:,}" for name, size in zip(TABLES[self.table].dimensions, self.shape, strict=True)}
        masked = {"causal": "yes" if self.causal else "no"} if self.table in ("attention", "backward") else {}
        return {**numbers, "dtype": self.dtype, **masked}

    @property
    def words(self) -> str:
        """ "1 × 16 × 8,192 × 128, bf16, causal"."""
        shape = " × ".join(f"{size:,}" for size in self.shape)
        return f"{shape}, {self.dtype}{', causal' if self.causal else ''}"

    @property
    def along(self) -> int:
        """Where it stands on its table's curve; 0 where there is none."""
        table = TABLES[self.table]
        return self.shape[table.dimensions.index(table.along)] if table.along else 0

    @property
    def best(self) -> tuple[Variant, ...]:
        """The fastest right variant of each function, fastest first, then those that have no time; without floors."""
        chosen = []
        for function in dict.fromkeys(variant.function for variant in self.variants if not variant.floor):
            own = [variant for variant in self.variants if variant.function == function]
            timed = [variant for variant in own if variant.seconds is not None]
            missed = [variant for variant in own if variant.missed]
            first = min(timed, key=lambda variant: variant.seconds or math.inf) if timed else (missed or own)[0]
            chosen.append(replace(first, settings=len(own)))
        return tuple(sorted(chosen, key=lambda variant: variant.seconds or math.inf))

    @property
    def ours(self) -> Variant | None:
        """The fastest right kernel of this project."""
        return next((variant for variant in self.best if variant.ours and variant.seconds is not None), None)

    @property
    def baselines(self) -> tuple[Variant, ...]:
        """The others' that have a time, fastest first."""
        return tuple(variant for variant in self.best if not variant.ours and variant.seconds is not None)


@dataclass(frozen=True)
class Result:
    """One run of the benchmark: where, when, how, the GPU's state before and after, and its cases."""

    provenance: Provenance
    method: str
    before: Mapping[str, str] = field(default_factory=dict)
    after: Mapping[str, str] = field(default_factory=dict)
    cases: tuple[Case, ...] = ()
    stale: Sequence[str] = ()
    """The measured functions that have other code now."""

    @property
    def tables(self) -> tuple[str, ...]:
        """The tables that have a case, in the order of TABLES."""
        return tuple(name for name in TABLES if any(case.table == name for case in self.cases))

    def of(self, table: str) -> tuple[Case, ...]:
        """A table's cases, in the file's order."""
        return tuple(case for case in self.cases if case.table == table)

    @property
    def source(self) -> str:
        """Where its numbers come from, for a caption."""
        where = self.provenance
        return f"recorded · {where.gpu}, driver {where.driver}, CUDA {where.cuda}, torch {where.torch}, triton {where.triton}, {where.date} · {self.method}"

    @property
    def state(self) -> str:
        """The GPU's clock and temperature before and after, in words; empty where the driver did not say."""
        said = [
            f"{when} {state['clocks.sm']}, {state['temperature.gpu']} °C"
            for when, state in (("before", self.before), ("after", self.after))
            if {"clocks.sm", "temperature.gpu"} <= set(state)
        ]
        return f"clock and temperature {', '.join(said)}" if said else ""


@dataclass(frozen=True)
class Limit:
    """A roof of a case: what it is, what it gives a second, and where that was measured."""

    name: str
    per_second: float
    source: str


def roof(case: Case, record: Record | None) -> Limit | None:
    """What the hardware gives at best for this case: of bytes the fastest floor of the same run, of FLOPs the matrix product of `record`."""
    floors = [variant for variant in case.variants if variant.floor and variant.per_second]
    if case.unit == "B/s" and floors:
        fastest = max(floors, key=lambda variant: variant.per_second or 0.0)
        return Limit(FLOORS[fastest.name], fastest.per_second or 0.0, "the same run")
    measured = record.roofs.get(f"matmul {case.dtype}" if case.unit == "FLOP/s" else "hbm copy") if record else None
    if measured is None or record is None:
        return None
    name = "matrix product" if case.unit == "FLOP/s" else "copy"
    return Limit(name, measured.per_second, f"{measured.method}; {record.gpu}, {record.provenance.date}")


def choices(cases: Iterable[Case]) -> dict[str, list[str]]:
    """What tells these cases apart: names whose values differ, with the values in order of size."""
    found: dict[str, list[str]] = {}
    for case in cases:
        for name, value in case.values.items():
            if value not in found.setdefault(name, []):
                found[name].append(value)
    return {name: sorted(values, key=size_of) for name, values in found.items() if len(values) > 1}


def beside(case: Case, cases: Iterable[Case]) -> list[Case]:
    """The cases of the same curve: all that the curve does not run along is alike, batch and heads excepted. Shortest first."""
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
    """The result that `benchmarks/speed.py` wrote as this JSON. Raises KeyError, TypeError or ValueError for another."""
    state = {name: dict(data.get(name) or {}) for name in ("before", "after")}
    cases = tuple(map(_case, data["cases"]))
    return Result(
        Provenance(**data["provenance"]), data["method"], **state, cases=cases, stale=stale_parts(data.get("code"))
    )


def _case(data: Mapping[str, Any]) -> Case:
    case, known = data["case"], TABLES[data["case"]["table"]]
    if len(case["shape"]) != len(known.dimensions):
        raise ValueError(f"the shape {case['shape']} of {case['table']} is not {known.dimensions}")
    numbers = ("seconds", "per_second", "error")
    variants = tuple(
        Variant(one["name"], **{name: one.get(name) for name in numbers}, why=one.get("why", ""))
        for one in data["variants"]
    )
    return Case(
        case["table"], tuple(case["shape"]), case["dtype"], bool(case.get("causal")), float(case["work"]), case["unit"], variants
    )  # fmt: skip


def size_of(value: str) -> tuple[float, str]:
    """Sorts a case's values: numbers by size, then words."""
    plain = value.replace(",", "")
    return (float(plain), "") if plain.isdigit() else (math.inf, value)


@functools.cache
def _own_functions() -> frozenset[str]:
    """The names of this project's kernels' own calls: a baseline has none of them."""
    texts = (path.read_text(encoding="utf-8") for path in (ROOT / "kernels").glob("*.py"))
    return frozenset(name for text in texts for name in re.findall(r"^def (\w+)\(", text, re.MULTILINE))


def ratio(ours: Variant, baseline: Variant) -> float:
    """How many times as fast ours is."""
    return (baseline.seconds or math.nan) / (ours.seconds or math.nan)


def all_baselines(cases: Sequence[Case]) -> list[str]:
    """The names of the baselines that have a time in any of the cases."""
    return list(dict.fromkeys(baseline.function for case in cases for baseline in case.baselines))
