"""Writes the figures of README.md and of docs/: checks, difference, newcomers, speed and three-numbers.

    python scripts/write_figures.py

They come from committed results. In all but the last it replaces everything between the two marks. `--check` writes
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
from explain import data  # noqa: E402
from explain.chapters.cross_entropy import figures as losses  # noqa: E402
from explain.chapters.cross_entropy import measured as loss  # noqa: E402
from explain.chapters.three_numbers import figures as levels  # noqa: E402
from explain.chapters.three_numbers import shown as lab  # noqa: E402
from explain.chapters.three_numbers.byte_accounting import WARPS, room  # noqa: E402
from explain.counters.model import SECTOR, TOLERANCE  # noqa: E402
from explain.figures.numbers import percent  # noqa: E402
from explain.figures.tables import Column, Columns, markdown  # noqa: E402
from explain.records import results  # noqa: E402
from explain.records.code import stale_parts, stale_words  # noqa: E402
from explain.records.plans import PLANS, sizes  # noqa: E402
from explain.records.registry import recorded  # noqa: E402
from explain.tab import PATIENCE_S  # noqa: E402

THREE_NUMBERS = ROOT / "docs" / "three-numbers.md"
README = ROOT / "README.md"
NEWCOMERS = ROOT / "docs" / "newcomers.md"
DIFFERENCE = ROOT / "docs" / "difference.md"
CHECKS = ROOT / "docs" / "checks.md"
SPEED = ROOT / "docs" / "speed.md"
WORDS: Mapping[str, Mapping[str, str]] = data(__file__)
"""The README's paragraphs, by the file of a result."""
BEGIN, END = "<!-- figures: written by scripts/write_figures.py -->", "<!-- end of figures -->"
Result = Mapping[str, Any]


def figures() -> str:
    """The README's section, from the committed results; a missing file has no part in it."""
    found = [(file, _read(ROOT / file)) for file in WORDS if (ROOT / file).exists()]
    return "\n\n".join(
        [BEGIN, *(text for file, result in found for text in (said(file, result), *_stale(result))), END]
    )


def _read(file: Path) -> Result:
    """A result; of a test's module nothing, since its fields are counted from what it holds."""
    return results.read(file) if file.suffix == ".json" else {}


def said(file: str, result: Result) -> str:
    """The README's paragraph on a result: its words of `write_figures.toml`, filled in, around its table."""
    more = {"table": "", "speed": _speed(result), **FIELDS.get(Path(file).stem, dict)(result)}
    words = {place: text.format_map({**result, **more}) for place, text in WORDS[file].items()}
    return "\n\n".join(filter(None, (words["head"], more["table"], words.get("after"))))


def _speed(result: Result) -> str:
    """How fast the machine's cores were, where the result says it: words to stand after their number."""
    if "loop_s" not in result:
        return ""
    took = " to ".join(dict.fromkeys(f"{result[at]:.2f}" for at in ("loop_before_s", "loop_s") if at in result))
    return f", five million steps of a Python loop in {took} s"


def _stale(result: Result) -> Iterator[str]:
    """A note below a stale result."""
    if result and (words := stale_words(stale_parts(result.get("code")))):
        yield f"*Stale: {words}.*"


def _versions(where: Mapping[str, str]) -> str:
    return f"driver {where['driver']}, torch {where['torch']}, triton {where['triton']}, {where['date']}"


def tracing(result: Result) -> Result:
    """The time of recording a run, as a table."""
    names = ("interpreter alone", "Tilescope's recorder", "triton-viz 3.0")
    ratios = ("recorder ÷ interpreter", "recorder ÷ triton-viz")
    times = [Column(name, "{:.0f} ms".format) for name in names]
    columns: Columns = ("N, d, tile", *times, *(Column(name, "**{:.2f}**".format) for name in ratios))
    rows = (
        (
            f"{row['seq_len']}, {row['head_dim']}, {row['tile']}×{row['tile']}",
            *(row["milliseconds"][name] for name in ("plain", "tilescope", "triton-viz")),
            row["of_plain"],
            row["of_triton_viz"],
        )
        for row in result["configs"]
    )
    return {"table": markdown(columns, rows)}


