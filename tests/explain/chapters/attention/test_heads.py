"""Attention as its chapter computes it: equal to the float64 reference, and drawn with every number's shade."""

from __future__ import annotations

import re

import numpy as np
import pytest

from explain import glossary
from explain.chapters.attention import contexts, exercises, figures, view
from explain.chapters.attention.heads import LAYER, SENTENCE, head, heads_that_differ, softmax, with_larger
from explain.exercises import check
from explain.figures import svg
from explain.gpus import GPUS
from kernels import real_inputs, reference
from kernels.inputs import HEADS_TO_SHOW


@pytest.mark.parametrize("number", HEADS_TO_SHOW)
def test_a_heads_output_is_the_references(number):
    text = real_inputs.sentence(SENTENCE, LAYER)
    q, k, v = (part[None, [number]] for part in (text.q, text.k, text.v))
    expected, _ = reference.attention(q, k, v, causal=False)
    np.testing.assert_allclose(head(number).output, expected[0, 0], rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(head(number).weights.sum(axis=1), 1, rtol=1e-12)
    assert (head(number).weights > 0).all()


def test_a_head_that_is_not_there_is_named():
    with pytest.raises(ValueError, match="head 12 is unknown; allowed: 0, 1, 2"):
        head(12)


def test_a_larger_score_takes_from_all_others_in_proportion():
    row = head(4).scores[8]
    before, after = softmax(row), with_larger(row, 3, 2.0)
    assert after[3] > before[3]
    others = np.arange(len(row)) != 3
    np.testing.assert_allclose(after[others] / before[others], (after[others] / before[others])[0])
    assert (after[others] < before[others]).all()
    assert after.sum() == pytest.approx(1, rel=1e-12)


def test_a_map_has_a_cell_for_each_number_that_has_a_shade():
    values = np.array([[1.0, -1.0, 0.0], [0.5, 0.04, -0.5]])
    drawn = figures.heat(values, 0, 0, 4, 5, "hbm", 1.0)
    assert len(re.findall("M", drawn)) == 4  # 0 and 0.04 have none
    assert 'fill-opacity="1" d="M0 0h4v5h-4z"' in drawn
    assert 'fill-opacity="0.5" d="M0 5h4v5h-4z"' in drawn


def test_every_token_can_be_pressed_and_one_is():
    for name in (figures.row_of(head(4), 8), figures.heads([head(n) for n in HEADS_TO_SHOW], 4)):
        assert name.count('aria-pressed="true"') == 1
    assert re.findall(r'data-press="(\d+)"', figures.row_of(head(4), 8)) == [str(n) for n in range(15)]


def test_bytes_of_s_grow_with_the_square_and_outgrow_every_gpu():
    lengths = [one.context for one in contexts.MODELS]
    assert lengths == sorted(lengths)
    for one in contexts.MODELS:
        assert one.score_bytes == 2 * one.context * one.context
        assert one.address.startswith("https://")
    assert contexts.MODELS[-1].score_bytes > max(gpu.hbm_bytes for gpu in GPUS.values())


@pytest.mark.parametrize("number", [4, 2])
@pytest.mark.parametrize("token", [0, 8])
def test_the_questions_answers_are_the_heads(number, token):
    shown = exercises.Shown(head(number), token)
    weights = shown.head.weights
    row = np.sort(weights[token])
    tokens = [f"“{token}”" for token in shown.head.tokens]
    right = {
        "ratio": str(row[-1] / row[-2]),
        "sharpest": tokens[weights.max(axis=1).argmax()],
        "seen-most": tokens[weights.sum(axis=0).argmax()],
        "three-times-as-long": "2025",
    }
    assert right.keys() == {question.name for question in exercises.QUESTIONS}
    for question in exercises.QUESTIONS:
        assert check(question, shown, right[question.name]).right
        wrong = "7.77" if question.kind == "number" else next(
            one for one in question.options_of(shown) if one != right[question.name]
        )  # fmt: skip
        assert not check(question, shown, wrong).right


def test_a_phone_shows_all_15_columns():
    shown = head(6)
    drawn = (
        figures.score_map(shown, 8, narrow=True),
        figures.softened(shown.tokens, shown.weights[8], shown.weights[8], 14, narrow=True),
    )
    for one in drawn:
        assert svg.LEGIBLE * float(re.findall(r'viewBox="0 0 ([\d.]+)', one)[0]) <= 388
        assert all(f">{token}</text>" in one for token in shown.tokens)


def test_the_heads_that_look_elsewhere_are_counted():
    largest = [int(head(number).weights[8].argmax()) for number in HEADS_TO_SHOW]
    for best in set(largest):
        assert heads_that_differ(8, best) == len(largest) - largest.count(best)


def test_the_page_opens_on_the_head_of_its_run_where_it_and_its_verb_find_each_other():
    assert HEADS_TO_SHOW[0] == view.START_HEAD
    shown = head(view.START_HEAD)
    it, was = (shown.tokens.index(word) for word in (view.START, "was"))
    assert (int(shown.weights[it].argmax()), int(shown.weights[was].argmax())) == (was, it)


def test_the_first_players_words_are_one_sentence_of_the_glossary_each():
    for name in view.WORDS:
        term = glossary.find(name)
        assert term is not None
        assert term.plain.replace("\n", " ").startswith(term.brief)
        assert term.brief.endswith(".")
