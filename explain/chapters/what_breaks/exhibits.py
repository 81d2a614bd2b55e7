"""What the page calls each exhibit, and its bug in a sentence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from explain import data
from explain.plain import made
from kernels.museum import EXHIBITS, Exhibit


@dataclass(frozen=True)
class Words:
    """An exhibit in a newcomer's words: its title, also in two or three words, what it does to the result, the bug in a
    sentence, the story after it, as markdown, and what an input needs to show it.
    """

    title: str
    short: str
    symptom: str
    bug: str
    story: str
    needs: str


def _words(exhibit: Exhibit, said: Mapping[str, str]) -> Words:
    first, end, rest = exhibit.story.partition(". ")
    return made(Words, {"bug": first + end.strip(), "story": exhibit.story if "bug" in said else rest, **said})


WORDS: Mapping[str, Words] = {name: _words(EXHIBITS[name], said) for name, said in data(__file__).items()}
