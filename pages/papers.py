"""Lab 4: The papers, reproduced. Each paper's figure beside ours: the same work, the same axes, the differences explained."""

import streamlit as st

from explain.chapters.papers import flashattention, milakov
from explain.chapters.papers import view as papers_view
from explain.chapters.three_numbers.levels import amount
from explain.ui import layout

PANELS = ("Softmax and top-k", "FlashAttention, figure 2", "Theorem 2", "Time and memory", "Memory hierarchy")
FIGURES = {f"{figure.number}: {figure.title}": figure for figure in milakov.FIGURES}

layout.chapter(
    __file__, goal="check the papers' numbers against a GPU of today, and know why each differs where it does."
)
panel = st.segmented_control(
    "What to repeat", PANELS, default=PANELS[0], required=True, key="panel", bind="query-params", wrap=True
)
chosen = papers_view.paper_records()

if panel == PANELS[0]:
    st.subheader("Accesses to memory for each element", anchor=False)
    layout.prose(
        "Milakov & Gimelshein argue with one number a kernel: how often it goes to memory for each element. A formula gives it, and the trace counts it, "
        "load by load, while the kernel runs."
    )
    papers_view.paper_accesses()
    st.subheader("Figures 1 to 4: what fewer accesses are worth", anchor=False)
    figure = st.segmented_control(
        "Figure",
        list(FIGURES),
        default=next(iter(FIGURES)),
        required=True,
        key="figure",
        bind="query-params",
        wrap=True,
    )
    layout.prose(
        f"The paper measured on a {milakov.THEIR_GPU} and prints curves without their numbers. Here are its sentences, drawn grey and dashed where they name a ratio:"
    )
    papers_view.paper_figure(FIGURES[figure], chosen)
    layout.prose(
        f"**What differs.** *The program*: theirs has {milakov.THEIR_THREADS} threads a row, and each thread keeps a pair (m, ℓ) of its own until the end; ours has {milakov.THREADS}, and joins them at every tile "
        f"of up to {milakov.LARGEST_TILE:,} elements. *Top-k*: theirs inserts one element at a time and most are turned away at once; ours takes the K largest of every tile, "
        "which costs the same whatever the data. *The data*: theirs is uniform between 0 and 1, ours normal; our kernels do the same work on any. "
        f"*How far*: 4,000 rows end at V = {milakov.FIGURES[0].lengths[-1]:,}, where a matrix has {amount(milakov.FIGURES[0].largest_bytes)}; "
        f"10 rows at V = {milakov.FIGURES[1].lengths[-1]:,}."
    )

    layout.try_this(
        "Figure 1: find the V at which the curves of safe and online softmax part, and then the V from which the safe one's reads from DRAM rise. Are they the same?",
        "Figure 2: ten rows, ten programs, and more than a hundred SMs. What is the fused kernel short of there, if not of bandwidth?",
        "Figure 3: the fused kernel makes one access where the other makes five. From which V on does that show, and what holds it back before?",
    )

elif panel == PANELS[1]:
    st.subheader("GPT-2 medium, forward and backward", anchor=False)
    layout.prose(
        f"Figure 2 of FlashAttention makes the paper's point: more FLOPs, fewer bytes, less time. It measured on an {flashattention.THEIR_GPU}; here, the same sizes through PyTorch's own "
        "calls: matmul, softmax, matmul with their gradients, and its FlashAttention-2."
    )
    papers_view.paper_figure_2(chosen)
    layout.prose(
        "**What differs.** *FLOPs*: count 2 N² d for each matrix product and head, and there are 6 of them in standard attention and 7 in FlashAttention, which makes S again on the way back. "
        "The paper's column is about 12 times lower for both; its author said that it may be off by a factor (github.com/Dao-AILab/flash-attention, issue 741). The ratio of the two, 7 to 6, "
        "is close to the paper's. *Bytes*: **least** is each step's operands read once and results written once; the paper's 40.3 GB has masking and dropout too, which write more matrices of N². On the way back "
        "PyTorch's FlashAttention adds up dQ in float32, which is more than the least. *FlashAttention-1 at B = 64* moves about as much as standard attention: its O goes out and in, in float32, at every tile of keys. Larger tiles pay, "
        "which is what the middle figure is about; past 128 rows our tile no longer fits the registers. *Which FlashAttention*: PyTorch's is the second version, with the queries outside; the paper measured the first."
    )

    layout.try_this(
        "Divide the FLOPs that are counted by the time measured. How far is each from what the GPU can do, and which of the two is nearer?",
        "Find the block size from which the bytes still fall and the time no longer does. What has the time been spent on since?",
    )

