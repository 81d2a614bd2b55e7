"""The micro-benchmarks move and compute what they say, by the interpreter's count and by their results."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from explain.trace.recorder import record_call
from kernels import bandwidth

TILE = bandwidth.TILE


def region(tiles: int) -> torch.Tensor:
    return torch.randn(tiles * TILE, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize(("tiles", "programs"), [(6, 2), (3, 5), (2, 4)])
def test_read_loads_the_bytes_it_says_and_goes_round_the_whole_region(tiles, programs):
    x, loads, sums = region(tiles), 2 * tiles, []
    trace = record_call(lambda: sums.append(bandwidth.read(x, programs, loads)), programs=[])
    assert trace.traffic()["read_bytes"] == bandwidth.read_count(programs, loads)
    of_tile = x.double().reshape(tiles, TILE).sum(1)
    step = programs % tiles or 1
    expected = [of_tile[[(p + i * step) % tiles for i in range(loads)]].sum() for p in range(programs)]
    np.testing.assert_allclose(sums[0], torch.stack(expected), rtol=1e-3, atol=1e-2)
    together = {(p + i * step) % tiles for p in range(programs) for i in range(loads)}
    assert together == set(range(tiles))


def test_write_and_copy_touch_every_element_once():
    y = torch.full((4 * TILE,), torch.nan)
    trace = record_call(lambda: bandwidth.write(y), programs=[])
    assert trace.traffic()["written_bytes"] == 4 * y.numel()
    assert bool(y.isfinite().all())
    assert y.unique().numel() == TILE
    x, copied = region(4), torch.empty_like(y)
    trace = record_call(lambda: bandwidth.copy(x, copied), programs=[])
    assert trace.traffic() | {"flops": 0} == {"read_bytes": 4 * y.numel(), "written_bytes": 4 * y.numel(), "flops": 0}
    assert torch.equal(x, copied)


def test_exponentials_are_taken_one_after_the_other():
    x = region(1)
    trace = record_call(lambda: bandwidth.exponentials(x, 3), programs=[])
    assert trace.traffic()["read_bytes"] == 4 * TILE
    assert trace.traffic()["flops"] == 3 * TILE
    expected = x.double()
    for _ in range(3):
        expected = torch.exp2(-expected)
    torch.testing.assert_close(bandwidth.exponentials(x, 3).double(), expected, rtol=1e-5, atol=1e-6)


def test_what_does_not_fit_is_said():
    with pytest.raises(ValueError, match="whole tiles of 4096"):
        bandwidth.read(torch.zeros(100), 1, 1)
    with pytest.raises(ValueError, match="as many as x, 8192"):
        bandwidth.copy(region(2), region(1))
    with pytest.raises(ValueError, match="it must have 16384"):
        bandwidth.shared_read(region(1), 1, 1)


def test_compiled_for_hopper_their_loops_hold_the_loads_and_exponentials_that_are_counted(compile_workers):
    printed = compile_workers.call({"script": "tests.kernels.compile_bandwidth", "arguments": []})["printed"]
    found = {name: counts for name, *counts in map(str.split, printed.splitlines())}
    threads, vector = 32 * bandwidth.WARPS, 4
    assert int(found["shared_read_kernel"][0]) == bandwidth.SHARED_TILE // threads // vector
    assert int(found["read_kernel"][1]) == TILE // threads // vector
    assert int(found["exponentials_kernel"][3]) == TILE // threads
