"""Set up Tilescope in .venv and open it, or pass all its tests.

    python3 start.py                            open the app
    python3 start.py --server.port 9000         the same; what follows goes to `streamlit run app.py`
    python3 start.py --tour my_tour.toml        the app with a tour of your own (docs/tours.md)
    python3 start.py --trace run.tilescope      the app with a trace of your own (docs/your-kernel.md)
    python3 start.py --room                     the app for a lecture room: phones come in by a code (SECURITY.md)
    python3 start.py test                       ruff, mypy and all tests, browser tests included
    python3 start.py test -k player             the same; what follows goes to pytest
    python3 start.py test --gpu --result FILE   the tests that need a GPU, and a file that says what passed on which

Standard library only. A second run finds everything in place and starts at once.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent
VENV = ROOT / ".venv"
PYTHON = VENV / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
OLDEST = (3, 11)
VERSION = "{}.{}".format(*sys.version_info[:2])
APP_NEEDS = "requirements.txt"
TEST_NEEDS = "requirements-dev.txt"
MIB_OF_A_GPU_WORKER = 23_000  # a test of more than 2³¹ elements needs most of it: six share an H200, three an H100
STALE = "committed results of older code"  # said, and no failure
OWN_FILES = {
    "--tour": "a tour file, such as a copy of a chapter's",
    "--trace": "a trace file, which `python -m explain trace` writes",
}


class SetUpError(Exception):
    """Set-up cannot go on; the message says why and what to do."""


def main(arguments: list[str]) -> int:
    """Do what the command line asks; return the exit status."""
    if arguments[:1] in (["-h"], ["--help"]):
        print(__doc__)
        return 0
    testing = arguments[:1] == ["test"]
    rest = arguments[1:] if testing else arguments
    rest = rest[1:] if rest[:1] == ["--"] else rest
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # each worker process would compile every module anew
    try:
        if sys.version_info < OLDEST:
            raise SetUpError(f"Python 3.11 or newer is needed; this is {VERSION}. {_newer_python()}")
        if not testing and rest and not rest[0].startswith("-"):
            raise SetUpError(f"{rest[0]!r} is not a command: give `test`, options for streamlit, or nothing")
        rest = rest if testing else _with_files(rest)
        os.chdir(ROOT)
        set_up([APP_NEEDS, TEST_NEEDS] if testing else [APP_NEEDS])
        return run_tests(rest) if testing else open_app(rest)
    except SetUpError as error:
        print(f"start.py: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def set_up(needs: list[str]) -> None:
    """Make .venv and install the requirements files named, unless that has been done."""
    missing = [name for name in needs if not _is_installed(name)]
    if not missing:
        return
    if not _has_working_venv():
        _make_venv()
    _say(f"installing {' and '.join(missing)}")
    if _pip(*(f"--requirement={name}" for name in missing)) != 0:
        raise SetUpError("pip could not install them; the reason is above. Fix it, then run this again")
    for name in missing:
        _stamp(name).write_text(_digest(name))


def open_app(options: list[str]) -> int:
    """Run the app until it is ended; Streamlit opens the browser."""
    command = [str(PYTHON), "-m", "streamlit", "run", "app.py", *options]
    if os.name != "nt":  # no process in between: who ends this one ends the app
        os.execv(command[0], command)
    return subprocess.call(command)


def _with_files(options: list[str]) -> list[str]:
    """Streamlit's options; `--tour FILE` and `--trace FILE` go behind them, to the app, by their full paths. So does
    `--room`, with this machine's address; the server then listens on the local network too.
    """
    own, others = [], []
    words = iter(options)
    for word in words:
        if word == "--room":
            address = _address()
            others += ["--server.address", "0.0.0.0", "--browser.serverAddress", address]  # else it asks a site for it
            others += [part for host in ("localhost", "127.0.0.1", address) for part in ("--server.allowedHosts", host)]
            own += [word, address]
            continue
        if word not in OWN_FILES:
            others.append(word)
            continue
        file = Path(next(words, "")).resolve()
        if not file.is_file():
            raise SetUpError(f"{word}: {file} is not a file: give {OWN_FILES[word]}")
        own += [word, str(file)]
    return [*others, *(["--", *own] if own else [])]


def _address() -> str:
    """This machine's address on the local network. Nothing is sent: the system says from where it would send."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as way:
        try:
            way.connect(("192.0.2.1", 9))
        except OSError as error:
            raise SetUpError(
                f"--room: this machine is on no network ({error}); join one, then run this again"
            ) from None
        address: str = way.getsockname()[0]
        return address


