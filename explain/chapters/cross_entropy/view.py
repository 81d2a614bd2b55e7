"""The page Cross entropy, part by part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import streamlit as st

from explain import lessons
from explain.chapters.cross_entropy import figures, measured
from explain.chapters.cross_entropy.exercises import QUESTIONS, Shown
from explain.chapters.cross_entropy.layers import ITEM_BYTES, LAYERS, TOKENS
from explain.chapters.cross_entropy.states import loss_of, states
from explain.chapters.flash_attention.figures import traffic_bars
from explain.experiment import Experiment
from explain.figures.labels import unbroken
from explain.figures.numbers import count, moved, number
from explain.trace.model import Trace
from explain.ui import controls, layout, pictures, stepper
from explain.ui.exercises import ask
from explain.ui.repeat import repeated
from explain.ui.rerun import following
from kernels.catalog import KERNELS
from kernels.inputs import labels
from kernels.traffic_cross_entropy import part_of_tokens

FUSED, STANDARD, BACKWARD = "Without the logits", "Through the logits", "Backward"
KERNEL_OF = {FUSED: "cross_entropy_fused", STANDARD: "cross_entropy_standard", BACKWARD: "cross_entropy_backward"}
INTRODUCED = (
    "A language model's last layer gives each token one **logit** for each entry of the vocabulary: X = H Wᵀ. A row of "
    "H is a token, a row of W is an entry."
)
WORDS = {
    FUSED: "A program holds a tile of tokens. For each tile of W it updates the running max m and the running sum ℓ, "
    "and drops the logits.",
    STANDARD: "Two launches. The first writes every logit. The second reads them for m, ℓ and the target's logit. The "
    "loss is the same.",
    BACKWARD: "The gradient of a logit is its weight P, minus 1 at the target. One launch for dH and one for dW "
    "recompute P = exp(X − L).",
}
"""What to see, for each kernel."""
LENGTHS = (1024, 2048, 4096, 8192, 16_384, 32_768, 65_536)
LONG: Mapping[str, Any] = {
    "tokens": TOKENS,
    "vocab": 128_256,
    "dim": 4096,
    "dtype": "bf16",
    "block_m": 128,
    "block_n": 128,
}
"""A training step's last layer, in tiles as fast matmuls have them."""
TOKEN = 8


def choose() -> str:
    """The kernel and its input; the sizes open from a button. Below them, what to see. Returns the kernel's way."""
    way = controls.pick("Kernel", KERNEL_OF, "way", wrap=True, label_visibility="collapsed")
    folded = ("tokens", "vocab", "ignored", "block_m", "dtype")
    controls.controls(lessons.LOSS, ["inputs", "block_n"], controls.ROW_PRESETS, folded=folded, followed=True)
    layout.prose(WORDS[way])
    return way


def _run(way: str) -> Experiment:
    """The run of the chosen input in this way."""
    return controls.chosen(lessons.LOSS).through(KERNEL_OF[way])


@following
def step_through(way: str) -> None:
    """The kernel in the player."""
    stepper.stepper([_run(way)], key="cross entropy", chapter="cross_entropy")


@st.fragment
def largest_tensor() -> None:
    """The bytes of H, W and the logits in models' last layers, at the reader's number of tokens."""
    with layout.part(
        "When the logits are the largest tensor",
        "In X = H Wᵀ, H is tokens × d, W is V × d, and X is tokens × V. V is the size of the vocabulary. The loss "
        "needs one number from each row of X.\n\n"
        "X is larger than W as soon as there are more tokens than d: N · V against V · d. In the backward pass the "
        "gradient dX is as large again.\n\n**Move the tokens.** W stays, X grows.",
    ):
        tokens = st.select_slider(
            "Tokens, N", LENGTHS, TOKENS, key="step_tokens", bind="query-params", format_func=count
        )
        wide, narrow = (figures.tensors(LAYERS, tokens, narrow=one) for one in (False, True))
        pictures.drawing(wide, narrow)
        st.caption(f"16 bits: {ITEM_BYTES} bytes per number. {figures.sources(LAYERS)}")


@following
def of_the_run(way: str) -> None:
    """What the page says of the run in the player."""
    experiment = _run(way)
    traces = [trace for _, trace in stepper.shown([experiment])]
    _online(experiment, traces)
    _never_written(experiment, traces)
    _backward(experiment)


