"""Pictures of Softmax: one row of logits through the naive and the safe softmax, in the precision of a format.

Every operation is done in float32 and rounded to the format ("fp32", "fp16" or "bf16"), like hardware for that format.
"""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from explain.chapters.triton_ladder import ladder
from explain.experiment import Experiment
from explain.figures.numbers import fixed, number
from explain.figures.palette import css, css_ink
from explain.figures.svg import circle, line, picture, text
from explain.figures.tables import Column, Columns, markdown
from explain.kept import kept
from explain.trace.model import Tile, Trace
from kernels.inputs import representable
from kernels.parameters import ITEM_BYTES

LARGEST: Mapping[str, float] = {
    "fp32": float(np.finfo(np.float32).max),
    "fp16": float(np.finfo(np.float16).max),
    "bf16": float(np.uint32(0x7F7F0000).view(np.float32)),  # exponent 254, every bit of the precision set
}
"""The largest finite number of each format."""
SHIFTS = (-2000, -200, -100, -50, 0, 5, 8, 10, 20, 50, 80, 90, 100, 200, 2000)
"""What the page can add to all six logits."""
SEEN = 0.05
"""A logit that is moved by this changes its exponential by 5%."""
FEW = (-200, 0, 10, 100, 2000)
"""Those that the page shows first: each but 0 breaks the naive softmax in some format."""


def exponentials(row: np.ndarray, *, narrow: bool = False) -> str:
    """exp(x) of a row's elements beside the largest float32 number, and exp(x − m), each as dots on its curve.

    row: finite (cols,). `narrow`, for a phone: one below the other.
    """
    wide, high, over = 300.0, 200.0, 1.4
    across, down = (0.0, high + 100) if narrow else (wide + 70, 0.0)
    shifted, parts = row - row.max(), []
    panels = (("Naive: exp(x)", row, LARGEST["fp32"], "largest float32"), ("Safe: exp(x − m)", shifted, 1.0, "1"))
    for at, (title, elements, limit, name) in enumerate(panels):
        left, low, top = 20 + at * across, float(elements.min()) - 0.5, 54 + at * down
        ground = top + high
        unit = wide / (float(elements.max()) + 0.7 - low)
        hue = css("p")

        def place(
            x: float,
            left: float = left,
            low: float = low,
            unit: float = unit,
            limit: float = limit,
            ground: float = ground,
        ) -> tuple[float, float]:
            return left + unit * (x - low), ground - high / over * math.exp(x) / limit

        end = min(float(elements.max()) + 0.7 * (limit > 1), math.log(limit * over))  # x − m ends at 0
        curve = " ".join("{:.1f},{:.1f}".format(*place(x)) for x in np.linspace(low, end, 60))
        y = ground - high / over
        parts += [
            text(left, top - 34, title, bold=True),
            f'<polyline points="{curve}" fill="none" stroke="{hue}" stroke-width="3"/>',
            line(left, ground, left + wide, ground),
            line(left, y, left + wide, y, stroke=css("slate"), opacity=1),
            text(left, y - 6, name, faint=True),
        ]
        for x in sorted({float(x) for x in elements}):
            middle, up = place(x)
            fits = math.exp(x) <= limit
            up = up if fits else top - 14  # above the picture: no float32 is there
            parts.append(circle(middle, up, 6, hue if fits else css("alarm"), title=f"exp({number(x)})"))
            parts.append(text(middle, ground + 20, number(x), anchor="middle"))
            if not fits:
                parts.append(text(middle - 12, up + 5, "∞ ↑", anchor="end", bold=True, fill=css_ink("alarm")))
    return picture(40 + wide + across, 84 + high + down, "exp(x) and exp(x − m) of the row", parts, "48rem")


@dataclass(frozen=True)
class Row:
    """A softmax of one row, step by step: float32 arrays (cols,) and numbers, all rounded to the format. A naive
    softmax subtracts nothing: its m is None.
    """

    x: np.ndarray
    m: float | None
    p: np.ndarray
    total: float
    y: np.ndarray


def as_written(x: np.ndarray, dtype: str) -> Row:
    """exp(x) / Σ exp(x), with nothing subtracted. x: any floats (cols,), rounded to `dtype` first."""
    return _softmax(representable(x, dtype), None, dtype)


