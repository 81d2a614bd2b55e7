"""A kernel's statements as equations: `alpha = tl.exp(m_i - m_safe)` becomes α = exp(m_i − m_safe).

An equation is made from the line that runs, so it shows what the kernel does. A kernel that is wrong on purpose shows
its own wrong equation. `SYMBOLS` is the one list of how quantities are written.

A tree is JSON: a text, or `[tag, attributes?, child, …]` with MathML's tags. The attribute `q` names the variable,
which gives the colour. A text in braces is a place for a number; the player fills it in for the selected row: `{m_i}`;
`{m_i:old}` (before the step); `{cols::c}` (along the tile's columns, `r` along its rows); `{max|s|1}` and `{sum|p|1}`
(over an axis); `{dot|p|v|}` and `{dot|q|k|T}` (one element of a matmul, the second factor transposed); `{pid|0}` (the
program). If there is no number, the player shows the attribute `or`.
"""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Tree = str | list[Any]


def _sub(base: str, index: str) -> Tree:
    return ["msub", ["mi", base], ["mi", index]]


def _tilde(letter: str) -> Tree:
    return ["mover", ["mi", letter], ["mo", "~"]]


SYMBOLS: Mapping[str, Tree] = {
    "m_i": _sub("m", "i"),
    "m_new": _sub("m", "new"),
    "l_i": _sub("ℓ", "i"),
    "l_new": _sub("ℓ", "new"),
    "l_safe": _sub("ℓ", "safe"),
    "alpha": ["mi", "α"],
    "beta": ["mi", "β"],
    "lse": ["mi", "L"],
    "q": ["mi", "Q"],
    "k": ["mi", "K"],
    "v": ["mi", "V"],
    "s": ["mi", "S"],
    "p": _tilde("P"),
    "acc": _tilde("O"),
    "o": ["mi", "O"],
    "o_i": _sub("O", "i"),
    "delta": ["mi", "δ"],
    **{f"d{name}": ["mi", f"d{name.upper()}"] for name in "oqkvps"},
}

_IN_HBM = {name: tree[1] for name, tree in SYMBOLS.items() if tree[0] == "mi"} | {"p": "P", "l": "ℓ", "x": "X"}


def quantity(buffer: str) -> str:
    """What a buffer in HBM holds, as formulas write it: "dK", "δ"; the buffer's own name if they have no symbol for it.

    The exponentials that are kept there are divided by ℓ: P, not P̃.
    """
    return _IN_HBM.get(buffer, buffer)


_FUNCTIONS: Mapping[str, Tree] = {
    **{name: ["mi", name] for name in ("exp", "sqrt", "rsqrt", "abs", "cdiv")},
    "exp2": ["msub", ["mi", "exp"], ["mn", "2"]],
    "log": ["mi", "ln"],
    "log2": ["msub", ["mi", "log"], ["mn", "2"]],
    "maximum": ["mi", "max"],
    "minimum": ["mi", "min"],
}
_OPERATORS: Mapping[type[ast.AST], tuple[str, int]] = {
    ast.BitAnd: ("∧", 1), ast.And: ("∧", 1), ast.BitOr: ("∨", 1), ast.Or: ("∨", 1),
    ast.Lt: ("<", 2), ast.LtE: ("≤", 2), ast.Gt: (">", 2), ast.GtE: ("≥", 2), ast.Eq: ("==", 2), ast.NotEq: ("≠", 2),
    ast.Add: ("+", 3), ast.Sub: ("−", 3), ast.Mult: ("·", 4), ast.FloorDiv: ("div", 4), ast.Mod: ("mod", 4),
}  # fmt: skip
_ATOM = 9


@dataclass(frozen=True)
class Equation:
    """A statement's effect: `plain` is variable = formula, or variable ← formula where the formula has the variable;
    `numbers` is the same for one element, or None.
    """

    variable: str
    plain: Tree
    numbers: Tree | None


def equations(text: str, first_line: int = 1) -> dict[int, Equation]:
    """The equations of a function's source, by the line its statement starts on; `first_line` is that of the `def`.

    Statements that load, compute pointers or call other functions have no equation.
    """
    try:
        tree = ast.parse(textwrap.dedent(text))
    except SyntaxError:
        return {}
    found: dict[int, Equation] = {}
    made = [(statement.lineno, *one) for statement in ast.walk(tree) if isinstance(statement, ast.stmt)
            for one in _assignments(statement)]  # fmt: skip
    divided = any(variable == "p" and _is_divided(value) for _, variable, value in made)
    symbols = {**SYMBOLS, "p": ["mi", "P"]} if divided else SYMBOLS
    for line, variable, value in made:
        try:
            found.setdefault(first_line + line - 1, _Writer(variable, symbols).equation(value))
        except _NoEquationError:
            continue
    return found


def _is_divided(p: ast.expr) -> bool:
    """Whether these exponentials are weights, already divided by ℓ: made from L, or loaded as such."""
    names = [node.id for node in ast.walk(p) if isinstance(node, ast.Name)]
    return any(name.startswith(("lse", "p_ptr")) for name in names)


