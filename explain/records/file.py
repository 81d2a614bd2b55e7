"""A record's file: JSON with a digest. A damaged, altered or newer file is refused with the reason.

Each point is a line. What many points share is stored once, in lists that a point refers to by number: `origins`,
`counting` (what read the counters, and the copy that checked them) and `timing` (the method). `counts` names the
columns of a point's `cold` and `warm`. A point may have `stalls`, which older programs ignore.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, TypeVar

from explain.counters.model import CopyCheck, Counters, Counts, current
from explain.counters.stalls import Stalls
from explain.device.measurement import Provenance, Timing
from explain.experiment import Experiment
from explain.records.model import Origin, Point, Record, Roof
from explain.records.results import write_bytes

FORMAT, VERSION = "tilescope-record", 1
MOST_BYTES = 16 * 2**20
_COUNTS = [field.name for field in fields(Counts)]
_TYPES: Mapping[str, tuple[type, ...]] = {"str": (str,), "int": (int,), "float": (int, float), "None": (type(None),)}
_Value = TypeVar("_Value")
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
    if digest != _digest(content):
        raise RecordFileError("damaged or altered: the digest does not match its numbers")
    try:
        points = [_point(one, content) for one in content["points"]]
        roofs = [_made(Roof, roof) for roof in content["roofs"]]
        return Record(
            str(content["commit"]),
            _made(Provenance, content["provenance"]),
            {point.experiment.key: point for point in points},
            {roof.level: roof for roof in roofs},
        )
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
    experiment = Experiment.from_json(entry["experiment"])
    counters = timing = origin = None
    if "origin" in entry:
        measured = dict(content["origins"][entry["origin"]])
        where = _made(Provenance, measured.pop("provenance"))
        origin = _made(Origin, measured, provenance=where)
    if "counted" in entry:
        how = dict(content["counting"][entry["counted"]])
        counters = _made(
            Counters,
            {name: how.pop(name) for name in ("chip", "method", "fallback", "passes")},
            experiment=experiment.to_json(),
            cold=_counts(content["counts"], entry["cold"]),
            warm=_counts(content["counts"], entry["warm"]),
            copy=_made(CopyCheck, how["copy"]),
            lacking=tuple(str(name) for name in how["lacking"]),
            provenance=_made(Provenance, how["provenance"]),
            stalls=Stalls.from_json(entry["stalls"]) if "stalls" in entry else None,
        )
    if "ms" in entry:
        times = dict(zip(content["times"], entry["ms"], strict=True))
        timing = _made(Timing, {**times, "method": content["timing"][entry["timed"]]})
    rest = {"peak_bytes": entry.get("peak_bytes"), "why": entry.get("why", "")}
    return _made(Point, rest, experiment=experiment, counters=counters, timing=timing, origin=origin)


def _counts(columns: list[str], values: list[Any]) -> Counts:
    """The counts; None for those that an older file does not have."""
    return _made(Counts, {**dict.fromkeys(_COUNTS), **current(dict(zip(columns, values, strict=True)))})


def _made(kind: Callable[..., _Value], data: Mapping[str, Any], **known: Any) -> _Value:
    """A value made of plain fields, checked by type, and of `known` fields. Raises TypeError naming a wrong one."""
    for field in fields(kind):  # type: ignore[arg-type]
        if field.name in data:
            value, types = data[field.name], [one for name in str(field.type).split(" | ") for one in _TYPES[name]]
            number = isinstance(value, int | float)
            if type(value) not in types or (number and not math.isfinite(value)):
                raise TypeError(f"{field.name}={value!r}, which should be {field.type}")
    return kind(**data, **known)


def _digest(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
