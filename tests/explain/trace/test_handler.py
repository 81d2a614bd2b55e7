"""The trace worker's answers: an experiment, any Python file, and errors in words."""

from __future__ import annotations

import sys
from textwrap import dedent

import pytest
import torch

from explain.experiment import Experiment
from explain.trace.errors import BadTarget, OutOfBounds, TraceError
from explain.trace.file import read
from explain.trace.handler import handle

KERNEL = """
    import torch, triton
    import triton.language as tl

    @triton.jit
    def double(x_ptr, n, BLOCK: tl.constexpr):
        offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + offs, mask=offs < n)
        tl.store(x_ptr + offs, x * 2, mask=offs < n)
"""


def quiet(what: str, fraction: float) -> None:
    assert what
    assert 0 <= fraction <= 1


@pytest.fixture
def trace_file(tmp_path):
    """Writes a Python file and traces a function of it."""

    def run(text: str, function: str = "main", programs: object = "all", out: str | None = "a.tilescope"):
        path = tmp_path / "lesson.py"
        path.write_text(dedent(KERNEL) + dedent(text))
        target = str(tmp_path / out) if out else None
        request = {"kind": "file", "path": str(path), "function": function, "programs": programs, "out": target}
        return handle(request, quiet)

    return run


def test_a_function_of_any_file(trace_file, tmp_path):
    answer = trace_file(
        """
        def main():
            x = torch.arange(6.0)
            double[(2,)](x, 6, BLOCK=4)
            double[(1,)](x, 3, BLOCK=4)
            assert x.tolist() == [0, 4, 8, 6, 8, 10]
        """
    )
    file = tmp_path / "a.tilescope"
    trace = read(file)
    assert (answer["steps"], answer["file_bytes"]) == (trace.steps, file.stat().st_size)
    assert answer["trace_seconds"] > 0
    launches = [
        {"kernel": "double", "grid": [2, 1, 1], "traffic": {"read_bytes": 24, "written_bytes": 24, "flops": 8}},
        {"kernel": "double", "grid": [1, 1, 1], "traffic": {"read_bytes": 12, "written_bytes": 12, "flops": 4}},
    ]
    assert answer["launches"] == launches
    assert answer["traffic"] == {"read_bytes": 36, "written_bytes": 36, "flops": 12}
    assert trace.sources[0].file == "lesson.py"
    assert trace.steps == 12


def test_counters_alone_and_no_file(trace_file):
    answer = trace_file("def main(): double[(2,)](torch.arange(6.0), 6, BLOCK=4)", programs=[], out=None)
    assert (answer["steps"], answer["file_bytes"], answer["traffic"]["read_bytes"]) == (0, 0, 24)


def test_an_edited_file_is_read_anew(trace_file, tmp_path):
    (tmp_path / "beside.py").write_text("SIZE = 4")
    text = "def main():\n    from beside import SIZE\n    double[(1,)](torch.arange(16.0), SIZE, BLOCK=16)"
    assert trace_file(text)["traffic"]["read_bytes"] == 16
    (tmp_path / "beside.py").write_text("SIZE = 10  # edited")
    assert trace_file("\n# one line more\n" + text)["traffic"]["read_bytes"] == 40
    assert "beside" not in sys.modules
    assert str(tmp_path) not in sys.path


def test_a_module_beside_the_file_comes_before_ours(trace_file, tmp_path):
    (tmp_path / "kernels.py").write_text("SIZE = 5")
    import kernels.catalog as ours

    assert trace_file("import kernels\ndef main(): double[(1,)](torch.arange(16.0), kernels.SIZE, BLOCK=16)")["steps"]
    assert sys.modules["kernels.catalog"] is ours


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            "def other(): pass\ndef needs(n): pass",
            "lesson.py has no function main; functions without arguments there: other$",
        ),
        ("def main(n, m=1): pass", r"lesson.py:main needs arguments \(n\); name one that needs none: none"),
        ("main = double", "lesson.py:main is a kernel: name a function that makes its inputs"),
        ("main = 3", "lesson.py has no function main"),
        ("def main(): pass", "no Triton kernel was launched"),
        ("def main(): raise KeyError('shape')", "lesson.py:main failed: KeyError: 'shape'"),
        ("def main(): exit(3)", "lesson.py:main failed: SystemExit: 3"),
        ("import nothing_there", "importing lesson.py failed: ModuleNotFoundError: No module named 'nothing_there'"),
        ("def main(:", "importing lesson.py failed: SyntaxError"),
        (
            "def main(): double[(1,)](torch.arange(4.0), 4, BLOCK=3)",
            "failed: ValueError: arange's range must be a power of 2",
        ),
    ],
)
def test_errors_in_words(trace_file, text, says):
    with pytest.raises(TraceError, match=says) as raised:
        trace_file(text)
    assert isinstance(raised.value, BadTarget) == ("failed" not in says and "launched" not in says)


@pytest.mark.skipif(torch.cuda.is_available(), reason="asks what is said where there is no GPU")
@pytest.mark.parametrize(
    "call",
    ["torch.zeros(4, device='cuda')", "torch.zeros(4).cuda()", "triton.runtime.driver.active.get_current_device()"],
)
def test_a_gpu_that_is_not_there(trace_file, call):
    with pytest.raises(TraceError, match=r"lesson.py:main asks for a GPU. .*make its tensors on the CPU"):
        trace_file(f"def main(): {call}")


def test_out_of_bounds_is_named(trace_file):
    with pytest.raises(OutOfBounds, match=r"double, program \[0, 0, 0\], lesson.py:8: loads element 4 of x_ptr"):
        trace_file("def main(): double[(1,)](torch.arange(4.0), 6, BLOCK=8)")


def test_no_such_file(tmp_path):
    path = tmp_path / "none.py"
    with pytest.raises(TraceError, match=r"none\.py: no such file"):
        handle({"kind": "file", "path": str(path), "function": "main", "programs": "all", "out": None}, quiet)


def test_an_experiment(tmp_path):
    experiment = Experiment.of("softmax_online")
    out = tmp_path / "a.tilescope"
    request = {"kind": "experiment", "experiment": experiment.to_json(), "programs": "first", "out": str(out)}
    answer = handle(request, quiet)
    assert answer["within_budget"]
    assert answer["error"] <= answer["budget"]
    trace = read(out)
    assert Experiment.from_json(trace.experiment) == experiment
    assert trace.sources[0].file == "kernels/softmax.py"
    assert answer["traffic"] == trace.traffic()
    assert len(trace.launches[0].recorded) == 1


def test_an_unknown_request():
    with pytest.raises(ValueError, match="kind 'dance': allowed are experiment, file"):
        handle({"kind": "dance", "programs": "all", "out": None}, quiet)
