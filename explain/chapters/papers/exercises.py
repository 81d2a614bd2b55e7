"""Questions about the papers' results, answered from our traces and from a GPU's record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from explain.chapters.papers import flashattention, milakov
from explain.chapters.sweeps.analysis import slope
from explain.exercises import Question, Why
from explain.figures.numbers import count, duration, fixed, moved, number, percent, ratio, si
from explain.records.model import Record
from kernels.catalog import KERNELS

SOFTMAX, FIGURE_2, THEOREM, TABLES, HIERARCHY = (
    "Softmax and top-k", "FlashAttention, figure 2", "Theorem 2", "Time and memory", "Memory hierarchy",
)  # fmt: skip
SPLIT, FUSED = "softmax_safe_then_topk", "softmax_topk"
STANDARD, FLASH = "torch:attention_backward", "torch:flash_backward"
LENGTH = 4096
NEVER = "none of these"


@dataclass(frozen=True)
class Shown:
    """One panel, the first chosen GPU's record, and the accesses per element that our kernels' traces have."""

    panel: str
    record: Record | None
    accesses: Mapping[str, float]


def _record(shown: Shown) -> Record:
    if shown.record is None:
        raise ValueError("Choose a GPU's measurements above.")
    return shown.record


def _why_accesses(shown: Shown) -> Why:
    split, fused = shown.accesses[SPLIT], shown.accesses[FUSED]
    return Why(f"Counted in the traces: {number(split)} accesses per element and {number(fused)}. "
               f"{number(split)} ÷ {number(fused)} = {number(split / fused)}.")  # fmt: skip


def _knee(shown: Shown) -> str:
    found = milakov.knee(milakov.gains(_record(shown), milakov.FIGURES[0]))
    return NEVER if found is None else count(found)


def _knees(shown: Shown) -> list[str]:
    """Every third length of figure 1, the answer among them."""
    lengths = [count(length) for length in milakov.FIGURES[0].lengths]
    answer = _knee(shown)
    return [*lengths[lengths.index(answer) % 3 if answer in lengths else 0 :: 3], NEVER]


def _why_knee(shown: Shown) -> Why:
    gains = milakov.gains(_record(shown), milakov.FIGURES[0])
    return Why("Speedup of online over safe softmax: " + ", ".join(f"V = {count(v)} {ratio(g)}" for v, g in gains))


def _flash(shown: Shown) -> tuple[int, float]:
    """Our FlashAttention-2 at the sizes of figure 2: FLOPs of its matmuls, and its time in seconds."""
    experiment = flashattention.OURS[-1]
    point = _record(shown).point(experiment)
    if point is None or point.timing is None:
        raise ValueError("This record has no time of FlashAttention-2 at these sizes.")
    return experiment.traffic.flops_of("matmul"), point.timing.median_ms / 1e3


def _why_flash(shown: Shown) -> Why:
    flops, seconds = _flash(shown)
    peak = _record(shown).roofs.get("matmul fp16")
    of = f", {percent(flops / seconds / peak.per_second)} of the measured matmul peak" if peak else ""
    return Why(f"2 matmuls, {si(flops, 'FLOP')} ÷ {duration(seconds)} = {si(flops / seconds, 'FLOP/s')}{of}.")


def _by_length(shown: Shown) -> dict[float, float]:
    runs = [flashattention.by_length("flash_attention", length) for length in flashattention.LENGTHS]
    found = flashattention.series(_record(shown), runs, "seq_len", flashattention.sm_bytes)
    return {float(length): float(size) for length, size in found}


def _slope(shown: Shown) -> float:
    found = slope(_by_length(shown))
    if found is None:
        raise ValueError("This record has too few counts for a slope.")
    return found


def _why_slope(shown: Shown) -> Why:
    each = ", ".join(f"N = {count(int(n))} {moved(size)}" for n, size in _by_length(shown).items())
    return Why(f"Bytes between L2 and the SMs: {each}. Slope on logarithmic axes: {fixed(_slope(shown), 2)}.")


def _memory(shown: Shown, kernel: str) -> dict[int, int]:
    points = ((n, _record(shown).point(flashattention.of_table(kernel, n))) for n in flashattention.TABLE_LENGTHS)
    return {n: point.peak_bytes for n, point in points if point is not None and point.peak_bytes}


def _reached(shown: Shown) -> str:
    most = _memory(shown, STANDARD)[LENGTH]
    return count(max(n for n, size in _memory(shown, FLASH).items() if size <= most))


def _why_reached(shown: Shown) -> Why:
    flash = ", ".join(f"N = {count(n)} {moved(size)}" for n, size in _memory(shown, FLASH).items() if n >= LENGTH)
    return Why(f"Standard attention needs {moved(_memory(shown, STANDARD)[LENGTH])} for N = {count(LENGTH)}. "
               f"FlashAttention: {flash}.")  # fmt: skip


def _flops_per_number(shown: Shown) -> float:
    roofs = _record(shown).roofs
    return roofs["matmul fp16"].per_second / (roofs["hbm"].per_second / 2)


def _why_flops(shown: Shown) -> Why:
    roofs = _record(shown).roofs
    compute, memory = roofs["matmul fp16"].per_second, roofs["hbm"].per_second
    return Why(f"Measured: {si(compute, 'FLOP/s')} and {si(memory, 'B/s')}, which is {si(memory / 2, '')} numbers of "
               f"2 bytes per second. The quotient is {number(compute / (memory / 2))}.")  # fmt: skip


QUESTIONS = (
    Question[Shown](
        "accesses",
        f"How many times as many accesses per element does *{KERNELS[SPLIT].title}* make as *{KERNELS[FUSED].title}*?",
        "number",
        lambda shown: shown.accesses[SPLIT] / shown.accesses[FUSED],
        _why_accesses,
        unit="×",
        asked=lambda shown: shown.panel == SOFTMAX and {SPLIT, FUSED} <= set(shown.accesses),
        hint="Divide the accesses of the two kernels in the table.",
    ),
    Question[Shown](
        "knee",
        f"Figure 1: from which V on is online softmax at least {number(milakov.GAIN)} times as fast as safe softmax?",
        "choice",
        _knee,
        _why_knee,
        _knees,
        asked=lambda shown: shown.panel == SOFTMAX and shown.record is not None,
        hint="Follow the speedup in figure 1 to the right.",
    ),
    Question[Shown](
        "throughput",
        "The forward pass alone: how many TFLOP/s do the matmuls of our FlashAttention-2 reach?",
        "number",
        lambda shown: _flash(shown)[0] / _flash(shown)[1] / 1e12,
        _why_flash,
        unit="TFLOP/s",
        tolerance=0.03,
        asked=lambda shown: shown.panel == FIGURE_2 and shown.record is not None,
        hint="Divide the FLOPs of both matmuls by the time.",
    ),
    Question[Shown](
        "slope",
        "Over N, what is the slope of the bytes of FlashAttention-2 between L2 and the SMs?",
        "number",
        _slope,
        _why_slope,
        tolerance=0.1,
        asked=lambda shown: shown.panel == THEOREM and shown.record is not None,
        hint="Take two points. The slope is log(ratio of the bytes) ÷ log(ratio of N).",
    ),
    Question[Shown](
        "memory",
        f"Which N does FlashAttention reach in the memory that standard attention needs for N = {count(LENGTH)}?",
        "choice",
        _reached,
        _why_reached,
        [count(n) for n in flashattention.TABLE_LENGTHS],
        asked=lambda shown: shown.panel == TABLES and shown.record is not None,
        hint="FlashAttention's memory grows with N, standard attention's with N².",
    ),
    Question[Shown](
        "flops-per-number",
        "How many FLOPs of fp16 matmuls take as long as loading one fp16 number from HBM?",
        "number",
        _flops_per_number,
        _why_flops,
        tolerance=0.05,
        asked=lambda shown: (
            shown.panel == HIERARCHY and shown.record is not None and {"matmul fp16", "hbm"} <= set(shown.record.roofs)
        ),
        hint="Multiply the matmul throughput by the time that 2 bytes from HBM take.",
    ),
)
