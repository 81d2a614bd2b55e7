"""The palette: every colour of the app, the player, the figures and the exports.

A quantity's colour is nobody else's. A kernel or library has the same hue on every page. States, code and each figure's
own categories have theirs. A hue is one value; what a theme needs of it is derived, with its contrast: a fill, an ink
(text in that hue, 4.5:1 or more on every ground of the theme) and a mid-tone (3:1 or more on both themes' grounds, for
Plotly, where a figure has one colour for both themes).

Pages and the player use CSS variables: `--f-NAME` fills, `--q-NAME` inks, and the plain names of GROUNDS, TEXTS and
LINES.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache

THEMES = ("light", "dark")

QUANTITIES: Mapping[str, str] = {
    "max": "#0072b2",  # running max m
    "sum": "#009e73",  # running sum ℓ
    "alpha": "#d55e00",  # rescale factor α
    "scores": "#8073ac",  # S
    "p": "#56b4e9",  # P̃ = exp(S − m), and the weights P after the division
    "acc": "#cc79a7",  # accumulator Õ, output O
    "hbm": "#e69f00",  # HBM, the bytes that go there, and what comes from there as it is: Q, K, V
}
"""Okabe & Ito's colours, and purple: told apart by every eye."""

SYMBOLS: Mapping[str, str] = {
    **dict.fromkeys(("Q", "K", "V"), "hbm"),
    **dict.fromkeys(("x", "S"), "scores"),
    **dict.fromkeys(("P̃", "P", "y"), "p"),
    **dict.fromkeys(("Õ", "O"), "acc"),
    "m": "max",
    "ℓ": "sum",
    "α": "alpha",
}
"""The hue of each symbol, in text and pictures. A softmax reads scores x and makes weights y."""

_SEEDS: Mapping[str, Mapping[str, tuple[str, str]]] = {
    "fill": {"max": ("#0072b2", "#4a96ff"), "alpha": ("#d55e00", "#f07f2a"), "scores": ("#8073ac", "#9a86e0")},
    "ink": {
        "max": ("#0052b4", "#5aa0ff"),
        "alpha": ("#b83c00", "#ff9a62"),
        "scores": ("#6a4fa0", "#bba9f5"),
        "p": ("#007a8c", "#5fd6f0"),
        "hbm": ("#7a6200", "#f0b429"),
    },
}
"""What a theme's fill or ink is derived from where the hue itself would come too close to another."""

KERNELS: Mapping[str, str] = {
    f"kernel-{hue}": value
    for hue, value in enumerate((
        "#426e54",  # 0: made for Hopper; naive softmax
        "#a15305",  # 1: standard attention; safe softmax
        "#565ac1",  # 2: FlashAttention-2; online softmax
        "#6c95a7",  # 3: a whole row on chip
        "#7d9d50",  # 4: base 2; tiles of rows
        "#9d3c97",  # 5: FlashAttention-1; split and merged
        "#979919",  # 6: top-k
        "#c0445c",  # 7: wrong on purpose
        "#eb323c",  # 8: PyTorch
        "#b37ed4",  # 9: the library's FlashAttention-2
        "#2092fb",  # 10: cuDNN
        "#755d74",  # 11: FlashAttention-3 and 4
        "#b78787",  # 12: QuACK
    ))
}  # fmt: skip
"""Kernels and libraries by the catalog's `hue`. Kernels that share one are never in one picture."""

SERIES: Mapping[str, str] = {
    f"series-{i}": value
    for i, value in enumerate(
        ("#1a9ee5", "#ca8069", "#82d8a1", "#8f91bb", "#a78e3c", "#29d9fd", "#6b9892", "#e1bfce", "#bdce77"), 1
    )
}
"""A figure's own categories, in order: paler than kernels, so that they are not taken for them.

Dark letters can be read on all.
"""

STATES: Mapping[str, str] = {
    "alarm": "#d0107c",  # wrong, exceeds its tolerance, does not fit
    "warning": "#b8a200",  # stale, unknown
    "right": "#4c9a00",  # checked and right
    "slate": "#63788e",  # neutral: chips, roofs, waits, references
}

