"""What is the same for every reader is made once: a pure function remembers what it made of the same values."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Mapping
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")
MOST = 128
"""Results of one function; the one unused for longest is forgotten first."""


def kept(make: Callable[P, R]) -> Callable[P, R]:
    """A pure function that is called once for the same values, also for lists and mappings of them.

    Values that cannot be compared, such as arrays or a record, count as the same if they are the same object. Nobody
    may change arguments or result.
    """

    @functools.lru_cache(maxsize=MOST)
    def again(call: Call) -> R:
        return make(*call.values, **call.named)

    @functools.wraps(make)
    def once(*values: P.args, **named: P.kwargs) -> R:
        return again(Call(values, named))

    return once


class Call:
    """A call's arguments, equal if all of them are."""

    def __init__(self, values: tuple[Any, ...], named: dict[str, Any]) -> None:
        self.values, self.named = values, named
        self._key = _key(values), _key(named)
        self._hash = hash(self._key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Call) and self._key == other._key

    def __hash__(self) -> int:
        return self._hash


def _key(value: Any) -> Hashable:
    """What stands for a value in a comparison. The call keeps an object alive, so its id stays its own."""
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        return tuple((name, _key(one)) for name, one in value.items())
    if isinstance(value, list | tuple):
        return tuple(map(_key, value))
    try:
        hash(value)
    except TypeError:
        return type(value), id(value)
    return type(value), value
