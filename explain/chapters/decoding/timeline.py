"""A run's programs on SMs over time: all keys in one program, and their parts in programs that run at the same time."""

from __future__ import annotations

from collections.abc import Iterable

from explain.experiment import Experiment
from explain.figures.labels import text_width, widest
from explain.figures.numbers import count
from explain.figures.palette import SYMBOLS, css
from explain.figures.svg import line, picture, rect, text
from explain.kept import kept
from kernels.parameters import ITEM_BYTES
from kernels.traffic import tiles

KEYS, PART = css("hbm"), css(SYMBOLS["O"])
LANE, GAP = 24.0, 6.0
PALE = 0.35


def parts(experiment: Experiment) -> tuple[range, ...]:
    """The tiles of keys of each part, as the kernel shares them; a part may have none."""
    p = experiment.values
    many, splits = tiles(p["kv_len"], p["block_n"]), p["splits"]
    return tuple(range(part * many // splits, (part + 1) * many // splits) for part in range(splits))


def keys_in_turn(experiment: Experiment) -> int:
    """Keys that the busiest program reads one after the other."""
    p = experiment.values
    return max(len(_keys(p["kv_len"], part, p["block_n"])) for part in parts(experiment))


def _keys(kv_len: int, part: range, block_n: int) -> range:
    return range(part.start * block_n, min(part.stop * block_n, kv_len))


@kept
def drawn(experiment: Experiment, *, narrow: bool = False) -> str:
    """A lane per SM, time to the right. A box is as long as its bytes: a tile of K and V, or O and lse of a part."""
    p = experiment.values
    many, splits, kv_len = tiles(p["kv_len"], p["block_n"]), p["splits"], p["kv_len"]
    tile = 2 * p["block_n"] * p["head_dim"] * ITEM_BYTES[p["dtype"]]
    part = min(p["block_m"], p["heads"] // p["kv_heads"] * p["seq_len"]) * (p["head_dim"] + 1) * 4
    shares = parts(experiment)
    written = max(map(len, shares)) * tile + part
    left = widest(f"SM {sm}" for sm in range(splits)) + 12
    width = 320.0 if narrow else 660.0
    scale = width / max(many * tile, written + splits * part)
    body: list[str] = []

    def lane(sm: int, y: float, share: range) -> Iterable[str]:
        yield text(left - 8, y + 17, f"SM {sm}", anchor="end", faint=True)
        for place, one in enumerate(share):
            x, wide = left + place * tile * scale, tile * scale
            keys = _keys(kv_len, range(one, one + 1), p["block_n"])
            told = f"{keys.start}–{keys.stop - 1}"
            yield rect(x, y, wide - 1, LANE, KEYS, opacity=PALE, stroke=KEYS, title=f"SM {sm}: keys {told}")
            if text_width(told, 12) + 4 < wide:
                yield text(x + wide / 2, y + 16, told, anchor="middle", size=12)

    def box(place: float, y: float, opacity: float, told: str) -> str:
        return rect(left + place * scale, y, part * scale - 1, LANE, PART, opacity=opacity, stroke=PART, title=told)

    y = 16.0
    body += [
        text(0, y, f"One program: {count(kv_len)} keys, one tile after the other", bold=True),
        *lane(0, y + 12, range(many)),
    ]
    y += 12 + LANE + 34
    most = keys_in_turn(experiment)
    each = f"at most {count(most)}" if len(set(map(len, shares))) > 1 else count(most)
    split = f"{splits} splits at the same time, {each} keys each" if splits > 1 else f"1 split: {each} keys"
    body.append(text(0, y, split, bold=True))
    y += 12
    for sm, share in enumerate(shares):
        top = y + sm * (LANE + GAP)
        body += lane(sm, top, share)
        body.append(box(len(share) * tile, top, 0.9, f"SM {sm} writes O and lse of its part"))
    for sm in range(splits):
        body.append(box(written + sm * part, y, PALE, f"SM 0 reads O and lse of part {sm}"))
    end = y + splits * (LANE + GAP)
    x = left + written * scale
    body += [
        line(x - 0.5, y - 4, x - 0.5, end, dash="4 4"),
        text(x + 6, end - 2, "launch 2", faint=True)
        if splits > 1
        else text(x - 6, end + 12, "launch 2", anchor="end", faint=True),
        line(left, end + 18, left + width, end + 18),
        text(left + width, end + 34, "time →", anchor="end", faint=True),
    ]
    y, x = end + 52, 0.0
    for colour, opacity, words in (
        (KEYS, PALE, "K and V of these keys"), (PART, 0.9, "a part, written"), (PART, PALE, "a part, read"),
    ):  # fmt: skip
        if x and x + 20 + text_width(words) > left + width:
            x, y = 0.0, y + 24
        body += [
            rect(x + 1, y - 12, 14, 14, colour, opacity=opacity, stroke=colour),
            text(x + 21, y, words, faint=True),
        ]
        x += 21 + text_width(words) + 24
    return picture(
        left + width + 2, y + 10, f"{splits} programs on SMs over time", body, "30rem" if narrow else "52rem"
    )
