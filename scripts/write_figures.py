"""Writes the figures of README.md, docs/newcomers.md and docs/three-numbers.md: python scripts/write_figures.py

They come from committed results. In the first two it replaces everything between the two marks. `--check` writes
nothing and exits with 1 if a file is out of date.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks import speed_random_table, speed_table  # noqa: E402
from explain.chapters.three_numbers import figures as levels  # noqa: E402
from explain.chapters.three_numbers import shown as lab  # noqa: E402
from explain.chapters.three_numbers.byte_accounting import WARPS, room  # noqa: E402
from explain.counters.model import SECTOR, TOLERANCE  # noqa: E402
from explain.figures.tables import Column, markdown  # noqa: E402
from explain.records import results  # noqa: E402
from explain.records.code import stale_parts, stale_words  # noqa: E402
from explain.records.plans import PLANS, sizes  # noqa: E402
from explain.records.registry import recorded  # noqa: E402

THREE_NUMBERS = ROOT / "docs" / "three-numbers.md"
README = ROOT / "README.md"
NEWCOMERS = ROOT / "docs" / "newcomers.md"
SUITE = "benchmarks/results/gpu_suite.json"
BEGIN, END = "<!-- figures: written by scripts/write_figures.py -->", "<!-- end of figures -->"
Result = Mapping[str, Any]


def figures() -> str:
    """The README's section, from the committed results; a missing file has no part in it."""
    parts: list[tuple[Path, Callable[[Result], str]]] = [
        (results.BENCHMARKS / "tracing.json", tracing),
        (results.BENCHMARKS / "classroom_load.json", lecture_hall),
        (results.BENCHMARKS / "opening.json", opening),
        (results.BENCHMARKS / "player.json", player),
        (results.BENCHMARKS / "speed.json", speed),
        (results.BENCHMARKS / "speed_random.json", any_shape),
        (results.RECORDINGS / "verification-h200.json", verification),
        (ROOT / SUITE, suite_line),
    ]
    found = [(results.read(path), words) for path, words in parts if path.exists()]
    return "\n\n".join([BEGIN, *(text for result, words in found for text in (words(result), *_stale(result))), END])


def _stale(result: Result) -> Iterator[str]:
    """A note below a stale result."""
    if words := stale_words(stale_parts(result.get("code"))):
        yield f"*Stale: {words}.*"


def _versions(where: Mapping[str, str]) -> str:
    return f"driver {where['driver']}, torch {where['torch']}, triton {where['triton']}, {where['date']}"


def tracing(result: Result) -> str:
    """The time of recording a run, as a table."""

    columns = (
        "N, d, tile",
        Column("interpreter alone", "{:.0f} ms".format),
        Column("Tilescope's recorder", "{:.0f} ms".format),
        Column("triton-viz 3.0", "{:.0f} ms".format),
        Column("recorder ÷ interpreter", "**{:.2f}**".format),
        Column("recorder ÷ triton-viz", "**{:.2f}**".format),
    )
    rows = (
        (
            f"{row['seq_len']}, {row['head_dim']}, {row['tile']}×{row['tile']}",
            *(row["milliseconds"][name] for name in ("plain", "tilescope", "triton-viz")),
            row["of_plain"],
            row["of_triton_viz"],
        )
        for row in result["configs"]
    )
    versions = result["versions"]["tilescope"]
    return (
        "**Tracing**: the median time of one whole run with everything recorded.\n\n"
        f"{markdown(columns, rows)}\n\n"
        f"The larger run peaks at {result['peak_megabytes']} MB of memory. {result['machine']['cores']} cores, Python "
        f"{versions['python']}, triton {versions['triton']}, {result['date'][:10]}. Repeat: "
        "`python benchmarks/tracing.py` (`--help` explains how to add triton-viz)."
    )


def lecture_hall(result: Result) -> str:
    """The latency for a class of students."""
    students, period, duration = (result[name] for name in ("students", "period_s", "duration_s"))
    return (
        f"**A lecture hall**: {students} students on all pages, each with a rerun every {period:g} s, for "
        f"{duration:g} s on {result['cores']} cores. Latency: p50 {result['p50_ms']:.0f} ms, p95 "
        f"{result['p95_ms']:.0f} ms; connections lost: {result['dropped']}, pages failed: {result['failed']} "
        f"({result['date'][:10]}). Repeat: "
        f"`python -m benchmarks.classroom_load --students {students} --period-s {period:g} --duration-s {duration:g}`."
    )


def opening(result: Result) -> str:
    """The time until the first page and picture."""
    return (
        f"**Opening**: the first page shows {result['first_page_s']:.1f} s after `streamlit run app.py`, its first "
        f"picture {result['picture_after_s']:.2f} s later. A chapter opens {result['chapter_s']:.1f} s after the "
        f"click. Medians of {result['runs']} fresh servers, {result['cores']} cores, headless Chromium "
        f"({result['date'][:10]}). Repeat: `python -m benchmarks.opening`."
    )