def player(result: Result) -> Result:
    """The time of a step in the player, as a table; limits that it exceeds are listed."""
    times = [f"{what} {quantile}" for what in ("draw", "key to painted frame") for quantile in ("p50", "p95")]
    columns: Columns = ("scores, steps", "students on the page", *(Column(one, "{:.1f} ms".format) for one in times))
    rows = (
        (
            f"{name.replace('x', '×')}, {measured['steps']:,}",
            circumstances.removeprefix("with ").removesuffix(" students"),
            *(measured[what][quantile] for what in ("draw_ms", "paint_ms") for quantile in ("p50", "p95")),
        )
        for name, lecture in result["lectures"].items()
        for circumstances, measured in lecture.items()
    )
    return {
        "table": markdown(columns, rows),
        "packet": result["packet_bytes"] / 1000,
        "chromium": result["versions"]["chromium"].partition(".")[0],
        "exceeded": f" Over the limit: {'; '.join(result['over'])}." if result["over"] else "",
    }


def foreign(result: Result) -> Result:
    """The kernels of other repositories, by repository, as a table."""
    names = ("files", "launched", "kernels", "compiled", "traced", "checked")
    titles = ("files", "launch kernels", "kernels", "compile", "traced", "checked")
    commits = {one["name"]: one["commit"][:8] for one in result["sources"]}
    columns: Columns = ("repository", "commit", *map(Column, titles))
    rows = [(name, commits[name], *(one[key] for key in names)) for name, one in result["folders"].items()]
    rows.append(("all", "", *(result[key] for key in names)))
    untraced = [f"`{name.rpartition(':')[2]}` ({why.partition(':')[0]})" for name, why in result["not_traced"].items()]
    return {
        "table": markdown(columns, rows),
        "share": percent(result["traced"] / result["compiled"], 1),
        "untraced": "; ".join(untraced) or "none",
        **faults(result),
    }


def faults(result: Result) -> Result:
    """How many files are blamed without a fault, and how many have one."""
    return {"blamed_files": len(result["blamed"]), "faulty_files": len(result["faulty"])}


def first_differences(result: Result) -> Result:
    """Of all bugs: how many there are, at how many the line is right, and how often the cause."""
    return {key: sum(half[key] for half in result["halves"].values()) for key in ("bugs", "line", "cause")}


def injected(result: Result) -> Result:
    """How many kinds of fault happened, and how often something came of it that should not have."""
    return {"many": len(result["kinds"]), "wrong_count": len(result["wrong"])}


def waits(result: Result) -> Result:
    """How long a class waited, in words."""
    control, page = (f"p50 {_ms(one['p50_ms'])}, p95 {_ms(one['p95_ms'])}" for one in (result, result["first_page"]))
    servers, rehearsed, option = result["processes"], "", ""
    if runs := result["rehearsed_runs"]:
        minutes = result["rehearsed_minutes"]
        option = f" --rehearsed {minutes}" if minutes else " --cache FOLDER"
        lasted = f" for {minutes} minutes on {result.get('rehearsed_cores') or result['cores']} cores" * bool(minutes)
        rehearsed = (
            f"Before, the cache had {runs:,} recorded runs (`python -m explain rehearse`{lasted}); in the lesson "
            f"{result['recorded_runs']:,} more were recorded. "
        )
    gave_up = result.get("gave_up", 0)
    waited = f" ({gave_up} of them after a wait of {PATIENCE_S:g} s)" if gave_up else ""
    return {
        "rehearsal": option,
        "students_on": "; the students are on others" if result.get("students_cores") else ", which the students share",
        "server": f"{servers} server processes behind nginx" if servers > 1 else "one server process",
        "waits": f"{rehearsed}A control answers after {control}; a page opens after {page}. In the middle the network "
        f"is gone for {result['blip_s']:g} s: sessions lost: {result['lost']}. Connections lost: {result['dropped']}"
        f"{waited}, pages failed: {result['failed']} ({result['date'][:10]}).",
    }


def _ms(milliseconds: float) -> str:
    return f"{milliseconds:.0f} ms" if milliseconds < 1000 else f"{milliseconds / 1000:.1f} s"


