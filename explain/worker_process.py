"""The worker's own side: a process that imports one function and answers requests with it.

`explain.workers` starts it as `python -m explain.worker_process TARGET SOCKET LIFELINE`, with a target
"package.module:function" and the numbers of two inherited sockets. Requests and answers are JSON after its length.
"""

from __future__ import annotations

import errno
import faulthandler
import gc
import io
import json
import os
import signal
import socket
import sys
import sysconfig
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import psutil

Progress = Callable[[str, float], None]
"""Called with what is being done, in words, and the fraction that is done, 0 to 1."""

REPLY_BYTES = 16 * 1024 * 1024
PREFIX_BYTES = 4


def encode(message: dict[str, Any]) -> bytes:
    """The message's JSON, with its length before it."""
    body = json.dumps(message).encode()
    return len(body).to_bytes(PREFIX_BYTES) + body


def _serve(target: str, socket_fd: int, lifeline_fd: int) -> None:
    """Imports `target`, then answers requests until the parent closes the socket."""
    _prepare(socket_fd, lifeline_fd)
    channel = socket.socket(fileno=socket_fd)
    requests = channel.makefile("rb")
    sending = threading.Lock()  # threads of a handler may report progress too

    pid = os.getpid()

    def send(data: bytes) -> None:
        if os.getpid() != pid:  # a run forked, and this is the copy, which must not answer
            os._exit(0)
        with sending:
            channel.sendall(data)

    try:
        module, _, name = target.partition(":")
        handler = getattr(import_module(module), name)
    except BaseException as error:
        traceback.print_exc()
        send(encode({"unavailable": f"{type(error).__name__}: {error}"}))
        return
    gc.freeze()
    send(encode({"warm": True}))
    while prefix := requests.read(PREFIX_BYTES):
        message = json.loads(requests.read(int.from_bytes(prefix)))
        send(_answer(handler, message, send))
        gc.collect()  # otherwise this run's cycles would count as memory of the next one


def _prepare(socket_fd: int, lifeline_fd: int) -> None:
    import ctypes
    import fcntl
    import resource

    for fd in (socket_fd, lifeline_fd):
        os.set_inheritable(fd, False)
    # Only the parent holds the other end of the lifeline. When the parent is gone, the kernel kills this whole group,
    # even while a C loop holds the interpreter. PR_SET_PDEATHSIG follows the thread that started the worker instead,
    # and Streamlit's threads come and go.
    fcntl.fcntl(lifeline_fd, fcntl.F_SETOWN, -os.getpgrp())
    fcntl.fcntl(lifeline_fd, fcntl.F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(lifeline_fd, fcntl.F_SETFL, os.O_ASYNC)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    pr_set_child_subreaper = 36  # orphans become the worker's children, which it can find and end
    ctypes.CDLL(None).prctl(pr_set_child_subreaper, 1, 0, 0, 0)
    with suppress(OSError):  # when memory runs out, the kernel ends a worker, not the server
        Path("/proc/self/oom_score_adj").write_text("1000")
    faulthandler.enable()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)  # a crash loses what is still buffered


def _answer(handler: Callable[..., Any], message: dict[str, Any], send: Callable[[bytes], None]) -> bytes:
    """The encoded reply to one request; the processes that the request started end with it."""
    number, threads, streams = message["number"], threading.active_count(), (sys.stdout, sys.stderr)

    def progress(text: str, fraction: float) -> None:
        send(encode({"number": number, "progress": [text, fraction]}))

    try:
        try:
            with _address_space(message["megabytes"]):
                value = handler(message["request"], progress)
        finally:
            sys.stdout, sys.stderr = streams  # a run may have replaced them
            _end_children()
        left = threading.active_count() > threads  # it would disturb the next run and cannot be ended
        reply = encode({"number": number, "ok": True, "value": value, "retire": left})
        if len(reply) > REPLY_BYTES:
            raise ValueError(f"the answer has {len(reply)} bytes, at most {REPLY_BYTES} are allowed: use a file")
    except BaseException as error:  # SystemExit too: the worker outlives the run
        with suppress(OSError, ValueError):  # a run may have closed the streams
            traceback.print_exc()
        chain = [error]
        while (cause := chain[-1].__cause__) is not None:
            chain.append(cause)
        no_memory = os.strerror(errno.ENOMEM)  # torch raises a RuntimeError that says so, numpy a MemoryError
        reply = encode(
            {
                "number": number,
                "ok": False,
                "error": {"type": type(error).__name__, "message": str(error), "where": _where(chain)},
                "memory": any(
                    isinstance(e, MemoryError) or no_memory in str(e) or (message["megabytes"] and _unsaid(e))
                    for e in chain
                ),
                "retire": threading.active_count() > threads or any(getattr(e, "retire_worker", False) for e in chain),
            }
        )
    with suppress(OSError, ValueError):
        sys.stdout.flush()
        sys.stderr.flush()
    return reply


def _unsaid(error: BaseException) -> bool:
    """Whether a library failed without setting an exception, as some do when they get no memory."""
    return isinstance(error, SystemError) and "without" in str(error) and "exception" in str(error)


def _where(chain: list[BaseException]) -> str:
    """The innermost line in the error or its causes that is not in an installed library."""
    libraries = ("<frozen", *(sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")))
    frames = [frame for error in chain for frame in traceback.extract_tb(error.__traceback__)]
    frame = [frame for frame in frames if not frame.filename.startswith(libraries)][-1]
    return f"{frame.filename}:{frame.lineno} in {frame.name}"


@contextmanager
def _address_space(megabytes: float | None) -> Iterator[None]:
    """Lets this process map so much more memory: a larger array is a MemoryError at once."""
    import resource

    if megabytes is None:
        yield
        return
    before, hard = resource.getrlimit(resource.RLIMIT_AS)
    mapped = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    limits = {mapped + int(megabytes * 1e6), before, hard} - {resource.RLIM_INFINITY}
    resource.setrlimit(resource.RLIMIT_AS, (min(limits), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (before, hard))


def _end_children() -> None:
    with suppress(ChildProcessError):  # raised when there are none, the usual case
        while True:
            os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            for process in psutil.Process().children(recursive=True):
                with suppress(psutil.Error):
                    process.kill()
            os.waitpid(-1, 0)


if __name__ == "__main__":
    _serve(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
