"""The page Decoding, part by part."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from explain import lessons
from explain.chapters.decoding import exercises, figures, measured_figures, rates, splits_figures, timeline, weights
from explain.chapters.decoding import splits as recorded
from explain.chapters.decoding.bound import GROUP, Bound
from explain.chapters.decoding.cache import MODELS
from explain.chapters.decoding.exercises import MASKS, PARTS
from explain.chapters.decoding.programs import HEAD_DIM, HEADS, KV_HEADS, MODEL, Filled
from explain.chapters.decoding.savings import DTYPE, SPLITS, Saving
from explain.chapters.decoding.savings import HEAD_DIM as WIDTH
from explain.chapters.speed.results import Result, load
from explain.experiment import Experiment
from explain.figures.formulas import formula
from explain.figures.numbers import count, moved
from explain.gpus import Gpu, card
from explain.records import registry
from explain.records.code import stale_words
from explain.records.model import Record
from explain.trace.model import Trace
from explain.ui import controls, layout, pictures, stepper
from explain.ui.exercises import ask
from explain.ui.gpu import gpu_choice
from explain.ui.repeat import repeated
from explain.ui.rerun import following
from kernels.parameters import ALIGNMENTS
from kernels.traffic_decoding import merge_bytes

PRESETS = (
    "normal", "ascending", "descending", "constant", "one_hot", "spike_last_tile", "first_tile_masked",
    "last_tile_masked", "everything_masked",
)  # fmt: skip
GOAL = "see why one query leaves most of the GPU idle, and how splitting the keys fills it."
WORDS = "A model writes one token at a time. Its query attends to the KV cache: all keys and values so far."
CURE = "**Split the keys**, one program per part; then merge."
PROGRAMS, FASTEST, BOUND, CACHES, NO_HELP, LENGTHS_DIFFER, MEASURED = (
    "One query has too few programs",
    "Which number of splits is fastest?",
    "How fast can one layer's attention be?",
    "Fewer heads of keys: GQA and MQA",
    "Where FlashAttention does not help",
    "Which keys does a query see when the lengths differ?",
    "The kernel written for speed",
)
"""The sections."""
JUMPS = {"how many splits": PROGRAMS, "measured": FASTEST, "how fast": BOUND}
SEQUENCES = [2**k for k in range(7)]
LENGTHS = [2**k for k in range(10, 18)]
QUERIES = [2**k for k in range(9)]
CORNERS = ("Diagonal to the bottom right: FlashAttention since 2.1", "Diagonal from the top left: PyTorch's is_causal")


def words(gpu: Gpu) -> str:
    """What the page is about, with a link to a few sections."""
    links = (f"[{words}](#{layout.anchor(heading)})" for words, heading in JUMPS.items())
    return f"{WORDS} {figures.idle_words(gpu)}\n\n{CURE} Below: {' · '.join(links)}."


def _records() -> list[Record]:
    return [one.record for one in registry.entries()[0]]


def choose(above: DeltaGenerator) -> str:
    """Draws what the player shows and the run's controls, and `above` the run on SMs; returns what the player shows."""
    with st.container(horizontal=True):
        with st.container(width="content"):
            view = controls.pick("In the player", (PARTS, MASKS), "view", wrap=True, width="content")
        with st.container():
            _choose_runs(view)
    with above:
        _over_time(view)
    return view


@following
def _over_time(view: str) -> None:
    """A run's programs on SMs over time: what the player, which shows one program after the other, cannot show."""
    experiment = lessons.DECODED if view == MASKS else _runs(PARTS)[0]
    pictures.drawing(timeline.drawn(experiment), timeline.drawn(experiment, narrow=True))
    st.caption(timeline.to_scale(experiment))


def _choose_runs(view: str) -> None:
    """The controls of a few queries in parts, or what the same run under both masks is."""
    if view == MASKS:
        p = lessons.VERIFIED.values
        layout.prose(
            f"Here are {p['seq_len']} queries and {p['kv_len']} keys, twice. The runs differ in one number, "
            f"`diagonal`: kv_len − seq_len = {p['kv_len'] - p['seq_len']}, or 0."
        )
        return
    controls.controls(
        lessons.DECODED, ["inputs", "splits"], PRESETS,
        folded=["kv_len", "heads", "seq_len", "block_m", "block_n", "causal", "align", "dtype"], followed=True,
    )  # fmt: skip