HUES: Mapping[str, str] = {**QUANTITIES, **KERNELS, **SERIES, **STATES}

GROUNDS: Mapping[str, tuple[str, str]] = {
    "ground": ("#ffffff", "#12171c"),
    "code-ground": ("#f2f4f6", "#1d242b"),
    "raised": ("#eceff2", "#28313a"),
    "now": ("#fff1c2", "#40361a"),  # the line, tile or value of this step
    "added": ("#e6f4dc", "#1c3321"),  # of a diff
    "removed": ("#fbe3ef", "#43202f"),
}
"""What text stands on, in the light and in the dark."""

TEXTS: Mapping[str, tuple[str, str]] = {
    "text": ("#17212b", "#e9edf0"),
    "muted": ("#55606b", "#aeb6be"),  # captions, line numbers
    "link": ("#3f5468", "#b9c9d6"),
    "syn-keyword": ("#8a2f6b", "#f0b0d8"),
    "syn-string": ("#46622a", "#b9dc93"),
    "syn-number": ("#48505f", "#ccd2de"),
    "syn-comment": ("#596069", "#b3bac6"),
    "syn-function": ("#17212b", "#fafafa"),
    "diff-added": ("#2f5d00", "#a8e07a"),
    "diff-removed": ("#98004f", "#ffb0d6"),
}
"""What is read, in both themes: 4.5:1 or more on every ground."""

LINES: Mapping[str, tuple[str, str]] = {
    "line": ("#d3dae0", "#3a4550"),
    "faint": ("#9aa4ae", "#6b7783"),
    "written": ("#fbe3b0", "#5d4718"),  # HBM that holds a result
    "masked": ("#d3d6dc", "#3d434e"),
    "nan": ("#d6007f", "#ff4fb8"),
    "dark-letters": ("#17212b", "#17212b"),  # on a pale fill, in either theme
    "light-letters": ("#ffffff", "#ffffff"),
}
"""Rules, outlines and cells, and the letters that stand on fills."""

RAMPS: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "scores": (
        ("#3a4654", "#7e8d9c", "#cdd5dc", "#f7f7f5", "#c3bde0", "#8073ac", "#4a2383"),
        ("#d5dee7", "#8b9bab", "#3d4853", "#22262e", "#55468e", "#9a86e0", "#d3c6ff"),
    ),
    "output": (
        ("#3a4654", "#7e8d9c", "#cdd5dc", "#f7f7f5", "#f3cfe2", "#d67fae", "#93316a"),
        ("#d5dee7", "#8b9bab", "#3d4853", "#22262e", "#64354f", "#c273a0", "#ffc4e3"),
    ),
    "inputs": (
        ("#3a4654", "#7e8d9c", "#cdd5dc", "#f7f7f5", "#f8dfa4", "#e6ab2c", "#8f6500"),
        ("#d5dee7", "#8b9bab", "#3d4853", "#22262e", "#5a4412", "#b98718", "#ffd98c"),
    ),
    "reads": (("#f1f3f6", "#c6ccd7", "#8f98a9", "#525b6b"), ("#232831", "#474f5d", "#7b8494", "#c0c7d3")),
    "share": (("#f7f7f5", "#a9d8f4", "#56b4e9", "#2484bd"), ("#22262e", "#2b566e", "#3f93c2", "#8fd2f7")),
}
"""Colour ramps of numbers: from the most negative, slate, to the largest in the quantity's hue, or from 0 up.

In CSS: `--ramp-NAME`, spaces between.
"""


