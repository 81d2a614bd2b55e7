"""Cross entropy kernels broken on purpose by one edit each: the grid must find every one."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from dataclasses import replace

from kernels.catalog import KERNELS, Kernel
from kernels.edits import Edit, source_of
from tests.kernels.mutants import Mutant

FUNCTIONS = {
    "cross_entropy_standard": ("logits_kernel", "loss_of_logits_kernel"),
    "cross_entropy_fused": ("cross_entropy_fused_kernel",),
    "cross_entropy_backward": ("cross_entropy_dh_kernel", "cross_entropy_dw_kernel", "cross_entropy_backward"),
}
"""The functions in which a kernel's mutants are."""
MASK = '        x = tl.where((cols < vocab)[None, :], x, -float("inf"))\n'
DX = "dx = (p - tl.where(cols[None, :] == target[:, None], 1.0, 0.0)) * dloss[:, None]"
MUTANTS = (
    *(
        mutant
        for name in ("cross_entropy_standard", "cross_entropy_fused")
        for mutant in (
            Mutant("max not updated", name, "m_new = tl.maximum(m_i, tl.max(x, axis=1))", "m_new = tl.max(x, axis=1)"),
            Mutant("sum not rescaled", name, "l_i = l_i * alpha + tl.sum(p, axis=1)", "l_i = l_i + tl.sum(p, axis=1)"),
            Mutant("target off by one tile", name, "here = tl.where(cols[None, :] == target[:, None]",
                   "here = tl.where(cols[None, :] == target[:, None] + BLOCK_N"),
            Mutant("ignore_index ignored", name, "loss = tl.where(target == IGNORE, 0.0, lse - x_target)",
                   "loss = lse - x_target"),
            Mutant("−inf − −inf", name, "p = tl.exp(x - m_safe[:, None])", "p = tl.exp(x - m_new[:, None])"),
        )
    ),
    Mutant("columns past the vocabulary count", "cross_entropy_standard",
           'mask=inside, other=-float("inf")', "mask=inside, other=0.0"),
    Mutant("columns past the vocabulary count", "cross_entropy_fused", MASK, ""),
    Mutant("a part of the dimensions", "cross_entropy_fused",
           'x = x + tl.dot(h, tl.trans(w), input_precision="ieee")',
           'x = tl.dot(h, tl.trans(w), input_precision="ieee")'),
    Mutant("the target of the last tile alone", "cross_entropy_fused",
           "x_target = tl.maximum(x_target, tl.max(here, axis=1))", "x_target = tl.max(here, axis=1)"),
    Mutant("lse without m", "cross_entropy_fused", "lse = m_i + tl.log(l_i)", "lse = tl.log(l_i)"),
    Mutant("P − 1 missing in dH", "cross_entropy_backward", f"        {DX}\n        dx = tl.where(dloss[:, None] == "
           "0.0, 0.0, dx)  # a token that does not count: 0 · NaN would be NaN\n        # dH",
           "        dx = p * dloss[:, None]\n        # dH"),
    Mutant("P − 1 missing in dW", "cross_entropy_backward", f"        {DX}\n        dx = tl.where(dloss[:, None] == "
           "0.0, 0.0, dx)  # a token that does not count: 0 · NaN would be NaN\n        # dW",
           "        dx = p * dloss[:, None]\n        # dW"),
    Mutant("mean over all tokens", "cross_entropy_backward",
           "counted / counted.sum().clamp(min=1).float()", "counted / float(tokens)"),
    Mutant("ignore_index ignored", "cross_entropy_backward",
           "counted = targets != IGNORE_INDEX", "counted = targets == targets"),
    Mutant("columns past the vocabulary count in dH", "cross_entropy_backward", MASK,
           '        x = tl.where((cols < vocab + BLOCK_N)[None, :], x, -float("inf"))\n'),
    Mutant("dH of the last tile alone", "cross_entropy_backward",
           "dh = dh + tl.dot(dx.to(w.dtype), w", "dh = tl.dot(dx.to(w.dtype), w"),
    Mutant("dW not turned", "cross_entropy_backward", "tl.trans(dx).to(h.dtype)", "tl.trans(p).to(h.dtype)"),
)  # fmt: skip


def mutated(mutant: Mutant) -> Kernel:
    """The entry of the broken kernel."""
    entry = KERNELS[mutant.kernel]
    source = source_of(entry.module)
    for function in FUNCTIONS[mutant.kernel]:
        edit = Edit(hashlib.sha256(repr(mutant).encode()).hexdigest()[:12], function, mutant.old, mutant.new)
        with suppress(ValueError):
            edit.apply(source)
            return replace(entry, edit=edit)
    raise AssertionError(f"{mutant.name}: {mutant.kernel} has no {mutant.old!r}, or more than one")
