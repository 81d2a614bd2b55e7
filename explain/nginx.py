"""Finds nginx. Standard library only: `start.py` asks before anything is installed."""

from __future__ import annotations

import os
import shutil


def nginx() -> str | None:
    """The program; None where it is not installed. Debian has it where only root looks."""
    return shutil.which("nginx", path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin")
