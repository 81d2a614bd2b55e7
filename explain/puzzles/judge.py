"""Judges a reader's answer: right or not, the smallest case where it fails, and the first difference from our kernel.

The reader's code runs in a process of its own, which is used for one answer. It gets the inputs of each case but not
how they were made. The verdict comes from another process, which never runs the reader's code.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from explain.difference.compare import CannotCompareError, Difference, first_difference
from explain.engine import TRACE_WORKER
from explain.experiment import Experiment
from explain.puzzles.answer import Answer, read_answer
from explain.trace.file import TraceFile, TraceFileError
from explain.workers import WorkerError, WorkerFailed, WorkerPool, WorkerSpec

PUZZLE_WORKER = WorkerSpec(
    "puzzle", "explain.puzzles.worker:handle", env=TRACE_WORKER.env, default_seconds=60, default_megabytes=2000
)
FIRST_CASES = 4
"""A wrong answer mostly fails early: the first cases are judged before the next ones run, then twice as many."""


@dataclass(frozen=True)
class Judgement:
    """What an answer is worth. `passed` of `cases` are right; the smallest that is not is `failing`.

    `message` says in words what is wrong there, at `line` of the file if it is one line. `difference` is the first
    difference from our kernel, and `runs` the traces of ours and the reader's in that case, where they could be
    recorded. `traffic` and `least` are (bytes read, bytes written, FLOPs): the answer's and the formula's at the
    largest case, `measured_at`, if all pass; `too_many_bytes` says that the puzzle allows fewer.
    """

    puzzle: str
    cases: int
    passed: int = 0
    failing: Experiment | None = None
    message: str = ""
    line: int | None = None
    difference: Difference | None = None
    runs: tuple[TraceFile, ...] = ()
    traffic: tuple[int, ...] = ()
    least: tuple[int, ...] = ()
    too_many_bytes: bool = False
    measured_at: Experiment | None = None

    @property
    def right(self) -> bool:
        """Whether every case passed, with no more bytes than allowed."""
        return self.passed == self.cases > 0 and not self.message


class Judge:
    """Judges answers, one at a time."""

    def __init__(self) -> None:
        self._ours = WorkerPool(PUZZLE_WORKER)
        self._theirs = WorkerPool(PUZZLE_WORKER)
        self.warm()

    def warm(self) -> None:
        """Starts the processes for the next answer: it then waits for no import."""
        self._ours.warm()
        self._theirs.warm()

    def close(self) -> None:
        """Ends the processes."""
        self._ours.close()
        self._theirs.close()

    def judge(self, path: Path, seed: int = 0, seconds: float = 60.0) -> Judgement:
        """Runs the file on the cases of its puzzle, with inputs of this seed, for at most `seconds`.

        Raises AnswerError for a file that is no answer, WorkerError if nothing can run here.
        """
        answer = read_answer(path)
        theirs, self._theirs = self._theirs, WorkerPool(PUZZLE_WORKER)
        try:
            with tempfile.TemporaryDirectory(prefix="tilescope-") as folder:
                return _Run(self._ours, theirs, answer, seed, seconds, Path(folder)).judgement()
        finally:
            theirs.close()


class _Run:
    def __init__(
        self, ours: WorkerPool, theirs: WorkerPool, answer: Answer, seed: int, seconds: float, folder: Path
    ) -> None:
        self.ours, self.theirs, self.answer, self.seconds = ours, theirs, answer, seconds
        self.puzzle = answer.puzzle
        self.cases = self.puzzle.cases(seed)
        self.given, self.made = folder / "given", folder / "made"
        self.given.mkdir()
        self.made.mkdir()
        self.folder = folder

    def judgement(self) -> Judgement:
        cases = [case.to_json() for case in self.cases]
        self.ours.call({"kind": "inputs", "cases": cases, "folder": str(self.given)})
        verdict: dict[str, Any] = {}
        for numbers in _batches(len(cases)):
            failed = self._theirs_do({"kind": "run", "numbers": list(numbers), **self._given(numbers)})
            done = [number for number in numbers if "failed" not in failed or number < failed["failed"]]
            asked = {"numbers": done, "cases": [cases[number] for number in done], "folder": str(self.made)}
            for number, verdict in zip(done, self.ours.call({"kind": "verdict", **asked})["verdicts"], strict=True):
                if not verdict["right"]:
                    said = f"{verdict['element']} is {verdict['found']} and must be {verdict['expected']}."
                    return self._wrong(number, said, None)
            if failed:
                return self._wrong(failed["failed"], failed["message"], failed["line"])
        return self._passed(verdict)

    def _given(self, numbers: range) -> dict[str, Any]:
        parameters = [self.cases[number].values for number in numbers]
        return {"parameters": parameters, "given": str(self.given), "folder": str(self.made)}

    def _theirs_do(self, request: dict[str, Any]) -> dict[str, Any]:
        """What the reader's process answers; the end of that process is a failure like another one."""
        request |= {"puzzle": self.puzzle.name, "path": str(self.answer.path)}
        try:
            return self.theirs.call(request, seconds=self.seconds)
        except WorkerFailed:
            raise
        except WorkerError as error:
            numbers = request.get("numbers", [0])
            missing = (number for number in numbers if not (self.made / f"{number}.npz").is_file())
            return {"failed": next(missing, numbers[0]), "message": str(error), "line": None}

    def _passed(self, verdict: dict[str, Any]) -> Judgement:
        last = self.cases[-1]
        traffic, least = tuple(verdict["traffic"]), _totals(last)
        passed = Judgement(
            self.puzzle.name, len(self.cases), len(self.cases), traffic=traffic, least=least, measured_at=last
        )
        if not self.puzzle.bytes_of:
            return passed
        allowed = sum(_totals(last.through(self.puzzle.bytes_of))[:2])
        if sum(traffic[:2]) <= allowed:
            return passed
        said = f"It is right, but it requests {sum(traffic[:2]):,} bytes; {allowed:,} are enough."
        return replace(passed, message=said, failing=last, too_many_bytes=True)

    def _wrong(self, number: int, message: str, line: int | None) -> Judgement:
        case, found = self.cases[number], Judgement(self.puzzle.name, len(self.cases), number)
        runs = self._traced(number) if line is None else ()
        difference = None
        if len(runs) == 2:
            with suppress(CannotCompareError):
                difference = first_difference(*(run.trace for run in runs))
        return replace(found, failing=case, message=message, line=line, difference=difference, runs=runs)

    def _traced(self, number: int) -> tuple[TraceFile, ...]:
        """Our run and the reader's of one case; nothing if one cannot be recorded."""
        case, files = self.cases[number], [self.folder / "ours.tilescope", self.folder / "theirs.tilescope"]
        given = {"given": str(self.given / f"{number}.npz"), "case": case.values, "out": str(files[1])}
        try:
            self.ours.call({"kind": "trace", "path": None, "case": case.to_json(), "out": str(files[0])})
            if self._theirs_do({"kind": "trace", **given}):
                return ()
            runs = tuple(TraceFile(file.read_bytes()) for file in files)
            _ = [run.trace for run in runs]
        except (WorkerError, OSError, TraceFileError):
            return ()
        return runs


def _batches(count: int) -> Iterator[range]:
    start, size = 0, FIRST_CASES
    while start < count:
        yield range(start, min(count, start + size))
        start, size = start + size, 2 * size


def _totals(experiment: Experiment) -> tuple[int, ...]:
    totals = experiment.entry.formula(experiment.values).totals()
    return tuple(totals[name] for name in ("read_bytes", "written_bytes", "flops"))
