"""Puzzles: our own kernels are right answers, what a reader begins with is not, and a wrong answer is told why."""

from __future__ import annotations

import html
import json
import re
import threading
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from explain import contents
from explain.chapters.write_it.figures import path
from explain.cli import main
from explain.exercises import typed_number
from explain.figures.numbers import number
from explain.puzzles import command, progress, report, runner, worker
from explain.puzzles.answer import AnswerError, answer_of, read_answer
from explain.puzzles.command import said_of
from explain.puzzles.judge import Judge
from explain.puzzles.kernels import KERNELS
from explain.puzzles.predictions import Prediction
from explain.puzzles.progress import Done
from explain.puzzles.puzzles import ORDINARY, Puzzle, ladder, nothing_to_fix, predictions, puzzles
from explain.run_experiment import run_traced
from explain.sandbox.process import Ended, Watch
from explain.trace.model import numbers
from explain.ui import layout
from explain.worker_process import Progress
from kernels.inputs import PRESETS
from kernels.museum import EXHIBITS
from kernels.parameters import ITEM_BYTES
from tests.explain.puzzles.students import MISTAKES, STOPPED, Mistake, solved

pytestmark = pytest.mark.xdist_group("puzzles")
HEAD = 'import triton\nimport triton.language as tl\n\nPUZZLE = "{}"\n\n\n'
FIRST = 3
"""So many of a puzzle's cases run here; the kernels themselves pass the whole grid elsewhere."""


def write(folder: Path, text: str) -> Path:
    path = folder / "answer.py"
    path.write_text(text, encoding="utf-8")
    return path


def verdicts(puzzle: Puzzle, text: str, folder: Path, numbers: list[int]) -> list[bool]:
    """Whether each of these cases is right, in this process; a failure of the code counts as wrong."""
    cases = [puzzle.cases(seed=3)[number] for number in numbers]
    given = [(case.values, case.make_inputs()) for case in cases]
    sent = folder / "sent"
    sent.write_bytes(b"".join(runner._outputs(puzzle, "answer.py", text, given)))
    asked = {"kind": "verdict", "cases": [case.to_json() for case in cases], "sent": str(sent), "first": 0}
    found = worker.handle(asked, lambda *_: None)["verdicts"]
    return [one["right"] for one in found] + [False] * (len(numbers) - len(found))


@pytest.mark.parametrize("puzzle", puzzles().values(), ids=lambda puzzle: puzzle.name)
def test_our_kernel_is_right_and_the_beginning_is_not(puzzle: Puzzle, tmp_path: Path) -> None:
    text = solved(puzzle)
    answer_of(text, "answer.py")
    assert all(verdicts(puzzle, text, tmp_path, list(range(FIRST))))
    if puzzle.name == "fewest_bytes":  # it begins right, with too many bytes
        return
    text = puzzle.starter()
    answer_of(text, "answer.py")
    shown_by = EXHIBITS[puzzle.exhibit].shown_by if puzzle.exhibit else "large_magnitude"
    chosen = [n for n, case in enumerate(puzzle.cases(0)) if case.inputs == shown_by][-2:]
    assert not all(verdicts(puzzle, text, tmp_path, chosen))


def test_every_puzzle_is_at_the_end_of_a_chapter() -> None:
    assert {puzzle.chapter for puzzle in puzzles().values()} <= {page.stem for page in contents.pages()}


def test_cases_bite_and_begin_small() -> None:
    synthetic = {preset.name for preset in PRESETS.values() if not preset.sentence and preset.name != "notebook"}
    for puzzle in puzzles().values():
        cases = puzzle.cases(seed=1)
        sizes = [np.prod(case.entry.score_shape(case.values)) for case in cases]
        plain = [case.inputs in ORDINARY for case in cases[:-1]]
        assert plain == sorted(plain, reverse=True)  # ordinary numbers first
        assert cases[0].entry.score_shape(cases[0].values)[1] > 1  # on one number many mistakes look alike
        assert sizes[-1] == max(sizes)  # its bytes are compared
        assert {case.values["dtype"] for case in cases} == set(ITEM_BYTES)
        assert {case.seed for case in cases} == {1}
        if not puzzle.name.startswith("backward"):  # 0 · ∞ is NaN in the specification too
            assert synthetic <= {case.inputs for case in cases}, puzzle.name
    assert all(case.values["causal"] for case in puzzles()["causal"].cases(0))
    assert all(case.values["kv_heads"] < case.values["heads"] for case in puzzles()["grouped"].cases(0))


