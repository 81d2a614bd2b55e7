"""CUDA's libdevice in NumPy: what `triton.language.extra.cuda.libdevice` calls by symbol, such as `__nv_tanhf`.

Computed in the precision of the result and, where NumPy has no such function, in float64 by torch.special. libdevice is
within a few units in the last place of these; its `fast_` functions are less exact.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from triton.runtime import interpreter

from explain.trace.errors import Refused

PREFIX = "__nv_"
Array = NDArray[Any]


def extern_elementwise(
    self: Any, library: str, path: str, symbol: str, handles: list[Any], result_type: Any, pure: bool
) -> Any:
    """The interpreter's missing `create_extern_elementwise`: a handle of `symbol` of the handles' elements.

    Raises Refused for a symbol that is not known here.
    """
    compute = function_of(symbol)
    if compute is None:
        raise Refused(f"{symbol} of {library or 'libdevice'} cannot be traced: it has no NumPy form here")
    dtype = interpreter._get_np_dtype(result_type.scalar)
    result = np.asarray(compute(*(handle.data for handle in handles)))
    return interpreter.TensorHandle(result.astype(dtype, copy=False), result_type.scalar)


def is_exponential(symbol: str) -> bool:
    """Whether its FLOPs count as exponentials."""
    return symbol.removeprefix(PREFIX).removeprefix("fast_").startswith("exp")


def function_of(symbol: str) -> Callable[..., Array] | None:
    """The NumPy function for `symbol`, for arrays of equal shape. None for an unknown symbol."""
    name = symbol.removeprefix(PREFIX)
    if name in FUNCTIONS:
        return FUNCTIONS[name]
    name = name.removeprefix("fast_")
    for ending in ("f", "d", "ll", "l"):
        if name.endswith(ending) and name.removesuffix(ending) in FUNCTIONS:
            return FUNCTIONS[name.removesuffix(ending)]
    return FUNCTIONS.get(name) or _rounded(name)


def _special(name: str) -> Callable[..., Array]:
    function = getattr(torch.special, name)
    return lambda x: function(torch.from_numpy(np.ascontiguousarray(x, dtype=np.float64))).numpy()


def _elementwise(function: Callable[..., float]) -> Callable[..., Array]:
    def compute(*values: float) -> float:
        try:
            return function(*values)
        except (ValueError, OverflowError):  # Python raises where IEEE 754 gives NaN or infinity
            return math.nan if values[0] < 0 else math.inf

    return np.vectorize(compute, otypes=[np.float64])


def _bits(x: Array) -> Array:
    """The unsigned integers with the same bits."""
    return x.view(f"u{x.dtype.itemsize}")


def _width(x: Array) -> int:
    return 8 * x.dtype.itemsize


def _clz(x: Array) -> Array:
    exact = np.frompyfunc(lambda n: int(n).bit_length(), 1, 1)
    return _width(x) - exact(_bits(x)).astype(np.int32)


def _reversed_bits(x: Array) -> Array:
    width = _width(x)
    flip = np.frompyfunc(lambda n: int(f"{int(n):0{width}b}"[::-1], 2), 1, 1)
    return np.asarray(flip(_bits(x))).astype(f"u{x.dtype.itemsize}").view(x.dtype)


def _high_product(x: Array, y: Array) -> Array:
    high = np.frompyfunc(lambda a, b: int(a) * int(b) >> _width(x), 2, 1)
    return np.asarray(high(x, y)).astype(x.dtype)


def _byte_perm(x: Array, y: Array, selector: Array) -> Array:
    pool = _bits(x).astype(np.uint64) | (_bits(y).astype(np.uint64) << np.uint64(32))
    out = np.zeros_like(pool)
    for byte in range(4):
        chosen = (_bits(selector).astype(np.uint64) >> np.uint64(4 * byte)) & np.uint64(7)
        out |= ((pool >> (chosen * np.uint64(8))) & np.uint64(255)) << np.uint64(8 * byte)
    return out.astype(np.uint32).view(np.int32)


def _average(x: Array, y: Array, up: int) -> Array:
    return ((x.astype(np.int64) + y.astype(np.int64) + up) >> 1).astype(x.dtype)


def _away_from_zero(x: Array) -> Array:
    whole = np.trunc(x)
    return whole + np.where(np.abs(x - whole) >= 0.5, np.copysign(1, x), 0)


def _remainder(x: Array, y: Array) -> Array:
    return x - y * np.rint(x / y)


def _fma(x: Array, y: Array, z: Array) -> Array:
    return (x.astype(np.float64) * y + z).astype(x.dtype)


FUNCTIONS: dict[str, Callable[..., Array]] = {
    name: getattr(np, name)
    for name in (
        "abs", "floor", "ceil", "trunc", "rint", "sqrt", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p",
        "sin", "cos", "tan", "sinh", "cosh", "tanh", "hypot", "cbrt", "fmod", "copysign", "nextafter", "ldexp", "isnan",
        "isinf", "signbit", "fabs",
    )
} | {
    name: _special(special)
    for name, special in {
        "erf": "erf", "erfc": "erfc", "erfinv": "erfinv", "erfcx": "erfcx", "normcdf": "ndtr", "normcdfinv": "ndtri",
        "lgamma": "gammaln", "j0": "bessel_j0", "j1": "bessel_j1", "y0": "bessel_y0", "y1": "bessel_y1",
        "cyl_bessel_i0": "i0", "cyl_bessel_i1": "i1",
    }.items()
} | {
    "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "atan2": np.arctan2,
    "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh,
    "pow": np.power, "powi": np.power, "powif": np.power, "scalbn": np.ldexp, "nearbyint": np.rint,
    "round": _away_from_zero, "llround": _away_from_zero, "llrint": np.rint, "remainder": _remainder,
    "exp10": lambda x: np.power(x.dtype.type(10), x),
    "rsqrt": lambda x: 1 / np.sqrt(x), "rcbrt": lambda x: 1 / np.cbrt(x), "rhypot": lambda x, y: 1 / np.hypot(x, y),
    "sinpi": lambda x: np.sin(np.pi * x), "cospi": lambda x: np.cos(np.pi * x),
    "norm3d": lambda x, y, z: np.sqrt(x * x + y * y + z * z), "norm4d": lambda *x: np.sqrt(sum(v * v for v in x)),
    "rnorm3d": lambda *x: 1 / np.sqrt(sum(v * v for v in x)), "rnorm4d": lambda *x: 1 / np.sqrt(sum(v * v for v in x)),
    "erfcinv": lambda x: FUNCTIONS["erfinv"](1 - x.astype(np.float64)), "tgamma": _elementwise(math.gamma),
    "fma": _fma, "fdim": lambda x, y: np.fmax(x - y, 0), "saturatef": lambda x: np.fmin(np.fmax(x, 0), 1),
    "fdividef": np.divide, "finitef": np.isfinite, "isfinited": np.isfinite, "logb": lambda x: np.frexp(x)[1] - 1,
    "ilogb": lambda x: np.frexp(x)[1] - 1,
    "llabs": np.abs, "mulhi": _high_product, "umulhi": _high_product, "mul64hi": _high_product,
    "umul64hi": _high_product, "mul24": lambda x, y: ((x << 8) >> 8) * ((y << 8) >> 8),
    "umul24": lambda x, y: (x & 0xFFFFFF) * (y & 0xFFFFFF),
    "clz": _clz, "popc": lambda x: np.bitwise_count(_bits(x)), "brev": _reversed_bits, "byte_perm": _byte_perm,
    "ffs": lambda x: np.where(x == 0, 0, _width(x) - _clz(x & -x)),
    "sad": lambda x, y, z: np.abs(x.astype(np.int64) - y) + z,
    "usad": lambda x, y, z: np.maximum(x, y) - np.minimum(x, y) + z,
    "hadd": lambda x, y: _average(x, y, 0), "uhadd": lambda x, y: _average(x, y, 0),
    "rhadd": lambda x, y: _average(x, y, 1), "urhadd": lambda x, y: _average(x, y, 1),
    "int_as_float": lambda x: x.view(np.float32), "uint_as_float": lambda x: x.view(np.float32),
    "float_as_int": lambda x: x.view(np.int32), "float_as_uint": lambda x: x.view(np.uint32),
    "longlong_as_double": lambda x: x.view(np.float64), "double_as_longlong": lambda x: x.view(np.int64),
}  # fmt: skip
"""By symbol, without its prefix and the letter of its type."""

ARITHMETIC: dict[str, Callable[..., Array]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "rcp": lambda x: 1 / x, "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x), "fma": lambda x, y, z: x * y + z,
}  # fmt: skip
TOWARDS: dict[str, Callable[[Array], Array]] = {"rn": np.rint, "rz": np.trunc, "rd": np.floor, "ru": np.ceil}


def _rounded(name: str) -> Callable[..., Array] | None:
    """A function with its rounding in its name, such as `fadd_rz` or `float2int_rn`; None for other names.

    In float32 the exact result, or the float64 nearest to it, is rounded. In float64 only rounding to nearest is known.
    """
    operation, _, mode = name.rpartition("_")
    if mode not in TOWARDS:
        return None
    source, _, target = operation.partition("2")
    if target and source in ("float", "double") and target in ("int", "uint", "ll", "ull"):
        return lambda x: _clamped(TOWARDS[mode](x), {"int": "i4", "uint": "u4", "ll": "i8", "ull": "u8"}[target])
    if target in ("float", "double"):
        return lambda x: _round_float(x.astype(np.float64), mode) if target == "float" else x.astype(np.float64)
    compute = ARITHMETIC.get(operation[1:]) or ARITHMETIC.get(operation.removesuffix("f"))
    if compute is None or (operation[0] == "d" and mode != "rn"):
        return None
    if operation[0] == "d":
        return compute
    return lambda *x: _round_float(compute(*(v.astype(np.float64) for v in x)), mode)


def _clamped(x: Array, code: str) -> Array:
    """CUDA's conversion to an integer: the nearest one that there is, 0 for NaN."""
    limits = np.iinfo(code)
    inside = np.clip(np.nan_to_num(x.astype(np.float64), posinf=np.inf, neginf=-np.inf), limits.min, limits.max)
    return np.where(inside >= limits.max, limits.max, inside.astype(code)).astype(code)


def _round_float(x: Array, mode: str) -> Array:
    """float64 as float32, to nearest (rn), towards zero (rz), down (rd) or up (ru)."""
    near = x.astype(np.float32)
    if mode == "rn":
        return near
    exact = near.astype(np.float64)
    wrong = {"rz": np.abs(exact) > np.abs(x), "rd": exact > x, "ru": exact < x}[mode]
    end = {"rz": np.float32(0), "rd": np.float32(-np.inf), "ru": np.float32(np.inf)}[mode]
    return np.where(wrong, np.nextafter(near, end), near)
