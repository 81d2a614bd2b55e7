"""Bugs that shipped: one changed line of a kernel, where the bug comes from, and an input that shows it.

`kernels.catalog` makes a kernel of each, called `base~what`, to run, record and step through as any other. Imports
neither torch nor triton.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from kernels import traffic
from kernels.edits import Edit
from kernels.parameters import Value, Values
from kernels.traffic import Work


@dataclass(frozen=True)
class Exhibit:
    """One broken kernel. At `sizes` the input `shown_by` breaks it, and it passes with `hidden_by`.

    `story` and `hints` are markdown. `source` is the name of the bug report and `link` its address, empty for a bug
    that everybody has written once.
    """

    name: str
    title: str
    base: str
    old: str
    new: str
    shown_by: str
    sizes: Mapping[str, Value]
    story: str
    hints: tuple[str, str]
    source: str = ""
    link: str = ""
    hidden_by: str = "normal"
    harmless: bool = False
    work: Callable[[Values], Work] | None = None  # FLOPs that the edit adds, or takes away if negative
    function: str = ""  # where the line is, if the base launches several kernels

    @property
    def kernel(self) -> str:
        """The broken kernel's name."""
        return f"{self.base}~{self.name}"

    @property
    def edit(self) -> Edit:
        """The line that is changed."""
        return Edit(self.name, self.function or f"{self.base}_kernel", self.old, self.new)


def _no_maximum_with_the_old(p: Values) -> Work:
    rows = sum(work.flops for work in traffic.flash_attention(p).work if work.what == "m − m_new")
    return Work("max with the old m, left out", "other", -rows)


_TWO_TILES: Mapping[str, Value] = {"seq_len": 32, "head_dim": 16, "block_m": 16, "block_n": 16}
_ROW: Mapping[str, Value] = {"rows": 1, "cols": 16, "block_n": 4}

