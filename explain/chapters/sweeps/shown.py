"""What the page shows of a sweep: its readings, and where they come from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from explain.chapters.measurements.points import in_words
from explain.chapters.sweeps import figures
from explain.chapters.sweeps.model import Reading, Sweep
from explain.gpus import Gpu, card
from explain.kept import kept
from explain.records.model import Roof
from explain.ui import layout


@dataclass(frozen=True, eq=False)
class Shown:
    """What a page shows of a sweep: the readings so far of `total` points, their source, and that GPU's name and roofs.
    There is one for all readers (`shown`), equal to itself alone: what is made of it is made once.

    `runs` is the witness that can be run here for more of them, empty for what was recorded.
    """

    sweep: Sweep
    readings: tuple[Reading, ...]
    total: int
    source: str
    runs: str = ""
    gpu: str = ""
    roofs: Mapping[str, Roof] = field(default_factory=dict)

    @property
    def card(self) -> Gpu | None:
        """That GPU's datasheet, if it is known."""
        return card(self.gpu)

    @property
    def origin(self) -> str:
        """The source of the numbers, and the fixed parameters."""
        held = ", ".join(in_words(name, value) for name, value in self.sweep.fixed)
        some = f" · {len(self.readings)} of {self.total} points" if len(self.readings) < self.total else ""
        return f"{self.source}{some} · {held}"

    def csv(self) -> str:
        """The readings, one line each."""
        return figures.as_csv(self.sweep, self.readings)


def beside(words: DeltaGenerator) -> DeltaGenerator:
    """The place for a picture's words: their column; on a phone below the picture, which is seen first."""
    return st.container() if layout.narrow() else words


shown = kept(Shown)
