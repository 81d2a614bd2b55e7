"""Background jobs: what each is doing, how to cancel it, and its result or its error in words. Safe from any thread."""

from __future__ import annotations

import ast
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Generic, NoReturn, TypeVar

from explain.turns import SCRIPTS
from explain.workers import WorkerCancelled, WorkerError

T = TypeVar("T")


def _one_at_a_time(function: Callable[..., T]) -> Callable[..., T]:
    lock = threading.RLock()

    def alone(*arguments: Any, **named: Any) -> T:
        with lock:
            return function(*arguments, **named)

    return alone


# CPython 3.11 counts how deep it is in a syntax tree for all threads together: with two in one at once, either may fail
# with a SystemError. Streamlit's threads and a job's parse kernels at any time.
ast.parse = _one_at_a_time(ast.parse)


class Job(Generic[T]):
    """Work in a thread of its own, started at once.

    `work` gets the job. It says what it does in `doing`, and ends with WorkerCancelled when `cancel` is set. Once
    `running` is False, `result` holds what it returned; otherwise `error` says why it failed, or `cancelled` is True.
    """

    def __init__(self, work: Callable[[Job[T]], T], doing: str) -> None:
        self.doing = doing
        self.result: T | None = None
        self.error = ""
        self.cancelled = False
        self.cancel = threading.Event()
        self._work = work
        self._started = time.monotonic()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def running(self) -> bool:
        """Whether the work still goes on."""
        return self._thread.is_alive()

    @property
    def seconds(self) -> float:
        """The time since the start, in seconds."""
        return time.monotonic() - self._started

    def progress(self, text: str, _fraction: float) -> None:
        """Takes a worker's progress: what it is doing."""
        self.doing = text

    def wait(self, seconds: float | None = None) -> Job[T]:
        """Waits for the end of the job, at most `seconds`; returns the job."""
        with SCRIPTS.lent():
            self._thread.join(seconds)
        return self

    def _run(self) -> None:
        try:
            self.result = self._work(self)
        except WorkerCancelled:
            self.cancelled = True
        except WorkerError as error:
            self.error = error.words
        except Exception as error:  # a job never ends in silence
            self.error = str(error) or type(error).__name__


class Jobs(Generic[T]):
    """Jobs by key, shared by every session: at most `most_running` run at once, the last `most_kept` are remembered."""

    def __init__(self, most_running: int, most_kept: int) -> None:
        self.most_running, self.most_kept = most_running, most_kept
        self._jobs: OrderedDict[str, Job[T]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: str) -> Job[T] | None:
        """The job of this key: running, or the last one."""
        with self._lock:
            return self._jobs.get(key)

    def start(self, key: str, work: Callable[[Job[T]], T], doing: str) -> Job[T]:
        """Starts a job, unless one of this key is running; returns it. Where too many run, its `error` says so."""
        with self._lock:
            if (job := self._jobs.pop(key, None)) and job.running:
                self._jobs[key] = job
                return job
            running = sum(job.running for job in self._jobs.values())
            if running >= self.most_running:
                work = _refusal(running)
            self._jobs[key] = started = Job(work, doing)
            ended = [key for key, job in self._jobs.items() if not job.running]
            for old in ended[: max(0, len(self._jobs) - self.most_kept)]:
                del self._jobs[old]
            return started

    def cancel(self, key: str) -> None:
        """Asks the job of this key to end, if it is running."""
        if job := self.get(key):
            job.cancel.set()

    def forget(self, key: str) -> None:
        """Cancels the job of this key and forgets it."""
        self.cancel(key)
        with self._lock:
            self._jobs.pop(key, None)


def _refusal(running: int) -> Callable[[object], NoReturn]:
    def refuse(_: object) -> NoReturn:
        raise WorkerError(f"{running} others are running here. Try again when one of them has ended.")

    return refuse
