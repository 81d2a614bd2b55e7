"""Which assignment of run A each assignment of run B is: by the form of the code, and by what both hold."""

from __future__ import annotations

import ast
import itertools
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from explain.difference.equality import alike, same
from explain.difference.replay import Event, Replay, Site, parts_of

Pairs = dict[Site, Site]
"""A's assignment for each of B's."""
COMPARED = 48
"""So many events of two assignments are compared, to see whether both hold the same."""
LEAST_READ, LEAST_PARTS = 0.6, 0.8
"""Two statements without one equal number: so much of what they read, or of what they consist of, must be the same."""
_ITSELF: Site = (-1, 0, "")


class Pairing:
    """The pairs of assignments of two runs. Values count as equal within `tolerance`, a relative error."""

    def __init__(self, a: Replay, b: Replay, tolerance: float) -> None:
        self.a, self.b, self.tolerance = a, b, tolerance

    @cached_property
    def pairs(self) -> Pairs:
        """All pairs, each assignment at most once.

        Where the runs read the same tiles in the same order, what two variables hold counts more than their code: a
        variable that equals A's running maximum at every tile is the running maximum.
        """
        same_form, between = self.by_form
        if not self.aligned:
            return same_form | between
        found = {site: its for site, its in same_form.items() if self._fits(site, its)}
        equal = self._equal_everywhere(found)
        left, its_left = ({pair[end] for pair in equal} for end in (0, 1))
        for site, its in self._best_first(equal, found):
            if site in left and its in its_left:
                found = {one: other for one, other in found.items() if other != its} | {site: its}
                left, its_left = left - {site}, its_left - {its}
        found |= self._by_memory(found)
        found |= self._by_inputs(found, {site for site, _ in equal}, {its for _, its in equal})
        rest = {site: its for site, its in between.items() if site not in found and its not in found.values()}
        return found | {site: its for site, its in rest.items() if self._stand_together(site, its)}

    # --- by the code ---

    @cached_property
    def by_form(self) -> tuple[Pairs, Pairs]:
        """The pairs of statements of the same form, whatever the names; and of what stands between such statements."""
        ours, theirs = (sorted(run.sites) for run in (self.a, self.b))
        shared = {memory.base for memory in self.a.memories} & {memory.base for memory in self.b.memories}
        left, right = (
            [_form(run, site, shared) for site in sites] for run, sites in ((self.a, ours), (self.b, theirs))
        )
        found: Pairs = {}
        between: Pairs = {}
        for tag, a0, a1, b0, b1 in SequenceMatcher(None, left, right, autojunk=False).get_opcodes():
            if tag == "equal":
                found.update(zip(theirs[b0:b1], ours[a0:a1], strict=True))
            elif tag == "replace" and a1 - a0 == b1 - b0 == 1:
                between[theirs[b0]] = ours[a0]
            elif tag == "replace":
                named = {site[2]: site for site in ours[a0:a1]}
                between |= {site: named[site[2]] for site in theirs[b0:b1] if site[2] in named}
        for left_b, form in zip(theirs, right, strict=True):  # a statement that stands elsewhere
            taken = {*found.values(), *between.values()}
            moved = [site for site, one in zip(ours, left, strict=True) if one == form and site not in taken]
            if left_b not in found and left_b not in between and moved:
                found[left_b] = moved[0]
        return found, between

    def _fits(self, site: Site, its: Site) -> bool:
        """Whether two statements of one form give tiles of one shape, and loops count alike."""
        sorts = [_sort(run.sites[one][0]) for run, one in ((self.b, site), (self.a, its))]
        return sorts[0][0] == sorts[1][0] and not self._other_loops(site, its)

    def _stand_together(self, site: Site, its: Site) -> bool:
        """Whether two statements run at the same place, in loops that count alike."""
        met = any(there for _, there in self.counterparts(self.b.sites[site], self.a.sites[its]))
        return met and not self._other_loops(site, its)

    def _other_loops(self, site: Site, its: Site) -> bool:
        """Whether two loops count in another way, as 0, 1, 2 and 0, 16, 32: then their rounds correspond alone."""
        if not (isinstance(self.b.statement(site), ast.For) and isinstance(self.a.statement(its), ast.For)):
            return False
        steps = []
        for events in (self.b.sites[site], self.a.sites[its]):
            values = [int(one.value) for one in events[:2] if one.value is not None and one.value.size == 1]
            steps.append(values[-1] - values[0] if values else 0)
        return steps[0] != steps[1]

    # --- where both runs are ---

    @cached_property
    def aligned(self) -> bool:
        """Whether the runs read the same tiles in the same order, so their steps go side by side."""
        if [launch.grid for launch in self.a.trace.launches] != [launch.grid for launch in self.b.trace.launches]:
            return False
        for its, mine in self._loads():
            for program in {(event.launch, event.program) for event in mine}:
                left, right = (
                    list(dict.fromkeys(event.key for event in of if (event.launch, event.program) == program))
                    for of in (its, mine)
                )
                both = set(left) & set(right)
                permuted = [key for key in left if key in both] != [key for key in right if key in both]
                if permuted or any(one[2] != other[2] for one, other in zip(left, right, strict=False)):
                    return False
        return True

    def _loads(self) -> Iterator[tuple[list[Event], list[Event]]]:
        """The loads of each tensor that both runs load; of none, all loads of both."""
        loads = [[e for e in run.events if e.kind == "load"] for run in (self.a, self.b)]
        bases = [{memory.base for memory in run.loaded.values()} for run in (self.a, self.b)]
        for base in sorted(bases[0] & bases[1]):
            its, mine = (
                [e for e in of if run.loaded[e.site].base == base]
                for run, of in zip((self.a, self.b), loads, strict=True)
            )
            yield its, mine
        if not bases[0] & bases[1]:
            yield loads[0], loads[1]

    def place_of(self, event: Event) -> Any:
        """The place of an event. Two events of the runs correspond if their places are equal."""
        return (event.launch, event.program, event.rounds) if self.aligned else event.key

    def counterparts(self, mine: Sequence[Event], theirs: Sequence[Event]) -> Iterator[tuple[Event, list[Event]]]:
        """The events of A that each event of B must equal one of, for two assignments."""
        by_place: dict[Any, list[Event]] = defaultdict(list)
        for event in theirs:
            by_place[self.place_of(event)].append(event)
        nth: Counter[Any] = Counter()
        for event in mine:
            place = self.place_of(event)
            there = by_place.get(place, [])
            if event.inputs or self.aligned:
                there = there[nth[place] : nth[place] + 1]
            nth[place] += 1
            yield event, there

    # --- by what is held ---

    def _compared(self, site: Site, its: Site) -> Iterator[tuple[Event, Event | None]]:
        """Events of B with numbers, and A's at the same place; None if A has none there."""
        for event, there in self.counterparts(self.b.sites[site][:COMPARED], self.a.sites[its]):
            if event.value is not None:
                yield event, there[0] if there and there[0].value is not None else None

    def share(self, site: Site, its: Site, *, telling: bool = False) -> float:
        """The share of B's numbers that are A's at the same place; 0 without one that can be compared.

        With `telling` numbers that may be equal by chance do not count.
        """
        equal, every = 0, 0
        for event, one in self._compared(site, its):
            value, other = event.value, None if one is None else one.value
            assert value is not None
            counted = _telling(value) if telling else np.ones(value.shape, np.bool_)
            if other is not None and other.shape == value.shape:
                counted |= _telling(other)
                near = same(other.astype(np.float64), value.astype(np.float64), self.tolerance)
                equal += int((counted & (alike(other, value, self.tolerance) | near)).sum())
            every += int(counted.sum())
        return equal / every if every else 0.0

    def _equal_everywhere(self, found: Pairs) -> list[tuple[Site, Site]]:
        """All pairs of assignments that hold the same at each place of B, and not only 0, 1 or infinities."""
        sure = {site for site, its in found.items() if self.share(site, its) == 1}
        taken = {found[site] for site in sure}
        telling = [
            site
            for site, events in self.b.sites.items()
            if any(one.value is not None and _telling(one.value).any() for one in events[:COMPARED])
        ]
        return [
            (site, its)
            for site, its in self._candidates(set(telling) - sure, set(self.a.sites) - taken)
            if all(one is not None and alike(one.value, event.value, self.tolerance)  # type: ignore[arg-type]
                   for event, one in self._compared(site, its))
        ]  # fmt: skip

    def _candidates(self, sites: Iterable[Site], others: Iterable[Site]) -> Iterator[tuple[Site, Site]]:
        """Pairs of assignments with values of one shape and sort, in the order of the code."""
        ordered = sorted(others)
        for site in sorted(sites):
            sort = _sort(self.b.sites[site][0])
            yield from ((site, its) for its in ordered if _sort(self.a.sites[its][0]) == sort != ((), ""))

    def _best_first(self, pairs: Iterable[tuple[Site, Site]], found: Pairs) -> list[tuple[Site, Site]]:
        """Pairs ordered by what their statements have in common: the variables that they read, and their parts."""
        known = set(found.values())
        mine = {site: self._reads(self.b, site, found) for site, _ in pairs}
        theirs = {its: self._reads(self.a, its, {one: one for one in known}) for _, its in pairs}
        parts = {its: _parts(self.a, its) for its in theirs}
        own = {site: _parts(self.b, site) for site in mine}

        def order(pair: tuple[Site, Site]) -> tuple[Any, ...]:
            site, its = pair
            return -_common(mine[site], theirs[its]) - _in_parts(own[site], parts[its]), pair

        return sorted(pairs, key=order)

    def _by_memory(self, found: Pairs) -> Pairs:
        """The loads and the stores of one tensor that are left over, in order, if both runs have as many."""
        new: Pairs = {}
        for ours, theirs in ((self.a.loaded, self.b.loaded), (self.a.stored, self.b.stored)):
            for base in sorted({memory.base for memory in theirs.values()}):
                mine = sorted(site for site, one in theirs.items() if one.base == base and site not in found)
                its = sorted(site for site, one in ours.items() if one.base == base and site not in found.values())
                new |= dict(zip(mine, its, strict=True)) if len(mine) == len(its) else {}
        return new

    def _by_inputs(self, found: Pairs, settled: Collection[Site], its_settled: Collection[Site]) -> Pairs:
        """Floats that are left over and are made of the same elements of the inputs, from the same variables."""
        new: Pairs = {}
        mine = {site for site in self.b.sites if site not in found and site not in settled}
        others = set(self.a.sites) - set(found.values()) - set(its_settled)
        known = {its: its for its in found.values()}
        scores = {}
        for site, its in self._candidates(mine, others):
            if _sort(self.b.sites[site][0])[1] == "f" and self._same_inputs(site, its):
                share = self.share(site, its, telling=True)
                reads = _common(self._reads(self.b, site, found), self._reads(self.a, its, known))
                parts = _in_parts(_parts(self.b, site), _parts(self.a, its))
                if share or reads >= LEAST_READ or parts >= LEAST_PARTS:
                    scores[site, its] = (-share, -self.share(site, its), -reads, -parts)
        for site, its in sorted(scores, key=lambda pair: (scores[pair], pair)):
            if site not in new and its not in new.values():
                new[site] = its
        return new

    def _same_inputs(self, site: Site, its: Site) -> bool:
        """Whether both are made of the same inputs where they first stand: a wrong one may lack some later."""
        both = ((event, one) for event, one in self._compared(site, its) if one is not None)
        return any(event.inputs == one.inputs != 0 for event, one in itertools.islice(both, 1))

    def _reads(self, run: Replay, site: Site, known: Pairs) -> set[Site]:
        """What the last event of an assignment was made from, as A's assignments: those in `known`, and itself.

        Any other is looked through, to what it was made from.
        """
        found: set[Site] = set()
        left, seen = [*run.sites[site][-1].reads], set[int]()
        while left:
            number = left.pop()
            if number in seen:
                continue
            seen.add(number)
            one = run.events[number].site
            if one == site:
                found.add(_ITSELF)
            elif one in known:
                found.add(known[one])
            else:
                left += run.events[number].reads
        return found


