"""The trace worker's answers: an experiment, any Python file, and errors in words."""

from __future__ import annotations

import re
import signal
import sys
from dataclasses import asdict
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
import torch
from torch import overrides

from explain import ROOT
from explain.engine import TRACE_WORKER
from explain.experiment import Experiment
from explain.trace.errors import BadTarget, TookTooLong, TraceError
from explain.trace.file import read
from explain.trace_worker import handle
from explain.workers import WorkerFailed, WorkerOutOfMemory, WorkerPool

KERNEL = """
    import torch, triton
    import triton.language as tl

    @triton.jit
    def double(x_ptr, n, BLOCK: tl.constexpr):
        offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + offs, mask=offs < n)
        tl.store(x_ptr + offs, x * 2, mask=offs < n)
"""


COUNTED: dict[str, object] = {"kind": "file", "programs": [], "out": None}
"""A request that leaves no file."""


def quiet(what: str, fraction: float) -> None:
    assert what
    assert 0 <= fraction <= 1


@pytest.fixture
def trace_file(tmp_path):
    """Writes a Python file and traces a function of it."""

    def run(
        text: str, function: str = "main", programs: object = "all", out: str | None = "a.tilescope", **options: object
    ):
        path = tmp_path / "lesson.py"
        path.write_text(dedent(KERNEL) + dedent(text))
        target = str(tmp_path / out) if out else None
        request = {"kind": "file", "path": str(path), "function": function, "programs": programs, "out": target}
        return handle({**request, "options": options}, quiet)

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
    ],
)
def test_errors_in_words(trace_file, text, says):
    with pytest.raises(TraceError, match=says) as raised:
        trace_file(text)
    assert isinstance(raised.value, BadTarget) == ("failed" not in says and "launched" not in says)


NO_GPU_HERE = pytest.mark.skipif(torch.cuda.is_available(), reason="asks what happens where there is no GPU")


@NO_GPU_HERE
@pytest.mark.parametrize(
    "made",
    [
        "torch.arange(8.0, device='cuda')",
        "torch.arange(8.0, device=torch.device('cuda:0'))",
        "torch.arange(8.0, device=0)",
        "torch.arange(8.0).cuda()",
        "torch.arange(8.0).to('cuda')",
        "torch.nn.Buffer(torch.arange(8.0)).to(torch.float32).to(torch.device('cuda'), torch.float32)",
        "torch.nn.ParameterList([torch.arange(8.0)]).cuda()[0].detach()",
        "torch._C._dynamo.guards._empty_strided_cuda((8,), (1,), torch.float32).copy_(torch.arange(8.0))",
        "torch.empty(8, pin_memory=True).copy_(torch.arange(8.0)).cuda(non_blocking=True)",
    ],
)
def test_tensors_on_cuda_are_on_the_cpu_and_the_trace_says_so(trace_file, made):
    text = """
        def main():
            torch.cuda.manual_seed(0)
            x = MADE
            assert x.is_cuda
            programs = torch.cuda.get_device_properties(x.device).multi_processor_count // 66
            with torch.cuda.stream(torch.cuda.current_stream()):
                double[(programs,)](x, 8, BLOCK=4)
            torch.testing.assert_close(x, 2 * torch.arange(8.0, device="cuda"))
    """
    report = trace_file(text.replace("MADE", made))["report"]
    assert report["failure"] is None
    assert "on the CPU" in report["notes"][0]


