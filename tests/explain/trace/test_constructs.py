"""Each construct of Triton's language is recorded line by line, with what it did."""

from __future__ import annotations

import inspect

import pytest
import torch
import triton
from triton.tools.tensor_descriptor import TensorDescriptor

from explain.trace.model import Affine, BlockPointer, Group, Other, Pointers, Scalar, Trace, numbers
from explain.trace.recorder import record_call, recording
from tests.explain.trace import sample_kernels as kernels


def lines(trace: Trace, function: str = "") -> list[int]:
    """Lines counted from each function's def line, of the steps in `function` (all when empty)."""
    return [
        trace.line(step) - trace.source(step).first_line
        for step in range(trace.steps)
        if function in ("", trace.source(step).function)
    ]


def values(trace: Trace, name: str) -> list[object]:
    return [numbers(value).tolist() for _, value in trace.history(name)]


def test_every_line_of_online_softmax_in_order():
    x = torch.tensor([[-0.3, 0.2, 0.5, 0.7, 0.1, 0.8]])
    y = torch.empty_like(x)
    trace = record_call(lambda: kernels.softmax_online[(1,)](x, y, 6, BLOCK=4))
    first, second = [4, 5, 6, 7, 8, 9, 10], [11, 12, 13, 14]
    assert lines(trace) == [0, 1, 2, 3, *first, *first, *second, *second]
    assert values(trace, "alpha") == [0.0, pytest.approx(0.9048374)]
    assert values(trace, "start") == [0, 4, 0, 4]
    assert torch.allclose(y, torch.softmax(x, -1))
    source = trace.source(0)
    assert source.file == "tests/explain/trace/sample_kernels.py"
    assert source.text.startswith("def softmax_online(")
    assert inspect.getsource(kernels.softmax_online.fn).endswith(source.text)


def test_helpers_have_frames_of_their_own():
    x, y = torch.arange(4.0), torch.empty(4)
    trace = record_call(lambda: kernels.calls_helpers[(1,)](x, y, BLOCK=4))
    assert torch.equal(y, torch.abs(4 * x + 2 + 5 * x) + 3)
    calls = [(trace.depth(step), trace.source(step).function) for step in range(trace.steps)]
    assert calls[3:9] == [(1, "scaled")] * 6  # two calls in one statement
    assert calls[10] == (1, "scaled_twice")
    assert calls[11:14] == [(2, "scaled")] * 3
    assert (1, "foreign_sum") in calls  # a helper of another module
    assert {source.file for source in trace.sources} == {
        f"tests/explain/trace/sample_{part}.py" for part in ("kernels", "helpers")
    }
    second = trace.state(7)
    assert second["factor"] == Scalar("3.0", "float")
    assert numbers(second["y"]).tolist() == [0, 3, 6, 9]
    assert set(trace.state(6)) == {"x", "factor"}  # the first call's y is gone
    assert set(trace.state(9)) == {"x_ptr", "y_ptr", "BLOCK", "offs", "x", "both"}
    assert trace.launches[0].kernel == "calls_helpers"


def test_helpers_of_one_line_and_with_several_returns():
    x, y = torch.arange(4.0), torch.empty(4)
    trace = record_call(lambda: kernels.calls_helpers[(1,)](x, y, BLOCK=4))
    calls = [step for step in range(trace.steps) if trace.source(step).function == "one_line"]
    assert [numbers(trace.state(step)["x"]).tolist()[1] for step in calls] == [4, 4, 5, 5]
    assert lines(trace, "absolute") == [0, 1, 2]  # left by the first return


def test_grid_of_three_dimensions():
    y = torch.zeros(12, dtype=torch.int32)
    trace = record_call(lambda: kernels.grid_3d[(2, 3, 2)](y, 3, 2), programs=[[1, 2, 0]])
    (launch,) = trace.launches
    assert (launch.grid, launch.programs, [p.id for p in launch.recorded]) == ((2, 3, 2), 12, [(1, 2, 0)])
    assert values(trace, "y") == [2]
    assert launch.written_bytes == {"y_ptr": 48}
    assert trace.accesses(trace.steps - 1)[0].indices().tolist() == [10]


