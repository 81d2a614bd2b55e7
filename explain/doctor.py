"""Checks this machine: what works, what is missing, and how to fix it."""

from __future__ import annotations

import os
import platform
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from importlib import metadata

import psutil

from explain import ROOT, recordings
from explain.engine import Engine, cache_folder, has_triton
from explain.experiment import Experiment
from explain.sandbox.protections import protections
from explain.workers import WorkerError

OLDEST_PYTHON = (3, 11)
COUNTED = Experiment.of("softmax_online")


@dataclass(frozen=True)
class Finding:
    """One check. `needed`: the app does not run without it. `remedy` is empty if all is well."""

    what: str
    found: str
    ok: bool = True
    remedy: str = ""
    needed: bool = False


def examine() -> Iterator[Finding]:
    """Checks Python, the packages, the interpreter, the GPU, the recordings and the cache; takes some seconds."""
    version = platform.python_version()
    old = sys.version_info < OLDEST_PYTHON
    yield Finding("Python", version, not old, "Install Python 3.11 or newer." if old else "", needed=True)
    memory = psutil.virtual_memory()
    yield Finding("machine", f"{platform.system()}, {os.cpu_count()} cores, {memory.total / 2**30:.0f} GiB of memory")
    for package, wanted in _pins():
        yield _package(package, wanted)
    with closing(Engine()) as engine:
        yield _interpreter(engine)
        status = engine.device()
        if status.available and status.provenance:
            found = "{gpu}, driver {driver}, CUDA {cuda}".format(**status.provenance)
            yield Finding("GPU", found)
            yield _counters(engine)
        else:
            remedy = "Nothing to fix on a laptop: kernels run in Triton's interpreter."
            yield Finding("GPU", f"not available. {status.reason}", False, remedy)
    count = len(recordings.files(".tilescope"))
    remedy = "" if count else "Run: python -m explain record traces"
    yield Finding("recorded traces", f"{count} shipped", count > 0, remedy, needed=not has_triton())
    yield _cache()
    yield _sandbox()


def _pins() -> Iterator[tuple[str, str]]:
    for line in (ROOT / "requirements.txt").read_text().splitlines():
        name, _, version = line.partition(";")[0].strip().partition("==")
        if version and not (name == "triton" and platform.system() != "Linux"):
            yield name, version


def _package(name: str, wanted: str) -> Finding:
    try:
        version = metadata.version(name)
    except metadata.PackageNotFoundError:
        return Finding(name, "missing", False, f"Run: pip install {name}=={wanted}", name in ("streamlit", "numpy"))
    same = version.split("+")[0] == wanted
    return Finding(name, version, same, "" if same else f"Tested with {wanted}: pip install {name}=={wanted}")


def _interpreter(engine: Engine) -> Finding:
    if not has_triton():
        remedy = (
            "Nothing to fix on macOS and Windows: Triton does not run there, and the chapters show recorded traces."
        )
        return Finding("Triton's interpreter", "not installed", False, remedy)
    start = time.perf_counter()
    try:
        said = engine.check(Experiment.of("softmax_online", {}, "notebook"))
    except WorkerError as error:
        return Finding("Triton's interpreter", str(error), False, "Run: pip install -r requirements.txt")
    seconds = time.perf_counter() - start
    right = bool(said["within_tolerance"])
    found = f"ran softmax_online, result {'correct' if right else 'WRONG'}, {seconds:.1f} s including start-up"
    return Finding("Triton's interpreter", found, right, "" if right else "Run: pip install -r requirements.txt")


def _counters(engine: Engine) -> Finding:
    """Whether the GPU's counters can be read, and count a copy of known size correctly."""
    try:
        point = engine.point(COUNTED, timing=False)
    except WorkerError as error:
        return Finding("hardware counters", "not read", False, str(error))
    if point.counters is None:
        return Finding("hardware counters", "cannot be read", False, point.why)
    found = f"{point.counters.method}, {point.counters.chip}; a 1 GiB copy is counted correctly"
    return Finding("hardware counters", found, remedy=point.counters.fallback)


def _sandbox() -> Finding:
    known = protections()
    remedy = "" if known.complete else "Nothing to fix for your own code. Third-party code needs Linux with Landlock."
    return Finding("sandbox for third-party code", known.line, known.complete, remedy)


def _cache() -> Finding:
    folder = cache_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / ".writable").touch()
        (folder / ".writable").unlink()
    except OSError as error:
        return Finding("cache", f"cannot be written: {error}", False, "Set TILESCOPE_CACHE to a writable folder.")
    return Finding("cache", str(folder))
