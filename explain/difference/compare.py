"""Finds the first difference of two runs: pairs their variables by what they hold, and follows wrong outputs back."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from explain.difference.causes import cause_of
from explain.difference.equality import alike, same
from explain.difference.evaluate import callee
from explain.difference.evidence import Evidence
from explain.difference.pairing import Pairing
from explain.difference.replay import Event, Memory, Replay, Site, names_in, value_of
from explain.difference.roles import Roles
from explain.figures.numbers import number
from explain.trace.model import Trace

FLOAT32 = float(np.finfo(np.float32).eps)
UNIT = {"f16": 2.0**-10, "bf16": 2.0**-7}
"""Two roundings to nearest in a 16-bit format."""
LEAST_TOLERANCE = 1e-5
SAME_ARITHMETIC = 3e-6
"""How much one statement on the same values may differ: only a dot adds in another order in NumPy."""


class CannotCompareError(ValueError):
    """The runs cannot be compared; the message says why."""


@dataclass(frozen=True)
class Place:
    """A step of one run: its line, the variable it sets (or the expression it stores), and one element's value.

    `shown` is False where the step sets nothing: a loop that runs no round. A pointer's value is the number of the
    element that it points at; `kind` is then "pointer", "truth" for a mask's element, else empty.
    """

    step: int
    file: str
    line: int
    code: str
    variable: str
    element: tuple[int, ...]
    value: float
    shown: bool
    kind: str = ""

    def said(self, digits: int) -> str:
        """The value in words: "3.25", "true", "at element 272"."""
        match self.kind:
            case "pointer":
                return f"at element {self.value:.0f}"
            case "truth":
                return "true" if self.value else "false"
        return number(self.value, digits)


@dataclass(frozen=True)
class Difference:
    """The first difference: run B computes `wrong` where run A computes `right` (None if A has no such step).

    `outputs` has how many elements of each output differ, `unstored` how many A stores and B does not, and `elements`
    how many differ here. `cause` is the likely cause in words and `evidence` what shows it; both are empty if it is
    unknown. `compared` is the share of B's values before this step that have a counterpart in A, and equal it: how sure
    it is that nothing differs before.
    """

    right: Place | None
    wrong: Place
    elements: int
    cause: str
    evidence: str
    outputs: Mapping[str, int]
    unstored: Mapping[str, int]
    compared: float


def first_difference(a: Trace, b: Trace, *, secret: bool = False) -> Difference | None:
    """The first difference of run B from run A; None if their outputs agree.

    With `secret` the cause does not quote A's code: it is the solution of a puzzle. Raises CannotCompareError.
    """
    return _Comparison(a, b, secret).find()


class _Comparison:
    def __init__(self, a: Trace, b: Trace, secret: bool) -> None:
        self.secret = secret
        for name, trace in (("A", a), ("B", b)):
            if not trace.steps:
                raise CannotCompareError(f"run {name} has no recorded step")
        self.a = Replay(a)
        self.b = Replay(b, self.a.memories)
        largest = max((float(np.max(np.abs(v[np.isfinite(v)]), initial=0.0)) for v in _floats(self.a)), default=0.0)
        self.tolerance = LEAST_TOLERANCE + 4 * FLOAT32 * min(largest, 1e6)
        self.check_inputs()

    def find(self) -> Difference | None:
        outputs = dict(self.wrong_outputs())
        if not any(len(lanes) for lanes in outputs.values()):
            return None
        roots = {int(memory.written[lane]) for (_, memory), lanes in outputs.items() for lane in lanes} - {-1}
        for (_, memory), lanes in outputs.items():
            if len(lanes) and (memory.written[lanes] < 0).any():
                roots |= set(np.unique(memory.written[memory.written >= 0]).tolist())
        past = self.ancestors(roots)
        bad = (event for event in self.b.events if event.number in past and self.differs(event))
        event = next(bad, None)
        if event is None:
            event = self.b.events[min(roots)] if roots else self.b.events[-1]
        counts = {memory.name.removesuffix("_ptr"): len(lanes) for (_, memory), lanes in outputs.items()}
        unstored = {
            memory.name.removesuffix("_ptr"): int(((memory.written < 0) & (one.written >= 0)).sum())
            for one, memory in outputs
        }
        return self.told(event, counts, unstored)

    # --- outputs and inputs ---

    def check_inputs(self) -> None:
        """Raises CannotCompareError if both runs load an input and it holds different numbers."""
        shared = 0
        for memory in self.b.memories:
            other = next((one for one in self.a.memories if one.base == memory.base), None)
            if other is None or other.written.max() >= 0 or memory.written.max() >= 0:
                continue
            shared += 1
            if len(other.known) != len(memory.known):
                raise CannotCompareError(
                    f"the input {memory.name} has shape {memory.shape} in B and {other.shape} in A"
                )
            both = other.known & memory.known
            unequal = both & ~same(other.values, memory.values, 0.0)
            if unequal.any():
                at = int(np.argmax(unequal))
                place = ", ".join(map(str, memory.place(at)))
                raise CannotCompareError(
                    f"the inputs differ: {memory.name}[{place}] is {other.values[at]:.6g} in A and "
                    f"{memory.values[at]:.6g} in B. Give both runs the same inputs"
                )
        if not shared:
            raise CannotCompareError("the runs have no input in common: B loads no tensor that A loads")

    def wrong_outputs(self) -> Iterator[tuple[tuple[Memory, Memory], NDArray[np.int64]]]:
        """The outputs of A and B in pairs, and the elements that differ."""
        ours, theirs = self.a.outputs(), self.b.outputs()
        pairs = [(one, other) for one in ours for other in theirs if one.name == other.name]
        left = [one for one in ours if one not in [pair[0] for pair in pairs]]
        for other in theirs:
            if other not in [pair[1] for pair in pairs]:
                fits = [one for one in left if one.shape == other.shape]
                pairs += [(fits[0], other)] if fits else []
                left = [one for one in left if one not in fits[:1]]
        pairs = [pair for pair in pairs if pair[0].shape == pair[1].shape]
        if not pairs:
            names = [[f"{one.name} {one.shape}" for one in side] or ["none"] for side in (ours, theirs)]
            raise CannotCompareError(
                f"no output of the same shape: A stores {', '.join(names[0])}, B stores {', '.join(names[1])}"
            )
        partial = any(len(one.recorded) < one.programs for run in (self.a, self.b) for one in run.trace.launches)
        for one, other in pairs:
            for run, memory in ((self.a, one), (self.b, other)):
                if run.unread and not memory.known.any():
                    line = run.trace.line(run.unread[0])
                    raise CannotCompareError(f"what line {line} stores to {memory.name} cannot be read from the trace")
            both = one.known & other.known
            scale = float(np.max(np.abs(one.values[np.isfinite(one.values) & one.known]), initial=0.0))
            allowed = self.tolerance + UNIT.get(one.dtype, 0.0)
            wrong = both & ~same(one.values, other.values, allowed, allowed / 10 * scale)
            missing = one.known & ~other.known if not partial else np.zeros_like(both)
            yield (one, other), np.flatnonzero(wrong | missing)

    # --- pairs of variables ---

    @cached_property
    def pairing(self) -> Pairing:
        return Pairing(self.a, self.b, self.tolerance)

    @property
    def pairs(self) -> dict[Site, Site]:
        """A's assignment for each of B's."""
        return self.pairing.pairs

    @property
    def aligned(self) -> bool:
        """Whether the runs read the same tiles in the same order, so their steps go side by side."""
        return self.pairing.aligned

    @cached_property
    def counterparts(self) -> dict[int, list[Event]]:
        """The values of A that each of B's must equal one of, by the number of B's event."""
        found: dict[int, list[Event]] = {}
        for site, its in self.pairs.items():
            for event, there in self.pairing.counterparts(self.b.sites[site], self.a.sites[its]):
                if there:
                    found[event.number] = there
        return found

    def equal(self, event: Event) -> bool | None:
        """Whether B's value is what A has there; None if A has nothing to compare it with."""
        mine = event.value
        if not self.aligned:
            expected = self.roles.expected(event)
            if expected is not None and mine is not None:
                return alike(expected, mine, self.role_tolerance(event))
            if not event.inputs:  # a coordinate or a mask of other tiles
                return None
        theirs = [one for one in self.counterparts.get(event.number, []) if one.value is not None]
        if mine is None or not theirs:
            return None
        if any(alike(one.value, mine, self.tolerance) for one in theirs if one.value is not None):
            return True
        return self.aligned and all(_has_read_more(one, event) for one in theirs) and self.is_state_so_far(event)

    def is_state_so_far(self, event: Event) -> bool:
        """Whether B has what its role must be after the tiles of this pass: A may have read all of them before."""
        expected = self.roles.expected(event) if self.roles.read_before(event) else None
        return (
            expected is not None
            and event.value is not None
            and alike(expected, event.value, self.role_tolerance(event))
        )

    @cached_property
    def roles(self) -> Roles:
        return Roles(self.a, self.b, self.pairs)

    def role_tolerance(self, event: Event) -> float:
        """A sum in another order, of numbers in the inputs' dtype; the exponentials of large scores are less exact."""
        unit = max(UNIT.get(memory.dtype, 0.0) for memory in self.a.memories)
        return 4 * (LEAST_TOLERANCE if self.roles.is_exact(event) else self.tolerance) + unit

    def differs(self, event: Event) -> bool:
        return self.equal(event) is False

    def ancestors(self, roots: set[int]) -> set[int]:
        """The events that the roots were computed from, and the roots."""
        found, left = set(roots), list(roots)
        while left:
            for read in self.b.events[left.pop()].reads:
                if read not in found:
                    found.add(read)
                    left.append(read)
        return found

    # --- the answer ---

    def told(self, event: Event, counts: Mapping[str, int], unstored: Mapping[str, int]) -> Difference:
        other = next(iter(self.counterparts.get(event.number, [])), None)
        expected = None if self.aligned else self.roles.expected(event)
        if expected is not None and event.site in self.pairs:  # A's statement, with the value that it must have
            there = self.a.sites[self.pairs[event.site]]
            other = replace(next((e for e in there if e.inputs == event.inputs), there[-1]), value=expected)
        loop = self.shorter_loop(event, other) if self.aligned else None
        if loop is not None and (bound := self.wrong_bound(loop[0])) is not None:
            return self.told(bound, counts, unstored)
        lost = None if loop else self.overwritten(event, other)
        misread = None if loop or lost else self.misread()
        event, other = lost or misread or (event, other)
        wrong, right = loop or (event, other)
        index: tuple[int, ...] = ()
        elements = 1
        if loop is None and event.value is not None and other is not None and other.value is not None:
            index, elements = most_different(other.value, event.value)
        if lost is not None:
            cause, why = _not_added(*lost, self.b)
        elif misread is not None and other is not None:
            theirs, ours = self.b.loaded[event.site].name, self.a.loaded[other.site].name
            cause, why = f"`{event.name}` is loaded from `{theirs}`; no line loads from `{ours}`", ""
        elif loop is None:
            names = self.names_at(event, other or event)
            close = partial(alike, tolerance=SAME_ARITHMETIC)
            evidence = Evidence(self.a, self.b, other, event, names, self.pairs, close, self.secret)
            cause, why = cause_of(evidence, self.out_of_order(evidence)) or ("", "")
            if event.kind == "argument" and not event.reads:
                cause = f"the launch passes another `{event.name}`" + (f": {cause}" if cause else "")
        else:
            cause, why = self.loops_apart(*loop)
        if not cause and self.same_in_all_programs():
            cause = "no line reads `tl.program_id`: every program computes the same elements"
        before = [one for one in self.b.events[: event.number] if one.value is not None and one.name]
        compared = sum(bool(self.equal(one)) for one in before) / len(before) if before else 1.0
        return Difference(
            _place(self.a, right, index if right is other else ()) if right else None,
            _place(self.b, wrong, index if wrong is event else ()),
            elements,
            cause,
            why,
            {name: count for name, count in counts.items() if count},
            {name: count for name, count in unstored.items() if count},
            compared,
        )

    def wrong_bound(self, loop: Event) -> Event | None:
        """The first difference in what the bounds of B's loop were computed from; None if they are right."""
        frame = self.b.frame(loop)
        bounds = {frame[name] for name in names_in(self.b.statement(loop.site)) if name in frame}
        past = self.ancestors(bounds)
        return next((one for one in self.b.events if one.number in past and self.differs(one)), None)

    def overwritten(self, event: Event, other: Event | None) -> tuple[Event, Event] | None:
        """B's store of what A adds, or the other way round, with what the tensor holds in the end; else None.

        Looked for where what differs is loaded, or is the result itself.
        """
        if other is None or event.kind not in ("load", "store"):
            return None
        for stored in map(self.b.events.__getitem__, sorted({event.number, *event.reads})):
            there = self.counterparts.get(stored.number, [])
            if stored.kind != "store" or not there or not self.equal(stored):
                continue
            pair = stored, there[0]
            if len({_adds(run.statement(one.site)) for run, one in zip((self.b, self.a), pair, strict=True)}) == 2:
                memories = self.b.stored[stored.site], self.a.stored[there[0].site]
                wrong, right = (
                    replace(one, name=memory.name.removesuffix("_ptr"), value=memory.whole)
                    for one, memory in zip(pair, memories, strict=True)
                )
                return wrong, right
        return None

    def misread(self) -> tuple[Event, Event] | None:
        """B's load and A's into variables of one name, where B never loads the input that A loads; else None."""
        read = {memory.base for memory in self.b.loaded.values()}
        for its, memory in self.a.loaded.items():
            site = next((one for one in self.b.loaded if one[2] == its[2]), None)
            if memory.base in read or site is None:
                continue
            mine, theirs = self.b.sites[site][0], self.a.sites[its][0]
            if mine.value is not None and theirs.value is not None and mine.value.shape == theirs.value.shape:
                return mine, theirs
        return None

    def same_in_all_programs(self) -> bool:
        """Whether no program of B asks for its place, and A's do."""
        ours, theirs = ("program_id" in "".join(one.text for one in run.trace.sources) for run in (self.a, self.b))
        return ours and not theirs and any(launch.programs > 1 for launch in self.b.trace.launches)

    def names_at(self, event: Event, other: Event) -> dict[str, str]:
        """B's names of A's variables at an event. Of equal ones it is the variable that B's statement reads."""
        held = self.b.held(self.b.frame(event))
        read = [name for name in names_in(self.b.statement(event.site)) if name in held]
        pairs = Counter((its[2], site[2]) for site, its in self.pairs.items() if its[0] == other.site[0])
        names = dict(sorted(pairs, key=lambda pair: (pair[1] in read, pairs[pair])))
        for its, mine in names.items():
            if mine in held and mine not in read:
                equal = (
                    one for one in read if one not in names.values() and alike(held[one], held[mine], SAME_ARITHMETIC)
                )
                names[its] = next(equal, mine)
        return names

    def shorter_loop(self, event: Event, other: Event | None) -> tuple[Event, Event] | None:
        """A loop that ran fewer or more rounds in B than in A before `event`: its end in B, and in A; else None."""
        if other is None:
            return None
        for its, rounds in self.a.sites.items():
            if not isinstance(self.a.statement(its), ast.For):
                continue
            site = next((site for site, one in self.pairs.items() if one == its), None) or self.loop_like(its)
            if site is None:
                continue
            own = self.b.sites.get(site, [])
            every = [[e for e in of if _together(e, one)] for of, one in ((own, event), (rounds, other))]
            mine, theirs = ([e for e in of if e.step < one.step] for of, one in zip(every, (event, other), strict=True))
            if theirs and not own:  # it ran no round
                return replace(event, site=site, name=site[2], value=None), theirs[-1]
            missing = [e for e in theirs if e.rounds not in {one.rounds for one in every[0]}]
            extra = [e for e in mine if e.rounds not in {one.rounds for one in every[1]}]
            if missing and mine:
                return max(mine, key=lambda e: (e.rounds < missing[0].rounds, e.step)), missing[0]
            if extra and theirs:
                return extra[0], max(theirs, key=lambda e: (e.rounds < extra[0].rounds, e.step))
        return None

    def loops_apart(self, wrong: Event, right: Event) -> tuple[str, str]:
        """The cause that a loop has another number of rounds, and the rounds of both."""
        ends = "early" if wrong.value is None or wrong.rounds < right.rounds else "late"
        counted = f"A begins round {right.rounds[-1] + 1}" if right.rounds else "A runs it"
        own = "none" if wrong.value is None else f"round {wrong.rounds[-1] + 1}"
        return f"the loop ends too {ends}", f"{counted}; B's last one there is {own}"

    def out_of_order(self, evidence: Evidence) -> tuple[str, str] | None:
        """The cause that B's statement is A's, but what it reads is set elsewhere, too early, or never; else None."""
        other, event = evidence.right, evidence.wrong
        if other is None or not (other.kind == "load" or (evidence.expression and evidence.gives(evidence.expression))):
            return None
        ours, unlike = self.a.frame(other), None
        kept = {(its, site[2]) for site, its in self.pairs.items()}
        paired = set(self.pairs.values())
        theirs = self.b.frame(event)
        for name, of_a in ours.items():
            if of_a not in other.reads or (of_b := theirs.get(evidence.names.get(name, name))) is None:
                continue
            right, wrong = self.a.events[of_a], self.b.events[of_b]
            there = self.counterparts.get(of_b, [])
            if right.value is None or wrong.value is None or evidence.alike(right.value, wrong.value):
                continue
            if other.kind == "load" and right.kind == "pointer":
                return f"other elements of `{wrong.name}` are loaded", f"A's line {right.site[1]} sets the pointer"
            if not there:
                unlike = unlike or (
                    f"`{wrong.name}` is wrong before: line {wrong.site[1]} sets it",
                    f"A reads what line {right.site[1]} sets",
                )
                continue
            own, line = f"`{wrong.name}`", right.site[1]
            if there[0].number > other.number:
                return f"{own} is overwritten too early", f"A's line {other.site[1]} still reads what line {line} set"
            if there[0].number < of_a and (right.site, wrong.name) in kept:
                return f"{own} is used too early: it is not final yet", f"A's line {line} sets it again before"
            if there[0].number < of_a:
                return f"{own} is not set again: it still has its old value", f"A's line {line} sets it before"
        for read in map(self.a.events.__getitem__, other.reads):
            memory = self.a.stored.get(read.site)
            if read.kind == "store" and memory is not None and read.site not in paired:
                lines = {site[0] for site in self.pairs if self.pairs[site][0] == read.site[0]}
                if not any(one.base == memory.base for site, one in self.b.stored.items() if site[0] in lines):
                    own = next(
                        (name for (launch, name), one in self.b.named.items()
                         if launch == event.launch and one.base == memory.base), memory.name,
                    )  # fmt: skip
                    return f"nothing is stored to `{own}`", f"A's line {read.site[1]} stores to it before"
        return unlike

    def loop_like(self, its: Site) -> Site | None:
        """B's loop that has the place of A's among the loops of its function; None if B has more or fewer loops."""
        loops = [
            [(line, node) for line, node in sorted(run.statements[its[0]].items()) if isinstance(node, ast.For)]
            for run in (self.a, self.b)
            if its[0] < len(run.statements)
        ]
        if len(loops) < 2 or len(loops[0]) != len(loops[1]):
            return None
        line, node = loops[1][[line for line, _ in loops[0]].index(its[1])]
        return (its[0], line, ast.unparse(node.target))


