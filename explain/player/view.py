"""How the player shows a trace: its title, the roles of its variables, the names on its axes, where it comes from."""

from __future__ import annotations

from typing import Any

from explain.beats import beats
from explain.experiment import Experiment
from explain.gpus import GPUS
from explain.trace.model import Trace
from kernels.inputs import labels

CHIP = GPUS["H200"]
"""The GPU that the size of a tile is compared with."""
_AXES = {"attention": ["queries", "keys"], "loss": ["tokens", "columns"]}
ORIGINS = {"recorded": "recorded", "interpreter": "run on this machine"}


def view_of(trace: Trace, origin: str) -> dict[str, Any]:
    """How the player shows any trace: by its experiment, or by its name if its kernel is not in the catalog."""
    if trace.experiment is not None:
        return view(Experiment.from_json(trace.experiment), trace, origin)
    kernels = dict.fromkeys(trace.sources[launch.source].function for launch in trace.launches)
    return {"title": ", ".join(kernels), "badge": _badge(trace, origin)}


def view(experiment: Experiment, trace: Trace, origin: str) -> dict[str, Any]:
    """How the player shows this experiment's trace: the roles of its variables, the axes' names, its source."""
    entry, p = experiment.entry, experiment.values
    row_labels, col_labels = labels(experiment.preset, p) or (None, None)
    heads = p["heads"] // p["kv_heads"] if entry.shares_keys else 1  # in one tile
    return {
        "title": entry.title,
        "kernel": entry.base,
        "wrong": entry.kind == "broken",
        "roles": dict(entry.roles),
        "also": {own: name for names in entry.buffers.values() for own, name in names.items()},
        "beats": beats(trace, entry.roles),
        "score_shape": list(entry.score_shape(p)),
        **({"axes": ["rows" if heads > 1 else axes[0], axes[1]]} if (axes := _AXES.get(entry.family)) else {}),
        "row_labels": list(row_labels) * heads if row_labels else None,
        "col_labels": list(col_labels) if col_labels else None,
        "pick_program": entry.program,
        "program_names": _program_names(experiment),
        "invariant": entry.keeps_max_and_sum,
        "chip": {"name": CHIP.name, "shared_bytes": CHIP.shared_bytes, "register_bytes": CHIP.register_bytes_sm},
        "badge": _badge(trace, origin),
    }


def _badge(trace: Trace, origin: str) -> str:
    when = trace.created[: len("2026-01-31")]  # of an ISO date with its time
    return f"trace · Triton's CPU interpreter · {ORIGINS[origin]}, {when}"


def _program_names(experiment: Experiment) -> dict[str, str]:
    """The query tile of each program, by its place in the grid; empty for kernels with other programs."""
    p = experiment.values
    if experiment.entry.program != "Query tile":
        return {}
    word = "tokens" if experiment.preset.sentence else "queries"
    programs = p["batch"] * p["heads"]
    names = {}
    for tile, start in enumerate(range(0, p["seq_len"], p["block_m"])):
        last = min(start + p["block_m"], p["seq_len"]) - 1
        for y in range(programs):
            head = f"head {y % p['heads']}, " if programs > 1 else ""
            sequence = f"sequence {y // p['heads']}, " if p["batch"] > 1 else ""
            names[f"{tile},{y},0"] = f"{tile} · {sequence}{head}{word} {start}–{last}"
    return names
