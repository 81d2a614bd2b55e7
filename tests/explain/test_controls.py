"""A control's error speaks of the control, not of the parameter; the chosen GPU goes along to other pages."""

from __future__ import annotations

import pytest
from streamlit.testing.v1 import AppTest

from explain import lessons
from explain.experiment import ParameterError
from explain.gpus import DEFAULT
from explain.ui.controls import LABELS, in_words
from explain.ui.gpu import CHOSEN
from tests.pages import page, texts


@pytest.mark.parametrize("change", [{"kv_len": 100}, {"seq_len": 65}, {"head_dim": 64}])
def test_an_error_names_the_control_and_the_value(change):
    with pytest.raises(ParameterError) as refused:
        lessons.OPENING.with_(**change)
    words = in_words(refused.value, LABELS)
    ((name, value),) = change.items()
    assert LABELS.get(name, name) in words
    assert str(value) in words
    assert "=" not in words  # name=value is for the command line
    assert "normal" in words or "32" in words  # what to do


@pytest.mark.parametrize(("block_m", "block_n", "refused"), [(4, 4, False), (16, 1, False), (4, 2, True), (1, 8, True)])
def test_more_tiles_than_a_reader_steps_through_are_refused_in_words(block_m, block_n, refused):
    said = texts(page("flash_attention", block_m=str(block_m), block_n=str(block_n)))
    told = f"**Key tile, BLOCK_N: {block_n}.** That makes 512 tiles to step through; this page takes 256 at most"
    assert (told in said) == refused


def test_the_gpu_that_a_reader_chose_is_kept_in_the_address_and_on_the_next_page():
    def chapter() -> None:
        import streamlit as st

        from explain.ui.gpu import gpu_choice

        st.markdown(gpu_choice().name)

    first = AppTest.from_function(chapter, default_timeout=300).run()
    assert (first.markdown[0].value, first.query_params) == (DEFAULT, {})
    first.segmented_control[0].set_value("T4").run()
    assert (first.markdown[0].value, first.query_params["gpu"]) == ("T4", "T4")
    following = AppTest.from_function(chapter, default_timeout=300)
    following.session_state[CHOSEN] = first.session_state[CHOSEN]
    following.run()
    assert (following.markdown[0].value, following.query_params["gpu"]) == ("T4", "T4")
