"""8-bit floats as NVIDIA GPUs convert them, e4m3 and e5m2; other formats stay as the interpreter has them.

The interpreter loses subnormals of e5m2, reads NaN and ∞ as numbers, rounds ties up, and wraps what is too large. PTX
for sm_90 has `cvt.rn.satfinite.e4m3x2.f32`, which rounds ties to even, turns ∞ and what is too large into the largest
number, and keeps NaN; and `cvt.rn.f16x2.e4m3x2` back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from triton import language as tl
from triton.runtime import interpreter

FORMATS: Mapping[Any, torch.dtype] = {tl.float8e4nv: torch.float8_e4m3fn, tl.float8e5: torch.float8_e5m2}
NUMBERS = {
    ours: torch.arange(256, dtype=torch.int32).to(torch.uint8).view(theirs).float().numpy()
    for ours, theirs in FORMATS.items()
}
"""What the 256 patterns of each format are, in float32."""
WIDTHS: Mapping[Any, Any] = {tl.float16: np.float16, tl.float32: np.float32, tl.float64: np.float64}


def convert(plain: Callable[..., Any]) -> Callable[..., Any]:
    """`interpreter._convert_float`: the bits of `data`, floats of one dtype, as floats of another, same shape."""

    def method(data: Any, source: Any, target: Any, rounding: Any) -> Any:
        if source in FORMATS and (target in WIDTHS or target == tl.bfloat16):
            numbers = NUMBERS[source][data.view(np.uint8)]
            if target == tl.bfloat16:  # it holds each of them
                return (numbers.view(np.uint32) >> np.uint32(16)).astype(np.uint16)
            return numbers.astype(WIDTHS[target]).view(f"u{WIDTHS[target]().itemsize}")
        if target in FORMATS and source in (tl.float16, tl.float32, tl.bfloat16) and rounding != _RTZ:
            wide = (data.astype(np.uint32) << 16).view(np.float32) if source == tl.bfloat16 else data
            most = torch.finfo(FORMATS[target]).max
            numbers = torch.from_numpy(np.ascontiguousarray(wide, dtype=np.float32)).clamp(-most, most)
            return numbers.to(FORMATS[target]).view(torch.uint8).numpy().reshape(np.shape(data))
        return plain(data, source, target, rounding)

    return method


_RTZ = interpreter._ir.ROUNDING_MODE.RTZ
