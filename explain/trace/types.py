"""Makes the interpreter build the parts of a type once: for each operation it builds them anew, a third of its time."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
from triton import language as tl
from triton.runtime import interpreter

_ADDRESS = np.dtype(np.uint64)
_BLOCK = tl.block_type.__init__

_numpy_dtype = functools.cache(interpreter._get_np_dtype)


def numpy_dtype(type: Any) -> np.dtype[Any]:
    """Takes the place of `_get_np_dtype`, which makes a table of all dtypes at each call."""
    scalar = type.scalar
    return _ADDRESS if scalar.is_ptr() else _numpy_dtype(scalar)


def block_type(self: Any, element_ty: Any, shape: Any) -> None:
    """Takes the place of `block_type.__init__`. Raises what that raises for a shape that is refused."""
    self.element_ty = element_ty
    self.shape, self.numel, text = _block(tuple(getattr(length, "value", length) for length in shape))
    self.name = f"<{text}, {element_ty}>"


def tensor(self: Any, handle: Any, type: Any) -> None:
    """Takes the place of `tensor.__init__`."""
    self.handle, self.type, self.dtype = handle, type, type.scalar
    self.shape, self.numel = _tensor(tuple(type.shape) if type.is_block() else ())


@functools.cache
def _block(shape: tuple[int, ...]) -> tuple[Any, Any, str]:
    made = object.__new__(tl.block_type)
    _BLOCK(made, tl.int1, list(shape))
    return made.shape, made.numel, str(made.shape)


@functools.cache
def _tensor(shape: tuple[int, ...]) -> tuple[Any, Any]:
    return tl.tuple([tl.constexpr(length) for length in shape]), tl.constexpr(math.prod(shape))


QUICK = (
    (interpreter, "_get_np_dtype", numpy_dtype),
    (tl.block_type, "__init__", block_type),
    (tl.tensor, "__init__", tensor),
)
"""What is replaced: owner, name, and what takes its place."""
