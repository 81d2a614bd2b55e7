"""Tables: rows of values in, Markdown or CSV out."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

from explain.figures.numbers import NONE, count, number

_PLAIN = {ord(mark): f"&#{ord(mark)};" for mark in "&\\`*_[]<>|~$#:"}


@dataclass(frozen=True)
class Column:
    """A column of numbers, right-aligned. `format` turns a value into text; without it an int is counted, a float has
    three digits.

    A text in a cell is Markdown and stays as it is; None shows as "–".
    """

    heading: str
    format: Callable[[Any], str] | None = None


Columns = Sequence[str | Column]
"""A plain heading is a column of text, left-aligned."""


def markdown(columns: Columns, rows: Iterable[Sequence[Any]]) -> str:
    """The table as Markdown; empty without rows.

    Raises:
        ValueError: a row has more or fewer cells than there are columns.
    """
    lines = [f"| {' | '.join(_escaped(cell) for cell in _cells(columns, row))} |" for row in rows]
    if not lines:
        return ""
    rule = "|".join("---:" if isinstance(column, Column) else "---" for column in columns)
    return "\n".join([f"| {' | '.join(_escaped(_heading(column)) for column in columns)} |", f"|{rule}|", *lines])


def buttons(
    columns: Columns, rows: Iterable[tuple[str, str, str, Sequence[str]]], chosen: str, *, stacked: bool = False
) -> str:
    """A table as HTML in which a press chooses a row. A row is its key, its button's words, the words for a screen
    reader, and its other cells; all but the key are HTML. If `stacked`, a row's cells stand below each other on a
    phone, each with its heading.
    """
    kinds = [" class=n" * isinstance(column, Column) for column in columns]
    head = "".join(f"<th{kind}>{_heading(column)}</th>" for kind, column in zip(kinds, columns, strict=True))
    if stacked:
        kinds = [f'{kind} data-head="{_heading(column)}"' for kind, column in zip(kinds, columns, strict=True)]
    body = "".join(
        f'<tr data-press="{key}"{" class=on" * (key == chosen)}><th><button data-press="{key}" '
        f'aria-pressed="{str(key == chosen).lower()}" aria-label="{label}">{words}</button></th>'
        f"{''.join(f'<td{kind}>{cell}</td>' for kind, cell in zip(kinds[1:], cells, strict=True))}</tr>"
        for key, words, label, cells in rows
    )
    return f"<table{' class=stacked' * stacked}><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def csv_of(rows: Iterable[Iterable[Any]]) -> str:
    """The rows as CSV; None is an empty cell."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(rows)
    return out.getvalue()


def plain(text: str) -> str:
    """Words from a file or a user as Markdown shows them: one line, no markup."""
    return " ".join(text.split()).translate(_PLAIN)


def _cells(columns: Columns, row: Sequence[Any]) -> list[str]:
    if len(row) != len(columns):
        raise ValueError(f"a row of {len(row)} cells in a table of {len(columns)} columns: {row}")
    return [_text(column, value) for column, value in zip(columns, row, strict=True)]


def _text(column: str | Column, value: Any) -> str:
    if value is None:
        return NONE
    if isinstance(value, str):
        return value
    if isinstance(column, Column) and column.format:
        return column.format(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Integral):
        return count(int(value))
    return number(float(value)) if isinstance(value, Real) else str(value)


def _escaped(cell: str) -> str:
    """A bar would begin another cell, a new line another row."""
    return re.sub(r"(?<!\\)\|", r"\\|", " ".join(cell.split()))


def _heading(column: str | Column) -> str:
    return column.heading if isinstance(column, Column) else column
