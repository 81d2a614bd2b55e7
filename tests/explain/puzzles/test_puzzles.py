"""Puzzles: our own kernels are right answers, what a reader begins with is not, and a wrong answer is told why."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from explain import contents
from explain.cli import main
from explain.puzzles import progress, runner, worker
from explain.puzzles.answer import AnswerError, answer_of, read_answer
from explain.puzzles.puzzles import Puzzle, puzzles
from kernels.inputs import PRESETS
from kernels.museum import EXHIBITS
from kernels.parameters import ITEM_BYTES

pytestmark = pytest.mark.xdist_group("puzzles")
HEAD = 'import triton\nimport triton.language as tl\n\nPUZZLE = "{}"\n\n\n'
FIRST = 3
"""So many of a puzzle's cases run here; the kernels themselves pass the whole grid elsewhere."""


def solved(puzzle: Puzzle) -> str:
    """A file with our own kernels."""
    return puzzle.head() + "\n\n\n" + "\n\n\n".join(puzzle.solution().values()) + "\n"


def write(folder: Path, text: str) -> Path:
    path = folder / "answer.py"
    path.write_text(text, encoding="utf-8")
    return path


def verdicts(puzzle: Puzzle, text: str, folder: Path, numbers: list[int]) -> list[bool]:
    """Whether each of these cases is right, in this process; a failure of the code counts as wrong."""
    cases = [puzzle.cases(seed=3)[number] for number in numbers]
    given = [(case.values, case.entry.make_inputs(case.preset, case.values, case.seed)) for case in cases]
    sent = folder / "sent"
    sent.write_bytes(b"".join(runner._outputs(puzzle, "answer.py", text, given)))
    asked = {"kind": "verdict", "cases": [case.to_json() for case in cases], "sent": str(sent)}
    found = worker.handle(asked, lambda *_: None)["verdicts"]
    return [one["right"] for one in found] + [False] * (len(numbers) - len(found))


@pytest.mark.parametrize("puzzle", puzzles().values(), ids=lambda puzzle: puzzle.name)
def test_our_kernel_is_right_and_the_beginning_is_not(puzzle: Puzzle, tmp_path: Path) -> None:
    answer = answer_of(solved(puzzle), "answer.py")
    assert all(verdicts(puzzle, answer.text, tmp_path, list(range(FIRST))))
    if puzzle.name == "fewest_bytes":  # it begins right, with too many bytes
        return
    answer = answer_of(puzzle.starter(), "answer.py")
    shown_by = EXHIBITS[puzzle.exhibit].shown_by if puzzle.exhibit else "large_magnitude"
    chosen = [n for n, case in enumerate(puzzle.cases(0)) if case.inputs == shown_by][-2:]
    assert not all(verdicts(puzzle, answer.text, tmp_path, chosen))


def test_every_puzzle_is_at_the_end_of_a_chapter() -> None:
    assert {puzzle.chapter for puzzle in puzzles().values()} <= {page.stem for page in contents.pages()}


def test_cases_bite_and_begin_small() -> None:
    synthetic = {preset.name for preset in PRESETS.values() if not preset.sentence and preset.name != "notebook"}
    for puzzle in puzzles().values():
        cases = puzzle.cases(seed=1)
        sizes = [np.prod(case.entry.score_shape(case.values)) for case in cases]
        assert sizes == sorted(sizes)
        assert {case.values["dtype"] for case in cases} == set(ITEM_BYTES)
        assert {case.seed for case in cases} == {1}
        if not puzzle.only:
            assert synthetic <= {case.inputs for case in cases}, puzzle.name
    assert all(case.values["causal"] for case in puzzles()["causal"].cases(0))
    assert all(case.values["kv_heads"] < case.values["heads"] for case in puzzles()["grouped"].cases(0))


ONLINE = puzzles()["online"].solution()["softmax_online_kernel"]


