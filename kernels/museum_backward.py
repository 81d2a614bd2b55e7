"""Bugs of the backward pass, each one changed line: broken kernels as in `museum.py`.

They show on ordinary random numbers, in the gradients alone: O is right in all of them.
"""

from __future__ import annotations

from collections.abc import Mapping

from kernels import traffic_backward
from kernels.museum import Exhibit
from kernels.parameters import Value, Values
from kernels.traffic import Work, tiles

_TWO_TILES: Mapping[str, Value] = {"seq_len": 32, "head_dim": 16, "block_m": 16, "block_n": 16}
_HINTS = ("", "")


def _without_delta(p: Values) -> Work:
    both = sum(work.flops for work in traffic_backward.flash_attention_backward(p).work
               if work.what == "launch 2: P ∘ (dP − δ)")  # fmt: skip
    return Work("launch 2: dP − δ, left out", "other", -both // 2)


def _without_m(p: Values) -> Work:
    rows = p["batch"] * p["heads"] * tiles(p["seq_len"], p["block_m"]) * p["block_m"]
    return Work("m + …, left out", "other", -rows)


BUGS: Mapping[str, Exhibit] = {
    bug.name: bug
    for bug in (
        Exhibit(
            "delta_forgotten",
            "δ is forgotten",
            "flash_attention_backward",
            "ds = tl.where(visible, p * (dp - delta[:, None]), 0.0)",
            "ds = tl.where(visible, p * dp, 0.0)",
            "normal",
            _TWO_TILES,
            "Without δ each weight may change alone. But the weights of a row sum to 1: one can only grow if "
            "others shrink. dV is right, since it needs no dS. Here dK is wrong, and dQ, of another launch, is right.",
            _HINTS,
            hidden_by="",
            work=_without_delta,
            function="flash_attention_backward_keys_kernel",
        ),
        Exhibit(
            "lse_without_m",
            "lse without m",
            "flash_attention",
            "lse = m_i + tl.log(l_i)",
            "lse = tl.log(l_i)",
            "normal",
            _TWO_TILES,
            "The forward pass leaves ln ℓ instead of m + ln ℓ. O does not use it, so every test of O passes. The "
            "backward pass then computes P too large by the factor exp(m) of its row, and all three gradients with it.",
            _HINTS,
            hidden_by="",
            work=_without_m,
        ),
        Exhibit(
            "mask_forgotten",
            "The mask is missing in the backward pass",
            "flash_attention_backward",
            "visible = visible & (cols[None, :] <= rows[:, None] + diagonal)",
            "visible = visible & (cols[None, :] >= 0)",
            "normal",
            {**_TWO_TILES, "causal": True},
            "The forward pass hides the future, the recomputed P does not. Hidden pairs then add to dK and dV. "
            "Triton's tutorial had a causal mask in one pass and not in the other.",
            _HINTS,
            "triton-lang/triton #4541, #7216",
            "https://github.com/triton-lang/triton/issues/4541",
            hidden_by="",
            function="flash_attention_backward_keys_kernel",
        ),
        Exhibit(
            "race_on_dq",
            "dQ is added without an atomic",
            "flash_attention_backward_atomic",
            "tl.atomic_add(dq_sum_ptr + at_q, dq, mask=inside_q)",
            "tl.store(dq_sum_ptr + at_q, tl.load(dq_sum_ptr + at_q, mask=inside_q, other=0.0) + dq, mask=inside_q)",
            "normal",
            _TWO_TILES,
            "The program loads the sum, adds and stores it. Another program may load the same old sum in between: then "
            "one of the two additions is lost. The interpreter runs one program after the other, so the result is "
            "right here, and random on a GPU. `python -m explain check` finds the race from the addresses.",
            _HINTS,
            hidden_by="normal",
            harmless=True,
        ),
    )
}
"""The bugs of the backward pass by name. `harmless`: right in the interpreter, where programs do not overlap."""
