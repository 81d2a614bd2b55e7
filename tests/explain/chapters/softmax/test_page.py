"""The page Softmax: six logits that break as written and not when safe, and what the traces say of the kernels."""

from __future__ import annotations

import re

import pytest
from streamlit.testing.v1 import AppTest

from tests.pages import page, texts


def bars(test: AppTest) -> list[str]:
    return [element.proto.body for element in test.get("html") if 'class="bars"' in element.proto.body]


def test_it_opens_on_the_row_that_overflows():
    said = texts(page("softmax"))
    assert ":red[**NaN**]" in said
    assert ":green[**1.0000**]" in said
    assert "| `softmax_naive` | 2 | 1 | **3** |" in said
    assert "| `softmax_safe` | 3 | 1 | **4** |" in said
    assert len(re.findall(r"`softmax_naive` \| (?:fp32|fp16|bf16) \| :red\[∞\] \| [^|]+ \| 1 of 6", said)) == 3


def test_adding_the_same_to_all_breaks_only_the_softmax_as_written():
    test = page("softmax")
    written, safe = bars(test)
    assert "NaN" not in written
    test.button[0].click().run()
    broken, same = bars(test)
    assert "NaN" in broken
    weights = re.compile(r"exp\(x − m\) / ℓ: [^\"]*")
    assert weights.findall(same) == weights.findall(safe)
    test.segmented_control(key="add").set_value(0).run()
    assert bars(test) == [written, safe]


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ({"add": "−200"}, "NaN"),
        ({"add": "-200"}, "NaN"),
        ({"add": "2,000"}, "ℓ = ∞"),
        ({"format": "fp16", "add": "10"}, "ℓ = ∞"),
        ({"x0": "−10"}, 'aria-label="x: −10,'),
    ],
)
def test_an_address_holds_the_six_logits(query, words):
    assert words in bars(page("softmax", **query))[0]


def test_a_slider_moves_its_bar():
    test = page("softmax")
    before = bars(test)[1]
    test.select_slider(key="x0").set_value(6.0).run()
    assert bars(test)[1] != before
    assert "m = 6" in bars(test)[1]
