"""Compiles rungs of the ladder for a GPU you don't have. A process of its own: one process compiles or interprets.

90,bf16,128,tma 80,fp16,64,tma …      each capability, dtype, head_dim, rung, under a causal mask;
prints a JSON object for each
"""

import json
import sys

from explain.compile import handler
from explain.experiment import Experiment
from explain.gpus import GPUS
from kernels.launch import launcher, tensors
from kernels.rungs import shape

for asked in sys.argv[1:]:
    capability, dtype, head_dim, rung = asked.split(",")
    near = {"120": 89}.get(capability, int(capability))  # as much shared memory
    room = max(one.shared_bytes for one in GPUS.values() if one.compute_capability == near)
    vars(shape).update(shared_memory=lambda q, room=room: room, is_hopper=lambda q: True)
    given = {"dtype": dtype, "head_dim": int(head_dim), "causal": True, "seq_len": 256}
    experiment = Experiment.of(f"rung:{rung}", given, "normal")
    inputs = tensors(experiment.values, experiment.make_inputs(), "cpu")
    call = launcher(experiment.entry, experiment.values, inputs)
    ((launch, _, asm),) = handler.compiled_launches(call, int(capability), lambda *_: None)
    found = {"spills": launch.spill_store_bytes, "registers": launch.registers, "shared": launch.shared_bytes}
    print(json.dumps({"asked": asked, **found, "ptx": asm["ptx"]}))
