"""Sweep: kernels over one parameter; some are ready-made. Reading: one source's numbers for one point. No torch."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from explain.counters.model import Counts
from explain.experiment import Experiment, ParameterError, text_of
from explain.gpus import Gpu
from explain.kept import kept
from explain.prediction import Model
from explain.records.model import Point, Record
from kernels.parameters import Parameter, Value

MOST_VALUES, MOST_KERNELS = 24, 8
AXES: Mapping[str, tuple[str, str]] = {
    "seq_len": ("N", "queries and keys"),
    "cols": ("N", "elements in a row"),
    "vocab": ("V", "vocabulary"),
    "tokens": ("N", "tokens"),
    "dim": ("d", "hidden size"),
    "head_dim": ("d", "features of a head"),
    "block_m": ("BLOCK_M", "rows of a tile"),
    "block_n": ("BLOCK_N", "columns of a tile"),
    "batch": ("batch", "sequences"),
    "heads": ("heads", "query heads"),
    "rows": ("rows", "each with its own softmax"),
    "k": ("K", "largest weights kept"),
    "dtype": ("dtype", "of inputs and outputs"),
    "causal": ("causal", "the mask that hides later keys"),
}
"""The parameters that can vary: symbol, and meaning."""
LEVELS: Mapping[str, str] = {
    "asked": "requested by loads and stores",
    "l2": "between L2 and the SMs",
    "hbm": "at HBM",
    "shared": "in shared memory",
}
"""Where bytes are counted. Requested bytes come from formula and trace, and on a GPU from L1."""
SPILLED = "spilled"
"""Beside the levels: the bytes of spilled registers among those requested."""
WAVEFRONT_BYTES = 128  # 32 banks of 4 bytes, in one cycle


@dataclass(frozen=True)
class Sweep:
    """`kernels` at each of `values` of the parameter `axis`; with `fixed` ones, others at defaults. Build with `of`."""

    kernels: tuple[str, ...]
    axis: str
    values: tuple[Value, ...]
    fixed: tuple[tuple[str, Value], ...]

    @classmethod
    def of(
        cls, kernels: Sequence[str], axis: str, values: Sequence[object], fixed: Mapping[str, object] | None = None
    ) -> Sweep:
        """The sweep over these values (or their text), in order, each once.

        A value that one kernel cannot take is left out for that kernel (`left_out`). Raises ParameterError, which names
        the parameter, its value and what is allowed, for what no kernel takes, and for a kernel that can take none of
        the values.
        """
        if not kernels or len(kernels) > MOST_KERNELS or len(set(kernels)) < len(kernels):
            raise ParameterError("kernels", ",".join(kernels), f"must be one to {MOST_KERNELS} kernels, each once")
        entries = [Experiment.of(kernel).entry for kernel in kernels]
        if len({entry.family for entry in entries}) > 1:
            raise ParameterError("kernels", ",".join(kernels), "must be of one family: softmax, attention or loss")
        takes: list[dict[str, Parameter]] = [{p.name: p for p in entry.parameters} for entry in entries]
        together = {name: parameter for known in takes for name, parameter in known.items()}
        for kernel, known in zip(kernels, takes, strict=True):
            if axis not in known or axis not in AXES:
                common = [name for name in AXES if all(name in other for other in takes)]
                raise ParameterError("axis", axis, f"{kernel} has no such parameter; choose one of {', '.join(common)}")
        if not 1 <= len(values) <= MOST_VALUES:
            raise ParameterError(axis, f"{len(values)} values", f"must be 1 to {MOST_VALUES} values")
        parsed = tuple(dict.fromkeys(together[axis].parse(value) for value in values))
        held: dict[str, Value] = {}
        for name, value in (fixed or {}).items():
            if name == axis:
                raise ParameterError(name, value, "is the swept parameter and cannot be fixed too")
            if name not in together:
                raise ParameterError(name, value, f"is not a parameter; choose from {', '.join(together)}")
            held[name] = together[name].parse(value)
        sweep = cls(tuple(kernels), axis, parsed, tuple(held.items()))
        for kernel in kernels:
            if not any(experiment.kernel == kernel for experiment in sweep.experiments):
                sweep.at(kernel, parsed[0])  # raises what is wrong with it
        return sweep

    def at(self, kernel: str, value: Value) -> Experiment:
        """One kernel at one value. Raises ParameterError if it does not take it."""
        own = {parameter.name for parameter in Experiment.of(kernel).entry.parameters}
        held = {name: held for name, held in self.fixed if name in own}
        return Experiment.of(kernel, {**held, self.axis: value}, "normal")

    @functools.cached_property
    def _cells(self) -> tuple[tuple[Experiment, ...], tuple[tuple[str, Value, ParameterError], ...]]:
        found, out = [], []
        for value in self.values:  # outside: what is there of a sweep under way can be compared
            for kernel in self.kernels:
                try:
                    found.append(self.at(kernel, value))
                except ParameterError as error:
                    out.append((kernel, value, error))
        return tuple(found), tuple(out)

    @property
    def experiments(self) -> tuple[Experiment, ...]:
        """The points, all kernels of the first value first."""
        return self._cells[0]

    @property
    def left_out(self) -> tuple[tuple[str, Value, ParameterError], ...]:
        """(kernel, value, why) of each impossible point."""
        return self._cells[1]

    @property
    def numeric(self) -> bool:
        """Whether the values are numbers."""
        return all(isinstance(value, int) and not isinstance(value, bool) for value in self.values)

    def to_json(self) -> dict[str, Any]:
        """A JSON object; `from_json` gives the sweep back."""
        return {"kernels": self.kernels, "axis": self.axis, "values": self.values, "fixed": dict(self.fixed)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Sweep:
        """The sweep of `to_json`'s object. Raises ParameterError, KeyError or TypeError for another object."""
        return cls.of(data["kernels"], data["axis"], data["values"], data["fixed"])

    @property
    def key(self) -> str:
        """Canonical JSON: equal sweeps have equal keys."""
        return json.dumps(self.to_json(), sort_keys=True, separators=(",", ":"))

    def to_query(self) -> dict[str, str]:
        """For a page's address; `from_query` gives the sweep back."""
        return {
            "kernels": ",".join(self.kernels),
            "over": self.axis,
            "values": ",".join(map(text_of, self.values)),
            "fixed": ",".join(f"{name}={text_of(value)}" for name, value in self.fixed),
        }

    @classmethod
    def from_query(cls, query: Mapping[str, str]) -> Sweep:
        """The sweep of a page's address. Raises ParameterError."""
        held: dict[str, object] = {}
        for setting in _words(query.get("fixed", "")):
            name, equals, value = setting.partition("=")
            if not equals:
                raise ParameterError("fixed", setting, "must be name=value, separated by commas")
            held[name.strip()] = value.strip()
        return cls.of(_words(query.get("kernels", "")), query.get("over", ""), _words(query.get("values", "")), held)


