"""Code that is read: coloured on the server, and safe in Markdown."""

from __future__ import annotations

import re
from html import unescape

import pytest

from explain.ui.code import fenced


def shown(words: str) -> str:
    [text] = re.findall(r'<div class="text" tabindex="0">(.*?)</div>', fenced(words), re.DOTALL)
    return unescape(re.sub(r"<[^>]+>", "", text))


@pytest.mark.parametrize(
    "text",
    [
        "a = b[0] < c[1] & d  # *not* _emphasis_ $x$ :red[y] </div>",
        "one\n\n\nfour",  # an empty line ends a block of HTML in Markdown
        "    indented\n\ttab",
        "-0.5\n+1.0",
        "ℓ = Σ exp(x − m)",
    ],
)
@pytest.mark.parametrize("language", ["", "python", "diff", "toml", "bash"])
def test_a_fenced_block_keeps_its_text_in_one_block_of_html(text, language):
    words = fenced(f"Before.\n\n```{language}\n{text}\n```\n\nAfter.")
    assert shown(f"```{language}\n{text}\n```") == text
    before, block, after = words.split("\n\n")
    assert (before, after) == ("Before.", "After.")
    assert block.startswith("<div")
    assert "\n" not in block


def test_code_is_coloured_and_a_diff_marked_to_its_last_line():
    assert '<span class="k">def</span>' in fenced("```python\ndef f(): ...\n```")
    assert [kind in fenced("```diff\n-old\n+new\n```") for kind in ('"gd">-old', '"gi">+new')] == [True, True]


def test_words_without_a_block_stay_as_they_are():
    assert fenced("Press `N`, then ``` is no block") == "Press `N`, then ``` is no block"
