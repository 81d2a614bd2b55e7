"""How fast our kernels are beside others', on this GPU: one command, every number with its check.

Every variant is first checked against float64 on random data (several processes at once, so that compiling takes turns
with nobody), and one that exceeds its tolerance has no time. Then one process alone times the right ones: for each
shape all variants in turn, round after round, so that a slow moment hits all of them; by device events, L2 emptied
before each launch. A median counts.

python benchmarks/speed.py softmax decode --out speed.json
python benchmarks/speed.py backward --keep speed.json --out speed.json      the other tables stay as they are there
python benchmarks/speed.py --random 1 2 3 --shapes 200 --rounds 8 --out random.json
"""

from __future__ import annotations

import argparse
import json
import math
import os
import select
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
CHECKERS = 12
SILENCE = 90.0  # seconds without a word after which a process hangs; some compile for half of that
EMPTIED = 512 * 2**20
"""Bytes written before a launch: several times any L2, and long enough that the launch is queued by then."""
AHEAD = 4_000_000
"""Cycles per variant, 2 ms, that the GPU idles before a turn: launches are queued by then, so none has an advantage."""

Task = dict[str, Any]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="*", help="softmax, topk, decode, attention, backward; default: all")
    parser.add_argument("--tune", action="store_true", help="our kernels over the options worth trying")
    parser.add_argument("--random", type=int, nargs="+", metavar="SEED", help="random shapes (speed_random.py)")
    parser.add_argument("--shapes", type=int, default=200, help="so many of them for each seed (200)")
    parser.add_argument("--only", nargs="+", default=[""], metavar="TEXT", help="only shapes with this in their name")
    parser.add_argument("--rounds", type=int, default=30, help="timed launches of each variant (30)")
    parser.add_argument("--seconds", type=float, default=600.0, help="stop measuring after so long (600)")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the result there, as JSON")
    parser.add_argument(
        "--keep", type=Path, metavar="FILE", help="take the tables that are not measured now from there"
    )
    parser.add_argument("--child", choices=("check", "time"), help=argparse.SUPPRESS)
    parsed = parser.parse_args()
    sys.path.insert(0, str(ROOT))
    from explain.records import results

    if parsed.child:
        work = {"check": checked, "time": timed}[parsed.child]
        for answer in work(json.load(sys.stdin)):
            print(json.dumps(answer), flush=True)
        return 0
    from benchmarks import speed_random_table, speed_table

    kept = results.read(parsed.keep) if parsed.keep else None
    result = measure(parsed)
    result = merged(kept, result) if kept else result
    if parsed.out:
        results.write(parsed.out, result, indent=None if parsed.random else 1)
    print(table(result))
    print(*(speed_table.lines if parsed.random is None else speed_random_table.summary)(result), sep="\n")
    return 0


def measure(parsed: argparse.Namespace) -> dict[str, Any]:
    """Checks everything, times what is right; {"provenance", "before", "after", "cases": [{"case", "variants"}]}."""
    from benchmarks import speed_random, speed_random_table
    from benchmarks.speed_cases import CASES, Case, Variant, variants
    from explain.device.handler import provenance
    from explain.records.code import measured_code

    deadline = time.monotonic() + parsed.seconds
    drawn = parsed.random is not None
    if drawn:
        cases = [case for seed in parsed.random for case in speed_random.cases(seed, parsed.shapes, parsed.tables)]
    else:
        cases = [case for name in parsed.tables or CASES for case in CASES[name]()]
    cases = [case for case in cases if any(text in case.name for text in parsed.only)]

    def run_on(case: Case) -> list[Variant]:
        every, ways = variants(case, parsed.tune), speed_random_table.WAYS.get(case.table, ())
        return [v for v in every if not drawn or v.function in ways]

    tasks: list[Task] = [
        {"case": asdict(case), "variants": [asdict(v) for v in run_on(case)], "rounds": parsed.rounds} for case in cases
    ]
    before = state_of_the_gpu()
    single: list[Task] = [{**task, "variants": [variant]} for task in tasks for variant in task["variants"]]
    errors = {_key(a["case"], a["variant"]): a for a in run("check", single, CHECKERS, deadline)}
    crowded = [
        one for one in single if "out of memory" in errors.get(_key(one["case"], *one["variants"]), {}).get("why", "")
    ]
    errors |= {_key(a["case"], a["variant"]): a for a in run("check", crowded, 1, deadline)}  # now alone on the GPU
    for task in tasks:
        task["variants"] = [v for v in task["variants"] if errors.get(_key(task["case"], v), {}).get("right")]
    print(f"checked after {time.monotonic() + parsed.seconds - deadline:.0f} s", file=sys.stderr, flush=True)
    times = {_key(a["case"], a["variant"]): a for a in run("time", [t for t in tasks if t["variants"]], 1, deadline)}
    found: list[dict[str, Any]] = []
    for case in cases:
        rows = []
        for variant in run_on(case):
            key = _key(asdict(case), asdict(variant))
            nothing: Task = {"right": False, "why": "did not answer in time"}
            told = errors.get(key, nothing) | times.get(key, {})
            own = {k: _finite(v) for k, v in told.items() if k not in ("case", "variant")}
            rows.append({"name": variant.name, **own})
        found.append({"case": {**asdict(case), "name": case.name}, "variants": rows})
    return {
        "provenance": provenance().__dict__,
        **measured_code(v["function"] for task in tasks for v in task["variants"] if ":" in v["function"]),
        "before": before,
        "after": state_of_the_gpu(),
        **({"seeds": parsed.random} if drawn else {}),
        "method": f"median of {parsed.rounds} launches by device events, variants in turn, L2 emptied before each",
        "cases": found,
    }


