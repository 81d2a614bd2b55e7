"""What the chapters show: the experiments they open on, and how each is labelled in the player."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from explain.chapters.exactness import outputs as exactness
from explain.chapters.papers import milakov
from explain.chapters.triton_ladder.ladder import RUNGS
from explain.experiment import Experiment
from explain.gpus import GPUS
from explain.trace.model import Trace
from kernels.inputs import labels
from kernels.museum import EXHIBITS, Exhibit
from kernels.parameters import ITEM_BYTES, ORDERS

OPENING = Experiment.of("flash_attention", {"block_m": 16, "block_n": 16}, "sentence")
SHORT = OPENING.with_(inputs="sentence_short", seq_len=15, kv_len=15, block_m=8, block_n=8)
ONLINE = Experiment.of("softmax_online", {"rows": 1, "block_n": 2}, "notebook")
SAFE = Experiment.of("softmax_safe", {"rows": 1, "block_n": 2}, "edge")
ROWS = Experiment.of("softmax_tiled", {"rows": 4, "block_m": 4, "block_n": 4}, "sentence_short")
MERGED = Experiment.of("softmax_split", {"rows": 1, "block_n": 4}, "sentence_short")
TOPK = Experiment.of("softmax_topk", {"rows": 1, "k": 4, "block_n": 4}, "sentence_short")
EXACT = Experiment.of("flash_attention_exp2", {"block_m": 16, "block_n": 16, "dtype": "fp16"}, "sentence")
JOINED = Experiment.of("softmax_split", {"rows": 4, "cols": 64, "block_n": 4})
STANDARD = Experiment.of("attention_standard", {"block_m": 16, "block_n": 16}, "sentence")
CHIP = GPUS["H200"]  # whose on-chip memory the tiles are measured against
ORIGINS = {"recorded": "recorded", "interpreter": "run on this machine"}


def element_by_element(experiment: Experiment) -> Experiment:
    """The same softmax with tiles of one element: Milakov & Gimelshein's algorithm 3 as printed."""
    return experiment.with_(block_n=1)


def wrong_twin(experiment: Experiment) -> Experiment:
    """The same row through the kernel that normalises each tile by itself."""
    return experiment.through("softmax_blocked_wrong")


def naive_twin(experiment: Experiment) -> Experiment:
    """The same row through the kernel that subtracts no maximum."""
    return experiment.through("softmax_naive")


def in_every_dtype(experiment: Experiment) -> list[Experiment]:
    """The same experiment in each dtype."""
    return [experiment.with_(dtype=dtype) for dtype in ITEM_BYTES]


def added_twin(experiment: Experiment) -> Experiment:
    """The same tiles through the merge that adds their sums as they are."""
    return experiment.through("softmax_split_wrong")


def first_order(experiment: Experiment) -> Experiment:
    """The same attention with the loops of the first FlashAttention: keys and values outside."""
    return experiment.through("flash_attention_v1")


def exhibit(broken: Exhibit) -> tuple[Experiment, Experiment]:
    """The right kernel and the broken one, on the input that shows the bug."""
    right, wrong = (Experiment.of(n, broken.sizes, broken.shown_by) for n in (broken.base, broken.kernel.name))
    return right, wrong


@dataclass(frozen=True)
class Pair:
    """Two experiments worth seeing together, and what to look for."""

    name: str
    left: Experiment
    right: Experiment
    look: str


_LARGE_ROW = {"rows": 1, "cols": 8, "block_n": 4}
PAIRS = (
    Pair(
        "Standard and flash",
        SHORT.through("attention_standard"),
        SHORT,
        "The left writes all of S to memory, reads it back for the softmax, writes P and reads that back. The right drops each tile of S "
        "as soon as it is used. Watch the bytes of s, then of x, y and p in the next two launches: the right has none of them.",
    ),
    Pair(
        "Keys or queries outside",
        first_order(SHORT),
        SHORT,
        "FlashAttention-1 walks over the queries once for each tile of keys: the tiles fill column by column, and O is read and written at every "
        "visit. FlashAttention-2 swaps the loops: row by row, and O is written once.",
    ),
    Pair(
        "Wrong and right",
        wrong_twin(ONLINE),
        ONLINE,
        "The left divides each tile by the tile's own sum. Press First difference: there the left has thrown away what the next tile needs.",
    ),
    Pair(
        "Two tile sizes",
        SHORT.with_(block_n=4),
        SHORT,
        "The same kernel with tiles of 4 keys and of 8. After the same keys, m and ℓ agree but for rounding; on the way the left rescales more often.",
    ),
    Pair(
        "Naive and safe",
        Experiment.of("softmax_naive", _LARGE_ROW, "large_magnitude"),
        Experiment.of("softmax_safe", _LARGE_ROW, "large_magnitude"),
        "Scores in the ten thousands. The left's exp overflows, and ∞ / ∞ is NaN; the right subtracts the maximum first, for one more pass "
        "over the row.",
    ),
)

