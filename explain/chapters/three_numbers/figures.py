"""Bytes at every memory level in words and tables: of one run, of two neighbouring levels, and of all kernels."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence

from explain.chapters.measurements.limited import NEITHER, UNKNOWN, Limits
from explain.chapters.three_numbers import gap_words
from explain.chapters.three_numbers.byte_accounting import (
    SPILLED,
    UNEXPLAINED,
    WITHIN,
    Cause,
    Check,
    Gap,
    Prediction,
    check,
    gaps,
)
from explain.chapters.three_numbers.hierarchy import LINKS, MARKS
from explain.chapters.three_numbers.levels import WAVEFRONT, Level, Levels, Traced, amount, levels, own_bytes
from explain.counters.model import Counters, Counts
from explain.experiment import Experiment
from explain.figures.labels import begun, listed
from explain.figures.numbers import count, number, percent, ratio, si
from explain.figures.tables import Column, buttons, markdown
from explain.gpus import Gpu
from kernels.traffic import Term, Traffic

FAR = 1.05
"""From this factor on one count is said to be more than another."""
NEARLY = 0.9
"""From this share on, "nearly all"."""
GROUPS = 3
"""How many groups of buffers a sentence names."""


def gap_table(found: Levels, between: Sequence[Gap]) -> str:
    """Every difference between neighbouring levels, its causes and the unexplained rest, as Markdown."""
    names = {level.key: level.name for level in found}
    rows: list[tuple[str, ...]] = []
    for gap in between:
        head = (f"{names[gap.above]} → {names[gap.below]}", gap_words.written(gap.written))
        for cause in gap.causes if gap.bytes else ():
            rows.append((*head, f"**{cause.name}**", gap_words.signed(cause.bytes), cause.source))
            head = ("", "")
        if gap.unexplained:
            rows.append((*head, f"*{UNEXPLAINED}*", gap_words.signed(gap.unexplained), ""))
    return markdown(("between", "direction", "cause of the difference", Column("bytes"), "source"), rows)


def cause_words(between: Sequence[Gap]) -> str:
    """The explanation of each cause, once, with its bytes, as a Markdown list."""
    said: dict[tuple[str, str], list[str]] = {}
    for gap in between:
        for name, bytes, words, _ in gap_words.steps(gap):
            said.setdefault((name, words), []).append(f"{gap_words.signed(bytes)} {gap_words.written(gap.written)}")
    return "\n".join(f"- **{name}** ({', '.join(bytes)}): {words}" for (name, words), bytes in said.items())


def caches_words(traffic: Traffic, l1: int | None, delivered: int | None, spilled: int = 0) -> str:
    """What the programs request by the formula and what HBM delivers, as Markdown: first where it is far less. What L1
    counts is said where that is far above: because of `spilled` bytes that are read back, or its count.
    """
    asked, reads, more = traffic.read_bytes, requested_words(traffic), ""
    said = f"{reads[:-1]}: **{amount(asked)}** requested."
    at_hbm = f"HBM delivers **{amount(delivered or 0)}**"
    if l1 and l1 > FAR * asked and spilled >= NEARLY * (l1 - asked):
        more = f" Spilled registers add **{amount(spilled)}** at L1"
        if delivered and asked / FAR <= delivered <= FAR * asked:
            served = _served(delivered - asked, spilled)
            return f"{said}{more}, and the caches serve {served} of that: {at_hbm}, {_beside(delivered / asked)}."
        more += "."
    elif l1 and l1 > FAR * asked:
        with_spills = ", with spilled registers" if spilled else ""
        more = f" L1 counts **{amount(l1)}** of reads{with_spills}, {ratio(l1 / asked)} the formula."
    if not delivered:
        return said + more
    if asked >= 2 * delivered:
        made_here = {term.buffer for term in traffic.terms if term.written}
        once = {term.buffer: term.once for term in traffic.terms if not term.written}
        each = not made_here & set(once) and abs(delivered - sum(once.values())) <= WITHIN * delivered
        less = f"{number(asked / delivered)} × less{', each input once' * each}"
        return (
            f"**The programs ask for {amount(asked)}. HBM delivers only {amount(delivered)}: {less}.** The caches "
            f"serve the rest.\n\n{reads}{more}"
        )
    said += f"{more} {at_hbm}"
    if asked > FAR * delivered:
        return f"{said}, {percent(delivered / asked)} of the request. L1 and L2 serve the rest."
    if delivered > FAR * asked:
        return f"{said}, {_beside(delivered / asked)}."
    if l1 and l1 > FAR * asked:
        return f"{said}, about as much as the formula: the caches serve what L1 counts beyond it, and little more."
    return f"{said}, about as much: the caches save almost nothing."


def _served(past: int, spilled: int) -> str:
    """How much of the spilled bytes the caches serve, where so many bytes more than the formula's come `past` them."""
    share = 1 - max(past, 0) / spilled
    return "nearly all" if share >= NEARLY else percent(share)