def merged(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """The new tables in place of the old ones, the others as they were: each ratio is of times of one run. Raises
    ValueError if GPU, driver or versions differ.
    """
    from benchmarks.report import check_same_machine, on_days_of_both

    check_same_machine(old, new)
    tables = sorted({one["case"]["table"] for one in new["cases"]})
    others = [one for one in old["cases"] if one["case"]["table"] not in tables]
    method = (
        old["method"] if old["method"] == new["method"] else f"{old['method']}; {', '.join(tables)}: {new['method']}"
    )
    provenance = on_days_of_both(old, new) if others else new["provenance"]
    return {
        **new, "provenance": provenance, "code": old["code"] | new["code"], "method": method,
        "cases": [*others, *new["cases"]],
    }  # fmt: skip


@dataclass
class Child:
    """A process at work: what it has still to do, its words so far, when it last spoke."""

    process: subprocess.Popen[bytes]
    queue: list[Task]
    said: bytes = b""
    heard: float = field(default_factory=time.monotonic)

    def listen(self) -> Iterator[dict[str, Any]]:
        """The answers that have come; a task that is done leaves the queue."""
        assert self.process.stdout
        self.said += self.process.stdout.read() or b""
        *lines, self.said = self.said.split(b"\n")
        for line in lines:
            self.heard = time.monotonic()
            answer = json.loads(line)
            if "done" in answer:
                self.queue.pop(0)
            else:
                yield answer


def run(
    work: str, tasks: list[Task], processes: int, deadline: float, script: Path = Path(__file__)
) -> Iterator[dict[str, Any]]:
    """The answers of so many processes that share the tasks, each a child of `script`. One that is silent for too long
    is ended, and another goes on after what it was at.
    """
    queues = [tasks[i::processes] for i in range(processes)]
    children = [_start(work, queue, script) for queue in queues if queue]
    while children:
        select.select([child.process.stdout.fileno() for child in children if child.process.stdout], [], [], 1.0)
        for child in list(children):
            ended = child.process.poll() is not None
            yield from child.listen()
            late = time.monotonic() > deadline
            if ended or late or time.monotonic() - child.heard > SILENCE:
                child.process.kill()
                child.process.wait()
                children.remove(child)
                if child.queue and not late:
                    at = child.queue.pop(0)
                    said = f"{work}: no answer from {at['case']['shape']} {at['variants'][-1]}"
                    print(said, file=sys.stderr, flush=True)
                    if child.queue:
                        children.append(_start(work, child.queue, script))


def _start(work: str, queue: list[Task], script: Path) -> Child:
    command = [sys.executable, str(script), "--child", work]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT)
    assert process.stdin
    assert process.stdout
    process.stdin.write(json.dumps(queue).encode())
    process.stdin.close()
    os.set_blocking(process.stdout.fileno(), False)
    return Child(process, list(queue))


