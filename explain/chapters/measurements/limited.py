"""What limits one kernel: how near HBM and its matmuls come to their full rates, in a sentence and as a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from explain.chapters.measurements.exercises import run_of
from explain.chapters.measurements.points import hbm_seconds, matmul_rate, measured_sizes, names
from explain.chapters.sweeps import masking
from explain.counters.stalls import REASONS
from explain.experiment import Experiment
from explain.figures.labels import begun, listed, widest, wrapped
from explain.figures.numbers import aligned, count, number, percent
from explain.figures.palette import mid
from explain.figures.svg import line, picture, rect, text
from explain.kept import kept
from explain.records.model import Point, Record
from explain.records.plans import Plan
from explain.records.registry import Entry
from kernels.catalog import KERNELS

LIMIT = 0.6
"""From which share of its full rate on something counts as a kernel's limit."""
ALIKE, GAIN = 0.03, 0.1
"""By which share bytes differ at most where they are called the same; by which share a time is shorter at least where
that is told."""
WIDE, BAR, ROW, LINE = 300.0, 14.0, 26.0, 18.0
"""How wide the picture is, how high a bar, its row and a line of words are."""
NEITHER = "**Neither HBM nor the matmuls limit this kernel.**"
COUNTED = (
    "**Shares of the full rates**: of HBM, all bytes that the run reads and writes, also those that are written later; "
    "of matmuls and exponentials, those that the kernel computes (formula)."
)
"""What the bars count."""
UNKNOWN = (
    "Its warps wait, or do other work. What they wait for was not counted here; [Speed](./speed) shows it for the "
    "kernels of its ladder."
)


def why_in_base_2() -> str:
    """Why 2ˣ saves more time than the bar of the exponentials shows, in sentences."""
    each = [masking.per_exponential(kernel) for kernel in masking.BASES]
    why = f"In FlashAttention-2's compiled code, eˣ takes {each[0]} instructions per score, and 2ˣ takes {each[1]}. "
    return (
        "2ˣ and eˣ move the same bytes, so HBM did not cost the time that 2ˣ saves. "
        + why * all(each)
        + "The bar of the exponentials shows something else: how long they alone would take, at their full rate."
    )


@dataclass(frozen=True)
class InBase2:
    """A run's time, and that of the same algorithm with 2ˣ, which moves the same bytes; the run's sizes in words."""

    other: Experiment
    seconds: float
    own: float
    at: str

    @property
    def saved(self) -> str:
        """The time that 2ˣ saves: "2.35 of 5.60 ms (42% of the time)"."""
        saved = _ms(self.own - self.seconds).removesuffix(" ms")
        return f"{saved} of {_ms(self.own)} ({percent(1 - self.seconds / self.own)} of the time)"


@dataclass(frozen=True)
class Limits:
    """Of each counted run of a kernel the share of HBM's measured rate, and of a matmul's in the `arithmetic` of the
    run's matmuls, and of the exponentials'; none of what the kernel does not do.
    """

    of_hbm: Sequence[float]
    of_matmuls: Sequence[float]
    arithmetic: Sequence[str]
    why: str = ""
    """A sentence on what a kernel's warps wait for if neither HBM nor the matmuls limit it; "" if that is unknown."""
    of_exps: Sequence[float] = ()
    in_base_2: InBase2 | None = None

    @property
    def told(self) -> str:
        """What limits the kernel, in how many runs, and why, in sentences of Markdown."""
        return _told([("", self)])

    @property
    def verdict(self) -> str:
        """What limits the kernel, in how many runs; a sentence of Markdown."""
        of = {"HBM": self.of_hbm, "the matmuls": self.of_matmuls, "the exponentials": self.of_exps}
        runs = {name: number for name, shares in of.items() if (number := sum(share >= LIMIT for share in shares))}
        if not runs:
            return NEITHER if self.of_matmuls else "**HBM does not limit this kernel.**"
        (name, number), *others = runs.items()
        where = f" in {count(number)} of {count(len(self.of_hbm))} runs" * (number < len(self.of_hbm))
        also = "".join(f", {other} in {count(times)}" for other, times in others)
        limits = f"{begun(name)} {'limits' if name == 'HBM' else 'limit'}"
        return f"**{limits} this kernel{where}{also}.**"


