"""A reader's own trace files, in the player: dropped on the page, or given when the app was started."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path

import streamlit as st

from explain import given
from explain.chapters.your_run import cost, findings
from explain.chapters.your_run import given as inputs
from explain.experiment import ParameterError
from explain.figures.numbers import count
from explain.kept import kept
from explain.outside import stopped
from explain.player.component import Run, player
from explain.player.view import view_of
from explain.trace.file import MAX_INFLATED, TraceFile, TraceFileError
from explain.trace.model import Report, Tile
from explain.ui import layout
from explain.ui.code import show_code

LARGEST_MB = 20
LARGEST_INFLATED = 256 * 1024 * 1024  # bytes: a reader's file may not fill the server's memory
FILES = 8
"""How many opened files are kept, because a page that runs again shows the same ones. Few: each may be large."""
MOST = 2
SIDES = ("left", "right")
ENDING = ".tilescope"
EXAMPLE, SOURCE = (Path(__file__).with_name(name) for name in ("example.tilescope", "example.txt"))
"""The trace of SOURCE, which plays where no file was given."""
OWN = "Record a run of your own"
HOW = f"#{layout.anchor(OWN)}"
GOAL = "open a run that you recorded, on any machine, and step through it."
FILE = "rms_norm.py"
GET = """**1. Get Tilescope**: the folder that this app runs from, with `start.py` in it. Triton needs Linux; on
Windows, WSL has one. Run this in that folder:

```
python3 start.py
```

It installs Tilescope into `.venv` and opens it. End it with Ctrl+C.

**2. Take a file** with Triton kernels and a function `main` that makes small tensors and launches them. None yet? Take
the example's Python file:"""
RECORD = f"""**3. Record it**, in the same folder, with the Python that step 1 installed:

```
.venv/bin/python -m explain trace {FILE}:main --out run.tilescope
```

**4. Open the trace**: drop `run.tilescope` at the top of this page, or run this:

```
python3 start.py --trace run.tilescope
```

Steps 3 and 4 in one, with checks: `.venv/bin/python -m explain debug {FILE}:main`"""
WATCHED = "squares"
"""The example's variable that changes tile by tile."""
PRINTED = "y[0, :4], the first 4 of row 0's 20 outputs: `main` prints them after the run"
"""What the example prints."""


@dataclass(frozen=True)
class Opened(Run):
    """A run that is shown, and the name of its file, "" for the app's own; how its inputs differ from those of the run
    beside it, "" if they do not.
    """

    file: str = ""
    unlike: str = ""


def choose() -> list[Opened]:
    """The runs of the files that are dropped here, else of those the app was started with, else the example's; says
    what is wrong.
    """
    place = st.expander("Open a trace of your own") if layout.narrow() else st.container()  # a phone shows the kernel
    with place:
        dropped = st.file_uploader(
            "One trace file (.tilescope), or two to compare", accept_multiple_files=True, max_upload_size=LARGEST_MB
        )
    if len(dropped) > MOST:
        st.warning(f"The first {MOST} of {len(dropped)} files are shown.", icon=":material/warning:")
    runs: list[Opened] = []
    given_here: list[Path] = []
    try:
        given_here = [] if dropped else given.files("trace")
    except ValueError as error:
        st.error(f"{error}.", icon=":material/error:")
    files: list[tuple[str, Callable[[], Opened]]] = [
        *((file.name, partial(_opened, file.getvalue(), file.name, LARGEST_INFLATED)) for file in dropped),
        *((path.name, partial(_read, path)) for path in given_here),
    ]
    refused: list[tuple[str, Exception]] = []
    for name, opened in files[:MOST]:
        try:
            runs.append(opened())
        except (OSError, TraceFileError, ParameterError) as error:
            refused.append((name, error))
    for name, why in refused:
        st.error(_why(name, why), icon=":material/error:")
    if not runs:
        runs = [recorded(EXAMPLE)]
        _about_example(runs[0])
    unlike = inputs.difference(runs[0].trace.trace, runs[1].trace.trace) if len(runs) == MOST else ""
    sides = SIDES if len(runs) == MOST else ("",)
    return [_named(side, run, unlike) for side, run in zip(sides, runs, strict=True)]


