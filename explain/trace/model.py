"""Trace, a recorded run: sources, steps, variables, accesses, counters. Needs only NumPy.

docs/trace-format.md specifies the file format; `explain.trace.file` reads and writes it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

FORMAT = 1
MAX_STEPS = 200_000
MAX_BYTES = 512 * 1024 * 1024
"""A recording stops here, if not told otherwise; the bytes are those of its values."""

# dtype name -> dtype of the stored elements: bf16 and 8-bit floats as their bits, i1 as one byte
STORED: Mapping[str, np.dtype[Any]] = {
    name: np.dtype(code)
    for name, code in {
        "f64": "<f8", "f32": "<f4", "f16": "<f2", "bf16": "<u2",
        "i64": "<i8", "i32": "<i4", "i16": "<i2", "i8": "i1",
        "u64": "<u8", "u32": "<u4", "u16": "<u2", "u8": "u1", "i1": "u1",
    }.items()
}  # fmt: skip


def stored_dtype(name: str) -> np.dtype[Any]:
    """The NumPy dtype that stores elements of the trace dtype `name`. Raises KeyError for an unknown name."""
    return np.dtype(np.uint8) if name.startswith("f8:") else STORED[name]


@dataclass(frozen=True, eq=False)
class Tile:
    """A tensor: `bits` has its elements as `stored_dtype(dtype)`, shape `shape` (`()` for a scalar)."""

    dtype: str
    shape: tuple[int, ...]
    bits: NDArray[Any]

    def numpy(self) -> NDArray[Any]:
        """The elements, shape `shape`; bf16 as the float32 of exactly the same value, i1 as bool, f8 as its bits."""
        if self.dtype == "bf16":
            return (self.bits.astype(np.uint32) << np.uint32(16)).view(np.float32)
        return self.bits.astype(np.bool_) if self.dtype == "i1" else self.bits


@dataclass(frozen=True)
class Affine:
    """An integer tile: its element at `(i, j, …)` is `base + i·strides[0] + j·strides[1] + …`."""

    dtype: str
    shape: tuple[int, ...]
    base: int
    strides: tuple[int, ...]

    def numpy(self) -> NDArray[Any]:
        """The elements, shape `shape`."""
        out = np.full(self.shape, self.base, dtype=np.int64)
        for axis, (length, stride) in enumerate(zip(self.shape, self.strides, strict=True)):
            steps = np.arange(length, dtype=np.int64) * stride
            out += steps.reshape([-1 if k == axis else 1 for k in range(len(self.shape))])
        return out.astype(stored_dtype(self.dtype))


@dataclass(frozen=True)
class Pointers:
    """Pointers into buffer number `buffer` of the step's launch; `elements` are their element indices."""

    buffer: int
    elements: Tile | Affine

    @property
    def shape(self) -> tuple[int, ...]:
        return self.elements.shape

    def numpy(self) -> NDArray[Any]:
        """The element indices, int64, shape `shape`."""
        return self.elements.numpy()


@dataclass(frozen=True)
class BlockPointer:
    """A block pointer, or a tensor descriptor (`offsets` None). Everything in elements, one entry per axis."""

    buffer: int
    offsets: tuple[int, ...] | None
    block: tuple[int, ...]
    shape: tuple[int, ...]
    strides: tuple[int, ...]


@dataclass(frozen=True)
class Scalar:
    """A Python scalar or constexpr as text; `kind` is int, float, bool, str, none or dtype."""

    text: str
    kind: str

    @property
    def value(self) -> int | float | bool | str | None:
        """The Python value (a dtype stays text)."""
        match self.kind:
            case "int":
                return int(self.text)
            case "float":
                return float(self.text)
            case "bool":
                return self.text == "True"
            case "none":
                return None
        return self.text


@dataclass(frozen=True)
class Other:
    """Anything else, such as a function, as text."""

    text: str


@dataclass(frozen=True)
class Group:
    """A tuple of values."""

    items: tuple[Value, ...]


Value = Tile | Affine | Pointers | BlockPointer | Scalar | Other | Group


