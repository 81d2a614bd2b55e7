"""Writes the README's figures, and docs/three-numbers.md, from the files that commands measured: python
scripts/write_figures.py

Between the two marks in README.md everything is replaced; `--check` only says whether both are up to date (exit 1 when
not).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks import speed_table  # noqa: E402
from explain.chapters.three_numbers import figures as levels  # noqa: E402
from explain.chapters.three_numbers import shown as lab  # noqa: E402
from explain.chapters.three_numbers.byte_accounting import WARPS, room  # noqa: E402
from explain.counters.model import SECTOR, TOLERANCE  # noqa: E402
from explain.records import results  # noqa: E402
from explain.records.code import stale_parts, stale_words  # noqa: E402
from explain.records.plans import PLANS, sizes  # noqa: E402
from explain.records.registry import recorded  # noqa: E402

THREE_NUMBERS = ROOT / "docs" / "three-numbers.md"
README = ROOT / "README.md"
SUITE = "benchmarks/results/gpu_suite.json"
BEGIN, END = "<!-- figures: written by scripts/write_figures.py -->", "<!-- end of figures -->"


def figures() -> str:
    """The section, from the committed results."""
    return "\n".join([BEGIN, "", *_lines(), "", END])


def _lines() -> Iterator[str]:
    tracing = results.read(results.BENCHMARKS / "tracing.json")
    yield from tracing_lines(tracing)
    yield from _stale(tracing)
    yield ""
    hall = results.read(results.BENCHMARKS / "classroom_load.json")
    yield (
        f"**A lecture hall**: {hall['students']} students over all pages, a rerun each {hall['period_s']:g} s for "
        f"{hall['duration_s']:g} s, on {hall['cores']} cores: p50 {hall['p50_ms']:.0f} ms, p95 {hall['p95_ms']:.0f} "
        f"ms, {hall['dropped']} dropped ({hall['date'][:10]}). Again: `python -m benchmarks.classroom_load --students "
        f"{hall['students']} --period-s {hall['period_s']:g} --duration-s {hall['duration_s']:g}`."
    )
    yield from _stale(hall)
    yield ""
    opening = results.read(results.BENCHMARKS / "opening.json")
    yield (
        f"**Opening**: from `streamlit run app.py` the first page stands after {opening['first_page_s']:.1f} s and its "
        f"first picture {opening['picture_after_s']:.2f} s later; a chapter, from the click, "
        f"{opening['chapter_s']:.1f} s. {opening['cores']} cores, headless Chromium, medians of {opening['runs']} "
        f"fresh servers ({opening['date'][:10]}). Again: `python -m benchmarks.opening`."
    )
    yield from _stale(opening)
    yield ""
    player = results.read(results.BENCHMARKS / "player.json")
    yield player_line(player)
    yield from _stale(player)
    yield ""
    if (ROOT / "benchmarks/results/speed.json").exists():
        yield "**As fast as the hardware**: ratios are a baseline's time over ours, in the same run."
        yield ""
        speed = results.read(results.BENCHMARKS / "speed.json")
        yield from speed_table.lines(speed)
        yield from _stale(speed)
        yield ""
    record = results.read(results.RECORDINGS / "verification-h200.json")
    where = record["provenance"]
    right = [row for row in record["kernels"].values() if not row["wrong_on_purpose"]]
    bites = sum(row["zeros_would_miss"] for row in right)
    total, within = sum(row["experiments"] for row in right), sum(row["within_tolerance"] for row in right)
    yield (
        f"**On a GPU**: {within:,} of {total:,} experiments of the {len(right)} kernels that are not wrong on purpose "
        f"are within their tolerance against float64, {bites:,} of which all zeros would miss, on an {where['gpu']} "
        f"(driver {where['driver']}, torch {where['torch']}, triton {where['triton']}, {where['date']}). Again: "
        "`python -m explain record verification`."
    )
    yield from _stale(record)
    if (ROOT / SUITE).exists():
        yield ""
        suite = results.read(ROOT / SUITE)
        yield suite_line(suite)
        yield from _stale(suite)


def _stale(result: Mapping[str, Any]) -> Iterator[str]:
    """A line that says that a result is stale, after its own."""
    if words := stale_words(stale_parts(result.get("code"))):
        yield ""
        yield f"*Stale: {words}.*"


def suite_line(suite: dict[str, Any]) -> str:
    """The result of the tests that need a GPU as a paragraph."""
    where, ran = suite["where"], suite["passed"] + suite["failed"]
    return (
        f"**The GPU suite**: {suite['passed']:,} of {ran:,} tests passed, every rung and every fast kernel over "
        f"shapes, dtypes, masks and inputs that bite, on an {where['gpu']} (driver {where['driver']}, torch "
        f"{where['torch']}, triton {where['triton']}, {where['date']}). Again: `python start.py test --gpu --result "
        f"{SUITE}`."
    )


def player_line(player: dict[str, Any]) -> str:
    """The player's speed as a paragraph; a miss is said."""
    parts = []
    for name, circumstances in player["lectures"].items():
        alone, (class_, among) = circumstances["alone"], next(c for c in circumstances.items() if c[0] != "alone")
        draw, paint = alone["draw_ms"], alone["paint_ms"]
        parts.append(
            f"of {name.replace('x', '×')} scores, {alone['steps']:,} steps, a step is drawn in {draw['p50']:.1f} ms "
            f"(p95 {draw['p95']:.1f}) and painted {paint['p50']:.0f} ms after its key (p95 {paint['p95']:.0f}; "
            f"{class_} on the same page, {among['paint_ms']['p95']:.0f})"
        )
    opening, machine = player["opening"], player["machine"]
    over = f" Over its limits: {'; '.join(player['over'])}." if player["over"] else ""
    return (
        f"**The player**: {'; '.join(parts)}. Two frames, 33 ms, are the floor of the method. Stepping sends nothing "
        f"over the network; the opening lecture's packet has {player['packet_bytes'] / 1000:.0f} kB. A chapter can be "
        f"stepped {opening['ready_s']['cold']:.1f} s after it is asked for, cold, and {opening['ready_s']['warm']:.1f} "
        f"s when it is opened again. {machine['cores']} cores ({machine['processor']}), Chromium "
        f"{player['versions']['chromium'].partition('.')[0]} ({player['date'][:10]}).{over} Again: `python -m "
        "benchmarks.player`."
    )


