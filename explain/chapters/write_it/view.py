"""A puzzle on its page: what is asked, the editor, and what the check found."""

from __future__ import annotations

import os
import secrets
import stat
import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from explain import contents
from explain.chapters.write_it import checks, figures, solved
from explain.chapters.write_it.editor import editor
from explain.engine import TraceRun, has_triton
from explain.exercises import Runs, Verdict
from explain.figures.formulas import formula
from explain.jobs import Job
from explain.player.component import Run, player
from explain.player.view import view, view_of
from explain.puzzles import progress, report
from explain.puzzles.answer import LONGEST, Answer, AnswerError, answer_of, way_to_ours
from explain.puzzles.judge import Judgement
from explain.puzzles.predictions import LARGEST_SEED, Prediction
from explain.puzzles.puzzles import Puzzle, ladder
from explain.ui import address, controls, layout
from explain.ui.code import show_code
from explain.ui.follow import AT_ONCE_S, follow, running
from explain.ui.pictures import drawing, pressable, pressed

FIRST = "vector_add"
MOST_BYTES = 4 * LONGEST
"""Of a file to follow: as many as an answer's characters may have."""
JUDGED_S = 1.5
"""The longest wait for a verdict while the page is drawn. Most take less. A later one is followed."""
YOUR_RUN = "Your run"
"""The heading of the reader's kernel in the player."""
NOT_HERE = "Kernels run on Linux only: Triton does not run on this machine. You can read the puzzles and their hints."


def columns() -> tuple[DeltaGenerator, DeltaGenerator, DeltaGenerator]:
    """The places for the path of puzzles, for the task and for the answer."""
    path, task, answer = st.columns([0.62, 1.15, 2], gap="medium")
    return path.container(key="puzzle path"), task.container(key="puzzle task"), answer.container(key="puzzle answer")


def chosen() -> Puzzle | Prediction:
    """The puzzle that the address names, at first the first unsolved one."""
    first = st.session_state.setdefault("first puzzle", _first_unsolved())
    name = pressed("puzzle", ladder(), first)
    if (asked := st.query_params.get("puzzle", name)) != name:
        controls.refuse(f"There is no puzzle *{asked}*: this is the first one.", "puzzle")
    return ladder()[name]


def _first_unsolved() -> str:
    """The first puzzle that the reader has not solved, or the first of all if there is none."""
    done = _progress().puzzles
    return next((name for name in ladder() if name not in done or not done[name].solved), FIRST)


def path(puzzle: Puzzle | Prediction) -> None:
    """The path of puzzles, each a button; those that are solved have a tick."""
    known, own = _progress(), address.own_machine()
    done = [one for one, done in known.puzzles.items() if done.solved and one in ladder()]
    pressable(figures.path(puzzle.name, done, "kept on this computer" if own else "kept in this browser"), "puzzle")
    if not own:
        solved.keep(known)
    st.download_button(
        "Download your report", report.text_of(known), report.FILE, "application/json", icon=":material/download:",
        help="Your answers and what you solved, in one file for a teacher. It grades them: `explain grade FILE --json`",
        disabled=not known.puzzles, type="tertiary",
    )  # fmt: skip


def explain(puzzle: Puzzle | Prediction) -> None:
    """Goal, equations, picture, hints one by one, and at last the way to our kernel."""
    st.caption(f"{figures.position(puzzle.name)} of {len(ladder())} · {puzzle.group}")
    st.header(puzzle.title, anchor=False)
    layout.prose(puzzle.goal)
    if puzzle.formula:
        st.markdown(formula(puzzle.formula), unsafe_allow_html=True)
    if not has_triton():
        st.info(NOT_HERE, icon=":material/info:")
    elif isinstance(puzzle, Puzzle):
        run = checks.picture(puzzle).wait(AT_ONCE_S)
        follow(lambda: _picture(run, puzzle), lambda: run.running)
    read = _hints(puzzle)
    page = next(page for page in contents.pages() if page.stem == puzzle.chapter)
    with read:
        layout.chapter_link(page.stem, f"Read: {page.title}")


