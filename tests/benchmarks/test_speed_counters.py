"""`benchmarks/speed_counters.py`: a kernel in a line, and what it says where nothing can be counted."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import asdict

import pytest

from benchmarks.speed_counters import main, merged, told
from explain.counters.model import Counts
from explain.counters.stalls import Stalls

COUNTS = Counts(
    3_000_000, 1_000_000, 1_000_000, 7_000_000, 2_000_000, None, 0, 0, None, None, tensor_active_percent=61.4
)
STALLS = Stalls(1000, 100, 40, {"selected": 40, "wait": 700, "barrier": 260}, 3)


def test_a_kernel_in_a_line():
    one = {"case": "backward 1×2", "name": "ours", "counts": asdict(COUNTS), "stalls": asdict(STALLS)}
    assert told(one) == (
        "backward 1×2 · ours: tensor cores 61%; HBM 5 MB, L2 to SMs 9 MB; "
        "10.0 warps a scheduler, issues in 40% of cycles; wait 70%, barrier 26%"
    )
    assert told({**one, "stalls": None}).endswith("L2 to SMs 9 MB")


def test_a_peer_that_is_not_here_says_why():
    assert told({"case": "softmax", "name": "QuACK", "why": "ModuleNotFoundError: none"}).endswith(
        "QuACK: ModuleNotFoundError: none"
    )


def test_what_is_counted_again_takes_the_place_of_the_old_and_the_rest_stays():
    def result(gpu, code, *kernels):
        return {"provenance": {"gpu": gpu, "date": code}, "code": {"ours": code}, "kernels": [*kernels]}

    def row(name, counts):
        return {"case": "backward 1×2", "name": name, **({"counts": counts} if counts else {"why": "not here"})}

    old = result("H200", "1", row("ours", 1), row("FlashAttention-4", 2), row("gone", 3))
    new = result("H200", "2", row("ours", 10), row("FlashAttention-4", None), row("cuDNN", 4))
    both = merged(old, new)
    assert [(one["name"], one["counts"]) for one in both["kernels"]] == [
        ("ours", 10), ("FlashAttention-4", 2), ("gone", 3), ("cuDNN", 4),
    ]  # fmt: skip
    assert (both["code"], both["provenance"]["date"]) == ({"ours": "2"}, "1 to 2")
    assert merged(result("H200", "1", row("ours", 1)), new)["provenance"]["date"] == "2"
    with pytest.raises(ValueError, match="another gpu"):
        merged(old, result("H100", "2"))


def test_a_table_that_is_none_is_named(capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["nonsense"])
    assert "'nonsense' is not a table: give one of softmax, topk" in capsys.readouterr().err


def test_without_a_gpu_it_says_what_is_missing():
    """As a process of its own: whether a GPU is there is asked once in each."""
    command = [sys.executable, "benchmarks/speed_counters.py", "softmax"]
    no_gpu = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False, env=no_gpu)
    assert done.returncode == 1
    assert done.stderr.startswith("no counters: ")
    assert "Traceback" not in done.stderr
