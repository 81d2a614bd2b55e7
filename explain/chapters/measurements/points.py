"""The measured points of a plan: the quantities of each, the sets of runs and their sizes in words."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from explain.counters.model import total
from explain.experiment import Experiment
from explain.figures.numbers import count
from explain.figures.tables import plain
from explain.kept import kept
from explain.records.code import is_stale
from explain.records.model import Point, Record, changed
from explain.records.plans import PLANS, Plan
from explain.records.registry import Entry
from kernels.catalog import KERNELS
from kernels.parameters import Value

Quantity = Callable[[Point], float | None]
TIME = "time, µs"
LOADED, LOADS, ONCE, READ = ("kernel loads, × minimum", "every load, MB", "minimum, MB", "HBM read, MB")
OF_ONCE, REQUESTED, HELD = "HBM delivers, × minimum", "requested at L1, MB", "memory for results, MB"
WARM, TO_SMS, WRITTEN = "HBM read, L2 warm, MB", "L2 → SM read, MB", "written to HBM, now or later, MB"
RATE, FROM_SMS, SPILLS = "matmuls, TFLOP/s", "SM → L2 written, MB", "spills, stored + loaded, MB"
BUSY, SPREAD, LAUNCHES = "tensor cores busy, %", "slow ÷ fast launches, ×", "launches timed, count"


def _counted(name: str, warm: bool = False) -> Quantity:
    """A count in MB, with a cold L2 unless `warm`."""

    def value(point: Point) -> float | None:
        if point.counters is None:
            return None
        count = getattr(point.counters.warm if warm else point.counters.cold, name)
        return None if count is None else count / 1e6

    return value


def written(point: Point) -> int | None:
    """The bytes that a run writes to HBM: during the run, and those that it leaves in L2."""
    counts = point.counters.cold if point.counters else None
    return total(counts.dram_written_bytes, counts.dirty_bytes) if counts else None


def _written(point: Point) -> float | None:
    return None if (of := written(point)) is None else of / 1e6


def spills(point: Point | None) -> bool:
    """Whether the run stores spilled registers."""
    return bool(point and point.counters and point.counters.cold.spill_written_bytes)


def _tensor(point: Point) -> float | None:
    """How busy the tensor cores were, in percent; None for a kernel without a matmul."""
    has_matmul = point.experiment.traffic.flops_of("matmul") > 0
    return point.counters.cold.tensor_active_percent if point.counters and has_matmul else None


def spread(point: Point) -> float | None:
    """The 80th percentile of a row's times ÷ the 20th; None for one launch."""
    timing = point.timing
    return timing.p80_ms / timing.p20_ms if timing and timing.launches > 1 else None


def with_host(point: Point | None) -> bool:
    """Whether a recorded time probably contains time on the host: its launches differ much, and no CUDA graph replayed
    them.
    """
    if point is None or point.timing is None or GRAPH in point.timing.method:
        return False
    return (spread(point) or 1.0) > STEADY


def inputs(experiment: Experiment) -> dict[str, int]:
    """The bytes of each of the run's inputs, once. What the run writes and reads again is no input, nor what a forward
    pass stored for it: so kernels that compute the same have the same inputs.
    """
    other = {term.buffer for term in experiment.whole_terms if term.written} | {*STORED}
    read: dict[str, int] = {}
    for term in experiment.whole_terms:
        if term.buffer not in other:
            read[term.buffer] = max(term.once, read.get(term.buffer, 0))
    return read


def inputs_once(experiment: Experiment) -> int:
    """The bytes of the run's inputs, each once: the minimum."""
    return sum(inputs(experiment).values())


def stored(experiment: Experiment) -> list[str]:
    """What the run reads of what a forward pass stored, as a reader names it."""
    terms = experiment.whole_terms
    read = {term.buffer for term in terms} - {term.buffer for term in terms if term.written}
    return [name for buffer, name in STORED.items() if buffer in read]


def of_once(point: Point) -> float | None:
    """The bytes read from HBM with a cold L2 ÷ those of the inputs, each once."""
    read = point.counters.cold.dram_read_bytes if point.counters else None
    return None if read is None else read / inputs_once(point.experiment)


def loads_of_once(run: Experiment) -> float:
    """The bytes of all loads, by formula, ÷ those of the inputs, each once."""
    return run.traffic.read_bytes / inputs_once(run)


def hbm_seconds(record: Record, point: Point) -> float | None:
    """How long HBM takes for the bytes that a run reads and writes, now or later, at the rates measured on its GPU;
    None without counts or rates.
    """
    counts, read = point.counters.cold if point.counters else None, record.roofs.get("hbm")
    if not (counts and counts.dram_read_bytes and read):
        return None
    write = record.roofs.get("hbm write", read)
    return counts.dram_read_bytes / read.per_second + (written(point) or 0) / write.per_second