def _runs(view: str) -> list[Experiment]:
    """A few queries in parts, or the same run under both masks."""
    masks = [lessons.VERIFIED, lessons.top_left(lessons.VERIFIED)]
    return masks if view == MASKS else [controls.chosen(lessons.DECODED)]


@following
def step_through(view: str) -> None:
    """The kernel in the player, and what belongs to its runs."""
    experiments = _runs(view)
    if view == MASKS:
        stepper.stepper(experiments, key="two corners", chapter="decoding", titles=list(CORNERS))
        both_masks()
        for experiment, trace in stepper.traced([lessons.DECODED]):
            _parts(experiment, trace)
    else:
        traces = stepper.stepper(experiments, key="decoding", chapter="decoding")
        if traces:
            _parts(experiments[0], traces[0])


@repeated
def _parts(experiment: Experiment, trace: Trace) -> None:
    """The two launches in words, over time, and in bytes."""
    p = experiment.values
    rows = p["heads"] // p["kv_heads"] * p["seq_len"]
    cut = f"cuts the keys into {p['splits']} parts" if p["splits"] > 1 else "leaves all keys in one part"
    lse = weights.of_parts(experiment, trace)
    words, drawn = layout.sides("Each part is attention; then the parts are merged")
    with words:
        layout.prose(
            "**In the merge, a part counts as one key with the score lse.** This is the rule of *Online softmax*.\n\n"
            f"**Launch 1** {cut} (the parameter `splits`). Each part has one program. It attends "
            "to its own keys, as FlashAttention does, and writes O and lse of its part. The keys of a part are read "
            f"once for all {rows} rows. On a GPU the programs run **at the same time**, each on an SM. The player "
            f"shows them one after the other, at *{PARTS}*.\n\n"
            "**Launch 2** merges. A program reads O and lse of the parts, one part j after the other. Its m is the "
            "largest lse so far. If a part has a larger lse, the sum so far is rescaled. β is a part's weight, and "
            "β ÷ Σ β is its share of O. The whole row has lse = m + ln Σ β. In the player "
            "the whole row's lse is L, and Σ β is ℓ.\n\n"
            f"The price: O and lse of each part go to HBM and back, **{moved(merge_bytes(p))}** here."
        )
    with drawn:
        st.markdown(formula(weights.equations(lse)), unsafe_allow_html=True)
        pictures.drawing(weights.drawn(lse), weights.drawn(lse, narrow=True))
        st.caption(f"trace of *{PARTS}* · lse of each part, as the merge reads it")
        stepper.traffic_table(experiment, trace)
        rule = "The rule for two tiles, step by step →"
        layout.chapter_link("online_softmax", rule, {"read": "Tiles in parallel"})


def programs() -> Gpu:
    """The programs of one launch on the GPU's SMs, and the choice of this GPU; returns it with its rates."""
    _, beside = layout.sides(PROGRAMS)
    with beside:
        gpu = rates.rated(gpu_choice(), _records())
    _programs(gpu)
    layout.introduce(words(gpu))
    return gpu


@st.fragment
def _programs(gpu: Gpu) -> None:
    words, drawn = st.columns([1, 2], gap="large")
    with words, st.container(key="too few"):
        layout.prose(
            f"In {MODEL}, {GROUP} query heads share one head of keys. One program serves all {GROUP}, so one sequence "
            f"has {HEADS} ÷ {GROUP} = {KV_HEADS} programs. An SM without a program reads nothing.\n\n"
            "More parts of the keys give more programs: each part of each head of keys has one. **Splits** is the "
            "number of parts."
        )
        splits = st.slider("Splits", 1, figures.SPLITS_SHOWN, key="fill_splits", bind="query-params")
        batch = _of_powers("Sequences, batch", SEQUENCES, 1, "fill_batch")
        kv_len = _of_powers("Keys", LENGTHS, 8192, "fill_keys")
        filled = Filled(batch, kv_len, splits)
        if filled.cliff(gpu):
            most = filled.most_at_once(gpu)
            before = "".join(f"to {one}, " for one in dict.fromkeys((1, most)) if one != splits)
            st.caption(f"Move *Splits* {before}then to {most + 1}.")
        layout.prose(figures.sms_words(filled, gpu))
    with drawn:
        found = recorded.curves_of_some(_records(), gpu)
        pictures.drawing(*(figures.sms(filled, gpu, found, narrow=one) for one in (False, True)))
        link = f"\n\n[{FASTEST}](#{layout.anchor(FASTEST)})" if found else ""
        layout.prose(figures.softer_words(filled, gpu, found) + link)
        st.caption(
            f"formula · one query per head, {HEADS} query heads, {KV_HEADS} heads of keys, d = {HEAD_DIM}, 16 bits · "
            "keys and time on logarithmic axes · model: one program per SM at a time"
            + (f" · time: {found.where}" if found and found.of(filled, gpu) else "")
        )


