"""What a chapter is made of besides its pictures: title and goal, prose, things to try, questions, sources."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from html import escape
from pathlib import Path
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator
from streamlit.errors import StreamlitPageNotFoundError
from streamlit.navigation.page import StreamlitPage

from explain import ROOT, contents, data, glossary
from explain.figures import palette
from explain.player import files
from explain.ui import terms
from explain.ui.code import fenced
from explain.ui.repeat import repeated

LOOK = Path(__file__).parent.parent / "look"
TERMS, _APP = ((LOOK / name).read_text(encoding="utf-8") for name in ("terms.css", "app.css"))
"""The app's style sheet; TERMS is the part for terms with a definition."""

_OPENING = "the column of the page's title and goal"
_TIMES = re.compile(r"(?<=\d) ×(?: (?=\d))?")
_ARXIV = re.compile(r"(?<!\[)arXiv (\d{4}\.\d{4,5})")


@lru_cache(maxsize=1)
def icon() -> str:
    """The app's icon as a data URL: read once, not at every rerun."""
    return "data:image/svg+xml;base64," + base64.b64encode((LOOK / "icon.svg").read_bytes()).decode()


@lru_cache(maxsize=1)
def navigation() -> dict[str, StreamlitPage]:
    """Streamlit's page of each of ours, by its stem; the same for all readers."""
    return {
        page.stem: st.Page(page.path, title=page.title, icon=page.icon, default=page.kind == "home")
        for page in contents.pages()
    }


@lru_cache
def style(page: contents.Page) -> str:
    """The app's style sheet with the palette's colours, then what the page's room adds to it: its `page.css`."""
    own = ROOT / "explain" / "chapters" / page.stem / "page.css"
    added = own.read_text(encoding="utf-8") if own.exists() else ""
    return f"<style>.stApp {{ {palette.both_themes()} }}\n{TERMS}{_APP}{added}</style>"


def chapter(file: str, goal: str = "", words: str = "", wide: float = 2) -> DeltaGenerator:
    """Opens a page, given its `__file__`: its title, its goal in one sentence, a short introduction, the
    lecturer's notes for a second window. Returns the place beside them, `wide` times as wide, for the page's controls.
    """
    terms.new_page()
    column, beside = _head(contents.page_of(file), goal, words, wide)
    st.session_state[_OPENING] = column
    return beside


@repeated
def _head(page: contents.Page, goal: str, words: str, wide: float) -> tuple[DeltaGenerator, DeltaGenerator]:
    """A page's title, goal and introduction: their column, and the place beside them."""
    with st.container(key="chapter head"):
        column, beside = st.columns([1, wide], gap="large")
    with column:
        with st.container(horizontal=True, horizontal_alignment="distribute", vertical_alignment="center"):
            st.title(page.title, anchor=False, width="content")
            if page.has_notes:
                st.link_button(
                    "Lecturer's notes", f"notes?chapter={page.stem}", type="tertiary", icon=":material/open_in_new:"
                )
        if goal or words:
            prose("\n\n".join([f"**Goal: {goal}**"] * bool(goal) + [words]))
    return column, beside


def below_goal() -> DeltaGenerator:
    """The column of the page's title and goal."""
    column: DeltaGenerator = st.session_state[_OPENING]
    return column


def introduce(words: str) -> None:
    """Adds a paragraph below the page's goal, for words that depend on the page's controls."""
    with below_goal():
        prose(words)


@repeated
def chapter_link(page: str, label: str, query: Mapping[str, str] | None = None) -> None:
    """A link to another page with an address of its own; plain words where a page runs alone."""
    try:
        st.page_link(f"pages/{page}.py", label=label, query_params=dict(query) if query else None)
    except StreamlitPageNotFoundError:
        st.markdown(label)


@repeated
def prose(text: str) -> None:
    """Words on a page, as Markdown. The page's first use of a term has its definition, to hover, focus or tap.

    A ratio, "1.93 ×", stays in one line, and so does a tile, "64 × 64".
    """
    marked = fenced(terms.marked(text))
    st.markdown(_TIMES.sub(lambda found: found[0].replace(" ", "\u00a0"), marked), unsafe_allow_html=True)


