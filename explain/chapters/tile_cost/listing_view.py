"""A launch's instructions beside the kernel's lines that they come from."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

import streamlit as st

from explain.chapters.tile_cost.figures import busiest
from explain.compile.listing import FILLS, Listing, rows
from explain.player.component import token_lines

_LOOK = Path(__file__).parents[2] / "look"
_ABOUT: Mapping[str, str] = {
    "SASS": (
        "SASS: the instructions that the GPU runs, written by ptxas. Each is listed once; those of a loop run in "
        "every iteration."
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

    At first it is the line with most instructions.
    """
    codes = [{"name": name, "about": _ABOUT[name], "instructions": rows(code)} for name, code in one.codes().items()]
    kinds = [{"name": kind, "fill": fill} for kind, fill in FILLS.items()]
    line, _ = busiest(one) or (None, 0)
    chosen = {"line": line} if line else None
    source = {"first_line": one.first_line, "lines": _lines(one.source)}
    _COMPONENT(key=key, data={**source, "kinds": kinds, "codes": codes, "chosen": chosen})


@lru_cache(maxsize=64)
def _lines(source: str) -> list[list[str | tuple[str, str]]]:
    return [list(line) for line in token_lines(source)]
