"""The list of mutants fits the code, and what runs them tells a found one from one that survives."""

from __future__ import annotations

from dataclasses import replace

from benchmarks import mutants
from explain import ROOT

LISTED = mutants.listed()


def test_there_are_enough_each_with_a_name_of_its_own():
    assert len(LISTED) >= 60
    assert len({mutant.name for mutant in LISTED}) == len(LISTED)
    assert {mutant.group for mutant in LISTED} == set(mutants.TITLES)


def test_each_edit_has_one_place_and_a_test_that_exists():
    for mutant in LISTED:
        assert (ROOT / mutant.file).read_text(encoding="utf-8").count(mutant.old) == 1, mutant.name
        assert mutant.old != mutant.new, mutant.name
        file, _, test = mutant.test.partition("::")
        assert f"def {test.partition('[')[0]}(" in (ROOT / file).read_text(encoding="utf-8"), mutant.name


def test_a_mutant_is_found_and_a_changed_comment_survives():
    mutant = next(one for one in LISTED if one.name == "a failure without words is silent")
    comment = replace(mutant, old="# a job never ends in silence", new="# in words")
    unknown = replace(mutant, test=f"{mutant.test}_not")
    with mutants.copies(1) as (place,):
        before = (place / mutant.file).read_text(encoding="utf-8")
        assert mutants.verdict(place, mutant) == "found"
        assert (place / mutant.file).read_text(encoding="utf-8") == before
        assert mutants.verdict(place, comment) == "survived"
        assert mutants.verdict(place, unknown) == "pytest ended with status 4"
        assert mutants.already_failing(place, [mutant.test, unknown.test]) == [unknown.test]
