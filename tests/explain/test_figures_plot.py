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


CHART = """
import importlib, sys, types
from explain.figures import plot
from explain.figures.lines import Line, chart
sys.modules["pandas"] = types.ModuleType("pandas")  # another thread has begun to import it

def complete(name):
    del sys.modules["pandas"]
    return importlib.import_module(name)

plot.import_module = complete
figure = chart("title", [Line([(1, 2), (10, 3)], "line", "#123456")], x="x", y="y", limits={4: "limit"}, around=1.0)
assert len(figure.data) == 1
assert len(figure.layout.shapes) == len(figure.layout.annotations) == 2
"""


def test_a_chart_touches_nothing_of_plotlys_before_pandas_is_whole():
    done = subprocess.run([sys.executable, "-c", CHART], capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
