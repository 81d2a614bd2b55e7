"""Edits of A's statement, each with the cause that it would be: it counts if it gives exactly what B has.

The order of `EDITS` is that of trying, the most telling first.
"""

from __future__ import annotations

import ast
import copy
import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from explain.difference.evaluate import callee, evaluate
from explain.difference.evidence import Evidence, replaced
from explain.difference.replay import value_of
from explain.figures.labels import listed
from explain.figures.numbers import number

Edits = Iterator[tuple[ast.expr, str]]
UNHANDLED = "is missing"
"""What is said of a `where` that B lacks."""
FARTHEST = 4
"""So many elements is the edge of a mask moved."""
_SWAPPED = {"exp": "exp2", "exp2": "exp", "log": "log2", "log2": "log"}
_CONFUSED = {"maximum": ("minimum",), "minimum": ("maximum",), "max": ("min", "sum"), "min": ("max",), "sum": ("max",)}
_ORDERS: Mapping[type[ast.cmpop], tuple[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Lt: (ast.LtE, ast.Gt), ast.LtE: (ast.Lt, ast.GtE), ast.Gt: (ast.GtE, ast.Lt), ast.GtE: (ast.Gt, ast.LtE),
}  # fmt: skip
"""For each comparison: the one with the equal case added or removed, and the one in the other direction."""


def by_edits(evidence: Evidence) -> tuple[str, str] | None:
    """The first edit that gives B's values, unless A's statement itself does: a cause, and the evidence for it.

    Where B has whole numbers that are all 0, and compares nothing, too many edits would.
    """
    expression = evidence.expression
    zeros = all(value.dtype.kind in "iu" and not value.any() for _, value in evidence.samples)
    if (
        expression is None
        or evidence.gives(expression)
        or (zeros and evidence.wrong.kind != "pointer" and not evidence.compares)
    ):
        return None
    line = evidence.right.site[1] if evidence.right else 0
    for edited, words in _edits(expression, evidence):
        if evidence.gives(edited):
            return words, f"with `{ast.unparse(edited)}`, A's line {line} gives exactly B's value"
    return _another_value(expression, evidence)


def _edits(expression: ast.expr, evidence: Evidence) -> Edits:
    """The right expression with one part changed, and the cause that this would be."""
    parts = [*enumerate(ast.walk(expression))][::-1]  # the smallest change first
    for edits in EDITS:
        for place, part in parts:
            for new, words in edits(part, evidence) if isinstance(part, ast.expr) else ():
                yield replaced(expression, place, new), words
    yield from _not_rescaled(expression, evidence)


def _of_form(part: ast.expr, evidence: Evidence) -> Edits:
    said, own = evidence.said, evidence.own
    match part:
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            for kept, lost in ((left, right), (right, left)):
                yield kept, _lost_factor(lost, evidence)
                yield ast.BinOp(part, ast.Mult(), lost), f"{said(lost, 'factor')} is there twice"
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            for kept, lost in ((left, right), (right, left)):
                yield (
                    kept,
                    f"the {said(lost)} so far is not added"
                    if _is_target(lost, evidence)
                    else f"{said(lost)} is not added",
                )
        case ast.BinOp(left=left, op=ast.Sub(), right=right):
            yield left, f"{said(right)} is not subtracted"
            yield ast.BinOp(part, ast.Sub(), right), f"{said(right)} is subtracted twice"
            turned = ast.BinOp(right, ast.Sub(), left)
            yield turned, f"`{own(turned)}` is upside down: its sign is wrong"
        case ast.BinOp(left=left, op=ast.Div(), right=right):
            yield left, f"not divided by {said(right)}"
        case ast.BinOp(left=left, op=ast.BitAnd(), right=right):
            for kept, lost in ((left, right), (right, left)):
                yield kept, f"the mask lacks {said(lost, 'condition', 'on')}"
        case ast.Compare(left=left, ops=[op], comparators=[right]) if evidence.compares:
            made = evaluate(left, evidence.samples[0][0]) if evidence.samples else None
            floats = made is not None and np.asarray(made).dtype.kind == "f"
            for edited in _moved(left, op, right):
                what = "equal numbers go the wrong way in" if floats else "mask off by one: at the edge of"
                yield edited, f"{what} `{own(edited)}`"
    if isinstance(part, ast.Call):
        if _is_rescale(part, evidence):
            place = "" if evidence.secret else f": 1 in place of {said(part)}"
            yield ast.Constant(1.0), f"not rescaled: the factor α = exp(old m − new m) is missing{place}"
        yield from _of_call(part, evidence)


def _moved(left: ast.expr, op: ast.cmpop, right: ast.expr) -> Iterator[ast.expr]:
    """A comparison with its edge moved by one element."""
    if type(op) in _ORDERS:
        yield ast.Compare(left, [_ORDERS[type(op)][0]()], [right])
    for sign in (ast.Add(), ast.Sub()):
        yield ast.Compare(left, [op], [ast.BinOp(right, sign, ast.Constant(1))])


def _of_call(part: ast.Call, evidence: Evidence) -> Edits:
    name, said, arguments = callee(part), evidence.said, part.args
    if name in _SWAPPED and isinstance(part.func, ast.Attribute):
        swapped = ast.Attribute(part.func.value, _SWAPPED[name], ast.Load())
        yield ast.Call(swapped, arguments, []), f"base 2 against base e: {_SWAPPED[name]} in place of {name}"
    for like in evidence.calls.intersection(_CONFUSED.get(name, ())):
        yield ast.Call(_function(like), arguments, part.keywords), f"{like} in place of {name}"
    if name in ("maximum", "minimum") and len(arguments) == 2:
        for kept, lost in (arguments, arguments[::-1]):
            what = "the maximum so far is not kept" if name == "maximum" else "a bound is missing"
            what = "the maximum of this tile is missing" if callee(lost) == "max" else what
            yield kept, f"{what}: {said(lost)} is left out" if evidence.named(lost) else what
    if name == "where" and len(arguments) == 3:
        for kept in arguments[1:]:
            if kept not in _drops(part):
                yield kept, _always(arguments[0], kept, evidence)
    if name == "trans":
        yield arguments[0], f"{said(arguments[0])} is not transposed"
    if name == "gather":
        yield arguments[0], f"{said(arguments[0])} is read at its own places, not at {said(arguments[1])}"
    if name in _CONFUSED and (axis := _axis(part)) is not None:
        rest = [word for word in part.keywords if word.arg != "axis"]
        other = ast.keyword("axis", ast.Constant(1 - axis))
        yield ast.Call(part.func, arguments[:1], [*rest, other]), f"{name} over the wrong axis"
        yield ast.Call(part.func, arguments[:1], rest), f"{name} over all axes, not over one"


def _drops(where: ast.Call) -> list[ast.expr]:
    """The number of a `where` that has a variable beside it: to keep it alone drops the variable."""
    one, other = where.args[1:]
    kept = [mine for mine, its in ((one, other), (other, one)) if not isinstance(its, ast.Constant)]
    return [mine for mine in kept if isinstance(mine, ast.Constant)]


def _always(condition: ast.expr, kept: ast.expr, evidence: Evidence) -> str:
    return f"{evidence.said(condition, 'case', 'that depends on')} {UNHANDLED}: always {evidence.said(kept)}"


def _axis(call: ast.Call) -> int | None:
    """The axis that a reduction names, by its word or as its second argument."""
    for node in (*call.args[1:], *(word.value for word in call.keywords if word.arg == "axis")):
        if isinstance(node, ast.Constant) and isinstance(node.value, int):
            return node.value
    return None


def _lost_factor(lost: ast.expr, evidence: Evidence) -> str:
    inner = lost.value if isinstance(lost, ast.Subscript) else lost
    made = evidence.defined_by(inner.id) if isinstance(inner, ast.Name) else inner
    if made is not None and _is_rescale(made, evidence):
        symbol = _GREEK.get(inner.id, "α") if isinstance(inner, ast.Name) else "α"
        return f"not rescaled: the factor {symbol}, {evidence.said(lost)}, is missing"
    return f"{evidence.said(lost, 'factor')} is missing"


_GREEK = {"beta": "β"}


def _is_target(node: ast.expr, evidence: Evidence) -> bool:
    """Whether an expression of A is the variable that its statement sets: what it held before."""
    return isinstance(node, ast.Name) and evidence.right is not None and node.id == evidence.right.name


def _is_rescale(made: ast.expr, evidence: Evidence) -> bool:
    """Whether an expression is exp(old − new) of two maxima, as α is: both have the same shape."""
    match made:
        case ast.Call(args=[ast.BinOp(left=old, op=ast.Sub(), right=new), *_]) if callee(made) in ("exp", "exp2"):
            held = evidence.samples[0][0] if evidence.samples else {}
            values = [evaluate(side, held) for side in (old, new)]
            shapes = [np.shape(one) for one in values if one is not None]
            return len(shapes) == 2 and shapes[0] == shapes[1]
    return False


def _constants(part: ast.expr, evidence: Evidence) -> Edits:
    if isinstance(part, ast.Constant) or callee(part) == "float":  # −∞ is one thing, not minus float("inf")
        return
    condition = isinstance(part, ast.Compare) or (
        isinstance(part, ast.Subscript) and isinstance(part.value, ast.Compare)
    )
    for value in (0.0, 1.0):
        stands = f"always {'true' if value else 'false'}" if condition else f"{value:g}"
        yield ast.Constant(value), f"{stands} in place of {evidence.said(part, *_NOUN if condition else ())}"


_NOUN = ("condition", "on")


def _other_variables(part: ast.expr, evidence: Evidence) -> Edits:
    if not isinstance(part, ast.Name) or not evidence.samples:
        return
    held = evidence.samples[0][0]
    mine = held.get(part.id)
    for name, value in held.items():
        its = evidence.names.get(name, name)
        if its not in evidence.read_by_b:
            continue  # equal by chance: B's statement does not have it
        if mine is not None and name != part.id and np.shape(value) == np.shape(mine):
            stale = its == evidence.wrong.name
            words = f"stale: `{its}` still has its old value" if stale else f"`{its}` in place of {evidence.said(part)}"
            yield ast.Name(name, ast.Load()), words


def _rarer(part: ast.expr, evidence: Evidence) -> Edits:
    """Another operation on the same parts, another order of them, or a part that counts more than once."""
    said, own = evidence.said, evidence.own
    match part:
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            for kept, term in ((right, left), (left, right)):
                yield ast.BinOp(part, ast.Add(), term), f"{said(term)} is added twice"
                for larger, words in _without_rescale(term, evidence):
                    yield ast.BinOp(kept, ast.Add(), larger), words
            yield ast.BinOp(left, ast.Sub(), right), f"{said(right)} is subtracted, not added"
        case ast.BinOp(left=left, op=ast.Sub(), right=right):
            yield ast.BinOp(left, ast.Add(), right), f"{said(right)} is added, not subtracted"
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            for kept, other in ((left, right), (right, left)):
                yield ast.BinOp(kept, ast.Div(), other), f"divided by {said(other)}, not multiplied with it"
        case ast.BinOp(left=left, op=ast.Div(), right=right):
            yield ast.BinOp(left, ast.Mult(), right), f"multiplied with {said(right)}, not divided by it"
        case ast.BinOp(left=ast.BinOp(left=left, op=ast.Mult(), right=right), op=ast.FloorDiv(), right=by):
            for kept, other in ((left, right), (right, left)):
                first = ast.BinOp(kept, ast.Mult(), ast.BinOp(other, ast.FloorDiv(), by))
                yield first, f"`{own(first)}` divides first: what is left over is lost"
        case ast.Compare(left=left, ops=[op], comparators=[right]) if evidence.compares and type(op) in _ORDERS:
            for turned in (_ORDERS[type(op)][1], _ORDERS[_ORDERS[type(op)][1]][0]):
                edited = ast.Compare(left, [turned()], [right])
                yield edited, f"the mask is on the wrong side of its edge: `{own(edited)}`"
            for count, sign in itertools.product(range(2, FARTHEST + 1), (ast.Add(), ast.Sub())):
                edited = ast.Compare(left, [op], [ast.BinOp(right, sign, ast.Constant(count))])
                yield edited, f"mask off by {count}: at the edge of `{own(edited)}`"
        case ast.Call(func=func, args=arguments, keywords=keywords):
            name = callee(part)
            for like in _CONFUSED.get(name, ()):
                yield ast.Call(_function(like), arguments, keywords), f"{like} in place of {name}"
            if name == "cdiv" and len(arguments) == 2:
                yield (
                    ast.BinOp(arguments[0], ast.FloorDiv(), arguments[1]),
                    "rounded down, not up: the last part is lost",
                )
            if name == "where" and len(arguments) == 3:
                for kept in _drops(part):
                    yield kept, _always(arguments[0], kept, evidence)
                turned_round = [arguments[0], arguments[2], arguments[1]]
                yield ast.Call(func, turned_round, keywords), "the two cases of where are exchanged"
            if name == "dot":
                for place, argument in enumerate(arguments[:2]):
                    across = [*arguments[:place], _call("trans", argument), *arguments[place + 1 :]]
                    yield ast.Call(func, across, keywords), f"{said(argument)} is transposed"
            if name == "program_id":
                for axis in range(3):
                    yield (
                        ast.Call(func, [ast.Constant(axis)], []),
                        f"the program's place along axis {axis}: another axis",
                    )
    if isinstance(part, ast.Name) and _is_float(part, evidence):
        yield _call("abs", part), f"the sign of {said(part)} is lost: abs"


def _too_many(part: ast.expr, evidence: Evidence) -> Edits:
    """A term or a factor that A does not have there: a variable that B's statement reads more often."""
    for op, words in ((ast.Add(), "added to"), (ast.Sub(), "subtracted from"), (ast.Mult(), "multiplied with")):
        for name in evidence.more_often if isinstance(part, ast.Name | ast.BinOp | ast.Call) else ():
            said = f"`{evidence.names[name]}` is {words} {evidence.said(part)}, and should not be"
            yield ast.BinOp(part, op, ast.Name(name, ast.Load())), said


def _function(name: str) -> ast.expr:
    return ast.Attribute(ast.Name("tl", ast.Load()), name, ast.Load())


def _call(name: str, argument: ast.expr) -> ast.Call:
    return ast.Call(_function(name), [argument], [])


def _is_float(part: ast.expr, evidence: Evidence) -> bool:
    made = evaluate(part, evidence.samples[0][0]) if evidence.samples else None
    return made is not None and np.asarray(made).dtype.kind == "f"


def _without_rescale(term: ast.expr, evidence: Evidence) -> Edits:
    """A term divided by a factor exp(old − new) ≤ 1 that A has, and B should, of two of B's variables of its shape."""
    held = evidence.samples[0][0] if evidence.samples else {}
    shape = np.shape(evaluate(term, held))  # type: ignore[arg-type]
    names = [name for name, value in held.items() if name not in evidence.a.constants and np.shape(value) == shape
             and np.asarray(value).dtype.kind == "f"]  # fmt: skip
    for old, new in itertools.permutations(names, 2) if _is_float(term, evidence) else ():
        if not all(np.all(np.less_equal(held[old], held[new])) for held, _ in evidence.samples):
            continue
        power = ast.BinOp(ast.Name(new, ast.Load()), ast.Sub(), ast.Name(old, ast.Load()))
        own = [evidence.names.get(name, name) for name in (old, new)]
        yield (
            ast.BinOp(term, ast.Mult(), _call("exp", power)),
            f"not rescaled: the factor exp({own[0]} − {own[1]}) is missing",
        )


def _not_rescaled(expression: ast.expr, evidence: Evidence) -> Edits:
    """Every factor α left out at once."""
    lost: list[ast.expr] = []

    class Without(ast.NodeTransformer):
        def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
            self.generic_visit(node)
            for kept, factor in ((node.left, node.right), (node.right, node.left)):
                if isinstance(node.op, ast.Mult) and "not rescaled" in _lost_factor(factor, evidence):
                    lost.append(factor)
                    return kept
            return node

    edited = Without().visit(copy.deepcopy(expression))
    if len(lost) > 1:
        yield edited, f"not rescaled: the factors {listed([evidence.said(factor) for factor in lost])} are missing"


def _another_value(expression: ast.expr, evidence: Evidence) -> tuple[str, str] | None:
    """One number in A's statement is another in B; one that is the same at all steps must be so in B too."""
    launched = {name for _, name in evidence.a.named}
    found = []
    for place, part in [*enumerate(ast.walk(expression))][1:]:
        if isinstance(part, ast.Name | ast.BinOp | ast.Call) and getattr(part, "id", "") not in launched:
            pairs = [_solved(expression, place, part, held, value, evidence) for held, value in evidence.samples]
            numbers = [pair for pair in pairs if pair is not None and pair[0] is not None]
            own, its = ({pair[end] for pair in numbers} for end in (0, 1))
            differ = any(pair[0] != pair[1] for pair in numbers)
            if None not in pairs and differ and not len(its) == 1 < len(own):
                named = isinstance(part, ast.Name)
                found.append(((not named, named and len(its) == 1, -place), part, numbers))
    if not found:
        return None
    _, part, numbers = min(found, key=lambda one: one[0])
    own_one, its_one = next(pair for pair in numbers if pair[0] != pair[1])
    words = f"another value of {evidence.said(part)}: {number(float(own_one or 0), 6)} in place of {number(its_one, 6)}"
    return words, "A's statement then gives exactly B's value, at every step"


def _solved(
    expression: ast.expr, place: int, part: ast.expr, held: Mapping[str, Any], value: NDArray[Any], evidence: Evidence
) -> tuple[float | None, float] | None:
    """The number that a part of A's statement must be to give B's value, and what it is; None if no number does.

    The first is None if any number would. Tried where the statement is linear in it: f(t) = f(0) + t (f(1) − f(0)).
    """
    its = evaluate(part, held)
    if its is None or np.size(its) != 1 or np.asarray(its).dtype.kind not in "iuf":
        return None
    whole = np.asarray(its).dtype.kind != "f"
    if not whole and value.size < 2:
        return None
    zero, one = (evidence.made(replaced(expression, place, ast.Constant(n if whole else float(n))), held, value)
                 for n in (0, 1))  # fmt: skip
    if zero is None or one is None:
        return None
    with np.errstate(all="ignore"):
        slope = one.astype(np.float64) - zero.astype(np.float64)
        own = ((value - zero.astype(np.float64)) / slope)[slope != 0]
    if not own.size:
        return (None, float(its)) if evidence.alike(np.asarray(zero), value) else None
    number_of = round(float(np.median(own))) if np.isfinite(own).all() and whole else float(np.median(own))
    made = evidence.made(replaced(expression, place, ast.Constant(number_of)), held, value)
    return (number_of, float(its)) if made is not None and evidence.alike(made, value) else None


def by_code(evidence: Evidence) -> tuple[str, str] | None:
    """What B's statement has in place of one part of A's, if it is A's otherwise, whatever the names."""
    expression, statement = evidence.expression, value_of(evidence.b.statement(evidence.wrong.site))
    if expression is None or statement is None:
        return None
    theirs = {own: its for its, own in evidence.names.items()}
    place, part = _only_change(expression, evidence.renamed(statement, theirs))
    if place and part is not None and evidence.gives(replaced(expression, place, part)):
        its = "another term" if evidence.secret else f"`{ast.unparse([*ast.walk(expression)][place])}`"
        return f"`{evidence.own(part)}` in place of {its}", "the rest of the line is A's"
    return None


def _only_change(one: ast.AST, other: ast.AST) -> tuple[int, ast.expr | None]:
    """The smallest part in which two expressions differ: its place in the first by `ast.walk`, and the other's."""
    at, mine = one, other
    while type(at) is type(mine):
        pairs = [*zip(ast.iter_child_nodes(at), ast.iter_child_nodes(mine), strict=False)]
        apart = [pair for pair in pairs if ast.dump(pair[0]) != ast.dump(pair[1])]
        counts = [len([*ast.iter_child_nodes(node)]) for node in (at, mine)]
        if len(apart) != 1 or counts[0] != counts[1] or not isinstance(apart[0][0], ast.expr):
            break
        at, mine = apart[0]
    place = next(k for k, node in enumerate(ast.walk(one)) if node is at)
    return place, mine if isinstance(mine, ast.expr) else None


EDITS: tuple[Callable[[ast.expr, Evidence], Edits], ...] = (_of_form, _other_variables, _constants, _rarer, _too_many)
