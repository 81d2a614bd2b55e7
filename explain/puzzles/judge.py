"""Judges a reader's answer: right or not, the first case where it fails, and the first difference from our kernel.

The reader's code runs in a locked process of its own (`explain.sandbox`). It gets the inputs of each case but not how
they were made. The verdict comes from another process, which never runs the reader's code.
"""

from __future__ import annotations

import ast
import json
import tempfile
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from explain.difference.compare import Difference
from explain.engine import TRACE_WORKER
from explain.experiment import Experiment
from explain.plain import made
from explain.puzzles.answer import COUNTED, LARGEST_TRACE, Answer
from explain.sandbox.process import TOO_LONG
from explain.trace.file import TraceFile, TraceFileError
from explain.worker_process import Progress
from explain.workers import WorkerFailed, WorkerPool, WorkerSpec

OUR_WORKER = WorkerSpec(
    "puzzle", "explain.puzzles.worker:handle", env=TRACE_WORKER.env, default_seconds=60, default_megabytes=2000
)
THEIR_WORKER = replace(OUR_WORKER, name="answer", target="explain.puzzles.runner:handle", own_environment=True)
MEGABYTES = 1500
"""Memory of the reader's process, in 10^6 bytes."""
LATE_SECONDS = 30
"""The worker ends a reader's process at its limit; after so much longer the worker itself is ended."""


@dataclass(frozen=True)
class Judgement:
    """What an answer is worth. `passed` of `cases` are right; the first that is not is `failing`.

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
    """Judges answers, from any thread."""

    def __init__(self) -> None:
        self._ours = WorkerPool(OUR_WORKER)
        self._theirs = WorkerPool(THEIR_WORKER)
        self.warm()

    def warm(self) -> None:
        """Starts the processes: an answer then waits for no import."""
        self._ours.warm()
        self._theirs.warm()

    def close(self) -> None:
        """Ends the processes."""
        self._ours.close()
        self._theirs.close()

    def protections(self) -> tuple[bool, str]:
        """Whether this machine can lock a reader's process, and its protections in one line. Raises WorkerError."""
        said = self._theirs.call({"kind": "protections"})
        return bool(said["complete"]), str(said["line"])

    def judge(
        self,
        answer: Answer,
        seed: int = 0,
        seconds: float = 60.0,
        *,
        unlocked: bool = True,
        cancel: threading.Event | None = None,
        progress: Progress = lambda what, fraction: None,
    ) -> Judgement:
        """Runs the answer on the cases of its puzzle, with inputs of this seed, a few for at most `seconds`.

        Where this machine cannot lock a process, the answer runs if `unlocked` allows it. Raises WorkerError if nothing
        can run here, or if `cancel` is set.
        """
        with tempfile.TemporaryDirectory(prefix="tilescope-") as folder:
            rules = {"seconds": seconds, "megabytes": MEGABYTES, "unlocked": unlocked}
            return _Run(self._ours, self._theirs, answer, seed, rules, cancel, progress, Path(folder)).judgement()

    def record(
        self,
        source: str | Path,
        name: str,
        function: str,
        seconds: float,
        *,
        unlocked: bool,
        cancel: threading.Event | None,
    ) -> TraceFile:
        """The checked trace of what a function of a reader's own file launches, run for at most `seconds`.

        `source` is the file's text, called `name`, or its path: then it may import what lies in its folder.

        Raises NoTraceError that says why there is none; WorkerError if nothing can run here, or if `cancel` is set.
        """
        file = {"path": str(source)} if isinstance(source, Path) else {"name": name, "text": source}
        rules = {"seconds": seconds, "megabytes": MEGABYTES, "unlocked": unlocked}
        request = {"kind": "file", "function": function, **file, **rules}
        with tempfile.TemporaryDirectory(prefix="tilescope-") as folder:
            out = Path(folder, "sent")
            late = seconds + LATE_SECONDS
            why = self._theirs.call({**request, "out": str(out)}, seconds=late, cancel=cancel)["why"]
            sent = out.read_bytes()
        if why:
            raise NoTraceError(f"The run was stopped. {why}")
        found = TraceFile(sent, most=LARGEST_TRACE)
        try:
            _ = found.trace
        except TraceFileError:
            with suppress(ValueError, KeyError, TypeError):
                raise NoTraceError(str(json.loads(sent)["message"])) from None
            raise NoTraceError("Its process did not send a trace.") from None
        return found


class NoTraceError(Exception):
    """A reader's file left no trace; the message says why."""


@dataclass(frozen=True)
class _Failure:
    """The number of the first wrong case, and what to say of it. `stopped`: it sent no outputs."""

    number: int
    message: str
    line: int | None = None
    stopped: bool = False


class _Sent:
    """What the reader's code sends, a line for each case, in `file`, while it runs. The run ends with the block."""

    def __init__(self, do: Callable[..., str], request: dict[str, Any], file: Path, cases: int) -> None:
        self.file = file
        self._cases, self._lines = cases, 0
        self._changed = threading.Condition()
        self._pool = ThreadPoolExecutor(1)
        file.touch()
        self._run = self._pool.submit(do, {**request, "out": str(file)}, self._progress)
        self._run.add_done_callback(self._ended)

    def __enter__(self) -> _Sent:
        return self

    def __exit__(self, *_: object) -> None:
        self.file.unlink()  # which the worker takes for the end
        self._pool.shutdown()

    def more_than(self, lines: int) -> int:
        """Waits for more than `lines` lines or for the end of the run; returns how many lines there are."""
        with self._changed:
            self._changed.wait_for(lambda: self._lines > lines or self._run.done())
            return self._lines

    def why(self) -> str:
        """Why the run ended too soon, once it has ended. Raises WorkerError."""
        return self._run.result()

    def _progress(self, _what: str, fraction: float) -> None:
        with self._changed:
            self._lines = min(round(fraction * self._cases), self._cases)
            self._changed.notify_all()

    def _ended(self, _run: Future[str]) -> None:
        with self._changed:
            self._changed.notify_all()


