"""A kernel's parameters: their names, what each accepts, and the error for anything else."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

Value = int | bool | str
Values = Mapping[str, Any]
"""A full set of a kernel's parameters, by name."""


class ParameterError(ValueError):
    """A parameter that cannot be used: its name, its value and what is allowed."""

    def __init__(self, parameter: str, value: object, allowed: str) -> None:
        super().__init__(f"{parameter}={value}: {allowed}")
        self.parameter, self.value, self.allowed = parameter, value, allowed


@dataclass(frozen=True)
class Parameter:
    """One parameter. `kind` is "size", "tile", "flag" or "choice"; `default` may be a function of those before it."""

    name: str
    kind: str
    default: Value | Callable[[Values], Value]
    help: str
    minimum: int = 1
    maximum: int = 2**30
    choices: tuple[str, ...] = ()

    @property
    def allowed(self) -> str:
        """What is accepted, in words."""
        match self.kind:
            case "flag":
                return "must be true or false"
            case "choice":
                return f"must be one of {', '.join(self.choices)}"
            case "tile":
                return f"must be a power of two from {self.minimum:,} to {self.maximum:,}"
            case _:
                return f"must be a whole number from {self.minimum:,} to {self.maximum:,}"

    def parse(self, value: object) -> Value:
        """The value in its own type, from that type or from text. Raises ParameterError."""
        match self.kind:
            case "flag":
                flags = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
                parsed: Value | None = value if isinstance(value, bool) else flags.get(str(value).lower())
            case "choice":
                parsed = value if value in self.choices else None
            case _:
                parsed = whole_number(value)
                if parsed is not None and not self.minimum <= parsed <= self.maximum:
                    parsed = None
                if parsed is not None and self.kind == "tile" and int(parsed) & (int(parsed) - 1):
                    parsed = None
        if parsed is None:
            raise ParameterError(self.name, value, self.allowed)
        return parsed


