"""The one list of terms: what each is called, how it is written, what it is in the code, and what it means.

The glossary page, the hover text of prose and the player's tooltips all come from here. Imports neither streamlit nor torch.
"""

from __future__ import annotations

import functools
import html
import re
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Term:
    """One term.

    symbol: how mathematics writes it.  code: the names it has in the kernels, the first of them the one to link to.
    quantity: its colour in the player ("max", "sum", "alpha", "p", "acc", "hbm" or "scores").
    chapter: the page where it is met.  see: the names of related terms.
    words: how prose spells it, where that is not its name alone; empty for a word too common to be marked.
    """

    name: str
    definition: str
    chapter: str
    symbol: str = ""
    code: tuple[str, ...] = ()
    quantity: str = ""
    see: tuple[str, ...] = ()
    words: tuple[str, ...] | None = None

    @property
    def key(self) -> str:
        """What names the term in an address: `?term=alpha`."""
        return self.code[0] if self.code else re.sub(r"[^\w.+-]+", "-", self.name.lower()).strip("-")

    @property
    def spellings(self) -> tuple[str, ...]:
        """How prose spells it."""
        return (self.name,) if self.words is None else self.words


GROUPS: Mapping[str, tuple[Term, ...]] = {
    "Softmax": (
        Term("softmax", "Turns a row of numbers x into weights that are positive and add up to 1: exp(x) divided by the sum of all exp(x).",
             "softmax", see=("logits", "safe softmax", "online softmax")),
        Term("logits", "The numbers that go into a softmax, before exp; any real numbers will do.", "softmax", "x", ("x",), "scores",
             see=("softmax",), words=("logits", "logit")),
        Term("weights", "What a softmax puts out: one number from 0 to 1 for each logit, 1 in all.", "softmax", "y", ("y",), "acc", words=()),
        Term("temperature", "A number that the logits are divided by first. Above 1 it evens the weights out, below 1 it sharpens them.",
             "softmax", "T", see=("softmax",)),
        Term("safe softmax", "Softmax of x − m, where m is the row's maximum. The weights are the same, and no exponential exceeds 1.",
             "softmax", see=("running max", "overflow", "shift invariance")),
        Term("shift invariance", "Adding the same number to every logit changes no weight: the factor exp(c) stands above and below the line.",
             "softmax", see=("safe softmax",)),
        Term("cross entropy", "The loss −log y of the right class: logsumexp(x) − x of that class, and computed so, because the softmax itself may be 0.",
             "softmax", see=("logsumexp",)),
        Term("online softmax", "Softmax whose maximum and sum are found in one pass: when a larger element arrives, the sum so far is multiplied by α. "
             "Milakov and Gimelshein, 2018.", "online_softmax", see=("running max", "running sum", "rescale factor")),
        Term("running max", "The largest element of a row seen so far. It starts at −∞ and never falls.", "online_softmax", "m",
             ("m_i", "m_new", "m_safe", "m_j"), "max", see=("rescale factor", "running sum"), words=("running max", "running maximum")),
        Term("running sum", "Σ exp(x − m) over what was seen so far, measured against the running max; at the end it is what every weight is "
             "divided by. Milakov and Gimelshein write d, others call it the normalizer.", "online_softmax", "ℓ", ("l_i", "l_new", "l_safe", "l_j"), "sum",
             see=("running max", "rescale factor"), words=("running sum", "normalizer", "ℓ")),
        Term("rescale factor", "exp(m − m_new), at most 1: what everything summed so far is multiplied by when the maximum moves. "
             "It is 1 when the maximum stays and 0 on the first tile.", "online_softmax", "α", ("alpha", "beta"), "alpha",
             see=("running max", "running sum"), words=("rescale factor", "α")),
        Term("loop invariant", "What holds before and after every turn of a loop. Here: m is the maximum of what was seen, and ℓ is Σ exp(x − m) over it.",
             "online_softmax", see=("running max", "running sum"), words=("loop invariant", "invariant")),
        Term("merging", "Joining two (m, ℓ) pairs into one: the larger m, and each ℓ multiplied by exp of its own m minus that. "
             "In any order the result is the same, up to rounding.", "online_softmax", "⊕", see=("online softmax", "rescale factor"), words=("merging", "⊕")),
        Term("top-k", "The k largest elements of a row and where they stand. Found during the pass of online softmax, it costs no further read.",
             "online_softmax", "k", ("top_x", "top_y", "top_i"), see=("online softmax",)),
        Term("pairs", "(m, ℓ) of the tiles that are joined: a program starts from its own and joins others to it.", "online_softmax", "(m, ℓ)",
             ("own", "other"), see=("merging",), words=()),
        Term("accesses per element", "Loads from and stores to HBM for each element of the row: 3 for the naive softmax, 4 for the safe one, 3 for the online one.",
             "softmax", see=("HBM", "byte counters")),
    ),
    "Attention": (
        Term("attention", "Each query takes a weighted mean of all values, with the softmax of its scores against all keys as weights: softmax(Q Kᵀ / √d) V.",
             "memory_hierarchy", see=("scores", "output"), words=()),
        Term("queries, keys, values", "The three matrices attention starts from: a row of Q asks, rows of K are compared with it, rows of V are mixed.",
             "memory_hierarchy", "Q, K, V", ("q", "k", "v"), "hbm", see=("attention", "scores"), words=()),
        Term("scores", "The scaled products of queries with keys, S = Q Kᵀ / √d, one row a query. Softmax of each row gives the weights.",
             "memory_hierarchy", "S", ("s",), "scores", see=("probabilities", "softmax scale"), words=("scores",)),
        Term("probabilities", "exp(S − m), or exp(x − m), not yet divided by ℓ: P̃ with a tilde. Divided by ℓ they are P, whose rows add up to 1.",
             "flash_attention", "P̃", ("p",), "p", see=("running sum", "scores"), words=("P̃",)),
        Term("accumulator", "The unfinished output: the sum of P̃ V over the tiles seen so far, rescaled by α with ℓ and divided by ℓ once, at the end.",
             "flash_attention", "Õ", ("acc", "o_i"), "acc", see=("rescale factor", "output"), words=("accumulator", "Õ")),
        Term("output", "What attention gives: one row a query, the weighted mean of the values.", "flash_attention", "O", ("o",), "acc",
             see=("accumulator",), words=()),
        Term("logsumexp", "ln Σ exp(x) = m + ln ℓ, in natural logarithms. The one number a row that the backward pass needs to make P again.",
             "flash_attention", "L", ("lse",), see=("running max", "running sum", "cross entropy"), words=("logsumexp", "lse")),
        Term("softmax scale", "1/√d, which scores are multiplied by so that their spread does not grow with the head dimension.",
             "memory_hierarchy", "1/√d", ("sm_scale",), see=("scores", "head dimension")),
        Term("log2 e", "1.44269504…, for exp(x) = 2^(x log₂ e): a GPU has an instruction for powers of two only.",
             "exactness", "log₂ e", ("LOG2_E", "scale_log2"), see=("exp2",), words=("log2 e", "log₂ e", "1.44269504")),
        Term("exp2", "2 to the power x. Kernels fold log₂ e into the softmax scale once, and use exp2 where the formula has exp.", "exactness",
             "2ˣ", ("exp2",), see=("log2 e", "softmax scale")),
        Term("causal", "A token may look at itself and what came before it: query i sees keys up to i + kv_len − seq_len.", "flash_attention", "",
             ("CAUSAL", "causal", "diagonal"), see=("mask",), words=("causal mask",)),
        Term("mask", "Which elements count. A masked score is −∞, so its weight is 0; a masked load or store moves no bytes.", "flash_attention", "",
             ("mask", "inside", "seen"), see=("causal", "minus infinity"), words=("masked", "mask")),
        Term("sequence length", "How many tokens there are: N queries (seq_len) and as many keys, unless kv_len says otherwise.", "memory_hierarchy",
             "N", ("seq_len", "kv_len"), words=("sequence length",)),
        Term("head dimension", "How many numbers one row of Q, K or V has in one head. Always d here; the normalizer is ℓ.", "memory_hierarchy",
             "d", ("head_dim", "HEAD_DIM", "BLOCK_D"), words=("head dimension",)),
        Term("grouped-query attention", "Several query heads share one head of keys and values, so K and V are smaller.", "flash_attention", "",
             ("group", "kv_heads", "heads"), see=("queries, keys, values",)),
    ),
    "Numbers": (
        Term("fp32", "32 bits: 8 of exponent, 24 of precision. Largest finite number 3.4·10³⁸, so exp overflows above 88.72.", "softmax",
             see=("fp16", "bf16", "overflow"), words=("fp32", "float32")),
        Term("fp16", "16 bits: 5 of exponent, 11 of precision. Largest finite number 65,504, so exp overflows above 11.09.", "softmax",
             see=("bf16", "overflow"), words=("fp16", "float16")),
        Term("bf16", "16 bits: 8 of exponent as fp32 has, 8 of precision. It reaches as far as fp32 with two or three decimal digits.", "softmax",
             see=("fp16", "fp32"), words=("bf16", "bfloat16")),
        Term("overflow", "A result too large for its format: it becomes ∞. From there ∞ / ∞ and ∞ − ∞ make NaN.", "softmax", see=("NaN", "underflow")),
        Term("underflow", "A result too small for its format: it becomes 0. In a softmax that costs a weight nobody would notice; in a logarithm it makes −∞.",
             "softmax", see=("overflow", "cross entropy")),
        Term("minus infinity", "Smaller than every number, and exp(−∞) = 0: the neutral start of a maximum, and the score of what a mask hides. "
             "−∞ − (−∞) is NaN.", "what_breaks", "−∞", see=("mask", "NaN"), words=("−∞",)),
        Term("NaN", "Not a number: what 0/0, ∞/∞ and ∞ − ∞ give. It spreads through sums and products, while a maximum may pass it over.",
             "what_breaks", see=("overflow", "minus infinity")),
        Term("rounding", "The nearest number of a format takes an exact result's place: off by at most 2⁻²⁴ of it in fp32, 2⁻¹¹ in fp16, 2⁻⁸ in bf16.",
             "exactness", see=("error budget",), words=("rounding",)),
        Term("float64 reference", "The same formula in 64 bits, on the very values that the kernel was given: what counts as correct.", "exactness",
             see=("error budget",), words=("float64 reference", "float64")),
        Term("error budget", "The error allowed for a result: twice that of eager PyTorch in the same dtype against float64, plus a derived band for rounding.",
             "exactness", see=("float64 reference", "rounding"), words=("error budget", "budget")),
    ),
    "Triton": (
        Term("kernel", "A function that runs on the GPU, once for each program of the grid.", "triton_ladder", see=("program", "launch"), words=()),
        Term("program", "One run of a kernel, with a number of its own that says which rows or tile it owns. CUDA's word is thread block.",
             "triton_ladder", "", ("program_id",), see=("grid", "tile"), words=()),
        Term("grid", "How many programs a launch runs, along up to three axes.", "triton_ladder", see=("program", "launch"), words=("grid",)),
        Term("launch", "Starting a kernel on a grid. What one launch leaves for the next goes through HBM.", "triton_ladder", see=("grid", "kernel"), words=()),
        Term("tile", "A small piece of a matrix that a program works on as a whole, held on chip. Its sides are powers of two.", "triton_ladder",
             see=("tile sizes", "visit"), words=("tile",)),
        Term("tile sizes", "BLOCK_M queries by BLOCK_N keys, B_r and B_c in the papers: fixed when the kernel is compiled.", "flash_attention",
             "B_r, B_c", ("BLOCK_M", "BLOCK_N"), see=("tile", "constexpr"), words=("tile sizes", "tile size")),
        Term("rows", "Which rows of the matrix the tile holds, by number.", "triton_ladder", "i", ("row", "rows"), see=("tile",), words=()),
        Term("columns", "Which columns of the row, or which keys, the tile holds, by number.", "triton_ladder", "j", ("cols", "start"), see=("tile",), words=()),
        Term("pointer", "An address in HBM. Adding element numbers to it gives the addresses of a tile's elements; a name that ends in _ptr is one.",
             "triton_ladder", "",
             ("x_ptr", "y_ptr", "q_ptr", "k_ptr", "v_ptr", "o_ptr", "s_ptr", "p_ptr", "lse_ptr", "x_ptrs", "y_ptrs", "k_ptrs", "v_ptrs", "m_hbm_ptr",
              "l_hbm_ptr", "o_hbm_ptr"), "hbm", see=("stride", "tl.load"), words=("pointer",)),
        Term("stride", "How many elements further in memory the next row, or the next column, is.", "triton_ladder", "",
             ("stride_xm", "stride_xn", "stride_ym", "stride_yn", "stride_qm", "stride_kn", "stride_vn", "stride_om"), see=("pointer",)),
        Term("tl.load", "Reads a tile from HBM at given pointers. Where its mask is false it reads nothing and puts `other` in place.", "triton_ladder", "",
             ("tl.load", "load"), "hbm", see=("mask", "pointer"), words=("tl.load",)),
        Term("tl.store", "Writes a tile to HBM at given pointers, where its mask is true.", "triton_ladder", "", ("tl.store", "store"), "hbm",
             see=("mask", "pointer"), words=("tl.store",)),
        Term("tl.dot", "The matrix product of two tiles, which tensor cores do; on a GPU every side is at least 16.", "flash_attention", "",
             ("tl.dot", "dot"), see=("tile", "FLOP"), words=("tl.dot",)),
        Term("constexpr", "An argument known when the kernel is compiled: each of its values makes a kernel of its own.", "triton_ladder", "",
             ("constexpr",), see=("tile sizes",), words=("constexpr",)),
        Term("num_warps", "How many warps of 32 threads share one program's work: 4 unless the launch says otherwise.", "flash_attention", "",
             ("num_warps",), see=("warp",)),
        Term("stages", "How many tiles of K, and of V, a loop holds at once, so that the next ones are on their way while one is computed.", "speed", "",
             ("num_stages", "STAGES"), see=("shared memory", "autotuning"), words=("num_stages",)),
        Term("autotuning", "Trying a kernel at many tile sizes, warps and stages, and keeping the fastest.", "speed", see=("tile sizes", "stages", "num_warps")),
        Term("Gluon", "Triton's lower language: who does what, where a tile lies and who waits for whom are written out. The interpreter cannot run it.",
             "speed", see=("kernel", "interpreter"), words=("Gluon",)),
    ),
    "The GPU": (
        Term("HBM", "The GPU's large memory, beside the chip: tens of gigabytes, terabytes a second. Kernels read their inputs from it and write results to it.",
             "memory_hierarchy", "", (), "hbm", see=("SRAM", "bandwidth", "DRAM"), words=("HBM",)),
        Term("SRAM", "The papers' word for memory on the chip that a program fills itself: shared memory and registers.", "memory_hierarchy",
             see=("shared memory", "registers", "HBM"), words=("SRAM",)),
        Term("shared memory", "64 to 228 KiB in each SM of the GPUs here, which all threads of a program see. A program whose tiles are too large for it cannot run.",
             "memory_hierarchy", see=("SM", "SRAM")),
        Term("registers", "Where a thread keeps its numbers: the fastest memory there is, 256 KiB in each SM.", "memory_hierarchy",
             see=("spill", "SM"), words=("registers", "register file")),
        Term("spill", "A value that no register was left for: it lives in slow memory and is fetched at every use.", "flash_attention",
             see=("registers",), words=("spill", "spills")),
        Term("L1", "Each SM's own cache, in the same memory as its shared memory. A load looks here first; it fills by itself.", "three_numbers",
             see=("L2", "SM", "cache line"), words=("L1", "L1 cache")),
        Term("L2", "The cache between all SMs and HBM. It may serve repeated reads, so that fewer bytes move at HBM than kernels ask for.", "memory_hierarchy",
             see=("HBM", "DRAM"), words=("L2", "L2 cache")),
        Term("DRAM", "What HBM is made of. Used here only for the hardware counters of that name.", "memory_hierarchy", see=("HBM",), words=("DRAM",)),
        Term("SM", "Streaming multiprocessor: one of the GPU's 40 to 132 cores, with its own registers and shared memory. A program runs on one of them.",
             "memory_hierarchy", see=("warp", "occupancy"), words=("SM", "SMs")),
        Term("warp", "32 threads of a program that execute the same instruction together.", "memory_hierarchy", see=("num_warps", "SM")),
        Term("occupancy", "How many programs fit on an SM at once; registers or shared memory set the limit.", "flash_attention",
             see=("SM", "registers", "shared memory")),
        Term("bandwidth", "Bytes a second that a memory delivers.", "memory_hierarchy", see=("arithmetic intensity", "HBM")),
        Term("FLOP", "One floating-point operation; an exponential counts as one. The trace format says what counts.", "memory_hierarchy",
             see=("arithmetic intensity",), words=("FLOP", "FLOPs")),
        Term("arithmetic intensity", "FLOPs for each byte moved. Where it is low, a kernel waits for memory and its arithmetic is free.",
             "memory_hierarchy", see=("FLOP", "bandwidth", "roofline")),
        Term("tensor core", "The unit of an SM that multiplies two small matrices at once; `tl.dot` runs on it, unless its numbers are fp32.", "tile_cost",
             see=("tl.dot", "SM")),
        Term("Hopper", "NVIDIA's GPUs of 2022, H100 and H200, compute capability 9.0.", "speed", see=("TMA", "tensor core"), words=("Hopper",)),
        Term("PTX", "NVIDIA's assembly language for a GPU of no particular make. Triton writes it; ptxas makes SASS of it.", "tile_cost",
             see=("SASS",), words=("PTX",)),
        Term("SASS", "The instructions that one kind of chip executes, as ptxas wrote them.", "tile_cost", see=("PTX", "registers", "spill"), words=("SASS",)),
    ),
    "Measuring": (
        Term("hardware counter", "A number that the GPU itself keeps while a kernel runs, such as sectors read from DRAM. A run that is counted is not timed.",
             "three_numbers", see=("sector", "DRAM", "CUPTI")),
        Term("CUPTI", "NVIDIA's library that reads the GPU's counters from within the program that launches the kernel.", "measurements",
             see=("hardware counter",), words=("CUPTI",)),
        Term("sector", "32 bytes: the least that moves between L1, L2 and DRAM. Who asks for one element gets its sector.", "three_numbers",
             see=("cache line", "L2", "DRAM")),
        Term("cache line", "128 bytes, four sectors, that a cache keeps under one address.", "three_numbers", see=("sector", "dirty line")),
        Term("dirty line", "A cache line that was written and not yet copied to the memory below. DRAM's counter sees it when it leaves, perhaps after the run.",
             "three_numbers", see=("cache line", "L2")),
        Term("cold L2", "A run that begins with none of its inputs in L2: each byte comes from DRAM once at least.", "three_numbers",
             see=("warm L2", "L2"), words=("cold L2", "L2 cold")),
        Term("warm L2", "A run right after the same run: what fits in L2 is there already, and DRAM is not asked for it.", "three_numbers",
             see=("cold L2", "L2"), words=("warm L2", "L2 warm")),
        Term("wavefront", "One pass over the 32 banks of shared memory, of up to 128 bytes. Threads that want different words of one bank wait for another.",
             "three_numbers", see=("shared memory", "warp")),
        Term("TMA", "Hopper's copy engine. One thread asks it for a whole tile, and it copies between HBM and shared memory while the warps go on.", "speed",
             see=("shared memory", "warp"), words=("TMA", "copy engine")),
        Term("stall", "A cycle in which a warp cannot issue its next instruction: it waits for data, for a unit, or for another warp.", "speed",
             see=("warp", "hardware counter", "scoreboard"), words=("stall", "stalls")),
        Term("scoreboard", "The list of registers whose values are still on their way: long from L2 and HBM, short from shared memory and the unit of exponentials.", "speed",
             see=("stall", "warp")),
        Term("roofline", "FLOPs a second against arithmetic intensity. A kernel stays under the slanted roof of each memory and the flat one of its arithmetic.",
             "sweeps", see=("arithmetic intensity", "bandwidth", "FLOP")),
        Term("slope", "The power with which something grows. On logarithmic axes N² is a straight line that rises two for one.", "sweeps",
             see=("roofline",)),
        Term("launch overhead", "What starting a kernel takes, some microseconds whatever it does. On small inputs it is nearly all the time.", "sweeps",
             see=("kernel", "program")),
        Term("micro-benchmark", "A kernel that does one thing only, such as moving bytes, so that its time says what the GPU gives at best.", "measurements",
             see=("roofline", "bandwidth")),
    ),
    "Tilescope": (
        Term("formula", "One of three witnesses: bytes and FLOPs as a closed form, each term with a name.", "flash_attention", see=("trace", "hardware"), words=()),
        Term("trace", "One of three witnesses: the recorded run of the real kernel, every variable at every line, every byte loaded and stored.",
             "flash_attention", see=("interpreter", "step"), words=()),
        Term("hardware", "One of three witnesses: the same kernel compiled, on a GPU. Its time is the only time shown.", "flash_attention",
             see=("formula", "trace"), words=()),
        Term("interpreter", "Triton's own way to run a kernel on the CPU, line by line. Its results are checked; its time says nothing about a GPU.",
             "triton_ladder", see=("trace",), words=("interpreter",)),
        Term("recorded", "Run beforehand and shipped with Tilescope, with the date and, for a measurement, the GPU.", "flash_attention",
             see=("trace", "hardware"), words=()),
        Term("step", "One executed line of one program.", "online_softmax", see=("visit", "trace"), words=()),
        Term("visit", "One pass of a program over one (i, j) tile of S.", "flash_attention", see=("tile", "step"), words=("visit",)),
        Term("byte counters", "The bytes read from and written to each buffer up to this step: every element counts each time that it is moved.",
             "flash_attention", see=("formula", "HBM"), words=("byte counters",)),
    ),
}  # fmt: skip

