"""A small picture for each chapter's card, drawn from the opening's run, the formulas, a GPU's sizes and the climb.

Each has WIDE × HIGH units and the palette's colours, which are right in both themes.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from explain import lessons
from explain.chapters.cross_entropy.layers import LAYERS, TOKENS
from explain.chapters.home.opening import Floats, Run
from explain.chapters.speed import results, rungs
from explain.chapters.triton_ladder import ladder
from explain.figures import palette
from explain.figures.palette import css
from explain.figures.svg import circle, line, path, picture, rect, text
from explain.gpus import DEFAULT, GPUS
from explain.records.results import ResultFileError

WIDE, HIGH = 240.0, 96.0
FLOOR = 88.0
"""What stands upright stands here."""
Parts = Iterator[str]


def of_chapters(run: Run, words: list[str]) -> dict[str, str]:
    """The picture of each chapter, by its page's name. `words`: the run's tokens."""
    drawn = {
        "attention": ("One word's weights on the words before and after it", _weights(run, words)),
        "softmax": ("Scores become weights", _softmax(run)),
        "online_softmax": ("A running sum, rescaled where a larger score comes", _running(run)),
        "memory_hierarchy": ("HBM and L2 to scale", _memories()),
        "first_kernel": ("A vector in tiles, one for each program", _tiles()),
        "triton_ladder": ("The bytes of each softmax kernel", _bytes()),
        "flash_attention": ("One tile of S on chip", _tile(run)),
        "exactness": ("One sum in fp16 in two orders, among the numbers of fp16", _orders(run)),
        "what_breaks": ("A sum without its rescale factor is too long", _not_rescaled(run)),
        "speed": ("The throughput of the climb's kernels", _climb()),
        "backward": ("P, and what is kept of it: one number per query", _kept(run)),
        "cross_entropy": ("H, W and the logits of a model's last layer, to scale", _last_layer()),
        "decoding": ("Keys in parts, each with an output of its own, merged into one", _parts()),
    }
    return {page: picture(WIDE, HIGH, label, parts, "20rem") for page, (label, parts) in drawn.items()}


def _row(run: Run) -> Floats:
    """The followed row's scores."""
    return np.asarray(run.s[run.row])


def _weights(run: Run, words: list[str]) -> Parts:
    p = np.exp(_row(run) - _row(run).max())
    first = max(0, run.row - 9)
    seen = range(first, first + 19)
    x = {key: 12 + 12 * (key - first) for key in seen}
    for key in seen:
        far, strong = abs(x[key] - x[run.row]), float(p[key] / p[seen].max())
        if key != run.row:
            yield path(
                f"M{x[run.row]} 66 Q{(x[run.row] + x[key]) / 2:g} {66 - far:g} {x[key]} 66", css("p"),
                thick=1 + 4 * strong, opacity=0.15 + 0.85 * strong,
            )  # fmt: skip
        yield circle(x[key], 70, 4, css("hbm" if key == run.row else "slate"))
    yield text(x[run.row], 92, words[run.row], anchor="middle", size=14, bold=True)


def _softmax(run: Run) -> Parts:
    x = _row(run)[:8]
    exponentials = np.exp(x - x.max())
    for left, values, hue in ((8, x - x.min() + 0.15, "scores"), (142, exponentials / exponentials.sum(), "p")):
        for i, value in enumerate(values):
            high = 76 * float(value / values.max())
            yield rect(left + 11 * i, FLOOR - high, 9, high, css(hue))
        yield line(left - 2, FLOOR, left + 88, FLOOR)
    yield text(118, 56, "exp", anchor="middle", faint=True)
    yield path("M104 66 H130 M124 61 L130 66 L124 71", "currentColor", opacity=0.6)


def _running(run: Run) -> Parts:
    l, alpha, added = (values[:, run.row] for values in (run.l, run.alpha, run.added))  # noqa: E741
    unit, wide = 62 / float(l.max()), 34
    for j, (whole, new) in enumerate(zip(l, added, strict=True)):
        x, kept = 12 + 58 * j, float(whole - new) * unit
        yield rect(x, FLOOR - kept, wide, kept, css("sum"))
        yield rect(x, FLOOR - kept - new * unit, wide, new * unit, css("sum"), opacity=0.5)
        if j and alpha[j] < 1:
            before = float(l[j - 1]) * unit
            yield rect(x - 3, FLOOR - before, wide + 6, before, "none", stroke=css("alpha"), dashed=True)
            yield text(x + wide / 2, 12, "× α", anchor="middle", bold=True, fill=palette.css_ink("alpha"))
    yield line(6, FLOOR, 234, FLOOR)


