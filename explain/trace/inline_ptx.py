"""`tl.inline_asm_elementwise` of one PTX instruction, in NumPy: those of INSTRUCTIONS, on one element at a time."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from triton.runtime import interpreter

from explain.trace.errors import Refused
from explain.trace.libdevice import function_of

Array = NDArray[Any]
WIDTH = 4  # bytes of an element that INSTRUCTIONS take
ONE = re.compile(r"([\w.]+) +\$0((?:, *\$\d+)*) *;?")
WAITS = re.compile(r"griddepcontrol\.\w+;.*")  # programs run one after the other, so none has to wait


def _to_tf32(x: Array) -> Array:
    """To nearest, ties away from zero; NaN and ∞ stay."""
    bits = (x.view(np.uint32) + np.uint32(0x1000)) & np.uint32(0xFFFFE000)
    return np.where(np.isfinite(x), bits.view(np.float32), x)


def _library(name: str) -> Callable[..., Array]:
    function = function_of(name)
    assert function is not None
    return function


INSTRUCTIONS: Mapping[str, Callable[..., Array]] = {
    "cvt.rna.tf32.f32": _to_tf32,
    "ex2.approx.f32": np.exp2,
    "ex2.approx.ftz.f32": np.exp2,
    "lg2.approx.f32": np.log2,
    "lg2.approx.ftz.f32": np.log2,
    "rcp.approx.f32": np.reciprocal,
    "rcp.approx.ftz.f32": np.reciprocal,
    "rsqrt.approx.f32": _library("rsqrt"),
    "sqrt.approx.f32": np.sqrt,
    "tanh.approx.f32": np.tanh,
    "sin.approx.f32": np.sin,
    "cos.approx.f32": np.cos,
}
"""What each gives; approximate ones more exactly than on a GPU."""


def inline_asm(
    self: Any, text: str, constraints: str, handles: Sequence[Any], types: Sequence[Any], pure: bool, pack: int
) -> Any:
    """The interpreter's missing `create_inline_asm`. Raises Refused for other instructions."""
    text = " ".join(text.split())
    if WAITS.fullmatch(text):
        result = np.zeros(1, dtype=np.int32)
    else:
        found = ONE.fullmatch(text)
        compute = INSTRUCTIONS.get(found[1]) if found else None
        if found is None or compute is None or any(handle.data.itemsize != WIDTH for handle in handles):
            raise Refused(f"inline PTX cannot be traced, but for one instruction of a few; this is `{text[:80]}`")
        numbers = [int(number) - 1 for number in re.findall(r"\d+", found[2])]
        result = np.asarray(compute(*(handles[number].data.view(np.float32) for number in numbers)))
    element = types[0].scalar
    result = result.view(interpreter._get_np_dtype(element))
    return SimpleNamespace(get_result=lambda number: interpreter.TensorHandle(result, element))