class Here:
    """A pool with this process as its worker: one recording at a time, for two cannot run together."""

    one_at_a_time = threading.Lock()

    def __init__(self, handle: Callable[..., dict[str, Any]]) -> None:
        self.handle = handle

    def call(self, request: dict[str, Any], *, progress: Progress | None = None, **_limits: object) -> dict[str, Any]:
        with self.one_at_a_time if request["kind"] in ("run", "trace") else nullcontext():
            return self.handle(request, progress or (lambda *_: None))


@pytest.fixture
def judge_here(monkeypatch) -> Judge:
    """A judge without processes, for answers of our own: forks would take half of the time."""

    def ended(work: Callable[[], Iterable[bytes]], *_: object, **__: object) -> Ended:
        return Ended(b"".join(work()), "", "")

    def watched(works: list[Callable[[], Iterable[bytes]]], *_: object, watch: Watch, **__: object) -> list[Ended]:
        all(watch(number, line) for number, work in enumerate(works) for line in work())
        return [Ended(b"", "", "")] * len(works)

    monkeypatch.setattr(runner, "AT_ONCE", 1)
    monkeypatch.setattr(runner, "run", ended)
    monkeypatch.setattr(runner, "run_together", watched)
    judge = Judge.__new__(Judge)
    monkeypatch.setattr(judge, "_ours", Here(worker.handle), raising=False)
    monkeypatch.setattr(judge, "_theirs", Here(runner.handle), raising=False)
    return judge


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda one: f"{one.puzzle}: {one.what}")
def test_a_students_mistake_is_found_and_told_at_its_line(mistake: Mistake, judge_here) -> None:
    line = None
    try:
        found = judge_here.judge(answer_of(mistake.text, "answer.py"))
    except AnswerError as refused:
        told, line = str(refused), refused.line
    else:
        told = said_of(found, Path("answer.py"))
        assert not found.right
        cause = found.difference.cause if found.difference else ""
        if taken := re.match(r"`(\w+)` in place of", cause):
            assert taken[1] in found.difference.wrong.code  # not a variable that is equal by chance
    assert line or "answer.py:" in told or "bytes" in told, told
    assert "Error:" not in told, told  # in words, not as a traceback's last line


ADDS = """
    o = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    a = tl.load(a_ptr + o, mask=o < n)
    b = tl.load(b_ptr + o, mask=o < n)
    tl.store(c_ptr + o, a + b, mask=o < n)
"""
DIVIDES = """
    c = tl.arange(0, BLOCK_N)
    x_ptr += tl.program_id(0) * stride_xm
    x = tl.load(x_ptr + c * stride_xn, mask=c < n_cols, other=-float("inf")).to(tl.float32)
    e = tl.exp(x - tl.max(x, axis=0))
    tl.store(y_ptr + tl.program_id(0) * stride_ym + c * stride_yn, e / tl.sum(e, axis=0), mask=c < n_cols)
"""


@pytest.mark.parametrize(
    ("body", "old", "new", "cause"),
    [
        (ADDS, "a + b", "a - b", "`b` is subtracted, not added"),
        (ADDS, "tl.load(a_ptr", "tl.load(b_ptr", "`a` is loaded from `b_ptr`; no line loads from `a_ptr`"),
        (ADDS, "tl.load(b_ptr", "tl.load(a_ptr", "`b` is loaded from `a_ptr`; no line loads from `b_ptr`"),
        (ADDS, "tl.program_id(0) * BLOCK_N + ", "", "no line reads `tl.program_id`"),
        (DIVIDES, " - tl.max(x, axis=0)", "", ": subtract the row's maximum first"),
        (DIVIDES, " / tl.sum(e, axis=0)", "", "not divided by"),
        (DIVIDES, "tl.sum(e", "tl.max(e", "max in place of sum"),
        (DIVIDES, "", "", "−∞ − −∞ is NaN: this case is not handled"),
    ],
)
def test_the_cause_of_a_beginners_mistake_is_what_was_changed(body, old, new, cause, judge_here) -> None:
    puzzle = puzzles()["vector_add" if body == ADDS else "softmax_row"]
    head, signed, _ = puzzle.starter().partition("tl.constexpr):")
    found = judge_here.judge(answer_of(head + signed + body.replace(old, new, 1), "answer.py"))
    assert found.difference is not None
    assert cause in found.difference.cause


