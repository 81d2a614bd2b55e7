"""The formulas of the cross entropy kernels: bytes and FLOPs, term by term."""

from __future__ import annotations

from dataclasses import dataclass

from kernels.parameters import ITEM_BYTES, Values
from kernels.traffic import Term, Traffic, Work, tiles

TARGET_BYTES = 8
"""A target is an int64, as PyTorch has it."""


@dataclass(frozen=True)
class _Sizes:
    """A call's sizes in elements."""

    tokens: int
    h: int
    w: int
    item: int
    tiles_m: int
    tiles_n: int
    chunks: int  # parts of the dimensions
    width: int  # dim as the tiles hold it
    lanes_m: int  # tokens of whole tiles
    lanes_n: int  # rows of W of whole tiles

    @classmethod
    def of(cls, p: Values) -> _Sizes:
        tiles_m, tiles_n = tiles(p["tokens"], p["block_m"]), tiles(p["vocab"], p["block_n"])
        chunks = tiles(p["dim"], p["block_d"])
        return cls(
            tokens=p["tokens"],
            h=p["tokens"] * p["dim"],
            w=p["vocab"] * p["dim"],
            item=ITEM_BYTES[p["dtype"]],
            tiles_m=tiles_m,
            tiles_n=tiles_n,
            chunks=chunks,
            width=chunks * p["block_d"],
            lanes_m=tiles_m * p["block_m"],
            lanes_n=tiles_n * p["block_n"],
        )

    @property
    def lanes(self) -> int:
        """Logits of whole tiles."""
        return self.lanes_m * self.lanes_n

    @property
    def inputs(self) -> tuple[Term, Term]:
        """A matmul's reads."""
        return (
            Term("h", False, self.h, self.tiles_n, self.item, "all of H, once per tile of the vocabulary"),
            Term("w", False, self.w, self.tiles_m, self.item, "all of W, once per tile of tokens"),
        )

    @property
    def logits(self) -> tuple[Work, Work]:
        return (
            Work("H Wᵀ", "matmul", 2 * self.lanes * self.width),
            Work("X + H Wᵀ", "other", self.lanes * self.chunks),
        )

    @property
    def losses(self) -> tuple[Term, ...]:
        """What a loss needs beside the logits, and its results."""
        return (
            Term("targets", False, self.tokens, 1, TARGET_BYTES, "one int64 per token"),
            Term("loss", True, self.tokens, 1, 4, "one float32 per token"),
            Term("lse", True, self.tokens, 1, 4, "one float32 per token"),
        )

    @property
    def online(self) -> tuple[Work, ...]:
        """The online logsumexp over the tiles of the vocabulary."""
        rows = self.lanes_m * self.tiles_n
        return (
            Work("max(xₜ, the target's logit)", "other", self.lanes),
            Work("max(m, rowmax X)", "other", self.lanes),
            Work("m − m_new", "other", rows),
            Work("α = exp(m − m_new)", "exp", rows),
            Work("X − m_new", "other", self.lanes),
            Work("P̃ = exp(X − m_new)", "exp", self.lanes),
            Work("α l + rowsum P̃", "other", self.lanes + rows),
            Work("m + ln l", "other", 2 * self.lanes_m),
            Work("L − xₜ", "other", self.lanes_m),
        )

    @property
    def gradient(self) -> tuple[Work, ...]:
        """dX from the logits again, in one launch."""
        return (
            Work("H Wᵀ", "matmul", 2 * self.lanes * self.width),
            Work("X − L", "other", self.lanes),
            Work("P = exp(X − L)", "exp", self.lanes),
            Work("P − 1 at the target", "other", self.lanes),
            Work("· dloss", "other", self.lanes),
        )


def cross_entropy_standard(p: Values) -> Traffic:
    a = _Sizes.of(p)
    logits = a.tokens * p["vocab"]
    terms = (
        *a.inputs,
        Term("x", True, logits, 1, a.item, "launch 1: the logits, tokens × vocabulary"),
        Term("x", False, logits, 1, a.item, "launch 2: the logits again"),
        *a.losses,
    )
    return Traffic(terms, (*a.logits, *a.online))


def cross_entropy_fused(p: Values) -> Traffic:
    a = _Sizes.of(p)
    return Traffic((*a.inputs, *a.losses), (*a.logits, *a.online))


