"""The Python that an answer may use: what a Triton kernel needs. Read from the file's syntax, nothing is run.

A kernel that runs in the interpreter is Python, and Python reaches everything: the kernel that is the specification,
the arrays behind its pointers, the rest of the process. An answer is none of that. The sandbox is there for what this
overlooks.
"""

from __future__ import annotations

import ast
import builtins
import difflib
import functools
import importlib.util
import math
import re
from pathlib import Path

from explain.plain import short


class LanguageError(Exception):
    """A line is not Triton; the message says what is not, and quotes of a long name its beginning."""

    def __init__(self, message: str, line: int) -> None:
        super().__init__(re.sub(r"\S+", lambda word: short(word[0]), message))
        self.line = line


FUNCTIONS = {"range", "min", "max", "abs", "int", "float", "bool", "len", "tuple", "print", "isinstance", "divmod"}
"""Python's own functions that a kernel may call."""
OF_TRITON = {"jit", "cdiv", "next_power_of_2"}
OF_MODULE = {"extra", "inline_asm_elementwise", "target_info", "tensor", "to_tensor", "map_elementwise"}
"""Names of triton.language that an answer may not use: modules, assembler, constructors of tensors."""
OF_VALUE = {
    "shape", "dtype", "type", "element_ty", "value", "T", "to", "trans", "permute", "reshape", "view", "broadcast_to",
    "expand_dims", "cast", "split", "exp", "exp2", "log", "log2", "cos", "sin", "sqrt", "rsqrt", "abs", "reduce",
    "associative_scan", "gather", "histogram", "cdiv", "sigmoid", "softmax", "ravel", "max", "argmax", "min", "argmin",
    "sum", "xor_sum", "cumsum", "cumprod", "sort", "flip", "logical_and", "logical_or", "store", "load", "advance",
    "block_shape", "primitive_bitwidth", "is_floating", "is_int", "is_fp16", "is_bf16", "is_fp32", "is_ptr",
}  # fmt: skip
"""What stands after a dot behind a value: a tensor, a type or a constexpr."""
_STATEMENTS = (
    ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Expr, ast.If, ast.For, ast.While, ast.Return, ast.Pass, ast.Continue,
    ast.Break, ast.Assert, ast.FunctionDef, ast.Import, ast.ImportFrom,
)  # fmt: skip
_EXPRESSIONS = (
    ast.BoolOp, ast.BinOp, ast.UnaryOp, ast.Compare, ast.Call, ast.IfExp, ast.Attribute, ast.Subscript, ast.Slice,
    ast.Name, ast.Constant, ast.Tuple, ast.List, ast.Starred,
)  # fmt: skip
_WORDS = {"ClassDef": "a class", "Try": "try", "With": "with", "Dict": "a dict", "Set": "a set", "Global": "global",
          "NamedExpr": ":=", "JoinedStr": "an f-string", "ListComp": "a list comprehension", "Delete": "del",
          "Raise": "raise", "Yield": "yield", "Await": "await", "Lambda": "lambda", "Nonlocal": "nonlocal"}  # fmt: skip


@functools.cache
def names() -> frozenset[str]:
    """What the installed Triton offers as `tl.…`; empty if none is installed. Nothing is imported."""
    return frozenset(_listed("__init__.py") - OF_MODULE - {"math"})


@functools.cache
def _of_math() -> frozenset[str]:
    return frozenset(name for name in _defined("math.py") if not name.startswith("_"))


def _source(name: str) -> ast.Module:
    spec = importlib.util.find_spec("triton")
    if spec is None or spec.origin is None:
        return ast.Module([], [])
    return ast.parse(Path(spec.origin).with_name("language").joinpath(name).read_text(encoding="utf-8"))


def _defined(file: str) -> set[str]:
    return {node.name for node in _source(file).body if isinstance(node, ast.FunctionDef)}


def _listed(file: str) -> set[str]:
    """A module's __all__."""
    for node in _source(file).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return set(ast.literal_eval(node.value))
    return set()


def check(tree: ast.Module) -> None:
    """Raises LanguageError at the first line that is not Triton."""
    modules = _Modules()
    for node in tree.body:
        modules.add(node)
        if not isinstance(node, ast.Import | ast.ImportFrom | ast.FunctionDef | ast.Assign | ast.AnnAssign):
            is_words = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
            if not is_words:
                raise LanguageError("only imports, constants and functions stand outside a function", node.lineno)
    own = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign):
            stored = {one.id for one in ast.walk(node) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)}
            modules.taken(stored, node.lineno)
            _Checker(modules, set()).visit(node)
            own |= stored
        elif isinstance(node, ast.FunctionDef):
            _function(node, modules, own)


