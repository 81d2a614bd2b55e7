"""Lab 6: Speed. Our fast kernels beside the fastest of others, under the roof that the hardware sets, and the ideas that got them there."""

import streamlit as st

from explain import ui

ui.chapter(
    __file__,
    goal="see how near a kernel comes to what the hardware can do, and name the idea behind each step of the way.",
)
table = ui.speed_table()
result = ui.speed_result()
case = ui.speed_case(result, table) if result else None
if result and case:
    st.subheader("Ours beside others, in one run", anchor=False)
    ui.speed_bars(result, case)
    ui.speed_curve(result, case)
    ui.speed_shapes(result, table)
    with st.expander("How this was measured"):
        ui.prose(
            "Every kernel is first run on random data and compared with float64. Its **error budget** is twice the error of the same formula in eager PyTorch plus a band for rounding; "
            "what misses it is not timed, since a wrong result can be made as fast as one likes. Then all kernels of a shape are timed in turn, round after round, so that a slow "
            "moment hits all of them, with L2 emptied before each launch. A **roof** is measured as well: for bytes a kernel that only moves them, for FLOPs a large matrix product. "
            "It is no law: it is what a simpler kernel reaches on the same GPU."
        )

st.subheader("Why it is this fast", anchor=False)
ui.speed_ideas(table)

ui.try_this(
    "Attention with a causal mask: go from the longest N to the shortest. Which kernels give up speed, and what must each program still do once, however few its tiles?",
    "Attention: change d from 128 to 64. The exponentials stay as many while the products halve. Who loses most?",
    "Softmax: follow one kernel over V in fp32, then in bf16. Where does a row no longer fit, and which kernel takes over?",
    "Top-5: the peer launches a softmax and then a search. Compare the bytes that it writes in between with the bytes of the five that are asked for.",
    "Pick one idea, and find in the code the line that would have to go for it to be undone.",
)
ui.sources(
    "T. Dao, FlashAttention-2, arXiv 2307.08691, 2023",
    "J. Shah et al., FlashAttention-3: fast and accurate attention with asynchrony and low-precision, arXiv 2407.08608, 2024",
    "T. Dao et al., Flash-Decoding for long-context inference, 2023",
    "M. Milakov and N. Gimelshein, Online normalizer calculation for softmax, arXiv 1805.02867, 2018",
)