IN_BASE_2 = SHORT.through("flash_attention_exp2")
CLIMB: Mapping[str, tuple[Experiment, Experiment]] = {
    "standard": (SHORT.through("attention_standard"), SHORT),
    "16 bits": (SHORT, SHORT.with_(dtype="bf16")),
    "base 2": (SHORT, IN_BASE_2),
    "masked": (IN_BASE_2, IN_BASE_2.with_(causal=True)),
}
"""What the rungs of attention do to the numbers, as pairs to step through side by side. From the mask on they change only who does what and when."""


def shipped() -> Iterator[Experiment]:
    """The experiments whose traces ship with Tilescope, so that every chapter opens at once, with or without Triton. Each once."""
    yield from dict.fromkeys(_opened_on())


def _opened_on() -> Iterator[Experiment]:
    yield OPENING
    yield OPENING.with_(causal=True)
    yield SHORT
    yield SAFE
    yield from in_every_dtype(naive_twin(SAFE))
    yield first_order(OPENING)
    yield STANDARD
    for row in (ONLINE, ONLINE.with_(inputs="sentence_short", cols=15, block_n=4)):
        yield row
        yield element_by_element(row)
        yield wrong_twin(row)
    yield from (ROWS, TOPK)
    for order in ORDERS:
        yield MERGED.with_(order=order)
        yield added_twin(MERGED.with_(order=order))
    for rung in RUNGS:
        if (step := rung.experiment(ONLINE)) not in (ONLINE, wrong_twin(ONLINE)):
            yield step
    yield exactness.flash(EXACT)
    yield from dict.fromkeys(one for broken in EXHIBITS.values() for one in exhibit(broken))
    for pair in PAIRS:
        yield from (pair.left, pair.right)
    for climbed in CLIMB.values():
        yield from climbed
    yield from map(milakov.counting, milakov.PAPERS_ACCESSES)


def view_of(trace: Trace, origin: str) -> dict[str, Any]:
    """How the player shows any trace: as its experiment's, or, of a kernel that is not of the catalog, by its name alone."""
    if trace.experiment is not None:
        return view(Experiment.from_json(trace.experiment), trace, origin)
    kernels = dict.fromkeys(trace.sources[launch.source].function for launch in trace.launches)
    return {"title": ", ".join(kernels), "badge": _badge(trace, origin)}


def view(experiment: Experiment, trace: Trace, origin: str) -> dict[str, Any]:
    """How the player shows this experiment's trace: the parts its variables play, the names on the axes, the provenance."""
    entry, p = experiment.entry, experiment.values
    row_labels, col_labels = labels(experiment.preset, p) or (None, None)
    return {
        "title": entry.title,
        "kernel": entry.base,
        "roles": dict(entry.roles),
        "score_shape": list(entry.score_shape(p)),
        **({"axes": ["queries", "keys"]} if entry.family == "attention" else {}),
        "row_labels": list(row_labels) if row_labels else None,
        "col_labels": list(col_labels) if col_labels else None,
        "pick_program": {
            "flash_attention": "Query tile",
            "flash_attention_exp2": "Query tile",
            "flash_attention_v1": "Head",
        }.get(entry.base, "Program"),
        "program_names": _program_names(experiment),
        "invariant": entry.keeps_max_and_sum,
        "chip": {"name": CHIP.name, "shared_bytes": CHIP.shared_bytes, "register_bytes": CHIP.register_bytes_sm},
        "badge": _badge(trace, origin),
    }


def _badge(trace: Trace, origin: str) -> str:
    when = datetime.fromisoformat(trace.created).date().isoformat()
    return f"trace · Triton's CPU interpreter · {ORIGINS[origin]}, {when}"


def _program_names(experiment: Experiment) -> dict[str, str]:
    """What each program of FlashAttention-2 owns, by its place in the grid; other kernels' programs go by number."""
    p = experiment.values
    if experiment.entry.base not in ("flash_attention", "flash_attention_exp2"):
        return {}
    word = "tokens" if experiment.preset.sentence else "queries"
    programs = p["batch"] * p["heads"]
    names = {}
    for tile, start in enumerate(range(0, p["seq_len"], p["block_m"])):
        last = min(start + p["block_m"], p["seq_len"]) - 1
        for y in range(programs):
            head = f"head {y % p['heads']}, " if programs > 1 else ""
            sequence = f"sequence {y // p['heads']}, " if p["batch"] > 1 else ""
            names[f"{tile},{y},0"] = f"{tile} · {sequence}{head}{word} {start}–{last}"
    return names
