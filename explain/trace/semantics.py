"""The compiler's semantics where the interpreter follows Python's.

Triton's interpreter runs a kernel as Python. `triton/compiler/code_generator.py` compiles the same text and gives some
of it another meaning. `instrument` replaces that syntax by calls of the functions in `RULES`. Each names its source: a
method or an attribute of `CodeGenerator`.
"""

from __future__ import annotations

import builtins
import functools
import inspect
import math
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from types import BuiltinFunctionType, FunctionType
from typing import Any

import numpy as np
import torch
from triton import language as tl
from triton.language import core
from triton.language.extra import libdevice as libdevice_names
from triton.language.extra.cuda import libdevice
from triton.runtime import interpreter

from explain.trace.errors import Refused
from explain.trace.language import ALIASES

_semantic = interpreter.interpreter_semantic
CONDITIONS = (bool, int, type(None))
"""The constants that `if` accepts: `_condition_types`."""


class Number(tl.tensor):  # type: ignore[misc]  # Triton has no types
    """A scalar tensor that a trace shows as the Python number it came from: a loop variable or a float argument."""

    def __init__(self, number: int | float, dtype: Any) -> None:
        data = np.array([number], dtype=interpreter._get_np_dtype(dtype))
        super().__init__(interpreter.TensorHandle(data, dtype), dtype)
        self.number = number


def argument(value: Any) -> Any:
    """A launch's float or bool as the tensor that the compiler makes of it; anything else unchanged.

    `mangle_type`: a float is an fp32, a bool an int1. The interpreter passes floats on, and fails for a bool.
    """
    if type(value) is float:
        return Number(value, tl.float32)
    return _semantic.to_tensor(value) if type(value) is builtins.bool else value


