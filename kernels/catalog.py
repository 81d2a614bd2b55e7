"""THE list of kernels. Command line, pages, tests, formulas and player read it; a kernel is added here once.

Imports neither torch nor triton: an entry names its module and function, and `launch` imports them where they run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal

from kernels import (
    inputs,
    library_traffic,
    parameters,
    traffic,
    traffic_backward,
    traffic_cross_entropy,
    traffic_decoding,
)  # fmt: skip
from kernels.digest import digest_of
from kernels.edits import Edit
from kernels.inputs import Arrays, Preset
from kernels.museum import EXHIBITS, Exhibit
from kernels.museum_backward import BUGS
from kernels.parameters import Parameter, Values
from kernels.rungs import GLUON, ORDER
from kernels.traffic import Term, Traffic

Kind = Literal["taught", "rung", "fast", "library", "broken"]
"""To step through; a rung of the speed ladder; written for speed; a library's call; broken on purpose."""


@dataclass(frozen=True)
class Kernel:
    """One kernel: what it is, how to run it, what it must move, and how it is shown."""

    name: str
    title: str
    short: str
    """Its label in charts and narrow tables."""
    idea: str
    module: str
    family: Literal["vector", "softmax", "attention", "loss"]
    parameters: tuple[Parameter, ...]
    formula: Callable[[Values], Traffic]
    roles: Mapping[str, str]
    """The kernel's own variable for each role that the player knows: queries, keys, values (attention's operands),
    scores, exponentials (P̃, or P), running_max, new_max, running_sum, new_sum, rescale, weights (P after ÷ ℓ, where the
    output is another), accumulator, output, rows and cols (the tile's coordinates in S); for top-k kept, kept_at and
    kept_weight (the list, its columns, its weights); for a merge other_max, other_sum, other_rescale (the other pair),
    tile_at and other_at (which tiles the pairs belong to), other_output (the other part's O); result of a vector
    addition; backward the gradients by their operand: output_gradient (dO), weights_gradient (dP), scores_gradient
    (dS), queries_gradient, keys_gradient, values_gradient, with logsumexp and row_gradient (δ, what a row's keys
    share); for a loss target (the target's logit), target_at (its column), lse, loss, and the gradients: upstream (of
    the loss), gradient (of the scores), input_gradient (of H), weight_gradient (of W)."""
    check: Callable[[Values], None]
    """Raises ParameterError for parameters that do not fit together."""
    kind: Kind = "taught"
    hue: int = 0
    """Which of the palette's kernel colours it has, everywhere."""
    outputs: tuple[str, ...] = ("y",)
    program: str = "Program"
    """What one program computes: "Query tile", "Head"; "Program" if that has no name."""
    outer: str = "block_m"
    """The tile of the outer loop, which stays on chip while the other tiles pass."""
    buffers: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Names of buffers that differ from the formula's: {launched kernel: {its name: the formula's name}}."""
    between: Callable[[Values, Traffic, Term, int], int] = traffic.nothing_between
    """Bytes through L2 before an element of a term is read again, given how many programs run at once."""
    keeps_max_and_sum: bool = False
    """After each tile m and l are those of all elements so far: the loop invariant, which the player checks."""
    stores_scores: bool = False
    """S is rounded to the experiment's dtype on its way through HBM."""
    prefixes: bool = False
    """On the first j tiles of keys it returns the state after tile j, to be compared with the trace."""
    wrong: str = ""
    """What is wrong on purpose; empty for a correct kernel."""
    inputs: str = "normal"
    """The preset to start with."""
    expected: str = ""
    """Its specification, if not its family's: "module:function", (p, arrays, inputs) -> `verify.Expectation`."""
    make: Callable[[Preset, Values, int], Arrays] | None = None
    """Makes its inputs, if they are not its family's."""
    call: str = ""
    """The function of `module` that runs it, if that is not called as the kernel is."""
    edit: Edit | None = None
    """The line to change in `module`, for a kernel that is broken on purpose. Such a kernel is called `base~what`."""
    gradient: bool = False
    """Takes do, the gradient of o; a library's call runs forward and backward."""
    given: str = ""
    """What an earlier pass leaves for it: "module:function", (p, inputs) -> more inputs. Not part of its run."""
    shares_keys: bool = False
    """A tile's rows are the queries of all heads that share keys, head after head."""

    @property
    def steppable(self) -> bool:
        """Whether it can be traced line by line; the others are only measured."""
        return self.kind in ("taught", "broken")

    @property
    def function(self) -> str:
        """The name of the function of `module` that runs it."""
        return self.call or self.base

    @property
    def code(self) -> str:
        """The digest of the code that it runs, 16 hex digits; what was measured on other code is stale."""
        return digest_of(self.module, self.function, self.edit)

    @property
    def base(self) -> str:
        """The name of the correct kernel that a broken one is made from; its own name for any other."""
        return self.name.partition("~")[0]

    def make_inputs(self, preset: Preset, p: Values, seed: int) -> Arrays:
        """The arrays this kernel takes, float32 holding values of the experiment's dtype."""
        arrays = (self.make or _INPUTS[self.family])(preset, p, seed)
        return {**arrays, "do": inputs.gradient(p, seed)} if self.gradient else arrays

    def score_shape(self, p: Values) -> tuple[int, int]:
        """(rows, columns) of one head's S, or of all heads that share keys; of x for a softmax; of a loss's logits; of
        one vector.
        """
        if self.family == "vector":
            return (1, p["n"])
        if self.family == "softmax":
            return (p["rows"], p["cols"])
        if self.family == "loss":
            return (p["tokens"], p["vocab"])
        return (p["seq_len"] * (p["heads"] // p["kv_heads"] if self.shares_keys else 1), p["kv_len"])


_INPUTS = {
    "vector": inputs.vector_inputs,
    "softmax": inputs.softmax_inputs,
    "attention": inputs.attention_inputs,
    "loss": inputs.loss_inputs,
}

_SOFTMAX_ROLES = {
    "scores": "x",
    "exponentials": "p",
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


def _keeps(roles: Mapping[str, str]) -> dict[str, str]:
    """A softmax's roles, where the K largest are kept and no row of weights is stored."""
    without_output = {role: variable for role, variable in roles.items() if role != "output"}
    return {**without_output, "kept": "top_x", "kept_at": "top_i", "kept_weight": "y"}


_LISTED_ROLES = {"kept": "top_y", "kept_at": "top_i"}
_FLASH_ROLES = {
    "queries": "q", "keys": "k", "values": "v", "scores": "s", "exponentials": "p", "output": "o",
    "running_max": "m_i", "new_max": "m_new", "running_sum": "l_i", "rescale": "alpha", "accumulator": "acc",
    "rows": "rows", "cols": "cols",
}  # fmt: skip

_BACKWARD_ROLES = {
    "queries": "q", "keys": "k", "values": "v", "output_gradient": "do", "scores": "s", "exponentials": "p",
    "logsumexp": "lse", "output": "o", "row_gradient": "delta", "weights_gradient": "dp", "scores_gradient": "ds",
    "queries_gradient": "dq", "keys_gradient": "dk", "values_gradient": "dv", "rows": "rows", "cols": "cols",
}  # fmt: skip
_LOSS_ROLES = {
    "queries": "h", "keys": "w", "scores": "x", "exponentials": "p", "running_max": "m_i", "new_max": "m_new",
    "running_sum": "l_i", "rescale": "alpha", "target": "x_target", "target_at": "target", "lse": "lse", "loss": "loss",
    "rows": "rows", "cols": "cols",
}  # fmt: skip

_softmax = partial(
    Kernel, module="kernels.softmax", family="softmax", parameters=(*parameters.SOFTMAX, parameters.ROW_TILE),
    roles=_SOFTMAX_ROLES, check=parameters.check_rows, between=traffic.between_rows,
)  # fmt: skip
_topk = partial(
    _softmax, module="kernels.topk", parameters=(*parameters.SOFTMAX, parameters.TOPK, parameters.ROW_TILE),
    outputs=("y", "index"), expected="kernels.verify:kept",
)  # fmt: skip
_split = partial(
    _softmax, module="kernels.merge", parameters=(*parameters.SOFTMAX, parameters.ORDER, parameters.ROW_TILE),
    check=parameters.check_split, between=traffic.between_tiles,
)  # fmt: skip
_flash = partial(
    Kernel, module="kernels.attention", family="attention", parameters=parameters.ATTENTION, roles=_FLASH_ROLES,
    check=parameters.check_heads, outputs=("o", "lse"), program="Query tile",
)  # fmt: skip
_backward = partial(
    Kernel, family="attention", parameters=parameters.ATTENTION, check=parameters.check_heads, roles=_BACKWARD_ROLES,
    outputs=("dq", "dk", "dv"), program="Program", gradient=True, expected="kernels.gradients:expected",
    given="kernels.gradients:flash_forward",
)  # fmt: skip
_loss = partial(
    Kernel, module="kernels.cross_entropy", family="loss", parameters=parameters.LOSS, roles=_LOSS_ROLES,
    check=parameters.check_loss, outputs=("loss", "lse"), program="Token tile", keeps_max_and_sum=True,
    expected="kernels.verify_loss:expected",
)  # fmt: skip

_TAUGHT = (
    Kernel(
        "vector_add", "Vector addition", "vector addition", "One tile for each program; a mask for the last one.",
        module="kernels.vector", family="vector", parameters=parameters.VECTOR, formula=traffic.vector_add,
        roles={"result": "c"}, check=lambda p: None, outputs=("c",), hue=3, inputs="edge",
        expected="kernels.vector:expected",
    ),
    _softmax(
        "softmax_naive", "Naive softmax", "naive softmax", "The formula as written: exp(x) / Σ exp(x).",
        formula=traffic.softmax_naive, hue=0, inputs="large_magnitude",
        roles={role: variable for role, variable in _SOFTMAX_ROLES.items() if role != "running_max"},
        wrong="exp(x) overflows for x > 88.7, and inf / inf is NaN",
    ),
    _softmax(
        "softmax_safe", "Safe softmax, three passes", "safe softmax",
        "Subtract the row's maximum first. This costs one more pass over the row.", formula=traffic.softmax_safe, hue=1,
    ),
    _softmax(
        "softmax_row", "Softmax of a whole row on chip", "whole-row softmax",
        "Read the row once and keep it on chip, as long as it fits.", formula=traffic.softmax_row, hue=3,
        parameters=(*parameters.SHORT_ROWS, parameters.WHOLE_ROW_TILE), check=parameters.check_whole_row,
    ),
    _softmax(
        "softmax_blocked_wrong", "Softmax tile by tile, wrong", "per-tile softmax, wrong",
        "Normalise each tile by itself: one pass, and wrong.", formula=traffic.softmax_blocked_wrong, hue=7,
        keeps_max_and_sum=True, wrong="each tile is divided by its own sum, so a row sums to its number of tiles",
    ),
    _softmax(
        "softmax_online", "Online softmax, two passes", "online softmax",
        "Find maximum and sum in one pass: rescale the sum when the maximum changes.", formula=traffic.softmax_online,
        roles=_ONLINE_ROLES, hue=2, keeps_max_and_sum=True,
    ),
    _softmax(
        "softmax_tiled", "Online softmax on tiles of rows and columns", "online softmax, tiled",
        "Many rows at once: m, l and α become columns.", formula=traffic.softmax_tiled, hue=4,
        parameters=(*parameters.SOFTMAX, parameters.ROWS_TILE, parameters.ROW_TILE),
        roles={**_ONLINE_ROLES, "rows": "rows"}, check=parameters.check_tile_area, keeps_max_and_sum=True,
    ),
    _topk(
        "softmax_topk", "Online softmax with top-k, one pass", "online + top-k, fused",
        "Keep the K largest beside m and l: each element is read once.", formula=traffic.softmax_topk,
        roles=_keeps(_ONLINE_ROLES), hue=6, keeps_max_and_sum=True,
    ),
    _topk(
        "softmax_safe_topk", "Safe softmax with top-k, two passes", "safe + top-k, fused",
        "The maximum first; then the sum and the K largest in one pass.", formula=traffic.softmax_safe_topk,
        roles=_keeps(_SOFTMAX_ROLES), hue=3,
    ),
    _topk(
        "softmax_safe_then_topk", "Safe softmax, then top-k", "safe, then top-k",
        "Two launches: the first stores every weight, the second reads them all to find the K largest.",
        formula=traffic.softmax_safe_then_topk, roles={**_SOFTMAX_ROLES, **_LISTED_ROLES}, hue=1,
        expected="kernels.verify:kept_of_weights",
    ),
    _topk(
        "softmax_online_then_topk", "Online softmax, then top-k", "online, then top-k",
        "Two launches; the softmax reads each element twice, not three times.",
        formula=traffic.softmax_online_then_topk, roles={**_ONLINE_ROLES, **_LISTED_ROLES}, hue=2,
        expected="kernels.verify:kept_of_weights",
    ),
    _split(
        "softmax_split", "Parallel tiles, merged", "split softmax, merged",
        "Each tile computes its own (m, l); the pairs are merged in any order, or as a tree.",
        formula=traffic.softmax_split,
        roles={**_SPLIT_ROLES, "rescale": "alpha", "other_rescale": "beta"}, hue=5,
    ),
    _split(
        "softmax_split_wrong", "Parallel tiles, merged by adding, wrong", "split softmax, wrong",
        "Add the tiles' sums without rescaling them: wrong.", formula=traffic.softmax_split_wrong,
        roles=_SPLIT_ROLES, hue=7,
        wrong="l_1 + l_2 adds sums that are relative to different maxima",
    ),
    _flash(
        "attention_standard", "Standard attention", "standard attention",
        "Three launches; S and P, N² elements each, go through HBM.", formula=traffic.attention_standard, hue=1,
        roles={
            **{role: name for role, name in _FLASH_ROLES.items() if role not in ("new_max", "rescale", "output")},
            "weights": "y",
        },
        check=parameters.check_standard, outputs=("o",), program="Program", stores_scores=True,
        buffers={"softmax_row_kernel": {"x": "s", "y": "p"}}, between=traffic.between_launches,
    ),
    _flash(
        "flash_attention_v1", "FlashAttention-1 forward", "FlashAttention-1",
        "Outer loop over keys and values: O is read, rescaled and written at every visit.",
        formula=traffic.flash_attention_v1, hue=5,
        roles={  # it divides at each visit: o_i is O of the keys so far, and no variable is the output alone
            **{role: name for role, name in _FLASH_ROLES.items() if role != "output"},
            "accumulator": "o_i", "new_sum": "l_new",
        },
        program="Head", outer="block_n", between=traffic.between_visits,
    ),
    _flash(
        "flash_attention", "FlashAttention-2 forward", "FlashAttention-2",
        "Outer loop over queries: O stays on chip and is written once.", formula=traffic.flash_attention, hue=2,
        prefixes=True,
    ),
    _flash(
        "flash_attention_exp2", "FlashAttention-2 forward in base 2", "FlashAttention-2 in base 2",
        "exp2 instead of exp: log2 e = 1.44269504 is folded into the scale.",
        formula=traffic.flash_attention_exp2, hue=4,
    ),
    _backward(
        "attention_backward_standard", "Standard attention, backward", "standard backward",
        "Five launches; P is kept, dP and dS go through HBM: N² elements each.", module="kernels.backward_standard",
        formula=traffic_backward.attention_backward_standard, check=parameters.check_standard, hue=1,
        roles={role: name for role, name in _BACKWARD_ROLES.items() if role != "scores"},
        given="kernels.gradients:standard_forward", stores_scores=True, between=traffic_backward.between_launches,
    ),
    _backward(
        "flash_attention_backward", "FlashAttention backward in two passes", "two-pass backward",
        "The outer loop runs over keys for dK and dV, over queries for dQ; P is recomputed in both: seven matmuls.",
        module="kernels.backward", formula=traffic_backward.flash_attention_backward, hue=2,
    ),
    _backward(
        "flash_attention_backward_atomic", "FlashAttention-2 backward, dQ by atomics", "FlashAttention-2 backward",
        "The outer loop runs over keys; each tile adds its part of dQ in HBM: five matmuls, bits that change.",
        module="kernels.backward_atomic", formula=traffic_backward.flash_attention_backward_atomic, hue=5,
        between=traffic_backward.between_additions,
    ),
    _flash(
        "flash_decoding", "Flash-Decoding", "Flash-Decoding",
        "Few queries, many keys: split the keys among programs, then merge the parts by their lse.",
        module="kernels.decoding", parameters=parameters.DECODING, formula=traffic_decoding.flash_decoding, hue=6,
        roles={
            **_FLASH_ROLES, "other_max": "lse_j", "other_rescale": "beta", "other_output": "o_j", "other_at": "part",
        },
        expected="kernels.decoding:expected", program="Program", shares_keys=True,
        between=traffic_decoding.between_parts_and_merge,
    ),
    _loss(
        "cross_entropy_standard", "Cross entropy through the logits", "standard cross entropy",
        "Two launches; the logits, tokens × vocabulary elements, go through HBM.",
        formula=traffic_cross_entropy.cross_entropy_standard, hue=1, stores_scores=True,
        expected="kernels.verify_loss:through_logits",
        between=traffic_cross_entropy.between_launches,
    ),
    _loss(
        "cross_entropy_fused", "Cross entropy without the logits", "fused cross entropy",
        "The last matmul and an online logsumexp in one launch: no logit is written.",
        formula=traffic_cross_entropy.cross_entropy_fused, hue=2,
    ),
    _loss(
        "cross_entropy_backward", "Cross entropy without the logits, and its gradients",
        "fused cross entropy, backward",
        "P is recomputed from one number per token: once for dH, once for dW.",
        formula=traffic_cross_entropy.cross_entropy_backward, hue=4, check=parameters.check_loss_backward,
        parameters=parameters.LOSS_BACKWARD,
        outputs=("loss", "lse", "dh", "dw"), expected="kernels.verify_loss:with_gradients",
        roles={**_LOSS_ROLES, "upstream": "dloss", "gradient": "dx", "input_gradient": "dh", "weight_gradient": "dw"},
        program="Program",
    ),
)  # fmt: skip

_for_speed = partial(
    Kernel, kind="fast", family="attention", parameters=parameters.RUNG, formula=library_traffic.rung, roles={},
    check=parameters.check_hopper, outputs=("o", "lse"), hue=0,
)  # fmt: skip
_RUNGS: Mapping[str, tuple[str, str]] = {
    "naive_fp32": ("fp32", "Online softmax tile by tile, all of it in float32."),
    "bf16": ("bf16", "16-bit operands for both matmuls; sums and softmax stay in float32."),
    "exp2": ("exp2", "exp2 instead of exp: log2 e is folded into the scale."),
    "causal": ("mask where needed", "Only tiles that the mask cuts are masked; tiles that it hides are skipped."),
    "pipelined": ("pipelined", "Software pipelining: the next tiles load while this one is computed."),
    "tma": ("TMA", "The Tensor Memory Accelerator copies whole tiles, given a descriptor."),
    "specialised": ("specialized", "Warp specialization: one producer warp loads, eight consumer warps compute."),
    "two_groups": ("ping-pong", "Ping-pong scheduling: one warpgroup does matmuls while the other does its softmax."),
    "overlapped": ("overlapped", "Intra-warpgroup overlap: the next S is computed while this tile's P̃ V is added."),
}  # fmt: skip


def _rung(number: int, name: str) -> Kernel:
    short, idea = _RUNGS[name]
    skips = number > ORDER.index("causal")  # from this rung on, tiles hidden by the mask are not computed
    return _for_speed(
        f"rung:{name}", f"Attention rung {number}: {short}", short, idea, f"kernels.rungs.{name}", kind="rung",
        call="attention", formula=library_traffic.rung if skips else library_traffic.rung_over_all_keys,
        check=parameters.check_hopper if name in GLUON else parameters.check_library, hue=0 if name in GLUON else 2,
    )  # fmt: skip


_library = partial(
    Kernel, kind="library", module="kernels.library", family="attention", parameters=parameters.FUSED, roles={},
    check=parameters.check_library, outputs=("o",),
)  # fmt: skip
_and_back = partial(_library, outputs=("o", "dq", "dk", "dv"), gradient=True)

_MEASURED = (
    _library(
        "torch:softmax", "torch.softmax", "PyTorch", "PyTorch's own softmax.", family="softmax", call="softmax",
        parameters=parameters.SOFTMAX, formula=library_traffic.softmax, check=parameters.check_rows, outputs=("y",),
        hue=8,
    ),
    _library(
        "torch:softmax_topk", "torch.softmax, then torch.topk", "PyTorch",
        "PyTorch's softmax, then its top-k of the weights.",
        family="softmax", call="softmax_topk", parameters=(*parameters.SOFTMAX, parameters.TOPK),
        formula=library_traffic.softmax_topk, check=parameters.check_topk, outputs=("y", "index"),
        expected="kernels.verify:kept_of_weights", hue=8,
    ),
    _for_speed(
        "fast:softmax_topk_lanes", "Softmax with top-k, a list in each lane", "online + top-k, lanes",
        "Each lane keeps a maximum, a sum and a list of its own; the lists are merged once, at the end of the row.",
        "kernels.topk_fast", family="softmax", call="softmax_topk_lanes",
        parameters=(*parameters.SOFTMAX, parameters.TOPK), formula=library_traffic.topk_in_one_read,
        check=parameters.check_rows, outputs=("y", "index"), expected="kernels.verify:kept", hue=4,
    ),
    _loss(
        "fast:cross_entropy_parts", "Cross entropy, a part of the tokens at a time", "parts of the tokens",
        "One buffer for the logits of a part; cuBLAS multiplies, one kernel puts the gradient in the logits' place.",
        module="kernels.cross_entropy_fast", call="losses_and_gradients", kind="fast", roles={}, hue=0,
        parameters=parameters.LOSS_FAST, formula=traffic_cross_entropy.cross_entropy_parts,
        outputs=("loss", "lse", "dh", "dw"), expected="kernels.verify_loss:in_parts", keeps_max_and_sum=False,
    ),
    *(_rung(number, name) for number, name in enumerate(ORDER, 1)),
    _for_speed(
        "fast:flash_attention_hopper", "FlashAttention for Hopper", "persistent",
        "Persistent kernel: one program per SM, each with a list of tiles, on top of all rungs.",
        "kernels.attention_hopper", call="flash_attention_hopper",
    ),
    _library(
        "torch:attention", "PyTorch: matmul, softmax, matmul", "PyTorch eager",
        "Attention written in eager PyTorch: S and P go through HBM.", call="attention", parameters=parameters.LIBRARY,
        formula=library_traffic.attention, stores_scores=True, hue=8,
    ),
    _and_back(
        "torch:attention_backward", "PyTorch: matmul, softmax, matmul, forward and backward", "PyTorch eager",
        "The same and its gradients; P is kept from the forward pass.", call="attention_backward",
        parameters=parameters.LIBRARY, formula=library_traffic.attention_backward, stores_scores=True, hue=8,
    ),
    _library(
        "torch:flash", "PyTorch: FlashAttention-2", "FlashAttention-2 (PyTorch)",
        "scaled_dot_product_attention with its FlashAttention-2 backend.", call="flash",
        formula=library_traffic.fused, hue=9,
    ),
    _and_back(
        "torch:flash_backward", "PyTorch: FlashAttention-2, forward and backward", "FlashAttention-2 (PyTorch)",
        "The same and its gradients; the backward pass recomputes S tile by tile.", call="flash_backward",
        formula=library_traffic.fused_backward, hue=9,
    ),
    _library(
        "torch:cudnn", "PyTorch: cuDNN attention", "cuDNN", "scaled_dot_product_attention with its cuDNN backend.",
        call="cudnn", formula=library_traffic.fused, hue=10,
    ),
    _and_back(
        "torch:cudnn_backward", "PyTorch: cuDNN attention, forward and backward", "cuDNN",
        "The same and its gradients.",
        call="cudnn_backward", formula=library_traffic.fused_backward, hue=10,
    ),
)  # fmt: skip


def _broken(exhibit: Exhibit) -> Kernel:
    right = next(kernel for kernel in _TAUGHT if kernel.name == exhibit.base)
    work = exhibit.work
    return replace(
        right,
        name=exhibit.kernel,
        kind="broken",
        title="changed" if exhibit.harmless else "broken",
        idea=exhibit.title,
        formula=right.formula if work is None else lambda p: right.formula(p).with_work(work(p)),
        wrong="" if exhibit.harmless else exhibit.title[0].lower() + exhibit.title[1:],
        inputs=exhibit.shown_by,
        edit=exhibit.edit,
        prefixes=False,
    )


KERNELS: Mapping[str, Kernel] = {
    kernel.name: kernel for kernel in (*_TAUGHT, *map(_broken, (*EXHIBITS.values(), *BUGS.values())), *_MEASURED)
}
"""Every kernel that an experiment may name, by name."""


def of_kind(*kinds: Kind) -> dict[str, Kernel]:
    """The kernels of these kinds by name, in the list's order."""
    return {name: kernel for name, kernel in KERNELS.items() if kernel.kind in kinds}


TAUGHT = of_kind("taught")
"""The kernels to learn from, in the order in which they are taught."""