def fuzz(result: Result) -> Result:
    """The kinds of damaged files, and how many inputs broke something."""
    files = [f"{kind}s" if " of " not in kind else kind.replace(" of ", "s of ") for kind in result["kinds"]][1:]
    return {"files": f"{', '.join(files[:-1])} and {files[-1]}", "broken_count": len(result["broken"])}


def mutants(result: Result) -> Result:
    """The mutants found of each group, and the names of those that are not."""
    each = ", ".join(f"{one['found']} of {one['mutants']} in {group}" for group, one in result["groups"].items())
    missed = [*result["survived"], *result["without_verdict"], *result["failing_without_a_mutant"]]
    return {"each": each, "missed": f"Not found: {'; '.join(missed)}. " if missed else ""}


def any_shape(result: Result) -> Result:
    """The speed on random shapes, as a table."""
    return {"table": "\n".join(speed_random_table.lines(dict(result)))}


def verification(result: Result) -> Result:
    """The experiments on a GPU within tolerance."""
    right = [row for row in result["kernels"].values() if not row["wrong_on_purpose"]]
    counted = {
        name: sum(row[name] for row in right) for name in ("within_tolerance", "experiments", "zeros_would_miss")
    }
    return {**counted, "right": len(right), "on": _versions(result["provenance"])}


def cases(result: Result) -> Result:
    """The random cases: how many kernels and presets there are, and on what a GPU ran them."""
    on = {"on": _versions(result["provenance"])} if "gpu" in result["provenance"] else {}
    return {"right": len(result["kernels"]), "kinds": len(result["presets"]), **on}


def cross_entropy(result: Result) -> Result:
    """The times and the memory of a last layer, as a table."""
    found = loss.parsed(dict(result))
    tokens, on = f"{found.cases[0].tokens:,}", _versions(result["provenance"])
    method = result["method"][0].upper() + result["method"][1:]
    return {"table": losses.measured_table(found), "tokens": tokens, "on": on, "method": method}


def host(result: Result) -> Result:
    """What a call costs on the host, as a table."""
    graph = "in a graph"
    ways = {
        "ours": "ours",
        "torch": "PyTorch",
        f"ours {graph}": f"ours, {graph}",
        f"torch {graph}": f"PyTorch, {graph}",
    }
    rows = ((row["call"], *(1e6 * row["seconds"][way] for way in ways)) for row in result["rows"])
    table = markdown(("call", *(Column(name, "{:.1f} µs".format) for name in ways.values())), rows)
    ours, torchs = (1e3 * result["step"]["seconds"][way] for way in ("ours", "torch"))
    return {"table": table, "ours_ms": ours, "torch_ms": torchs, "on": _versions(result["provenance"])}


def gpu_suite(result: Result) -> Result:
    """How many tests ran on the GPU, which of them failed, and which did not run."""
    said = ""
    for outcome in ("failed", "not run"):
        named = [f"`{name.rpartition('/')[2]}`" for name, ended in result["tests"].items() if ended == outcome]
        said += f" {outcome.capitalize()}: {', '.join(named)}." if named else ""
    return {"ran": result["passed"] + result["failed"], "missed": said, "on": _versions(result["where"])}


def attacked(_: Result) -> Result:
    """How many attacks the tests try on the sandbox, and how many forged answers on the judge."""
    from tests.explain.puzzles import test_forgeries as forged  # these import what the other figures do not need
    from tests.explain.sandbox import attacks

    return {
        "attempts": len(attacks.ATTEMPTS),
        "exhaustions": len(attacks.EXHAUSTIONS),
        "forgeries": len(forged.FORGERIES),
        "refused": len(forged.BODIES) + len(forged.MODULES),
    }


FIELDS: Mapping[str, Callable[[Result], Result]] = {
    "tracing": tracing,
    "foreign": foreign,
    "checks": faults,
    "attacks": attacked,
    "difference": first_differences,
    "faults": injected,
    "classroom_load": waits,
    "hall_load": waits,
    "fuzz": fuzz,
    "mutants": mutants,
    "player": player,
    "speed": lambda result: {"table": "\n".join(speed_table.lines(dict(result)))},
    "speed_random": any_shape,
    "speed_random_h100": any_shape,
    "verification-h200": verification,
    "cases_gpu": cases,
    "cases_cpu": cases,
    "gpu_suite": gpu_suite,
    "cross_entropy": cross_entropy,
    "host": host,
}
"""What the words need beside a result's own fields, by the name of its file."""

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


