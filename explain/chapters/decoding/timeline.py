"""A run's programs on SMs over time: all keys in one program, and their parts in programs that run at the same time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from explain.chapters.decoding.programs import shares
from explain.experiment import Experiment
from explain.figures.labels import text_width, widest
from explain.figures.numbers import count, percent
from explain.figures.palette import SYMBOLS, css
from explain.figures.svg import line, picture, rect, text
from explain.kept import kept
from kernels.parameters import ITEM_BYTES
from kernels.traffic import tiles

KEYS, PART = css("hbm"), css(SYMBOLS["O"])
LANE, GAP, LANES_HIGH = 32.0, 6.0, 240.0
"""A lane's height, the space below it, and the most height of all lanes: of many parts they are lower."""
WORDS_HIGH = 18.0
"""The lowest lane with words in it."""
TOLD = {False: 15.0, True: 12.0}
"""The size of a lane's words, by `narrow`."""
LINE = 19.0
WIDTHS = {False: 834.0, True: 370.0}
"""Of the picture, by `narrow`."""
PALE = 0.35
LONG = 32_768
"""The keys of a long cache, to compare."""
OTHERS = "other SMs"
"""The SMs without a program, where one program has all keys."""
MERGE = "launch 2: the merge"
MEANINGS = (
    (KEYS, PALE, "K and V of these keys"),
    (PART, 0.9, "O and lse of a part, written"),
    (PART, PALE, "a part, read"),
    (KEYS, 0.0, "formula · length: bytes that an SM moves"),
)
"""What the boxes are, and what their length is."""


def parts(experiment: Experiment) -> tuple[range, ...]:
    """The tiles of keys of each part, as the kernel shares them; a part may have none."""
    p = experiment.values
    return shares(tiles(p["kv_len"], p["block_n"]), p["splits"])


def keys_in_turn(experiment: Experiment) -> int:
    """Keys that the busiest program reads one after the other."""
    p = experiment.values
    return max(len(_keys(p["kv_len"], part, p["block_n"])) for part in parts(experiment))


def _keys(kv_len: int, part: range, block_n: int) -> range:
    return range(part.start * block_n, min(part.stop * block_n, kv_len))