def whole_number(value: object) -> int | None:
    """The int that a value or its text means, or None. Digits only: not "1e3", "²" or True."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    text = str(value).strip() if isinstance(value, str) else ""
    digits = text.removeprefix("-")
    return int(text) if digits.isascii() and digits.isdecimal() and len(digits) < 20 else None


def next_power_of_two(n: int) -> int:
    """The smallest power of two that is at least n."""
    return 1 << (n - 1).bit_length()


DTYPE = Parameter(
    "dtype", "choice", "fp32", "dtype of inputs and outputs; sums are always fp32", choices=("fp32", "fp16", "bf16")
)
ITEM_BYTES = {"fp32": 4, "fp16": 2, "bf16": 2}

# 65,536 float32 fill a register file of 256 KiB: a larger tile fits no GPU.
LARGEST_TILE = 65536

_ROWS = Parameter("rows", "size", 4, "rows, each with its own softmax")
SOFTMAX = (_ROWS, Parameter("cols", "size", 64, "elements in a row"), DTYPE)
SHORT_ROWS = (
    _ROWS,
    Parameter("cols", "size", 64, "elements in a row; one tile holds them all", maximum=LARGEST_TILE),
    DTYPE,
)


def _quarter_row(p: Values) -> int:
    return min(max(next_power_of_two(p["cols"]) // 4, 1), 1024)


ROW_TILE = Parameter("block_n", "tile", _quarter_row, "columns in a tile", maximum=LARGEST_TILE)
WHOLE_ROW_TILE = Parameter(
    "block_n",
    "tile",
    lambda p: next_power_of_two(p["cols"]),
    "columns in the tile: the whole row",
    maximum=LARGEST_TILE,
)
TOPK = Parameter("k", "size", 5, "K, how many of the largest weights to keep", maximum=32)
ORDERS = ("left to right", "right to left", "tree")
ORDER = Parameter("order", "choice", "tree", "order in which the tiles' (m, l) are merged", choices=ORDERS)
ROWS_TILE = Parameter("block_m", "tile", 4, "rows in a tile", maximum=LARGEST_TILE)

VECTOR = (
    Parameter("n", "size", 27, "elements of a, of b and of c"),
    DTYPE,
    Parameter("block_n", "tile", 8, "elements in a tile", maximum=LARGEST_TILE),
)

ATTENTION = (
    Parameter("batch", "size", 1, "sequences"),
    Parameter("heads", "size", 1, "query heads", maximum=65535),
    Parameter(
        "kv_heads", "size", lambda p: p["heads"], "key and value heads, a divisor of heads (grouped-query attention)"
    ),
    Parameter("seq_len", "size", 64, "queries, N"),
    Parameter("kv_len", "size", lambda p: p["seq_len"], "keys and values"),
    Parameter("head_dim", "size", 32, "d", minimum=16, maximum=256),
    Parameter("causal", "flag", False, "each token sees itself and the tokens before it"),
    DTYPE,
    Parameter("block_m", "tile", 16, "queries in a tile (B_r in the paper)", maximum=256),
    Parameter("block_n", "tile", 16, "keys in a tile (B_c in the paper)", maximum=256),
)

ALIGNMENTS = ("bottom right", "top left")
MOST_SPLITS = 1024
_WHEN_DECODING: Mapping[str, Mapping[str, Any]] = {
    "seq_len": {"default": 1, "help": "queries per head: 1 to write a token, a few to verify some"},
    "kv_len": {"default": lambda p: 64 if p["seq_len"] == 1 else p["seq_len"], "help": "keys and values in the cache"},
    "block_m": {"help": "rows in a tile: the queries of all heads that share keys"},
}
DECODING = (
    *(replace(parameter, **_WHEN_DECODING.get(parameter.name, {})) for parameter in ATTENTION),
    Parameter("splits", "size", 4, "parts of the keys, each for one program", maximum=MOST_SPLITS),
    Parameter("align", "choice", ALIGNMENTS[0], "corner of S that the causal diagonal meets", choices=ALIGNMENTS),
)
"""Attention of a few queries over a long cache of keys."""


def diagonal_of(align: str, seq_len: int, kv_len: int) -> int:
    """How far right of its own number a query sees: the last query sees the last key, or the first the first."""
    return kv_len - seq_len if align == ALIGNMENTS[0] else 0


LOSS = (
    Parameter("tokens", "size", 16, "tokens, rows of H"),
    Parameter("vocab", "size", 64, "the vocabulary, V: rows of W"),
    Parameter("dim", "size", 32, "d, the hidden size", maximum=2**15),
    Parameter("ignored", "size", 0, "tokens that do not count: their target is −100", minimum=0),
    DTYPE,
    Parameter("block_m", "tile", 16, "tokens in a tile", maximum=256),
    Parameter("block_n", "tile", 16, "rows of W in a tile: columns of the logits", maximum=256),
    Parameter(
        "block_d", "tile", lambda p: min(max(next_power_of_two(p["dim"]), 16), 64), "dimensions in a tile", maximum=256
    ),
)
LOSS_BACKWARD = (
    *LOSS[:-1],
    replace(LOSS[-1], default=lambda p: max(next_power_of_two(p["dim"]), 16), help="dimensions in a tile: all of them"),
)
LOSS_FAST = tuple(replace(one, choices=("fp32", "bf16")) if one is DTYPE else one for one in LOSS if one.kind != "tile")
"""A loss without tiles to choose."""

_HALF = Parameter("dtype", "choice", "fp16", "of Q, K, V and O", choices=("fp16", "bf16"))
LIBRARY = tuple(parameter for parameter in ATTENTION if parameter.kind != "tile")
"""Attention without tiles to choose."""
FUSED = tuple(_HALF if parameter is DTYPE else parameter for parameter in LIBRARY)
"""The same in 16 bits."""
RUNG = tuple(replace(size, default=64) if size.name == "head_dim" else size for size in FUSED)

LARGEST_TENSOR = 2**36
"""Elements, 256 GiB of float32: catches typos."""


def check_rows(p: Values) -> None:
    """The matrix fits a machine's memory."""
    if p["rows"] * p["cols"] > LARGEST_TENSOR:
        raise ParameterError("rows", p["rows"], f"with cols={p['cols']} must be at most {LARGEST_TENSOR // p['cols']}")


def check_topk(p: Values) -> None:
    """The row has at least K elements, as PyTorch's top-k requires."""
    check_rows(p)
    if p["k"] > p["cols"]:
        raise ParameterError("k", p["k"], f"must be at most cols={p['cols']}")


