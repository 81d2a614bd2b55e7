"""What the workers of test_workers.py are asked to do. Imported in the worker, never by the tests."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

MEGABYTE = 1_000_000


class Poisoned(RuntimeError):
    """After this nothing in the process can be trusted."""

    retire_worker = True


def handle(request: dict[str, Any], progress: Callable[[str, float], None]) -> dict[str, Any]:
    """Do what `request["do"]` names, with `request` itself as its arguments; the process's id is in the answer."""
    answer = ACTIONS[request["do"]](request, progress)
    return {"pid": os.getpid(), **(answer or {})}


def echo(request, progress):
    return {"value": request.get("value")}


def count(request, progress):
    for step in range(request["steps"]):
        progress(f"step {step}" + " " * request.get("padding", 0), step / request["steps"])


def fail(request, progress):
    print("before the end")
    raise ZeroDivisionError("rows is 0")


def fail_wrapped(request, progress):
    try:
        fail(request, progress)
    except ZeroDivisionError as error:
        raise RuntimeError("the run failed") from error


def leave(request, progress):
    sys.exit(3)


def poison(request, progress):
    raise Poisoned("illegal access")


def unsendable(request, progress):
    return {"value": object()}


def too_long(request, progress):
    return {"value": "x" * 20 * MEGABYTE}


def loop(request, progress):
    while True:
        pass


def loop_in_c(request, progress):
    progress("looping", 0.0)
    sum(range(10**15))  # holds the interpreter lock: no thread of this process runs again


def crash(request, progress):
    print("about to crash")
    os.kill(os.getpid(), signal.SIGSEGV)


def end(request, progress):
    os._exit(request["code"])


def allocate(request, progress):
    """One block, refused at once where addresses are limited."""
    return {"bytes": len(bytearray(request["megabytes"] * MEGABYTE))}


def keep_in_a_cycle(request, progress):
    cycle: list[object] = [b"x" * (request["megabytes"] * MEGABYTE)]
    cycle.append(cycle)


def grow(request, progress):
    """Slower than the watch looks, and bounded, so that a broken limit ends the test and not the machine."""
    held = []
    for _ in range(60):
        held.append(bytearray(b"x") * (20 * MEGABYTE))
        time.sleep(0.02)
    return {"bytes": sum(map(len, held))}


def grow_in_child(request, progress):
    code = "import time\nheld = []\nfor _ in range(60): held.append(b'x' * 20_000_000); time.sleep(0.02)"
    subprocess.run([sys.executable, "-c", code], check=True)


def share_with_children(request, progress):
    """Children that hold what their parent already held: in all, no memory more."""
    held = b"x" * (60 * MEGABYTE)
    children = [_fork(time.sleep, 0.4) for _ in range(3)]
    for child in children:
        os.waitpid(child, 0)
    return {"bytes": len(held)}


def orphan(request, progress):
    """Leave a grandchild with its output open and no living parent, then return, hang or crash."""
    read, write = os.pipe()

    def daemon() -> None:
        if request["then"] == "crash":  # a worker gone at once: only the group still tells whose this was
            pid = _fork(os.execlp, "sleep", "sleep", "60")
        else:
            os.setsid()
            pid = _fork(time.sleep, 60)
        os.write(write, str(pid).encode())

    os.waitpid(_fork(daemon), 0)
    progress(os.read(read, 20).decode(), 0.0)
    if request["then"] == "hang":
        time.sleep(60)
    if request["then"].startswith("crash"):
        time.sleep(1 if request["then"] == "crash late" else 0)
        os.kill(os.getpid(), signal.SIGSEGV)


def print_much(request, progress):
    line = "x" * 99
    for _ in range(request["megabytes"] * MEGABYTE // 100):
        print(line)
    print("the end")
    os.system("echo said by a child")
    raise ValueError("see what was printed")


def close_output(request, progress):
    os.close(1)
    os.close(2)
    time.sleep(request["seconds"])


def hang_up(request, progress):
    """Close every file, the line to the parent included, and stay alive."""
    os.closerange(3, 100)
    time.sleep(60)


def read_input(request, progress):
    return {"value": sys.stdin.read()}


def sleep(request, progress):
    progress("sleeping", 0.0)
    time.sleep(request["seconds"])


def environment(request, progress):
    return {"value": os.environ.get(request["name"])}


def files(request, progress):
    return {"value": sorted(int(fd) for fd in os.listdir("/proc/self/fd"))}


def threads(request, progress):
    """Progress from two threads at once: messages must not mix."""
    others = [threading.Thread(target=count, args=(request, progress)) for _ in range(2)]
    for thread in others:
        thread.start()
    for thread in others:
        thread.join()


def fork(request, progress):
    """Return twice: as the worker and, a little later, as its copy."""
    if os.fork() == 0:
        os.setsid()
        time.sleep(request["seconds"])
    elif request["wait"]:
        os.waitpid(-1, 0)


def keep_talking(request, progress):
    """Leave a thread behind that reports progress for as long as it can."""

    def talk() -> None:
        while True:
            progress("left behind", 0.0)
            time.sleep(0.001)

    if request["hidden"]:  # hidden from the worker, which would be replaced
        threading.active_count = lambda: 1
    threading.Thread(target=talk, daemon=True).start()


def lose_output(request, progress):
    """Leave no streams to print to, then end as asked."""
    if request["close"]:
        sys.stdout.close()
        sys.stderr.close()
    sys.stdout = sys.stderr = None
    if request["fail"]:
        raise ValueError("said nowhere")


def fail_without_a_word(request, progress):
    raise SystemError("error return without exception set")


def _fork(function: Callable[..., Any], *arguments: Any) -> int:
    pid = os.fork()
    if pid == 0:
        function(*arguments)
        os._exit(0)
    return pid


ACTIONS: dict[str, Callable[..., dict[str, Any] | None]] = {
    function.__name__: function
    for function in (
        echo, count, fail, fail_wrapped, leave, poison, unsendable, too_long, loop, loop_in_c, crash, end, allocate,
        keep_in_a_cycle, grow, grow_in_child, share_with_children, orphan, print_much, close_output, hang_up,
        read_input, sleep,
        environment, files, threads, fork, keep_talking, lose_output, fail_without_a_word,
    )
}  # fmt: skip
