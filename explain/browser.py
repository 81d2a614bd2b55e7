"""The one place that finds, or installs, a Chrome or Chromium: it prints slides, and the browser tests drive it.

Standard library only: `start.py` uses it before anything is installed.
"""

from __future__ import annotations

import glob
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

BROWSER_VARIABLE = "TILESCOPE_BROWSER"
COMMANDS = ("google-chrome", "google-chrome-stable", "chromium", "chromium-browser", "chrome")
USUAL_PLACES = (
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
    r"%ProgramFiles%\Google\Chrome\Application\chrome.exe",
    r"%ProgramFiles(x86)%\Google\Chrome\Application\chrome.exe",
    r"%LocalAppData%\Google\Chrome\Application\chrome.exe",
)
PLAYWRIGHT_CACHES = ("~/.cache/ms-playwright", "~/Library/Caches/ms-playwright", r"%LocalAppData%\ms-playwright")
PLAYWRIGHT_BINARIES = ("chrome-linux*/chrome", "chrome-mac*/*.app/Contents/MacOS/*", "chrome-win*/chrome.exe")


class NoBrowserError(RuntimeError):
    """No Chrome or Chromium was found; the message says what to do."""


def find_browser() -> Path:
    """The Chrome or Chromium to drive: the one TILESCOPE_BROWSER names, else the first that starts.

    Raises:
        ValueError: TILESCOPE_BROWSER names nothing that starts.
        NoBrowserError: it is not set and no browser is on this machine.
    """
    if named := os.environ.get(BROWSER_VARIABLE):
        if _starts(Path(named)):
            return Path(named)
        raise ValueError(f"{BROWSER_VARIABLE}={named!r} must name a Chrome or Chromium that starts")
    for candidate in _candidates():
        if _starts(candidate):
            return candidate
    raise NoBrowserError(
        "Chrome or Chromium is needed, and none was found: install one "
        f"(Debian: sudo apt install chromium), or set {BROWSER_VARIABLE} to its path"
    )


def install_browser(python: Path) -> None:
    """Install Chromium: Playwright's own with `python`, else the distribution's where we may.

    Whether it worked is for `find_browser` to say.
    """
    playwright = [str(python), "-m", "playwright", "install", "chromium"]
    if _is_root() and sys.platform == "linux":
        playwright.append("--with-deps")
    if subprocess.run(playwright, check=False).returncode != 0:
        install_with_apt("chromium")


def install_with_apt(package: str) -> bool:
    """Install a Debian or Ubuntu package, as root or by sudo without a password; True if it worked."""
    if not shutil.which("apt-get"):
        return False
    sudo = [] if _is_root() else ["sudo", "-n"]
    if sudo and (not shutil.which("sudo") or subprocess.run([*sudo, "true"], check=False).returncode != 0):
        return False
    apt = [*sudo, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get"]
    subprocess.run([*apt, "update"], check=False)  # a stale list may still have the package
    install = [*apt, "install", "--yes", "--no-install-recommends", package]
    return subprocess.run(install, check=False).returncode == 0


def _candidates() -> Iterator[Path]:
    for command in COMMANDS:
        if found := shutil.which(command):
            yield Path(found)
    for place in USUAL_PLACES:
        yield Path(os.path.expandvars(place))
    for cache in (os.environ.get("PLAYWRIGHT_BROWSERS_PATH", ""), *PLAYWRIGHT_CACHES):
        for binary in PLAYWRIGHT_BINARIES if cache else ():
            root = os.path.expandvars(os.path.expanduser(cache))
            yield from map(Path, sorted(glob.glob(f"{root}/chromium-*/{binary}"), reverse=True))


def _starts(binary: Path) -> bool:
    if not binary.is_file():
        return False
    if sys.platform == "win32":  # there `chrome.exe --version` opens a window
        return True
    try:
        # Ubuntu's /usr/bin/chromium-browser can be a stub that only says "install the snap".
        answer = subprocess.run([binary, "--version"], check=False, capture_output=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return answer.returncode == 0


def _is_root() -> bool:
    return sys.platform != "win32" and os.geteuid() == 0
