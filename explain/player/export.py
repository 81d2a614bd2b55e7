"""A recorded run as one HTML file: the player with the trace in it. It opens from disk, without server or network."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from explain.player import Run, body_of, files


def standalone_html(runs: Sequence[Run], step: int = 0, depth: Literal["idea", "code"] = "code") -> str:
    """The page that shows one run, or two side by side, and opens on `step`, counted from 0, at this depth.

    Raises:
        ValueError: no run or more than two, or an invalid view, as for `explain.player.player`.
    """
    packet = body_of(runs).packet(place=None, step=step, depth=depth, query=None, height=None)
    return files.page(packet, " · ".join(run.view["title"] for run in runs))