@repeated
def words(title: str, names: Iterable[str]) -> None:
    """A box that explains these terms of the glossary, each in one sentence. Raises ValueError for an unknown term."""
    told = []
    for name in names:
        term = glossary.find(name)
        if term is None:
            raise ValueError(f"{name!r} is not in the glossary")
        told.append(f"- **{term.name}**: {term.brief}")
    with st.container(border=True, key=f"terms: {title}"):
        st.markdown("\n".join([f"**{title}**\n", *told]))


def anchor(heading: str) -> str:
    """The place of a heading in its page's address: "Where N²d²/M comes from" is at #where-n-d-m-comes-from."""
    return re.sub(r"[^a-z0-9]+", "-", heading.lower()).strip("-")


@repeated
def header(heading: str) -> None:
    """A section's heading; a link can lead to its `anchor`."""
    st.header(heading, anchor=anchor(heading))


@repeated
def jumps(headings: Iterable[str]) -> None:
    """Links to the headings of a long page, by their `anchor`; they stay in sight."""
    with st.container(key="groups"):
        st.markdown(" · ".join(f"[{heading}](#{anchor(heading)})" for heading in headings))


@repeated
def document(name: str, label: str) -> None:
    """A file of docs/, folded away under `label`. Its links to other files are plain words."""
    text = (ROOT / "docs" / name).read_text(encoding="utf-8").partition("\n")[2]
    with st.expander(label):
        st.markdown(fenced(re.sub(r"\[([^\]]+)\]\([\w.-]+\.md[^)]*\)", r"\1", text)), unsafe_allow_html=True)


@repeated
def sides(heading: str, wide: float = 2) -> tuple[DeltaGenerator, DeltaGenerator]:
    """A heading; returns the column for its words, and the place for their picture, `wide` times as wide."""
    column, picture = st.columns([1, wide], gap="large")
    with column:
        header(heading)
    return column, picture


@repeated
def part(heading: str, words: str, wide: float = 2) -> DeltaGenerator:
    """A heading and a paragraph in a column of at most 75 characters; returns the place for the picture beside it."""
    column, picture = sides(heading, wide)
    with column:
        prose(words)
    return picture


@repeated
def closing(room: str, *works: str, exhibit: str = "") -> None:
    """A chapter's three questions, each with its answer folded away; beside them its puzzles, and where its facts come
    from: the `closing.toml` of its room, then more `works`. An arXiv number becomes a link. Of the puzzles that mend a
    bug only the `exhibit`'s is shown.
    """
    said = _closing(room)
    parts: list[list[str]] = []
    if said["question"]:
        folded = (_folded(one["asked"], terms.marked(one["told"])) for one in said["question"])
        parts.append(["## Three questions", *folded])
    if puzzles := _puzzles(room, exhibit):
        parts.append(["## Write it yourself", puzzles])
    linked = (_ARXIV.sub(r"[arXiv \1](https://arxiv.org/abs/\1)", work) for work in (*said["sources"], *works))
    parts.append(["## Sources", "\n".join(f"- {work.strip()}" for work in linked)])
    # One element, where each heading and each st.expander would be one: each costs a page some milliseconds to open
    sections = "\n\n</section><section>\n\n".join("\n\n".join(part) for part in parts)
    st.markdown(fenced(f'<div class="closing"><section>\n\n{sections}\n\n</section></div>'), unsafe_allow_html=True)


def _folded(title: str, words: str) -> str:
    """Markdown with a title that unfolds it."""
    return f"<details><summary>{escape(title)}</summary>\n\n{words}\n\n</details>"


