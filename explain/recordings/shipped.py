"""The runs that ship as recordings, so every chapter opens at once, with or without Triton."""

from __future__ import annotations

from collections.abc import Iterator

from explain import lessons
from explain.chapters.exactness import orders as exactness
from explain.chapters.papers import milakov
from explain.chapters.side_by_side import pairs
from explain.chapters.speed.rungs import CLIMB
from explain.chapters.triton_ladder.ladder import RUNGS
from explain.chapters.what_breaks.divergence import compared
from explain.experiment import Experiment
from kernels.museum import EXHIBITS
from kernels.museum_backward import BUGS
from kernels.parameters import ORDERS


def shipped() -> Iterator[Experiment]:
    """The experiments with a shipped trace, each once."""
    yield from dict.fromkeys(_opened_on())


def _opened_on() -> Iterator[Experiment]:
    yield lessons.VECTORS
    yield lessons.OPENING
    yield lessons.OPENING.with_(causal=True)
    yield lessons.SHORT
    yield lessons.SHORT.through("attention_standard")  # the small size of Three numbers
    yield lessons.SAFE
    yield from lessons.in_every_dtype(lessons.naive_twin(lessons.SAFE))
    yield lessons.first_order(lessons.OPENING)
    yield lessons.STANDARD
    yield lessons.BACKWARD
    yield lessons.summed_by_atomics(lessons.BACKWARD)
    yield lessons.with_p_kept(lessons.BACKWARD)
    yield lessons.ONE_TILE
    for row in (lessons.ONLINE, lessons.ONLINE.with_(inputs="sentence_short", cols=15, block_n=4)):
        yield row
        yield lessons.element_by_element(row)
        yield lessons.wrong_twin(row)
    yield from (lessons.ROWS, lessons.TOPK)
    for order in ORDERS:
        yield lessons.MERGED.with_(order=order)
        yield lessons.added_twin(lessons.MERGED.with_(order=order))
    yield from (lessons.DECODED, lessons.VERIFIED, lessons.top_left(lessons.VERIFIED))
    for rung in RUNGS:
        if (step := rung.experiment(lessons.ONLINE)) not in (lessons.ONLINE, lessons.wrong_twin(lessons.ONLINE)):
            yield step
    yield exactness.flash(lessons.EXACT)
    yield from dict.fromkeys(one for broken in EXHIBITS.values() for one in compared(broken))
    yield from dict.fromkeys(one for bug in BUGS.values() for one in compared(bug))
    for pair in pairs.PAIRS:
        yield from (pair.left, pair.right)
    for climbed in CLIMB.values():
        yield from climbed
    for kernel in ("cross_entropy_fused", "cross_entropy_standard", "cross_entropy_backward"):
        yield lessons.LOSS.through(kernel)
    yield from map(milakov.counting, milakov.PAPERS_ACCESSES)
