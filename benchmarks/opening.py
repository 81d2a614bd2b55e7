"""How long a newcomer waits from `streamlit run app.py` to the first page, and then to the first picture.

    python -m benchmarks.opening --out opening.json

Each run starts a fresh server and a fresh page in headless Chrome or Chromium. The clock starts with the process. It is
read when the server answers, when the page's heading is visible and when the opening has moved. Then the run
opens a chapter by its link and waits for the chapter's first picture.
"""

from __future__ import annotations

import os
import re
import statistics
import sys
import time
from collections.abc import Sequence

from playwright.sync_api import Browser, expect

from benchmarks.report import chrome, finish, parser_of
from tests.e2e.server import running_app

FIRST_PAGE_S, PICTURE_S = 2.0, 1.0
MOVED = "(performance.timeOrigin + performance.getEntriesByName('opening moves')[0].startTime) / 1000"
"""When the opening's first frame was drawn, in seconds since 1970."""


def once(browser: Browser) -> dict[str, float]:
    """The times of one fresh server and page, in seconds."""
    page = browser.new_page(viewport={"width": 1440, "height": 900})
    start, begun = time.perf_counter(), time.time()
    with running_app() as server:
        answered = time.perf_counter() - start
        page.goto(server.url)
        expect(page.get_by_role("heading", name="Tilescope").first).to_be_visible()
        first_page = time.perf_counter() - start
        expect(page.get_by_test_id("opening")).to_have_attribute("data-time", re.compile("[1-9]"))
        picture = page.evaluate(MOVED) - begun - first_page  # when it did, not when the test saw it
        start = time.perf_counter()
        page.get_by_role("link", name="FlashAttention").first.click()
        expect(page.get_by_role("heading", name="FlashAttention").first).to_be_visible()
        expect(page.get_by_test_id("player")).to_have_attribute("data-step", re.compile(r"\d+"))
        chapter = time.perf_counter() - start
        page.close()
    return {"server_answers_s": answered, "first_page_s": first_page, "picture_after_s": picture, "chapter_s": chapter}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the benchmark; 0 if the medians are within their limits."""
    parser = parser_of(__doc__)
    parser.add_argument("--runs", type=int, default=7)
    options = parser.parse_args(arguments)
    with chrome() as browser:
        runs = [once(browser) for _ in range(options.runs)]
    medians = {name: round(statistics.median(run[name] for run in runs), 2) for name in runs[0]}
    passed = medians["first_page_s"] < FIRST_PAGE_S and medians["picture_after_s"] < PICTURE_S
    result = {
        "what": "seconds, medians over fresh servers",
        **medians,
        "slowest": {name: round(max(run[name] for run in runs), 2) for name in runs[0]},
        "runs": options.runs,
        "limits": {"first_page_s": FIRST_PAGE_S, "picture_after_s": PICTURE_S},
        "passed": passed,
        "cores": os.cpu_count(),
    }
    return finish(result, "app", options.out)


if __name__ == "__main__":
    sys.exit(main())