class _Run:
    def __init__(
        self,
        ours: WorkerPool,
        theirs: WorkerPool,
        answer: Answer,
        seed: int,
        rules: dict[str, Any],
        cancel: threading.Event | None,
        progress: Progress,
        folder: Path,
    ) -> None:
        self.ours, self.theirs, self.cancel, self.progress = ours, theirs, cancel, progress
        self.puzzle = answer.puzzle
        self.code = {"puzzle": answer.puzzle.name, "name": answer.name, "text": answer.text, **rules}
        self.cases = self.puzzle.cases(seed)
        self.folder, self.given = folder, folder / "given"
        self.given.mkdir()

    def judgement(self) -> Judgement:
        cases = [case.to_json() for case in self.cases]
        self._ours_do({"kind": "inputs", "cases": cases, "folder": str(self.given)})
        parameters = [case.values for case in self.cases]
        asked = {"kind": "run", "parameters": parameters, "given": str(self.given)}
        with _Sent(self._theirs_do, asked, self.folder / "sent", len(cases)) as sent:
            found = self._failure(cases, sent)
        return self._wrong(found) if isinstance(found, _Failure) else self._passed(found)

    def _failure(self, cases: list[dict[str, Any]], sent: _Sent) -> _Failure | dict[str, Any]:
        """The first case that is not right, judged while the next ones run; if all are, the last one's verdict."""
        verdict: dict[str, Any] = {}
        done = 0
        while done < len(cases):
            self.progress(f"{done} of {len(cases)} cases are right" if done else "checking", done / len(cases))
            end = max(sent.more_than(done), done + 1)  # where nothing was sent, the verdict says so
            said = self._ours_do({"kind": "verdict", "cases": cases[done:end], "sent": str(sent.file), "first": done})
            for verdict in said["verdicts"]:
                if not verdict["right"]:
                    told = f"{verdict['element']} is {verdict['found']} and must be close to {verdict['expected']}."
                    return _Failure(done, told if verdict["stores"] else f"Nothing is stored: {told}")
                done += 1
            if done < end:
                message, line = said["message"] or sent.why() or "It ended without a result.", said["line"]
                if message.startswith(TOO_LONG) and (loop := _only_loop_that_may_not_end(self.code["text"])):
                    message, line = f"{message} Does this loop end?", loop
                return _Failure(done, message, line, stopped=True)
        return verdict

    def _ours_do(self, request: dict[str, Any]) -> dict[str, Any]:
        return self.ours.call(request, cancel=self.cancel)

    def _theirs_do(self, request: dict[str, Any], progress: Progress | None = None) -> str:
        """Lets the reader's code run; why it ended too soon."""
        late = self.code["seconds"] + LATE_SECONDS
        said = self.theirs.call({**self.code, **request}, seconds=late, progress=progress, cancel=self.cancel)
        return str(said["why"])

    def _passed(self, verdict: dict[str, Any]) -> Judgement:
        last = self.cases[-1]
        bytes_of = self.puzzle.bytes_of
        traffic, least = tuple(verdict["traffic"]), _totals(last.through(bytes_of) if bytes_of else last)
        passed = Judgement(
            self.puzzle.name, len(self.cases), len(self.cases), traffic=traffic, least=least, measured_at=last
        )
        allowed = sum(least[:2])
        if not bytes_of or sum(traffic[:2]) <= allowed:
            return passed
        said = f"It is right, but it requests {sum(traffic[:2]):,} bytes; {allowed:,} are enough."
        return replace(passed, message=said, failing=last, too_many_bytes=True)

    def _wrong(self, failure: _Failure) -> Judgement:
        number, case = failure.number, self.cases[failure.number]
        found = Judgement(self.puzzle.name, len(self.cases), number, case, failure.message, failure.line)
        if failure.stopped:
            return found
        files = [self.folder / "ours.tilescope", self.folder / "theirs.tilescope"]
        given = {"given": str(self.given / f"{number}.npz"), "parameters": case.values, "out": str(files[1])}
        ours = case.through(self.puzzle.bytes_of) if self.puzzle.bytes_of else case
        try:
            with ThreadPoolExecutor(1) as beside:
                own = beside.submit(self._ours_do, {"kind": "trace", "case": ours.to_json(), "out": str(files[0])})
                ended = self._theirs_do({"kind": "trace", **given})
                own.result()
            if ended:
                return found
            asked = {"kind": "difference", "ours": str(files[0]), "theirs": str(files[1])}
            difference = self._ours_do(asked)["difference"]
            runs = tuple(TraceFile(file.read_bytes(), most=LARGEST_TRACE) for file in files)
        except (WorkerFailed, OSError):  # one cannot be recorded
            return found
        return replace(found, difference=difference and made(Difference, difference), runs=runs)


def _only_loop_that_may_not_end(text: str) -> int | None:
    """The line of the one `while` of an answer; None if there are more, or none: a `for` of Triton ends."""
    lines = [node.lineno for node in ast.walk(ast.parse(text)) if isinstance(node, ast.While)]
    return lines[0] if len(lines) == 1 else None


def _totals(experiment: Experiment) -> tuple[int, ...]:
    totals = experiment.traffic.totals()
    return tuple(totals[name] for name in COUNTED)