HEAD = {"heads": 16, "head_dim": 64, "dtype": "fp16", "block_m": 128, "block_n": 64}
PAIR = ("attention_standard", "flash_attention")
ORDERS = ("flash_attention_v1", "flash_attention")


def _without(*names: str, **changes: object) -> dict[str, object]:
    return {name: value for name, value in {**HEAD, **changes}.items() if name not in names}


def _powers(first: int, last: int) -> list[int]:
    return [2**bit for bit in range(first, last + 1)]


READY: Mapping[str, Sweep] = {
    "Attention: length N from 128 to 16,384": Sweep.of(
        (*PAIR, "flash_attention_exp2", "flash_attention_v1"), "seq_len", _powers(7, 14), HEAD
    ),
    "Attention: head dimension d from 32 to 256": Sweep.of(
        PAIR, "head_dim", _powers(5, 8), _without("head_dim", seq_len=4096)
    ),
    "Attention: query tile from 16 to 128": Sweep.of(
        ORDERS, "block_m", _powers(4, 7), _without("block_m", seq_len=4096)
    ),
    "Attention: key tile from 16 to 128": Sweep.of(ORDERS, "block_n", _powers(4, 7), _without("block_n", seq_len=4096)),
    "Attention: batch from 1 to 64": Sweep.of(PAIR, "batch", _powers(0, 6), {**HEAD, "seq_len": 1024}),
    "Attention: fp32, fp16, bf16": Sweep.of(
        PAIR, "dtype", ["fp32", "fp16", "bf16"], _without("dtype", seq_len=4096, block_m=64, block_n=64)
    ),
    "Attention: without and with the causal mask": Sweep.of(PAIR, "causal", [False, True], {**HEAD, "seq_len": 8192}),
    "Softmax: length N from 256 to 131,072": Sweep.of(
        ("softmax_safe", "softmax_online", "softmax_row", "softmax_split", "softmax_topk"),
        "cols",
        _powers(8, 17),
        {"rows": 1024},
    ),
}
"""The ready-made sweeps, which are also those recorded on a GPU."""
_EVERY = (experiment for sweep in READY.values() for experiment in sweep.experiments)
RECORDED: tuple[Experiment, ...] = tuple(dict.fromkeys(_EVERY))
"""Every point of these sweeps, once."""


