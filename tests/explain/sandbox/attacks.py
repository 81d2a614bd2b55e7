"""What third-party code may try in its process. A worker has this module; `test_attacks` sends it the names.

An attack that gets what it wants returns; one that the system refuses raises. None would do harm if it succeeded:
signals are number 0, and files are the test's own.
"""

from __future__ import annotations

import ctypes
import errno
import gc
import itertools
import os
import resource
import signal
import socket
import subprocess
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from explain import ROOT
from explain.sandbox.process import Limits, run

REFUSED = (errno.EPERM, errno.EACCES, errno.ENOSYS)
ESCAPED, PREVENTED = b"escaped", b"prevented"
SECONDS = 0.4
LIMITS = Limits(seconds=20, megabytes=150, output_bytes=4096, answer_bytes=100_000)

Attack = Callable[[Path, int], object]
"""Gets a file outside, which it may not touch, and its parent's process id."""


def handle(request: Mapping[str, Any], _progress: object) -> dict[str, Any]:
    """Runs one attack in a locked process, and says how it ended."""
    limits = replace(LIMITS, seconds=SECONDS) if request["attack"] in EXHAUSTIONS else LIMITS
    attack, secret = {**ATTEMPTS, **EXHAUSTIONS}[request["attack"]], Path(request["secret"])
    parent = os.getpid()
    with secret.open("rb") as held:  # open in the parent, as its sockets are
        os.set_inheritable(held.fileno(), True)
        ended = run(lambda: [_tried(attack, secret, parent)], limits, locked=request["locked"])
    return {"answer": ended.answer.decode(errors="replace"), "why": ended.why, "output": ended.output}


def _tried(attack: Attack, secret: Path, parent: int) -> bytes:
    try:
        attack(secret, parent)
    except OSError as error:
        if error.errno not in REFUSED:
            raise
        return PREVENTED
    return ESCAPED


def _call(number: int, *arguments: Any) -> int:
    """A system call without Python's help; x86-64's numbers."""
    result = int(ctypes.CDLL(None, use_errno=True).syscall(number, *arguments))
    if result < 0:
        raise OSError(ctypes.get_errno(), "refused")
    return result


def _double_fork(*_: object) -> None:
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            time.sleep(30)
        os._exit(0)


def _own_the_pipe(_secret: Path, parent: int) -> None:
    """Lets the kernel send a signal to the parent when the pipe moves."""
    import fcntl

    fcntl.fcntl(1, fcntl.F_SETOWN, parent)


def _read_open_files(secret: Path, _parent: int) -> None:
    """Reads what the parent has open: the secret is."""
    for fd in range(3, 64):
        with suppress(OSError):
            if os.pread(fd, 100, 0):
                return
    raise PermissionError(errno.EACCES, "nothing to read")


def _read_environment(*_: object) -> None:
    if "SECRET" not in os.environ and "SECRET" not in str(_environment_of_the_library()):
        raise PermissionError(errno.EACCES, "no secret")


def _environment_of_the_library() -> list[bytes]:
    strings = ctypes.POINTER(ctypes.c_char_p).in_dll(ctypes.CDLL(None), "environ")
    return list(itertools.takewhile(lambda value: value is not None, (strings[at] for at in itertools.count())))


def _ask_for_input(*_: object) -> None:
    try:
        input()
    except EOFError as error:
        raise PermissionError(errno.EACCES, "no input") from error


def _send_on_other_files(*_: object) -> None:
    """Writes an answer of its own to everything that is open, but its own answer's pipe: the protocol's socket too."""
    own_pipe, reached = 3, 0
    for fd in range(own_pipe, 64):
        with suppress(OSError):
            os.fstat(fd)
            reached += 1
    if reached <= 1:
        raise PermissionError(errno.EACCES, "nothing else is open")


def _search_memory(*_: object) -> None:
    """Looks in every frame and every object for what the parent knows."""
    frames = (frame for frame, _ in traceback.walk_stack(None))
    if any("expected" in frame.f_locals for frame in frames):
        return
    if not any(isinstance(one, dict) and "expected" in one and "seed" in one for one in gc.get_objects()):
        raise PermissionError(errno.EACCES, "not in memory")