def player(result: Result) -> str:
    """The time of a step in the player, as a table; limits that it exceeds are listed."""
    columns = (
        "scores, steps",
        "students on the page",
        Column("draw p50", "{:.1f} ms".format),
        Column("draw p95", "{:.1f} ms".format),
        Column("key to painted frame p50", "{:.1f} ms".format),
        Column("key to painted frame p95", "{:.1f} ms".format),
    )
    rows = (
        (
            f"{name.replace('x', '×')}, {measured['steps']:,}",
            circumstances.removeprefix("with ").removesuffix(" students"),
            *(measured[what][quantile] for what in ("draw_ms", "paint_ms") for quantile in ("p50", "p95")),
        )
        for name, lecture in result["lectures"].items()
        for circumstances, measured in lecture.items()
    )
    ready, machine = result["opening"]["ready_s"], result["machine"]
    over = f" Over the limit: {'; '.join(result['over'])}." if result["over"] else ""
    return (
        "**The player**: the time of one step.\n\n"
        f"{markdown(columns, rows)}\n\n"
        "The method measures at least two frames, 33 ms. A step sends nothing over the network. The opening lecture's "
        f"packet is {result['packet_bytes'] / 1000:.0f} kB. A chapter can be stepped {ready['cold']:.1f} s after a "
        f"cold start, {ready['warm']:.1f} s when it is opened again. {machine['cores']} cores "
        f"({machine['processor']}), Chromium {result['versions']['chromium'].partition('.')[0]} "
        f"({result['date'][:10]}).{over} Repeat: `python -m benchmarks.player`."
    )


def speed(result: Result) -> str:
    """The fast kernels beside baselines, as a table."""
    head = "**As fast as the hardware**: each ratio is a baseline's time ÷ ours, in the same run."
    return "\n".join([head, "", *speed_table.lines(dict(result))])


def any_shape(result: Result) -> str:
    """The fast kernels on shapes drawn by lot, as a table."""
    head = "**On any shape**: the same for random shapes that a user might have, which nothing was tuned to."
    return "\n".join([head, "", *speed_random_table.lines(dict(result))])


def verification(result: Result) -> str:
    """The experiments on a GPU within tolerance."""
    where = result["provenance"]
    right = [row for row in result["kernels"].values() if not row["wrong_on_purpose"]]
    counted = ("within_tolerance", "experiments", "zeros_would_miss")
    within, total, bites = (sum(row[name] for row in right) for name in counted)
    return (
        f"**On a GPU**: {within:,} of {total:,} experiments are within tolerance of float64, for the {len(right)} "
        f"kernels that are not wrong on purpose. An output of zeros would fail {bites:,} of them. {where['gpu']} "
        f"({_versions(where)}). Repeat: `python -m explain record verification`."
    )


def suite_line(suite: Result) -> str:
    """The result of the tests that need a GPU."""
    where, ran = suite["where"], suite["passed"] + suite["failed"]
    return (
        f"**The GPU suite**: {suite['passed']:,} of {ran:,} tests passed: every rung and every fast kernel, over "
        f"shapes, dtypes, masks and inputs that expose errors. {where['gpu']} ({_versions(where)}). Repeat: "
        f"`python start.py test --gpu --result {SUITE}`."
    )


OTHER_SCREENS = (("transformer-explainer", 20, 23, "7 →"), ("llm-viz", 5, 8, "1 click, 12 × Space"))
"""The other explainers as docs/newcomers.md describes: unexplained words, numerals, presses until the first insight."""


def newcomers() -> str:
    """What the first screens ask of a newcomer, as a table: ours from the committed counts, and the others."""
    counts = results.read(results.BENCHMARKS / "first_screens.json")
    rows: list[tuple[Any, ...]] = []
    for screen in counts["screens"]:
        reached = f"{screen['presses']} →" if screen.get("presses") else "0" if "presses" in screen else "–"
        if screen["screen"] == "Home":
            reached = f"0, after {screen['seconds']:.0f} s"
        rows.append((screen["screen"], screen["opens"]["unexplained"], screen["opens"]["numbers"], reached))
        if screen.get("presses") or screen["screen"] == "Home":
            there = screen["at the insight"]
            rows.append((f"{screen['screen']}, at the insight", there["unexplained"], there["numbers"], "–"))
    columns = ("Screen", Column("Words not yet explained"), Column("Numbers"), "Presses until the first insight")
    words = f"Counted on {counts['date'][:10]}. Repeat: `python -m benchmarks.first_screens`."
    return "\n\n".join([BEGIN, markdown(columns, [*rows, *OTHER_SCREENS]), words, *_stale(counts), END])


def three_numbers() -> str:
    """A document: every kernel's bytes by formula, trace and counters at three sizes larger than L2.

    Raises ValueError if no counters are recorded.
    """
    record = recorded()
    if record is None:
        raise ValueError("no GPU's record was found; make one with: python -m explain measure")
    (asked, from_dram), gpu = lab.tables(record), lab.gpu_named(record.gpu)
    online = sizes("softmax_online")[0]
    points = filter(None, map(record.point, PLANS["levels"].experiments))
    counters = next(point.counters for point in points if point.counters)
    where = counters.provenance  # of these counts; the record's own provenance is that of its latest run
    missing = ", ".join(dict.fromkeys(f"`{experiment.kernel}`" for experiment in lab.not_counted(record)))
    return (
        (ROOT / "scripts" / "three_numbers.md")
        .read_text(encoding="utf-8")
        .format(
            where=f"{where.gpu} (CUDA {where.cuda}, {_versions(vars(where))})",
            method=counters.method,
            copied=counters.copy.copied_bytes / 2**30,
            tolerance=TOLERANCE,
            missing=f"\nNot counted yet: {missing}.\n" if missing else "",
            asked=asked,
            from_dram=from_dram,
            sector=SECTOR,
            warps=WARPS,
            online=f"{levels.sizes_words(online)}, {room(online, gpu)}",
        )
    )


def main(arguments: list[str]) -> int:
    """Writes or checks the files; returns the exit status."""
    wanted = {THREE_NUMBERS: three_numbers()}
    for path, section in ((README, figures()), (NEWCOMERS, newcomers())):
        head, _, rest = path.read_text().partition(BEGIN)
        wanted[path] = head + section + rest.partition(END)[2]
    if "--check" in arguments:
        return int(any(not path.exists() or path.read_text() != text for path, text in wanted.items()))
    for path, text in wanted.items():
        path.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