def contrast(one: str, other: str) -> float:
    """WCAG's contrast of two colours, 1 to 21."""
    darker, lighter = sorted((_luminance(one), _luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


@cache
def fill(name: str, theme: str = "light") -> str:
    """A hue's fill: itself in the light, lighter in the dark where it would be too dim."""
    colour, ground = _seed("fill", name, theme), GROUNDS["raised"][1]
    return colour if theme == "light" else _until(colour, "#ffffff", lambda one: contrast(one, ground) >= 4)


@cache
def ink(name: str, theme: str = "light") -> str:
    """A hue as text: 4.5:1 or more on every ground of the theme."""
    at = THEMES.index(theme)
    grounds = [pair[at] for pair in GROUNDS.values()]
    towards = ("#000000", "#ffffff")[at]
    seed = _seed("ink", name, theme)
    return _until(seed, towards, lambda one: all(contrast(one, ground) >= 4.5 for ground in grounds))


@cache
def mid(name: str) -> str:
    """A hue for both themes at once: 3:1 or more on the light ground and on the dark one."""
    light, dark = GROUNDS["ground"]
    towards = "#000000" if contrast(HUES[name], light) < 3 else "#ffffff"
    return _until(HUES[name], towards, lambda one: min(contrast(one, light), contrast(one, dark)) >= 3)


@cache
def letters(colour: str) -> str:
    """Dark or light letters, whichever can be read better on a fill."""
    return max((LINES["dark-letters"][0], LINES["light-letters"][0]), key=lambda one: contrast(one, colour))


def kernel(hue: int) -> str:
    """The name of a kernel's hue: `fill(kernel(entry.hue))`, `mid(…)`, `css(…)`.

    Raises ValueError for one that does not exist.
    """
    name = f"kernel-{hue}"
    if name not in KERNELS:
        raise ValueError(f"hue={hue}: the palette has kernel hues 0 to {len(KERNELS) - 1}")
    return name


def css(name: str) -> str:
    """A hue's fill in a picture on a page, right in both themes: "var(--f-hbm)".

    Raises ValueError for an unknown name.
    """
    return f"var(--f-{_known(name)})"


def css_ink(name: str) -> str:
    """A hue's ink, for text in a picture on a page: "var(--q-hbm)". Raises ValueError for an unknown name."""
    return f"var(--q-{_known(name)})"


def variables(theme: str) -> str:
    """The CSS declarations of one theme: "--f-max: #0072b2; …"."""
    return " ".join(f"--{name}: {value};" for name, value in _values(theme))


def both_themes() -> str:
    """The CSS declarations of both themes, by the element's colour scheme: "--f-max: light-dark(#0072b2, …); …"."""
    pairs = zip(_values("light"), _values("dark"), strict=True)
    return " ".join(f"--{name}: light-dark({light}, {dark});" for (name, light), (_, dark) in pairs)


def _seed(use: str, name: str, theme: str) -> str:
    return _SEEDS[use].get(name, (HUES[name], HUES[name]))[THEMES.index(theme)]


def _known(name: str) -> str:
    if name not in HUES:
        raise ValueError(f"{name!r} is no hue of the palette; there are {', '.join(HUES)}")
    return name


def _values(theme: str) -> Iterator[tuple[str, str]]:
    at = THEMES.index(theme)
    for name in HUES:
        yield f"f-{name}", fill(name, theme)
        yield f"q-{name}", ink(name, theme)
    for group in (GROUNDS, TEXTS, LINES):
        yield from ((name, pair[at]) for name, pair in group.items())
    yield "alarm", ink("alarm", theme)
    for name, ramp in RAMPS.items():
        yield f"ramp-{name}", " ".join(ramp[at])


def _until(colour: str, towards: str, enough: Callable[[str], bool]) -> str:
    """The first of 101 steps from one colour towards another that is enough."""
    pairs = list(zip(_channels(colour), _channels(towards), strict=True))
    steps = ("#" + "".join(f"{round(a + (b - a) * i / 100):02x}" for a, b in pairs) for i in range(101))
    return next(step for step in steps if enough(step))


def _luminance(colour: str) -> float:
    """WCAG's relative luminance, 0 to 1."""
    shares = [channel / 255 for channel in _channels(colour)]
    linear = [share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4 for share in shares]
    return sum(weight * share for weight, share in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def _channels(colour: str) -> tuple[int, int, int]:
    red, green, blue = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
    return red, green, blue
