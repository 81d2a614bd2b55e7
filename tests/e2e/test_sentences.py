"""Every step of every kernel has one plain sentence, made from its numbers. They are read off the player's own modules,
in a browser.
"""

from __future__ import annotations

import base64
import json
import math
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
from tests.e2e.waiting import until

SMALL = {"rows": 4, "cols": 7, "n": 7, "block_m": 4, "block_n": 4, "seq_len": 7, "kv_len": 7, "head_dim": 16}
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
    until(page, "Boolean(globalThis.tilescope)")

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
    return beside(trace, said(trace, view(experiment, trace, "interpreter"), row))


def beside(trace, sentences):
    """Each sentence beside the text of its source line."""
    sources = [trace.source(step) for step in range(trace.steps)]
    lines = [s.text.splitlines()[trace.line(step) - s.first_line].strip() for step, s in enumerate(sources)]
    return list(zip(lines, sentences, strict=True))


FIGURE = re.compile(r"NaN|−?(?:∞|\d[\d,]*(?:\.\d+)?(?: × 10[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+)?)")
PLAIN = str.maketrans({"−": "-", "∞": "inf", ",": None, **dict(zip("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789", strict=True))})


def figures(sentence):
    """The numbers of a sentence, in order."""
    return [float(text.translate(PLAIN).replace(" × 10", "e")) for text in FIGURE.findall(sentence)]


def close(*numbers):
    """Equal to these numbers as they are printed."""
    return pytest.approx(list(numbers), rel=1e-3, nan_ok=True)


def near(number):
    return pytest.approx(number, rel=1e-3)


def of(steps, beginning):
    """The numbers in the sentences of the lines that begin like this, in the order in which they run."""
    found = [figures(sentence) for line, sentence in steps if line.startswith(beginning)]
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
        trace, _ = run_traced(experiment, "all", lambda *_: None)
        for row in (0, 3):
            sentences = said(trace, view(experiment, trace, "interpreter"), row)
            check(sentences)
            if not KERNELS[kernel].wrong and inputs == "normal":
                assert not [one for one in sentences if re.search(r"(?<!no )NaN", one)]


def test_the_sentences_of_an_online_softmax(said):
    steps = told(said, Experiment.of("softmax_online", {"rows": 1, "block_n": 2}, "notebook"))
    assert figures(steps[0][1]) == [0]  # program 0, the only one
    assert of(steps, "m_i = -float")[0] == [-math.inf]
    assert of(steps, "l_i = 0.0")[0] == [0]
    assert of(steps, "for start")[:3] == [[0, 1], [2, 3], [4, 5]]  # the columns that come next
    assert of(steps, "cols =")[:3] == [[0, 1], [2, 3], [4, 5]]
    assert of(steps, "x = tl.load")[1] == close(2, 3, 2, 8, 0.7)  # columns, values, bytes, the largest
    assert of(steps, "m_new =")[1] == close(0.2, 0.7)
    alphas = of(steps, "alpha =")
    assert alphas[0] == [0]
    assert alphas[1:] == [close(0.2, 0.7, math.exp(-0.5)), close(0.7, 0.8, math.exp(-0.1))]
    assert of(steps, "p =")[2] == close(1, 1 + math.exp(-0.7))  # the largest and the sum
    old, alpha, added, new = of(steps, "l_i = l_i * alpha")[1]
    assert [alpha, added] == close(math.exp(-0.5), 1 + math.exp(-0.2))
    assert old * alpha + added == near(new)
    assert of(steps, "m_i = m_new")[0] == close(0.2)
    total = sum(math.exp(x - 0.8) for x in (-0.3, 0.2, 0.5, 0.7, 0.1, 0.8))
    assert of(steps, "y =")[0] == close(total, (math.exp(-1.1) + math.exp(-0.6)) / total)
    assert of(steps, "tl.store")[0] == [0, 1, 2, 8]


