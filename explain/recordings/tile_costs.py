"""The compiler's costs for FlashAttention's tiles and every kernel's opening tile, and the instructions of some.

Needs no GPU; takes some minutes.
"""

from __future__ import annotations

import argparse
import json
from contextlib import closing
from typing import Any

from explain.chapters.flash_attention.tiles import listed, recorded_grid
from explain.compile.listing import packed
from explain.compile.service import RECORDED, Compiler, listing_path
from explain.plain import plain
from explain.records import results
from explain.records.code import measured_code
from explain.records.model import settings


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
