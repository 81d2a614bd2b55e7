"""What ncu runs: the copy and one Experiment, cold and warm, each between cudaProfilerStart and Stop."""

from __future__ import annotations

import json
import sys

import torch

from explain.counters.count import Round, copy_round, rounds
from explain.device.point import launch_of
from explain.experiment import Experiment


def run(one: Round) -> None:
    """One round; ncu counts its run."""
    one.prepare()
    torch.cuda.synchronize()
    torch.cuda.profiler.start()  # type: ignore[no-untyped-call]
    one.run()
    torch.cuda.synchronize()
    torch.cuda.profiler.stop()  # type: ignore[no-untyped-call]


if __name__ == "__main__":
    run(copy_round())
    torch.cuda.empty_cache()
    launch, _ = launch_of(Experiment.from_json(json.loads(sys.argv[1])))
    for each in rounds(launch):
        run(each)
