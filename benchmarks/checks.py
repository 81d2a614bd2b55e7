"""How many planted bugs `python -m explain check` finds, and how many sound kernels it blames.

    python -m benchmarks.checks --out benchmarks/results/checks.json [--from DIR …]

Kernels: those of the catalog, the museum's, and every Python file in the folders given by `--from` that launches
kernels in a function without arguments. A bug of each sort is planted at one line of a kernel where it does harm;
`PLANTS` says what is written and when it is real, from the sound run's trace. It is found if a finding of that sort
names that line. A sound kernel is blamed if a finding of it is an error; checks_reviewed.toml has the kernels with a
real fault, each read by hand, with the reason. `docs/checks.md` has the sorts.

Third-party code stays where it is: the result has names and counts. Each file has its own process, and `--seconds`.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import re
import sys
import tempfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

os.environ["TRITON_INTERPRET"] = "1"  # before triton is imported

import numpy as np
import torch

from benchmarks.foreign import REVIEWED, runs
from explain.experiment import Experiment
from explain.records import results
from explain.records.code import measured_code
from explain.sandbox import process
from explain.sandbox.process import Limits
from explain.trace.checks import checked
from explain.trace.evidence import Evidence
from explain.trace.model import SORTS, Access, Tile, Trace
from explain.trace.python_file import record_file
from kernels.catalog import KERNELS, TAUGHT
from kernels.edits import source_of
from kernels.museum import EXHIBITS

RUN_SECONDS = 30.0
SORTS_A_FILE = 4
MEGABYTES = 6000.0
FILE = "kernels_here.py"
PATHS = re.compile(r" ?\(?/\S+")  # of this machine
OPTIONS: dict[str, Any] = {"max_steps": 60_000, "max_bytes": 1 << 29}
RAGGED = {"n": 60, "cols": 60, "seq_len": 40}
"""Sizes that no tile divides: masks keep lanes out."""
NEVER = "tl.full({shape}, 1, tl.int1)"


@dataclass(frozen=True)
class Place:
    """A statement with one load or store, as the sound run made it."""

    call: ast.Call
    accesses: list[Access]
    programs: list[tuple[int, int, int]]

    @property
    def kind(self) -> str:
        return str(self.call.func.attr) if isinstance(self.call.func, ast.Attribute) else ""

    @property
    def shape(self) -> tuple[int, ...]:
        return self.accesses[0].elements.shape

    @property
    def masked(self) -> bool:
        return any(keyword.arg == "mask" for keyword in self.call.keywords) or len(self.call.args) > self.needed

    @property
    def needed(self) -> int:
        return 1 if self.kind == "load" else 2

    @property
    def floats(self) -> bool:
        return self.accesses[0].buffer.dtype in ("f32", "f16", "bf16")

    def keyword(self, name: str) -> ast.expr | None:
        return next((one.value for one in self.call.keywords if one.arg == name), None)

    def value(self, access: int) -> np.ndarray | None:
        stored = self.accesses[access].stored
        return (
            np.broadcast_to(stored.numpy(), self.accesses[access].elements.shape) if isinstance(stored, Tile) else None
        )


def written(call: ast.Call, pointer: str = "{}", value: str = "{}", drop: tuple[str, ...] = (), **more: str) -> str:
    """The call with its pointer and its stored value put into these texts, without some keywords, with others."""
    parts = [ast.unparse(one) for one in call.args]
    if not parts:
        return ""
    parts[0] = pointer.format(f"({parts[0]})")
    if len(parts) > 1 and getattr(call.func, "attr", "") == "store":
        parts[1] = value.format(f"({parts[1]})")
    kept = [f"{one.arg}={ast.unparse(one.value)}" for one in call.keywords if one.arg not in {*drop, *more}]
    return f"{ast.unparse(call.func)}({', '.join([*parts, *kept, *(f'{k}={v}' for k, v in more.items())])})"


# What is planted: the call as it becomes, or None where the bug would do no harm


def outside(place: Place) -> str | None:
    """Its mask is left out, and the lanes that it kept out lie behind the tensor's end."""
    if not place.masked or place.keyword("mask") is None or len(place.call.args) > place.needed:
        return None
    for access in place.accesses:
        size = int(np.prod(access.buffer.shape))
        dense = sorted(zip(access.buffer.strides, access.buffer.shape, strict=True))
        if access.mask is None or any(a * b > size for a, b in dense):
            continue
        if (access.elements.numpy()[~access.mask.numpy()] >= size).any():
            return written(place.call, drop=("mask", "other"))
    return None


