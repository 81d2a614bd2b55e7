"""What turns a kernel's run into something to look at: experiments, traces, traffic, measurements, the player."""

import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
"""The repository."""


def data(file: str | Path) -> dict[str, Any]:
    """The TOML file beside a module, given the module's `__file__`. A text in several lines becomes one line."""

    def joined(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: joined(one) for name, one in value.items()}
        if isinstance(value, list):
            return [joined(one) for one in value]
        return value.strip("\n").replace("\n", " ") if isinstance(value, str) else value

    found: dict[str, Any] = joined(tomllib.loads(Path(file).with_suffix(".toml").read_text(encoding="utf-8")))
    return found
