"""What is the same for every reader is made once: a pure function remembers what it made of the same values."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Hashable, Mapping
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")
MOST = 128
"""Results of one function; the one unused for longest is forgotten first."""


def kept(make: Callable[P, R]) -> Callable[P, R]:
    """A pure function that is called once for the same values, also for lists, mappings and partial calls of them.

    Values that cannot be compared, such as arrays, a record or a trace, count as the same if they are the same object.
    They are not kept alive: a class looks at thousands of traces. Nobody may change arguments or result.
    """

    @functools.lru_cache(maxsize=MOST)
    def again(call: Call) -> R:
        return make(*call.values, **call.named)

    @functools.wraps(make)
    def once(*values: P.args, **named: P.kwargs) -> R:
        call = Call(values, named)
        try:
            return again(call)
        finally:
            call.let_go()

    return once


class Call:
    """A call's arguments, equal if all of them are; also after `let_go`, when only their comparison is left."""

    def __init__(self, values: tuple[Any, ...], named: dict[str, Any]) -> None:
        self.values, self.named = values, named
        self._key = _key(values), _key(named)
        self._hash = hash(self._key)

    def let_go(self) -> None:
        """Keeps the arguments no longer: the call has been made."""
        self.values, self.named = (), {}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Call) and self._key == other._key

    def __hash__(self) -> int:
        return self._hash


class _Itself:
    """Stands for one object, as long as that is there; for one without weak references also keeps it there."""

    def __init__(self, value: Any) -> None:
        self._id = id(value)
        try:
            self._value: Callable[[], Any] = weakref.ref(value)
        except TypeError:
            self._value = functools.partial(_given, value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Itself) and (value := self._value()) is not None and value is other._value()

    def __hash__(self) -> int:
        return self._id


def _given(value: Any) -> Any:
    return value


def _key(value: Any) -> Hashable:
    """What stands for a value in a comparison."""
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        return tuple((name, _key(one)) for name, one in value.items())
    if isinstance(value, list | tuple):
        return tuple(map(_key, value))
    if isinstance(value, functools.partial):
        return _key(value.func), _key(value.args), _key(value.keywords)
    try:
        hash(value)
    except TypeError:
        return _Itself(value)
    return type(value), value