def test_range_static_range_and_while():
    y = torch.zeros(1, dtype=torch.int32)
    trace = record_call(lambda: kernels.loops[(1,)](y, 6, STEPS=4))
    assert values(trace, "i") == [0, 2, 4]
    assert values(trace, "j") == [0, 1, 2, 3]
    assert values(trace, "total") == [0, 0, 2, 6, 6, 7, 9, 12, 5, 5]
    assert lines(trace)[-5:] == [6, 7, 6, 8, 9]  # the while's test is seen failing too
    assert y.item() == 5


@pytest.mark.parametrize(("kind", "tested", "out"), [(0, [1, 3, 4], 10), (1, [1, 3, 5, 6], 20), (2, [1, 3, 5, 8], 30)])
def test_if_elif_else(kind, tested, out):
    y = torch.zeros(1, dtype=torch.int32)
    trace = record_call(lambda: kernels.branches[(1,)](y, kind, FAST=False))
    assert lines(trace) == [0, *tested, 9]
    assert y.item() == out


@pytest.mark.filterwarnings("ignore:tl.make_block_ptr is deprecated")
def test_block_pointers():
    x, y = torch.randn(6, 12), torch.zeros(6, 12)
    trace = record_call(lambda: kernels.block_pointers[(1,)](x, y, 6, 12, BLOCK=8))
    assert torch.equal(y, 2 * x)
    history = [value for _, value in trace.history("x")]
    assert history == [BlockPointer(0, (0, start), (8, 8), (6, 12), (12, 1)) for start in (0, 8, 16)]
    assert trace.launches[0].read_bytes == {"x_ptr": 6 * 12 * 4, "y_ptr": 0}


def test_tensor_descriptors_from_the_host():
    x, y = torch.randn(6, 12), torch.zeros(6, 12)
    descriptors = [TensorDescriptor.from_tensor(tensor, [4, 4]) for tensor in (x, y)]
    trace = record_call(lambda: kernels.host_descriptors[(1,)](*descriptors, 12, BLOCK=4))
    assert torch.equal(y[:4], x[:4] + 1)
    (launch,) = trace.launches
    assert dict(launch.arguments)["x_desc"] == BlockPointer(0, None, (4, 4), (6, 12), (12, 1))
    assert launch.written_bytes == {"x_desc": 0, "y_desc": 4 * 12 * 4}


def test_tensor_descriptors_made_in_the_kernel():
    x, y = torch.randn(6, 12), torch.zeros(6, 12)
    trace = record_call(lambda: kernels.device_descriptor[(1,)](x, y, 6, 12, BLOCK=4))
    assert torch.equal(y[:4, 4:8], x[:4, 4:8])
    assert trace.history("y_desc")[0][1] == BlockPointer(1, None, (4, 4), (6, 12), (12, 1))
    assert trace.launches[0].read_bytes == {"x_ptr": 64, "y_ptr": 0}


def test_atomics():
    x, total, largest, lock = (
        torch.arange(6.0),
        torch.zeros(2),
        torch.full((1,), -9.0),
        torch.zeros(1, dtype=torch.int32),
    )
    trace = record_call(lambda: kernels.atomics[(2,)](x, total, largest, lock, 6, BLOCK=4))
    assert (total.tolist(), largest.item(), lock.item()) == ([6.0, 9.0], 5.0, 0)
    assert values(trace, "before") == [[0, 0, 0, 1], [2, 4, 0, 0]]
    (launch,) = trace.launches
    for counted in (launch.read_bytes, launch.written_bytes):  # an atomic reads and writes
        assert {name: counted[name] for name in ("sum_ptr", "max_ptr", "lock_ptr")} == {
            "sum_ptr": 24, "max_ptr": 8, "lock_ptr": 16,
        }  # fmt: skip
    adds = [a for s in range(trace.steps) for a in trace.accesses(s) if a.buffer.name == "sum_ptr"]
    assert [(a.kind, a.indices().tolist(), a.bytes) for a in adds] == [
        ("atomic", [0, 1, 0, 1], 16),
        ("atomic", [0, 1], 8),
    ]
    locks = [s for s in range(trace.steps) for a in trace.accesses(s) if a.buffer.name == "lock_ptr"]
    assert lines(trace, "atomics")[locks[0]] == 5  # the while's header, though its body was never entered