TERMS: tuple[Term, ...] = tuple(term for group in GROUPS.values() for term in group)


@functools.lru_cache(maxsize=512)
def find(text: str) -> Term | None:
    """The term of this key, name, symbol, spelling or name in code; None if there is none."""
    for exact in (text, text.lower()):
        for term in TERMS:
            if exact in (term.key, term.name, term.symbol, *term.code, *term.spellings):
                return term
    return None


def search(text: str) -> list[Term]:
    """The terms with these words anywhere in them: first the one called so, then those with the words in a name."""
    wanted = text.casefold().split()
    names = {term: " ".join((term.name, term.symbol, *term.code, *term.spellings)).casefold() for term in TERMS}
    found = [term for term in TERMS if all(word in f"{names[term]} {term.definition.casefold()}" for word in wanted)]
    called = find(text.strip())
    return sorted(found, key=lambda term: (term is not called, not all(word in names[term] for word in wanted)))


def definitions() -> dict[str, str]:
    """What each name in the kernels' code means, for tooltips."""
    return {name: term.definition for term in TERMS for name in term.code}


_SKIPPED = r"```.*?```|`[^`]*`|\$\$.*?\$\$|\$[^$\n]+\$|!?\[[^\]\n]*\]\([^)\n]*\)|https?://\S+|:[\w/-]+:|:[a-z]+(?=\[)"