@NO_GPU_HERE
@pytest.mark.parametrize(
    "asked",
    [
        "assert x.device == torch.device('cuda', 0) == triton.runtime.driver.active.get_active_torch_device()",
        "assert x.device.type == 'cuda' and x.get_device() == 0 and not x.is_cpu",
        "assert torch.cuda.is_available() and torch.accelerator.current_accelerator().type == 'cuda'",
        "assert not torch.accelerator.current_stream().is_capturing()  # an optimizer's step asks it",
        "torch.cuda.reset_peak_memory_stats(); assert math.isnan(torch.cuda.max_memory_allocated() / 2**20)",
        "assert isinstance(torch.cuda.Event(), torch.cuda.Event) and not isinstance(x, torch.cuda.device)",
        "a, b = torch.cuda.Event(True), torch.cuda.Event(True); a.record(); assert math.isnan(a.elapsed_time(b))",
        "d = triton.runtime.driver.active; d.clear_cache(d.get_empty_cache_for_benchmark())",
        "assert math.isnan(triton.testing.do_bench(lambda: x + 1))",
        "assert len(triton.testing.do_bench(lambda: x + 1, quantiles=[0.5, 0.2, 0.8])) == 3",
        "torch.rand(4, device='cuda', generator=torch.Generator(device='cuda').manual_seed(1))",
        "torch.cuda.set_rng_state(torch.cuda.get_rng_state())",
        "assert torch.cuda.get_device_properties(0).gcnArchName  # as torch.compile does for its cache",
        "torch.set_default_device('cuda'); assert torch.rand(4).is_cuda",
        "with torch.device('cuda'): torch.rand(4)",
        "torch.empty_like(x); torch.zeros(4, device=x.device).to(x.device)",
        "assert torch.device(0) == torch.device(device=torch.device('cuda', 0)) == x.device",
        "assert torch.cuda.make_graphed_callables(torch.sin, (x,))(x).equal(torch.sin(x))",
    ],
)
def test_what_scripts_ask_of_a_gpu(trace_file, asked):
    text = f"""
        import math
        def main():
            x = torch.arange(4.0, device="cuda")
            double[(1,)](x, 4, BLOCK=4)
            {asked}
    """
    assert trace_file(text)["report"]["failure"] is None
    assert torch.zeros(1).device.type == "cpu"


@NO_GPU_HERE
@pytest.mark.parametrize(
    ("context", "dtype"),
    [
        ("torch.autocast('cuda')", torch.float16),
        ("torch.amp.autocast('cuda', torch.bfloat16)", torch.bfloat16),
        ("torch.amp.autocast('cuda', enabled=False)", torch.float32),
    ],
)
def test_autocast_on_cuda_casts_what_is_on_the_cpu(trace_file, context, dtype):
    text = f"""
        def main():
            x = torch.ones(4, 4, device="cuda")
            double[(1,)](x, 4, BLOCK=4)
            with {context}:
                assert (x @ x).dtype == {dtype}
                assert torch.is_autocast_enabled() == ({dtype} != torch.float32)
            assert (x @ x).dtype == torch.float32
    """
    assert trace_file(text)["report"]["failure"] is None
    assert not torch.is_autocast_enabled("cpu")


@NO_GPU_HERE
def test_a_cuda_graph_runs_when_it_is_replayed(trace_file):
    text = """
        def main():
            x, total = torch.arange(4.0, device="cuda"), torch.zeros(4, device="cuda")
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, stream=torch.cuda.Stream()):
                assert torch.cuda.is_current_stream_capturing()
                y = x + 1
                double[(1,)](y, 4, BLOCK=4)
                z = y[:2] * 10
                total += y
            assert total.tolist() == [0, 0, 0, 0]
            for start in (0.0, 4.0):
                x.copy_(torch.arange(start, start + 4))
                graph.replay()
            assert y.tolist() == [10, 12, 14, 16] and z.tolist() == [100, 120]
            assert total.tolist() == [12, 16, 20, 24]
    """
    answer = trace_file(text)
    assert answer["report"]["failure"] is None
    assert len(answer["launches"]) == 2  # the replays


@NO_GPU_HERE
def test_a_file_that_asks_for_no_gpu_is_told_of_none(trace_file):
    text = """
        def main():
            x = torch.arange(4.0)
            double[(1,)](x, 4, BLOCK=4)
            torch.testing.assert_close(x, 2 * torch.arange(4.0, device=x.device))
            assert x.device.type == "cpu" and "cuda" not in str(x)
    """
    report = trace_file(text)["report"]
    assert (report["failure"], report["notes"]) == (None, ())


