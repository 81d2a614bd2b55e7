"""The fixed interpreter against a GPU, bit by bit."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import torch

from explain import ROOT
from tests.explain.trace import gpu_rules


@pytest.fixture
def interpreted(tmp_path):
    """The rows as the interpreter gives them: it needs a process of its own beside the compiler."""
    path, root = tmp_path / "rows.pt", ROOT
    command = [sys.executable, "-m", gpu_rules.__name__, str(path)]
    subprocess.run(command, env={**os.environ, "TRITON_INTERPRET": "1"}, cwd=root, check=True)
    return torch.load(path)


@pytest.mark.gpu
def test_bf16_and_nan_are_as_on_a_gpu(interpreted):
    compiled = gpu_rules.rows("cuda")
    equal = (interpreted == compiled) & (torch.signbit(interpreted) == torch.signbit(compiled))
    equal |= interpreted.isnan() & compiled.isnan()
    wrong = [
        (row, lane, interpreted[row, lane].item(), compiled[row, lane].item())
        for row, lane in (~equal).nonzero().tolist()
    ]
    assert not wrong


def test_the_interpreter_gives_every_row(interpreted):
    assert interpreted.shape == (gpu_rules.BF16_ROWS + gpu_rules.FP32_ROWS, gpu_rules.LANES)
    assert (interpreted != 0).any(dim=1).all()
