"""`python -m explain puzzle …` and `grade`: write kernels, and see whether they are right.

Exit status: 0 right · 1 not right · 2 bad arguments, or a file that is not an answer · 3 nothing can run here.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import secrets
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from explain.commands.arguments import check_out, command, positive
from explain.commands.console import BAD_ARGUMENTS, complain, print_json
from explain.difference.command import page, unstored
from explain.difference.compare import Difference
from explain.exercises import Verdict
from explain.experiment import Experiment, ParameterError
from explain.figures.numbers import count
from explain.puzzles import progress, report
from explain.puzzles.answer import Answer, AnswerError, read_answer, way_to_ours
from explain.puzzles.judge import Judge, Judgement
from explain.puzzles.predictions import DIGITS, Guess, Prediction, place
from explain.puzzles.puzzles import Puzzle, ladder, nothing_to_fix

HELP = "Write kernels yourself. Your file is checked against float64, on inputs that expose errors."
GRADE_HELP = "Judge files of students on fresh random inputs, and write the results for a person or an autograder."
RIGHT, WRONG = 0, 1
LOOK_SECONDS = 0.2


def add_to(commands: Any) -> None:
    """Adds `puzzle` with its own commands, and `grade`."""
    parser = commands.add_parser("puzzle", help=HELP, description=HELP)
    own = parser.add_subparsers(required=True, metavar="WHAT")

    command(own, "list", _list, "List the puzzles, and which you have solved.")
    start = command(own, "start", _start, "Write the file to begin with.")
    start.add_argument("puzzle", metavar="PUZZLE", help=f"one of {', '.join(ladder())}")
    start.add_argument("--out", type=Path, metavar="FILE", help="the file to write; default: PUZZLE.py here")
    check = command(own, "check", _check, "Check your file; with --watch at each save.")
    check.add_argument("file", type=Path, metavar="FILE")
    check.add_argument("--watch", action="store_true", help="check again whenever the file is saved; Ctrl+C ends it")
    both = "if it is wrong: a page with our run and yours side by side, at the first difference; it ends in .html"
    check.add_argument("--out", type=Path, metavar="FILE", help=both)
    hint = command(own, "hint", _hint, "Show the next hint.")
    hint.add_argument("puzzle", metavar="PUZZLE")
    solution = command(own, "solution", _solution, "Show the way from your file to our kernel, as a diff.")
    solution.add_argument("file", type=Path, metavar="FILE")

    export = command(
        own, "export", _export, "Write your progress and your answers as one file, for a teacher to grade."
    )
    export.add_argument("--out", type=Path, default=Path(report.FILE), metavar="FILE", help=f"default: {report.FILE}")

    grade = command(commands, "grade", _grade, GRADE_HELP)
    grade.add_argument("files", type=Path, nargs="+", metavar="FILE", help="an answer, or a report of progress (.json)")
    grade.add_argument("--seed", metavar="N", help="the inputs' seed; default: a new one, which the report names")
    grade.add_argument("--gradescope", type=Path, metavar="FILE", help="also write Gradescope's results.json")
    for sub in (check, grade):
        sub.add_argument("--seconds", type=positive, default=60.0, help="stop the reader's code after so long (60)")


def _list(parsed: argparse.Namespace) -> int:
    done = progress.load()
    if parsed.json:
        fields = ("name", "title", "goal", "formula", "functions")
        listed = [{name: getattr(one, name, ()) for name in fields} | asdict(done.of(one.name)) for one in _all()]
        return print_json({"puzzles": listed})
    for number, one in enumerate(_all(), 1):
        print(f"{'✓' if done.of(one.name).solved else ' '} {number:>2}  {one.name:<18}{one.title}")
    print(*(f"      {said}" for said in nothing_to_fix()), sep="\n")
    print("\nBegin: python -m explain puzzle start vector_add")
    return RIGHT


def _all() -> Iterator[Puzzle | Prediction]:
    yield from ladder().values()


def _named(name: str) -> Puzzle | Prediction:
    if name not in ladder():
        raise ParameterError("puzzle", name, f"must be one of {', '.join(ladder())}")
    return ladder()[name]


def _start(parsed: argparse.Namespace) -> int:
    puzzle = _named(parsed.puzzle)
    path = parsed.out or Path(f"{puzzle.name}.py")
    if path.exists():
        raise ParameterError("--out", path, "exists already, and it may hold your work: name another file")
    try:
        path.write_text(puzzle.file(), encoding="utf-8")
    except OSError as error:
        raise ParameterError("--out", path, f"cannot be written: {error.strerror}") from None
    if parsed.json:
        return print_json({"file": str(path), "puzzle": puzzle.name})
    print(f"{puzzle.title}. {puzzle.goal}\n")
    print(*(f"    {line}" for line in puzzle.formula), sep="\n")
    what = "Write the body" if isinstance(puzzle, Puzzle) else "The check shows the question; write your number"
    print(f"\n{what} in {path}, then: python -m explain puzzle check {path} --watch")
    return RIGHT


def _hint(parsed: argparse.Namespace) -> int:
    puzzle, known = _named(parsed.puzzle), progress.load()
    done = known.of(puzzle.name)
    done.hints = min(len(puzzle.hints), done.hints + 1)
    known.save()
    shown = puzzle.hints[: done.hints]
    if parsed.json:
        return print_json({"puzzle": puzzle.name, "hints": shown, "of": len(puzzle.hints)})
    for number, text in enumerate(shown, 1):
        print(f"{number} of {len(puzzle.hints)}: {text}")
    if done.hints == len(puzzle.hints):
        print("These are all hints. Our kernel: python -m explain puzzle solution FILE")
    return RIGHT


def _solution(parsed: argparse.Namespace) -> int:
    try:
        answer = read_answer(parsed.file)
    except AnswerError as error:
        return complain(_at(parsed.file, error.line, str(error)), BAD_ARGUMENTS)
    if isinstance(answer, Guess):
        lines = [answer.puzzle.solution(answer.puzzle.runs(answer.seed))]
    else:
        lines = way_to_ours(answer.puzzle, answer.text)
    if parsed.json:
        return print_json({"puzzle": answer.puzzle.name, "diff": lines})
    print(*lines or ["Your kernel is ours, line by line."], sep="\n")
    return RIGHT


def _export(parsed: argparse.Namespace) -> int:
    known, out = progress.load(), parsed.out
    if not report.is_replaceable(out):
        raise ParameterError("--out", out, "exists and is not a report: name another file")
    try:
        out.write_text(report.text_of(known), encoding="utf-8")
    except OSError as error:
        raise ParameterError("--out", out, f"cannot be written: {error.strerror}") from None
    answers = sum(bool(one.answer) for one in known.puzzles.values())
    solved = sum(bool(one.solved) for one in known.puzzles.values())
    if parsed.json:
        return print_json({"file": str(out), "solved": solved, "answers": answers})
    print(f"{out}: {solved} solved, {answers} answers. A teacher runs: python -m explain grade {out} --json")
    return RIGHT


def _check(parsed: argparse.Namespace) -> int:
    if parsed.out is not None:
        if parsed.out.suffix != ".html":
            raise ParameterError("--out", parsed.out, "must end in .html")
        check_out(parsed.out)
    with closing(Judge()) as judge:
        if not parsed.watch:
            return _checked(judge, parsed)
        for _ in _saves(parsed.file):
            _checked(judge, parsed)
            print("", flush=True)
            judge.warm()
    return RIGHT


def _saves(path: Path) -> Iterator[float]:
    """Once now, and whenever the file is saved; ends with Ctrl+C."""
    seen = -1.0
    with contextlib.suppress(KeyboardInterrupt):
        while True:
            with contextlib.suppress(OSError):  # an editor replaces the file: it is there again soon
                if (changed := path.stat().st_mtime) != seen:
                    seen = changed
                    yield changed
            if seen < 0:
                raise ParameterError("file", path, "is not there")
            time.sleep(LOOK_SECONDS)


def _checked(judge: Judge, parsed: argparse.Namespace) -> int:
    start = time.perf_counter()
    try:
        answer = read_answer(parsed.file)
        if isinstance(answer, Guess):
            return _guessed(answer, parsed)
        found = judge.judge(answer, seconds=parsed.seconds)
    except AnswerError as error:
        said = _at(parsed.file, error.line, str(error))
        return complain(said, BAD_ARGUMENTS)
    progress.checked(progress.load(), found.puzzle, answer.text, found.right)
    if parsed.out is not None and len(found.runs) == 2:
        parsed.out.write_text(page(found.runs), encoding="utf-8")
    if parsed.json:
        print_json(_as_json(found))
    else:
        print(said_of(found, parsed.file))
        print(f"checked in {time.perf_counter() - start:.1f} s")
    return RIGHT if found.right else WRONG


def _guessed(guess: Guess, parsed: argparse.Namespace) -> int:
    """Checks a prediction; a file without a number gets the question."""
    runs = guess.puzzle.runs(guess.seed)
    if guess.answer is None:
        question = _unmarked(guess.puzzle.prompt(runs))
        if parsed.json:
            print_json({"puzzle": guess.puzzle.name, "seed": guess.seed, "question": question})
        else:
            print(f"{question}\nWrite it as ANSWER in {parsed.file.name}.")
        return WRONG
    found = guess.puzzle.verdict(runs, guess.answer)
    progress.checked(progress.load(), guess.puzzle.name, guess.text, found.right)
    if parsed.json:
        print_json(_guess_as_json(guess, found))
    else:
        print(_unmarked(found.words))
        if not found.right and found.step is not None:
            print(f"  {place(runs, found.step)}")
    return RIGHT if found.right else WRONG


def _unmarked(words: str) -> str:
    return words.replace("*", "")


def _guess_as_json(guess: Guess, found: Verdict | None) -> dict[str, Any]:
    """As a kernel's judgement; `found` is None without an answer."""
    right = found is not None and found.right
    case = guess.puzzle.experiment(guess.seed)
    message = "" if right else _unmarked(found.words) if found else "ANSWER is None: there is no number yet."
    step = found.step if found else None
    return {"puzzle": guess.puzzle.name, "right": right, "cases": 1, "passed": int(right), "message": message,
            "failing": None if right else case.to_json(), "line": None, "step": step, "difference": None,
            "traffic": [], "least": []}  # fmt: skip


