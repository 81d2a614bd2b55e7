"""The micro-benchmarks on a GPU: right, in the order of the memory hierarchy, and within what the datasheet's wires
carry.
"""

from __future__ import annotations

import pytest
import torch

from explain.gpus import GPUS, known_as
from kernels import bandwidth

pytestmark = [pytest.mark.gpu, pytest.mark.alone]


def test_shared_memory_returns_the_sum_of_what_was_put_there():
    buffers, rounds = bandwidth.BUFFERS.value, 20
    x = torch.randn(buffers * bandwidth.SHARED_TILE, device="cuda")
    sums = bandwidth.shared_read(x, 3, rounds)
    tiles = x.double().reshape(buffers, bandwidth.SHARED_TILE)
    expected = tiles[[i % buffers for i in range(rounds)]].sum(0)
    torch.testing.assert_close(sums.double(), expected.expand(3, -1), rtol=1e-4, atol=1e-3)


def test_roofs_fall_from_shared_memory_to_the_host():
    from explain.device.roofs import measure

    said: list[str] = []
    roofs = measure(lambda text, _: said.append(text))
    speeds = [roofs[level].per_second for level in ("shared", "l2", "hbm", "host")]
    assert speeds == sorted(speeds, reverse=True), roofs
    assert roofs["l1"].per_second > roofs["l2"].per_second
    name = known_as(torch.cuda.get_device_name())
    if name is not None:
        nominal = GPUS[name].hbm_bytes_per_second
        for level in ("hbm", "hbm write", "hbm copy"):
            assert 0.5 * nominal < roofs[level].per_second < 1.01 * nominal, roofs[level]
    assert roofs["matmul fp32"].per_second < roofs["matmul tf32"].per_second < roofs["matmul fp16"].per_second
    assert len(said) >= len(roofs)