def answer(puzzle: Puzzle | Prediction) -> None:
    """Where the reader answers, and below it what the last check found."""
    if isinstance(puzzle, Puzzle):
        _write(puzzle)
    elif has_triton():
        _predict(puzzle)


def _predict(puzzle: Prediction) -> None:
    """The question of a run, a field for its number, and another run's on demand."""
    name = puzzle.name
    seed = st.session_state.setdefault(f"seed {name}", secrets.randbelow(LARGEST_SEED))
    run = checks.predicted(puzzle, seed).wait(AT_ONCE_S)
    if run.running:
        follow(lambda: st.caption("Running the kernel…"), lambda: run.running)
    elif run.result is None:
        st.error(run.error, icon=":material/error:")
    else:
        _question(puzzle, seed, [(puzzle.experiment(seed), run.result.trace)])


def _question(puzzle: Prediction, seed: int, runs: Runs) -> None:
    name = puzzle.name
    numbers, tile = puzzle.row(runs)
    drawing(figures.row(numbers, tile, 4), figures.row(numbers, tile, 2))
    layout.prose(puzzle.prompt(runs))

    def check() -> None:  # before the page runs: the path then has its tick
        given = st.session_state[f"number {name} {seed}"]
        st.session_state[f"verdict {name}"] = seed, _answered(puzzle, seed, runs, given)

    with st.form(f"form {name} {seed}", border=False), st.container(horizontal=True, vertical_alignment="bottom"):
        st.text_input("Your number", key=f"number {name} {seed}", width=180)
        st.form_submit_button("Check", type="primary", on_click=check)
    answered, verdict = st.session_state.get(f"verdict {name}", (None, None))
    if answered == seed and isinstance(verdict, Verdict):
        _said(verdict, puzzle, seed)
    elif answered == seed:
        st.warning(verdict, icon=":material/info:")
    st.button(
        "Other numbers", f"again {name}", type="tertiary", icon=":material/refresh:", on_click=_again, args=(name,)
    )


def _said(verdict: Verdict, puzzle: Prediction, seed: int) -> None:
    """The verdict in words. A wrong number gets a hint, and the answer only if the reader asks for it."""
    if verdict.right:
        st.success(verdict.words, icon=":material/check:")
        _learned(puzzle)
        return
    told = _told(puzzle.name, seed)
    st.error((verdict.answer or verdict).words if told else verdict.words, icon=":material/close:")
    if not told:
        st.button("Show me the step", f"tell {puzzle.name}", on_click=_tell, args=(puzzle.name, seed))


def _tell(name: str, seed: int) -> None:
    st.session_state[f"told {name}"] = seed


def _told(name: str, seed: int) -> bool:
    """Whether the reader asked for the answer with the numbers of this seed."""
    return bool(st.session_state.get(f"told {name}") == seed)


def _answered(puzzle: Prediction, seed: int, runs: Runs, given: str) -> Verdict | str:
    """The verdict, or why there is none. If the reader saw the step first, a right number counts as unsolved."""
    try:
        found = puzzle.verdict(runs, given)
    except ValueError as error:
        return str(error)
    done, known = _progress(), _told(puzzle.name, seed)
    if not known:  # an answer is the reader's own if they had not seen it
        progress.checked(done, puzzle.name, puzzle.answered(seed, given), found.right, save=address.own_machine())
    if found.right and known:
        return replace(found, words=f"{found.words} You had seen this step: try other numbers.")
    return found


def _again(name: str) -> None:
    st.session_state[f"seed {name}"] = secrets.randbelow(LARGEST_SEED)


