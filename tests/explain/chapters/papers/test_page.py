"""The papers' page opens with a GPU's record, with one that lacks the points, and with none."""

from __future__ import annotations

from dataclasses import replace

import pytest

from explain.chapters.papers import milakov
from explain.records import file, registry
from explain.records.model import Record
from tests.explain.chapters.papers import made
from tests.explain.records.made import WHERE
from tests.pages import measured_on, page, texts

PANELS = {
    "Softmax and top-k": (4, ("| 1 | 1 | 1 | section 4, algorithm 4 |",)),
    "FlashAttention, figure 2": (3, ("| 66.6 | 825 (12.4 ×) | 40.30 GB |",)),
    "Theorem 2": (2, ("| N | FlashAttention-2 forward | 2 | 1.94 |",)),
    "Time and memory": (2, ()),
    "Memory hierarchy": (1, ()),
}
"""By panel: its plots, and rows of its tables."""


def kept(monkeypatch, *found: Record) -> None:
    origins = (registry.RECORDED, registry.HERE)
    entries = [registry.Entry(origin, record, origin) for origin, record in zip(origins, found, strict=False)]
    monkeypatch.setattr(registry, "entries", lambda: (entries, {}))


@pytest.mark.parametrize("panel", PANELS)
def test_each_panel_shows_the_paper_beside_a_gpu(panel, monkeypatch):
    kept(monkeypatch, made.record())
    test = page("papers", panel=panel)
    plots, rows = PANELS[panel]
    assert all(row in texts(test) for row in rows)
    assert len(test.get("plotly_chart")) == plots
    assert any("NVIDIA H200" in caption.value for caption in test.caption)  # the source
    assert not test.info


@pytest.mark.parametrize("panel", PANELS)
@pytest.mark.parametrize("records", [(), (Record("abc", WHERE),)], ids=["none", "an empty one"])
def test_each_panel_opens_without_the_points_and_names_the_command(panel, records, monkeypatch):
    kept(monkeypatch, *records)
    test = page("papers", panel=panel)
    assert not test.get("plotly_chart")
    assert ("python -m explain measure --plan" in test.info[0].value) == bool(records)


@pytest.mark.parametrize("figure", milakov.FIGURES, ids=lambda figure: str(figure.number))
def test_each_figure_has_the_papers_sentences(figure, monkeypatch):
    kept(monkeypatch, made.record())
    said = texts(page("papers", figure=figure.brief))
    assert all(one.words in said and one.where in said for one in figure.said)


def test_accesses_are_counted_where_there_is_no_triton(monkeypatch, tmp_path):
    monkeypatch.setattr("explain.engine.has_triton", lambda: False)
    monkeypatch.setenv("TILESCOPE_CACHE", str(tmp_path))
    assert "| 1 | 1 | 1 |" in texts(page("papers"))  # online softmax with top-k: paper, formula, trace


@pytest.mark.parametrize("panel", PANELS)
@pytest.mark.parametrize("gpu", ["NVIDIA Test 1", "NVIDIA H200"], ids=["two GPUs", "one GPU twice"])
def test_two_records_beside_each_other(panel, gpu, monkeypatch):
    other = file.parse(file.written(made.record()))
    kept(monkeypatch, made.record(), Record("abc", replace(WHERE, gpu=gpu), other.points, other.roofs))
    shown = ((registry.RECORDED, "NVIDIA H200"), (registry.HERE, gpu))
    test = page("papers", panel=panel)
    measured_on(test).set_value([registry.RECORDED, registry.HERE]).run()
    assert all(any(f"{origin} · {name}" in one.value for one in test.caption) for origin, name in shown)
