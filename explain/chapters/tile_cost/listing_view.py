"""A launch's instructions beside the kernel's lines that they come from."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import streamlit as st

from explain.chapters.tile_cost.figures import busiest
from explain.compile.listing import FILLS, Listing, in_loops, rows
from explain.kept import kept
from explain.player.component import token_lines

_LOOK = Path(__file__).parents[2] / "look"
_ABOUT: Mapping[str, str] = {
    "SASS": (
        "SASS: the instructions that the GPU runs, written by ptxas. Each is listed once; those of a loop may run in "
        "every iteration. One with a predicate, such as @!P2, runs only where it is true."
    ),
    "PTX": "PTX: Triton's output for ptxas, with an unlimited number of registers.",
}

_COMPONENT = st.components.v2.component(
    "tilescope_listing",
    html='<div class="listing"></div>',
    css=(_LOOK / "listing.css").read_text(encoding="utf-8"),
    js=(_LOOK / "listing.js").read_text(encoding="utf-8"),
)


def listing(one: Listing, key: str) -> None:
    """The kernel's lines on the left, PTX or SASS on the right; a line chosen on one side is shown on the other.

    It opens at the line with most instructions, and at the first of these in a loop.
    """
    _COMPONENT(key=key, data=shown(one))


@kept
def shown(one: Listing) -> dict[str, Any]:
    """What the component gets: lines, instructions, kinds, and what it opens at."""
    return {
        "first_line": one.first_line,
        "lines": [list(line) for line in token_lines(one.source)],
        "codes": [
            {"name": name, "about": _ABOUT[name], "instructions": rows(code)} for name, code in one.codes().items()
        ],
        "kinds": [{"name": kind, "fill": fill} for kind, fill in FILLS.items()],
        "chosen": _opening(one),
    }


def _opening(one: Listing) -> dict[str, int] | None:
    """The busiest line, and where its first instruction in a loop is; None without SASS."""
    if (found := busiest(one)) is None:
        return None
    line, _ = found
    first = next(own for own in in_loops(one) or one.sass if own.lines == (line,))
    return {"line": line, "at": next(at for at, own in enumerate(one.sass) if own is first)}
