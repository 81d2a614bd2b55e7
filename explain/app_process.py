"""The app in a process of its own: starts it, waits until it answers, ends it.

Imports neither Streamlit nor torch.
"""

from __future__ import annotations

import http.client
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO

from explain import ROOT, given

START_SECONDS = 120.0
END_SECONDS = 30.0
HOST = "127.0.0.1"
NOT_THE_APPS = ("TRITON_INTERPRET", "PYTHONDONTWRITEBYTECODE")
"""Each worker chooses the interpreter or the compiler itself. Without bytecode, each compiles all modules anew."""


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
    port = _usable(port) if port else free_ports(1)[0]
    files = [word for trace in traces for word in ("--trace", str(trace.resolve()))]
    options = {"server.address": HOST, "server.port": port, "server.headless": str(not opens).lower()}
    with (
        tempfile.TemporaryFile(prefix="tilescope-") as log,
        running([*app_command(options), "--", *files], environment(), log) as app,
    ):
        if not answers(app, port):
            log.seek(0)
            printed = log.read().decode(errors="replace").strip()
            raise AppError(f"the app did not start on port {port}; it printed:\n{printed}")
        yield f"http://{HOST}:{port}/{given.PAGES['trace']}", app


def app_command(options: Mapping[str, object], script: str = "app.py") -> list[str]:
    """Streamlit on the app, or on another script, with these options of its own."""
    return [sys.executable, "-m", "streamlit", "run", script, *(f"--{key}={value}" for key, value in options.items())]


def environment(**more: str) -> dict[str, str]:
    """This process's, for the app, without NOT_THE_APPS; and `more`."""
    return {name: value for name, value in os.environ.items() if name not in NOT_THE_APPS} | more


@contextmanager
def running(
    command: Sequence[str], environment: Mapping[str, str], output: IO[bytes] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """A process, in the project's root, while open. What it says goes to `output`; without one, errors to ours."""
    process = subprocess.Popen(
        command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL,
        stdout=output or subprocess.DEVNULL, stderr=output,
    )  # fmt: skip
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def answers(app: subprocess.Popen[bytes], port: int, host: str = HOST) -> bool:
    """Waits until this app answers who asks for `host`; False if it ends, or takes too long."""
    until = time.monotonic() + START_SECONDS
    while app.poll() is None and time.monotonic() < until:
        line = http.client.HTTPConnection(HOST, port, timeout=5)
        try:
            line.request("GET", "/_stcore/health", headers={"Host": host})
            if line.getresponse().status == http.HTTPStatus.OK:
                return app.poll() is None
        except OSError:
            pass
        finally:
            line.close()
        time.sleep(0.05)
    return False


def free_ports(count: int) -> list[int]:
    """Free ports on loopback."""
    with ExitStack() as open_:
        probes = [open_.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind((HOST, 0))
        return [int(probe.getsockname()[1]) for probe in probes]


def _usable(port: int) -> int:
    """This port. Raises AppError if it is taken, or is none."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except (OSError, OverflowError) as error:
            raise AppError(f"port {port} cannot be used: {error}") from None
    return port