def _bytes(experiment: Experiment) -> tuple[int, int]:
    """Bytes of a tile of K and V, and of the O and lse of a part that one program writes."""
    p = experiment.values
    rows = min(p["block_m"], p["heads"] // p["kv_heads"] * p["seq_len"])
    return 2 * p["block_n"] * p["head_dim"] * ITEM_BYTES[p["dtype"]], rows * (p["head_dim"] + 1) * 4


@kept
def to_scale(experiment: Experiment) -> str:
    """How long the merge of this run would be beside a long cache."""
    p = experiment.values
    tile, part = _bytes(experiment)
    share = p["splits"] * part / (LONG / p["block_n"] * tile)
    thin = ", thinner than a pixel" if share * WIDTHS[False] < 1 else ""
    return (
        f"Drawn for this small run: one head of keys, d = {p['head_dim']}, {p['dtype']}. With {count(LONG)} keys in "
        f"{p['splits']} part{'s' * (p['splits'] > 1)}, launch 2 would read {percent(share, 2)} of the first row's "
        f"bytes{thin}."
    )


@kept
def drawn(experiment: Experiment, *, narrow: bool = False) -> str:
    """A lane per SM, time to the right. A box is as long as its bytes: a tile of K and V, or O and lse of a part."""
    p = experiment.values
    many, splits = tiles(p["kv_len"], p["block_n"]), p["splits"]
    tile, part = _bytes(experiment)
    own, most = parts(experiment), count(keys_in_turn(experiment))
    written = max(map(len, own)) * tile + part
    read = written + splits * part
    alone = [f"One program: {count(p['kv_len'])} keys"]
    each = f"at most {most} keys each" if len(set(map(len, own))) > 1 else f"{most} keys each"
    split = [f"{splits} parts", "at the same time,", each] if splits > 1 else [f"1 part: {most} keys"]
    words = 0.0 if narrow else max(widest([alone[0], split[0]], bold=True), widest(split)) + 20
    left = words + widest([OTHERS, f"SM {splits - 1}"]) + 12
    right = WIDTHS[narrow]
    scale = (right - left) / max(many * tile, read)
    pitch = min(LANE + GAP, LANES_HIGH / splits)
    high = pitch * LANE / (LANE + GAP)

    def heading(y: float, said: Sequence[str]) -> Iterable[str]:
        """The words of some lanes, the first line in bold: above them on a phone, else at their left."""
        for i, one in enumerate([" ".join(said)] if narrow else said):
            yield text(0, y - 7 if narrow else y + 14 + i * LINE, one, bold=i == 0)

    def lane(sm: int, y: float, share: range, high: float) -> Iterable[str]:
        if high >= WORDS_HIGH or sm in (0, splits - 1):
            yield text(left - 8, y + high / 2 + 5, f"SM {sm}", anchor="end", faint=True)
        for place, one in enumerate(share):
            x, wide = left + place * tile * scale, tile * scale
            keys = _keys(p["kv_len"], range(one, one + 1), p["block_n"])
            told = f"{keys.start}–{keys.stop - 1}"
            yield rect(x, y, wide - 1, high, KEYS, opacity=PALE, stroke=KEYS, title=f"SM {sm}: keys {told}")
            if text_width(told, TOLD[narrow]) + 4 < wide and high >= WORDS_HIGH:
                yield text(x + wide / 2, y + high / 2 + 5, told, anchor="middle", size=TOLD[narrow])

    def box(place: float, y: float, opacity: float, told: str) -> str:
        return rect(left + place * scale, y, part * scale - 1, high, PART, opacity=opacity, stroke=PART, title=told)

    above = LINE + 2 if narrow else 0.0
    y = 1 + above
    body = [*heading(y, alone), *lane(0, y, range(many), LANE)]
    y += LANE + GAP
    body += [
        text(left - 8, y + LANE / 2 + 5, OTHERS, anchor="end", faint=True),
        rect(left, y, many * tile * scale - 1, LANE, "none", stroke=css("slate"), dashed=True),
        text(left + many * tile * scale / 2, y + LANE / 2 + 5, "idle", anchor="middle", size=TOLD[narrow]),
    ]
    y += LANE + 12 + above
    body += heading(y, split)
    for sm, share in enumerate(own):
        body += lane(sm, y + sm * pitch, share, high)
        body.append(box(len(share) * tile, y + sm * pitch, 0.9, f"SM {sm} writes O and lse of its part"))
    body += [box(written + sm * part, y, PALE, f"SM 0 reads O and lse of part {sm}") for sm in range(splits)]
    end = y + splits * pitch
    x = left + written * scale
    body += [
        line(x - 0.5, y - 4, x - 0.5, end, dash="4 4"),
        text(x + 6, end - 4, MERGE, faint=True)
        if splits > 1
        else text(x - 6, end + 12, MERGE, anchor="end", faint=True),
    ]
    free = max(left + read * scale, x + text_width(MERGE)) + 24
    beside = splits >= len(MEANINGS) and free + 21 + widest(words for *_, words in MEANINGS) < right
    x, row = (
        (free, y + 13)
        if beside
        else (0.0, max(end + 14 * (splits == 1), y + (0 if narrow else LINE * len(split))) + 24)
    )
    for colour, opacity, told in MEANINGS:
        if not beside and x + 21 + text_width(told) > right:
            x, row = 0.0, row + LINE + 3
        body += [
            rect(x + 1, row - 12, 14, 14, colour, opacity=opacity, stroke=colour if opacity else "none"),
            text(x + 21 if opacity else x, row, told, faint=True),
        ]
        x, row = (x, row + LINE + 1) if beside else (x + 21 + text_width(told) + 24, row)
    bottom = max(end, row - LINE) if beside else row
    label = f"{splits} programs on SMs over time"
    return picture(right + 2, bottom + (6 if beside else 16), label, body, "30rem" if narrow else "54rem")