def _beside(factor: float) -> str:
    """How many times the formula's bytes: "1% more than the formula"."""
    share = percent(abs(factor - 1))
    return (
        "as much as the formula"
        if share == percent(0)
        else f"{share} {'more' if factor > 1 else 'less'} than the formula"
    )


def requested_words(traffic: Traffic) -> str:
    """How often the programs read each input, the most bytes first, and what they read of their own results; as
    Markdown: "The programs read `k` and `v` (33.6 MB each) 32 times and `q` (33.6 MB) once."
    """
    groups: dict[tuple[int, int], list[str]] = {}
    own: dict[str, int] = {}
    written = {term.buffer for term in traffic.terms if term.written}
    for first, *rest in terms_by_key(traffic).values():
        name, whole = f"`{first.buffer}`", sum(term.bytes for term in (first, *rest))
        if first.written:
            continue
        if first.buffer in written:
            own[name] = whole
        else:
            groups.setdefault((max(term.once for term in (first, *rest)), whole), []).append(name)
    ordered = sorted(groups.items(), key=lambda group: -group[0][1] * len(group[1]))
    parts = [
        f"{listed(names)} ({amount(once)}{' each' * (len(names) > 1)}) {_times(whole / once)}"
        for (once, whole), names in ordered[:GROUPS]
        if once
    ]
    if left := sum(len(names) for _, names in ordered[GROUPS:]):
        parts.append(f"{count(left)} smaller buffer{'s' * (left > 1)}")
    if own:
        parts.append(f"{amount(sum(own.values()))} of what they wrote before ({', '.join(own)})")
    return f"The programs read {listed(parts)}."


def _times(factor: float) -> str:
    """How often: "once", "twice", "32 times", "16.5 times"."""
    words = {1.0: "once", 2.0: "twice"}
    return words.get(factor) or f"{count(int(factor)) if factor.is_integer() else number(factor)} times"


def dram_words(counts: Counts) -> str:
    """The sum that a run's bytes at HBM are: "FlashAttention-2's 135.3 MB at HBM: 100.7 MB read, …";
    empty if a part was not counted.
    """
    parts = counts.dram_read_bytes, counts.dram_written_bytes, counts.dirty_bytes
    if None in parts:
        return ""
    read, written, dirty = (amount(part or 0) for part in parts)
    return (
        f"FlashAttention-2's {amount(counts.hbm_bytes or 0)} at HBM: {read} read, {written} written, and {dirty} "
        "still in L2 at the end, to be written later."
    )


def time_words(fewer: float, faster: float, found: Limits | None, peak: float = 0.0) -> str:
    """Why FlashAttention-2 is `faster` than standard attention by less than it moves `fewer` bytes at HBM: how near its
    own run comes to the GPU's rates, as Markdown; empty where the rates do not say it. `peak`: the measured rate
    of the matmuls.
    """
    if found is None or not found.of_matmuls or faster >= fewer:
        return ""
    at = f" (at the measured {si(peak, 'FLOP/s')})" if peak else ""
    busy = (
        f"HBM is busy {percent(found.of_hbm[0])} of the time and the matmuls need {percent(found.of_matmuls[0])}{at}."
    )
    why = found.told.replace("**", "").replace(UNKNOWN, "").rstrip()
    if found.verdict == NEITHER and (two := found.in_base_2):
        link = f"./measurements?kernel={two.other.kernel}"
        why = f"[Computing 2ˣ instead of eˣ]({link}) saves {percent(1 - two.seconds / two.own)} with the same bytes."
    return f"{number(fewer, 2)} × fewer bytes, yet only {number(faster, 2)} × as fast: {busy} {why}"


