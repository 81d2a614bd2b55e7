"""Pictures and tables of the benchmark's result: a case's variants as bars under their roof, a curve over the length, ratios to baselines. Values in; SVG, Plotly or markdown out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import plotly.graph_objects as go

from explain.chapters.speed.results import LABELS, TABLES, Case, Limit, Variant, all_baselines, ratio
from explain.figures import palette, svg
from explain.figures.lines import Line, chart

OURS = ("#0072B2", "#009E73", "#56B4E9", "#8073AC", "#9AA83A", "#63788E")
BASELINES = ("#E69F00", "#CC79A7", "#D55E00", "#B58900")
WIDTH, ROW, TOP, MOST = 540.0, 46.0, 24.0, "800px"  # a phone shows all of it


def rate(per_second: float, unit: str) -> str:
    """ "659 TFLOP/s", "4.25 TB/s"."""
    tera = per_second / 1e12
    return f"{tera:.{0 if tera >= 99.95 else 1 if tera >= 9.995 else 2}f} T{unit}"


def colours(cases: Sequence[Case]) -> Mapping[str, str]:
    """A colour for each function of these cases, ours from one list and the others' from another; who is fastest where changes none."""
    found: dict[str, str] = {}
    for variant in _functions(cases):
        palette = OURS if variant.ours else BASELINES
        taken = sum(colour in palette for colour in found.values())
        found[variant.function] = palette[taken % len(palette)]
    return found


def _functions(cases: Sequence[Case]) -> list[Variant]:
    """One variant of each function, by name."""
    seen = {one.function: one for case in cases for one in case.variants if not one.floor}
    return [seen[function] for function in sorted(seen)]


def bars(case: Case, limit: Limit | None, colour: Mapping[str, str]) -> str:
    """A bar for each kernel, as long as it is fast, with its share of the roof and its error; one that has no time says why instead."""
    variants = case.best
    longest = max([one.per_second or 0.0 for one in variants] + ([limit.per_second] if limit else []) + [1.0])
    height = TOP + ROW * len(variants)
    parts = []
    for at, one in enumerate(variants):
        y = TOP + at * ROW
        parts.append(svg.text(0, y + 15, one.label, bold=one.ours))
        about = ["ours"] * one.ours + ([f"error {_plain(one.error)} of tolerance"] if one.error is not None else [])
        parts.append(svg.text(WIDTH / 2 - 60, y + 15, ", ".join(about), size=12, faint=True))
        if one.per_second is None:
            why = "the result exceeds its tolerance" if one.missed else _short(one.why)
            parts.append(
                svg.text(
                    0,
                    y + 35,
                    f"no time: {why}",
                    size=12,
                    fill=palette.css_ink("alarm") if one.missed else "",
                    faint=not one.missed,
                )
            )
            continue
        share = f" · {one.per_second / limit.per_second:.0%}" if limit else ""
        parts.append(svg.text(WIDTH, y + 15, f"{rate(one.per_second, case.unit)}{share}", anchor="end", bold=one.ours))
        options = f"{one.label} {one.options}".strip()
        parts.append(svg.rect(0, y + 22, WIDTH * one.per_second / longest, 15, colour[one.function], title=options))
    if limit:
        x = WIDTH * limit.per_second / longest
        parts += [svg.rect(x - 1.5, TOP + at * ROW + 20, 1.5, 19, "currentColor") for at in range(len(variants))]
        words = f"roof: {limit.name}, {rate(limit.per_second, case.unit)}"
        parts.append(svg.text(x, 14, f"{words} ▕", size=12, anchor="end"))
    return svg.picture(WIDTH, height, f"How fast each kernel is on {case.words}", parts, most=MOST)


def told(case: Case, limit: Limit | None) -> str:
    """What the bars come to, in a sentence."""
    ours = case.ours
    if ours is None or ours.per_second is None:
        return "None of our kernels has a time here."
    said = [f"{ours.per_second / limit.per_second:.0%} of the roof"] if limit else []
    said += [f"{ratio(ours, baseline):.2f} × {baseline.label}" for baseline in case.baselines]
    number = f"**{ours.label}** does **{rate(ours.per_second, case.unit)}**"
    return f"{number}: {', '.join(said)}." if said else f"{number}."


def settings(case: Case) -> str:
    """Which settings the bars are of, where more than one was tried; empty otherwise."""
    several = [variant for variant in case.best if variant.settings > 1 and variant.seconds is not None]
    said = [f"{one.label} with {one.options}, the fastest of {one.settings} settings" for one in several]
    return "; ".join(said)


def curve(cases: Sequence[Case], limits: Sequence[Limit | None], colour: Mapping[str, str]) -> go.Figure:
    """What each kernel reaches over the length, and the roof dashed. `limits` are the cases' own."""
    unit, along = cases[0].unit, TABLES[cases[0].table].along
    lines = []
    for variant in _functions(cases):
        own = [(case.along, one) for case in cases for one in case.best if one.function == variant.function]
        points = [(x, one.per_second / 1e12) for x, one in own if one.per_second]
        lines.append(Line(points, variant.label, colour[variant.function]))
    roofs = [(case.along, limit.per_second / 1e12) for case, limit in zip(cases, limits, strict=True) if limit]
    name = next((limit.name for limit in limits if limit), "")
    lines.append(Line(roofs, f"roof: {name}", palette.mid("slate"), dashed=True))
    titles = {"N": "N, queries and keys", "V": "V, elements in a row"}
    return chart("", lines, x=titles[along], y=f"T{unit}", unit=f" T{unit}", height=400)


def table(cases: Sequence[Case], limits: Sequence[Limit | None]) -> str:
    """Every shape: our fastest kernel, its share of the roof, and how many times as fast as each baseline it is; as markdown."""
    baselines = all_baselines(cases)
    heads = [
        "shape",
        "our fastest",
        "reaches",
        "of the roof",
        *(f"× {LABELS.get(baseline, baseline)}" for baseline in baselines),
    ]
    lines = ["| " + " | ".join(heads) + " |", "|---|---|" + "---:|" * (len(heads) - 2)]
    for case, limit in zip(cases, limits, strict=True):
        ours = case.ours
        if ours is None or ours.per_second is None:
            cells = [case.words, "none has a time", *["–"] * (len(heads) - 2)]
        else:
            beside = {baseline.function: baseline for baseline in case.baselines}
            share = f"{ours.per_second / limit.per_second:.0%}" if limit else "–"
            ratios = [_ratio(ours, beside.get(baseline)) for baseline in baselines]
            cells = [case.words, f"{ours.label}", f"**{rate(ours.per_second, case.unit)}**", share, *ratios]
        lines.append("| " + " | ".join(cells) + " |")
    dimensions = " × ".join(TABLES[cases[0].table].dimensions) if cases else ""
    return "\n".join(lines).replace("| shape |", f"| {dimensions} |", 1)


def _ratio(ours: Variant, baseline: Variant | None) -> str:
    return f"{ratio(ours, baseline):.2f}" if baseline else "–"


def _plain(error: float) -> str:
    return f"{error:.2f}" if error < 100 else f"{error:.3g}"


def _short(why: str) -> str:
    """A reason in one line of the picture."""
    first = why.strip().splitlines()[0] if why.strip() else "the reason was not recorded"
    return first if len(first) <= 70 else first[:69].rstrip() + "…"