def matmul_rate(run: Experiment, seconds: float | None) -> float | None:
    """The FLOPs of a run's matmuls ÷ its time, in FLOP/s; None without one of them."""
    flops = run.traffic.flops_of("matmul")
    return flops / seconds if flops and seconds else None


def _tflops(point: Point) -> float | None:
    rate = matmul_rate(point.experiment, point.seconds)
    return rate and rate / 1e12


QUANTITIES: Mapping[str, Quantity] = {
    TIME: lambda point: 1e3 * point.timing.median_ms if point.timing else None,
    LOADED: lambda point: loads_of_once(point.experiment) if point.experiment.entry.steppable else None,
    READ: _counted("dram_read_bytes"),
    OF_ONCE: of_once,
    SPILLS: _counted("spilled_bytes"),
    BUSY: _tensor,
    RATE: _tflops,
    WARM: _counted("dram_read_bytes", warm=True),
    WRITTEN: _written,
    TO_SMS: _counted("l2_read_bytes"),
    FROM_SMS: _counted("l2_written_bytes"),
    REQUESTED: _counted("l1_bytes"),
    HELD: lambda point: None if point.peak_bytes is None else point.peak_bytes / 1e6,
    SPREAD: spread,
    LAUNCHES: lambda point: point.timing.launches if point.timing else None,
}
"""The quantities of a point: each name has the unit."""


def name_of(quantity: str) -> str:
    """A quantity without its unit: "HBM read, L2 warm"."""
    return quantity.rpartition(", ")[0]


def unit_of(quantity: str) -> str:
    """A quantity's unit: "MB"."""
    return quantity.rpartition(", ")[2]


READS = (READ, WARM, TO_SMS, REQUESTED)
"""What the loads, by formula, are beside."""
WITH_SPILLS = (READ, WRITTEN, TO_SMS, FROM_SMS, SPILLS)
"""The quantities beside which the page says what was spilled."""
COMPARED = tuple(name for name in QUANTITIES if name not in (LOADED, SPREAD, LAUNCHES))
"""The quantities that say something of a GPU beside another one."""
STORED = {"p": "P", "o": "O", "lse": "L"}
"""What a forward pass stores for the backward pass, by the names of its tensors."""
GRAPH, STEADY = "CUDA graph", 1.25
"""How a short kernel is launched without the host; by which factor the times of one run differ where it is not."""
MINIMUM = "1 × = every input read once"
"""What a picture says at the minimum."""
EVERY, OUTDATED = "every run", "out of date"
"""The plans of all runs of a kernel, and of what is out of date."""
SAME = 0.1
"""Two numbers count as about the same if they differ by less than this share."""
OPENING = "flash_attention"
"""The kernel that a set opens on; a set without it opens on its first kernel."""
FAMILIES = {"softmax": "softmax", "attention": "attention", "loss": "cross entropy"}
"""What readers call the families of kernels that are measured."""
_WORDS = {
    "rows": "{} rows", "cols": "{} columns",
    "batch": "batch {}", "heads": "{} heads", "kv_heads": "{} KV heads", "seq_len": "N = {}", "kv_len": "{} keys",
    "head_dim": "d = {}", "k": "K = {}", "dtype": "{}", "block_m": "BLOCK_M {}", "block_n": "BLOCK_N {}",
    "block_d": "BLOCK_D {}", "splits": "{} splits", "tokens": "{} tokens", "vocab": "V = {}", "dim": "d = {}",
}  # fmt: skip
"""How a reader says a parameter's value."""


@kept
def plans(shown: Sequence[Entry]) -> dict[str, Plan]:
    """The plans that any record has an experiment of, by name; one more has what is out of date in any of them."""
    stale = [point.experiment for one in shown for point in one.record.points.values() if is_stale(point)]
    every = [*PLANS.values(), Plan(OUTDATED, "Out of date: the kernel changed since", tuple(dict.fromkeys(stale)))]
    return {
        plan.name: plan
        for plan in every
        if any(one.record.point(experiment) for experiment in plan.experiments for one in shown)
    }


def outdated(shown: Sequence[Entry]) -> list[str]:
    """The GPUs with a run that is out of date, by their short names."""
    return [
        name for one, name in zip(shown, names(shown), strict=True) if any(map(is_stale, one.record.points.values()))
    ]


@kept
def every_kernel(shown: Sequence[Entry]) -> list[str]:
    """The names of the kernels that were measured in any of the records."""
    return list(dict.fromkeys(kernel for plan in plans(shown).values() for kernel in kernels(plan, shown)))


