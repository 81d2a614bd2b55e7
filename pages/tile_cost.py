"""Lab 3: What does a tile cost? Any kernel and tile compiled for a GPU you need not have; its instructions beside the
lines they come from.
"""

import streamlit as st

from explain.chapters.tile_cost import view as tile_cost_view
from explain.ui import layout
from explain.ui.gpu import gpu_choice

layout.chapter(
    __file__,
    goal=(
        "see what a tile asks of a chip before it runs: registers, shared memory, what is spilled, and the "
        "instructions of each line."
    ),
)
gpu = gpu_choice()
experiment = tile_cost_view.tile_choice()
tile_cost_view.tile_report(experiment, gpu)

with st.expander("How to read this"):
    layout.prose(
        "**Registers** belong to a thread, **shared memory** to a program. An SM hands both out until one of them is "
        "used up; the shortest bar, drawn strongest, is the one that ends it. What does not fit in 255 registers is "
        "**spilled**: stored to memory that lies in HBM behind the caches, and loaded again.\n\n**PTX** is what "
        "Triton writes, **SASS** what ptxas makes of it and the GPU runs. Each instruction is marked with the line of "
        "the kernel that it comes from. A line that calls a function, such as `tl.max`, has the instructions of that "
        "function too. The compiler moves instructions, so neighbours may come from lines far apart. The counts are "
        "of the program text: an instruction in a loop is counted once, and runs once for each turn."
    )
layout.try_this(
    "Choose the line with `tl.exp`: count the exponentials, and compare with BLOCK_M × BLOCK_N elements over the "
    "program's 128 threads.",
    "Choose the line that loads K. On the H200 no thread waits for it: *copy HBM → shared* goes on while the thread "
    "computes. On the T4 it is a plain load.",
    "Set the dtype to fp32 and look for the matrix products: there are none. Tensor cores would round fp32 to tf32, "
    "which these kernels do not allow, so the products become float arithmetic.",
    "Make both sides of the tile 128 and look for *spill* among the kinds.",
)
layout.chapter_link("flash_attention", "Chapter 5 pours this tile into its SRAM →", {"view": "Tile sizes"})
layout.sources(
    "NVIDIA CUDA Binary Utilities (nvdisasm; instruction set reference) and PTX ISA",
    "NVIDIA CUDA C++ Programming Guide, technical specifications per compute capability, and CUDA Occupancy Calculator",
)