@pytest.mark.parametrize("mistake", STOPPED, ids=lambda one: f"{one.puzzle}: {one.what}")
def test_what_stops_a_kernel_is_told_at_its_line_in_words(mistake: Mistake) -> None:
    puzzle = puzzles()[mistake.puzzle]
    cases = [(case.values, case.make_inputs()) for case in puzzle.cases(seed=3)]
    sent = map(json.loads, runner._outputs(puzzle, "answer.py", mistake.text, cases))
    said = next(one for one in sent if "line" in one)
    pairs = zip(mistake.text.splitlines(), solved(puzzle).splitlines(), strict=False)
    assert said["line"] == next(number for number, (one, other) in enumerate(pairs, 1) if one != other)
    assert "Error:" not in said["message"]


def test_each_puzzle_is_failed_in_three_ways() -> None:
    assert {name: sum(one.puzzle == name for one in MISTAKES) for name in puzzles()} == dict.fromkeys(puzzles(), 3)


@pytest.mark.parametrize("name", KERNELS)
def test_a_kernel_that_only_puzzles_have_is_right_and_its_formula_exact(name: str) -> None:
    puzzle = next(one for one in puzzles().values() if one.kernel == name)
    for case in puzzle.cases(seed=0):
        trace, verdict = run_traced(case, [], lambda *_: None)
        assert verdict.within_tolerance, case
        traffic = trace.traffic()
        formula = case.traffic.totals()
        assert {term: traffic[term] for term in formula} == formula, case


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
    assert found.difference.wrong.line == changed
    assert "not rescaled" in found.difference.cause


def test_a_right_answer_with_too_many_bytes_is_told_how_many_are_enough(judge) -> None:
    found = judge.judge(answer_of(puzzles()["fewest_bytes"].starter(), "answer.py"))
    assert found.too_many_bytes
    assert not found.right
    assert found.passed == found.cases
    allowed = found.traffic[0] * 2 // 3 + found.traffic[1]  # two reads of three
    assert f"{allowed:,}" in found.message
    assert sum(found.least[:2]) == allowed  # the table beside it says the same


def test_the_solution_of_a_puzzle_with_fewer_bytes_has_as_few(judge) -> None:
    assert judge.judge(answer_of(solved(puzzles()["fewest_bytes"]), "answer.py")).right


def test_an_answer_that_never_ends_is_stopped(judge) -> None:
    text = HEAD.format("online") + ONLINE.replace(
        "    m_i = -float(", "    while n_cols > 0:\n        row += 1\n    m_i = -float(", 1
    )
    found = judge.judge(answer_of(text, "answer.py"), seconds=1)
    assert found.passed == 0
    assert "1 s" in found.message
    assert found.line is not None
    assert "while n_cols > 0" in text.splitlines()[found.line - 1]


def test_an_element_that_nobody_stores_is_said_to_be_so(judge) -> None:
    mistake = next(one for one in MISTAKES if one.what == "every program takes the first tile")
    said = said_of(judge.judge(answer_of(mistake.text, "answer.py")), Path("answer.py"))
    assert "38 elements of c are never stored. What nobody stores is NaN here." in said  # 70 − 32


def test_the_bug_without_a_puzzle_is_named_on_the_path() -> None:
    (said,) = nothing_to_fix()
    assert said.startswith("Bug 7 is harmless")
    assert said in path("vector_add", [], "here")


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


@pytest.fixture
def one_judge(monkeypatch, judge) -> None:
    """All commands share a judge: each would start a process of its own, which takes three seconds of a core."""
    monkeypatch.setattr(command, "Judge", lambda: judge)
    monkeypatch.setattr(command, "closing", nullcontext)


def test_grade_writes_what_a_person_and_an_autograder_read(tmp_path, capsys, one_judge) -> None:
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


