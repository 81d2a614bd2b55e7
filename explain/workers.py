"""Warm worker processes, each request held to a time limit and a memory limit.

A kernel may loop for ever, use up the machine's memory or crash its interpreter. In a worker, that ends only its own
run. A worker imports one function (torch and triton are slow to import) before it is needed, and then answers one
request at a time (`explain.worker_process`). The two sides exchange JSON over sockets of their own, because kernels may
print. Results of more than a few megabytes go to files that the request names.

Workers need Linux. Elsewhere this module can be imported, and a call raises `WorkerUnavailable`.
"""

from __future__ import annotations

import itertools
import json
import math
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from explain import ROOT
from explain.worker_process import PREFIX_BYTES, REPLY_BYTES, Progress, encode

WARM_UP_SECONDS = 600  # importing torch and triton takes 4 s, half a minute from a cold disk, minutes on busy cores
WATCH_SECONDS = 0.05  # how often limits and cancellation are checked
REST = 40  # times what it took to find a worker's children: it reads all processes of the machine, 10 ms of a core
PATIENCE = 10  # times as long as it is expected to run may a call wait, before quick ones no longer overtake it
LONG_SECONDS = 1.0  # a call that is expected to run longer leaves a worker to the others
OUTPUT_BYTES = 64 * 1024  # of what a worker prints, the last part is kept: the reason is there
PLAIN_VARIABLES = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "TZ", "LD_LIBRARY_PATH", "PYTHONPATH", "VIRTUAL_ENV")

DEATHS = {  # by name: Windows lacks some of these signals
    "SIGSEGV": "a segmentation fault: it used memory that is not its own",
    "SIGBUS": "a bus error: it used memory that does not exist",
    "SIGABRT": "an abort: a library found an internal error",
    "SIGFPE": "an arithmetic fault, such as an integer division by zero",
    "SIGILL": "an instruction that this processor does not have",
    "SIGKILL": "a kill from outside, usually because the machine ran out of memory",
}

_numbers = itertools.count()  # of requests: each answer names its request


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


