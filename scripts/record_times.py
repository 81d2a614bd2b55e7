"""How long standard attention and FlashAttention take as N grows, on the GPU at hand, with the first call apart.

python scripts/record_times.py --out explain/recordings/times-h200.json
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from explain.experiment import Experiment  # noqa: E402

KERNELS = ("attention_standard", "flash_attention")
SETTING = {"heads": 16, "head_dim": 64, "dtype": "fp16", "block_m": 128, "block_n": 64}
LENGTHS = [2**bit for bit in range(7, 15)]


def measured(experiment: Experiment) -> dict[str, Any]:
    """One experiment's first call and its median after that, in milliseconds. Needs a GPU."""
    import torch

    from explain.device.handler import measure_time
    from kernels.launch import launcher, tensors

    p = experiment.values
    arrays = experiment.entry.make_inputs(experiment.preset, p, experiment.seed)
    launch = launcher(experiment.entry, p, tensors(p, arrays, "cuda"))
    start = time.perf_counter()
    launch()
    torch.cuda.synchronize()
    timing = measure_time(launch, 1e3 * (time.perf_counter() - start), lambda *_: None)
    return {"experiment": experiment.to_json(), "timing": timing.__dict__}


def main() -> int:
    """Measures every length, writes the file, prints a line each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    out = parser.parse_args().out
    import torch

    from explain.device.handler import provenance

    torch.zeros(1, device="cuda")  # opening the device is no kernel's time
    rows = []
    for seq_len in LENGTHS:
        for kernel in KERNELS:
            rows.append(measured(Experiment.of(kernel, {**SETTING, "seq_len": seq_len}, "normal")))
            print(kernel, seq_len, rows[-1]["timing"])
    record = {"format": 1, "provenance": provenance().__dict__, "runs": rows}
    out.write_text(json.dumps(record, indent=1, allow_nan=False) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