@repeated
def _online(experiment: Experiment, traces: Sequence[Trace]) -> None:
    """One token's m and ℓ over the tiles of the vocabulary, from the trace, and its loss."""
    if not traces or experiment.kernel == KERNEL_OF[BACKWARD]:
        return
    token = min(TOKEN, experiment.values["tokens"] - 1)
    found, loss = states(experiment, traces[0], token), loss_of(experiment, traces[0], token)
    if not found or loss is None:
        return
    names = labels(experiment.preset, experiment.values)
    word = f" “{names[0][token]}”" if names else ""
    rescaled = figures.update(found)
    shown = f" The last rescale of this token: {rescaled}." if rescaled else ""
    with layout.part(
        "The same m and ℓ as in online softmax",
        "The loss of a token is −ln of its target's weight: **loss = L − x_t**. x_t is the target's logit. L is the "
        "**logsumexp** of all its logits, L = m + ln ℓ. So the kernel needs no weight, only m, ℓ and x_t. It finds "
        f"them in one pass over the vocabulary.{shown}\n\nx_t is −∞ until the target's tile comes.",
    ):
        st.markdown(f"**Token {token}{word}**, after each tile of the vocabulary:\n\n{figures.states_table(found)}")
        st.markdown(figures.loss_in_numbers(loss))
        st.caption("trace · Triton's CPU interpreter")
        if names:
            layout.prose(
                "The numbers are real: queries and keys of an attention head stand in for H and W. So the vocabulary "
                "is the sentence's own tokens, and the target is the next one. The head was not trained for that, so "
                "its loss is no language model's."
            )


@repeated
def _never_written(experiment: Experiment, traces: Sequence[Trace]) -> None:
    """The bytes with and without the logits: this run, by formula and trace, and a training step's, by formula."""
    fused, standard = (experiment.through(KERNEL_OF[way]) for way in (FUSED, STANDARD))
    titles = [KERNELS[KERNEL_OF[way]].title for way in (STANDARD, FUSED)]
    words, picture = layout.sides("What is never written")
    long = [Experiment.of(KERNEL_OF[way], LONG, "normal") for way in (STANDARD, FUSED)]
    least = [figures.least(one) for one in long]
    fewest = [one.read_bytes + one.written_bytes for one in least]
    with words:
        layout.prose(
            "Through the logits, X is written once and read once. Without them, X stays on chip, tile by tile. "
            "All other bytes are the same: both read H, W and the targets, and write the loss and L, two numbers per "
            "token.\n\n"
            "A matmul in tiles reads H once per tile of the vocabulary and W once per tile of tokens. Caches serve "
            f"most of these reads. What HBM must move at least is each input once, and X twice: "
            f"**{moved(fewest[0])} against {moved(fewest[1])}, {number(fewest[0] / fewest[1], 2)} × as much**. A GPU "
            "moves something between what the kernel asks for and that."
        )
        layout.chapter_link("three_numbers", "Three numbers shows what caches save →")
    with picture:
        p = long[0].values
        st.markdown(
            f"**A training step**: {count(p['tokens'])} tokens, V = {count(p['vocab'])}, d = {count(p['dim'])}, "
            f"{p['dtype']}: the least that HBM must move"
        )
        both = list(zip(titles, least, strict=True))
        pictures.drawing(*(traffic_bars(both, figures.TENSORS, narrow=one) for one in (False, True)))
        st.markdown(figures.once_and_all(list(zip(titles, long, strict=True))))
        st.caption(f"formula · tiles {p['block_m']} × {p['block_n']}")
        v = fused.values
        with st.expander(f"The run in the player: {count(v['tokens'])} tokens, V = {count(v['vocab'])}"):
            own = [(title, one.traffic) for title, one in zip(titles, (standard, fused), strict=True)]
            pictures.drawing(*(traffic_bars(own, figures.MOVED, narrow=one) for one in (False, True)))
            if traces:
                stepper.traffic_table(experiment, traces[0])


