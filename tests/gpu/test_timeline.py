"""A timeline of a real GPU: Proton's trace of the marked kernel is read, and its result is the plain kernel's."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from explain import ROOT
from explain.chapters.speed import timeline

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.alone,
    pytest.mark.skipif(
        not torch.cuda.is_available() or torch.cuda.get_device_capability() != (9, 0), reason="the kernels are Hopper's"
    ),
]


def test_two_groups_and_a_warp_that_fetches_are_recorded_visit_by_visit(tmp_path):
    command = [sys.executable, "-m", "explain", "record", "timelines", "attention_hopper", "--out", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=500)
    assert done.returncode == 0, done.stdout + done.stderr
    one = timeline.load(timeline.path_of("attention_hopper-d128", tmp_path))
    for program in one.programs:
        assert [name for name, _ in program.named] == ["producer", "consumer 1", "consumer 2"]
        assert program.visits() == one.shape[2] // 128
        assert 0.3 < program.matmuls <= 1
        assert program.hidden is not None
        assert 0.3 < program.hidden <= 1
    assert one.plain_us is not None
    assert 0.5 < one.marked_us / one.plain_us < 2
