"""A reader's own file: written, pasted or dropped on the page, run in a locked process, shown in the player."""

from __future__ import annotations

import hashlib
import uuid
from pathlib import Path

import streamlit as st

from explain.chapters.write_it import checks
from explain.chapters.write_it.editor import editor
from explain.chapters.your_run import view as your_run
from explain.jobs import Job, Jobs
from explain.player.component import Run
from explain.player.view import view_of
from explain.trace.file import TraceFile
from explain.ui import address, layout
from explain.ui.follow import AT_ONCE_S, follow

EXAMPLE = your_run.SOURCE
LONGEST = 200_000  # characters
SECONDS = 20.0
RUNS: Jobs[TraceFile] = Jobs(most_running=64, most_kept=200)
HOW = (
    "`main` makes CPU tensors and launches kernels; it takes no arguments. The run may take 20 s. "
    "`docs/your-kernel.md` says what the trace shows, and how to trace a file of your own folder from the command "
    "line. [Open a trace file](./your_run)."
)


def choose() -> tuple[str, str, str]:
    """The file's name, the text that the editor begins with, and the function to run."""
    dropped = st.file_uploader("A Python file; without one, write in the editor", type="py", max_upload_size=1)
    function = st.text_input("Function to run", "main")
    layout.introduce(HOW)
    if dropped is None:
        return "your_kernel.py", EXAMPLE.read_text(encoding="utf-8"), function
    return Path(dropped.name).name, dropped.getvalue().decode("utf-8", errors="replace"), function


def write(name: str, starter: str, function: str) -> None:
    """The editor with the button that runs its text, and how the run goes."""
    job = RUNS.get(_key(name))

    def trace(text: str) -> None:
        RUNS.forget(_key(name))
        unlocked = address.own_machine()

        def work(job: Job[TraceFile]) -> TraceFile:
            if len(text) > LONGEST:
                raise ValueError(f"The file has {len(text):,} characters; at most {LONGEST:,} are run.")
            judge = checks.judge()
            return judge.record(text, name, function, SECONDS, unlocked=unlocked, cancel=job.cancel)

        RUNS.start(_key(name), work, "running your file").wait(AT_ONCE_S)

    kept = f"{name} {hashlib.sha256(starter.encode()).hexdigest()[:12]}"
    editor(f"editor {kept}", kept, starter, {}, checks.judge, trace, busy=bool(job and job.running), label="Run")
    if job:
        follow(lambda: _state(job), lambda: job.running)


def play(name: str) -> None:
    """The run in the player, at the step that failed if one did."""
    job = RUNS.get(_key(name))
    if job and job.result:
        your_run.play([Run(job.result, view_of(job.result.trace, "interpreter"))])


def _state(job: Job[TraceFile]) -> None:
    if job.running:
        with st.container(horizontal=True, vertical_alignment="center"):
            st.markdown(f":material/hourglass_top: {job.doing}, {job.seconds:.0f} s")
            if st.button("Cancel", icon=":material/stop:", key="cancel your kernel"):
                job.cancel.set()
    elif job.error:
        st.error("The file left no trace:", icon=":material/error:")
        st.code(job.error, language=None, wrap_lines=True)


def _key(name: str) -> str:
    """This session's run of a file."""
    return f"{st.session_state.setdefault('reader of kernels', uuid.uuid4().hex)} {name}"
