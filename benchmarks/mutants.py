"""Whether the tests find what is broken in the engine: one small edit at a time, and the test that must fail for it.

    python -m benchmarks.mutants --out benchmarks/results/mutants.json

tests/mutants.toml lists the edits, in code that many tests rely on: the recorder, the formulas, the tolerances, the
player, the jobs. (tests/kernels/mutants.py has those of the kernels.) Each job has a copy of the repository. First
every test must pass there without an edit. Then each edit is made, its test runs, and the edit is undone.
"""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from queue import SimpleQueue

from benchmarks.report import finish, parser_of
from explain import ROOT

LIST = ROOT / "tests" / "mutants.toml"
LIMIT_S = 300.0  # of one test; a mutant that hangs is not found
TITLES = {
    "recorder": "the recorder and its trace", "formulas": "the formulas of bytes and FLOPs",
    "budgets": "the reference and the tolerances", "player": "the player", "jobs": "jobs, workers and engine",
}  # fmt: skip
_ENDS = {0: "survived", 1: "found"}  # pytest's exit status: 0 all passed, 1 some failed


@dataclass(frozen=True)
class Mutant:
    """`file` with `old`, which it has once, replaced by `new`: then `test`, a pytest node id, must fail."""

    group: str
    name: str
    file: str
    old: str
    new: str
    test: str


def listed(path: Path = LIST) -> list[Mutant]:
    """The mutants of the list, by group."""
    groups: Mapping[str, Mapping[str, dict[str, str]]] = tomllib.loads(path.read_text(encoding="utf-8"))
    return [Mutant(group, name, **edit) for group, edits in groups.items() for name, edit in edits.items()]


@contextmanager
def copies(count: int) -> Iterator[list[Path]]:
    """This many copies of the repository's tracked files."""
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    with tempfile.TemporaryDirectory(prefix="tilescope-") as folder:
        places = [Path(folder) / str(number) for number in range(count)]
        for place, name in itertools.product(places, filter(None, tracked.split("\0"))):
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, place / name)
        yield places


@contextmanager
def mutated(place: Path, mutant: Mutant) -> Iterator[None]:
    """The copy with the edit made. Raises ValueError if the old text is not there exactly once."""
    path = place / mutant.file
    text, before = path.read_text(encoding="utf-8"), path.stat().st_mtime
    if text.count(mutant.old) != 1:
        raise ValueError(f"{mutant.name}: {mutant.file} has its old text {text.count(mutant.old)} times")
    path.write_text(text.replace(mutant.old, mutant.new), encoding="utf-8")
    try:
        yield
    finally:
        path.write_text(text, encoding="utf-8")
        os.utime(path, (before, before))  # else Python may take the mutant's bytecode for the file's


def outcome(place: Path, tests: Sequence[str]) -> str:
    """How these tests end in a copy: "survived" (all passed), "found" (one failed) or why there is no verdict."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests]
    env = {**os.environ, "CI": "1", "TILESCOPE_CACHE": str(place / "cache")}  # CI: random cases are the same each time
    try:
        done = subprocess.run(
            command, cwd=place, env=env, capture_output=True, timeout=LIMIT_S * len(tests), check=False
        )
    except subprocess.TimeoutExpired:
        return f"no end within {LIMIT_S * len(tests):g} s"
    return _ENDS.get(done.returncode, f"pytest ended with status {done.returncode}")


def verdict(place: Path, mutant: Mutant) -> str:
    """Whether the mutant is "found", has "survived", or why there is no verdict."""
    with mutated(place, mutant):
        return outcome(place, [mutant.test])


def already_failing(place: Path, tests: Sequence[str]) -> list[str]:
    """The tests that do not pass without a mutant."""
    if outcome(place, tests) == "survived":
        return []
    return [test for test in tests if outcome(place, [test]) != "survived"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the benchmark; 0 if every mutant is found."""
    names = [mutant.name for mutant in listed()]
    parser = parser_of(__doc__)
    parser.add_argument("--jobs", type=int, default=2, help="copies in which mutants run at the same time (2)")
    parser.add_argument("--only", nargs="*", choices=names, metavar="NAME", help="these mutants; default: all")
    options = parser.parse_args(arguments)
    mutants = [mutant for mutant in listed() if not options.only or mutant.name in options.only]
    began = time.monotonic()
    with copies(options.jobs) as places, ThreadPoolExecutor(options.jobs) as threads:
        free: SimpleQueue[Path] = SimpleQueue()
        for place in places:
            free.put(place)

        def judged(mutant: Mutant) -> str:
            place = free.get()
            try:
                said = verdict(place, mutant)
            finally:
                free.put(place)
            print(f"{time.monotonic() - began:5.0f} s  {said:<10}{mutant.group}: {mutant.name}", file=sys.stderr)
            return said

        failing = already_failing(places[0], list(dict.fromkeys(mutant.test for mutant in mutants)))
        for test in failing:
            print(f"fails without a mutant: {test}", file=sys.stderr)
        told = list(threads.map(judged, [mutant for mutant in mutants if mutant.test not in failing]))
    said = dict(zip([mutant for mutant in mutants if mutant.test not in failing], told, strict=True))
    found = [mutant for mutant, one in said.items() if one == "found"]
    result = {
        "what": "edits of one place each, and whether the test named for each fails",
        "mutants": len(mutants),
        "found": len(found),
        "groups": _groups(mutants, found),
        "survived": [mutant.name for mutant, one in said.items() if one == "survived"],
        "without_verdict": {mutant.name: one for mutant, one in said.items() if one not in _ENDS.values()},
        "failing_without_a_mutant": failing,
        "seconds": round(time.monotonic() - began),
        "passed": len(found) == len(mutants),
    }
    return finish(result, "mutants", options.out, torch=version("torch"), triton=version("triton"))


def _groups(mutants: Sequence[Mutant], found: Sequence[Mutant]) -> dict[str, dict[str, int]]:
    """The counts of each group, by its title."""
    every, those = (Counter(mutant.group for mutant in some) for some in (mutants, found))
    return {TITLES[group]: {"mutants": every[group], "found": those[group]} for group in every}


if __name__ == "__main__":
    sys.exit(main())
