"""A puzzle on its page: what is asked, the editor, and what the check found."""

from __future__ import annotations

import uuid

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from explain import contents
from explain.chapters.write_it import checks, figures
from explain.chapters.write_it.editor import editor
from explain.difference.command import words
from explain.engine import TraceRun, has_triton
from explain.jobs import Job
from explain.player.component import Run, player
from explain.player.view import view_of
from explain.puzzles import progress
from explain.puzzles.answer import AnswerError, answer_of, way_to_ours
from explain.puzzles.judge import Judgement
from explain.puzzles.puzzles import Puzzle, puzzles
from explain.ui import address, controls, layout
from explain.ui.follow import AT_ONCE_S, follow
from explain.ui.pictures import drawing

FIRST = "vector_add"
NOT_HERE = "Kernels run on Linux only: Triton does not run on this machine. You can read the puzzles and their hints."


def choose() -> Puzzle:
    """The puzzle that the address names; a solved one has a check mark."""
    done = _progress().puzzles
    titles = {
        name: f"{number}. {puzzle.title}{' ✓' if name in done and done[name].solved else ''}"
        for number, (name, puzzle) in enumerate(puzzles().items(), 1)
    }
    return puzzles()[controls.option("Puzzle", titles, "puzzle", FIRST)]


def columns() -> tuple[DeltaGenerator, DeltaGenerator]:
    """The places for the task and for the editor."""
    task, text = st.columns([1, 1.7], gap="large")
    return task, text


def explain(puzzle: Puzzle) -> None:
    """Goal, formula, hints one by one, and at last the way to our kernel."""
    st.header(puzzle.title, anchor=False)
    layout.prose(puzzle.goal)
    st.code("\n".join(puzzle.formula), language=None, wrap_lines=True)
    page = next(page for page in contents.pages() if page.stem == puzzle.chapter)
    layout.chapter_link(page.stem, f"Read: {page.title}")
    if has_triton():
        run = checks.picture(puzzle)
        follow(lambda: _picture(run, puzzle), lambda: run.running)
    else:
        st.info(NOT_HERE, icon=":material/info:")
    _hints(puzzle)


def write(puzzle: Puzzle) -> None:
    """The editor, and below it what the last check found."""
    name = puzzle.name
    job, refused = checks.JOBS.get(_key(name)), st.session_state.get(f"refused {name}")
    errors = {refused.line: str(refused)} if refused and refused.line else {}
    if job and job.result and not refused:
        errors = figures.errors(job.result)
    busy = bool(job and job.running)

    def check(text: str) -> None:
        st.session_state[f"text {name}"], st.session_state[f"refused {name}"] = text, None
        try:
            answer = answer_of(text, f"{name}.py")
            if answer.puzzle.name != name:
                raise AnswerError(f'PUZZLE must be "{name}" on this page')
        except AnswerError as error:
            st.session_state[f"refused {name}"] = error
            return
        checks.start(_key(name), answer, _remember(), unlocked=address.own_machine()).wait(AT_ONCE_S)

    editor(f"editor {name}", name, puzzle.starter(), errors, checks.judge, check, busy=busy)
    if refused:
        at = f"line {refused.line}: " if refused.line else ""
        st.error(f"{at}{refused}", icon=":material/error:")
    elif job:
        follow(lambda: _verdict(job, name), lambda: job.running)


def compare(puzzle: Puzzle) -> None:
    """The reader's run in the player, at its first difference from ours; both runs if they ask for ours."""
    job = checks.JOBS.get(_key(puzzle.name))
    if job is None or job.result is None or st.session_state.get(f"refused {puzzle.name}"):
        return
    found = job.result
    if not found.runs:
        return
    st.header("Your run", anchor=False)
    ours, yours = (
        Run(run, {**view_of(run.trace, "interpreter"), "title": title})
        for run, title in zip(found.runs, ("our kernel", "your kernel"), strict=True)
    )
    if st.toggle("Show our kernel beside it", key=f"both {puzzle.name}"):
        player([ours, yours], key="write it: both", query=None, worked=True)
    else:
        step = found.difference.wrong.step if found.difference else None
        player([yours], key="write it", query=None, step=step)


def _verdict(job: Job[Judgement], name: str) -> None:
    if job.running:
        with st.container(horizontal=True, vertical_alignment="center"):
            st.markdown(f":material/hourglass_top: {job.doing}, {job.seconds:.0f} s")
            if st.button("Cancel", icon=":material/stop:", key=f"cancel {name}"):
                job.cancel.set()
    elif job.error:
        st.error(job.error, icon=":material/error:")
    elif found := job.result:
        show = st.success if found.right else st.error
        show(figures.headline(found), icon=":material/check:" if found.right else ":material/close:")
        if case := figures.case(found):
            st.caption(case)
        if found.difference is not None:
            st.code(words(found.difference), language=None, wrap_lines=True)
        if table := figures.traffic(found):
            st.markdown(table)


def _picture(run: Job[TraceRun], puzzle: Puzzle) -> None:
    if run.result is not None:
        drawing(figures.reach(run.result.trace, puzzle.functions))
    elif run.running:
        st.caption("Running our kernel…")


def _hints(puzzle: Puzzle) -> None:
    st.header("Hints", anchor=False)
    total, known = len(puzzle.hints), _progress()
    read = known.puzzles[puzzle.name].hints if puzzle.name in known.puzzles else 0
    for number, hint in enumerate(puzzle.hints[:read], 1):
        layout.prose(f"**{number}.** {hint}")

    def more() -> None:
        known.of(puzzle.name).hints = read + 1
        _keep(known)

    if read < total:
        st.button(f"Hint {read + 1} of {total}", on_click=more, key=f"hint {puzzle.name}", icon=":material/lightbulb:")
    elif st.toggle("The way from your kernel to ours", key=f"solution {puzzle.name}"):
        st.code("\n".join(way_to_ours(puzzle, st.session_state.get(f"text {puzzle.name}", ""))), language="diff")


def _key(name: str) -> str:
    """This session's job of a puzzle."""
    return f"{st.session_state.setdefault('reader of puzzles', uuid.uuid4().hex)} {name}"


def _progress() -> progress.Progress:
    """The reader's: of the file that the command keeps, or of the session where many readers share a server."""
    if address.own_machine():
        return progress.load()
    kept: progress.Progress = st.session_state.setdefault("progress of puzzles", progress.Progress())
    return kept


def _keep(known: progress.Progress) -> None:
    if address.own_machine():
        progress.keep(known)


def _remember() -> checks.Remember:
    """What notes a judgement, in the job's thread."""
    if address.own_machine():
        return lambda found: progress.checked(progress.load(), found.puzzle, found.right, save=True)
    known = _progress()
    return lambda found: progress.checked(known, found.puzzle, found.right, save=False)