def cross_entropy_backward(p: Values) -> Traffic:
    """The fused forward pass, the launch that holds tokens (dH), the launch that holds rows of W (dW)."""
    a, forward = _Sizes.of(p), cross_entropy_fused(p)
    terms = (
        *forward.terms,
        Term("h", False, a.h, 1, a.item, "dH: each tile of tokens, once"),
        Term("w", False, a.w, a.tiles_m, a.item, "dH: all of W, once per tile of tokens"),
        *_per_token(a, 1, "dH: "),
        Term("dh", True, a.h, 1, a.item, "dH, once, by the program that owns it"),
        Term("w", False, a.w, 1, a.item, "dW: each tile of the vocabulary, once"),
        Term("h", False, a.h, a.tiles_n, a.item, "dW: all of H, once per tile of the vocabulary"),
        *_per_token(a, a.tiles_n, "dW: "),
        Term("dw", True, a.w, 1, a.item, "dW, once, by the program that owns it"),
    )
    work = (
        *forward.work,
        *a.gradient,
        Work("dX W", "matmul", 2 * a.lanes * a.width),
        Work("dH + dX W", "other", a.lanes_m * a.tiles_n * a.width),
        *a.gradient,
        Work("dXᵀ H", "matmul", 2 * a.lanes * a.width),
        Work("dW + dXᵀ H", "other", a.lanes_n * a.tiles_m * a.width),
    )
    return Traffic(terms, work)


def cross_entropy_parts(p: Values) -> Traffic:
    """The fast kernel's least: W goes through HBM once per part and matmul, dW is read and written by each part."""
    tokens, h, w, item = p["tokens"], p["tokens"] * p["dim"], p["vocab"] * p["dim"], ITEM_BYTES[p["dtype"]]
    parts = tiles(tokens, part_of_tokens(tokens, p["vocab"], p["dim"], item))
    logits = tokens * p["vocab"]
    terms = (
        Term("h", False, h, 2, item, "for X and for dW"),
        Term("w", False, w, 2 * parts, item, "for X and for dH, once per part of the tokens"),
        Term("x", True, logits, 2, item, "X, and dX in its place"),
        Term("x", False, logits, 4, item, "X for (m, l) and for dX; dX for dH and for dW"),
        Term("targets", False, tokens, 1, TARGET_BYTES, "one int64 per token"),
        Term("loss", True, tokens, 1, 4, "one float32 per token"),
        Term("lse", True, tokens, 1, 4, "one float32 per token"),
        Term("dh", True, h, 1, item, "once"),
        Term("dw", False, w, parts - 1, item, "by each part but the first"),
        Term("dw", True, w, parts, item, "by each part"),
    )
    matmul = 2 * tokens * p["vocab"] * p["dim"]
    work = (
        Work("H Wᵀ, dX W, dXᵀ H", "matmul", 3 * matmul),
        Work("exp(X − m), exp(X − L)", "exp", 2 * logits),
        Work("max, differences, sums, scale", "other", 6 * logits),
    )
    return Traffic(terms, work)


ALIGNED = 64
"""A part's tokens are a multiple of this, and so are the columns that cuBLAS computes at once."""
BESIDE_W = 50_000_000
"""Bytes of logits that a part may have whatever W's size: about a large GPU's L2, so that they hardly pass HBM."""


def part_of_tokens(tokens: int, vocab: int, dim: int, item: int) -> int:
    """How many tokens the fast kernel computes at a time: logits of at most a fifth of W's bytes and BESIDE_W."""
    most = max(ALIGNED, (dim // 5 + BESIDE_W // (vocab * item)) // ALIGNED * ALIGNED)
    parts = tiles(tokens, most)  # of about one size
    return min(tokens, tiles(tiles(tokens, parts), ALIGNED) * ALIGNED)


def _per_token(a: _Sizes, times: int, launch: str) -> tuple[Term, Term, Term]:
    return (
        Term("targets", False, a.tokens, times, TARGET_BYTES, f"{launch}one int64 per token"),
        Term("lse", False, a.tokens, times, 4, f"{launch}one float32 per token"),
        Term("dloss", False, a.tokens, times, 4, f"{launch}one float32 per token"),
    )


def between_launches(p: Values, traffic: Traffic, term: Term, programs: int) -> int:
    """The logits go from one launch to the next whole."""
    return term.once if term.buffer == "x" else 0