def assign(value: Any) -> Any:
    """What a variable holds: constants become tensors, inside tuples too (`visit_Assign`)."""
    if isinstance(value, tuple | list):
        items = [assign(item) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    if isinstance(value, core.tuple):
        return core.tuple([assign(item) for item in value.values])
    return tl.tensor(value.handle, value.type) if type(value) is Number else _semantic.to_tensor(value, False)


# and, or, not


def stops_and(value: Any) -> bool:
    """Whether `value and …` is decided: by a false constant alone, a tensor never decides (`visit_BoolOp`)."""
    return not isinstance(value, tl.tensor) and not value


def stops_or(value: Any) -> bool:
    """Whether `value or …` is decided."""
    return not isinstance(value, tl.tensor) and builtins.bool(value)


def both(left: Any, right: Any) -> Any:
    """`left and right`, where left does not decide: element by element, with broadcasting (`arith.andi` on int1)."""
    if not isinstance(left, tl.tensor) or stops_and(right):
        return right
    return left.logical_and(right) if isinstance(right, tl.tensor) else left


def either(left: Any, right: Any) -> Any:
    """`left or right`, where left does not decide."""
    if not isinstance(left, tl.tensor) or stops_or(right):
        return right
    return left.logical_or(right) if isinstance(right, tl.tensor) else left


def negated(value: Any) -> Any:
    """`not value` (`visit_UnaryOp`)."""
    return value.__not__() if isinstance(value, tl.tensor) else not value


# if, while, assert, for


def condition(value: Any, refusal: str = "", branches: Branches | None = None) -> bool:
    """The branch that `if` takes. Of a computed condition both are compiled: `refusal` is what is wrong in them."""
    if isinstance(value, tl.tensor):
        if branches is not None:
            branches.computed = True
        if value.handle.data.size != 1:
            raise Refused(f"`if` needs one value, and this tensor has shape {_shape(value)}: use tl.where")
        if refusal:
            raise Refused(refusal)
        return builtins.bool(value.handle.data.item())
    value = core._unwrap_if_constexpr(value)
    if type(value) not in CONDITIONS:  # visit_If
        raise Refused(f"`if` takes a tensor or a constant bool, int or None, not a {type(value).__name__}")
    return builtins.bool(value)


Types = dict[tuple[int, object], str]
"""The types that branches left in a compiled form of a function, by line and variable, or line and column."""


def types_of(forms: dict[tuple[object, ...], Types], *arguments: Any) -> Types:
    """The types of the form that these arguments call: each has its own, by their types and constants."""
    return forms.setdefault(tuple(map(_form, arguments)), {})


def _form(argument: Any) -> object:
    if isinstance(argument, tuple | core.tuple):
        return tuple(map(_form, argument))
    if isinstance(argument, tl.tensor):
        return str(argument.type)
    value = core._unwrap_if_constexpr(argument)
    return type(value), value if isinstance(value, Hashable) else id(value)


def ternary(known: Types, place: tuple[int, int], test: Any, value: Any, *numbers: int | float) -> Any:
    """The value of `… if test else …`: of a computed test both sides are compiled, to one type (`visit_IfExp`).

    One side runs at a time. The type of the other is known if it is one of the `numbers`, or once it has run.
    """
    if not isinstance(test, tl.tensor):
        return value
    value = assign(value)
    for side in (*map(assign, numbers), value):
        if (first := known.setdefault(place, now := _type_name(side))) != now:
            words = "the condition is computed, so both are compiled and must have one type"
            raise Refused(f"one side of `… if … else …` is {first} and the other is {now}: {words}")
    return value


class Branches:
    """Checks that both branches of an `if` with a computed condition leave a variable the same type.

    It is called before and after the `if`, with the function's variables; `names` are those that its branches assign
    (`visit_if_scf`): a variable from before keeps its type; another must be assigned in both, with one type. `known`
    is what `types_of` gave. One branch runs at a time, so the types of the other are known once it has run.
    """

    def __init__(self, known: Types, line: int, *names: str) -> None:
        self.known, self.line, self.names = known, line, names
        self.before: Sequence[str] | None = None
        self.computed = False

    def __call__(self, variables: Mapping[str, Any]) -> None:
        values = [variables.get(name) for name in self.names]
        types = [_type_name(value) if isinstance(value, tl.tensor) else "" for value in values]
        if self.before is None:
            self.before = [*types]
            self.missing = {name for name in self.names if name not in variables}
        elif self.computed:
            for name, before, now in zip(self.names, self.before, types, strict=True):
                new = name in self.missing
                first = self.known.setdefault((self.line, name), now) if new and now else before
                if first and now and first != now:
                    where = "in the other branch" if new else "before the `if`"
                    words = "the condition is computed, so both branches are compiled and must leave one type"
                    raise Refused(f"`{name}` is {first} {where} and {now} after this one: {words}")

    def lost(self, name: str, variables: Mapping[str, Any]) -> bool:
        """Whether a name that only one branch assigns has no value after the `if`."""
        return self.computed and name in self.missing and name in variables


def going_on(value: Any) -> bool:
    """Whether `while` goes on: its condition must be a tensor of one value (`visit_While`)."""
    value = getattr(value, "condition", value)  # of tl.condition
    if not isinstance(value, tl.tensor):
        raise Refused(f"`while` needs a condition that is computed, not the constant {value}")
    if value.handle.data.size != 1:
        raise Refused(f"`while` needs one value, and this tensor has shape {_shape(value)}")
    return builtins.bool(value.handle.data.item())


def asserts(value: Any, message: Any = "") -> None:
    """`assert value, message` is tl.device_assert (`visit_Assert`)."""
    _semantic.device_assert(_semantic.to_tensor(value), core._unwrap_if_constexpr(message), None)


class Carried:
    """Checks that a loop keeps the types of the variables it carries (`_verify_loop_carried_variable`).

    It is called at each iteration's start and at the loop's end, with the function's variables; `names` are those that
    the loop's body assigns. A variable without a value before the loop is the body's own: each iteration begins
    without it, and so does what follows the loop (`enter_sub_region`).
    """

    def __init__(self, *names: str) -> None:
        self.names = names
        self.types: Mapping[str, str] | None = None
        self.unrolled = False

    def __call__(self, variables: Mapping[str, Any]) -> bool:
        """Whether any variable is to be forgotten here: those that are `lost`."""
        if self.unrolled:
            return False
        if self.types is None:
            self.types = {name: _type_name(variables[name]) for name in self.names if name in variables}
        for name, first in self.types.items():
            now = _type_name(variables[name])
            if first not in ("", now):
                raise Refused(
                    f"`{name}` is {first} before the loop and {now} after an iteration: the type of a variable that a "
                    "loop carries cannot change"
                )
        return len(self.types) < len(self.names)

    def lost(self, name: str, variables: Mapping[str, Any]) -> bool:
        """Whether an iteration leaves this name, and the compiler does not know it after the iteration."""
        assert self.types is not None
        return name not in self.types and name in variables


def _type_name(value: Any) -> str:
    """The type of a loop's variable in words; "" for one without a value, or without a type of its own."""
    if isinstance(value, tl.tensor):
        return f"{value.dtype}{_shape(value) or ''}"
    return "a constant" if isinstance(value, int | float | str | core.constexpr | None) else ""


def _shape(value: Any) -> list[int]:
    return [int(core._unwrap_if_constexpr(size)) for size in value.shape]


def loop(carried: Carried, iterator: Any, *args: Any, **options: Any) -> Iterator[Any]:
    """The iterations of `for … in iterator(*args)` (`visit_For`).

    A loop variable is a tensor, int32 if its bounds are: `//` and `%` truncate towards zero. In `tl.static_range` it is
    a constant.
    """
    carried.unrolled = iterator in (tl.static_range, core.static_range, _STATIC_RANGE)
    if not carried.unrolled and iterator not in (builtins.range, tl.range, core.range, _RANGE):
        raise Refused("`for` takes range, tl.range or tl.static_range")
    bounds = [core._unwrap_if_constexpr(arg) for arg in (*args, *_named_bounds(options))]
    numbers = builtins.range(*map(_whole, bounds))
    if carried.unrolled:
        return iter(numbers)
    kinds = [_semantic.to_tensor(bound).dtype for bound in bounds]
    dtype = functools.reduce(_semantic.integer_promote_impl, kinds, tl.int32)
    return (Number(number, dtype) for number in numbers)


def _named_bounds(options: dict[str, Any]) -> list[Any]:
    return [options[name] for name in ("arg1", "arg2", "step") if options.get(name) is not None]


def _whole(bound: Any) -> int:
    if isinstance(bound, tl.tensor):
        if bound.handle.data.size != 1 or not bound.dtype.is_int():
            raise Refused(f"a loop's bounds and step are whole numbers, not {_type_name(bound)}")
        return int(bound.handle.data.item())
    if not isinstance(bound, int):
        raise Refused(f"a loop's bounds and step are whole numbers, not {bound}")
    return bound


_RANGE, _STATIC_RANGE = core.range, core.static_range  # before the interpreter replaces them


# Calls and attributes

_STATIC = {builtins.int: "x.to(tl.int32)", builtins.float: "x.to(tl.float32)"}
_PYTHONS = {np.ufunc, type(np.sum), FunctionType, BuiltinFunctionType}
_LIBRARIES = {"np": np, "math": math, "torch": torch, "torch.nn.functional": torch.nn.functional}
_EXTREMES = {builtins.min: core.builtin_min, builtins.max: core.builtin_max}
_OWN = (builtins.print, *_STATIC, *_EXTREMES)


def call(function: Any, *args: Any, **kwargs: Any) -> Any:
    """`function(*args, **kwargs)` (`visit_Call`).

    The interpreter replaces the builtins of `triton.language` in its modules alone, and not what
    `from triton.language import exp2` or `cast = tl.cast` took from there.
    """
    if isinstance(function, FunctionType) and function.__module__ == libdevice_names.__name__:
        function = getattr(libdevice, function.__name__)  # get_module_map
    if getattr(function, "__triton_builtin__", False):
        if function in ALIASES:
            return ALIASES[function](*args, **kwargs)
        if getattr(function, "__triton_aggregate__", False):
            _give_methods(function)
        try:
            return function(*args, **kwargs, _semantic=_semantic)
        except KeyError as error:
            if function.__module__ != libdevice.__name__:
                raise
            raise Refused(f"libdevice.{function.__name__} takes no {error.args[0]}") from None
    if function in _OWN:
        return _python_function(function, args, kwargs)
    if type(function) in _PYTHONS and any(isinstance(arg, tl.tensor) for arg in args):
        _refuse_library(function)
    try:
        return function(*args, **kwargs)
    except interpreter.InterpreterError:
        if function is tl.flip and len(args) == 1 and not kwargs:
            raise Refused("tl.flip needs the axis that it flips: tl.flip(x, 0)") from None
        raise


def _refuse_library(function: Any) -> None:
    """Raises Refused if this is a library's function, which cannot take a tensor of a kernel."""
    name = function.__name__
    for library, module in _LIBRARIES.items():
        if vars(module).get(name) is function:
            instead = f": write tl.{name}" if hasattr(tl, name) else ", with functions of tl alone"
            raise Refused(f"{library}.{name} takes no tensor of a kernel, which Triton compiles{instead}")


def _python_function(function: Any, args: Any, kwargs: Any) -> Any:
    """A call of one of Python's own functions: `builtin_namespace`, `statically_implemented_functions`."""
    computed = any(isinstance(arg, tl.tensor) for arg in args)
    if function is builtins.print:
        return core.device_print(*args, **kwargs)
    if function in _STATIC and computed:
        raise Refused(f"{function.__name__}() takes a constant, not a tensor: write {_STATIC[function]}")
    if computed:
        return _EXTREMES[function](*args, **kwargs, _semantic=_semantic)
    return function(*map(core._unwrap_if_constexpr, args), **kwargs)


def _give_methods(aggregate: Any) -> None:
    """Gives an aggregate its @triton.jit methods, which `_aggregate` finds among compiled functions only."""
    cells = dict(zip(aggregate.__new__.__code__.co_freevars, aggregate.__new__.__closure__, strict=True))
    for name, member in inspect.getmembers(cells["cls"].cell_contents):
        if isinstance(member, interpreter.InterpretedFunction) and name != "__init__" and not hasattr(aggregate, name):
            setattr(aggregate, name, functools.partialmethod(member))


def value_of(thing: Any) -> Any:
    """`thing.value`: a constant is a constexpr in the compiler, and has one (`get_Attribute`)."""
    return thing if isinstance(thing, int | float | str | tuple | list | None) else thing.value


def refuse(words: str) -> Any:
    """What the compiler does not accept. Raises Refused."""
    raise Refused(words)


RULES: dict[str, Callable[..., Any]] = {
    rule.__name__: rule
    for rule in (
        assign, stops_and, stops_or, both, either, negated, condition, types_of, ternary, Branches, going_on,
        asserts, Carried, loop, call, value_of, refuse,
    )
}  # fmt: skip
"""What rewritten functions call."""
