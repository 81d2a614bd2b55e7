"""Every step of every kernel has one plain sentence, made from its numbers. They are read off the player's own modules, in a browser."""

from __future__ import annotations

import base64
import json
import re

import pytest
import torch
import triton
import triton.language as tl

from explain.chapters.what_breaks.divergence import compared
from explain.experiment import Experiment
from explain.player.files import modules as joined_modules
from explain.player.view import view
from explain.run_experiment import run_traced
from explain.trace import file as trace_file
from explain.trace.recorder import record_call
from kernels.catalog import KERNELS, TAUGHT
from kernels.museum import EXHIBITS

SMALL = {"rows": 4, "cols": 7, "block_m": 4, "block_n": 4, "seq_len": 7, "kv_len": 7, "head_dim": 16}
LOAD = """async ([file, view]) => {
  const {decodeTrace, Story, sentence} = globalThis.tilescope;
  const story = new Story(await decodeTrace(Uint8Array.from(atob(file), (c) => c.charCodeAt(0))), JSON.parse(view));
  globalThis.tell = (row) => Array.from({length: story.steps}, (_, k) => sentence(story, k, row));
}"""


@pytest.fixture(scope="module")
def said(browser):
    """said(trace, view, row): the sentence of each step, for that row of the current tile."""
    page = browser.new_page()
    content = joined_modules() + "\nglobalThis.tilescope = {decodeTrace, Story, sentence};"
    page.add_script_tag(content=content, type="module")
    page.wait_for_function("globalThis.tilescope")

    def said(trace, view, row=0):
        page.evaluate(LOAD, [base64.b64encode(trace_file.to_bytes(trace)).decode(), json.dumps(view)])
        return page.evaluate("row => tell(row)", row)

    yield said
    page.close()


def small(kernel, inputs=None, **changes):
    known = {parameter.name for parameter in KERNELS[kernel].parameters}
    sizes = {name: value for name, value in (SMALL | changes).items() if name in known}
    if kernel == "softmax_row":
        sizes["block_n"] = 8
    return Experiment.of(kernel, sizes, inputs)


def told(said, experiment, row=0):
    """[(the source line's text, its sentence)] of each step."""
    trace, _ = run_traced(experiment, "all", lambda *_: None)
    sentences = said(trace, view(experiment, trace, "interpreter"), row)
    sources = [trace.source(step) for step in range(trace.steps)]
    lines = [s.text.splitlines()[trace.line(step) - s.first_line].strip() for step, s in enumerate(sources)]
    return list(zip(lines, sentences, strict=True))


def of(steps, beginning):
    """The sentences of the lines that begin like this, in the order in which they run."""
    found = [sentence for line, sentence in steps if line.startswith(beginning)]
    assert found, beginning
    return found


def check(sentences):
    for sentence in sentences:
        assert 5 < len(sentence) < 140, sentence
        assert sentence.endswith("."), sentence
        assert not re.search(r"undefined|null|NaN%|\[object|Infinity|  |\.\.|-\d", sentence), sentence


@pytest.mark.parametrize("inputs", ["normal", "ascending", "large_magnitude", "first_tile_masked", "everything_masked"])
@pytest.mark.parametrize("kernel", TAUGHT)
def test_every_step_of_every_kernel_has_a_sentence(said, kernel, inputs):
    for changes in ({}, {"causal": True}) if KERNELS[kernel].family == "attention" else ({},):
        experiment = small(kernel, inputs, **changes)
        for row in (0, 3):
            sentences = [sentence for _, sentence in told(said, experiment, row)]
            check(sentences)
            nan_free = not KERNELS[kernel].wrong and inputs == "normal"
            assert not (nan_free and any(re.search(r"is NaN|hold NaN|are NaN", one) for one in sentences))


