"""Takes the README's picture of the running app: python scripts/take_picture.py"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from playwright.sync_api import expect  # noqa: E402

from benchmarks.report import chrome  # noqa: E402
from tests.e2e.server import running_app  # noqa: E402

STEP = 330  # last row of tiles, third key tile: the running max rises, so α < 1


def main() -> int:
    """Writes docs/tilescope.png."""
    with running_app() as server, chrome() as browser:
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        page.goto(f"{server.url}/flash_attention?step={STEP}")
        expect(page.get_by_test_id("player")).to_have_attribute("data-step", str(STEP))
        page.wait_for_timeout(1000)
        page.screenshot(path=ROOT / "docs" / "tilescope.png")
    return 0


if __name__ == "__main__":
    sys.exit(main())
