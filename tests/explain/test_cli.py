"""The command line, as a script would use it: one JSON object, exit status, messages without a traceback."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, nullcontext
from pathlib import Path

import pytest

from explain import ROOT, app_process, cli
from explain.commands import check, export, trace
from explain.commands import run as run_command
from explain.commands.arguments import parse_programs
from explain.engine import Engine
from explain.trace import file as trace_file
from kernels.catalog import TAUGHT


@pytest.fixture(scope="module")
def warm() -> Iterator[Engine]:
    with closing(Engine()) as engine:
        yield engine


@pytest.fixture(autouse=True)
def one_engine(warm: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """All commands share an engine: each would start a worker of its own, which takes two seconds of a core."""
    for module in (run_command, trace, check, export):
        monkeypatch.setattr(module, "Engine", lambda: warm)
        monkeypatch.setattr(module, "closing", nullcontext)


def run(capsys, *arguments: str) -> tuple[int, str, str]:
    try:
        status = cli.main(arguments)
    except SystemExit as stop:
        status = int(stop.code or 0)
    said = capsys.readouterr()
    assert "Traceback" not in said.err
    return status, said.out, said.err


def test_all_commands_share_the_engine_of_one_process(request):
    assert request.node.get_closest_marker("xdist_group").args == ("tests/explain/test_cli.py",)


def test_list(capsys):
    status, out, _ = run(capsys, "list", "--json")
    listed = json.loads(out)
    assert status == 0
    assert [kernel["name"] for kernel in listed["kernels"]] == list(TAUGHT)
    assert "sentence" in listed["presets"]
    assert all(name in run(capsys, "list")[1] for name in TAUGHT)


def test_run_prints_one_object(capsys, monkeypatch):
    monkeypatch.undo()  # with an engine of its own, which it ends
    words = "--set seq_len=40 --set causal=true --set dtype=bf16 --inputs ascending --seed 7 --json"
    status, out, _ = run(capsys, "run", "flash_attention", "--backend", "interpreter", *words.split())
    answer = json.loads(out)
    assert status == 0
    assert answer["backend"] == "interpreter"
    assert answer["experiment"]["parameters"]["seq_len"] == 40
    assert answer["within_tolerance"] is True
    assert 0 < answer["error"] <= answer["tolerance"]
    assert answer["traffic"]["formula"] == answer["traffic"]["traced"]
    assert set(answer["traffic"]["traced"]) == {"read_bytes", "written_bytes", "flops"}


# Minutes in the interpreter; the tiles are wide, so a part of it is quick.
HUGE = ("flash_attention", "--set", "seq_len=16384", "--set", "head_dim=16", "--set", "block_n=128")


def test_a_run_that_takes_minutes_is_counted_by_a_part(capsys):
    status, out, _ = run(capsys, "run", *HUGE, "--backend", "interpreter", "--json")
    answer = json.loads(out)
    assert (status, answer["within_tolerance"], answer["part"]["times"]) == (0, True, 1024)
    assert answer["experiment"]["parameters"]["seq_len"] == 16384
    assert answer["part"]["experiment"]["parameters"]["seq_len"] == 16
    assert answer["traffic"]["traced"] == answer["traffic"]["formula"]


def test_a_sample_that_stands_for_itself_alone_is_not_multiplied(capsys):
    causal = ("--set", "causal=true")
    status, out, _ = run(capsys, "run", *HUGE, *causal, "--backend", "interpreter", "--json")
    answer = json.loads(out)
    assert (status, answer["part"]["times"], answer["traffic"]["traced"]) == (0, None, None)
    assert answer["part"]["experiment"]["parameters"] | {"seq_len": 16384} == answer["experiment"]["parameters"]


def test_a_trace_that_takes_minutes_is_of_a_part(capsys, tmp_path):
    out_file = tmp_path / "run.tilescope"
    status, out, _ = run(capsys, "trace", *HUGE, "--out", str(out_file), "--json")
    answer = json.loads(out)
    assert (status, answer["part"]["times"]) == (0, 1024)
    assert trace_file.read(out_file).experiment == answer["experiment"] == answer["part"]["experiment"]
    assert answer["traffic"]["traced"] == answer["traffic"]["formula"]


def test_a_check_that_takes_minutes_is_of_a_part(capsys):
    status, out, _ = run(capsys, "check", *HUGE, "--json")
    answer = json.loads(out)
    assert (status, answer["errors"], answer["part"]["times"]) == (0, 0, 1024)
    assert {one["sort"] for one in answer["findings"]} == {"mask"}


def test_named_programs_of_a_run_that_takes_minutes_need_the_option(capsys, tmp_path):
    out_file = tmp_path / "run.tilescope"
    status, _, err = run(capsys, "trace", *HUGE, "--out", str(out_file), "--programs", "0:2")
    assert status == 3
    assert "--whole" in err
    assert not out_file.exists()


def test_all_of_a_long_run_on_request(capsys, monkeypatch):
    monkeypatch.setattr(run_command, "INTERPRETER_SECONDS", 1e-6)
    words = ("run", "softmax_online", "--backend", "interpreter", "--json")
    status, _, err = run(capsys, *words)
    assert status == 3
    assert "--whole" in err
    status, out, _ = run(capsys, *words, "--whole")
    assert (status, json.loads(out)["part"]) == (0, None)


@pytest.mark.parametrize(
    "kernel", [kernel for kernel in TAUGHT.values() if kernel.wrong], ids=lambda kernel: kernel.name
)
def test_a_kernel_that_is_wrong_on_purpose_exits_1(capsys, kernel):
    status, out, _ = run(capsys, "run", kernel.name, "--backend", "interpreter", "--json")
    assert status == 1
    assert json.loads(out)["within_tolerance"] is False


def test_a_kernel_that_is_wrong_on_purpose_says_so(capsys):
    assert "wrong on purpose" in run(capsys, "run", "softmax_naive", "--backend", "interpreter")[1]


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["run", "no_such_kernel"], "kernel=no_such_kernel"),
        (["run", "softmax_online", "--set", "block_n=7"], "block_n=7"),
        (["run", "softmax_online", "--set", "cols=none"], "cols=none"),
        (["run", "softmax_online", "--set", "cols"], "--set=cols"),
        (["run", "softmax_online", "--seed", "x"], "seed=x"),
        (["run", "softmax_online", "--inputs", "x"], "inputs=x"),
        (["run", "softmax_online", "--seconds", "-1"], "--seconds"),
        (["run"], "KERNEL"),
        (["no_such_command"], "no_such_command"),
        (["trace", "softmax_online", "--out", "/no/such/folder/x"], "--out=/no/such/folder/x"),
        (["trace", "softmax_online", "--out", "x", "--programs", "some"], "--programs=some"),
        (["trace", "softmax_online", "--out", "x", "--programs", "3:1"], "--programs=3:1"),
        (["trace", "softmax_online", "--out", "x", "--programs", "0:999999999"], "999,999,999"),
        (["trace", "softmax_online", "--out", "x", "--max-steps", "0"], "--max-steps"),
        (["trace", "some.py", "--out", "x"], "some.py: no such file"),
        (["trace", "softmax_online", "--out", "x", "--programs", "0:2", "--only"], "--only"),
        (["trace", "no_such.py:main", "--out", "x"], "no_such.py"),
        (["trace", f"{__file__}:no_such", "--out", "x"], "no_such"),
        (["trace", f"{__file__}:run", "--out", "x"], "run"),
        (["check", f"{__file__}:test_list", "--at", "n"], "--at=n"),
        (["check", "softmax_online", "--at", "n=3"], "n=3"),
        (["check", "softmax_online", "--at", "rows=3", "--out", "x"], "--at=rows=3"),
        (["check", "some.py", "--at", "n=3"], "--at=n=3"),
        (["check", "softmax_backward", "--at", "rows=3"], "softmax_backward"),
        (["measure", "some.py:main"], "there is no some.py"),
        (["compile", "some.py:main", "--set", "block_m=16"], "--set"),
    ],
)
def test_bad_arguments_exit_2_and_are_named(capsys, words, named):
    status, out, err = run(capsys, *words)
    assert status == 2
    assert named in err
    assert not out


def test_no_gpu_is_said(capsys):
    status, _, err = run(capsys, "run", "softmax_online", "--backend", "cuda")
    if status != 0:
        assert status == 2
        assert "NVIDIA" in err or "CUDA" in err


def test_trace_writes_a_file_that_reads(capsys, tmp_path):
    out_file = tmp_path / "run.tilescope"
    status, out, _ = run(capsys, "trace", "softmax_tiled", "--out", str(out_file), "--json")
    answer = json.loads(out)
    trace = trace_file.read(out_file)
    assert status == 0
    assert answer["steps"] == trace.steps
    assert answer["file_bytes"] == out_file.stat().st_size
    assert answer["trace_seconds"] > 0
    assert answer["traffic"]["traced"] == trace.traffic() == answer["traffic"]["formula"]


@pytest.mark.parametrize("command", ["trace", "export"])
def test_out_replaces_nothing_but_a_run(capsys, tmp_path, command):
    source = tmp_path / "mine.tilescope"
    for content in ("def mine(): pass", ""):
        source.write_text(content)
        status, _, err = run(capsys, command, "softmax_tiled", "--out", str(source))
        assert (status, source.read_text()) == (2, content)
        assert str(source) in err
    page = tmp_path / "mine.html"
    page.write_text("<title>My own page</title>")
    assert run(capsys, "export", "softmax_tiled", "--out", str(page))[0] == 2
    assert page.read_text() == "<title>My own page</title>"
    assert run(capsys, "trace", "softmax_tiled", "--out", "/dev/full")[0] == 2
    assert Path("/dev/full").is_char_device()


def test_out_replaces_an_earlier_run(capsys, tmp_path):
    for name in ("run.tilescope", "run.html"):
        for _ in range(2):
            assert run(capsys, "export", "softmax_tiled", "--out", str(tmp_path / name))[0] == 0


FOREIGN = """
import torch, triton, triton.language as tl

