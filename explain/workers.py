"""Warm worker processes, each request held to a time limit and a memory limit.

A kernel may loop for ever, eat the machine's memory or crash its interpreter: in a worker that costs its own
run and no more. A worker imports one function (the slow part: torch, triton) before it is needed, then answers
one request at a time. The two sides exchange length-prefixed JSON over a socket pair of their own, because
kernels may print; results beyond a few megabytes travel in files that the request names.

Workers need Linux. Anywhere else this module still imports, and a call raises `WorkerUnavailable`.
"""

from __future__ import annotations

import errno
import faulthandler
import gc
import io
import itertools
import json
import math
import os
import select
import signal
import socket
import subprocess
import sys
import sysconfig
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import psutil

Progress = Callable[[str, float], None]
"""Called with what is being done, in words, and the fraction done, 0 to 1."""

WARM_UP_SECONDS = 120  # importing torch and triton takes 4 s, and half a minute from a cold disk
WATCH_SECONDS = 0.05  # how often limits and cancellation are looked at
OUTPUT_BYTES = 64 * 1024  # how much of what a worker prints is kept: the end, where the reason is
REPLY_BYTES = 16 * 1024 * 1024
PREFIX_BYTES = 4
ROOT = Path(__file__).resolve().parent.parent

DEATHS = {  # by name: Windows lacks some of these signals
    "SIGSEGV": "a segmentation fault: it touched memory that is not its own",
    "SIGBUS": "a bus error: it touched memory that is not there",
    "SIGABRT": "an abort: a library found its own state broken",
    "SIGFPE": "an arithmetic fault, such as an integer division by zero",
    "SIGILL": "an instruction that this processor does not have",
    "SIGKILL": "a kill from outside, most often because the machine ran out of memory",
}

_numbers = itertools.count()  # of requests: a reply names the one it answers


class WorkerError(Exception):
    """A request that got no answer. The message is meant for the reader of the page."""

    @property
    def words(self) -> str:
        """What happened, for a reader who did not write the code."""
        return str(self)


class WorkerUnavailable(WorkerError):
    """The worker could not be started; `reason` says why."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"Kernels cannot be run here: {reason}")
        self.reason = reason


class WorkerTimeout(WorkerError):
    """The run took longer than `seconds`."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"The run was stopped: it took longer than its limit of {seconds:g} s.")
        self.seconds = seconds


class WorkerOutOfMemory(WorkerError):
    """The run needed more than `megabytes` (10^6 bytes) of host memory on top of the warm worker's."""

    def __init__(self, megabytes: float) -> None:
        super().__init__(f"The run was stopped: it needed more memory than its limit of {megabytes:g} MB.")
        self.megabytes = megabytes


class WorkerCancelled(WorkerError):
    """The caller's `cancel` event was set."""

    def __init__(self) -> None:
        super().__init__("The run was cancelled.")


class WorkerFailed(WorkerError):
    """The handler raised `type`: `message`, at `where` ("file:line in function"); the run printed `output`."""

    def __init__(self, type: str, message: str, where: str, output: str) -> None:
        super().__init__(f"{type}: {message} ({where})")
        self.type, self.message, self.where, self.output = type, message, where, output

    @property
    def words(self) -> str:
        return self.message


class WorkerDied(WorkerError):
    """The process ended by itself, with `signal` or else with exit code `code`; it last printed `output`."""

    def __init__(self, returncode: int, output: str) -> None:
        self.signal = next((s for s in signal.Signals if s == -returncode), None)
        self.code = None if self.signal else returncode
        self.output = output
        end = f"exit code {returncode}"
        if self.signal:
            end = f"{DEATHS.get(self.signal.name, signal.strsignal(self.signal))} ({self.signal.name})"
        super().__init__(f"The process running the kernel ended with {end}.")


