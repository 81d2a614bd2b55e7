"""What float64 and eager PyTorch give for attention's inputs: computed once, whichever kernels run on them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import wraps
from typing import Any

import numpy as np
import pytest
import torch

from explain.trace.patches import replaced
from kernels import reference, verify


@pytest.fixture(scope="package", autouse=True)
def one_reference() -> Iterator[None]:
    """A conftest that imports this has it for its folder."""
    with ExitStack() as stack:
        for owner, name in (
            (reference, "attention"),
            (reference, "attention_magnitudes"),
            (verify, "_eager_attention"),
            (verify, "_largest_scores"),
        ):
            stack.enter_context(replaced(owner, name, _remembered(getattr(owner, name))))
        yield


def _remembered(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, called once for equal arrays, tensors and plain values. The arrays it returns are read-only."""
    results: dict[tuple[object, ...], Any] = {}

    @wraps(function)
    def recall(*args: Any, **kwargs: Any) -> Any:
        key = (*map(_key, args), *((name, _key(value)) for name, value in sorted(kwargs.items())))
        if key not in results:
            result = results[key] = function(*args, **kwargs)
            for array in result if isinstance(result, tuple) else (result,):
                array.setflags(write=False)
        return results[key]

    return recall


def _key(value: Any) -> object:
    if isinstance(value, torch.Tensor):
        return value.dtype, _key(value.detach().double().numpy())  # NumPy has no bf16
    if isinstance(value, np.ndarray):
        return value.shape, value.dtype.str, hashlib.blake2b(value.tobytes()).digest()
    return value
