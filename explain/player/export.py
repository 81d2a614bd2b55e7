"""A recorded run as one HTML file: the player itself, with the trace in it. Opens from disk, with no server and no network."""

from __future__ import annotations

from collections.abc import Sequence

from explain.player import Run, body_of, files


def standalone_html(runs: Sequence[Run], step: int = 0) -> str:
    """The page that shows one run, or two side by side, and opens on `step`, counted from 0.

    Raises:
        ValueError: no run or more than two, or a view that `explain.player.player` would not take either.
    """
    packet = body_of(runs).packet(place=None, step=step, query=None, height=None)
    return files.page(packet, " · ".join(run.view["title"] for run in runs))
