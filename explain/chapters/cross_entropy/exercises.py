"""Questions of the chapter on cross entropy: about the run in the player."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from explain.chapters.cross_entropy.states import Loss, State, loss_of, states
from explain.exercises import Question, Why
from explain.experiment import Experiment
from explain.figures.numbers import count, fixed, number
from explain.kept import kept
from explain.trace.model import Trace
from kernels.inputs import IGNORE_INDEX

BACKWARD = "cross_entropy_backward"


@dataclass(frozen=True)
class Shown:
    """The run in the player."""

    experiment: Experiment
    trace: Trace


@kept
def _targets(experiment: Experiment) -> np.ndarray:
    return np.asarray(experiment.make_inputs()["targets"])


def _counts(shown: Shown) -> bool:
    """Whether any token does."""
    return bool((_targets(shown.experiment) != IGNORE_INDEX).any())


def _token(shown: Shown) -> int:
    """The counted token of the first tile with its target furthest to the right."""
    own = _targets(shown.experiment)[: shown.experiment.values["block_m"]]
    return int(np.argmax(own))


def _states(shown: Shown) -> list[State]:
    return states(shown.experiment, shown.trace, _token(shown))


def _loss(shown: Shown) -> Loss:
    found = loss_of(shown.experiment, shown.trace, _token(shown))
    if found is None or not np.isfinite(found.loss):
        raise ValueError("This token has no finite loss. Choose another input.")
    return found


def _found(shown: Shown) -> State:
    """The state after the tile that has the token's target."""
    target = int(_targets(shown.experiment)[_token(shown)])
    return next(one for one in _states(shown) if one.first <= target <= one.last)


def _steps_of_the_target(shown: Shown) -> range:
    """The steps from the one that finds the target's logit to the end of its tile."""
    roles, end = shown.experiment.entry.roles, _found(shown).step
    begin = max(step for step, _ in shown.trace.history(roles["target"]) if step <= end)
    return range(begin, end + 1)


def _why_target(shown: Shown) -> Why:
    found, target = _found(shown), int(_targets(shown.experiment)[_token(shown)])
    return Why(
        f"The target of token {_token(shown)} is column {target}, in the tile of columns {found.first}–{found.last}. "
        f"There xₜ becomes {number(found.target, 4)}.",
        _steps_of_the_target(shown)[0],
    )


def _weight(shown: Shown) -> float:
    return float(np.exp(-_loss(shown).loss))


def _why_weight(shown: Shown) -> Why:
    found = _loss(shown)
    return Why(
        f"loss = L − xₜ = {fixed(found.loss, 3)}, and the weight is exp(xₜ − L) = exp(−loss) = "
        f"{number(_weight(shown), 3)}. The kernel never computes it.",
        found.step,
    )


def _logit_bytes(shown: Shown) -> int:
    return sum(term.bytes for term in _standard(shown).traffic.terms if term.buffer == "x")


def _standard(shown: Shown) -> Experiment:
    return shown.experiment.through("cross_entropy_standard")


def _why_logit_bytes(shown: Shown) -> Why:
    p = _standard(shown).values
    elements = p["tokens"] * p["vocab"]
    item = _logit_bytes(shown) // (2 * elements)
    return Why(
        f"{p['tokens']} × {p['vocab']} = {count(elements)} logits of {item} bytes, written once and read once: "
        f"2 × {count(elements)} × {item} = {count(_logit_bytes(shown))} bytes. All other bytes are the same."
    )


def _kept(shown: Shown) -> int:
    return int(shown.experiment.values["vocab"])


def _why_kept(shown: Shown) -> Why:
    p = shown.experiment.values
    return Why(
        f"X has {p['tokens']} × {p['vocab']} = {count(p['tokens'] * p['vocab'])} numbers, L has {p['tokens']}. The "
        "ratio is V: the larger the vocabulary, the more is saved."
    )


def _matmuls(shown: Shown) -> int:
    p = shown.experiment.values
    both = shown.experiment.traffic.flops_of("matmul")
    one = Experiment.of("cross_entropy_fused", p, shown.experiment.inputs).traffic.flops_of("matmul")
    return both // one


def _why_matmuls(shown: Shown) -> Why:
    return Why("One in the forward pass. In each of the two backward launches: H Wᵀ again, then dX W, or dXᵀ H.")


QUESTIONS = (
    Question[Shown](
        "target",
        lambda shown: (
            f"Token {_token(shown)} has the target {int(_targets(shown.experiment)[_token(shown)])}. "
            "Go to the step at which its xₜ is no longer −∞."
        ),
        "step",
        _steps_of_the_target,
        _why_target,
        hint="The target is a column. Which tile of the vocabulary has it?",
        asked=lambda shown: shown.experiment.kernel != BACKWARD and _counts(shown),
    ),
    Question[Shown](
        "weight",
        lambda shown: f"Token {_token(shown)}: what is the softmax weight of its target?",
        "number",
        _weight,
        _why_weight,
        tolerance=0.03,
        hint="The loss is −ln of this weight. Read the loss of the token at the end of the run.",
        asked=_counts,
    ),
    Question[Shown](
        "logit-bytes",
        "How many bytes does this run save, because it writes and reads no logits?",
        "number",
        _logit_bytes,
        _why_logit_bytes,
        unit="bytes",
        hint="Tokens × vocabulary × bytes per number; written once, and read once.",
        asked=lambda shown: shown.experiment.kernel == "cross_entropy_fused",
    ),
    Question[Shown](
        "kept",
        "For the backward pass the kernel keeps L instead of X. How many numbers does X have for each number of L in "
        "this run?",
        "number",
        _kept,
        _why_kept,
        hint="X has tokens × V numbers. How many has L?",
    ),
    Question[Shown](
        "matmuls",
        "How many matmuls of this size do the forward and the backward pass do together?",
        "number",
        _matmuls,
        _why_matmuls,
        hint="Count the lines with tl.dot in the three launches.",
        asked=lambda shown: shown.experiment.kernel == BACKWARD,
    ),
)
