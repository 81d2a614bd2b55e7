"""What a wrapper keeps for calls alike: one launch for each shape, stride, dtype, alignment and option."""

from __future__ import annotations

import gc
import weakref
from dataclasses import dataclass, replace
from types import MappingProxyType, SimpleNamespace
from typing import Any

import pytest
import torch
import triton
from triton.backends.nvidia.driver import CudaLauncher, wrap_handle_tensordesc
from triton.runtime import driver

from kernels import kept
from kernels.kept import Kept, prepared


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


GRID, STREAM, NUMBERS, CONSTANTS = (7, 1, 1), 77, (1, 2.5), {"TILE": 4}


@dataclass
class Descriptor:
    """What Triton's launcher reads of a descriptor of a tensor."""

    base: Any
    shape: tuple[int, ...] = (4, 8)
    strides: tuple[int, ...] = (8, 1)
    padding: str = "zero"
    round_f32_to_tf32: bool = False


class Gpu:
    """Triton's driver, a kernel and its compiled form without a GPU: what goes to the kernel, and what to C."""

    def __init__(self, descriptors: int = 0, scratch: int = 0) -> None:
        self.compiled: list[Any] = []
        self.launched: list[Any] = []
        self.maps: list[Any] = []
        self.utils = self
        layout = {"swizzle": 3, "elem_size": 2, "elem_type": 6, "block_size": [4, 8], "fp4_padded": False}
        meta = [layout] * descriptors
        run = self.run = object.__new__(CudaLauncher)
        signature = dict(enumerate(["tensordesc<fp16[4,8]>"] * descriptors + ["*fp16"]))
        run.launch = wrap_handle_tensordesc(lambda *passed: self.launched.append(passed), signature, meta)
        run.num_ctas, run.launch_cooperative_grid, run.launch_pdl = 1, False, True
        run.global_scratch_size, run.profile_scratch_size = 0, scratch
        run.global_scratch_align = run.profile_scratch_align = 1
        if "kernel_signature" in CudaLauncher.__init__.__code__.co_names:
            run.arg_annotations, run.kernel_signature = ["of each"], b"types"
        self.result = SimpleNamespace(
            run=run, function=123, packed_metadata=(4, 1, 0), metadata=SimpleNamespace(tensordesc_meta=meta)
        )

    def __getitem__(self, grid: tuple[int, ...]) -> Any:
        def launch(*arguments: Any, **named: Any) -> Any:
            self.compiled.append((grid, arguments, named))
            return self.result

        return launch

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int) -> int:
        return STREAM

    def fill_tma_descriptor_tiled(self, *told: Any) -> Any:
        self.maps.append(told)
        return repr(told)

    fill_tma_descriptor = fill_tma_descriptor_tiled

    def by_triton(self, *arguments: Any) -> Any:
        """What Triton's own launcher passes to C."""
        self.run(*GRID, STREAM, 123, (4, 1, 0), None, None, None, *arguments, *NUMBERS, *CONSTANTS.values())
        return self.launched.pop()


@pytest.fixture
def on(monkeypatch):
    """A GPU that is Triton's active one."""

    def active(**options: int) -> Gpu:
        gpu = Gpu(**options)
        monkeypatch.setattr(driver, "_active", gpu)
        return gpu

    return active


def launch_on(gpu: Gpu, descriptors: Any = MappingProxyType({})) -> Any:
    return prepared(gpu, GRID[:1], NUMBERS, CONSTANTS, descriptors, num_warps=8)


Y = replace(X, address=512)


def test_from_the_second_launch_on_c_gets_what_tritons_launcher_would_pass(on):
    gpu = on()
    launch = launch_on(gpu)
    launch(X, Y)
    assert gpu.compiled == [(GRID, (X, Y, *NUMBERS), {**CONSTANTS, "num_warps": 8})]
    launch(Y, X)
    (ours,) = gpu.launched
    assert len(gpu.compiled) == 1
    assert flat(ours) == flat(gpu.by_triton(Y.address, X.address))


def flat(passed: Any) -> list[Any]:
    """The last argument may be a list or a tuple."""
    return [list(one) if isinstance(one, (list, tuple)) else one for one in passed]


def test_a_tensor_that_tma_copies_becomes_its_descriptors_arguments_kept_by_address(on):
    gpu = on(descriptors=2)
    launch = launch_on(gpu, {0: Descriptor(X), 1: Descriptor(X, shape=(2, 8))})
    launch(X, X, X)
    assert [one.base for one in gpu.compiled[0][1][:2]] == [X, X]
    gpu.launched.clear()
    for _ in range(2):
        launch(X, Y, X)
    ours = gpu.launched.pop()
    assert len(gpu.maps) == 2  # one for each, at the first of these calls
    assert flat(ours) == flat(gpu.by_triton(Descriptor(X), Descriptor(Y, shape=(2, 8)), X.address))
    made = len(gpu.maps)
    launch(Y, Y, X)
    assert len(gpu.maps) == made + 1


def test_no_tensor_is_held(on):
    tensor = torch.zeros(2)
    seen = weakref.ref(tensor)
    launch = launch_on(on(descriptors=1), {0: Descriptor(tensor)})
    assert launch
    del tensor
    gc.collect()
    assert seen() is None


@pytest.mark.parametrize("why", ["a hook is set", "the kernel gets memory from the launcher"])
def test_tritons_own_way_is_taken_where(why, on):
    gpu = on(scratch=16 * (why != "a hook is set"))
    launch = launch_on(gpu)
    hooks = triton.knobs.runtime.launch_enter_hook
    launch(X)
    if why == "a hook is set":
        hooks.add(print)
    try:
        launch(X)
        assert (len(gpu.compiled), gpu.launched) == (2, [])
    finally:
        hooks.remove(print)
