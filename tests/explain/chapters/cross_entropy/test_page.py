"""The page Cross entropy: each view opens; its numbers are the run's, the formula's, or the committed file's."""

from __future__ import annotations

import dataclasses
import re
import runpy
from html import unescape

import numpy as np
import pytest

from explain import ROOT, lessons
from explain.chapters.cross_entropy import figures, measured
from explain.chapters.cross_entropy.layers import LAYERS, part_of_liger
from explain.chapters.cross_entropy.losses import losses, row_of
from explain.chapters.cross_entropy.states import Loss, loss_of, states
from explain.chapters.cross_entropy.view import DESIGNS, KERNEL_OF, LONG
from explain.experiment import Experiment
from explain.figures.labels import text_width
from explain.figures.numbers import fixed, moved, percent
from explain.figures.palette import css, kernel
from explain.records import registry
from explain.ui.stepper import lesson
from kernels import reference
from kernels.catalog import KERNELS
from kernels.inputs import IGNORE_INDEX
from tests.pages import page, texts


@pytest.mark.parametrize("way", KERNEL_OF)
def test_each_view_opens_on_its_kernel(way):
    written = texts(page("cross_entropy", way=way))
    assert "✓\u00a0formula\u00a0=\u00a0trace" in written
    assert "If no token counts" in written
    assert "X, 2.10&nbsp;GB" in written  # in 16 bits
    assert "L, 32.8&nbsp;kB" in written
    assert ("after each tile of the vocabulary" in written) == (way != "Backward")


def test_an_address_chooses_the_sizes():
    opened = page("cross_entropy", inputs="normal", tokens="20", vocab="50", block_n="16", ignored="20")
    assert "The run in the player: 20 tokens, V = 50" in [one.label for one in opened.expander]
    written = texts(opened)
    assert "after each tile of the vocabulary" in written
    assert "= 0.000" in written  # no token counts


def logits(experiment: Experiment) -> np.ndarray:
    arrays = experiment.make_inputs()
    return arrays["h"].astype(np.float64) @ arrays["w"].astype(np.float64).T


@pytest.mark.parametrize("kernel", ["cross_entropy_fused", "cross_entropy_standard"])
@pytest.mark.parametrize("token", [0, 8, 14])
def test_a_tokens_states_are_those_of_the_columns_so_far(kernel, token):
    experiment = lessons.LOSS.through(kernel)
    x, target = logits(experiment)[token], int(experiment.make_inputs()["targets"][token])
    found = states(experiment, lesson(experiment.key)[1], token)
    assert [(one.first, one.last) for one in found] == [(0, 3), (4, 7), (8, 11), (12, 14)]
    for one in found:
        so_far = x[: one.last + 1]
        assert one.m == pytest.approx(so_far.max(), rel=1e-5)
        assert one.total == pytest.approx(np.exp(so_far - so_far.max()).sum(), rel=1e-5)
        assert one.target == pytest.approx(x[target] if target <= one.last else -np.inf, rel=1e-5)


def test_a_tokens_loss_is_float64s():
    experiment = lessons.LOSS.with_(inputs="normal", tokens=20, vocab=50, block_n=16, ignored=3)
    losses, lse = reference.cross_entropy(logits(experiment), experiment.make_inputs()["targets"])
    trace = lesson(experiment.key)[1]
    for token in range(16):  # the tokens of the recorded program
        found = loss_of(experiment, trace, token)
        assert found is not None
        assert (found.loss, found.lse) == pytest.approx((losses[token], lse[token]), rel=1e-4, abs=1e-5)
    assert (losses == 0).sum() == (experiment.make_inputs()["targets"] == IGNORE_INDEX).sum() == 3


def test_the_logits_are_larger_than_w_from_d_tokens_on():
    for layer in LAYERS:
        assert layer.logit_bytes(layer.dim) == layer.weight_bytes
        assert layer.logit_bytes(layer.dim + 1) > layer.weight_bytes


def test_the_least_bytes_differ_by_the_logits_written_and_read():
    standard, fused = (Experiment.of(kernel, LONG, "normal")
                       for kernel in ("cross_entropy_standard", "cross_entropy_fused"))  # fmt: skip
    logits_once = 2 * LONG["tokens"] * LONG["vocab"]
    least = [one.read_bytes + one.written_bytes for one in map(figures.least, (standard, fused))]
    assert least[0] - least[1] == 2 * logits_once
    inputs = 2 * LONG["dim"] * (LONG["tokens"] + LONG["vocab"]) + 8 * LONG["tokens"]
    assert least[1] == inputs + 2 * 4 * LONG["tokens"]


