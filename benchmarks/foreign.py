"""How many kernels of other repositories Tilescope traces, of those that compile for an H100, and which it blames.

    python -m benchmarks.foreign PATH… --out benchmarks/results/foreign.json

Each PATH is a folder on this machine, such as a clone of a repository. Each of its Python files that launches kernels
runs by its own means: as a script, if it runs something when it is imported; else each of its tests, by pytest, with
the first of its parameters. Packages in the folder, and in its src and python, can be imported; others must be
installed, or be on PYTHONPATH. Tensors on "cuda" are on the CPU.

    checked   every program is recorded and checked, as by `python -m explain check FILE`
    sampled   where that reaches a limit: four programs of each launch, `explain trace FILE --programs 0:4 --only`

A kernel is traced if one of its launches was recorded to its end. Each launched kernel is compiled for sm_90, down to
machine code, with the arguments of a launch. `WHY` has the classes of what is not traced. A file is blamed if a finding
of it is an error; checks_reviewed.toml has the files with a real fault, each read by hand, with the reason.

Third-party code stays where it is: the result has names and counts. Each run has a process of its own, and limits.
Of a large repository, `--only` takes a part. `--keep` adds folders to an earlier result of the same recorder.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import json
import math
import os
import platform
import re
import subprocess
import sys
import tempfile
import threading
import time
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
NEEDED = {
    "trace": ("explain.trace.checks", "explain.trace.python_file", "torch.utils._sympy.functions", "torch.testing"),
    "compile": ("explain.compile.handler", "explain.trace.python_file", "triton.backends.nvidia.compiler"),
}
"""What the processes of a role import, once."""
COMMON = (
    "einops",
    "pytest",
    "yaml",
    "huggingface_hub",
    "transformers.modeling_utils",
    "torch.nn.attention.flex_attention",
)
"""Packages that many files import and that take seconds: imported once, where they are installed."""
COMPILING = "compile" in sys.argv[1:2]
os.environ["TRITON_INTERPRET"] = "0" if COMPILING else "1"  # before triton is imported

REVIEWED: Mapping[str, str] = {
    name if "/" in name else f"TritonBench_G_v1/{name}": reason
    for reason, names in tomllib.loads(Path(__file__).with_name("checks_reviewed.toml").read_text()).items()
    for name in names
}
"""Third-party files with a real fault, and what it is."""
STEPS, BYTES = 100_000, 1 << 29
MEGABYTES = 6000.0
COMPILE_SECONDS = 40.0  # a kernel's
FILE_BYTES = 1 << 28  # the compiler writes some
SAMPLE = [[x, 0, 0] for x in range(4)]
CAPABILITY = 90
HOME = str(Path.home())
PATHS = re.compile(r" \(?/\S+")
WHY = {
    "skipped": r"skips itself",
    "limit": r"ran longer than|took longer|more than [\d,]+ steps|values take more than|more memory|processor time"
    r"|Unable to allocate",
    "import": r"ModuleNotFoundError|ImportError|No module named|cannot import name",
    "gpu": r"asks for a GPU|CUDA|cuda|NVML|no longer supported on CPU",
    "fixture": r"needs arguments",
    "launched nothing": r"no Triton kernel was launched",
    "refused": r"Refused|compiled|compiler|is no constexpr|only ranges|constant, not a tensor|changes its type",
    "outside": r"outside",
}
"""Classes of what stands in the way, by the words that are said; anything else is "error"."""


def class_of(why: str) -> str:
    return next((name for name, pattern in WHY.items() if re.search(pattern, why)), "error")


# The files of a folder, and how they run


def files(folder: Path) -> Iterator[tuple[Path, list[str]]]:
    """Each file that runs kernels, and its targets: "" for the script, else the names of tests."""
    for path in sorted(folder.rglob("*.py")):
        if any(part.startswith(".") for part in path.relative_to(folder).parts) or path.name == "conftest.py":
            continue
        try:
            text = path.read_text(encoding="utf-8")
            tree = ast.parse(text)
        except (SyntaxError, UnicodeDecodeError, OSError):
            continue
        functions = [one for one in tree.body if isinstance(one, ast.FunctionDef)]
        tests = [one.name for one in functions if one.name.startswith("test")]
        kernels = "triton.jit" in text or "@jit" in text
        if any(runs(one, {function.name for function in functions}) for one in tree.body) and kernels:
            yield path, [""]
        elif tests and (kernels or path.name.startswith("test")):
            yield path, tests


def runs(node: ast.stmt, own: set[str]) -> bool:
    """Whether a statement of a module runs something: it calls one of the module's functions, or is a script's."""
    if isinstance(node, ast.If) and "__name__" in ast.unparse(node.test):
        return "pytest" not in ast.unparse(node)
    value = node.value if isinstance(node, ast.Assign | ast.Expr) else None
    return isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id in own


def places(folder: Path) -> list[str]:
    """Where a repository's packages lie; Triton's own stays hidden behind the one that is installed."""
    every = (folder / "src", folder / "python", folder)
    return [str(place) for place in every if place.is_dir() and not (place / "triton/__init__.py").exists()]


def import_from(folders: Sequence[str]) -> None:
    """Lets the process import from these folders first, also modules that are called as some of ours."""
    theirs = {entry.stem for folder in folders for entry in Path(folder).iterdir()} - {"explain"}
    for name, module in [*sys.modules.items()]:
        if name.partition(".")[0] in theirs and str(getattr(module, "__file__", "")).startswith(f"{ROOT}/"):
            del sys.modules[name]
    sys.path[:0] = folders


# What a launch's arguments are, so that another process can compile it


def encoded(value: Any) -> Any:
    """An argument of a launch as JSON. Raises TypeError for one that cannot be passed on."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, tuple | list):
        return {"tuple": [encoded(one) for one in value]}
    kind = f"{type(value).__module__}.{type(value).__qualname__}"
    if kind == "triton.language.core.dtype":
        return {"type": value.name}
    if kind == "torch.dtype":
        return {"torch": str(value).removeprefix("torch.")}
    if kind.endswith(".constexpr"):
        return encoded(value.value)
    if kind.endswith("TensorDescriptor"):
        shape = [[int(one) for one in part] for part in (value.shape, value.strides, value.block_shape)]
        return {"descriptor": str(value.base.dtype).removeprefix("torch."), "shape": shape}
    if kind.endswith("TensorWrapper"):
        return {"reinterpreted": encoded(value.base), "as": value.dtype.name}
    if hasattr(value, "data_ptr"):
        return {"tensor": str(value.dtype).removeprefix("torch."), "aligned": value.data_ptr() % 16 == 0}
    if hasattr(value, "fn") and hasattr(value.fn, "__code__"):
        return {"function": place_of(value)}
    raise TypeError(f"an argument of type {kind}")


