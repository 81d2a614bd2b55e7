"""Start the app, or a hall of several, the way a user does, on a free port, and end it."""

from __future__ import annotations

import shutil
import ssl
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from explain import ROOT
from explain.app_process import HOST, answers, app_command, environment, free_ports, running
from explain.hall import sign


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
    script: str = "app.py", *, cache: Path | None = None, options: Sequence[str] = (), port: int | None = None
) -> Iterator[Server]:
    """`streamlit run app.py` with `options`, or another script's app, until the block is left; then it and its worker
    processes end.

    Without `cache` it keeps its traces, measurements and sweeps where the user's app does; without `port` it listens at
    a free one.

    Raises:
        RuntimeError: it ended, or did not answer in time; with what it printed.
    """
    port = port or free_ports(1)[0]
    with tempfile.TemporaryDirectory(prefix="tilescope-") as folder:
        if Path(script).parent != Path("."):  # Streamlit serves `static` from beside the script
            script = shutil.copy(ROOT / script, folder)
            Path(folder, "static").symlink_to(ROOT / "static")
        command = app_command({"server.port": port, "server.headless": "true"}, script)
        kept = {"TILESCOPE_PROGRESS": str(Path(folder, "progress.json")), **_in(cache)}
        log = Path(folder, "server.log")
        with log.open("wb") as output, running([*command, *options], environment(**kept), output) as child:
            server = Server(f"http://{HOST}:{port}", psutil.Process(child.pid), log)
            workers: list[psutil.Process] = []
            try:
                if not answers(child, port):
                    raise RuntimeError(f"the app did not start; it printed:\n{log.read_text()}")
                yield server
            finally:
                with suppress(psutil.NoSuchProcess):
                    workers = server.process.children(recursive=True)
        for worker in workers:
            if worker.is_running():
                worker.kill()


def running_room(cache: Path | None, address: str, port: int | None = None) -> AbstractContextManager[Server]:
    """The app as `start.py --room` starts it on a machine with this address."""
    options = ["--server.address", "0.0.0.0", "--browser.serverAddress", address]
    options += [part for name in ("localhost", "127.0.0.1", address) for part in ("--server.allowedHosts", name)]
    return running_app(cache=cache, options=[*options, "--", "--room", address], port=port)


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
        log = here / "hall.log"
        command += ["--processes", str(processes)]
        with log.open("wb") as output, running(command, environment(**_in(cache)), output) as child:
            while "Tilescope in" not in log.read_text(errors="replace"):
                if child.poll() is not None:
                    raise RuntimeError(f"the hall ended with status {child.returncode}; it printed:\n{log.read_text()}")
                time.sleep(0.05)
            trust = ssl.create_default_context(cafile=here / "certificate.pem")
            yield Server(f"https://localhost:{port}", psutil.Process(child.pid), log, trust)


def _in(cache: Path | None) -> dict[str, str]:
    return {"TILESCOPE_CACHE": str(cache)} if cache else {}
