"""The records there are: the one shipped with Tilescope, and those that were measured on this machine."""

from __future__ import annotations

import functools
import re
from pathlib import Path

from explain import recordings
from explain.engine import cache_folder
from explain.records import file
from explain.records.model import Record

SHIPPED = recordings.FOLDER / "h200.json"


@functools.cache
def recorded() -> Record | None:
    """The record shipped with Tilescope, of an H200; None in a checkout that has none."""
    return file.load(SHIPPED) if SHIPPED.exists() else None


def own_folder() -> Path:
    """Where `python -m explain measure` writes, and the pages look, unless it is told another place."""
    return cache_folder().parent / "records"


def file_name(gpu: str) -> str:
    """The name of a GPU's file: "NVIDIA H200" is h200.json."""
    words = re.sub(r"[^a-z0-9]+", "-", gpu.lower()).strip("-").removeprefix("nvidia-")
    return f"{words or 'gpu'}.json"


def own() -> dict[str, Record | str]:
    """The records measured on this machine, by file name; for a file that cannot be believed, why."""
    found: dict[str, Record | str] = {}
    for path in sorted(own_folder().glob("*.json")):
        try:
            status = path.stat()
            found[path.name] = _loaded(path, status.st_mtime_ns, status.st_size)
        except (file.RecordFileError, OSError) as error:
            found[path.name] = str(error)
    return found


@functools.lru_cache(maxsize=16)
def _loaded(path: Path, changed_ns: int, size: int) -> Record:
    return file.load(path)