def decoded(value: Any, functions: Mapping[tuple[Any, ...], Any]) -> Any:
    import torch
    import triton
    from triton import language as tl
    from triton.tools.tensor_descriptor import TensorDescriptor

    if not isinstance(value, dict):
        return value
    match next(iter(value)):
        case "tuple":
            return tuple(decoded(one, functions) for one in value["tuple"])
        case "type":
            return tl.dtype(value["type"])
        case "torch":
            return getattr(torch, value["torch"])
        case "tensor":
            room = torch.empty(32, dtype=getattr(torch, value["tensor"]))
            return room if value["aligned"] else room[1:]
        case "reinterpreted":
            return triton.reinterpret(decoded(value["reinterpreted"], functions), tl.dtype(value["as"]))
        case "descriptor":
            shape, strides, block = value["shape"]
            base = torch.empty(1, dtype=getattr(torch, value["descriptor"])).as_strided([1] * len(shape), strides)
            return TensorDescriptor(base, shape, strides, block)
    return functions[tuple(value["function"])]


def place_of(kernel: Any) -> tuple[str, int, str]:
    """Where a kernel is written: file, first line, name."""
    code = kernel.fn.__code__
    return code.co_filename, code.co_firstlineno, kernel.fn.__name__


# The process that traces


def traced(job: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Runs one target: each kernel's launches, how they ended, and the findings, in one object."""
    from triton.runtime.interpreter import InterpretedFunction

    from explain.trace.checks import checked
    from explain.trace.model import Trace
    from explain.trace.patches import replaced
    from explain.trace.python_file import record_file

    kernels: dict[tuple[str, int, str], dict[str, Any]] = {}
    run = InterpretedFunction.run

    def watched(self: Any, *args: Any, grid: Any, warmup: Any, **kwargs: Any) -> Any:
        row = kernels.setdefault(place_of(self), {"ended": 0, "why": ""})
        if "launch" not in row:
            try:
                named = {name: encoded(value) for name, value in kwargs.items()}
                row["launch"] = {"args": [encoded(one) for one in args], "kwargs": named}
            except TypeError as error:
                row["launch"] = str(error)
        try:
            run(self, *args, grid=grid, warmup=warmup, **kwargs)
        except BaseException as error:
            row["why"] = row["why"] or _said(error)
            raise
        row["ended"] += 1

    def record(evidence: Any = None) -> Trace:
        return record_file(Path(job["path"]), job["function"], "all" if job["checks"] else SAMPLE, lambda *_: None,
                           job["seconds"], max_steps=STEPS, max_bytes=BYTES, only=not job["checks"],
                           evidence=evidence)  # fmt: skip

    answer: dict[str, Any] = {"kernels": [], "why": "", "findings": []}
    with replaced(InterpretedFunction, "run", watched):
        try:
            trace = checked(record) if job["checks"] else record()
        except Exception as error:
            answer["why"] = str(error)
        else:
            answer["why"] = trace.report.failure.message if trace.report.failure else ""
            recorded = {launch.kernel for launch in trace.launches}
            answer["steps"] = trace.steps
            answer["findings"] = [
                {"kernel": one.kernel, "line": one.line, "sort": one.sort, "error": one.error, "words": one.words}
                for one in trace.report.findings or ()
            ]
            for (*_, name), row in kernels.items():
                row["recorded"] = name in recorded
    answer["kernels"] = [{"place": place, **row} for place, row in kernels.items()]
    yield answer


def _said(error: BaseException) -> str:
    while error.__cause__ is not None and type(error).__name__ == "InterpreterError":
        error = error.__cause__
    return f"{type(error).__name__}: {error}"


# The process that compiles


def compiled(job: Mapping[str, Any]) -> Iterator[str]:
    """Compiles each of the job's launches for sm_90, after its file ran with no launches: "" or why it failed."""
    import gc

    from triton import knobs
    from triton.runtime import driver
    from triton.runtime.jit import JITFunction

    from explain.compile.handler import _explained, _Target
    from explain.trace.patches import replaced
    from explain.trace.python_file import opened

    run = JITFunction.run

    def kernels() -> dict[tuple[Any, ...], Any]:
        return {place_of(one): one for one in gc.get_objects() if isinstance(one, JITFunction)}

    gc.disable()  # the kernels of a script that fails are still wanted
    with opened(Path(job["path"]), job["function"], lambda *_: None) as file, ExitStack() as stack:
        with replaced(JITFunction, "run", lambda *args, **kwargs: None), suppress(BaseException):
            if {tuple(one["place"]) for one in job["kernels"]} - set(kernels()):
                file.call()
        found = kernels()
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="tilescope-"))
        stack.enter_context(knobs.cache.scope())
        knobs.cache.dir = folder
        driver.set_active(_Target(CAPABILITY))
        for one in job["kernels"]:
            kernel = found.get(tuple(one["place"]))
            if kernel is None:
                yield "not found"
                continue
            try:
                args = [decoded(value, found) for value in one["launch"]["args"]]
                kwargs = {key: decoded(value, found) for key, value in one["launch"]["kwargs"].items()}
                run(kernel, *args, grid=(1, 1, 1), warmup=True, **kwargs)
            except Exception as error:
                yield _explained(error, CAPABILITY)
            else:
                yield ""