@dataclass(frozen=True)
class WorkerSpec:
    """What a worker is.

    `target` is "package.module:function"; the worker imports it and calls it as `function(request, progress)`
    with a JSON object, and it returns one. An exception whose type has `retire_worker = True` also has the
    worker replaced, for what nothing repairs, such as a CUDA context after an illegal access.
    `address_space_limit=False` is for CUDA, which reserves far more addresses than it uses: memory is then only
    watched, where otherwise an allocation beyond the limit fails at once. With `nice` above 0 the pages go before it where both want a core.
    """

    name: str
    target: str
    env: tuple[tuple[str, str], ...] = ()
    default_seconds: float = 30.0
    default_megabytes: float = 2000.0
    address_space_limit: bool = True
    nice: int = 0


class WorkerPool:
    """`size` workers that answer calls from any thread, first come, first served."""

    def __init__(self, spec: WorkerSpec, size: int = 1) -> None:
        if size < 1:
            raise ValueError(f"size is {size!r}; a pool needs at least 1 worker")
        self.spec = spec
        self._free: list[_Worker | None] = [None] * size  # None: a place whose worker is not started
        self._busy = 0
        self._waiting: deque[object] = deque()
        self._changed = threading.Condition()
        self._closed = False

    def warm(self) -> None:
        """Starts every worker and waits for none. What keeps one from starting is told by `call`."""
        with self._changed, suppress(WorkerUnavailable):
            if not self._closed:
                self._free = [worker or _Worker(self.spec) for worker in self._free]

    def call(
        self,
        request: dict[str, Any],
        *,
        seconds: float | None = None,
        megabytes: float | None = None,
        progress: Progress | None = None,
        cancel: threading.Event | None = None,
    ) -> dict[str, Any]:
        """The handler's answer to `request`. Waiting for a free, warm worker does not count against `seconds`.

        `progress` is called in this thread, and what it raises ends the run. Limits not given are the spec's.
        Raises a `WorkerError`; ValueError for a limit that is not finite and above 0; TypeError for a request
        that JSON cannot hold.
        """
        seconds = self.spec.default_seconds if seconds is None else seconds
        megabytes = self.spec.default_megabytes if megabytes is None else megabytes
        for name, limit in (("seconds", seconds), ("megabytes", megabytes)):
            if not 0 < limit < math.inf:
                raise ValueError(f"{name} is {limit!r}; a limit is a finite number above 0")
        address_space = megabytes if self.spec.address_space_limit else None
        number = next(_numbers)
        message = _encode({"number": number, "request": request, "megabytes": address_space})

        def check() -> None:
            if cancel is not None and cancel.is_set():
                raise WorkerCancelled
            if self._closed:
                raise WorkerUnavailable("the workers were closed.")

        worker = self._take(check, poll=cancel is not None)
        try:
            if worker is not None and worker.warm and worker.dead():
                worker.end()
                worker = None
            worker = worker or _Worker(self.spec)
            worker.wait_until_warm(check)
            return worker.run(number, message, seconds, megabytes, progress, check)
        finally:
            self._give_back(worker)

    def close(self) -> None:
        """Ends every worker, busy ones too: their calls, and later ones, raise `WorkerUnavailable`."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._busy == 0, timeout=5)
            workers, self._free = self._free, [None] * len(self._free)
        for worker in workers:
            if worker is not None:
                worker.end()

    def __enter__(self) -> WorkerPool:
        self.warm()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _take(self, check: Callable[[], None], poll: bool) -> _Worker | None:
        ticket = object()
        with self._changed:
            self._waiting.append(ticket)
            try:
                check()
                while not (self._waiting[0] is ticket and self._free):
                    self._changed.wait(WATCH_SECONDS if poll else None)
                    check()
                self._busy += 1
                return self._free.pop(0)
            finally:
                self._waiting.remove(ticket)
                self._changed.notify_all()

    def _give_back(self, worker: _Worker | None) -> None:
        if worker is not None and (self._closed or not worker.sound):
            worker.end()
            failed_to_warm = not worker.warm  # and another would only fail again
            worker = None
            if not (self._closed or failed_to_warm):
                with suppress(WorkerUnavailable):
                    worker = _Worker(self.spec)
        with self._changed:
            self._busy -= 1
            self._free.insert(0, worker)
            self._changed.notify_all()


class _Worker:
    """One process, seen from the parent. Used by one thread at a time: the pool sees to that.

    `sound` is false from a request until its reply: whatever comes between leaves it so, and the pool ends it.
    """

    def __init__(self, spec: WorkerSpec) -> None:
        if sys.platform != "linux":
            raise WorkerUnavailable(f"worker processes need Linux, and this is {sys.platform}.")
        self.warm, self.sound = False, True
        self._name = spec.name
        env = {**os.environ, **dict(spec.env)}
        env["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), env.get("PYTHONPATH")]))
        self._socket, socket_there = socket.socketpair()
        self._lifeline, lifeline_there = socket.socketpair()  # never written to; see _prepare
        with socket_there, lifeline_there:
            fds = (socket_there.fileno(), lifeline_there.fileno())
            try:
                self._popen = subprocess.Popen(
                    # -P: a random.py in the current folder must not stand in for the standard library's
                    [sys.executable, "-P", "-m", "explain.workers", spec.target, *map(str, fds)],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    bufsize=0,
                    env=env,
                    pass_fds=fds,
                    start_new_session=True,
                )
            except OSError as error:
                raise WorkerUnavailable(f"the {spec.name} worker did not start: {error}") from error
        _step_back(self._popen.pid, spec.nice)
        assert self._popen.stdout is not None
        self._process = psutil.Process(self._popen.pid)
        self._children: list[psutil.Process] = []
        self._output = self._popen.stdout
        self._printed = self._inbox = b""
        self._poll = select.poll()
        self._poll.register(self._socket, select.POLLIN)
        self._poll.register(self._output, select.POLLIN)

    def wait_until_warm(self, check: Callable[[], None]) -> None:
        deadline = time.monotonic() + WARM_UP_SECONDS
        while not self.warm:
            check()
            try:
                for message in self._receive():
                    if "unavailable" in message:
                        raise self._unavailable(message["unavailable"])
                    self.warm = True
            except WorkerDied as death:
                last = death.output.strip().rpartition("\n")[2]
                raise self._unavailable(f"{death} {last}") from death
            if time.monotonic() > deadline:
                raise self._unavailable(f"the {self._name} worker was not ready after {WARM_UP_SECONDS} s.")

    def _unavailable(self, reason: str) -> WorkerUnavailable:
        self.sound = False
        return WorkerUnavailable(reason)

    def run(
        self,
        number: int,
        message: bytes,
        seconds: float,
        megabytes: float,
        progress: Progress | None,
        check: Callable[[], None],
    ) -> dict[str, Any]:
        """Sends request `number`, a `message`, and waits for its reply; `check` raises to end the run."""
        self.sound = False
        self._drain()
        self._printed = b""
        ceiling = _memory([self._process]) + megabytes * 1e6
        started = looked = time.monotonic()
        times_over = 0
        self._socket.settimeout(seconds)
        try:
            self._socket.sendall(message)
        except TimeoutError:
            raise WorkerTimeout(seconds) from None
        except OSError:
            raise self._death() from None
        while True:
            for answer in self._receive():
                if answer.get("number") != number:  # an earlier run's thread, still talking
                    continue
                if "progress" not in answer:
                    return self._conclude(answer, megabytes)
                if progress is not None:
                    progress(*answer["progress"])
            check()
            now = time.monotonic()
            if now - started >= seconds:
                raise WorkerTimeout(seconds)
            if now - looked >= WATCH_SECONDS:
                looked = now
                if self.dead():  # unseen by _receive where a child of it keeps the socket open
                    raise self._death()
                # Once may be chance: from vfork to exec a child looks as large as its parent.
                times_over = times_over + 1 if self._over(ceiling) else 0
                if times_over == 2:
                    raise WorkerOutOfMemory(megabytes)

    def dead(self) -> bool:
        """Looks without reaping: until `_kill`, the number of the process must not be given to another."""
        try:
            return bool(self._process.status() == psutil.STATUS_ZOMBIE)
        except psutil.NoSuchProcess:
            return True

    def end(self) -> None:
        self._kill()
        for end in (self._socket, self._lifeline, self._output):
            end.close()

    def _receive(self) -> Iterator[dict[str, Any]]:
        """The messages that come within `WATCH_SECONDS`, taking in what is printed meanwhile."""
        ready = {fd for fd, _ in self._poll.poll(WATCH_SECONDS * 1000)}
        if self._output.fileno() in ready:
            self._read_output()
        if self._socket.fileno() in ready:
            try:
                chunk = self._socket.recv(1 << 20)
            except ConnectionError:
                chunk = b""
            if not chunk:
                raise self._death()
            self._inbox += chunk
        while len(self._inbox) >= PREFIX_BYTES:
            end = PREFIX_BYTES + int.from_bytes(self._inbox[:PREFIX_BYTES])
            if len(self._inbox) < end:
                break
            body, self._inbox = self._inbox[PREFIX_BYTES:end], self._inbox[end:]
            yield json.loads(body)

    def _read_output(self) -> None:
        chunk = os.read(self._output.fileno(), OUTPUT_BYTES)
        self._printed = (self._printed + chunk)[-OUTPUT_BYTES:]
        if not chunk:  # closed by the worker, which a poll would report for ever
            self._poll.unregister(self._output)

    def _drain(self) -> None:
        """Takes in what is left to read; bounded, since a process out of reach may print for ever."""
        for _ in range(16):
            if self._output.fileno() not in {fd for fd, _ in self._poll.poll(0)}:
                break
            self._read_output()

    def _conclude(self, reply: dict[str, Any], megabytes: float) -> dict[str, Any]:
        self.sound = not reply["retire"]
        if reply["ok"]:
            value: dict[str, Any] = reply["value"]
            return value
        self._drain()
        if reply["memory"]:
            raise WorkerOutOfMemory(megabytes)
        raise WorkerFailed(**reply["error"], output=self._printed.decode(errors="replace"))

    def _death(self) -> WorkerDied:
        """What ended the process. One that only hung up is ended here."""
        self._kill()
        self._drain()
        code = self._popen.returncode
        return WorkerDied(-signal.SIGKILL if code is None else code, self._printed.decode(errors="replace"))

    def _kill(self) -> None:
        """Kills the process, its group, and the descendants that left the group."""
        if self._popen.returncode is not None:
            return
        self._find_children()
        with suppress(ProcessLookupError):
            os.killpg(self._popen.pid, signal.SIGKILL)
        for child in self._children:
            with suppress(psutil.Error):
                child.kill()
        with suppress(subprocess.TimeoutExpired):  # the driver may hold a dying CUDA process for a while
            self._popen.wait(timeout=1)

    def _find_children(self) -> None:
        with suppress(psutil.Error):  # those last seen stay known: a dead parent's can no longer be found
            self._children = self._process.children(recursive=True) or self._children

    def _over(self, ceiling: float) -> bool:
        """Whether the process and its descendants hold more than `ceiling` bytes; what a fork shares counts once."""
        self._find_children()
        family = [self._process, *self._children]
        return _memory(family) > ceiling and (not self._children or _memory(family, shared=True) > ceiling)


def _step_back(pid: int, nice: int) -> None:
    """Lowers the priority of a process that leads its session. Where the kernel shares cores by session, it is the session's that counts."""
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, pid, nice)
    with suppress(OSError):
        Path(f"/proc/{pid}/autogroup").write_text(str(nice))