@dataclass(frozen=True)
class Reading:
    """One source's numbers for one experiment.

    `bytes` by level of LEVELS, and SPILLED, read and written together, without those that this witness cannot see;
    `flops` as docs/trace-format.md counts them;
    `seconds` of one launch, from hardware alone. `why` says in words what is missing. `source` names the source.
    """

    experiment: Experiment
    witness: str
    bytes: Mapping[str, int]
    flops: int
    seconds: float | None
    why: str
    source: str


@functools.lru_cache(maxsize=2048)
def formula(experiment: Experiment) -> Reading:
    """The reading of the formula."""
    traffic = experiment.traffic
    asked = traffic.read_bytes + traffic.written_bytes
    return Reading(experiment, "formula", {"asked": asked}, traffic.flops, None, "", "formula")


def once_per_launch(experiment: Experiment) -> int:
    """Bytes if every element is read or written once: the minimum at HBM for arrays far larger than L2."""
    return sum(term.once for term in experiment.whole_terms)


def of_point(point: Point) -> Reading:
    """A GPU's reading, L2 cold: counters by level, median time; FLOPs by formula."""
    counts = point.counters.cold if point.counters else None
    where = point.origin.provenance if point.origin else None
    source = f"{where.gpu}, {where.date}" if where else "hardware"
    flops = formula(point.experiment).flops
    return Reading(point.experiment, "hardware", _levels(counts), flops, point.seconds, point.why, source)


@kept
def predicted(sweep: Sweep, model: Model, gpu: Gpu) -> tuple[Reading, ...]:
    """The sweep's times on a GPU, predicted; kernels that the model does not know are left out."""
    times = [(experiment, model.seconds(experiment, gpu)) for experiment in sweep.experiments]
    told = model.told(one for one, seconds in times if seconds is not None)
    return tuple(
        Reading(one, "predicted", {}, formula(one).flops, seconds, "", told)
        for one, seconds in times
        if seconds is not None
    )


@functools.lru_cache(maxsize=256)
def recorded(sweep: Sweep, record: Record) -> tuple[Reading, ...]:
    """The sweep's points in a record."""
    found = (record.point(experiment) for experiment in sweep.experiments)
    return tuple(of_point(point) for point in found if point is not None)


def _levels(counts: Counts | None) -> dict[str, int]:
    """Bytes by level, without levels for which this chip lacks a counter."""
    if counts is None:
        return {}
    wavefronts = counts.shared_wavefronts
    found = {
        "asked": counts.l1_bytes,
        "l2": counts.sm_bytes,
        "hbm": counts.hbm_bytes,
        SPILLED: counts.spilled_bytes,
        "shared": None if wavefronts is None else wavefronts * WAVEFRONT_BYTES,
    }
    return {level: count for level, count in found.items() if count is not None}


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.replace(";", ",").split(",") if word.strip()]