# The parent: a process for each role holds what takes seconds to import, and forks


def serve(role: str) -> int:
    """Answers jobs, one per line, each in a process of its own."""
    from triton.runtime.cache import triton_key

    from explain.sandbox.process import Limits, run

    answers, work = os.fdopen(os.dup(1), "w"), {"trace": traced, "compile": compiled}[role]
    os.dup2(2, 1)  # what packages print on import is not an answer
    for name in NEEDED[role]:
        importlib.import_module(name)
    for name in COMMON:
        with suppress(ImportError):
            importlib.import_module(name)
    triton_key()  # a digest of Triton, which each compilation asks for
    for line in sys.stdin:
        job = json.loads(line)
        begin = time.monotonic()
        ended = run(partial(_answer, work, job), Limits(job["limit"], MEGABYTES, FILE_BYTES), locked=False)
        parts = [json.loads(line) for line in ended.answer.splitlines()]
        answer = {
            "why": ended.why or ended.output[-200:],
            "seconds": round(time.monotonic() - begin, 1),
            "parts": parts,
        }
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
    return 0


def _answer(work: Callable[[Mapping[str, Any]], Iterator[Any]], job: Mapping[str, Any]) -> Iterator[bytes]:
    import_from(job["places"])
    for part in work(job):
        yield json.dumps(part).encode() + b"\n"


