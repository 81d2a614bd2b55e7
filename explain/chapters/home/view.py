"""The first page, part by part."""

from __future__ import annotations

import streamlit as st

from explain import contents
from explain.chapters.home import figures
from explain.ui import device, exercises, layout


def where_to_start() -> None:
    """A card for each chapter, for each page of the lab, and for the tools."""
    st.header("Where to start", anchor=False)
    minutes = sum(page.minutes or 0 for page in contents.chapters())
    first, flash = contents.chapters()[0], contents.page_of("flash_attention")
    layout.prose(
        f"New to attention? Begin at {first.number} and go on in order: about {minutes} minutes in all. If you know "
        f"attention and its cost, begin at {flash.number}. Each chapter stands by itself and opens on an example at "
        "work."
    )
    layout.cards(contents.chapters())
    if lab := contents.of_kind("lab"):
        st.header("The lab", anchor=False)
        layout.cards(lab)
    st.header("Tools", anchor=False)
    layout.cards([*contents.of_kind("tool"), contents.page_of("questions.py")])
    exercises.progress()


def what_you_see() -> None:
    """Where the numbers come from, and what runs the kernels on this machine."""
    what, live = st.columns(2, gap="large")
    with what:
        st.header("What you see", anchor=False)
        layout.prose(
            "A GPU runs this very source, compiled. For the player, Triton's interpreter executed it line by line on "
            "the CPU, and recorded each line's variables, loads and stores: every number in the player is from that "
            "recording. Two more witnesses stand beside it, a formula for every byte and FLOP, and the compiled "
            "kernel on a GPU. Where they differ, you are told."
        )
    with live:
        st.header("What runs it here", anchor=False)
        device.engine_status()
        for sentence in filter(None, (figures.verified(), figures.lecture_hall())):
            st.caption(sentence)
