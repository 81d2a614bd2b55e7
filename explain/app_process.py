"""Starts the app in its own process and waits until it answers, for commands that show a trace.

Imports neither Streamlit nor torch.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from explain import ROOT, given

START_SECONDS = 60.0
HOST = "127.0.0.1"


class AppError(RuntimeError):
    """The app did not start; the message says what it printed."""


def has_screen() -> bool:
    """Whether a browser window can open here. False on Linux without a display, as on a server or over ssh."""
    return sys.platform != "linux" or any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))


@contextmanager
def serving(traces: Sequence[Path], port: int | None, opens: bool) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """The app on these trace files while open: the address of the page that plays them, and the app's process.

    It listens on this machine alone, on `port` or else on a free one. `opens` opens the reader's browser. Raises
    AppError.
    """
    port = _free_port(port or 0)
    files = [word for trace in traces for word in ("--trace", str(trace.resolve()))]
    options = ["--server.address", HOST, "--server.port", str(port), "--server.headless", str(not opens).lower()]
    # The app's own workers choose between interpreter and compiler.
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    with tempfile.TemporaryFile(prefix="tilescope-") as log:
        app = subprocess.Popen(
            [sys.executable, "-m", "streamlit", "run", "app.py", *options, "--", *files],
            cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
        )  # fmt: skip
        try:
            if not _answers(app, port):
                log.seek(0)
                printed = log.read().decode(errors="replace").strip()
                raise AppError(f"the app did not start on port {port}; it printed:\n{printed}")
            yield f"http://{HOST}:{port}/{given.PAGES['trace']}", app
        finally:
            app.terminate()
            try:
                app.wait(10)
            except subprocess.TimeoutExpired:
                app.kill()
                app.wait()


def _free_port(port: int) -> int:
    """This port, or any free one for 0. Raises AppError if it is taken."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except (OSError, OverflowError) as error:
            raise AppError(f"port {port} cannot be used: {error}") from None
        return int(probe.getsockname()[1])


def _answers(app: subprocess.Popen[bytes], port: int) -> bool:
    """Waits until this app answers; False if it ends, or takes too long."""
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    until = time.monotonic() + START_SECONDS
    while app.poll() is None and time.monotonic() < until:
        try:
            with direct.open(f"http://{HOST}:{port}/_stcore/health", timeout=5):
                return app.poll() is None
        except OSError:
            time.sleep(0.05)
    return False
