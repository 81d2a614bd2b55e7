"""Start the app, or a hall of several, the way a user does, on a free port, and end it."""

from __future__ import annotations

import os
import shutil
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from explain import ROOT
from explain.hall import free_ports, sign


@dataclass(frozen=True)
class Server:
    """A running app: its address, its process, the file that takes all it prints, and what trusts its certificate."""

    url: str
    process: psutil.Process
    log: Path
    trust: ssl.SSLContext | None = None

    @property
    def apps(self) -> list[psutil.Process]:
        """The processes that answer readers: several in a hall."""
        known = (self.process, *self.process.children())
        return [one for one in known if one.status() != psutil.STATUS_ZOMBIE and "streamlit" in one.cmdline()]


@contextmanager
def running_app(
    app: str = "app.py",
    *,
    root: Path = ROOT,
    cache: Path | None = None,
    start_limit_s: float = 300.0,
    options: Sequence[str] = (),
) -> Iterator[Server]:
    """`streamlit run app.py` with `options` in `root` until the block is left; then it and its worker processes end.

    Without `cache` it keeps its traces, measurements and sweeps where the user's app does.

    Raises:
        RuntimeError: it ended, or did not answer within `start_limit_s` seconds; with what it printed.
    """
    [port] = free_ports(1)
    command = [sys.executable, "-m", "streamlit", "run", app]
    command += ["--server.port", str(port), "--server.headless", "true", *options]
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


@contextmanager
def running_hall(processes: int, *, cache: Path | None = None) -> Iterator[Server]:
    """`python -m explain hall localhost`, on loopback, until the block is left.

    Raises:
        RuntimeError: it ended before it served; with what it printed.
    """
    with tempfile.TemporaryDirectory(prefix="tilescope-") as folder:
        here = Path(folder)
        sign("localhost", here)
        [port] = free_ports(1)
        command = [sys.executable, "-m", "explain", "hall", "localhost", "--address", "127.0.0.1", "--port", str(port)]
        command += ["--certificate", str(here / "certificate.pem"), "--key", str(here / "key.pem")]
        environment = {**os.environ, **({"TILESCOPE_CACHE": str(cache)} if cache else {})}
        log = here / "hall.log"
        with log.open("wb") as output:
            child = subprocess.Popen(
                [*command, "--processes", str(processes)], cwd=ROOT, env=environment, stdout=output, stderr=output
            )
        try:
            while "Tilescope in" not in log.read_text(errors="replace"):
                if child.poll() is not None:
                    raise RuntimeError(f"the hall ended with status {child.returncode}; it printed:\n{log.read_text()}")
                time.sleep(0.05)
            trust = ssl.create_default_context(cafile=here / "certificate.pem")
            yield Server(f"https://localhost:{port}", psutil.Process(child.pid), log, trust)
        finally:
            child.terminate()
            child.wait()


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