def _memory(processes: list[psutil.Process], shared: bool = False) -> int:
    """Resident bytes in all. `shared` (slower) counts a page held by n processes as 1/n in each."""
    total = 0
    for process in processes:
        with suppress(psutil.Error):
            total += process.memory_full_info().pss if shared else process.memory_info().rss
    return total


def _encode(message: dict[str, Any]) -> bytes:
    body = json.dumps(message).encode()
    return len(body).to_bytes(PREFIX_BYTES) + body


# The worker's own side.


def _serve(target: str, socket_fd: int, lifeline_fd: int) -> None:
    """Imports `target`, then answers requests until the parent hangs up."""
    _prepare(socket_fd, lifeline_fd)
    channel = socket.socket(fileno=socket_fd)
    requests = channel.makefile("rb")
    sending = threading.Lock()  # a handler's threads may report progress too

    pid = os.getpid()

    def send(data: bytes) -> None:
        if os.getpid() != pid:  # a run forked, and this copy came back as if it were the worker
            os._exit(0)
        with sending:
            channel.sendall(data)

    try:
        module, _, name = target.partition(":")
        handler = getattr(import_module(module), name)
    except BaseException as error:
        traceback.print_exc()
        send(_encode({"unavailable": f"{type(error).__name__}: {error}"}))
        return
    gc.freeze()
    send(_encode({"warm": True}))
    while prefix := requests.read(PREFIX_BYTES):
        message = json.loads(requests.read(int.from_bytes(prefix)))
        send(_answer(handler, message, send))
        gc.collect()  # or the cycles of this run would count as the memory that the next one starts with


