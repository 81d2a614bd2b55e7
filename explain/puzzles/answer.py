"""A reader's answer: a Python file with the kernel of one puzzle. Read without running it."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path

from explain.puzzles.puzzles import Puzzle, puzzles


class AnswerError(Exception):
    """The file is no answer to a puzzle; `line` of it says where, if it is one line."""

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.line = line


@dataclass(frozen=True)
class Answer:
    """A file that has the functions of `puzzle`, with the right parameters."""

    path: Path
    puzzle: Puzzle
    text: str


def read_answer(path: Path) -> Answer:
    """Reads the file and checks its form. Raises AnswerError."""
    try:
        text = path.read_text(encoding="utf-8")
        tree = ast.parse(text)
    except OSError as error:
        raise AnswerError(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise AnswerError(f"{path} is not a text file in UTF-8") from None
    except SyntaxError as error:
        raise AnswerError(f"Python cannot read this line: {error.msg}", error.lineno) from None
    except ValueError as error:  # a null byte
        raise AnswerError(f"Python cannot read {path.name}: {error}") from None
    puzzle = _puzzle(tree, path)
    _check_imports(tree)
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    for name, source in puzzle.solution().items():
        _check_function(name, functions.get(name), source)
    return Answer(path.resolve(), puzzle, text)


def _puzzle(tree: ast.Module, path: Path) -> Puzzle:
    for node in tree.body:
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == "PUZZLE" for t in node.targets):
            name = node.value.value if isinstance(node.value, ast.Constant) else None
            if name not in puzzles():
                raise AnswerError(f"PUZZLE is {ast.unparse(node.value)}; it must be one of {_names()}", node.lineno)
            return puzzles()[str(name)]
    raise AnswerError(f'{path.name} must say which puzzle it answers: PUZZLE = "vector_add", or one of {_names()}')


def _names() -> str:
    return ", ".join(puzzles())


def _check_imports(tree: ast.Module) -> None:
    for node in ast.walk(tree):
        names = [one.name for one in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or "."] if isinstance(node, ast.ImportFrom) else []
        for name in names:
            if name.partition(".")[0] not in ("triton", "__future__", "math"):
                raise AnswerError(f"import {name}: an answer may import triton and math only", node.lineno)  # type: ignore[attr-defined]


def _check_function(name: str, found: ast.FunctionDef | None, source: str) -> None:
    if found is None:
        raise AnswerError(f"there is no function {name}: `python -m explain puzzle start` writes its first lines")
    if "triton.jit" not in map(ast.unparse, found.decorator_list):
        raise AnswerError(f"{name} must be decorated with @triton.jit alone", found.lineno)
    right = ast.parse(source).body[0]
    assert isinstance(right, ast.FunctionDef)
    for ours, theirs in zip(right.args.args, found.args.args, strict=False):
        if ours.arg != theirs.arg or (ours.annotation is None) != (theirs.annotation is None):
            raise AnswerError(f"parameter {ast.unparse(theirs)} must be {ast.unparse(ours)}", theirs.lineno)
    if len(right.args.args) != len(found.args.args):
        raise AnswerError(f"{name} must have the parameters {ast.unparse(right.args)}", found.lineno)