@NO_GPU_HERE
def test_of_a_benchmark_the_first_size_runs_once(trace_file):
    text = """
        sizes = dict(x_names=["n"], x_vals=[4, 8], line_arg="by", line_vals=["a", "b"], line_names=["a", "b"])
        @triton.testing.perf_report(triton.testing.Benchmark(**sizes, plot_name="double", args={"block": 4}))
        def measured(n, by, block):
            return triton.testing.do_bench(lambda: double[(1,)](torch.arange(4.0), n, BLOCK=block))
        def main(): measured.run(print_data=True, save_path="no such folder")
    """
    answer = trace_file(text)
    assert [launch["traffic"]["read_bytes"] for launch in answer["launches"]] == [16, 16]
    assert answer["report"]["failure"] is None


@pytest.mark.parametrize(
    "launch",
    [
        "k = double.warmup(x, 4, BLOCK=4, grid=(1,)); k._init_handles(); k[(k.n_regs // 16, 1, 1)](x, 4)",
        "double.warmup(torch.float32, 4, BLOCK=4, grid=(1,))[(2,)](x, 4, 4)",
        "k = double[(2,)](x, 4, BLOCK=4); print(k.asm['ptx'], k.metadata.shared // 1024)",
    ],
)
def test_what_a_launch_and_a_warmup_return(trace_file, launch):
    answer = trace_file(f"def main():\n  x = torch.arange(4.0)\n  {launch}")
    assert answer["report"]["failure"] is None
    assert [one["grid"] for one in answer["launches"]] == [[2, 1, 1]]
    assert ("32 registers" in " ".join(answer["report"]["notes"])) == ("float32" not in launch)


@pytest.mark.parametrize("function", ["", "main", "test_it"])
def test_a_file_sees_the_arguments_of_its_script_alone(trace_file, monkeypatch, function):
    monkeypatch.setattr(sys, "argv", ["explain", "trace", "--out", "a.tilescope"])
    text = """
        import argparse
        def main():
            assert len(argparse.ArgumentParser().parse_args().__dict__) == 0
            double[(1,)](torch.arange(4.0), 4, BLOCK=4)
        def test_it(): main()
        if __name__ == "__main__":
            main()
    """
    assert trace_file(text, function)["report"]["failure"] is None
    assert sys.argv[0] == "explain"


@NO_GPU_HERE
def test_the_machine_is_as_before_afterwards(trace_file):
    trace_file("def main(): double[(1,)](torch.arange(4.0, device='cuda'), 4, BLOCK=4)")
    assert torch.cuda.device_count() == 0
    assert not torch.cuda.is_available()
    assert not torch.zeros(1).is_cuda
    with pytest.raises((RuntimeError, AssertionError)):
        torch.zeros(1, device="cuda")


@NO_GPU_HERE
def test_what_only_a_gpu_has_is_refused(trace_file):
    with pytest.raises(TraceError, match=r"lesson.py:main asks for a GPU. .*make its tensors on the CPU"):
        trace_file("def main(): torch.cuda.memory.mem_get_info()")


def test_a_file_runs_as_a_script(trace_file):
    text = """
        import sys
        double[(1,)](torch.arange(4.0), 4, BLOCK=4)
        if __name__ == "__main__":
            assert sys.modules["__main__"].double is double
            double[(2,)](torch.arange(4.0), 4, BLOCK=2)
            sys.exit()
    """
    main = sys.modules["__main__"]
    answer = trace_file(text, "")
    assert [launch["grid"] for launch in answer["launches"]] == [[1, 1, 1], [2, 1, 1]]
    assert answer["report"]["failure"] is None
    assert sys.modules["__main__"] is main
    failed = trace_file(text.replace("sys.exit()", "sys.exit(1)"), "")["report"]["failure"]
    assert "lesson.py failed: SystemExit: 1" in failed["message"]


