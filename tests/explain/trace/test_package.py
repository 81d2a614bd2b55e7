"""The trace package stands alone: it records calls and writes files, and knows nothing else of explain."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import explain.trace


def imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, path
            yield from (f"{node.module}.{name.name}" for name in node.names)


def test_the_package_imports_nothing_of_explain_outside_itself():
    found = {(path.name, name) for path in Path(explain.trace.__path__[0]).rglob("*.py") for name in imported(path)}
    assert ("recorder.py", "explain.trace.model.Trace") in found
    ours = {(file, name) for file, name in found if name.split(".")[0] in ("explain", "pages", "kernels", "streamlit")}
    assert not {(file, name) for file, name in ours if not name.startswith("explain.trace.")}
