"""A trace worker with a fault for each thousand of the seed, as a kernel, a library or the machine may cause it.

The fault happens before the run, at its first progress, or between the last step and the answer: the seed's remainder
by three says when.
"""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

from explain.engine import TRACE_WORKER
from explain.trace_worker import handle as handle_well
from explain.worker_process import Progress, encode

LIMIT_S = 1.0
MEGABYTES = 400.0
FAULTY = replace(
    TRACE_WORKER, target="tests.faults.worker:handle", default_seconds=LIMIT_S, default_megabytes=MEGABYTES
)
NOTHING = "^$"
A_KIND = 1000
"""The seeds of one kind of fault; those below the first are of runs without one."""


class LostError(RuntimeError):
    """After this nothing in the process can be trusted."""

    retire_worker = True


def killed(signal_: signal.Signals) -> Callable[[], None]:
    """A fault that ends the process by a signal."""
    return lambda: os.kill(os.getpid(), signal_)


def loop() -> None:
    while True:
        pass


def loop_in_c() -> None:
    sum(range(10**15))  # holds the interpreter lock


def refused_memory() -> None:
    bytearray(int(4e6 * MEGABYTES))


def grow() -> None:
    """Past the limit of memory, more slowly than the watch looks."""
    held = []
    for _ in range(200):
        held.append(bytearray(b"x") * 10_000_000)
        time.sleep(0.01)


def grow_in_a_child() -> None:
    code = "import time\nheld = []\nfor _ in range(99): held.append(b'x' * 20_000_000); time.sleep(0.02)"
    subprocess.run([sys.executable, "-c", code], check=True)


def fork_bomb() -> None:
    """2⁶ processes of which none ends."""
    for _ in range(6):
        os.fork()
    time.sleep(60)


def flood() -> None:
    for _ in range(200):
        print("x" * 99_999)
    raise ValueError("after the flood")


def fail() -> None:
    raise ZeroDivisionError("rows is 0")


def lose() -> None:
    raise LostError("an illegal access")


def leave_a_thread() -> None:
    threading.Thread(target=time.sleep, args=(60,), daemon=True).start()


def leave_a_process() -> None:
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            time.sleep(60)
        os._exit(0)


def close_output() -> None:
    for stream in (1, 2):
        with suppress(OSError):  # this worker's are closed already
            os.close(stream)


def hang_up() -> None:
    """Closes every file, the line to the server included, and stays alive."""
    os.closerange(3, 100)
    time.sleep(60)


def say(data: bytes) -> None:
    """Writes to the line on which the worker answers, as a kernel that finds it could."""
    os.write(int(sys.argv[2]), data)


def number() -> int:
    """The number of the request that is being answered, read from a frame of the caller's."""
    frame = sys._getframe()
    while "message" not in frame.f_locals or "number" not in frame.f_locals["message"]:
        assert frame.f_back
        frame = frame.f_back
    return int(frame.f_locals["message"]["number"])


def forge() -> None:
    """An answer to this request, as if it had run."""
    say(encode({"number": number(), "ok": True, "value": {}, "retire": False}))
    time.sleep(0.2)


def forge_without_fields() -> None:
    say(encode({"number": number()}))
    time.sleep(0.2)


def talk_nonsense() -> None:
    say((10).to_bytes(4) + b"not JSON!!")
    time.sleep(0.2)


def answer_with_a_list() -> None:
    say((6).to_bytes(4) + b"[1, 2]")
    time.sleep(0.2)


def announce_too_much() -> None:
    say((2**31).to_bytes(4))
    time.sleep(60)


def cut() -> None:
    """Half of an answer, then the end."""
    say(encode({"number": number(), "ok": True, "value": {}, "retire": False})[:20])
    os._exit(0)


def no_disk() -> None:
    """No file may have a byte more, as on a disk that is full; Python ignores the signal and gets an error."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))


FAULTS: dict[str, tuple[Callable[[], None], str]] = {
    "killed": (killed(signal.SIGKILL), "SIGKILL"),
    "segmentation fault": (killed(signal.SIGSEGV), "segmentation fault"),
    "bus error": (killed(signal.SIGBUS), "bus error"),
    "abort": (killed(signal.SIGABRT), "abort"),
    "ended": (lambda: os._exit(3), "exit code 3"),
    "stopped": (killed(signal.SIGSTOP), "longer than its limit"),
    "endless loop": (loop, "longer than its limit"),
    "endless loop in C": (loop_in_c, "longer than its limit"),
    "exception": (fail, "rows is 0"),
    "poisoned": (lose, "illegal access"),
    "refused memory": (refused_memory, "more memory than its limit"),
    "grows": (grow, "more memory than its limit|longer than its limit"),
    "a child grows": (grow_in_a_child, "more memory than its limit|longer than its limit"),
    "fork bomb": (fork_bomb, "longer than its limit|more memory than its limit"),
    "output flood": (flood, "after the flood"),
    "hangs up": (hang_up, "ended with"),
    "forged answer": (forge, f"missing or damaged|{NOTHING}"),
    "answer without its fields": (forge_without_fields, "cannot be understood"),
    "nonsense for an answer": (talk_nonsense, "cannot be understood"),
    "a list for an answer": (answer_with_a_list, "cannot be understood"),
    "an answer too long": (announce_too_much, "cannot be understood"),
    "cut answer": (cut, "ended with"),
    "disk full": (no_disk, "File too large|cannot be written"),
    "thread left": (leave_a_thread, NOTHING),
    "process left": (leave_a_process, NOTHING),
    "output closed": (close_output, NOTHING),
}
"""What happens, and what the reader is told, as a pattern; NOTHING where the run is right all the same. A forged answer
does no harm once the trace is written.
"""


def handle(request: dict[str, Any], progress: Progress) -> dict[str, Any]:
    """The fault that the seed asks for, and the real handler."""
    kind, rest = divmod(request["experiment"]["seed"], A_KIND)
    if kind == 0:
        return handle_well(request, progress)
    fault, _ = [*FAULTS.values()][kind - 1]
    happened = False

    def once() -> None:
        nonlocal happened
        if not happened:
            happened = True
            fault()

    def watched(text: str, fraction: float) -> None:
        progress(text, fraction)
        once()

    with room_for_files():
        if rest % 3 == 0 or fault is no_disk:
            once()
        answer = handle_well(request, watched if rest % 3 == 1 else progress)
        once()
    return answer


@contextmanager
def room_for_files() -> Iterator[None]:
    """The limit of a file's size, as it was, afterwards: the disk has room again."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
