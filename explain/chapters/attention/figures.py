"""Pictures of Attention in ten minutes: one token's row from scores to output, heads, shapes, the bytes of S."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from explain.chapters.attention.contexts import MODELS, Model
from explain.chapters.attention.heads import Array, Head
from explain.figures.labels import text_width, widest
from explain.figures.numbers import count, fixed, moved, percent, ratio
from explain.figures.palette import SYMBOLS, css, css_ink
from explain.figures.svg import button, line, path, picture, rect, text
from explain.gpus import Gpu
from explain.kept import kept

SHADES = 8
"""How many shades a map of numbers has, from 0 to its largest."""
ROW = 23.0
WIDE = "52rem"
"""The widest that a picture becomes: all have one right edge."""
NUMBERED = 0.1
"""Below this weight a token's score and weight are written faintly."""
STRIP = 4
"""Width of one number in a matrix."""
THIN = 3
"""Width of one number where strips stand beside bars."""


@kept
def row_of(head: Head, token: int, *, narrow: bool = False) -> str:
    """From the query of one token to its output: its scores, its weights, the weighted values. A press chooses a row.
    `narrow` fits a phone: without the query and the keys.

    Every bar and every strip is from float64 numbers of the model's own Q, K and V.
    """
    tokens, d = head.tokens, head.q.shape[1]
    names = max(widest(tokens, bold=True), text_width("query", bold=True)) + 14
    strip = d * THIN
    key, score = names, names + (0 if narrow else strip + 16)
    weight, value = score + 134, score + 266
    width, top = value + strip + 22, 30.0 if narrow else 88.0
    scores, weights = head.scores[token], head.weights[token]
    weighted = weights[:, None] * head.v
    largest_k, largest_v = _largest(head.q, head.k), _largest(weighted) / 3
    query = [
        text(0, 30, tokens[token], bold=True),
        heat(head.q[token : token + 1], key, 14, THIN, 22, "hbm", largest_k),
        text(score, 30, "its query q"),
        text(key, top - 12, "keys k", bold=True),
    ]
    parts = [
        *([] if narrow else query),
        text(score, top - 12, "score q·k / √d", bold=True, fill=css_ink("scores")),
        text(weight, top - 12, "weight", bold=True, fill=css_ink("p")),
        text(value, top - 12, "weight × value v", bold=True),
    ]
    reach, zero = float(np.abs(scores).max()) or 1.0, score + 44.0
    for j, name in enumerate(tokens):
        y = top + ROW * j
        bar = 40 * float(scores[j]) / reach
        row = [
            text(4, y + 16, name, bold=j == token),
            "" if narrow else heat(head.k[j : j + 1], key, y + 3, THIN, 16, "hbm", largest_k),
            rect(min(zero, zero + bar), y + 4, abs(bar), 14, css("scores"), opacity=0.8),
            rect(weight, y + 4, 80 * float(weights[j]) / float(weights.max()), 14, css("p"), opacity=0.9),
            heat(weighted[j : j + 1], value, y + 3, THIN, 16, "acc", largest_v),
        ]
        numbers = fixed(float(scores[j]), 2), percent(float(weights[j]), 1)
        for end, words in zip((score + 130, weight + 126), numbers, strict=True):
            row.append(text(end, y + 16, words, anchor="end", faint=bool(weights[j] < NUMBERED)))
        said = "{}: score {}, weight {}".format(name, *numbers)
        parts.append(button(str(j), said, 0, y, width - 4, ROW - 1, row, chosen=j == token))
    end, output = top + ROW * len(tokens), f"the output o of “{tokens[token]}”"
    parts += [
        line(score, end + 4, width - 8, end + 4),
        text(weight + 126, end + 24, percent(float(weights.sum())), anchor="end", bold=True),
        text(score, end + 24, "all together"),
        heat(head.output[token : token + 1], value, end + 10, THIN, 22, "acc", largest_v),
        text(width - 8, end + 52, output, fill=css_ink("acc"), bold=True, size=13, anchor="end"),
    ]
    return picture(width, end + 60, f"Attention of “{tokens[token]}”: scores, weights and output", parts, WIDE)


@kept
def matrices(head: Head, token: int, *, narrow: bool = False) -> str:
    """Q, K and V with a row for each token; the chosen token's rows are framed. `narrow` fits a phone."""
    n, d = head.q.shape
    names = widest(head.tokens, 12) + 16
    strip, gap = (STRIP - 1, 14) if narrow else (STRIP, 26)
    wide, high = strip * d, 15
    parts = [text(names - 12, 22 + high * (i + 0.8), name, anchor="end", size=12) for i, name in enumerate(head.tokens)]
    for at, (name, values) in enumerate((("Q", head.q), ("K", head.k), ("V", head.v))):
        x = names + at * (wide + gap)
        parts.append(text(x + wide / 2, 14, name, anchor="middle", bold=True))
        parts.append(heat(values, x, 22, strip, high, "hbm", _largest(values)))
        parts.append(rect(x - 1, 21 + high * token, wide + 2, high + 2, "none", stroke="currentColor"))
    return picture(names + 3 * (wide + gap) - gap + 2, 28 + high * n, "Q, K and V of the sentence", parts, WIDE)


