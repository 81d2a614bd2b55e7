"""A file that the reader names by its path, on their own machine: what is typed, and the text that is there now."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from explain.figures.numbers import count

LONGEST = 200_000  # characters
MOST_BYTES = 4 * LONGEST


class PathError(ValueError):
    """No Python file is there, or it cannot be read; the message says why, in a sentence."""


def typed(text: str) -> tuple[Path, str]:
    """The path and the function of `file.py` or `file.py:function`; the function is "" where none is named."""
    path, colon, function = text.strip().rpartition(":")
    if not colon or not function.isidentifier():
        path, function = text.strip(), ""
    return Path(os.path.abspath(os.path.expanduser(path))), function


def text_of(path: Path) -> str:
    """What the file has now. Raises PathError."""
    if "\0" in str(path):
        raise PathError("A path has no null character.")
    try:
        known = path.stat()
        if stat.S_ISDIR(known.st_mode):
            raise PathError(f"{path} is a folder: name a Python file in it, such as {path / 'kernel.py'}.")
        if not stat.S_ISREG(known.st_mode):
            raise PathError(f"{path} is not a file of text.")
        if path.suffix != ".py":
            raise PathError(f"{path} is not a Python file: its name must end in .py.")
        if known.st_size > MOST_BYTES:
            raise PathError(f"{path} has {count(known.st_size)} bytes: at most {count(LONGEST)} characters are run.")
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise PathError(f"There is no file {path}.") from None
    except UnicodeDecodeError:
        raise PathError(f"{path} is not a text file in UTF-8.") from None
    except OSError as error:
        raise PathError(f"{path} cannot be read: {error.strerror}.") from None
    if "\0" in text:
        raise PathError(f"{path} is not a text file: it has null characters.")
    return at_most(text, str(path))


def at_most(text: str, name: str) -> str:
    """The text, if it is not too long to be run. Raises PathError."""
    if len(text) > LONGEST:
        raise PathError(f"{name} has {count(len(text))} characters: at most {count(LONGEST)} are run.")
    return text
