"""The palette: every colour of the app, the player, the figures and the exports.

Nothing else has a quantity's colour. A kernel or library has the same hue on every page. States, code and each figure's
own categories have theirs. A hue is one value; what a theme needs of it is derived, with its contrast: a fill, an ink
(text in that hue, 4.5:1 or more on every ground of the theme) and a mid-tone (3:1 or more on both themes' grounds, for
Plotly, where a figure has one colour for both themes).

Pages and the player use CSS variables: `--f-NAME` fills, `--q-NAME` inks, and the plain names of GROUNDS, TEXTS and
LINES.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache

from explain import data

THEMES = ("light", "dark")
CLEAR = "rgba(0, 0, 0, 0)"
"""No colour, for Plotly: the inside of an open mark."""

Hues = Mapping[str, str]
Pairs = Mapping[str, Sequence[str]]
"""For the light theme and for the dark one."""

_DATA = data(__file__)
QUANTITIES: Hues = _DATA["quantities"]
SYMBOLS: Mapping[str, str] = _DATA["symbols"]
"""The hue of each symbol, in text and pictures."""
_SEEDS: Mapping[str, Pairs] = _DATA["seeds"]
KERNELS: Hues = _DATA["kernels"]
"""Kernels and libraries by the catalog's `hue`."""
SERIES: Hues = _DATA["series"]
"""A figure's own categories, in order."""
STATES: Hues = _DATA["states"]
HUES: Hues = {**QUANTITIES, **KERNELS, **SERIES, **STATES}
GROUNDS: Pairs = _DATA["grounds"]
"""What text stands on."""
TEXTS: Pairs = _DATA["texts"]
"""What is read, in both themes: 4.5:1 or more on every ground."""
LINES: Pairs = _DATA["lines"]
"""Rules, outlines and cells, and the letters that stand on fills."""
RAMPS: Mapping[str, Sequence[Sequence[str]]] = _DATA["ramps"]
"""Colour ramps of numbers, for each theme. In CSS: `--ramp-NAME`, spaces between."""


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
        raise ValueError(f"{name!r} is not a hue of the palette; allowed: {', '.join(HUES)}")
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
