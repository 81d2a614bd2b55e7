"""The player's files put together: the one script that Streamlit loads, and the shell of a page that opens without a server."""

from __future__ import annotations

import base64
import html
import re
import zlib
from functools import lru_cache
from pathlib import Path

_HERE = Path(__file__).parent
_PANELS = (
    "panel", "source", "equation", "map", "zoom", "strip", "rows", "invariant", "kept", "pairs", "output", "variables", "hbm", "sram",
)  # fmt: skip
_INTERACTION = ("dialog", "clocks", "transport", "counters", "watch", "compare", "presenter", "keys")
_MODULES = (
    *("trace.js", "words.js", "story.js", "paint.js", "tip.js"),
    *(f"panels/{name}.js" for name in _PANELS),
    *("sentences.js", "lane.js"),
    *(f"{name}.js" for name in _INTERACTION),
    *("picture.js", "export.js", "player.js"),
)


def text(name: str) -> str:
    """One of the player's files."""
    return _HERE.joinpath(name).read_text(encoding="utf-8")


@lru_cache(maxsize=1)
def script() -> str:
    """The player's modules as one, with the shell that its export fills."""
    return f'const SHELL = "{_packed_shell()}";\n{_modules()}'


def page(packet: bytes, title: str) -> str:
    """A packet's page: one HTML file that opens from disk and asks for nothing. export.js makes the same in the browser."""
    filled = _shell().replace("{{title}}", html.escape(f"{title} · Tilescope", quote=False), 1)
    filled = filled.replace("{{packet}}", base64.b64encode(packet).decode(), 1)
    return filled.replace("{{shell}}", _packed_shell(), 1)


def _modules() -> str:
    return "".join(_joinable(text(name)) for name in _MODULES)


def _joinable(module: str) -> str:
    # The modules share one scope once joined, so what they import from each other is already there.
    module = re.sub(r'^import \{[^}]*\} from "\.[./\w]+\.js";\n', "", module, flags=re.MULTILINE)
    return re.sub(r"^export (?!default)", "", module, flags=re.MULTILINE)


@lru_cache(maxsize=1)
def _shell() -> str:
    """standalone.html with the player in it; {{title}}, {{packet}} and {{shell}} are left, each first where it belongs."""
    modules = _modules()
    if "</script" in modules:
        raise ValueError("the player's modules hold </script, which would end the script of a page")
    parts = {"css": text("player.css"), "html": text("player.html"), "modules": modules}
    return re.sub(r"\{\{(css|html|modules)\}\}", lambda place: parts[place[1]], text("standalone.html"))


@lru_cache(maxsize=1)
def _packed_shell() -> str:
    return base64.b64encode(zlib.compress(_shell().encode(), 9)).decode()
