"""Questions of decoding: the parts and their merge, the splits that fill a GPU, the ridge, the two masks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from explain import lessons
from explain.chapters.decoding.bound import GROUP, free_queries, ridge
from explain.chapters.decoding.cache import ITEM, MODELS
from explain.chapters.decoding.masks import seen
from explain.chapters.decoding.programs import KV_HEADS, splits_at_once
from explain.exercises import Question, Runs, Why, set_to
from explain.experiment import Experiment
from explain.figures.numbers import count, moved, number, si
from explain.gpus import Gpu
from explain.trace.model import Trace
from kernels.parameters import ALIGNMENTS
from kernels.traffic_decoding import merge_bytes

LARGE = max(MODELS, key=lambda model: model.layers)
LONG = 131_072
"""The tokens of the question about the largest model's cache."""

PARTS, MASKS = "Parts and merge", "Causal masks"
"""What the player shows."""


@dataclass(frozen=True)
class Shown:
    """What the page shows: in its player, and on which GPU; `masked` are the queries and keys that its picture of masks
    begins with.
    """

    view: str
    gpu: Gpu
    runs: Runs = ()
    masked: Experiment = lessons.VERIFIED

    @property
    def trace(self) -> Trace:
        return self.runs[0][1]


def _stepped(shown: Shown) -> bool:
    return shown.view == PARTS and bool(shown.runs)


def _first_partial(shown: Shown) -> Sequence[int]:
    trace = shown.trace
    stored = (
        step
        for step in range(trace.steps)
        if any(one.kind == "store" and one.buffer.name == "part_lse_ptr" for one in trace.accesses(step))
    )
    return list(stored)[:1]


def _why_first_partial(shown: Shown) -> Why:
    step = _first_partial(shown)[0]
    return Why(f"Line {shown.trace.line(step)} stores lse of the first part. Its O went to HBM one line before.", step)


def _weights(shown: Shown) -> list[tuple[range, float]]:
    """The steps that have each β of the merge, and row 0's β."""
    found = set_to(shown.runs[0], "other_rescale")
    return [(steps, float(np.ravel(value)[0])) for steps, value in found]


def _why_weight(shown: Shown) -> Why:
    steps, beta = _weights(shown)[-1]
    largest = float(np.ravel(set_to(shown.runs[0], "new_max")[-1][1])[0])
    own = float(np.ravel(set_to(shown.runs[0], "other_max")[-1][1])[0])
    return Why(f"β = exp(lse − m) = exp({number(own, 4)} − {number(largest, 4)}) = {number(beta, 4)}.", steps[0])


def _why_merge_bytes(shown: Shown) -> Why:
    p = shown.runs[0][0].values
    rows = p["batch"] * p["heads"] * p["seq_len"]
    return Why(
        f"{p['splits']} parts × {rows} rows × ({p['head_dim']} numbers of O + 1 lse) × 4 bytes, written and read: "
        f"× 2 = {count(merge_bytes(p))}."
    )


def _why_splits(shown: Shown) -> Why:
    most, sms = splits_at_once(KV_HEADS, shown.gpu), shown.gpu.sms
    more = KV_HEADS * (most + 1)
    return Why(
        f"{sms} ÷ {KV_HEADS} = {number(sms / KV_HEADS)}, rounded down: {most}. {KV_HEADS} × {most} = "
        f"{KV_HEADS * most} programs. With {most + 1} splits, {more - sms} of {more} would wait for a second round."
    )


def _why_ridge(shown: Shown) -> Why:
    flops, rate = shown.gpu.tensor_flops_per_second, shown.gpu.hbm_bytes_per_second
    return Why(
        f"In 16 bits each row that shares a key adds one FLOP per byte. {si(flops, 'FLOP/s')} ÷ {si(rate, 'B/s')} = "
        f"{number(ridge(shown.gpu))} FLOPs per byte, and {GROUP} heads share a key: "
        f"{number(ridge(shown.gpu))} ÷ {GROUP}, rounded down: {free_queries(shown.gpu)}."
    )


