"""One stop on the path of puzzles: what a reader is asked, whatever the answer is."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Stop:
    """What is asked about the kernel `kernel` of the catalog, and the page `chapter` that explains it.

    The path shows it in `group` as `label`, by default its title; `learned` is said after a right answer.
    """

    name: str
    title: str
    group: str
    chapter: str
    goal: str
    kernel: str
    formula: tuple[str, ...]
    hints: tuple[str, ...]
    learned: str
    label: str = ""

    def above(self) -> str:
        """Title, goal and formula as comments, for an editor that does not show them."""
        about = textwrap.wrap(f"{self.title}. {self.goal}", 100)
        return "\n".join(f"# {line}".rstrip() for line in (*about, "", *self.formula)).rstrip("#\n ")
