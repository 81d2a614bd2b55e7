"""Rewrites a Triton function to report each line after it ran.

The interpreter rewrites a kernel's syntax tree before it runs it; this adds one call after each statement. A Python
tracer (sys.settrace) would also trace every call inside the interpreter, about a hundred times as many.

A report has only the names that its statement binds, so the cost of a step does not grow with the number of variables.
Values are not copied, because the interpreter creates a new array for each result. (The exceptions in 3.5 to 3.7 do no
harm: `create_ashr` rebinds a handle to an array of equal bits, and `create_advance` and a reversed scan write to arrays
that no variable holds yet.)
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import FunctionType
from typing import Any, NamedTuple, Protocol, cast
from weakref import WeakKeyDictionary

from triton import language as tl

from explain.trace.model import Source
from explain.trace.semantics import RULES, types_of
from explain.trace.syntax import Syntax

PROJECT = Path(__file__).resolve().parents[2]
PREFIX = "_tilescope_"
HOOKS = ("enter", "step", "mark", "fail", "leave")
SITES = f"{PREFIX}sites"
TYPES = f"{PREFIX}types"
BOOLEANS = {ast.And: ("stops_and", "both"), ast.Or: ("stops_or", "either")}


class Site(NamedTuple):
    """A place in the source that reports: the function, the line, and the names of the reported variables."""

    source: Source
    line: int
    names: tuple[str, ...]


class Tape(Protocol):
    """Receives the reports. `mark` is `step` inside an expression, and returns the expression's value."""

    def enter(self, site: Site, *values: object) -> None: ...
    def step(self, site: Site, *values: object) -> None: ...
    def mark(self, site: Site, value: object, *values: object) -> object: ...
    def fail(self, site: Site, error: BaseException) -> None: ...
    def leave(self) -> None: ...


@dataclass(frozen=True)
class Instrumented:
    """A rewritten function that is not yet bound to a tape."""

    source: Source
    sites: tuple[Site, ...]
    make: Callable[..., FunctionType]

    def bind(self, fn: Callable[..., Any], tape: Tape | None) -> Callable[..., Any]:
        """The rewritten form of `fn`, the function this was made from; it reports to `tape`, if it reports.

        It shares `fn`'s defaults and enclosing variables, since neither can be evaluated again.
        """
        hooks = {PREFIX + name: getattr(tape, name, None) for name in HOOKS}
        rules = {PREFIX + name: rule for name, rule in RULES.items()}
        rules[f"{PREFIX}types_of"] = partial(types_of, {})  # they are of this run
        enclosing = _enclosing(fn)
        made = self.make(**hooks, **rules, **{SITES: self.sites}, **dict.fromkeys(enclosing))
        code = made.__code__
        cells = dict(zip(code.co_freevars, made.__closure__ or (), strict=True)) | enclosing
        closure = tuple(cells[name] for name in code.co_freevars)
        bound = FunctionType(code, made.__globals__, made.__name__, cast(Any, fn).__defaults__, closure)
        bound.__kwdefaults__ = cast(Any, fn).__kwdefaults__
        # The interpreter only looks for constexpr; annotations may be strings.
        constexprs = (name for name, annotation in fn.__annotations__.items() if "constexpr" in str(annotation))
        bound.__annotations__ = dict.fromkeys(constexprs, tl.constexpr)
        return bound


_instrumented: WeakKeyDictionary[Callable[..., Any], dict[bool, Instrumented | None]] = WeakKeyDictionary()


def instrument(fn: Callable[..., Any], reporting: bool = True) -> Instrumented | None:
    """The rewritten form of a Triton function, with or without reports; None if its source cannot be read.

    It is cached as long as `fn` lives, apart from the interpreter's own cache of rewritten functions.
    """
    forms = _instrumented.setdefault(fn, {})
    if reporting not in forms:
        forms[reporting] = _rewrite(fn, reporting)
    return forms[reporting]


