"""The traces and outputs that the chapters open on. Needs no GPU; takes about a minute."""

from __future__ import annotations

import argparse
from contextlib import closing

from explain import lessons, recordings
from explain.chapters.exactness import orders
from explain.engine import Engine
from explain.recordings.shipped import shipped


def run(parsed: argparse.Namespace) -> int:
    """Makes every shipped trace and output again and removes the others; the exit status."""
    made = []
    with closing(Engine()) as engine:
        for experiment in shipped():
            made.append(recordings.path_of(experiment))
            engine.trace_to(experiment, made[-1])
            print(f"{made[-1].name}: {made[-1].stat().st_size:,} bytes", flush=True)
        for way in orders.shipped(lessons.EXACT, lessons.JOINED):
            made.append(recordings.output_path_of(way.experiment, way.reverse_keys))
            engine.output_to(way.experiment, made[-1], reverse_keys=way.reverse_keys)
            print(f"{made[-1].name}: {made[-1].stat().st_size:,} bytes", flush=True)
    for path in {*recordings.files(".tilescope"), *recordings.files(".npz")} - set(made):
        path.unlink()
    return 0