class Server:
    """The process of one role."""

    def __init__(self, role: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.foreign", role],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )

    def answer(self, job: Mapping[str, Any]) -> dict[str, Any]:
        """{"parts": what was yielded, "why": why it ended, "seconds"}."""
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(json.dumps(job) + "\n")
        self.process.stdin.flush()
        return dict(json.loads(self.process.stdout.readline()))

    def ask(self, job: Mapping[str, Any]) -> tuple[dict[str, Any], float]:
        """What a job that traces found, and its seconds."""
        answer = self.answer(job)
        found = answer["parts"][0] if answer["parts"] else {"why": answer["why"] or "died"}
        return {"kernels": [], "findings": [], "steps": 0} | found, answer["seconds"]

    def ask_each(self, job: Mapping[str, Any]) -> list[str]:
        """What a job that compiles says of each kernel."""
        answer = self.answer(job)
        said = list(answer["parts"])
        return said + [answer["why"] or "died"] * (len(job["kernels"]) - len(said))

    def end(self) -> None:
        self.process.kill()
        self.process.wait()


def ran(
    path: Path, function: str, folder: Path, seconds: float, servers: tuple[Server, Server], known: dict[Any, str]
) -> dict[str, Any]:
    """One target of a folder: checked, or sampled where that reaches a limit. Kernels not yet `known` are compiled.

    Files are named from the folder on.
    """
    (trace, compiler), root = servers, folder.parent
    target = {"path": str(path), "function": function, "places": places(folder)}
    job = target | {"seconds": seconds, "checks": True, "limit": 4 * seconds}
    found, took = trace.ask(job)
    row: dict[str, Any] = {"mode": "checked", "seconds": took}
    if class_of(found["why"]) == "limit":
        row["checked"] = found["why"]
        found, took = trace.ask(job | {"checks": False, "limit": 2 * seconds})
        row |= {"mode": "sampled", "seconds": round(row["seconds"] + took, 1)}
    kernels = [one for one in found["kernels"] if isinstance(one["launch"], dict)]
    new = [one for one in kernels if named(one, root) not in known]
    if new:
        asked = target | {"kernels": new, "limit": COMPILE_SECONDS * len(new)}
        known |= zip((named(one, root) for one in new), compiler.ask_each(asked), strict=True)
    row |= {key: found[key] for key in ("why", "findings", "steps", "kernels")}
    for one in row["kernels"]:
        launch = one.pop("launch")
        file, line, name = named(one, root)
        one["place"] = [file, line, name]
        one["compiled"] = launch if isinstance(launch, str) else known[file, line, name]
    text = json.dumps(row).replace(f"{root}/", "").replace(HOME, "~")  # in messages
    return dict(json.loads(text))


def named(kernel: Mapping[str, Any], root: Path) -> tuple[str, int, str]:
    """A kernel's file, from `root` on, its line and its name."""
    file, line, name = kernel["place"]
    return str(Path(file).relative_to(root) if Path(file).is_relative_to(root) else file), line, name


def provenance(folder: Path) -> dict[str, Any]:
    """The name of a folder, and the commit of its clone; of a copy, what its file COMMIT says."""
    given = folder / "COMMIT"
    if given.exists():
        return {"name": folder.name, "commit": given.read_text(encoding="utf-8").strip()}
    done = subprocess.run(["git", "-C", folder, "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    return {"name": folder.name, "commit": done.stdout.strip()}


def summary(rows: list[dict[str, Any]], folders: list[str]) -> dict[str, Any]:
    """Names and counts. A kernel belongs to the folder that its file is in."""
    kernels: dict[str, dict[str, Any]] = {}
    for row in rows:
        for one in row["kernels"]:
            file, _, name = one["place"]
            kernel = kernels.setdefault(f"{file}:{name}", {"compiled": "", "traced": "", "why": ""})
            kernel["compiled"] = one["compiled"]
            if one["ended"] and one.get("recorded", True) and row["steps"]:
                kernel["traced"] = "checked" if "checked" in (row["mode"], kernel["traced"]) else "sampled"
            elif one["why"] or row["why"]:
                kernel["why"] = one["why"] or row["why"]
    kernels = {name: one for name, one in kernels.items() if name.partition("/")[0] in folders}
    able = {name: one for name, one in kernels.items() if one["compiled"] == ""}
    findings = {row["name"]: sorted({one["sort"] for one in row["findings"] if one["error"]}) for row in rows}
    errors = {name: sorts for name, sorts in findings.items() if sorts}

    def counted(within: str) -> dict[str, int]:
        own = [row for row in rows if row["name"].startswith(within)]
        mine = [one for name, one in able.items() if name.startswith(within)]
        return {
            "files": len({row["name"].rpartition(":")[0] for row in own}),
            "launched": len({row["name"].rpartition(":")[0] for row in own if row["kernels"]}),
            "kernels": sum(name.startswith(within) for name in kernels),
            "compiled": len(mine),
            "traced": sum(bool(one["traced"]) for one in mine),
            "checked": sum(one["traced"] == "checked" for one in mine),
        }

    return {
        **counted(""),
        "folders": {folder: counted(f"{folder}/") for folder in folders},
        "blamed": {name: sorts for name, sorts in errors.items() if name.rpartition(":")[0] not in REVIEWED},
        "faulty": {name: REVIEWED[file] for name in errors if (file := name.rpartition(":")[0]) in REVIEWED},
        "hints": dict(Counter(one["sort"] for row in rows for one in row["findings"] if not one["error"])),
        "not_traced": {name: _said_of(one["why"]) for name, one in able.items() if not one["traced"]},
        "not_compiled": {name: one["compiled"] for name, one in kernels.items() if one["compiled"] != ""},
        "not_launched": {row["name"]: _said_of(row["why"]) for row in rows if not row["kernels"]},
        "traced_kernels": {name: one["traced"] for name, one in able.items() if one["traced"]},
    }


def _said_of(why: str) -> str:
    """The class of a reason, and its first line, without paths of this machine."""
    return f"{class_of(why)}: {PATHS.sub('', why.partition(chr(10))[0])[:200]}"


def joined(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """The result of the folders of both."""
    counts = ("files", "launched", "kernels", "compiled", "traced", "checked", "not_run")
    names = ("folders", "blamed", "faulty", "not_traced", "not_compiled", "not_launched", "traced_kernels")
    return {
        **new,
        "seconds_a_run": max(old["seconds_a_run"], new["seconds_a_run"]),
        "sources": old["sources"] + new["sources"],
        "hints": dict(Counter(old["hints"]) + Counter(new["hints"])),
        **{name: old[name] + new[name] for name in counts},
        **{name: old[name] | new[name] for name in names},
    }


def why_not_joined(old: Mapping[str, Any], now: Mapping[str, Any], folders: list[str]) -> str:
    """Why these folders cannot be added to an earlier result; "" if they can."""
    if differing := [name for name in now if old[name] != now[name]]:
        return f"was measured with another {differing[0]}: {old[differing[0]]}, not {now[differing[0]]}"
    both = [name for name in folders if name in old["folders"]]
    return f"has the folder {both[0]} already" if both else ""


def main() -> int:
    from explain.records import results
    from explain.records.code import code_of, commit

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="+", metavar="PATH", help="a folder with Python files")
    parser.add_argument("--out", type=Path, metavar="FILE", help="also write the result to this file, as JSON")
    parser.add_argument("--seconds", type=float, default=20.0, help="a run's limit (20)")
    parser.add_argument("--tests", type=int, metavar="N", help="only the first N tests of a file")
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time (1)")
    parser.add_argument("--rows", type=Path, metavar="FILE", help="keep each run's row here, and continue from it")
    parser.add_argument(
        "--within", type=float, default=math.inf, metavar="SECONDS", help="start no run after this time"
    )
    parser.add_argument("--only", metavar="PATTERN", default="", help="only targets with this regular expression")
    parser.add_argument("--keep", type=Path, metavar="FILE", help="add the folders to this result of the same recorder")
    parsed = parser.parse_args()
    folders = [folder.resolve() for folder in parsed.folders]
    names = [folder.name for folder in folders]
    code = code_of("recorder")
    versions = {"python": platform.python_version(), **{name: version(name) for name in ("torch", "triton")}}
    kept = results.read(parsed.keep) if parsed.keep else None
    if kept and (why := why_not_joined(kept, {"code": {"recorder": code}, "versions": versions}, names)):
        parser.error(f"--keep: {parsed.keep} {why}")
    rows: dict[str, dict[str, Any]] = {}
    if parsed.rows and parsed.rows.exists():
        rows = {row["name"]: row for row in map(json.loads, parsed.rows.read_text(encoding="utf-8").splitlines())}
    known = {tuple(one["place"]): one["compiled"] for row in rows.values() for one in row["kernels"]}
    targets = [
        (number, name, path, function, folder)
        for folder in folders
        for path, functions in files(folder)
        for number, function in enumerate(functions[: parsed.tests])
        if (name := f"{folder.name}/{path.relative_to(folder)}:{function}") not in rows and re.search(parsed.only, name)
    ]
    targets.sort(key=lambda target: target[0])  # each file's first test, each file's second …: time may be short
    begin = time.monotonic()
    mine = threading.local()
    servers: list[Server] = []

    def one(target: tuple[int, str, Path, str, Path]) -> dict[str, Any] | None:
        _, name, path, function, folder = target
        if time.monotonic() - begin > parsed.within:
            return None
        if not hasattr(mine, "servers"):
            mine.servers = Server("trace"), Server("compile")
            servers.extend(mine.servers)
        row = {"name": name, "code": code, **ran(path, function, folder, parsed.seconds, mine.servers, known)}
        if parsed.rows:
            with parsed.rows.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
        said = [f"{one['place'][2]}{'' if one['ended'] else ' not'}" for one in row["kernels"]]
        why = row["why"].partition("\n")[0][:150]
        print(name, row["mode"], f"{row['seconds']} s", *said, "|", why, file=sys.stderr, flush=True)
        return row

    try:
        with ThreadPoolExecutor(parsed.jobs) as pool:
            for row in pool.map(one, targets):
                if row is not None:
                    rows[row["name"]] = row
    finally:
        for server in servers:
            server.end()
    result = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": commit(),
        "code": {"recorder": " and ".join(sorted({row.get("code", "unknown") for row in rows.values()}))},
        "versions": versions,
        "seconds_a_run": parsed.seconds,
        "not_run": sum(name not in rows for _, name, *_ in targets),
        "sources": [provenance(folder) | ({"only": parsed.only} if parsed.only else {}) for folder in folders],
        **summary([*rows.values()], names),
    }
    if kept:
        result = joined(kept, result)
    print(json.dumps({key: value for key, value in result.items() if key not in ("code", "traced_kernels")}, indent=1))
    if parsed.out:
        results.write(parsed.out, result)
    return 0


if __name__ == "__main__":
    sys.exit(serve(sys.argv[1]) if sys.argv[1:2] and sys.argv[1] in NEEDED else main())
