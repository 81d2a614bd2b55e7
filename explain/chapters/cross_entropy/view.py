"""The page Cross entropy, part by part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import streamlit as st

from explain import lessons
from explain.chapters.cross_entropy import figures, measured
from explain.chapters.cross_entropy.exercises import QUESTIONS, Shown
from explain.chapters.cross_entropy.layers import ITEM_BYTES, LAYERS, LIGER, TOKENS, Layer, part_of_liger
from explain.chapters.cross_entropy.losses import Losses, losses, row_of
from explain.chapters.cross_entropy.states import loss_of, states
from explain.chapters.flash_attention.figures import traffic_bars
from explain.experiment import Experiment
from explain.figures.labels import unbroken
from explain.figures.numbers import aligned, capacity, count, moved, number, percent
from explain.figures.tables import markdown
from explain.gpus import DEFAULT, GPUS
from explain.trace.model import Trace
from explain.ui import controls, layout, pictures, stepper
from explain.ui.exercises import ask
from explain.ui.repeat import repeated
from explain.ui.rerun import following
from kernels.catalog import KERNELS
from kernels.inputs import labels
from kernels.traffic import tiles
from kernels.traffic_cross_entropy import ALIGNED, part_of_tokens

FUSED, STANDARD, BACKWARD = "Without the logits", "Through the logits", "Backward"
KERNEL_OF = {FUSED: "cross_entropy_fused", STANDARD: "cross_entropy_standard", BACKWARD: "cross_entropy_backward"}
SMALL = 256
"""The largest d of the small kernel's backward pass."""
FEWEST = 16
"""The tokens of the smallest tile that a matmul takes."""
WORDS = {
    FUSED: "The small kernel: a program has a tile of tokens. For each tile of W it loads its rows of H again, updates "
    "the running max m and the running sum ℓ, and drops the logits.",
    STANDARD: "Two launches. The first writes every logit. The second reads them for m, ℓ and the target's logit. The "
    "loss is the same.",
    BACKWARD: "The small kernel, backward. The gradient of a logit is its weight P, minus 1 at the target. One launch "
    "for dH and one for dW recompute " + unbroken("P = exp(X − L)."),
}
"""What to see, for each kernel."""
STOPS, REAL, HOW_FAST = ("Why a large d needs another way", "What real kernels do", "How fast, in how much memory?")
"""The sections that `DESIGNS` link to."""
DESIGNS = (
    ("Small kernel", "no logits; forward only the loss and L of each token", "in the player; see also", STOPS),
    ("Chunked kernel", "the logits of a chunk of tokens, then dX in their place", "timed in", HOW_FAST),
    ("Cut Cross-Entropy", "no logits; it adds to dH and dW tile by tile", "drawn in", REAL),
)
"""Three kernels to keep apart: name, what it writes, what the page does with it, and where."""
CARD_BYTES = 80_000_000_000
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
TOKEN, IGNORED = 8, 4
SET = "cross entropy: tokens set not to count"
"""How often the session's button did so."""


def introduced() -> str:
    """What the logits are, and how large in a training step."""
    layer = _llama()
    size, factor = layer.logit_bytes(TOKENS), number(layer.logit_bytes(TOKENS) / layer.weight_bytes)
    times = "twice" if factor == "2" else f"{factor} times"
    return (
        "A language model's last layer gives each token one **logit** for each entry of the vocabulary: X = H Wᵀ. "
        f"For {count(TOKENS)} tokens of {layer.name}, X takes {moved(size)}, {times} the size of W. The loss "
        "needs two numbers of each row."
    )


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
    stepper.stepper([_run(way)], key="cross entropy", chapter="cross_entropy", reveal=st.session_state.get(SET, 0))


@repeated
def three_designs() -> None:
    """Three kernels that the page speaks of, in one line each."""
    rows = [(f"**{name}**", writes, f"{shown} [{heading}](#{layout.anchor(heading)})")
            for name, writes, shown, heading in DESIGNS]  # fmt: skip
    st.markdown(markdown(("three kernels", "to HBM it writes", "on this page"), rows))