def check_whole_row(p: Values) -> None:
    """softmax_row's tile holds the row."""
    check_rows(p)
    if p["block_n"] < p["cols"]:
        raise ParameterError(
            "block_n", p["block_n"], f"must be at least {p['cols']}, the row's length: one tile holds the whole row"
        )


def check_split(p: Values) -> None:
    """A grid can number the row's tiles."""
    check_rows(p)
    if p["block_n"] * 65535 < p["cols"]:
        least = next_power_of_two(-(-p["cols"] // 65535))
        raise ParameterError("block_n", p["block_n"], f"with cols={p['cols']} must be at least {least}")


def check_tile_area(p: Values) -> None:
    """A tile of rows and columns fits the register file."""
    check_rows(p)
    if p["block_m"] * p["block_n"] > LARGEST_TILE:
        most = LARGEST_TILE // p["block_n"]
        allowed = f"with block_n={p['block_n']} must be at most {most}: a tile holds {LARGEST_TILE} elements"
        raise ParameterError("block_m", p["block_m"], allowed)


def check_heads(p: Values) -> None:
    """Query heads share key heads evenly, fit the grid, and the tensors fit a machine's memory."""
    if p["heads"] % p["kv_heads"]:
        raise ParameterError("kv_heads", p["kv_heads"], f"must divide heads={p['heads']}")
    for name, heads in (("seq_len", p["heads"]), ("kv_len", p["kv_heads"])):
        if (others := p["batch"] * heads * p["head_dim"]) * p[name] > LARGEST_TENSOR:
            raise ParameterError(name, p[name], f"with these sizes must be at most {LARGEST_TENSOR // others}")
    if p["batch"] * p["heads"] > 65535:
        raise ParameterError("batch", p["batch"], f"with heads={p['heads']} must be at most {65535 // p['heads']}")


def check_loss(p: Values) -> None:
    """The tensors fit a machine's memory, and no more tokens are left out than there are."""
    for name, other in (("tokens", "dim"), ("vocab", "dim"), ("vocab", "tokens")):
        if p[name] * p[other] > LARGEST_TENSOR:
            allowed = f"with {other}={p[other]} must be at most {LARGEST_TENSOR // p[other]}"
            raise ParameterError(name, p[name], allowed)
    if p["ignored"] > p["tokens"]:
        raise ParameterError("ignored", p["ignored"], f"must be at most tokens={p['tokens']}")
    if p.get("block_n", p["vocab"]) * 65535 < p["vocab"]:
        least = next_power_of_two(-(-p["vocab"] // 65535))
        raise ParameterError("block_n", p["block_n"], f"with vocab={p['vocab']} must be at least {least}")


def check_loss_backward(p: Values) -> None:
    """One tile spans all dimensions: dH of a tile of tokens, and dW of a tile of the vocabulary, stay on chip."""
    check_loss(p)
    if p["block_d"] < p["dim"]:
        allowed = f"must be at least dim={p['dim']}: a tile's gradient stays on chip"
        raise ParameterError("block_d", p["block_d"], allowed)


def check_standard(p: Values) -> None:
    """A whole row of S fits one tile of attention_standard's softmax."""
    check_heads(p)
    if p["kv_len"] > LARGEST_TILE:
        raise ParameterError(
            "kv_len", p["kv_len"], f"must be at most {LARGEST_TILE}: the softmax keeps a whole row of S on chip"
        )


def check_library(p: Values) -> None:
    """The call has as many key heads as query heads, and a square mask."""
    check_heads(p)
    if p["kv_heads"] != p["heads"]:
        raise ParameterError("kv_heads", p["kv_heads"], f"must be heads={p['heads']}: these calls share no key heads")
    if p["causal"] and p["kv_len"] != p["seq_len"]:
        allowed = f"must be seq_len={p['seq_len']} with causal=true: PyTorch aligns its mask differently"
        raise ParameterError("kv_len", p["kv_len"], allowed)


def check_hopper(p: Values) -> None:
    """The warp-specialized kernels take head_dim 64 and 128."""
    check_library(p)
    if p["head_dim"] not in (64, 128):
        raise ParameterError("head_dim", p["head_dim"], "must be 64 or 128 in a warp-specialized kernel")
