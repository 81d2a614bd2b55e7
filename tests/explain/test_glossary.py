"""The one list of terms: whole, unambiguous, and put into prose without harm."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from explain import contents as chapters
from explain import glossary
from explain.glossary import TERMS, Term, definitions, find, marked, nearest, search
from explain.source.equations import SYMBOLS
from kernels.catalog import TAUGHT

QUANTITIES = {"", "max", "sum", "alpha", "p", "acc", "hbm", "scores"}


def plain(text: str) -> str:
    return re.sub(r"<[^>]+>", "", text)


def carried(text: str) -> list[str]:
    return re.findall(r'<span class="term"[^>]*>([^<]*)</span>', marked(text))


@pytest.mark.parametrize("kernel", TAUGHT.values(), ids=lambda kernel: kernel.name)
def test_every_variable_with_a_part_to_play_has_a_term(kernel):
    assert set(kernel.roles.values()) <= set(definitions())


def test_every_symbol_of_the_equations_has_a_term():
    assert set(SYMBOLS) <= set(definitions())


def test_no_name_and_no_spelling_belongs_to_two_terms():
    for names in (
        [term.key for term in TERMS],
        [n for t in TERMS for n in t.code],
        [s for t in TERMS for s in t.spellings],
    ):
        assert len(set(names)) == len(names)


@pytest.mark.parametrize("term", TERMS, ids=lambda term: term.name)
def test_a_term_is_whole(term: Term):
    assert find(term.key) == term
    assert term.quantity in QUANTITIES
    assert all(find(name) is not None and find(name) is not term for name in term.see), term.see
    assert term.chapter in {page.stem for page in (*chapters.chapters(), *chapters.of_kind("lab"))}
    assert term.definition[-1] == "."
    assert len(term.definition) < 200


def test_it_needs_neither_streamlit_nor_torch():
    code = "import sys, explain.glossary; assert not {'streamlit', 'torch', 'triton', 'numpy'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_search_puts_names_before_mentions():
    found = [term.name for term in search("spill")]
    assert found[0] == "spill"
    assert search("M_I")[0] is find("m_i")
    assert search("no such thing") == []


def test_prose_carries_each_definition_once():
    text = "The running max moves; a running max never falls. Two tiles, one tile."
    assert carried(text) == ["running max", "tiles"]
    assert plain(marked(text)) == text
    assert definitions()["m_i"] in marked(text)


def test_a_page_says_each_definition_once(monkeypatch):
    from explain.ui import terms

    monkeypatch.setattr("streamlit.session_state", {})
    terms.new_page()
    first, second = "The running max and α.", "The running max, α and a tile."
    assert definitions()["m_i"] in terms.marked(first)
    assert definitions()["m_i"] not in terms.marked(second)
    assert terms.marked(second) == marked(second, frozenset(filter(None, (find("m_i"), find("alpha")))))
    assert terms.marked(first) == marked(first)  # again, as in a fragment that runs alone
    terms.new_page()
    assert definitions()["m_i"] in terms.marked(second)


def test_a_part_that_runs_again_alone_says_its_terms_first_again_in_other_words(monkeypatch):
    from explain.ui import terms

    monkeypatch.setattr("streamlit.session_state", {})
    terms.new_page()
    assert terms.marked("A tile.") != "A tile."
    for words in ("The running max is 3. One tile.", "The running max is 4. One tile."):
        with terms.said().part("run"):
            told = terms.marked(words)
        assert definitions()["m_i"] in told
        assert told.endswith("One tile.")


def test_a_common_word_is_a_term_only_in_bold():
    assert carried("Each value of a key press; the **value** of a **key**.") == ["**value**", "**key**"]


def test_what_is_counted_and_timed_has_its_words():
    assert carried("L2 cold or a warm L2; sectors of a cache line; dirty lines.") == [
        "L2 cold",
        "warm L2",
        "sectors",
        "cache line",
        "dirty lines",
    ]


def test_the_longer_term_wins_and_capitals_may_begin_a_sentence():
    assert carried("Tile sizes matter. Safe softmax, softmax.") == ["Tile sizes", "Safe softmax", "softmax"]
    assert carried("An SM has warps; sm_90 and a postscript on sms have none.") == ["SM", "warps"]


@pytest.mark.parametrize(
    "text",
    [
        "`running max`",
        "```\nthe running max\n```",
        "[online softmax](online_softmax)",
        "$\\text{running max}$",
        "$$\\text{tile}$$",
        "https://example.org/tile",
        ":material/tile:",
        "`<b>`",
    ],
)
def test_code_mathematics_and_links_stay_as_they_are(text):
    assert marked(text) == text


def test_html_in_prose_is_shown_not_run():
    assert marked("a <script>alert(1)</script> b") == "a &lt;script>alert(1)&lt;/script> b"
    assert marked("α < 1 and m > 0").endswith("</span> < 1 and m > 0")


def test_a_definition_cannot_end_its_attribute_or_a_tables_cell():
    for term in TERMS:
        for spelling in term.spellings:
            attribute = re.search(r'data-definition="([^"]*)"', marked(spelling))
            assert attribute
            assert "<" not in attribute[1]
            assert "|" not in attribute[1]
    assert glossary.GROUPS.keys() >= {"Softmax", "Attention", "Numbers", "Triton", "The GPU", "Measuring", "Tilescope"}


def test_a_word_written_wrongly_has_a_nearest_term():
    assert nearest("runing max")[0] == find("running max")
    assert nearest("zebra") == []