@st.fragment
def largest_tensor() -> None:
    """The bytes of H, W and the logits in models' last layers, at the reader's number of tokens."""
    with layout.part(
        "When the logits are the largest tensor",
        "In X = H Wᵀ, H is tokens × d, W is V × d, and X is tokens × V. V is the size of the vocabulary. Of each "
        "row the loss keeps two numbers: L, over all logits, and the target's logit xₜ.\n\n"
        "X is larger than W as soon as there are more tokens than d: N · V against V · d. In the backward pass the "
        "gradient dX is as large again.\n\n**Move the tokens.** W stays, X grows.",
    ):
        tokens = st.select_slider(
            "Tokens, N", LENGTHS, TOKENS, key="step_tokens", bind="query-params", format_func=count
        )
        wide, narrow = (figures.tensors(LAYERS, tokens, narrow=one) for one in (False, True))
        pictures.drawing(wide, narrow)
        st.caption(f"16 bits: {ITEM_BYTES} bytes per number. {figures.sources(LAYERS)}")
        layout.prose(_does_it_fit(tokens))


def _llama() -> Layer:
    """The layer of `LONG`."""
    return next(one for one in LAYERS if (one.vocab, one.dim) == (LONG["vocab"], LONG["dim"]))


def _does_it_fit(tokens: int) -> str:
    """What the logits take of a card, and what a chunk of them takes."""
    layer = _llama()
    both, part = 2 * layer.logit_bytes(tokens), part_of_tokens(tokens, layer.vocab, layer.dim, ITEM_BYTES)
    return (
        f"**Does a training step fit now?** For {layer.name}, X and dX of {count(tokens)} tokens take {moved(both)}, "
        f"{percent(both / CARD_BYTES)} of a card of {number(CARD_BYTES / 1e9)} GB. The chunked kernel holds the logits "
        f"of {count(part)} tokens at a time, {moved(layer.logit_bytes(part))}, and puts dX in their place. The rest, "
        f"{moved(both - layer.logit_bytes(part))}, is room for more tokens. How many depends on what the other layers "
        f"keep per token. *{HOW_FAST}* has the measured peaks."
    )


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
        "The loss of a token is −ln of its target's weight: **loss = L − xₜ**. xₜ is the target's logit. L is the "
        "**logsumexp** of all its logits, L = m + ln ℓ. So the kernel needs no weight, only m, ℓ and xₜ. It finds "
        f"them in one pass over the vocabulary.{shown}\n\nxₜ starts at −∞. The tile that has the target's column fills "
        "it in.",
    ):
        st.markdown(f"**Token {token}{word}**, after each tile of the vocabulary:\n\n{figures.states_table(found)}")
        st.markdown(figures.loss_in_numbers(loss))
        st.caption("trace · Triton's CPU interpreter")
        if names:
            layout.prose(
                "The numbers are real: queries and keys of an attention head stand in for H and W. The vocabulary is "
                "the sentence's own tokens, and the target is the next one. These losses mean nothing as language: the "
                "head was not trained for it."
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
            f"**{moved(fewest[0])} against {moved(fewest[1])}, {number(fewest[0] / fewest[1], 2)} × as much**.\n\n"
            f"{_room_not_time(fewest[0] - fewest[1])}"
        )
        layout.chapter_link("three_numbers", "Three numbers shows what caches save →")
    with picture:
        p = long[0].values
        st.markdown(
            f"**The loss of a training step**, forward pass alone: {count(p['tokens'])} tokens, V = "
            f"{count(p['vocab'])}, d = {count(p['dim'])}, {p['dtype']}. The least that HBM must move"
        )
        both = list(zip(titles, least, strict=True))
        pictures.drawing(*(traffic_bars(both, figures.TENSORS, narrow=one) for one in (False, True)))
        st.caption(f"formula · tiles {p['block_m']} × {p['block_n']}")
        _counted()
        with st.expander("Every load and store of this loss"):
            st.markdown(figures.every_byte(list(zip(titles, long, strict=True))))
            layout.prose(_both_read(long[1]))
        v = fused.values
        with st.expander(f"The run in the player: {count(v['tokens'])} tokens, V = {count(v['vocab'])}"):
            own = [(title, one.traffic) for title, one in zip(titles, (standard, fused), strict=True)]
            pictures.drawing(*(traffic_bars(own, figures.MOVED, narrow=one) for one in (False, True)))
            if traces:
                stepper.traffic_table(experiment, traces[0])


