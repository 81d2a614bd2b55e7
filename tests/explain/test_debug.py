"""`python -m explain debug`: one command checks a file and serves the app on its run until it is ended."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from explain import ROOT, app_process
from explain.trace import file as trace_file

PROGRAM = """
import torch, triton, triton.language as tl

@triton.jit
def copy_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    tl.store(y_ptr + at, x)

def main():
    copy_kernel[(4,)](torch.ones(60), torch.empty(60), 60, BLOCK=16)
    print("launched")
"""


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    (tmp_path / "mine.py").write_text(PROGRAM)
    return tmp_path / "mine.py"


def debug(*words: str) -> subprocess.Popen[str]:
    environment = {name: value for name, value in os.environ.items() if name not in ("DISPLAY", "WAYLAND_DISPLAY")}
    command = [sys.executable, "-m", "explain", "debug", *words]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, cwd=ROOT, env=environment, stdout=pipe, stderr=pipe, text=True)


def test_it_serves_the_run_until_it_is_ended(mine):
    out = mine.with_name("run.tilescope")
    process = debug(f"{mine}:main", "--no-open", "--json", "--out", str(out))
    try:
        answer = json.loads(process.stdout.readline())
        direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with direct.open(answer["address"], timeout=60) as page:
            assert page.status == 200
    finally:
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=300)
    assert (process.returncode, errors) == (1, "")  # as `check`
    (found,) = (one for one in answer["findings"] if one["error"])
    assert (found["sort"], found["step"]) == ("outside", answer["step"])
    assert trace_file.read(out).report.worst == answer["step"]
    with pytest.raises(OSError, match="refused"):
        direct.open(answer["address"], timeout=10)


def test_without_a_screen_no_browser_is_opened(monkeypatch):
    monkeypatch.setattr("sys.platform", "linux")
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    assert not app_process.has_screen()
    monkeypatch.setenv("DISPLAY", ":0")
    assert app_process.has_screen()
