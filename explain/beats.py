"""The beats of a recorded run: what each stretch of steps does to a tile, found by the roles of the kernel's variables.

A beat is what a lecturer names with one word: load, scores, new maximum, rescale. Which step starts one follows from
the trace alone: which role's variable the step sets, which variables its line reads, what it loads and stores.
"""

from __future__ import annotations

import ast
import re
import textwrap
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import groupby, pairwise
from typing import NamedTuple

import numpy as np

from explain.trace.model import KINDS as ACCESSES
from explain.trace.model import Affine, Program, Scalar, Tile, Trace, Value, numbers

KINDS = (
    "setup",  # the running state before the first tile
    "load",
    "scores",
    "new_max",  # and α, which follows from it
    "exponentials",
    "rescale",  # ℓ, or the accumulator, times α
    "row_gradient",  # δ
    "weights_gradient",  # dP
    "scores_gradient",  # dS
    "add",
    "pick",  # the target's logit, if it is in the tile
    "gradient",  # of the scores
    "merge",  # two pairs (m, ℓ) into one
    "keep",  # the list of the K largest
    "drop",  # the tile's last step: m_i = m_new
    "finish",  # after a pass over the tiles, before the next
    "normalise",
    "loss",
    "write",
)
"""Every kind of beat, about in the order in which a kernel has them."""

_SHOWN_FIRST = {"new_max", "rescale", "add", "merge", "drop"}  # others show best once all of their variables are set
_CARRIED = {
    "running_max", "running_sum", "new_sum", "accumulator", "target", "input_gradient", "weight_gradient",
}  # fmt: skip
_TILE = ("rows", "cols")
_GRADIENTS = ("row_gradient", "weights_gradient", "scores_gradient")
_GRADIENT_SUMS = ("queries_gradient", "keys_gradient", "values_gradient")
ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth")
_PLACES = {word: n for n, word in enumerate(ORDINALS)} | {"last": -1}
FEW = 16
"""Traces whose beats are kept: a page asks several times for those that it shows. A class has hundreds of traces, and
each has as many beats as steps."""
_LARGEST_DROP = re.compile(r"largest drop of row (\d+)")


class Beat(NamedTuple):
    """Steps `begin` … `end` − 1 of one program, and `at`, the step that shows best what they do.

    `kind` is one of `KINDS`. `program` counts the recorded programs. `tile` counts the program's tile visits, or the
    pairs that it merges; it is −1 outside of them. `names` are the variables that the beat sets, or the buffers that it
    loads or stores, without "_ptr".
    """

    kind: str
    begin: int
    end: int
    at: int
    program: int
    tile: int
    names: tuple[str, ...]


@lru_cache(maxsize=FEW)
def _found(trace: Trace, roles: tuple[tuple[str, str], ...]) -> tuple[Beat, ...]:
    return tuple(_Run(trace, dict(roles)).beats)


def beats(trace: Trace, roles: Mapping[str, str]) -> tuple[Beat, ...]:
    """The beats of a trace, in order: every step is in exactly one. Without roles there are none.

    `roles` has the variable of each role (`kernels.catalog.Kernel.roles`).
    """
    return _found(trace, tuple(roles.items())) if roles else ()


def step_of(trace: Trace, roles: Mapping[str, str], event: str, other: Trace | None = None) -> int:
    """The step of an event, found by what happens there.

    An event is `[first|second|…|last] WHAT [of NAME | of row R]`, by default the first. WHAT is a kind of beat, "tile",
    or "set" of a variable. NAME is a buffer that is loaded or written, or a variable that the beat sets. R is a row of
    the whole matrix; then only tiles with this row count, a new maximum counts if it raises the row's m, and a rescale
    or merge if the row's α is below 1 and its maximum was finite before. Also "largest drop of row R" (the rescale with
    its smallest α), "first NaN", and "first difference" from the run `other`.

    Raises ValueError naming the event and what is allowed, or that it does not happen.
    """
    found = _Run(trace, roles).find(event, other)
    if found is None:
        raise ValueError(f"event {event!r}: does not happen in this run")
    return found


def check_event(event: str) -> None:
    """Raises ValueError for an event that has no meaning in any run, naming what is allowed."""
    if event not in ("first difference", "first NaN") and not _LARGEST_DROP.fullmatch(event):
        _parsed(event)