def _prepare(socket_fd: int, lifeline_fd: int) -> None:
    import ctypes
    import fcntl
    import resource

    for fd in (socket_fd, lifeline_fd):
        os.set_inheritable(fd, False)
    # Only the parent holds the lifeline's other end: when it is gone the kernel kills this whole group, even
    # while a C loop holds the interpreter. PR_SET_PDEATHSIG would not do: it follows the thread that started
    # the worker, and Streamlit's threads come and go.
    fcntl.fcntl(lifeline_fd, fcntl.F_SETOWN, -os.getpgrp())
    fcntl.fcntl(lifeline_fd, fcntl.F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(lifeline_fd, fcntl.F_SETFL, os.O_ASYNC)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    pr_set_child_subreaper = 36  # orphans become the worker's children, so they can be found and ended
    ctypes.CDLL(None).prctl(pr_set_child_subreaper, 1, 0, 0, 0)
    with suppress(OSError):  # when the machine runs out, the kernel takes a worker, not the server
        Path("/proc/self/oom_score_adj").write_text("1000")
    faulthandler.enable()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)  # a crash would lose what is still buffered


def _answer(handler: Callable[..., Any], message: dict[str, Any], send: Callable[[bytes], None]) -> bytes:
    """The encoded reply to one request; the processes that the request started end with it."""
    number, threads, streams = message["number"], threading.active_count(), (sys.stdout, sys.stderr)

    def progress(text: str, fraction: float) -> None:
        send(_encode({"number": number, "progress": [text, fraction]}))

    try:
        try:
            with _address_space(message["megabytes"]):
                value = handler(message["request"], progress)
        finally:
            sys.stdout, sys.stderr = streams  # a run may have put others there
            _end_children()
        left = threading.active_count() > threads  # it would meddle with the next run, and cannot be ended
        reply = _encode({"number": number, "ok": True, "value": value, "retire": left})
        if len(reply) > REPLY_BYTES:
            raise ValueError(f"the answer has {len(reply)} bytes; {REPLY_BYTES} fit, and a file holds more")
    except BaseException as error:  # SystemExit too: a worker outlives what it runs
        with suppress(OSError, ValueError):  # a run may have closed the streams
            traceback.print_exc()
        chain = [error]
        while (cause := chain[-1].__cause__) is not None:
            chain.append(cause)
        no_memory = os.strerror(errno.ENOMEM)  # torch says it in a RuntimeError, numpy with a MemoryError
        reply = _encode(
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
    """Whether Python found that a library failed without a word, as some do that are refused memory."""
    return isinstance(error, SystemError) and "without" in str(error) and "exception" in str(error)


def _where(chain: list[BaseException]) -> str:
    """The innermost line, of the error or of what caused it, that is not an installed library's."""
    libraries = ("<frozen", *(sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")))
    frames = [frame for error in chain for frame in traceback.extract_tb(error.__traceback__)]
    frame = [frame for frame in frames if not frame.filename.startswith(libraries)][-1]
    return f"{frame.filename}:{frame.lineno} in {frame.name}"


@contextmanager
def _address_space(megabytes: float | None) -> Iterator[None]:
    """Lets this process map that much more than it has: an array too large is a MemoryError at once."""
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
    with suppress(ChildProcessError):  # raised when there are none, as is usual
        while True:
            os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            for process in psutil.Process().children(recursive=True):
                with suppress(psutil.Error):
                    process.kill()
            os.waitpid(-1, 0)


if __name__ == "__main__":
    _serve(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
