"""The puzzles, in the order in which they are taught: goal, formula, hints, and the kernel that is the specification.

The reader's file has the kernel's own signature. What a puzzle asks for is in `puzzles.toml`; the signature, the broken
sources and the solutions come from the kernels themselves.
"""

from __future__ import annotations

import ast
import functools
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Literal

from explain import data
from explain.experiment import Experiment
from explain.verification import grid
from kernels.catalog import KERNELS, Kernel
from kernels.edits import source_of
from kernels.museum import EXHIBITS

EVERY, EVERY_OF_SOME = 7, 3
"""Every so many experiments of the kernel's grid is a case; more where only some of its shapes are asked for. Neither
has a common factor with the number of presets, so each preset occurs."""
SMALL, LARGE, FEW = 8_000, 26_000, 2
"""Scores of a head, or elements of x: above SMALL a shape has FEW cases, above LARGE none. So an answer comes soon."""

Only = Literal["", "plain", "causal", "grouped"]


@dataclass(frozen=True)
class Puzzle:
    """One puzzle. `functions` are the `@triton.jit` functions to write: those of the catalog's kernel `kernel`.

    The file begins with an empty body, with the body of the function `starts_from`, or with the broken line of the
    museum's `exhibit`. `only` restricts the cases of attention. At most the bytes of the kernel `bytes_of` may be
    requested, if there is one.
    """

    name: str
    title: str
    chapter: str
    goal: str
    kernel: str
    functions: tuple[str, ...]
    formula: tuple[str, ...]
    hints: tuple[str, ...]
    only: Only = ""
    starts_from: str = ""
    exhibit: str = ""
    bytes_of: str = ""

    @property
    def entry(self) -> Kernel:
        """The catalog's entry of the kernel that is the specification."""
        return KERNELS[self.kernel]

    def solution(self) -> dict[str, str]:
        """The source of each function, by its name: where fewer bytes are asked for, that of the kernel with as few."""
        if self.bytes_of in ("", self.kernel):
            return {name: function_source(source_of(self.entry.module), name) for name in self.functions}
        source, other = source_of(KERNELS[self.bytes_of].module), f"{self.bytes_of}_kernel"
        return {name: _renamed(source, other, name) for name in self.functions}

    def starter(self) -> str:
        """The file that a reader begins with."""
        about = textwrap.wrap(f"{self.title}. {self.goal}", 100)
        said = "\n".join(["# " + line for line in (*about, "", *self.formula)]).replace("# \n", "#\n")
        bodies = "\n\n\n".join(self._beginning(name) for name in self.functions)
        return f"{said}\n\n{self.head()}\n\n\n{bodies}\n"

    def head(self) -> str:
        """The lines above the functions: imports, the puzzle's name, and the constants that our kernel uses."""
        source, solution = source_of(self.entry.module), "\n".join(self.solution().values())
        used = {node.id for node in ast.walk(ast.parse(solution)) if isinstance(node, ast.Name)}
        assigned = (node for node in ast.parse(source).body if isinstance(node, ast.Assign))
        constants = [ast.unparse(node) for node in assigned if used & {ast.unparse(target) for target in node.targets}]
        lines = ["import triton", "import triton.language as tl", "", f'PUZZLE = "{self.name}"', *constants]
        return "\n".join(lines)

    def _beginning(self, name: str) -> str:
        source = source_of(self.entry.module)
        if self.exhibit:
            return function_source(EXHIBITS[self.exhibit].edit.apply(source), name)
        if self.starts_from:
            return _renamed(source, self.starts_from, name)
        own = function_source(source, name)
        body = ast.parse(own).body[0].body[0]  # type: ignore[attr-defined]  # a function definition
        signature = "\n".join(own.splitlines()[: body.lineno - 1]).rstrip()
        while signature.rpartition("\n")[2].lstrip().startswith("#"):  # comments before the first statement
            signature = signature.rpartition("\n")[0]
        return f"{signature}\n    pass  # write it here"

    def cases(self, seed: int) -> list[Experiment]:
        """The experiments that an answer must pass, the smallest first. Their inputs come from this seed."""
        found = sorted(self._cases(), key=_scores)
        return [replace(experiment, seed=seed) for experiment in found]

    def _cases(self) -> Iterator[Experiment]:
        if self.exhibit:
            shown = EXHIBITS[self.exhibit]
            for inputs in (shown.shown_by, shown.hidden_by):
                yield Experiment.of(self.kernel, shown.sizes, inputs)
        allowed = (
            experiment
            for experiment in grid(self.entry, every=EVERY_OF_SOME if self.only else EVERY)
            if experiment.preset.sentence is None and _scores(experiment) <= LARGE and self._asks_for(experiment)
        )
        for _, of_shape in groupby(allowed, key=lambda one: {**one.values, "dtype": ""}):
            same = list(of_shape)
            yield from same if _scores(same[0]) <= SMALL else same[:FEW]

    def _asks_for(self, experiment: Experiment) -> bool:
        p = experiment.values
        grouped = p.get("heads") != p.get("kv_heads")
        kind = "grouped" if grouped else "causal" if p.get("causal") else "plain"
        return self.only in ("", kind)


def function_source(source: str, name: str) -> str:
    """The text of a function of a module, with its decorators and the comments before its first statement."""
    functions = (node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef))
    found = next(node for node in functions if node.name == name)
    first = min([found.lineno, *(decorator.lineno for decorator in found.decorator_list)])
    return "\n".join(source.splitlines()[first - 1 : found.end_lineno])


def _renamed(source: str, function: str, name: str) -> str:
    return function_source(source, function).replace(f"def {function}(", f"def {name}(", 1)


def _scores(experiment: Experiment) -> int:
    rows, cols = experiment.entry.score_shape(experiment.values)
    return rows * cols


@functools.cache
def puzzles() -> Mapping[str, Puzzle]:
    """Every puzzle by name, in order."""
    found: dict[str, Puzzle] = {}
    for name, fields in data(__file__).items():
        lists = {key: tuple(value) for key, value in fields.items() if isinstance(value, list)}
        if "exhibit" in fields:
            lists["hints"] = EXHIBITS[fields["exhibit"]].hints
        found[name] = Puzzle(name, **{**fields, **lists})
    return found
