"""Compiles the tiles that the FlashAttention chapter opens on and writes explain/recordings/tile-costs.json, and the instructions of those that the page of
a tile's cost opens on. No GPU needed; some minutes.

nice python scripts/record_tile_costs.py
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from explain.chapters.flash_attention.tiles import listed, recorded_grid
from explain.compile.listing import packed
from explain.compile.service import RECORDED, Compiler, code_of_cost, listing_path
from explain.recordings import FOLDER


def main() -> None:
    compiler = Compiler()
    listings = list(listed())
    for old in FOLDER.glob("*.listing.gz"):
        old.unlink()
    record: dict[str, Any] = {"code": {}, "costs": []}
    try:
        for experiment, capability in recorded_grid():
            cost = compiler.compile(experiment, capability, seconds=600)
            if (experiment, capability) in listings:
                data = packed(compiler.listings(experiment, capability))
                listing_path(experiment, capability).write_bytes(data)
            record["code"] |= code_of_cost(cost)
            record["costs"].append(cost.to_json())
            p, launch = experiment.values, cost.launches[0]
            words = (
                f"{launch.shared_bytes:,} B shared, {launch.registers} registers, {launch.spill_store_bytes} B spilled"
            )
            print(
                f"sm_{capability} {p['dtype']} d={p['head_dim']} {p['block_m']}×{p['block_n']}: {words}, {launch.seconds} s"
            )
            sys.stdout.flush()
    finally:
        compiler.close()
    lines = ",\n  ".join(json.dumps(cost) for cost in record["costs"])
    text = f'{{\n "code": {json.dumps(record["code"])},\n "costs": [\n  {lines}\n ]\n}}\n'
    (FOLDER / f"{RECORDED}.json").write_text(text)


if __name__ == "__main__":
    main()