def numbers(value: Value) -> NDArray[Any]:
    """The numbers of a tile or a scalar, or the element indices of pointers. Raises TypeError for any other value."""
    if isinstance(value, Tile | Affine | Pointers):
        return value.numpy()
    if isinstance(value, Scalar) and value.kind in {"int", "float", "bool"}:
        return np.array(value.value)
    raise TypeError(f"{value} has no numbers")


@dataclass(frozen=True)
class Source:
    """One recorded function. `text` starts at its def line, line `first_line` of `file`; `spans` maps the first line of
    each statement that spans several lines to its last.
    """

    function: str
    file: str
    first_line: int
    text: str
    spans: Mapping[int, int]

    def first_line_of(self, line: int) -> int:
        """The first line of the statement that `line` is in."""
        return max((first for first, last in self.spans.items() if first <= line <= last), default=line)


@dataclass(frozen=True)
class Flops:
    """Floating-point operations in matmuls, in exponentials, and all others (defined in docs/trace-format.md)."""

    matmul: int = 0
    exp: int = 0
    other: int = 0

    @property
    def total(self) -> int:
        return self.matmul + self.exp + self.other

    def __add__(self, more: Flops) -> Flops:
        return Flops(self.matmul + more.matmul, self.exp + more.exp, self.other + more.other)


@dataclass(frozen=True)
class Buffer:
    """Memory behind one pointer argument of a launch. Shape, strides and offset in elements of `item_bytes`."""

    name: str
    dtype: str
    item_bytes: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    storage_offset: int


@dataclass(frozen=True)
class Program:
    """A recorded program: its place in the grid, and its `steps` steps from `first_step` on."""

    id: tuple[int, int, int]
    first_step: int
    steps: int


@dataclass(frozen=True)
class Counters:
    """Bytes by buffer name, and FLOPs."""

    read_bytes: Mapping[str, int]
    written_bytes: Mapping[str, int]
    flops: Flops


@dataclass(frozen=True)
class Launch:
    """One kernel launch. `totals` counts every program of the grid, recorded or not."""

    source: int
    kernel: str
    grid: tuple[int, int, int]
    programs: int
    arguments: tuple[tuple[str, Value], ...]
    buffers: tuple[Buffer, ...]
    recorded: tuple[Program, ...]
    totals: Counters

    @property
    def read_bytes(self) -> Mapping[str, int]:
        return self.totals.read_bytes

    @property
    def written_bytes(self) -> Mapping[str, int]:
        return self.totals.written_bytes

    @property
    def flops(self) -> Flops:
        return self.totals.flops

    def traffic(self) -> dict[str, int]:
        """`read_bytes`, `written_bytes` and `flops` of all programs and buffers."""
        return {
            "read_bytes": sum(self.read_bytes.values()),
            "written_bytes": sum(self.written_bytes.values()),
            "flops": self.flops.total,
        }


@dataclass(frozen=True)
class Access:
    """One load, store or atomic: `elements` are indices into `buffer`, `mask` the active lanes (None: all).

    `stored` is the value that is stored, or that an atomic takes: of the tile's shape, or one for all lanes. None for a
    load, and in files that were recorded before it was.
    """

    kind: Literal["load", "store", "atomic"]
    buffer: Buffer
    elements: Tile | Affine
    mask: Tile | None
    bytes: int
    stored: Value | None

    def indices(self) -> NDArray[np.int64]:
        """Element indices of the active lanes, row-major, shape (lanes,)."""
        every = self.elements.numpy()
        return every.reshape(-1) if self.mask is None else every[self.mask.numpy()]


KINDS: tuple[Literal["load", "store", "atomic"], ...] = ("load", "store", "atomic")


@dataclass(frozen=True, eq=False)
class Columns:
    """The steps as columns (docs/trace-format.md, "Steps, as columns")."""

    line: NDArray[Any]
    source: NDArray[Any]
    depth: NDArray[Any]
    change_at: NDArray[Any]
    change_name: NDArray[Any]
    change_value: NDArray[Any]
    access_at: NDArray[Any]
    access_kind: NDArray[Any]
    access_buffer: NDArray[Any]
    access_value: NDArray[Any]
    access_mask: NDArray[Any]
    access_bytes: NDArray[Any]
    access_stored: NDArray[Any]
    flops_matmul: NDArray[Any]
    flops_exp: NDArray[Any]
    flops_other: NDArray[Any]


