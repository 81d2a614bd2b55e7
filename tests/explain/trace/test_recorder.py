"""What is recorded, what is only counted, the limits, and that the interpreter is as before afterwards."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import torch
import triton.language as tl
from triton.runtime import interpreter
from triton.runtime.errors import InterpreterError

from explain.trace.file import to_bytes
from explain.trace.model import Affine, Tile, numbers
from explain.trace.recorder import TraceError, TraceTooLarge, record_call, recording
from tests.explain.trace import sample_kernels as kernels

WHEN = "2026-01-01T00:00:00+00:00"


def flash(n=40, d=16, tile=16, dtype=torch.float32):
    torch.manual_seed(0)
    q, k, v = (torch.randn(n, d).to(dtype) for _ in range(3))
    o = torch.empty_like(q)
    grid = (-(-n // tile),)
    return lambda: kernels.flash_attention[grid](q, k, v, o, d, n, 0.25, BLOCK_M=tile, BLOCK_N=tile, HEAD_DIM=d)


@pytest.mark.parametrize("programs", ["first", [], [[1, 0, 0]], [(2, 0, 0), (0, 0, 0)]])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_counters_do_not_depend_on_what_is_recorded(programs, dtype):
    everything = record_call(flash(dtype=dtype))
    some = record_call(flash(dtype=dtype), programs=programs)
    assert some.launches[0].totals == everything.launches[0].totals
    ids = {"first": [(0, 0, 0)]}.get(str(programs), sorted(map(tuple, programs)))
    assert [program.id for program in some.launches[0].recorded] == ids
    assert some.steps == len(ids) * everything.launches[0].recorded[0].steps
    assert everything.counters(everything.steps - 1) == everything.launches[0].totals


def test_a_recorded_program_is_the_same_alone():
    alone = record_call(flash(), programs=[[1, 0, 0]])
    program = record_call(flash()).launches[0].recorded[1]
    together = record_call(flash())
    for name in ("flops_matmul", "flops_exp", "flops_other", "depth"):
        mine, theirs = (getattr(trace.columns, name) for trace in (alone, together))
        assert mine.tolist() == theirs[program.first_step :][: program.steps].tolist()
    for step in range(alone.steps):
        assert alone.line(step) == together.line(program.first_step + step)
        mine, theirs = alone.changes(step), together.changes(program.first_step + step)
        assert list(mine) == list(theirs)
        for name in mine:
            if isinstance(mine[name], Tile | Affine):
                assert np.array_equal(numbers(mine[name]), numbers(theirs[name]), equal_nan=True)


def test_stored_values_are_recorded():
    q, o = torch.randn(32, 16), torch.empty(32, 16)
    trace = record_call(
        lambda: kernels.flash_attention[(2,)](q, q, q, o, 16, 32, 0.25, BLOCK_M=16, BLOCK_N=16, HEAD_DIM=16)
    )
    stores = [access for step in range(trace.steps) for access in trace.accesses(step) if access.kind == "store"]
    for access in stores:
        assert access.stored is not None
        assert np.array_equal(numbers(access.stored).reshape(-1), o.numpy().reshape(-1)[access.indices()])
    assert len(stores) == 2
    assert {access.stored for access in trace.accesses(trace.history("q")[0][0])} == {None}  # a load


def test_what_atomics_take_is_recorded():
    x, total = torch.arange(8.0), torch.zeros(2)
    trace = record_call(
        lambda: kernels.atomics[(1,)](x, total, torch.zeros(1), torch.zeros(1, dtype=torch.int32), 8, BLOCK=8)
    )
    taken = [
        numbers(access.stored).tolist()
        for step in range(trace.steps)
        for access in trace.accesses(step)
        if access.kind == "atomic" and access.stored is not None
    ]
    assert [taken[0], *taken[-2:]] == [[*range(8)], 1, 0]  # in between: a float's maximum, as integers


def test_whole_numbers_that_only_begin_and_end_like_a_range_are_kept():
    x, y = torch.tensor([0, 1, 1, 3]), torch.zeros(4, dtype=torch.int64)
    trace = record_call(lambda: kernels.copy[(1,)](x, y, 0, 4, BLOCK=4))
    (stored,) = (a.stored for step in range(trace.steps) for a in trace.accesses(step) if a.kind == "store")
    assert isinstance(stored, Tile | Affine)
    assert stored.numpy().tolist() == [0, 1, 1, 3]


def test_only_what_changed_is_recorded():
    trace = record_call(flash(n=32), programs="first")
    names = [list(trace.changes(step)) for step in range(trace.steps)]
    assert max(map(len, names[1:])) == 1
    assert trace.state(trace.steps - 1).keys() == {name for step in names for name in step}


def test_equal_runs_give_equal_bytes():
    call = flash()
    first, second = (to_bytes(record_call(call, created=WHEN)) for _ in range(2))
    assert first == second


@pytest.mark.parametrize("wrong", ["some", [[0, 0]], [[0, 0, -1]], [[0, 0, True]], ["000"], 3, [None]])
def test_programs_that_are_none(wrong):
    with pytest.raises(TraceError, match="allowed are 'all', 'first' or a list"):
        record_call(flash(), programs=wrong)


def test_programs_that_do_not_exist():
    with pytest.raises(
        TraceError, match=r"programs \[\[9, 0, 0\]\]: none of them ran; the grids are flash_attention \[3, 1, 1\]"
    ):
        record_call(flash(), programs=[[9, 0, 0]])


def test_no_launch():
    with pytest.raises(TraceError, match="no Triton kernel was launched"):
        record_call(lambda: None)


def test_a_grid_without_programs():
    trace = record_call(lambda: kernels.grid_3d[(0, 1, 1)](torch.zeros(1), 1, 1))
    assert (trace.steps, trace.launches[0].programs) == (0, 0)
    assert trace.traffic() == {"read_bytes": 0, "written_bytes": 0, "flops": 0}


def test_too_many_steps():
    with pytest.raises(TraceTooLarge, match="more than 100 steps: record fewer programs"):
        record_call(flash(), max_steps=100)


def test_too_many_bytes():
    with pytest.raises(TraceTooLarge, match=r"more than 0\.01 MB: record fewer programs"):
        record_call(flash(), max_bytes=10_000)


def test_a_kernel_that_never_ends_hits_the_limit():
    with pytest.raises(TraceTooLarge):
        record_call(lambda: kernels.never_ends[(1,)](torch.zeros(1)), max_steps=1000)


def test_progress_is_told(monkeypatch):
    monkeypatch.setattr("explain.trace.recorder.TELL_SECONDS", 0)
    told = []
    record_call(flash(), progress=lambda what, fraction: told.append((what, fraction)))
    assert told == [(f"flash_attention: program {k} of 3", k / 3) for k in range(3)]


def interpreter_state():
    """Everything that a recording replaces, by name."""
    owners = [
        interpreter,
        interpreter.InterpreterBuilder,
        interpreter.InterpretedFunction,
        interpreter.ReduceOps,
        tl,
        tl.core,
        tl.tensor,
    ]
    return {(owner.__name__, name): value for owner in owners for name, value in vars(owner).items()}


@pytest.mark.parametrize("fails", [False, True])
def test_the_interpreter_is_as_before(fails):
    x = torch.arange(4.0)
    before = interpreter_state()
    rewritten = dict(interpreter.InterpretedFunction.rewritten_fn)
    with recording():
        kernels.copy[(1,)](x, torch.empty(4), 0, 4, BLOCK=4)
        if fails:
            with pytest.raises(InterpreterError, match="on purpose"):
                kernels.fails[(1,)](x)
            with pytest.raises(InterpreterError, match="on purpose"):
                kernels.fails_in_helper[(1,)](x)
    after = interpreter_state()
    assert [name for name in before if before[name] is not after.get(name)] == []
    assert after.keys() == before.keys()
    for fn, plain in rewritten.items():
        assert interpreter.InterpretedFunction.rewritten_fn[fn] is plain
    assert "tilescope" not in " ".join(vars(sys.modules[kernels.__name__]))
    y = torch.empty(4)
    kernels.copy[(1,)](x, y, 0, 4, BLOCK=4)  # the plain interpreter runs the plain function
    assert torch.equal(x, y)


def test_recordings_do_not_nest():
    with recording(), pytest.raises(TraceError, match="another recording"), recording():
        pass


def test_a_failed_launch_leaves_its_steps():
    x = torch.arange(4.0)
    with recording() as recorder, pytest.raises(InterpreterError):
        kernels.fails[(1,)](x)
    trace = recorder.trace()
    assert [list(trace.changes(step)) for step in range(trace.steps)] == [["x_ptr"], ["x"], []]
    assert trace.line(2) == trace.line(1) + 1  # the step that failed


def test_a_launch_after_a_failed_one_starts_clean():
    x, y = torch.arange(4.0), torch.empty(4)
    with recording() as recorder:
        with pytest.raises(InterpreterError):
            kernels.fails_in_helper[(1,)](y)  # what its last statement loaded stays its own
        kernels.copy[(1,)](x, x, 0, 4, BLOCK=4)
    trace = recorder.trace()
    failed, copied = (launch.recorded[0] for launch in trace.launches)
    loading, last = copied.first_step - 2, copied.first_step - 1
    assert (trace.depth(loading), [access.buffer.name for access in trace.accesses(loading)]) == (1, ["x_ptr"])
    assert (trace.depth(last), trace.accesses(last)) == (1, [])
    assert failed.steps == copied.first_step
    assert (trace.depth(copied.first_step), trace.accesses(copied.first_step)) == (0, [])


def test_compiled_triton_is_refused():
    code = (
        "from explain.trace.recorder import recording\ntry:\n with recording(): pass\nexcept ValueError as e: print(e)"
    )
    said = subprocess.run(
        [sys.executable, "-c", code], env={"TRITON_INTERPRET": "0"}, capture_output=True, text=True, check=True
    )
    assert "TRITON_INTERPRET=1" in said.stdout


def test_reading_needs_numpy_alone():
    code = "import sys, explain.trace.file\nprint({'torch', 'triton'} & set(sys.modules))"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "set()"


def test_a_step_that_does_not_exist():
    trace = record_call(flash(), programs="first")
    with pytest.raises(IndexError, match=f"step {trace.steps}: allowed are 0 to {trace.steps - 1}"):
        trace.launch(trace.steps)
