"""Which buffer and which elements an access touched, and what happens when it may not."""

from __future__ import annotations

import pytest
import torch
import triton

from explain.trace.recorder import OutOfBounds, TraceError, record_call, recording
from tests.explain.trace import sample_kernels as kernels


def accesses(trace):
    return [access for step in range(trace.steps) for access in trace.accesses(step)]


def test_masked_lanes_are_no_access():
    x, y = torch.arange(6.0), torch.zeros(8)
    trace = record_call(lambda: kernels.copy[(1,)](x, y, 4, 6, BLOCK=8))
    load, store = accesses(trace)
    assert (load.kind, load.buffer.name, load.indices().tolist(), load.bytes) == ("load", "x_ptr", [4, 5], 8)
    assert load.elements.numpy().tolist() == list(range(4, 12))
    assert load.mask.numpy().tolist() == [True, True] + [False] * 6
    assert (store.kind, store.mask, store.indices().tolist(), store.bytes) == ("store", None, list(range(8)), 32)
    assert trace.launches[0].read_bytes == {"x_ptr": 8, "y_ptr": 0}


def test_an_access_of_no_lane_has_no_bytes():
    x, y = torch.arange(6.0), torch.zeros(8)
    trace = record_call(lambda: kernels.copy[(1,)](x, y, 6, 6, BLOCK=8))
    assert next((a.buffer.name, a.indices().tolist(), a.bytes) for a in accesses(trace)) == ("x_ptr", [], 0)