@triton.jit
def double_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    tl.store(y_ptr + at, 2 * x, mask=at < n)

def main():
    x = torch.randn(10)
    y = torch.empty_like(x)
    double_kernel[(3,)](x, y, 10, BLOCK=4)
    double_kernel[(1,)](y, x, 10, BLOCK=16)

def endless():
    while True:
        pass

def hungry():
    return torch.ones(10**11)

def broken():
    print("started")
    double_kernel[(1,)](torch.randn(4), torch.empty(4), 400, BLOCK=512)
"""


def test_a_foreign_file(capsys, tmp_path):
    (tmp_path / "mine.py").write_text(FOREIGN)
    status, out, _ = run(capsys, "trace", f"{tmp_path / 'mine.py'}:main", "--out", str(tmp_path / "t"), "--json")
    answer = json.loads(out)
    assert status == 0
    assert [launch["kernel"] for launch in answer["launches"]] == ["double_kernel"] * 2
    assert [launch["traffic"]["read_bytes"] for launch in answer["launches"]] == [40, 40]
    assert answer["traffic"]["traced"] == {"read_bytes": 80, "written_bytes": 80, "flops": 3 * 4 + 16}


def test_addresses_are_checked_at_a_size_that_does_not_fit(capsys, tmp_path):
    words = ("check", f"{tmp_path / 'mine.py'}:sized")
    text = """
