"""Chapter 5: FlashAttention. The stepper on tiles of Q, K and V, with what it moves and how it does on a GPU."""

import streamlit as st

from explain import lessons, ui

ui.chapter(__file__)
st.markdown(
    "**Goal: attention without ever writing S = QKᵀ to memory.** A program keeps one tile of queries on chip and walks over the "
    "tiles of keys. Each tile of S is made, used and dropped; what stays is m, ℓ and the unfinished output Õ, all three rescaled "
    "by α whenever a row's maximum moves: online softmax with a matrix product inside."
)

experiment = ui.controls(
    lessons.OPENING, ["inputs", "seq_len", "kv_len", "block_m", "block_n", "dtype", "causal"], ui.ATTENTION_PRESETS
)
traces = ui.stepper([experiment], key="flash attention")

st.markdown(
    "**To look for.** In the first tile of each row of tiles α = 0: there is nothing yet to keep. Switch *Causal* on: tiles right of "
    "the diagonal are never loaded, and on the diagonal scores right of it are −∞. Make the query tiles larger: fewer programs, "
    "so K and V are read less often."
)
with st.expander("Three questions"):
    st.markdown(
        "1. *Is it exact?* Yes: no score is dropped or approximated. Only the order of the additions differs from standard attention, "
        "and the error against float64 stays within the budget that eager PyTorch sets.\n"
        "2. *Why divide by ℓ only at the end?* The first FlashAttention kept O normalised at every visit, which costs further "
        "multiplications and divisions a tile, for numbers that the next tile rescales anyway.\n"
        "3. *Who owns O?* The program that owns its queries, so O is written once. With the loops the other way round, O is re-read and "
        "re-written at every visit."
    )
if traces:
    st.subheader("Bytes: formula and trace")
    ui.traffic_table(experiment, traces[0])
    st.subheader("On the GPU")
    ui.on_device(experiment, traces[0])
st.caption(
    "Sources: T. Dao et al., FlashAttention, arXiv 2205.14135, 2022; T. Dao, FlashAttention-2, arXiv 2307.08691, 2023, algorithm 1."
)
