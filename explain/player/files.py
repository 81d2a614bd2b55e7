"""The player's files joined: the one script that Streamlit loads, and a page that opens without a server.

The modules become one function, `tilescope(PARTS)`, which returns the component. PARTS are the texts it needs: css,
html and page. An exported page is the function's own source with the same PARTS.
"""

from __future__ import annotations

import base64
import html
import json
import re
from functools import lru_cache
from pathlib import Path

from explain import scripts
from explain.figures import palette
from explain.player import fonts

_HERE = Path(__file__).parent
_IMPORT = re.compile(r'^import \{[^}]*\} from "(\.[./\w]+\.js)";\n', re.MULTILINE)


def text(name: str) -> str:
    """One of the player's files."""
    return _HERE.joinpath(name).read_text(encoding="utf-8")


def modules(*names: str) -> str:
    """The named modules joined into one script, each after the modules it imports. By default the whole player."""
    found: dict[str, None] = {}
    for name in names or ("player.js",):
        _in_order(_HERE / name, found)
    return "".join(map(module, found))


def _in_order(path: Path, found: dict[str, None]) -> None:
    """Adds a module after those that it imports, each once, by its name."""
    for other in _IMPORT.findall(path.read_text(encoding="utf-8")):
        if (known := str((path.parent / other).resolve().relative_to(_HERE))) not in found:
            _in_order(_HERE / known, found)
    found[str(path.relative_to(_HERE))] = None


@lru_cache(maxsize=1)
def address() -> str:
    """The address of the player's script, from the app's root."""
    return scripts.served("player", script())


def script() -> str:
    """The player as one ES module. Its default export is a Streamlit component."""
    return f"const PARTS = {_parts()};\nexport default ({_player()})(PARTS);\n"


def page(packet: bytes, title: str) -> str:
    """A packet's page: one HTML file that opens from disk, without a network. export.js makes the same one."""
    filling = {
        "fonts": fonts.embedded(),
        "title": html.escape(f"{title} · Tilescope", quote=False),
        "packet": base64.b64encode(packet).decode(),
        "parts": _parts(),
        "player": _player(),
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda place: filling[place[1]], _standalone())


@lru_cache(maxsize=1)
def _player() -> str:
    """The modules as the function `tilescope`, as its toString() gives it in the browser.

    Raises:
        ValueError: they hold what would end the script of a page.
    """
    body = modules()
    if "</script" in body:
        raise ValueError("the player's modules hold </script, which would end the script of a page")
    return f"function tilescope(PARTS) {{\n{body}return mount;\n}}"


@lru_cache(maxsize=1)
def _parts() -> str:
    """As JSON.stringify writes them, but for <, so that no part of them can end the script of a page."""
    css = colours(".player") + text("../look/terms.css") + text("player.css")
    parts = {"css": css, "html": text("player.html"), "page": _standalone()}
    return json.dumps(parts, separators=(",", ":"), ensure_ascii=False).replace("<", r"\u003c")


def module(name: str) -> str:
    """A module without its imports and exports: all share one scope."""
    return joinable(text(name))


def colours(selector: str) -> str:
    """CSS with the palette of both themes for an element with data-theme."""
    light, dark = (f"{{ {palette.variables(theme)} }}" for theme in palette.THEMES)
    return f'{selector} {light}\n{selector}[data-theme="dark"] {dark}\n'


def _standalone() -> str:
    """The exported page, its colours filled in."""
    return text("standalone.html").replace("/* palette */", palette.both_themes())


def joinable(module: str) -> str:
    """A module's source without imports and exports."""
    # The modules share one scope once joined, so what they import from each other is already there.
    module = _IMPORT.sub("", module)
    return re.sub(r"^export (default )?", "", module, flags=re.MULTILINE)