class WorkerGarbled(WorkerError):
    """The process answered something that is not an answer, as a kernel can that finds the line to the parent."""

    def __init__(self) -> None:
        super().__init__("The process running the kernel sent an answer that cannot be understood.")


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
    with a JSON object, and it returns one. An exception type with `retire_worker = True` replaces the worker:
    nothing repairs, for example, a CUDA context after an illegal access. An allocation beyond the memory limit fails
    at once; with `address_space_limit=False` the memory is only watched, because CUDA reserves far more addresses
    than it uses. With `nice` above 0, the pages get a core first. With `own_environment` it sees of this process's
    variables only what finds programs, languages and folders: nothing secret.
    """

    name: str
    target: str
    env: tuple[tuple[str, str], ...] = ()
    default_seconds: float = 30.0
    default_megabytes: float = 2000.0
    address_space_limit: bool = True
    nice: int = 0
    own_environment: bool = False


@dataclass(frozen=True, eq=False)
class _Turn:
    """A call that waits for a worker: when it is due, and whether it is expected to run long."""

    due: float
    long: bool


class WorkerPool:
    """`size` workers that answer calls from any thread. Of equal calls the first is served first; a call that is
    expected to be quick overtakes longer ones, as many as come within PATIENCE times their own time.

    One that is taken starts the next as soon as it is warm, if that has not started: a single reader needs no more than
    two. At most `at_once` of them work at a time, by default all; the others are spare, and all of these start. A spare
    one takes the place of a worker that ended, so that the next call need not wait for a new process.
    """

    def __init__(self, spec: WorkerSpec, size: int = 1, at_once: int | None = None) -> None:
        at_once = size if at_once is None else at_once
        if not 1 <= at_once <= size:
            raise ValueError(f"size is {size!r}, at_once {at_once!r}; a pool needs at least 1 worker that may work")
        self.spec = spec
        self._at_once = at_once
        self._ready = max(1, size - at_once)
        self._free: list[_Worker | None] = [None] * size  # None: this worker is not started
        self._busy = 0
        self._long = 0  # of the busy ones
        self._waiting: list[_Turn] = []
        self._changed = threading.Condition()
        self._closed = False

    def warm(self) -> None:
        """Starts the first worker, and spare ones, without waiting. If one cannot start, `call` says why."""
        with self._changed:
            if not self._busy:
                self._start_next()

    def _start_next(self) -> None:
        """Makes sure that the next call finds a worker that has started, or several if the pool has spare ones."""
        for place, worker in enumerate(self._free[: self._ready]):
            if worker is None and not self._closed:
                with suppress(WorkerUnavailable):
                    self._free[place] = _Worker(self.spec)

    def call(
        self,
        request: dict[str, Any],
        *,
        seconds: float | None = None,
        megabytes: float | None = None,
        progress: Progress | None = None,
        cancel: threading.Event | None = None,
        expected: float = 0.0,
    ) -> dict[str, Any]:
        """The handler's answer to `request`. Waiting for a free, warm worker does not count against `seconds`.
        `expected` is how many seconds it will take, about.

        `progress` is called in this thread; an exception it raises ends the run. The spec has the default limits.
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
        message = encode({"number": number, "request": request, "megabytes": address_space})

        def check() -> None:
            if cancel is not None and cancel.is_set():
                raise WorkerCancelled
            if self._closed:
                raise WorkerUnavailable("the workers were closed.")

        turn = _Turn(time.monotonic() + PATIENCE * expected, expected > LONG_SECONDS and self._at_once > 1)
        worker = self._take(turn, check, poll=cancel is not None)
        try:
            while worker is not None and (worker.dead() or worker.stopped()):  # killed or halted while nobody used it
                worker.end()
                worker = self._another()
            worker = worker or _Worker(self.spec)
            worker.wait_until_warm(check)
            with self._changed:  # not before: while both import, each takes twice as long
                self._start_next()
            return worker.run(number, message, seconds, megabytes, progress, check)
        finally:
            self._give_back(worker, turn)

    def close(self) -> None:
        """Ends every worker, even a busy one: its call, and all later calls, raise `WorkerUnavailable`."""
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

    def _take(self, turn: _Turn, check: Callable[[], None], poll: bool) -> _Worker | None:
        with self._changed:
            self._waiting.append(turn)
            try:
                check()
                while not (self._next() is turn and self._free and self._busy < self._at_once):
                    self._changed.wait(WATCH_SECONDS if poll else None)
                    check()
                self._busy += 1
                self._long += turn.long
                return self._free.pop(0)
            finally:
                self._waiting.remove(turn)
                self._changed.notify_all()

    def _next(self) -> _Turn | None:
        """The call that is served next. A long call never gets the last worker."""
        able = (turn for turn in self._waiting if not turn.long or self._long < self._at_once - 1)
        return min(able, key=lambda turn: turn.due, default=None)

    def _another(self) -> _Worker | None:
        """A free worker that has started, if there is one; its place stays."""
        with self._changed:
            found = next((k for k, worker in enumerate(self._free) if worker is not None), None)
            if found is None:
                return None
            worker, self._free[found] = self._free[found], None
            return worker

    def _give_back(self, worker: _Worker | None, turn: _Turn) -> None:
        place = 0
        if worker is not None and (self._closed or not worker.sound):
            place = len(self._free)  # behind those that are warm
            worker.end()
            failed_to_warm = not worker.warm  # another would fail too
            worker = None
            if not (self._closed or failed_to_warm):
                with suppress(WorkerUnavailable):
                    worker = _Worker(self.spec)
        with self._changed:
            self._busy -= 1
            self._long -= turn.long
            self._free.insert(place, worker)
            self._changed.notify_all()


