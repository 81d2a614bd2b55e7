"""Pictures of Decoding: programs on SMs, the bandwidth bound, caches of models, masks of unequal lengths."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from explain.chapters.decoding import rates
from explain.chapters.decoding.bars import Bar, groups
from explain.chapters.decoding.bound import (
    Bound,
    free_queries,
    ridge,
    seconds_to_multiply_weights,
    seconds_to_read_weights,
)
from explain.chapters.decoding.cache import MODELS, Model
from explain.chapters.decoding.masks import seen
from explain.chapters.decoding.programs import DTYPE, KV_HEADS, LAYERS, MODEL, PARAMETERS, TILE, Filled, splits_at_once
from explain.chapters.decoding.savings import Saving
from explain.chapters.decoding.splits import Curve, Curves
from explain.chapters.decoding.splits_figures import sequences, splits_of
from explain.chapters.sweeps.figures import ticks
from explain.figures import palette
from explain.figures.labels import text_width, widest
from explain.figures.numbers import count, duration, moved, number, percent, ratio, si
from explain.figures.palette import SYMBOLS, css, css_ink
from explain.figures.svg import circle, line, path, picture, rect, text
from explain.figures.tables import Column, markdown
from explain.gpus import Gpu
from explain.kept import kept
from kernels.catalog import KERNELS
from kernels.parameters import ALIGNMENTS, ITEM_BYTES

HBM, CHIP, OUT = css("hbm"), css("slate"), css(SYMBOLS["O"])
PROGRAM = css(palette.kernel(KERNELS["flash_decoding"].hue))
SOLID, PALE = 0.9, 0.3
SPLITS_SHOWN, TURNS_HIGH, TIMES_HIGH = 64, 210.0, 170.0
"""The most splits on the axis of the keys that an SM reads; that picture's height, and what the times below it add."""
ALIKE = 0.8
"""SMs that read at least this share of the most keys look alike."""
PALER = 0.6
"""What is left of the colour of the others."""
ROWS_SHOWN = (1, 2048)
"""The fewest and the most rows on the axis of the bound."""


@kept
def idle_words(gpu: Gpu) -> str:
    """How many SMs one query leaves idle without splits."""
    return (
        f"For one new token, each layer of {MODEL} gives the GPU **{KV_HEADS} independent jobs (programs)**, one per "
        f"head of keys. The {gpu.name} has {gpu.sms} processors (SMs): **{gpu.sms - KV_HEADS} are idle.**"
    )


@kept
def sms(filled: Filled, gpu: Gpu, found: Curves | None = None, *, narrow: bool = False) -> str:
    """A square per SM, the paler the fewer keys it reads; below, the most keys of an SM by splits, with the measured
    time where `found` has this cache on this GPU.
    """
    across = 12 if narrow else 33
    cell, gap = 22.0, 5.0
    down = math.ceil(gpu.sms / across)
    width, top = across * (cell + gap) - gap + 2, 30.0
    of_sms = sorted(filled.keys_of_sms(gpu).items(), reverse=True)
    most = of_sms[0][0]
    reading = " with keys" * (filled.programs < filled.launched)
    said = f"{count(filled.programs)} programs{reading} on {gpu.sms} SMs"
    parts = [text(0, 16, said, bold=True)]
    for sm, keys in enumerate(keys for keys, sms in of_sms for _ in range(sms)):
        x, y = 1 + sm % across * (cell + gap), top + sm // across * (cell + gap)
        parts.append(_square(x, y, cell, _shade(keys, most), f"SM {sm + 1}: {count(keys)} keys"))
    y, x = top + down * (cell + gap) + 18, 1.0
    for keys, words in _legend([keys for keys, _ in of_sms]):
        if x + 20 + text_width(words) > width:
            x, y = 1.0, y + 20
        parts += [_square(x, y - 12, 14, _shade(keys, most), words), text(x + 20, y, words, faint=True)]
        x += 20 + text_width(words) + 24
    curve = found.of(filled, gpu) if found else None
    parts += _turns(filled, gpu, y + 34, width, curve)
    return picture(width, y + 34 + TURNS_HIGH + TIMES_HIGH * bool(curve), said, parts, "30rem" if narrow else "72rem")


