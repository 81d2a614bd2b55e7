"""Evaluates an expression of a kernel on recorded values, in NumPy."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

Array = Any
"""An ndarray, or a Python number."""
PROGRAM = "tl.program_id"
"""Under this name `held` may have the program's place in the grid."""

_BINARY: Mapping[type[ast.operator], Callable[[Array, Array], Array]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.BitAnd: operator.and_, ast.BitOr: operator.or_,
}  # fmt: skip
_COMPARE: Mapping[type[ast.cmpop], Callable[[Array, Array], Array]] = {
    ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge,
    ast.Eq: operator.eq, ast.NotEq: operator.ne,
}  # fmt: skip
_DTYPES = {"float32": np.float32, "float16": np.float16, "float64": np.float64, "int32": np.int32, "int64": np.int64}


def evaluate(expression: ast.expr, held: Mapping[str, Array]) -> Array | None:
    """The value of an expression where the variables hold `held`; None if it needs what was not recorded."""
    try:
        with np.errstate(all="ignore"):
            return _value(expression, held)
    except (LookupError, TypeError, ValueError, NotImplementedError, ZeroDivisionError, AttributeError):
        return None


def callee(node: ast.expr) -> str:
    """The last name of what a call calls: "exp" of `tl.exp(x)`; empty for anything else."""
    if not isinstance(node, ast.Call):
        return ""
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def _value(node: ast.expr, held: Mapping[str, Array]) -> Array:
    match node:
        case ast.Constant(value=bool() | int() | float() as number):
            return number
        case ast.Name(id=name):
            return held[name]
        case ast.BinOp(left=left, op=op, right=right):
            return _BINARY[type(op)](*_alike(_value(left, held), _value(right, held)))
        case ast.UnaryOp(op=ast.USub(), operand=part):
            return -_value(part, held)
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            return _COMPARE[type(op)](*_alike(_value(left, held), _value(right, held)))
        case ast.IfExp(test=test, body=body, orelse=other):
            return _value(body if _value(test, held) else other, held)
        case ast.Subscript(value=part, slice=index):
            places = index.elts if isinstance(index, ast.Tuple) else [index]
            return np.asarray(_value(part, held))[tuple(map(_place, places))]
        case ast.Attribute(value=part, attr="T"):
            return np.swapaxes(_value(part, held), -1, -2)
        case ast.Call(func=ast.Name(id="float"), args=[ast.Constant(value=str() as text)]):
            return float(text)
        case ast.Call():
            return _called(node, held)
    raise NotImplementedError


def _place(index: ast.expr) -> Any:
    if isinstance(index, ast.Slice) and index.lower is None and index.upper is None:
        return slice(None)
    if isinstance(index, ast.Constant) and index.value is None:
        return None
    raise NotImplementedError


def _alike(a: Array, b: Array) -> tuple[Array, Array]:
    """A float beside a float tile has the tile's dtype, as in Triton."""
    tiles = [x for x in (a, b) if isinstance(x, np.ndarray) and x.dtype.kind == "f"]
    dtype = max((tile.dtype for tile in tiles), key=lambda dtype: dtype.itemsize, default=None)
    made = (np.asarray(x, dtype) if dtype is not None and isinstance(x, float) else x for x in (a, b))
    return tuple(made)  # type: ignore[return-value]


def _called(node: ast.Call, held: Mapping[str, Array]) -> Array:
    name = callee(node)
    if name == "to" and isinstance(node.func, ast.Attribute):
        return np.asarray(_value(node.func.value, held)).astype(_dtype(node.args[0], held))
    if name == "program_id":
        return np.int32(held[PROGRAM][int(_value(node.args[0], held))])
    if name in ("zeros", "full"):
        shape = tuple(int(_value(part, held)) for part in node.args[0].elts)  # type: ignore[attr-defined]
        return np.full(shape, _value(node.args[1], held) if name == "full" else 0.0, np.float32)
    one = _FUNCTIONS.get(name)
    if one is None:
        raise NotImplementedError
    method = isinstance(node.func, ast.Attribute) and getattr(node.func.value, "id", "tl") not in ("tl", "libdevice")
    parts = [node.func.value, *node.args] if method else node.args  # type: ignore[attr-defined]
    known = {word.arg: _value(word.value, held) for word in node.keywords if word.arg in ("axis", "keep_dims")}
    return one(*(_value(part, held) for part in parts), **known)


def _dtype(node: ast.expr, held: Mapping[str, Array]) -> Any:
    match node:
        case ast.Attribute(value=ast.Name(id=name), attr="dtype") if name in held:
            return np.asarray(held[name]).dtype
        case ast.Attribute(attr=attr) if attr in _DTYPES:
            return _DTYPES[attr]
    raise NotImplementedError


def _dot(a: Array, b: Array, acc: Array | None = None) -> Array:
    made = np.matmul(np.asarray(a, np.float32), np.asarray(b, np.float32))
    return made if acc is None else made + acc


def _reduced(one: Callable[..., Array]) -> Callable[..., Array]:
    return lambda x, axis=None, keep_dims=False: one(np.asarray(x), axis=axis, keepdims=keep_dims)


_FUNCTIONS: Mapping[str, Callable[..., Array]] = {
    "exp": np.exp, "exp2": np.exp2, "log": np.log, "log2": np.log2, "sqrt": np.sqrt, "abs": np.abs,
    "maximum": np.fmax, "minimum": np.fmin, "max": _reduced(np.fmax.reduce), "min": _reduced(np.fmin.reduce),
    "sum": _reduced(np.sum), "where": np.where, "trans": lambda x: np.swapaxes(x, -1, -2), "dot": _dot,
    "arange": np.arange, "gather": np.take_along_axis, "cdiv": lambda a, b: -(-a // b),
}  # fmt: skip
