"""What `benchmarks/cross_entropy.py` measured. Imports neither streamlit nor torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from explain.chapters.cross_entropy.layers import ITEM_BYTES, part_of_liger
from explain.experiment import Experiment
from explain.figures.numbers import count
from explain.kept import kept
from explain.records import registry, results
from explain.records.code import stale_parts, stale_words
from explain.records.model import Record
from kernels.traffic import tiles
from kernels.traffic_cross_entropy import part_of_tokens

FILE = results.BENCHMARKS / "cross_entropy.json"
COMMAND = "python benchmarks/cross_entropy.py --out benchmarks/results/cross_entropy.json"
OURS, EAGER, COMPILED, LIGER, LEAST = "ours", "PyTorch eager", "torch.compile", "Liger", "at least"


@dataclass(frozen=True)
class Variant:
    """One way to compute a layer's loss and gradients: seconds and bytes of a step, or the reason for none in `why`."""

    name: str
    seconds: float | None
    peak_bytes: int | None
    why: str


@dataclass(frozen=True)
class Case:
    """A layer with its variants."""

    tokens: int
    vocab: int
    dim: int
    variants: Sequence[Variant]

    @property
    def name(self) -> str:
        return f"V = {count(self.vocab)}, d = {count(self.dim)}"

    @property
    def least_bytes(self) -> int:
        """The bytes that every variant holds: H, W, dH and dW in 16 bits."""
        return 2 * 2 * (self.tokens + self.vocab) * self.dim

    @property
    def matmul_flops(self) -> int:
        """The FLOPs of the three matmuls: X, dH and dW."""
        return 3 * 2 * self.tokens * self.vocab * self.dim

    @property
    def weight_bytes(self) -> int:
        """The bytes of W, and of dW."""
        return ITEM_BYTES * self.vocab * self.dim

    @property
    def chunks(self) -> Mapping[str, int]:
        """How many tokens Liger and ours compute at a time."""
        sizes = self.tokens, self.vocab, self.dim
        return {LIGER: part_of_liger(*sizes), OURS: part_of_tokens(*sizes, ITEM_BYTES)}

    def passes_bytes(self, part: int) -> int:
        """The bytes of W and dW where each `part` of the tokens reads W twice, and reads and writes dW."""
        return tiles(self.tokens, part) * 4 * self.weight_bytes

    def seconds_of(self, name: str) -> float | None:
        """The time of a variant; None without one."""
        return next((one.seconds for one in self.variants if one.name == name), None)

    @property
    def time(self) -> float | None:
        """Our time ÷ the fastest other variant's; None without both."""
        return self._against("seconds")

    @property
    def memory(self) -> float | None:
        """Our peak memory ÷ the least of the others; None without both."""
        return self._against("peak_bytes")

    def _against(self, what: str) -> float | None:
        found = {one.name: getattr(one, what) for one in self.variants if getattr(one, what) is not None}
        own = found.pop(OURS, None)
        return own / min(found.values()) if own and found else None


@dataclass(frozen=True)
class Measured:
    """All cases, and where and how they were measured; `stale` says what has changed since, or is empty."""

    cases: Sequence[Case]
    gpu: str
    where: str
    method: str
    stale: str

    def roof(self, name: str) -> float | None:
        """The FLOPs or bytes per second that a shipped record has of the same GPU; None without one."""
        roofs = (record.roofs.get(name) for record in registry.shipped() if record.gpu == self.gpu)
        return next((one.per_second for one in roofs if one), None)

    def case(self, sizes: Mapping[str, int]) -> Case | None:
        """The case of these sizes; None if it was not measured."""
        asked = sizes["tokens"], sizes["vocab"], sizes["dim"]
        return next((one for one in self.cases if (one.tokens, one.vocab, one.dim) == asked), None)


def measured() -> Measured | None:
    """The committed result; None if there is none. Raises ResultFileError."""
    return results.load(FILE, parsed, COMMAND)


@dataclass(frozen=True)
class Counted:
    """A run of a kernel, and the bytes that a GPU moved between DRAM and L2 in it, from a cold L2."""

    title: str
    experiment: Experiment
    hbm_bytes: int


@kept
def counted(kernels: Sequence[str]) -> tuple[Sequence[Counted], str]:
    """The largest run that a shipped record has of each of these kernels, and which GPU it was; nothing if none has."""
    for record in registry.shipped():
        sized = sorted(
            (one for one in record.points.values() if one.experiment.kernel == kernels[0]),
            key=lambda point: point.experiment.values["tokens"] * point.experiment.values["vocab"],
        )
        for point in reversed(sized):
            found = [_counted(record, point.experiment.through(kernel)) for kernel in kernels]
            if all(found):
                return [one for one in found if one], f"{record.gpu}, {record.provenance_of(point).date}"
    return [], ""


def _counted(record: Record, experiment: Experiment) -> Counted | None:
    point = record.point(experiment)
    moved = point.counters.cold.hbm_bytes if point and point.counters else None
    return None if moved is None else Counted(experiment.entry.title, experiment, moved)


def parsed(data: dict[str, Any]) -> Measured:
    """The values of a result file's object."""
    cases = tuple(
        Case(
            **one["case"],
            variants=tuple(
                Variant(row["name"], row.get("seconds"), row.get("peak_bytes"), row["why"]) for row in one["variants"]
            ),
        )
        for one in data["cases"]
    )
    on = data["provenance"]
    where = f"{on['gpu']}, {on['date'][:10]}, PyTorch {on['torch']}, Triton {on['triton']}"
    return Measured(cases, on["gpu"], where, data["method"], stale_words(stale_parts(data["code"])))