def test_autotuned_and_heuristic_kernels_run_once():
    x = torch.zeros(8)
    trace = record_call(lambda: kernels.tuned[lambda meta: (triton.cdiv(6, meta["BLOCK"]),)](x, 6))
    assert x.tolist() == [0, 1, 2, 3, 4, 5, 0, 0]
    (launch,) = trace.launches
    assert launch.grid == (2, 1, 1)
    assert dict(launch.arguments)["BLOCK"] == Scalar("4", "int")
    assert dict(launch.arguments)["EVEN"] == Scalar("False", "bool")


def test_several_launches():
    x, y = torch.arange(4.0), torch.empty(4)
    with recording(programs="first") as recorder:
        kernels.copy[(2,)](x, y, 0, 4, BLOCK=4)
        kernels.copy[(1,)](y, x, 0, 2, BLOCK=4)
        kernels.grid_3d[(1, 1, 1)](torch.zeros(1), 1, 1)
    trace = recorder.trace()
    assert [launch.kernel for launch in trace.launches] == ["copy", "copy", "grid_3d"]
    assert [launch.traffic()["read_bytes"] for launch in trace.launches] == [32, 8, 0]
    assert trace.traffic()["read_bytes"] == 40
    second = trace.launches[1].recorded[0].first_step
    assert trace.launch(second - 1) is trace.launches[0]
    assert trace.launch(second) is trace.launches[1]
    assert trace.counters(trace.steps - 1).written_bytes == {"y_ptr": 4}
    assert len(trace.sources) == 2


def test_tuples():
    x, y = torch.arange(4.0), torch.empty(4)
    trace = record_call(lambda: kernels.tuples[(1,)]((x, x[2:]), y))
    assert y[0] == 2
    assert [buffer.name for buffer in trace.launches[0].buffers] == ["xy[0]", "xy[1]", "y_ptr"]
    (_, pair), *_ = trace.history("pair")
    assert isinstance(pair, Group)
    assert [numbers(item).tolist() for item in pair.items] == [0.0, 2.0]


def test_statements_over_several_lines():
    y = torch.zeros(1, dtype=torch.int32)
    trace = record_call(lambda: kernels.several_lines[(1,)](y, 3))
    first = trace.source(0).first_line
    assert lines(trace) == [0, 5, 9, 12]
    assert {start - first: end - first for start, end in trace.source(0).spans.items()} == {0: 3, 5: 8, 9: 11, 12: 15}


def test_integer_tiles_are_described_and_pointers_give_elements():
    x, y = torch.arange(8.0), torch.empty(4)
    trace = record_call(lambda: kernels.copy[(1,)](x[4:], y, 1, 3, BLOCK=4))
    (_, offs), *_ = trace.history("offs")
    assert offs == Affine("i32", (4,), 1, (1,))
    (name, pointer), *_ = trace.launches[0].arguments
    assert isinstance(pointer, Pointers)
    assert (name, pointer.buffer, pointer.numpy().item()) == ("x_ptr", 0, 0)
    assert trace.launches[0].buffers[0].storage_offset == 4


def test_a_function_among_the_values_is_text():
    y = torch.zeros(1, dtype=torch.int32)
    trace = record_call(lambda: kernels.uses_function[(1,)](y, kernels.one_line))
    (_, value), *_ = trace.history("FUNCTION")
    assert value == Other("one_line")
    assert y.item() == 2