def _adds(node: ast.stmt | None) -> bool:
    """Whether a statement adds to a tensor in place of storing to it."""
    return isinstance(node, ast.Expr) and callee(node.value) == "atomic_add"


def _not_added(wrong: Event, right: Event, b: Replay) -> tuple[str, str]:
    own, line = f"`{wrong.name}`", right.site[1]
    if _adds(b.statement(wrong.site)):
        return f"added to {own}, not stored: what it held before stays", f"A's line {line} stores the same numbers"
    return f"stored to {own}, not added: what was added before is lost", f"A's line {line} adds the same numbers"


def _has_read_more(one: Event, event: Event) -> bool:
    """Whether all that went into an event went into another, and more."""
    return one.inputs != event.inputs == one.inputs & event.inputs


def _together(one: Event, event: Event) -> bool:
    return (one.launch, one.program) == (event.launch, event.program)


def _floats(run: Replay) -> Iterator[NDArray[Any]]:
    for event in run.events:
        if event.value is not None and event.value.dtype.kind == "f" and event.inputs:
            yield event.value


def most_different(a: NDArray[Any], b: NDArray[Any]) -> tuple[tuple[int, ...], int]:
    """The first element where the difference is at least half the largest one, and how many differ."""
    if a.shape != b.shape:
        return (), int(b.size)
    a, b = a.astype(np.float64), b.astype(np.float64)
    equal = same(a, b, 1e-6)
    with np.errstate(invalid="ignore"):
        size = np.where(equal, -1.0, np.nan_to_num(np.abs(a - b), nan=np.inf, posinf=np.finfo(np.float64).max))
    first = int(np.argmax(size >= size.max() / 2))
    return tuple(int(i) for i in np.unravel_index(first, size.shape)), int((~equal).sum())


def _place(run: Replay, event: Event, index: tuple[int, ...]) -> Place:
    trace, line = run.trace, event.site[1]
    source = trace.sources[event.site[0]]
    code = source.text.splitlines()[line - source.first_line].strip()
    value = float("nan")
    if event.value is not None and event.value.size:
        value = float(event.value[index] if len(index) == event.value.ndim else event.value.reshape(-1)[0])
    name = event.name
    if not name:
        node = run.statement(event.site)
        expression = value_of(node)
        name = ast.unparse(expression) if expression is not None else "the stored value"
    shown = event.value is not None
    truth = event.value is not None and event.value.dtype.kind == "b"
    kind = "truth" if truth else "pointer" if event.kind == "pointer" else ""
    return Place(event.step, source.file, line, code, name, index, value, shown, kind)
