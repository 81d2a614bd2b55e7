"""Whether undefined lanes reach the result: the run is repeated with other values in them."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager

import numpy as np
import torch

from explain.trace.accesses import Run, stored_values
from explain.trace.errors import TookTooLong, TraceTooLarge
from explain.trace.evidence import Evidence
from explain.trace.model import Trace

Record = Callable[[Evidence], Trace]


class CutError(Exception):
    """A limit of time, steps or memory ended a run, so that it proves nothing."""


@contextmanager
def same_numbers() -> Iterator[None]:
    """While open, random numbers are the same each time."""
    random.seed(0)
    np.random.seed(0)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield


def reached(record: Record, trace: Trace, evidence: Evidence) -> list[int]:
    """The loads with undefined lanes that change what the run stores, or where it reads; one for each line.

    Raises CutError if a limit ended the run, or one of its repetitions.
    """
    if evidence.cut:
        raise CutError
    usual = effects(trace)

    def differs(loads: Collection[int]) -> bool:
        return _effects(record, Evidence(garbage=frozenset(loads))) != usual

    if not differs(evidence.undefined) or differs(()):  # not even the same run twice is the same
        return []
    run = Run(trace, evidence)
    lines = run.lines(access for access in evidence.undefined if access < len(run.steps)).values()
    return [loads[0] for loads in lines if len(lines) == 1 or differs(loads)]


def _effects(record: Record, evidence: Evidence) -> list[bytes] | None:
    """Those of a repetition; None if it fails. Raises CutError."""
    try:
        found = effects(record(evidence))
    except (TookTooLong, TraceTooLarge):
        raise CutError from None
    except Exception:  # foreign code may raise anything when it reads infinity
        found = None
    if evidence.cut:  # foreign code may hide the error of a limit
        raise CutError
    return found


def effects(trace: Trace) -> list[bytes]:
    """A digest of each access: its kind, its active elements and the values that it stored."""
    run = Run(trace, Evidence())
    c, found = trace.columns, []
    for access in range(len(run.steps)):
        elements, active = run.of(access)
        stored = stored_values(run, access, active).tobytes()
        parts = (bytes([c.access_kind[access]]), elements[active].tobytes(), stored)
        found.append(hashlib.blake2b(b"".join(parts), digest_size=16).digest())
    return found