@functools.cache
def _spelled() -> Mapping[str, Term]:
    """Each spelling's term; in lower case, so that it may begin a sentence, unless capitals are part of it."""
    return {spelling: term for term in TERMS for spelling in term.spellings}


@functools.cache
def _pattern() -> re.Pattern[str]:
    words = "|".join(re.escape(word) for word in sorted(_spelled(), key=len, reverse=True))
    return re.compile(rf"({_SKIPPED})|(<(?=[A-Za-z/!?]))|(?<![\w-])({words})(s?)(?![\w-])", re.DOTALL | re.IGNORECASE)


@functools.lru_cache(maxsize=1024)
def marked(text: str) -> str:
    """Markdown in which each term's first occurrence carries its definition, as HTML that `explain/look/app.css` shows.

    Code, mathematics and links stay as they are; any other HTML in the text becomes plain characters.
    """
    said: set[Term] = set()

    def mark(found: re.Match[str]) -> str:
        skipped, tag, word, plural = found.groups()
        if skipped:
            return skipped
        if tag:
            return "&lt;"
        term = _spelled().get(word) or _spelled().get(word[0].lower() + word[1:])
        if term is None or term in said:
            return found[0]
        said.add(term)
        definition = html.escape(term.definition).replace("|", "&#124;").replace("`", "&#96;")
        attributes = (
            f'class="term" role="term" tabindex="0" data-definition="{definition}" aria-description="{definition}"'
        )
        return f"<span {attributes}>{word}{plural}</span>"

    return _pattern().sub(mark, text)
