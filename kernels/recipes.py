"""Recipes: inputs of your own, made of normal scores: scale, shift, sort or hide them, add a NaN.

A recipe is a preset with all its settings in the name, so addresses and the command line take it like any preset:

    made:scale=100,order=falling         made:offset=-200,hidden=first_tile         made:nan=middle

Settings that are left out have `Recipe`'s defaults. All recipes share the same random numbers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

import numpy as np

from kernels.inputs import PRESETS, Preset
from kernels.parameters import ParameterError

PREFIX = "made"
ORDERS = ("drawn", "rising", "falling")
HIDDEN = ("none", "first_tile", "last_tile", "every_third", "all")
NANS = ("none", "first", "middle", "last")
LARGEST = {"scale": 1e4, "offset": 1e6}


@dataclass(frozen=True)
class Recipe:
    """scale · (normal scores) + offset, in `order`; scores of `hidden` keys are −inf, that of key `nan` is NaN."""

    scale: float = 1.0
    offset: float = 0.0
    order: str = "drawn"
    hidden: str = "none"
    nan: str = "none"

    @property
    def name(self) -> str:
        """The preset's name: the settings that differ from plain normal scores."""
        given = [(field.name, getattr(self, field.name), field.default) for field in fields(self)]
        parts = [f"{name}={_text(value)}" for name, value, default in given if value != default]
        return f"{PREFIX}:{','.join(parts)}"

    @property
    def words(self) -> str:
        """The recipe in words."""
        said = ["random normal scores"]
        if self.scale != 1:
            said.append(f"scaled by {self.scale:,.10g}")
        if self.offset:
            said.append(f"shifted by {self.offset:,.10g}".replace("-", "−"))
        if self.order != "drawn":
            said.append(f"in {self.order} order")
        if self.hidden != "none":
            said.append("all hidden" if self.hidden == "all" else f"{self.hidden.replace('_', ' ')} hidden")
        if self.nan != "none":
            said.append(f"the {self.nan} one NaN")
        return ", ".join(said)

    @classmethod
    def parse(cls, name: str) -> Recipe:
        """The recipe with this name. Raises ParameterError, which names the part that cannot be used."""
        given: dict[str, float | str] = {}
        for part in filter(None, name.removeprefix(PREFIX).removeprefix(":").split(",")):
            setting, _, text = (piece.strip() for piece in part.partition("="))
            if setting in LARGEST:
                given[setting] = _number(name, setting, text)
            elif setting in _CHOICES:
                if text not in _CHOICES[setting]:
                    raise ParameterError("inputs", name, f"{setting} must be one of {', '.join(_CHOICES[setting])}")
                given[setting] = text
            else:
                raise ParameterError("inputs", name, f"a recipe has the settings {', '.join(SETTINGS)}")
        return cls(**given)  # type: ignore[arg-type]  # each by its own name

    def scores(self, rng: np.random.Generator, rows: int, cols: int, tile: int) -> np.ndarray:
        """(rows, cols) scores; a tile has `tile` columns."""
        drawn = rng.standard_normal((rows, cols))
        if self.order != "drawn":
            drawn = np.sort(drawn, axis=1)[:, :: 1 if self.order == "rising" else -1]
        scores = self.scale * drawn + self.offset
        last_tile = (cols - 1) // tile * tile
        places = {
            "first_tile": slice(0, tile),
            "last_tile": slice(last_tile, None),
            "every_third": slice(None, None, 3),
        }
        if self.hidden != "none":
            scores[:, places.get(self.hidden, slice(None))] = -np.inf
        if self.nan != "none":
            scores[:, {"first": 0, "middle": cols // 2, "last": cols - 1}[self.nan]] = np.nan
        return scores

    def preset(self) -> Preset:
        """The recipe as a preset."""
        return Preset(self.name, self.words, self.scores)


_CHOICES = {"order": ORDERS, "hidden": HIDDEN, "nan": NANS}
SETTINGS = (*LARGEST, *_CHOICES)


def preset_of(name: object) -> Preset:
    """The preset or recipe of this name. Raises ParameterError, which lists them."""
    if isinstance(name, str) and name in PRESETS:
        return PRESETS[name]
    if isinstance(name, str) and name.partition(":")[0] == PREFIX:
        return Recipe.parse(name).preset()
    raise ParameterError("inputs", name, f"must be one of {', '.join(PRESETS)}, or a recipe such as {EXAMPLE}")


def _number(name: str, setting: str, text: str) -> float:
    most = LARGEST[setting]
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not abs(value) <= most:
        raise ParameterError("inputs", name, f"{setting} must be a number from {-most:,.0f} to {most:,.0f}")
    return value


def _text(value: float | str) -> str:
    return f"{value:.10g}" if isinstance(value, float | int) else value


EXAMPLE = Recipe(scale=100, order="falling").name
