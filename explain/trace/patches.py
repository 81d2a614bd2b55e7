"""Replaces attributes of the interpreter temporarily."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def replaced(owner: Any, name: str, value: object) -> Iterator[None]:
    """Sets `owner.name`, an attribute of a class or a module, and restores it at the end."""
    had, before = name in vars(owner), vars(owner).get(name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        if had:
            setattr(owner, name, before)
        else:
            delattr(owner, name)


def around(plain: Callable[..., Any], method: Callable[..., Any]) -> Callable[..., Any]:
    """A builder's method that calls `method` with its own plain form first."""

    def wrapped(self: Any, *args: Any, **kwargs: Any) -> Any:
        return method(lambda *more, **words: plain(self, *more, **words), *args, **kwargs)

    return wrapped
