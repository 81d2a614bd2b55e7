"""Which code a number was measured on: the commit, and the digest of the code that ran. Other code makes it stale.

What was measured has a name: a kernel ("flash_attention", "rung:tma"), a function ("kernels.decode:decode") or a group
of files ("app", see GROUPS).
"""

from __future__ import annotations

import functools
import hashlib
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from explain import ROOT, data
from explain.jobs import Job
from explain.records.model import Point
from kernels.catalog import KERNELS
from kernels.digest import digest_of, running

HEAD_START_S = 15.0
GROUPS: Mapping[str, Sequence[str]] = data(__file__)
"""The files that a benchmark measures, for their digest; patterns below the repository's root."""


def is_stale(point: Point) -> bool:
    """Whether the code has changed since this was measured; False if the point does not say what it measured."""
    return point.origin is not None and point.origin.code not in ("", point.experiment.entry.code)


@functools.cache
def code_of(name: str) -> str:
    """The digest of the code of this name, 16 hex digits; "" if there is no such code any more.

    Comments, docstrings and formatting of Python files do not count.
    """
    if name in KERNELS:
        return KERNELS[name].code
    if name in GROUPS:
        files = sorted({path for pattern in GROUPS[name] for path in ROOT.glob(pattern)})
        texts = (path.read_text(encoding="utf-8") for path in files)
        code = (running(text) if path.suffix == ".py" else text for path, text in zip(files, texts, strict=True))
        return hashlib.sha256("\n".join(code).encode()).hexdigest()[:16]
    module, _, function = name.partition(":")
    try:
        return digest_of(module, function)
    except (ValueError, OSError, ImportError):
        return ""


def measured_code(names: Iterable[str]) -> dict[str, Any]:
    """What a result says of the code it measured: {"commit", "code": {name: digest}}."""
    return {"commit": commit(), "code": {name: code_of(name) for name in dict.fromkeys(names)}}


def stale_parts(code: Mapping[str, str] | None) -> list[str]:
    """The names in a result's "code" that have other code now; ["everything"] for a result that does not say."""
    return [name for name, digest in code.items() if digest != code_of(name)] if code else ["everything"]


def stale_parts_if_known(code: Mapping[str, str] | None) -> list[str]:
    """`stale_parts` without waiting: for a group of files it is [] until a background job has found it."""
    if not code or all(name not in GROUPS for name in code):
        return stale_parts(code)
    return _working_out(tuple(code.items())).result or []


@functools.cache
def _working_out(code: tuple[tuple[str, str], ...]) -> Job[list[str]]:
    def work(_: Job[list[str]]) -> list[str]:
        time.sleep(HEAD_START_S)  # parsing takes a second of CPU, which the first page needs
        return stale_parts(dict(code))

    return Job(work, "comparing the code")


def stale_words(parts: Sequence[str]) -> str:
    """What is stale, in words; "" if nothing is."""
    if not parts:
        return ""
    if parts == ["everything"]:
        return "this recording does not name the code it measured"
    more = f" and {len(parts) - 3} more" if len(parts) > 3 else ""
    return f"measured on older code of {', '.join(parts[:3])}{more}"


@functools.cache
def commit() -> str:
    """The commit of the code, "+" where it was changed since; "unknown" outside a checkout."""
    describe = ["git", "describe", "--always", "--abbrev=40", "--dirty=+", "--exclude=*"]
    try:
        done = subprocess.run(describe, cwd=ROOT, capture_output=True, text=True, timeout=20, check=True)
        return done.stdout.strip() or "unknown"
    except (OSError, subprocess.SubprocessError):
        return "unknown"
