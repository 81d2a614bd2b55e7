"""What `benchmarks/speed.py --random` measured: for each baseline the shapes won, the mean, the worst five."""

from __future__ import annotations

import itertools
import re
import statistics
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from explain.figures.numbers import fixed, percent
from explain.figures.tables import Column, Columns, markdown
from kernels.parameters import ITEM_BYTES

LARGE = 32 * 2**20
"""Bytes read and written in all, above which a copy of as many is a bar."""
INTENSITY = 100
"""FLOPs per byte of attention up to which bytes bound it: half of what a Hopper GPU's matmuls and HBM balance at."""
BARS = {"copy": 0.85, "copy of as many bytes": 0.9}
"""Shares of a copy's speed to reach; a library's speed is to be reached whole."""
WAYS = {
    "softmax": ("kernels.dispatch:softmax", "torch.softmax", "copy", "QuACK"),
    "attention": (
        "kernels.dispatch:attention", "torch.sdpa cudnn", "torch.sdpa flash", "FlashAttention-3",
        "copy of as many bytes",
    ),
    "backward": ("kernels.dispatch:attention_backward", "torch.sdpa cudnn backward", "torch.sdpa flash backward"),
}  # fmt: skip
"""Of each table: our dispatcher, and what it is measured beside."""
SHORT, FEW, MANY = 1024, 256, 2048
"""Tokens of a short sequence; at most so many queries over at least so many keys."""
FASTER_OF_BOTH = "the faster of both"
BOTH = ("torch.sdpa flash", "FlashAttention-3")
WORDS = {"softmax": "softmax", "attention": "attention forward", "backward": "attention backward"}
LIBRARIES = {
    "copy": "copy, above 16 MB", "copy of as many bytes": "copy, few queries above 32 MB",
    "torch.softmax": "torch", "QuACK": "QuACK", "FlashAttention-3": "FlashAttention-3",
    **{f"torch.sdpa cudnn{way}": "cuDNN" for way in ("", " backward")},
    **{f"torch.sdpa flash{way}": "FlashAttention-2" for way in ("", " backward")},
    FASTER_OF_BOTH: "the faster of FlashAttention-2 and -3",
}  # fmt: skip


BACKWARD_BARS = {"torch.sdpa cudnn backward": 1.0, "torch.sdpa flash backward": 1.3}
HEAD_DIMS = (16, 64, 72, 104, 128, 136, 200, 257)
"""Heads that are alike to the kernels of attention backward: from each up to the next."""


@dataclass(frozen=True)
class Beside:
    """Ours beside a baseline: their time ÷ ours for every shape that both have a time for, the slowest first."""

    words: str
    baseline: str
    host: bool
    bar: float
    ratios: tuple[tuple[float, str], ...]

    @property
    def won(self) -> float:
        """The share of shapes where ours reaches the bar."""
        return sum(ratio >= self.bar for ratio, _ in self.ratios) / len(self.ratios)

    @property
    def mean(self) -> float:
        """The geometric mean of the ratios."""
        return statistics.geometric_mean(ratio for ratio, _ in self.ratios)

    @property
    def worst(self) -> str:
        """The five shapes with the smallest ratios."""
        return "; ".join(f"{ratio:.2f} {name}" for ratio, name in self.ratios[:5])


def beside(result: dict[str, Any]) -> Iterator[Beside]:
    """Every comparison that the result has shapes for: on the GPU, and with a call's time on the host.

    A copy is a bar only on the GPU, and only where bytes bound the time.
    """
    for table, words, baseline, takes in _comparisons():
        cases = [case for case in result["cases"] if case["case"]["table"] == table and takes(case["case"])]
        for host in (False,) if baseline in BARS else (False, True):
            if ratios := _ratios(cases, table, baseline, host):
                yield Beside(words, baseline, host, BARS.get(baseline, 1.0), tuple(sorted(ratios)))


def _comparisons() -> Iterator[tuple[str, str, str, Callable[[dict[str, Any]], bool]]]:
    """Each table and its words, a baseline, and which shapes count."""
    for table, (_, *baselines) in WAYS.items():
        for baseline in baselines:
            yield table, WORDS[table], baseline, _bound_by_bytes if baseline in BARS else lambda _: True
        if table == "attention":
            yield table, f"{WORDS[table]}, up to {SHORT:,} tokens", "torch.sdpa cudnn", _short
            yield table, f"{WORDS[table]}, up to {FEW} queries over {MANY:,} keys or more", FASTER_OF_BOTH, _few


def _short(case: dict[str, Any]) -> bool:
    return bool(max(case["shape"][2], case["keys"] or 0) <= SHORT)


def _few(case: dict[str, Any]) -> bool:
    return bool(case["shape"][2] <= FEW and (case["keys"] or 0) >= MANY)


def _bound_by_bytes(case: dict[str, Any]) -> bool:
    """Whether the bytes of the inputs and the output, each once, are many, and few FLOPs are done with each."""
    if case["unit"] == "B/s":
        return bool(case["work"] > LARGE)
    batch, heads, seq_len, head_dim = case["shape"]
    rows = heads * seq_len + (case["kv_heads"] or heads) * (case["keys"] or seq_len)
    moved = 2 * batch * rows * head_dim * ITEM_BYTES[case["dtype"]]
    return bool(moved > LARGE and case["work"] / moved <= INTENSITY)


