"""Input presets: what goes into a kernel. Ordinary values, values that expose bugs, and real sentences.

Each preset makes float32 arrays of values that the experiment's dtype represents exactly: a comparison with the
float64 reference measures arithmetic alone. An attention preset defines the scores: feature 0 of every
query is √d, which cancels the scale 1/√d, so feature 0 of key j is (nearly) the score of key j.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from kernels import real_inputs
from kernels.parameters import ParameterError, Value, Values

Arrays = dict[str, np.ndarray]
Scores = Callable[[np.random.Generator, int, int, int], np.ndarray]
"""(generator, rows, cols, columns in a tile) -> (rows, cols) scores."""

IGNORE_INDEX = -100
"""The target of a token that does not count, as in PyTorch."""

NOTEBOOK_ROW = (-0.3, 0.2, 0.5, 0.7, 0.1, 0.8)

# The real model's heads in the order to show them: local band, previous word, sharp band, one hot column, flat…
HEADS_TO_SHOW = (real_inputs.OPENING_HEAD, 2, 5, 6, 7, 11, 0, 1, 3, 8, 9, 10)


@dataclass(frozen=True)
class Preset:
    """One way to fill a kernel's inputs. `defaults` replace the kernel's own defaults."""

    name: str
    help: str
    scores: Scores | None = None
    sentence: str | None = None
    defaults: Mapping[str, Value] = field(default_factory=dict)


def _ramp(cols: int) -> np.ndarray:
    return np.linspace(-8.0, 8.0, cols) if cols > 1 else np.zeros(1)


def _jitter(rng: np.random.Generator, rows: int, cols: int) -> np.ndarray:
    return 0.01 * rng.standard_normal((rows, cols))


def _one_hot(rng: np.random.Generator, rows: int, cols: int, _: int) -> np.ndarray:
    scores = np.zeros((rows, cols))
    scores[np.arange(rows), rng.integers(0, cols, rows)] = 40.0
    return scores


def _spike(rng: np.random.Generator, rows: int, cols: int, _: int) -> np.ndarray:
    scores = rng.standard_normal((rows, cols))
    scores[:, -1] = 20.0
    return scores


def _masked(rng: np.random.Generator, rows: int, cols: int, hidden: slice) -> np.ndarray:
    scores = rng.standard_normal((rows, cols))
    scores[:, hidden] = -np.inf
    return scores


def _notebook(_: np.random.Generator, rows: int, cols: int, __: int) -> np.ndarray:
    return np.array([np.roll(NOTEBOOK_ROW, row) for row in range(rows)])


PRESETS: Mapping[str, Preset] = {
    preset.name: preset
    for preset in (
        Preset("normal", "random numbers from a normal distribution, mean 0, variance 1"),
        Preset("ascending", "each score is larger than the one before: the running max changes at every tile",
               lambda g, r, c, b: _ramp(c) + _jitter(g, r, c)),
        Preset("descending", "the first score is the largest: the running max never changes, a missing α does not show",
               lambda g, r, c, b: -_ramp(c) + _jitter(g, r, c)),
        Preset("constant", "all scores are equal: every weight is 1/N", lambda g, r, c, b: np.full((r, c), 1.5)),
        Preset("one_hot", "one score far above the rest, at a random place in each row", _one_hot),
        Preset("large_magnitude", "scores around ±10,000: exp overflows unless the maximum is subtracted",
               lambda g, r, c, b: 1e4 * g.standard_normal((r, c))),
        Preset("far_below_zero", "every score near −5,000,000: lower than any finite number used for −inf",
               lambda g, r, c, b: -5e6 + g.standard_normal((r, c))),
        Preset("spike_last_tile", "the last score is by far the largest: everything before it is rescaled", _spike),
        Preset("first_tile_masked", "the first tile is all −inf: a kernel may compute −inf − −inf",
               lambda g, r, c, b: _masked(g, r, c, slice(0, min(b, c - 1)))),
        Preset("last_tile_masked", "the last tile is all −inf",
               lambda g, r, c, b: _masked(g, r, c, slice(max((c - 1) // b * b, 1), None))),
        Preset("everything_masked", "every score is −inf: the result is zeros",
               lambda g, r, c, b: _masked(g, r, c, slice(None))),
        Preset("edge", "each score is 1 more than the one before, up to 89: exp overflows in float32 above 88.7",
               lambda g, r, c, b: np.tile(np.arange(90.0 - c, 90.0), (r, 1)), defaults={"rows": 1, "cols": 6}),
        Preset("notebook", "six scores: −0.3 0.2 0.5 0.7 0.1 0.8; each further row is shifted by one", _notebook,
               defaults={"rows": 1, "cols": 6, "seq_len": 1, "kv_len": 6, "n": 3,
                         "tokens": 1, "vocab": 6}),
        Preset("sentence", "a real paragraph of 64 tokens: attention heads of all-MiniLM-L6-v2", sentence="paragraph",
               defaults={"rows": 64, "cols": 64, "n": 32, "tokens": 64, "vocab": 64}),
        Preset("sentence_short", "a real sentence of 15 tokens, same model", sentence="short",
               defaults={"rows": 15, "cols": 15, "seq_len": 15, "n": 7, "tokens": 15, "vocab": 15}),
        Preset("sentence_ragged", "a real sentence of 23 tokens, a prime number: no tile size divides it",
               sentence="ragged", defaults={"rows": 23, "cols": 23, "seq_len": 23, "n": 11, "tokens": 23, "vocab": 23}),
    )
}  # fmt: skip


def check_fit(preset: Preset, p: Values) -> None:
    """Raises ParameterError, which names the size, if a preset has no values of these sizes."""
    if preset.name == "notebook":
        whole = len(NOTEBOOK_ROW)
        lengths = (("cols", whole), ("kv_len", whole), ("vocab", whole), ("n", whole // 2))
        name, length = next(size for size in lengths if size[0] in p)
        if p[name] != length:
            raise ParameterError(
                name,
                p[name],
                f"inputs=notebook has {whole} numbers, so only {length} works; choose inputs=normal for another",
            )
    if preset.sentence:
        heads, tokens, head_dim = real_inputs.sentence(preset.sentence).q.shape
        text = f"the text of inputs={preset.name} has"
        largest = {
            "batch": (1, "there is only one text"),
            "heads": (heads, f"the model has {heads} heads"),
            "n": (tokens // 2, f"{text} {tokens // 2} numbers for each vector"),
        }
        largest |= dict.fromkeys(
            ("rows", "cols", "seq_len", "kv_len", "tokens", "vocab"), (tokens, f"{text} {tokens} tokens")
        )
        for name, (most, reason) in largest.items():
            if p.get(name, 1) > most:
                raise ParameterError(name, p[name], f"{reason}; choose inputs=normal for more")
        for name in ("head_dim", "dim"):
            if p.get(name, head_dim) != head_dim:
                allowed = f"must be {head_dim}, the head_dim of the model of inputs={preset.name}"
                raise ParameterError(name, p[name], allowed)


def shapes(family: str, p: Values, gradient: bool = False) -> dict[str, tuple[int, ...]]:
    """Shapes of a family's inputs: a and b for vectors; x for softmax; q, k, v for attention; h, w, targets for a loss.

    With `gradient` also do, the gradient of O.
    """
    if family == "vector":
        return {"a": (p["n"],), "b": (p["n"],)}
    if family == "softmax":
        return {"x": (p["rows"], p["cols"])}
    if family == "loss":
        return {"h": (p["tokens"], p["dim"]), "w": (p["vocab"], p["dim"]), "targets": (p["tokens"],)}
    q_shape = (p["batch"], p["heads"], p["seq_len"], p["head_dim"])
    kv_shape = (p["batch"], p["kv_heads"], p["kv_len"], p["head_dim"])
    return {"q": q_shape, "k": kv_shape, "v": kv_shape, **({"do": q_shape} if gradient else {})}


def vector_inputs(preset: Preset, p: Values, seed: int) -> Arrays:
    """a and b (n,): the two halves of a softmax's row. `check_fit` has accepted the size."""
    row = softmax_inputs(preset, {**p, "rows": 1, "cols": 2 * p["n"]}, seed)["x"][0]
    return {"a": row[: p["n"]], "b": row[p["n"] :]}