elif panel == PANELS[2]:
    st.subheader("Theorem 2 as slopes", anchor=False)
    layout.prose(
        "Theorem 2: with an on-chip memory of M elements, standard attention needs Θ(Nd + N²) accesses to HBM and FlashAttention Θ(N² d² / M). On logarithmic axes a power is a slope: "
        "−1 against M at a fixed N, and 2 against N at a fixed M. The proof takes tiles of B = M / 4d rows, so B stands for M."
    )
    papers_view.paper_theorem(chosen)
    layout.prose(
        "**What differs.** The theorem knows two memories, a GPU has a cache between them. What the theorem calls an access to HBM is a load or a store of the kernel, and these show "
        "**between L2 and the SMs**: there the slopes are the theorem's. **DRAM** sees less. L2 keeps K and V, which all programs of a head read, so FlashAttention-2 reads Q, K and V once: its DRAM bytes "
        "grow with N, not with N², and do not depend on the tile. FlashAttention-1's O goes out and in at every visit; while it fits L2 the slope is 1, beyond that all of it goes to DRAM, and one line through "
        "both is steeper than either. Standard attention's S and P outgrow L2 early. On the shortest sequences L1 spares some trips too, so that a slope may exceed 2; and each curve has a part that is read or written "
        "once, which the theorem's Θ leaves out."
    )
    layout.try_this(
        "Double the rows of the tile that stays on chip. By how much do the bytes fall between L2 and the SMs, and in DRAM?",
        "The dashed line of FlashAttention-2 against N has half the slope of the solid one. At which N would its K and V no longer fit in L2?",
    )

elif panel == PANELS[3]:
    st.subheader("Tables 20 and 21: time and memory as N grows", anchor=False)
    layout.prose(
        f"Forward and backward pass, 16 sequences of 8 heads, d = 64, on an {flashattention.THEIR_GPU}. Standard attention keeps matrices of N² for the way back, so its memory has the slope 2; "
        "FlashAttention keeps O and the logsumexp of each row: slope 1."
    )
    papers_view.paper_tables(chosen)
    layout.prose(
        "**What differs.** *Memory*: the paper's GPU was full after N = 4,096; a larger one goes on, with the same slope. Both counts have Q, K, V and the gradient of O in them; how many matrices of N² are "
        "alive at once is up to the framework, and where the lines of both GPUs lie on each other its versions have not changed it. *Time*: a newer GPU has more bandwidth and more FLOPs a second, so both lines move down; the distance between them is what the paper is about. "
        "On short sequences the launches of standard attention take longer than their work, and its lines are flat."
    )

    layout.try_this(
        "Read off how much longer a sequence may be, with FlashAttention, in the memory that standard attention takes for N = 4,096.",
        "Four matrices of N² a head in fp16: compute their bytes at N = 4,096 and compare with table 21.",
    )

else:
    st.subheader("Figure 1: the memory hierarchy", anchor=False)
    layout.prose(
        "The pyramid on FlashAttention's first page: 20 MB of SRAM at 19 TB/s, 40 GB of HBM at 1.5 TB/s, the host's memory at 12.8 GB/s. The paper's figures are what an A100 should give; ours are measured, "
        "by kernels that do nothing else than move bytes. Each mark of the axis is ten times the one before."
    )
    papers_view.paper_hierarchy(chosen)
    layout.prose(
        "**What differs.** The pyramid leaves L2 out: it stands between SRAM and HBM in size and in bandwidth, and in the other panels here it is what makes the difference between what a kernel asks for and what DRAM gives. "
        "SRAM is the shared memory of all SMs together; the paper's 20 MB are an A100's shared memory and L1, which are one memory."
    )
    layout.try_this(
        "Divide each bar by the one below it. Which step down costs most, and which of the two a kernel avoids when its rows fit L2?",
        "How many FLOPs could the GPU do in the time in which one number comes from HBM? The page of sweeps draws that as a roof.",
    )

layout.sources(milakov.SOURCE, f"{flashattention.SOURCE}, figures 1 and 2, theorem 2, appendix E.6")