def _parsed(event: str) -> tuple[int, str, int | None, str | None]:
    """Which one it is, WHAT, R and NAME of an event `[first|second|…|last] WHAT [of NAME | of row R]`."""
    match = re.fullmatch(r"(?:(\w+) )??([a-z_]+|new maximum)(?: of (?:row (\d+)|(\w+)))?", event)
    ordinal, what, row, name = match.groups() if match else (None, "", None, None)
    what = "new_max" if what == "new maximum" else what
    if (ordinal or "first") not in _PLACES or what not in (*KINDS, "tile", *(("set",) if name else ())):
        raise ValueError(
            f"event {event!r}: allowed are [{'|'.join(_PLACES)}] ({'|'.join(KINDS)}|tile) [of NAME | of row R], "
            f"[{'|'.join(_PLACES)}] set of VARIABLE, "
            f"largest drop of row R, first NaN, first difference"
        )
    return _PLACES[ordinal or "first"], what, None if row is None else int(row), name


@dataclass
class _Group:
    """Consecutive steps of one kind: the steps that make it this kind, and the variables or buffers they are about."""

    kind: str
    begin: int
    end: int
    events: list[int] = field(default_factory=list)
    names: dict[str, None] = field(default_factory=dict)


class _Run:
    """A trace with its roles: who sets what when."""

    def __init__(self, trace: Trace, roles: Mapping[str, str]) -> None:
        self.trace = trace
        self.roles = roles
        self.role_of = {variable: role for role, variable in roles.items()}
        self.programs = sorted((p for launch in trace.launches for p in launch.recorded), key=lambda p: p.first_step)
        self.reads = [_reads(source.text, source.first_line) for source in trace.sources]
        self.lines = [source.text.split("\n") for source in trace.sources]
        c = trace.columns  # as lists: Python reads one number of an array slowly
        self.line, self.source, self.depth = c.line.tolist(), c.source.tolist(), c.depth.tolist()
        self.access_at, self.access_kind = c.access_at.tolist(), c.access_kind.tolist()
        self.access_buffer = c.access_buffer.tolist()
        self.first_steps = [program.first_step for program in self.programs]
        self.buffers = [trace.launch(step).buffers for step in self.first_steps]
        self.kinds: dict[tuple[str, int, int, bool], str | None] = {}
        self.shapes: dict[tuple[int, int], tuple[int, bool]] = {}
        self.sets: list[list[str]] = [[] for _ in range(trace.steps)]  # by step
        self.set_at: dict[str, list[int]] = defaultdict(list)  # role → the steps that set it
        self.set_to: dict[str, list[int]] = defaultdict(list)  # a value's place in the trace: few are looked at
        self.body: list[set[str]] = [set() for _ in trace.sources]  # the variables that a function's body sets
        steps = np.repeat(np.arange(trace.steps), np.diff(c.change_at))
        first_lines = [source.first_line for source in trace.sources]
        for step, name, value in zip(steps.tolist(), c.change_name.tolist(), c.change_value.tolist(), strict=True):
            source, variable = trace.names[name]
            self.sets[step].append(variable)
            if self.line[step] != first_lines[source]:
                self.body[source].add(variable)
            if role := self.role_of.get(variable):
                self.set_at[role].append(step)
                self.set_to[role].append(value)

    # --- beats ---

    @cached_property
    def beats(self) -> list[Beat]:
        """The run's beats, in order."""
        return list(self.find_beats())

    def find_beats(self) -> Iterator[Beat]:
        visit_at = self.visits()
        for p, program in enumerate(self.programs):
            steps = range(program.first_step, program.first_step + program.steps)
            tiles: list[int] = []  # the program's visits
            for visit, stretch in groupby(steps, visit_at.__getitem__):
                if visit >= 0:
                    tiles.append(visit)
                own = list(stretch)
                empty = "setup" if own[0] == program.first_step else "finish"
                for group in self.groups(own[0], own[-1] + 1, visit >= 0, empty):
                    shown = group.events[0 if group.kind in _SHOWN_FIRST else -1] if group.events else group.begin
                    tile = len(tiles) - 1 if visit >= 0 else -1
                    yield Beat(group.kind, group.begin, group.end, shown, p, tile, tuple(group.names))

    def groups(self, begin: int, end: int, in_tile: bool, empty: str) -> list[_Group]:
        """The beats of a stretch. A step without an event belongs to the next event, after the last one to that; a
        guard of a variable belongs to the event that set it.
        """
        found: list[_Group] = []
        events = [self.event(step, in_tile) for step in range(begin, end)]
        last = max((i for i, event in enumerate(events) if event), default=0)
        for step, event in zip(range(begin, end), events, strict=True):
            group = found[-1] if found else _Group("", begin, begin)
            if event is None:
                if (named := self.sets[step]) and not group.names.keys().isdisjoint(named):
                    group.end = step + 1
                continue
            kind, names = event
            if kind == "drop" and found and (group.kind == "merge" or step < begin + last):
                kind, names = group.kind, []
            if kind != group.kind:
                group = _Group(kind, group.end, step)
                found.append(group)
            group.end = step + 1
            group.events += [step] if names else []
            group.names.update(dict.fromkeys(names))
        if not found:
            found.append(_Group(empty, begin, end))
        found[-1].end = end
        return found

    def event(self, step: int, in_tile: bool) -> tuple[str, list[str]] | None:
        """The kind of beat that a step belongs to, and the variables or buffers it is about."""
        begin, end = self.access_at[step], self.access_at[step + 1]
        if begin < end:
            buffers = self.buffers[self.program_at(step)]
            loads = all(ACCESSES[kind] == "load" for kind in self.access_kind[begin:end])
            names = [buffers[index].name.removesuffix("_ptr") for index in self.access_buffer[begin:end]]
            return "load" if loads else "write", names
        for name in self.sets[step]:
            if (role := self.role_of.get(name)) and (kind := self.kind(role, step, in_tile)):
                return kind, [name]
        return None

    def kind(self, role: str, step: int, in_tile: bool) -> str | None:
        """The kind of beat in which a step sets a role's variable; None if it only guards it. Its line decides."""
        line = role, self.source[step], self.line[step], in_tile
        if line not in self.kinds:
            self.kinds[line] = self.kind_of(role, step, in_tile)
        return self.kinds[line]

    def kind_of(self, role: str, step: int, in_tile: bool) -> str | None:
        reads = {self.role_of.get(read, read) for read in self.read_at(step)}
        if role in ("kept", "kept_at"):
            return "keep" if in_tile else None if role in reads else "setup"
        if role in ("scores", "exponentials"):
            return role if reads else None  # zeros, to be added to
        if role in _GRADIENTS:
            return None if role in reads else role
        if role in _GRADIENT_SUMS:
            added = reads & {"exponentials", "scores_gradient"}
            return "add" if added else None if reads else "setup"
        if role == "result":
            return "add"
        if role in ("new_max", "rescale", "other_rescale"):
            return "new_max"
        if role in ("output", "kept_weight", "weights"):
            return "normalise"
        if role in ("gradient", "loss"):
            return role
        if role not in _CARRIED or reads == {role}:
            return None
        if not reads:
            return "setup"
        if role == "running_max":
            separate = self.roles.get("new_max") in self.body[self.source[step]]
            return "drop" if separate and in_tile else "new_max"
        if role == "target":
            return "pick"
        by_what_it_reads = {
            "other_sum": "merge", "other_rescale": "merge", "rescale": "rescale", "exponentials": "add",
            "gradient": "add",
        }  # fmt: skip
        return next((kind for read, kind in by_what_it_reads.items() if read in reads), None)

    def read_at(self, step: int) -> frozenset[str]:
        """The variables of the function's body that a step's assignment reads."""
        source = self.source[step]
        return self.reads[source].get(self.line[step], frozenset()) & self.body[source]

    # --- tile visits ---

    def visits(self) -> list[int]:
        """The tile visit, or the pair merged in, that each step belongs to, counted over the run; −1 for none.

        A visit begins where a tile's coordinates are set, if its scores, exponentials or list follow; it ends where its
        loop's body is left.
        """
        steps = self.trace.steps
        visit_at = [-1] * steps
        begins = sorted({step for role in (*_TILE, "other_at") for step in self.set_at[role]})
        content = ("scores", "exponentials", "other_max", "other_sum", *_GRADIENTS[1:])
        kept = [step for step in self.set_at["kept"] if self.read_at(step)]  # not its empty list
        writes = sorted([step for role in content for step in self.set_at[role]] + kept)
        found: list[int] = []
        for begin, next_begin in pairwise([*begins, steps]):
            at = bisect_left(writes, begin)
            if at < len(writes) and writes[at] < min(next_begin, self.program_end(begin)):
                found.append(begin)
        for visit, (begin, next_begin) in enumerate(pairwise([*found, steps])):
            end = self.leaves(begin, next_begin)
            visit_at[begin:end] = [visit] * (end - begin)
        return visit_at

    def leaves(self, begin: int, next_begin: int) -> int:
        """The end of the visit from `begin` on: after its loop's body, with the header that goes on to the next."""
        end = min(next_begin, self.program_end(begin))
        depth = self.depth
        inside, _ = self.shape(begin)
        for step in range(begin + 1, end):
            if depth[step] > depth[begin] or (depth[step] == depth[begin] and self.shape(step)[0] >= inside):
                continue
            if not all(self.shape(later)[1] for later in range(step, end)):
                return step
            return end if end == next_begin else step  # only loop headers up to the next tile: still this loop
        return end

    def text(self, step: int) -> str:
        """The line's text; "" for a line that the file's source does not have."""
        source = self.source[step]
        at = self.line[step] - self.trace.sources[source].first_line
        return "".join(self.lines[source][at : at + 1])

    def shape(self, step: int) -> tuple[int, bool]:
        """The line's indentation, and whether it begins a loop."""
        line = self.source[step], self.line[step]
        if line not in self.shapes:
            text = self.text(step)
            self.shapes[line] = len(text) - len(text.lstrip()), bool(re.match(r"\s*(for|while)\b", text))
        return self.shapes[line]

    def program_of(self, step: int) -> Program:
        return self.programs[self.program_at(step)]

    def program_at(self, step: int) -> int:
        return bisect_right(self.first_steps, step) - 1

    def program_end(self, step: int) -> int:
        program = self.program_of(step)
        return program.first_step + program.steps

    # --- events ---

    def find(self, event: str, other: Trace | None) -> int | None:
        """The step of an event; None if it does not happen. Raises ValueError for one that has no meaning."""
        if event == "first difference":
            return self.difference(other)
        if event == "first NaN":
            return next((step for step in range(self.trace.steps) if self.sets_nan(step)), None)
        if match := _LARGEST_DROP.fullmatch(event):
            drops = {beat.at: self.rescaled(beat, int(match[1])) for beat in self.of_kind("rescale", "merge")}
            smallest = min(drops.values(), default=1.0)
            return next((step for step, alpha in drops.items() if alpha == smallest < 1), None)
        at, what, row, name = _parsed(event)
        if name and what in ("load", "write"):
            steps = self.accesses(what, name)
        elif name and what == "set":
            steps = [step for step in range(self.trace.steps) if name in self.sets[step]]
        else:
            steps = [beat.at for beat in self.counted(what, row) if name is None or name in beat.names]
        return steps[at] if steps and at < len(steps) else None

    def of_kind(self, *kinds: str) -> list[Beat]:
        return [beat for beat in self.beats if beat.kind in kinds]

    def counted(self, what: str, row: int | None) -> list[Beat]:
        """The beats that an event may mean: of one kind, or the first of each tile; of a row, those that change it."""
        if what == "tile":
            each = [next(visit) for _, visit in groupby(self.beats, lambda beat: (beat.program, beat.tile))]
            tiles = [beat for beat in each if beat.tile >= 0]
            if row is None:
                return [beat for beat in tiles if beat.program == tiles[0].program]
            return [beat for beat in tiles if self.index(beat.at, row) is not None]
        found = self.of_kind(what)
        if row is None:
            return found
        return [beat for beat in found if self.index(beat.at, row) is not None and self.changes(beat, row)]

    def changes(self, beat: Beat, row: int) -> bool:
        """Whether a beat changes what it is named after, in a row: a new maximum m, a rescale or a merge ℓ."""
        if beat.kind in ("rescale", "merge"):
            return self.rescaled(beat, row) < 1
        if beat.kind != "new_max":
            return True
        old, new = self.number("running_max", beat.begin - 1, row), self.number("new_max", beat.end - 1, row)
        return not new <= old

    def rescaled(self, beat: Beat, row: int) -> float:
        """The factor that a beat shrinks a row's running sum by; 1 if there was no finite maximum before."""
        old = self.number("running_max", beat.begin - 1, row)
        alpha = self.number("rescale", beat.at, row)
        return alpha if np.isfinite(old) and not np.isnan(alpha) else 1.0

    def number(self, role: str, step: int, row: int) -> float:
        """The element of a role's variable that belongs to a row, after `step`; NaN if there is none."""
        value = self.value(role, step)
        at = self.index(step, row)
        if value is None or at is None:
            return float("nan")
        flat = numbers(value).reshape(-1)
        return float(flat[at if len(flat) > at else 0])

    def index(self, step: int, row: int) -> int | None:
        """The place of a row in the tile at `step`; None if it is not there."""
        held = self.value("rows", step)
        rows = numbers(held).reshape(-1) if held is not None else np.array([self.program_of(step).id[0]])
        found = np.flatnonzero(rows == row)
        return int(found[0]) if len(found) else None

    def value(self, role: str, step: int) -> Value | None:
        """What a role's variable holds after `step`, in the step's program; None if it is not set."""
        at = bisect_right(self.set_at[role], step) - 1
        if at < 0 or self.set_at[role][at] < self.program_of(step).first_step:
            return None
        return self.trace.values[self.set_to[role][at]]

    def accesses(self, what: str, name: str) -> list[int]:
        """The steps that load or store a buffer."""
        loads = what == "load"
        return [
            step
            for step in np.flatnonzero(np.diff(self.trace.columns.access_at)).tolist()
            for access in self.trace.accesses(step)
            if access.buffer.name in (name, f"{name}_ptr") and (access.kind == "load") == loads
        ]

    def sets_nan(self, step: int) -> bool:
        return any(_has_nan(value) for value in self.trace.changes(step).values())

    def difference(self, other: Trace | None) -> int | None:
        """The first step that sets a role's variable to another value than the run `other` does in the same tile."""
        if other is None:
            raise ValueError("event 'first difference': give the other run")
        theirs = _Run(other, self.roles).settings()
        differ = []
        for place, ours in self.settings().items():
            its = theirs.get(place, [])
            # as often in both: one by one; else the last, which the tile ends with
            pairs = zip(ours, its, strict=True) if len(ours) == len(its) else [(ours[-1], its[-1])] if its else ()
            differ += [step for (step, a), (_, b) in pairs if not _equal(a, b)]
        return min(differ, default=None)

    def settings(self) -> dict[tuple[int, int, str], list[tuple[int, Value]]]:
        """Each role's new values, with their steps, by program, tile and role."""
        found: dict[tuple[int, int, str], list[tuple[int, Value]]] = defaultdict(list)
        begins = [beat.begin for beat in self.beats]
        for role, steps in self.set_at.items():
            for step, value in zip(steps, self.set_to[role], strict=True):
                beat = self.beats[bisect_right(begins, step) - 1]
                found[beat.program, beat.tile, role].append((step, self.trace.values[value]))
        return found


def _equal(a: Value, b: Value) -> bool:
    if not isinstance(a, Tile | Affine | Scalar) or not isinstance(b, Tile | Affine | Scalar):
        return True
    left, right = numbers(a), numbers(b)
    return np.array_equal(left, right, equal_nan=left.dtype.kind == "f" and right.dtype.kind == "f")


def _has_nan(value: Value) -> bool:
    return isinstance(value, Tile) and value.numpy().dtype.kind == "f" and bool(np.isnan(value.numpy()).any())


@lru_cache(maxsize=64)
def _reads(text: str, first_line: int) -> dict[int, frozenset[str]]:
    """The names that each assignment of a function reads, by the line it starts on."""
    try:
        tree = ast.parse(textwrap.dedent(text))
    except SyntaxError:
        return {}
    found: dict[int, frozenset[str]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign):
            parts = [node] if isinstance(node, ast.AugAssign) else [node.value] if node.value else []
            read = {name.id for part in parts for name in ast.walk(part) if isinstance(name, ast.Name)}
            found[first_line + node.lineno - 1] = frozenset(read)
    return found