@kept
def limits(plan: Plan, one: Entry, kernel: str) -> Limits | None:
    """How near one kernel comes to a GPU's measured rates; None where a rate or the bytes are not known."""
    sizes = measured_sizes(plan, [one], kernel) if kernel else {}
    return of(one.record, [*filter(None, map(one.record.point, sizes))], sizes)


def of(record: Record, points: Sequence[Point], sizes: Mapping[Experiment, str]) -> Limits | None:
    """How near these runs come to a GPU's measured rates, each with its size in words; None where a rate or the bytes
    are not known.
    """
    timed = [(point, point.seconds) for point in points if point.seconds]
    of_hbm = [needed / seconds for point, seconds in timed if (needed := hbm_seconds(record, point))]
    if not of_hbm:
        return None
    known = [run for point, _ in timed if (run := run_of(record, point.experiment))]
    rates = [(rate / run.peak, run) for run in known if (rate := matmul_rate(run.experiment, run.seconds))]
    arithmetic = [*dict.fromkeys(run.arithmetic for _, run in rates)]
    exp = record.roofs.get("exp")
    exps = [(seconds, number) for point, seconds in timed if (number := point.experiment.traffic.flops_of("exp"))]
    of_exps = [number / seconds / exp.per_second for seconds, number in exps] if exp else []
    why, shares = _waits(points, sizes), [share for share, _ in rates]
    return Limits(of_hbm, shares, arithmetic, why, of_exps, _in_base_2(record, points, sizes))


def _in_base_2(record: Record, points: Sequence[Point], sizes: Mapping[Experiment, str]) -> InBase2 | None:
    """Of the run that does most work, the same kernel in base 2 with the same bytes from HBM; None where that was not
    measured, or is no faster.
    """
    point = max(points, key=lambda one: one.experiment.traffic.flops)
    run, name = point.experiment, f"{point.experiment.kernel}_exp2"
    other = record.point(replace(run, kernel=name)) if name in KERNELS else None
    if not (other and other.counters and point.counters and other.seconds and point.seconds):
        return None
    reads = [one.counters.cold.dram_read_bytes or 0 for one in (other, point) if one.counters]
    if abs(reads[0] - reads[1]) > ALIKE * reads[1] or other.seconds > (1 - GAIN) * point.seconds:
        return None
    at = f" ({sizes[run]})" if len(sizes) > 1 else ""
    return InBase2(other.experiment, other.seconds, point.seconds, at)


def _told(known: Sequence[tuple[str, Limits]]) -> str:
    """What limits the kernel on GPUs that share one verdict; if nothing measured does, what its warps wait for."""
    verdict = known[0][1].verdict
    gpus: dict[str, list[str]] = {}
    for gpu, found in known:
        gpus.setdefault(found.why or UNKNOWN, []).append(gpu)
    waits = [f"{listed(own)}: {why}" if len(gpus) > 1 else why for why, own in gpus.items()]
    return " ".join([verdict, *waits * (verdict == NEITHER)])


@kept
def in_base_2(plan: Plan, shown: Sequence[Entry], kernel: str) -> str:
    """Markdown: the time that 2ˣ saves; "" if it saves none, or if HBM or the matmuls limit the kernel."""
    known = {gpu: found for gpu, found in _known(plan, shown, kernel).items() if found.verdict == NEITHER}
    faster = [(f" on the {gpu}" * (len(shown) > 1), two) for gpu, found in known.items() if (two := found.in_base_2)]
    if not faster:
        return ""
    first, saved = faster[0][1], listed([f"{two.saved}{on}" for on, two in faster])
    link = f"./measurements?kernel={first.other.kernel}"
    return f"**[Computing 2ˣ instead of eˣ]({link}) saves {saved}**{first.at}."


def _ms(seconds: float) -> str:
    """Times that are compared have one unit."""
    return aligned(seconds, "s", "m")


def _waits(points: Sequence[Point], sizes: Mapping[Experiment, str]) -> str:
    """What the warps of the run that does most work wait for most, in a sentence with a link; "" where unknown."""
    counted = [point for point in points if point.counters and point.counters.stalls]
    point = max(counted, key=lambda one: one.experiment.traffic.flops, default=None)
    stalls = point.counters.stalls if point and point.counters else None
    if not point or not stalls or not stalls.most:
        return ""
    key = stalls.most[0]
    at = f"At {sizes[point.experiment]}, " if len(sizes) > 1 else ""
    told = f"{at}a warp's most common stall is *{REASONS[key].name}*, {percent(stalls.share(key))} of its time: "
    return f"{begun(told)}{REASONS[key].words} More: [Speed](./speed)."