def test_a_test_runs_as_in_pytest(trace_file, tmp_path):
    (tmp_path / "conftest.py").write_text(
        "import pytest\ndef pytest_addoption(parser): parser.addoption('--device', default='cpu')\n"
        "@pytest.fixture\ndef device(request): return request.config.getoption('--device')\n"
        "@pytest.fixture(autouse=True)\ndef seed(): print('before'); yield; print('after')\n"
    )
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = --no-such-option")
    text = """
        import pytest

        @pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
        @pytest.mark.parametrize("n, tile", [(4, 4), (6, 4), (8, 2)], ids=["a", "b", "c"])
        @pytest.mark.parametrize("shape", [pytest.param((3, 2), id="small"), (4, 2)])
        @pytest.mark.parametrize("dtype", [torch.float16])
        def test_double(shape, n, tile, dtype, device, programs=2):
            if n == tile:
                pytest.skip("one tile")
            assert (shape, n, tile, dtype) == ((3, 2), 6, 4, torch.float16)
            double[(programs,)](torch.zeros(shape, dtype=dtype, device=device), n, BLOCK=tile)
    """
    report = trace_file(text, "test_double")["report"]
    assert report["failure"] is None
    assert "n=6, tile=4" in report["notes"][0]
    assert report["output"] == 2 * "before\nafter\n"  # of the test that skips itself too
    failing = text.replace("BLOCK=tile)", "BLOCK=tile); raise ValueError('wrong')")
    assert "wrong (lesson.py:21 in test_double)" in trace_file(failing, "test_double")["report"]["failure"]["message"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("def test_it(absent): pass", r"needs arguments \(absent\), and no fixture"),
        ("import pytest\ndef test_it(): pytest.skip('no GPU')", "test_it skips itself: no GPU"),
        ("import pytest\npytest.skip('no H100', allow_module_level=True)", "test_it skips itself: no H100"),
        ("import no_such_package\ndef test_it(): pass", r"ModuleNotFoundError.*\(lesson.py:\d+"),
        ("def test_other(): pass", "pytest finds no test test_it in lesson.py"),
        ("def test_it(): pass", "no Triton kernel was launched"),
    ],
)
def test_a_test_that_does_not_run_says_why(trace_file, text, says):
    with pytest.raises(TraceError, match=says):
        trace_file(text, "test_it")


def test_programs_that_are_not_recorded_may_be_left_out(trace_file):
    text = """
        def main():
            x = torch.ones(12)
            double[(3,)](x, 10, BLOCK=4)
            assert x.tolist() == [1] * 4 + [2] * 4 + [1] * 4
    """
    answer = trace_file(text, programs=[[1, 0, 0]], only=True)
    assert answer["report"]["failure"] is None
    assert answer["traffic"]["read_bytes"] == 16
    assert "only the recorded programs ran" in answer["report"]["notes"][0]


