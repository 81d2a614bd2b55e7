"""The ready-made sweeps, which are also those recorded on a GPU."""

from __future__ import annotations

from collections.abc import Mapping

from explain.chapters.sweeps.model import Sweep
from explain.experiment import Experiment

HEAD = {"heads": 16, "head_dim": 64, "dtype": "fp16", "block_m": 128, "block_n": 64}
PAIR = ("attention_standard", "flash_attention")
ORDERS = ("flash_attention_v1", "flash_attention")


def _without(*names: str, **changes: object) -> dict[str, object]:
    return {name: value for name, value in {**HEAD, **changes}.items() if name not in names}


def _powers(first: int, last: int) -> list[int]:
    return [2**bit for bit in range(first, last + 1)]


READY: Mapping[str, Sweep] = {
    "Standard and flash, over N": Sweep.of(
        (*PAIR, "flash_attention_exp2", "flash_attention_v1"), "seq_len", _powers(7, 14), HEAD
    ),
    "Over d": Sweep.of(PAIR, "head_dim", _powers(5, 8), _without("head_dim", seq_len=4096)),
    "Over the query tile": Sweep.of(ORDERS, "block_m", _powers(4, 7), _without("block_m", seq_len=4096)),
    "Over the key tile": Sweep.of(ORDERS, "block_n", _powers(4, 7), _without("block_n", seq_len=4096)),
    "Over the batch": Sweep.of(PAIR, "batch", _powers(0, 6), {**HEAD, "seq_len": 1024}),
    "Three dtypes": Sweep.of(
        PAIR, "dtype", ["fp32", "fp16", "bf16"], _without("dtype", seq_len=4096, block_m=64, block_n=64)
    ),
    "With and without the causal mask": Sweep.of(PAIR, "causal", [False, True], {**HEAD, "seq_len": 8192}),
    "Softmax, over N": Sweep.of(
        ("softmax_safe", "softmax_online", "softmax_row", "softmax_split", "softmax_topk"),
        "cols",
        _powers(8, 17),
        {"rows": 1024},
    ),
}
_EVERY = (experiment for sweep in READY.values() for experiment in sweep.experiments)
RECORDED: tuple[Experiment, ...] = tuple(dict.fromkeys(_EVERY))
"""Every point of these sweeps, once."""
