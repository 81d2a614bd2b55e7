"""Marks scopes in a Gluon kernel, for a timeline of its warps: lines are added to the module's source when it is
loaded.

The kernel that is measured has no marks, so they cannot slow it down. The added lines call Triton's profiler, Proton,
where a scope begins and ends: `pl.enter_scope("QK")`. The statements themselves tell where, since all these kernels
share names: they wait at barriers called q_full, k_empty and so on, start TMA by `tma.async_copy_global_to_shared` (at
the top `_copy`), compute s by one `warpgroup_mma` and o by another (at the top `_scores` and `_plus_values`), and wait
for each.
"""

from __future__ import annotations

import functools
import linecache
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from types import ModuleType

from kernels.edits import source_of

IMPORT = "import triton.profiler.language as pl\n"
_INDENT = re.compile(r"\s*")


@dataclass(frozen=True)
class Mark:
    """A scope begins or ends at statements that match `at`: before them, or after their last line.

    The end of a scope that is not open is ignored.
    """

    at: str
    scope: str
    begins: bool
    after: bool


MARKS = (
    Mark(r"mbarrier\.wait\(v_full\b", "softmax", begins=False, after=False),
    Mark(r"o = (?:warpgroup_mma|_plus_values)\(", "softmax", begins=False, after=False),
    Mark(r"o = (?:warpgroup_mma|_plus_values)\(", "rescale", begins=False, after=False),
    Mark(r"mbarrier\.wait\(([qkv])_full\b", "wait {0}", begins=True, after=False),
    Mark(r"mbarrier\.wait\(([qkv])_full\b", "wait {0}", begins=False, after=True),
    Mark(r"mbarrier\.wait\(([qkv])_empty\b", "place {0}", begins=True, after=False),
    Mark(r"mbarrier\.wait\(([qkv])_empty\b", "place {0}", begins=False, after=True),
    Mark(r"mbarrier\.wait\(turn\b", "turn", begins=True, after=False),
    Mark(r"mbarrier\.wait\(turn\b", "turn", begins=False, after=True),
    Mark(r"(?:tma\.async_copy_global_to_shared|_copy)\(([qkv])_descs?\b", "load {0}", begins=True, after=False),
    Mark(r"(?:tma\.async_copy_global_to_shared|_copy)\(([qkv])_descs?\b", "load {0}", begins=False, after=True),
    Mark(r"s = (?:warpgroup_mma|_scores)\(", "QK", begins=True, after=False),
    Mark(r"s = warpgroup_mma_wait\(", "QK", begins=False, after=True),
    Mark(r"s = warpgroup_mma_wait\(", "softmax", begins=True, after=True),
    Mark(r"o = (?:warpgroup_mma|_plus_values)\(", "PV", begins=True, after=False),
    Mark(r"o\b.* = warpgroup_mma_wait\(", "PV", begins=False, after=True),
    Mark(r"o\b.* = warpgroup_mma_wait\(.*\bp_new", "rescale", begins=True, after=True),
    Mark(r"(?:p = gl\.convert_layout\(p_new|o = \[_times\()", "rescale", begins=False, after=True),
    Mark(r"(?:o_s|place)\b.*\.store\(", "store O", begins=True, after=False),
    Mark(r"tma\.async_copy_shared_to_global\(", "store O", begins=False, after=True),
)
"""Marks at the same statement are applied in this order."""


def marked(source: str) -> str:
    """The module's source with scopes. Raises ValueError without a matmul to mark, or if a scope does not end."""
    lines: list[str] = []
    open_: set[str] = set()
    for statement in _statements(source):
        first = "".join(map(str.strip, statement))
        if first.startswith("def "):
            _all_closed(open_)
        indent = _INDENT.match(statement[0]).group()  # type: ignore[union-attr]
        found = [(mark, match) for mark in MARKS if (match := re.match(mark.at, first))]
        for after in (False, True):
            if after:
                lines += statement
            for mark, match in found:
                scope = mark.scope.format(*(name.upper() for name in match.groups()))
                if mark.after is not after or (not mark.begins and scope not in open_):
                    continue
                (open_.add if mark.begins else open_.discard)(scope)
                lines.append(f'{indent}pl.{"enter" if mark.begins else "exit"}_scope("{scope}")\n')
    _all_closed(open_)
    text = "".join(lines)
    if '"QK"' not in text or '"PV"' not in text:
        raise ValueError("found no warpgroup_mma to mark")
    future = "from __future__ import annotations\n"
    return text.replace(future, future + IMPORT, 1) if future in text else IMPORT + text


def _all_closed(scopes: set[str]) -> None:
    if scopes:
        raise ValueError(f"scopes that do not end: {', '.join(sorted(scopes))}")


def _statements(source: str) -> Iterator[list[str]]:
    """Statements: lines joined by open brackets."""
    statement: list[str] = []
    depth = 0
    for line in source.splitlines(keepends=True):
        statement.append(line)
        code = line.partition("#")[0]
        depth += sum(code.count(bracket) for bracket in "([{") - sum(code.count(bracket) for bracket in ")]}")
        if depth <= 0:
            yield statement
            statement, depth = [], 0
    if statement:
        yield statement


@functools.cache
def load(module: str) -> ModuleType:
    """The marked module, made once per process. Raises ValueError if it cannot be marked."""
    text, file = marked(source_of(module)), f"{module}~scopes"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    made = ModuleType(f"{module}~scopes")
    made.__file__ = file
    sys.modules[made.__name__] = made  # inspect finds a function's module there
    exec(compile(text, file, "exec"), made.__dict__)
    return made