def _memories() -> Parts:
    gpu, side = GPUS[DEFAULT], 84.0
    l2 = side * (gpu.l2_bytes / gpu.hbm_bytes) ** 0.5
    times = 52 / l2
    shared = times * side * (gpu.shared_bytes_all / gpu.hbm_bytes) ** 0.5
    yield rect(12, 6, side, side, css("hbm"))
    yield rect(12 + side - l2 - 3, 9, l2, l2, palette.css_ink("slate"))
    yield text(12 + side / 2, 54, "HBM", anchor="middle", bold=True, fill="var(--dark-letters)")
    yield path(f"M{12 + side - 3:g} 9 L158 24 M{12 + side - 3:g} {9 + l2:g} L158 76", "currentColor", opacity=0.4)
    yield rect(158, 24, 52, 52, "none", stroke=css("slate"))
    yield rect(158, 76 - shared, shared, shared, css("slate"))
    yield text(206, 19, "L2", anchor="end", bold=True)
    yield text(158, 92, "shared", size=13)


def _tiles() -> Parts:
    n, lanes = (lessons.VECTORS.values[name] for name in ("n", "block_n"))
    cell, programs = 6.2, -(-n // lanes)
    for row, hue in enumerate(("hbm", "hbm", "acc")):
        for i in range(programs * lanes):
            x, y = 8 + i * cell + 5 * (i // lanes), 8 + 32 * row
            shade, stroke = (0.9 if i // lanes % 2 else 0.35, "none") if i < n else (0.0, css("slate"))
            yield rect(x, y, cell - 1.2, 18, css(hue), opacity=shade, stroke=stroke)
    for y, sign in ((22, "+"), (54, "=")):
        yield text(229, y, sign, anchor="middle", size=16, bold=True)


def _bytes() -> Parts:
    runs = [rung.experiment(lessons.ONLINE) for rung in ladder.RUNGS]
    rows = [sum(term.bytes for term in one.traffic.terms) / one.values["rows"] for one in runs]
    high = 84 / len(runs)
    for i, (one, size) in enumerate(zip(runs, rows, strict=True)):
        hue = css(palette.kernel(one.entry.hue))
        yield rect(12, 6 + i * high, 216 * size / max(rows), high - 4, hue)


def _tile(run: Run) -> Parts:
    cell, gap, left, top = 15, 3, 86, 24
    keys, block = len(run.m), len(run.q) // len(run.m)
    now = int((run.alpha[1:, run.row] < 1).argmax()) + 1
    for i in range(keys):
        for j in range(keys):
            x, y = left + j * (cell + gap), top + i * (cell + gap)
            if i or j != now:
                yield rect(x, y, cell, cell, "none", stroke=css("slate"), dashed=True)
                continue
            part = run.s[:block, j * block : (j + 1) * block]
            small = part.reshape(4, block // 4, 4, block // 4).mean((1, 3))
            share = (small - small.min()) / np.ptp(small)
            for (r, c), value in np.ndenumerate(share):
                place = (x + c * cell / 4, y + r * cell / 4, cell / 4, cell / 4)
                yield rect(*place, css("scores"), opacity=0.2 + 0.8 * float(value))
    for name, x, y, wide, high, hue in (
        ("Q", 46, top, 32, cell, "hbm"), ("K", left + now * (cell + gap), 2, cell, 18, "hbm"),
        ("O", 166, top, 32, cell, "acc"),
    ):  # fmt: skip
        yield rect(x, y, wide, high, css(hue))
        yield text(x + wide / 2, y + high / 2 + 5, name, anchor="middle", bold=True, fill="var(--dark-letters)")


def _orders(run: Run) -> Parts:
    """Row × column of P̃V that two orders of addition round to different numbers of fp16, farthest apart."""
    p = np.exp(_row(run) - _row(run).max())
    terms = p[:, None].astype(np.float64) * run.v
    forward, backward = (np.add.accumulate(one.astype(np.float16))[-1] for one in (terms, terms[::-1]))
    exact, at = terms.sum(axis=0), int(np.abs(forward - backward).argmax())
    ulp = float(np.spacing(np.abs(forward[at])))
    ends = [float(value) for value in (forward[at], backward[at])]
    middle = round((ends[0] + ends[1]) / 2 / ulp) * ulp
    each = min(28.0, 180 / max(1, abs(ends[0] - ends[1]) / ulp))

    def place(value: float) -> float:
        return WIDE / 2 + (value - middle) / ulp * each

    for tick in range(-int(108 / each), int(108 / each) + 1):
        yield line(WIDE / 2 + tick * each, 52, WIDE / 2 + tick * each, 68)
    yield line(8, 60, 232, 60)
    yield path(f"M{place(float(exact[at])):.1f} 30 V80", palette.css_ink("right"), thick=2.5)
    for value, name, hue in zip(ends, ("→", "←"), ("kernel-1", "kernel-2"), strict=True):
        yield circle(place(value), 60, 7, css(hue))
        yield text(place(value), 44, name, anchor="middle", size=18, bold=True)
    yield text(place(float(exact[at])), 22, "float64", anchor="middle", size=13, fill=palette.css_ink("right"))


def _not_rescaled(run: Run) -> Parts:
    tile = int((run.alpha[1:, run.row] < 1).argmax()) + 1
    old, alpha, added, right = (
        float(values[at, run.row])
        for values, at in ((run.l, tile - 1), (run.alpha, tile), (run.added, tile), (run.l, tile))
    )
    unit = 190 / (old + added)
    for y, kept, sign, hue in ((14, old * alpha, "✓", "right"), (56, old, "✗", "alarm")):
        yield rect(30, y, kept * unit, 24, css("sum"))
        yield rect(30 + kept * unit, y, added * unit, 24, css("sum"), opacity=0.5)
        yield text(14, y + 18, sign, anchor="middle", size=17, bold=True, fill=palette.css_ink(hue))
    yield rect(30 + right * unit, 56, (old + added - right) * unit, 24, css("alarm"), opacity=0.75)
    yield path(f"M{30 + right * unit:.1f} 8 V86", "currentColor", opacity=0.6)


def _kept(run: Run) -> Parts:
    side, queries = 80.0, len(run.s)
    yield rect(30, 8, side, side, css("p"), opacity=0.1, stroke=css("p"))
    yield text(30 + side / 2, 54, "P", anchor="middle", size=20, bold=True)
    yield text(138, 54, "→", anchor="middle", size=20)
    yield rect(164, 8, side / queries, side, "currentColor")
    yield text(186, 54, "L", anchor="middle", size=20, bold=True)


def _climb() -> Parts:
    try:
        result = results.load()
    except ResultFileError:  # the page Speed says what is wrong with the file
        return
    climbs = [rungs.climb(case) for case in result.cases if case.table == "attention"] if result else []
    timed = [steps for steps in climbs if all(step.per_second for step in steps)]
    if not timed:
        return
    fastest = [(step.rung, step.per_second or 0.0) for step in max(timed, key=lambda one: one[-1].per_second or 0.0)]
    unit = 80 / max(value for _, value in fastest)
    tops = [(24 + 22 * i, FLOOR - value * unit, rung) for i, (rung, value) in enumerate(fastest)]
    for x, top, rung in tops:
        yield rect(x - 8, top, 16, FLOOR - top, css(palette.kernel(rung.entry.hue)))
    for (x1, y1, _), (x2, y2, _) in pairwise(tops):
        yield line(x1, y1 - 4, x2, y2 - 4)
    yield line(8, FLOOR, 232, FLOOR)


def _parts() -> Parts:
    splits = lessons.DECODED.values["splits"]
    wide, gap = 44.0, 10.0
    left = (WIDE - splits * (wide + gap) + gap) / 2
    for part in range(splits):
        x = left + part * (wide + gap)
        middle = x + wide / 2
        yield rect(x, 8, wide, 18, css("hbm"))
        yield path(f"M{middle:g} 28 V42", "currentColor", opacity=0.6)
        yield rect(x + 6, 44, wide - 12, 10, css("acc"), opacity=0.6)
        yield path(f"M{middle:g} 56 L{WIDE / 2 + (middle - WIDE / 2) / 4:g} 74", "currentColor", opacity=0.6)
    yield rect(WIDE / 2 - 32, 76, 64, 12, css("acc"))


def _last_layer() -> Parts:
    """X = H Wᵀ as three matrices, to one scale."""
    layer = LAYERS[0]
    unit = 190 / layer.vocab
    wide, deep, high = unit * layer.vocab, unit * layer.dim, unit * TOKENS
    left, top = 36.0, 34.0
    for x, y, across, down, hue in (
        (left, top - 4 - deep, wide, deep, "hbm"),
        (left - 4 - deep, top, deep, high, "hbm"),
        (left, top, wide, high, "scores"),
    ):
        yield rect(x, y, across, down, css(hue), opacity=0.6, stroke=css(hue))
    yield text(left + wide / 2, top - 10 - deep, "Wᵀ", anchor="middle", size=13)
    yield text(left - 12 - deep, top + high / 2 + 5, "H", anchor="end", size=13)
    yield text(left + wide / 2, top + high / 2 + 5, "X", anchor="middle", size=13, bold=True)
    yield text(left + wide / 2, FLOOR, "tokens × vocabulary", anchor="middle", size=13)
