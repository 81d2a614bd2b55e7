"""What is kept: the same values make a result once; other values, types and objects make another."""

from __future__ import annotations

import numpy as np

from explain.kept import kept


def test_the_same_values_are_made_once_in_lists_and_mappings_too():
    made = []

    @kept
    def figure(values, *, names, narrow=False):
        made.append(values)
        return [values, names, narrow]

    first = figure([1, 2], names={"a": [3]})
    assert figure([1, 2], names={"a": [3]}) is first
    others = [figure([2, 1], names={"a": [3]}), figure([1, 2], names={"b": [3]}), figure([1.0, 2], names={"a": [3]})]
    assert len(made) == 4
    assert others[0] == [[2, 1], {"a": [3]}, False]


def test_arrays_are_the_same_if_they_are_one_object():
    @kept
    def total(array):
        return float(array.sum())

    one = np.ones(3)
    assert [total(one), total(2 * one), total(3 * one)] == [3, 6, 9]  # none is taken for one that is gone
