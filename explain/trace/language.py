"""Makes the interpreter prepare `triton.language` once per launch instead of once per call."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from triton import language as tl

ALIASES: dict[Any, Any] = {}
"""The builtins that the running launch replaced in `triton.language`, and what replaced them."""


class LanguagePatches:
    """The interpreter's `_patch_lang`, once for each launch.

    The interpreter replaces the builtins of `triton.language` again at every call of every helper, such as `tl.max` and
    `tl.zeros`. This takes most of its time and changes nothing. It never restores what helpers replaced; here
    everything is restored when the launch ends. It also fails for a module that imports single names of
    `triton.language`; here the module of a kernel does not matter.
    """

    def __init__(self, plain: Callable[[Any], Any]) -> None:
        self.plain = plain
        self.scope: Any = None

    def __call__(self, fn: Any) -> LanguagePatches:
        """Takes the place of `_patch_lang(fn)`; the launch calls `restore` on what this returns."""
        if self.scope is None:
            self.scope = self.plain(SimpleNamespace(__globals__={"tl": tl, "core": tl.core}))
            # The interpreter has one function for both ranges, and Python's print: they could not be told apart.
            for module in (tl, tl.core):
                self.scope.set_attr(module, "static_range", _static_range)
                self.scope.set_attr(module, "static_print", _print)
            ALIASES.update(
                {original: getattr(owner, name) for owner, name, original in self.scope._changes if callable(original)}
            )
        return self

    def restore(self) -> None:
        """Restores everything."""
        if self.scope is not None:
            self.scope.restore()
            self.scope = None
        ALIASES.clear()


def _print(*values: Any, **options: Any) -> None:
    print(*values, **options)


def _static_range(arg1: Any, arg2: Any = None, step: Any = None, **options: Any) -> range:
    numbers = [value.value if isinstance(value, tl.constexpr) else value for value in (arg1, arg2, step)]
    start, end = (0, numbers[0]) if numbers[1] is None else numbers[:2]
    return range(start, end, numbers[2] or 1)
