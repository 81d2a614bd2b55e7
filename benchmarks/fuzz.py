"""Thousands of inputs that nobody meant: addresses, values of controls, damaged files of each kind that a reader has.

    python -m benchmarks.fuzz --out benchmarks/results/fuzz.json

Each must be shown, or be refused in a sentence, within a second. The same number gives the same input again. Half of
the inputs are addresses with controls, the others files. About ten minutes on two cores.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from typing import Any

from benchmarks.report import finish, parser_of
from tests.fuzz.found import Found

SLOW_S = 1.0
ADDRESSES = "address"


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the benchmark; 0 if nothing broke and nothing was slow."""
    from tests.fuzz.files import READERS

    parser = parser_of(__doc__)
    parser.add_argument("--inputs", type=int, default=5000, help="how many in all (5000)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes")
    options = parser.parse_args(arguments)
    files = options.inputs // (2 * len(READERS))
    numbers = {ADDRESSES: options.inputs - files * len(READERS), **dict.fromkeys(READERS, files)}
    with tempfile.TemporaryDirectory(prefix="tilescope-") as folder:
        os.environ["TILESCOPE_CACHE"] = folder
        # A page takes the place of `__main__`, where a process finds its next task: so each has one.
        with multiprocessing.get_context("spawn").Pool(options.jobs, maxtasksperchild=1) as pool:
            parts = [
                (kind, pool.apply_async(look, (kind, part, numbers[kind], options.jobs)))
                for kind in numbers
                for part in range(options.jobs)
            ]
            found = {kind: [one for name, part in parts if name == kind for one in part.get()] for kind in numbers}
    kinds = {kind: _summary(kind, looked) for kind, looked in found.items()}
    broken = [f"{kind} {one.wrong or one.what}" for kind, looked in found.items() for one in looked if _is_broken(one)]
    result = {
        "inputs": sum(map(len, found.values())),
        "kinds": kinds,
        "broken": broken,
        "slowest_s": max(one["slowest_s"] for one in kinds.values()),
        "limit_s": SLOW_S,
        "passed": not broken,
    }
    return finish(result, "fuzz", options.out)


def look(kind: str, first: int, end: int, step: int) -> list[Found]:
    """What came of the inputs of a kind, every `step`-th from `first`, in a process of its own."""
    from tests.fuzz.addresses import Addresses, without_triton
    from tests.fuzz.files import READERS

    with without_triton():
        one: Callable[[int], Found] = Addresses().look if kind == ADDRESSES else READERS[kind].look
        found = [one(number) for number in range(first, end, step)]
    print(f"{kind}: {len(found)}, {sum(map(_is_broken, found))} broken", file=sys.stderr)
    return found


def _is_broken(one: Found) -> bool:
    return bool(one.wrong) or one.seconds > SLOW_S


def _summary(kind: str, found: Sequence[Found]) -> dict[str, Any]:
    summary = {"inputs": len(found), "slowest_s": round(max(one.seconds for one in found), 3)}
    if kind == ADDRESSES:  # a page is shown either way
        return summary
    return {**summary, "refused": sum(one.what != "taken" for one in found)}


if __name__ == "__main__":
    sys.exit(main())
