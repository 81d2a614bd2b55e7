"""m and ℓ of a row, tile by tile and merge by merge, against the same row in float64."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest

from explain import lessons
from explain.chapters.online_softmax import figures, history
from explain.experiment import Experiment
from explain.figures import svg
from explain.run_experiment import run_traced
from explain.trace.model import Trace


def run(experiment: Experiment) -> tuple[Experiment, Trace, np.ndarray]:
    row = experiment.make_inputs()["x"][0]
    return experiment, run_traced(experiment, "all", lambda *_: None)[0], row.astype(np.float64)


def pair(x: np.ndarray) -> tuple[float, float]:
    return float(x.max()), float(np.exp(x - x.max()).sum())


@pytest.mark.parametrize("lesson", [lessons.element_by_element(lessons.ONLINE), lessons.ROWS, lessons.TOPK])
def test_each_tile_has_m_and_l_of_the_elements_so_far(lesson):
    experiment, trace, row = run(lesson)
    tiles = history.tiles(experiment, trace)
    assert sum(tile.x.size for tile in tiles) == row.size
    for at, tile in enumerate(tiles, 1):
        so_far = np.concatenate([one.x for one in tiles[:at]]).astype(np.float64)
        assert (tile.m, tile.total) == pytest.approx(pair(so_far), rel=1e-5)
    assert figures.growth(tiles).startswith("<svg")
    width = re.findall(r'viewBox="0 0 ([\d.]+)', figures.growth(tiles, narrow=True))
    assert svg.LEGIBLE * float(width[0]) <= 388  # a phone


@pytest.mark.parametrize("order", ["tree", "left to right", "right to left"])
def test_the_last_merge_has_the_pair_of_the_whole_row(order):
    experiment, trace, row = run(lessons.MERGED.with_(order=order))
    pairs, merges = history.merges(experiment, trace)
    assert len(merges) == len(pairs) - 1
    assert (merges[-1].m, merges[-1].total) == pytest.approx(pair(row), rel=1e-5)
    for tile, found in enumerate(pairs):
        assert found == pytest.approx(pair(row[4 * tile : 4 * tile + 4]), rel=1e-5)


def test_a_row_of_one_tile_has_no_merge():
    experiment, trace, row = run(lessons.MERGED.with_(cols=4, block_n=4))
    pairs, merges = history.merges(experiment, trace)
    assert not merges
    assert pairs[0] == pytest.approx(pair(row), rel=1e-5)


def test_a_sum_that_is_no_number_is_not_drawn():
    assert figures.growth([history.Tile(np.ones(1), 1.0, 0.0, math.nan)]) == ""