def result(**changed):
    def row(name, seconds, peak):
        return {"name": name, "right": True, "why": "", "seconds": seconds, "peak_bytes": peak}

    missing = {"name": "Liger", "right": False, "why": "not installed"}
    variants = [row("ours", 0.05, 3.0e9), row("PyTorch eager", 0.06, 9e9), row("torch.compile", 0.055, 8e9), missing]
    where = {"gpu": "H200", "date": "2026-11-24T10:00", "torch": "2.11.0", "triton": "3.6.0", "driver": "580"}
    return {
        "provenance": where,
        "code": {"kernels.cross_entropy_fast:linear_cross_entropy": "0"},
        "method": "median of 10",
        "cases": [{"case": {"tokens": 8192, "vocab": 50_257, "dim": 2048}, "variants": variants}],
        **changed,
    }


def test_a_measured_layer_is_compared_with_the_best_of_the_others():
    found = measured.parsed(result())
    (case,) = found.cases
    assert case.time == pytest.approx(0.05 / 0.055)
    assert case.memory == pytest.approx(3.0 / 8)
    assert "older code" in found.stale
    table = figures.measured_table(found)
    assert "50.0 ms, 3.00 GB" in table
    assert "not installed" in table
    assert "0.91 ×" in table


@pytest.mark.parametrize("narrow", [False, True])
def test_the_bars_are_to_scale_and_ours_has_its_kernels_hue(narrow):
    drawn = figures.measured_bars(measured.parsed(result()).cases, 800e12, narrow=narrow)
    bars = re.findall(r'<rect [^>]*? width="([\d.]+)"[^>]*? fill="([^"]+)"', drawn)
    (least_time, _), (least_memory, _) = (bars.pop(-2), bars.pop(-1))
    assert float(least_memory) / float(bars[1][0]) == pytest.approx(4 * (8192 + 50_257) * 2048 / 3e9, rel=1e-2)
    assert float(least_time) / float(bars[0][0]) == pytest.approx(6 * 8192 * 50_257 * 2048 / 800e12 / 0.05, rel=1e-2)
    (time, own), (memory, also_own), *others = [(float(width), fill) for width, fill in bars]
    times, sizes = others[::2], others[1::2]
    assert [time / width for width, _ in times] == pytest.approx([50 / 60, 50 / 55], rel=1e-3)
    assert [memory / width for width, _ in sizes] == pytest.approx([3 / 9, 3 / 8], rel=1e-3)
    assert own == also_own == css(kernel(KERNELS["fast:cross_entropy_parts"].hue))
    assert own not in [fill for _, fill in others]
    assert "not installed" in drawn


def drawn_within(drawn: str) -> None:
    (width,) = re.findall(r'viewBox="0 0 ([\d.]+)', drawn)
    for x, look, words in re.findall(r'<text x="([\d.]+)"([^>]*)>([^<]*)<', unescape(drawn)):
        share = 0.5 if "middle" in look else 1.0
        assert float(x) + share * text_width(words, bold="weight" in look) <= float(width) + 1, words


def heights(drawn: str, title: str) -> list[float]:
    return [float(high) for high in re.findall(rf'<rect [^>]*? height="([\d.]+)"[^>]*><title>{title}</title>', drawn)]


@pytest.mark.parametrize("narrow", [False, True])
def test_no_word_leaves_the_pictures_of_two_ways_and_our_chunk_is_to_scale(narrow):
    drawn = figures.ways_on(8192, 1024, 256, narrow=narrow)
    drawn_within(drawn)
    (chunk,) = heights(drawn, "X: a chunk in HBM: Liger 256 tokens, ours 1,024")
    assert chunk == pytest.approx(heights(drawn, "X")[1] / 8, abs=0.01)


@pytest.mark.parametrize("narrow", [False, True])
@pytest.mark.parametrize("changes", [{}, {"inputs": "normal", "tokens": 20, "vocab": 200, "ignored": 19}])
def test_a_row_of_p_sums_to_1_and_its_gradient_to_0(changes, narrow):
    experiment = lessons.LOSS.with_(**changes)
    row = row_of(experiment, 8)
    assert row is not None
    gradient = reference.cross_entropy_gradient(logits(experiment), experiment.make_inputs()["targets"])[row.token]
    counting = (experiment.make_inputs()["targets"] != IGNORE_INDEX).sum()
    expected = np.array(row.weights) - (np.arange(len(row.weights)) == row.target)
    assert expected == pytest.approx(gradient * counting, abs=1e-9)
    drawn = figures.gradient_row(row, narrow=narrow)
    drawn_within(drawn)
    assert f">{fixed(row.weights[row.target] - 1, 3)}<" in drawn