@dataclass(frozen=True)
class Failure:
    """What stopped a run: the step that failed, why, and the lines of the caller's code on the way there."""

    step: int
    message: str
    traceback: str


class Sort(NamedTuple):
    """A sort of finding: its title, and whether it is an error or a hint."""

    title: str
    error: bool


SORTS: Mapping[str, Sort] = {
    "outside": Sort("Outside the tensor", True),
    "unwritten": Sort("Reads what nobody wrote", True),
    "undefined": Sort("Undefined lanes reach the result", True),
    "race": Sort("Race of two programs", True),
    "twice": Sort("Two values for one element", True),
    "wrapped": Sort("Offset leaves int32", True),
    "overflow": Sort("Overflow", True),
    "nan": Sort("NaN made of numbers", True),
    "rewritten": Sort("Stored twice, the same", False),
    "mask": Sort("Mask never false", False),
    "unused": Sort("Load never used", False),
    "sectors": Sort("Sectors wasted", False),
}
"""What `explain.trace.checks` finds, by name; docs/checks.md has an example of each."""


@dataclass(frozen=True)
class Finding:
    """What a check found: at a line, in a program, at an element.

    `sort` is a name of `SORTS`. `error` tells a fault from a hint. `element` counts in the buffer
    from its first element, and `index` is its place in the tensor; −1 and () where the finding is about no element.
    `times` counts the lanes, or the accesses, that have it. `remedy` is empty where none is known.
    """

    sort: str
    error: bool
    step: int
    line: int
    kernel: str
    program: tuple[int, int, int]
    words: str
    remedy: str = ""
    buffer: str = ""
    element: int = -1
    index: tuple[int, ...] = ()
    times: int = 1


@dataclass(frozen=True)
class Report:
    """What a run said: notes of the recorder, everything printed, and what stopped it, if it did not end.

    `findings` are in the order of their steps; None if the run was not checked.
    """

    notes: tuple[str, ...] = ()
    output: str = ""
    failure: Failure | None = None
    findings: tuple[Finding, ...] | None = None

    @property
    def worst(self) -> int | None:
        """The step to look at first: where the run stopped, or its first error."""
        errors = (finding.step for finding in self.findings or () if finding.error)
        return self.failure.step if self.failure else next(errors, None)


