"""What is kept: the same values make a result once; other values, types and objects make another."""

from __future__ import annotations

import gc
import operator
import weakref
from functools import partial

import numpy as np
import pytest

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


@pytest.mark.parametrize("wrapped", [lambda one: one, lambda one: [one], lambda one: {"a": (one,)}])
def test_an_object_is_not_kept_alive_and_what_comes_in_its_place_is_another(wrapped):
    made = []

    @kept
    def shape(values):
        made.append(1)
        return len(made)

    array = np.ones(3)
    gone = weakref.ref(array)
    assert shape(wrapped(array)) == shape(wrapped(array)) == 1
    del array
    gc.collect()
    assert gone() is None
    for _ in range(100):  # some at the same address
        shape(wrapped(np.ones(3)))
    assert len(made) == 101


def test_an_object_without_weak_references_is_the_same_while_it_is_kept():
    @kept
    def first(values):
        return [values[0]]

    one = bytearray(b"a")
    assert first(one) is first(one)
    assert first(bytearray(b"b")) == [ord("b")]


def test_an_error_is_raised_each_time_and_lets_the_values_go():
    @kept
    def refused(array):
        raise ValueError(array.shape)

    array = np.ones(3)
    gone = weakref.ref(array)
    for _ in range(2):
        with pytest.raises(ValueError, match="3"):
            refused(array)
    del array
    gc.collect()
    assert gone() is None


def test_a_partial_call_of_the_same_function_with_the_same_values_is_the_same():
    made: list[object] = []

    @kept
    def call(what: partial[object]) -> object:
        made.append(what)
        return what()

    assert [call(partial(operator.add, [1], [2])) for _ in range(2)] == [[1, 2]] * 2
    assert len(made) == 1
    assert call(partial(operator.add, [1], [3])) == [1, 3]
    assert call(partial(operator.sub, 3, 1)) == 2
    assert call(partial(dict, a=1)) != call(partial(dict, a=2))