@kept
def score_map(head: Head, token: int, *, narrow: bool = False) -> str:
    """S, N × N: a row for each query, a column for each key; the chosen token's row is framed, with its numbers.

    `narrow` fits a phone: without the numbers, its words below.
    """
    n, wide, high = len(head.tokens), 21 if narrow else 38, 26
    names = widest(head.tokens) + 10
    parts = [
        text(names - 8, 8 + high * (i + 0.7), name, anchor="end", bold=i == token) for i, name in enumerate(head.tokens)
    ]
    largest, below = _largest(head.scores), 8 + high * n
    parts.append(heat(head.scores, names, 8, wide, high, "scores", largest))
    y = 8 + high * token
    veil = 0 if narrow else 0.3  # its numbers are read on it
    parts.append(rect(names - 1, y - 1, wide * n + 2, high + 2, "var(--ground)", opacity=veil, stroke="currentColor"))
    for j, (name, score) in enumerate(zip(head.tokens, head.scores[token], strict=True)):
        x = names + wide * (j + 0.5)
        if not narrow:
            parts.append(text(x, y + 17, fixed(float(score), 2), anchor="middle", size=12))
        parts.append(text(x + 4, below + 8, name, anchor="end", turned=-60))
    right = names + wide * n + 2
    side, top, width = (0.0, below + 78, right) if narrow else (right + 12, 22.0, right + 142)
    parts.append(text(side, top, f"S: {n} × {n}", bold=True, fill=css_ink("scores")))
    told = ("a row: one query", "a column: one key", "purple: above 0", "grey: below 0")
    parts += [text(side, top + 20 * (i + 1), words, faint=True) for i, words in enumerate(told)]
    height = top + 86 if narrow else below + 58
    return picture(width, height, f"The {n} × {n} scores of head {head.number}", parts, WIDE)


def softened(tokens: Sequence[str], before: Array, after: Array, raised: int, *, narrow: bool = False) -> str:
    """The weights of one row before (outlined) and after (filled) one score was made larger. `narrow` fits a phone."""
    cell, gap, high = (24.5, 4, 150.0) if narrow else (44.0, 12, 150.0)
    parts, most = [], max(float(before.max()), float(after.max()))
    for j, name in enumerate(tokens):
        x, old, new = 14 + j * cell, high * float(before[j]) / most, high * float(after[j]) / most
        parts += [
            rect(x, 24 + high - new, cell - gap, new, css("p"), opacity=0.9 if j == raised else 0.55),
            rect(x, 24 + high - old, cell - gap, old, "none", stroke="currentColor", dashed=True),
            text(
                x + (cell - gap) / 2,
                18 + high - max(new, old if new > old - 18 else 0),
                percent(float(after[j])) if after[j] >= 0.01 else "<1%",
                anchor="middle",
                size=12,
            ),
            text(x + cell / 2 + 2, high + 40, name, size=12, anchor="end", bold=j == raised, turned=-60),
        ]
    return picture(16 + cell * len(tokens), high + 92, "The weights, before and after", parts, WIDE)


