"""How often `python -m explain diff` finds a bug's line and cause, and whether it blames right kernels.

    python -m benchmarks.difference --out benchmarks/results/difference.json

Each bug runs in the interpreter beside the right kernel, on tiny inputs. A bug counts if its result exceeds the
tolerance there. Its line is right if the first difference is at a line that the bug changed, its cause if the words
name what was changed. About two minutes.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

os.environ["TRITON_INTERPRET"] = "1"  # before triton is imported

from benchmarks import difference_cases as cases
from benchmarks import difference_forms
from benchmarks.difference_cases import Case
from explain.difference.compare import CannotCompareError, first_difference
from explain.experiment import Experiment, ParameterError
from explain.records import results
from explain.records.code import measured_code
from explain.trace.model import Trace
from explain.trace.recorder import record_call
from kernels.catalog import KERNELS
from kernels.launch import launcher, tensors
from kernels.verify import verify

HALVES = ("first", "second", "fresh", "forms")


def run(experiment: Experiment, edit: Any = None) -> tuple[Trace, bool]:
    """The trace of an experiment's kernel, edited if asked for, and whether it is within its tolerance."""
    entry = replace(KERNELS[experiment.kernel], edit=edit) if edit else KERNELS[experiment.kernel]
    arrays = entry.make_inputs(experiment.preset, experiment.values, experiment.seed)
    outputs: dict[str, Any] = {}
    launch = launcher(entry, experiment.values, tensors(experiment.values, arrays, "cpu"))
    trace = record_call(lambda: outputs.update(launch()), experiment=experiment.to_json())
    return trace, verify(entry, experiment.values, arrays, outputs).within_tolerance


def experiments(case: Case) -> Iterator[Experiment]:
    """The inputs and sizes to try: the case's own, or those that break wrong kernels."""
    entry = KERNELS[case.kernel]
    if case.inputs:
        own = {parameter.name for parameter in entry.parameters}
        yield Experiment.of(
            case.kernel, {k: v for k, v in (case.others or case.sizes).items() if k in own}, case.inputs
        )
        return
    for preset in cases.SEARCHED:
        for sizes in _sizes(case.kernel):
            try:
                yield Experiment.of(case.kernel, {**sizes, **case.sizes}, preset)
            except ParameterError:  # a preset that does not fit this kernel
                continue


def _sizes(kernel: str) -> Iterator[dict[str, Any]]:
    entry = KERNELS[kernel]
    names = {parameter.name for parameter in entry.parameters}
    if entry.family == "vector":
        yield {"n": 64, "block_n": 16}
    elif entry.family == "softmax":
        more = {"k": 3} if "k" in names else {"block_m": 2} if "block_m" in names else {}
        yield {**cases.ROWS, **more}
        if "k" in names:
            yield {**cases.ROWS, "k": 1}
    else:
        yield from (cases.HEADS, cases.CAUSAL, cases.RAGGED, {**cases.HEADS, "kv_len": 44})


def measured(case: Case, half: str) -> dict[str, Any]:
    """What the comparison says of a case."""
    row = {"bug": case.name, "half": half, "shown": False, "line": False, "cause": False, "said": "", "inputs": ""}
    for experiment in experiments(case):
        broken, within = run(experiment, case.edit)
        if within:
            continue
        row |= {"shown": True, "inputs": experiment.inputs}
        right, _ = run(Experiment.of(case.base, _shared(case), experiment.inputs) if case.inputs else experiment)
        try:
            found = first_difference(right, broken)
        except CannotCompareError as error:
            return row | {"said": f"cannot compare: {error}"}
        if found is None:
            return row | {"said": "same"}
        line = found.wrong.line in case.lines
        cause = line and bool(case.cause) and bool(re.search(case.cause, found.cause))
        return row | {"line": line, "cause": cause, "said": found.cause, "at": found.wrong.code}
    return row


def _shared(case: Case) -> dict[str, Any]:
    own = {parameter.name for parameter in KERNELS[case.base].parameters}
    return {name: value for name, value in case.sizes.items() if name in own}


def blamed(case: Case) -> dict[str, Any]:
    """Whether a right variant is called different."""
    right, _ = run(Experiment.of(case.base, _shared(case), case.inputs))
    (variant,) = experiments(case)
    try:
        found = first_difference(right, run(variant, case.edit)[0])
    except CannotCompareError as error:
        return {"variant": case.name, "blamed": True, "said": f"cannot compare: {error}"}
    return {"variant": case.name, "blamed": found is not None, "said": "" if found is None else found.wrong.code}


def counted(rows: list[dict[str, Any]]) -> dict[str, int]:
    """The bugs that an input shows, and how many have the right line and the right cause."""
    shown = [row for row in rows if row["shown"]]
    return {"bugs": len(shown), **{name: sum(row[name] for row in shown) for name in ("line", "cause")}}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, metavar="FILE", help="also write the result to this file, as JSON")
    parsed = parser.parse_args()
    begin = time.process_time()
    bugs = [measured(case, "first") for case in cases.first_half()]
    bugs += [measured(case, "second") for case in cases.written_later(cases.SECOND_HALF)]
    bugs += [measured(case, "fresh") for case in cases.written_later(cases.FRESH)]
    bugs += [measured(case, "forms") for case in difference_forms.bugs()]
    right = [blamed(case) for case in (*cases.right_variants(), *difference_forms.right_variants())]
    halves = {half: counted([row for row in bugs if row["half"] == half]) for half in HALVES}
    result = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "seconds": round(time.process_time() - begin, 1),
        **measured_code(["difference"]),
        "halves": halves,
        "right": {"variants": len(right), "blamed": sum(row["blamed"] for row in right)},
        "bugs": bugs,
        "variants": right,
    }
    for row in bugs:
        if not (row["line"] and row["cause"]):
            print(("not shown" if not row["shown"] else "line" if not row["line"] else "cause"), row, file=sys.stderr)
    for row in right:
        if row["blamed"]:
            print("blamed", row, file=sys.stderr)
    print(halves, result["right"], f"{result['seconds']} s")
    if parsed.out:
        results.write(parsed.out, result)
    return 0


if __name__ == "__main__":
    sys.exit(main())
