"""A browser that has one family of system fonts and no other, by a fontconfig file of its own. Linux only.

Standard library only: `start.py` uses it before anything is installed.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

PACKAGES = {"DejaVu": "fonts-dejavu-core", "Liberation": "fonts-liberation"}
"""The Debian package that has each family."""
_FOLDERS = ("/usr/share/fonts", "/usr/local/share/fonts", "~/.local/share/fonts", "~/.fonts")


class NoFontsError(RuntimeError):
    """A family is not on this machine; the message says what to install."""


def files_of(family: str) -> list[Path]:
    """The family's font files on this machine; empty if there is none."""
    return sorted(file for folder in _FOLDERS for file in Path(folder).expanduser().rglob(f"{family}*.ttf"))


def only(family: str, folder: Path) -> dict[str, str]:
    """The environment in which a program has the fonts of `family` and no other; `folder` takes the fontconfig file.

    Raises:
        NoFontsError: this machine does not have them.
    """
    found = files_of(family)
    if not found:
        raise NoFontsError(
            f"the layout tests need the fonts {family}: install them (Debian: sudo apt install {PACKAGES[family]})"
        )
    fonts = folder / "fonts"
    fonts.mkdir()
    for file in found:
        (fonts / file.name).symlink_to(file)
    config = folder / "fonts.conf"
    config.write_text(f"<fontconfig><dir>{fonts}</dir><cachedir>{folder / 'cache'}</cachedir></fontconfig>")
    return {**os.environ, "FONTCONFIG_FILE": str(config)}


def missing_packages() -> list[str]:
    """The Debian packages of the families that this machine lacks; none where fontconfig does not choose the fonts."""
    return [package for family, package in PACKAGES.items() if sys.platform == "linux" and not files_of(family)]