class _NoEquationError(Exception):
    """The statement moves data, or uses something that an equation cannot show."""


def _assignments(statement: ast.stmt) -> Iterator[tuple[str, ast.expr]]:
    match statement:
        case (
            ast.Assign(targets=[ast.Name(id=name)], value=value)
            | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
        ):
            yield name, value
        case ast.AugAssign(target=ast.Name(id=name) as target, op=op, value=value):
            yield name, ast.BinOp(ast.Name(target.id, ast.Load()), op, value)


@dataclass(frozen=True)
class _Part:
    """A piece of a formula, as symbols and as numbers; `filled` if the numbers have a place to fill in."""

    plain: Tree
    numbers: Tree
    binds: int = _ATOM
    filled: bool = False


def _joined(pieces: Sequence[_Part | str], binds: int = _ATOM) -> _Part:
    """The pieces side by side; a text is an operator."""
    plain: Tree = ["mrow", *(["mo", piece] if isinstance(piece, str) else piece.plain for piece in pieces)]
    numbers: Tree = ["mrow", *(["mo", piece] if isinstance(piece, str) else piece.numbers for piece in pieces)]
    return _Part(plain, numbers, binds, any(isinstance(piece, _Part) and piece.filled for piece in pieces))


def _text(words: str) -> _Part:
    # MathML drops plain spaces at the ends of a text.
    spaced = f"{words}\u00a0" if words.startswith(",") else f"\u00a0{words}\u00a0"
    return _Part(["mtext", spaced], ["mtext", spaced])


def _constant(text: str) -> _Part:
    return _Part(["mn", text], ["mn", text])


def _symbol(name: str, symbols: Mapping[str, Tree]) -> Tree:
    if name in symbols:
        return symbols[name]
    if parts := re.fullmatch(r"([A-Za-z])_(\w+)", name):
        return _sub("ℓ" if parts[1] == "l" else parts[1], parts[2])
    return ["mi", name]


def _place(text: str, name: str) -> Tree:
    return ["mn", {"q": name, "or": name}, "{" + text + "}"]


