"""The app's fonts as one style sheet with the files in it, for a page that opens without a server; fonts.js makes the
same.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

import streamlit

_STREAMLITS = Path(streamlit.__file__).parent / "static" / "static" / "media"
_OURS = Path(__file__).parents[2] / "static"
FAMILIES: Mapping[str, tuple[Path, str]] = {
    "Source Sans": (_STREAMLITS, "SourceSansVF-Upright*.woff2"),
    "Source Code Pro": (_STREAMLITS, "SourceCodeVF-Upright*.woff2"),
    "Tilescope Formulas": (_OURS, "formulas.woff2"),
    "Tilescope Symbols": (_OURS, "symbols.woff2"),
}
"""Each family of `theme.font` in .streamlit/config.toml, and its file."""


@lru_cache(maxsize=1)
def embedded() -> str:
    """An @font-face rule for each family.

    Raises:
        ValueError: this Streamlit has no such font, or several.
    """
    return "\n".join(_face(family, *place) for family, place in FAMILIES.items())


def _face(family: str, folder: Path, pattern: str) -> str:
    found = [*folder.glob(pattern)]
    if len(found) != 1:
        raise ValueError(f"one file {pattern} is needed for the font {family}; {folder} has {len(found)}")
    data = base64.b64encode(found[0].read_bytes()).decode()
    weight = "100 900" if folder == _STREAMLITS else "normal"
    return f'@font-face {{ font-family: "{family}"; font-weight: {weight}; src: url("data:font/woff2;base64,{data}") }}'
