"""Each room's questions on the run that its page opens on and on another: the run decides which answer is right."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from explain import contents, lessons
from explain.chapters.softmax.exercises import Shown as TwoSoftmaxes
from explain.exercises import Question, Why, check, of_room, typed_number
from explain.experiment import Experiment
from explain.ui.exercises import inline
from explain.ui.stepper import lesson


def runs(*experiments: Experiment) -> tuple[tuple[Experiment, Any], ...]:
    return tuple((experiment, lesson(experiment.key)[1]) for experiment in experiments)


def softmaxes(row: Experiment, *logits: float) -> TwoSoftmaxes:
    return TwoSoftmaxes(runs(lessons.naive_twin(row), row), lambda: np.array(logits))


CONTEXTS: dict[str, Callable[[], Sequence[Any]]] = {
    "softmax": lambda: (
        softmaxes(lessons.SAFE, -1.0, 0.5, 2.0, 3.5, 0.0, 1.0),
        softmaxes(lessons.SAFE.with_(inputs="ascending"), 9.0, 0.5, -30.0, 3.5, 0.0, 1.0),
    ),
    "online_softmax": lambda: (
        runs(lessons.ONLINE),
        runs(lessons.element_by_element(lessons.ONLINE)),
        runs(lessons.MERGED),
        runs(lessons.added_twin(lessons.MERGED), lessons.MERGED),
        runs(lessons.TOPK),
    ),
}
"""What each page shows: the run it opens on first, then others."""


def right_and_wrong(question: Question[Any], context: Any) -> tuple[str, str]:
    answer = question.answer(context)
    match question.kind:
        case "number":
            return str(answer), str(1 if not math.isfinite(answer) else 2 * answer + 1)
        case "choice":
            return str(answer), next(option for option in question.options_of(context) if option != answer)
    return str(answer[0]), str(answer[-1] + 1)


def test_every_room_with_questions_is_tested():
    assert {page.stem for page in contents.pages() if of_room(page.stem)} == set(CONTEXTS)


@pytest.mark.parametrize("room", CONTEXTS)
def test_the_run_decides(room):
    contexts, questions = CONTEXTS[room](), of_room(room)
    assert len({question.name for question in questions}) == len(questions)
    for question in questions:
        asked = [context for context in contexts if question.asked(context)]
        assert asked, f"{question.name} is asked on none of these runs"
        for context in asked:
            right, wrong = right_and_wrong(question, context)
            accepted, refused = (check(question, context, given) for given in (right, wrong))
            assert (accepted.right, refused.right) == (True, False), question.name
            assert any(letter.isdigit() for letter in refused.words), question.name  # the numbers of the run
            assert "<" in inline(refused.words)
            assert question.kind != "step" or refused.step in question.answer(context)
        with pytest.raises((AttributeError, TypeError)):  # without a run there is no answer: it is stored nowhere
            question.answer(None)


@pytest.mark.parametrize(
    ("text", "value"),
    [("1.25", 1.25), ("98,304", 98304), ("1,25", 1.25), ("−2e3", -2000), (" ∞ ", math.inf), ("-inf", -math.inf)],
)
def test_a_number_is_typed_in_many_ways(text, value):
    assert typed_number(text)[0] == value


@pytest.mark.parametrize(("given", "right"), [("0.607", True), ("0.61", True), ("0.6", True), ("0.62", False)])
def test_a_number_may_be_rounded(given, right):
    question = Question[float]("alpha", "", "number", lambda run: run, lambda run: Why(f"{run}"))
    assert check(question, math.exp(-0.5), given).right is right


def test_a_whole_number_is_exact():
    question = Question[int]("bytes", "", "number", lambda run: run, lambda run: Why(f"{run}"))
    assert [check(question, 98_304, given).right for given in ("98304", "98,304", "98,300")] == [True, True, False]


def test_what_is_no_answer_is_refused():
    number = Question[int]("bytes", "", "number", lambda run: run, lambda run: Why(f"{run}"))
    choice = Question[str]("which", "", "choice", lambda run: run, lambda run: Why(f"{run}"), ("yes", "no"))
    step = Question[Sequence[int]]("where", "", "step", lambda run: run, lambda run: Why(f"{run}"))
    for question, context, given in ((number, 1, "many"), (choice, "no", "maybe"), (step, range(0), "3")):
        with pytest.raises(ValueError, match=r"\w"):
            check(question, context, given)
