"""The compiler's costs for FlashAttention's tiles and every kernel's opening tile, and the instructions of some.

Needs no GPU; takes some minutes.
"""

from __future__ import annotations

import argparse
import itertools
import json
from contextlib import closing
from typing import Any

from explain.chapters.flash_attention.tiles import (
    COMPARED,
    FORWARD,
    MASKED,
    SIDES,
    compared,
    compiled_as,
    opening,
    tile,
)
from explain.compile.listing import packed
from explain.compile.service import RECORDED, Compiler, listing_path
from explain.experiment import Experiment
from explain.gpus import GPUS
from explain.plain import plain
from explain.records import plans, results
from explain.records.code import measured_code
from explain.records.model import settings
from kernels.catalog import KERNELS, TAUGHT

CAPABILITIES = tuple(sorted({gpu.compute_capability for gpu in GPUS.values()}, reverse=True))


def recorded_grid() -> tuple[tuple[Experiment, int], ...]:
    """The tiles and compute capabilities with shipped costs, each once: of FlashAttention many, of each kernel the one
    that the tile-cost page opens on, and of the taught kernels those that it compares with that one: for Hopper, and
    of attention's forward kernels and of those without a matmul, which compile fast, for every GPU.
    """
    found: list[tuple[Experiment, int]] = []
    for block_m, block_n in itertools.product(SIDES, SIDES):
        found += [(tile(block_m, block_n), capability) for capability in CAPABILITIES]
        found += [(tile(block_m, block_n, head_dim=128), 90), (tile(block_m, block_n, head_dim=32, dtype="fp32"), 90)]
    for block_m, block_n in COMPARED:  # with one other setting of the page that opens on it
        changed = tile(block_m, block_n, causal=True), tile(block_m, block_n, dtype="bf16")
        found += itertools.product(changed, CAPABILITIES)
        found.append((tile(block_m, block_n, head_dim=128, causal=True), 90))
    found += [(experiment, 90) for pair in MASKED for experiment in pair]
    others = [compiled_as(name, opening(name)) for name, entry in KERNELS.items() if entry.steppable]
    beside = [other for one in others if one.kernel in TAUGHT for other in compared(one)]
    fast = [one for one in beside if one.kernel in FORWARD or one.entry.family in ("softmax", "vector")]
    found += itertools.product([*others, *fast], CAPABILITIES)
    found += [(one, 90) for one in beside]
    found.append((plans.sizes("flash_attention")[0], 90))  # the run that Measurements shows each source of
    return tuple(dict.fromkeys(found))


def listed() -> tuple[tuple[Experiment, int], ...]:
    """The tiles and compute capabilities with shipped instructions, each once."""
    own = compiled_as("flash_attention", opening("flash_attention"))
    found = [(own, capability) for capability in CAPABILITIES]
    found += [(tile(*sides, causal=causal), 90) for sides in COMPARED for causal in (False, True)]
    found += [(experiment, 90) for pair in MASKED for experiment in pair]
    found += [(compiled_as(name, opening(name)), 90) for name in TAUGHT]
    backward = "flash_attention_backward"  # where the instructions change most with the tile: registers spill
    found += [(one, 90) for one in compared(compiled_as(backward, opening(backward)))]
    return tuple(dict.fromkeys(found))


def run(parsed: argparse.Namespace) -> int:
    """Compiles every tile and writes explain/recordings/tile-costs.json and *.listing.gz; the exit status."""
    listings = set(listed())
    for old in results.RECORDINGS.glob("*.listing.gz"):
        old.unlink()
    costs: list[dict[str, Any]] = []
    with closing(Compiler()) as compiler:
        for experiment, capability in recorded_grid():
            cost = compiler.compile(experiment, capability, seconds=600)
            if (experiment, capability) in listings:
                data = packed(compiler.listings(experiment, capability))
                listing_path(experiment, capability).write_bytes(data)
            costs.append(plain(cost))
            spilled = sum(launch.spill_store_bytes for launch in cost.launches)
            print(f"sm_{capability} {experiment.kernel} {settings(experiment)}: {spilled} B spilled", flush=True)
    code = measured_code(cost["kernel"] for cost in costs)
    head = json.dumps(code, indent=1).removesuffix("\n}")
    lines = ",\n  ".join(json.dumps(cost) for cost in costs)  # one cost per line
    (results.RECORDINGS / f"{RECORDED}.json").write_text(f'{head},\n "costs": [\n  {lines}\n ]\n}}\n')
    return 0
