"""What is written down is what was measured, and what is there."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

from explain import contents as chapters
from explain.cli import _parser
from kernels.catalog import CATALOG

ROOT = Path(__file__).parents[1]


def test_the_readmes_figures_are_the_committed_results():
    module = runpy.run_path(str(ROOT / "scripts" / "write_figures.py"))
    assert module["figures"]() in (ROOT / "README.md").read_text(), "run: python scripts/write_figures.py"


def test_a_kept_run_of_the_gpus_tests_is_told_with_what_failed():
    module = runpy.run_path(str(ROOT / "scripts" / "write_figures.py"))
    where = {"gpu": "NVIDIA Test 1", "driver": "1", "torch": "2", "triton": "3", "date": "2026-01-01"}
    told = module["suite_line"]({"where": where, "passed": 1200, "failed": 3, "skipped": 9})
    assert "1,200 of 1,203 tests passed" in told
    assert "NVIDIA Test 1 (driver 1, torch 2, triton 3, 2026-01-01)" in told


def test_the_table_of_three_numbers_is_of_the_committed_record():
    module = runpy.run_path(str(ROOT / "scripts" / "write_figures.py"))
    assert module["three_numbers"]() == (ROOT / "docs" / "three-numbers.md").read_text(), (
        "run: python scripts/write_figures.py"
    )


@pytest.mark.parametrize(
    "document",
    [
        "README.md",
        "DESIGN.md",
        "CONTRIBUTING.md",
        "docs/questions.md",
        "kernels/data/README.md",
        "docs/trace-format.md",
    ],
)
def test_links_lead_somewhere(document):
    text = re.sub(r"```.*?```", "", (ROOT / document).read_text(), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)#]+)\)", text):
        assert target.startswith("https://") or (ROOT / document).parent.joinpath(target).exists(), target


def test_the_readmes_commands_are_commands():
    text = (ROOT / "README.md").read_text()
    lines = re.findall(r"^python -m explain (.+?)(?: {3,}.*)?$", text, re.MULTILINE)
    assert len(lines) >= 5
    for line in lines:
        _parser().parse_args(line.split())


def test_the_design_names_every_folder():
    text = (ROOT / "DESIGN.md").read_text()
    for folder in (
        "kernels",
        "explain",
        "pages",
        "tests",
        "benchmarks",
        *(p.name for p in (ROOT / "explain").iterdir() if (p / "__init__.py").exists()),
    ):
        assert f"{folder}/" in text, folder


def test_the_design_names_files_that_are_there():
    everything = {
        path.name for folder in ("explain", "kernels", "tests", "benchmarks") for path in (ROOT / folder).rglob("*.*")
    }
    everything |= {path.name for path in ROOT.iterdir()}
    named = re.findall(r"\b[\w/]+\.(?:py|js)\b", (ROOT / "DESIGN.md").read_text())
    assert len(named) > 40
    assert {name.rpartition("/")[2] for name in named} <= everything


def test_the_readme_lists_every_key_of_the_player():
    keys = (ROOT / "explain/player/keys.js").read_text()
    written = re.findall(r'^  \["[^"]+", (?:true|false|null), "\w+", "([^"]+)", ".+"\],$', keys, re.MULTILINE)
    listed = re.findall(r"^\| (.+?) \| .+ \|$", (ROOT / "README.md").read_text(), re.MULTILINE)
    shown = {key for row in listed for key in row.split(" · ")}
    at_full_screen = {"B or ."}  # told with the key that leads there
    assert len(written) > 15
    assert set(written) - shown == at_full_screen


def test_the_readme_lists_every_chapter():
    listed = re.findall(r"^(\d+)\. \*\*(.+?)\*\*: .+\.$", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert [(int(number), title) for number, title in listed] == [(p.number, p.title) for p in chapters.chapters()]


def test_every_kernel_is_described():
    for kernel in CATALOG.values():
        assert kernel.idea.endswith(".")
        assert kernel.title
        assert all(parameter.help for parameter in kernel.parameters)