@pytest.mark.parametrize(
    ("call", "line", "says"),
    [
        (
            "double[(1,)](torch.arange(4.0), 6, BLOCK=8)",
            8,
            r"double, program \[0, 0, 0\], .*: loads element 4 of x_ptr",
        ),
        ("double[(1,)](torch.arange(4.0), 4, BLOCK=3)", 7, "failed: ValueError: arange's range must be a power of 2"),
        ("double[(1,)](torch.arange(4.0), 4, BLOCK=4), 1 / 0", 9, r"ZeroDivisionError: .* \(lesson.py:10 in main\)"),
    ],
)
def test_a_run_that_fails_leaves_its_trace(trace_file, tmp_path, call, line, says):
    said = trace_file(f"def main(): {call}")["report"]
    trace = read(tmp_path / "a.tilescope")
    assert said == asdict(trace.report)
    assert re.search(says, said["failure"]["message"])
    assert trace.line(said["failure"]["step"]) == line
    assert trace.source(said["failure"]["step"]).function == "double"


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("x = np.exp(x)", r"^np\.exp takes no tensor of a kernel.*: write tl\.exp$"),
        ("x = np.sum(x)", r"^np\.sum takes no tensor"),
        ("x = math.exp(x)", r"^math\.exp takes no tensor of a kernel.*: write tl\.exp$"),
        ("x = torch.exp(x)", r"^torch\.exp takes no tensor of a kernel.*: write tl\.exp$"),
        ("x = tl.flip(x)", r"^tl\.flip needs the axis that it flips: tl\.flip\(x, 0\)$"),
        ("x = last", "`last` has no value here: .* first assigned inside a loop"),
        ("x = tl.flip(x, 0) * math.exp(1.0)", ""),
    ],
)
def test_a_mistake_in_a_kernel_is_told_in_words_at_its_line(trace_file, tmp_path, line, says):
    text = f"""
        import math
        import numpy as np
        @triton.jit
        def wrong(x_ptr, n):
            x = tl.load(x_ptr + tl.arange(0, 4))
            for start in range(n):
                last = x + start
            {line}
            tl.store(x_ptr + tl.arange(0, 4), x)
        def main(): wrong[(1,)](torch.arange(4.0), 2)
    """
    failure = trace_file(text)["report"]["failure"]
    assert re.search(says, failure["message"]) if says else failure is None
    if says:
        trace = read(tmp_path / "a.tilescope")
        text = (tmp_path / "lesson.py").read_text().splitlines()
        assert text[trace.line(failure["step"]) - 1].strip() == line


@pytest.mark.parametrize(
    ("options", "says", "steps"),
    [({"max_steps": 5}, "--max-steps", 6), ({"max_bytes": 100}, "--max-values", 4), ({"seconds": 0.5}, "--seconds", 4)],
)
def test_a_limit_leaves_the_trace_and_names_its_option(trace_file, options, says, steps):
    text = """
        def main():
            double[(1,)](torch.arange(4.0), 4, BLOCK=4)
            while True:
                if KEEP_LAUNCHING:
                    double[(9,)](torch.arange(4.0), 4, BLOCK=4)
    """
    answer = trace_file(f"{dedent(text)}\nKEEP_LAUNCHING = {'seconds' not in options}", **options)
    assert says in answer["report"]["failure"]["message"]
    assert answer["steps"] == steps


@NO_GPU_HERE
def test_a_limit_waits_while_pytorch_changes_its_modes(trace_file, monkeypatch):
    text = """
        def _pop_mode():
            mode = pop()
            for alarm in alarms:
                signal.raise_signal(alarm)
            return mode
    """
    scope = {"pop": overrides._pop_mode, "signal": signal, "alarms": iter([signal.SIGALRM])}
    exec(compile(dedent(text), overrides.__file__, "exec"), scope)
    monkeypatch.setattr(overrides, "_pop_mode", scope["_pop_mode"])
    with pytest.raises(TraceError, match="ran longer than"):
        trace_file("def main():\n  while True:\n    torch.nn.functional.relu(torch.ones(1))", seconds=60)


def test_programs_that_are_not_recorded_are_counted(trace_file):
    text = "def main(): double[(3,)](torch.arange(12.0), 10, BLOCK=4)"
    every, some = (trace_file(text, programs=programs) for programs in ("all", [[1, 0, 0]]))
    assert every["steps"] == 3 * some["steps"]
    assert every["traffic"] == some["traffic"]


def test_what_a_run_prints_is_kept(trace_file, tmp_path):
    trace_file("def main():\n  print('started')\n  double[(1,)](torch.arange(4.0), 4, BLOCK=4)\n  print('x' * 200_000)")
    output = read(tmp_path / "a.tilescope").report.output
    assert output.startswith("started\nxxx")
    assert len(output) == 100_000