def twice(place: Place) -> str | None:
    """Each second lane of a store moves to its neighbour's element."""
    if place.kind != "store" or len(place.shape) != 1 or place.shape[0] < 2:
        return None
    for number, access in enumerate(place.accesses):
        value = place.value(number)
        if value is not None and access.mask is None and (np.diff(access.elements.numpy()) == 1).all():
            pairs = value.reshape(-1, 2).astype(np.float64)
            if (pairs[:, 0] != pairs[:, 1]).any() and not np.isnan(pairs).any():
                return written(place.call, f"{{}} - tl.arange(0, {place.shape[0]}) % 2")
    return None


def race(place: Place) -> str | None:
    """Each program's store begins some elements earlier, so it meets the program before."""
    if place.kind != "store":
        return None
    owners: dict[int, tuple[tuple[int, int, int], float]] = {}
    for number, (access, program) in enumerate(zip(place.accesses, place.programs, strict=True)):
        value = place.value(number)
        if value is None:
            return None
        active = np.ones(place.shape, bool) if access.mask is None else access.mask.numpy()
        for element, stored in zip((access.elements.numpy()[active] - program[0]).tolist(),
                                   value[active].astype(np.float64).tolist(), strict=True):  # fmt: skip
            other, before = owners.setdefault(element, (program, stored))
            if element < 0:
                return None
            if other != program and before != stored:
                return written(place.call, "{} - tl.program_id(0)")
    return None


def wrapped(place: Place) -> str | None:
    """An int32 offset that wraps around to 0."""
    far = "{} + (tl.program_id(0) * 0 + 65536) * 65536"
    return written(place.call, far) if place.accesses[0].indices().size else None


def overflow(place: Place) -> str | None:
    """A finite number that float16 cannot hold is stored."""
    if place.kind != "store" or not place.floats:
        return None
    stored = place.value(0)
    active = np.ones(place.shape, bool) if place.accesses[0].mask is None else place.accesses[0].mask.numpy()
    if stored is None or not np.isfinite(stored[active]).all() or not active.any():
        return None
    return written(place.call, value="({}.to(tl.float32) * 0.0 + 70000.0).to(tl.float16)")


def nan(place: Place) -> str | None:
    """The logarithm of a negative number is stored."""
    if overflow(place) is None:
        return None
    return written(place.call, value="tl.log({}.to(tl.float32) * 0.0 - 1.0)")


def mask(place: Place) -> str | None:
    """A mask that is true in every lane."""
    if place.masked or np.prod(place.shape) < 2:
        return None
    return written(place.call, mask=NEVER.format(shape=list(place.shape)))


def unused(place: Place) -> str | None:
    """The load stands there twice, and nothing reads the first."""
    return written(place.call) if place.kind == "load" else None


def sectors(place: Place) -> str | None:
    """One more load, of every eighth element."""
    size = int(np.prod(place.accesses[0].buffer.shape))
    if place.kind != "load" or size < 128 or place.accesses[0].buffer.item_bytes < 4 or not place.shape:
        return None
    name = place.accesses[0].buffer.name
    return f"tl.load({name} + tl.arange(0, 16) * 8)"


def undefined(place: Place) -> str | None:
    """`other` is left out; with infinity for it the kernel stores something else."""
    if place.kind != "load" or place.keyword("other") is None or not place.floats:
        return None
    return written(place.call, drop=("other",)) if any(a.mask is not None for a in place.accesses) else None


PLANTS: dict[str, Callable[[Place], str | None]] = {
    plant.__name__: plant for plant in (outside, undefined, race, twice, wrapped, overflow, nan, mask, unused, sectors)
}
"""By the sort that must be found; `unwritten` is planted in the host's code."""
BESIDE = {"unused", "sectors"}
"""Planted as a line of its own, before the other."""