def _sort(event: Event) -> tuple[tuple[int, ...], str]:
    """The shape of an event's value and its sort: float, whole number or pointer, truth; empty for no numbers."""
    if event.value is None or not event.name:
        return (), ""
    return event.value.shape, {"f": "f", "b": "b"}.get(event.value.dtype.kind, "i" + event.kind.replace("load", ""))


def _telling(value: NDArray[Any]) -> NDArray[np.bool_]:
    """The elements that are unlikely by chance: not 0, 1, infinite or NaN."""
    return np.isfinite(value) & (value != 0) & (value != 1)


def _common(mine: set[Site], others: set[Site]) -> float:
    return len(mine & others) / max(1, len(mine | others))


def _parts(run: Replay, site: Site) -> Counter[str]:
    """What a statement consists of: its operations, the functions that it calls, its numbers."""
    node = run.statement(site)
    found: Counter[str] = Counter()
    for part in parts_of(node) if node is not None else ():
        match part:
            case ast.Attribute(attr=said):
                found[said] += 1
            case ast.Constant(value=value):
                found[repr(value)] += 1
            case ast.Name() | ast.expr_context():
                pass
            case _:
                found[type(part).__name__] += 1
    return found


def _in_parts(mine: Counter[str], others: Counter[str]) -> float:
    return (mine & others).total() / max(1, (mine | others).total())


def _form(run: Replay, site: Site, shared: Collection[int]) -> str:
    """A statement without its variables' names, and which of its variables this is.

    A store says where to, if it is a tensor that both runs have, by its `base`.
    """
    node = run.statement(site)
    if node is None:
        return f"{run.sites[site][0].kind} {site[2]}"
    names = {n.id for n in parts_of(node) if isinstance(n, ast.Name)} - {"tl"}
    targets = [n.id for n in parts_of(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]
    place = targets.index(site[2]) if site[2] in targets else -1
    dumped = ast.dump(node if not isinstance(node, ast.For) else node.iter)
    for name in names:
        dumped = dumped.replace(f"id='{name}'", "id=''")
    memory = run.stored.get(site)
    return f"{place} {dumped} {memory.base if memory is not None and memory.base in shared else ''}"
