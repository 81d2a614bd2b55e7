"""A reader's answer: a Python file with one puzzle's kernel, or with a predicted number. Read without running it."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from explain.puzzles import language
from explain.puzzles.predictions import LARGEST_SEED, Guess, Prediction
from explain.puzzles.puzzles import Puzzle, ladder
from explain.source.functions import function_in

LONGEST = 100_000  # characters
COUNTED = ("read_bytes", "written_bytes", "flops")
"""What is counted of an answer's run, in the order in which it is sent."""
LARGEST_TRACE = 256 * 1024 * 1024  # bytes of an answer's trace, unpacked


class AnswerError(Exception):
    """The file does not answer a puzzle; `line` of it says where, if it is one line."""

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.line = line


@dataclass(frozen=True)
class Answer:
    """A text that has the functions of `puzzle`, with the right parameters, in Triton's language."""

    name: str
    puzzle: Puzzle
    text: str


def read_answer(path: Path) -> Answer | Guess:
    """Reads the file and checks its form. Raises AnswerError."""
    try:
        return answer_of(path.read_text(encoding="utf-8"), path.name)
    except OSError as error:
        raise AnswerError(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise AnswerError(f"{path} is not a text file in UTF-8") from None


def answer_of(text: str, name: str) -> Answer | Guess:
    """The answer that stands in a text, called `name` in messages. Raises AnswerError."""
    if len(text) > LONGEST:
        raise AnswerError(f"{name} has {len(text):,} characters; an answer has at most {LONGEST:,}")
    try:
        tree = ast.parse(text)
    except SyntaxError as error:
        hint = " (= names an argument, == compares)" if "follows keyword" in error.msg else ""
        raise AnswerError(f"Python cannot read this line: {error.msg}{hint}", error.lineno) from None
    except (ValueError, RecursionError, MemoryError) as error:  # a null byte, or nested too deep
        raise AnswerError(f"Python cannot read {name}: {error}") from None
    puzzle = _puzzle(tree, name)
    if isinstance(puzzle, Prediction):
        return _guess(tree, name, puzzle, text)
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    try:
        language.check(tree)
    except language.LanguageError as error:
        raise AnswerError(str(error), error.line) from None
    except RecursionError:
        raise AnswerError(f"Python cannot read {name}: it is nested too deep") from None
    for function, source in puzzle.solution().items():
        _check_function(function, functions, source)
    return Answer(name, puzzle, text)


def _guess(tree: ast.Module, name: str, puzzle: Prediction, text: str) -> Guess:
    """SEED and ANSWER of the file."""
    given: dict[str, object] = {}
    for node in tree.body:
        if not (isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)):
            raise AnswerError("a prediction has PUZZLE, SEED and ANSWER only", node.lineno)
        try:
            given[node.targets[0].id] = ast.literal_eval(node.value)
        except ValueError:
            raise AnswerError(f"{ast.unparse(node.value)} must be a number", node.lineno) from None
    seed, answer = given.get("SEED"), given.get("ANSWER")
    if type(seed) is not int or not 0 <= seed <= LARGEST_SEED:
        raise AnswerError(f"SEED is {seed}; it must be a whole number from 0 to {LARGEST_SEED}")
    if answer is not None and type(answer) not in (int, float):
        raise AnswerError(f"ANSWER is {answer!r}; it must be a number, or None")
    return Guess(name, puzzle, seed, None if answer is None else str(answer), text)


def _puzzle(tree: ast.Module, file: str) -> Puzzle | Prediction:
    for node in tree.body:
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == "PUZZLE" for t in node.targets):
            name = node.value.value if isinstance(node.value, ast.Constant) else None
            if name not in ladder():
                raise AnswerError(f"PUZZLE is {ast.unparse(node.value)}; it must be one of {_names()}", node.lineno)
            return ladder()[str(name)]
    raise AnswerError(f'{file} must say which puzzle it answers: PUZZLE = "vector_add", or one of {_names()}')


def _names() -> str:
    return ", ".join(ladder())


def _check_function(name: str, functions: Mapping[str, ast.FunctionDef], source: str) -> None:
    found = functions.get(name)
    if found is None:
        other = next(iter(functions.values()), None)
        raise AnswerError(
            f"there is no function {name}" + (f". Is it {other.name}?" if other else ""),
            other.lineno if other else None,
        )
    if not found.decorator_list:
        raise AnswerError(f"{name} must be decorated with @triton.jit alone", found.lineno)
    right = ast.parse(source).body[0]
    assert isinstance(right, ast.FunctionDef)
    pairs = zip(right.args.args, found.args.args, strict=False)
    same = [one.arg == its.arg and (one.annotation is None) == (its.annotation is None) for one, its in pairs]
    if not all(same) or len(right.args.args) != len(found.args.args):
        at = found.args.args[same.index(False)].lineno if False in same else found.lineno
        raise AnswerError(f"{name} must keep its parameters: {ast.unparse(right.args)}", at)


def way_to_ours(puzzle: Puzzle, text: str) -> list[str]:
    """The lines of a diff from the functions of a reader's text to ours; one that is missing there is new."""
    lines: list[str] = []
    for name, ours in puzzle.solution().items():
        try:
            theirs = function_in(text, name)
        except (SyntaxError, StopIteration, ValueError):
            theirs = ""
        lines += difflib.unified_diff(theirs.splitlines(), ours.splitlines(), "yours", "solution", lineterm="")
    return lines
