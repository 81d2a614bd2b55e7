"""What the app was started with: `streamlit run app.py -- --trace FILE`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

PAGES = {"tour": "your_tour", "trace": "your_run"}
"""Each option, and the page that the app then opens on."""


def files(option: str) -> list[Path]:
    """The files given by this option, in order. Raises ValueError if the option stands without a file."""
    if not any(word.startswith(f"--{option}") for word in sys.argv):  # a parser costs each rerun a millisecond
        return []
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    parser.add_argument(f"--{option}", type=Path, action="append", default=[], dest="files")
    try:
        found: list[Path] = parser.parse_known_args(sys.argv[1:])[0].files
    except argparse.ArgumentError as error:
        raise ValueError(f"--{option}: {error.message}; give a file") from None
    return found


def room() -> str | None:
    """This machine's address on the local network if the app is opened to it: `python3 start.py --room`."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--room")
    address: str | None = parser.parse_known_args(sys.argv[1:])[0].room
    return address


def page() -> str | None:
    """The page to open on; None if the app was started without a file. The file may be wrong: the page says so."""
    given = (argument.partition("=")[0].removeprefix("--") for argument in sys.argv[1:])
    return next((PAGES[option] for option in given if option in PAGES), None)