def softmax_inputs(preset: Preset, p: Values, seed: int) -> Arrays:
    """x (rows, cols) for a softmax kernel. `check_fit` has accepted the sizes."""
    rows, cols = p["rows"], p["cols"]
    if preset.sentence:
        text = real_inputs.sentence(preset.sentence)
        head = HEADS_TO_SHOW[0]
        x = text.q[head].astype(np.float64) @ text.k[head].T.astype(np.float64) * text.q.shape[2] ** -0.5
        x = x[-rows:, :cols]  # the last rows: their maximum arrives late
    elif preset.scores:
        x = preset.scores(_generator(preset, seed), rows, cols, p.get("block_n", 1))
    else:
        x = _generator(preset, seed).standard_normal((rows, cols))
    return {"x": representable(x, p["dtype"])}


def attention_inputs(preset: Preset, p: Values, seed: int) -> Arrays:
    """q (batch, heads, seq_len, head_dim), k and v (batch, kv_heads, kv_len, head_dim), all float32.

    `check_fit` has accepted the sizes.
    """
    q_shape, kv_shape, _ = shapes("attention", p).values()
    if preset.sentence:
        text = real_inputs.sentence(preset.sentence)
        heads, kv_heads = list(HEADS_TO_SHOW[: p["heads"]]), list(HEADS_TO_SHOW[: p["kv_heads"]])
        q: np.ndarray = text.q[None, heads, : p["seq_len"]]
        k: np.ndarray = text.k[None, kv_heads, : p["kv_len"]]
        v: np.ndarray = text.v[None, kv_heads, : p["kv_len"]]
    else:
        rng = _generator(preset, seed)
        q, k, v = rng.standard_normal(q_shape), rng.standard_normal(kv_shape), rng.standard_normal(kv_shape)
        if preset.scores:
            heads = p["batch"] * p["kv_heads"]
            q[..., 1:] *= 0.1
            k[..., 1:] *= 0.1
            q[..., 0] = np.sqrt(p["head_dim"])
            k[..., 0] = preset.scores(rng, heads, p["kv_len"], p.get("block_n", 1)).reshape(kv_shape[:3])
            if preset.name in ("constant", "notebook"):
                k[..., 1:] = 0.0
    return {name: representable(array, p["dtype"]) for name, array in (("q", q), ("k", k), ("v", v))}


