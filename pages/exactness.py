"""Chapter 6: Exactness. FlashAttention and standard attention beside float64; other orders, other bits, the same error."""

import streamlit as st

from explain import lessons
from explain.chapters.exactness import view as exactness
from explain.ui import controls, layout

layout.chapter(
    __file__,
    goal="know what “exact” means: no score is dropped or approximated; the roundings fall in other places, and float64 says what they cost.",
)
experiment = controls.controls(
    lessons.EXACT, ["inputs", "seq_len", "block_m", "block_n", "dtype", "causal"], controls.ATTENTION_PRESETS
)
exactness.beside_each_other(experiment)
layout.prose(
    "Both kernels read the same Q, K and V and depart from the true answer by rounding alone. Standard attention rounds S and P to the input's "
    "dtype on their way through HBM. FlashAttention keeps S, ℓ and Õ in float32 on chip and rounds P̃ for the matrix product and O at the end: "
    "fewer roundings, so in 16 bits its error is as a rule the smaller one."
)

st.subheader("In each dtype", anchor=False)
exactness.by_dtype(experiment)

st.subheader("Other orders: the bits differ, the error does not", anchor=False)
layout.prose(
    "Addition of floating-point numbers is not associative. A tile of another size, keys in the opposite order, exp2 for exp: each adds up the "
    "same terms in another order, or rounds at other places. None of these results is *the* right one; float64 says how far each is from that."
)
exactness.orders(experiment)
layout.prose(
    "A single softmax shows it best. Its tiles run in parallel and each gives its maximum m and its sum ℓ; joining two of these pairs is "
    "associative and commutative on paper, so any order will do: from the left, from the right, or as the tree of chapter 2."
)
exactness.merges(
    controls.controls(lessons.JOINED, ["inputs", "cols", "block_n", "dtype"], controls.ROW_PRESETS, prefix="row.")
)

st.subheader("Does the error grow from tile to tile?", anchor=False)
layout.prose(
    "Each tile of keys rescales ℓ and Õ by α and adds its own part, so each visit rounds again. But α ≤ 1 shrinks the old error along with the "
    "old sum, and the sums are in float32: follow a row of this map from left to right."
)
exactness.tile_after_tile(experiment)

st.subheader("Why 1.44269504?", anchor=False)
layout.prose(
    "exp(x) = 2^(x · log2 e), and log2 e = 1.44269504… A GPU's unit for exponentials computes powers of 2, so every `tl.exp` is a multiplication "
    "by log2 e and an `ex2`. The kernel `flash_attention_exp2` multiplies sm_scale by log2 e once, on the host: its S counts in powers of 2, "
    "and the multiplication at each exponential is gone. At the end lse = (m + log2 ℓ) · ln 2 is a natural logarithm again."
)

layout.try_this(
    "Choose bf16: it has 8 bits of precision where fp16 has 11. A typical error grows about eightfold, and which kernel's is smaller does not change.",
    "Choose fp32: more than two elements in three have other bits in another order, and every error is below a millionth.",
    "Give the softmax the dtype fp16: m and ℓ are joined in float32 as before, and rounding the weights to 16 bits hides the difference.",
    "Choose the input *large magnitude*: one key takes all the weight, so nothing is added up, and every way gives the same bits.",
    "Make BLOCK_N as large as the sequence: one tile, no rescale. The error stays where it is.",
)
layout.questions(
    (
        "Is FlashAttention an approximation?",
        "No. It computes softmax(QKᵀ)V with every score in it. Its bits differ from another implementation's as those of two exact "
        "implementations do that add in different orders. Asked in flash-attention [#145](https://github.com/Dao-AILab/flash-attention/issues/145), "
        "[#410](https://github.com/Dao-AILab/flash-attention/issues/410) and [#1445](https://github.com/Dao-AILab/flash-attention/issues/1445).",
    ),
    (
        "My test compares FlashAttention with PyTorch in fp16 and finds differences. What should it compare?",
        "Each of the two with float64 on the same rounded inputs. A difference between two rounded results says nothing about which is nearer; "
        "a fair test allows twice the error that the plain formula has in the same dtype.",
    ),
    (
        "Why does training not repeat to the bit, then?",
        "Because order is not fixed everywhere: a backward pass that adds with atomics, or a split of the keys over programs that depends on the "
        "machine, changes the order from run to run. The forward kernels here visit tiles in one order, so they repeat to the bit.",
    ),
)
layout.sources(
    "T. Dao et al., FlashAttention, arXiv 2205.14135, 2022",
    "T. Dao, FlashAttention-2, arXiv 2307.08691, 2023",
    "M. Milakov and N. Gimelshein, Online normalizer calculation for softmax, arXiv 1805.02867, 2018: ⊕ is associative and commutative",
)
