"""What all commands print, and the exit status that they return."""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from explain.trace.errors import TookTooLong
from explain.workers import WorkerError, WorkerFailed, WorkerOutOfMemory, WorkerTimeout

BAD_ARGUMENTS, FAILED = 2, 3
NOTHING_LAUNCHED = "no Triton kernel was launched"


def print_json(value: object) -> int:
    """Prints one JSON object; the exit status of success."""
    print(json.dumps(value, allow_nan=False))
    return 0


def complain(message: str, status: int) -> int:
    """Prints an error; the exit status."""
    print(f"explain: {message}", file=sys.stderr)
    return status


@contextmanager
def progress_line() -> Iterator[Callable[[str, float], None]]:
    """Shows the progress of long work on one line of a terminal; prints nothing if the output is piped."""
    terminal = sys.stderr.isatty()

    def show(text: str, fraction: float) -> None:
        if terminal:
            sys.stderr.write(f"\r\x1b[K{100 * fraction:3.0f}%  {text}")
            sys.stderr.flush()

    yield show
    if terminal:
        sys.stderr.write("\r\x1b[K")


@contextmanager
def ended_by_sigterm() -> Iterator[None]:
    """While open, SIGTERM ends this process as Ctrl+C does, so that what it started ends with it."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def with_remedy(error: WorkerError, parsed: argparse.Namespace) -> str:
    """The message, with the option or the argument that helps if there is one."""
    message = error.message if isinstance(error, WorkerFailed) else str(error).removesuffix(".")
    match error:
        case WorkerFailed(type=TookTooLong.__name__) if "--seconds" not in message:  # of a file's run it says more
            return f"{message}; --whole runs them, or set smaller sizes"
        case WorkerFailed() if message.startswith(NOTHING_LAUNCHED) and parsed.target.endswith(".py"):
            said = f"{NOTHING_LAUNCHED}: it ran as a script; {parsed.target}:FUNCTION calls a function of it"
            return message.replace(NOTHING_LAUNCHED, said, 1)
        case WorkerOutOfMemory() if hasattr(parsed, "megabytes"):
            return f"{message}: raise --megabytes"
        case WorkerTimeout() if hasattr(parsed, "seconds"):
            return f"{message}: raise --seconds"
    return message


def print_part(part: dict[str, Any] | None) -> None:
    if part:
        print(f"{part['why']}. It ran a part: {part['words']} (--whole runs all)")