def said_of(found: Judgement, file: Path) -> str:
    """A judgement in words, as lines of text."""
    lines = []
    if found.right:
        lines.append(f"Right: all {found.cases} cases are within their tolerance.")
    elif found.too_many_bytes:
        lines.append(found.message)
    else:
        lines.append(f"Not right yet. {smaller_cases(found.passed)}:")
        lines.append(f"  {_words_of(found)}")
        lines.append(_at(file, found.line, found.message))
        if found.difference is not None:
            lines += told(found.difference)
    if found.traffic:
        at = found.measured_at
        assert at is not None
        lines.append(f"At the largest case ({_sizes(at.values)}):")
        for what, own, least in zip(("bytes read", "bytes written", "FLOPs"), found.traffic, found.least, strict=True):
            lines.append(f"  {what:<14}{own:>12,}   our kernel {least:>12,}")
    return "\n".join(lines)


def told(found: Difference) -> list[str]:
    """The first difference from our kernel, as lines of text; without our own line, which would be the solution."""
    lines = [*never_stored(found), f"First difference: {values(found)}".replace("**", "").replace("`", "")]
    lines.append(f"  {found.wrong.file}:{found.wrong.line}  {found.wrong.code.strip()}")
    return [*lines, f"Likely cause: {found.cause}."] if found.cause else lines