def untimed(result: dict[str, Any]) -> Iterator[str]:
    """Who has no time, in how many shapes, and why: the reason's first sentence, with N for its numbers. Ours with the
    shapes.
    """
    for table, (ours, *baselines) in WAYS.items():
        own = [case for case in result["cases"] if case["case"]["table"] == table]
        for name in (_name(ours), *baselines):
            missed = [
                (re.sub(r"\b\d+\b", "N", re.split(r"\.\s|\n", row["why"])[0]), case["case"]["name"])
                for case in own for row in case["variants"] if row["name"] == name and "seconds" not in row
            ]  # fmt: skip
            for why, count in Counter(why for why, _ in missed).most_common():
                shapes = "; ".join(shape for reason, shape in missed if reason == why)
                where = f": {shapes}" if name == _name(ours) else ""
                yield f"{table}, {name}: no time in {count} of {len(own)} shapes ({why}){where}"


def summary(result: dict[str, Any]) -> Iterator[str]:
    """Each comparison in a line, and who has no time."""
    for one in beside(result):
        yield (
            f"{one.words}, {'with the host' if one.host else 'on the GPU'}, beside {one.baseline} ({len(one.ratios)}): "
            f"≥ {one.bar} in {one.won:.0%}, geometric mean {one.mean:.2f}, worst: {one.worst}"
        )
    yield from untimed(result)


def lines(result: dict[str, Any]) -> Iterator[str]:
    """The summary as markdown: a table, the worst five shapes, and what it was measured on."""
    compared = list(beside(result))
    rows = []
    for one in compared:
        if not one.host:
            host = next((o for o in compared if o.host and (o.words, o.baseline) == (one.words, one.baseline)), None)
            alone = (f"**{percent(one.won)}**", fixed(one.mean, 2))
            called = (percent(host.won), fixed(host.mean, 2)) if host else (None, None)
            shapes = (len(one.ratios), fixed(one.bar, 2))
            rows.append((one.words, LIBRARIES[one.baseline], *shapes, *alone, *called))
    headings = ("on the GPU: reached in", "geometric mean", "with the host: reached in", "geometric mean")
    columns: Columns = ("kernel", "baseline", *map(Column, ("shapes", "bar", *headings)))
    yield from markdown(columns, rows).splitlines()
    yield ""
    yield "<details><summary>The five slowest shapes beside each baseline, and results without a time</summary>"
    yield ""
    yield from (f"- {one.words}, {LIBRARIES[one.baseline]}: {one.worst}" for one in compared if not one.host)
    yield from (f"- {line}" for line in untimed(result))
    where, seeds = result["provenance"], result["seeds"]
    yield ""
    yield "</details>"
    yield ""
    yield (
        f"{len(result['cases'])} shapes drawn by seeds {', '.join(map(str, seeds))}; {where['gpu']}, driver "
        f"{where['driver']}, torch {where['torch']}, triton {where['triton']}, {where['date']}; {result['method']}; "
        "each result is checked against float64 first. With the host, the longer of GPU time and a call's time on the "
        f"host counts. Again: `python benchmarks/speed.py --random {' '.join(map(str, seeds))} --shapes "
        f"{len(result['cases']) // len(seeds)} --out FILE`."
    )


def backward_by_head_dim(result: dict[str, Any]) -> str:
    """Attention backward beside both baselines, by head_dim, as a Markdown table."""
    cases = [case for case in result["cases"] if case["case"]["table"] == "backward"]
    spans = [*itertools.pairwise(HEAD_DIMS), (0, HEAD_DIMS[-1])]
    rows = []
    for least, end in spans:
        own = [case for case in cases if least <= case["case"]["shape"][-1] < end]
        ratios = [[ratio for ratio, _ in _ratios(own, "backward", baseline)] for baseline in BACKWARD_BARS]
        if not all(ratios):
            continue
        dims = sorted({case["case"]["shape"][-1] for case in own})
        named = "all" if not least else str(dims[0]) if len(dims) == 1 else f"{dims[0]}–{dims[-1]}"
        cells: list[str] = []
        for found, bar in zip(ratios, BACKWARD_BARS.values(), strict=True):
            won = sum(ratio >= bar for ratio in found) / len(found)
            cells += [percent(won), fixed(statistics.geometric_mean(found), 2), fixed(min(found), 2)]
        rows.append((named, len(own), *cells))
    headings = [
        heading
        for baseline, bar in BACKWARD_BARS.items()
        for heading in (f"≥ {bar:g} × {LIBRARIES[baseline]}", "geometric mean", "slowest")
    ]
    return markdown(("head_dim", Column("shapes"), *map(Column, headings)), rows)


def _ratios(cases: list[dict[str, Any]], table: str, baseline: str, host: bool = False) -> list[tuple[float, str]]:
    """Their time ÷ ours and the shape's name, for each case that both have a time for."""
    ours = _name(WAYS[table][0])
    return [
        (theirs / mine, case["case"].get("name", ""))
        for case in cases
        if (mine := _time(case, ours, host)) and (theirs := _time(case, baseline, host))
    ]


def _name(ours: str) -> str:
    return ours.partition(":")[2]


def _time(case: dict[str, Any], name: str, host: bool) -> float:
    """Seconds on the GPU, or per call of many in a row, where the slower of GPU and host counts; 0 for none."""
    names = BOTH if name == FASTER_OF_BOTH else (name,)
    rows = [row for row in case["variants"] if row["name"] in names and "seconds" in row]
    return min((float(max(row["seconds"], row["host_seconds"] if host else 0.0)) for row in rows), default=0.0)