@dataclass(frozen=True, eq=False)
class Trace:
    """One recorded run. Steps count from 0 over all recorded programs of all launches, in the order they ran."""

    created: str
    producer: Mapping[str, str]
    experiment: Mapping[str, Any] | None
    sources: tuple[Source, ...]
    names: tuple[tuple[int, str], ...]
    values: Sequence[Value]
    launches: tuple[Launch, ...]
    columns: Columns
    report: Report = Report()

    @property
    def steps(self) -> int:
        """The number of recorded steps."""
        return len(self.columns.line)

    def line(self, step: int) -> int:
        """The line of the file that the step executed."""
        return int(self.columns.line[step])

    def source(self, step: int) -> Source:
        """The function that the step ran in."""
        return self.sources[int(self.columns.source[step])]

    def depth(self, step: int) -> int:
        """0 in the kernel, 1 in a helper it calls, and so on."""
        return int(self.columns.depth[step])

    def changes(self, step: int) -> dict[str, Value]:
        """The variables that the step set."""
        at = self.columns.change_at
        return {
            self.names[self.columns.change_name[k]][1]: self.values[self.columns.change_value[k]]
            for k in range(at[step], at[step + 1])
        }

    def state(self, step: int) -> dict[str, Value]:
        """Every variable of the running function after `step`."""
        end = int(self.columns.change_at[step + 1])
        state = {}
        for name, places in self._settings.get(self._entries[step], {}).items():
            if at := bisect_left(places, end):
                state[name] = self.values[self.columns.change_value[places[at - 1]]]
        return state

    def history(self, name: str) -> list[tuple[int, Value]]:
        """Each `(step, value)` that set a variable of this name, in any function."""
        wanted = [index for index, (_, text) in enumerate(self.names) if text == name]
        entries = np.flatnonzero(np.isin(self.columns.change_name, wanted))
        steps = np.searchsorted(self.columns.change_at, entries, side="right") - 1
        values = self.columns.change_value[entries]
        return [(int(step), self.values[value]) for step, value in zip(steps, values, strict=True)]

    def launch(self, step: int) -> Launch:
        """The launch that the step belongs to."""
        return self.launches[self._spans[self._span(step)][0]]

    def program(self, step: int) -> Program:
        """The program that the step belongs to."""
        return self._spans[self._span(step)][1]

    def accesses(self, step: int) -> list[Access]:
        """The loads, stores and atomics of the step."""
        buffers = self.launch(step).buffers
        return [self._access(k, buffers) for k in range(*self.columns.access_at[step : step + 2])]

    def counters(self, step: int) -> Counters:
        """The bytes and FLOPs of the recorded programs of the step's launch, up to and including `step`."""
        launch = self.launch(step)
        first = launch.recorded[0].first_step
        c, span = self.columns, slice(first, step + 1)
        moved = slice(c.access_at[first], c.access_at[step + 1])
        kind, buffer, size = c.access_kind[moved], c.access_buffer[moved], c.access_bytes[moved]

        def by_buffer(other_way: int) -> dict[str, int]:
            counted = kind != other_way
            return {b.name: int(size[counted & (buffer == k)].sum()) for k, b in enumerate(launch.buffers)}

        flops = Flops(*(int(column[span].sum()) for column in (c.flops_matmul, c.flops_exp, c.flops_other)))
        return Counters(by_buffer(KINDS.index("store")), by_buffer(KINDS.index("load")), flops)

    def traffic(self) -> dict[str, int]:
        """`read_bytes`, `written_bytes` and `flops` of all programs of all launches."""
        each = [launch.traffic() for launch in self.launches]
        return {key: sum(one[key] for one in each) for key in ("read_bytes", "written_bytes", "flops")}

    def _access(self, k: int, buffers: tuple[Buffer, ...]) -> Access:
        c = self.columns
        mask = self.values[c.access_mask[k]] if c.access_mask[k] >= 0 else None
        elements = self.values[c.access_value[k]]
        assert isinstance(elements, Tile | Affine)
        assert mask is None or isinstance(mask, Tile)
        stored = self.values[c.access_stored[k]] if c.access_stored[k] >= 0 else None
        kind, buffer = KINDS[c.access_kind[k]], buffers[c.access_buffer[k]]
        return Access(kind, buffer, elements, mask, int(c.access_bytes[k]), stored)

    @cached_property
    def _spans(self) -> list[tuple[int, Program]]:
        return [(k, program) for k, launch in enumerate(self.launches) for program in launch.recorded]

    @cached_property
    def _starts(self) -> list[int]:
        return [program.first_step for _, program in self._spans]

    def _span(self, step: int) -> int:
        if not 0 <= step < self.steps:
            raise IndexError(f"step {step}: allowed are 0 to {self.steps - 1}")
        return bisect_right(self._starts, step) - 1

    @cached_property
    def _settings(self) -> dict[int, dict[str, list[int]]]:
        """For each function call, by the step that entered it: the places in the changes where it set each variable."""
        c = self.columns
        steps = np.repeat(np.arange(self.steps), np.diff(c.change_at)).tolist()
        settings: dict[int, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
        for place, (step, name) in enumerate(zip(steps, c.change_name.tolist(), strict=True)):
            settings[self._entries[step]][self.names[name][1]].append(place)
        return settings

    @cached_property
    def _entries(self) -> list[int]:
        return list(self._entry_steps())

    def _entry_steps(self) -> Iterator[int]:
        """For each step, the step that entered its function call: the `def` line, which sets the arguments."""
        c, stack = self.columns, [0]
        first_lines = np.array([source.first_line for source in self.sources], np.int64)
        at_def = (c.line == first_lines[c.source]).tolist() if self.steps else []
        sets = (np.diff(c.change_at) > 0).tolist()
        for step, depth in enumerate(c.depth.tolist()):
            # the body of a one-line function is also on its def line, but sets nothing
            enters = at_def[step] and (step == 0 or sets[step] or not at_def[step - 1])
            entered = depth >= len(stack) or enters
            del stack[depth + (not entered) :]
            if entered:
                stack.append(step)
            yield stack[depth]
