"""Chapter 8: Speed. Attention as a climb: from online softmax in fp32 to as fast as the hardware, one idea and one
number a rung.
"""

import streamlit as st

from explain.chapters.speed import climb_view, results_view, timeline_view, times_view, tuning_view
from explain.ui import layout

layout.chapter(
    __file__,
    goal=(
        "follow one algorithm from a slow kernel to one that is as fast as the hardware, and name the idea and the "
        "gain of each step."
    ),
)
CLIMB, TUNING, LENGTHS, OTHERS = "The climb", "Tuning", "From which N?", "Other kernels"
view = st.segmented_control(
    "View",
    [CLIMB, TUNING, LENGTHS, OTHERS],
    default=CLIMB,
    required=True,
    key="view",
    bind="query-params",
    wrap=True,
    label_visibility="collapsed",
)
result = results_view.speed_result()


def climb() -> None:
    """The rungs of attention on one shape, the chosen one's code, how it compares over N."""
    case = results_view.speed_case(result, "attention") if result else None
    climb_view.climb(result, case)
    if result and case:
        climb_view.climb_roofline(result, case)
        climb_view.climb_counters(result, case)
        st.header("What the warps do, cycle by cycle", anchor=False)
        timeline_view.timeline()
        results_view.speed_curve(result, case)
        results_view.speed_shapes(result, "attention")


def tuning() -> None:
    """One rung at every setting of its tile, its warps and its stages."""
    st.header("One kernel, many settings", anchor=False)
    layout.prose(
        "The same source, compiled for other tile sizes, warps and stages, is another kernel. A **large tile** reads "
        "K and V less often and needs more registers. **More warps** share a tile's registers among more threads. "
        "**More stages** fetch further ahead and hold more tiles in shared memory. No formula says which is fastest: "
        "one tries them, which is autotuning."
    )
    tuning_view.tuning()
    layout.chapter_link("tile_cost", "What one tile costs, and its instructions →")


def lengths() -> None:
    """From which N on FlashAttention pays, and what the first call of a kernel is."""
    st.header("From which N is FlashAttention faster here?", anchor=False)
    layout.prose(
        "Both are plain Triton and written to be read: standard attention in three launches, which write S and P to "
        "HBM and read them back, and FlashAttention in one. On short sequences that is one launch against three, on "
        "long ones the bytes of S and P."
    )
    times_view.faster_from()
    st.header("Is the first call warm-up?", anchor=False)
    times_view.first_call()


def others() -> None:
    """The other fast kernels beside their baselines, and the ideas of each."""
    table = results_view.speed_table()
    case = results_view.speed_case(result, table, "work.") if result else None
    if result and case:
        results_view.speed_bars(result, case)
        results_view.speed_curve(result, case)
        results_view.speed_shapes(result, table)
    st.header("Why it is this fast", anchor=False)
    results_view.speed_ideas(table)


{CLIMB: climb, TUNING: tuning, LENGTHS: lengths, OTHERS: others}[str(view)]()

with st.expander("How this was measured"):
    layout.prose(
        "Every kernel is first run on random data and compared with float64. Its **tolerance** is twice the error of "
        "the same formula in eager PyTorch plus a band for rounding; what misses it is not timed, since a wrong "
        "result can be made as fast as one likes. Then all kernels of a shape are timed in turn, round after round, "
        "so that a slow moment hits all of them, with L2 emptied before each launch. A **roof** is measured as well: "
        "for bytes a kernel that only moves them, for FLOPs a large matrix product. It is no law: it is what a "
        "simpler kernel reaches on the same GPU."
    )
layout.try_this(
    "Attention with a causal mask: go from the longest N to the shortest. Which kernels give up speed, and what must "
    "each program still do once, however few its tiles?",
    "Change d from 128 to 64. The exponentials stay as many while the products halve. Who loses most?",
    "Read the diff of each rung, and find the one line that would have to go for its idea to be undone.",
    "*Other kernels*, softmax: follow one kernel over V in fp32, then in bf16. Where does a row no longer fit, and "
    "which kernel takes over?",
    "*Other kernels*, top-5: the baseline launches a softmax and then a search. Compare the bytes that it writes in "
    "between with the bytes of the five that are asked for.",
)
layout.questions(
    (
        "Is the fast kernel less exact?",
        "No. All rungs but the lowest round the same numbers at the same places: P̃ to 16 bits before the second "
        "product, O at the end. The order of the sums differs, and with it the last bits. Each is held to the same "
        "tolerance against float64, and kernels that exceed it are not timed.",
    ),
    (
        "Why is 100% of the peak out of reach?",
        "The peak is a matrix product and nothing else. Attention also takes an exponential for each element of S, "
        "and at d = 128 the unit that makes them needs half as long as the tensor cores need for both products. What "
        "can be hidden under the products is; the rest is seen.",
    ),
    (
        "Why not write everything in Gluon, then?",
        "Each of the last rungs knows one chip. The rungs in plain Triton leave it to the compiler who fetches, who "
        "waits and where a tile lies, and run on any GPU that Triton knows, with any N and d. Our dispatcher takes "
        "the special rung where it fits and a general one elsewhere.",
    ),
)
layout.sources(
    "T. Dao, FlashAttention-2, arXiv 2307.08691, 2023",
    "J. Shah et al., FlashAttention-3: fast and accurate attention with asynchrony and low-precision, arXiv "
    "2407.08608, 2024 (warps with different jobs, turns, two products at once; exponentials and products a second)",
    "T. Dao et al., Flash-Decoding for long-context inference, 2023",
    "M. Milakov and N. Gimelshein, Online normalizer calculation for softmax, arXiv 1805.02867, 2018",
)
