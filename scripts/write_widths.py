"""Measures the app's font and writes explain/figures/widths.json: how wide each character is, regular and bold.

    python scripts/write_widths.py

The font is the Source Sans that Streamlit ships. Run this again if Streamlit changes its font; a test fails then.
"""

from __future__ import annotations

import hashlib
import json
import sys
import unicodedata
from pathlib import Path

import streamlit
from PIL import ImageFont

ROOT = Path(__file__).resolve().parents[1]
UNIT = 1000
"""Font size at which widths are measured: they are thousandths of an em."""
WEIGHTS = {"regular": 400, "bold": 700}
RANGES = ((0x20, 0x7F), (0xA0, 0x180), (0x391, 0x3CA), (0x1D2C, 0x1D6B), (0x2010, 0x2027), (0x2030, 0x2034))
SYMBOLS = "⁰⁴⁵⁶⁷⁸⁹⁺⁻⁽⁾ⁿ₀₁₂₃₄₅₆₇₈₉ℓ←↑→↓↔⇒∂Δ∈∏∑−√∞∧∫≈≠≤≥⋅⌈⌉⌊⌋■□▲▼◆○●✓✔✗"


def font_file() -> Path:
    """The upright Source Sans among Streamlit's files. Raises StopIteration where there is none."""
    media = Path(streamlit.__file__).parent / "static/static/media"
    return next(media.glob("SourceSansVF-Upright*.woff2"))


def measured(path: Path) -> dict[str, dict[str, int]]:
    """Advance widths in thousandths of an em, by weight and character, for all characters in the font."""
    font = ImageFont.truetype(str(path), UNIT, layout_engine=ImageFont.Layout.BASIC)
    names = [chr(code) for start, end in RANGES for code in range(start, end)] + list(SYMBOLS)
    found: dict[str, dict[str, int]] = {}
    for weight, value in WEIGHTS.items():
        font.set_variation_by_axes([value])
        missing = bytes(font.getmask("\ufffe"))
        found[weight] = {
            char: round(font.getlength(char))
            for char in sorted(set(names))
            if not unicodedata.combining(char) and (char.isspace() or bytes(font.getmask(char)) != missing)
        }
    return found


def main() -> int:
    path = font_file()
    out = ROOT / "explain/figures/widths.json"
    table = {"font": hashlib.sha256(path.read_bytes()).hexdigest(), **measured(path)}
    out.write_text(json.dumps(table, ensure_ascii=False, indent=0).replace(",\n", ", ") + "\n", encoding="utf-8")
    print(f"{out.relative_to(ROOT)}: {len(table['regular'])} characters")
    return 0


if __name__ == "__main__":
    sys.exit(main())
