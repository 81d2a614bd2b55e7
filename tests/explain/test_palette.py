"""The palette: text has contrast, hues differ for every eye, and config.toml has the same colours."""

from __future__ import annotations

import itertools
import re
import tomllib

import numpy as np
import pytest

from explain import ROOT
from explain.chapters.speed.results import DISPATCHERS, MEASURED_ONLY
from explain.figures import palette
from explain.glossary import TERMS

CONFIG = ROOT / ".streamlit" / "config.toml"

# Machado, Oliveira & Fernandes 2009, severity 1, on linear RGB.
SIGHT = {
    "full": np.eye(3),
    "deutan": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]],
    "protan": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "tritan": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.3039]],
}


def lab(colour: str, sight: str = "full") -> np.ndarray:
    """CIE Lab of a colour as somebody with that sight sees it."""
    rgb = np.array([int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)])
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    seen = np.clip(np.array(SIGHT[sight]) @ linear, 0, 1)
    to_xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    f = np.cbrt(to_xyz @ seen / [0.95047, 1, 1.08883])
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def difference(one: str, other: str, sight: str = "full") -> float:
    return float(np.linalg.norm(lab(one, sight) - lab(other, sight)))


def test_contrast_is_wcags():
    assert palette.contrast("#000000", "#ffffff") == palette.contrast("#ffffff", "#000000") == pytest.approx(21)
    assert palette.contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.005)


@pytest.mark.parametrize("theme", palette.THEMES)
def test_every_ink_and_text_can_be_read_on_every_ground(theme):
    at = palette.THEMES.index(theme)
    read = {name: palette.ink(name, theme) for name in palette.HUES}
    read |= {name: pair[at] for name, pair in palette.TEXTS.items()}
    for (name, colour), (ground, pair) in itertools.product(read.items(), palette.GROUNDS.items()):
        assert palette.contrast(colour, pair[at]) >= 4.5, (name, colour, ground)


@pytest.mark.parametrize("name", palette.HUES)
def test_a_mid_tone_is_seen_in_both_themes_and_letters_can_be_read_on_fills(name):
    for ground in palette.GROUNDS["ground"]:
        assert palette.contrast(palette.mid(name), ground) >= 3
    for fill in (palette.mid(name), *(palette.fill(name, theme) for theme in palette.THEMES)):
        assert palette.contrast(palette.letters(fill), fill) >= 4


@pytest.mark.parametrize("sight", SIGHT)
def test_kernels_are_told_apart_by_every_eye(sight):
    for one, other in itertools.combinations(palette.KERNELS, 2):
        assert difference(palette.mid(one), palette.mid(other), sight) > 10, (one, other)


@pytest.mark.parametrize("sight", SIGHT)
def test_lines_that_run_close_together_are_told_apart_from_afar(sight):
    """FlashAttention-3 is a few percent above our dispatcher."""
    ours, library = (
        palette.mid(palette.kernel(MEASURED_ONLY[name][1])) for name in (DISPATCHERS[0], "FlashAttention-3")
    )
    assert difference(ours, library, sight) > 40


def test_a_term_and_its_symbol_have_one_hue():
    for term in TERMS:
        if term.quantity and term.symbol in palette.SYMBOLS:
            assert term.quantity == palette.SYMBOLS[term.symbol], term.name


_COLOUR = re.compile(r"(?<=[\s:\"'(,])#(?:[0-9a-fA-F]{3}){1,2}(?=[\s;\"',)}])|rgba?\((?!0 0 0 /)\d")


@pytest.mark.parametrize("folder", ["explain", "pages"])
def test_every_colour_is_the_palettes(folder):
    files = [one for end in ("py", "js", "css", "html", "svg") for one in (ROOT / folder).rglob(f"*.{end}")]
    assert files
    for file in files:
        text = re.sub(r'\[style\*="[^"]*"\]', "", file.read_text(encoding="utf-8"))  # matches a colour, sets none
        if file.name not in ("palette.py", "icon.svg"):
            assert not (found := _COLOUR.search(text)), (file.name, found[0] if found else "")


def test_nobody_has_a_quantitys_colour():
    for name, quantity in palette.QUANTITIES.items():
        for other, colour in palette.HUES.items():
            assert other == name or difference(quantity, colour) > 12, (name, other)


@pytest.mark.parametrize("theme", palette.THEMES)
@pytest.mark.parametrize("use", [palette.fill, palette.ink])
def test_quantities_are_told_apart_as_fills_and_as_text(use, theme):
    for one, other in itertools.combinations(palette.QUANTITIES, 2):
        assert difference(use(one, theme), use(other, theme)) > 20, (one, other)
        for sight in ("deutan", "protan"):
            assert difference(use(one, theme), use(other, theme), sight) > 5, (one, other, sight)


def test_a_hue_that_does_not_exist_is_refused():
    with pytest.raises(ValueError, match="kernel hues 0 to"):
        palette.kernel(99)
    with pytest.raises(ValueError, match="mauve"):
        palette.css("mauve")


def test_both_style_sheets_declare_the_same_names():
    names = [{one.partition(":")[0] for one in palette.variables(theme).split("; ")} for theme in palette.THEMES]
    assert names[0] == names[1] == {one.partition(":")[0] for one in palette.both_themes().split("; ")}


@pytest.mark.parametrize("theme", palette.THEMES)
def test_streamlits_colours_are_the_palettes(theme):
    at = palette.THEMES.index(theme)
    own = {name: pair[at] for group in (palette.GROUNDS, palette.TEXTS, palette.LINES) for name, pair in group.items()}
    expected = {
        "primaryColor": own["link"] if theme == "light" else palette.HUES["slate"],
        "backgroundColor": own["ground"],
        "secondaryBackgroundColor": own["code-ground"],
        "textColor": own["text"],
        "borderColor": own["line"],
        "linkColor": own["link"],
        "codeTextColor": own["text"],
        "codeBackgroundColor": own["code-ground"],
    }
    states = {"blue": "slate", "green": "right", "red": "alarm", "yellow": "warning", "orange": "warning"}
    for colour, state in states.items():
        expected[f"{colour}Color"] = palette.fill(state, theme)
        expected[f"{colour}TextColor"] = palette.ink(state, theme)
    config = tomllib.loads(CONFIG.read_text(encoding="utf-8"))["theme"]
    assert config[theme] == expected
    assert config["chartCategoricalColors"] == [palette.mid(name) for name in palette.SERIES]