def test_the_sentences_of_a_loss(said):
    experiment = Experiment.of("cross_entropy_fused", {"block_n": 4}, "sentence_short")
    arrays, token = experiment.make_inputs(), 8
    x = arrays["h"][token].astype(float) @ arrays["w"].T.astype(float)
    lse, target = math.log(sum(map(math.exp, x))), x[arrays["targets"][token]]
    steps = told(said, experiment, row=token)
    assert dict(steps)["x = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)"] == "Logits start at 0: 16 × 4 on chip."
    picked = [sentence for line, sentence in steps if line.startswith("x_target = tl.maximum")]
    assert [sentence.partition(": ")[2] for sentence in (picked[0], picked[1], picked[3])] == [
        "the target is not in this tile.", "the target is not in this tile.", "the target's logit is found already.",
    ]  # fmt: skip
    assert figures(picked[2]) == close(token, target)
    assert of(steps, "loss =")[0] == close(token, lse, target, lse - target)
    both = told(said, experiment.through("cross_entropy_backward"), row=token)
    p = [math.exp(one - lse) for one in x[:4]]
    dh = [sentence for line, sentence in both if line.startswith("p = tl.exp(x - lse")]
    assert figures(dh[0]) == close(token, max(p), sum(p))
    assert of(both, "dx = (p - ")[0][2:] == close(min(p) / 15, max(p) / 15)


def test_the_sentences_of_flash_attention(said):
    experiment = Experiment.of("flash_attention", {"block_m": 16, "block_n": 16, "causal": True}, "sentence")
    steps = told(said, experiment, row=3)
    assert figures(steps[0][1]) == [0, 4, 0, 3, 0, 0, 15]  # program 0 of 4, 0 to 3, owns query tile 0, tokens 0 to 15
    tile = [16, 32, 2048]
    assert of(steps, "q = tl.load")[0] == [0, 15, *tile]
    assert of(steps, "k = tl.load")[2] == [16, 31, *tile]
    assert of(steps, "s = tl.where")[:2] == [[120, 256, -math.inf], []]  # on the diagonal; left of it none is masked
    row, before, now, alpha = of(steps, "alpha =")[2]
    assert (row, alpha) == (19, near(math.exp(before - now)))
    assert now > before
    assert of(steps, "acc = acc * alpha")[2] == [19, alpha]
    row, old, factor, added, new = of(steps, "l_i = l_i * alpha")[2]
    assert (row, factor, old * factor + added) == (19, alpha, near(new))
    assert of(steps, "o = acc")[1] == [19, new]  # its last tile: divided by this sum
    assert of(steps, "tl.store(o_ptr")[0] == [0, 15, *tile]
    assert all(" true" in sentence for line, sentence in steps if line.startswith("if CAUSAL"))


def test_the_outer_loop_of_the_first_flash_attention_chooses_keys_and_the_inner_one_queries(said):
    experiment = Experiment.of("flash_attention_v1", {"block_m": 32, "block_n": 16}, "sentence")
    steps = told(said, experiment)
    loops = [(line, figures(sentence)) for line, sentence in steps if line.startswith("for ")]
    (outer, first), (inner, second), *_ = loops
    assert outer != inner
    assert (first, second) == ([0, 15], [0, 31])
    assert [numbers for line, numbers in loops if line == outer] == [[0, 15], [16, 31], [32, 47], [48, 63]]


def test_a_maximum_that_stays_rescales_nothing(said):
    steps = told(said, small("flash_attention", "descending"))
    assert of(steps, "m_new =")[1] == of(steps, "m_new =")[0]
    assert of(steps, "alpha =")[1] == [0, 1]
    row, old, added, new = of(steps, "l_i = l_i * alpha")[1]
    assert (row, old + added) == (0, near(new))
    assert of(steps, "acc = acc * alpha")[1] == [0, 1]


def test_a_row_of_nothing_but_minus_infinity_is_told(said):
    steps = told(said, small("softmax_tiled", "everything_masked"), row=2)
    assert set(of(steps, "m_new =")[0]) == {2, -math.inf}
    assert of(steps, "alpha =")[1] == [2, 0]
    assert of(steps, "p =")[0] == [2, 0, -math.inf]
    assert of(steps, "l_i = tl.where")[0][:3] == [2, 0, 1]