def _write(puzzle: Puzzle) -> None:
    """The editor, and below it what the last check found."""
    name = puzzle.name

    def check(text: str) -> None:
        text = text.replace("\u00a0", " ")  # pasted from a web page
        st.session_state[f"text {name}"], st.session_state[f"refused {name}"] = text, None
        try:
            answer = answer_of(text, f"{name}.py")
            if answer.puzzle.name != name or not isinstance(answer, Answer):
                raise AnswerError(f'PUZZLE must be "{name}" on this page')
        except AnswerError as error:
            st.session_state[f"refused {name}"] = error
            return
        checks.start(_key(name), answer, _remember(text), unlocked=address.own_machine())

    def written(text: str) -> None:
        st.session_state[f"from a file {name}"] = False
        check(text)

    text, verdict = st.container(), st.container(key="puzzle verdict")
    if address.own_machine():
        _follow_file(name, check)
    job, refused = checks.JOBS.get(_key(name)), st.session_state.get(f"refused {name}")
    with verdict:
        if refused:
            at = f"**Line {refused.line}:** " if refused.line else ""
            st.error(f"{at}{refused}", icon=":material/error:")
        elif job:
            job.wait(max(0.0, JUDGED_S - job.seconds))
            follow(lambda: _verdict(job, puzzle), lambda: job.running, seconds=0.3)
        else:
            st.caption(figures.checked_on(puzzle))
    errors = {refused.line: str(refused)} if refused and refused.line else {}
    if job and job.result and not refused:
        errors = figures.errors(job.result)
    if st.session_state.get(f"from a file {name}"):
        errors = {}  # of another text than the editor's
    with text:  # after the verdict: a job that was followed runs the page again, so its end frees the button
        editor(
            f"editor {name}", name, puzzle.starter(), errors, checks.judge, written,
            busy=bool(job and job.running), verdict=bool(job or refused),
        )  # fmt: skip


def _follow_file(name: str, check: Callable[[str], None]) -> None:
    """On the reader's own machine: a file of theirs that is checked at each save."""
    typed = st.text_input(
        "Or give the path of a file on this computer. It is checked each time you save it.",
        key=f"file {name}",
        placeholder=f"~/{name}.py",
    )
    if not typed:
        return
    path = Path(os.path.expanduser(typed))  # an unknown user's "~" stays as it is
    saved = _saved(path)
    try:
        text = None if saved is None else path.read_text(encoding="utf-8", errors="replace")
    except OSError:  # gone since
        text = None
    if text is None:
        st.warning(f"There is no file {path} that can be read.", icon=":material/info:")
    elif st.session_state.get(f"saved {name}") != (typed, saved):
        st.session_state[f"saved {name}"], st.session_state[f"from a file {name}"] = (typed, saved), True
        check(text)
    follow(lambda: None, lambda: True, progress=lambda: _saved(path))


def _saved(path: Path) -> float | None:
    """When a file was saved; None if it is none, or too large for an answer."""
    try:
        known = path.stat()
    except (OSError, ValueError):  # a path may not have a null character
        return None
    readable = stat.S_ISREG(known.st_mode) and known.st_size <= MOST_BYTES and os.access(path, os.R_OK)
    return known.st_mtime if readable else None


def compare(puzzle: Puzzle | Prediction) -> None:
    """The reader's run in the player, at its first difference from ours; both runs if they ask for ours.

    After a prediction that is right, or when the reader asks for it: its run, at the step that computes the number.
    """
    if isinstance(puzzle, Prediction):
        _show_step(puzzle)
        return
    job = checks.JOBS.get(_key(puzzle.name))
    if job is None or job.result is None or st.session_state.get(f"refused {puzzle.name}"):
        return
    found = job.result
    if not found.runs:
        return
    layout.header(YOUR_RUN)
    ours, yours = (
        Run(run, {**view_of(run.trace, "interpreter"), "title": title})
        for run, title in zip(found.runs, ("our kernel", "your kernel"), strict=True)
    )
    if st.toggle("Show our kernel beside it", key=f"both {puzzle.name}"):
        player([ours, yours], key="write it: both", query=None, worked=True)
    else:
        step = found.difference.wrong.step if found.difference else None
        player([yours], key="write it", query=None, step=step)