SETS = {
    "first": "the museum and the test suite's mutants",
    "second": "written afterwards: plain, renamed, reordered, other tiles",
    "fresh": "written after that",
    "forms": "in kernels of another form, which the pairing by values was changed for",
}


def difference() -> str:
    """How often `explain diff` finds a bug's line and cause, as a table, and what it misses."""
    result = results.read(results.BENCHMARKS / "difference.json")
    counts = result["halves"]
    total = {name: sum(one[name] for one in counts.values()) for name in ("bugs", "line", "cause")}
    rows = [(SETS[name], *one.values()) for name, one in counts.items()] + [("all", *total.values())]
    table = markdown(("Bugs", Column("shown by an input"), Column("right line"), Column("right cause")), rows)
    shown = [row for row in result["bugs"] if row["shown"]]
    line = [row["bug"] for row in shown if not row["line"]]
    cause = [f"{row['bug']} ({row['said'] or 'unknown'})" for row in shown if row["line"] and not row["cause"]]
    unseen = [row["bug"] for row in result["bugs"] if not row["shown"]]
    right = result["right"]
    words = [
        f"Right variants called different: {right['blamed']} of {right['variants']}. They are renamed, reordered, "
        "have other tiles or another form, use exp2, or merge another way.",
        f"Another line: {'; '.join(line) or 'none'}.",
        f"Another cause, or an unknown one: {'; '.join(cause) or 'none'}.",
        f"Not shown by any of the small inputs tried, so not counted: {'; '.join(unseen) or 'none'}.",
        f"{result['date'][:10]}, {result['seconds']:.0f} s. Repeat: `python -m benchmarks.difference`.",
    ]
    return "\n\n".join([BEGIN, table, *words, *_stale(result), END])


def planted() -> str:
    """How many planted bugs the checks find: the README's paragraph."""
    file = "benchmarks/results/checks.json"
    result = results.read(ROOT / file)
    return "\n\n".join([BEGIN, said(file, result).replace("](benchmarks", "](../benchmarks"), *_stale(result), END])


def backward() -> str:
    """Attention backward on random shapes, by head_dim."""
    result = results.read(results.BENCHMARKS / "speed_random.json")
    where = result["provenance"]
    words = f"`benchmarks/results/speed_random.json`, {where['gpu']}, {_versions(where)}."
    return "\n\n".join([BEGIN, speed_random_table.backward_by_head_dim(result), words, *_stale(result), END])


def three_numbers() -> str:
    """A document: every kernel's bytes by formula, trace and counters at three sizes larger than L2.

    Raises ValueError if no counters are recorded.
    """
    record = recorded()
    if record is None:
        raise ValueError("no GPU's record was found; make one with: python -m explain measure")
    (differing, equal, runs, from_dram), gpu = lab.tables(record), lab.gpu_named(record.gpu)
    others = f"The other {runs} runs: L1 counts the trace's bytes, no register is spilled."
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
            asked="\n\n".join([differing, others, equal]),
            from_dram=from_dram,
            sector=SECTOR,
            warps=WARPS,
            online=f"{levels.sizes_words(online)}, {room(online, gpu)}",
        )
    )


def main(arguments: list[str]) -> int:
    """Writes or checks the files; returns the exit status."""
    wanted = {THREE_NUMBERS: three_numbers()}
    sections = {
        README: figures(), NEWCOMERS: newcomers(), DIFFERENCE: difference(), CHECKS: planted(), SPEED: backward()
    }  # fmt: skip
    for path, section in sections.items():
        head, _, rest = path.read_text().partition(BEGIN)
        wanted[path] = head + section + rest.partition(END)[2]
    if "--check" in arguments:
        return int(any(not path.exists() or path.read_text() != text for path, text in wanted.items()))
    for path, text in wanted.items():
        path.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
