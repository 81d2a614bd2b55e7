"""Chapter 7: What breaks. Bugs that shipped: one line of the real kernel each, an input that shows it, and a game."""

import streamlit as st

from explain.chapters.what_breaks import view as museum
from explain.ui import layout
from kernels.museum import EXHIBITS

layout.chapter(
    __file__,
    goal="see how one wrong line breaks a kernel, and why ordinary random numbers do not show it.",
)
exhibit = museum.choose()
story, verdicts = st.columns([3, 2], gap="large")
with story:
    museum.plaque(exhibit)
with verdicts:
    museum.verdicts(exhibit)
museum.run(exhibit)

st.subheader("The game: find an input that breaks it", anchor=False)
museum.game(exhibit)

layout.try_this(
    "In exhibit 1, step on from the parting as far as `alpha`: m has fallen, and α = exp(m_i − m_new) is ∞, since float32 has no number that large.",
    "In exhibit 4, go to `p` with its button and read row 0: the weight sits on keys that are hidden, right of the diagonal.",
    "Break exhibit 5 with the smallest input you can find: how many keys does it take?",
    "Find exhibit 7's answer before the hints do. Then read line 5 of algorithm 3 in Milakov & Gimelshein again.",
)
layout.questions(
    (
        "Why do plain normal numbers pass nearly every exhibit?",
        "Their scores lie within a few units of 0, no tile is wholly hidden, and a row's maximum never falls by more than a few. Each of these "
        "bugs needs one of the things that random numbers do not do: very negative scores, a hidden tile, a long fall, a NaN.",
    ),
    (
        "Why not choose a lower number than −10,000 to stand for −∞?",
        "Any finite number is some input's score, and a row whose scores are all below it takes hidden keys for its maximum. −∞ is below every "
        "score, and exp(−∞ − m) is exactly 0. Its price is −∞ − −∞ = NaN, which one line, `m_safe`, avoids.",
    ),
    (
        "What does a test need that finds all of these?",
        "A reference in float64, a budget for each element, presets that bite (falling, far below zero, a hidden first tile, a NaN), and "
        "comparisons that count NaN as a difference. The kernels here must pass such a grid, in three dtypes, before they are shown.",
    ),
)
layout.sources(
    "M. Milakov and N. Gimelshein, Online normalizer calculation for softmax, arXiv 1805.02867, 2018",
    *(f"[{e.source}]({e.link})" for e in EXHIBITS.values() if e.link),
)
