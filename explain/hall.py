"""The app for a lecture hall: several processes behind nginx, with TLS (docs/hall.md).

A process that ends is started again; its readers go on in another one. Needs nginx, on Linux or macOS.
"""

from __future__ import annotations

import gzip
import ipaddress
import re
import secrets
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from importlib.metadata import distribution
from pathlib import Path
from string import Template

from explain import app_process
from explain.lecture import HALL, HALL_KEY, Lecture
from explain.nginx import nginx

WATCH_SECONDS = 0.5
SMALLER_BY_GZIP = (".js", ".css", ".svg")


class HallError(RuntimeError):
    """The hall cannot be served; the message says why and what to do."""


class _Config(Template):
    """nginx has $ for its own variables."""

    delimiter = "%"


@dataclass(frozen=True)
class Hall:
    """What is served: under which name, at which address and port, with which certificate.

    Without `certificate` and `key`, PEM files, one is made that browsers warn of. Raises HallError for a name that is
    none, or a file that is missing.
    """

    name: str
    address: str = "0.0.0.0"
    port: int = 8443
    processes: int = 4
    certificate: Path | None = None
    key: Path | None = None

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[A-Za-z0-9.-]+", self.name):
            raise HallError(f"{self.name!r} is not a host's name, such as hall.example.edu, or an IPv4 address")
        if (self.certificate is None) != (self.key is None):
            raise HallError("a certificate needs its key: give --certificate and --key, or neither")
        for file in filter(None, (self.certificate, self.key)):
            if not file.is_file():
                raise HallError(f"{file} is not a file")

    @property
    def url(self) -> str:
        """Where readers find it."""
        return f"https://{self.name}" + ("" if self.port == 443 else f":{self.port}")


def serve(hall: Hall, folder: Path) -> Iterator[str]:
    """Serves the hall from `folder`, which is empty, while it is iterated: yields what there is to say.

    Raises HallError.
    """
    program = nginx()
    if program is None:
        raise HallError("nginx was not found. Install it: on Debian and Ubuntu, sudo apt install nginx")
    try:
        socket.create_server((hall.address, hall.port)).close()  # nginx would find out later
    except (OSError, OverflowError) as error:
        raise HallError(f"nginx cannot listen at {hall.address}, port {hall.port}: {error}") from None
    ports = app_process.free_ports(hall.processes)
    _prepare(hall, folder, ports)
    front = [program, "-e", "stderr", "-p", str(folder), "-c", "nginx.conf"]
    if subprocess.run([*front, "-t", "-q"], check=False).returncode != 0:
        raise HallError("nginx cannot serve this; the reason is above")
    # A cookie that one process has signed is read by another.
    lecture = Lecture.at(hall.url)
    environment = app_process.environment(
        STREAMLIT_SERVER_COOKIE_SECRET=secrets.token_hex(32), **{HALL: lecture.address, HALL_KEY: lecture.key.hex()}
    )
    with ExitStack() as open_:

        def start(command: Sequence[str]) -> subprocess.Popen[bytes]:
            return open_.enter_context(app_process.running(command, environment))

        proxy = start(front)
        apps = {port: start(_app(hall, port)) for port in ports}
        for port, app in apps.items():
            if not app_process.answers(app, port, hall.name):
                raise HallError(f"the app did not start at port {port}; the reason is above")
        yield f"Tilescope in {hall.processes} processes: {hall.url}"
        yield f"Phones answer at {hall.url}/answer; show its QR code: {hall.url}/room"
        yield f"The lecturer's link, for you alone: {lecture.lecturers_link}"
        while proxy.poll() is None:
            for port, app in apps.items():
                if app.poll() is not None:
                    yield f"The process at port {port} has ended ({app.returncode}); it is started again."
                    apps[port] = start(_app(hall, port))
            time.sleep(WATCH_SECONDS)
        raise HallError(f"nginx has ended ({proxy.returncode}); the reason is above")


def _app(hall: Hall, port: int) -> list[str]:
    return app_process.app_command(
        {"server.address": app_process.HOST, "server.port": port, "server.headless": "true",
         "server.allowedHosts": hall.name, "browser.serverAddress": hall.name}
    )  # fmt: skip


def _prepare(hall: Hall, folder: Path, ports: Sequence[int]) -> None:
    """What nginx reads: its configuration, the certificate with its key, and Streamlit's files, compressed."""
    values = {"name": hall.name, "address": hall.address, "port": hall.port, "ports": "|".join(map(str, ports)),
              "servers": "\n".join(f"        server {app_process.HOST}:{port};" for port in ports)}  # fmt: skip
    config = _Config(Path(__file__).with_name("nginx.conf").read_text(encoding="utf-8"))
    (folder / "nginx.conf").write_text(config.substitute(values), encoding="utf-8")
    if hall.certificate and hall.key:
        (folder / "certificate.pem").symlink_to(hall.certificate.resolve())
        (folder / "key.pem").symlink_to(hall.key.resolve())
    else:
        sign(hall.name, folder)
    files = Path(str(distribution("streamlit").locate_file("streamlit/static")))
    for file in (files / "static").rglob("*.*"):
        served = folder / file.relative_to(files)
        served.parent.mkdir(parents=True, exist_ok=True)
        if file.suffix in SMALLER_BY_GZIP:
            served.with_name(f"{served.name}.gz").write_bytes(gzip.compress(file.read_bytes(), 6))
        else:
            shutil.copy(file, served)
    folder.chmod(0o755)  # started by root, nginx gives its workers another user


def sign(name: str, folder: Path) -> None:
    """A self-signed certificate for `name`, for a week."""
    try:
        ipaddress.ip_address(name)
        kind = "IP"
    except ValueError:
        kind = "DNS"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
               "-keyout", "key.pem", "-out", "certificate.pem", "-days", "7", "-subj", f"/CN={name}",
               "-addext", f"subjectAltName={kind}:{name}"]  # fmt: skip
    try:
        subprocess.run(command, cwd=folder, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise HallError(f"openssl made no certificate ({error}); give one: --certificate and --key") from None
