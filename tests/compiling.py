"""The worker of all tests that compile: one process compiles or interprets, and importing Triton takes it seconds.

It answers what the app's compile worker answers (`explain.compile.handler`), and

    {"script": a module of tests, "arguments": […]}   {"printed": its stdout, "said": its stderr}

A script runs in a fork, so it may change Triton as it likes. Raises RuntimeError if it fails.
"""

from __future__ import annotations

import io
import runpy
import sys
from collections.abc import Iterator, Mapping
from contextlib import redirect_stdout
from typing import Any

from explain.compile import handler
from explain.sandbox.process import Limits, run
from explain.worker_process import Progress

LIMITS = Limits(seconds=900, megabytes=16_000, output_bytes=1 << 28)


def handle(request: Mapping[str, Any], progress: Progress) -> dict[str, Any]:
    if "script" not in request:
        return handler.handle(dict(request), progress)

    def printed() -> Iterator[bytes]:
        sys.argv = [request["script"], *request["arguments"]]
        with redirect_stdout(io.StringIO()) as found:
            runpy.run_module(request["script"], run_name="__main__")
        yield found.getvalue().encode()

    ended = run(printed, LIMITS, locked=False)
    if ended.why:
        raise RuntimeError(f"{request['script']}: {ended.why}\n{ended.output}")
    return {"printed": ended.answer.decode(), "said": ended.output}