def never_stored(found: Difference) -> list[str]:
    """A sentence for each output that lacks elements: why they are NaN."""
    return [f"{said} What nobody stores is NaN here." for said in unstored(found)]


def values(found: Difference) -> str:
    """The reader's value and ours, as inline Markdown."""
    wrong, right = found.wrong, found.right
    at = f"[{', '.join(map(str, wrong.element))}]" if wrong.element else ""
    yours = f"is **{wrong.said(DIGITS)}**" if wrong.shown else "is **not set**"
    ours = f", in our kernel **{right.said(DIGITS)}**" if right is not None and right.shown else ""
    more = f"; {count(found.elements - 1)} more of its elements differ" if found.elements > 1 else ""
    name = f"({wrong.variable})" if at and not wrong.variable.isidentifier() else wrong.variable
    return f"`{name}{at}` {yours}{ours}{more}."


def smaller_cases(passed: int) -> str:
    """How many cases pass before the one that fails."""
    if not passed:
        return "The first case fails"
    return f"{passed} case{'s pass' if passed > 1 else ' passes'}. This one fails"


def _words_of(found: Judgement) -> str:
    case = found.failing
    assert case is not None
    return f"inputs {case.inputs}, seed {case.seed}, {_sizes(case.values)}"


def _sizes(values: dict[str, Any]) -> str:
    return " ".join(f"{name}={value}" for name, value in values.items())


