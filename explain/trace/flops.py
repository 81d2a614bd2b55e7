"""Counts floating-point operations, as docs/trace-format.md defines them, in the interpreter's operations."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
from triton import language as tl
from triton.language.semantic import TritonSemantic
from triton.runtime import interpreter

from explain.trace.libdevice import is_exponential
from explain.trace.patches import replaced

ARITHMETIC = {
    np.add, np.subtract, np.multiply, np.divide, np.maximum, np.minimum, np.fmax, np.fmin,
}  # fmt: skip
EXPONENTIALS = {np.exp, np.exp2}
FUNCTIONS = {np.log, np.log2, np.sqrt, np.sin, np.cos}
FUSED = 2  # a multiply and an add; a maximum and a minimum


class FlopCounter:
    """Running totals of FLOPs."""

    __slots__ = ("exp", "matmul", "other")

    def __init__(self) -> None:
        self.matmul = self.exp = self.other = 0


def is_float(handle: Any) -> bool:
    """Whether a TensorHandle holds floats. A comparison of floats has their dtype, but holds bools."""
    kind = handle.data.dtype.kind
    return bool(kind == "f" or (kind == "u" and handle.dtype.scalar.is_floating()))


@contextmanager
def counting(count: FlopCounter) -> Iterator[None]:
    """While open, adds the FLOPs of every kernel that the interpreter runs to `count`."""
    builder = interpreter.InterpreterBuilder

    def binary_op(self: Any, lhs: Any, rhs: Any, op: Any) -> Any:
        result = plain_binary(self, lhs, rhs, op)
        if op in ARITHMETIC and is_float(lhs):
            count.other += result.data.size
        return result

    def unary_op(self: Any, arg: Any, op: Any) -> Any:
        result = plain_unary(self, arg, op)
        if op in EXPONENTIALS:
            count.exp += result.data.size
        elif op in FUNCTIONS:
            count.other += result.data.size
        return result

    def counted(name: str, operations: int) -> Callable[..., Any]:
        plain = getattr(builder, name)

        def method(self: Any, *args: Any, **kwargs: Any) -> Any:
            result = plain(self, *args, **kwargs)
            count.other += operations * result.data.size
            return result

        return method

    def create_dot(self: Any, a: Any, b: Any, *args: Any) -> Any:
        result = plain_dot(self, a, b, *args)
        if is_float(a):
            count.matmul += 2 * result.data.size * a.data.shape[-1]
        return result

    def create_dot_scaled(self: Any, *args: Any) -> Any:
        result = plain_scaled(self, *args)
        a, a_kind, a_packed = args[0], args[2], args[7]
        per_byte = 2 if a_kind == interpreter._ir.ScaleDotElemTypeTY.E2M1 and a_packed else 1
        count.matmul += 2 * result.data.size * a.data.shape[-1] * per_byte
        return result

    def create_extern_elementwise(self: Any, library: Any, path: Any, symbol: str, *args: Any) -> Any:
        result = plain_extern(self, library, path, symbol, *args)
        if is_exponential(symbol):
            count.exp += result.data.size
        elif is_float(result):
            count.other += result.data.size
        return result

    def create_atomic_rmw(self: Any, op: Any, ptr: Any, val: Any, mask: Any, *args: Any) -> Any:
        if op == interpreter._ir.ATOMIC_OP.FADD:  # memory adds, and only for active lanes
            count.other += int(np.count_nonzero(mask.data))
        return plain_rmw(self, op, ptr, val, mask, *args)

    def minus(self: Any, operand: Any) -> Any:
        before = count.other  # a sign flip, which Triton writes as 0 − x
        result = plain_minus(self, operand)
        count.other = before
        return result

    standard = tl.standard
    reductions = {
        standard._sum_combine,
        standard._elementwise_max,
        standard._elementwise_min,
        standard._argmax_combine_tie_break_left,
        standard._argmin_combine_tie_break_left,
        standard._argmax_combine_tie_break_fast,
        standard._argmin_combine_tie_break_fast,
    }
    scans = {standard._sum_combine, standard._prod_combine}

    # Other combining functions run lane by lane through the builder, which counts them.
    def reduce(self: Any, operands: Any) -> Any:
        result = plain_reduce(self, operands)
        if self.combine_fn in reductions and is_float(operands[0].handle):
            first = result[0] if isinstance(result, list | tuple) else result
            count.other += operands[0].handle.data.size - first.handle.data.size
        return result

    def scan(self: Any, operands: Any) -> Any:
        result = plain_scan(self, operands)
        if self.combine_fn in scans and is_float(operands[0].handle):
            data = operands[0].handle.data
            count.other += data.size - data.size // data.shape[self.axis]
        return result

    plain_binary, plain_unary, plain_dot = builder.binary_op, builder.unary_op, builder.create_dot
    plain_scaled, plain_extern = builder.create_dot_scaled, builder.create_extern_elementwise
    plain_rmw, plain_minus = builder.create_atomic_rmw, TritonSemantic.minus
    plain_reduce, plain_scan = interpreter.ReduceOps.apply_impl, interpreter.ScanOps.apply_impl
    with ExitStack() as stack:
        for owner, name, value in [
            (builder, "binary_op", binary_op),
            (builder, "unary_op", unary_op),
            (builder, "create_fma", counted("create_fma", FUSED)),
            (builder, "create_clampf", counted("create_clampf", FUSED)),
            (builder, "create_rsqrt", counted("create_rsqrt", 1)),
            (builder, "create_erf", counted("create_erf", 1)),
            (builder, "create_dot", create_dot),
            (builder, "create_dot_scaled", create_dot_scaled),
            (builder, "create_extern_elementwise", create_extern_elementwise),
            (builder, "create_atomic_rmw", create_atomic_rmw),
            (TritonSemantic, "minus", minus),
            (interpreter.ReduceOps, "apply_impl", reduce),
            (interpreter.ScanOps, "apply_impl", scan),
        ]:
            stack.enter_context(replaced(owner, name, value))
        yield