def _show_step(puzzle: Prediction) -> None:
    seed, verdict = st.session_state.get(f"verdict {puzzle.name}", (None, None))
    if seed != st.session_state.get(f"seed {puzzle.name}") or not isinstance(verdict, Verdict):
        return
    if not (verdict.right or _told(puzzle.name, seed)):
        return
    run = checks.predicted(puzzle, seed).result
    if run is not None:
        layout.header("The step")
        shown = Run(run, view(puzzle.experiment(seed), run.trace, run.origin))
        player([shown], key=f"write it: {puzzle.name} {seed}", query=None, step=verdict.step)


def _verdict(job: Job[Judgement], puzzle: Puzzle) -> None:
    if job.running:
        running(job, puzzle.name)
    elif job.error:
        st.error(job.error, icon=":material/error:")
    elif found := job.result:
        show = st.success if found.right else st.error
        show(figures.headline(found), icon=":material/check:" if found.right else ":material/close:")
        if found.right:
            _learned(puzzle)
        if case := figures.case(found):
            st.caption(case)
        if found.difference is not None:
            st.markdown(figures.difference(found.difference))
        if table := figures.traffic(found):
            st.markdown(table)
        if found.runs:
            st.markdown(f"[{YOUR_RUN} ↓](#{layout.anchor(YOUR_RUN)})")


def _learned(puzzle: Puzzle | Prediction) -> None:
    """What a solved puzzle teaches, and the way to the next one."""
    words, way = st.columns([1.9, 1], vertical_alignment="center")
    with words:
        layout.prose(puzzle.learned)
    if after := [*ladder().values()][figures.position(puzzle.name) :]:
        label = f"Next: {after[0].label or after[0].title}"
        if way.button(label, type="primary", icon=":material/arrow_forward:", width="stretch"):
            st.query_params["puzzle"] = after[0].name
            st.rerun()  # the page, not only the fragment with the verdict
    else:
        way.markdown("That was the last puzzle.")


def _picture(run: Job[TraceRun], puzzle: Puzzle) -> None:
    if run.result is not None:
        words, picture = figures.reach(run.result.trace, puzzle.functions)
        layout.prose(words)
        drawing(picture)
    elif run.running:
        st.caption("Running our kernel…")


def _hints(puzzle: Puzzle | Prediction) -> DeltaGenerator:
    """The hints that were asked for, and a row with the button for the next one; returns that row."""
    total, known = len(puzzle.hints), _progress()
    read = known.puzzles[puzzle.name].hints if puzzle.name in known.puzzles else 0
    for number, hint in enumerate(puzzle.hints[:read], 1):
        layout.prose(f"**{number}.** {hint}")

    def more() -> None:
        known.of(puzzle.name).hints = read + 1
        _keep(known)

    row = st.container(horizontal=True, vertical_alignment="center")
    if read < total:
        row.button(f"Hint {read + 1} of {total}", on_click=more, key=f"hint {puzzle.name}", icon=":material/lightbulb:")
    elif isinstance(puzzle, Puzzle) and st.toggle(
        "Show the differences between your kernel and ours", key=f"solution {puzzle.name}"
    ):
        show_code("\n".join(way_to_ours(puzzle, st.session_state.get(f"text {puzzle.name}", ""))), "diff", wrap=False)
    return row


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


def _remember(text: str) -> checks.Remember:
    """What notes the judgement of a text, in the job's thread."""
    if address.own_machine():
        return lambda found: progress.checked(progress.load(), found.puzzle, text, found.right, save=True)
    known = _progress()
    return lambda found: progress.checked(known, found.puzzle, text, found.right, save=False)