def test_views_of_one_packed_storage_are_told_apart():
    n, d, tile = 32, 16, 16
    packed = torch.randn(n, 3 * d)
    q, k, v = packed[:, :d], packed[:, d : 2 * d], packed[:, 2 * d :]
    o = torch.empty(n, 3 * d)[:, :d]

    def call():
        kernels.flash_attention[(n // tile,)](
            q, k, v, o, 3 * d, n, d**-0.5, BLOCK_M=tile, BLOCK_N=tile, HEAD_DIM=d
        )  # fmt: skip

    trace = record_call(call)
    assert torch.allclose(o, torch.softmax(q @ k.T * d**-0.5, -1) @ v, atol=1e-5)
    assert trace.launches[0].read_bytes == {
        "q_ptr": n * d * 4,
        "k_ptr": 2 * n * d * 4,
        "v_ptr": 2 * n * d * 4,
        "o_ptr": 0,
    }
    for access in accesses(trace):
        assert access.indices().min() % (3 * d) == 0  # counted from the argument's own first element
        assert access.indices().max() % (3 * d) == d - 1
    assert [buffer.storage_offset for buffer in trace.launches[0].buffers] == [0, d, 2 * d, 0]


def test_one_tensor_in_two_arguments_is_two_buffers():
    x = torch.arange(4.0)
    trace = record_call(lambda: kernels.copy[(1,)](x, x, 0, 4, BLOCK=4))
    assert trace.launches[0].read_bytes == {"x_ptr": 16, "y_ptr": 0}
    assert trace.launches[0].written_bytes == {"x_ptr": 0, "y_ptr": 16}


def test_one_access_of_two_buffers():
    x, y, out = torch.arange(4.0), torch.arange(10.0, 14.0), torch.zeros(4)
    trace = record_call(lambda: kernels.chosen_pointer[(1,)](x, y, out, BLOCK=4))
    assert out.tolist() == [0, 11, 2, 13]
    found = [(a.kind, a.buffer.name, a.indices().tolist(), a.bytes) for a in accesses(trace)]
    assert found == [("load", "x_ptr", [0, 2], 8), ("load", "y_ptr", [1, 3], 8), ("store", "out_ptr", [0, 1, 2, 3], 16)]


def test_pointers_loaded_from_memory_lead_to_live_tensors():
    tensors = [torch.randn(4), torch.randn(4)]
    table = torch.tensor([tensor.data_ptr() for tensor in tensors])
    y = torch.zeros(8)
    trace = record_call(lambda: kernels.through_table[(2,)](table, y, BLOCK=4))
    assert torch.equal(y, torch.cat(tensors))
    names = [buffer.name for buffer in trace.launches[0].buffers]
    assert names == ["table_ptr", "y_ptr", "loaded_pointer", "loaded_pointer_2"]
    assert trace.launches[0].read_bytes["loaded_pointer_2"] == 16


def test_pointers_loaded_from_memory_that_lead_nowhere_are_refused():
    y = torch.zeros(8)
    with pytest.raises(OutOfBounds, match=r"through_table.*live tensor"):
        record_call(lambda: kernels.through_table[(2,)](torch.tensor([64, 64]), y, BLOCK=4))


def test_a_pointer_seen_as_a_number_is_the_address():
    x, y = torch.arange(4.0), torch.zeros(1, dtype=torch.int64)
    record_call(lambda: kernels.address[(1,)](x, y))
    assert y.item() == x.data_ptr() + 8


@pytest.mark.parametrize(("start", "first"), [(1, 4), (2, 4), (2**40, 2**40), (-1, -1), (-(2**43), -(2**43))])
def test_out_of_bounds_is_an_error_before_it_happens(start, first):
    x, y = torch.arange(4.0), torch.zeros(4)
    line = kernels.copy_unmasked.fn.__code__.co_firstlineno + 4
    says = rf"copy_unmasked, program \[0, 0, 0\], sample_kernels.py:{line}: loads element {first} of x_ptr .*0 to 3$"
    with pytest.raises(OutOfBounds, match=says):
        record_call(lambda: kernels.copy_unmasked[(1,)](x, y, start, BLOCK=4))
    assert y.tolist() == [0] * 4


class Shifted:
    """A library's view of a tensor, from its second element on: it has an address, and no storage."""

    def __init__(self, tensor):
        self.tensor, self.dtype, self.shape = tensor, tensor.dtype, (3,)

    def data_ptr(self):
        return self.tensor.data_ptr() + 4

    def stride(self):
        return (1,)


def test_an_argument_that_is_no_tensor_but_points_into_one():
    x, y = torch.arange(4.0), torch.zeros(4)
    trace = record_call(lambda: kernels.copy[(1,)](Shifted(x), y, 0, 3, BLOCK=4))
    assert y.tolist() == [1, 2, 3, 0]
    assert trace.launches[0].buffers[0].storage_offset == 1


def test_out_of_bounds_of_an_unrecorded_program_and_in_a_helper():
    x, y = torch.arange(4.0), torch.zeros(4)
    line = kernels.load_far_in_helper.fn.__code__.co_firstlineno + 2
    says = rf"out_of_bounds_in_helper, program \[0, 0, 0\], sample_kernels.py:{line}: loads element 7 of x_ptr"
    with pytest.raises(OutOfBounds, match=says):
        record_call(lambda: kernels.out_of_bounds_in_helper[(1,)](x, y, 7), programs=[])


def test_a_store_out_of_bounds():
    x, y = torch.arange(8.0), torch.zeros(4)
    with pytest.raises(OutOfBounds, match=r"stores to element 4 of y_ptr \(4 of 8 lanes are outside it\)"):
        record_call(lambda: kernels.copy[(1,)](x, y, 0, 8, BLOCK=8))


def test_a_tensor_without_elements_can_be_passed_but_not_read():
    x, y = torch.empty(0), torch.zeros(4)
    record_call(lambda: kernels.copy[(1,)](x, y, 0, 0, BLOCK=4))
    with pytest.raises(OutOfBounds, match="it has no elements"):
        record_call(lambda: kernels.copy[(1,)](x, y, 0, 4, BLOCK=4))


def test_reading_the_rest_of_a_storage_through_a_view_is_allowed():
    x, y = torch.arange(8.0), torch.zeros(4)
    record_call(lambda: kernels.copy_unmasked[(1,)](x[:4], y, 4, BLOCK=4))
    assert y.tolist() == [4, 5, 6, 7]


def test_the_error_after_a_caught_one_is_the_same():
    x, y = torch.arange(4.0), torch.zeros(4)
    with recording() as recorder:
        for _ in range(2):
            with pytest.raises(OutOfBounds):
                kernels.copy_unmasked[(1,)](x, y, 2, BLOCK=4)
        kernels.copy[(1,)](x, y, 0, 4, BLOCK=4)
    trace = recorder.trace()
    assert [launch.kernel for launch in trace.launches] == ["copy_unmasked"] * 2 + ["copy"]
    assert trace.launches[2].read_bytes == {"x_ptr": 16, "y_ptr": 0}


def test_int32_offsets_wrap_as_on_a_gpu():
    x, y = torch.arange(4.0), torch.zeros(1)
    with pytest.raises(OutOfBounds, match=f"loads element {-(2**31)} of x_ptr"):
        record_call(lambda: kernels.wraps[(1,)](x, y, 2**16))


def test_reinterpreted_tensors_count_in_their_own_items():
    x, y = torch.arange(8, dtype=torch.int16), torch.zeros(4)
    halves = triton.reinterpret(x, triton.language.float16)
    trace = record_call(lambda: kernels.copy[(1,)](halves, y, 2, 6, BLOCK=4))
    assert trace.launches[0].buffers[0].dtype == "f16"
    assert accesses(trace)[0].indices().tolist() == [2, 3, 4, 5]


def test_kernels_without_source_are_refused():
    scope = {"triton": triton, "tl": triton.language}
    exec("def nameless(x_ptr): pass", scope)
    with pytest.raises(TraceError, match="the source of kernel nameless cannot be read"):
        record_call(lambda: triton.jit(scope["nameless"])[(1,)](torch.zeros(1)))
