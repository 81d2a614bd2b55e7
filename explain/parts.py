"""The smallest part of a run that represents all of it. Standard library only."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from explain.experiment import Experiment

ROWS = 8
"""Rows of a matrix that are run if all are too many: the programs of all rows move equally many bytes.

A multiple of the rows of every tile that is measured (1 and 4), and so few that the interpreter runs them in seconds.
"""


@dataclass(frozen=True)
class Part:
    """A smaller run, and how many such runs count as much as the whole; `times` is None if none do."""

    experiment: Experiment
    times: int | None
    words: str


def part_of(experiment: Experiment) -> Part:
    """The smallest part that counts the same as every other part of its size.

    Programs of different heads, queries or rows are independent, and the elements they touch do not depend on the data.
    Under a causal mask queries differ. If K and V are loaded once for all queries, one part cannot have its share.
    """
    p = experiment.values
    if experiment.entry.family == "vector":
        tiles, rest = divmod(p["n"], p["block_n"])
        if rest or not tiles:
            return Part(experiment, 1, f"all {p['n']:,} elements")
        return Part(experiment.with_(n=p["block_n"]), tiles, f"one tile of {tiles:,}, counted {tiles:,} times")
    if experiment.entry.family == "softmax":
        if p["rows"] % ROWS or ROWS % p.get("block_m", 1):
            return Part(experiment, 1, f"all {p['rows']:,} rows")
        times = p["rows"] // ROWS
        return Part(experiment.with_(rows=ROWS), times, f"{ROWS} rows of {p['rows']:,}, counted {times:,} times")
    if experiment.entry.family == "loss":
        return _tokens(experiment)
    group = p["heads"] // p["kv_heads"] if experiment.entry.shares_keys else 1
    heads = p["batch"] * p["heads"] // group
    one = "head" if group == 1 else "head of keys"
    head = Part(
        experiment.with_(batch=1, heads=group, kv_heads=1),
        heads,
        f"one {one} of {heads}, counted {heads} times" if heads > 1 else f"the one {one}",
    )
    if not _is_whole(head, experiment):  # heads that share a key head share its loads
        groups = p["batch"] * p["kv_heads"]
        shared = experiment.with_(batch=1, heads=p["heads"] // p["kv_heads"], kv_heads=1)
        return Part(shared, groups, f"one key head of {groups} with its query heads, counted {groups} times")
    if p["causal"] or p["seq_len"] % p["block_m"]:
        return head
    tiles = p["seq_len"] // p["block_m"]
    words = f"{p['block_m']} queries of one head, counted {tiles * heads:,} times"
    queries = Part(_last_queries(head.experiment), tiles * heads, words)
    return queries if _is_whole(queries, experiment) else head


def _is_whole(part: Part, whole: Experiment) -> bool:
    """Whether the part, counted so many times, moves the bytes and does the FLOPs of the whole."""
    once, every = part.experiment.traffic.totals(), whole.traffic.totals()
    return all((part.times or 0) * once[name] == every[name] for name in every)


def _tokens(experiment: Experiment) -> Part:
    """One tile of tokens, where each counts the same: not in the backward pass, which reads W once for all of dW."""
    p = experiment.values
    tiles, rest = divmod(p["tokens"], p["block_m"])
    if not rest:
        tile = experiment.with_(tokens=p["block_m"], ignored=min(p["ignored"], p["block_m"]))
        once, whole = (one.traffic.totals() for one in (tile, experiment))
        if all(tiles * once[name] == whole[name] for name in whole):
            return Part(tile, tiles, f"{p['block_m']} tokens of {p['tokens']:,}, counted {tiles:,} times")
    return Part(experiment, 1, f"all {p['tokens']:,} tokens")


def smaller(experiment: Experiment) -> Iterator[Part]:
    """Parts to run if all of it takes too long, the first one first: `part_of`, then a sample that represents itself.

    A kernel without such parts has none.
    """
    part = part_of(experiment)
    if part.experiment != experiment:
        yield part
    p = part.experiment.values
    if experiment.entry.family == "attention" and p["seq_len"] > p["block_m"]:
        words = f"the last {p['block_m']} queries of one head; counts of other queries differ"
        yield Part(_last_queries(part.experiment), None, words)


def _last_queries(experiment: Experiment) -> Experiment:
    """One tile of queries and all keys. A causal mask aligns the last query with the last key."""
    return experiment.with_(seq_len=experiment.values["block_m"])
