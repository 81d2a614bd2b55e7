"""The table of questions is whole: each leads to a page there is."""

from __future__ import annotations

import re
from urllib.parse import parse_qsl, urlsplit

import pytest

from explain.chapters.questions import asked as questions
from explain.chapters.speed import lengths
from explain.records import registry
from explain.ui.layout import anchor
from tests.pages import opened, page, texts


def test_a_question_leads_to_a_page_and_names_its_source():
    for question in questions.questions():
        assert question.page is not None, question
        assert question.group
        assert "](https://github.com/" in question.sources
        assert question.answer
        assert question.line


@pytest.mark.parametrize("address", sorted({question.address for question in questions.questions()}))
def test_an_address_opens_without_an_error_and_its_section_is_on_the_page(address):
    asked = urlsplit(address)
    test = opened(f"pages/{asked.path}.py" if asked.path.strip("/") else "main.py", **dict(parse_qsl(asked.query)))
    assert not test.error
    headings = [heading for one in test.markdown for heading in re.findall(r"^## (.+)$", one.value, re.MULTILINE)]
    anchors = [one.proto.anchor for one in (*test.header, *test.subheader)] + [anchor(one) for one in headings]
    assert not asked.fragment or asked.fragment in anchors


def test_a_row_with_a_cell_missing_is_named(tmp_path, monkeypatch):
    document = tmp_path / "questions.md"
    document.write_text("## group\n| question | b | c | d |\n|---|---|---|---|\n| why? | `/` | here |\n")
    monkeypatch.setattr(questions, "DOCUMENT", document)
    with pytest.raises(ValueError, match=r"why.*has 3 cells, not 5"):
        questions.questions()


def test_the_n_that_is_stated_is_where_the_recorded_curves_cross():
    told = (re.search(r"from N = ([\d,]+) on.*cross near N = ([\d,]+)", one.answer) for one in questions.questions())
    (first, said) = next(filter(None, told)).groups()
    times = lengths.of(registry.recorded())
    assert times.crossing.first == int(first.replace(",", ""))
    assert times.crossing.x == pytest.approx(int(said.replace(",", "")), abs=0.5)


def test_a_letter_beside_a_times_sign_is_a_size_and_has_no_symbols_colour():
    lines = " ".join(re.findall(r"<div class=line>(.*?)</div>", "".join(questions.cards().values())))
    assert "N × V ·" in lines
    assert ">V</b> ÷" in lines


def test_the_page_jumps_to_each_group():
    test = page("questions")
    links = next(one.value for one in test.markdown if one.value.startswith("["))
    assert [f"[{one.value}](#{one.proto.anchor})" for one in test.header] == links.split(" · ")


def test_a_search_shows_the_questions_with_all_its_words_and_is_kept_in_the_address():
    every = questions.questions()
    for words in ("lse", "LSE backpropagate", "zzz"):
        test = page("questions", question=words)
        shown = texts(test)
        wanted = [
            one for one in every
            if all(word in f"{one.question} {one.line} {one.answer}".lower() for word in words.lower().split())
        ]  # fmt: skip
        assert shown.count("<article>") == len(wanted) < len(every)
        assert bool(test.info) == (not wanted)


def test_clearing_the_search_shows_every_question():
    test = page("questions", question="lse")
    test.button[0].click().run()
    assert texts(test).count("<article>") == len(questions.questions())


def test_each_term_has_its_definition_where_the_page_says_it_first():
    shown = "\n".join(one.value for one in page("questions").markdown)
    for word in ("LSE", "atomics", "splits"):
        assert len(re.findall(rf'role="term"[^>]*>{word}<', shown)) == 1, word
