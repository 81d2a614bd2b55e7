"""What a wrapper keeps for calls alike: one launch for each shape, stride, dtype, alignment and option."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch

from kernels import kept
from kernels.kept import Kept, Prepared


@dataclass(frozen=True)
class OnGpu:
    """What a launch depends on of a tensor, without a GPU."""

    shape: tuple[int, ...] = (4, 8)
    strides: tuple[int, ...] = (8, 1)
    dtype: torch.dtype = torch.float16
    device: str = "cuda:0"
    address: int = 256
    is_cuda: bool = True

    def stride(self) -> tuple[int, ...]:
        return self.strides

    def get_device(self) -> str:
        return self.device

    def data_ptr(self) -> int:
        return self.address


@pytest.fixture
def wrapper():
    """A wrapper that returns (the number of its preparation, the tensors and options that it got)."""
    prepared: list[Any] = []

    @Kept
    def scaled(x: Any, y: Any, *, scale: int = 1):
        prepared.append(x)
        number = len(prepared)
        return lambda x, y: (number, x, y, scale)

    return scaled


X = OnGpu()


def test_a_call_alike_launches_what_the_first_has_prepared_on_its_own_tensors(wrapper):
    other = replace(X, address=512)
    assert wrapper(X, X) == (1, X, X, 1)
    assert wrapper(X, other) == (1, X, other, 1)
    assert wrapper(y=other, x=X) == (1, X, other, 1)  # by name


@pytest.mark.parametrize(
    "change",
    [{"shape": (2, 8)}, {"strides": (16, 1)}, {"dtype": torch.bfloat16}, {"device": "cuda:1"}, {"address": 258}],
)
def test_a_call_that_differs_is_prepared_anew(wrapper, change):
    wrapper(X, X)
    assert wrapper(X, replace(X, **change))[0] == 2
    assert wrapper(X, X)[0] == 1


def test_options_count_too(wrapper):
    assert [wrapper(X, X, scale=scale)[::3] for scale in (2, 3, 2)] == [(1, 2), (2, 3), (1, 2)]


def test_it_keeps_so_many_and_no_more(wrapper, monkeypatch):
    monkeypatch.setattr(kept, "MOST", 3)
    for length in range(1, 9):
        wrapper(replace(X, shape=(length, 8)), X)
        assert len(wrapper.launches) <= 3


def test_on_the_cpu_nothing_is_kept_and_a_wrong_call_is_refused(wrapper):
    x = torch.zeros(2)
    assert [wrapper(x, x)[0] for _ in range(2)] == [1, 2]
    with pytest.raises(TypeError, match="y"):
        wrapper(x)


def test_the_second_launch_goes_to_the_compiled_kernel_with_everything_in_the_kernels_order():
    calls: list[tuple[Any, ...]] = []

    class Compiled:
        def __getitem__(self, grid):
            return lambda *arguments: calls.append((grid, arguments))

    class Kernel:
        def __getitem__(self, grid):
            def launch(*arguments: Any, **named: Any) -> Compiled:
                calls.append((grid, arguments, named))
                return Compiled()

            return launch

    launch = Prepared(Kernel(), (7,), (1, 2.5), {"TILE": 4}, num_warps=8)
    launch("x", "y")
    launch("u", "v")
    first, second = calls
    assert first == ((7, 1, 1), ("x", "y", 1, 2.5), {"TILE": 4, "num_warps": 8})
    assert second == ((7, 1, 1), ("u", "v", 1, 2.5, 4))