def _room_not_time(saved: int) -> str:
    """What the logits cost: a buffer, and the time of their bytes beside a whole step, where both are measured."""
    buffer = f"The logits also need a buffer of {moved(saved // 2)}."
    found = measured.measured()
    case, bandwidth = (found.case(LONG), found.roof("hbm copy")) if found else (None, None)
    step = case.seconds_of(measured.EAGER) if case else None
    if not found or not step or not bandwidth:
        return buffer
    return (
        f"The {moved(saved)} of X take about {number(1e3 * saved / bandwidth, 1)} ms at copy speed. "
        f"{measured.EAGER}'s whole step, loss and both gradients, takes {number(1e3 * step, 3)} ms on {found.gpu} "
        f"(*{HOW_FAST}* below). {buffer} **At this V you gain room, not time.**"
    )


def _both_read(fused: Experiment) -> str:
    """Why the kernels' loads and stores differ by little."""
    h, w = (next(term for term in fused.traffic.terms if term.buffer == name) for name in "hw")
    return (
        f"Both read H once per tile of the vocabulary: {count(h.times)} × {moved(h.once)} = "
        f"{aligned(h.bytes, 'B', 'G')}. Both read W once per tile of tokens: {count(w.times)} × {moved(w.once)} = "
        f"{aligned(w.bytes, 'B', 'G')}. Only the logits differ, written once and read once."
    )


def _counted() -> None:
    """What a GPU moved, where a record has both kernels."""
    found, where = measured.counted([KERNEL_OF[way] for way in (STANDARD, FUSED)])
    if found:
        p = found[0].experiment.values
        st.markdown(f"**Measured**, a smaller step: {_sizes(p)}, {p['dtype']}\n\n{figures.counted_table(found)}")
        st.caption(f"recorded · {where} · bytes between DRAM and L2, cold L2")


def _sizes(p: Mapping[str, Any]) -> str:
    return unbroken(f"{count(p['tokens'])} tokens, V = {count(p['vocab'])}, d = {count(p['dim'])}")


@repeated
def _backward(experiment: Experiment) -> None:
    """What the backward pass computes, where this kernel ends, and how others do without the logits."""
    with layout.part(
        "The backward pass recomputes P",
        "The gradient of the mean loss is **dX = (P − 1 at the target) ÷ tokens that count**. Then dH = dX W and "
        "dW = dXᵀ H.\n\n"
        "The forward pass kept no P, but L. So P is one exponential, exp(X − L), without a second search for m and ℓ.",
    ):
        if row := row_of(experiment, TOKEN):
            st.markdown(f"**Token {row.token}{_quoted(row.token, row.name)}**, target {row.target}"
                        f"{_quoted(row.target, row.target_name)}")  # fmt: skip
            pictures.drawing(*(figures.gradient_row(row, narrow=one) for one in (False, True)))
            st.caption("float64, from the run's inputs")
    _this_kernel(experiment)
    _real_kernels()


def _quoted(index: int, name: str) -> str:
    """A word in quotes, where the name is more than the number."""
    return "" if name == str(index) else f" “{name}”"


def _this_kernel(experiment: Experiment) -> None:
    """Its matmuls, and the largest d that it takes."""
    both = experiment.through(KERNEL_OF[BACKWARD])
    sizes = {"dim": SMALL, "block_m": 128, "block_n": 128}
    long = {name: LONG[name] for name in ("tokens", "vocab", "dtype")} | sizes | {"block_d": sizes["dim"]}
    forward, wide = (Experiment.of(KERNEL_OF[way], long, "normal") for way in (FUSED, BACKWARD))
    matmuls, p = both.traffic.flops_of("matmul") // forward_flops(experiment), wide.values
    with layout.part(
        STOPS,
        f"The player has the small kernel. Its backward pass takes {unbroken(f'd ≤ {SMALL}')}. It recomputes X "
        "by a matmul: once in the launch that holds tokens, for dH, "
        f"and once in the launch that holds rows of W, for dW. That makes {matmuls} matmuls in place of 3. It is "
        "the trade of FlashAttention's backward pass: more FLOPs, fewer bytes. No two programs of a launch "
        "write the same element.\n\n"
        "**Where the limit comes from.** The forward pass takes any d. In the backward pass each tile of X adds to all "
        "d columns of dH. So a program keeps dH of its tokens on chip: tokens × d numbers, beside tiles of X, H and W. "
        "With fewer tokens a larger d would fit. But each tile of tokens loads all of W again. In the same way, the "
        "launch for dW keeps rows of dW on chip.",
    ):
        small, large = min(LAYERS, key=lambda layer: layer.dim), _llama()
        dims = (("player", p["dim"]), (small.name, small.dim), (large.name, large.dim))
        pictures.drawing(*(figures.dh_on_chip(p["block_m"], dims, GPUS[DEFAULT], narrow=one) for one in (False, True)))
        st.markdown(figures.backward_table(forward, wide))
        st.caption(f"formula · forward and backward pass · kept: for the backward pass · {_sizes(p)}")


