"""THE list of kernels. Everything else (command line, pages, tests, traffic, player) reads it; a kernel is added here once.

Imports neither torch nor triton: an entry names its wrapper by module and function, and `launch` imports it where it runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from kernels import inputs, parameters, traffic
from kernels.digest import digest_of
from kernels.edits import Edit
from kernels.inputs import Arrays, Preset
from kernels.parameters import Parameter, Values
from kernels.traffic import Traffic


@dataclass(frozen=True)
class Kernel:
    """One rung of the ladder. `wrong` says what is wrong on purpose; empty for a kernel that is right.

    `expected` names, as "module:function", what is right for a kernel whose answer is not its family's: a function
    (p, arrays, inputs) -> Expectation (`kernels.verify`), imported where the kernel runs. `make` fills its inputs, where the family's
    do not do.

    `roles` names the kernel's own variables that play each part, for the player: scores, probabilities, running_max, new_max,
    running_sum, new_sum, rescale, accumulator, output, rows and cols (the tile's coordinates in S); of a top-k kept, kept_at and
    kept_weight (the list, its columns, its weights); of a merge other_max, other_sum, other_rescale (the pair that is joined), tile_at and
    other_at (whose pairs).

    `call` is the function of `module` that runs it, where that is not called as the kernel is.

    `edit` is a line of the module to change first, for a kernel that is broken on purpose; such a kernel is called
    `base~what`, and `base` is the kernel that it would be without.
    """

    name: str
    title: str
    idea: str
    module: str
    family: str  # "softmax" or "attention"
    parameters: tuple[Parameter, ...]
    formula: Callable[[Values], Traffic]
    roles: Mapping[str, str]
    check: Callable[[Values], None]
    outputs: tuple[str, ...] = ("y",)
    keeps_max_and_sum: bool = (
        False  # m and l are to be those of all elements seen so far: the loop invariant, which the player checks
    )
    stores_scores: bool = False  # S is rounded to the experiment's dtype on its way through HBM
    wrong: str = ""
    inputs: str = "normal"  # the preset to start with
    expected: str = ""
    make: Callable[[Preset, Values, int], Arrays] | None = None
    edit: Edit | None = None
    call: str = ""
    gradient: bool = False  # takes do too, the gradient of o, and goes back through the whole

    @property
    def peer(self) -> bool:
        """Whether it is no part of the catalog but measured beside it (`kernels.peers`), with nothing to step through."""
        return ":" in self.name

    @property
    def function(self) -> str:
        """The name of the function of `module` that runs it."""
        return self.call or self.base.rpartition(":")[2]

    @property
    def code(self) -> str:
        """The digest of the code that it runs, 16 hex digits; what was measured on other code is stale."""
        return digest_of(self.module, self.function, self.edit)

    @property
    def base(self) -> str:
        """The catalog's own kernel of which this is one."""
        return self.name.partition("~")[0]

    def make_inputs(self, preset: Preset, p: Values, seed: int) -> Arrays:
        """The arrays this kernel takes, float32 holding values of the experiment's dtype."""
        of_family = inputs.softmax_inputs if self.family == "softmax" else inputs.attention_inputs
        arrays = (self.make or of_family)(preset, p, seed)
        return {**arrays, "do": inputs.gradient(p, seed)} if self.gradient else arrays

    def score_shape(self, p: Values) -> tuple[int, int]:
        """(rows, columns) of one head's S, or of x for a softmax."""
        return (p["rows"], p["cols"]) if self.family == "softmax" else (p["seq_len"], p["kv_len"])


_SOFTMAX_ROLES = {
    "scores": "x",
    "probabilities": "p",
    "output": "y",
    "running_max": "m_i",
    "running_sum": "l_i",
    "rows": "row",
    "cols": "cols",
}
_ONLINE_ROLES = {**_SOFTMAX_ROLES, "new_max": "m_new", "rescale": "alpha"}
_SPLIT_ROLES = {
    **_SOFTMAX_ROLES,
    "new_max": "m_new",
    "other_max": "m_j",
    "other_sum": "l_j",
    "tile_at": "own",
    "other_at": "other",
}
_TOPK = (*parameters.SOFTMAX, parameters.TOPK, parameters.ROW_TILE)


def _keeps(roles: Mapping[str, str]) -> dict[str, str]:
    """A softmax's roles, where the K largest are kept and no row of weights is stored."""
    without_output = {role: variable for role, variable in roles.items() if role != "output"}
    return {**without_output, "kept": "top_x", "kept_at": "top_i", "kept_weight": "y"}


_LISTED_ROLES = {"kept": "top_y", "kept_at": "top_i"}
_FLASH_ROLES = {
    "scores": "s", "probabilities": "p", "output": "o", "running_max": "m_i", "new_max": "m_new", "running_sum": "l_i",
    "rescale": "alpha", "accumulator": "acc", "rows": "rows", "cols": "cols",
}  # fmt: skip

CATALOG: Mapping[str, Kernel] = {
    kernel.name: kernel
    for kernel in (
        Kernel(
            "softmax_naive", "Naive softmax", "The formula as written: exp(x) / Σ exp(x).", "kernels.softmax", "softmax",
            (*parameters.SOFTMAX, parameters.ROW_TILE), traffic.softmax_naive,
            {name: variable for name, variable in _SOFTMAX_ROLES.items() if name != "running_max"}, parameters.check_rows,
            wrong="exp(x) overflows for x > 88.7, and inf / inf is NaN", inputs="large_magnitude",
        ),
        Kernel(
            "softmax_safe", "Safe softmax, three passes", "Subtract the row's maximum first, at the price of one more pass.",
            "kernels.softmax", "softmax", (*parameters.SOFTMAX, parameters.ROW_TILE), traffic.softmax_safe, _SOFTMAX_ROLES,
            parameters.check_rows,
        ),
        Kernel(
            "softmax_row", "Softmax of a whole row on chip", "Read the row once and keep it on chip, while it fits.",
            "kernels.softmax", "softmax", (*parameters.SHORT_ROWS, parameters.WHOLE_ROW_TILE), traffic.softmax_row, _SOFTMAX_ROLES,
            parameters.check_whole_row,
        ),
        Kernel(
            "softmax_blocked_wrong", "Softmax tile by tile, wrong", "Normalise each tile by itself: one pass, and wrong.",
            "kernels.softmax", "softmax", (*parameters.SOFTMAX, parameters.ROW_TILE), traffic.softmax_blocked_wrong, _SOFTMAX_ROLES,
            parameters.check_rows,
            keeps_max_and_sum=True, wrong="each tile is divided by its own sum, so a row sums to its number of tiles",
        ),
        Kernel(
            "softmax_online", "Online softmax, two passes", "Maximum and sum in one pass: rescale the sum when the maximum moves.",
            "kernels.softmax", "softmax", (*parameters.SOFTMAX, parameters.ROW_TILE), traffic.softmax_online, _ONLINE_ROLES,
            parameters.check_rows, keeps_max_and_sum=True,
        ),
        Kernel(
            "softmax_tiled", "Online softmax on tiles of rows and columns", "Many rows at once: m, l and α become columns.",
            "kernels.softmax", "softmax", (*parameters.SOFTMAX, parameters.ROWS_TILE, parameters.ROW_TILE), traffic.softmax_tiled,
            {**_ONLINE_ROLES, "rows": "rows"}, parameters.check_tile_area, keeps_max_and_sum=True,
        ),
        Kernel(
            "softmax_topk", "Online softmax with top-k, one pass", "Keep the K largest beside m and l: each element is read once.",
            "kernels.topk", "softmax", _TOPK, traffic.softmax_topk, _keeps(_ONLINE_ROLES), parameters.check_rows,
            outputs=("y", "index"), expected="kernels.verify:kept", keeps_max_and_sum=True,
        ),
        Kernel(
            "softmax_safe_topk", "Safe softmax with top-k, two passes", "The maximum first; then the sum and the K largest in one pass.",
            "kernels.topk", "softmax", _TOPK, traffic.softmax_safe_topk, _keeps(_SOFTMAX_ROLES), parameters.check_rows,
            outputs=("y", "index"), expected="kernels.verify:kept",
        ),
        Kernel(
            "softmax_safe_then_topk", "Safe softmax, then top-k", "Two launches: every weight is stored, and loaded again to find the K largest.",
            "kernels.topk", "softmax", _TOPK, traffic.softmax_safe_then_topk, {**_SOFTMAX_ROLES, **_LISTED_ROLES}, parameters.check_rows,
            outputs=("y", "index"), expected="kernels.verify:kept_of_weights",
        ),
        Kernel(
            "softmax_online_then_topk", "Online softmax, then top-k", "Two launches; the softmax reads each element twice, not three times.",
            "kernels.topk", "softmax", _TOPK, traffic.softmax_online_then_topk, {**_ONLINE_ROLES, **_LISTED_ROLES}, parameters.check_rows,
            outputs=("y", "index"), expected="kernels.verify:kept_of_weights",
        ),
        Kernel(
            "softmax_split", "Parallel tiles, merged", "Each tile gives its (m, l); the pairs are joined in any order, or as a tree.",
            "kernels.merge", "softmax", (*parameters.SOFTMAX, parameters.ORDER, parameters.ROW_TILE), traffic.softmax_split,
            {**_SPLIT_ROLES, "rescale": "alpha", "other_rescale": "beta"}, parameters.check_split,
        ),
        Kernel(
            "softmax_split_wrong", "Parallel tiles, merged by adding, wrong", "Add the tiles' sums as they are: wrong.",
            "kernels.merge", "softmax", (*parameters.SOFTMAX, parameters.ORDER, parameters.ROW_TILE), traffic.softmax_split_wrong,
            _SPLIT_ROLES, parameters.check_split,
            wrong="l_1 + l_2 adds sums that are measured against different maxima",
        ),
        Kernel(
            "attention_standard", "Standard attention", "Three launches; S and P, N² elements each, travel through HBM.",
            "kernels.attention", "attention", parameters.ATTENTION, traffic.attention_standard,
            {"scores": "s", "probabilities": "p", "accumulator": "acc", "running_max": "m_i", "running_sum": "l_i", "rows": "rows", "cols": "cols"},
            parameters.check_standard, outputs=("o",), stores_scores=True,
        ),
        Kernel(
            "flash_attention_v1", "FlashAttention-1 forward", "Keys and values outside: O is re-read and rescaled at every visit.",
            "kernels.attention", "attention", parameters.ATTENTION, traffic.flash_attention_v1,
            {**_FLASH_ROLES, "accumulator": "o_i", "new_sum": "l_new"}, parameters.check_heads, outputs=("o", "lse"),
        ),
        Kernel(
            "flash_attention", "FlashAttention-2 forward", "Queries outside: O stays on chip and is written once.",
            "kernels.attention", "attention", parameters.ATTENTION, traffic.flash_attention, _FLASH_ROLES,
            parameters.check_heads, outputs=("o", "lse"),
        ),
        Kernel(
            "flash_attention_exp2", "FlashAttention-2 forward in base 2", "exp2 for exp: log2 e = 1.44269504 is folded into the scale.",
            "kernels.attention", "attention", parameters.ATTENTION, traffic.flash_attention_exp2, _FLASH_ROLES,
            parameters.check_heads, outputs=("o", "lse"),
        ),
    )
}  # fmt: skip
