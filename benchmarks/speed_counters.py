"""What the hardware counted of the kernels that `speed.py` times: bytes, tensor cores, why warps wait. For what is in
the way of a goal; no timing.

Each of ours and each baseline that is here runs alone, L2 cold, once for each set of counters that the GPU can count
together; the counters have counted a
copy rightly before (`explain/counters/`).

python benchmarks/speed_counters.py softmax --only ×131072 --out FILE
python benchmarks/speed_counters.py backward --keep FILE --out FILE      what is not counted now stays as it is there
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.report import check_same_machine, on_days_of_both, parser_of
from explain.counters.model import Counts
from explain.counters.stalls import Stalls

METHOD = "CUPTI's range profiler, L2 cold, all launches of a call; one call for each set of counters"


def main(arguments: Sequence[str] | None = None) -> int:
    from benchmarks.speed_cases import CASES
    from explain.counters.errors import CountersUnavailable
    from explain.device.handler import provenance
    from explain.records import results
    from explain.records.code import measured_code

    parser = parser_of(__doc__)
    parser.add_argument("tables", nargs="*", metavar="TABLE", help=f"{', '.join(CASES)}; all of them unless given")
    parser.add_argument("--only", nargs="+", default=[""], metavar="TEXT", help="only shapes with this in their name")
    parser.add_argument("--keep", type=Path, metavar="FILE", help="take what is not counted now from there")
    parsed = parser.parse_args(arguments)
    kept = results.read(parsed.keep) if parsed.keep else None
    if unknown := [table for table in parsed.tables if table not in CASES]:
        parser.error(f"{unknown[0]!r} is not a table: give one of {', '.join(CASES)}")
    kernels: list[dict[str, Any]] = []
    try:
        for one in counted(parsed.tables or list(CASES), parsed.only):
            print(told(one), flush=True)
            kernels.append(one)
    except CountersUnavailable as error:
        print(f"no counters: {error}", file=sys.stderr)
        return 1
    if parsed.out:
        functions = dict.fromkeys(one.pop("function") for one in kernels if "function" in one)
        result = {"provenance": asdict(provenance()), **measured_code(functions), "method": METHOD, "kernels": kernels}
        results.write(parsed.out, merged(kept, result) if kept else result)
    return 0


def merged(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """The old result with what was counted now in its place. Raises ValueError if GPU, driver or versions differ."""
    check_same_machine(old, new)
    counted_now = {(one["case"], one["name"]): one for one in new["kernels"] if "why" not in one}
    before = {(one["case"], one["name"]): one for one in old["kernels"]}
    provenance = on_days_of_both(old, new) if before.keys() - counted_now.keys() else new["provenance"]
    kernels = [*(before | counted_now).values()]
    return {**new, "provenance": provenance, "code": old["code"] | new["code"], "kernels": kernels}


def counted(tables: list[str], only: list[str]) -> Iterator[dict[str, Any]]:
    """{"case", "name", and "counts" and "stalls", or "why"} of each kernel. Raises CountersUnavailable."""
    import torch

    from benchmarks.speed_cases import CASES, FLOORS, make_inputs, variants
    from explain.counters.count import checked_profiler, count_stalls, rounds

    if torch.cuda.is_available():
        torch.zeros(1, device="cuda")  # counters are of a context, which begins with the first use of the GPU
    profiler, _ = checked_profiler()
    for case in (case for table in tables for case in CASES[table]() if any(text in case.name for text in only)):
        inputs = make_inputs(case)
        for variant in variants(case, tune=False):
            if variant.function in FLOORS:
                continue
            one = {"case": case.name, "name": variant.name}
            one |= {"function": variant.function} if ":" in variant.function else {}
            try:
                launch = variant.on(case, inputs)
                launch()  # compiles
            except Exception as why:  # a baseline that is not here
                yield {**one, "why": f"{type(why).__name__}: {why}"[:200]}
                continue
            cold = rounds(launch)[0]
            counts = Counts.of(*profiler.count(cold.prepare, cold.run, cold.after))
            stalls = count_stalls(launch)
            yield {**one, "counts": asdict(counts), "stalls": asdict(stalls) if stalls else None}


def told(one: dict[str, Any]) -> str:
    """One kernel in a line."""
    name = f"{one['case']} · {one['name']}"
    if "why" in one:
        return f"{name}: {one['why']}"
    counts = Counts(**one["counts"])
    said = [f"tensor cores {counts.tensor_active_percent:.0f}%"] if counts.tensor_active_percent is not None else []
    if counts.hbm_bytes is not None and counts.sm_bytes is not None:
        said.append(f"HBM {counts.hbm_bytes / 1e6:,.0f} MB, L2 to SMs {counts.sm_bytes / 1e6:,.0f} MB")
    if one["stalls"]:
        stalls = Stalls(**one["stalls"])
        waits = ", ".join(f"{reason} {stalls.share(reason):.0%}" for reason in stalls.most[:5])
        said.append(f"{stalls.warps:.1f} warps a scheduler, issues in {stalls.busy:.0%} of cycles; {waits}")
    return f"{name}: {'; '.join(said)}"


if __name__ == "__main__":
    raise SystemExit(main())
