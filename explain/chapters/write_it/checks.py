"""Checks what readers write in the page: one judge for all of them, in processes beside the server."""

from __future__ import annotations

import functools
from collections.abc import Callable

from explain.engine import TraceRun, engine
from explain.experiment import Experiment
from explain.jobs import Job, Jobs
from explain.puzzles.answer import Answer
from explain.puzzles.judge import Judge, Judgement
from explain.puzzles.predictions import Prediction
from explain.puzzles.puzzles import Puzzle

SECONDS = 10.0
"""How long the reader's code may run at a time."""
JOBS: Jobs[Judgement] = Jobs(most_running=64, most_kept=1000)
"""By session and puzzle. Those that run wait in line for the judge's two processes."""

Remember = Callable[[Judgement], object]


PICTURES: Jobs[TraceRun] = Jobs(most_running=8, most_kept=64)
"""Runs of our kernels, by puzzle, and by seed for a prediction."""
DRAWN = 60
"""A puzzle's picture shows its smallest case of so many scores, or elements of x: with several tiles, several
programs and a last tile that is not full, if possible."""


def picture(puzzle: Puzzle) -> Job[TraceRun]:
    """A run of our kernel on a small case: what one program reads and writes is drawn from it."""
    if job := PICTURES.get(puzzle.name):
        return job

    def order(experiment: Experiment) -> tuple[bool, bool, bool, bool, int]:
        (rows, columns), p = experiment.entry.score_shape(experiment.values), experiment.values
        side = p.get("block_n", 1)
        return columns <= side, rows <= p.get("block_m", 0), rows == 1, columns % side == 0, rows * columns

    case = min((one for one in puzzle.cases(seed=0) if order(one)[-1] >= DRAWN), key=order)
    return PICTURES.start(puzzle.name, functools.partial(_traced, case), "running our kernel")


def predicted(puzzle: Prediction, seed: int) -> Job[TraceRun]:
    """The run of a prediction with the numbers of this seed."""
    key = f"{puzzle.name} {seed}"
    experiment = puzzle.experiment(seed)
    work = functools.partial(_traced, experiment)
    return PICTURES.get(key) or PICTURES.start(key, work, "running the kernel")


def _traced(experiment: Experiment, job: Job[TraceRun]) -> TraceRun:
    return engine().trace(experiment, job.progress)


@functools.cache
def judge() -> Judge:
    """The judge; its processes start when it is first asked for."""
    return Judge()


def start(key: str, answer: Answer, remember: Remember, *, unlocked: bool) -> Job[Judgement]:
    """Starts a check, in place of this key's last one; `remember` gets the judgement."""

    def work(job: Job[Judgement]) -> Judgement:
        found = judge().judge(answer, seconds=SECONDS, unlocked=unlocked, cancel=job.cancel, progress=job.progress)
        remember(found)
        return found

    JOBS.forget(key)
    return JOBS.start(key, work, "checking your kernel")
