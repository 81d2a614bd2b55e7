"""Why the other fast kernels are fast: the ideas of each in order, and each idea's source line.

Attention's forward pass has its rungs instead. Imports neither streamlit nor torch: sources are read from the files.
"""

from __future__ import annotations

from dataclasses import dataclass

from explain import data
from explain.chapters.speed.rungs import Twin
from explain.plain import made
from explain.source import functions


@dataclass(frozen=True)
class Idea:
    """One idea: its name, a sentence or two, and the source line that does it."""

    name: str
    sentence: str
    line: str


@dataclass(frozen=True)
class Fast:
    """A fast kernel: the call that the benchmark names, its module, the functions that run on the GPU, and its ideas.

    `below` is a readable kernel, (module, function), to compare the source of `shown[0]` with.
    """

    call: str
    table: str
    title: str
    module: str
    shown: tuple[str, ...]
    ideas: tuple[Idea, ...]
    twin: Twin | None = None
    below: tuple[str, str] | None = None

    @property
    def file(self) -> str:
        """The source's path in the project."""
        return functions.file_of(self.module)

    @property
    def source(self) -> str:
        """The functions that run on the GPU, one after the other."""
        return functions.functions_source(self.module, self.shown)

    @property
    def gluon(self) -> bool:
        """Whether it is written in Gluon, which Triton's interpreter cannot run."""
        return "@gluon.jit" in self.source

    @property
    def difference(self) -> str:
        """The source marked as a diff from the readable kernel's; empty where there is none to compare with."""
        if not self.below:
            return ""
        return functions.marked(
            functions.function_source(*self.below), functions.function_source(self.module, self.shown[0])
        )

    def line_number(self, idea: Idea) -> int:
        """Where the idea's line is in the file, from 1. Raises ValueError if no function shown has it."""
        return functions.line_number(self.module, idea.line, self.shown)


KERNELS: tuple[Fast, ...] = tuple(made(Fast, kernel) for kernel in data(__file__)["kernel"])


def of(table: str) -> tuple[Fast, ...]:
    """The fast kernels of one table of the benchmark."""
    return tuple(kernel for kernel in KERNELS if kernel.table == table)
