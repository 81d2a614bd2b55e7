"""A reader's own file: written, pasted or dropped on the page, run in a locked process, shown in the player."""

from __future__ import annotations

import functools
import hashlib
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import streamlit as st

from explain.chapters.write_it import checks
from explain.chapters.write_it.editor import editor
from explain.chapters.your_kernel import path, reasons
from explain.chapters.your_run import findings
from explain.chapters.your_run import view as your_run
from explain.jobs import Job, Jobs
from explain.player.component import Run
from explain.player.view import view_of
from explain.trace.file import TraceFile
from explain.trace.model import SORTS, Finding
from explain.ui import address, layout
from explain.ui.code import show_code
from explain.ui.follow import AT_ONCE_S, follow, running

EXAMPLE, RECORDED = (Path(__file__).with_name(name) for name in ("example.txt", "example.tilescope"))
"""The text that the editor begins with, and the trace of its run."""
LISTING = 420  # pixels
PLAYED = "Your run, line by line"
OTHER_WAYS = "Other ways to load code, and the function to run"
SECONDS = 20.0
RUNS: Jobs[TraceFile] = Jobs(most_running=64, most_kept=200)
HOW = (
    "Paste code, or edit the example: a Triton kernel, and a function `main()` that makes tensors and launches the "
    "kernel. **Run** traces every line, checks it, and shows the run in the player below.\n\n"
    f"It runs on the CPU, for at most {SECONDS:g} s, so keep the tensors small: a few thousand elements. "
    "Your code cannot read files.\n\n"
    "Do you have a recorded run? Open it in [Your run](./your_run)."
)


class Source(NamedTuple):
    """What is run: a file's name, its text and one of its functions. A file with a `path` is read again at each run."""

    name: str
    text: str
    function: str
    path: Path | None = None


def choose() -> Source:
    """The reader's file: the text that the editor begins with, or the path that they typed."""
    layout.introduce(HOW)
    with layout.below_goal():
        with st.expander(OTHER_WAYS):
            dropped = st.file_uploader("Upload a file", type="py", max_upload_size=1)
            given = ""
            if address.own_machine():
                given = st.text_input(
                    "A file on this computer, read again at each run", placeholder="~/kernel.py or ~/kernel.py:main"
                )
            file, named = path.typed(given)
            function = st.text_input("Function to run", "main", disabled=bool(named))
        if given.strip():
            try:
                return Source(str(file), path.text_of(file), named or function, file)
            except path.PathError as error:
                st.error(str(error), icon=":material/error:")
    if dropped is None:
        return Source("your_kernel.py", _example(), function)
    return Source(Path(dropped.name).name, dropped.getvalue().decode("utf-8", errors="replace"), function)


@functools.cache
def _example() -> str:
    return EXAMPLE.read_text(encoding="utf-8")


def write(source: Source) -> None:
    """The editor, or the file on this computer, with the button that runs it; and how the run goes."""
    name, starter, function, file = source
    job = RUNS.get(_key(name))

    def trace(text: str) -> None:
        text = text.replace("\u00a0", " ")  # pasted from a web page
        RUNS.forget(_key(name))
        unlocked = own = address.own_machine()

        def work(job: Job[TraceFile]) -> TraceFile:
            if file and not own:
                raise ValueError("A path is read only where the app runs on your own machine.")
            path.text_of(file) if file else path.at_most(text, "The file")
            judge = checks.judge()
            return judge.record(file or text, name, function, SECONDS, unlocked=unlocked, cancel=job.cancel)

        RUNS.start(_key(name), work, "running your file").wait(AT_ONCE_S)

    kept = f"{name} {hashlib.sha256(starter.encode()).hexdigest()[:12]}"
    left = _why(job, function)
    errors = {one.line: f"{SORTS[one.sort].title}: {one.words}" for one in reversed(_findings(job)) if one.error}
    if left and left.line:
        errors[left.line] = left.words
    text, state = st.container(), st.container()
    if job:
        with state:
            follow(lambda: _state(job, function), lambda: job.running)
    busy = bool(job and job.running)
    with text:  # after the state: a job that was followed runs the page again, so its end frees the button
        if file:
            st.caption(
                f"{file} as it is now. Edit it in your own editor, then run it again. It may import from its folder."
            )
            show_code(starter, "python", height=LISTING, wrap=False, numbers=True)
            st.button("Run", f"run {kept}", type="primary", on_click=trace, args=(starter,), disabled=busy)
        else:
            told = bool(errors)  # their list and the player stand below: the editor leaves them room
            editor(f"editor {kept}", kept, starter, errors, checks.judge, trace, busy=busy, verdict=told, label="Run")


def play(source: Source) -> None:
    """The run in the player, at the step that failed if one did; before the first run, that of the example."""
    job = RUNS.get(_key(source.name))
    if job and job.result:
        layout.header(PLAYED)
        run = Run(job.result, view_of(job.result.trace, "interpreter"))
        your_run.play([run], step=_first_load(run), told=True)
    elif not job and source.path is None and source.text == _example():
        layout.header("The run of this example, recorded")
        run = your_run.recorded(RECORDED)
        your_run.play([run], step=_first_load(run))
    layout.document("your-kernel.md", "From the command line: files of your own folders, and every option")


def _first_load(run: Run) -> int | None:
    """The first step that loads or stores: before it a kernel has only its arguments."""
    trace = run.trace.trace
    return next((step for step in range(trace.steps) if trace.accesses(step)), None)


def _state(job: Job[TraceFile], function: str) -> None:
    if job.running:
        running(job, "your kernel")
        return
    why = _why(job, function)
    if why:
        line = f"**Line {why.line}:** " if why.line else ""
        st.error(f"{line}{why.words}", icon=":material/error:")
        if why.raw:
            show_code(why.raw)
    if job.result:
        nothing = "The lines before it passed the checks" if why else "The checks found no fault"
        found = _findings(job)
        told, link = findings.counted(found) or nothing, "step through the run"
        if found:  # their list stands above the player
            link = "see it" if len(found) == 1 else "see them"
        st.markdown(f"{told}: [{link} ↓](#{layout.anchor(PLAYED)})")


def _why(job: Job[TraceFile] | None, function: str) -> reasons.Reason | None:
    """Why the run has no trace, or ended before its end; None if it did not."""
    if job and job.error:
        return reasons.reason(job.error, function, SECONDS)
    failure = job.result.trace.report.failure if job and job.result else None
    return reasons.reason(failure.message, function, SECONDS, failure.traceback) if failure else None


def _findings(job: Job[TraceFile] | None) -> Sequence[Finding]:
    return (findings.of(job.result.trace.report) or ()) if job and job.result else ()


def _key(name: str) -> str:
    """This session's run of a file."""
    return f"{st.session_state.setdefault('reader of kernels', uuid.uuid4().hex)} {name}"