def test_the_sentences_of_an_online_softmax(said):
    steps = told(said, Experiment.of("softmax_online", {"rows": 1, "block_n": 2}, "notebook"))
    assert steps[0][1] == "Program 0 of 1 begins."
    assert of(steps, "m_i = -float")[0] == "The maximum starts at −∞: no score is seen yet."
    assert of(steps, "l_i = 0.0")[0] == "ℓ starts at 0: nothing is added up yet."
    assert of(steps, "for start")[1] == "A round of the loop begins: start is 2."
    assert of(steps, "cols =")[1] == "Turns to columns 2 to 3."
    assert of(steps, "x = tl.load")[1] == "Loads columns 2 to 3 of x from HBM: 2 values, 8 bytes; the largest is 0.7."
    assert of(steps, "m_new =")[1] == "A larger score arrives, the maximum rises from 0.2 to 0.7."
    assert of(steps, "alpha =") == [
        "No score came before, so α = 0: there is nothing to keep.",
        "A larger score, 0.7, arrived. Everything so far shrinks by α = 0.607.",
        "A larger score, 0.8, arrived. Everything so far shrinks by α = 0.905.",
    ]
    assert of(steps, "p =")[2] == "The scores become weights; the largest is 1, together they make 1.497."
    assert (
        of(steps, "l_i = l_i * alpha")[1] == "ℓ was 1.607; shrunk by α = 0.607 and with this tile's 1.819 it is 2.793."
    )
    assert of(steps, "m_i = m_new")[0] == "The maximum so far, 0.2, is kept for the next tile."
    assert of(steps, "y =")[0] == "Divided by ℓ = 4.024, the weights become outputs; together they make 0.219."
    assert of(steps, "tl.store")[0] == "Writes columns 0 to 1 of y to HBM: 2 values, 8 bytes."


def test_the_sentences_of_flash_attention(said):
    steps = told(
        said, Experiment.of("flash_attention", {"block_m": 16, "block_n": 16, "causal": True}, "sentence"), row=3
    )
    assert steps[0][1] == "Program 0 of 4 begins: query tile 0 · tokens 0–15."
    assert of(steps, "q = tl.load")[0] == "Loads rows 0 to 15 of Q from HBM: 16 × 32 values, 2,048 bytes."
    assert of(steps, "k = tl.load")[2] == "Loads rows 16 to 31 of K from HBM: 16 × 32 values, 2,048 bytes."
    assert of(steps, "if CAUSAL")[0] == "CAUSAL holds: the lines inside run."
    assert of(steps, "s = tl.where")[:2] == [
        "The mask hides 120 of this tile's 256 scores: they become −∞.",
        "The mask hides nothing of this tile: its scores stay.",
    ]
    assert (
        of(steps, "alpha =")[2] == "Row 19 “a”: a larger score, 2.654, arrived. Everything so far shrinks by α = 0.762."
    )
    assert of(steps, "acc = acc * alpha")[2] == "Row 19 “a”: the output so far shrinks by α = 0.762."
    assert of(steps, "o = acc")[1] == "Row 19 “a”: the output is divided by ℓ = 5.771, once, at the end."
    assert of(steps, "tl.store(o_ptr")[0] == "Writes rows 0 to 15 of O to HBM: 16 × 32 values, 2,048 bytes."


def test_a_maximum_that_stays_rescales_nothing(said):
    steps = told(said, small("flash_attention", "descending"))
    assert re.fullmatch(r"Row 0: no score above [−\d.]+, so the maximum stays\.", of(steps, "m_new =")[1])
    assert re.fullmatch(r"Row 0: no score above [−\d.]+, so nothing is rescaled\.", of(steps, "alpha =")[1])
    assert re.fullmatch(r"Row 0: ℓ grows from [\d.]+ to [\d.]+\.", of(steps, "l_i = l_i * alpha")[1])
    assert of(steps, "acc = acc * alpha")[1] == "Row 0: α = 1, so the output so far stays as it is."


def test_a_row_of_nothing_but_minus_infinity_is_told(said):
    steps = told(said, small("softmax_tiled", "everything_masked"), row=2)
    assert of(steps, "m_new =")[0] == "Row 2: every score so far is −∞, and so is the maximum."
    assert of(steps, "alpha =")[1] == "Row 2: no score came before, so α = 0: there is nothing to keep."
    assert of(steps, "p =")[0] == "Row 2: every score of this tile is −∞, so every weight is 0."
    assert of(steps, "l_i = tl.where")[0] == "Row 2: ℓ was 0 and becomes 1, so that nothing is divided by 0."


def test_a_tile_the_mask_hides_whole_is_told(said):
    # Standard attention computes every tile, those above the diagonal too.
    steps = told(said, small("attention_standard", causal=True, seq_len=8, kv_len=8))
    assert "The tile is hidden by the mask: its scores become −∞." in of(steps, "s = tl.where")