@kept
def told(plan: Plan, shown: Sequence[Entry], kernel: str) -> str:
    """What limits one kernel on each GPU, in Markdown; "" where that is not known."""
    gpus: dict[str, list[tuple[str, Limits]]] = {}
    for name, found in _known(plan, shown, kernel).items():
        gpus.setdefault(found.verdict, []).append((name, found))
    paragraphs = []
    for known in gpus.values():
        where = f"{listed([name for name, _ in known])}: " * (len(known) < len(shown))
        paragraphs.append(where + _told(known))
    return "\n\n".join(paragraphs)


def _known(plan: Plan, shown: Sequence[Entry], kernel: str) -> dict[str, Limits]:
    """The limits of each GPU that has them, by its name."""
    found = zip(names(shown), (limits(plan, one, kernel) for one in shown), strict=True)
    return {name: own for name, own in found if own}


@kept
def drawn(plan: Plan, shown: Sequence[Entry], kernel: str) -> str:
    """On each GPU a bar of the measured rate for HBM, for the matmuls and for the exponentials, filled as far as the
    kernel's runs reach: up to the least, and fainter up to the most. An SVG, "" where that is not known.
    """
    known = _known(plan, shown, kernel)
    kinds = [*dict.fromkeys(kind for found in known.values() for kind in found.arithmetic)]
    groups = [("HBM", "hbm", {name: found.of_hbm for name, found in known.items()})]
    matmuls = {name: found.of_matmuls for name, found in known.items() if found.of_matmuls}
    groups += [(f"{listed(kinds)} matmuls", "series-1", matmuls)] if matmuls else []
    exps = {name: found.of_exps for name, found in known.items() if found.of_exps}
    groups += [("exponentials", "p", exps)] if exps else []
    every = [(what, name, shares) for what, _, own in groups for name, shares in own.items()]
    if not every:
        return ""
    alone = len(shown) == 1  # then a bar's name is what it is of, else its GPU
    left = widest([what if alone else name for what, name, _ in every]) + 10
    long = WIDE - left - widest([_percents(shares) for *_, shares in every], bold=True) - 14
    above = long < WIDE / 4  # long names stand above their bars
    left, long = (0.0, long + left) if above else (left, long)
    spread = any(min(shares) < max(shares) for *_, shares in every)
    parts, y = [], 4.0
    for what, hue, own in groups:
        if not alone:
            parts.append(text(0, y + 12, what))
            y += LINE + 2
        for name, shares in own.items():
            parts.append(text(0, y + 12, what if alone else name, faint=not alone))
            y += LINE * above
            parts += [
                rect(left, y, long, BAR, mid("slate"), opacity=0.2),
                rect(left, y, long * min(1.0, max(shares)), BAR, mid(hue), opacity=0.5),
                rect(left, y, long * min(1.0, *shares), BAR, mid(hue)),
                line(left + LIMIT * long, y - 3, left + LIMIT * long, y + BAR + 3, opacity=0.9, dash="3 2"),
                text(left + long + 8, y + 12, _percents(shares), bold=True),
            ]
            y += ROW
    runs = max(len(found.of_hbm) for found in known.values())
    said = "The share of a run's time that each would need alone, at its measured full rate."
    said += f" Dark: the smallest of the {count(runs)} runs. Light: up to the largest." * spread
    said += f" From {percent(LIMIT)} on (dashed) we call it the limit."
    for words in wrapped(said, 0.95 * WIDE, 13):
        parts.append(text(0, y + 9, words, size=13, faint=True))
        y += LINE
    label = "; ".join(
        f"{what}{'' if alone else f', {name}'}: {_percents(shares)} of the measured rate"
        for what, name, shares in every
    )
    return picture(WIDE, y + 2, label, parts, f"{1.2 * WIDE:.0f}px")


def _percents(shares: Sequence[float]) -> str:
    """The least and the largest share, in two digits: "0.91 to 1.5%"."""
    least, most = (number(100 * share, 2, zeros=True) for share in (min(shares), max(shares)))
    return f"{most}%" if least == most else f"{least} to {most}%"
