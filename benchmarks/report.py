"""What each benchmark of the app does with its result: says where it was measured, prints it, writes it."""

from __future__ import annotations

import argparse
import json
import platform
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from explain.browser import find_browser
from explain.records import results
from explain.records.code import measured_code

if TYPE_CHECKING:
    from playwright.sync_api import Browser


def parser_of(doc: str | None) -> argparse.ArgumentParser:
    """A parser with the option `--out`; `doc` is the benchmark's docstring."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="also write the JSON to this file")
    return parser


def check_same_machine(old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    """Whether results may stand in one file. Raises ValueError if GPU, driver or versions differ."""
    was, now = ({k: v for k, v in one["provenance"].items() if k != "date"} for one in (old, new))
    if differing := [name for name in now if was.get(name) != now[name]]:
        raise ValueError(f"--keep: measured with another {', '.join(differing)}")


def on_days_of_both(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """The new result's provenance, dated from the first day of both results to the last."""
    days = sorted(day for one in (old, new) for day in one["provenance"]["date"].split(" to "))
    return {**new["provenance"], "date": " to ".join(dict.fromkeys((days[0], days[-1])))}


@contextmanager
def chrome(*arguments: str) -> Iterator[Browser]:
    """A headless Chrome or Chromium until the block is left."""
    from playwright.sync_api import sync_playwright  # a machine with a GPU may have none

    with sync_playwright() as playwright:
        yield playwright.chromium.launch(executable_path=find_browser(), args=["--no-sandbox", *arguments])


def loop_s() -> float:
    """Seconds of CPU that a Python loop of five million steps takes on this machine now, the best of three.

    Shared machines change: one became three times slower within an hour. So a result says how fast its machine was.
    """
    took = []
    for _ in range(3):
        begun, total = time.process_time(), 0
        for step in range(5_000_000):
            total += step * step
        took.append(time.process_time() - begun)
    return round(min(took), 2)


def finish(result: Mapping[str, Any], measured: str, out: Path | None, **versions: str) -> int:
    """Prints the result as JSON, with versions, date, the machine's speed and the digest of the `measured` code, and
    writes it to `out`.

    Returns the exit status: 0 if the result has `passed`, or has no limits to pass.
    """
    full = {
        **result,
        "loop_s": loop_s(),
        "versions": {**versions, "python": platform.python_version(), "streamlit": version("streamlit")},
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        **measured_code([measured]),
    }
    print(json.dumps(full, indent=2, ensure_ascii=False))
    if out:
        results.write(out, full)
    return 0 if result.get("passed", True) else 1