@kept
def _named(side: str, run: Opened, unlike: str) -> Opened:
    """The run with its kernel, the name of its file and its side as title: "rms_norm · changed · left"."""
    title = " · ".join(filter(None, (run.view["title"], run.file.removesuffix(ENDING), side)))
    return replace(run, view={**run.view, "title": title, "unlike": bool(unlike)}, unlike=unlike)


def _why(name: str, error: Exception) -> str:
    """Why a file is not shown; for one that is no trace how to record one."""
    if not str(error).startswith("not a trace file"):
        return f"**{name}** cannot be shown: {error}."
    if name.endswith(ENDING):
        again = f"[Record it again as in step 3]({HOW})."
        return f"**{name}** has the right ending, but not a trace's content. {again}"
    return f"**{name}** is not a trace file. A trace file ends in `{ENDING}`; [record one as shown below]({HOW})."


def how() -> None:
    """How a reader records a run of their own, and opens it."""
    layout.header(OWN)
    get, record = st.columns(2, gap="large")
    with get:
        layout.prose(GET)
        _downloads()
    with record:
        layout.prose(RECORD)


def _about_example(example: Run) -> None:
    """Says what a trace is, and what the example is."""
    layout.introduce(
        "Is your code too large for [Your kernel](./your_kernel), or on another machine? Record it there, and open the "
        "file here.\n\n"
        "A **trace** is a file: every line that ran, in one launch or several, with every value. Below is one of ours. "
        f"[Record your own, in four steps]({HOW})."
    )
    layout.prose(
        "**The example:** RMSNorm divides each row by its root mean square, and multiplies it by w. A "
        f"program reads its row twice, 8 numbers at a time. {_growth(example)}"
    )


def _downloads() -> None:
    """The example's file and its trace."""
    with st.container(horizontal=True):
        for label, data, name in (
            ("The example's Python file", SOURCE.read_text(encoding="utf-8"), FILE),
            ("The example's trace file", _shipped(EXAMPLE), "run.tilescope"),
        ):
            st.download_button(label, data, file_name=name, icon=":material/download:", key=f"download {name}")


@kept
def _growth(example: Run) -> str:
    """How WATCHED grows when the reader goes from change to change; it is shown after its first growth."""
    trace = example.trace.trace
    first, second, *_ = (program for launch in trace.launches for program in launch.recorded)
    changes = [step for step, _ in trace.history(WATCHED) if first.first_step <= step < second.first_step]
    more = len(changes) - 2  # it begins at 0, and has grown once
    times = {1: "once", 2: "twice"}.get(more, f"{more} times")
    return (
        f"Press **N** {times}: `{WATCHED}` has now summed all tiles of row {first.id[0]}. Press **N** again: program "
        f"{second.id[0]} starts, and `{WATCHED}` is 0."
    )


def _read(path: Path) -> Opened:
    return _opened(path.read_bytes(), path.name)


@lru_cache(maxsize=FILES)
def _opened(data: bytes, name: str, most: int = MAX_INFLATED) -> Opened:
    trace = TraceFile(data, most=most)
    return Opened(trace, view_of(trace.trace, "recorded"), name)


def recorded(path: Path) -> Opened:
    """A trace file of the app, for the player."""
    return _opened(_shipped(path), "")


@lru_cache(maxsize=FILES)
def _shipped(path: Path) -> bytes:
    return path.read_bytes()


def is_example(runs: Sequence[Run]) -> bool:
    """Whether the shipped example is shown, and no file of the reader's."""
    return [run.trace.data for run in runs] == [_shipped(EXAMPLE)]