def checked(tasks: list[Task]) -> Iterator[dict[str, Any]]:
    """In a process of its own: each task's one variant, run and compared with float64."""
    import torch

    from benchmarks.speed_cases import FLOORS, Case, Variant, error_over_tolerance, make_inputs

    before: Case | None = None
    inputs: tuple[torch.Tensor, ...] = ()
    for task in tasks:
        case, variant = Case(**_shape(task["case"])), Variant(**task["variants"][0])
        answer = {"case": task["case"], "variant": task["variants"][0]}
        try:
            if case != before:
                before, inputs = case, ()
                inputs = make_inputs(case)
            result = variant.on(case, inputs)()
            torch.cuda.synchronize()
            error = 0.0 if variant.function in FLOORS else error_over_tolerance(case, inputs, result)
            right = error <= 1
            wrong = "exceeds its tolerance" if math.isfinite(error) else "exceeds its tolerance, NaN or infinite"
            yield {**answer, "error": error, "right": right, "why": "" if right else wrong}
            del result
        except Exception as why:  # a baseline that is not here, a tile that does not fit: said in the result
            yield {**answer, "right": False, "why": f"{type(why).__name__}: {why}"[:300]}
        yield {"done": True}


def timed(tasks: list[Task]) -> Iterator[dict[str, Any]]:
    """In a process of its own: each task's variants timed in turn, in seconds."""
    import torch

    from benchmarks.speed_cases import Case, Variant, make_inputs

    empty = torch.empty(EMPTIED, dtype=torch.int8, device="cuda")
    for task in tasks:
        case = Case(**_shape(task["case"]))
        inputs = make_inputs(case)
        launches = [Variant(**variant).on(case, inputs) for variant in task["variants"]]
        events: list[list[tuple[torch.cuda.Event, torch.cuda.Event]]] = [[] for _ in launches]
        host: list[list[float]] = [[] for _ in launches]
        for turn in range(task["rounds"] + 2):
            torch.cuda._sleep(AHEAD * len(launches))
            for launch, own, called in zip(launches, events, host, strict=True):
                empty.zero_()
                start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                start.record()
                began = time.perf_counter()
                launch()
                ended = time.perf_counter()
                end.record()
                if turn >= 2:  # the first launches compile and warm up
                    own.append((start, end))
                    called.append(ended - began)
            torch.cuda.synchronize()
        for variant, own, called in zip(task["variants"], events, host, strict=True):
            times = [1e-3 * start.elapsed_time(end) for start, end in own]
            p20, median, p80 = (statistics.quantiles(times, n=10)[i] for i in (1, 4, 7))
            answer = {"case": task["case"], "variant": variant, "seconds": median, "p20": p20, "p80": p80}
            yield {**answer, "per_second": case.work / median, "host_seconds": statistics.median(called)}
        yield {"done": True}


def table(result: dict[str, Any]) -> str:
    """Each shape's variants, fastest first: microseconds, throughput, and the speedup over the first baseline."""
    lines = []
    for case in result["cases"]:
        rows = sorted(case["variants"], key=lambda row: row.get("seconds", float("inf")))
        first = case["variants"][0].get("seconds")
        lines.append(case["case"]["name"])
        for row in rows:
            if "seconds" in row:
                share = f"{first / row['seconds']:6.3f}" if first else ""
                took = (
                    f"{1e6 * row['seconds']:9.1f} us {1e-12 * row['per_second']:8.3f} T{case['case']['unit']} {share}"
                )
                lines.append(f"  {took}  {row['error']:5.2f}  {row['name']}")
            else:
                lines.append(f"  {row['why'][:110]}  {row['name']}")
    return "\n".join(lines)


def state_of_the_gpu() -> dict[str, str]:
    """Clocks, temperature and power as the driver says them now."""
    names = "clocks.sm,clocks.mem,temperature.gpu,power.draw"
    query = ["nvidia-smi", f"--query-gpu={names}", "--format=csv,noheader"]
    try:
        said = subprocess.run(query, capture_output=True, text=True, timeout=10, check=True).stdout.splitlines()[0]
    except (OSError, subprocess.SubprocessError, IndexError):
        return {}
    return dict(zip(names.split(","), map(str.strip, said.split(",")), strict=True))


def _shape(case: dict[str, Any]) -> dict[str, Any]:
    return {**case, "shape": tuple(case["shape"])}


def _finite(value: Any) -> Any:
    """The value, or its name where JSON has no number for it: the error of a result that is inf or NaN."""
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _key(case: dict[str, Any], variant: dict[str, Any]) -> str:
    return json.dumps([_shape(case), variant], sort_keys=True)


if __name__ == "__main__":
    raise SystemExit(main())
