"""The fonts that ship with the app are those that its theme names."""

from __future__ import annotations

import tomllib

from explain import ROOT
from explain.player import files, fonts

THEME = tomllib.loads((ROOT / ".streamlit/config.toml").read_text(encoding="utf-8"))["theme"]


def families(stack: str) -> list[str]:
    return [name.strip(" '\"") for name in stack.split(",")]


def test_the_theme_the_exported_page_and_the_browser_name_the_same_fonts() -> None:
    assert families(THEME["font"]) == list(fonts.FAMILIES)
    assert sorted(families(THEME["codeFont"])) == sorted(fonts.FAMILIES)
    for family in fonts.FAMILIES:
        assert files.text("fonts.js").count(f'"{family}"') == 1
        assert files.text("standalone.html").count(f'"{family}"') == 2


def test_each_font_of_the_theme_is_a_file_that_the_app_serves_with_its_licence() -> None:
    for face in THEME["fontFaces"]:
        assert (ROOT / face["url"].removeprefix("app/")).read_bytes().startswith(b"wOF2")
    assert "SIL OPEN FONT LICENSE" in (ROOT / "static/OFL.txt").read_text(encoding="utf-8").upper()
    assert sum(path.stat().st_size for path in (ROOT / "static").iterdir()) < 100_000


def test_the_embedded_fonts_are_whole() -> None:
    assert fonts.embedded().count("@font-face") == fonts.embedded().count("data:font/woff2;base64,d09GMg") == 4