def _rewrite(fn: Callable[..., Any], reporting: bool) -> Instrumented | None:
    try:
        lines, start = inspect.getsourcelines(fn)
    except (OSError, TypeError):
        return None
    skipped = next((k for k, line in enumerate(lines) if line.lstrip().startswith("def ")), None)
    if skipped is None:
        return None
    first_line = start + skipped
    text = textwrap.dedent("".join(lines[skipped:]))
    file = inspect.getfile(fn)
    tree = ast.parse(text)
    ast.increment_lineno(tree, first_line - 1)
    function = tree.body[0]
    assert isinstance(function, ast.FunctionDef)
    spans = _Spans(first_line, text.splitlines())
    source = Source(fn.__name__, _shown(file), first_line, text, spans.of(function))
    rewriter = _Rewriter(source, Syntax(fn, function), reporting)
    code = compile(rewriter.maker(function, list(_enclosing(fn))), file, "exec")
    namespace: dict[str, Any] = {}
    # The hooks are parameters of a maker function, so the globals of the kernel's module stay unchanged.
    exec(code, fn.__globals__, namespace)
    return Instrumented(source, tuple(rewriter.sites), namespace[f"{PREFIX}make"])


def _enclosing(fn: Any) -> dict[str, Any]:
    """The cells of the variables that `fn` takes from enclosing functions, by name."""
    return dict(zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True))


def _shown(file: str) -> str:
    path = Path(file).resolve()
    return path.relative_to(PROJECT).as_posix() if path.is_relative_to(PROJECT) else path.name


