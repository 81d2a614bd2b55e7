"""Lab 1: Three numbers. Formula, trace and the GPU's own counters of one run, level by level, and why they differ."""

import streamlit as st

from explain.chapters.three_numbers import figures
from explain.chapters.three_numbers import shown as lab
from explain.chapters.three_numbers import view as three_numbers_view
from explain.ui import controls, layout, pictures, stepper
from explain.ui.records import records_choice

layout.chapter(
    __file__,
    goal="see that what the formula says, what the kernel asks for and what the GPU counts are one number, and where caches make it another.",
)
picked, sized, heat = st.columns([3, 3, 2], vertical_alignment="bottom")
with picked:
    kernel = controls.kernel("Kernel", "flash_attention", "kernel")
choices = lab.experiments(kernel)
with sized:
    words = {
        name: figures.sizes_words(one) + (", as in the player" if name == "small" else "")
        for name, one in choices.items()
    }
    size = controls.option("Sizes", words, "size", "1")
with heat:
    heated = st.segmented_control(
        "L2 before the run", ["cold", "warm"], default="cold", required=True, key="l2", bind="query-params"
    )
experiment, warm = choices[size], heated == "warm"

drawn, told = st.columns([3, 2], gap="large")
with told:
    records = records_choice()
    witness = three_numbers_view.counted_here(experiment, records)
shown = lab.shown(experiment, three_numbers_view.traced_bytes(experiment, size == "small"), witness, warm=warm)
link = pictures.pressed("link", figures.LINKS, "dram")
with drawn:
    dirty = shown.counts.dirty_bytes if shown.counts else None
    pictures.pressable(figures.hierarchy(shown.levels, shown.prediction, dirty, link), "link")
with told:
    three_numbers_view.ways(witness)
    layout.prose(f"**{figures.LINKS[link]}**: {figures.link_words(link, shown.levels)}")
    st.markdown(figures.buffers_table(link, shown.traffic, shown.traced, shown.prediction))
    if shown.check:
        layout.prose(figures.prediction_words(shown.check))
    if witness.counters:
        layout.prose(figures.heat_words(witness.counters))

st.subheader("From level to level", anchor=False)
for written, column in zip((False, True), st.columns(2, gap="large"), strict=True):
    with column:
        pictures.drawing(figures.bars(shown.levels, shown.gaps, written=written))
table, why = st.columns(2, gap="large")
with table:
    st.markdown(figures.gap_table(shown.levels, shown.gaps))
    layout.prose(figures.equal_words(shown.levels, shown.gaps))
with why:
    layout.prose(figures.cause_words(shown.gaps))

if len(others := lab.on_each(experiment, records, warm=warm)) > 1:
    st.markdown(figures.gpus_table(others))
    layout.prose(f"The pictures above are of the first, **{others[0][0]}**.")

st.subheader("The formula, term by term", anchor=False)
layout.prose(
    "Each term is a buffer, read or written. Press one: the player below goes to its first load or store and marks all of them on the "
    "timeline. It runs the same kernel at a size that reads well."
)
small = choices["small"]
term = pictures.pressed("term", figures.terms_by_key(shown.traffic), "")
times = pictures.pressable(figures.terms_table(shown.traffic, shown.traced, term), "term")
stepper.stepper(
    [small], key="three numbers", step=lab.step_of(small, term), request=times, watch=lab.watched(small, term)
)

with st.expander("Every kernel, three sizes beyond L2"):
    for one in records:
        st.caption(f"{one.source}. L2 cold.")
        for of_all in lab.tables(one.record):
            st.markdown(of_all)
layout.try_this(
    "Choose *Softmax of a whole row on chip* with rows of 32,768: registers spill. Where do those bytes appear, and where do they go?",
    "Choose *FlashAttention-2* and look from L1 down to DRAM: at which level are the papers' “HBM accesses”, and why are DRAM's reads so few?",
    "Compare *FlashAttention-1* at the same sizes: which buffers does L2 no longer hold?",
    "Switch L2 to warm: what changes for a matrix that is larger than L2, and what for one that fits?",
)
layout.sources(
    "NVIDIA, CUPTI documentation, Range Profiling API; Nsight Compute, metrics reference",
    "T. Dao et al., FlashAttention, arXiv 2205.14135, 2022, theorem 2",
    "M. Milakov and N. Gimelshein, Online normalizer calculation for softmax, arXiv 1805.02867, 2018",
)