def _spawn(*_: object) -> None:
    subprocess.run(["/bin/true"], check=True)


def _raise_limit(*_: object) -> None:
    try:
        resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    except ValueError as error:  # how Python says EPERM here
        raise PermissionError(errno.EPERM, "refused") from error


def _preload(secret: Path, _parent: int) -> None:
    """Changes a package for everybody who imports it next."""
    with Path(os.__file__).open("a"):
        return


ATTEMPTS: dict[str, Attack] = {
    "read a file": lambda secret, _: secret.read_bytes(),
    "read the passwords": lambda *_: Path("/etc/shadow").read_bytes(),
    "read the project's settings": lambda *_: (ROOT / "pyproject.toml").read_bytes(),
    "list a folder": lambda secret, _: os.listdir(secret.parent),
    "read by a path through /proc": lambda secret, _: Path(f"/proc/self/root{secret}").read_bytes(),
    "make a symbolic link": lambda secret, _: (secret.parent / "link").symlink_to(secret),
    "follow a symbolic link": lambda secret, _: secret.with_name("prepared link").read_bytes(),
    "make a hard link": lambda secret, _: os.link(secret, secret.with_name("hard")),
    "write a file": lambda secret, _: secret.write_bytes(b"changed"),
    "make a file": lambda secret, _: secret.with_name("new").touch(),
    "cut a file": lambda secret, _: os.truncate(secret, 0),
    "remove a file": lambda secret, _: secret.unlink(),
    "rename a file": lambda secret, _: secret.rename(secret.with_name("renamed")),
    "make a folder": lambda secret, _: secret.with_name("folder").mkdir(),
    "change a file's rights": lambda secret, _: secret.chmod(0o777),
    "change a file's time": lambda secret, _: os.utime(secret, (0, 0)),
    "change a file's owner": lambda secret, _: os.chown(secret, 1, 1),
    "change a file's attributes": lambda secret, _: os.setxattr(secret, "user.a", b"b"),
    "make a named pipe": lambda secret, _: os.mkfifo(secret.with_name("pipe")),
    "make a device": lambda secret, _: os.mknod(secret.with_name("null"), 0o20666, os.makedev(1, 3)),
    "change the standard library": _preload,
    "write shared memory": lambda *_: Path("/dev/shm/tilescope-attack").touch(),
    "make a file in memory": lambda *_: os.memfd_create("attack"),
    "keep memory after its end": lambda *_: _call(29, 0, 4096, 0o1600),
    "read its own process's files": lambda *_: Path("/proc/self/environ").read_bytes(),
    "read the parent's environment": lambda _, parent: Path(f"/proc/{parent}/environ").read_bytes(),
    "open the parent's memory": lambda _, parent: os.open(f"/proc/{parent}/mem", os.O_RDWR),
    "open the parent's files": lambda _, parent: os.listdir(f"/proc/{parent}/fd"),
    "copy the parent's memory": lambda _, parent: _call(310, parent, None, 0, None, 0, 0),
    "trace the parent": lambda _, parent: _call(101, 16, parent, None, None),
    "let the parent trace it": lambda *_: _call(101, 0, 0, None, None),
    "take the parent's files": lambda _, parent: _call(438, os.pidfd_open(parent), 0, 0),
    "signal the parent": lambda _, parent: os.kill(parent, 0),
    "signal everybody": lambda *_: os.kill(-1, 0),
    "signal the parent's thread": lambda _, parent: _call(234, parent, parent, 0),
    "signal by a handle": lambda _, parent: signal.pidfd_send_signal(os.pidfd_open(parent), 0),
    "queue a signal": lambda _, parent: _call(129, parent, 0, None),
    "let a pipe signal the parent": _own_the_pipe,
    "limit the parent": lambda _, parent: resource.prlimit(parent, resource.RLIMIT_NOFILE),
    "slow the parent": lambda _, parent: os.setpriority(os.PRIO_PROCESS, parent, 19),
    "move the parent to a core": lambda _, parent: os.sched_setaffinity(parent, {0}),
    "start a process": lambda *_: os.fork() or os._exit(0),
    "start one that leaves": _double_fork,
    "start a program beside it": _spawn,
    "become a program": lambda *_: os.execv("/bin/true", ["true"]),
    "become a program by its file": lambda *_: _call(322, 1, b"", None, None, 0x1000),
    "start a brother": lambda *_: _call(56, 0x8000 | signal.SIGCHLD, 0, 0, 0, 0) or os._exit(0),
    "start a process another way": lambda *_: _call(435, None, 0),
    "open a connection": lambda *_: socket.create_connection(("127.0.0.1", 9), 0.1),
    "send a packet": lambda *_: socket.socket(socket.AF_INET, socket.SOCK_DGRAM),
    "open a local socket": lambda *_: socket.socket(socket.AF_UNIX),
    "make a pair of sockets": lambda *_: socket.socketpair(),
    "talk to the kernel": lambda *_: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW),
    "make calls by a ring": lambda *_: _call(425, 8, None),
    "be root again": lambda *_: os.setresuid(0, 0, 0),
    "leave its namespaces": lambda *_: _call(272, 0x10000000),
    "mount a file system": lambda *_: _call(165, b"none", b"/mnt", b"tmpfs", 0, None),
    "change the root": lambda *_: os.chroot("/usr"),
    "load code into the kernel": lambda *_: _call(321, 0, None, 0),
    "watch the processor": lambda *_: _call(298, None, 0, -1, -1, 0),
    "use the keyring": lambda *_: _call(250, 0, -3, 0),
    "set the clock": lambda *_: time.clock_settime(time.CLOCK_REALTIME, time.time()),
    "outlive its parent": lambda *_: _call(157, 1, 0, 0, 0, 0),
    "lock itself otherwise": lambda *_: _call(317, 1, 0, None),
    "raise its limit": _raise_limit,
    "read what the parent has open": _read_open_files,
    "send on what the parent has open": _send_on_other_files,
    "read a secret of the environment": _read_environment,
    "ask for input": _ask_for_input,
    "find the answer in memory": _search_memory,
}
"""Each is refused by the system, or finds nothing."""
HARMLESS = (
    "read a file", "list a folder", "read by a path through /proc", "follow a symbolic link", "make a file in memory",
    "read its own process's files", "signal the parent", "start a process", "open a local socket",
    "make a pair of sockets", "become a program",
)  # fmt: skip
"""What an unlocked process may do: here the attack itself is tested."""


