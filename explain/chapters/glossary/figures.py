"""The glossary's entries as HTML, laid out by `page.css`."""

from __future__ import annotations

import functools
import html
import re
from collections.abc import Iterable, Sequence

from explain import contents as chapters
from explain.glossary import Term, find

MOST_NAMES = 4
"""Names in the code that an entry lists one by one."""


def entries(terms: Iterable[Term], words: str = "") -> str:
    """A list of terms, with the `words` that the reader searches marked."""
    listed = "".join(_entry(term, bool(words)) for term in terms)
    return f'<dl class="glossary">{_marked(listed, words)}</dl>'


def card(term: Term) -> str:
    """One term on a card."""
    return f'<dl class="glossary card">{_entry(term)}</dl>'


@functools.cache
def _entry(term: Term, every: bool = False) -> str:
    """A term; with `every` all of its names in the code, not the endings that many share: a reader searched for one."""
    ink = f' style="--fill: var(--f-{term.quantity}); --ink: var(--q-{term.quantity})"' if term.quantity else ""
    swatch = "<s></s>" if ink else ""
    symbol = f" <b>{html.escape(term.symbol)}</b>" if term.symbol else ""
    code = ", ".join(f"<code>{html.escape(name)}</code>" for name in (term.code if every else _patterns(term.code)))
    related = ", ".join(_link(other) for name in term.see if (other := find(name)))
    page = next((page for page in chapters.pages() if page.stem == term.chapter), None)
    chapter = f'<a href="{page.stem}" target="_self">{html.escape(page.title)}</a>' if page else ""
    see = f" <small>see {related}</small>" if related else ""
    return (
        f"<div><dt{ink}>{swatch}<span>{_link(term)}{symbol}</span></dt>"
        f"<dd class=names><span>{code}</span><small>{chapter}</small></dd>"
        f"<dd>{_in_code(html.escape(term.definition))}{see}</dd></div>"
    )


def _patterns(names: Sequence[str]) -> Sequence[str]:
    """The names, or where they are many the endings that they share: "…_ptr". Names that begin alike: "stride_…"."""
    if len(names) <= MOST_NAMES:
        return names
    first = {name.partition("_")[0] for name in names}
    if len(first) == 1:
        return (f"{first.pop()}_…",)
    return tuple(dict.fromkeys(f"…_{name.rpartition('_')[2]}" for name in names))


def _marked(entries: str, words: str) -> str:
    """HTML with each of the words marked, but not within a tag or an escaped character."""
    if not words.strip():
        return entries
    wanted = "|".join(re.escape(html.escape(word)) for word in words.split())
    pattern = re.compile(rf"<[^>]*>|({wanted})|&#?\w+;", re.IGNORECASE)
    return pattern.sub(lambda found: f"<mark>{found[1]}</mark>" if found[1] else found[0], entries)


def _in_code(words: str) -> str:
    return re.sub("`([^`]+)`", r"<code>\1</code>", words)


def _link(term: Term) -> str:
    return f'<a href="glossary?term={term.key}" target="_self">{html.escape(term.name)}</a>'