def test_a_tile_the_mask_hides_whole_is_told(said):
    # Standard attention computes every tile, those above the diagonal too.
    steps = told(said, small("attention_standard", causal=True, seq_len=8, kv_len=8))
    assert [-math.inf] in of(steps, "s = tl.where")


def test_overflow_and_nan_are_told(said):
    steps = told(said, Experiment.of("softmax_naive", {"rows": 1, "cols": 6, "block_n": 4}, "large_magnitude"))
    assert of(steps, "p =")[0] == [math.inf]
    assert of(steps, "l_i = l_i + ")[0] == [math.inf]
    assert of(steps, "y =")[0][:3] == close(math.inf, math.inf, math.nan)  # then what it was made of


def test_a_nan_that_is_taken_for_a_number_is_told(said):
    _, broken = compared(EXHIBITS["nan_swallowed"])
    assert close(math.nan, 1, math.nan) in of(told(said, broken), "l_i = tl.maximum(l_i, 1.0)")


def test_a_tile_normalised_by_itself_is_told_apart(said):
    steps = told(said, Experiment.of("softmax_blocked_wrong", {"rows": 1, "block_n": 2}, "notebook"))
    assert of(steps, "m_i = tl.max")[1] == close(0.7, 0.2)  # this tile's, and the one that is lost
    assert of(steps, "l_i = tl.sum")[1] == close(1 + math.exp(-0.2), 1 + math.exp(-0.5))


def test_pairs_that_are_joined_are_told_and_so_is_the_missing_factor(said):
    changes = {"rows": 1, "cols": 6, "block_n": 2, "order": "tree"}
    right = told(said, Experiment.of("softmax_split", changes, "notebook"))
    first, second, alpha = 1 + math.exp(-0.5), 1 + math.exp(-0.2), math.exp(-0.5)
    assert of(right, "m_new =")[0] == close(0.2, 0.7, 0.7)
    assert of(right, "alpha =")[0] == close(0.2, 0.7, alpha)
    assert of(right, "beta =")[0] == [1]
    assert of(right, "l_i = l_i * alpha")[0] == close(first, alpha, second, 1, first * alpha + second)
    wrong = told(said, Experiment.of("softmax_split_wrong", changes, "notebook"))
    assert of(wrong, "l_i = l_i + ")[0] == close(first, second, first + second)


def test_what_a_top_k_keeps_is_told(said):
    steps = told(said, Experiment.of("softmax_topk", {"rows": 1, "cols": 6, "block_n": 2, "k": 2}, "notebook"))
    assert of(steps, "top_x =")[0] == [2]  # places
    assert of(steps, "top_x =")[-1] == close(2, 0.8, 0.7)
    total = sum(math.exp(x) for x in (-0.3, 0.2, 0.5, 0.7, 0.1, 0.8))
    assert of(steps, "y =")[-1] == close(math.exp(0.8) / total, math.exp(0.7) / total)


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
    steps = beside(trace, sentences)
    programs = [sentences[program.first_step] for program in trace.launches[0].recorded]
    assert [figures(one) for one in programs] == [[n, 3, 0, 2] for n in range(3)]  # one of 3, 0 to 2
    assert of(steps, "at =")[0] == [4, 0, 3]
    loads = of(steps, "x = tl.load")
    assert loads[0] == [0, 3, 4, 16]
    assert loads[2] == []  # the third program lies past the end
    conditions = [sentence for line, sentence in steps if line.startswith("while")]
    assert [" true" in one for one in conditions] == [True, True, False] * 3
    assert of(steps, "y =")[1] == [4, -8, 16]
    assert of(steps, "ok =")[0] == [3, 4]
    assert of(steps, "tl.atomic_add")[0] == [0, 1, 4]
    assert of(steps, "tl.store")[0] == [0, 3, 4, 16]
    assert any(math.isnan(x) for numbers in of(steps, "x = ") for x in numbers)
    assert any("_scaled" in sentence for sentence in sentences)