def _deaf_loop(*_: object) -> None:
    for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}:
        with suppress(OSError, ValueError):
            signal.signal(number, signal.SIG_IGN)
    while True:
        pass


def _flood(*_: object) -> None:
    while True:
        print("flood" * 100, flush=True)


def _threads(*_: object) -> None:
    while True:
        threading.Thread(target=time.sleep, args=(60,)).start()


def _answer_for_ever(*_: object) -> None:
    while True:
        os.write(3, bytes(1000))


def _dribble(*_: object) -> None:
    while True:
        os.write(3, b".")
        time.sleep(0.01)


def _files(*_: object) -> None:
    while True:
        os.dup(0)


def _thread_that_stays(*_: object) -> None:
    threading.Thread(target=_deaf_thread).start()
    raise SystemExit(0)


def _deaf_thread() -> None:
    time.sleep(60)
    os.write(3, ESCAPED)


EXHAUSTIONS: dict[str, Attack] = {
    "loop": lambda *_: [None for _ in iter(int, 1)],
    "loop without hearing": _deaf_loop,
    "take memory": lambda *_: bytearray(1 << 30),
    "take memory bit by bit": lambda *_: [bytearray(1 << 22) for _ in iter(int, 1)],
    "flood the output": _flood,
    "start threads": _threads,
    "answer for ever": _answer_for_ever,
    "answer slowly": _dribble,
    "open files": _files,
    "leave a thread behind": _thread_that_stays,
    "call by another interface": lambda *_: _call(0x40000000 | 39),
    "abort": lambda *_: os.abort(),
    "read where nothing is": lambda *_: ctypes.string_at(0),
    "nest too deep": lambda *_: _deeper([]),
}
"""Each ends at a limit, or by its own fault, without an answer."""


def _deeper(one: list[Any]) -> None:
    _deeper([one])
