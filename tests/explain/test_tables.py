"""Tables as Markdown."""

from __future__ import annotations

import numpy as np
import pytest

from explain.figures import numbers
from explain.figures.tables import Column, buttons, markdown, plain

COLUMNS = ("kernel", Column("time", numbers.duration), Column("count"))


def test_cells_are_formatted_aligned_and_escaped():
    table = markdown(
        COLUMNS, [("|O − x|", 1.3e-5, 12345), ("`b`", None, np.float32(2.5)), ("two\nlines", "**1 s**", np.int64(1000))]
    )
    assert table.splitlines() == [
        "| kernel | time | count |",
        "|---|---:|---:|",
        r"| \|O − x\| | 13.0 µs | 12,345 |",
        "| `b` | – | 2.5 |",
        "| two lines | **1 s** | 1,000 |",
    ]


def test_no_rows_are_no_table_and_a_row_of_another_length_is_refused():
    assert markdown(COLUMNS, []) == ""
    with pytest.raises(ValueError, match="2 cells in a table of 3 columns"):
        markdown(COLUMNS, [("a", 1.0)])


def test_words_of_a_file_have_no_markup():
    assert plain("a | **b**\n<i>") == "a &#124; &#42;&#42;b&#42;&#42; &#60;i&#62;"


def test_a_press_on_a_row_chooses_it():
    table = buttons(["side", Column("time")], [("a", "64", "Choose 64", ["1 s"]), ("b", "8", "Choose 8", ["2 s"])], "b")
    assert "<th>side</th><th class=n>time</th>" in table
    assert '<tr data-press="a"><th><button data-press="a" aria-pressed="false" aria-label="Choose 64">64<' in table
    assert '<tr data-press="b" class=on><th><button data-press="b" aria-pressed="true"' in table
    assert table.count("<td class=n>") == 2


def test_a_cell_of_a_stacked_table_has_its_heading():
    table = buttons(["side", Column("time")], [("a", "64", "Choose 64", ["1 s"])], "", stacked=True)
    assert "<table class=stacked>" in table
    assert '<td class=n data-head="time">1 s<' in table
