"""What a reader has done: one JSON file in the user's folder, written whole or not at all."""

from __future__ import annotations

import datetime
import functools
import json
import os
import sys
import tempfile
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import platformdirs


@dataclass
class Done:
    """One puzzle: how often it was checked, how many hints were read, when it was first solved (ISO date), and the
    answer's text: the last right one, before that the last one that was checked.
    """

    checks: int = 0
    hints: int = 0
    solved: str = ""
    answer: str = ""


@dataclass
class Progress:
    """Every puzzle that was begun, by name."""

    puzzles: dict[str, Done] = field(default_factory=dict)

    def of(self, name: str) -> Done:
        """What was done on one puzzle, to be changed in place."""
        return self.puzzles.setdefault(name, Done())

    def save(self) -> None:
        """Writes the file. Raises OSError."""
        path = progress_file()
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False, encoding="utf-8") as file:
            json.dump({name: asdict(done) for name, done in self.puzzles.items()}, file, indent=1)
        os.replace(file.name, path)


def progress_file() -> Path:
    """Where progress is kept; the variable TILESCOPE_PROGRESS names another file."""
    own = os.environ.get("TILESCOPE_PROGRESS")
    return Path(own) if own else Path(platformdirs.user_data_dir("tilescope", appauthor=False)) / "puzzles.json"


def load() -> Progress:
    """The reader's progress; empty if there is none, or if the file cannot be read."""
    try:
        path = progress_file()
        status = path.stat()
        stored = _stored(path, status.st_mtime_ns, status.st_size, status.st_ino)
        return Progress({name: Done(**done) for name, done in stored.items()})
    except (OSError, ValueError, TypeError, AttributeError):
        return Progress()


@functools.lru_cache(maxsize=1)
def _stored(path: Path, *_: int) -> dict[str, dict[str, Any]]:
    """The file's content, until it changes: each run of a page asks for it."""
    found: dict[str, dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
    return found


def keep(known: Progress) -> None:
    """Writes the file; where that is impossible, says so on standard error and goes on."""
    try:
        known.save()
    except OSError as error:
        print(f"explain: your progress was not kept: {error}", file=sys.stderr)


def checked(known: Progress, puzzle: str, answer: str, right: bool, *, save: bool = True) -> None:
    """Notes a check of a puzzle's answer, and the day of the first one that was right."""
    done = known.of(puzzle)
    done.checks += 1
    if right or not done.solved:
        done.answer = answer
    if right and not done.solved:
        done.solved = datetime.date.today().isoformat()
    if save:
        keep(known)
