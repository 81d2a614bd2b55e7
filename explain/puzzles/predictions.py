"""Predictions: what is m, α or ℓ after this tile of a real run? The answer is computed from the run, never stored.

Each has new numbers for every seed. What is asked for is in `puzzles.toml`, among the kernels to write.
"""

from __future__ import annotations

import math
import re
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from explain.engine import engine
from explain.exercises import Question, Runs, Verdict, Why, check, set_to, typed_number
from explain.experiment import Experiment
from explain.figures.numbers import number
from explain.puzzles.stop import Stop
from explain.trace.model import numbers

SIZES = {"rows": 1, "cols": 16, "block_n": 4}
DIGITS = 4
NEAR = 0.01
"""The relative error that an answer may have, and that an answer which a mistake explains may have."""
LARGEST_SEED = 999_999
_LITERAL = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?")


@dataclass(frozen=True, kw_only=True)
class Prediction(Stop):
    """A number of a kernel's run to be predicted: the variable with the role `ask` after one tile."""

    ask: str

    def experiment(self, seed: int) -> Experiment:
        """The run with the numbers of this seed."""
        return Experiment.of(self.kernel, SIZES, "normal", seed)

    def runs(self, seed: int) -> Runs:
        """This run. Raises WorkerError if it cannot be made here."""
        experiment = self.experiment(seed)
        return [(experiment, engine().trace(experiment).trace)]

    def file(self) -> str:
        """The file that a reader begins with: its own seed, and an answer to fill in."""
        return f"""{self.above()}

PUZZLE = "{self.name}"  # tells the check which puzzle this is
SEED = {secrets.randbelow(LARGEST_SEED)}  # another number: another run
ANSWER = None  # your number; a check without one shows the question
"""

    def answered(self, seed: int, given: str) -> str:
        """The file of a reader who typed this number. Raises ValueError, in words, if it is not a number."""
        value = repr(typed_number(given)[0])
        literal = given.strip() if _LITERAL.fullmatch(given.strip()) else value  # its digits say how exact it is
        return f'PUZZLE = "{self.name}"\nSEED = {seed}\nANSWER = {literal}\n'

    def prompt(self, runs: Runs) -> str:
        """What is known before the tile, and what is asked for, as inline Markdown."""
        tile = _Tile.of(self, runs)
        known = f"m = {_said(tile.m)}"
        if self.ask == "running_sum":
            known += f" and ℓ = {_said(tile.l)}"
        last = tile.number * SIZES["block_n"] - 1
        return (
            f"After x[0] … x[{last}]: {known}. "
            f"The next tile holds {', '.join(map(_said, tile.x))}. "
            f"What is {_SYMBOLS[self.ask]} after this tile?"
        )

    def row(self, runs: Runs) -> tuple[list[float], int]:
        """The numbers of the row up to the tile that is asked about, and the tile's number, from 0."""
        experiment, tile = runs[0][0], _Tile.of(self, runs).number
        return experiment.make_inputs()["x"][0, : (tile + 1) * SIZES["block_n"]].tolist(), tile

    def verdict(self, runs: Runs, given: str) -> Verdict:
        """Whether a typed number is the run's; if not, what was forgotten, where that explains it, and the step.

        Raises ValueError, in words, if `given` is not a number.
        """
        found = check(self._question(), runs, given)
        if found.right:
            return found
        tile, guess = _Tile.of(self, runs), typed_number(given)[0]
        for value, words in _MISTAKES[self.ask](tile):
            if math.isclose(guess, value, rel_tol=NEAR):
                return Verdict(False, f"**Not quite.** {words}", found.step, answer=found.answer)
        return found

    def solution(self, runs: Runs) -> str:
        """The answer and its calculation, as inline Markdown."""
        return _WHY[self.ask](_Tile.of(self, runs))

    def _question(self) -> Question[Runs]:
        def answer(runs: Runs) -> float:
            return _Tile.of(self, runs).answer

        def why(runs: Runs) -> Why:
            tile = _Tile.of(self, runs)
            return Why(_WHY[self.ask](tile), tile.step)

        return Question[Runs](self.name, self.goal, "number", answer, why, tolerance=NEAR)


@dataclass(frozen=True)
class Guess:
    """A reader's file with a prediction: the number of the run with this seed, as it is written there; None if there is
    no number yet. A number is right if it is right when rounded to its digits.
    """

    name: str
    puzzle: Prediction
    seed: int
    answer: str | None
    text: str


