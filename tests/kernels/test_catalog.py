"""An entry may bring its own inputs and its own specification."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from explain.experiment import Experiment
from kernels.catalog import KERNELS
from kernels.inputs import PRESETS
from kernels.verify import Expectation, verify

ONES = {"x": np.ones((2, 3), np.float32)}


def halves(p, arrays, inputs) -> Expectation:
    """The specification of the entry below: 0.5 ± 0.01."""
    shape = arrays["x"].shape
    return {"y": (np.full(shape, 0.5), np.full(shape, 0.01))}


def test_an_entry_may_make_its_own_inputs():
    entry = replace(KERNELS["softmax_safe"], make=lambda preset, p, seed: ONES)
    assert entry.make_inputs(PRESETS["normal"], {}, 0) is ONES


def test_an_entry_may_say_what_is_right():
    p = Experiment.of("softmax_safe", {"rows": 2, "cols": 3}).values
    outputs = {"y": torch.full((2, 3), 1 / 3)}
    assert verify(KERNELS["softmax_safe"], p, ONES, outputs).within_tolerance
    entry = replace(KERNELS["softmax_safe"], expected=f"{__name__}:halves")
    verdict = verify(entry, p, ONES, outputs)
    assert not verdict.within_tolerance
    assert verdict.tolerance == 0.01
    assert verify(entry, p, ONES, {"y": torch.full((2, 3), 0.505)}).within_tolerance
