"""A record's file: JSON, a point a line, with a digest of its own; refused with the reason when damaged, altered or newer than this program.

What many points share stands once: `origins`, `counting` (what read the counters, and the copy they were checked with) and `timing` (the method)
are lists, and a point names its own by number. `counts` names the columns of a point's `cold` and `warm`.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from explain.counters.model import CopyCheck, Counters, Counts
from explain.device.measurement import Provenance, Timing
from explain.experiment import Experiment
from explain.records.model import Origin, Point, Record, Roof

FORMAT, VERSION = "tilescope-record", 1
MOST_BYTES = 16 * 2**20
_COUNTS = [field.name for field in fields(Counts)]
_TIMES = [field.name for field in fields(Timing) if field.name != "method"]


class RecordFileError(ValueError):
    """A file that cannot be believed; says why."""


def save(path: Path, record: Record) -> None:
    """Writes the file whole: a run that is killed leaves the one before it."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    beside.write_bytes(written(record))
    beside.replace(path)


def load(path: Path) -> Record:
    """The file's record. Raises RecordFileError, or OSError where it cannot be read."""
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
        raise RecordFileError(f"it is larger than {MOST_BYTES // 2**20} MB, which no record is")
    try:
        content = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise RecordFileError(f"damaged: it is no JSON ({error})") from None
    if not isinstance(content, dict) or content.pop("format", None) != FORMAT:
        raise RecordFileError("it is no record of a GPU: python -m explain measure makes one")
    version, digest = content.pop("version", None), content.pop("digest", None)
    if isinstance(version, bool) or not isinstance(version, int) or version < 1:
        raise RecordFileError(f"damaged: its version is {version!r}")
    if version > VERSION:
        raise RecordFileError(f"it is of format {version}, and this Tilescope reads up to {VERSION}: update Tilescope")
    if digest != _digest(content):
        raise RecordFileError("damaged or altered: its numbers are not those that were measured (the digest differs)")
    try:
        points = [_point(one, content) for one in content["points"]]
        roofs = [Roof(**roof) for roof in content["roofs"]]
        return Record(
            str(content["commit"]),
            Provenance(**content["provenance"]),
            {point.experiment.key: point for point in points},
            {roof.level: roof for roof in roofs},
        )
    except (
        KeyError,
        IndexError,
        TypeError,
        ValueError,
    ) as error:  # whole, but of no Tilescope that this one knows
        raise RecordFileError(f"it holds what this Tilescope does not know: {error}") from None


class _Shared:
    """The lists of what stands once."""

    def __init__(self) -> None:
        self.lists: dict[str, list[Any]] = {"origins": [], "counting": [], "timing": []}
        self._numbers: dict[str, int] = {}

    def number(self, name: str, value: Any) -> int:
        """Where the value stands in the list of this name; it is added if it is new."""
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
        origin = content["origins"][entry["origin"]]
        origin = Origin(**{**origin, "provenance": Provenance(**origin["provenance"])})
    if "counted" in entry:
        how = content["counting"][entry["counted"]]
        how = {**how, "copy": CopyCheck(**how["copy"]), "lacking": tuple(how["lacking"])}
        how["provenance"] = Provenance(**how["provenance"])
        cold, warm = (_counts(content["counts"], entry[name]) for name in ("cold", "warm"))
        counters = Counters(experiment=experiment.to_json(), cold=cold, warm=warm, **how)
    if "ms" in entry:
        times = dict(zip(content["times"], entry["ms"], strict=True))
        timing = Timing(**times, method=content["timing"][entry["timed"]])
    return Point(experiment, counters, timing, entry.get("peak_bytes"), entry.get("why", ""), origin)


def _counts(columns: list[str], values: list[Any]) -> Counts:
    """A count that the file's Tilescope did not know is None."""
    return Counts(**{**dict.fromkeys(_COUNTS), **dict(zip(columns, values, strict=True))})


def _digest(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