def tracing_lines(tracing: dict[str, Any]) -> Iterator[str]:
    """The tracing benchmark as a table."""
    yield "**Tracing**, one whole run, median, everything recorded:"
    yield ""
    yield "| N, d, tile | plain interpreter | Tilescope's recorder | triton-viz 3.0 | of plain | of triton-viz |"
    yield "|---|---:|---:|---:|---:|---:|"
    for row in tracing["configs"]:
        ms = row["milliseconds"]
        yield (
            f"| {row['seq_len']}, {row['head_dim']}, {row['tile']}×{row['tile']} | {ms['plain']:.0f} ms | "
            f"{ms['tilescope']:.0f} ms | {ms['triton-viz']:.0f} ms | **{row['of_plain']:.2f}** | "
            f"**{row['of_triton_viz']:.2f}** |"
        )
    versions = tracing["versions"]["tilescope"]
    yield ""
    yield (
        f"Peak memory of the larger {tracing['peak_megabytes']} MB. {tracing['machine']['cores']} cores, Python "
        f"{versions['python']}, triton {versions['triton']}, {tracing['date'][:10]}. Again: `python "
        "benchmarks/tracing.py` (`--help` says how to add triton-viz)."
    )


def three_numbers() -> str:
    """Every kernel's bytes by formula, trace and counters at three sizes beyond L2, as a document. Raises ValueError
    where none are recorded.
    """
    record = recorded()
    if record is None:
        raise ValueError("no GPU's record is here: python -m explain measure makes one")
    (asked, from_dram), gpu = lab.tables(record), lab.gpu_named(record.gpu)
    online = sizes("softmax_online")[0]
    counters = next(
        point.counters for point in map(record.point, PLANS["levels"].experiments) if point and point.counters
    )
    where = counters.provenance  # of these counts: the record's own is of its last run, which may have been of others
    missing = ", ".join(dict.fromkeys(f"`{experiment.kernel}`" for experiment in lab.not_counted(record)))
    return "\n".join(
        [
            "# Three numbers that must agree",
            "",
            "Written by `python scripts/write_figures.py`; the lab's page *Three numbers* draws the same, run by run.",
            "",
            f"Counted on an {where.gpu} (driver {where.driver}, CUDA {where.cuda}, torch {where.torch}, triton "
            f"{where.triton}, {where.date}), each run with L2 cold (counters: {counters.method}), after a copy of "
            f"{counters.copy.copied_bytes / 2**30:g} GiB was counted within {TOLERANCE:.1%}. Again: `python -m explain "
            "measure --plan levels`.",
            "",
            *((f"Not counted yet: {missing}.", "") if missing else ()),
            "## What the kernel asks for",
            "",
            "Read and written together. *Formula*: what the algorithm must move. *Traced*: what the kernel's loads "
            "and stores ask for in Triton's interpreter (`python -m explain record bytes`; of equal heads and rows "
            "one part is traced and counted as often as there are such parts). *L1*: what the GPU counted its loads "
            "and stores ask of L1, without the registers that were spilled, which are listed beside.",
            "",
            asked,
            "",
            f"- **Whole sectors**: the GPU moves sectors of {SECTOR} B; shorter pieces move the rest of theirs along. "
            "Lanes that are masked ask for nothing, in the formula, the trace and on the GPU: only the rest of the "
            "sector in which a mask begins is moved.",
            f"- **Every warp asks**: what all {WARPS} warps of a program need, such as one number for a row, is loaded "
            "by each.",
            "- **Sectors asked for in halves**: FlashAttention-1 keeps O in float32 and loads it in the layout of Q, "
            "32 B a thread in two loads.",
            "- **Launches before the kernel**: FlashAttention-1's O, m and ℓ are filled first, and everything that "
            "the call launches is counted.",
            "",
            "## What DRAM reads",
            "",
            "Predicted: every input once; and once more each time it is needed again, if more bytes pass in between "
            "than L2 can hold. So three-pass softmax reads x 3 times, online softmax twice, the whole row once, "
            "FlashAttention-2 Q, K and V once, standard attention S and P besides, and FlashAttention-1 its state at "
            "every visit.",
            "",
            from_dram,
            "",
            "- **L1, L2 still held it**: rows that are short enough, or few enough at once, are still there when a "
            f"program reads its row again. In online softmax at {levels.sizes_words(online)}, {room(online, gpu)}: it "
            "holds a part of them. Of the reads that did not come from DRAM the counters tell those that L1 served "
            "from those that L2 served.",
            "- **Spilled registers**: what did not fit into registers is written to local memory and read back; what "
            "the caches could not hold of it came from DRAM.",
            "",
        ]
    )


def main(arguments: list[str]) -> int:
    """Writes or checks; the exit status."""
    text = README.read_text()
    head, _, rest = text.partition(BEGIN)
    _, _, tail = rest.partition(END)
    wanted = {README: head + figures() + tail, THREE_NUMBERS: three_numbers()}
    if "--check" in arguments:
        return int(any(not path.exists() or path.read_text() != text for path, text in wanted.items()))
    for path, text in wanted.items():
        path.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