def test_gradescopes_tests_of_one_puzzle_have_names_of_their_own() -> None:
    results = [{"file": f"{one}.py", "puzzle": "online", "right": True, "message": ""} for one in ("a", "b")]
    results += [{"file": "c.py", "puzzle": "flash", "right": True, "message": ""}]
    results += [{"file": "d.py", "puzzle": None, "right": False, "message": ""}]
    names = [test["name"] for test in command.gradescope(results)["tests"]]
    assert names == ["online (a.py)", "online (b.py)", "flash", "d.py"]


def test_progress_is_exported_and_graded_without_the_app(tmp_path, monkeypatch, capsys, one_judge) -> None:
    monkeypatch.setenv("TILESCOPE_PROGRESS", str(tmp_path / "progress.json"))
    right = solved(puzzles()["vector_add"])
    file, exported, results = (tmp_path / name for name in ("mine.py", "alice.json", "results.json"))
    assert main(["puzzle", "export", "--out", str(exported)]) == 0
    assert main(["grade", str(exported)]) == 1  # nothing was begun
    wrong = puzzles()["vector_add"].starter()
    for text, status in ((wrong, 1), (right, 0), (wrong, 1)):  # the right one stays
        file.write_text(text)
        assert main(["puzzle", "check", str(file)]) == status
    file.write_text(puzzles()["softmax_row"].starter())
    assert main(["puzzle", "check", str(file)]) == 1
    known = progress.load()
    known.of("predict_sum").solved = "2026-01-01"  # of an older version, without its answer
    known.save()
    capsys.readouterr()
    assert main(["puzzle", "export", "--out", str(exported), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"file": str(exported), "solved": 2, "answers": 2}
    monkeypatch.setenv("TILESCOPE_PROGRESS", str(tmp_path / "of the teacher.json"))
    assert main(["grade", str(exported), "--json", "--gradescope", str(results)]) == 1
    graded = json.loads(capsys.readouterr().out)["results"]
    assert {one["puzzle"]: one["right"] for one in graded} == {
        "vector_add": True, "softmax_row": False, "predict_sum": False
    }  # fmt: skip
    assert graded[0]["reported"]["checks"] == 3
    assert "no answer" in graded[-1]["message"]
    assert sum(test["score"] for test in json.loads(results.read_text())["tests"]) == 1.0


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "not a report"),
        ("[" * 100_000, "not a report"),
        ("[]", "not a report"),
        ('{"report": "Tilescope puzzles", "puzzles": {"vector_add": {"checks": "many"}}}', "checks"),
        ('{"report": "Tilescope puzzles", "puzzles": {"no_puzzle": {}}}', "no_puzzle"),
    ],
)
def test_what_is_no_report_is_told(tmp_path, text, said) -> None:
    file = tmp_path / "bob.json"
    file.write_text(text)
    with pytest.raises(AnswerError, match=said):
        report.read(file)
    assert report.is_replaceable(tmp_path / "new.json")
    assert not report.is_replaceable(file)
    with pytest.raises(AnswerError, match="cannot be read"):
        report.read(tmp_path / "absent.json")


def test_a_report_does_not_pass_one_puzzles_answer_for_another() -> None:
    with pytest.raises(AnswerError, match="vector_add"):
        report.answer_in(Done(answer=solved(puzzles()["vector_add"])), "flash")


@pytest.mark.parametrize("given", ["8", "4.905", " -0.50 ", "1,5", "3e-4", "007"])
def test_a_number_that_was_typed_is_read_from_its_file_as_exactly(given: str) -> None:
    guess = answer_of(PREDICTED.answered(3, given), "answer.py")
    assert (guess.seed, guess.answer is not None) == (3, True)
    assert typed_number(str(guess.answer))[0] == typed_number(given)[0]
    assert guess.answer == "8" or given != "8"  # "8.0" would have to be right to a tenth


PREDICTED = predictions()["predict_sum"]


@pytest.fixture(scope="module")
def rising():
    """A run in which the maximum rises at a later tile."""
    return [(PREDICTED.experiment(3), run_traced(PREDICTED.experiment(3), "all", lambda *_: None)[0])]


