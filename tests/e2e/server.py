"""Start the app the way a user does, on a free port, and end it."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from explain import ROOT


@dataclass(frozen=True)
class Server:
    """A running app: its address, its process, and the file that takes all it prints."""

    url: str
    process: psutil.Process
    log: Path


@contextmanager
def running_app(
    app: str = "app.py", *, root: Path = ROOT, cache: Path | None = None, start_limit_s: float = 60.0
) -> Iterator[Server]:
    """`streamlit run app.py` in `root` until the block is left; then it and its worker processes end.

    Without `cache` it keeps its traces, measurements and sweeps where the user's app does.

    Raises:
        RuntimeError: it ended, or did not answer within `start_limit_s` seconds; with what it printed.
    """
    port = _free_port()
    command = [sys.executable, "-m", "streamlit", "run", app]
    command += ["--server.port", str(port), "--server.headless", "true"]
    # A user has no such variable; the app's own workers choose between interpreter and compiler.
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    if cache:
        environment["TILESCOPE_CACHE"] = str(cache)
    with tempfile.TemporaryDirectory(prefix="tilescope-") as folder:
        if Path(app).parent != Path("."):  # Streamlit serves `static` from beside the script
            command[4] = shutil.copy(root / app, folder)
            Path(folder, "static").symlink_to(root / "static")
        environment["TILESCOPE_PROGRESS"] = str(Path(folder, "progress.json"))
        log = Path(folder, "server.log")
        with log.open("wb") as output:
            child = subprocess.Popen(command, cwd=root, env=environment, stdout=output, stderr=subprocess.STDOUT)
        server = Server(f"http://127.0.0.1:{port}", psutil.Process(child.pid), log)
        try:
            _wait_until_healthy(server, child, start_limit_s)
            yield server
        finally:
            _end(child, server.process)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_until_healthy(server: Server, child: subprocess.Popen[bytes], limit_s: float) -> None:
    deadline = time.monotonic() + limit_s
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    while time.monotonic() < deadline and child.poll() is None:
        try:
            with direct.open(f"{server.url}/_stcore/health", timeout=5) as answer:
                if answer.status == 200:
                    return
        except OSError:
            time.sleep(0.05)
    state = "did not answer" if child.poll() is None else f"ended with status {child.returncode}"
    printed = server.log.read_text(errors="replace")
    raise RuntimeError(f"the app {state} within {limit_s:g} s; it printed:\n{printed}")


def _end(child: subprocess.Popen[bytes], process: psutil.Process) -> None:
    try:
        workers = process.children(recursive=True)
    except psutil.NoSuchProcess:
        workers = []
    child.terminate()
    try:
        child.wait(10)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
    for worker in workers:
        if worker.is_running():
            worker.kill()
