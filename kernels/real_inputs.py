"""Real Q, K, V: the attention heads of all-MiniLM-L6-v2 reading three sentences.

Read from data/minilm.npz, which scripts/extract_real_inputs.py wrote; data/README.md has origin and licence.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

FILE = Path(__file__).with_name("data") / "minilm.npz"

SENTENCES: tuple[str, ...] = ("paragraph", "short", "ragged")  # 64, 15 and 23 tokens
LAYERS: tuple[int, ...] = (0, 2)  # counted from 0; of the model's six

# The head to show first. It attends to a band around each word, so a row's largest score is in the tile with the
# word's neighbours. In tiles of 16 the first rows of "paragraph" hardly rescale, the last up to three times, with
# an alpha that is small enough to see (median 0.41) and far from underflow (minimum 0.04).
OPENING_LAYER = 0
OPENING_HEAD = 4


@dataclass(frozen=True, eq=False)
class RealSentence:
    """One sentence as one attention layer saw it.

    `tokens` are N word pieces, [CLS] first and [SEP] last. `q`, `k`, `v` are (heads, N, d) float32,
    contiguous, and read-only because they are shared: copy to write, or for torch (torch.tensor(q)).
    The model's scores are q @ k.T / sqrt(d), with no mask.
    """

    name: str
    tokens: tuple[str, ...]
    layer: int
    q: npt.NDArray[np.float32]
    k: npt.NDArray[np.float32]
    v: npt.NDArray[np.float32]


def sentence(name: str = SENTENCES[0], layer: int = OPENING_LAYER) -> RealSentence:
    """The 12 heads (d = 32) of `layer` reading sentence `name`; the same object for the same arguments.

    Raises ValueError when `name` is not one of SENTENCES or `layer` not one of LAYERS.
    """
    if name not in SENTENCES:
        raise ValueError(f"sentence {name!r} is unknown; allowed: {', '.join(SENTENCES)}")
    if layer not in LAYERS:
        raise ValueError(f"layer {layer!r} is not stored; allowed: {', '.join(map(str, LAYERS))}")
    return _read(name, layer)


def provenance() -> dict[str, Any]:
    """Model, licence, package, weights' sha256, sentences, versions, date and check errors, as recorded."""
    with np.load(FILE, allow_pickle=False) as stored:
        recorded: dict[str, Any] = json.loads(str(stored["provenance"]))
    return recorded


@lru_cache
def _read(name: str, layer: int) -> RealSentence:
    with np.load(FILE, allow_pickle=False) as stored:
        at = stored["layers"].tolist().index(layer)
        # Copies, since views would keep the other layers in memory.
        q, k, v = (stored[f"{name}/{part}"][at].copy() for part in "qkv")
        tokens = tuple(stored[f"{name}/tokens"].tolist())
    for array in (q, k, v):
        array.setflags(write=False)
    return RealSentence(name, tokens, layer, q, k, v)
