"""What the checks found in a run, as a list: errors first, each with a button that opens the player at its step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import streamlit as st

from explain.figures.numbers import count
from explain.outside import program_name
from explain.player.component import Run
from explain.trace.model import SORTS, Finding, Report, Trace

BUTTON = 152  # pixels: the words beside the buttons begin in one line


def of(report: Report) -> Sequence[Finding] | None:
    """What the checks found in a run; None if it was not checked.

    If the run stopped, a later line may still have used a load. So its unused loads are left out.
    """
    if report.findings is None or not report.failure:
        return report.findings
    return tuple(one for one in report.findings if one.sort != "unused")


def show(run: Run, *, alone: bool) -> None:
    """The findings of a run that was checked. Beside another run they have no buttons: two runs share no steps."""
    found = of(run.trace.trace.report)
    if found is None:
        return
    title = "" if alone else f"{run.view['title']}: "
    if not found:
        st.caption(f"{title}The checks found no fault.")
        return
    sorts = list(dict.fromkeys(one.sort for one in found))
    ordered = sorted(found, key=lambda one: (not one.error, sorts.index(one.sort)))  # one cause has often several
    st.markdown(f"{title}**{counted(found)}.**" + " Press a line: the player opens at its step." * alone)
    labels = _labels(run.trace.trace, ordered)
    for first in range(0, len(ordered), 2):
        for column, number in zip(st.columns(2, gap="large"), range(first, len(ordered)), strict=False):
            with column:
                _show(run, number, ordered[number], labels[number] if alone else "")


def _show(run: Run, number: int, one: Finding, label: str) -> None:
    with st.container(horizontal=True):
        if label:
            key = f"finding {number} {hash(run.trace)}"
            st.button(label, key, on_click=_choose, args=(run, one.step), width=BUTTON)
        st.markdown(in_words(one), width="stretch")


def _labels(trace: Trace, found: Sequence[Finding]) -> list[str]:
    """The line of each finding and what it does with the finding's tensor: "Line 6: store". Where another finding has
    the same, its step too.
    """
    labels = []
    for one in found:
        kinds = {access.kind: None for access in trace.accesses(one.step) if one.buffer in ("", access.buffer.name)}
        labels.append(": ".join(filter(None, (f"Line {one.line}", ", ".join(kinds)))))
    alike = Counter(labels)
    return [
        f"{label} · step {count(one.step)}" if alike[label] > 1 else label
        for label, one in zip(labels, found, strict=True)
    ]


def chosen(run: Run) -> tuple[int | None, int]:
    """The step of the finding that the reader pressed, None before; and how often one was pressed."""
    step, presses = st.session_state.get(_key(run), (None, 0))
    return step, presses


def counted(found: Sequence[Finding]) -> str:
    """ "2 errors, 1 hint"."""
    errors = sum(one.error for one in found)
    numbers = {"error": errors, "hint": len(found) - errors}
    return ", ".join(f"{number} {what}{'s' * (number != 1)}" for what, number in numbers.items() if number)


def in_words(one: Finding) -> str:
    """A finding as Markdown: its sort, line, program and element; what happened; what to do."""
    mark = ":red[:material/error:]" if one.error else ":material/info:"
    places = (f"line {one.line}", f"program {program_name(one.program)}", _element(one))
    remedy = f"  \n→ {one.remedy}" if one.remedy else ""
    return f"{mark} **{SORTS[one.sort].title}** · {' · '.join(filter(None, places))}  \n{one.words}.{remedy}"


def _element(one: Finding) -> str:
    if one.index:
        return f"{one.buffer}[{', '.join(map(str, one.index))}]"
    return f"element {one.element} of {one.buffer}" if one.element >= 0 else one.buffer


def _choose(run: Run, step: int) -> None:
    st.session_state[_key(run)] = step, chosen(run)[1] + 1


def _key(run: Run) -> str:
    return f"finding of {hash(run.trace)}"
