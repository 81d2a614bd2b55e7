"""A tour on paper: its exported page, printed by the reader's Chrome or Chromium, a page for each caption."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from explain.browser import find_browser
from explain.engine import Engine
from explain.player.component import Run
from explain.player.export import standalone_html
from explain.player.view import view
from explain.tours import Tour, resolved
from explain.ui.titles import titles
from explain.worker_process import Progress

WIDTH, HEIGHT = 1920, 1080
LIMIT_S = 120


class SlidesError(RuntimeError):
    """The browser printed no slides; the message says what it said."""


def page_of(tour: Tour, engine: Engine, progress: Progress | None = None) -> tuple[dict[str, Any], str]:
    """The resolved tour, and the page that plays it without a server. Raises TourError and WorkerError."""
    traced = [engine.trace(experiment, progress) for experiment in tour.runs]
    content = resolved(tour, [run.trace for run in traced])
    runs = [
        Run(run, {**view(one, run.trace, run.origin), "title": title})
        for one, run, title in zip(tour.runs, traced, titles(tour.runs), strict=True)
    ]
    return content, standalone_html(runs, None, content)


def pdf_of(page: str) -> bytes:
    """A tour's page as a PDF. Raises NoBrowserError, SlidesError, and ValueError for a browser that does not start."""
    browser = find_browser()
    with tempfile.TemporaryDirectory(prefix="tilescope-") as folder:
        source, out = Path(folder, "tour.html"), Path(folder, "tour.pdf")
        source.write_text(page, encoding="utf-8")
        said = _printed(browser, source, out, folder)
        if not out.exists():
            raise SlidesError(f"{browser} printed no slides: {said[-1] if said else 'it said nothing'}")
        return out.read_bytes()


def _printed(browser: Path, source: Path, out: Path, folder: str) -> Sequence[str]:
    options = [
        "--headless",
        "--disable-gpu",
        "--no-pdf-header-footer",
        "--virtual-time-budget=15000",  # the slides are laid out after the page has loaded
        f"--window-size={WIDTH},{HEIGHT}",
        "--force-device-scale-factor=2",  # pictures twice as sharp
        f"--user-data-dir={folder}/profile",
        f"--print-to-pdf={out}",
    ]
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        options.append("--no-sandbox")  # Chrome has no sandbox for root
    try:
        done = subprocess.run(
            [browser, *options, f"{source.as_uri()}#slides"],
            capture_output=True, text=True, errors="replace", timeout=LIMIT_S, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise SlidesError(f"{browser} did not print within {LIMIT_S} s") from None
    return done.stderr.strip().splitlines()