class Silent(ast.NodeTransformer):
    """A file that runs nothing when it is imported."""

    def visit_Module(self, node: ast.Module) -> ast.Module:
        own = {one.name for one in node.body if isinstance(one, ast.FunctionDef)}
        gone: set[str] = set()
        kept = []
        for one in node.body:
            if runs(one, own) or (not isinstance(one, ast.FunctionDef | ast.ClassDef) and _names(one) & gone):
                gone |= {
                    name.id for name in ast.walk(one) if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store)
                }
            else:
                kept.append(one)
        node.body = kept
        return node


def _names(node: ast.stmt) -> set[str]:
    return {name.id for name in ast.walk(node) if isinstance(name, ast.Name)}


def sources(folders: list[Path]) -> Iterator[tuple[str, str, str]]:
    """Each file that has a test: its name, its text, and the function to call."""
    for folder in folders:
        for path in sorted(folder.rglob("*.py")):
            try:
                tree = ast.parse(path.read_text(encoding="utf-8"))
            except (SyntaxError, UnicodeDecodeError):
                continue
            tests = [one for one in tree.body if isinstance(one, ast.FunctionDef) and not _needs(one)
                     and (one.name == "main" or one.name.startswith("test"))]  # fmt: skip
            if tests and "triton" in ast.unparse(tree):
                text = ast.unparse(ast.fix_missing_locations(Silent().visit(tree)))
                yield f"{folder.name}/{path.relative_to(folder)}", text, tests[-1].name


def _needs(function: ast.FunctionDef) -> bool:
    return bool(len(function.args.args) > len(function.args.defaults) or function.decorator_list)


CATALOG = """

def main():
    import inspect
    from explain.experiment import Experiment
    from kernels.catalog import KERNELS
    from kernels.launch import tensors
    experiment = Experiment.of({kernel!r}, {sizes!r}, {inputs!r})
    entry, values = KERNELS[experiment.kernel], experiment.values
    arrays = entry.make_inputs(experiment.preset, values, experiment.seed)
    wrapper = globals()[entry.function]
    given = {{name: values[name] for name in inspect.signature(wrapper).parameters if name in values}}
    wrapper(**tensors(values, arrays, "cpu"), **given)
"""


def measured(name: str, text: str, function: str, folder: Path) -> dict[str, Any]:
    """What is found in one file: sound, and with each bug."""
    trace, why = run(text, function, folder)
    if trace is None or trace.report.failure:
        failed = trace.report.failure.message if trace and trace.report.failure else why
        return {"name": name, "why": failed.splitlines()[0][:200]}
    errors = [(one.sort, one.line, one.words) for one in trace.report.findings or () if one.error]
    row: dict[str, Any] = {
        "name": name,
        "kernels": sorted({launch.kernel for launch in trace.launches}),
        "blamed": sorted({sort for sort, _, _ in errors}),
        "words": [f"line {line}: {words}" for _, line, words in errors],
        "hints": dict(Counter(one.sort for one in trace.report.findings or () if not one.error)),
        "planted": {},
        "stopped": [],
    }
    for sort, (planted, line) in planting(text, function, folder, trace, chosen(name)).items():
        broken, failure = run(planted, function, folder)
        findings = () if broken is None else broken.report.findings or ()
        found = any(one.sort == sort and line in (one.line, 0) for one in findings)
        if not found and (broken is None or broken.report.failure):
            row["stopped"].append(sort)
            continue
        said = failure or sorted({f"{one.sort} {one.line}" for one in findings})
        row["planted"][sort] = {"found": found, "line": line, "said": said}
    return row


def run(text: str, function: str, folder: Path, plain: bool = False) -> tuple[Trace | None, str]:
    """The trace of a text's function, checked unless `plain`; or why there is none."""
    path = folder / FILE
    path.write_text(text, encoding="utf-8")

    def record(evidence: Evidence | None = None) -> Trace:
        torch.manual_seed(0)
        return record_file(
            path, function, "all", lambda what, fraction: None, RUN_SECONDS, evidence=evidence, **OPTIONS
        )  # fmt: skip

    try:
        return (record() if plain else checked(record)), ""
    except Exception as error:  # whatever foreign code raises
        return None, f"{type(error).__name__}: {error}".splitlines()[0][:200]


