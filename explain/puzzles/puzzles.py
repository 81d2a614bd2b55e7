"""The puzzles, in the order in which they are taught: goal, formula, hints, and the kernel that is the specification.

The reader's file has the kernel's own signature. What a puzzle asks for is in `puzzles.toml`; the signature, the broken
sources and the solutions come from the kernels themselves.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from explain import data
from explain.experiment import KERNELS, Experiment
from explain.kept import kept
from explain.puzzles.cases import Only, cases
from explain.puzzles.predictions import Prediction
from explain.puzzles.stop import Stop
from explain.source.functions import function_in
from kernels.catalog import Kernel
from kernels.edits import source_of
from kernels.museum import EXHIBITS


@dataclass(frozen=True, kw_only=True)
class Puzzle(Stop):
    """A kernel to write. `functions` are the `@triton.jit` functions to write: those of the catalog's kernel `kernel`.

    The file begins with an empty body, with the body of the function `starts_from`, or with the broken line of the
    museum's `exhibit`. Of an empty body, the first `given` statements are there. `only` restricts the cases of
    attention. At most the bytes of the kernel `bytes_of` may be requested, if there is one.
    """

    functions: tuple[str, ...]
    only: Only = ""
    starts_from: str = ""
    exhibit: str = ""
    given: int = 0
    bytes_of: str = ""

    @property
    def entry(self) -> Kernel:
        """The catalog's entry of the kernel that is the specification."""
        return KERNELS[self.kernel]

    @kept
    def solution(self) -> dict[str, str]:
        """The source of each function, by its name: where fewer bytes are asked for, that of the kernel with as few."""
        if self.bytes_of in ("", self.kernel):
            return {name: function_in(source_of(self.entry.module), name) for name in self.functions}
        source, other = source_of(KERNELS[self.bytes_of].module), f"{self.bytes_of}_kernel"
        return {name: _renamed(source, other, name) for name in self.functions}

    @kept
    def starter(self) -> str:
        """The text that a reader begins with."""
        bodies = "\n\n\n".join(self._beginning(name) for name in self.functions)
        return f"{self.head()}\n\n\n{bodies}\n"

    def file(self) -> str:
        """The same with goal and formula above it, for an editor that does not show them."""
        return f"{self.above()}\n\n{self.starter()}"

    def head(self) -> str:
        """The lines above the functions: imports, the puzzle's name, and the constants that our kernel uses."""
        source, solution = source_of(self.entry.module), "\n".join(self.solution().values())
        used = {node.id for node in ast.walk(ast.parse(solution)) if isinstance(node, ast.Name)}
        assigned = (node for node in ast.parse(source).body if isinstance(node, ast.Assign))
        constants = [ast.unparse(node) for node in assigned if used & {ast.unparse(target) for target in node.targets}]
        lines = [
            "import triton",
            "import triton.language as tl",
            "",
            f'PUZZLE = "{self.name}"  # tells the check which puzzle this is',
            *constants,
        ]
        return "\n".join(lines)

    def _beginning(self, name: str) -> str:
        source = source_of(self.entry.module)
        if self.exhibit:
            return function_in(EXHIBITS[self.exhibit].edit.apply(source), name)
        if self.starts_from:
            return _renamed(source, self.starts_from, name)
        own = function_in(source, name)
        body = ast.parse(own).body[0].body[self.given]  # type: ignore[attr-defined]  # a function definition
        above = "\n".join(own.splitlines()[: body.lineno - 1]).rstrip()
        while above.rpartition("\n")[2].lstrip().startswith("#"):  # comments before the first statement to write
            above = above.rpartition("\n")[0]
        return f"{above}\n    pass  # write it here"

    def cases(self, seed: int) -> list[Experiment]:
        """The experiments that an answer must pass: ordinary numbers first, then hard ones, each from small to large;
        the largest of all is the last. Their inputs come from this seed.

        So what fails first tells most: on rows of one number, or of −∞, many mistakes look alike.
        """
        found = sorted(self._cases(), key=_hardness)
        found.append(found.pop(found.index(max(found, key=_scores))))
        return [replace(experiment, seed=seed) for experiment in found]

    def _cases(self) -> Iterator[Experiment]:
        if self.exhibit:
            shown = EXHIBITS[self.exhibit]
            for inputs in (shown.shown_by, shown.hidden_by):
                yield Experiment.of(self.kernel, shown.sizes, inputs)
        yield from cases(self.entry, self.only)


def _renamed(source: str, function: str, name: str) -> str:
    return function_in(source, function).replace(f"def {function}(", f"def {name}(", 1)


ORDINARY = ("normal", "ascending", "descending", "constant", "notebook")
"""Inputs that most answers get right."""


def _hardness(experiment: Experiment) -> tuple[bool, bool, bool, int]:
    _, cols = experiment.entry.score_shape(experiment.values)
    few = experiment.inputs in ("constant", "notebook")
    return experiment.inputs not in ORDINARY, cols == 1, few, _scores(experiment)


def _scores(experiment: Experiment) -> int:
    rows, cols = experiment.entry.score_shape(experiment.values)
    return rows * cols


@functools.cache
def ladder() -> Mapping[str, Puzzle | Prediction]:
    """Every kernel to write and every prediction by name, in order."""
    found: dict[str, Puzzle | Prediction] = {}
    for name, fields in data(__file__).items():
        lists = {key: tuple(value) for key, value in fields.items() if isinstance(value, list)}
        if "exhibit" in fields:
            lists["hints"] = EXHIBITS[fields["exhibit"]].hints
        found[name] = (Prediction if "ask" in fields else Puzzle)(name=name, **{**fields, **lists})
    return found


@functools.cache
def puzzles() -> Mapping[str, Puzzle]:
    """Every kernel to write by name, in order."""
    return {name: one for name, one in ladder().items() if isinstance(one, Puzzle)}


def nothing_to_fix() -> list[str]:
    """A sentence for each bug of the museum that has no puzzle: it is harmless."""
    numbered = enumerate(EXHIBITS.values(), 1)
    return [f"Bug {at} is harmless, so there is nothing to fix: {one.title}." for at, one in numbered if one.harmless]


@functools.cache
def predictions() -> Mapping[str, Prediction]:
    """Every prediction by name, in order."""
    return {name: one for name, one in ladder().items() if isinstance(one, Prediction)}
