"""What each program of a vector addition did, read from its trace."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from explain.kept import kept
from explain.trace.model import Trace, numbers

VARIABLES = ("offsets", "mask", "a", "b", "c")


@dataclass(frozen=True, eq=False)
class Program:
    """One program: its number, its first step, and its variables, arrays of BLOCK_N elements each."""

    number: int
    first_step: int
    offsets: np.ndarray
    mask: np.ndarray
    a: np.ndarray
    b: np.ndarray
    c: np.ndarray

    @property
    def working(self) -> int:
        """How many lanes load and store: where the mask is true."""
        return int(self.mask.sum())


@kept
def programs(trace: Trace) -> tuple[Program, ...]:
    """The programs of a recorded vector addition, in order."""
    return tuple(
        Program(one.id[0], one.first_step, *(_value(trace, name, one.first_step, one.steps) for name in VARIABLES))
        for one in trace.launches[0].recorded
    )


def step_of(trace: Trace, program: Program, variable: str) -> int:
    """The step at which a program sets a variable. Raises ValueError for a variable that it does not set."""
    steps = next(one.steps for one in trace.launches[0].recorded if one.first_step == program.first_step)
    for step in range(program.first_step, program.first_step + steps):
        if variable in trace.changes(step):
            return step
    raise ValueError(f"{variable!r} is set nowhere in program {program.number}; it has {', '.join(VARIABLES)}")


def _value(trace: Trace, name: str, first: int, steps: int) -> np.ndarray:
    return next(numbers(trace.changes(k)[name]) for k in range(first, first + steps) if name in trace.changes(k))
