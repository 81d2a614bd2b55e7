"""One file of counters: JSON with a digest of its own, refused with the reason when damaged, altered or newer than this program."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from explain.counters.model import Counters
from explain.experiment import Experiment

FORMAT, VERSION = "tilescope-counters", 1
ROOT = Path(__file__).resolve().parents[2]


class CountersFileError(ValueError):
    """A file that cannot be believed; says why."""


@dataclass(frozen=True)
class CountersFile:
    """What one run of `python -m explain measure` counted. `missed`: {"experiment", "why"} of each that could not be; `commit` of the code."""

    commit: str
    counted: tuple[Counters, ...]
    missed: tuple[dict[str, Any], ...]


def save(path: Path, counted: Sequence[Counters], missed: Sequence[dict[str, Any]]) -> None:
    """Writes the file whole: a run that is killed leaves the one before it."""
    content = {"commit": _commit(), "counted": [one.to_json() for one in counted], "missed": list(missed)}
    text = json.dumps({"format": FORMAT, "version": VERSION, "digest": _digest(content), **content}, indent=1) + "\n"
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    beside.write_text(text, encoding="utf-8")
    beside.replace(path)


def load(path: Path) -> CountersFile:
    """The file's counters. Raises CountersFileError, or OSError where it cannot be read."""
    return parse(path.read_bytes())


def parse(data: bytes) -> CountersFile:
    """The counters in a file's bytes. Raises CountersFileError."""
    try:
        content = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise CountersFileError(f"damaged: it is no JSON ({error})") from None
    if not isinstance(content, dict) or content.pop("format", None) != FORMAT:
        raise CountersFileError("it is no file of counters: python -m explain measure makes one")
    version, digest = content.pop("version", None), content.pop("digest", None)
    if not isinstance(version, int) or version < 1:
        raise CountersFileError(f"damaged: its version is {version!r}")
    if version > VERSION:
        raise CountersFileError(
            f"it is of format {version}, and this Tilescope reads up to {VERSION}: update Tilescope"
        )
    if digest != _digest(content):
        raise CountersFileError("damaged or altered: its numbers are not those that were measured (the digest differs)")
    try:
        counted = tuple(Counters.from_json(one) for one in content["counted"])
        for one in (*content["counted"], *content["missed"]):
            Experiment.from_json(one["experiment"])
        return CountersFile(str(content["commit"]), counted, tuple(content["missed"]))
    except (KeyError, TypeError, ValueError) as error:  # whole, but of no Tilescope that this one knows
        raise CountersFileError(f"it holds what this Tilescope does not know: {error}") from None


def _digest(content: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _commit() -> str:
    """The commit of the code, "+" where it was changed since; "unknown" outside a checkout."""
    try:
        done = subprocess.run(
            ["git", "describe", "--always", "--abbrev=40", "--dirty=+", "--exclude=*"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=20,
            check=True,
        )
        return done.stdout.strip() or "unknown"
    except (OSError, subprocess.SubprocessError):
        return "unknown"