class _Modules:
    """The names that the file gives to modules."""

    def __init__(self) -> None:
        self.names: dict[str, str] = {}
        self.imported: set[str] = set()

    def add(self, node: ast.stmt) -> None:
        if isinstance(node, ast.Import):
            for one in node.names:
                if one.name not in ("triton", "triton.language", "math"):
                    raise LanguageError(f"import {one.name}: an answer may import triton and math only", node.lineno)
                if one.asname:
                    self.names[one.asname] = one.name
                else:
                    top = one.name.partition(".")[0]
                    self.names[top] = top
        elif isinstance(node, ast.ImportFrom):
            self._add_from(node)

    def _add_from(self, node: ast.ImportFrom) -> None:
        if node.module == "__future__":
            return
        for one in node.names:
            if node.module == "triton" and one.name == "language":
                self.names[one.asname or one.name] = "triton.language"
            elif node.level == 0 and node.module in ("triton", "triton.language", "math"):
                _attribute(node.module, one.name, node.lineno)
                self.imported.add(one.asname or one.name)
            else:
                said = f"from {node.module or '.'} import {one.name}: an answer may import triton and math only"
                raise LanguageError(said, node.lineno)

    def taken(self, stored: set[str], line: int) -> None:
        """Raises if one of these names is a module's."""
        if both := stored & set(self.names):
            raise LanguageError(f"{min(both)} is the name of a module: take another one", line)


def _function(node: ast.FunctionDef, modules: _Modules, own: set[str]) -> None:
    for decorator in node.decorator_list:
        found = ast.unparse(decorator)
        if found != "triton.jit" and not (found == "jit" and "jit" in modules.imported):
            raise LanguageError(f"{node.name} must be decorated with @triton.jit alone", decorator.lineno)
    arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    arguments += [one for one in (node.args.vararg, node.args.kwarg) if one is not None]
    local = {one.arg for one in arguments}
    inside = [one for statement in node.body for one in ast.walk(statement)]
    local |= {one.id for one in inside if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)}
    modules.taken(local | {node.name}, node.lineno)
    for one in arguments:
        _plain(one.arg, one.lineno)
    nested = [one for one in inside if isinstance(one, ast.FunctionDef | ast.Import | ast.ImportFrom)]
    if nested:
        raise LanguageError("functions and imports stand outside of functions", nested[0].lineno)
    around = [*node.args.defaults, *(one for one in node.args.kw_defaults if one)]
    around += [one.annotation for one in arguments if one.annotation]
    around += [node.returns] if node.returns else []
    for expression in around:
        _Checker(modules, set()).visit(expression)
    inner = _Checker(modules, local | own)
    for statement in node.body:
        inner.visit(statement)


class _Checker(ast.NodeVisitor):
    """Checks statements and expressions; `bound` are the names that are not Python's own."""

    def __init__(self, modules: _Modules, bound: set[str]) -> None:
        self.modules, self.bound = modules, bound

    def generic_visit(self, node: ast.AST) -> None:
        wrong_statement = isinstance(node, ast.stmt) and not isinstance(node, _STATEMENTS)
        wrong_expression = isinstance(node, ast.expr) and not isinstance(node, _EXPRESSIONS)
        if wrong_statement or wrong_expression:
            kind = type(node).__name__
            said = f"{_WORDS.get(kind, kind)} is not part of Triton's language"
            raise LanguageError(said, node.lineno)  # type: ignore[attr-defined]  # statements and expressions have one
        super().generic_visit(node)

    def visit_Name(self, node: ast.Name) -> None:
        _plain(node.id, node.lineno)
        known = node.id in FUNCTIONS or node.id in self.bound or node.id in self.modules.imported
        if hasattr(builtins, node.id) and not known:
            allowed = ", ".join(sorted(FUNCTIONS))
            raise LanguageError(f"{node.id} is not part of Triton's language; of Python: {allowed}", node.lineno)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        _plain(node.attr, node.lineno)
        module = self._module(node.value)
        if module is None:
            if node.attr not in OF_VALUE:
                raise LanguageError(f".{node.attr} is not something that a tensor of Triton has", node.lineno)
            self.visit(node.value)
        else:
            _attribute(module, node.attr, node.lineno)

    def _module(self, node: ast.expr) -> str | None:
        """The module that an expression names; None if it is a value."""
        if isinstance(node, ast.Name):
            return self.modules.names.get(node.id)
        if isinstance(node, ast.Attribute) and (base := self._module(node.value)):
            whole = f"{base}.{node.attr}"
            return whole if whole in ("triton.language", "triton.language.math") else None
        return None


def _plain(name: str, line: int) -> None:
    if name.startswith("__"):
        raise LanguageError(f"{name}: names with two underscores are not part of Triton's language", line)


def _attribute(module: str, name: str, line: int) -> None:
    allowed = {
        "triton": OF_TRITON | {"language"},
        "triton.language": names() | {"math"},
        "triton.language.math": _of_math(),
        "math": {one for one in dir(math) if not one.startswith("_")},
    }[module]
    if name not in allowed:
        short = module.replace("triton.language", "tl")
        near = difflib.get_close_matches(name, sorted(allowed), 1)
        is_it = f". Is it {short}.{near[0]}?" if near else ""
        raise LanguageError(f"{short} has no {name} that a kernel may use{is_it}", line)
