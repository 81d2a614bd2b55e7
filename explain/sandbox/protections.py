"""What a process gives up before it runs somebody else's code, and the test that it cannot take it back."""

from __future__ import annotations

import errno
import functools
import json
import os
import signal
import socket
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from explain import ROOT
from explain.sandbox import landlock, seccomp
from explain.sandbox.system import (
    CLONE_NEWIPC,
    CLONE_NEWNET,
    CLONE_NEWUSER,
    PR_SET_NO_NEW_PRIVS,
    drop_capabilities,
    prctl,
    unshare,
)

REFUSED = (errno.EPERM, errno.EACCES)


@dataclass(frozen=True)
class Protections:
    """What this machine can protect itself with. `broken` are the things that a locked process could still do."""

    landlock: int
    seccomp: bool
    own_network: bool
    broken: tuple[str, ...] = ()

    @property
    def complete(self) -> bool:
        """Whether third-party code may run here."""
        return self.landlock > 0 and self.seccomp and not self.broken

    @property
    def line(self) -> str:
        """The protections in one line."""
        network = "network of its own" if self.own_network else "shared network, no sockets"
        parts = [
            f"Landlock {self.landlock}" if self.landlock else "no Landlock",
            "seccomp" if self.seccomp else "no seccomp for this processor",
            network if self.seccomp else "open network",
            "limits of time, memory and output",
        ]
        failed = f"; a locked process can still {', '.join(self.broken)}" if self.broken else ""
        return ", ".join(parts) + failed


def give_up_rights() -> None:
    """Gives up all rights of root, and takes a network without devices. The process must have one thread."""
    prctl(PR_SET_NO_NEW_PRIVS, 1)
    leave_namespaces()
    drop_capabilities()


def lock(more: Iterable[Path] = ()) -> None:
    """Locks this process, for good, once it gave up its rights. Raises OSError if a protection is missing.

    What it has open stays open. It can read files of Python, its packages, `explain` and `kernels`, and below `more`.
    """
    landlock.restrict([*readable(), *more])
    seccomp.restrict()


def leave_namespaces() -> bool:
    """Takes a network without devices; False where the system allows none, and seccomp alone forbids sockets."""
    for flags in (CLONE_NEWUSER | CLONE_NEWNET | CLONE_NEWIPC, CLONE_NEWNET | CLONE_NEWIPC):
        with suppress(OSError):
            unshare(flags)
            return True
    return False


def readable() -> list[Path]:
    """The folders from which Python and its packages may still import, and two devices."""
    names = ("stdlib", "platstdlib", "purelib", "platlib")
    libraries = {Path(sysconfig.get_path(name)) for name in names}
    libraries |= {Path(path) for path in sys.path if path.endswith(("-packages", "lib-dynload"))}
    return [*sorted(libraries), ROOT / "explain", ROOT / "kernels", Path("/dev/null"), Path("/dev/urandom")]


def limit(seconds: float, megabytes: float, output_bytes: int) -> None:
    """Limits this process for good: seconds of processor time, 10^6 bytes of memory more than now, bytes in a file."""
    import resource

    mapped = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * resource.getpagesize()
    processor = int(seconds) + 1
    limits = {
        resource.RLIMIT_AS: mapped + int(megabytes * 1e6),
        resource.RLIMIT_FSIZE: output_bytes,
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_NOFILE: 64,
        resource.RLIMIT_MEMLOCK: 0,
        resource.RLIMIT_MSGQUEUE: 0,
    }
    for name, value in limits.items():
        hard = resource.getrlimit(name)[1]
        most = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(name, (most, most))
    resource.setrlimit(resource.RLIMIT_CPU, (processor, processor + 1))


@functools.cache
def protections() -> Protections:
    """What this machine offers, tried once in a locked process. It forks: call it where no thread holds a lock."""
    from explain.sandbox.process import Limits, run

    known, filtered = landlock.version(), seccomp.known_here()
    if not (known and filtered):
        return Protections(known, filtered, False)
    with tempfile.TemporaryDirectory(prefix="tilescope-") as folder:
        secret = Path(folder, "secret")
        secret.write_text("outside")
        limits = Limits(seconds=5, megabytes=200)
        ended = run(lambda: [_attempts(secret, os.getppid())], limits)
        network = run(lambda: [bytes([leave_namespaces()])], limits, locked=False)
    broken = ("do anything: " + ended.why,) if ended.why else tuple(json.loads(ended.answer))
    return Protections(known, filtered, network.answer == b"\1", broken)


def _attempts(secret: Path, parent: int) -> bytes:
    """In a locked process: what it can still do, as JSON."""

    def fork() -> None:
        if os.fork() == 0:
            os._exit(0)

    attempts: dict[str, Callable[[], object]] = {
        "read a file outside": secret.read_text,
        "write a file": lambda: secret.write_text("changed"),
        "read its parent's memory": lambda: os.open(f"/proc/{parent}/mem", os.O_RDONLY),
        "signal its parent": lambda: os.kill(parent, signal.SIGCONT),
        "start a process": fork,
        "run a program": lambda: os.execv("/nothing", ["/nothing"]),
        "open a socket": socket.socket,
    }
    broken = []
    for name, attempt in attempts.items():
        try:
            attempt()
        except OSError as error:
            if error.errno in REFUSED:
                continue
        broken.append(name)
    return json.dumps(broken).encode()
