"""A recorded run as one HTML file: the player with the trace in it. It opens from disk, without server or network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from explain.player import files
from explain.player.component import Run, Toured, body_of


def standalone_html(
    runs: Sequence[Run],
    step: int | None = 0,
    tour: Mapping[str, Any] | None = None,
    depth: Literal["idea", "code"] = "code",
) -> str:
    """The page that shows one run, or two side by side, and opens on `step`, counted from 0, at this depth, or on its
    `tour` (`explain.tours.resolved`). It prints as slides, a page for each caption.

    Raises:
        ValueError: no run or more than two, or an invalid view, as for `explain.player.component.player`.
    """
    more = {"caption": 1} if tour else {}
    toured = Toured.of(tour) if tour else None
    packet = body_of(runs).packet(toured, place=None, step=step, depth=depth, query=None, height=None, **more)
    return files.page(packet, tour["title"] if tour else " · ".join(run.view["title"] for run in runs))