def fastest(gpu: Gpu) -> None:
    """The recorded time over the number of splits, on the chosen GPU, or on a recorded one."""
    _fastest(recorded.curves_of_some(_records(), gpu), gpu)


@repeated
def _fastest(found: recorded.Curves | None, gpu: Gpu) -> None:
    with layout.part(FASTEST, splits_figures.words(found, found.gpu) if found else ""):
        if found is None or found.gpu.name != gpu.name:
            instead = f" Below: {found.gpu.name}." if found else ""
            measure = "To measure your own GPU: `python -m explain measure --plan splits`"
            st.info(f"Not recorded on {gpu.name}.{instead} {measure}")
        if found is None:
            return
        pictures.drawing(*(splits_figures.drawn(found, found.gpu, narrow=one) for one in (False, True)))
        st.caption(found.source)
        with st.expander("Why too many splits cost, and what the fastest runs spend beside reading"):
            layout.prose(splits_figures.details(found, found.gpu))


@st.fragment
def bandwidth(gpu: Gpu) -> None:
    """The least time of one layer's attention, and how many queries take no longer than one."""
    words, drawn = layout.sides(BOUND)
    with words:
        layout.prose(
            "Decoding is mostly reading: each key and value is read once, for a few multiplications. So the time is at "
            "least bytes ÷ bandwidth.\n\n"
            "**Verification**: a small model guesses the next few tokens, and the large one checks them all at once "
            "(speculative decoding). A few queries read the same bytes as one. Extra queries "
            "cost almost no time until the arithmetic takes as long as the reading. That point is the ridge."
        )
        queries = _of_powers("Queries per head", QUERIES, 1, "bound_queries")
        kv_len = _of_powers("Keys", LENGTHS, 32768, "bound_keys")
        bound = Bound(queries, kv_len)
        layout.prose(figures.bound_words(bound, gpu))
    with drawn:
        pictures.drawing(figures.bound_chart(bound, gpu), figures.bound_chart(bound, gpu, narrow=True))
        st.caption(
            f"formula · both axes logarithmic · one layer, {HEADS} query heads in groups of {GROUP}, "
            f"d = {HEAD_DIM}, 16 bits · {gpu.name}: {gpu.source}"
        )
        layout.prose(figures.token_words(bound, gpu))


@st.fragment
def caches(gpu: Gpu) -> None:
    """The KV caches of published models."""
    words, drawn = layout.sides(CACHES)
    with words:
        layout.prose(
            "Fewer bytes take less time. In multi-head attention (MHA) each query head has keys of its own. In "
            "grouped-query attention (GQA) a group of heads shares keys. In multi-query attention (MQA) all heads "
            "share them. Each query head still has scores of its own."
        )
        tokens = _of_powers("Tokens in the cache", LENGTHS, 8192, "cache_tokens")
        layout.prose(figures.caches_words(tokens, gpu))
    with drawn:
        pictures.drawing(figures.caches(tokens), figures.caches(tokens, narrow=True))
        st.caption(
            "formula · one sequence, 16-bit keys and values of all layers · heads: of queries / of keys · dashed: if "
            "each query head had keys of its own · pale, with “trained for”: more tokens than the model was trained for"
        )
        with st.expander("The models in numbers, and their sources"):
            st.markdown(figures.caches_table(tokens))