def safe(x: np.ndarray, dtype: str) -> Row:
    """exp(x − m) / Σ exp(x − m), where m is the largest of x."""
    rounded = representable(x, dtype)
    return _softmax(rounded, rounded.max(), dtype)


@kept
def both(x: Sequence[float], dtype: str) -> tuple[Row, Row]:
    """The softmax of these logits as written, and the safe one."""
    logits = np.array(x)
    return as_written(logits, dtype), safe(logits, dtype)


def rounded(x: Sequence[float], dtype: str) -> str:
    """Says that the format rounds one of these logits before softmax begins, by enough to see it in the weights; empty
    where it rounds none so far.
    """
    for logit, held in zip(x, representable(np.array(x), dtype).tolist(), strict=True):
        if SEEN <= abs(logit - held) < np.inf:
            before, after = number(logit, 6), number(held, 6)
            return f"{dtype} has no {before}: softmax gets {after} instead. So the safe weights change too."
    return ""


def _softmax(x: np.ndarray, m: np.float32 | None, dtype: str) -> Row:
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        p = representable(np.exp(x if m is None else representable(x - m, dtype)), dtype)
        total = np.float32(0.0)
        for element in p:
            total = _rounded(total + element, dtype)
        return Row(x, None if m is None else float(m), p, float(total), representable(p / total, dtype))


def _rounded(value: np.floating, dtype: str) -> np.float32:
    return np.float32(representable(np.array([value]), dtype)[0])


def losses(x: np.ndarray, target: int, dtype: str) -> dict[str, float]:
    """Cross entropy of class `target`, three ways in `dtype`, and in float64 on the same rounded x."""
    naive, row = as_written(x, dtype), safe(x, dtype)
    exact = row.x.astype(np.float64)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        logsumexp = _rounded(np.float32(row.m or 0.0) + _rounded(np.log(np.float32(row.total)), dtype), dtype)
        return {
            "−ln of the naive softmax": float(_rounded(-np.log(naive.y[target]), dtype)),
            "−ln of the safe softmax": float(_rounded(-np.log(row.y[target]), dtype)),
            "m + ln ℓ − x": float(_rounded(logsumexp - row.x[target], dtype)),
            "float64": float(exact.max() + np.log(np.exp(exact - exact.max()).sum()) - exact[target]),
        }


@kept
def loss_table(x: Sequence[float], target: int, dtype: str) -> str:
    """`losses` as a Markdown table, each with its error against float64."""
    found = losses(np.array(x), target, dtype)
    exact = found.pop("float64")
    rows = [(way, f"**{number(value, 4)}**", number(abs(value - exact), 4)) for way, value in found.items()]
    rows.append(("in float64, on the same logits", number(exact, 4), ""))
    return markdown(
        (f"cross entropy of class {target}, in {dtype}", Column("value"), Column("error against float64")), rows
    )


@kept
def overflow_table(at: Sequence[float] = (11, 12, 89)) -> str:
    """Where exp overflows in each format: exp(x), rounded from float64, as a Markdown table."""
    columns: Columns = (
        "format",
        Column("exp overflows above"),
        Column("largest number"),
        *(Column(f"exp({number(x, 4)})") for x in at),
    )
    with np.errstate(over="ignore"):
        rows = [
            (
                dtype,
                f"**{fixed(math.log(largest), 2)}**",
                number(largest, 4),
                *(number(float(_rounded(np.exp(np.float64(x)), dtype)), 4) for x in at),
            )
            for dtype, largest in LARGEST.items()
        ]
    return markdown(columns, rows)


@kept
def outcome_table(runs: Sequence[tuple[Experiment, Trace]]) -> str:
    """The results of the kernels on the row, from their traces, as a Markdown table."""
    rows = []
    for experiment, trace in runs:
        tiles = [value.numpy() for _, value in trace.history("y") if isinstance(value, Tile)]
        y = np.concatenate([tile.ravel() for tile in tiles])
        _, last = trace.history("l_i")[-1]
        total = float(last.numpy()) if isinstance(last, Tile) else math.nan
        missing = f"{int(np.isnan(y).sum())} of {y.size}"
        own = (f"`{experiment.kernel}`", experiment.values["dtype"])
        rows.append((*own, _alarmed(total), f"**{_alarmed(float(y.sum()))}**", missing))
    return markdown(
        ("kernel", "dtype", Column("ℓ at the end"), Column("sum of weights"), Column("weights that are NaN")), rows
    )


