"""Frozen dataclasses as JSON and back: every value that is stored or travels between processes."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from itertools import repeat
from types import NoneType, UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

T = TypeVar("T")
Kinds = Mapping[str, type | tuple[type, ...]]
"""The types that each field of a table may have."""
_WORDS: Mapping[type, str] = {
    str: "text", list: "a list", tuple: "a list", int: "a whole number", float: "a number", bool: "true or false",
    Mapping: "a table", NoneType: "None",
}  # fmt: skip
LONGEST_QUOTE = 80  # characters


def plain(value: Any) -> Any:
    """The value in JSON's types. A value with a `to_json`, such as an Experiment, is asked for it."""
    if hasattr(value, "to_json"):
        return value.to_json()
    if is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {name: plain(one) for name, one in value.items()}
    return [plain(one) for one in value] if isinstance(value, tuple | list) else value


def made(kind: type[T], data: Mapping[str, Any]) -> T:
    """The dataclass of this kind from what `plain` returned. Raises TypeError for a missing, unknown or wrong field."""
    if not isinstance(data, Mapping):
        raise TypeError(f"{short(repr(data))}, which should be {kind.__name__}")
    hints = _hints(kind)  # type: ignore[arg-type]  # a class can be hashed
    return kind(**{name: _value(hints.get(name), value, name) for name, value in data.items()})


@functools.cache
def _hints(kind: Any) -> Mapping[str, Any]:
    return get_type_hints(kind)


def _value(kind: Any, value: Any, name: str) -> Any:
    own = get_args(kind)
    if get_origin(kind) is UnionType:
        known = next(one for one in own if one is not NoneType)
        return None if value is None and NoneType in own else _value(known, value, name)
    if own and isinstance(value, Mapping):
        return {key: _value(own[1], one, name) for key, one in value.items()}
    if own and isinstance(value, list | tuple):
        return tuple(_value(one, part, name) for one, part in zip(_parts(own, len(value)), value, strict=True))
    if hasattr(kind, "from_json"):
        return kind.from_json(value)
    if is_dataclass(kind):
        return made(kind, value)  # type: ignore[arg-type]
    if kind in (None, Any) or type(value) is kind or (kind is float and type(value) is int):
        return value
    raise TypeError(f"{name}={value!r}, which should be {getattr(kind, '__name__', kind)}")


def _parts(own: tuple[Any, ...], count: int) -> Any:
    """The types of a tuple's elements; `tuple[X, ...]` repeats X for each value."""
    return repeat(own[0], count) if own[-1] is Ellipsis else own


def faults(given: Mapping[str, Any], allowed: Kinds, required: Sequence[str]) -> dict[str, str]:
    """What is wrong, by field: one of a table that is missing, unknown or of another type."""
    found = {name: f"{name} is missing" for name in required if name not in given}
    for name, value in given.items():
        if name not in allowed:
            found[name] = f"{short(name)} is unknown; allowed are {', '.join(allowed)}"
            continue
        kinds = one if isinstance(one := allowed[name], tuple) else (one,)
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            words = dict.fromkeys(_WORDS[kind] for kind in kinds if kind is not int or float not in kinds)
            found[name] = f"{name}={short(repr(value))}: must be {' or '.join(words)}"
    return found


def short(text: str) -> str:
    """The text, cut if it is too long to be quoted in an error."""
    return text if len(text) <= LONGEST_QUOTE else f"{text[:LONGEST_QUOTE]}…"
