"""The papers' page opens with a GPU's record, with one that lacks the points, and with none; each panel says what it shows and where it is from."""

from __future__ import annotations

import pytest

from explain.chapters.papers import milakov
from explain.records import file
from explain.records import registry as shelf
from explain.records.model import Record
from tests.explain.papers import made
from tests.explain.records.made import WHERE
from tests.test_pages import page, texts

PANELS = {
    "Softmax and top-k": ("section 4, algorithm 4",),
    "FlashAttention, figure 2": ("825 (12.4×)",),
    "Theorem 2": ("Θ(N² d² / M)", "FlashAttention-2 forward | 2 |"),
    "Time and memory": ("Tables",),
    "Memory hierarchy": (),
}


def shelve(monkeypatch, *found: Record) -> None:
    shelved = [shelf.Shelved(f"test:{number}", record, shelf.RECORDED) for number, record in enumerate(found)]
    monkeypatch.setattr(shelf, "shelved", lambda: (shelved, {}))


@pytest.mark.parametrize("panel", PANELS)
def test_each_panel_shows_the_paper_beside_a_gpu(panel, monkeypatch):
    shelve(monkeypatch, made.record())
    test = page("papers", panel=panel)
    said = texts(test) + "\n".join(element.value for element in test.header)
    for words in PANELS[panel]:
        assert words in said
    assert len(test.get("plotly_chart")) >= 1
    assert "NVIDIA H200" in said  # the source
    assert not test.info


@pytest.mark.parametrize("panel", PANELS)
@pytest.mark.parametrize("records", [(), (Record("abc", WHERE),)], ids=["none", "an empty one"])
def test_each_panel_opens_without_the_points_and_says_so(panel, records, monkeypatch):
    shelve(monkeypatch, *records)
    test = page("papers", panel=panel)
    assert not test.get("plotly_chart")
    assert ("python -m explain measure --plan" in test.info[0].value) == bool(records)


@pytest.mark.parametrize("figure", milakov.FIGURES, ids=lambda figure: str(figure.number))
def test_each_figure_has_the_papers_sentences(figure, monkeypatch):
    shelve(monkeypatch, made.record())
    said = texts(page("papers", figure=f"{figure.number}: {figure.title}"))
    assert all(one.words in said and one.where in said for one in figure.said)


def test_accesses_are_counted_where_there_is_no_triton(monkeypatch, tmp_path):
    monkeypatch.setattr("explain.engine.has_triton", lambda: False)
    monkeypatch.setenv("TILESCOPE_CACHE", str(tmp_path))
    assert "| 1 | 1 | **1** |" in texts(page("papers"))  # the online softmax with top-k: claimed, by formula, traced


def test_two_gpus_stand_in_one_chart(monkeypatch):
    other = file.parse(file.written(made.record()))
    shelve(monkeypatch, made.record(), Record("abc", WHERE, other.points, other.roofs))
    test = page("papers")
    test.session_state["records choice"] = ["test:0", "test:1"]
    test.run()
    assert not test.exception
    assert "NVIDIA Test 1" in texts(test)