def test_a_wrong_answer_is_told_the_case_the_line_and_the_cause(judge) -> None:
    names = {"m_new": "highest", "alpha": "factor"}  # the reader's own
    ours = HEAD.format("online") + ONLINE
    theirs = ours.replace("l_i * alpha + ", "l_i + ")
    for name, own in names.items():
        ours, theirs = ours.replace(name, own), theirs.replace(name, own)
    pairs = zip(ours.splitlines(), theirs.splitlines(), strict=True)
    changed = next(number for number, (one, other) in enumerate(pairs, 1) if one != other)
    found = judge.judge(answer_of(theirs, "answer.py"))
    assert found.failing is not None
    assert found.passed < found.cases
    assert found.difference is not None
    assert found.difference.wrong.line == changed
    assert "not rescaled" in found.difference.cause


def test_a_right_answer_with_too_many_bytes_is_told_how_many_are_enough(judge) -> None:
    found = judge.judge(answer_of(puzzles()["fewest_bytes"].starter(), "answer.py"))
    assert found.too_many_bytes
    assert not found.right
    assert found.passed == found.cases
    allowed = found.traffic[0] * 2 // 3 + found.traffic[1]  # two reads of three
    assert f"{allowed:,}" in found.message


def test_the_solution_of_a_puzzle_with_fewer_bytes_has_as_few(judge) -> None:
    assert judge.judge(answer_of(solved(puzzles()["fewest_bytes"]), "answer.py")).right


def test_an_answer_that_never_ends_is_stopped(judge) -> None:
    text = HEAD.format("online") + ONLINE.replace(
        "    m_i = -float(", "    while n_cols > 0:\n        row += 1\n    m_i = -float(", 1
    )
    found = judge.judge(answer_of(text, "answer.py"), seconds=1)
    assert found.passed == 0
    assert "1 s" in found.message


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("PUZZLE = 'online'\ndef f(:\n", 2),
        ("x = 1\n", None),
        ("PUZZLE = 'no such'\n", 1),
        (HEAD.format("online"), None),
        (HEAD.format("online") + ONLINE.replace("@triton.jit\n", ""), 7),
        (HEAD.format("online") + ONLINE.replace("n_cols, BLOCK_N", "width, BLOCK_N"), 8),
        ("import os\n" + HEAD.format("online") + ONLINE, 1),
    ],
)
def test_a_file_that_is_no_answer_is_refused_at_its_line(tmp_path, text, line) -> None:
    with pytest.raises(AnswerError) as refused:
        read_answer(write(tmp_path, text))
    assert refused.value.line == line


def test_start_keeps_what_is_there_and_hints_unfold(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setenv("TILESCOPE_PROGRESS", str(tmp_path / "kept" / "progress.json"))
    file = tmp_path / "mine.py"
    assert main(["puzzle", "start", "online", "--out", str(file)]) == 0
    before = file.read_text()
    assert main(["puzzle", "start", "topk", "--out", str(file)]) == 2
    assert file.read_text() == before
    hints = puzzles()["online"].hints
    for shown in (1, 2, len(hints), len(hints)):
        capsys.readouterr()
        assert main(["puzzle", "hint", "online", "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["hints"] == list(hints[:shown])
    progress.progress_file().write_text("{broken")
    assert main(["puzzle", "list"]) == 0
    assert main(["puzzle", "start", "nothing"]) == 2


def test_grade_writes_what_a_person_and_an_autograder_read(tmp_path, capsys) -> None:
    right, wrong = tmp_path / "right.py", tmp_path / "wrong.py"
    right.write_text(solved(puzzles()["vector_add"]))
    wrong.write_text("PUZZLE = 1")
    results = tmp_path / "results.json"
    assert main(["grade", str(right), str(wrong), "--json", "--seed", "5", "--gradescope", str(results)]) == 1
    report = json.loads(capsys.readouterr().out)
    assert report["seed"] == 5
    assert report["sandbox"]
    assert [one["right"] for one in report["results"]] == [True, False]
    assert [test["score"] for test in json.loads(results.read_text())["tests"]] == [1.0, 0.0]
