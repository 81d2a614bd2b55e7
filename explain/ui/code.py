"""Code on a page that is read and not stepped.

It is coloured here. Streamlit's `st.code` loads a highlighter of all languages into the browser first, and that is a
seventh of what a chapter costs to open.
"""

from __future__ import annotations

import re
from functools import lru_cache

import streamlit as st
from pygments import highlight
from pygments.formatters.html import HtmlFormatter
from pygments.lexers import get_lexer_by_name

from explain.ui.repeat import repeated

_FENCED = re.compile(r"^```(\w*)\n(.*?)\n```$", re.MULTILINE | re.DOTALL)
_COPY = (
    '<button type="button" class="copy" aria-label="Copy" title="Copy"><svg viewBox="0 0 16 16" aria-hidden="true">'
    '<path d="M5.5 5.5h8v8h-8zM10.5 5.5v-3h-8v8h3"/><path d="M3 8l3.5 4 7-8"/></svg></button>'
)


@repeated
def show_code(
    text: str, language: str = "text", *, height: int | None = None, wrap: bool = True, numbers: bool = False,
    marked: str = "",
) -> None:  # fmt: skip
    """Shows code, in a box at most `height` CSS pixels high; `language` is a lexer's name in Pygments. `marked` is a
    line without its indentation.

    Raises:
        pygments.util.ClassNotFound: there is no such lexer.
    """
    st.markdown(_block(text, language, height, wrap, numbers, marked), unsafe_allow_html=True)


def fenced(words: str) -> str:
    """The same Markdown, with each fenced block coloured as in `show_code`."""
    return _FENCED.sub(lambda block: _block(block[2], block[1] or "text"), words)


@lru_cache(maxsize=256)
def _block(
    text: str, language: str, height: int | None = None, wrap: bool = True, numbers: bool = False, marked: str = ""
) -> str:  # fmt: skip
    lexer = get_lexer_by_name(language, stripnl=False)
    own = [at for at, line in enumerate(text.splitlines(), start=1) if marked and line.strip() == marked]
    lines = highlight(text, lexer, HtmlFormatter(nowrap=True, linenos="inline" if numbers else False, hl_lines=own))
    lines = re.sub(r"\n(</span>)?$", r"\1", lines).replace(
        "\n", "&#10;"
    )  # an empty line would end a block of HTML in Markdown
    style = f' style="max-height: {height}px"' if height else ""
    kind = "source" if wrap else "source unwrapped"
    return f'<div class="{kind}"{style}><div class="text" tabindex="0">{lines}</div>{_COPY}</div>'