@repeated
def no_help() -> None:
    """Where FlashAttention saves nothing."""
    long = 8192
    with layout.part(
        NO_HELP,
        "FlashAttention keeps S and P out of HBM, N² elements each. **With one query, S is one row: 1 × N.** There "
        "is no N² to avoid.\n\n"
        "**With one query there is nothing to reuse**: K and V are read once, with or without tiles.\n\n"
        "**Splitting the keys helps**: all SMs read at once. The parts cost a few bytes more. **Keeping the group "
        "together helps**: no key is read twice.\n\n"
        "**So decoding needs parallel reading, not fewer bytes of S and P.**",
    ):
        found = [Saving(queries, long) for queries in (1, long)]
        pictures.drawing(figures.savings(found), figures.savings(found, narrow=True))
        st.caption(
            "formula · bytes read and written, each panel to its own scale · one head, "
            f"{count(long)} keys, d = {WIDTH}, {DTYPE} · tile: BLOCK_M queries × BLOCK_N keys, the same for all three "
            f"kernels · Flash-Decoding with {SPLITS} splits"
        )


@st.fragment
def both_masks() -> None:
    """Which keys each query sees under both masks, for any lengths."""
    words, drawn = layout.sides(LENGTHS_DIFFER)
    with words:
        layout.prose(
            "**Bottom right**: the last query is the last token, and sees every key. That is right for a cache, since "
            "it holds the past. FlashAttention has done so since 2.1, and every kernel here does too.\n\n"
            "**Top left**: the first query is the first token. PyTorch's `is_causal=True` does so, and FlashAttention "
            "did before 2.1."
        )
        seq_len = st.slider(
            "Queries", 1, 12, lessons.VERIFIED.values["seq_len"], key="mask_queries", bind="query-params"
        )
        kv_len = st.slider("Keys", 1, 12, lessons.VERIFIED.values["kv_len"], key="mask_keys", bind="query-params")
        layout.prose(figures.masks_words(seq_len, kv_len))
    with drawn:
        pictures.drawing(figures.masks(seq_len, kv_len), figures.masks(seq_len, kv_len, narrow=True))
        aligned = " or ".join(ALIGNMENTS)
        st.caption(
            f"filled: the query sees the key · `align` of the kernel: {aligned} · *{MASKS}*, above the player, steps "
            "through both"
        )


def measured() -> None:
    """The fast kernel's committed times."""
    result, records = load(), _records()
    gpu = card(result.provenance.gpu) if result and result.of("decode") else None
    gpu = rates.rated(gpu, records) if gpu else None
    _measured(result, gpu, recorded.curves(records, gpu) if gpu else None)


@repeated
def _measured(result: Result | None, gpu: Gpu | None, readable: recorded.Curves | None) -> None:
    words = (
        "The kernel above is written to be read. `kernels/decode.py` has the same two ideas and is written for speed: "
        "one launch, where the last programs to finish merge the parts; exp2 in place of exp; several loads of keys in "
        "flight; and it chooses the splits by the number of SMs. It is measured, not stepped through."
    )
    if result is None or gpu is None:
        with layout.part(MEASURED, words):
            st.info("No time is recorded. To measure: `python benchmarks/speed.py decode --out FILE`")
        return
    with layout.part(MEASURED, f"{measured_figures.words(result, gpu, readable)}\n\n{words}"):
        pictures.drawing(*(measured_figures.bars(result, gpu, readable, narrow=one) for one in (False, True)))
        st.caption(f"× the least time · {result.source('decode')}")
        if readable:
            st.caption(f"readable: Flash-Decoding as above, with its fastest number of splits · {readable.where}")
        if stale := stale_words(result.stale):
            st.caption(stale)
        with st.expander("All numbers"):
            st.markdown(measured_figures.table(result, gpu))
        layout.chapter_link("speed", "Its code, and what it took →", {"view": "Other kernels", "work": "Decode"})


def _of_powers(label: str, options: Sequence[int], value: int, key: str) -> int:
    """A slider over these numbers, kept in the page's address."""
    chosen = st.select_slider(label, options, value=value, key=key, bind="query-params", format_func=count)
    return int(chosen)


def closing(view: str, gpu: Gpu) -> None:
    """Things to try, questions, sources."""
    _things_to_try(view, gpu)
    layout.closing("decoding", *dict.fromkeys(model.source for model in MODELS))


@following
def _things_to_try(view: str, gpu: Gpu) -> None:
    shown = exercises.Shown(view, gpu, tuple(stepper.shown(_runs(view))))
    keys = [experiment.key for experiment, _ in shown.runs]
    ask("decoding", exercises.QUESTIONS, shown, f"{shown.view} {keys} {shown.gpu.name}")
