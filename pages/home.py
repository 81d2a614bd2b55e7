"""Home: Tilescope. What this is, FlashAttention at work on a real sentence, what runs it here, where to start."""

import streamlit as st

from explain import lessons, recordings, ui

ui.chapter(__file__)
st.markdown(
    "FlashAttention, one line at a time: the **real Triton kernel**, on Q, K and V of a real language model reading a real paragraph. "
    "Press **→** for the next line, **Space** to play."
)
ui.stepper([lessons.OPENING], key="home")

what, start, live = st.columns(3, gap="large")
with what:
    st.subheader("What you see")
    st.markdown(
        "The source in the player is the one that a GPU runs, compiled. Triton's interpreter executed it line by line, and each "
        "line's variables, loads and stores were recorded on the way. The numbers in the player come from that recording."
    )
with start:
    st.subheader("Where to start")
    ui.chapter_link("online_softmax", "**Online softmax**: one row, its maximum and its sum")
    ui.chapter_link("flash_attention", "**FlashAttention**: the same on tiles of Q, K and V")
with live:
    st.subheader("What runs it here")
    ui.engine_status()

if (record := recordings.measured("verification-h200")) is not None:
    kernels, where = record["kernels"].values(), record["provenance"]
    right = [kernel for kernel in kernels if not kernel["wrong_on_purpose"]]
    st.caption(
        f"recorded · {sum(kernel['within_budget'] for kernel in right):,} of "
        f"{sum(kernel['experiments'] for kernel in right):,} experiments within their error budget against float64 · "
        f"{where['gpu']}, torch {where['torch']}, triton {where['triton']}, {where['date']}"
    )