@repeated
def _backward(experiment: Experiment) -> None:
    """What the backward pass needs, and two ways to do without the logits."""
    both = experiment.through(KERNEL_OF[BACKWARD])
    long = {name: LONG[name] for name in ("tokens", "vocab", "dtype")}
    sizes = {"dim": 256, "block_m": 128, "block_n": 128}
    forward, wide = (Experiment.of(KERNEL_OF[way], {**long, **sizes, "block_d": 256}, "normal")
                     for way in (FUSED, BACKWARD))  # fmt: skip
    matmuls = both.traffic.flops_of("matmul") // forward_flops(experiment)
    with layout.part(
        "The backward pass recomputes P",
        "The gradient of the mean loss is **dX = (P − 1 at the target) ÷ tokens that count**. Then dH = dX W and "
        "dW = dXᵀ H. The forward pass kept no P, but L. So P is one exponential, exp(X − L), without a second search "
        "for m and ℓ.\n\n"
        "X itself is recomputed by a matmul: once in the launch that holds tokens, for dH, and once in the launch "
        f"that holds rows of W, for dW. That makes {matmuls} matmuls "
        "in place of 3. It is the trade of FlashAttention's backward pass: more FLOPs, fewer bytes. No two programs of "
        "a launch write the same element.\n\n"
        f"**Where is the limit?** The launch for dH keeps a tile's gradient on chip, tokens × d numbers. That works up "
        f"to d = {wide.values['dim']}. A language model has d = {count(LONG['dim'])}. The pictures "
        "show three kernels for such a d.",
    ):
        st.markdown(figures.backward_table(forward, wide))
        p = wide.values
        st.caption(
            f"formula · {count(p['tokens'])} tokens, V = {count(p['vocab'])}, d = {p['dim']}: the largest d that this "
            "kernel takes"
        )
        tokens, vocab, dim = (LONG[name] for name in ("tokens", "vocab", "dim"))
        part = part_of_tokens(tokens, vocab, dim, ITEM_BYTES)
        sized = f"{count(tokens)} tokens, V = {count(vocab)}, d = {count(dim)}"
        st.markdown(f"**Three kernels for a large d**: {unbroken(sized)}")
        pictures.drawing(*(figures.ways_on(tokens, part, narrow=one) for one in (False, True)))
        st.caption(
            "dashed: X, tokens × V · purple: the part of it that is there at a time; of ours to scale · "
            "`kernels/cross_entropy_fast.py` begins with the estimate"
        )


def forward_flops(experiment: Experiment) -> int:
    """The FLOPs of one matmul of this run, as its tiles compute it in the backward kernel."""
    p = experiment.through(KERNEL_OF[BACKWARD])
    own = {**experiment.values, "block_d": p.values["block_d"]}
    return Experiment.of(KERNEL_OF[FUSED], own, experiment.inputs, experiment.seed).traffic.flops_of("matmul")


def how_fast() -> None:
    """Times and peak memory, where the committed file has them."""
    if found := measured.measured():
        _how_fast(found)


@repeated
def _how_fast(found: measured.Measured) -> None:
    stale = f" :orange[{found.stale}]" if found.stale else ""
    with layout.part(
        "How fast, in how much memory?",
        f"Loss and both gradients of {count(found.cases[0].tokens)} tokens. **Ours** is the fast kernel. "
        f"{figures.concluded(found)}\n\n"
        "Use ours when memory is short. If the logits fit, torch.compile is a little faster.\n\n"
        "V = 50,257 is odd. Matmuls over an odd number of columns were much slower than over a multiple of 64, so ours "
        "computes such a multiple at once and the last columns by themselves. The first lines of "
        "`kernels/cross_entropy_fast.py` have both times.",
    ):
        widest, *others = sorted({case.dim for case in found.cases}, reverse=True)
        _bars(found, widest)
        for dim in others:
            with st.expander(f"The same for d = {count(dim)}"):
                _bars(found, dim)
        with st.expander("All numbers in a table"):
            st.markdown(figures.measured_table(found))
        st.caption(f"recorded · {found.where} · {found.method} · the bars of a layer have one scale{stale}")


def _bars(found: measured.Measured, dim: int) -> None:
    """The measured layers with this d."""
    cases = tuple(case for case in found.cases if case.dim == dim)
    pictures.drawing(*(figures.measured_bars(cases, narrow=narrow) for narrow in (False, True)))


@repeated
def which_token_counts() -> None:
    """ignore_index, and the mean over no token."""
    with layout.part(
        "Tokens that do not count",
        "A target of −100 means: this token does not count. It is padding, or part of a prompt. The model reads a "
        "prompt but does not learn to write it. Its loss is 0, and its dX is 0. The mean is over the tokens that "
        "count, not over all.\n\n"
        "If no token counts, the mean is 0 ÷ 0 = NaN, as in PyTorch. The gradients are 0.",
    ):
        st.markdown("Choose **More → Tokens that do not count** above, and look at the column of losses in the player.")


def closing(way: str) -> None:
    """Things to try, questions, sources."""
    _things_to_try(way)
    layout.closing("cross_entropy")


@following
def _things_to_try(way: str) -> None:
    for experiment, trace in stepper.shown([_run(way)]):
        ask("cross_entropy", QUESTIONS, Shown(experiment, trace), f"{way} {experiment.key}")
