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
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType
from typing import Any, NamedTuple, Protocol, cast
from weakref import WeakKeyDictionary

from triton import language as tl
from triton.runtime import interpreter

from explain.trace.model import Source

PROJECT = Path(__file__).resolve().parents[2]
HOOKS = ("interpreter_semantic", "_tilescope_enter", "_tilescope_step", "_tilescope_mark", "_tilescope_leave")
SITES = "_tilescope_sites"
UNBOUND = "_tilescope_unbound"


class Site(NamedTuple):
    """A place in the source that reports: the function, the line, and the names of the reported variables."""

    source: Source
    line: int
    names: tuple[str, ...]


class Unbound:
    """The value of a walrus variable in a report, if its part of the expression was not evaluated."""


class Tape(Protocol):
    """Receives the reports. `mark` is `step` inside an expression, and returns the expression's value."""

    def enter(self, site: Site, *values: object) -> None: ...
    def step(self, site: Site, *values: object) -> None: ...
    def mark(self, site: Site, value: object, *values: object) -> object: ...
    def leave(self) -> None: ...


class Silent:
    """A tape that discards every report."""

    def enter(self, site: Site, *values: object) -> None: ...
    def step(self, site: Site, *values: object) -> None: ...
    def leave(self) -> None: ...

    def mark(self, site: Site, value: object, *values: object) -> object:
        return value


@dataclass(frozen=True)
class Instrumented:
    """A rewritten function that is not yet bound to a tape."""

    source: Source
    sites: tuple[Site, ...]
    make: Callable[..., FunctionType]

    def bind(self, fn: Callable[..., Any], tape: Tape) -> Callable[..., Any]:
        """The rewritten form of `fn`, the function this was made from; it reports to `tape`.

        It shares `fn`'s defaults and enclosing variables, since neither can be evaluated again.
        """
        hooks = (interpreter.interpreter_semantic, tape.enter, tape.step, tape.mark, tape.leave)
        enclosing = _enclosing(fn)
        made = self.make(*hooks, self.sites, Unbound, **dict.fromkeys(enclosing))
        code = made.__code__
        cells = dict(zip(code.co_freevars, made.__closure__ or (), strict=True)) | enclosing
        closure = tuple(cells[name] for name in code.co_freevars)
        bound = FunctionType(code, made.__globals__, made.__name__, cast(Any, fn).__defaults__, closure)
        bound.__kwdefaults__ = cast(Any, fn).__kwdefaults__
        # The interpreter only looks for constexpr; annotations may be strings.
        constexprs = (name for name, annotation in fn.__annotations__.items() if "constexpr" in str(annotation))
        bound.__annotations__ = dict.fromkeys(constexprs, tl.constexpr)
        return bound


_instrumented: WeakKeyDictionary[Callable[..., Any], Instrumented | None] = WeakKeyDictionary()


def instrument(fn: Callable[..., Any]) -> Instrumented | None:
    """The rewritten form of a Triton function; None if its source cannot be read.

    It is cached as long as `fn` lives, apart from the interpreter's own cache of rewritten functions.
    """
    if fn not in _instrumented:
        _instrumented[fn] = _rewrite(fn)
    return _instrumented[fn]


def _rewrite(fn: Callable[..., Any]) -> Instrumented | None:
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
    rewriter = _Rewriter(source)
    code = compile(rewriter.maker(function, list(_enclosing(fn))), file, "exec")
    namespace: dict[str, Any] = {}
    # The hooks are parameters of a maker function, so the globals of the kernel's module stay unchanged.
    exec(code, fn.__globals__, namespace)
    return Instrumented(source, tuple(rewriter.sites), namespace["_tilescope_make"])


def _enclosing(fn: Any) -> dict[str, Any]:
    """The cells of the variables that `fn` takes from enclosing functions, by name."""
    return dict(zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True))


def _shown(file: str) -> str:
    path = Path(file).resolve()
    return path.relative_to(PROJECT).as_posix() if path.is_relative_to(PROJECT) else path.name