class _Worker:
    """One process, seen from the parent. The pool lets one thread use it at a time.

    `sound` is False from a request until its answer. The pool ends a worker that is left so.
    """

    def __init__(self, spec: WorkerSpec) -> None:
        if sys.platform != "linux":
            raise WorkerUnavailable(f"worker processes need Linux, and this is {sys.platform}.")
        self.warm, self.sound = False, True
        self._name = spec.name
        given = {name: os.environ[name] for name in PLAIN_VARIABLES if name in os.environ}
        env = {**(given if spec.own_environment else os.environ), **dict(spec.env)}
        env["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), env.get("PYTHONPATH")]))
        self._socket, socket_there = socket.socketpair()
        self._lifeline, lifeline_there = socket.socketpair()  # nothing is written to it; see worker_process
        with socket_there, lifeline_there:
            fds = (socket_there.fileno(), lifeline_there.fileno())
            try:
                self._popen = subprocess.Popen(
                    # -P: a random.py in the current folder must not replace the standard library's
                    [sys.executable, "-P", "-m", "explain.worker_process", spec.target, *map(str, fds)],
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
        self._find_again = 0.0
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
            if self.stopped():
                raise self._unavailable(f"the {self._name} worker was stopped while it started.")
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
        """Sends `message`, request `number`, and waits for the answer. `check` raises to end the run."""
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
                if answer.get("number") != number:  # from a thread of an earlier run
                    continue
                if "progress" not in answer:
                    return self._conclude(answer, megabytes)
                if progress is not None:
                    progress(*_progress(answer["progress"]))
            check()
            now = time.monotonic()
            if now - started >= seconds:
                raise WorkerTimeout(seconds)
            if now - looked >= WATCH_SECONDS:
                looked = now
                if self.dead():  # _receive does not notice if a child keeps the socket open
                    raise self._death()
                # Once may be chance: between vfork and exec, a child looks as large as its parent.
                times_over = times_over + 1 if self._over(ceiling) else 0
                if times_over == 2:
                    raise WorkerOutOfMemory(megabytes)

    def dead(self) -> bool:
        """Whether it has ended. It is not reaped here: until `_kill`, no other process may get its number."""
        try:
            return bool(self._process.status() == psutil.STATUS_ZOMBIE)
        except psutil.NoSuchProcess:
            return True

    def stopped(self) -> bool:
        """Whether it is halted by a signal: it would not even end."""
        try:
            return bool(self._process.status() == psutil.STATUS_STOPPED)
        except psutil.NoSuchProcess:
            return False

    def end(self) -> None:
        self._kill()
        for end in (self._socket, self._lifeline, self._output):
            end.close()

    def _receive(self) -> Iterator[dict[str, Any]]:
        """The messages that arrive within `WATCH_SECONDS`. What the worker prints meanwhile is kept.

        Raises WorkerDied and WorkerGarbled.
        """
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
            if end > REPLY_BYTES:
                raise WorkerGarbled
            if len(self._inbox) < end:
                break
            body, self._inbox = self._inbox[PREFIX_BYTES:end], self._inbox[end:]
            yield _message(body)

    def _read_output(self) -> None:
        chunk = os.read(self._output.fileno(), OUTPUT_BYTES)
        self._printed = (self._printed + chunk)[-OUTPUT_BYTES:]
        if not chunk:  # the worker closed it, and a poll would report that for ever
            self._poll.unregister(self._output)

    def _drain(self) -> None:
        """Reads the rest of the output, up to a limit: a process may print for ever."""
        for _ in range(16):
            if self._output.fileno() not in {fd for fd, _ in self._poll.poll(0)}:
                break
            self._read_output()

    def _conclude(self, reply: dict[str, Any], megabytes: float) -> dict[str, Any]:
        match reply:
            case {"ok": True, "value": dict(value), "retire": bool(retire)}:
                self.sound = not retire
                return value
            case {"ok": False, "error": dict(error), "memory": memory, "retire": bool(retire)} if _is_error(error):
                self.sound = not retire
                self._drain()
                if memory:
                    raise WorkerOutOfMemory(megabytes)
                raise WorkerFailed(**error, output=self._printed.decode(errors="replace"))
        raise WorkerGarbled

    def _death(self) -> WorkerDied:
        """Why the process ended. If it only closed the socket, it is killed here."""
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
        if not _has_children(self._popen.pid):
            return
        with suppress(psutil.Error):  # the children of a dead process cannot be found, so the last ones are kept
            self._children = self._process.children(recursive=True) or self._children

    def _over(self, ceiling: float) -> bool:
        """Whether the process and its descendants use more than `ceiling` bytes; what forks share counts once."""
        if time.monotonic() >= self._find_again:
            begun = time.thread_time()
            self._find_children()
            self._find_again = time.monotonic() + REST * (time.thread_time() - begun)
        family = [self._process, *self._children]
        return _memory(family) > ceiling and (not self._children or _memory(family, shared=True) > ceiling)


def _message(body: bytes) -> dict[str, Any]:
    """Raises WorkerGarbled for what is not a JSON object."""
    try:
        message = json.loads(body)
    except ValueError:
        raise WorkerGarbled from None
    if not isinstance(message, dict):
        raise WorkerGarbled
    return message


def _progress(said: object) -> tuple[str, float]:
    """What is being done and how much of it. Raises WorkerGarbled."""
    match said:
        case [str(text), float() | int() as fraction]:
            return text, fraction
    raise WorkerGarbled


def _is_error(error: dict[str, Any]) -> bool:
    return set(error) == {"type", "message", "where"} and all(isinstance(one, str) for one in error.values())


def _step_back(pid: int, nice: int) -> None:
    """Lowers the priority of a process and of the session it leads: Linux may divide the cores by session.

    Never above this process's own, which root could do: who started the app with `nice` meant its workers too.
    """
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, pid, max(nice, os.getpriority(os.PRIO_PROCESS, 0)))
    with suppress(OSError):
        Path(f"/proc/{pid}/autogroup").write_text(str(nice))


def _has_children(pid: int) -> bool:
    """Whether a process has children; True where Linux does not tell."""
    try:
        return any((task / "children").read_bytes() for task in Path(f"/proc/{pid}/task").iterdir())
    except OSError:
        return True


def _memory(processes: list[psutil.Process], shared: bool = False) -> int:
    """Resident bytes in all. `shared` (slower) counts a page held by n processes as 1/n in each."""
    total = 0
    for process in processes:
        with suppress(psutil.Error):
            total += process.memory_full_info().pss if shared else process.memory_info().rss
    return total
