"""The one list of terms: name, symbol, names in the code, and definition.

The glossary page, the hover text of prose and the player's tooltips all come from here. Imports neither streamlit nor
torch.
"""

from __future__ import annotations

import difflib
import functools
import html
import re
from collections.abc import Mapping
from dataclasses import dataclass

from explain import data
from explain.plain import made


@dataclass(frozen=True, eq=False)
class Term:
    """One term.

    symbol: as in formulas.  code: its names in the kernels; links use the first.
    quantity: its colour in the player ("max", "sum", "alpha", "p", "acc", "hbm" or "scores").
    chapter: the page that introduces it.  see: names of related terms.
    words: its spellings in prose, if not only its name; empty for a word too common to mark.
    """

    name: str
    definition: str
    chapter: str
    symbol: str = ""
    code: tuple[str, ...] = ()
    quantity: str = ""
    see: tuple[str, ...] = ()
    words: tuple[str, ...] | None = None

    @property
    def key(self) -> str:
        """The term's name in an address, as in `?term=alpha`."""
        return self.code[0] if self.code else re.sub(r"[^\w.+-]+", "-", self.name.lower()).strip("-")

    @property
    def plain(self) -> str:
        """The definition without marks for code."""
        return self.definition.replace("`", "")

    @property
    def brief(self) -> str:
        """The definition's first sentence, as Markdown."""
        return re.split(r"(?<=[.])\s", self.definition.strip(), maxsplit=1)[0].replace("\n", " ")

    @property
    def spellings(self) -> tuple[str, ...]:
        """Its spellings in prose."""
        return (self.name,) if self.words is None else self.words


GROUPS: Mapping[str, tuple[Term, ...]] = {
    group: tuple(made(Term, term) for term in terms) for group, terms in data(__file__).items()
}
TERMS: tuple[Term, ...] = tuple(term for group in GROUPS.values() for term in group)


@functools.lru_cache(maxsize=512)
def find(text: str) -> Term | None:
    """The term of this key, name, symbol, spelling or name in code; None if there is none."""
    for exact in (text, text.lower()):
        for term in TERMS:
            if exact in (term.key, term.name, term.symbol, *term.code, *term.spellings):
                return term
    return None


def search(text: str) -> list[Term]:
    """The terms that contain all these words: first the term of that name, then those with the words in a name."""
    wanted = text.casefold().split()
    names = {term: " ".join((term.name, term.symbol, *term.code, *term.spellings)).casefold() for term in TERMS}
    found = [term for term in TERMS if all(word in f"{names[term]} {term.definition.casefold()}" for word in wanted)]
    called = find(text.strip())
    return sorted(found, key=lambda term: (term is not called, not all(word in names[term] for word in wanted)))


def nearest(text: str) -> list[Term]:
    """At most three terms with a name or a spelling like this text; the most alike first."""
    named = {name.casefold(): term for term in TERMS for name in (term.name, *term.code, *term.spellings)}
    alike = difflib.get_close_matches(text.casefold(), named, n=6, cutoff=0.7)
    return list(dict.fromkeys(named[name] for name in alike))[:3]


def definitions() -> dict[str, str]:
    """The meaning of each name in the kernels' code, for tooltips."""
    return {name: term.plain for term in TERMS for name in term.code}


_SKIPPED = r"```.*?```|`[^`]*`|\$\$.*?\$\$|\$[^$\n]+\$|!?\[[^\]\n]*\]\([^)\n]*\)|https?://\S+|:[\w/-]+:|:[a-z]+(?=\[)"


@functools.cache
def _spelled() -> Mapping[str, Term]:
    """The term of each spelling."""
    return {spelling: term for term in TERMS for spelling in term.spellings}


@functools.cache
def _pattern() -> re.Pattern[str]:
    words = "|".join(re.escape(word) for word in sorted(_spelled(), key=len, reverse=True))
    return re.compile(rf"({_SKIPPED})|(<(?=[A-Za-z/!?]))|(?<![\w-])({words})(s?)(?![\w-])", re.DOTALL | re.IGNORECASE)


@functools.lru_cache(maxsize=1024)
def terms_in(text: str) -> frozenset[Term]:
    """The terms that occur in Markdown, outside code, mathematics and links."""
    return frozenset(filter(None, map(_term_of, _pattern().finditer(text))))


def words_in(text: str) -> dict[str, str]:
    """The definition of each term that occurs in Markdown, by the word that it occurs as first."""
    found: dict[str, str] = {}
    for match in _pattern().finditer(text):
        if (term := _term_of(match)) and term.plain not in found.values():
            found[match[3] + match[4]] = term.plain
    return found


def _term_of(found: re.Match[str]) -> Term | None:
    word: str | None = found[3]
    return (_spelled().get(word) or _spelled().get(word[0].lower() + word[1:])) if word else None


@functools.lru_cache(maxsize=1024)
def marked(text: str, elsewhere: frozenset[Term] = frozenset()) -> str:
    """Markdown in which the first occurrence of each term carries its definition, as HTML.

    Terms in `elsewhere` stay plain. Code, mathematics and links stay as they are; any other HTML in the text becomes
    plain characters.
    """
    said = set(elsewhere)

    def mark(found: re.Match[str]) -> str:
        skipped, tag, word, plural = found.groups()
        if skipped:
            return skipped
        if tag:
            return "&lt;"
        term = _term_of(found)
        if term is None or term in said:
            return found[0]
        said.add(term)
        return dotted(f"{word}{plural}", term)

    return _pattern().sub(mark, text)


def dotted(word: str, term: Term) -> str:
    """A word with the definition of its term, as HTML for `explain/look/terms.css`."""
    definition = html.escape(term.plain).replace("|", "&#124;")
    attributes = f'class="term" role="term" tabindex="0" data-definition="{definition}" aria-description="{definition}"'
    return f"<span {attributes}>{word}</span>"
