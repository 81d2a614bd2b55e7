"""The page Sweeps and roofline, part by part."""

from __future__ import annotations

import streamlit as st

from explain.chapters.sweeps import exercises, figures
from explain.chapters.sweeps.choice import sweep_choice
from explain.chapters.sweeps.model import READY
from explain.chapters.sweeps.shown import Shown
from explain.chapters.sweeps.sources import sweep_readings
from explain.kept import kept
from explain.ui import layout
from explain.ui.charts import csv_download
from explain.ui.exercises import ask


def choices() -> Shown | None:
    """Controls for the sweep and its source. Returns what that source has; None without a sweep."""
    sweep = sweep_choice()
    return sweep_readings(sweep) if sweep else None


def sweep_points(shown: Shown) -> None:
    """Every point as a table, and as CSV."""
    table, csv = st.columns([5, 1])
    with table, st.expander(f"All {len(shown.readings)} points"), st.container(key="numbers of the sweep"):
        st.markdown(_points_table(shown))
    with csv:
        csv_download("All points as CSV", shown.csv, f"tilescope-sweep-{shown.sweep.axis}", key="csv of the sweep")


@kept
def _points_table(shown: Shown) -> str:
    return figures.points_table(shown.sweep, shown.readings)


def closing(shown: Shown | None) -> None:
    """Things to try, sources."""
    if shown and shown.readings:
        there = f"The questions compare two kernels: choose two, or open [{next(iter(READY))}](./sweeps)."
        ask(
            "sweeps",
            exercises.QUESTIONS,
            _about(shown),
            f"{shown.sweep.key} {shown.source} {len(shown.readings)}",
            there,
        )
    layout.closing("sweeps")


@kept
def _about(shown: Shown) -> exercises.Shown:
    return exercises.Shown(shown.sweep, shown.readings)