def _milliseconds(shown: Shown) -> float:
    return 1e3 * LARGE.cache_bytes(LONG) / shown.gpu.hbm_bytes_per_second


def _why_milliseconds(shown: Shown) -> Why:
    size, rate = LARGE.cache_bytes(LONG), shown.gpu.hbm_bytes_per_second
    return Why(
        f"2 × {LARGE.layers} layers × {LARGE.kv_heads} heads of keys × {LARGE.head_dim} numbers × {ITEM} bytes × "
        f"{count(LONG)} = {moved(size)}. {moved(size)} ÷ {si(rate, 'B/s')} = {number(_milliseconds(shown))} ms."
    )


def _seen_by_the_last(shown: Shown, align: str) -> int:
    p = shown.masked.values
    return seen(p["seq_len"] - 1, p["seq_len"], p["kv_len"], align)


def _why_mask(shown: Shown) -> Why:
    bottom_right, top_left = (_seen_by_the_last(shown, align) for align in ALIGNMENTS)
    last = shown.masked.values["seq_len"] - 1
    return Why(
        f"The first query sees the first key, each further one a key more: query {last} sees {top_left}. "
        f"From the bottom right it sees all {bottom_right}."
    )


QUESTIONS = (
    Question[Shown](
        "first-partial",
        "Go to the step where the first part writes its lse.",
        "step",
        _first_partial,
        _why_first_partial,
        asked=_stepped,
        hint="Launch 1 ends a program with two stores.",
    ),
    Question[Shown](
        "last-weight",
        "Row 0 in the merge: what is β of the last part?",
        "number",
        lambda shown: _weights(shown)[-1][1],
        _why_weight,
        asked=_stepped,
        hint="Launch 2, the last round of its loop: watch `beta`.",
    ),
    Question[Shown](
        "merge-bytes",
        lambda shown: (
            f"This run has {shown.runs[0][0].values['splits']} splits. How many bytes does their merge cost, written "
            "and read?"
        ),
        "number",
        lambda shown: merge_bytes(shown.runs[0][0].values),
        _why_merge_bytes,
        unit="bytes",
        asked=_stepped,
        hint="Each part stores O and lse of each row, in float32. The merge reads both.",
    ),
    Question[Shown](
        "splits",
        lambda shown: (
            f"One sequence, {KV_HEADS} heads of keys, one query per head; the {shown.gpu.name} has "
            f"{shown.gpu.sms} SMs. If an SM runs one program at a time, what is the largest number of splits for which "
            "all programs run at once?"
        ),
        "number",
        lambda shown: splits_at_once(KV_HEADS, shown.gpu),
        _why_splits,
        hint="There is a program for each head of keys and each split.",
    ),
    Question[Shown](
        "free-queries",
        lambda shown: (
            f"{GROUP} query heads share a head of keys, in 16 bits. What is the largest number of queries per head for "
            f"which reading K and V is still the limit on the {shown.gpu.name}?"
        ),
        "number",
        lambda shown: free_queries(shown.gpu),
        _why_ridge,
        hint="Divide FLOP/s by bytes per second: so many rows may share a key.",
    ),
    Question[Shown](
        "time-to-read",
        lambda shown: (
            f"{LARGE.name}, {count(LONG)} tokens. How many milliseconds does the {shown.gpu.name} need at least to "
            "read this cache once?"
        ),
        "number",
        _milliseconds,
        _why_milliseconds,
        unit="ms",
        hint="The bytes are in the table of the models. Divide by the bandwidth of HBM.",
    ),
    Question[Shown](
        "top-left",
        lambda shown: (
            f"{shown.masked.values['seq_len']} queries, {shown.masked.values['kv_len']} keys, and the diagonal from "
            "the top left: how many keys does the last query see?"
        ),
        "number",
        lambda shown: _seen_by_the_last(shown, ALIGNMENTS[1]),
        _why_mask,
        hint="At the top left, the first query sees the first key.",
    ),
)