@kept
def heads(each: Sequence[Head], chosen: int) -> str:
    """The weights of several heads, N × N each; a press chooses one."""
    n, cell, across = len(each[0].tokens), 7, 4
    side = n * cell
    parts = []
    for at, one in enumerate(each):
        x, y = (at % across) * (side + 28) + 8, (at // across) * (side + 40) + 8
        drawn = [
            rect(x, y, side, side, css("slate"), opacity=0.08),
            heat(one.weights, x, y, cell, cell, "p", 0.5),
            text(x + side / 2, y + side + 18, f"head {one.number}", anchor="middle", bold=one.number == chosen),
        ]
        label = f"head {one.number}"
        parts.append(
            button(str(one.number), label, x - 6, y - 6, side + 12, side + 32, drawn, chosen=one.number == chosen)
        )
    rows = -(-len(each) // across)
    return picture(across * (side + 28), rows * (side + 40) + 8, f"The weights of {len(each)} heads", parts, WIDE)


@kept
def shapes(n: int, d: int, *, narrow: bool = False) -> str:
    """softmax(Q Kᵀ / √d) V as rectangles, all to one scale: N × d for Q, K, V and O, N × N for S and P. `narrow`, for
    a phone: in two lines.
    """
    side, start, size = (96.0, 2.0, 13.0) if narrow else (150.0, 20.0, 17.0)
    long, short = (max(side * rows / max(n, d), 1.0) for rows in (n, d))
    high = side + 76
    x, parts, middle, right = start, [], 30 + side / 2, 0.0
    drawn = (
        ("Q", short, long, f"{count(n)} × {d}"), "×", ("Kᵀ", long, short, f"{d} × {count(n)}"), "=",
        ("S", long, long, f"{count(n)} × {count(n)}"), "softmax →",
        ("P", long, long, f"{count(n)} × {count(n)}"), "×", ("V", short, long, f"{count(n)} × {d}"), "=",
        ("O", short, long, f"{count(n)} × {d}"),
    )  # fmt: skip
    for one in drawn:
        if isinstance(one, str):
            room = text_width(one, size) + 16
            parts.append(text(x + room / 2, middle + 5, one, anchor="middle", size=size))
            x, right = x + room, max(right, x + room)
            if narrow and one.startswith("softmax"):
                x, middle = start, middle + high
            continue
        name, across, down, shape = one
        hue = SYMBOLS[name[0]]
        room = max(across, text_width(shape, size))
        left = x + (room - across) / 2
        parts.append(rect(left, middle - down / 2, across, down, css(hue), opacity=0.45, stroke=css(hue), title=shape))
        parts.append(text(x + room / 2, middle - side / 2 - 12, name, anchor="middle", size=size, bold=True))
        parts.append(text(x + room / 2, middle + side / 2 + 26, shape, anchor="middle", size=size, faint=True))
        x, right = x + room, max(right, x + room)
    return picture(right + start, middle + side / 2 + 34, f"The shapes of attention at N = {n}, d = {d}", parts, WIDE)


@kept
def score_bytes(gpu: Gpu, tokens: int, *, narrow: bool = False) -> str:
    """The bytes of one head's S for each model, logarithmic, beside the GPU's memories; S of `tokens` tokens first.
    `narrow` fits a phone.
    """
    rows = [Model("This sentence", tokens, "", ""), *MODELS]
    marks = (("shared memory of an SM", gpu.shared_bytes_sm), ("L2 cache", gpu.l2_bytes), (gpu.hbm, gpu.hbm_bytes))
    left, width, low, high = widest((one.name for one in rows), bold=True) + 32, 460.0, 2.0, 13.0
    if narrow:
        left, width = left - 12, 160.0

    def at(size: float) -> float:
        return left + width * (math.log10(size) - low) / (high - low)

    bottom = 66 + 40.0 * len(rows)
    parts = []
    for i, (name, size) in enumerate(reversed(marks)):  # the words of the right ones pass above the left ones' lines
        x = at(size)
        parts.append(
            path(f"M{x:.1f} {22 + 16 * i}V{bottom:.1f}", css("hbm" if name == gpu.hbm else "slate"), thick=2.5)
        )
        said = f"{name}, {moved(size)}"
        parts.append(text(max(x - 5, text_width(said, 12)), 16 + 16 * i, said, anchor="end", size=12))
    for power in range(3, int(high), 3):
        x = at(10**power)
        parts.append(line(x, 62, x, bottom, opacity=0.2))
        parts.append(text(x, bottom + 18, moved(10**power), anchor="middle", faint=True, size=12))
    parts.append(text(left - 12, bottom + 18, "× 1,000 per line", anchor="end", faint=True, size=12))
    for i, one in enumerate(rows):
        y = 66 + 40.0 * i
        over = one.score_bytes > gpu.hbm_bytes
        parts += [
            text(left - 12, y + 14, one.name, anchor="end", bold=True),
            text(left - 12, y + 29, f"N = {count(one.context)}", anchor="end", faint=True, size=12),
            rect(left, y + 2, at(one.score_bytes) - left, 26, css("scores"), opacity=0.75),
            text(left + width + 80, y + 20, moved(one.score_bytes), anchor="end", bold=over),
        ]
    return picture(left + width + 90, bottom + 26, f"S of one head beside the memories of the {gpu.name}", parts, WIDE)


def heat(values: Array, x: float, y: float, wide: int, high: int, hue: str, largest: float) -> str:
    """A matrix as cells: the hue above 0, grey below, stronger the larger; one path a shade, so a map stays small."""
    shade = np.ceil(np.clip(np.abs(values) / (largest or 1.0), 0, 1) * SHADES - 0.5).astype(int)
    parts = [f'<g transform="translate({x:.1f} {y:.1f})">']
    for positive in (True, False):
        fill = css(hue) if positive else css("slate")
        for level in range(1, SHADES + 1):
            rows, cols = np.nonzero((shade == level) & ((values > 0) == positive))
            if len(rows):
                cells = "".join(
                    f"M{c * wide} {r * high}h{wide}v{high}h-{wide}z" for r, c in zip(rows, cols, strict=True)
                )
                parts.append(f'<path fill="{fill}" fill-opacity="{level / SHADES:g}" d="{cells}"/>')
    return "".join((*parts, "</g>"))


def too_large(gpu: Gpu) -> str:
    """How often the largest S of MODELS would fill the GPU's memory."""
    return ratio(max(one.score_bytes for one in MODELS) / gpu.hbm_bytes)


def sources() -> str:
    """Where each context length was published, as Markdown."""
    return "Context lengths: " + " · ".join(f"{one.name}: [{one.source}]({one.address})" for one in MODELS)


def _largest(*arrays: Array) -> float:
    return max(float(np.abs(array).max()) for array in arrays)
