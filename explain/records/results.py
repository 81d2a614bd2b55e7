"""The committed results: JSON files that a command measured, which the README and the pages show.

Each has "commit" and "code" (`explain.records.code.measured_code`), by itself or in its parts. A result is stale if the
code it measured has changed since.
"""

from __future__ import annotations

import functools
import json
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from explain import ROOT, data
from explain.records.code import stale_parts

BENCHMARKS = ROOT / "benchmarks" / "results"
RECORDINGS = ROOT / "explain" / "recordings"

T = TypeVar("T")


class ResultFileError(ValueError):
    """A result that cannot be read; the message names the file and says why."""


def read(path: Path) -> dict[str, Any]:
    """The JSON object in a file. Raises ResultFileError."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ResultFileError(f"{path.name} cannot be read: {error}") from None
    if not isinstance(data, dict):
        raise ResultFileError(f"{path.name} is a JSON {type(data).__name__}, not an object")
    return data


def load(path: Path, parse: Callable[[dict[str, Any]], T], command: str) -> T | None:
    """What `parse` makes of a file, None if there is no such file; kept until the file changes.

    `command` writes the file. Raises ResultFileError.
    """
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return _loaded(path, parse, command, status.st_mtime_ns, status.st_size)  # type: ignore[return-value]


@functools.lru_cache(maxsize=32)
def _loaded(path: Path, parse: Callable[[dict[str, Any]], object], command: str, *_: int) -> object:
    try:
        return parse(read(path))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        if isinstance(error, ResultFileError):
            raise
        why = f"{type(error).__name__}: {error}"
        raise ResultFileError(f"{path.name} is not a result of this program ({why}). To repeat: {command}") from None


def write(path: Path, content: Mapping[str, Any], indent: int | None = 1) -> None:
    """Writes the content as a JSON file."""
    separators = None if indent else (",", ":")
    text = json.dumps(content, indent=indent, separators=separators, allow_nan=False) + "\n"
    write_bytes(path, text.encode())


def write_bytes(path: Path, data: bytes) -> None:
    """Writes the whole file at once: a run that is killed leaves the old file. Raises OSError."""
    beside = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}")
    beside.write_bytes(data)
    beside.replace(path)


@dataclass(frozen=True)
class Committed:
    """A committed result and the command that measures it again. `needs_gpu`: only on a GPU."""

    path: Path
    command: str
    needs_gpu: bool = True

    @property
    def stale(self) -> list[str]:
        """The names of the measured code that has changed since. Raises ResultFileError."""
        return list(dict.fromkeys(_stale(read(self.path))))


def _stale(data: Mapping[str, Any]) -> Iterator[str]:
    if isinstance(data.get("points"), list):  # a GPU's record: each point names its origin
        for point in data["points"]:
            kernel = point["experiment"]["kernel"]
            yield from stale_parts({kernel: data["origins"][point["origin"]]["code"]} if "origin" in point else None)
    elif "grids" in data:
        for grid in data["grids"]:
            yield from stale_parts({f"rung:{grid['rung']}": grid["code"]})
    elif isinstance(data.get("code"), str):
        yield from stale_parts({f"{data['module']}:{data['function']}": data["code"]})
    else:
        yield from stale_parts(data.get("code"))


def committed() -> list[Committed]:
    """Every committed result."""
    listed = data(__file__)["committed"]
    return [Committed(path, command, gpu) for pattern, command, gpu in listed for path in sorted(ROOT.glob(pattern))]