@lru_cache
def _puzzles(room: str, exhibit: str) -> str:
    """The kernels that a reader of this chapter can write, as markdown; empty if there is none.

    Before the chapter that teaches Triton each says so.
    """
    said, triton = [], contents.page_of("first_kernel")
    early = contents.page_of(room) in contents.chapters()[: triton.number]
    for name, puzzle in data(ROOT / "explain" / "puzzles" / "puzzles").items():
        if puzzle["chapter"] == room and puzzle.get("exhibit", "") == exhibit:
            formula = "\n".join(puzzle["formula"])
            formula = formula if exhibit else f"```text\n{formula}\n```"
            start = f"python -m explain puzzle start {name}\npython -m explain puzzle check {name}.py --watch"
            here = "Predict" if "ask" in puzzle else "Write"
            own = f"[{here} it here](./write_it?puzzle={name}), or in your own editor:"
            words = f"{puzzle['goal']}\n\n{formula}\n\n{own}\n\n```text\n{start}\n```"
            later = f" · after chapter {triton.number}" * (early and "ask" not in puzzle)
            said.append(_folded(f"{puzzle['title']}{later}", words))
    return "\n\n".join(said)


@lru_cache
def _closing(room: str) -> Mapping[str, Any]:
    return {"question": (), **data(ROOT / "explain" / "chapters" / room / "closing")}


_BAR = st.components.v2.component(
    "tilescope_bar",
    html='<nav aria-label="Pages"></nav>',
    css=(LOOK / "frame.css").read_text(encoding="utf-8"),
    js=files.module("fonts.js")
    + "".join((LOOK / name).read_text(encoding="utf-8") for name in ("large.js", "frame.js")),
)
_LISTS = (("", ("home", "chapter")), ("The lab", ("lab",)), ("Tools", ("tool", "own")))


def bar(here: contents.Page) -> str | None:
    """The bar above every page: all pages, `here` marked, the ones beside it. Returns a page's stem when chosen."""
    data = {"html": _bar_html(here)}
    chosen = _BAR(key="bar", data=data, on_page_change=lambda: None, on_narrow_change=lambda: None).page
    return str(chosen) if chosen else None


def narrow() -> bool:
    """Whether the reader's window is as narrow as a phone: the bar says so once it stands."""
    return bool(st.session_state.get("bar", {}).get("narrow"))


@lru_cache
def _bar_html(here: contents.Page) -> str:
    def link(page: contents.Page, attributes: str, label: str) -> str:
        address = "./" if page.kind == "home" else f"./{page.stem}"
        return f'<a href="{address}" data-page="{page.stem}" {attributes}>{label}</a>'

    def listed(page: contents.Page) -> str:
        number = f"<b>{page.number}</b> " if page.kind == "chapter" else ""
        return f"<li>{link(page, 'aria-current=page' if page == here else '', number + escape(page.short))}</li>"

    lists = ""
    for name, kinds in _LISTS:
        heading = f"<li><span>{name}</span></li>" if name else ""
        lists += f"<ul>{heading}{''.join(listed(page) for kind in kinds for page in contents.of_kind(kind))}</ul>"
    before, after = beside(here)
    steps = ""
    if before:
        title = escape(before.title)
        steps += link(before, f'rel=prev aria-label="Previous page: {title}"', f"←<span> {title}</span>")
    if after:
        title = escape(after.title)
        steps += link(after, f'rel=next aria-label="Next page: {title}"', f"<span>{title} </span>→")
    return (
        f'<button aria-expanded="false" aria-label="{escape(here.title)}: all pages">{escape(here.title)} ▾</button>'
        f'<div class="all">{lists}</div><div class="steps">{steps}</div>'
    )


def beside(here: contents.Page) -> tuple[contents.Page | None, contents.Page | None]:
    """The pages before and after `here`; a hidden page has neither."""
    order = [None, *(page for page in contents.pages() if page.kind != "hidden"), None]
    at = order.index(here) if here in order else 0
    return (order[at - 1], order[at + 1]) if at else (None, None)


@repeated
def footer(here: contents.Page) -> None:
    """The way on: links to the pages before and after `here`."""
    before, after = beside(here)
    if not (before or after):
        return
    st.divider()
    with st.container(horizontal=True, horizontal_alignment="distribute"):
        if before:
            chapter_link(before.stem, f"← {before.title}")
        if after:
            chapter_link(after.stem, f"{after.title} →")
