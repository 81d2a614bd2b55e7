"""Counting words and numbers in sight: what counts, and what counts once."""

from __future__ import annotations

from benchmarks.first_screens import Text, numerals, terms


def texts(*words: str, explained: bool = False) -> list[Text]:
    return [Text(word, 0.0, 100.0 * i, 37.0 * i, explained) for i, word in enumerate(words)]


def test_a_numeral_is_a_number_a_date_or_a_time_and_no_part_of_a_name():
    said = texts("5.072 × 0.731 + 3.388 = 7.096", "recorded, 2026-11-22", "0:05 / 1:02", "GPT-2, fp16, m_2", "−0.30")
    assert numerals(said) == ["5.072", "0.731", "3.388", "7.096", "2026-11-22", "0:05", "1:02", "−0.30"]
    assert numerals(texts("33,024 B", "600MB", "64 × 64")) == ["33,024", "600", "64", "64"]


def test_the_ticks_of_an_axis_count_once_and_a_column_of_values_does_not():
    def column(*values: str) -> list[Text]:
        return [Text(value, 10.0, 20.0 * i, 30.0, False) for i, value in enumerate(values)]

    assert numerals(column("0", "1", "2", "3")) == ["0 … 3"]
    assert numerals(column("64", "128", "256")) == ["64 … 256"]
    assert numerals(column("2.60", "0.52", "−1.39")) == ["2.60", "0.52", "−1.39"]
    assert numerals(column("7", "8")) == ["7", "8"]


def test_a_term_counts_once_and_is_explained_where_one_of_its_places_explains_it():
    seen, unexplained = terms(texts("A kernel reads keys from HBM.", "kernels", "Q"))
    assert {"kernel", "key", "hbm", "Q"} <= seen == unexplained
    seen, unexplained = terms([*texts("Two kernels of Q"), *texts("kernel", explained=True)])
    assert "kernel" in seen
    assert unexplained == {"Q"}
    assert terms(texts("HBM and SRAM"), ["HBM"])[1] == {"sram"}


def test_code_has_the_functions_of_triton_as_words_and_plain_words_have_none():
    assert terms(texts("a = tl.load(a_ptr + offsets)"))[0] >= {"tl.load"}
    assert terms(texts("A cat sat on a chair, and it was warm."))[0] == set()
