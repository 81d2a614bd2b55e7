"""The example in CONTRIBUTING.md is complete: its blocks, in a copy of the project, make a kernel with a chapter."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from explain import ROOT

GUIDE = (ROOT / "CONTRIBUTING.md").read_text()
LAST = ")  # fmt: skip\n\n_for_speed"  # where _TAUGHT ends
MUTANT = 'Mutant("no T", "softmax_temperature", "z = x / temperature", "z = x / (temperature * 0 + 1)")'


def block(after: str, language: str = "python") -> str:
    """The first block in this language after these words."""
    return re.findall(rf"```{language}\n(.*?)```", GUIDE[GUIDE.index(after) :], re.DOTALL)[0]


def commands() -> list[str]:
    return re.findall(r"^python -m explain (.+)$", GUIDE, re.MULTILINE)


@pytest.fixture(scope="module")
def project(tmp_path_factory) -> Path:
    copy = tmp_path_factory.mktemp("copy") / "project"
    skipped = shutil.ignore_patterns(".git", ".venv", "__pycache__", ".*_cache", "benchmarks")
    shutil.copytree(ROOT, copy, ignore=skipped)
    (copy / "kernels/temperature.py").write_text(block("`kernels/temperature.py`"))
    (copy / "pages/temperature.py").write_text(block("`pages/temperature.py`"))
    room = copy / "explain/chapters/temperature"
    room.mkdir()
    (room / "__init__.py").write_text('"""The temperature chapter."""\n')
    (room / "view.py").write_text(block("`explain/chapters/temperature/view.py`"))
    (room / "closing.toml").write_text(block("`explain/chapters/temperature/closing.toml`", "toml"))
    entry = textwrap.indent(block("In `kernels/catalog.py`").rstrip(), " " * 4) + ",\n"
    for file, before, added in (
        ("kernels/catalog.py", LAST, entry + LAST),
        ("tests/kernels/mutants.py", "MUTANTS = (\n", f"MUTANTS = (\n    {MUTANT},\n"),
    ):
        text = (copy / file).read_text()
        assert text.count(before) == 1
        (copy / file).write_text(text.replace(before, added))
    return copy


def run(project: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("TRITON_", "PYTEST_"))}
    environment["TILESCOPE_CACHE"] = str(project / "cache")
    return subprocess.run(
        [sys.executable, *words], cwd=project, env=environment, capture_output=True, text=True, timeout=900, check=False
    )


def test_the_guides_commands_work_and_its_page_runs_and_is_in_the_navigation(project):
    """In one process, with one worker for all."""
    assert len(commands()) == 3
    look = """
import json, sys
from contextlib import nullcontext
from streamlit.testing.v1 import AppTest
from explain import cli, contents
from explain.commands import run, trace
from explain.engine import engine
for module in (run, trace):
    module.Engine, module.closing = engine, nullcontext
for words in json.loads(sys.argv[1]):
    assert cli.main(words) == 0, words
page = AppTest.from_file("pages/temperature.py", default_timeout=300).run()
assert not page.exception, page.exception
said = "\\n".join(element.value for element in page.markdown)
assert "**1.0000**" in said, said
assert page.number_input[0].value == 2
page.number_input[0].set_value(100).run()
assert not page.exception
assert page.query_params["temperature"] in ("100", ["100"]), page.query_params
last = contents.chapters()[-1]
assert last.title == "Temperature"
app = AppTest.from_file("main.py", default_timeout=300).run()
assert not app.exception, app.exception
assert f"**{last.number} · Temperature**" in [link.proto.label for link in app.get("page_link")]
"""
    done = run(project, "-c", look, json.dumps([line.split() for line in commands()]))
    assert done.returncode == 0, done.stderr
    assert "softmax_temperature" in done.stdout  # what `list` prints
    assert (project / "temperature.tilescope").stat().st_size > 1000


def test_it_is_right_against_float64_and_its_formula_is_its_trace(project):
    """By the project's own tests, which meet it and its mutant: every preset in every dtype, and random sizes."""
    files = [f"tests/kernels/test_{name}.py" for name in ("against_float64", "traffic", "mutants")]
    done = run(project, "-m", "pytest", "-n", "0", "-q", *files, "-k", "temperature")
    assert done.returncode == 0, done.stdout
    assert int(re.findall(r"(\d+) passed", done.stdout)[0]) >= 5  # three dtypes, the formula, the mutant
