"""What is repeated: the same values at the same place are drawn once for all readers, and look as if drawn again."""

from __future__ import annotations

import streamlit as st
from streamlit.delta_generator import DeltaGenerator
from streamlit.testing.v1 import AppTest

from explain.ui.repeat import repeated
from explain.ui.terms import marked

DRAWN: list[str] = []


@repeated
def beside(words: str) -> tuple[DeltaGenerator, DeltaGenerator]:
    """Words in a column; the rest of the column, and the other one."""
    DRAWN.append(words)
    left, right = st.columns(2)
    left.markdown(marked(words))
    return left, right


def _page() -> None:
    import streamlit as st

    from explain.ui import terms
    from tests.explain.test_repeat import beside

    terms.new_page()
    words = st.text_input("Words", "a tile")
    left, right = beside(words)
    with right:
        st.markdown("beside")
    left.markdown("below")
    st.markdown(terms.marked("a tile again"))


def _seen(test: AppTest) -> list[list[str]]:
    assert not test.exception
    return [[one.value for one in place.markdown] for place in (*test.columns, test.main)]


def test_a_second_reader_gets_what_was_drawn_for_the_first_and_the_page_goes_on_after_it():
    DRAWN.clear()
    first, second = AppTest.from_function(_page).run(), AppTest.from_function(_page).run()
    assert DRAWN == ["a tile"]
    assert _seen(first) == _seen(second) == _seen(second.run())
    (words, below), (other,), _ = _seen(first)
    assert "data-definition" in words
    assert (below, other) == ("below", "beside")
    assert second.markdown[-1].value == "a tile again"  # said before, by what was not drawn again


def test_other_words_are_drawn_and_the_old_ones_are_still_known():
    DRAWN.clear()
    test = AppTest.from_function(_page).run()
    before = _seen(test)
    assert "a row" in str(_seen(test.text_input[0].set_value("a row").run()))
    assert _seen(test.text_input[0].set_value("a tile").run()) == before
    assert DRAWN.count("a row") == 1


def test_without_a_page_it_only_draws():
    DRAWN.clear()
    beside("a tile")
    beside("a tile")
    assert DRAWN == ["a tile", "a tile"]


def _after_other_words() -> None:
    import streamlit as st

    from explain.ui import terms
    from tests.explain.test_repeat import beside

    terms.new_page()
    st.markdown(terms.marked(st.text_input("Words", "one")))
    beside("a mask")
    st.markdown(terms.marked("a mask again"))


def test_words_before_it_matter_only_where_they_say_its_terms():
    DRAWN.clear()
    test = AppTest.from_function(_after_other_words).run()

    def explained(before: str) -> bool:
        test.text_input[0].set_value(before).run()
        return "data-definition" in test.columns[0].markdown[0].value

    assert explained("two")
    assert test.markdown[-1].value == "a mask again"
    assert DRAWN == ["a mask"]
    assert not explained("one mask")
    assert DRAWN == ["a mask"] * 2
    assert explained("three")
    assert not explained("a mask first")
    assert DRAWN == ["a mask"] * 2


def _one_of_many() -> None:
    import streamlit as st

    from tests.explain.test_repeat import alone

    alone(st.text_input("Words", "a"))


@repeated
def alone(words: str) -> None:
    """Words."""
    DRAWN.append(words)
    st.markdown(words)


def test_the_call_unused_for_longest_is_forgotten_first(monkeypatch):
    monkeypatch.setattr("explain.ui.repeat.MOST", 2)
    DRAWN.clear()
    test = AppTest.from_function(_one_of_many).run()
    for words in "bacab":
        test.text_input[0].set_value(words).run()
    assert DRAWN == ["a", "b", "c", "b"]