@pytest.mark.skipif(torch.cuda.is_available(), reason="there the launch would run on the GPU's tensors")
def test_what_launchers_do_around_a_launch(trace_file):
    text = """
        def main():
            x = torch.arange(8.0)
            with torch.cuda.device(x.device.index):
                double[[2, 1]](x, 8, BLOCK=4)
            double[lambda meta: [8 // meta["BLOCK"]]](x, 8, BLOCK=4)
            torch.cuda.synchronize()
            if x[1] != 4:
                raise ValueError("the CUDA kernel is wrong")
    """
    assert trace_file(text)["report"]["failure"] is None
    failure = trace_file(text.replace("!= 4", "== 4"))["report"]["failure"]
    assert "the CUDA kernel is wrong" in failure["message"]


def test_the_configuration_that_ran_is_noted(trace_file, tmp_path):
    configs = "[triton.Config({'BLOCK': 4}), triton.Config({'BLOCK': 8})]"
    trace_file(f"tuned = triton.autotune({configs}, key=['n'])(double)\ndef main(): tuned[(1,)](torch.arange(4.0), 4)")
    (note,) = read(tmp_path / "a.tilescope").report.notes
    assert "BLOCK: 4" in note


def test_what_kernels_and_their_caller_print_is_kept_and_a_false_device_assert_stops(trace_file, tmp_path):
    text = """
        @triton.jit
        def says(x_ptr, limit):
            x = tl.load(x_ptr)
            tl.device_print("x is", x)
            tl.device_assert(x < limit, "x is too large")
            tl.store(x_ptr, x + 1)
        def main(limit=9):
            x = torch.full((1,), 7.0)
            print("before")
            says[(1,)](x, limit)
            print("after", x.item())
        def fails():
            main(7)
    """
    report = trace_file(text)["report"]
    assert re.fullmatch(r"before\n.*x is.*7.*\nafter 8\.0\n", report["output"], re.DOTALL)
    assert report["failure"] is None
    report = trace_file(text, "fails")["report"]
    assert re.fullmatch(r"before\n.*x is.*7.*\n", report["output"], re.DOTALL)
    failure, trace = report["failure"], read(tmp_path / "a.tilescope")
    assert "x is too large" in failure["message"]
    assert failure["step"] == trace.steps - 1
    assert "in fails" in failure["traceback"]
    assert not [access for step in range(trace.steps) for access in trace.accesses(step) if access.kind == "store"]


@pytest.mark.parametrize("tf32", [False, True])
def test_rounding_to_tf32_is_noted(tmp_path, tf32):
    path, out = ROOT / "tests/explain/trace/dots.py", tmp_path / "a.tilescope"
    request = {"kind": "file", "path": str(path), "function": "main", "programs": "all", "out": str(out)}
    handle({**request, "options": {"tf32": tf32}}, quiet)
    (note,) = read(out).report.notes
    assert "tf32" in note
    handle({**request, "function": "exact", "options": {"tf32": tf32}}, quiet)
    assert read(out).report.notes == ()


def test_no_such_file(tmp_path):
    path = tmp_path / "none.py"
    with pytest.raises(TraceError, match=r"none\.py: no such file"):
        handle({"kind": "file", "path": str(path), "function": "main", "programs": "all", "out": None}, quiet)


def test_an_experiment(tmp_path):
    experiment = Experiment.of("softmax_online")
    out = tmp_path / "a.tilescope"
    request = {"kind": "experiment", "experiment": experiment.to_json(), "programs": "first", "out": str(out)}
    answer = handle(request, quiet)
    assert answer["within_tolerance"]
    assert answer["error"] <= answer["tolerance"]
    trace = read(out)
    assert Experiment.from_json(trace.experiment) == experiment
    assert trace.sources[0].file == "kernels/softmax.py"
    assert answer["traffic"] == trace.traffic()
    assert len(trace.launches[0].recorded) == 1