class _Rewriter(ast.NodeTransformer):
    """Rewrites one function: gives its syntax the compiler's semantics, and adds the reports."""

    def __init__(self, source: Source, syntax: Syntax, reporting: bool) -> None:
        self.source = source
        self.syntax = syntax
        self.reporting = reporting
        self.sites: list[Site] = []
        self.loops: list[ast.stmt] = []  # those around the statement
        self.temporaries = 0

    def maker(self, function: ast.FunctionDef, enclosing: Sequence[str]) -> ast.Module:
        function.decorator_list = []
        arguments = function.args
        every = [*arguments.posonlyargs, *arguments.args, arguments.vararg, *arguments.kwonlyargs, arguments.kwarg]
        names = [argument.arg for argument in every if argument is not None]
        # `bind` sets the real defaults; their names may not exist here.
        arguments.defaults = [ast.Constant(None) for _ in arguments.defaults]
        arguments.kw_defaults = [default and ast.Constant(None) for default in arguments.kw_defaults]
        for argument in every:
            if argument is not None:
                argument.annotation = None
        function.returns = None
        entered = self.report("enter", function, names)
        types = ast.Assign([ast.Name(TYPES, ast.Store())], _call("types_of", *map(_name, names)))
        body = [types, *self.refused(function.body), *self.block(function.body)]
        function.body = self.guarded(function, entered, body) if self.reporting else body
        parameters = [PREFIX + name for name in (*HOOKS, *RULES)] + [SITES, *enclosing]
        (make,) = ast.parse(f"def {PREFIX}make(): pass").body
        assert isinstance(make, ast.FunctionDef)
        make.args.args = [ast.arg(name) for name in parameters]
        make.body = [function, ast.Return(_name(function.name))]
        return ast.fix_missing_locations(ast.Module(body=[make], type_ignores=[]))

    def guarded(self, function: ast.FunctionDef, entered: ast.expr, body: list[ast.stmt]) -> list[ast.stmt]:
        """The body between the reports of entering and leaving; a failure is reported where it happened."""
        error = f"{PREFIX}error"
        failed = self.site("fail", function, [], _name(error))
        handler = ast.ExceptHandler(_name("BaseException"), error, [ast.Expr(failed), ast.Raise()])
        leave = ast.Expr(_call("leave"))
        return [ast.Expr(entered), ast.Try(body=body, handlers=[handler], orelse=[], finalbody=[leave])]

    def block(self, statements: Sequence[ast.stmt]) -> list[ast.stmt]:
        return [part for statement in statements for part in self.statement(statement)]

    def statement(self, node: ast.stmt) -> Iterator[ast.stmt]:
        match node:
            case ast.Expr(value=ast.Constant()):  # a docstring: nothing is executed
                yield node
            case ast.For() | ast.While():
                yield from self.loop(node)
            case ast.If():
                # Reported after the test was evaluated, whatever its result: the test may load.
                refusals = [self.syntax.refusal(branch) for branch in (node.body, node.orelse)]
                why = next((words for _, words in filter(None, refusals)), self.returns_in_loop(node))
                branches = self.temporary()
                made, check, lost = self.branches(node, branches)
                test = self.marked(self.visit(node.test), node)
                node.test = _call("condition", test, ast.Constant(why), _name(branches))
                node.body = [*self.refused(node.body), *self.block(node.body)]
                node.orelse = [*self.refused(node.orelse), *self.block(node.orelse)]
                yield made
                yield check
                yield node
                yield check
                yield from lost
            case ast.With():
                node.items = [self.visit(item) for item in node.items]
                names = [n for item in node.items if item.optional_vars for n in _bound(item.optional_vars)]
                node.body = [*self.step(node, names), *self.block(node.body)]
                yield node
            case ast.Return(value=ast.expr() as value):
                node.value = self.marked(self.visit(value), node)
                yield node
            case ast.Return() | ast.Pass():
                yield from self.step(node, [])
                yield node
            case _:
                names = _assigned(node)
                yield self.visit(node)
                yield from self.step(node, names)

    def refused(self, statements: Sequence[ast.stmt]) -> list[ast.stmt]:
        """A statement that raises, at the line of what the compiler refuses in this block; none if it accepts it."""
        if (found := self.syntax.refusal(statements)) is None:
            return []
        node, words = found
        raised = ast.Expr(_call("refuse", ast.Constant(words)))
        return [ast.fix_missing_locations(ast.copy_location(raised, node))]

    def returns_in_loop(self, node: ast.If) -> str:
        if self.loops and any(isinstance(part, ast.Return) for part in ast.walk(node)):
            return f"line {node.lineno}: `return` inside a loop, where the condition is computed, cannot be compiled"
        return ""

    def branches(self, node: ast.If, name: str) -> tuple[ast.stmt, ast.stmt, list[ast.stmt]]:
        """The making of a `Branches`, its call with the values of what the branches assign, and what is lost after."""
        then, other = set(_left(node.body)), set(_left(node.orelse))
        inner = {name for part in (*node.body, *node.orelse) for one in ast.walk(part) for name in _assigned(one)}
        returns = any(isinstance(part, ast.Return) for part in ast.walk(node))  # visit_if_top_level: it ends there
        names = [] if returns else sorted(inner | then | other)
        arguments = [ast.Constant(node.lineno), *map(ast.Constant, names)]
        made = ast.Assign([ast.Name(name, ast.Store())], _call("Branches", _name(TYPES), *arguments))
        check = ast.Expr(ast.Call(_name(name), [_variables()], []))
        lost = [_forgotten(name, one) for one in names if (one in then) != (one in other)]
        for part in (made, check, *lost):
            ast.copy_location(part, node)
        return made, check, lost

    def loop(self, node: ast.For | ast.While) -> Iterator[ast.stmt]:
        """The loop, and the check of what it carries: `Carried` sees the variables at each start and at the end."""
        carried = self.temporary()
        target = _bound(node.target) if isinstance(node, ast.For) else []
        assigned = dict.fromkeys(name for part in node.body for inner in ast.walk(part) for name in _binds(inner))
        names = [name for name in assigned if name not in target]
        test = ast.Call(_name(carried), [_variables()], [])
        forgotten = [_forgotten(carried, name) for name in names]
        check = ast.If(test, forgotten, []) if names else ast.Expr(test)
        made = ast.Assign([ast.Name(carried, ast.Store())], _call("Carried", *map(ast.Constant, names)))
        if isinstance(node, ast.For):
            header = node.iter
            assert isinstance(header, ast.Call) or self.syntax.refusal([node])
            if isinstance(header, ast.Call):
                visited = [self.visit(part) for part in (header.func, *header.args)]
                node.iter = _call("loop", _name(carried), *visited)
                node.iter.keywords = [self.visit(keyword) for keyword in header.keywords]
            report = self.step(node, target)
        else:
            node.test = _call("going_on", self.marked(self.visit(node.test), node))
            report = []
        self.loops.append(node)
        body = self.block(node.body)
        self.loops.pop()
        node.body = [*report, check, *body]
        node.orelse = [check]
        for part in (made, check):
            ast.copy_location(part, node)
        yield made
        yield node

    # The compiler's semantics

    def temporary(self) -> str:
        self.temporaries += 1
        return f"{PREFIX}{self.temporaries}"

    def visit_Assign(self, node: ast.Assign) -> ast.stmt:
        node.value = _call("assign", self.visit(node.value))
        return node

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.stmt:
        if not isinstance(node.target, ast.Name):
            return node
        value = ast.BinOp(_name(node.target.id), node.op, self.visit(node.value))
        return ast.copy_location(ast.Assign([node.target], _call("assign", value)), node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.stmt:
        if node.value is not None:
            constant = "constexpr" in ast.unparse(node.annotation)
            node.value = self.visit(node.value) if constant else _call("assign", self.visit(node.value))
        return node

    def visit_Assert(self, node: ast.Assert) -> ast.stmt:
        parts = [self.visit(part) for part in (node.test, node.msg) if part is not None]
        return ast.copy_location(ast.Expr(_call("asserts", *parts)), node)

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        stops, joined = BOOLEANS[type(node.op)]
        *firsts, value = [self.visit(part) for part in node.values]
        for first in reversed(firsts):
            kept = self.temporary()
            test = _call(stops, ast.NamedExpr(ast.Name(kept, ast.Store()), first))
            value = ast.IfExp(test, _name(kept), _call(joined, _name(kept), value))
        return ast.copy_location(value, node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        self.generic_visit(node)
        return ast.copy_location(_call("negated", node.operand), node) if isinstance(node.op, ast.Not) else node

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        place = ast.Tuple([ast.Constant(node.lineno), ast.Constant(node.col_offset)], ast.Load())
        numbers = [ast.copy_location(ast.Constant(number), side) for side in (node.body, node.orelse)
                   if (number := _number(side)) is not None]  # fmt: skip
        self.generic_visit(node)
        kept = self.temporary()
        test, node.test = node.test, _call("condition", _name(kept))
        kept_test = ast.NamedExpr(ast.Name(kept, ast.Store()), test)
        return ast.copy_location(_call("ternary", _name(TYPES), place, kept_test, node, *numbers), node)

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        node.args.insert(0, node.func)
        node.func = _name(f"{PREFIX}call")
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        self.generic_visit(node)
        constants = node.attr == "value" and isinstance(node.ctx, ast.Load)
        return ast.copy_location(_call("value_of", node.value), node) if constants else node

    # The reports

    def step(self, node: ast.stmt, names: Sequence[str]) -> list[ast.stmt]:
        return [ast.copy_location(ast.Expr(self.report("step", node, names)), node)] if self.reporting else []

    def marked(self, value: ast.expr, node: ast.stmt) -> ast.expr:
        return self.report("mark", node, [], value) if self.reporting else value

    def report(self, hook: str, node: ast.stmt, names: Sequence[str], *first: ast.expr) -> ast.expr:
        return self.site(hook, node, names, *first, *map(_name, names))

    def site(self, hook: str, node: ast.stmt, names: Sequence[str], *values: ast.expr) -> ast.expr:
        site = ast.Subscript(_name(SITES), ast.Constant(len(self.sites)), ast.Load())
        self.sites.append(Site(self.source, node.lineno, tuple(names)))
        return ast.copy_location(_call(hook, site, *values), node)


def _name(name: str) -> ast.expr:
    return ast.Name(name, ast.Load())


def _call(hook: str, *arguments: ast.expr) -> ast.Call:
    return _call_plain(PREFIX + hook, *arguments)


def _call_plain(function: str, *arguments: ast.expr) -> ast.Call:
    return ast.Call(_name(function), list(arguments), [])


def _call_on(value: ast.expr, method: str, *arguments: ast.expr) -> ast.expr:
    return ast.Call(ast.Attribute(value, method, ast.Load()), list(arguments), [])


def _variables() -> ast.expr:
    return _call_plain("locals")


def _forgotten(check: str, name: str) -> ast.stmt:
    """Deletes a variable if the `Branches` or the `Carried` of this name says that it is lost."""
    lost = _call_on(_name(check), "lost", ast.Constant(name), _variables())
    return ast.If(lost, [ast.Delete([ast.Name(name, ast.Del())])], [])


def _number(node: ast.expr) -> int | float | None:
    """The number that an expression is, if it is one as it is written."""
    with suppress(ValueError, TypeError):
        return value if isinstance(value := ast.literal_eval(node), int | float) else None
    return None


def _bound(target: ast.expr) -> list[str]:
    """The names that an assignment to `target` binds; an attribute or an item binds none."""
    match target:
        case ast.Name(id=name):
            return [name]
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            return [name for part in parts for name in _bound(part)]
        case ast.Starred(value=value):
            return _bound(value)
    return []


def _left(block: Sequence[ast.stmt]) -> Iterator[str]:
    """The new names that a block leaves: those of a loop's body end with each iteration, unless it is unrolled."""
    for node in block:
        yield from _binds(node)
        rolled = isinstance(node, ast.While) or (isinstance(node, ast.For) and "static_range" not in _header(node))
        for part in () if rolled else ("body", "orelse"):
            yield from _left(getattr(node, part, []))


def _header(node: ast.For) -> str:
    return ast.unparse(node.iter.func if isinstance(node.iter, ast.Call) else node.iter)


def _assigned(node: ast.AST) -> list[str]:
    match node:
        case ast.Assign(targets=targets):
            return [name for target in targets for name in _bound(target)]
        case ast.AugAssign(target=target):
            return _bound(target)
        case ast.AnnAssign(target=target, value=ast.expr()):
            return _bound(target)
    return []


def _binds(node: ast.AST) -> list[str]:
    """The names that a statement binds: it assigns them, or is a loop or a `with` over them."""
    match node:
        case ast.For(target=target):
            return _bound(target)
        case ast.With(items=items):
            return [name for item in items if item.optional_vars for name in _bound(item.optional_vars)]
    return _assigned(node)


class _Spans:
    """Finds the statements of a function that span several lines."""

    def __init__(self, first_line: int, lines: Sequence[str]) -> None:
        self.first_line = first_line
        self.lines = lines

    def of(self, function: ast.FunctionDef) -> dict[int, int]:
        inner = [node for node in ast.walk(function) if isinstance(node, ast.stmt)]
        last = {node.lineno: self.last_line(node) for node in inner}
        return {first: last[first] for first in sorted(last) if last[first] > first}

    def last_line(self, node: ast.stmt) -> int:
        body = getattr(node, "body", None)
        if not body:
            return node.end_lineno or node.lineno
        # A header ends at its colon, which the syntax tree does not contain.
        for number in range(node.lineno, body[0].lineno):
            if self.lines[number - self.first_line].partition("#")[0].rstrip().endswith(":"):
                return number
        return node.lineno
