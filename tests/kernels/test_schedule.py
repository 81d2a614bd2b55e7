"""The schedule has each tile once, no idle program, and programs that end at nearly the same time."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kernels import edits, schedule
from kernels.edits import Edit
from kernels.schedule import START, deal, lists, longest, tile_visits

small = st.integers(1, 12)
SMS = 132
CAUSAL = ((256, 16, 128, 2048), (256, 11, 192, 2048), (64, 43, 192, 8192))
"""heads, tiles of rows, rows of a tile, keys"""
WORSE = (
    Edit("shortest first", "deal", "-visits[tile]", "visits[tile]"),
    Edit("as they come", "deal", "sorted(range(len(visits)), key=lambda tile: -visits[tile])", "range(len(visits))"),
    Edit("as if all were equally long", "deal", "visits[tile] + START", "START"),
)


def loads(dealt, visits):
    """Each program's work in visits."""
    return [sum(visits[tile % len(visits)] + START for tile in own) for own in dealt]


def excess(module, heads, m_tiles, block_m, kv_len):
    """How much longer the last program works than the mean, as a share of the mean."""
    visits = tile_visits(m_tiles, block_m, kv_len, 128, 0)
    busy = loads(module.deal(heads, visits, SMS), visits)
    return max(busy) / (sum(busy) / SMS) - 1


@given(small, st.lists(st.integers(1, 64), min_size=1, max_size=20), small)
def test_each_tile_is_dealt_once_nobody_is_idle_and_the_last_is_late_by_less_than_a_tile(heads, visits, programs):
    dealt = deal(heads, tuple(visits), programs)
    assert sorted(tile for own in dealt for tile in own) == list(range(heads * len(visits)))
    assert len(dealt) == min(programs, heads * len(visits))
    assert all(dealt)
    busy = loads(dealt, visits)
    assert max(busy) < sum(busy) / len(dealt) + max(visits) + START  # Graham's bound


@pytest.mark.parametrize("shape", CAUSAL)
def test_under_a_causal_mask_the_longest_is_within_2_percent_of_the_mean(shape):
    assert excess(schedule, *shape) < 0.02


@pytest.mark.parametrize("edit", WORSE, ids=lambda edit: edit.name)
def test_another_order_is_worse(edit):
    other = edits.load("kernels.schedule", edit)
    assert all(excess(other, *shape) > max(0.02, 2 * excess(schedule, *shape)) for shape in CAUSAL)


def test_equal_tiles_are_dealt_one_by_one():
    assert deal(3, (5,) * 4, 5) == [[0, 5, 10], [1, 6, 11], [2, 7], [3, 8], [4, 9]]


@given(st.integers(1, 4), st.sampled_from((64, 128, 192)), st.integers(1, 700), st.integers(-400, 400))
def test_a_tile_visits_what_one_of_its_rows_sees_and_at_least_one(m_tiles, block_m, kv_len, diagonal):
    for tile, visits in enumerate(tile_visits(m_tiles, block_m, kv_len, 128, diagonal)):
        rows = range(tile * block_m, (tile + 1) * block_m)
        seen = {key // 128 for row in rows for key in range(min(kv_len, row + diagonal + 1))}
        assert visits == max(1, len(seen))
    assert tile_visits(m_tiles, block_m, kv_len, 128, None) == (len(range(0, kv_len, 128)),) * m_tiles


def test_the_kernel_gets_a_column_of_tiles_for_each_program_and_how_many_are_its_own():
    visits = tile_visits(3, 192, 576, 128, 0)
    counts, tiles = lists(6, visits, 4, torch.device("cpu"))
    assert counts.dtype == tiles.dtype == torch.int32
    assert [tiles[:count, at].tolist() for at, count in enumerate(counts)] == deal(6, visits, 4)
    assert len(tiles) > counts.max()


@given(small, st.lists(st.integers(1, 9), min_size=1, max_size=9), small)
def test_the_longest_program_is_the_one_that_the_others_wait_for(heads, visits, programs):
    for own in (tuple(visits), (visits[0],) * len(visits)):
        assert longest(heads, own, programs, START) == max(loads(deal(heads, own, programs), own))
