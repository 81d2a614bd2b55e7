"""Set-up runs before anything is installed."""

from __future__ import annotations

import ast
import subprocess
import sys

from explain import ROOT


def test_what_set_up_imports_needs_the_standard_library_alone() -> None:
    script = ast.parse((ROOT / "start.py").read_text(encoding="utf-8"))
    imports = [ast.unparse(node) for node in ast.walk(script) if isinstance(node, ast.Import | ast.ImportFrom)]
    own = [line for line in imports if line.startswith(("from explain", "from tests"))]
    assert own
    ended = subprocess.run(
        [sys.executable, "-S", "-c", "\n".join(own)], cwd=ROOT, check=False, capture_output=True, text=True
    )
    assert ended.returncode == 0, ended.stderr
