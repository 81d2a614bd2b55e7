"""What is written down is what was measured, and what is there."""

from __future__ import annotations

import re
import runpy

import pytest

from explain import ROOT
from explain.cli import _parser

pytestmark = pytest.mark.xdist_group("digests")  # of all code, with tests/explain/records/test_results.py
FIGURES = runpy.run_path(str(ROOT / "scripts" / "write_figures.py"))


@pytest.mark.parametrize(
    ("made", "file"),
    [
        ("figures", "README.md"),
        ("newcomers", "docs/newcomers.md"),
        ("difference", "docs/difference.md"),
        ("three_numbers", "docs/three-numbers.md"),
        ("backward", "docs/speed.md"),
    ],
)
def test_what_is_written_down_is_the_committed_result(made, file):
    assert FIGURES[made]() in (ROOT / file).read_text(), "run: python scripts/write_figures.py"


def test_a_kept_run_of_the_gpus_tests_is_told_with_what_failed():
    where = {"gpu": "NVIDIA Test 1", "driver": "1", "torch": "2", "triton": "3", "date": "2026-01-01"}
    told = FIGURES["said"](
        "benchmarks/results/gpu_suite.json",
        {"where": where, "passed": 1200, "failed": 3, "skipped": 9, "tests": {"tests/gpu/test_a.py::test_b": "failed"}},
    )
    assert all(said in told for said in ("1,200", "1,203", "test_a.py::test_b", *where.values()))


def test_a_result_says_how_fast_its_machine_was():
    said = FIGURES["_speed"]
    assert said({"loop_before_s": 0.25, "loop_s": 0.8}).endswith(" in 0.25 to 0.80 s")
    assert said({"loop_before_s": 0.25, "loop_s": 0.25}).endswith(" in 0.25 s")
    assert said({}) == ""


def test_no_code_breaks_over_a_line_of_a_document():
    """A second line that begins with > would be a quotation."""
    for document in ROOT.glob("docs/*.md"):
        prose = re.sub(r"```.*?```", "", document.read_text(), flags=re.DOTALL)
        assert [line for line in prose.splitlines() if line.startswith(">") and "`" in line] == [], document


def test_links_lead_somewhere():
    documents = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), ROOT / "kernels/data/README.md"]
    links = {
        (document, target)
        for document in documents
        for target in re.findall(r"\]\(([^)#\s]+)\)", re.sub(r"```.*?```", "", document.read_text(), flags=re.DOTALL))
        if "://" not in target
    }
    assert links
    assert not [link for link in links if not link[0].parent.joinpath(link[1]).exists()]


def test_the_readmes_commands_are_commands():
    text = (ROOT / "README.md").read_text()
    lines = re.findall(r"^python -m explain (.+?)(?: {3,}.*)?$", text, re.MULTILINE)
    assert len(lines) >= 5
    for line in lines:
        _parser().parse_args(line.split())