def _legend(sizes: Sequence[int]) -> Iterable[tuple[int, str]]:
    """Keys of a square, and what it means. `sizes` has the keys of the SMs from the most on; like squares are one."""
    most, fewest = sizes[0], min(filter(None, sizes))
    if ALIKE * most < fewest < most:
        yield most, f"reads {count(fewest)} to {count(most)} keys"
    else:
        for keys, share in {most: "the most", fewest: "the fewest"}.items():
            yield keys, f"reads {count(keys)} keys{f', {share}' * (fewest < most)}"
    if not sizes[-1]:
        yield 0, "idle"


def _shade(keys: int, most: int) -> float:
    """The opacity of an SM with so many keys: one with fewer than the most is clearly paler."""
    return SOLID * keys / most * (1 if keys > ALIKE * most else PALER)


def _square(x: float, y: float, side: float, opacity: float, title: str) -> str:
    """An SM: a filled square if it has keys to read, else an outline."""
    if not opacity:
        return rect(x, y, side, side, "none", stroke=CHIP, title=title)
    return rect(x, y, side, side, PROGRAM, opacity=opacity, stroke=PROGRAM, title=title)


def _turns(filled: Filled, gpu: Gpu, y: float, width: float, curve: Curve | None) -> Iterable[str]:
    """For each number of splits, the keys that one SM reads one after the other; below, the measured times of `curve`.

    All axes of keys and times are logarithmic.
    """
    found = {n: replace(filled, splits=n).keys_in_turn(gpu) for n in range(1, SPLITS_SHOWN + 1)}
    timed = {n: seconds for n, seconds in curve.seconds.items() if n in found} if curve else {}
    low = math.floor(math.log2(min(found.values())))
    high = max(math.ceil(math.log2(max(found.values()))), low + 1)
    doublings = {2**power: count(2**power) for power in range(low, high + 1)}
    marks: Mapping[float, str] = {}
    if timed:
        least, longest = math.log10(min(timed.values())), math.log10(max(timed.values())) + 0.1
        shortest = least - (longest - least) / 2  # room for the label of the least time
        marks = {one: duration(one, zeros=False) for one in ticks(shortest, longest)}
    left = widest((*doublings.values(), *marks.values())) + 12
    step = (width - left - 10) / SPLITS_SHOWN

    def across(splits: int) -> float:
        return left + (splits - 0.5) * step

    def panel(
        title: str, y: float, bottom: float, at: Callable[[float], float], told: Mapping[float, str]
    ) -> Iterable[str]:
        yield text(0, y + 8, title, bold=True)
        yield line(left, bottom, width - 10, bottom)
        for value, words in told.items():
            yield line(left, at(value), width - 10, at(value), opacity=0.15)
            yield text(left - 6, at(value) + 5, words, anchor="end", faint=True)

    bottom = y + TURNS_HIGH - 40

    def of_keys(keys: float) -> float:
        return bottom - 12 - (math.log2(keys) - low) / (high - low) * (bottom - 42 - y)

    yield from panel("keys that one SM reads one after the other", y, bottom, of_keys, doublings)
    for splits, keys in found.items():
        chosen = splits == filled.splits
        told = f"{splits_of(splits)}: {count(keys)} keys"
        yield circle(across(splits), of_keys(keys), 6.0 if chosen else 3.0, PROGRAM if chosen else CHIP, title=told)
    if timed:
        top = bottom + 32
        bottom += TIMES_HIGH

        def of_time(seconds: float) -> float:
            return bottom - (math.log10(seconds) - shortest) / (longest - shortest) * (bottom - 22 - top)

        fastest = min(timed, key=timed.__getitem__)
        yield from panel("time, measured", top, bottom, of_time, marks)
        places = [(across(splits), of_time(seconds)) for splits, seconds in timed.items()]
        yield path("M" + " L".join(f"{x:.1f} {y:.1f}" for x, y in places), OUT, thick=2)
        for (x, down), (splits, seconds) in zip(places, timed.items(), strict=True):
            told = f"{splits_of(splits)}: {duration(seconds)}"
            yield circle(x, down, 7.0 if splits == fastest else 4.0, OUT, title=f"{told}, measured")
            if splits == fastest:
                half = text_width(told, bold=True) / 2
                yield text(min(max(x, left + half), width - half), down + 24, told, anchor="middle", bold=True)
    for splits in dict.fromkeys((1, filled.most_at_once(gpu), SPLITS_SHOWN // 2, SPLITS_SHOWN)):
        yield text(across(splits), bottom + 18, count(splits), anchor="middle", faint=True)
    yield text(left + SPLITS_SHOWN * step / 2, bottom + 34, "splits", anchor="middle")


@kept
def sms_words(filled: Filled, gpu: Gpu) -> str:
    """How full the GPU is, how many splits run at once, and what the merge costs."""
    one = f"{filled.batch} sequence{'s' * (filled.batch > 1)} × {KV_HEADS} heads of keys × {splits_of(filled.splits)}"
    alone = "One part needs no merge; this kernel runs it anyway. " * (filled.splits == 1)
    merge = (
        f"{alone}O and lse of {_parts(filled.splits)} are written and read: **{moved(filled.merge_bytes)}**, "
        f"{_share(filled.merge_bytes / filled.cache_bytes)} of K and V."
    )
    return "\n\n".join(
        (
            f"{one} = **{count(filled.launched)} programs**.{_empty(filled)}",
            f"{_full(filled, gpu)} One SM reads at most **{count(filled.keys_in_turn(gpu))} keys** one after "
            f"the other; the mean is {count(round(filled.unsplit * filled.kv_len / gpu.sms))}.",
            _at_once(filled, gpu),
            merge,
        )
    )


def _empty(filled: Filled) -> str:
    """What the programs without keys do, if there are any."""
    if filled.parts == filled.splits:
        return ""
    return (
        f" The cache has {filled.parts} tiles of {TILE} keys, so only {filled.parts} parts have keys: "
        f"**{count(filled.programs)} programs**. The kernel launches the other "
        f"{count(filled.launched - filled.programs)} too. They read no keys, write O = 0 and lse = −∞, and the merge "
        "reads these. The picture leaves them out."
    )


def _full(filled: Filled, gpu: Gpu) -> str:
    """How many SMs have keys to read, or how many programs wait for one."""
    if waiting := filled.waiting(gpu):
        wait = "program waits" if waiting == 1 else "programs wait"
        return f"If an SM runs one program at a time, **{count(waiting)} {wait}** until an SM is free."
    idle = gpu.sms - filled.programs
    return f"**{idle} of {gpu.sms} SMs are idle.**" if idle else "**Each SM has a program.**"


def _at_once(filled: Filled, gpu: Gpu) -> str:
    """How many splits one round has room for."""
    most = filled.most_at_once(gpu)
    if filled.unsplit > gpu.sms:
        return f"1 split has {count(filled.unsplit)} programs: more than the {gpu.sms} SMs."
    if not replace(filled, splits=most + 1).waiting(gpu):
        return f"More than {splits_of(filled.tiles)} only add empty parts: one round is enough for all parts with keys."
    if filled.waiting(gpu):
        return f"With {'up to ' * (most > 1)}**{splits_of(most)}** one round is enough."
    return (
        f"If an SM runs one program at a time, up to **{splits_of(most)}** run{'s' * (most == 1)} at once. "
        f"With {most + 1} there is a second round."
    )


def _parts(many: int) -> str:
    return "the part" if many == 1 else f"all {many} parts"


def _share(share: float) -> str:
    """A share in percent with one decimal; "less than 0.1%" of a small one."""
    return "less than 0.1%" if 0 < share < 0.0005 else percent(share, 1)


@kept
def softer_words(filled: Filled, gpu: Gpu, found: Curves | None) -> str:
    """How a real GPU differs from the model; the recorded best number of splits of the caches most like this one."""
    more = ", so a second round can cost less than in this model" * filled.cliff(gpu)
    told = f"**A real SM holds several programs{more}.**"
    if not found:
        return told
    if same := found.of(filled, gpu):
        most = filled.most_at_once(gpu)
        predicted = (
            f"One program per SM predicts {splits_of(most)}."
            if filled.unsplit <= gpu.sms
            else f"Without a split there are {count(filled.unsplit)} programs for {gpu.sms} SMs: enough."
        )
        fastest = f"Measured, {splits_of(same.best)} {'is' if same.best == 1 else 'are'} fastest."
        beside = why = ""
        if most in same.seconds and most != same.best:
            beside = f" {splits_of(most)} take{'s' * (most == 1)} {ratio(same.over_best(most))} the time."
        if same.best > most:
            why = " An SM holds several programs: while one waits for K and V, another can compute."
        return f"**{predicted} {fastest}**{beside}{why}"
    near = found.nearest(filled.batch, filled.kv_len)
    higher = all(one.best > splits_at_once(one.unsplit, found.gpu) for one in near)
    fastest = "more splits than fit in one round were fastest" if higher else "this was fastest"
    cases = "\n".join(
        f"- {sequences(one)} of {count(one.kv_len)} keys: **{splits_of(one.best)}** ({_model(one, found.gpu)})"
        for one in near
    )
    return (
        f"{told} On the {found.gpu.name}, as measured, {fastest} in the nearest recorded "
        f"case{'s' * (len(near) > 1)}:\n\n{cases}"
    )


def _model(curve: Curve, gpu: Gpu) -> str:
    """How many splits of this cache one program per SM allows."""
    if curve.unsplit > gpu.sms:
        return f"{count(curve.unsplit)} programs on the {gpu.name}'s {gpu.sms} SMs"
    return f"one round on the {gpu.name} has up to {splits_at_once(curve.unsplit, gpu)}"


@kept
def bound_chart(bound: Bound, gpu: Gpu, *, narrow: bool = False) -> str:
    """The least time over the rows that share keys: flat while reading is the limit, then rising. Both axes are log."""
    width, height, left, top = (330.0 if narrow else 640.0), 250.0, 84.0, 10.0
    low, high = (math.log2(rows) for rows in ROWS_SHOWN)
    flat = bound.seconds_to_read(gpu)
    steepest = flat * ROWS_SHOWN[1] / ridge(gpu)
    floor, ceiling = math.log10(flat / 3), math.log10(steepest * 1.3)

    def at(rows: float, seconds: float) -> tuple[float, float]:
        across = (math.log2(rows) - low) / (high - low)
        up = (math.log10(seconds) - floor) / (ceiling - floor)
        return left + width * across, top + height * (1 - up)

    bottom = top + height
    parts = [line(left, bottom, left + width, bottom), line(left, top, left, bottom)]
    for power in range(int(low), int(high) + 1, 2 if narrow else 1):
        x, _ = at(2**power, flat)
        parts += [line(x, bottom, x, bottom + 5), text(x, bottom + 22, count(2**power), anchor="middle", faint=True)]
    parts.append(text(left + width / 2, bottom + 46, "rows that share each key = FLOPs per byte", anchor="middle"))
    for seconds in ticks(floor, ceiling):
        x, y = at(ROWS_SHOWN[0], seconds)
        parts += [line(x - 5, y, x, y), text(x - 10, y + 5, duration(seconds, zeros=False), anchor="end", faint=True)]
    knee = at(ridge(gpu), flat)
    (x0, y0), (x1, y1) = at(ROWS_SHOWN[0], flat), at(ROWS_SHOWN[1], steepest)
    parts += [
        path(f"M{x0:.1f} {y0:.1f} L{knee[0]:.1f} {knee[1]:.1f}", HBM, thick=4),
        path(f"M{knee[0]:.1f} {knee[1]:.1f} L{x1:.1f} {y1:.1f}", CHIP, thick=4),
        line(knee[0], top, knee[0], bottom, opacity=0.4, dash="4 4"),
        text(knee[0] - 8, top + 14, f"ridge: {number(ridge(gpu))}", anchor="end", bold=True),
        text(x0 + 8, y0 + 24, "reading K and V" if narrow else "limit: reading K and V", fill=css_ink("hbm")),
        text(x1 - 8, y1 - 8, "arithmetic" if narrow else "limit: arithmetic", anchor="end"),
    ]
    x, y = at(bound.rows, bound.seconds(gpu))
    parts += [circle(x, y, 8, PROGRAM, title=f"{count(bound.rows)} rows: {duration(bound.seconds(gpu))}")]
    said = f"{count(bound.rows)} rows: {duration(bound.seconds(gpu))}"
    half = text_width(said, bold=True) / 2
    parts.append(text(min(max(x, left + half + 6), left + width + 24 - half), y - 16, said, anchor="middle", bold=True))
    label = f"The least time on the {gpu.name}"
    return picture(left + width + 24, bottom + 56, label, parts, "28rem" if narrow else "52rem")


@kept
def bound_words(bound: Bound, gpu: Gpu) -> str:
    """The least time, and what so many queries cost beside one."""
    one = Bound(1, bound.kv_len)
    queries = f"{count(bound.queries)} quer{'y' if bound.queries == 1 else 'ies'} per head"
    rate = si(gpu.hbm_bytes_per_second, "B/s")
    return (
        f"K and V of one layer: {moved(bound.bytes)} ÷ {rate} = **{duration(one.seconds_to_read(gpu))}** at least. "
        f"{rate} is {rates.bandwidth(gpu)}.\n\n"
        f"{queries} × {bound.rows // bound.queries} heads that share keys = {count(bound.rows)} rows, so "
        f"**{number(bound.intensity)} FLOPs per byte**. "
        f"The {gpu.name} can do {number(ridge(gpu))} FLOPs in the time of one byte. "
        + _limit(bound, gpu)
        + f"\n\nUp to **{count(free_queries(gpu))} queries** per head, the bound is the time of one query."
    )


def _limit(bound: Bound, gpu: Gpu) -> str:
    """Whether reading or arithmetic is the limit of so many queries, and how long they take beside one."""
    if bound.queries == 1:
        return "It waits for bytes nearly all the time."
    if bound.intensity <= ridge(gpu):
        return "So reading is the limit, and they take **the same time as one query**."
    times = ratio(bound.seconds(gpu) / Bound(1, bound.kv_len).seconds(gpu))
    return (
        f"{number(bound.intensity)} is {ratio(bound.intensity / ridge(gpu))} that, so arithmetic is the limit. They "
        f"take **{times} the time of one query**."
    )


@kept
def token_words(bound: Bound, gpu: Gpu) -> str:
    """The least time of a step of the model, for one token or to verify several: all layers' attention, and weights."""
    layers, several = LAYERS * bound.seconds(gpu), bound.queries > 1
    read, multiply = seconds_to_read_weights(gpu), seconds_to_multiply_weights(bound.queries, gpu)
    step = f"one verification step of {count(bound.queries)} tokens" if several else "a token's time"
    weights = f"{PARAMETERS // 10**9}\u00a0billion"
    arithmetic = (
        f" Their arithmetic takes longer: {count(bound.queries)} tokens × {weights} × 2 FLOPs ÷ "
        f"{si(gpu.tensor_flops_per_second, 'FLOP/s')} = {duration(multiply)}."
    )
    return (
        f"**All layers**: {LAYERS} × {si(bound.seconds(gpu), 's', digits=4)} = {duration(layers)}. And the weights are "
        f"read once: {weights} × {ITEM_BYTES[DTYPE]} bytes ÷ {si(gpu.hbm_bytes_per_second, 'B/s')} = "
        f"{duration(read)}.{arithmetic * (multiply > read)}\n\n"
        f"So with {count(bound.kv_len)} keys and one sequence, attention is "
        f"**{percent(layers / (layers + max(read, multiply)))}** of {step}. The weights are the rest. With many "
        "sequences, the weights are read once for all of them, but each has its own cache."
    )


@kept
def caches(tokens: int, *, narrow: bool = False) -> str:
    """Each model's cache as a bar; dashed, what it would be if each query head had keys of its own."""
    names = [model.name for model in MODELS]
    left = 0.0 if narrow else widest(names, bold=True) + 20
    width = 330.0 if narrow else 560.0
    high = 66.0 if narrow else 52.0
    longest = max(model.cache_bytes(tokens) * model.group for model in MODELS)
    parts: list[str] = []
    for i, model in enumerate(MODELS):
        y = high * i + (26 if narrow else 8)
        own, unshared = model.cache_bytes(tokens), model.cache_bytes(tokens) * model.group
        told, beyond = f"{moved(own)} · {_heads(model)}", _beyond(model, tokens)
        length, full = (width * size / longest for size in (own, unshared))
        if narrow:
            parts.append(text(0, y - 8, model.name, bold=True))
            parts.append(text(text_width(model.name, bold=True), y - 8, beyond, faint=True))
        else:
            told += beyond
            parts.append(text(left - 12, y + 19, model.name, anchor="end", bold=True))
        if model.group > 1:
            alone = f"{moved(unshared)} if each query head had its own"
            parts.append(rect(left, y, full, 28, "none", stroke=HBM, dashed=True, title=alone))
        parts.append(rect(left, y, length, 28, HBM, opacity=PALE if beyond else SOLID, stroke=HBM, title=told))
        x = left + (length if full - length > text_width(told) + 16 else full) + 8  # beside the bar, or the outline
        parts.append(text(x, y + 19, told))
        alone = f"{moved(unshared)} without sharing"
        if full - length > text_width(told) + text_width(alone) + 48:
            parts.append(text(left + full - 8, y + 19, alone, anchor="end", faint=True))
    label = f"KV cache of one sequence of {count(tokens)} tokens"
    return picture(left + width + 6, high * len(MODELS) + 12, label, parts, "28rem" if narrow else "60rem")


def _heads(model: Model) -> str:
    return f"{model.kind}, {model.heads}/{model.kv_heads} heads"


def _beyond(model: Model, tokens: int) -> str:
    """What to say of a cache that is longer than what its model was trained for."""
    return f"\u00a0· trained for {count(model.context)}" if tokens > model.context else ""


@kept
def caches_words(tokens: int, gpu: Gpu) -> str:
    """The largest and the smallest cache in numbers: how many fit, and how long one takes to read."""
    by_kind = {model.kind: model for model in MODELS}
    own, shared = by_kind["MHA"], next(model for model in MODELS if model.kind == "GQA")
    rows = [
        f"**{model.name}**: 2 × {model.layers} layers × {model.kv_heads} heads × {model.head_dim} × 2 bytes = "
        f"{moved(model.cache_bytes(1))} per token. {count(tokens)} tokens: {moved(model.cache_bytes(tokens))}. To read "
        f"them for each new token takes the {gpu.name} at least "
        f"{duration(model.cache_bytes(tokens) / gpu.hbm_bytes_per_second)}."
        for model in (own, shared)
    ]
    return "\n\n".join(rows)


@kept
def caches_table(tokens: int) -> str:
    """Each model's numbers and their source, as Markdown."""
    rows = [
        (one.name, one.kind, one.layers, f"{one.heads}/{one.kv_heads}", one.head_dim, one.context,
         one.cache_bytes(1), one.cache_bytes(tokens), one.source)
        for one in MODELS
    ]  # fmt: skip
    columns = (
        "model", "", Column("layers"), Column("heads / of keys"), Column("d"), Column("trained for", count),
        Column("per token", moved), Column(f"{count(tokens)} tokens", moved), "source",
    )  # fmt: skip
    return markdown(columns, rows)


@kept
def savings(found: Sequence[Saving], *, narrow: bool = False) -> str:
    """For few and for many queries: the bytes of each kernel, as a share of standard attention's."""

    def bars(one: Saving) -> Iterable[Bar]:
        yield Bar("standard attention", 1.0, moved(one.standard), CHIP)
        for name, size, kernel in (
            ("FlashAttention", one.flash, "flash_attention"), ("Flash-Decoding", one.split, "flash_decoding"),
        ):  # fmt: skip
            share = size / one.standard
            told = f"{moved(size)} · saves {percent(1 - share, 1)}"
            yield Bar(name, share, told, css(palette.kernel(KERNELS[kernel].hue)))

    def title(one: Saving) -> str:
        queries = f"{count(one.queries)} quer{'y' if one.queries == 1 else 'ies'}"
        return f"{queries}, tile {one.tile[0]} × {one.tile[1]}"

    cases = [(title(one), [*bars(one)]) for one in found]
    return groups(cases, "Bytes that FlashAttention saves", narrow=narrow)


@kept
def masks(seq_len: int, kv_len: int, *, narrow: bool = False) -> str:
    """S of both alignments: a square for each query and key, filled where the query sees the key."""
    cell = min(26.0, (300.0 if narrow else 330.0) / kv_len)
    wide, high = cell * kv_len, cell * seq_len
    lead = 76.0
    apart = lead + max(wide, text_width("bottom right", bold=True) + 10) + 60
    parts: list[str] = []
    for i, align in enumerate(ALIGNMENTS):
        x, y = (lead, 52 + i * (high + 84)) if narrow else (lead + i * apart, 52.0)
        parts += [
            text(x, y - 30, align, bold=True),
            text(x, y - 10, f"keys 0–{kv_len - 1} →" if kv_len > 1 else "key 0", faint=True),
        ]
        for query in range(seq_len):
            sees = seen(query, seq_len, kv_len, align)
            words = f"query {query}" if cell >= 14 or query in (0, seq_len - 1) else ""
            parts.append(text(x - 8, y + (query + 0.5) * cell + 5, words, anchor="end", faint=True, size=12))
            for key in range(kv_len):
                told = f"query {query} {'sees' if key < sees else 'does not see'} key {key}"
                fill = css("scores") if key < sees else "none"
                parts.append(
                    rect(x + key * cell, y + query * cell, cell, cell, fill, opacity=0.8, stroke=CHIP, title=told)
                )
            if not sees:
                parts.append(text(x + wide + 8, y + (query + 0.5) * cell + 5, "O = 0", bold=True, size=12))
    width = lead + wide + 60 if narrow else apart + lead + wide + 60
    height = 52 + high + (high + 84 if narrow else 0) + 14
    label = f"{seq_len} queries and {kv_len} keys, both alignments"
    return picture(width, height, label, parts, "28rem" if narrow else f"{min(width / 12, 56):.0f}rem")


@kept
def masks_words(seq_len: int, kv_len: int) -> str:
    """What the two masks do with these lengths."""
    first, last = ([seen(query, seq_len, kv_len, one) for one in ALIGNMENTS] for query in (0, seq_len - 1))
    blind = sum(not seen(query, seq_len, kv_len, ALIGNMENTS[0]) for query in range(seq_len))
    told = (
        f"The last query sees **{last[0]}** of {kv_len} key{'s' * (kv_len > 1)} if the diagonal ends at the bottom "
        f"right, **{last[1]}** if it begins at the top left."
    )
    if blind:
        return f"{told} There are more queries than keys: **{blind} see none**. Their rows of O are 0, their lse is −∞."
    if seq_len == kv_len:
        return f"{told} As many queries as keys: both masks are the same."
    return f"{told} The first query sees {first[0]} or {first[1]}."
