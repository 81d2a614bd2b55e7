"""A reader's progress as one file for a teacher: what they did on each puzzle, and their answers, to be judged again.

    {"report": "Tilescope puzzles", "date": "2026-11-24", "puzzles": {"online": {"checks": 4, "hints": 1,
     "solved": "2026-11-23", "answer": the text of the file}, …}}

Checks, hints and days are what the reader's own machine counted. Only the answers prove anything.
"""

from __future__ import annotations

import datetime
import json
from dataclasses import asdict
from pathlib import Path

from explain.plain import made
from explain.puzzles.answer import LONGEST, Answer, AnswerError, answer_of
from explain.puzzles.predictions import Guess
from explain.puzzles.progress import Done, Progress
from explain.puzzles.puzzles import ladder

FILE = "tilescope-report.json"
TITLE = "Tilescope puzzles"
LONGEST_REASON = 200
"""Characters. Python's own message on a damaged report can quote the whole report."""
MOST_BYTES = 4 * LONGEST * 50


def text_of(known: Progress) -> str:
    """The report, as JSON: of each puzzle that was begun."""
    puzzles = {name: asdict(known.puzzles[name]) for name in ladder() if name in known.puzzles}
    report = {"report": TITLE, "date": datetime.date.today().isoformat(), "puzzles": puzzles}
    return json.dumps(report, indent=1, ensure_ascii=False)


def is_replaceable(path: Path) -> bool:
    """Whether writing a report to `path` destroys nothing else: there is none yet, or it is a report itself."""
    try:
        read(path)
    except AnswerError:
        return not path.exists()
    return True


def read(path: Path) -> dict[str, Done]:
    """What a report says of each puzzle that was begun. Raises AnswerError."""
    try:
        if (size := path.stat().st_size) > MOST_BYTES:
            raise AnswerError(f"{path.name} has {size:,} bytes; a report has at most {MOST_BYTES:,}")
        given = json.loads(path.read_bytes())
        if given["report"] != TITLE:
            raise ValueError(f"report={given['report']!r}")
        found = {name: made(Done, one) for name, one in given["puzzles"].items()}
    except OSError as error:
        raise AnswerError(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        why = f"it lacks {error}" if isinstance(error, KeyError) else str(error)
        raise AnswerError(f"{path.name} is not a report of progress: {why[:LONGEST_REASON]}") from None
    if unknown := [name for name in found if name not in ladder()]:
        raise AnswerError(f"{path.name} names {unknown[0]}, which is not a puzzle")
    return found


def answer_in(done: Done, name: str) -> Answer | Guess:
    """The answer that a report has for the puzzle `name`. Raises AnswerError."""
    if not done.answer:
        raise AnswerError("the report has no answer to it")
    found = answer_of(done.answer, f"{name}.py")
    if found.puzzle.name != name:
        raise AnswerError(f"its answer is for {found.puzzle.name}")
    return found