@pytest.mark.parametrize(
    ("kernel", "sizes", "times"),
    [
        ("softmax_row", {"rows": 65_536, "cols": 4096}, 8192),
        ("vector_add", {"n": 100_000_000}, 12_500_000),
        ("flash_attention", {"seq_len": 1_000_000}, None),  # a program alone reads all keys
        ("flash_attention", {"seq_len": 2_000_000, "kv_len": 16}, 125_000),
    ],
)
def test_nothing_is_made_for_a_run_that_is_too_large(monkeypatch, kernel, sizes, times):
    whole, make = Experiment.of(kernel, sizes), Experiment.make_inputs

    def part_only(experiment):
        assert experiment != whole
        return make(experiment)

    monkeypatch.setattr(Experiment, "make_inputs", part_only)
    asked: dict[str, Any] = {"kind": "experiment", "experiment": whole.to_json(), "programs": [], "out": None}
    request = {**asked, "options": {"budget": 10.0}}
    if times is None:
        with pytest.raises(TookTooLong, match="96,000,000 elements"):
            handle(request, quiet)
    else:
        assert handle(request, quiet)["part"]["times"] == times


def test_an_unknown_request():
    with pytest.raises(ValueError, match="kind 'dance': allowed are experiment, file"):
        handle({"kind": "dance", "programs": "all", "out": None}, quiet)


def test_a_kernel_sees_the_variables_of_the_functions_around_it(trace_file):
    text = """
        def make(factor):
            import triton.language as lang

            @triton.jit
            def scaled(v, by: lang.constexpr = factor):
                return v * by * K

            @triton.jit
            def kernel(x, y, N: lang.constexpr):
                i = lang.arange(0, N)
                lang.store(y + i, scaled(lang.load(x + i)) * K)

            K = lang.constexpr(3.0)
            return kernel

        def main():
            for factor in (2.0, 5.0):
                x, y = torch.arange(8.0), torch.zeros(8)
                make(factor)[(1,)](x, y, 8)
                assert (y == x * 9 * factor).all(), y
        """
    recorded, counted = trace_file(text), trace_file(text, programs=[])
    assert recorded["steps"] == 2 * 5
    assert counted["traffic"] == recorded["traffic"] == {"read_bytes": 64, "written_bytes": 64, "flops": 48}


@pytest.mark.parametrize("waits", [True, False])
def test_a_launch_in_another_thread_is_refused(trace_file, waits):
    text = f"""
        import threading
        from concurrent.futures import ThreadPoolExecutor
        def launch(): double[(2,)](torch.arange(6.0), 6, BLOCK=4)
        def main():
            launch()
            if {waits}:
                ThreadPoolExecutor(1).submit(launch).result()
            threading.excepthook = lambda *said: None
            thread = threading.Thread(target=launch)
            thread.start()
            thread.join()
        """
    with pytest.raises(TraceError, match=r"kernel double.*thread"):
        trace_file(text)


def test_a_run_that_changes_folder_changes_nothing_else(trace_file, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lesson.py").write_text(
        dedent(KERNEL) + "import os\ndef main(): os.chdir('/'); double[(1,)](torch.ones(4), 4, BLOCK=4)"
    )
    request = {"kind": "file", "path": "lesson.py", "function": "main", "programs": "all", "out": "a.tilescope"}
    assert handle(request, quiet)["steps"]
    assert read(tmp_path / "a.tilescope").steps
    assert Path.cwd() == tmp_path


def test_a_module_of_a_package_imports_its_neighbours(tmp_path):
    package = tmp_path / "outer" / "kernels"  # a package of ours has this name too
    package.mkdir(parents=True)
    for folder in (package, package.parent):
        (folder / "__init__.py").touch()
    (package / "beside.py").write_text("SIZE = 4")
    (package.parent / "above.py").write_text("BLOCK = 16")
    main = "from .beside import SIZE\nfrom ..above import BLOCK\nimport beside\n"
    main += "def main(): double[(1,)](torch.ones(16), SIZE, BLOCK=BLOCK)"
    (package / "lesson.py").write_text(dedent(KERNEL) + main)
    before, path = set(sys.modules), list(sys.path)
    request = COUNTED | {"path": str(package / "lesson.py"), "function": "main"}
    assert handle(request, quiet)["traffic"]["read_bytes"] == 16
    (package / "beside.py").write_text("SIZE = 10  # edited")
    assert handle(request, quiet)["traffic"]["read_bytes"] == 40
    assert sys.path == path
    assert not {name for name in set(sys.modules) - before if "outer" in name or "beside" in name}


