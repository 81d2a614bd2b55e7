"""Background jobs on a page: a button that starts one, and what shows its progress."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import streamlit as st

from explain.engine import DeviceStatus, engine
from explain.figures.numbers import fixed
from explain.jobs import Job

T = TypeVar("T")
MOST_MADE = 10_000
_MADE: set[Hashable] = set()
AT_ONCE_S = 0.3  # a job that ends within this time is shown without a second run of the page


@contextmanager
def waiting(words: str, what: Hashable) -> Iterator[bool]:
    """For a block that makes `what` once for all readers, and is quick afterwards. Yields whether it is the first time.

    The first time has a spinner. Streamlit starts a thread for each spinner, so later times have none.
    """
    if what in _MADE:
        yield False
        return
    with st.spinner(words, show_time=True):
        yield True
    if len(_MADE) >= MOST_MADE:
        _MADE.clear()
    _MADE.add(what)


def follow(
    draw: Callable[[], object],
    running: Callable[[], bool],
    seconds: float = 0.8,
    progress: Callable[[], object] = lambda: None,
) -> None:
    """Draws a part of the page, and again every `seconds` while `running()`.

    The whole page reruns once when the job ends, and each time `progress()` changes. It does so before `draw` runs, so
    a button in it acts in its `on_click`, or the click would be lost. Afterwards it is not a fragment: the browser
    would go on asking for it. If such a run follows right after a page's own, Streamlit leaves what the page no longer
    draws on the screen.
    """
    before = (running(), progress())
    if before[0]:
        st.fragment(_draw, run_every=seconds)(draw, before, lambda: (running(), progress()))
    else:
        with st.container():  # as the fragment has: what stands below keeps its place in the page
            draw()


def _draw(draw: Callable[[], object], before: tuple[bool, object], now: Callable[[], tuple[bool, object]]) -> None:
    if now() != before:
        st.rerun()
    draw()


def once_known(show: Callable[[DeviceStatus], None]) -> None:
    """Says that it looks for a GPU; calls `show` when it knows whether this machine has one."""

    def draw() -> None:
        if (status := engine().device_if_known()) is None:
            st.markdown(":gray[●] Looking for a GPU…")
        else:
            show(status)

    follow(draw, lambda: engine().device_if_known() is None)


def on_request(label: str, key: str, doing: str, work: Callable[[Job[T]], T], icon: str) -> Job[T] | None:
    """A button that starts a job; the job once it has ended, until the button starts another. Failures are shown.

    The session keeps the job under `key`. The page stays usable while it runs, and can cancel it.
    """
    job: Job[T] | None = st.session_state.get(key)
    if (job is None or not job.running) and st.button(label, icon=icon, key=f"start {key}"):
        job = st.session_state[key] = Job(work, doing)
        job.wait(AT_ONCE_S)
    if job is None:
        return None
    if job.running:
        follow(lambda: running(job, key), lambda: job.running)
        return None
    if job.error:
        st.error(job.error, icon=":material/error:")
    return job


def running(job: Job[T], key: str) -> None:
    """What a job is doing, for how long, and a button that cancels it."""
    with st.container(horizontal=True, vertical_alignment="center"):
        st.markdown(f":material/hourglass_top: {job.doing}, {fixed(job.seconds, 0)} s")
        st.button("Cancel", icon=":material/stop:", key=f"cancel {key}", on_click=job.cancel.set)
