"""Widths of words, and labels that do not overlap."""

from __future__ import annotations

import hashlib
import importlib.util
import itertools
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import ImageFont

from explain import ROOT
from explain.figures import labels
from explain.figures.lines import Line, chart

WORDS = "FlashAttention-2 for Hopper: 1,234 TFLOP/s · α = 0.731, Õ ← Õ·α + P̃V, 7.1 × 10⁻⁴ ≤ −∞"


@pytest.fixture(scope="module")
def font() -> Path:
    spec = importlib.util.spec_from_file_location("write_widths", ROOT / "scripts/write_widths.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found: Path = module.font_file()
    return found


def test_the_widths_are_of_the_font_that_ships(font):
    table = json.loads((ROOT / "explain/figures/widths.json").read_text())
    assert table["font"] == hashlib.sha256(font.read_bytes()).hexdigest(), "run scripts/write_widths.py"


@pytest.mark.parametrize(("bold", "weight"), [(False, 400), (True, 700)])
def test_words_are_as_wide_as_the_font_draws_them(font, bold, weight):
    drawn = ImageFont.truetype(str(font), 140)
    drawn.set_variation_by_axes([weight])
    for words in (WORDS, *WORDS.replace("P̃", "P").split()):
        assert 0.99 <= labels.text_width(words, 140, bold) / drawn.getlength(words) <= 1.06


def test_the_code_fonts_characters_are_all_as_wide():
    assert labels.text_width("il", 10, mono=True) == labels.text_width("MW", 10, mono=True) == 12


@given(st.text(alphabet="ab c,W", max_size=60), st.floats(20, 300))
def test_wrapped_lines_fit_and_lose_no_word(words, width):
    lines = labels.wrapped(words, width)
    assert " ".join(lines).split() == words.split()
    assert all(labels.text_width(line) <= width or " " not in line for line in lines)
    assert all(labels.text_width(f"{a} {b.split()[0]}") > width for a, b in itertools.pairwise(lines))


def test_shortened_words_fit():
    assert labels.shortened("short", 200) == "short"
    short = labels.shortened(WORDS, 100)
    assert short.endswith("…")
    assert 80 < labels.text_width(short) <= 100


@given(st.lists(st.tuples(st.floats(-50, 150), st.floats(1, 30)), max_size=12))
def test_labels_are_apart_within_their_bounds_and_in_order(given_labels):
    wanted, extents = [w for w, _ in given_labels], [e for _, e in given_labels]
    places = labels.spread(wanted, extents, 0, 100)
    scale = min(1, 100 / sum(extents)) if extents else 1
    order = sorted(range(len(wanted)), key=lambda i: wanted[i])
    for i in order:
        assert -1e-6 <= places[i] - scale * extents[i] / 2 <= places[i] + scale * extents[i] / 2 <= 100 + 1e-6
    for i, j in itertools.pairwise(order):
        assert places[j] - places[i] >= scale * (extents[i] + extents[j]) / 2 - 1e-6


def test_labels_that_do_not_crowd_stay_and_those_that_do_share_their_middle():
    assert labels.spread([10, 50, 90], 12) == [10, 50, 90]
    assert labels.spread([0, 0], 17) == [-8.5, 8.5]
    assert labels.spread([20, 0], 17, high=18.5) == [10, -7]


@pytest.mark.parametrize("log", [False, True])
def test_a_charts_labels_are_apart_and_have_room_beside_it(log):
    ends = [1.0, 1.01, 1.02, 500.0]
    drawn = [Line([(1, 1), (1024, end)], f"a rather long name, {end}", "#0072b2") for end in ends]
    figure = chart("", drawn, x="N", y="time", log=log)
    places = [one.y for one in figure.layout.annotations]
    assert len(places) == 4
    high = figure.layout.height - figure.layout.margin.t - figure.layout.margin.b
    assert all((b - a) * high >= figure.layout.annotations[0].font.size for a, b in itertools.pairwise(places))
    assert figure.layout.margin.r > labels.text_width("a rather long name, 500.0", 12)


def test_an_equation_stays_in_one_line():
    words = labels.unbroken("So exp(x − old m) · α = 1 × 0.5 + 2 = 2.5: then a · b of 8 – 9.")
    assert words.split(" ") == [
        "So",
        "exp(x\xa0−\xa0old\xa0m)\xa0·\xa0α\xa0=\xa01\xa0×\xa00.5\xa0+\xa02\xa0=\xa02.5:",
        *["then", "a", "·", "b", "of", "8", "–", "9."],
    ]
