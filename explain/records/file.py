"""A record's file: JSON with a digest. A damaged, altered or newer file is refused with the reason.

Each point is a line. What many points share is stored once, in lists that a point refers to by number: `origins`,
`counting` (what read the counters, and the copy that checked them) and `timing` (the method). `counts` names the
columns of a point's `cold` and `warm`. A point may have `stalls`, which older programs ignore.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from explain.counters.model import Counts
from explain.device.measurement import Provenance, Timing
from explain.plain import made
from explain.records.model import Point, Record, Roof
from explain.records.results import write_bytes

FORMAT, VERSION = "tilescope-record", 1
MOST_BYTES = 16 * 2**20
_COUNTS = [field.name for field in fields(Counts)]
_TIMES = [field.name for field in fields(Timing) if field.name != "method"]


class RecordFileError(ValueError):
    """The file is not a valid record; the message says why."""


def save(path: Path, record: Record) -> None:
    """Writes the record's file. Raises OSError."""
    write_bytes(path, written(record))


def load(path: Path) -> Record:
    """The record in a file. Raises RecordFileError, or OSError if it cannot be read."""
    return parse(path.read_bytes())


def written(record: Record) -> bytes:
    """The record as a file's bytes."""
    shared = _Shared()
    content: dict[str, Any] = {
        "commit": record.commit,
        "provenance": asdict(record.provenance),
        "roofs": [asdict(roof) for roof in record.roofs.values()],
        "counts": _COUNTS,
        "times": _TIMES,
        "points": [_of_point(point, shared) for point in record.points.values()],
    }
    content |= {name: shared.lists[name] for name in ("origins", "counting", "timing")}
    head: dict[str, Any] = {"format": FORMAT, "version": VERSION, "digest": _digest(content), **content}
    points = head.pop("points")
    opening = json.dumps(head, allow_nan=False, indent=1)[: -len("\n}")]
    lines = ",\n".join(json.dumps(point, allow_nan=False, separators=(",", ":")) for point in points)
    return f'{opening},\n "points": [\n{lines}\n]}}\n'.encode()


def parse(data: bytes) -> Record:
    """The record in a file's bytes. Raises RecordFileError."""
    if len(data) > MOST_BYTES:
        raise RecordFileError(f"it is larger than {MOST_BYTES // 2**20} MB, the largest record")
    try:
        content = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise RecordFileError(f"damaged: it is not JSON ({error})") from None
    if not isinstance(content, dict) or content.pop("format", None) != FORMAT:
        raise RecordFileError("it is not a GPU's record; make one with: python -m explain measure")
    version, digest = content.pop("version", None), content.pop("digest", None)
    if isinstance(version, bool) or not isinstance(version, int) or version < 1:
        raise RecordFileError(f"damaged: its version is {version!r}")
    if version > VERSION:
        raise RecordFileError(f"it has format {version}; this Tilescope reads up to format {VERSION}: update Tilescope")
    try:
        if digest != _digest(content):
            raise RecordFileError("damaged or altered: the digest does not match its numbers")
        points = [_point(one, content) for one in content["points"]]
        roofs = [made(Roof, roof) for roof in content["roofs"]]
        return Record(
            str(content["commit"]),
            made(Provenance, content["provenance"]),
            {point.experiment.key: point for point in points},
            {roof.level: roof for roof in roofs},
        )
    except RecordFileError:
        raise
    except (KeyError, IndexError, TypeError, ValueError) as error:  # undamaged, but with unknown fields
        raise RecordFileError(f"this Tilescope does not know its fields: {error}") from None


class _Shared:
    """The lists of what many points share."""

    def __init__(self) -> None:
        self.lists: dict[str, list[Any]] = {"origins": [], "counting": [], "timing": []}
        self._numbers: dict[str, int] = {}

    def number(self, name: str, value: Any) -> int:
        """The index of the value in the list of this name; a new value is added."""
        key = json.dumps([name, value], sort_keys=True)
        if key not in self._numbers:
            self._numbers[key] = len(self.lists[name])
            self.lists[name].append(value)
        return self._numbers[key]


def _of_point(point: Point, shared: _Shared) -> dict[str, Any]:
    entry: dict[str, Any] = {"experiment": point.experiment.to_json()}
    if point.origin:
        entry["origin"] = shared.number("origins", asdict(point.origin))
    if point.counters:
        how = asdict(point.counters)
        for name in ("cold", "warm"):
            counted = how.pop(name)
            entry[name] = [counted[column] for column in _COUNTS]
        del how["experiment"]
        if stalls := how.pop("stalls"):
            entry["stalls"] = stalls
        entry["counted"] = shared.number("counting", how)
    if point.timing:
        entry["ms"] = [getattr(point.timing, name) for name in _TIMES]
        entry["timed"] = shared.number("timing", point.timing.method)
    if point.peak_bytes is not None:
        entry["peak_bytes"] = point.peak_bytes
    return {**entry, "why": point.why} if point.why else entry


def _point(entry: Mapping[str, Any], content: Mapping[str, Any]) -> Point:
    parts: dict[str, Any] = {name: entry[name] for name in ("experiment", "peak_bytes", "why") if name in entry}
    if "origin" in entry:
        parts["origin"] = content["origins"][entry["origin"]]
    if "counted" in entry:
        counts = {name: _counts(content["counts"], entry[name]) for name in ("cold", "warm")}
        how = {**content["counting"][entry["counted"]], "stalls": entry.get("stalls")}
        parts["counters"] = {**how, **counts, "experiment": entry["experiment"]}
    if "ms" in entry:
        times = dict(zip(content["times"], entry["ms"], strict=True))
        parts["timing"] = {**times, "method": content["timing"][entry["timed"]]}
    return made(Point, parts)


def _counts(columns: list[str], values: list[Any]) -> dict[str, Any]:
    """The counts; None for those that an older file lacks. Only older files have `tensor_percent`; nothing reads it."""
    counts = {**dict.fromkeys(_COUNTS), **dict(zip(columns, values, strict=True))}
    counts.pop("tensor_percent", None)
    return counts


def _digest(content: Mapping[str, Any]) -> str:
    text = json.dumps(content, allow_nan=False, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