def sized(n=8):
    x = torch.zeros(n)
    double_kernel[(triton.cdiv(n, 4096),)](x, x, n, BLOCK=4096)
"""
    (tmp_path / "mine.py").write_text(FOREIGN + text)
    assert run(capsys, *words, "--at", f"n={2**31}", "--json")[0] == 0  # n is then an int64, and the last offset fits
    status, out, _ = run(capsys, *words, "--at", f"n={2**31 + 4096}", "--json")
    answer = json.loads(out)
    assert (status, answer["errors"], answer["at"]) == (1, 2, {"n": 2**31 + 4096})
    status, out, _ = run(capsys, *words, "--at", f"n={2**31 + 4096}")
    assert (status, "2 errors in addresses at n=2147487744" in out) == (1, True)
    assert run(capsys, *words, "--at", "columns=1")[0] == 2


def test_a_kernel_of_the_list_is_checked_at_a_size_that_does_not_fit(capsys):
    size = {"seq_len": 2048, "heads": 4096, "head_dim": 256, "block_m": 64, "block_n": 256}
    words = [word for name, value in size.items() for word in ("--at", f"{name}={value}")]
    status, out, _ = run(capsys, "check", "flash_attention", *words, "--json")
    answer = json.loads(out)
    assert (status, answer["findings"], answer["failure"], answer["stopped"]) == (0, [], "", "")
    (launch,) = answer["launches"]
    assert launch["grid"] == [32, 4096, 1]
    assert launch["programs"] == [[0, 0, 0], [0, 4095, 0], [31, 0, 0], [31, 4095, 0]]
    assert launch["tensor_bytes"] > 4 * 4096 * 2048 * 256 * 4 > 2**33  # q, k, v, o


def test_a_check_of_some_programs_finds_what_they_do(capsys, tmp_path):
    text = "\ndef beyond():\n    x = torch.zeros(4)\n    double_kernel[(3,)](x, torch.zeros(8), 12, BLOCK=4)\n"
    (tmp_path / "mine.py").write_text(FOREIGN + text)
    for programs, found in (("0", []), ("0:2", [4]), ("all", [4])):
        words = ("check", f"{tmp_path / 'mine.py'}:beyond", "--programs", programs, "--json")
        answer = json.loads(run(capsys, *words)[1])
        assert [one["element"] for one in answer["findings"] if one["error"] and one["buffer"] == "x_ptr"] == found


def test_debug_says_that_its_port_is_taken_and_serves_nothing(capsys, tmp_path):
    text = "\ndef beyond():\n    double_kernel[(2,)](torch.ones(8), torch.empty(7), 8, BLOCK=4)\n"
    (tmp_path / "mine.py").write_text(FOREIGN + text)
    with socket.socket() as other:
        other.bind((app_process.HOST, 0))
        other.listen()
        port = str(other.getsockname()[1])
        status, said, err = run(capsys, "debug", f"{tmp_path / 'mine.py'}:beyond", "--port", port)
    assert status == 3
    assert "1 error" in said
    assert port in err


@pytest.mark.parametrize(
    ("function", "limits", "words"),
    [
        (":endless", ["--seconds", "1"], "raise --seconds"),
        (":hungry", ["--megabytes", "300"], "raise --megabytes"),
        ("", [], "mine.py:FUNCTION calls a function of it"),
    ],
)
def test_a_run_that_launches_nothing_exits_3_and_says_why(capsys, tmp_path, function, limits, words):
    (tmp_path / "mine.py").write_text(FOREIGN)
    status, _, err = run(capsys, "trace", f"{tmp_path / 'mine.py'}{function}", "--out", str(tmp_path / "t"), *limits)
    assert status == 3
    assert words in err
    assert "--whole" not in err  # which a file does not take
    assert not (tmp_path / "t").exists()


def test_a_run_that_fails_leaves_its_trace_and_exits_3(capsys, tmp_path):
    (tmp_path / "mine.py").write_text(FOREIGN)
    out = tmp_path / "t.tilescope"
    limits = ["--max-steps", "900", "--programs", "0:4"]
    status, said, err = run(capsys, "trace", f"{tmp_path / 'mine.py'}:broken", "--out", str(out), *limits)
    failure = trace_file.read(out).report.failure
    assert status == 3
    assert said.startswith("started\n")
    assert failure.message in err
    assert failure.traceback in err
    assert "in broken" in failure.traceback
    status, said, _ = run(capsys, "export", str(out), "--out", str(tmp_path / "t.html"), "--json")
    assert (status, json.loads(said)["step"]) == (0, failure.step)


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("1", [[1, 0, 0]]),
        ("0:2", [[0, 0, 0], [1, 0, 0]]),
        ("3,0:2 7,7,7", [[3, 0, 0], [3, 1, 0], [7, 7, 7]]),
        ("first", "first"),
    ],
)
def test_programs(text, ids):
    assert parse_programs(text) == ids


@pytest.mark.parametrize("command", [[], ["list"], ["run"], ["trace"], ["doctor"], ["record"]])
def test_help(capsys, command):
    status, out, _ = run(capsys, *command, "--help")
    assert status == 0
    assert "usage: python -m explain" in out


def test_doctor_looks_at_what_matters(capsys):
    status, out, _ = run(capsys, "doctor", "--json")
    found = {finding["what"]: finding for finding in json.loads(out)["findings"]}
    assert status == 0
    assert found["Triton's interpreter"]["ok"]
    assert {"Python", "streamlit", "torch", "triton", "GPU", "recorded traces", "cache"} <= set(found)


def test_as_a_module():
    words = [sys.executable, "-m", "explain", "run", "softmax_online", "--set", "block_n=3"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == "explain: block_n=3: must be a power of two from 1 to 65,536\n"
