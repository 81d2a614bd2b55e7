"""One run of somebody else's code: a forked process, locked, limited, and ended with all that it started.

A fork of a process that has imported torch begins at once. The parent learns nothing from it but bytes, and how it
ended; whether they are right, the parent must decide.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO

from explain.sandbox import protections
from explain.sandbox.system import PR_SET_PDEATHSIG, prctl

OUTPUT_BYTES = 64 * 1024
ANSWER_BYTES = 64 * 1024 * 1024
NOT_LOCKED = 113
STEP_BYTES = 1 << 20
TOO_LONG = "It took longer than its limit"
ASKED_MS = 10
"""How often a run that sends nothing is asked whether it may go on."""

Watch = Callable[[int, bytes], bool]
"""Called with a run's number and the bytes it has just sent, which may be none. Returns whether it may go on."""


@dataclass(frozen=True)
class Limits:
    """Of one run: `seconds` on the clock, `megabytes` (10^6 bytes) of new memory, bytes of output and of the answer."""

    seconds: float
    megabytes: float
    output_bytes: int = OUTPUT_BYTES
    answer_bytes: int = ANSWER_BYTES


@dataclass(frozen=True)
class Ended:
    """How a run ended. `answer` is all that it sent; `why` says why it ended too soon, else it is empty.

    `output` is what it printed.
    """

    answer: bytes
    why: str
    output: str


def run(
    work: Callable[[], Iterable[bytes]], limits: Limits, *, locked: bool = True, readable: Iterable[Path] = ()
) -> Ended:
    """Sends the bytes that `work` yields, from a forked process, and waits for its end.

    Without `locked` the process keeps its rights, and has limits only. Locked, it can read below `readable` too.

    `work` finds what its caller had in memory: it must hold nothing that the code is not to know. Raises OSError if the
    system cannot start a process.
    """
    return run_together([work], limits, locked=locked, readable=readable)[0]


def run_together(
    works: Sequence[Callable[[], Iterable[bytes]]],
    limits: Limits,
    *,
    locked: bool = True,
    readable: Iterable[Path] = (),
    watch: Watch = lambda number, chunk: True,
) -> list[Ended]:
    """As `run`, each work in a process of its own, at the same time; each has these limits. Raises OSError.

    `watch` is called from a thread for each process. One that it ends has no `why`.
    """
    runs: list[_Begun] = []
    with contextlib.ExitStack() as stack:
        try:
            for work in works:  # all are forked before a thread starts
                receiving, sending = os.pipe()
                answer = stack.enter_context(open(receiving, "rb", buffering=0))
                output = stack.enter_context(tempfile.TemporaryFile())
                runs.append(_Begun(_forked(work, limits, sending, output, locked, readable), answer, output))
        except OSError:
            for one in runs:
                _end(one.pid)
            raise
        with ThreadPoolExecutor(len(runs)) as pool:
            return list(pool.map(lambda number: _ended(runs[number], limits, partial(watch, number)), range(len(runs))))


@dataclass(frozen=True)
class _Begun:
    """A forked process, where its answer is read, and what it prints to."""

    pid: int
    answer: IO[bytes]
    output: IO[bytes]


def _forked(
    work: Callable[[], Iterable[bytes]],
    limits: Limits,
    sending: int,
    output: IO[bytes],
    locked: bool,
    readable: Iterable[Path],
) -> int:
    """The id of the process, which alone holds the pipe's end `sending` then."""
    parent = os.getpid()
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        pid = os.fork()
        if pid == 0:
            _child(work, limits, parent, sending, output, locked, readable)
    finally:
        os.close(sending)
    return pid


def _ended(begun: _Begun, limits: Limits, watch: Callable[[bytes], bool]) -> Ended:
    """Waits for the process, ends it, and says how it ended."""
    why: str | None = None
    try:
        received, why = _received(begun.answer, begun.pid, limits, watch)
    finally:
        status = _end(begun.pid)
    if why is None:
        why = _reason(os.waitstatus_to_exitcode(status), limits)
    begun.output.seek(0)
    return Ended(received, why, begun.output.read(limits.output_bytes).decode(errors="replace"))


def _received(answer: IO[bytes], pid: int, limits: Limits, watch: Callable[[bytes], bool]) -> tuple[bytes, str | None]:
    """What the process sent until it ended by itself, or why it must end before; "" if `watch` ends it."""
    deadline = time.monotonic() + limits.seconds
    received = bytearray()
    ended = os.pidfd_open(pid)
    poll = select.poll()
    poll.register(answer, select.POLLIN)
    poll.register(ended, select.POLLIN)
    try:
        while True:
            ready = dict(poll.poll(min(ASKED_MS, max(0, deadline - time.monotonic()) * 1000)))
            if time.monotonic() >= deadline:
                return bytes(received), f"{TOO_LONG} of {limits.seconds:g} s."
            chunk = b""
            if answer.fileno() in ready:
                chunk = answer.read(STEP_BYTES)
                received += chunk
                if len(received) > limits.answer_bytes:
                    return b"", f"Its answer has more than {limits.answer_bytes:,} bytes."
                if not chunk:
                    poll.unregister(answer)
            elif ended in ready:
                return bytes(received), None
            if not watch(chunk):
                return bytes(received), ""
    finally:
        os.close(ended)


def _end(pid: int) -> int:
    """Ends the process and its session, and reaps it; its wait status."""
    for end in (os.kill, os.killpg):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            end(pid, signal.SIGKILL)
    return os.waitpid(pid, 0)[1]


def _reason(code: int, limits: Limits) -> str:
    if code == 0:
        return ""
    if code == NOT_LOCKED:
        return "This machine could not lock its process."
    if code == -signal.SIGXCPU:
        return f"It used more than its limit of {limits.seconds:g} s of processor time."
    if code < 0:
        return f"Its process ended with {signal.Signals(-code).name}."
    return f"Its process ended with exit code {code}."


def _child(
    work: Callable[[], Iterable[bytes]],
    limits: Limits,
    parent: int,
    sending: int,
    output: IO[bytes],
    locked: bool,
    readable: Iterable[Path],
) -> None:
    """The forked process. It never returns."""
    code = NOT_LOCKED
    try:
        os.setsid()
        _only_these_open(sending, output)
        os.chdir("/")
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        protections.limit(limits.seconds, limits.megabytes, limits.output_bytes)
        if locked:
            protections.give_up_rights()  # which takes the next setting away
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it ended before the line above
            os._exit(code)
        if locked:
            protections.lock(readable)
        code = 1
        for part in work():
            rest = memoryview(part)
            while rest:
                rest = rest[os.write(sending, rest) :]
        code = 0
    except BaseException:
        with contextlib.suppress(BaseException):
            traceback.print_exc()
    finally:
        with contextlib.suppress(BaseException):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def _only_these_open(sending: int, output: IO[bytes]) -> None:
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(output.fileno(), 1)
    os.dup2(output.fileno(), 2)
    first = 3
    for low, high in ((first, sending), (sending + 1, os.sysconf("SC_OPEN_MAX"))):
        os.closerange(low, high)
    sys.stdout = os.fdopen(1, "w", errors="replace", closefd=False)
    sys.stderr = os.fdopen(2, "w", errors="replace", closefd=False)
