"""Of which code something was measured: the commit, and a digest of the kernel's own file, so that a number of other code is known as such."""

from __future__ import annotations

import functools
import hashlib
import re
import subprocess
from pathlib import Path

from explain.experiment import Experiment
from explain.records.model import Point
from kernels.known import KERNELS

ROOT = Path(__file__).resolve().parents[2]


def code_of(experiment: Experiment) -> str:
    """A digest of the file that holds the experiment's kernel, without its comments, and of the edit that makes it another."""
    return _code_of(experiment.kernel)


@functools.cache
def _code_of(kernel: str) -> str:
    entry = KERNELS[kernel]
    return hashlib.sha256(f"{_code(entry.module)}\n{entry.edit!r}".encode()).hexdigest()[:16]


def is_of_older_code(point: Point) -> bool:
    """Whether the kernel's code has changed since this was measured; False where it is not known of which code it is."""
    return point.origin is not None and point.origin.code not in ("", code_of(point.experiment))


def digest_of(module: str) -> str:
    """A digest of a module's file, without its comments."""
    return hashlib.sha256(_code(module).encode()).hexdigest()[:16]


@functools.cache
def _code(module: str) -> str:
    text = ROOT.joinpath(*module.split(".")).with_suffix(".py").read_text(encoding="utf-8")
    lines = (re.sub(r"(^|\s+)#.*", "", line).rstrip() for line in text.splitlines())
    return "\n".join(line for line in lines if line)


@functools.cache
def commit() -> str:
    """The commit of the code, "+" where it was changed since; "unknown" outside a checkout."""
    describe = ["git", "describe", "--always", "--abbrev=40", "--dirty=+", "--exclude=*"]
    try:
        done = subprocess.run(describe, cwd=ROOT, capture_output=True, text=True, timeout=20, check=True)
        return done.stdout.strip() or "unknown"
    except (OSError, subprocess.SubprocessError):
        return "unknown"
