"""A kernel with one line changed: the module's source, edited, loaded as a module of its own.

Triton and the recorder read a kernel's source by file and line, so `linecache` gets the edited text under a file name
of its own. Nothing is written to disk, line numbers stay, and the original module does not change.
"""

from __future__ import annotations

import functools
import importlib.util
import linecache
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType


@dataclass(frozen=True)
class Edit:
    """In the source of one function, `old` becomes `new`; `old` must occur exactly once.

    `name` tells edits of one module apart: the edited file is shown as `kernels/attention.py~name`.
    """

    name: str
    function: str
    old: str
    new: str

    def apply(self, source: str) -> str:
        """The whole module's source, edited. Raises ValueError if the function, or `old` in it, is not there once."""
        start = source.find(f"def {self.function}(")
        end = source.find("\n\n\n", start)
        body = source[start : end if end >= 0 else len(source)]
        if start < 0 or body.count(self.old) != 1:
            found = body.count(self.old) if start >= 0 else "no such function"
            raise ValueError(f"{self.function} must have {self.old!r} once: {found}")
        return source[:start] + body.replace(self.old, self.new) + source[start + len(body) :]

    def diff(self, source: str) -> list[tuple[str, int, str]]:
        """The changed lines as ("-" or "+", line number, text), in the order of a diff."""
        before, after = source.splitlines(), self.apply(source).splitlines()
        changed = [
            (number, old, new) for number, (old, new) in enumerate(zip(before, after, strict=True), 1) if old != new
        ]
        return [("-", number, old) for number, old, _ in changed] + [("+", number, new) for number, _, new in changed]


def source_of(module: str) -> str:
    """The text of a module's file, without importing it."""
    return _file(module).read_text(encoding="utf-8")


@functools.cache
def load(module: str, edit: Edit) -> ModuleType:
    """The edited module, made once per process. Raises ValueError if the edit does not fit."""
    text, file = edit.apply(source_of(module)), f"{_file(module)}~{edit.name}"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    made = ModuleType(f"{module}~{edit.name}")
    made.__file__ = file
    sys.modules[made.__name__] = made  # inspect finds a function's module there
    exec(compile(text, file, "exec"), made.__dict__)
    return made


def _file(module: str) -> Path:
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None:
        raise ValueError(f"{module}: no such module")
    return Path(spec.origin)
