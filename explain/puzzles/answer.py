"""A reader's answer: a Python file with the kernel of one puzzle. Read without running it."""

from __future__ import annotations

import ast
import difflib
from dataclasses import dataclass
from pathlib import Path

from explain.puzzles import language
from explain.puzzles.puzzles import Puzzle, function_source, puzzles

LONGEST = 100_000  # characters


class AnswerError(Exception):
    """The file is no answer to a puzzle; `line` of it says where, if it is one line."""

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.line = line


@dataclass(frozen=True)
class Answer:
    """A text that has the functions of `puzzle`, with the right parameters, in Triton's language."""

    name: str
    puzzle: Puzzle
    text: str


def read_answer(path: Path) -> Answer:
    """Reads the file and checks its form. Raises AnswerError."""
    try:
        return answer_of(path.read_text(encoding="utf-8"), path.name)
    except OSError as error:
        raise AnswerError(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise AnswerError(f"{path} is not a text file in UTF-8") from None


def answer_of(text: str, name: str) -> Answer:
    """The answer that stands in a text, called `name` in messages. Raises AnswerError."""
    if len(text) > LONGEST:
        raise AnswerError(f"{name} has {len(text):,} characters; an answer has at most {LONGEST:,}")
    try:
        tree = ast.parse(text)
    except SyntaxError as error:
        raise AnswerError(f"Python cannot read this line: {error.msg}", error.lineno) from None
    except (ValueError, RecursionError, MemoryError) as error:  # a null byte, or nested too deep
        raise AnswerError(f"Python cannot read {name}: {error}") from None
    puzzle = _puzzle(tree, name)
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    try:
        language.check(tree)
    except language.LanguageError as error:
        raise AnswerError(str(error), error.line) from None
    except RecursionError:
        raise AnswerError(f"Python cannot read {name}: it is nested too deep") from None
    for function, source in puzzle.solution().items():
        _check_function(function, functions.get(function), source)
    return Answer(name, puzzle, text)


def _puzzle(tree: ast.Module, file: str) -> Puzzle:
    for node in tree.body:
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == "PUZZLE" for t in node.targets):
            name = node.value.value if isinstance(node.value, ast.Constant) else None
            if name not in puzzles():
                raise AnswerError(f"PUZZLE is {ast.unparse(node.value)}; it must be one of {_names()}", node.lineno)
            return puzzles()[str(name)]
    raise AnswerError(f'{file} must say which puzzle it answers: PUZZLE = "vector_add", or one of {_names()}')


def _names() -> str:
    return ", ".join(puzzles())


def _check_function(name: str, found: ast.FunctionDef | None, source: str) -> None:
    if found is None:
        raise AnswerError(f"there is no function {name}: `python -m explain puzzle start` writes its first lines")
    if not found.decorator_list:
        raise AnswerError(f"{name} must be decorated with @triton.jit alone", found.lineno)
    right = ast.parse(source).body[0]
    assert isinstance(right, ast.FunctionDef)
    for ours, theirs in zip(right.args.args, found.args.args, strict=False):
        if ours.arg != theirs.arg or (ours.annotation is None) != (theirs.annotation is None):
            raise AnswerError(f"parameter {ast.unparse(theirs)} must be {ast.unparse(ours)}", theirs.lineno)
    if len(right.args.args) != len(found.args.args):
        raise AnswerError(f"{name} must have the parameters {ast.unparse(right.args)}", found.lineno)


def way_to_ours(puzzle: Puzzle, text: str) -> list[str]:
    """The lines of a diff from the functions of a reader's text to ours; one that is missing there is new."""
    lines: list[str] = []
    for name, ours in puzzle.solution().items():
        try:
            theirs = function_source(text, name)
        except (SyntaxError, StopIteration, ValueError):
            theirs = ""
        lines += difflib.unified_diff(theirs.splitlines(), ours.splitlines(), "yours", "solution", lineterm="")
    return lines
