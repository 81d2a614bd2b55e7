"""The glossary's entries as HTML, laid out by `explain/look/app.css`."""

from __future__ import annotations

import functools
import html
import re
from collections.abc import Iterable

from explain import contents as chapters
from explain.glossary import Term, find


def anchor(group: str) -> str:
    """The place of a group of terms on the page."""
    return group.lower().replace(" ", "-")


_HEADINGS = (
    '<div class="headings" aria-hidden="true"><span>symbol, term</span><span>meaning</span>'
    "<span>name in code</span></div>"
)


def entries(terms: Iterable[Term]) -> str:
    """A list of terms."""
    return f'{_HEADINGS}<dl class="glossary">{"".join(_entry(term) for term in terms)}</dl>'


def card(term: Term) -> str:
    """One term on a card."""
    return f'<dl class="glossary card">{_entry(term)}</dl>'


@functools.cache
def _entry(term: Term) -> str:
    swatch = f' style="--fill: var(--f-{term.quantity}); --ink: var(--q-{term.quantity})"' if term.quantity else ""
    code = ", ".join(f"<code>{html.escape(name)}</code>" for name in term.code)
    related = ", ".join(_link(other) for name in term.see if (other := find(name)))
    page = next((page for page in chapters.pages() if page.stem == term.chapter), None)
    more = [
        f'<a href="{page.stem}" target="_self">{html.escape(page.title)}</a>' if page else "",
        related and f"see {related}",
    ]
    return (
        f"<div><dt{swatch}><s></s><b>{html.escape(term.symbol)}</b> "
        f"{_link(term)}</dt><dd>{_in_code(html.escape(term.definition))} "
        f"<small>{' · '.join(part for part in more if part)}</small></dd><dd>{code}</dd></div>"
    )


def _in_code(words: str) -> str:
    return re.sub("`([^`]+)`", r"<code>\1</code>", words)


def _link(term: Term) -> str:
    return f'<a href="glossary?term={term.key}" target="_self">{html.escape(term.name)}</a>'