def chosen(name: str) -> list[str]:
    """The sorts to plant in a file: some of them, others in the next file. Each file is run once for each."""
    every = [*PLANTS, "unwritten"]
    first = zlib.crc32(name.encode()) % len(every)
    return [every[(first + k) % len(every)] for k in range(SORTS_A_FILE)]


def planting(text: str, function: str, folder: Path, trace: Trace, sorts: list[str]) -> dict[str, tuple[str, int]]:
    """For each of these sorts that has a place in the text: the text with the bug, and its line."""
    found: dict[str, tuple[str, int]] = {}
    for line, statement, call in statements(text):
        place = place_of(trace, line, call)
        if place is None:
            continue
        for sort, plant in PLANTS.items():
            planted = plant(place) if sort in sorts and sort not in found else None
            if planted is None:
                continue
            changed = replaced(text, line, statement, call, planted, sort in BESIDE)
            if sort == "undefined":
                infinite = replaced(text, line, statement, call, written(call, other="float('inf')"), False)
                if stores(infinite, function, folder) == stores(text, function, folder):
                    continue
            found[sort] = changed, line
    host = text.replace("torch.zeros(", "torch.empty(").replace("torch.zeros_like(", "torch.empty_like(")
    ones = text.replace("torch.zeros(", "torch.ones(").replace("torch.zeros_like(", "torch.ones_like(")
    if "unwritten" in sorts and host != text and stores(ones, function, folder) != stores(text, function, folder):
        found["unwritten"] = host, 0
    return found


def stores(text: str, function: str, folder: Path) -> list[bytes]:
    """What a text's function stores, in order."""
    trace, _ = run(text, function, folder, plain=True)
    every = [] if trace is None else [one for step in range(trace.steps) for one in trace.accesses(step)]
    return [_stored(access) for access in every if access.kind != "load"]


def _stored(access: Access) -> bytes:
    """What the active lanes of a store store, and where."""
    if not isinstance(access.stored, Tile):
        return access.indices().tobytes()
    active = np.ones(access.elements.shape, bool) if access.mask is None else access.mask.numpy()
    return access.indices().tobytes() + np.broadcast_to(access.stored.bits, active.shape)[active].tobytes()


def statements(text: str) -> Iterator[tuple[int, ast.stmt, ast.Call]]:
    """The statements of kernels that make one load or store: line, statement, the call."""
    for function in ast.walk(ast.parse(text)):
        if not isinstance(function, ast.FunctionDef) or "jit" not in " ".join(
            map(ast.unparse, function.decorator_list)
        ):
            continue
        for node in ast.walk(function):
            if isinstance(node, ast.Assign | ast.AugAssign | ast.Expr):
                every = (one for one in ast.walk(node) if isinstance(one, ast.Call))
                calls = [one for one in every if ast.unparse(one.func) in ("tl.load", "tl.store")]
                if len(calls) == 1 and node.lineno == node.end_lineno:
                    yield node.lineno, node, calls[0]


def place_of(trace: Trace, line: int, call: ast.Call) -> Place | None:
    """The accesses of a line; None if it never ran, or in other shapes."""
    steps = [step for step in range(trace.steps) if trace.line(step) == line and trace.source(step).file == FILE]
    pairs = [(access, trace.program(step).id) for step in steps for access in trace.accesses(step)]
    if not pairs or len({access.elements.shape for access, _ in pairs}) > 1:
        return None
    return Place(call, [access for access, _ in pairs], [program for _, program in pairs])


def replaced(text: str, line: int, statement: ast.stmt, call: ast.Call, planted: str, beside: bool) -> str:
    """The text with a call of a line changed, or with a line before it."""
    lines = text.splitlines()
    old = lines[line - 1]
    if beside:
        lines.insert(line - 1, f"{' ' * statement.col_offset}planted = {planted}")
    else:
        lines[line - 1] = old[: call.col_offset] + planted + old[call.end_col_offset :]
    return "\n".join(lines) + "\n"