class _Rewriter(interpreter.ASTTransformer):  # type: ignore[misc]  # visit_Assign is Triton's
    """Adds the reports to one function. The base class, Triton's own transformation, still applies."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.sites: list[Site] = []

    def maker(self, function: ast.FunctionDef, enclosing: Sequence[str]) -> ast.Module:
        function.decorator_list = []
        arguments = function.args
        every = [*arguments.posonlyargs, *arguments.args, arguments.vararg, *arguments.kwonlyargs, arguments.kwarg]
        names = [argument.arg for argument in every if argument is not None]
        # `bind` sets the real defaults; their names may not exist here.
        arguments.defaults = [ast.Constant(None) for _ in arguments.defaults]
        arguments.kw_defaults = [default and ast.Constant(None) for default in arguments.kw_defaults]
        enter = self.report("_tilescope_enter", function, names)
        leave = ast.Expr(_call("_tilescope_leave"))
        body = ast.Try(body=self.block(function.body), handlers=[], orelse=[], finalbody=[leave])
        function.body = [ast.Expr(enter), body]
        parameters = [ast.arg(name) for name in (*HOOKS, SITES, UNBOUND, *enclosing)]
        (make,) = ast.parse("def _tilescope_make(): pass").body
        assert isinstance(make, ast.FunctionDef)
        make.args.args = parameters
        make.body = [function, ast.Return(_name(function.name))]
        return ast.fix_missing_locations(ast.Module(body=[make], type_ignores=[]))

    def block(self, statements: Sequence[ast.stmt]) -> list[ast.stmt]:
        return [out for statement in statements for out in self.statement(statement)]

    def statement(self, node: ast.stmt) -> Iterator[ast.stmt]:
        match node:
            case ast.Expr(value=ast.Constant()):  # a docstring: nothing is executed
                yield node
            case ast.FunctionDef() | ast.ClassDef():  # not in Triton: unchanged
                yield node
            case ast.For():
                node.body = [self.step(node, _bound(node.target), _walrus(node.iter)), *self.block(node.body)]
                node.orelse = self.block(node.orelse)
                yield node
            case ast.While() | ast.If():
                # Reported after the test was evaluated, whatever its result: the test may load.
                node.test = self.marked(node.test, node)
                node.body = self.block(node.body)
                node.orelse = self.block(node.orelse)
                yield node
            case ast.With():
                names = [n for item in node.items if item.optional_vars for n in _bound(item.optional_vars)]
                node.body = [self.step(node, names), *self.block(node.body)]
                yield node
            case ast.Return(value=ast.expr() as value):
                node.value = self.marked(value, node)
                yield node
            case ast.Return() | ast.Break() | ast.Continue() | ast.Pass() | ast.Raise():
                yield self.step(node, [])
                yield node
            case ast.Assign() | ast.AugAssign() | ast.AnnAssign() | ast.Expr() | ast.Assert() | ast.Delete():
                names, walrus = _assigned(node), _walrus(node)
                yield self.visit(node)
                yield self.step(node, names, walrus)
            case _:
                yield self.nested(node)

    def nested(self, node: ast.stmt) -> ast.stmt:
        """Any other compound statement, which Triton cannot compile: its blocks report, its header does not."""
        holders = [node, *getattr(node, "handlers", []), *getattr(node, "cases", [])]
        for holder in holders:
            for field in ("body", "orelse", "finalbody"):
                if getattr(holder, field, None):
                    setattr(holder, field, self.block(getattr(holder, field)))
        return node

    def step(self, node: ast.stmt, names: Sequence[str], walrus: Sequence[str] = ()) -> ast.stmt:
        statement = ast.Expr(self.report("_tilescope_step", node, names, walrus))
        return ast.copy_location(statement, node)

    def marked(self, value: ast.expr, node: ast.stmt) -> ast.expr:
        return self.report("_tilescope_mark", node, [], _walrus(value), value)

    def report(
        self, hook: str, node: ast.stmt, names: Sequence[str], walrus: Sequence[str] = (), value: ast.expr | None = None
    ) -> ast.expr:
        site = ast.Subscript(_name(SITES), ast.Constant(len(self.sites)), ast.Load())
        self.sites.append(Site(self.source, node.lineno, (*names, *walrus)))
        unsure = [_call_on(_call("locals"), "get", ast.Constant(name), _name(UNBOUND)) for name in walrus]
        first = [] if value is None else [value]
        return ast.copy_location(_call(hook, site, *first, *(_name(name) for name in names), *unsure), node)


def _name(name: str) -> ast.expr:
    return ast.Name(name, ast.Load())


def _call(function: str, *arguments: ast.expr) -> ast.expr:
    return ast.Call(_name(function), list(arguments), [])


def _call_on(value: ast.expr, method: str, *arguments: ast.expr) -> ast.expr:
    return ast.Call(ast.Attribute(value, method, ast.Load()), list(arguments), [])


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


def _assigned(node: ast.stmt) -> list[str]:
    match node:
        case ast.Assign(targets=targets):
            return [name for target in targets for name in _bound(target)]
        case ast.AugAssign(target=target):
            return _bound(target)
        case ast.AnnAssign(target=target, value=ast.expr()):
            return _bound(target)
    return []


def _walrus(node: ast.AST) -> list[str]:
    found = (part.target.id for part in ast.walk(node) if isinstance(part, ast.NamedExpr))
    return list(dict.fromkeys(found))


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
