"""Offsets that leave int32: a wrapped int32 keeps its true value beside it, as attr["wide"] = (lanes, values).

The interpreter's operations keep it while `hooks` are in place; `wrapped` asks for it at an access.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from triton import language as tl
from triton.runtime import interpreter

from explain.trace.patches import around

RESHAPED = ("create_broadcast", "create_expand_dims", "create_reshape", "create_trans")
EXACT = (np.add, np.subtract, np.multiply)
DID = ("Loads", "Stores to", "Updates")
REMEDY = "compute the offset in int64: tl.program_id(0).to(tl.int64)"


def words(kind: int, buffer: str, offset: int) -> str:
    """What an access at a true offset does, in elements."""
    return f"{DID[kind]} {buffer} at offset {offset:,}, which does not fit int32: it wraps around"


def wrapped(pointers: Any, lanes: NDArray[np.bool_]) -> tuple[NDArray[np.bool_], NDArray[np.int64]] | None:
    """Which of the lanes have an offset that wrapped, and the true offsets, both of the lanes' shape; None if none."""
    if (wide := pointers.attr.get("wide")) is None:
        return None
    found = np.broadcast_to(wide[0], lanes.shape) & lanes
    return (found, np.broadcast_to(wide[1], lanes.shape)) if found.any() else None


def hooks() -> list[tuple[Any, str, object]]:
    """The attributes to replace: owner, name, and what keeps the true values."""
    builder = interpreter.InterpreterBuilder
    methods: dict[str, Callable[..., Any]] = dict.fromkeys(RESHAPED, _reshaped)
    methods |= {"create_splat": _splat, "create_addptr": _addptr, "cast_impl": _cast, "binary_op": _binary}
    return [(builder, name, around(getattr(builder, name), method)) for name, method in methods.items()]


def _reshaped(plain: Callable[..., Any], arg: Any, *args: Any) -> Any:
    result = plain(arg, *args)
    if (wide := arg.attr.get("wide")) is not None:
        same = (plain(interpreter.TensorHandle(part, dtype), *args).data for part, dtype in
                zip(wide, (tl.int1, tl.int64), strict=True))  # fmt: skip
        result.attr["wide"] = tuple(same)
    return result


def _splat(plain: Callable[..., Any], ret_ty: Any, arg: Any) -> Any:
    result = plain(ret_ty, arg)
    if (wide := arg.attr.get("wide")) is not None:
        result.attr["wide"] = tuple(np.full(result.data.shape, part.reshape(-1)[0]) for part in wide)
    return result


def _addptr(plain: Callable[..., Any], ptr: Any, offset: Any) -> Any:
    result = plain(ptr, offset)
    old, new = ptr.attr.get("wide"), offset.attr.get("wide")
    if old is not None or new is not None:
        none = np.zeros((), bool), np.zeros((), np.int64)
        (lanes, base), (more, true) = old or none, new or (none[0], offset.data.astype(np.int64))
        result.attr["wide"] = lanes | more, base + true
    return result


def _cast(plain: Callable[..., Any], src: Any, dst_type: Any) -> Any:
    result = plain(src, dst_type)
    if (wide := src.attr.get("wide")) is not None:
        result.attr["wide"] = wide
    return result


def _binary(plain: Callable[..., Any], lhs: Any, rhs: Any, op: Any) -> Any:
    result = plain(lhs, rhs, op)
    if op not in EXACT or result.data.dtype != np.int32 or lhs.dtype.scalar != tl.int32:
        return result
    wide = [one.attr.get("wide") for one in (lhs, rhs)]
    left, right = (
        one.data.astype(np.int64) if true is None else true[1] for one, true in zip((lhs, rhs), wide, strict=True)
    )
    true = op(left, right)
    lanes = true != result.data
    if lanes.any():
        result.attr["wide"] = lanes, true
    return result
