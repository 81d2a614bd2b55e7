"""The glossary's page: every term on it, each with an address, and a search."""

from __future__ import annotations

import re

from streamlit.testing.v1 import AppTest

from explain.glossary import TERMS, find
from explain.gpus import GPUS
from tests.pages import page


def entries(test: AppTest) -> list[str]:
    return re.findall(r"<div>.*?</div>", "".join(element.proto.body for element in test.get("html")))


def test_it_has_every_term_with_its_address():
    shown = entries(page("glossary"))
    assert len(shown) == len(TERMS)
    for term, entry in zip(TERMS, shown, strict=True):
        assert f'href="glossary?term={term.key}"' in entry
        assert f'href="{term.chapter}"' in entry


def test_an_address_leads_to_its_term():
    first = entries(page("glossary", term="alpha"))[0]
    assert "var(--f-alpha)" in first


def test_an_unknown_term_is_said_and_the_list_is_there():
    test = page("glossary", term="<b>nothing")
    assert "`term=<b>nothing`" in test.warning[0].value
    assert len(entries(test)) == len(TERMS)


def test_search_narrows_the_list():
    test = page("glossary")
    test.text_input[0].set_value("l_i").run()
    assert 'term=l_i"' in entries(test)[0]
    assert len(entries(test)) < 10
    test.text_input[0].set_value("zebra").run()
    assert not entries(test)
    assert "zebra" in test.info[0].value


def test_what_was_searched_is_marked_in_the_words_only():
    test = page("glossary", search="spill")
    first = entries(test)[0]
    assert 'href="glossary?term=spill"' in first
    assert "<mark>spill</mark></a>" in first


def test_many_names_of_one_ending_are_one_name_until_the_reader_searches_for_one():
    def pointers(test: AppTest) -> str:
        return next(entry for entry in entries(test) if '<span><a href="glossary?term=a_ptr"' in entry)

    assert re.findall(r"<code>(.*?)</code>", pointers(page("glossary"))) == ["…_ptr", "…_ptrs"]
    assert "k_ptr</mark>" in pointers(page("glossary", search="k_ptr"))


def test_the_search_can_be_cleared():
    test = page("glossary", search="spill")
    test.button[0].click().run()
    assert len(entries(test)) == len(TERMS)


def test_what_it_says_of_the_gpus_is_in_their_list():
    processor, memory = find("SM"), find("HBM")
    assert processor
    assert memory
    assert f"({GPUS['H200'].sms} on an H200)" in processor.definition
    sizes = [gpu.hbm_bytes / 1e9 for gpu in GPUS.values()]
    assert f"{min(sizes):.0f} to {max(sizes):.0f} GB on the GPUs of this app" in memory.definition
    for name in ("T4", "RTX 4090"):
        assert re.search(rf"{name} {GPUS[name].hbm}\b", memory.definition)