def _real_kernels() -> None:
    """How kernels for a large d do without the logits."""
    tokens, vocab, dim, rows = (LONG[name] for name in ("tokens", "vocab", "dim", "block_m"))
    small = min(LAYERS, key=lambda layer: layer.dim)
    with layout.part(
        REAL,
        f"With tiles of {FEWEST} tokens, the smallest for a matmul, dH of {small.name} takes "
        f"{capacity(figures.dh_bytes(FEWEST, small.dim))} and fits. But then all of W is loaded "
        f"{count(tiles(tokens, FEWEST))} times instead of {count(tiles(tokens, rows))}. So real kernels add to dH and "
        "dW in HBM.\n\n"
        "They differ in how often they compute X. Liger's kernel and our chunked one do write logits to HBM, but only "
        "those of some tokens at a time: to write X and read it takes less time than a second matmul.",
    ):
        st.markdown(f"**Two ways for a large d**: {_sizes(LONG)}")
        part, ligers = part_of_tokens(tokens, vocab, dim, ITEM_BYTES), part_of_liger(tokens, vocab, dim)
        pictures.drawing(*(figures.ways_on(tokens, part, ligers, narrow=one) for one in (False, True)))
        st.caption(
            "dashed: all of X, dH and dW · purple: what is there of X · our chunk is to scale · "
            f"Liger's tokens: [its published rule]({LIGER})"
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
    first = found.case(LONG) or found.cases[0]
    odd, even = ([case for case in found.cases if case.vocab % 2 == rest] for rest in (1, 0))
    others = [case for case in even if case != first]
    peak = found.roof("matmul bf16")
    with layout.part(
        HOW_FAST,
        f"Loss and both gradients of {count(first.tokens)} tokens, on {found.gpu}. **Ours** is the chunked kernel. "
        f"{figures.advised(first)}\n\n{figures.concluded(first)}\n\n{_chunks(first)}"
        "Cut Cross-Entropy is not measured here. Its time depends on how many tiles it can skip, so on the model. The "
        "logits of this benchmark are random, not a model's.\n\n"
        f"*{measured.LEAST.capitalize()}*: three matmuls at the measured peak, and H, W, dH and dW in memory. The "
        "rest of a bar is what a variant adds.",
    ):
        _bars([first], peak)
        if others:
            with st.expander(f"Other vocabularies and other d: {len(others)} more"):
                _bars(others, peak)
                st.markdown("\n".join(f"- {one.name}: {figures.concluded(one)}" for one in others))
                st.markdown("**Tokens in a chunk, and the bytes of all passes over W and dW**, by formula")
                st.markdown(figures.chunks_table(found.cases))
        with st.expander("All numbers in a table"):
            st.markdown(figures.measured_table(found))
        st.caption(f"recorded · {found.where} · {found.method} · the bars of a chart have one scale{stale}")
    if odd:
        with layout.part(f"An odd vocabulary: V = {count(odd[0].vocab)}", _odd(odd, even)):
            _bars(odd, peak)
            st.caption(f"recorded · {found.where} · measured as above{stale}")


def _chunks(case: measured.Case) -> str:
    """Why Liger's time is not ours, in numbers from its published rule; empty where Liger was not measured."""
    if not case.seconds_of(measured.LIGER):
        return ""
    return (
        "**Liger does the same in chunks of another size.** Each chunk reads W twice, reads dW and writes dW: four "
        f"passes. {figures.chunks_in_words(case)} This is arithmetic from [Liger's published rule]({LIGER}), "
        "the next power of 2 from tokens ÷ ⌈V ÷ d⌉ on, not a measurement.\n\n"
    )


def _odd(odd: Sequence[measured.Case], even: Sequence[measured.Case]) -> str:
    """What an odd vocabulary does to a matmul, and ours beside the others there."""
    vocab = odd[0].vocab
    rest = vocab % ALIGNED
    model = next((f"{layer.name}'s " for layer in LAYERS if layer.vocab == vocab), "")
    return (
        f"{figures.odd_and_even(odd, even, f'{model}V = {count(vocab)}')}{figures.beside_compiled(odd)}\n\n"
        f"{count(vocab)} is odd, which makes a matmul several times slower. Ours computes {count(vocab - rest)} "
        f"columns together and the last {rest} apart. We did not measure "
        f"{measured.EAGER} with a padded V."
    )


def _bars(cases: Sequence[measured.Case], peak: float | None) -> None:
    pictures.drawing(*(figures.measured_bars(cases, peak, narrow=narrow) for narrow in (False, True)))


@following
def which_token_counts(way: str) -> None:
    """ignore_index, and the mean over no token."""
    _which_token_counts(_run(way))


def _which_token_counts(experiment: Experiment) -> None:
    found, p = losses(experiment), experiment.values
    with layout.part(
        "Tokens that do not count",
        "A target of −100 means: this token does not count. In training this is padding, or a prompt: the model reads "
        "a prompt but does not learn to write it. Its loss and its dX are 0. The mean is over the tokens that "
        f"count, not over all.\n\n{_ignored(p)}{_wrapped(experiment, found)}\n\n"
        "If no token counts, the mean is 0 ÷ 0 = NaN, as in PyTorch. The gradients are 0.",
    ):
        shown, every = len(found.first), found.tokens
        which = f"The {every} tokens" if shown == every else f"The first {shown} of {every} tokens"
        st.markdown(f"**{which} of the run, their targets and their losses**")
        pictures.drawing(*(figures.which_count(found, narrow=one) for one in (False, True)))
        grey = " · grey: does not count" * any(not one.counts for one in found.first)
        st.caption(f"float64, from the run's inputs{grey} · the mean is of the whole run")
        if p["ignored"]:
            st.markdown(
                f"*Tokens that do not count* is {p['ignored']} (in *More*). At the end of the run their "
                "losses in the player are 0."
            )
            return
        some = min(IGNORED, p["tokens"])
        st.markdown(
            f"Set *Tokens that do not count* to {some} (in *More*), and look at the losses at the end of the run."
        )
        if st.button(f"Set it to {some}", icon=":material/arrow_upward:"):
            _ignore(some)
            st.rerun()  # the control and the player are in other parts of the page


def _ignore(some: int) -> None:
    """So many tokens do not count, and the player comes into sight."""
    controls.choose({"": controls.chosen(lessons.LOSS).with_(ignored=some)}, lambda _: lessons.LOSS)
    st.session_state[SET] = st.session_state.get(SET, 0) + 1


def _ignored(p: Mapping[str, Any]) -> str:
    """How many of the run's tokens do not count, and which."""
    if not p["ignored"]:
        return f"In this run all of the {p['tokens']} tokens count."
    return f"In this run {p['ignored']} of {p['tokens']} tokens do not count, drawn at random."


def _wrapped(experiment: Experiment, found: Losses) -> str:
    """The target of a sentence's last token, which has no next one; empty where it does not count or is not shown."""
    names, last = labels(experiment.preset, experiment.values), experiment.values["vocab"] - 1
    if not names or last >= len(found.first) or not found.first[last].counts:
        return ""
    one = found.first[last]
    return (
        f" The last token, “{one.name}”, has no next one. Its target here is the first, “{one.target}”; in training it "
        "would not count."
    )


def closing(way: str) -> None:
    """Things to try, questions, sources."""
    _things_to_try(way)
    layout.closing("cross_entropy")


@following
def _things_to_try(way: str) -> None:
    for experiment, trace in stepper.shown([_run(way)]):
        ask("cross_entropy", QUESTIONS, Shown(experiment, trace), f"{way} {experiment.key}")
