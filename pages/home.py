"""Home: Tilescope. What this is, FlashAttention at work on a real sentence, what runs it here, where to start."""

import streamlit as st

from explain import contents as chapters
from explain import lessons
from explain.chapters.home import figures
from explain.ui import device, layout, stepper

layout.chapter(__file__)
layout.prose(
    "FlashAttention, one line at a time: the **real Triton kernel**, on Q, K and V of a real language model reading a real paragraph. "
    "The player opens where a row's maximum first moves, and its sum shrinks. Press **→** for the next line, **Space** to play, **Home** for the beginning."
)
stepper.stepper([lessons.OPENING], key="home")

st.subheader("Where to start", anchor=False)
minutes = sum(page.minutes or 0 for page in chapters.chapters())
layout.prose(
    f"New to softmax? Begin at 1 and go on in order: about {minutes} minutes in all. If you know attention and its cost, begin at 5. "
    "Each chapter stands by itself and opens on an example at work."
)
layout.cards(chapters.chapters())
if lab := chapters.of_kind("lab"):
    st.subheader("The lab", anchor=False)
    layout.cards(lab)
st.subheader("Tools", anchor=False)
layout.cards([*chapters.of_kind("tool"), chapters.page_of("questions.py")])

what, live = st.columns(2, gap="large")
with what:
    st.subheader("What you see", anchor=False)
    layout.prose(
        "A GPU runs this very source, compiled. For the player, Triton's interpreter executed it line by line on the CPU, and recorded each "
        "line's variables, loads and stores: every number in the player is from that recording. Two more witnesses stand "
        "beside it, a formula for every byte and FLOP, and the compiled kernel on a GPU. Where they differ, you are told."
    )
with live:
    st.subheader("What runs it here", anchor=False)
    device.engine_status()
    for sentence in filter(None, (figures.verified(), figures.lecture_hall())):
        st.caption(sentence)