def levels_table(found: Levels, between: Sequence[Gap]) -> str:
    """A row for each level, with its bytes read and written: ✓ where they are those of the row above, to the byte, else
    ≠ with the causes; as Markdown.
    """
    gap_to = {(gap.below, gap.written): gap for gap in between}
    rows = [
        (
            f"{MARKS.get(level.key, MARKS['measured'])} **{level.name}**",
            *(_level_cell(level, gap_to.get((level.key, written)), level.of(written)) for written in (False, True)),
        )
        for level in found
    ]
    return markdown(("", gap_words.written(False), gap_words.written(True)), rows)


def _level_cell(level: Level, gap: Gap | None, count: int | None) -> str | None:
    if count is None or gap is None:
        return None if count is None else amount(count)
    if not gap.bytes:
        return f":green[**✓**] {amount(count)}"
    return f"**≠** {amount(count)} · {gap_words.told(gap)}"


def terms_table(traffic: Traffic, traced: Traced | None, small: Traffic, chosen: str) -> str:
    """The formula's terms as an HTML table of buttons; `data-press` is a term's key. `small` is the player's run."""
    rows, in_player = [], {key: sum(term.bytes for term in terms) for key, terms in terms_by_key(small).items()}
    for key, terms in terms_by_key(traffic).items():
        buffer, way = terms[0].buffer, gap_words.written(terms[0].written)
        sizes = " + ".join(
            f"{term.elements:,}{f' × {term.times:,}' * (term.times > 1)} × {term.item_bytes} B" for term in terms
        )
        seen = _traced_of(traced, terms[0])
        counted = f"{seen:,}" if seen is not None else "–"
        why = "; ".join(dict.fromkeys(term.why for term in terms))
        asked = f"{sum(term.bytes for term in terms):,}"
        cells = (way, sizes, asked, counted, f"{in_player[key]:,}", html.escape(why))
        rows.append((key, html.escape(buffer), f"{'Stores' if terms[0].written else 'Loads'} of {buffer}", cells))
    heads = (
        "buffer", "direction", Column("elements × times × size"), Column(f"{MARKS['formula']} formula, bytes"),
        Column(f"{MARKS['traced']} trace, bytes"), Column("in the player, bytes"), "why",
    )  # fmt: skip
    return buttons(heads, rows, chosen, stacked=True)


def terms_by_key(traffic: Traffic) -> Mapping[str, Sequence[Term]]:
    """The terms of each buffer, read or written, over all launches, by a name in an address: "read-k", "written-o"."""
    found: dict[str, list[Term]] = {}
    for term in traffic.terms:
        found.setdefault(f"{gap_words.written(term.written)}-{term.buffer}", []).append(term)
    return found


def _traced_of(traced: Traced | None, term: Term) -> int | None:
    return None if traced is None else traced.bytes.get((term.buffer, term.written), 0)


def buffers_table(key: str, traffic: Traffic, traced: Traced | None, prediction: Prediction | None) -> str:
    """The bytes by buffer, as Markdown: at the top link those that formula and trace request, at HBM those predicted.
    The GPU counts sectors, not buffers.
    """
    if prediction and prediction.parts and key == "dram":
        rows = [(f"`{part.term.buffer}`", amount(part.bytes), part.words) for part in prediction.parts]
        return markdown(("buffer", Column(f"{MARKS['predicted']} predicted reads"), "why"), rows)
    if key != "l1":
        return ""
    columns = (
        "buffer",
        "direction",
        Column(f"{MARKS['formula']} formula", amount),
        Column(f"{MARKS['traced']} trace", amount),
    )
    by_buffer = [
        (
            f"`{first.buffer}`",
            gap_words.written(first.written),
            sum(term.bytes for term in terms),
            _traced_of(traced, first),
        )
        for terms in terms_by_key(traffic).values()
        for first in terms[:1]
    ]
    return markdown(columns, by_buffer)


