"""A phone's plot: what it leaves out of the wide one stands elsewhere, and its texts have room."""

from __future__ import annotations

import pytest

from explain.figures import lines
from explain.figures.phone import SIZE, WIDTH, narrowed
from explain.figures.plot import END, plot


def test_a_phones_plot_has_its_labels_in_a_legend_and_its_margins_without_them():
    curves = [lines.Line([(2.0**n, 2.0**n) for n in range(4, 18)], f"kernel {one}", "#123456") for one in "abc"]
    wide = lines.chart("title", curves, x="N, queries and keys", y="time", log=True, limits={256: "L2 full"})
    small = narrowed(wide)
    assert [note.text for note in small.layout.annotations] == ["L2 full"]
    assert [line.name for line in small.data if line.showlegend] == ["kernel a", "kernel b", "kernel c"]
    assert small.layout.showlegend
    assert small.layout.margin.r < 20 < wide.layout.margin.r
    assert small.layout.margin.b > 3 * SIZE
    marks = [text for text in small.layout.xaxis.ticktext if text]
    assert 2 <= len(marks) < len(wide.layout.xaxis.ticktext)
    assert marks[-1] == wide.layout.xaxis.ticktext[-1]
    assert {note.name for note in wide.layout.annotations} == {END, None}  # the wide one is as it was


@pytest.mark.parametrize("log", [False, True])
def test_texts_beside_bars_have_room_on_a_phone(log):
    wide = plot()
    wide.add_bar(
        x=[10.0, 1000.0], y=["short", "a bar with a long name"], orientation="h", textposition="outside",
        text=["10 GB/s", "of a datasheet 1 TB/s"],
    )  # fmt: skip
    wide.update_xaxes(type="log" if log else "linear", range=[0, 3 if log else 1000])
    wide.update_layout(height=200, margin={"t": 10, "b": 10})
    small = narrowed(wide)
    end, left = small.layout.xaxis.range[1], small.layout.margin.l
    share = (3 if log else 1000) / end
    assert share * (WIDTH - left) + 100 < WIDTH - left
    assert "<br>" in small.layout.yaxis.ticktext[1]