def test_no_row_is_drawn_where_no_token_counts():
    assert row_of(lessons.LOSS.with_(inputs="normal", tokens=20, vocab=50, ignored=20), 8) is None


@pytest.mark.parametrize("narrow", [False, True])
@pytest.mark.parametrize(
    "changes", [{}, {"ignored": 4}, {"inputs": "normal", "tokens": 20, "vocab": 50, "ignored": 7}, {"ignored": 15}]
)
def test_the_picture_has_the_runs_own_tokens_that_count_and_their_mean(changes, narrow):
    run = lessons.LOSS.with_(**changes)
    targets = run.make_inputs()["targets"]
    counts = targets != IGNORE_INDEX
    expected, _ = reference.cross_entropy(logits(run), targets)
    found = losses(run)
    assert [one.counts for one in found.first] == list(counts[:16])
    assert [one.loss for one in found.first] == pytest.approx(list(expected[:16]))
    assert {one.target == "−100" for one in found.first if not one.counts} <= {True}
    assert (found.tokens, found.counting) == (len(targets), len(targets) - run.values["ignored"])
    drawn = figures.which_count(found, narrow=narrow)
    drawn_within(drawn)
    mean = f"= {fixed(expected[counts].mean(), 3)}" if counts.any() else "0 ÷ 0 = NaN"
    assert mean in unescape(drawn)


def test_the_counted_bytes_are_the_records_of_both_kernels_at_one_size():
    found, where = measured.counted(["cross_entropy_standard", "cross_entropy_fused"])
    assert "NVIDIA" in where
    standard, fused = found
    assert standard.experiment.through("cross_entropy_fused") == fused.experiment
    point = registry.recorded().point(fused.experiment)
    assert fused.hbm_bytes == point.counters.cold.hbm_bytes
    assert standard.hbm_bytes > fused.hbm_bytes


def test_ours_is_concluded_beside_the_fastest_and_the_least():
    (case,) = measured.parsed(result()).cases
    said = figures.concluded(case)  # 50 ÷ 55 ms, 3 ÷ 8 GB
    assert said == (
        "**Ours takes 17% less time than PyTorch eager and 33% of its memory (3.00 GB against 9.00 GB).** "
        "Of the others, torch.compile is fastest (55.0 ms) and needs least (8.00 GB). Ours takes 50.0 ms and "
        "3.00 GB: 9% less time and 63% less memory."
    )
    assert "not measured" in figures.concluded(dataclasses.replace(case, variants=case.variants[1:]))


def test_ours_lies_between_two_others_only_if_it_does():
    (case,) = measured.parsed(result()).cases
    own, eager, compiled, _ = case.variants
    least = dataclasses.replace(eager, peak_bytes=2_000_000_000)
    said = figures.concluded(dataclasses.replace(case, variants=[own, least, compiled]))
    assert "PyTorch eager needs least (2.00 GB) and takes 60.0 ms" in said
    assert "Ours takes 50.0 ms" in said
    slower = dataclasses.replace(own, seconds=0.056)
    said = figures.concluded(dataclasses.replace(case, variants=[slower, least, compiled]))
    assert "Ours lies between: 2% more time than torch.compile, 50% more memory than PyTorch eager." in said


def test_an_odd_vocabulary_is_told_beside_the_even_ones_from_the_file():
    (odd,) = measured.parsed(result()).cases
    even = dataclasses.replace(odd, vocab=50_304)
    said = figures.odd_and_even([odd], [even], "V = 50,257")
    assert said == "**At V = 50,257 ours is also 1.20 × as fast as PyTorch eager.** "  # at the even V too
    slow = dataclasses.replace(even, variants=[dataclasses.replace(even.variants[0], seconds=0.066), even.variants[1]])
    assert "the gain is room: ours takes 1.10 × the time of PyTorch eager." in figures.odd_and_even([odd], [slow], "V")
    assert "also" not in figures.odd_and_even([slow], [], "V")

    def of(seconds: float, size: float) -> measured.Case:
        own, _, compiled, _ = odd.variants
        return dataclasses.replace(
            odd, variants=[own, dataclasses.replace(compiled, seconds=seconds, peak_bytes=int(size))]
        )

    compiled = "**torch.compile takes {}. Ours needs {} of torch.compile's memory.**"
    assert figures.beside_compiled([odd]) == compiled.format("10% more time than ours", "38%")
    assert figures.beside_compiled([odd, of(0.045, 12e9)]) == compiled.format(
        "0.90 to 1.10 × the time of ours", "25 to 38%"
    )
    assert figures.beside_compiled([of(0.045, 12e9), of(0.048, 6e9)]) == compiled.format(
        "4 to 10% less time than ours", "25 to 50%"
    )
    assert not figures.beside_compiled([slow])