def link_words(key: str, found: Levels, *, predicted: bool) -> str:
    """The meaning of a link's number, or the reason why there is none; `predicted`: its table has a prediction."""
    level: Level = getattr(found, key)
    if not level.known:
        return f"not measured. {level.why}"
    says = f"{begun(level.note)}."
    if key == "shared":
        bound = f" So a cycle that moves less counts as {WAVEFRONT} B too." if level.note.startswith("at most") else ""
        return (
            f"{says}{bound} It can be more than the programs load from L1: they can read a tile here many times. The "
            "compiler decides what passes through shared memory, so neither formula nor trace knows it."
        )
    if predicted:
        table = f"{MARKS['predicted']} is a prediction, by the formula with a model of L2."
    elif key == "l1":
        counted = "The GPU counts sectors. Formula and trace know the buffers:"
        return f"**The programs ask L1 for these bytes.** {says} {counted}"
    else:
        table = f"press *{LINKS['l1']}* for what the programs request of each."
    return f"{says} The GPU counts sectors, not buffers: {table}"


def prediction_words(check: Check) -> str:
    """Predicted and counted HBM reads from a cold L2 in a sentence, with the reason for a miss."""
    words = (
        "HBM reads, L2 cold: "
        f"{MARKS['predicted']} predicted **{check.prediction.read:,} B**, "
        f"{MARKS['measured']} hardware **{check.measured:,} B** "
        f"({percent(abs(check.off), 2)} {'more' if check.off > 0 else 'less'})"
    )
    if check.met:
        return f"{words}."
    return f"{words}. " + " ".join(
        f"{cause.name}: {gap_words.signed(cause.bytes)}. {cause.words}" for cause in check.causes
    )


def gpus_table(counted: Sequence[tuple[str, Counts]]) -> str:
    """The same run on several GPUs, by the label of each record, as Markdown."""
    headings = ("L1", "L2 → SM", "HBM read", "HBM written", "still dirty in L2")
    rows = [
        (name, c.l1_bytes, c.l2_read_bytes, c.dram_read_bytes, c.dram_written_bytes, c.dirty_bytes)
        for name, c in counted
    ]
    return markdown(("measured on", *(Column(heading, amount) for heading in headings)), rows)


def heat_words(counters: Counters, *, warm: bool) -> str:
    """What L2 has at the start, and the effect of a warm L2 on HBM reads; empty if they were not counted."""
    at_cold, at_warm = counters.cold.dram_read_bytes, counters.warm.dram_read_bytes
    if at_cold is None or at_warm is None:
        return ""
    changed = amount(abs(at_warm - at_cold))
    almost = f"({gap_words.signed(at_warm - at_cold)}): almost none of the inputs"
    little, more = abs(at_warm - at_cold) <= WITHIN * at_cold, at_warm > at_cold
    if warm:
        said = "L2 is **warm**: the same kernel ran just before. HBM delivers "
        if little:
            return f"{said}almost the same as with a cold L2 {almost} were still in L2."
        if more:
            return f"{said}{changed} more than with a cold L2: L2 started full of data that the run before wrote."
        return f"{said}{changed} less than with a cold L2: these inputs were still in L2."
    said = "L2 is **cold**: it has none of the inputs. "
    if little:
        return f"{said}A warm L2 changes almost nothing {almost} stay in it."
    if more:
        return f"{said}With a warm L2 HBM delivers {changed} more: L2 is then full of data that the run before wrote."
    return f"{said}A warm L2 saves {changed}: these inputs are still in it from the run before."


def _percent(share: float) -> str:
    return percent(share, 2, signed=True)


