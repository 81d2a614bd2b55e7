"""Recipes: the name has all settings, and the scores follow them."""

from __future__ import annotations

import numpy as np
import pytest

from explain.experiment import Experiment
from kernels.inputs import PRESETS
from kernels.parameters import ParameterError
from kernels.recipes import HIDDEN, NANS, ORDERS, Recipe, preset_of

SIZES = {"rows": 3, "cols": 16, "block_n": 4}


def x(name: str, **sizes: object) -> np.ndarray:
    experiment = Experiment.of("softmax_safe", {**SIZES, **sizes}, name)
    return experiment.make_inputs()["x"]


def test_a_recipe_and_its_name_are_one():
    recipe = Recipe(scale=2.5, offset=-80000, order="falling", hidden="first_tile", nan="last")
    assert recipe.name == "made:scale=2.5,offset=-80000,order=falling,hidden=first_tile,nan=last"
    assert Recipe.parse(recipe.name) == recipe
    assert Recipe.parse("made:") == Recipe()
    assert Experiment.of("softmax_safe", SIZES, "made:offset=0.0, scale=3").inputs == "made:scale=3"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("made:scale=big", "scale must be a number from -10,000 to 10,000"),
        ("made:scale=inf", "scale must be a number"),
        ("made:scale=nan", "scale must be a number"),
        ("made:order=up", "order must be one of drawn, rising, falling"),
        ("made:depth=1", "scale, offset, order, hidden, nan"),
        ("sunshine", "or a recipe such as made:scale=100,order=falling"),
    ],
)
def test_what_is_no_recipe_is_refused_in_words(name, words):
    with pytest.raises(ParameterError, match=words):
        Experiment.of("softmax_safe", SIZES, name)


def test_a_setting_changes_nothing_else():
    plain = x("made:")
    np.testing.assert_allclose(x("made:offset=-200"), plain - 200, rtol=1e-6)
    np.testing.assert_allclose(x("made:scale=3"), 3 * plain, rtol=1e-6)
    assert (x("made:order=rising") == np.sort(plain, axis=1)).all()
    assert (x("made:order=falling") == np.sort(plain, axis=1)[:, ::-1]).all()


@pytest.mark.parametrize(
    ("hidden", "columns"),
    [("first_tile", range(4)), ("last_tile", range(12, 16)), ("every_third", range(0, 16, 3)), ("all", range(16))],
)
def test_hidden_scores_are_minus_infinity_where_it_says(hidden, columns):
    assert np.flatnonzero(np.isneginf(x(f"made:hidden={hidden}"))[0]).tolist() == list(columns)


@pytest.mark.parametrize(("nan", "column"), [("first", 0), ("middle", 8), ("last", 15)])
def test_a_nan_is_where_it_says(nan, column):
    assert np.flatnonzero(np.isnan(x(f"made:nan={nan}"))[0]).tolist() == [column]


@pytest.mark.parametrize("cols", [1, 3, 5])
def test_every_recipe_fits_a_short_row(cols):
    for recipe in (
        *(Recipe(hidden=h) for h in HIDDEN),
        *(Recipe(nan=n) for n in NANS),
        *(Recipe(order=o) for o in ORDERS),
    ):
        assert x(recipe.name, cols=cols).shape == (3, cols)


def test_a_preset_keeps_its_name():
    assert all(preset_of(name) is preset for name, preset in PRESETS.items())