def test_the_strip_links_to_sections_of_the_page():
    headings = [one.value for one in page("cross_entropy").header]
    assert {heading for *_, heading in DESIGNS} < set(headings)


def test_no_variant_is_below_the_least_time_or_the_least_memory():
    found = measured.measured()
    peak = found.roof("matmul bf16")
    assert peak
    for case in found.cases:
        for one in case.variants:
            assert (one.seconds or 0) > case.matmul_flops / peak
            assert (one.peak_bytes or 0) > case.least_bytes


def test_the_saved_bytes_are_said_as_a_time_beside_the_steps():
    written = texts(page("cross_entropy"))
    assert "**At this V you gain room, not time.**" in written
    assert "The 4.20 GB of X take about 1 ms at copy speed. PyTorch eager's whole step" in written
    assert "Ours computes 50,240 columns together and the last 17 apart." in written


def test_ligers_chunk_is_its_published_rules():
    assert [part_of_liger(8192, *sizes) for sizes in ((128_256, 4096), (262_144, 2048), (1000, 4096))] == [
        256,
        64,
        8192,
    ]
    case = measured.Case(8192, 128_256, 4096, ())
    w = 2 * 128_256 * 4096
    assert case.passes_bytes(256) == 32 * 4 * w
    assert figures.chunks_in_words(case) == (
        "Liger: 256 tokens in a chunk, 32 chunks × 4 × 1.05 GB = 134 GB. "
        "Ours: 960 tokens in a chunk, 9 chunks × 4 × 1.05 GB = 37.8 GB."
    )


@pytest.mark.parametrize("tokens", [1024, 8192, 65_536])
def test_the_logits_are_compared_with_a_card(tokens):
    both = 2 * 2 * tokens * 128_256
    written = texts(page("cross_entropy", step_tokens=f"{tokens:,}"))
    assert f"X and dX of {tokens:,} tokens take {moved(both)}, {percent(both / 80e9)} of a card" in written


def test_a_loss_is_shown_in_decimals_that_add_up():
    assert figures.loss_in_numbers(Loss(4.51272, 3.19848, 1.31424, 0)).endswith("= 4.5127 − 3.1985 = 1.3142")
    assert figures.loss_in_numbers(Loss(2.0, -1.0, 3.0, 0)).endswith("= 2.000 − (−1.000) = 3.000")


def test_the_readme_has_a_paragraph_for_the_file():
    written = runpy.run_path(str(ROOT / "scripts" / "write_figures.py"))["said"]
    said = written("benchmarks/results/cross_entropy.json", result())
    assert "loss and both gradients of 8,192 tokens" in said
    assert "| 50,257 | 2,048 | 50.0 ms, 3.00 GB |" in said
    assert "Median of 10." in said


def test_the_page_shows_measured_times_only_from_the_file(monkeypatch):
    monkeypatch.setattr(measured, "measured", lambda: None)
    assert "How fast, in how much memory?" not in "".join(one.value for one in page("cross_entropy").header)
    monkeypatch.setattr(measured, "measured", lambda: measured.parsed(result()))
    test = page("cross_entropy")
    assert "How fast, in how much memory?" in "".join(one.value for one in test.header)
    assert "50.0 ms" in texts(test)


def test_another_input_keeps_the_page_and_the_step_of_the_training():
    opened = page("cross_entropy", step_tokens="1,024")
    opened.selectbox[0].select_index(2).run()
    assert not opened.exception
    assert opened.select_slider[0].value == 1024


@pytest.mark.parametrize("sizes", [{}, {"inputs": "normal", "tokens": "20", "vocab": "50", "block_n": "16"}])
def test_a_button_sets_the_tokens_that_do_not_count(sizes):
    opened = page("cross_entropy", **sizes)
    assert "do not count, drawn at random" not in texts(opened)
    next(one for one in opened.button if one.label == "Set it to 4").click().run()
    assert not opened.exception
    assert opened.query_params["ignored"] in ("4", ["4"])
    assert "4 of " in texts(opened)
    assert "do not count, drawn at random" in texts(opened)
    assert "Set it to 4" not in [one.label for one in opened.button]