EXHIBITS: Mapping[str, Exhibit] = {
    exhibit.name: exhibit
    for exhibit in (
        Exhibit(
            "no_running_max",
            "Running max not kept",
            "flash_attention",
            "m_new = tl.maximum(m_i, tl.max(s, axis=1))",
            "m_new = tl.max(s, axis=1)",
            "made:scale=100,order=falling",
            {**_TWO_TILES, "causal": True},
            "Each tile subtracts its own maximum and forgets the larger one before it. The algebra still holds: α = "
            "exp(m − m_new) rescales the old sum, whether m rises or falls. But a falling maximum makes α larger "
            "than 1, and exp of a fall of more than 88.7 overflows in float32. TileLang's FlashAttention example had "
            "this bug until autumn 2025.",
            (
                "On which inputs does a row's maximum fall from one tile to the next? How far must it fall?",
                "Choose *falling* scores with a scale of 100: α is then exp of more than 88.7.",
            ),
            "tile-ai/tilelang #1148",
            "https://github.com/tile-ai/tilelang/pull/1148",
            work=_no_maximum_with_the_old,
        ),
        Exhibit(
            "zero_for_minus_inf",
            "−∞ as maximum set to 0",
            "flash_attention",
            "m_i = m_new",
            "m_i = m_safe",
            "made:offset=-200,hidden=first_tile",
            _TWO_TILES,
            "Replacing m = −∞ by 0 avoids −∞ − −∞, which is right for one subtraction. As the running maximum it is "
            "wrong: a row that has seen no key claims to have seen a score of 0, and scores far below 0 then "
            "underflow to P̃ = 0. In FlashAttention's CuTe kernel for Hopper, whole heads were zero.",
            (
                "The first tile must hide every key of a row, so that its maximum is −∞.",
                "The next scores must be so far below 0 that their exp is 0: hide the *first tile*, offset −200.",
            ),
            "Dao-AILab/flash-attention #2082",
            "https://github.com/Dao-AILab/flash-attention/issues/2082",
        ),
        Exhibit(
            "finite_start",
            "−50,000 for −∞",
            "flash_attention",
            'm_i = tl.full((BLOCK_M,), -float("inf"), tl.float32)',
            "m_i = tl.full((BLOCK_M,), -5e4, tl.float32)",
            "made:offset=-80000",
            _TWO_TILES,
            "The running maximum starts at a number that should be below every score. A real model had lower scores: "
            "its large activations gave −245,000 before scaling. Then the maximum never changes, every P̃ "
            "underflows, and the row is zeros, without NaN or warning. FlashInfer's kernels started at −5·10⁴.",
            (
                "What if every score is below the number that the maximum starts from?",
                "Shift all scores below −50,000: an offset of −80,000 works in float32 and bfloat16.",
            ),
            "flashinfer-ai/flashinfer #4267",
            "https://github.com/flashinfer-ai/flashinfer/issues/4267",
        ),
        Exhibit(
            "finite_mask",
            "−10,000 hides a key",
            "flash_attention",
            's = tl.where(visible, s, -float("inf"))',
            "s = tl.where(visible, s, -1e4)",
            "made:offset=-16000",
            {**_TWO_TILES, "causal": True},
            "A hidden key gets a score of −10,000 instead of −∞. If a row's visible scores are lower, the hidden key "
            "becomes the row's maximum and takes all the weight: under a causal mask, a token attends to its future. "
            "The Rust library lattice masked with −10⁴.",
            (
                "The kernel's own mask must hide a key, and that key must outweigh the visible ones.",
                "*Causal* on, and all scores below −10,000: an offset of −16,000.",
            ),
            "ohdearquant/lattice #373",
            "https://github.com/ohdearquant/lattice/pull/373",
        ),
        Exhibit(
            "inf_minus_inf",
            "−∞ minus −∞ is NaN",
            "flash_attention",
            "p = tl.exp(s - m_safe[:, None])",
            "p = tl.exp(s - m_new[:, None])",
            "first_tile_masked",
            _TWO_TILES,
            "If a row's first tile is wholly hidden, its maximum is −∞ and its scores are −∞: their difference is "
            "NaN, and no later tile can repair it. That is why the kernel has `m_safe`. PyTorch's FlashAttention for "
            "CPUs had this bug until July 2024.",
            (
                "When is a row's maximum still −∞ after a tile?",
                "Hide the *first tile*. Hiding the last one does nothing: by then the maximum is a number.",
            ),
            "pytorch/pytorch #130014",
            "https://github.com/pytorch/pytorch/pull/130014",
        ),
        Exhibit(
            "acc_not_rescaled",
            "acc is not rescaled",
            "flash_attention",
            "acc = acc * alpha[:, None]",
            "acc = acc * 1.0",
            "ascending",
            _TWO_TILES,
            "ℓ is rescaled to the new maximum, the accumulator is not: earlier tiles count too much. This is the "
            "only bug here that plain random numbers show, unless a row has a single tile or its largest score comes "
            "first.",
            (
                "Use any row that has a new maximum after its first tile.",
                "*Ascending* scores change it at every tile; *descending* ones never do.",
            ),
            hidden_by="descending",
        ),
        Exhibit(
            "sum_from_one",
            "ℓ starts at 1",
            "flash_attention",
            "l_i = tl.zeros((BLOCK_M,), tl.float32)",
            "l_i = tl.full((BLOCK_M,), 1.0, tl.float32)",
            "first_tile_masked",
            _TWO_TILES,
            "The running sum should start at 0, and here it starts at 1. Look for an input on which that matters "
            "before you open the hints.",
            (
                "What is α on a row's first tile, and what does it multiply?",
                "α = exp(−∞ − m) = 0 on the first tile, so the start of ℓ is multiplied by 0. No input shows it. "
                "Where m starts does matter.",
            ),
            harmless=True,
        ),
        Exhibit(
            "nan_swallowed",
            "NaN taken as a number",
            "softmax_online",
            "l_i = tl.where(l_i == 0.0, 1.0, l_i)",
            "l_i = tl.maximum(l_i, 1.0)",
            "made:nan=middle",
            _ROW,
            "Once a row has seen a score, ℓ is at least 1, since its maximum adds exp(0). So max(ℓ, 1) looks like a "
            "good guard against division by 0. But on a GPU max(NaN, 1) is 1. A row with a NaN then comes out as "
            "ordinary weights that were never divided. `fmaxf(NaN, 0)` once hid a broken row sum from its test in "
            "the same way: NaN differences counted as 0.",
            ("The guard is right for every number. What else can ℓ be?", "Put a *NaN* among the scores."),
            "PaddleJitLab/CUDATutorial #69",
            "https://github.com/PaddleJitLab/CUDATutorial/issues/69",
            work=lambda p: Work("max(ℓ, 1)", "other", p["rows"]),
        ),
    )
}
