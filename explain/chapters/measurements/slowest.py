"""Of kernels that compute the same, how much longer the slowest takes than the fastest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from explain.chapters.measurements.points import measured, measured_sizes, work
from explain.experiment import Experiment
from explain.figures.numbers import duration, ratio
from explain.kept import kept
from explain.records.plans import Plan
from explain.records.registry import Entry


@dataclass(frozen=True)
class _Pair:
    """The slowest and the fastest kernel of the same work: their runs and seconds."""

    slow: Experiment
    longer: float
    fast: Experiment
    shorter: float

    @property
    def factor(self) -> float:
        return self.longer / self.shorter


@kept
def pairs(plan: Plan, one: Entry) -> Sequence[_Pair]:
    """Of each kind of result the work in which its kernels differ most, the largest difference first. A kernel with
    several tiles counts with its fastest; one that is wrong on purpose does not count.
    """
    timed: dict[tuple[object, ...], dict[str, tuple[float, Experiment]]] = {}
    for run in measured(plan, [one], ""):
        point, entry = one.record.point(run), run.entry
        if point and point.seconds and not entry.wrong:
            own = timed.setdefault((entry.family, frozenset(entry.outputs) - {"lse"}, work(run)), {})
            own[run.kernel] = min((point.seconds, run), own.get(run.kernel, (point.seconds, run)), key=lambda it: it[0])
    found: dict[tuple[object, ...], _Pair] = {}
    for (*kind, _), own in timed.items():
        ranked = sorted(own.values(), key=lambda it: it[0])
        (shorter, fast), (longer, slow) = ranked[0], ranked[-1]
        pair = _Pair(slow, longer, fast, shorter)
        if len(own) > 1:
            found[tuple(kind)] = max(pair, found.get(tuple(kind), pair), key=lambda it: it.factor)
    return sorted(found.values(), key=lambda pair: -pair.factor)


@kept
def told(plan: Plan, one: Entry) -> str:
    """The slowest and the fastest kernel of each kind, as a list in Markdown; "" where no two compute the same."""
    if not (found := pairs(plan, one)):
        return ""
    own = measured_sizes(plan, [one], "")
    items = []
    for pair in found:
        at = ", ".join(size for size in own[pair.slow].split(", ") if not size.startswith("BLOCK")) or own[pair.slow]
        slow, fast = pair.slow.entry.title, pair.fast.entry.title
        slow, fast = f"{slow} ({duration(pair.longer)})", f"{fast} ({duration(pair.shorter)})"
        items.append(f"- **{ratio(pair.factor)}**: {slow} and {fast}, at {at}")
    return "\n".join(["Kernels that compute the same, the slowest and the fastest:\n", *items])


@kept
def title(plan: Plan, one: Entry) -> str:
    """A picture's title: which kernel is slowest beside the fastest that does the same work."""
    if not (found := pairs(plan, one)):
        return "How long each kernel takes"
    most = found[0]
    return f"{most.slow.entry.title} takes {ratio(most.factor)} as long as {most.fast.entry.title}, for the same work"