def _at(file: Path, line: int | None, message: str) -> str:
    return message if line is None else f"{file.name}:{line}: {message}"


def _as_json(found: Judgement) -> dict[str, Any]:
    case, one = found.failing, found.difference
    return {
        "puzzle": found.puzzle,
        "right": found.right,
        "cases": found.cases,
        "passed": found.passed,
        "failing": None if case is None else case.to_json(),
        "message": found.message,
        "line": found.line,
        "difference": None if one is None else told(one),
        "traffic": list(found.traffic),
        "least": list(found.least),
    }


def _grade(parsed: argparse.Namespace) -> int:
    seed = secrets.randbits(31) if parsed.seed is None else Experiment.of("vector_add", seed=parsed.seed).seed
    if parsed.gradescope is not None and not parsed.gradescope.parent.is_dir():
        raise ParameterError("--gradescope", parsed.gradescope, "must be in a folder that exists")
    results: list[dict[str, Any]] = []
    with closing(Judge()) as judge:
        complete, protections = judge.protections()
        if not complete:
            print(f"explain: no sandbox here, so the files run with your rights: {protections}", file=sys.stderr)
        for file in parsed.files:
            results += _of_file(judge, file, seed, parsed.seconds)
    if parsed.gradescope is not None:
        parsed.gradescope.write_text(json.dumps(gradescope(results), indent=1), encoding="utf-8")
    if parsed.json:
        print_json({"seed": seed, "sandbox": protections, "results": results})
    else:
        for one in results:
            passed = f"{one['passed']} of {one['cases']} cases" if "cases" in one else "no answer"
            print(f"{'right' if one['right'] else 'wrong'}  {one['file']}: {one['puzzle'] or '–'}, {passed}")
            if one["message"]:
                print(f"       {one['message']}")
        print(f"inputs of seed {seed}; again: --seed {seed}")
    return RIGHT if all(one["right"] for one in results) else WRONG


def _of_file(judge: Judge, file: Path, seed: int, seconds: float) -> Iterator[dict[str, Any]]:
    """The result of an answer's file, or of each puzzle of a report."""

    def result(read: Callable[[], Answer | Guess], name: str, puzzle: str | None) -> dict[str, Any]:
        try:
            answer = read()
        except AnswerError as error:
            said = _at(Path(name), error.line, str(error))
            return {"file": str(file), "puzzle": puzzle, "right": False, "message": said}
        return {"file": str(file), **_graded(judge, answer, seed, seconds)}

    if file.suffix != ".json":
        yield result(lambda: read_answer(file), file.name, None)
        return
    try:
        if not (puzzles := report.read(file)):
            raise AnswerError(f"{file.name} has no puzzle: none was begun")
    except AnswerError as error:
        yield {"file": str(file), "puzzle": None, "right": False, "message": str(error)}
        return
    for name, done in puzzles.items():
        claimed = {"checks": done.checks, "hints": done.hints, "solved": done.solved}
        yield {**result(partial(report.answer_in, done, name), f"{name}.py", name), "reported": claimed}


def _graded(judge: Judge, answer: Answer | Guess, seed: int, seconds: float) -> dict[str, Any]:
    if isinstance(answer, Answer):
        return _as_json(judge.judge(answer, seed, seconds))
    given = answer.answer
    found = None if given is None else answer.puzzle.verdict(answer.puzzle.runs(answer.seed), given)
    return _guess_as_json(answer, found)


def gradescope(results: list[dict[str, Any]]) -> dict[str, Any]:
    """Results as Gradescope's autograder reads them: one test for each answer, one point each.

    A test has its puzzle's name, and behind it the file's if several files answer the puzzle.
    """
    answered = Counter(one["puzzle"] for one in results)

    def name(one: dict[str, Any]) -> str:
        puzzle, file = one["puzzle"], one["file"]
        return str(puzzle if answered[puzzle] == 1 else f"{puzzle} ({file})") if puzzle else str(file)

    tests = [
        {
            "name": name(one),
            "score": 1.0 if one["right"] else 0.0,
            "max_score": 1.0,
            "status": "passed" if one["right"] else "failed",
            "output": "\n".join([one["message"], *(one.get("difference") or [])]).strip(),
        }
        for one in results
    ]
    return {"tests": tests}
