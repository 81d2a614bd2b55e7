"""Makes the interpreter prepare `triton.language` once per launch instead of once per call."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

from triton import language as tl


class LanguagePatches:
    """The interpreter's `_patch_lang`, once for each set of language modules in a launch.

    The interpreter replaces the builtins of `triton.language` again at every call of every helper, such as `tl.max` and
    `tl.zeros`. This takes most of its time and changes nothing. It never restores what helpers replaced; here
    everything is restored when the launch ends.
    """

    def __init__(self, plain: Callable[[Any], Any]) -> None:
        self.plain = plain
        self.scopes: list[Any] = []
        self.seen: set[int] = set()
        self.patched: set[int] = set()

    def __call__(self, fn: Any) -> LanguagePatches:
        """Takes the place of `_patch_lang(fn)`; the launch calls `restore` on what this returns."""
        key = id(fn.__code__ if fn.__closure__ else fn.__globals__)
        if key not in self.seen:
            names = _visible(fn)
            languages = {id(value) for value in names.values() if value is tl or value is tl.core}
            if not languages or not languages <= self.patched:
                self.scopes.append(
                    self.plain(SimpleNamespace(__globals__=names))
                )  # raises if the function uses no triton.language
                self.patched |= languages
            self.seen.add(key)
        return self

    def restore(self) -> None:
        """Restores everything, in reverse order."""
        while self.scopes:
            self.scopes.pop().restore()
        self.seen.clear()
        self.patched.clear()


def _visible(fn: Any) -> dict[str, Any]:
    """The names of its module and of the functions around it."""
    names = dict(fn.__globals__)
    for name, cell in zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True):
        with suppress(ValueError):  # not assigned yet
            names[name] = cell.cell_contents
    return names
