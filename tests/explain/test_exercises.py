"""Each room's questions on the run that its page opens on and on another: the run decides which answer is right."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from explain import contents, glossary, lessons
from explain.chapters.attention.exercises import Shown as Token
from explain.chapters.attention.heads import head
from explain.chapters.cross_entropy import exercises as cross_entropy
from explain.chapters.decoding import exercises as decoding
from explain.chapters.exactness import exercises as exactness
from explain.chapters.flash_attention import exercises as flash
from explain.chapters.flash_attention import tiles
from explain.chapters.measurements import exercises as measurements
from explain.chapters.measurements.view import EXAMPLE
from explain.chapters.memory_hierarchy import exercises as memory
from explain.chapters.papers import exercises as papers
from explain.chapters.side_by_side.pairs import PAIRS
from explain.chapters.softmax.exercises import Shown as TwoSoftmaxes
from explain.chapters.speed import exercises as speed
from explain.chapters.speed import results
from explain.chapters.sweeps import exercises as sweeps
from explain.chapters.sweeps.model import READY, recorded
from explain.chapters.three_numbers import exercises as three_numbers
from explain.chapters.three_numbers import shown as lab
from explain.chapters.three_numbers.levels import recorded_trace, witness
from explain.chapters.tile_cost import exercises as tile_cost
from explain.chapters.triton_ladder import exercises as ladder_questions
from explain.chapters.triton_ladder import ladder
from explain.chapters.what_breaks import exercises as breaks
from explain.chapters.what_breaks.divergence import compared, divergences
from explain.compile.cost import LaunchCost
from explain.compile.service import compiler
from explain.engine import engine
from explain.exercises import Question, Why, check, of_room, typed_number
from explain.experiment import Experiment
from explain.gpus import GPUS
from explain.records import file, registry
from explain.ui.exercises import inline
from explain.ui.stepper import lesson
from kernels.inputs import HEADS_TO_SHOW
from kernels.museum import EXHIBITS


def runs(*experiments: Experiment) -> tuple[tuple[Experiment, Any], ...]:
    return tuple((experiment, lesson(experiment.key)[1]) for experiment in experiments)


def softmaxes(row: Experiment, *logits: float) -> TwoSoftmaxes:
    return TwoSoftmaxes(runs(lessons.naive_twin(row), row), lambda: np.array(logits))


ASCENDING = lessons.ONLINE.with_(inputs="ascending")
SHORT = lessons.SHORT.through("attention_standard")


def climbed(row: Experiment, kernel: str) -> ladder_questions.Shown:
    rungs = [(rung, rung.experiment(row)) for rung in ladder.RUNGS]
    outcomes = [ladder.outcome(rung, one, lesson(one.key)[1]) for rung, one in rungs]
    return ladder_questions.Shown(row, runs(*(one for _, one in rungs if one.kernel == kernel)), outcomes)


def tile_sizes(gpu: str) -> flash.Shown:
    def cost(tile: Experiment) -> LaunchCost:
        answer = compiler().look(tile, GPUS[gpu].compute_capability)
        return answer.cost.launches[0]

    return flash.Shown(flash.SIZES, experiment=tiles.tile(64, 64), gpu=GPUS[gpu], cost=cost)


def exhibit(name: str) -> breaks.Shown:
    shown = EXHIBITS[name]
    pair = runs(*compared(shown))
    return breaks.Shown(pair, divergences(*(trace for _, trace in pair)))


def exact(experiment: Experiment) -> exactness.Shown:
    return exactness.Shown(experiment, lambda way: engine().output(way.experiment, reverse_keys=way.reverse_keys))


def compiled(gpu: str) -> tile_cost.Shown:
    experiment = tiles.compiled_as("flash_attention", tiles.opening("flash_attention"))
    capability = GPUS[gpu].compute_capability
    answer = compiler().look(experiment, capability)
    (launch,), (listing,) = answer.cost.launches, compiler().listings(experiment, capability)
    return tile_cost.Shown(experiment, GPUS[gpu], launch, listing, None)


H200 = file.load(registry.SHIPPED[0])
PANELS = (papers.SOFTMAX, papers.FIGURE_2, papers.THEOREM, papers.TABLES, papers.HIERARCHY)


def counted(kernel: str) -> three_numbers.Shown:
    experiment = lab.experiments(kernel)["1"]
    point = H200.point(experiment)
    seen = witness(None, point.counters, "")
    return three_numbers.Shown(experiment, lab.shown(experiment, recorded_trace(experiment), seen, warm=False))


def swept(name: str) -> tuple[sweeps.Shown, ...]:
    """A sweep as it was recorded, and with its times alone, as a prediction has them."""
    found = recorded(READY[name], H200)
    return sweeps.Shown(READY[name], found), sweeps.Shown(READY[name], [replace(one, bytes={}) for one in found])


def climbs() -> tuple[speed.Shown, ...]:
    result = results.load()
    return tuple(speed.Shown(case, results.roof(case, H200)) for case in result.of("attention") if case.causal)


CONTEXTS: dict[str, Callable[[], Sequence[Any]]] = {
    "attention": lambda: tuple(Token(head(number), token) for number in HEADS_TO_SHOW[:3] for token in (0, 8)),
    "first_kernel": lambda: (
        runs(lessons.VECTORS),
        runs(lessons.VECTORS.with_(n=24)),
        runs(lessons.VECTORS.with_(n=3)),
    ),
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
    "side_by_side": lambda: tuple(runs(pair.left, pair.right) for pair in PAIRS),
    "triton_ladder": lambda: (climbed(lessons.ONLINE, "softmax_online"), climbed(ASCENDING, "softmax_row")),
    "memory_hierarchy": lambda: tuple(
        memory.Shown(GPUS[gpu], one, trace)
        for gpu, (one, trace) in zip(("H200", "T4"), runs(lessons.STANDARD, SHORT), strict=True)
    ),
    "flash_attention": lambda: (
        flash.Shown(flash.STEP, runs(lessons.OPENING)),
        flash.Shown(flash.STEP, runs(lessons.SHORT)),
        flash.Shown(flash.ORDER, runs(lessons.first_order(lessons.OPENING), lessons.OPENING)),
        *(tile_sizes(gpu) for gpu in ("H200", "T4")),
        flash.Shown(flash.PAPER, experiment=lessons.OPENING),
    ),
    "what_breaks": lambda: tuple(exhibit(name) for name in ("finite_start", "nan_swallowed", "no_running_max")),
    "exactness": lambda: tuple(exact(lessons.EXACT.with_(dtype=dtype)) for dtype in ("fp16", "bf16")),
    "backward": lambda: tuple(runs(one) for one in (lessons.BACKWARD, lessons.summed_by_atomics(lessons.BACKWARD))),
    "cross_entropy": lambda: tuple(
        cross_entropy.Shown(*runs(one)[0])
        for one in (
            lessons.LOSS,
            lessons.LOSS.through("cross_entropy_backward"),
            lessons.LOSS.through("cross_entropy_standard").with_(ignored=14),
            lessons.LOSS.with_(inputs="normal", tokens=20, vocab=50, block_n=16),
        )
    ),
    "tile_cost": lambda: tuple(compiled(gpu) for gpu in ("H200", "T4")),
    "decoding": lambda: (
        decoding.Shown(decoding.PARTS, GPUS["H200"], runs(lessons.DECODED)),
        decoding.Shown(decoding.MASKS, GPUS["T4"], runs(lessons.VERIFIED, lessons.top_left(lessons.VERIFIED))),
    ),
    "measurements": lambda: (measurements.run_of(H200, EXAMPLE), measurements.both(registry.entries()[0], EXAMPLE)),
    "three_numbers": lambda: tuple(counted(kernel) for kernel in ("flash_attention", "attention_standard")),
    "sweeps": lambda: (
        *swept("Attention: length N from 128 to 16,384"),
        *swept("Softmax: length N from 256 to 131,072"),
    ),
    "speed": climbs,
    "papers": lambda: tuple(papers.Shown(panel, H200, {papers.SPLIT: 5.0, papers.FUSED: 1.0}) for panel in PANELS),
    "glossary": lambda: (glossary.TERMS,),
}
"""What each page shows: the run it opens on first, then others."""


def right_and_wrong(question: Question[Any], context: Any) -> tuple[str, str]:
    answer: Any = question.answer(context)
    match question.kind:
        case "number":
            return str(answer), str(1 if not math.isfinite(answer) else 2 * answer + 1)
        case "choice":
            return str(answer), next(option for option in question.options_of(context) if option != answer)
    return str(answer[0]), str(answer[-1] + 1)


def gives_away(hint: str, told: str) -> bool:
    """Whether a hint has the answer, which stands between "Answer: " and a full stop."""
    answer = told[told.index(": ") + 2 : told.index(".**")]
    return re.search(rf"(?<![\w.,]){re.escape(answer)}(?![\w,]|\.\d)", hint) is not None


def test_every_room_with_questions_is_tested():
    assert {page.stem for page in contents.pages() if of_room(page.stem)} == set(CONTEXTS)


@pytest.mark.parametrize("room", CONTEXTS)
def test_the_run_decides(room):
    contexts, questions = CONTEXTS[room](), of_room(room)
    assert len({question.name for question in questions}) == len(questions)
    for question in questions:
        fitting = [
            context
            for context in contexts
            if isinstance(context, measurements.Both) == (question in measurements.OF_TWO)
        ]
        asked = [context for context in fitting if question.asked(context)]
        assert asked, f"{question.name} is asked on none of these runs"
        for context in asked:
            right, wrong = right_and_wrong(question, context)
            accepted, refused = (check(question, context, given) for given in (right, wrong))
            assert (accepted.right, refused.right) == (True, False), question.name
            told = refused.answer
            assert question.hint_of(context)
            assert room == "glossary" or any(letter.isdigit() for letter in told.words), question.name
            assert "<" in inline(told.words)
            found: Any = question.answer(context)
            assert question.kind != "step" or (refused.step is None and told.step in found)
            assert question.kind == "step" or not gives_away(refused.words, told.words), question.name
        with pytest.raises((AttributeError, TypeError)):  # without a run there is no answer: it is stored nowhere
            question.answer(None)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1.25", 1.25),
        ("1e999", math.inf),
        ("98,304", 98304),
        ("1,25", 1.25),
        ("−2e3", -2000),
        (" ∞ ", math.inf),
        ("-inf", -math.inf),
        ("97.7 %", 97.7),
        ("1.25 ×", 1.25),
    ],
)
def test_a_number_is_typed_in_many_ways(text, value):
    assert typed_number(text)[0] == value


@pytest.mark.parametrize(("given", "right"), [("0.607", True), ("0.61", True), ("0.6", True), ("0.62", False)])
def test_a_number_may_be_rounded(given, right):
    question = Question[float]("alpha", "", "number", lambda run: run, lambda run: Why(f"{run}"))
    assert check(question, math.exp(-0.5), given).right is right


@pytest.mark.parametrize(("given", "right"), [("2.09", True), ("2.1", True), ("2", False), ("2.0", False)])
def test_a_question_may_ask_for_more_digits(given, right):
    question = Question[float]("ratio", "", "number", lambda run: run, lambda run: Why(f"{run}"), tolerance=0.005)
    assert check(question, 172_032 / 82_176, given).right is right


@pytest.mark.parametrize(("tolerance", "told"), [(0.1, "1"), (0.05, "1"), (0.01, "0.999"), (0.0001, "0.9992")])
def test_an_answer_is_told_with_the_digits_that_count(tolerance, told):
    question = Question[float]("slope", "", "number", lambda run: run, lambda run: Why("So."), tolerance=tolerance)
    answer = check(question, 0.9992, "2").answer
    assert answer is not None
    assert answer.words == f"**Answer: {told}.** So."


def test_a_whole_number_is_exact():
    question = Question[int]("bytes", "", "number", lambda run: run, lambda run: Why(f"{run}"))
    assert [check(question, 98_304, given).right for given in ("98304", "98,304", "98,300")] == [True, True, False]


def test_a_wrong_answer_learns_which_way_to_go():
    number = Question[float]("bytes", "", "number", lambda run: run, lambda run: Why(f"{run}"), hint="Count.")
    small, large = (check(number, 8.0, given).words for given in ("2", "99"))
    assert small != large
    assert all("Count." in words and "8" not in words for words in (small, large))


@pytest.mark.parametrize("kind", ["number", "choice", "step"])
def test_nothing_is_no_answer(kind):
    question = Question[Any]("any", "", kind, lambda run: run, lambda run: Why(""), ("yes", "no"))
    with pytest.raises(ValueError, match=r"\w"):
        check(question, {"number": 1, "choice": "no", "step": range(1)}[kind], "")


def test_what_is_no_answer_is_refused():
    number = Question[int]("bytes", "", "number", lambda run: run, lambda run: Why(f"{run}"))
    choice = Question[str]("which", "", "choice", lambda run: run, lambda run: Why(f"{run}"), ("yes", "no"))
    step = Question[Sequence[int]]("where", "", "step", lambda run: run, lambda run: Why(f"{run}"))
    cases: list[tuple[Question[Any], Any, str]] = [(number, 1, "many"), (choice, "no", "maybe"), (step, range(0), "3")]
    for question, context, given in cases:
        with pytest.raises(ValueError, match=r"\w"):
            check(question, context, given)


def test_the_rows_of_o_that_a_bug_spoils_are_those_that_the_run_stores():
    (rows,) = (one for one in breaks.QUESTIONS if one.name == "rows")
    assert rows.answer(exhibit("no_running_max")) == 16  # the first 16 rows see a single tile
    assert "16 of 32 rows: from row 16 to row 31" in rows.why(exhibit("no_running_max")).words
    assert rows.answer(exhibit("sum_from_one")) == 0
