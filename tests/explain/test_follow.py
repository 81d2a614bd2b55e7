"""A part of a page that follows a job: no click on it is lost."""

from __future__ import annotations

from streamlit.testing.v1 import AppTest


def test_a_click_counts_where_the_job_goes_on_at_the_same_moment():
    """The click arrives with a new point: the part runs the whole page again before it draws its button."""

    def page() -> None:
        import streamlit as st

        from explain.jobs import Job
        from explain.ui.follow import follow, running

        job = st.session_state.setdefault("job", Job(lambda job: job.cancel.wait(), "counting"))
        points = st.session_state.setdefault("points", [])

        def progress() -> int:
            if st.session_state.get("goes on"):
                points.append(1)
                st.session_state["goes on"] = len(points) % 2  # one that differs, then one that does not
            return len(points)

        follow(lambda: running(job, "job"), lambda: job.running, progress=progress)

    test = AppTest.from_function(page, default_timeout=300).run()
    job = test.session_state["job"]
    test.session_state["goes on"] = True
    test.button[0].click().run()
    assert test.session_state["points"]
    assert job.wait().result is True