def told(runs: Sequence[Opened]) -> None:
    """What a run is, what ran and what it cost, at the right; of two runs what differs, at the left."""
    if len(runs) > 1:
        left, right = (run.trace.trace for run in runs)
        differs = runs[0].unlike
        if differs:
            with layout.below_goal():
                st.warning(differs, icon=":material/warning:")
        layout.introduce(f"{_keys(runs[0])} [How to record a trace]({HOW}).")
        layout.introduce(cost.table(left, right, alike=not differs))
        for side, run, column in zip(SIDES, runs, st.columns(2, gap="large"), strict=True):
            with column:
                layout.prose(f"**{side.capitalize()}:** {_described(run)}")
        if not differs:
            layout.prose(cost.compared(left, right))
        return
    (run,) = runs
    trace = run.trace.trace
    if not run.file:  # the example, which is told already
        layout.prose(cost.told(trace))
        return
    layout.introduce(
        f"**Shown now:** {cost.shown(trace, run.file)}. {_keys(run)} [How to record a trace]({HOW}).\n\n"
        f"{cost.tensors(trace)}"
    )
    layout.prose(cost.told(trace))
    if table := cost.launches(trace):
        with st.expander(cost.number_of_launches(trace)):
            st.markdown(table)


def _keys(run: Opened) -> str:
    code = ", **I** for the code" if run.view.get("roles") else ""
    return f"Press **→** to step{code}, **?** for all keys."


def _described(run: Opened) -> str:
    trace = run.trace.trace
    return "  \n".join(filter(None, (cost.shown(trace, run.file), cost.tensors(trace), cost.ran(trace))))


def play(runs: Sequence[Run], *, step: int | None = None, told: bool = False) -> None:
    """What the checks found; the runs in the player, at the step that failed or the first error, else at `step`; then
    what each noted and printed, and where it stopped. `told`: the page says where it stopped, and that the checks found
    nothing.
    """
    reports = [run.trace.trace.report for run in runs]
    worst = reports[0].worst
    example = is_example(runs)
    if example:
        step = first_growth(runs[0])
    elif step is None:
        step = first_numbers(runs[0])
    for run, report in zip(runs, reports, strict=True):
        if findings.of(report) or not told:
            findings.show(run, alone=len(runs) == 1)
    at, presses = findings.chosen(runs[0]) if len(runs) == 1 else (None, 0)
    if len(runs) == 1 and at is None:
        at = step if worst is None else worst
    player(runs, key="your run", step=at, request=presses, reveal=presses, watch=WATCHED if example else None)
    for run, report in zip(runs, reports, strict=True):
        _said(run, report, told=told, printed=PRINTED if example else "")


@kept
def first_growth(example: Run) -> int:
    """The example's step at which WATCHED, which begins at 0, grows for the first time."""
    _, (step, _), *_ = example.trace.trace.history(WATCHED)
    return step


@kept
def first_numbers(run: Run) -> int | None:
    """The first step that sets a tile of numbers that are not all 0; None if there is none."""
    trace = run.trace.trace
    for step in range(trace.steps):
        for value in trace.changes(step).values():
            if isinstance(value, Tile) and value.numpy().dtype.kind == "f" and value.numpy().any():
                return step
    return None


def _said(run: Run, report: Report, *, told: bool, printed: str = "") -> None:
    """Shows what a run noted and printed, and where it stopped. `printed` explains its output, if that is known."""
    if report.notes:
        st.markdown("\n".join(f"- {note}" for note in report.notes))
    if report.output:
        st.caption(f"Printed: {printed}" if printed else f"Printed while {run.view['title']} ran")
        show_code(report.output)
    if report.failure and not told:
        left = stopped(report.failure.message)
        words = f"line {left.line}. {left.words}" if left else report.failure.message
        st.caption(f"{run.view['title']} stopped at step {count(report.failure.step)}: {words}")
        show_code(report.failure.traceback)