def test_a_module_of_ours_is_not_replaced_by_tracing_it():
    import kernels.softmax as ours

    request = COUNTED | {"path": ours.__file__, "function": "no_such"}
    with pytest.raises(BadTarget, match=r"softmax\.py has no function no_such"):
        handle(request, quiet)
    assert sys.modules["kernels.softmax"] is ours


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("def main(): raise KeyboardInterrupt", r"main failed: KeyboardInterrupt \(lesson.py:11 in main\)\n"),
        ("def main():\n  import json\n  json.loads('{')", r"JSONDecodeError: .* \(lesson.py:13 in main\)\n"),
        ("1 / 0", r"importing lesson.py failed: ZeroDivisionError: division by zero \(lesson.py:11 in <module>\)\n"),
    ],
)
def test_a_failure_names_its_line(trace_file, text, says):
    with pytest.raises(TraceError, match=says):
        trace_file("\n" + text)


@pytest.mark.parametrize("programs", ["all", []])
def test_a_failure_in_a_helper_names_its_line(trace_file, programs):
    text = """
        @triton.jit
        def f(v):
            return v * nothing

        @triton.jit
        def k(x):
            tl.store(x, f(tl.load(x)))

        def main():
            k[(1,)](torch.ones(1))
    """
    says = r"lesson.py:main failed: NameError: name 'nothing' is not defined \(lesson.py:13 in f\)"
    if programs:
        failure = trace_file(text)["report"]["failure"]
        assert re.match(says, failure["message"])
        calls = [line.split(":")[1].split() for line in failure["traceback"].splitlines()]
        assert calls[-3:] == [["20", "in", "main"], ["17", "in", "k"], ["13", "in", "f"]]
    else:
        with pytest.raises(TraceError, match=says):
            trace_file(text, programs=programs)


def test_programs_that_do_not_exist(trace_file):
    with pytest.raises(
        BadTarget, match=r"programs \[\[99, 0, 0\]\]: none of them ran; the grids are double \[2, 1, 1\]"
    ):
        trace_file("def main(): double[(2,)](torch.arange(6.0), 6, BLOCK=4)", programs=[[99, 0, 0]])


@pytest.mark.parametrize("out", ["no/such/folder/a", "folder", "/proc/a"])
def test_a_place_that_cannot_be_written_is_said_before_the_run(trace_file, tmp_path, out):
    (tmp_path / "folder").mkdir()
    before = set(tmp_path.iterdir())
    with pytest.raises(BadTarget, match=r"cannot be written: ") as raised:
        trace_file("def main(): raise AssertionError('it ran')", out=out)
    assert str(tmp_path / out) in str(raised.value)
    assert "partial" not in str(raised.value)
    assert set(tmp_path.iterdir()) - before == {tmp_path / "lesson.py"}


def test_a_tiny_limit_on_a_new_workers_first_matrix_product(tmp_path):
    (tmp_path / "lesson.py").write_text(
        "import numpy, torch\ndef main(): torch.randn(64, 64) @ torch.randn(64, 64); numpy.ones((9, 9)) @ "
        "numpy.ones((9, 9))"
    )
    request = {"kind": "file", "path": str(tmp_path / "lesson.py"), "function": "main", "programs": "all", "out": None}
    with WorkerPool(TRACE_WORKER) as pool, pytest.raises((WorkerFailed, WorkerOutOfMemory)) as raised:
        pool.call(request, megabytes=1)
    assert "no Triton kernel was launched" in str(raised.value) or isinstance(raised.value, WorkerOutOfMemory)
