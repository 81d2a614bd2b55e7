"""A control's error speaks of the control, not of the parameter."""

from __future__ import annotations

import pytest

from explain import lessons
from explain.experiment import ParameterError
from explain.ui.controls import LABELS, in_words


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