@pytest.mark.parametrize("puzzle", predictions().values(), ids=lambda puzzle: puzzle.name)
def test_a_prediction_is_computed_from_the_run_and_differs_between_seeds(puzzle: Prediction) -> None:
    questions = set()
    for seed in (1, 2, 3):
        case = puzzle.experiment(seed)
        runs = [(case, run_traced(case, "all", lambda *_: None)[0])]
        questions.add(puzzle.prompt(runs))
        answer = puzzle.solution(runs).rpartition("= ")[2].rstrip(".")
        found = puzzle.verdict(runs, answer)
        assert found.right
        assert found.step is not None
        assert answer[:4] in number(float(numbers(runs[0][1].state(found.step)[case.entry.roles[puzzle.ask]])), 4)
        assert not puzzle.verdict(runs, "77").right
    assert len(questions) == 3


@pytest.mark.parametrize(
    ("ask", "given", "told"),
    [  # m rises from 1.049 to 1.43; ℓ was 4.29; this tile adds 1.974
        ("predict_max", "-0.1635", "Which is larger"),
        ("predict_max", "1.807", "with the sign"),
        ("predict_max", "-1.807", "the smallest number"),
        ("predict_alpha", "1.464", "1 / α"),
        ("predict_alpha", "-0.381", "α is exp of it"),
        ("predict_alpha", "1", "larger than m"),
        ("predict_sum", "6.264", "not rescaled"),
        ("predict_sum", "1.974", "this tile's own sum"),
        ("predict_sum", "2.931", "add exp(x − m_new)"),
    ],
)
def test_a_students_wrong_prediction_is_told_what_was_forgotten(rising, ask: str, given: str, told: str) -> None:
    found = predictions()[ask].verdict(rising, given)
    assert not found.right
    assert told in found.words


def test_a_prediction_is_answered_by_file_and_graded(tmp_path, monkeypatch, capsys, one_judge) -> None:
    monkeypatch.setenv("TILESCOPE_PROGRESS", str(tmp_path / "progress.json"))
    file, results = tmp_path / "mine.py", tmp_path / "results.json"
    assert main(["puzzle", "start", "predict_sum", "--out", str(file)]) == 0
    assert main(["puzzle", "check", str(file)]) == 1
    assert "What is ℓ after this tile?" in capsys.readouterr().out
    assert main(["grade", str(file)]) == 1  # no number yet
    begun = re.sub(r"SEED = \d+", "SEED = 3", file.read_text())
    for given, right in (("6.264", False), ("4.905", True)):
        file.write_text(begun.replace("None", given))
        assert main(["puzzle", "check", str(file), "--json"]) == (0 if right else 1)
        capsys.readouterr()
        assert main(["grade", str(file), "--json", "--gradescope", str(results)]) == (0 if right else 1)
        assert json.loads(capsys.readouterr().out)["results"][0]["right"] == right
        assert json.loads(results.read_text())["tests"][0]["score"] == float(right)
    assert progress.load().of("predict_sum").solved


@pytest.mark.parametrize(
    ("text", "line"), [("ANSWER = 'x'", None), ("SEED = -1", None), ("ANSWER = f()", 3), ("import os", 3)]
)
def test_a_prediction_that_is_no_number_is_refused(text: str, line: int | None) -> None:
    with pytest.raises(AnswerError) as refused:
        answer_of(f"PUZZLE = 'predict_sum'\nSEED = 3\n{text}\n", "answer.py")
    assert refused.value.line == line


@pytest.mark.parametrize("puzzle", [one for one in ladder().values() if not getattr(one, "exhibit", "")])
def test_a_chapter_before_triton_says_after_which_one_its_kernels_can_be_written(puzzle):
    triton, shown = contents.page_of("first_kernel"), layout._puzzles(puzzle.chapter, "")
    title = re.search(rf"<summary>{re.escape(html.escape(puzzle.title))}([^<]*)</summary>", shown)
    assert title
    page = contents.page_of(puzzle.chapter)
    early = page.kind == "chapter" and page.number < triton.number and isinstance(puzzle, Puzzle)
    assert title[1] == (f" · after chapter {triton.number}" if early else "")


def test_the_first_puzzle_begins_with_two_lines_of_ours_and_the_others_with_none() -> None:
    empty = [one for one in puzzles().values() if not (one.starts_from or one.exhibit)]
    given = {one.name: re.findall(r"^    (\w+) = ", one.starter(), re.M) for one in empty}
    assert {name: names for name, names in given.items() if names} == {"vector_add": ["program", "offsets"]}