def loss_inputs(preset: Preset, p: Values, seed: int) -> Arrays:
    """h (tokens, dim) and w (vocab, dim) float32, targets (tokens,) int64 with `ignored` of them IGNORE_INDEX.

    A preset's scores are the logits: feature 0 of h is 1, and that of w the score of its column. A sentence gives one
    head's queries and keys: a token's logits are its scores with all tokens, and its target is the next token.
    `check_fit` has accepted the sizes.
    """
    rng = _generator(preset, seed)
    if preset.sentence:
        text, head = real_inputs.sentence(preset.sentence), HEADS_TO_SHOW[0]
        h: np.ndarray = text.q[head, : p["tokens"]]
        w: np.ndarray = text.k[head, : p["vocab"]] * p["dim"] ** -0.5
        targets = np.array([(token + 1) % p["vocab"] for token in range(p["tokens"])])
    else:
        h = rng.standard_normal((p["tokens"], p["dim"]))
        w = rng.standard_normal((p["vocab"], p["dim"])) * p["dim"] ** -0.5
        if preset.scores:
            h[:, 0] = 1.0
            w *= 0.0 if preset.name in ("constant", "notebook") else 0.01
            w[:, 0] = preset.scores(rng, 1, p["vocab"], p.get("block_n", 1))[0]
        targets = rng.integers(0, p["vocab"], size=(p["tokens"],))
        targets[-1] = p["vocab"] - 1  # one in the last tile, which may be a partial one
    targets[rng.permutation(p["tokens"])[: p["ignored"]]] = IGNORE_INDEX
    return {"h": representable(h, p["dtype"]), "w": representable(w, p["dtype"]), "targets": targets}


def gradient(p: Values, seed: int) -> np.ndarray:
    """do (batch, heads, seq_len, head_dim), the gradient of O: normal values of the dtype, held in float32."""
    shape = shapes("attention", p, gradient=True)["do"]
    return representable(np.random.default_rng([seed, len(shape)]).standard_normal(shape), p["dtype"])


def labels(preset: Preset, p: Values) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """The tokens of the rows and of the columns of S, for a real sentence; None for other presets, and for vectors."""
    if not preset.sentence or "n" in p:
        return None
    tokens = real_inputs.sentence(preset.sentence).tokens
    if "rows" in p:
        return tokens[-p["rows"] :], tokens[: p["cols"]]
    if "tokens" in p:
        return tokens[: p["tokens"]], tokens[: p["vocab"]]
    return tokens[: p["seq_len"]], tokens[: p["kv_len"]]


def representable(values: np.ndarray, dtype: str) -> np.ndarray:
    """The nearest values of a dtype ("fp32", "fp16", "bf16") as contiguous float32.

    Ties go to even; beyond fp16's range the result is ±inf.
    """
    single = np.ascontiguousarray(values, dtype=np.float32)
    if dtype == "fp16":
        with np.errstate(over="ignore"):
            return single.astype(np.float16).astype(np.float32)
    if dtype == "bf16":
        bits = single.view(np.uint32)
        rounded = bits + 0x7FFF + ((bits >> 16) & 1)
        return np.where(np.isfinite(single), (rounded & 0xFFFF0000).view(np.float32), single)
    return single.copy()


def _generator(preset: Preset, seed: int) -> np.random.Generator:
    # Recipes share one stream: changing a setting keeps the random numbers.
    return np.random.default_rng([seed, zlib.crc32(preset.name.partition(":")[0].encode())])
