"""The available records: those shipped with Tilescope, and those measured on this machine."""

from __future__ import annotations

import functools
import hashlib
import os
import re
import threading
from dataclasses import dataclass, replace
from pathlib import Path

from explain import recordings
from explain.engine import cache_folder
from explain.records import file
from explain.records.model import Record

SHIPPED = tuple(recordings.FOLDER / name for name in ("h200.json", "h100-80gb-hbm3.json"))
"""The files of the shipped records. Pages open on the first one, and predictions start from it."""
RECORDED, HERE, YOURS = "recorded", "measured on this machine", "your file"


_LOADING = threading.Lock()


def shipped() -> tuple[Record, ...]:
    """The shipped records: the same objects for every thread, since to compare two large records takes long."""
    with _LOADING:
        return _shipped()


@functools.cache
def _shipped() -> tuple[Record, ...]:
    return tuple(file.load(path) for path in SHIPPED if path.exists())


def recorded() -> Record | None:
    """The first shipped record; None if there is none."""
    return next(iter(shipped()), None)


def own_folder() -> Path:
    """The folder where `python -m explain measure` writes by default, and the pages look."""
    return cache_folder().parent / "records"


def file_name(gpu: str) -> str:
    """The name of a GPU's file: "NVIDIA H200" is h200.json."""
    words = re.sub(r"[^a-z0-9]+", "-", gpu.lower()).strip("-").removeprefix("nvidia-")
    return f"{words or 'gpu'}.json"


@dataclass(frozen=True)
class Entry:
    """A record and its origin: RECORDED, HERE or YOURS."""

    key: str
    record: Record
    origin: str

    @property
    def label(self) -> str:
        """Its name in a control: "NVIDIA H100 80GB HBM3" is called "H100"."""
        return f"{re.sub(r'^NVIDIA | [0-9]+GB HBM[^ ]+$', '', self.record.gpu)} · {self.origin}"

    @property
    def source(self) -> str:
        """The source of its numbers, for a caption."""
        return f"{self.origin} · {replace(self.record.provenance, date=self.record.dates).words}"


def entries() -> tuple[list[Entry], dict[str, str]]:
    """The available records, this machine's own first; and, by file name, why a file of this machine is not valid."""
    found: list[Entry] = []
    refused: dict[str, str] = {}
    folder = own_folder()
    for name in _names(folder):
        path = folder / name
        try:
            status = path.stat()
            found.append(Entry(f"here:{name}", _loaded(path, status.st_mtime_ns, status.st_size), HERE))
        except (file.RecordFileError, OSError) as error:
            refused[name] = str(error)
    found += [Entry(f"recorded:{file_name(record.gpu)}", record, RECORDED) for record in shipped()]
    return found, refused


def _names(folder: Path) -> list[str]:
    """The names of a folder's JSON files, sorted; none if there is no folder."""
    try:
        return sorted(name for name in os.listdir(folder) if name.endswith(".json"))
    except OSError:
        return []


def uploaded(data: bytes) -> Entry:
    """A file that a reader brought. Raises RecordFileError."""
    return Entry(f"yours:{hashlib.sha256(data).hexdigest()[:12]}", file.parse(data), YOURS)


@functools.lru_cache(maxsize=16)
def _loaded(path: Path, changed_ns: int, size: int) -> Record:
    return file.load(path)