def sizes_words(experiment: Experiment) -> str:
    """An experiment's sizes in short: "4,096 × 8,192, fp32", "4 × 16 heads, N = 4,096, d = 64, bf16"; with other keys
    than queries "16 × 32/8 heads, N = 1, 8,192 keys, d = 128, bf16"; "2,048 tokens, V = 128,256, d = 256, bf16".
    """
    p = experiment.values
    if experiment.entry.family == "softmax":
        return f"{p['rows']:,} × {p['cols']:,}, {p['dtype']}"
    if experiment.entry.family == "loss":
        return f"{p['tokens']:,} tokens, V = {p['vocab']:,}, d = {p['dim']}, {p['dtype']}"
    shared = f"/{p['kv_heads']}" if p["kv_heads"] != p["heads"] else ""
    keys = f", {p['kv_len']:,} keys" if p["kv_len"] != p["seq_len"] else ""
    heads = f"{p['batch']} × {p['heads']}{shared} heads"
    return f"{heads}, N = {p['seq_len']:,}{keys}, d = {p['head_dim']}, {p['dtype']}"


Run = tuple[Experiment, Traced | None, Counts]
"""A run, its trace, and its counts with a cold L2."""


def traced_tables(runs: Iterable[Run]) -> tuple[str, str, int]:
    """Formula, trace and L1 of each run, read and written together, and the causes of L1's difference, as Markdown: of
    the runs with a difference, of those without one, and how many these are.
    """
    differing: list[tuple[object, ...]] = []
    equal: list[tuple[object, ...]] = []
    for experiment, traced, counts in runs:
        traffic = experiment.traffic
        asked = own_bytes(counts)
        found = gaps(experiment, levels(traffic, traced, counts, "", ""), counts, warm=False)
        down = [gap for gap in found if gap.below == "l1"]
        causes = _together(cause for gap in down for cause in gap.causes if cause.name != SPILLED)
        total = traced.of(False) + traced.of(True) if traced else None
        more = round(asked / total - 1, 4) if asked is not None and total else None
        unexplained = sum(gap.unexplained for gap in down) if down else None
        run = experiment.entry.title, sizes_words(experiment), traffic.read_bytes + traffic.written_bytes
        why = more, _listed(causes.items()), unexplained, counts.spilled_bytes or None
        (differing if any(why) or None in (more, unexplained) else equal).append((*run, total, asked, *why))
    columns = (
        "kernel", "sizes", Column("formula", amount), Column("trace", amount), Column("L1", amount),
        Column("L1 ÷ trace − 1: reads + writes, without spills", _percent), "causes of the difference",
        Column("not explained", lambda bytes: f"{bytes:,} B"), Column("spilled registers, besides", amount),
    )  # fmt: skip
    return markdown(columns, differing), markdown(columns, equal), len(equal)


def dram_table(runs: Iterable[Run], gpu: Gpu) -> str:
    """Predicted and counted HBM reads of each run, L2 cold, with the causes of a miss of more than 1%, as Markdown."""
    rows = []
    for experiment, _, counts in runs:
        done = check(experiment, counts, gpu)
        if done is None:
            continue
        off = _percent(done.off) if done.met else f"**{_percent(done.off)}**"
        causes = _listed((cause.name, cause.bytes) for cause in done.causes)
        own = (experiment.entry.title, sizes_words(experiment), counts.l2_read_bytes)
        rows.append((*own, done.prediction.read, done.measured, off, causes))
    columns = (
        "kernel", "sizes", Column("L2 → SM", amount), Column("HBM read, predicted", amount),
        Column("HBM read", amount),
        Column("off by"), "causes",
    )  # fmt: skip
    return markdown(columns, rows)


def _listed(causes: Iterable[tuple[str, int]]) -> str | None:
    return "; ".join(f"{name} {gap_words.signed(count)}" for name, count in causes if count) or None


def _together(causes: Iterable[Cause]) -> dict[str, int]:
    sums: dict[str, int] = {}
    for cause in causes:
        sums[cause.name] = sums.get(cause.name, 0) + cause.bytes
    return sums
