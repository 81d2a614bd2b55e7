"""When two arrays of two runs hold the same numbers: within rounding, NaN beside NaN, −∞ beside −∞."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def same(a: NDArray[Any], b: NDArray[Any], relative: float, absolute: float = 0.0) -> NDArray[np.bool_]:
    """Where two arrays hold the same numbers."""
    with np.errstate(invalid="ignore", over="ignore"):
        near = np.abs(a - b) <= relative * np.maximum(np.abs(a), np.abs(b)) + absolute
    return (a == b) | (np.isnan(a) & np.isnan(b)) | (near & np.isfinite(a) & np.isfinite(b))


def alike(a: NDArray[Any], b: NDArray[Any], tolerance: float) -> bool:
    """Whether two arrays have one shape and the same numbers; whole numbers and masks must be equal."""
    if a.shape != b.shape:
        return False
    exact = a.dtype.kind != "f" and b.dtype.kind != "f"
    a, b = a.astype(np.float64), b.astype(np.float64)
    scale = 0.0 if exact else tolerance / 10 * float(np.max(np.abs(a[np.isfinite(a)]), initial=0.0))
    return bool(same(a, b, 0.0 if exact else tolerance, scale).all())