class _Writer:
    """Writes the formula assigned to one variable."""

    def __init__(self, variable: str, symbols: Mapping[str, Tree]) -> None:
        if variable.endswith(("_ptr", "_ptrs")):
            raise _NoEquationError
        self.variable = variable
        self.symbols = symbols

    def equation(self, value: ast.expr) -> Equation:
        formula = self.part(value)
        # No equation holds between a variable and what it was before.
        sign = "←" if any(isinstance(node, ast.Name) and node.id == self.variable for node in ast.walk(value)) else "="
        own = ["mrow", {"q": self.variable}, _symbol(self.variable, self.symbols)]
        plain: Tree = ["mrow", own, ["mo", sign], formula.plain]
        if not formula.filled and not _names_a_variable(formula.plain):
            return Equation(self.variable, plain, None)
        result = [["mo", "="], _place(self.variable, self.variable)]
        worked = [["mo", "="], formula.numbers] if formula.filled and formula.numbers[0] != "mn" else []
        return Equation(self.variable, plain, ["mrow", *worked, *result])

    def part(self, node: ast.expr, along: str = "") -> _Part:
        """The formula of `node`; `along` is "r" or "c" where a vector is spread over a tile's rows or columns."""
        match node:
            case ast.Name(id=name):
                return self.name(name, along)
            case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
                return _constant(f"{value:g}" if abs(value) < 1e5 else str(value))
            case ast.UnaryOp(
                op=ast.USub(), operand=ast.Call(func=ast.Name(id="float"), args=[ast.Constant(value="inf")])
            ):
                return _constant("−∞")
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return _joined(["−", self.inside(operand, 4, along)], 4)
            case ast.BinOp(left=left, op=ast.Div(), right=right):
                over, under = self.part(left, along), self.part(right, along)
                inline = _joined([self.inside(left, 4, along), "/", self.inside(right, 5, along)], 4)
                return _Part(["mfrac", over.plain, under.plain], inline.numbers, 4, inline.filled)
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
                sign, binds = _OPERATORS[type(op)]
                return _joined([self.inside(left, binds, along), sign, self.inside(right, binds + 1, along)], binds)
            case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _OPERATORS:
                sign, binds = _OPERATORS[type(op)]
                return _joined([self.inside(left, binds + 1, along), sign, self.inside(right, binds + 1, along)], binds)
            case ast.Subscript(value=value, slice=ast.Tuple(elts=[ast.Slice(), ast.Constant(value=None)])):
                return self.part(value, "r")
            case ast.Subscript(value=value, slice=ast.Tuple(elts=[ast.Constant(value=None), ast.Slice()])):
                return self.part(value, "c")
            case ast.Attribute(value=value, attr="T"):
                return self.transposed(value)
            case ast.Call(func=ast.Attribute(value=value, attr="to")):
                return self.part(value, along)
            case ast.Call(func=ast.Attribute(attr=function) | ast.Name(id=function), args=arguments, keywords=keywords):
                named = {keyword.arg: keyword.value for keyword in keywords if keyword.arg}
                return self.call(function, arguments, named, along)
        raise _NoEquationError

    def inside(self, node: ast.expr, binds: int, along: str = "") -> _Part:
        """The formula of `node`, in parentheses if its operator binds less tightly than `binds`."""
        part = self.part(node, along)
        return part if part.binds >= binds else _joined(["(", part, ")"])

    def name(self, name: str, along: str) -> _Part:
        if name.endswith(("_ptr", "_ptrs")):
            raise _NoEquationError
        old = "old" if name == self.variable else ""
        place = f"{name}:{old}:{along}".rstrip(":")
        return _Part(["mrow", {"q": name}, _symbol(name, self.symbols)], _place(place, name), filled=True)

    def transposed(self, node: ast.expr) -> _Part:
        part = self.part(node)
        return _Part(["msup", part.plain, ["mi", "T"]], ["msup", part.plain, ["mi", "T"]])

    def call(self, function: str, arguments: list[ast.expr], named: dict[str, ast.expr], along: str) -> _Part:
        match function, arguments:
            case _ if function in _FUNCTIONS:
                return self.applied(_FUNCTIONS[function], arguments, along)
            case (("max" | "min"), [_, second, *_]) if not _is_axis(second):
                return self.applied(["mi", function], arguments, along)
            case (("max" | "min" | "sum"), [value, *rest]):
                return self.reduction(function, value, named.get("axis", rest[0] if rest else None))
            case "where", [condition, yes, no]:
                then, other = self.part(yes, along), self.part(no, along)
                words = [then, _text("where"), self.part(condition, along), _text(", else"), other]
                return _joined(words, 0)
            case "dot", [left, right, *rest]:
                matmul = self.matmul(left, right)
                added = named.get("acc", rest[0] if rest else None)
                return _joined([self.part(added), "+", matmul], 3) if added else matmul
            case "trans", [value]:
                return self.transposed(value)
            case (("zeros" | "zeros_like"), _):
                return _constant("0")
            case (("full" | "full_like"), [_, value, *_]):
                return self.part(value)
            case "float", [ast.Constant(value=str(text))]:
                return _constant({"inf": "∞", "-inf": "−∞"}.get(text, "NaN"))
            case "arange", [start, stop]:
                first, last = self.part(start), self.inside(stop, 3)
                return _joined(["[", first, _text(", …,"), last, "−", _constant("1"), "]"])
            case "program_id", [ast.Constant(value=int(axis))]:
                return _Part(_sub("program", str(axis)), _place(f"pid|{axis}", f"program {axis}"), filled=True)
        raise _NoEquationError

    def applied(self, function: Tree, arguments: list[ast.expr], along: str) -> _Part:
        listed: list[_Part | str] = []
        for argument in arguments:
            listed += [",", self.part(argument, along)] if listed else [self.part(argument, along)]
        return _joined([_Part(function, function), "(", *listed, ")"])

    def reduction(self, function: str, value: ast.expr, axis: ast.expr | None) -> _Part:
        over_rows = isinstance(axis, ast.Constant) and axis.value == 1
        name = f"row{function}" if over_rows else "Σ" if function == "sum" else function
        part = self.part(value)
        symbols: Tree = ["mrow", ["mo", "Σ"] if name == "Σ" else ["mi", name], ["mo", "("], part.plain, ["mo", ")"]]
        if isinstance(value, ast.Name):
            return _Part(symbols, _place(f"{function}|{value.id}|{int(over_rows)}", value.id), filled=True)
        return _Part(symbols, symbols)

    def matmul(self, left: ast.expr, right: ast.expr) -> _Part:
        first, second = self.inside(left, 4), self.inside(right, 4)
        symbols: Tree = ["mrow", first.plain, second.plain]
        names = [_bare_name(left), _bare_name(right)]
        if names[0] and names[1] and not names[0][1]:
            turned = "T" if names[1][1] else ""
            number = ["mn", {"or": f"{names[0][0]}·{names[1][0]}"}, f"{{dot|{names[0][0]}|{names[1][0]}|{turned}}}"]
            return _Part(symbols, number, 4, filled=True)
        return _Part(symbols, symbols, 4)


def _names_a_variable(tree: Tree) -> bool:
    return not isinstance(tree, str) and any(
        "q" in child if isinstance(child, dict) else _names_a_variable(child) for child in tree
    )


def _is_axis(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value in (0, 1, 2)


def _bare_name(node: ast.expr) -> tuple[str, bool] | None:
    """The variable without conversions and transposition, and whether it is transposed."""
    match node:
        case ast.Name(id=name):
            return name, False
        case ast.Call(func=ast.Attribute(value=value, attr="to")):
            return _bare_name(value)
        case (
            ast.Call(func=ast.Attribute(attr="trans"), args=[ast.Name(id=name)])
            | ast.Attribute(value=ast.Name(id=name), attr="T")
        ):
            return name, True
    return None