def run_tests(options: list[str]) -> int:
    """Run every check even when one fails, those of one core beside the first tests; return 0 only if all passed."""
    _need_browser()
    _need_fonts()
    _need_nginx()
    gpu = "--gpu" in options
    # A file of browser tests keeps to one of the workers (loadgroup), and waits more than it computes: one worker more
    # than there are cores. What times or counts on a GPU runs alone.
    workers = min(8, (os.cpu_count() or 1) + (not gpu), _workers_on_gpu() if gpu else 8)
    parallel = ["-n", str(workers), "--dist", "loadgroup"]
    # A browser on busy cores can lose a race that no reader would. So a test that fails runs once more, at most five of
    # them, and the end of the output says how it failed. On a GPU a second try could hide a race in a kernel.
    again = [] if gpu else ["--reruns", "1", "--max-suite-reruns", "5", "--rerun-show-tracebacks"]
    checks = {
        "ruff check": ["ruff", "check"],
        "ruff format": ["ruff", "format", "--check"],
        "pytest": ["pytest", *parallel, *again, *(["-m", "not alone"] if gpu else []), *options],
        "mypy": ["mypy"],
    }
    if gpu:
        checks["pytest, alone"] = ["pytest", "-m", "alone", *options]
    else:
        checks["known advisories"] = ["scripts.advisories"]
        checks[STALE] = ["explain", "results", "--stale"]
    failed = []
    beside = {name: _beside(checks[name]) for name in ("mypy", "known advisories", STALE) if name in checks}
    if not (gpu or (ROOT / "tests/__pycache__").exists()):
        # One process compiles all modules of a new clone, beside mypy; else each worker would compile them.
        collected = [str(PYTHON), "-m", "pytest", "--collect-only", "-qq", *options]
        subprocess.run(collected, check=False, capture_output=True)
    for name, command in checks.items():
        _say(name)
        if name in beside:
            print(beside[name].communicate()[0].decode(errors="replace"), end="")
            status = beside[name].returncode
        else:
            status = subprocess.call([str(PYTHON), "-m", *command])
        if status != 0 and name != STALE:
            failed.append(name)
    _say(f"failed: {', '.join(failed)}" if failed else "all passed")
    if any(name.startswith("pytest") for name in failed):
        print(*_failed_tests(), sep="\n")
    return 1 if failed else 0


def _beside(command: list[str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen([str(PYTHON), "-m", *command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def _failed_tests() -> list[str]:
    """The names of the tests that failed last, so that they end the output, however long it is."""
    kept = ROOT / ".pytest_cache/v/cache/lastfailed"
    return sorted(json.loads(kept.read_text())) if kept.exists() else []


def _workers_on_gpu() -> int:
    """So many test processes as the GPU has memory for; 8 if it is not known."""
    asked = ["nvidia-smi", "--query-gpu=memory.total", "--format=csv,noheader,nounits", "--id=0"]
    try:
        said = subprocess.run(asked, check=False, capture_output=True, text=True).stdout
        return max(1, int(said) // MIB_OF_A_GPU_WORKER)
    except (OSError, ValueError):
        return 8


def _need_browser() -> None:
    from explain.browser import NoBrowserError, find_browser, install_browser

    try:
        try:
            find_browser()
        except NoBrowserError:
            _say("installing a browser for the browser tests")
            install_browser(PYTHON)
            find_browser()
    except (NoBrowserError, ValueError) as error:
        raise SetUpError(str(error)) from None


def _need_fonts() -> None:
    """The layout tests run under two sets of system fonts; a test that lacks one says which package has it."""
    from explain.browser import install_with_apt
    from tests.e2e.fonts import missing_packages

    for package in missing_packages():
        _say(f"installing {package} for the layout tests")
        install_with_apt(package)


def _need_nginx() -> None:
    """The hall's tests run it; without it they are skipped. Under systemd its package would start a server at port 80,
    so there its user decides.
    """
    from explain.browser import install_with_apt
    from explain.nginx import nginx

    if not nginx() and not Path("/run/systemd/system").exists():
        _say("installing nginx for the hall's tests")
        install_with_apt("nginx")


def _make_venv() -> None:
    _say(f"making {VENV.name} with Python {VERSION}")
    if importlib.util.find_spec("ensurepip") is None:  # Debian and Ubuntu ship it apart
        from explain.browser import install_with_apt

        package = f"python{VERSION}-venv"
        if not install_with_apt(package):
            raise SetUpError(f"this Python has no ensurepip. On Debian and Ubuntu: sudo apt install {package}")
    # Another process: an ensurepip installed a moment ago is not seen by this one.
    if subprocess.call([sys.executable, "-m", "venv", "--clear", str(VENV)]) != 0:
        raise SetUpError(f"could not make {VENV}; the reason is above")


def _has_working_venv() -> bool:
    question = "import sys, pip; print('{}.{}'.format(*sys.version_info[:2]))"
    try:
        answer = subprocess.run([PYTHON, "-c", question], check=False, capture_output=True, text=True)
    except OSError:
        return False
    return answer.returncode == 0 and answer.stdout.strip() == VERSION


def _pip(*arguments: str) -> int:
    # Not compiled: most installed modules are never imported. Python compiles those that are.
    command = [str(PYTHON), "-m", "pip", "--disable-pip-version-check", "install", "--no-compile", *arguments]
    return subprocess.call(command)


def _is_installed(name: str) -> bool:
    stamp = _stamp(name)
    return PYTHON.exists() and stamp.exists() and stamp.read_text() == _digest(name)


def _stamp(name: str) -> Path:
    return VENV / f"{name}.installed"


def _digest(name: str) -> str:
    """A digest of the requirements file, of the one it builds on, and of this Python's version."""
    texts = [VERSION, *((ROOT / file).read_text() for file in (APP_NEEDS, name))]
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()


def _newer_python() -> str:
    for minor in range(OLDEST[1] + 4, OLDEST[1] - 1, -1):
        if shutil.which(f"python3.{minor}"):
            return f"Run: python3.{minor} start.py"
    return "Get one from your package manager or https://www.python.org/downloads"


def _say(words: str) -> None:
    print(f"\n== {words}", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