def _alarmed(total: float) -> str:
    """A sum as Markdown, red where softmax has failed."""
    return number(total, 4) if math.isfinite(total) and total else f":red[{number(total, 4)}]"


@kept
def access_table(runs: Sequence[tuple[Experiment, Trace]]) -> str:
    """Loads and stores per element, as a Markdown table."""
    rows = []
    for experiment, trace in runs:
        p, moved = experiment.values, trace.traffic()
        row = p["rows"] * p["cols"] * ITEM_BYTES[p["dtype"]]
        loads, stores = moved["read_bytes"] / row, moved["written_bytes"] / row
        rows.append((f"`{experiment.kernel}`", loads, stores, f"**{number(ladder.accesses(experiment, moved))}**"))
    return markdown(("kernel", Column("loads"), Column("stores"), Column("accesses per element")), rows)


def tallest(naive: Row, safe: Row, dtype: str) -> tuple[str, str]:
    """How tall the tallest exponential of each softmax is, and how tall one may become."""
    most, largest = (number(float(row.p.max()), 4) for row in (naive, safe))
    same = " Same shape as naive." if math.isfinite(naive.total) and naive.p.all() else ""
    return (
        f"tallest bar: {most}. Above {number(LARGEST[dtype])} it becomes ∞.",
        f"tallest bar: {largest}, never more.{same}",
    )


@kept
def bars(row: Row, name: str, note: str) -> str:
    """A softmax and its name: a line of bars for the logits, the exponentials and the weights. HTML for `page.css`.

    Each line has a scale of its own, so `note` says what the exponentials' is.
    """
    subtracted = "" if row.m is None else " − m"
    with np.errstate(invalid="ignore"):
        weights = float(row.y.sum())
    lines = (
        _line("x", "scores", row.x, "" if row.m is None else f"m = {logit(row.m)}", css_ink("max")),
        _line(f"exp(x{subtracted})", "p", row.p, f"ℓ = {number(row.total, 4)}", _ink(row.total, "sum"), note),
        _line(f"exp(x{subtracted}) / ℓ", "p", row.y, f"sum = {number(weights, 4)}", _ink(weights, "p")),
    )
    return f'<div class="bars"><h2>{name}</h2>{"".join(lines)}</div>'


def _ink(total: float, quantity: str) -> str:
    """The colour of a sum: its quantity's, or the alarm's where softmax has failed."""
    return css_ink(quantity if math.isfinite(total) and total else "alarm")


def _line(label: str, quantity: str, values: np.ndarray, said: str, ink: str, note: str = "") -> str:
    finite = np.abs(values[np.isfinite(values)])
    largest = float(finite.max(initial=0.0)) or 1.0
    two_sided = " two-sided" if (values[np.isfinite(values)] < 0).any() else ""
    said_as = logit if quantity == "scores" else _short
    cells = "".join(_cell(float(value), largest, said_as(float(value))) for value in values)
    spoken = html.escape(f"{label}: {', '.join(number(float(value), 4) for value in values)}. {said}")
    return (
        f'<div class="line{two_sided}" role="img" aria-label="{spoken}" style="--fill: var(--f-{quantity}); --ink: '
        f'var(--q-{quantity})"><b>{label}</b><span class="said" style="color: '
        f'{ink}">{said}</span>{cells}{f"<small>{note}</small>" if note else ""}</div>'
    )


def logit(value: float) -> str:
    """Three digits, and a decimal more from 100 on: the sliders move in steps of 0.5."""
    return number(value, max(3, len(str(int(abs(value)))) + 1)) if math.isfinite(value) else number(value)


def _short(value: float) -> str:
    """Three decimals below 10, four digits above."""
    return fixed(value, 3) if 5e-4 <= abs(value) < 10 or value == 0 else number(value, 4)


def _cell(value: float, largest: float, said: str) -> str:
    if not math.isfinite(value):
        beyond = "<u></u>" if value == math.inf else ""  # its bar leaves the picture
        return f'<span class="cell odd"><i>{number(value, 4)}</i>{beyond}</span>'
    below = " below" if value < 0 else ""
    return f'<span class="cell{below}"><i>{said}</i><u style="--share: {abs(value) / largest:.4f}"></u></span>'