@kept
def of_kernel(shown: Sequence[Entry], kernel: str) -> dict[str, Plan]:
    """The plans with runs of a `kernel`, by name. If there are several, another one holds all its runs."""
    own = {name: plan for name, plan in plans(shown).items() if kernel in kernels(plan, shown)}
    runs = dict.fromkeys(run for plan in own.values() for run in plan.experiments if run.kernel == kernel)
    every = Plan(EVERY, f"All runs of {KERNELS[kernel].title}", tuple(runs))
    return own | ({EVERY: every} if len(own) > 1 else {})


@kept
def kernels(plan: Plan, shown: Sequence[Entry]) -> list[str]:
    """The names of the kernels that the plan measured in any of the records."""
    there = (one.kernel for one in plan.experiments if any(entry.record.point(one) for entry in shown))
    return list(dict.fromkeys(there))


@kept
def groups(plan: Plan, shown: Sequence[Entry]) -> dict[str, str]:
    """What kind of kernel each measured one is, by its title, in words; {} where all are of one kind."""
    entries = [KERNELS[kernel] for kernel in kernels(plan, shown)]
    found = {
        entry.title: FAMILIES.get(entry.family, entry.family)
        + (", backward" if entry.gradient else ", decoding" if entry.shares_keys else "")
        for entry in entries
    }
    return found if len({*found.values()}) > 1 else {}


def names(shown: Sequence[Entry]) -> list[str]:
    """Each record's GPU, in short; the whole label where two records have the same GPU, with a number where it takes
    one to tell them apart.
    """
    labels = [plain(one.label) for one in shown]
    numbered = [f"{number}. {label}" for number, label in enumerate(labels, start=1)]
    short = [label.partition(" · ")[0] for label in labels]
    return next(told for told in (short, labels, numbered) if len({*told}) == len(shown))


def measured(plan: Plan, shown: Sequence[Entry], kernel: str) -> list[Experiment]:
    """The plan's experiments in any of the records, of one `kernel` or of all, kernel after kernel."""
    there = [one for one in plan.experiments if any(entry.record.point(one) for entry in shown)]
    order = kernels(plan, shown)
    return sorted((one for one in there if kernel in ("", one.kernel)), key=lambda one: order.index(one.kernel))


def measured_sizes(plan: Plan, shown: Sequence[Entry], kernel: str) -> dict[Experiment, str]:
    """The plan's measured experiments of one `kernel` or of all, each with the sizes that not all of them share."""
    return runs_in_words(plan, shown, kernel)[1]


def runs_in_words(plan: Plan, shown: Sequence[Entry], kernel: str) -> tuple[list[str], dict[Experiment, str]]:
    """The sizes that all rows share, and each row's own: no two rows of a kernel say the same."""
    there = measured(plan, shown, kernel)
    values: dict[str, set[object]] = {}
    chosen: dict[str, set[str]] = {}  # of each kernel what some row sets, also where it would follow from others
    for one in there:
        chosen.setdefault(one.kernel, set()).update(changed(one))
        for name, value in one.values.items():
            values.setdefault(name, set()).add(value)
    varied = {name for name, found in values.items() if len(found) > 1}
    said = [sizes_of(one, varied, chosen[one.kernel]) for one in there]
    shared = [words for words in said[0] if all(words in other for other in said)] if len(said) > 1 else []
    own = (", ".join([words for words in one if words not in shared] or one) for one in said)
    return shared, dict(zip(there, own, strict=True))


def work(run: Experiment) -> tuple[object, ...]:
    """What a run computes, whatever its kernel and tiles."""
    return tuple((name, value) for name, value in sorted(run.values.items()) if not name.startswith("block"))


def sizes(experiment: Experiment) -> str:
    """An experiment's sizes as a reader says them: "4,096 × 8,192, BLOCK_N 4,096"."""
    return ", ".join(sizes_of(experiment))


def sizes_of(experiment: Experiment, varied: Collection[str] = (), chosen: Collection[str] = ()) -> list[str]:
    """The dtype, the sizes that differ from the kernel's defaults, and those `varied`, each as words; a softmax's rows
    and cols are one shape. Those that follow from others are left out, but for the ones `chosen`.
    """
    values, own = experiment.values, {*changed(experiment), *chosen, "dtype"}
    said = [f"{count(values['rows'])} × {count(values['cols'])}"] if "rows" in values else []
    for parameter in experiment.entry.parameters:
        name, value = parameter.name, values[parameter.name]
        if name in ("rows", "cols") or (name not in own and (name not in varied or callable(parameter.default))):
            continue
        said.append(in_words(name, value))
    return said


def in_words(name: str, value: Value) -> str:
    """A parameter's value as a reader says it: "16 heads", "BLOCK_M 128"."""
    if isinstance(value, bool):
        return name if value else f"not {name}"
    return _WORDS.get(name, f"{name} {{}}").format(count(value) if isinstance(value, int) else value)
