"""Home: Tilescope. What this is, FlashAttention at work on a real sentence, what runs it here, where to start."""

import streamlit as st

from explain import chapters, lessons, ui
from explain.figures import home as figures

ui.chapter(__file__)
ui.prose(
    "FlashAttention, one line at a time: the **real Triton kernel**, on Q, K and V of a real language model reading a real paragraph. "
    "Press **→** for the next line, **Space** to play."
)
ui.stepper([lessons.OPENING], key="home")

st.subheader("Where to start", anchor=False)
minutes = sum(page.minutes or 0 for page in chapters.chapters())
ui.prose(
    f"New to softmax? Begin at 1 and go on in order: about {minutes} minutes in all. If you know attention and its cost, begin at 5. "
    "Each chapter opens on a run that you can step through, and stands by itself."
)
ui.cards(chapters.chapters())
st.subheader("Tools", anchor=False)
ui.cards(chapters.tools())
ui.chapter_link("questions", "**What people ask**, and the screen that answers it")

what, live = st.columns(2, gap="large")
with what:
    st.subheader("What you see", anchor=False)
    ui.prose(
        "The source in the player is the one that a GPU runs, compiled. Triton's interpreter executed it line by line, and each "
        "line's variables, loads and stores were recorded on the way. The numbers in the player come from that recording. Beside it stand "
        "two more witnesses: a formula for every byte and FLOP, and the compiled kernel on a GPU. Where they differ, you are told."
    )
with live:
    st.subheader("What runs it here", anchor=False)
    ui.engine_status()
    for sentence in filter(None, (figures.verified(), figures.lecture_hall())):
        st.caption(sentence)
