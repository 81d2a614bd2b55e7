"""The page of two runs: each side has its own kernel and parameters in the address; what cannot be used is said."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest
from streamlit.testing.v1 import AppTest

from explain import tours
from explain.chapters.side_by_side import pairs as side_by_side
from explain.chapters.side_by_side.pairs import PAIRS
from explain.experiment import Experiment
from explain.figures.numbers import count, ratio
from explain.trace.model import Trace
from explain.ui.controls import LABELS
from explain.ui.titles import titles
from kernels.catalog import TAUGHT
from tests.pages import page


@pytest.fixture
def shown(monkeypatch):
    """Opens the page with an address; the experiments that its player would show are in the list."""
    seen: list[list[Experiment]] = []

    def stepper(experiments: Sequence[Experiment], **_: object) -> list[Trace]:
        seen.append(list(experiments))
        return []

    monkeypatch.setattr("explain.ui.stepper.stepper", stepper)

    def shown(**query: str) -> tuple[AppTest, list[list[Experiment]]]:
        return page("side_by_side", **{name.replace("__", "."): value for name, value in query.items()}), seen

    return shown


def texts(test: AppTest) -> str:
    return re.sub(
        r"<[^>]+>", "", "\n".join(str(element.value) for element in test.markdown)
    )  # terms without definitions


def button(test: AppTest, name: str):
    return next(button for button in test.button if button.label == name)


def test_it_opens_on_the_first_pair(shown):
    _, seen = shown()
    assert seen[-1] == [PAIRS[0].left, PAIRS[0].right]


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
def test_a_pair_is_shown_when_pressed_and_its_address_leads_back(shown, pair):
    test, seen = shown()
    button(test, pair.name).click().run()
    assert seen[-1] == [pair.left, pair.right]
    assert pair.look in texts(test)
    query = {name.replace(".", "__"): str(value) for name, value in test.query_params.items()}
    _, again = shown(**query)
    assert again[-1] == [pair.left, pair.right]


def test_the_sides_do_not_touch_each_other(shown):
    test, seen = shown(a__kernel="flash_attention", b__kernel="flash_attention", a__block_n="4", b__causal="true")
    left, right = seen[-1]
    assert (left.values["block_n"], left.values["causal"]) == (4, False)
    assert (right.values["block_n"], right.values["causal"]) == (16, True)
    assert titles([left, right]) == [
        "FlashAttention-2 forward, causal False, key tile 4",
        "FlashAttention-2 forward, causal True, key tile 16",
    ]
    test.toggle[0].set_value(True).run()
    assert [one.values["causal"] for one in seen[-1]] == [True, True]


def test_another_kernel_of_the_family_keeps_the_sizes(shown):
    test, seen = shown(a__kernel="flash_attention", a__block_n="4")
    test.selectbox[0].set_value("flash_attention_v1").run()
    left = seen[-1][0]
    assert (left.kernel, left.values["block_n"]) == ("flash_attention_v1", 4)
    assert (
        test.query_params["a.kernel"] == ["flash_attention_v1"] or test.query_params["a.kernel"] == "flash_attention_v1"
    )


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ({"a__kernel": "nonsense"}, "**Left kernel: nonsense.**"),
        ({"a__kernel": "flash_attention", "a__block_n": "24"}, f"**{LABELS['block_n']}: 24.**"),
        ({"b__kernel": "softmax_online", "b__inputs": "sunshine"}, f"**{LABELS['inputs']}: sunshine.**"),
    ],
)
def test_what_cannot_be_used_is_said(shown, query, words):
    test, _ = shown(**query)
    assert words in texts(test)


@pytest.mark.parametrize("kernel", TAUGHT)
def test_every_kernel_opens_beside_another(kernel):
    experiment = side_by_side.opening(kernel)
    assert experiment.kernel == kernel
    assert set(side_by_side.controls_of(kernel)) <= {"inputs", *experiment.values}


def test_the_bytes_and_their_ratio_in_a_caption_are_those_of_the_two_runs():
    told = re.compile(r"moved ([\d,]+) bytes, ([\d.]+ ×) right's ([\d,]+)")
    found = {}
    for tour in tours.of("side_by_side"):
        moved = [one.traffic.read_bytes + one.traffic.written_bytes for one in tour.runs]
        for caption in tour.captions:
            if said := told.search(caption.text):
                found[tour.title] = said.groups() == (count(moved[0]), ratio(moved[0] / moved[1]), count(moved[1]))
    assert found == {"Standard attention and FlashAttention": True, "Loop order": True}
