"""A file is measured: its launches are grouped, traced on the same arguments, and told; what goes wrong is said."""

from __future__ import annotations

import json
import math
from contextlib import closing
from dataclasses import replace

import pytest
import torch

from explain import cli
from explain.own_file import service
from explain.own_file.in_interpreter import sample
from explain.own_file.model import FileMeasurement
from explain.own_file.report import as_json, lines
from explain.plain import made, plain
from explain.trace.python_file import _module
from explain.workers import WorkerFailed, WorkerPool
from tests.explain.own_file.made import ADD, COUNTS, MEASURED, PROVENANCE

FAKE = replace(service.GPU_WORKER, target="tests.explain.own_file.fake_gpu:handle")

SOURCE = """
import torch, triton, triton.language as tl

@triton.jit
def add_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    tl.store(y_ptr + at, x + 1, mask=at < n)

@triton.autotune([triton.Config({"BLOCK": 16}), triton.Config({"BLOCK": 64}, num_warps=8)], key=["n"])
@triton.jit
def scale_kernel(x_ptr, y_ptr, n, factor, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + at, tl.load(x_ptr + at, mask=at < n) * factor, mask=at < n)

@triton.jit
def count_kernel(x_ptr, SLOW: tl.constexpr):
    for _ in range(SLOW):
        tl.atomic_add(x_ptr, 1)

@triton.jit
def astray_kernel(x_ptr):
    tl.store(x_ptr + (1 << 40), 1.0)

@triton.jit
def endless_kernel(x_ptr):
    while tl.load(x_ptr) == 0:
        pass

def main(n=100):
    x, y = torch.randn(n, device="cuda"), torch.empty(n, device="cuda")
    print("begun")
    for _ in range(3):
        add_kernel[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, y, n, BLOCK=16)
    scale_kernel[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, y, n, 2.5)
    add_kernel[(1,)](x, y, n, BLOCK=128)
    scale_kernel[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, y, n, 2.5)

def many():
    x = torch.zeros(1000, device="cuda")
    for n in range(1, 41):
        add_kernel[(1,)](x, x, n, BLOCK=16)

def astray():
    x = torch.zeros(8, device="cuda")
    add_kernel[(1,)](x, x, 8, BLOCK=8)
    astray_kernel[(1,)](x)  # the line

def endless():
    endless_kernel[(1,)](torch.zeros(1, device="cuda"))  # the line

def full():
    raise torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 9 GiB.")  # the line

def nothing():
    return torch.ones(3)

def inner():
    @triton.jit
    def hidden_kernel(x_ptr):
        tl.store(x_ptr, 1.0)
    hidden_kernel[(1,)](torch.zeros(8, device="cuda"))
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(SOURCE)
    return path


@pytest.fixture(scope="module")
def counter():
    with closing(WorkerPool(service.COUNTER)) as pool:
        yield pool


@pytest.fixture(scope="module")
def measured(counter):
    """Measures a function of a file on the GPU that is made up."""
    with closing(WorkerPool(FAKE)) as pool:

        def measured(file, function: str, seconds: float = 60) -> FileMeasurement:
            workers = {"gpu": pool, "counter": counter}
            return service.measure(file, function, lambda *_: None, **workers, seconds=seconds, megabytes=8000)

        yield measured


def line_of(function: str) -> int:
    """The number of the line marked in this function."""
    found = SOURCE.split("\n")
    start = found.index(f"def {function}():")
    return next(number for number in range(start, len(found)) if "# the line" in found[number]) + 1


def test_equal_launches_are_measured_once_and_counted_in_the_order_of_their_first(measured, file):
    found = measured(file, "main")
    assert [(one.footprint.kernel, one.grid, one.count, dict(one.constants)) for one in found.launches] == [
        ("add_kernel", (7, 1, 1), 3, {"BLOCK": "16"}),
        ("scale_kernel", (2, 1, 1), 2, {"BLOCK": "64"}),  # the fastest; what tuning launched is not there
        ("add_kernel", (1, 1, 1), 1, {"BLOCK": "128"}),
    ]
    assert found.launches[1].footprint.num_warps == 8
    assert found.launches[0].place == f"mine.py:{SOURCE[: SOURCE.index('add_kernel[lambda')].count(chr(10)) + 1}"
    assert (found.output, found.failure, found.left) == ("begun\n", "", 0)
    assert [(one.traced.read_bytes, one.traced.written_bytes) for one in found.launches if one.traced] == [
        (400, 400)
    ] * 3
    assert made(FileMeasurement, json.loads(json.dumps(plain(found)))) == found


def test_the_different_launches_of_a_loop_are_measured_up_to_a_limit(measured, file, monkeypatch):
    monkeypatch.setattr(service, "_traced", lambda request, launches, *_: launches)
    found = measured(file, "many")
    assert (len(found.launches), found.left) == (32, 8)


def test_an_illegal_address_is_said_with_its_line_and_what_ran_before_is_kept(measured, file):
    found = measured(file, "astray")
    assert [one.footprint.kernel for one in found.launches] == ["add_kernel"]
    assert "illegal memory access" in found.failure
    assert f"(mine.py:{line_of('astray')} in astray)" in found.failure
    assert "explain check" in found.failure
    assert "\n" not in found.failure


def test_an_endless_kernel_is_ended_at_the_limit_and_named_with_its_line(measured, file):
    with pytest.raises(service.StoppedAt, match=rf"endless_kernel \(mine.py:{line_of('endless')}\).* 6 s") as raised:
        measured(file, "endless", seconds=6)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("function", "said"),
    [("full", "9 GiB"), ("nothing", "launched no Triton kernel"), ("gone", "no function gone"), ("", "no Triton")],
)
def test_a_file_that_cannot_be_measured_says_why(measured, file, function, said):
    with pytest.raises(WorkerFailed) as raised:
        measured(file, function)
    assert said in raised.value.message
    assert function != "full" or f"(mine.py:{line_of('full')} in full)" in raised.value.message


def test_a_kernel_that_the_trace_cannot_find_says_so(measured, file):
    (launch,) = measured(file, "inner").launches
    assert launch.traced is None
    assert "at the top of the file" in launch.why[0]


def test_a_sample_spreads_over_the_grid_without_a_stride():
    chosen = sample((64, 32, 3), 256)
    assert len(chosen) == 256
    assert all(x < 64 and y < 32 and z < 3 for x, y, z in chosen)
    for axis, size in enumerate((64, 32, 3)):
        mean = sum(program[axis] for program in chosen) / 256
        assert math.isclose(mean, (size - 1) / 2, rel_tol=0.03)


@pytest.fixture
def counted(counter, file, tmp_path):
    """Counts a launch on a grid of 20,000 programs in the interpreter, which has a second for all of them."""

    def counted(kernel: str, **arguments):
        module = _module(file)[1]
        torch.save({"module": module, "name": kernel, "arguments": arguments}, tmp_path / "saved.pt")
        asked = {"path": str(file), "function": "main", "arguments": str(tmp_path / "saved.pt")}
        return counter.call({**asked, "grid": [20_000, 1, 1], "budget": 1.0})

    return counted


def test_a_launch_too_large_for_the_interpreter_is_counted_by_a_sample(counted):
    x = torch.zeros(20_000 * 16)
    found = counted("add_kernel", x_ptr=x, y_ptr=x, n=x.numel(), BLOCK=16)
    assert (found["programs"], found["of"]) == (256, 20_000)
    assert found["read_bytes"] == found["written_bytes"] == 4 * x.numel()


def test_a_sample_of_programs_that_share_work_is_refused(counted):
    with pytest.raises(WorkerFailed, match="atomics"):
        counted("count_kernel", x_ptr=torch.zeros(1), SLOW=3)


def test_the_text_stands_theory_beside_measurement():
    text = "\n".join(lines(MEASURED))
    rows = {row.split()[0]: row for row in text.splitlines() if row.strip()}
    assert "add_kernel on grid (65536, 1, 1), launched 2 times, first at vector_add.py:21" in text
    assert "BLOCK=1024" in rows["constants"]
    assert rows["trace"].split()[1:4] == ["536,870,912", "268,435,456", "4.03"]
    assert rows["DRAM"].split()[1:5] == ["537,000,000", "268,000,000", "4.03", "84%"]
    assert "256 of 65,536 programs" in rows["trace"]
    ends = [
        row.index(word) + len(word) for word, row in (("268,435,456", rows["trace"]), ("268,000,000", rows["DRAM"]))
    ]
    assert ends[0] == ends[1] == rows["bytes"].index("written") + len("written")
    assert "16 programs per SM, limited by" in text
    assert "48 bytes spilled" in text
    assert "    no room" in text
    assert "3 more launches are not measured: 2 different ones came before" in text


def test_a_gpu_that_is_not_in_the_list_has_no_occupancy_and_a_count_that_is_lacking_no_number():
    other = replace(MEASURED, provenance=replace(PROVENANCE, gpu="NVIDIA Made Up"))
    first = replace(ADD, counts=replace(COUNTS, dram_read_bytes=None), traced=None)
    text = "\n".join(lines(replace(other, launches=(first,), uncounted="no permission")))
    assert "programs per SM" not in text
    assert "datasheet" not in text
    assert "not counted by the GPU: no permission" in text
    (row,) = [row for row in text.splitlines() if row.strip().startswith("DRAM")]
    assert row.split()[1:] == ["–", "268,000,000", "–"]


def test_the_json_has_the_rates():
    (add, scale) = as_json(MEASURED)["launches"]
    assert math.isclose(add["traced_bytes_per_second"], 805_306_368 / 0.2e-3)
    assert math.isclose(add["dram_bytes_per_second"], 805_000_000 / 0.2e-3)
    assert (add["programs_on_an_sm"], add["limited_by"]) == (16, "registers")
    assert scale["dram_bytes_per_second"] is None
    json.dumps(as_json(MEASURED), allow_nan=False)


def test_the_command_prints_it_and_exits_3_after_a_failure(file, capsys, monkeypatch):
    for failure, status in (("", 0), ("mine.py:main failed (mine.py:3 in main)", 3)):
        answer = replace(MEASURED, failure=failure, output="begun\n")
        monkeypatch.setattr(service, "measure", lambda *_, answer=answer, **__: answer)
        assert cli.main(["measure", f"{file}:main"]) == status
        out, err = capsys.readouterr()
        assert out.startswith("begun\nvector_add.py:main on NVIDIA H200")
        assert err == (f"explain: {failure}\n" if failure else "")


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["no_such.py:main"], "no_such.py"),
        (["flash_attention", "FILE:main"], "one file alone"),
        (["FILE:main", "--plan", "levels"], "--plan"),
        (["FILE:main", "--out", "."], "--out"),
    ],
)
def test_what_a_file_does_not_take_is_refused(file, capsys, words, named):
    assert cli.main(["measure", *(word.replace("FILE", str(file)) for word in words)]) == 2
    out, err = capsys.readouterr()
    assert named in err
    assert not out


def test_without_a_gpu_one_line_says_what_is_missing_and_what_works(file, capsys, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert cli.main(["measure", f"{file}:main"]) == 3
    out, err = capsys.readouterr()
    assert not out
    assert err.count("\n") == 1
    assert "needs an NVIDIA GPU" in err
    for command in ("check", "trace", "debug", "compile"):
        assert command in err
