"""Replays a trace. Each value of a variable then says what it was made from: values, and elements of the inputs."""

from __future__ import annotations

import ast
import functools
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from explain.difference.evaluate import callee, evaluate
from explain.experiment import Experiment
from explain.trace.model import KINDS, Affine, Buffer, Pointers, Tile, Trace, Value, numbers
from kernels.edits import source_of

Array = NDArray[Any]
Site = tuple[int, int, str]
"""A function, a line of it and a variable that the line sets."""


@dataclass(eq=False)
class Memory:
    """What is known of one tensor of a run. `base` is the first of its bits in `Event.inputs`."""

    name: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str
    base: int
    values: Array
    known: NDArray[np.bool_]
    written: NDArray[np.int64]  # the event that stored each element; −1 where the run has stored none
    loaded: bool = False

    @classmethod
    def of(cls, buffer: Buffer, base: int) -> Memory:
        pairs = zip(buffer.shape, buffer.strides, strict=True)
        size = 1 + sum((length - 1) * abs(stride) for length, stride in pairs if length)
        flags = np.zeros(size, np.bool_)
        written = np.full(size, -1)
        return cls(buffer.name, buffer.shape, buffer.strides, buffer.dtype, base, np.zeros(size), flags, written)

    @property
    def whole(self) -> Array:
        """Its numbers in its shape, if they lie so in memory; else one after the other."""
        dense = tuple(int(np.prod(self.shape[axis + 1 :])) for axis in range(len(self.shape)))
        return self.values.reshape(self.shape) if dense == self.strides else self.values

    def place(self, element: int) -> tuple[int, ...]:
        """The index of an element in the tensor."""
        found = []
        for stride in sorted(self.strides, reverse=True):
            found.append(element // stride if stride else 0)
            element -= found[-1] * stride
        order = np.argsort(np.argsort([-stride for stride in self.strides], kind="stable"), kind="stable")
        return tuple(found[k] for k in order)


@dataclass(frozen=True, eq=False)
class Event:
    """A value that a step gave to a variable, or stored (`name` is then empty).

    `value` is None if it has no numbers; `inputs` has a bit for each element of an input that went into it; `reads` are
    the events of the variables that the statement reads. Events with one `key` are made of the same inputs in the same
    way. `kind` is "argument", "load", "store", "pointer" or empty.
    """

    number: int
    step: int
    site: Site
    launch: int
    program: tuple[int, int, int]
    name: str
    value: Array | None
    inputs: int
    reads: tuple[int, ...]
    key: tuple[Any, ...]
    kind: str
    rounds: tuple[int, ...]  # of each loop around it, the outermost first


@dataclass
class Replay:
    """One run, replayed. `others` are the memories of the run it is compared with."""

    trace: Trace
    others: Sequence[Memory] = ()
    events: list[Event] = field(default_factory=list)
    memories: list[Memory] = field(default_factory=list)
    unread: list[int] = field(default_factory=list)  # steps that stored what could not be evaluated
    stored: dict[Site, Memory] = field(default_factory=dict)  # where each statement stores
    loaded: dict[Site, Memory] = field(default_factory=dict)  # from where each statement loads

    def __post_init__(self) -> None:
        self.statements = [statements(source.first_line, source.text) for source in self.trace.sources]
        self.loops = [_loops(statements) for statements in self.statements]
        self.named: dict[tuple[int, str], Memory] = {}  # by launch and by the name of its argument
        self._raw: list[Value | Array | None] = []  # each event's value as the trace has it
        c = self.trace.columns
        stores = np.flatnonzero(c.access_kind != KINDS.index("load"))
        steps = np.searchsorted(c.access_at, stores, side="right") - 1
        pairs = zip(steps.tolist(), stores.tolist(), strict=True)
        self._stored = {self.trace.launch(step).buffers[c.access_buffer[k]].name for step, k in pairs}
        self._walk()

    # --- the walk ---

    def _walk(self) -> None:
        trace, c = self.trace, self.trace.columns
        frames: list[dict[str, int]] = []
        self._rounds: list[dict[int, int]] = []  # of each loop that runs, in each frame
        returned: list[int] = []
        program = None
        for step in range(trace.steps):
            depth, source, line = int(c.depth[step]), int(c.source[step]), int(c.line[step])
            if trace.program(step) is not program:
                program, frames, self._rounds = trace.program(step), [], []
            entered = line == trace.sources[source].first_line and c.change_at[step + 1] > c.change_at[step]
            del frames[depth + (not entered) :], self._rounds[depth + (not entered) :]
            while len(frames) <= depth:
                frames.append({})
                self._rounds.append({})
            frame = frames[depth]
            if entered:
                self._enter(step, frame, frames[depth - 1] if depth else {})
                continue
            node = self.statements[source].get(line)
            if isinstance(node, ast.For | ast.While):
                inner = [other for other, around in self.loops[source].items() if line in around and other != line]
                rounds = self._rounds[depth]
                rounds[line] = rounds.get(line, -1) + 1
                for other in inner:
                    rounds.pop(other, None)
            reads = [frame[name] for name in names_in(node) if name in frame]
            if isinstance(node, ast.Return):
                returned = reads
                continue
            if any(callee(part) and isinstance(part.func, ast.Name) for part in _calls(node)):
                reads += returned
            self._step(step, node, frame, list(dict.fromkeys(reads)))

    def _enter(self, step: int, frame: dict[str, int], caller: Mapping[str, int]) -> None:
        """The arguments: in a helper, those that the caller holds under another name."""
        held = {id(self._raw[number]): number for number in caller.values()}
        for name, value in self.trace.changes(step).items():
            reads = [held[id(value)]] if id(value) in held else []
            frame[name] = self._add(step, name, value, reads, 0, "argument")

    def _step(self, step: int, node: ast.stmt | None, frame: dict[str, int], reads: list[int]) -> None:
        changes, c = self.trace.changes(step), self.trace.columns
        inputs, kind = 0, ""
        loaded: list[int] = []
        for k in range(c.access_at[step], c.access_at[step + 1]):
            if KINDS[c.access_kind[k]] != "load":
                self._store(step, k, node, frame, reads)
                continue
            memory, bits, writers = self._load(step, k, node, changes)
            kind, inputs, loaded = "load", inputs | bits, [*loaded, *writers]
            self.loaded |= {(int(c.source[step]), int(c.line[step]), name): memory for name in changes}
        made = [
            (name, self._add(step, name, value, [*reads, *loaded], inputs, kind)) for name, value in changes.items()
        ]
        frame.update(made)
        if isinstance(node, ast.Assign | ast.AugAssign) and not loaded:
            kept = [n.id for n in parts_of(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]
            for name in kept:  # x = x: the trace has no change
                if name in frame and name not in changes:
                    frame[name] = self._add(step, name, self._raw[frame[name]], reads, inputs, kind)

    def _add(self, step: int, name: str, value: Value | Array | None, reads: Sequence[int], inputs: int,
             kind: str, added_to: Sequence[int] = ()) -> int:  # fmt: skip
        trace, c = self.trace, self.trace.columns
        flows = [self.events[read].inputs for read in reads]
        for flow in flows:
            inputs |= flow
        array = value if isinstance(value, np.ndarray) or value is None else _array(value)
        shape = None if array is None else array.shape
        program = trace.program(step).id
        spans = trace._span(step)
        launch = trace._spans[spans][0]
        key = (inputs, tuple(sorted(set(flows) - {0})), shape) if inputs else (launch, program, shape)
        site = (int(c.source[step]), int(c.line[step]), name)
        kind = kind or ("pointer" if isinstance(value, Pointers) else "")
        around = self.loops[site[0]].get(site[1], ())
        rounds = tuple(self._rounds[depth].get(loop, -1) for depth in range(len(self._rounds)) for loop in
                       (around if depth == len(self._rounds) - 1 else self._rounds[depth]))  # fmt: skip
        event = Event(
            len(self.events), step, site, launch, program, name, array, inputs, (*reads, *added_to), key, kind, rounds
        )
        self.events.append(event)
        self._raw.append(value)
        return event.number

    # --- memory ---

    def _load(self, step: int, k: int, node: ast.stmt | None, changes: Mapping[str, Value]
              ) -> tuple[Memory, int, list[int]]:  # fmt: skip
        """A load's memory, the bits of the input's elements that it loads, and the events that stored the others."""
        active, lanes = self._lanes(k)
        every = int(np.prod(self._shape(k)))
        single = len(changes) == 1 and isinstance(node, ast.Assign) and is_load(node.value)
        array = _array(next(iter(changes.values()))) if single else None
        seen = None if array is None or array.size != every else array.reshape(-1)[active].astype(np.float64)
        memory = self._memory(step, k, lanes, seen)
        lanes_in = lanes < len(memory.known)
        lanes, seen = lanes[lanes_in], None if seen is None else seen[lanes_in]
        fresh = memory.written[lanes] < 0
        if seen is not None:
            memory.values[lanes[fresh]] = seen[fresh]
            memory.known[lanes] = True
        memory.loaded = True
        writers = np.unique(memory.written[lanes[~fresh]]).tolist()
        return memory, 0 if memory.name in self._stored else _bits(lanes[fresh]) << memory.base, writers

    def _store(self, step: int, k: int, node: ast.stmt | None, frame: Mapping[str, int], reads: list[int]) -> None:
        active, lanes = self._lanes(k)
        call = next((part for part in _calls(node) if callee(part) in _STORES), None)
        expression = _stored(call) if call is not None else None
        value = None if expression is None else evaluate(expression, self.held(frame))
        held = [frame[name] for name in (names_in(expression) if expression is not None else ()) if name in frame]
        flat = None
        if value is None:
            self.unread.append(step)
        else:
            try:
                shape = np.broadcast_shapes(np.shape(value), self._shape(k))
                flat = np.broadcast_to(value, shape).reshape(-1)[active].astype(np.float64)
            except ValueError:
                self.unread.append(step)
        memory = self._memory(step, k, lanes, None)
        inputs = 0
        for read in held:
            inputs |= self.events[read].inputs
        lanes_in = lanes < len(memory.known)
        lanes = lanes[lanes_in]
        added = KINDS[self.trace.columns.access_kind[k]] == "atomic"
        before = [int(one) for one in np.unique(memory.written[lanes]) if one >= 0] if added else []
        number = self._add(
            step, "", None if value is None else np.asarray(value), reads, inputs, "store", added_to=before
        )
        self.stored[self.events[number].site] = memory
        memory.written[lanes] = number
        if flat is not None:
            flat = _rounded(flat[lanes_in], memory.dtype)
            memory.values[lanes] = memory.values[lanes] + flat if added else flat
            memory.known[lanes] = True

    def _shape(self, k: int) -> tuple[int, ...]:
        elements = self.trace.values[self.trace.columns.access_value[k]]
        return elements.shape if isinstance(elements, Tile | Affine) else ()

    def _lanes(self, k: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The active lanes of an access, and their elements."""
        c = self.trace.columns
        every = numbers(self.trace.values[c.access_value[k]]).reshape(-1)
        mask = c.access_mask[k]
        active = np.arange(len(every)) if mask < 0 else np.flatnonzero(numbers(self.trace.values[mask]).reshape(-1))
        return active, every[active].astype(np.int64)

    def _memory(self, step: int, k: int, lanes: NDArray[np.int64], seen: Array | None) -> Memory:
        """The tensor behind an access: an earlier launch's, if it has its name or holds what that one stored."""
        c, launch = self.trace.columns, self.trace._spans[self.trace._span(step)][0]
        buffer = self.trace.launches[launch].buffers[c.access_buffer[k]]
        where = (launch, buffer.name)
        if where in self.named:
            return self.named[where]
        same = [one for one in self.memories if one.name == buffer.name and one.shape == buffer.shape]
        if not same and seen is not None and launch:
            stored = [one for one in self.memories if one.written.max() >= 0]
            same = [one for one in stored if len(lanes) and _holds(one, lanes, seen)]
        found = same[0] if same else self._new(buffer, lanes, seen)
        self.named[where] = found
        return found

    def _new(self, buffer: Buffer, lanes: NDArray[np.int64], seen: Array | None) -> Memory:
        """A tensor's memory; of an input that the other run loads too, with the same bits."""
        taken = {memory.base for memory in self.memories}
        free = [one for one in self.others if one.base not in taken]
        named = [one for one in free if one.name == buffer.name]
        alike = [one for one in [*named, *free] if seen is not None and len(lanes) and _holds(one, lanes, seen)]
        alike = alike or named
        end = max((one.base + len(one.known) for one in [*self.others, *self.memories]), default=0)
        memory = Memory.of(buffer, alike[0].base if alike else end)
        self.memories.append(memory)
        return memory

    # --- what a step has ---

    def held(self, frame: Mapping[str, int]) -> dict[str, Any]:
        """The numbers of a frame's variables."""
        values = {name: self.events[number].value for name, number in frame.items()}
        return {name: value for name, value in values.items() if value is not None}

    def frame(self, event: Event) -> dict[str, int]:
        """The variables of an event's function before its step, as events."""
        found: dict[str, int] = {}
        before = self.by_program[event.launch, event.program]
        for number in before:
            one = self.events[number]
            if one.step >= event.step:
                break
            if one.name and one.site[0] == event.site[0]:
                found[one.name] = number
        return found

    @cached_property
    def constants(self) -> dict[str, float]:
        """The numbers that the kernel's module names, as LN_2; empty for a kernel that is not in the catalog."""
        header, found = self.trace.experiment, {}
        module = Experiment.from_json(header).entry.module if header else ""
        for node in ast.parse(source_of(module)).body if module else ():
            match node:
                case ast.Assign(
                    targets=[ast.Name(id=name)],
                    value=ast.Constant(value=float() as value) | ast.Call(args=[ast.Constant(value=float() as value)]),
                ):
                    found[name] = value
        return found

    @cached_property
    def by_program(self) -> dict[tuple[int, tuple[int, int, int]], list[int]]:
        found: dict[tuple[int, tuple[int, int, int]], list[int]] = {}
        for event in self.events:
            found.setdefault((event.launch, event.program), []).append(event.number)
        return found

    @cached_property
    def sites(self) -> dict[Site, list[Event]]:
        found: dict[Site, list[Event]] = {}
        for event in self.events:
            found.setdefault(event.site, []).append(event)
        return found

    def statement(self, site: Site) -> ast.stmt | None:
        return self.statements[site[0]].get(site[1])

    def outputs(self) -> list[Memory]:
        """The tensors that the run stores and never loads. If it loads them all: all that it stores."""
        stored = [memory for memory in self.memories if memory.written.max() >= 0]
        return [memory for memory in stored if not memory.loaded] or stored


_STORES = ("store", "atomic_add")


@functools.lru_cache(4096)
def parts_of(node: ast.AST) -> tuple[ast.AST, ...]:
    """A node and all below it, as `ast.walk` gives them: each statement is asked at each of its steps."""
    return tuple(ast.walk(node))


def names_in(node: ast.AST | None) -> list[str]:
    """The variables that a statement or an expression reads, each once."""
    if node is None:
        return []
    parts: list[ast.AST] = [node]
    match node:
        case ast.Assign(value=value):
            parts = [value]
        case ast.AnnAssign(value=ast.expr() as value):
            parts = [value]
        case ast.AugAssign(target=ast.Name(id=name), value=value):
            return list(dict.fromkeys([name, *names_in(value)]))
        case ast.For(iter=value) | ast.If(test=value) | ast.While(test=value):
            parts = [value]
    return list(dict.fromkeys(n.id for part in parts for n in parts_of(part) if isinstance(n, ast.Name)))


def value_of(node: ast.stmt | None) -> ast.expr | None:
    """The expression that a statement assigns or stores, an augmented assignment written out."""
    match node:
        case ast.AugAssign(target=ast.Name(id=name), op=op, value=value):
            return ast.BinOp(ast.Name(name, ast.Load()), op, value)
        case ast.Assign(value=value) | ast.AnnAssign(value=ast.expr() as value):
            return value
        case ast.Expr(value=ast.Call() as call) if callee(call) in _STORES:
            return _stored(call)
    return None


def _stored(call: ast.Call) -> ast.expr | None:
    named = next((word.value for word in call.keywords if word.arg in ("value", "val")), None)
    return named or (call.args[1] if len(call.args) > 1 else None)


def _calls(node: ast.AST | None) -> Iterator[ast.Call]:
    if isinstance(node, ast.For | ast.If | ast.While):
        node = node.iter if isinstance(node, ast.For) else node.test
    return (part for part in parts_of(node) if isinstance(part, ast.Call)) if node is not None else iter(())


def is_load(node: ast.expr) -> bool:
    """Whether an expression is a load, as it is or converted."""
    while callee(node) == "to" and isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        node = node.func.value
    return callee(node) == "load"


def statements(first_line: int, text: str) -> dict[int, ast.stmt]:
    """The statements of a function by their first line in the file; a header without its body."""
    try:
        tree = ast.parse(textwrap.dedent(text))
    except SyntaxError:
        return {}
    inner = (node for node in ast.walk(tree) if isinstance(node, ast.stmt) and not isinstance(node, ast.FunctionDef))
    return {first_line + node.lineno - 1: node for node in inner}


def _loops(statements: Mapping[int, ast.stmt]) -> dict[int, tuple[int, ...]]:
    """The loops around each statement, and a loop's own line, by lines."""
    found: dict[int, tuple[int, ...]] = {}
    first = {id(node): line for line, node in statements.items()}
    for line in sorted(statements):
        node = statements[line]
        if isinstance(node, ast.For | ast.While):
            for part in ast.walk(node):
                if id(part) in first:
                    found[first[id(part)]] = (*found.get(first[id(part)], ()), line)
    return found


def _array(value: Value) -> Array | None:
    try:
        return value.numpy() if isinstance(value, Tile | Affine | Pointers) else numbers(value)
    except TypeError:
        return None


def _bits(elements: NDArray[np.int64]) -> int:
    if not len(elements):
        return 0
    flags = np.zeros(int(elements.max()) + 1, np.bool_)
    flags[elements] = True
    return int.from_bytes(np.packbits(flags, bitorder="little").tobytes(), "little")


def _holds(memory: Memory, lanes: NDArray[np.int64], seen: Array) -> bool:
    if lanes.max() >= len(memory.known) or not memory.known[lanes].any():
        return False
    known = memory.known[lanes]
    return np.array_equal(memory.values[lanes][known], seen[known], equal_nan=True)


def _rounded(values: Array, dtype: str) -> Array:
    """Values as a tensor of this dtype holds them."""
    with np.errstate(over="ignore"):
        if dtype in ("f16", "f32"):
            return values.astype(np.float16 if dtype == "f16" else np.float32).astype(np.float64)
    return values