@dataclass(frozen=True)
class _Tile:
    """The tile that is asked about: its number, its x, m and ℓ before it, m, α and ℓ after it; and the step that sets
    the answer.
    """

    number: int
    x: Sequence[float]
    m: float
    l: float  # noqa: E741  # its name in the field
    m_new: float
    alpha: float
    l_new: float
    answer: float
    step: int

    @classmethod
    def of(cls, prediction: Prediction, runs: Runs) -> _Tile:
        """The last tile that raises the maximum. For m itself, which would then be clear, any but the first."""
        run = runs[0]
        experiment, trace = run
        maxima, factors, sums = (set_to(run, role) for role in ("new_max", "rescale", "running_sum"))
        rising = [n for n, (_, alpha) in enumerate(factors) if 0 < alpha < 1]
        at = 1 + experiment.seed % (len(maxima) - 1) if prediction.ask == "new_max" or not rising else rising[-1]
        begin = maxima[at][0][0]
        before = {role: numbers(trace.state(begin)[name]) for role, name in experiment.entry.roles.items()
                  if role in ("scores", "running_max", "running_sum")}  # fmt: skip
        after, total = next((steps, value) for steps, value in sums if steps[0] > begin)
        where = {"new_max": maxima[at], "rescale": factors[at], "running_sum": (after, total)}[prediction.ask]
        return cls(
            at, before["scores"].tolist(), float(before["running_max"]), float(before["running_sum"]),
            float(maxima[at][1]), float(factors[at][1]), float(total), float(where[1]), where[0][0],
        )  # fmt: skip

    @property
    def added(self) -> float:
        """Σ exp(x − m_new) of this tile."""
        return float(np.exp(np.array(self.x) - self.m_new).sum())


def place(runs: Runs, step: int) -> str:
    """A step of the run and its line."""
    source, line = runs[0][1].source(step), runs[0][1].line(step)
    code = source.text.splitlines()[line - source.first_line].strip()
    return f"step {step:,}, {source.file}:{line}  {code}"


_SYMBOLS = {"new_max": "m", "rescale": "α", "running_sum": "ℓ"}


def _said(value: float) -> str:
    return number(value, DIGITS)


_WHY: dict[str, Callable[[_Tile], str]] = {
    "new_max": lambda t: f"m = max({_said(t.m)}, {_said(max(t.x))}) = {_said(t.m_new)}.",
    "rescale": lambda t: f"m rises to {_said(t.m_new)}: "
    f"α = exp({_said(t.m)} − {_said(t.m_new)}) = {_said(t.alpha)}." if t.m_new > t.m else
    f"The maximum does not change, so α = exp(0) = {_said(t.alpha)}.",
    "running_sum": lambda t: f"α = exp({_said(t.m)} − {_said(t.m_new)}) = {_said(t.alpha)}: "
    f"{_said(t.l)} × {_said(t.alpha)} + {_said(t.added)} (this tile) = {_said(t.l_new)}.",
}  # fmt: skip

_MISTAKES: dict[str, Callable[[_Tile], Sequence[tuple[float, str]]]] = {
    "new_max": lambda t: (
        (max(t.x), "That is the largest number of this tile. Which is larger: it, or the maximum so far?"),
        (t.m, "That is the maximum before this tile. One number of the tile is larger."),
        (max(map(abs, t.x)), "A large negative number is small: −2 < 1. Compare with the sign."),
        (min(t.x), "That is the smallest number of the tile. m is the largest so far."),
    ),
    "rescale": lambda t: (
        (math.exp(t.m_new - t.m), "That is 1 / α. The old terms were too large, so α is at most 1: exp(m − m_new)."),
        (t.m - t.m_new, "That is the exponent m − m_new. α is exp of it."),
        (t.m_new - t.m, "That is m_new − m. α is exp(m − m_new)."),
        (1.0, "α is 1 only where the maximum does not change. Look for a number in this tile that is larger than m."),
        (t.m / t.m_new if t.m_new else math.nan, "That is m / m_new. Terms are exponentials: α = exp(m − m_new)."),
    ),
    "running_sum": lambda t: (
        (t.l + t.added, "The old sum is not rescaled. Multiply it by α = exp(m − m_new), then add this tile."),
        (t.added, "That is this tile's own sum. The earlier tiles' sum, times α, belongs to it."),
        (t.l * t.alpha, "That is the old sum after the rescale. Now add exp(x − m_new) of each number of this tile."),
        (
            t.l * t.alpha + float(np.exp(np.array(t.x) - t.m).sum()),
            "The new terms are relative to the new maximum: exp(x − m_new), not exp(x − m).",
        ),
        (t.l + sum(t.x), "ℓ is a sum of exponentials, not of the numbers: add exp(x − m_new)."),
    ),
}  # fmt: skip
