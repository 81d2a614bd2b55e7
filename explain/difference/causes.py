"""The likely cause of a difference: what the values show, or an edit of the right statement that gives B's values.

An edit counts if it gives exactly what B has, at every step that ran the statement (up to `TRIED`). None looks at which
bug it might be. Where none fits, the cause is unknown.

Where run A is the solution of a puzzle, its code is secret: a cause then names variables in place of an expression.
"""

from __future__ import annotations

from dataclasses import replace

from explain.difference.by_edits import UNHANDLED, by_code, by_edits
from explain.difference.by_values import ELSE, SURE, UNDEFINED, told_by
from explain.difference.evidence import Evidence


def cause_of(evidence: Evidence, order: tuple[str, str] | None) -> tuple[str, str] | None:
    """The likely cause, and the evidence for it, in words; None if the cause is unknown.

    `order` is the cause that what the statement reads is set too early, too late or never, if it may be that.
    """
    if sure := told_by(SURE, evidence):
        return sure
    edited = by_edits(evidence)
    if undefined := told_by(UNDEFINED, evidence):
        more = "" if edited is None else "this case is not handled" if UNHANDLED in edited[0] else edited[0]
        return f"{undefined[0]}: {more}" if more else undefined[0], undefined[1]
    seen = told_by(ELSE, evidence)
    if edited is None and order is None and seen is None:
        edited = by_edits(replace(evidence, as_paired=True))
    return edited or order or seen or by_code(evidence)
