"""Home: Tilescope. What this is, FlashAttention at work on a real sentence, what runs it here, where to start."""

import streamlit as st

from explain import chapters, lessons, recordings, ui

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
if tools := [page for page in chapters.pages() if page.kind == "tool"]:
    st.subheader("Tools", anchor=False)
    ui.cards(tools)

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

if (record := recordings.measured("verification-h200")) is not None:
    kernels, where = record["kernels"].values(), record["provenance"]
    right = [kernel for kernel in kernels if not kernel["wrong_on_purpose"]]
    st.caption(
        f"recorded · {sum(kernel['within_budget'] for kernel in right):,} of "
        f"{sum(kernel['experiments'] for kernel in right):,} experiments within their error budget against float64 · "
        f"{where['gpu']}, torch {where['torch']}, triton {where['triton']}, {where['date']}"
    )