def own() -> Iterator[tuple[str, str, str]]:
    """The right kernels of the catalog and the museum's broken ones on harmless inputs: each its module's text."""
    for name, entry in TAUGHT.items():
        if not entry.wrong:
            values = Experiment.of(name).values
            sizes: dict[str, Any] = {key: size for key, size in RAGGED.items() if key in values}
            yield name, _text(name, sizes, Experiment.of(name).inputs), "main"
    for exhibit in EXHIBITS.values():
        sizes = {key: value for key, value in exhibit.sizes.items() if key != "causal"}
        yield exhibit.kernel, exhibit.edit.apply(_text(exhibit.kernel, sizes, exhibit.hidden_by)), "main"


def _text(kernel: str, sizes: dict[str, Any], inputs: str) -> str:
    return source_of(KERNELS[kernel].module) + CATALOG.format(kernel=kernel, sizes=sizes, inputs=inputs)


def kept(path: Path | None) -> list[dict[str, Any]]:
    """The rows of a run that was interrupted."""
    if path is None or not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--from", type=Path, action="append", default=[], metavar="DIR", dest="folders")
    parser.add_argument("--out", type=Path, metavar="FILE", help="also write the result to this file, as JSON")
    parser.add_argument("--seconds", type=float, default=300.0, help="a file's limit (300)")
    parser.add_argument("--jobs", type=int, default=2, help="files at a time (2)")
    parser.add_argument("--rows", type=Path, metavar="FILE", help="keep each file's row here, and continue from it")
    parsed = parser.parse_args()

    def one(job: tuple[str, str, str]) -> dict[str, Any]:
        name, text, function = job
        with tempfile.TemporaryDirectory() as folder:
            ended = process.run(
                lambda: [json.dumps(measured(name, text, function, Path(folder))).encode()],
                Limits(parsed.seconds, MEGABYTES),
                locked=False,
            )
        row: dict[str, Any] = json.loads(ended.answer) if ended.answer else {"name": name, "why": ended.why or "died"}
        if parsed.rows:
            with parsed.rows.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
        print(name, row.get("why") or row["blamed"], file=sys.stderr, flush=True)
        return row

    rows = kept(parsed.rows)
    done = {row["name"] for row in rows}
    with ThreadPoolExecutor(parsed.jobs) as pool:
        jobs = [job for job in (*own(), *sources(parsed.folders)) if job[0] not in done]
        rows += pool.map(one, jobs)
    ran = [row for row in rows if "planted" in row]
    blamed = [row for row in ran if row["blamed"]]
    planted = {
        sort: {"planted": len(tries), "found": sum(one["found"] for one in tries)}
        for sort in SORTS
        if (tries := [row["planted"][sort] for row in ran if sort in row["planted"]])
    }
    totals = {key: sum(one[key] for one in planted.values()) for key in ("planted", "found")}
    result = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        **measured_code(["recorder"]),
        "files": len(rows),
        "ran": len(ran),
        "kernels": sum(len(row["kernels"]) for row in ran),
        "planted": planted,
        "found": totals["found"],
        "of": totals["planted"],
        "blamed": [{"name": row["name"], "sorts": row["blamed"]} for row in blamed if row["name"] not in REVIEWED],
        "faulty": {row["name"]: REVIEWED[row["name"]] for row in blamed if row["name"] in REVIEWED},
        "hints": dict(sum((Counter(row["hints"]) for row in ran), Counter())),
        "missed": [
            {"name": row["name"], "sort": sort}
            for row in ran
            for sort, one in row["planted"].items()
            if not one["found"]
        ],
        "stopped": sum(len(row["stopped"]) for row in ran),
        "not_run": [{"name": row["name"], "why": PATHS.sub("", row["why"])} for row in rows if "why" in row],
    }
    print(json.dumps({key: value for key, value in result.items() if key not in ("code", "not_run")}, indent=1))
    if parsed.out:
        results.write(parsed.out, result)
    return 0


if __name__ == "__main__":
    sys.exit(main())
