"""What goes wrong in a lecture, many times: dying and lying workers, full disks, damaged files.

    python -m benchmarks.faults --out benchmarks/results/faults.json

Starts the app's player on a real server, where a worker or a file fails in one of the ways of tests/faults/, again and
again. After each fault the next run must be right bit by bit and soon, a reader beside must see what they saw, and the
server and its connections must live. Then servers are started that meet a taken port, another language, a folder with
spaces. About 35 minutes.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

from benchmarks.report import finish, parser_of
from explain import ROOT
from explain.app_process import free_ports
from tests.e2e.server import running_app
from tests.faults.lesson import KINDS, RECOVERED_S, lesson

LANGUAGES = ("C", "POSIX", "tr_TR.UTF-8", "ja_JP.EUC-JP")
FOLDERS = ("a folder", "Größe ℓ", "semi;colon & 'quotes'", "a" * 200)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the benchmark; 0 if every fault cost one run at most."""
    parser = parser_of(__doc__)
    parser.add_argument("--times", type=int, default=30, help="how often each kind happens (30)")
    parser.add_argument("--only", nargs="*", choices=KINDS, metavar="KIND", help="these kinds; default: all")
    options = parser.parse_args(arguments)
    kinds = options.only or KINDS
    starts = () if options.only else (*(("language", one) for one in LANGUAGES), *(("folder", one) for one in FOLDERS))
    result = asyncio.run(_lesson(kinds, options.times))
    for what, value in starts:
        result["kinds"].setdefault(f"start: {what}", 0)
        asyncio.run(_start(what, value))
        result["kinds"][f"start: {what}"] += 1
    if starts:
        result["kinds"]["start: port taken"] = _port_taken()
    result["injections"] = sum(result["kinds"].values())
    result["passed"] = not result["wrong"] and result["slowest_s"] <= RECOVERED_S
    return finish(result, "faults", options.out)


async def _lesson(kinds: Sequence[str], times: int) -> dict[str, Any]:
    """Every kind in turn, so that each meets what the others leave."""
    wrong: list[str] = []
    slowest_s = 0.0
    with tempfile.TemporaryDirectory(prefix="tilescope-") as folder:
        async with lesson(Path(folder)) as held:
            process, began = held.server.process.pid, time.monotonic()
            for number in range(times):
                for kind in kinds:
                    try:
                        slowest_s = max(slowest_s, await held.happen(kind))
                    except AssertionError as error:
                        wrong.append(str(error))
                        print(error, file=sys.stderr)
                print(f"{number + 1} of {times}, {time.monotonic() - began:.0f} s", file=sys.stderr)
            assert held.server.process.pid == process
            return {
                "kinds": dict.fromkeys(kinds, times),
                "wrong": wrong,
                "slowest_s": round(slowest_s, 2),
                "limit_s": RECOVERED_S,
            }


async def _start(what: str, value: str) -> None:
    """A server that starts in another language, or keeps its traces in such a folder, shows a right run."""
    with tempfile.TemporaryDirectory(prefix="tilescope-") as folder:
        place = Path(folder) / (value if what == "folder" else "traces")
        with patch.dict(os.environ, {"LC_ALL": value, "LANG": value} if what == "language" else {}):
            async with lesson(place):  # looks at a run before it begins
                pass


def _port_taken() -> int:
    """`start.py` says which port is taken, and the app that has it goes on; how often."""
    port = free_ports(1)[0]
    with running_app(port=port) as server:
        second = subprocess.run(
            [sys.executable, "-m", "streamlit", "run", "app.py", "--server.port", str(port)],
            cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert second.returncode != 0, "two servers at one port"
        assert str(port) in second.stdout, second.stdout
        assert "Traceback" not in second.stdout, second.stdout
        assert server.process.is_running()
    return 1


if __name__ == "__main__":
    sys.exit(main())
