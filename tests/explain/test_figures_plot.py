"""Plots are drawn by many threads at once, and the first page waits for no library it does not draw with."""

from __future__ import annotations

import subprocess
import sys

ASK = """
import sys
import explain.ui
assert "pandas" not in sys.modules, "every first page would wait for it"
from explain.figures.plot import plot
figure = plot()
assert hasattr(sys.modules["pandas"], "Series"), "plotly looks into it"
figure.add_scatter(x=[1], y=[2])
"""


def test_pandas_is_whole_before_a_plot_and_not_imported_without_one():
    done = subprocess.run([sys.executable, "-c", ASK], capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