def test_overflow_and_nan_are_told(said):
    steps = told(said, Experiment.of("softmax_naive", {"rows": 1, "cols": 6, "block_n": 4}, "large_magnitude"))
    assert of(steps, "p =")[0] == "A score is too large for exp: its weight overflows to ∞."
    assert of(steps, "l_i = l_i + ")[0] == "ℓ overflows to ∞."
    assert of(steps, "y =")[0] == "∞ divided by ∞: the output is NaN."


def test_a_nan_that_is_taken_for_a_number_is_told(said):
    _, broken = compared(EXHIBITS["nan_swallowed"])
    lines = dict(told(said, broken))
    assert lines["l_i = tl.maximum(l_i, 1.0)"] == "ℓ was NaN and becomes 1: the NaN is lost."


def test_a_tile_normalised_by_itself_is_told_apart(said):
    steps = told(said, Experiment.of("softmax_blocked_wrong", {"rows": 1, "block_n": 2}, "notebook"))
    assert of(steps, "m_i = tl.max")[1] == "The maximum of this tile alone is 0.7; the 0.2 before is forgotten."
    assert of(steps, "l_i = tl.sum")[1] == "ℓ is 1.819, this tile's weights alone; the 1.607 before is dropped."


def test_pairs_that_are_joined_are_told_and_so_is_the_missing_factor(said):
    changes = {"rows": 1, "cols": 6, "block_n": 2, "order": "tree"}
    right = told(said, Experiment.of("softmax_split", changes, "notebook"))
    assert of(right, "m_new =")[0] == "The larger of the two maxima, 0.2 and 0.7, is 0.7."
    assert (
        of(right, "alpha =")[0] == "The first sum was measured against a smaller maximum, so it shrinks by α = 0.607."
    )
    assert of(right, "beta =")[0] == "The second sum was measured against the joined maximum: β = 1."
    assert of(right, "l_i = l_i * alpha")[0] == "The sums are joined: 1.607 · 0.607 + 1.819 · 1 = 2.793."
    wrong = told(said, Experiment.of("softmax_split_wrong", changes, "notebook"))
    words = "The sums are added as they are: 1.607 + 1.819 = 3.425, though measured against different maxima."
    assert of(wrong, "l_i = l_i + ")[0] == words


def test_what_a_top_k_keeps_is_told(said):
    steps = told(said, Experiment.of("softmax_topk", {"rows": 1, "cols": 6, "block_n": 2, "k": 2}, "notebook"))
    assert of(steps, "top_x =")[0] == "Nothing is kept yet: 2 places for the largest scores."
    assert of(steps, "top_x =")[-1] == "Kept so far, the largest first: 0.8, 0.7."
    assert of(steps, "y =")[-1] == "The kept scores become probabilities: 0.249, 0.225."


@triton.jit
def _scaled(x, factor):
    y = x * factor
    return y  # noqa: RET504


@triton.jit
def _foreign_kernel(x_ptr, out_ptr, count_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    i = 0
    while i < 2:
        x = _scaled(x, 2.0)
        i += 1
    ok = x > 0
    tl.atomic_add(count_ptr, tl.sum(ok.to(tl.int32)))
    tl.store(out_ptr + at, x, mask=at < n)


def test_a_kernel_of_theirs_is_told_variable_by_variable(said):
    x, out = torch.tensor([1.0, -2.0, 3.0, 4.0, float("nan"), 1.0]), torch.empty(6)
    count = torch.zeros(1, dtype=torch.int32)
    trace = record_call(lambda: _foreign_kernel[(3,)](x, out, count, 6, BLOCK=4))
    sentences = said(trace, {"title": "theirs", "badge": "trace"})
    check(sentences)
    for words in (
        "Program 1 of 3 begins.",
        "at holds 4 values from 0 to 3.",
        "Loads entries 0 to 3 of x from HBM: 4 values, 16 bytes.",
        "Loads nothing of x: the mask switches every lane off.",  # the third program lies past the end
        "i < 2 holds: another round of the loop.",
        "i < 2 does not hold: the loop ends.",
        "The helper _scaled begins.",
        "y holds 4 values from −8 to 16.",
        "ok is true for 3 of 4 places.",
        "Updates entry 0 of count in HBM: 1 value, 4 bytes.",
        "Writes entries 0 to 3 of out to HBM: 4 values, 16 bytes.",
    ):
        assert words in sentences, words
    assert any("1 of them NaN" in sentence for sentence in sentences)
