"""The fast kernels on a real GPU: their grid, rows that several programs share, the same bits every time."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
import pytest
import torch

from kernels import attention_hopper, attention_split, dispatch, reference, softmax_lanes, softmax_parts
from kernels.attention import flash_attention
from kernels.attention_backward_hopper import attention_backward_hopper
from kernels.attention_backward_wide import attention_backward_wide
from kernels.decode import flash_decode
from kernels.operator import attention
from kernels.softmax_fast import softmax_pipelined, softmax_rows, softmax_shared_row, softmax_two_reads
from kernels.softmax_staged import softmax_staged
from tests.kernels.fast import FAST, HOPPER, experiments, verdict
from tests.kernels.gradients import gradient_error, worst_gradient

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("name", FAST)
def test_every_twentieth_experiment_of_the_grid(name):
    missed = [(e.key, v) for e in experiments(name, 20) if not (v := verdict(name, e, "cuda")).within_tolerance]
    assert not missed


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("splits", [1, 2, 33, 128, 1000])
@pytest.mark.parametrize("shape", [(1, 8, 1, 4, 216), (2, 6, 3, 70, 64), (3, 4, 4, 1, 128), (1, 24, 8, 142, 80)])
def test_parts_joined_by_many_programs_are_right_and_the_same_every_time(shape, splits, causal):
    batch, heads, kv_heads, seq_len, head_dim = shape
    torch.manual_seed(0)
    q = torch.randn(batch, heads, seq_len, head_dim, dtype=torch.bfloat16, device="cuda")
    k, v = (torch.randn(batch, kv_heads, 16_001, head_dim, dtype=torch.bfloat16, device="cuda") for _ in range(2))
    k[:, :, ::3] *= 4  # the maximum differs from part to part
    first = flash_decode(q, k, v, causal=causal, splits=splits)
    for _ in range(20):
        assert all(map(torch.equal, flash_decode(q, k, v, causal=causal, splits=splits), first))
    right = flash_attention(q, k, v, causal=causal)
    for one, other in zip(first, right, strict=True):
        torch.testing.assert_close(one.float(), other.float(), rtol=2e-2, atol=2e-3)


@pytest.mark.parametrize("by_rows", [False, True])
def test_queries_of_heads_that_share_keys_are_rows_of_one_tile(by_rows):
    q = torch.randn(4, 56, 149, 136, dtype=torch.bfloat16, device="cuda")
    k, v = (torch.randn(4, 7, 2886, 136, dtype=torch.bfloat16, device="cuda") for _ in range(2))
    if by_rows:
        q = q.transpose(1, 2).contiguous().transpose(1, 2)
    for one, other in zip(dispatch.attention(q, k, v), flash_attention(q, k, v), strict=True):
        torch.testing.assert_close(one.float(), other.float(), rtol=2e-2, atol=2e-3)


@pytest.mark.parametrize("part", range(6))
@pytest.mark.parametrize("name", HOPPER)
def test_attention_on_hopper(name, part):
    """A sixth of them at a time: the float64 reference of one sixth takes a minute."""
    if torch.cuda.get_device_capability()[0] != 9:
        pytest.skip("a Hopper GPU's own instructions")
    own = list(experiments(name, 3))[part::6]
    missed = [(e.key, v) for e in own if not (v := verdict(name, e, "cuda")).within_tolerance]
    assert not missed


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("head_dim", [8, 16, 24, 32, 40, 48, 56, 72, 80, 96, 104, 136, 152, 160, 176, 200, 256])
def test_each_way_on_hopper(head_dim, causal):
    """Shapes that each way is made for: short rows, a group without rows, more tiles than programs, shared heads."""
    if torch.cuda.get_device_capability()[0] != 9:
        pytest.skip("a Hopper GPU's own instructions")
    torch.manual_seed(0)
    for dtype, (batch, kv_heads, seq_len, kv_len) in zip(
        (torch.bfloat16, torch.float16, torch.bfloat16),
        ((25, 6, 197, 197), (1, 3, 577, 1030), (3, 60, 65, 65)),
        strict=True,
    ):
        q = torch.randn(batch, seq_len, 2 * kv_heads, head_dim, dtype=dtype, device="cuda").transpose(1, 2)
        k, v = torch.randn(2, batch, kv_heads, kv_len, head_dim, dtype=dtype, device="cuda")
        keys, values = (x.double().repeat_interleave(2, dim=1) for x in (k, v))
        s = q.double() @ keys.mT * head_dim**-0.5
        if causal:
            s.masked_fill_(~torch.ones_like(s, dtype=torch.bool).tril(kv_len - seq_len), -torch.inf)
        o = torch.softmax(s, dim=-1) @ values
        for way in attention_hopper.ways(head_dim):
            one, lse = attention_hopper.flash_attention_hopper(
                q, k, v, causal=causal, groups=way.groups, block_n=way.keys
            )
            torch.testing.assert_close(one.double(), o, rtol=2e-2, atol=4e-3)
            torch.testing.assert_close(lse.double(), s.logsumexp(-1), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("head_dim", [8, 16, 40, 64, 72, 96, 120, 128, 136, 160, 184, 192, 232, 256])
def test_shared_keys_on_hopper(head_dim, causal):
    """Each way: shares within a head and over several, fewer rows than a tile and several tiles, heads that share keys,
    queries by rows. The same bits every time.
    """
    if torch.cuda.get_device_capability()[0] != 9:
        pytest.skip("a Hopper GPU's own instructions")
    torch.manual_seed(0)
    for dtype, (batch, kv_heads, group, seq_len, kv_len) in zip(
        (torch.bfloat16, torch.float16, torch.bfloat16, torch.float16),
        ((1, 2, 1, 50, 5001), (2, 5, 7, 23, 2100), (30, 9, 2, 65, 300), (1, 1, 3, 1, 33)),
        strict=True,
    ):
        q = torch.randn(batch, seq_len, group * kv_heads, head_dim, dtype=dtype, device="cuda").transpose(1, 2)
        k, v = torch.randn(2, batch, kv_heads, kv_len, head_dim, dtype=dtype, device="cuda")
        k[:, :, ::3] *= 4  # the maximum differs from part to part
        keys, values = (x.double().repeat_interleave(group, dim=1) for x in (k, v))
        s = q.double() @ keys.mT * head_dim**-0.5
        if causal:
            s.masked_fill_(~torch.ones_like(s, dtype=torch.bool).tril(kv_len - seq_len), -torch.inf)
        o = torch.softmax(s, dim=-1) @ values
        for way in attention_split.ways(head_dim):
            attend = partial(attention_split.flash_attention_split, q, k, v, causal=causal, groups=way.groups)
            first = attend()
            torch.testing.assert_close(first[0].double(), o, rtol=2e-2, atol=4e-3)
            torch.testing.assert_close(first[1].double(), s.logsumexp(-1), rtol=1e-5, atol=1e-4)
            for _ in range(5):
                assert all(map(torch.equal, attend(), first))


def test_few_queries_replayed_from_a_graph_and_on_two_streams_at_once():
    """Each graph and each stream counts its own programs, and a call leaves the counts at 0."""
    q, k, v = (torch.randn(2, 4, n, 64, dtype=torch.bfloat16, device="cuda") for n in (3, 5000, 5000))
    right = flash_decode(q, k, v)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = [flash_decode(q, k, v)]
    for _ in range(20):
        found[0][0].fill_(torch.nan)
        graph.replay()
        assert torch.equal(found[0][0], right[0])
    streams = [torch.cuda.Stream() for _ in range(2)]
    torch.cuda.synchronize()
    for _ in range(20):
        for stream in streams:
            with torch.cuda.stream(stream):
                found.append(flash_decode(q, k, v))
    torch.cuda.synchronize()
    assert all(torch.equal(o, right[0]) for o, _ in found)


@pytest.mark.parametrize("softmax", [softmax_shared_row, softmax_two_reads, softmax_parts.softmax_parts])
@pytest.mark.parametrize("cols", [65536, 100_003, 262144])
def test_long_rows_are_right_and_the_same_every_time(softmax, cols):
    x = torch.randn(300, cols, dtype=torch.bfloat16, device="cuda")
    y = softmax(x)
    for row in (0, 150, 299):
        np.testing.assert_allclose(y[row].double().cpu(), reference.softmax(x[row].float().cpu().numpy()), rtol=5e-3)
    assert all(torch.equal(y, softmax(x)) for _ in range(20))


@pytest.mark.parametrize(
    "softmax", [softmax_rows, softmax_pipelined, softmax_two_reads, softmax_shared_row, softmax_parts.softmax_parts]
)
def test_past_2_to_the_31_elements(softmax):
    rows, cols = 65536 + 8, 32768
    x = torch.randn(rows, cols, dtype=torch.float16, device="cuda")
    y = softmax(x)
    for part in (slice(0, 4), slice(rows - 4, rows)):
        np.testing.assert_allclose(
            y[part].cpu().numpy(), reference.softmax(x[part].cpu().numpy()), rtol=2e-3, atol=1e-7
        )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("cols", [8, 1000, 4096, 32768])
def test_staged_rows(dtype, cols):
    x = torch.randn(300, cols, device="cuda").to(dtype)
    x[1, : cols // 2] = -torch.inf
    x[2] = -torch.inf
    x[3, cols - 1] = torch.nan
    x[4], x[5, 1:] = torch.finfo(dtype).min, torch.finfo(dtype).min
    y = softmax_staged(x)
    right = torch.softmax(x.double(), dim=-1)
    right[2] = 0
    torch.testing.assert_close(
        y.double(), right, rtol={torch.float32: 1e-5}.get(dtype, 8e-3), atol=1e-7, equal_nan=True
    )


@pytest.fixture
def poisoned(monkeypatch):
    """What a kernel does not write is NaN."""
    monkeypatch.setattr(torch, "empty_like", lambda x, **_: torch.full_like(x, torch.nan))


def placed(x: torch.Tensor) -> Iterator[torch.Tensor]:
    """The same rows contiguous, between columns of 300, and after 3 elements of 300."""
    wider = torch.full((len(x), x.shape[1] + 16 - x.shape[1] % 8), 300.0, dtype=x.dtype, device=x.device)
    wider[:, : x.shape[1]] = x
    shifted = torch.full((x.numel() + 3,), 300.0, dtype=x.dtype, device=x.device)
    shifted[3:] = x.flatten()
    yield from (x, wider[:, : x.shape[1]], shifted[3:].view(x.shape))


def check_softmax(softmax, x: torch.Tensor) -> None:
    """Right on every row, of which three have −inf and one a NaN, wherever they start; and x is as it was."""
    x[1, : x.shape[1] // 2] = -torch.inf
    x[2] = -torch.inf
    x[3, x.shape[1] - 1] = torch.nan
    right = torch.softmax(x.double(), dim=-1)
    right[2] = 0
    rtol = 1e-5 if x.dtype == torch.float32 else 8e-3
    for given in placed(x):
        before = given.clone()
        y = softmax(given).double()
        torch.testing.assert_close(y, right, rtol=rtol, atol=1e-7, equal_nan=True)
        torch.testing.assert_close(given, before, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("rows", [5, 1001])
@pytest.mark.parametrize(
    "cols",
    [1, 2, 5, 7, 8, 9, 17, 24, 25, 35, 48, 52, 59, 64, 73, 83, 128, 129, 189, 250, 369, 384, 385, 512, 513, 990, 991],
)
def test_short_rows_by_a_few_lanes(cols, rows, dtype, poisoned):
    x = torch.randn(rows, cols, device="cuda").to(dtype)
    check_softmax(softmax_lanes.softmax_lanes, x)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("cols", [8, 1000, 4096, 4097, 16384, 40_001, 65536, 100_003, 131_072])
def test_rows_in_parts(cols, dtype, poisoned):
    def in_parts(x: torch.Tensor, part: int, warps: int) -> torch.Tensor:
        if softmax_parts.refusal(x):
            return dispatch.softmax(x)
        return softmax_parts.softmax_parts(x, part=part, warps=warps)

    for part, warps in ((2**12, 2), (2**13, 2), (2**14, 2), (2**15, 4)):
        x = torch.randn(70, cols, device="cuda").to(dtype)
        check_softmax(partial(in_parts, part=part, warps=warps), x)


def test_rows_in_parts_replayed_from_a_graph():
    """Each replay clears the pairs anew, and the kernel that starts early still waits for them."""
    x = torch.randn(300, 100_000, dtype=torch.bfloat16, device="cuda")
    softmax_parts.softmax_parts(x)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = softmax_parts.softmax_parts(x)
    for _ in range(20):
        x.normal_()
        y.fill_(torch.nan)
        graph.replay()
        torch.testing.assert_close(y.double(), torch.softmax(x.double(), dim=-1), rtol=8e-3, atol=1e-7)


def test_rows_in_parts_on_two_streams_at_once():
    """Each stream has its own pairs, so neither call sees the other's."""
    x = torch.randn(300, 100_000, dtype=torch.bfloat16, device="cuda")
    right = torch.softmax(x.double(), dim=-1)
    streams = [torch.cuda.Stream() for _ in range(2)]
    torch.cuda.synchronize()
    found = []
    for _ in range(20):
        for stream in streams:
            with torch.cuda.stream(stream):
                found.append(softmax_parts.softmax_parts(x))
    torch.cuda.synchronize()
    torch.testing.assert_close(found[0].double(), right, rtol=8e-3, atol=1e-7)
    assert all(torch.equal(one, found[0]) for one in found)


@pytest.mark.parametrize("dq", ["again", "add", "tma"])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    "shape", [(2, 4, 2, 300, 500, 64), (1, 3, 1, 513, 257, 128), (1, 2, 2, 1, 1, 64), (2, 2, 2, 200, 200, 80)]
)
def test_gradients(shape, causal, dq):
    assert worst_gradient(flash_attention, shape, torch.bfloat16, causal, "cuda", dq=dq) <= 1


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    "shape",
    [
        (2, 4, 2, 300, 500, 64), (1, 3, 1, 513, 257, 128), (1, 2, 2, 1, 1, 64), (2, 2, 2, 200, 200, 80),
        (1, 2, 1, 900, 1100, 96), (3, 4, 4, 4, 900, 64), (1, 2, 2, 640, 640, 24), (2, 4, 2, 1000, 1000, 120),
        (5, 16, 16, 256, 256, 128),
    ],
)  # fmt: skip
@pytest.mark.parametrize("stored", [False, True])
def test_gradients_by_five_matmuls_on_hopper(shape, causal, dtype, stored):
    if torch.cuda.get_device_capability()[0] != 9:
        pytest.skip("a Hopper GPU's own instructions")
    kernel = partial(attention_backward_hopper, stored=stored)
    assert worst_gradient(flash_attention, shape, dtype, causal, "cuda", backward=kernel) <= 1


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize(
    "shape", [(1, 3, 1, 513, 257, 128), (1, 2, 2, 1, 300, 128), (2, 4, 2, 200, 1000, 120), (5, 16, 16, 384, 384, 128)]
)
@pytest.mark.parametrize("stored", [False, True])
def test_gradients_where_programs_start_with_different_queries(shape, dtype, stored):
    if torch.cuda.get_device_capability()[0] != 9:
        pytest.skip("a Hopper GPU's own instructions")
    kernel = partial(attention_backward_hopper, stored=stored, turned=True)
    assert worst_gradient(flash_attention, shape, dtype, False, "cuda", backward=kernel) <= 1


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    "shape",
    [
        (2, 4, 2, 300, 500, 256), (1, 3, 1, 513, 257, 192), (1, 2, 2, 1, 1, 256), (2, 2, 2, 200, 200, 136),
        (1, 2, 1, 900, 1100, 200), (3, 4, 4, 4, 900, 160), (1, 2, 2, 640, 64, 248), (5, 16, 16, 256, 256, 144),
        (2, 4, 2, 2000, 2000, 216), (1, 1, 1, 2500, 2500, 176),
    ],
)  # fmt: skip
@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize("persistent", [False, True])
def test_gradients_of_wide_heads_by_five_matmuls_on_hopper(shape, causal, dtype, stored, persistent):
    if torch.cuda.get_device_capability()[0] != 9:
        pytest.skip("a Hopper GPU's own instructions")
    kernel = partial(attention_backward_wide, stored=stored, persistent=persistent)
    assert worst_gradient(flash_attention, shape, dtype, causal, "cuda", backward=kernel) <= 1


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    "shape",
    [
        (2, 4, 2, 300, 500, 64), (1, 3, 1, 513, 257, 128), (1, 2, 1, 900, 1100, 96), (1, 2, 2, 640, 640, 24),
        (2, 4, 2, 1000, 77, 120), (1, 1, 1, 4200, 300, 104), (1, 3, 1, 513, 257, 192), (2, 2, 2, 200, 200, 136),
        (1, 2, 1, 900, 1100, 256),
    ],
)  # fmt: skip
@pytest.mark.parametrize("split", [(0, 3), (2, 5), (0, 16), None])
def test_gradients_of_programs_in_pieces(shape, causal, dtype, split):
    if torch.cuda.get_device_capability()[0] != 9:
        pytest.skip("a Hopper GPU's own instructions")
    kernel = partial(attention_backward_wide if shape[-1] > 128 else attention_backward_hopper, split=split)
    assert worst_gradient(flash_attention, shape, dtype, causal, "cuda", backward=kernel) <= 1


@pytest.mark.parametrize("head_dim", [64, 96, 128, 192, 256])
@pytest.mark.parametrize(
    ("batch", "seq_len", "causal"), [(4, 1500, True), (40, 183, True), (40, 183, False), (100, 270, False)]
)
def test_gradients_by_five_matmuls_where_many_programs_add_to_a_row(head_dim, batch, seq_len, causal):
    """The same but for the order of the sums, time after time: no tile of dQ is added from a place that changes, nor
    before it is stored.
    """
    if torch.cuda.get_device_capability()[0] != 9:
        pytest.skip("a Hopper GPU's own instructions")
    q, k, v, do = (torch.randn(batch, 8, seq_len, head_dim, dtype=torch.bfloat16, device="cuda") for _ in range(4))
    o, lse = dispatch.attention(q, k, v, causal=causal)
    first = dispatch.attention_backward(q, k, v, o, lse, do, causal=causal)
    assert gradient_error((q, k, v, do), first, causal=causal) <= 1
    for _ in range(20):
        for one, other in zip(first, dispatch.attention_backward(q, k, v, o, lse, do, causal=causal), strict=True):
            torch.testing.assert_close(other, one, rtol=2e-2, atol=1e-3)


def test_gradients_by_strides_of_a_model_and_deterministic_when_asked_for():
    """Heads beside features, as a layer gives them; then with torch's switch the same bits every time."""
    q, k, v, do = (torch.randn(2, 700, 4, 128, dtype=torch.bfloat16, device="cuda").transpose(1, 2) for _ in range(4))
    leaves = [t.detach().requires_grad_() for t in (q, k, v)]
    o = attention(*leaves, causal=True)
    result = torch.autograd.grad(o, leaves, do, retain_graph=True)
    assert gradient_error((q, k, v, do), result, causal=True) <= 1
    torch.use_deterministic_algorithms(True)
    try:
        found = [torch.autograd.grad(o, leaves, do, retain_graph=True) for _ in range(10)]
    finally:
        torch.use_deterministic_algorithms(False)
    assert gradient_error((q, k, v, do), found[0], causal=True) <= 1
    assert all(torch.equal(*pair) for other in found[1:] for pair in zip(found[0], other, strict=True))


def test_gradients_without_atomics_are_the_same_every_time():
    shape = (2, 4, 2, 700, 700, 128)
    forwards = [partial(flash_attention) for _ in range(5)]  # each another function, so that each runs
    found = {worst_gradient(forward, shape, torch.bfloat16, True, "cuda") for forward in forwards}
    assert len(found) == 1


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize(
    "shape",
    [
        (2, 4, 2, 300, 500, 64),
        (1, 2, 1, 513, 257, 128),
        (2, 4, 1, 1, 300, 128),
        (1, 2, 2, 70, 70, 256),
        (1, 2, 2, 9, 40, 24),
        (2, 2, 1, 150, 331, 80),
        (1, 4, 2, 260, 200, 144),
        (1, 2, 2, 200, 257, 192),
        (1, 2, 1, 129, 128, 216),
    ],
)
def test_gradients_through_the_operator(shape, dtype, causal):
    batch, heads, kv_heads, seq_len, kv_len, head_dim = shape
    q, do = (torch.randn(batch, heads, seq_len, head_dim, dtype=dtype, device="cuda") for _ in range(2))
    k, v = (torch.randn(batch, kv_heads, kv_len, head_dim, dtype=dtype, device="cuda") for _ in range(2))
    leaves = [t.clone().requires_grad_() for t in (q, k, v)]
    result = torch.autograd.grad(attention(*leaves, causal=causal), leaves, do)
    assert gradient_error((q, k, v, do), result, causal) <= 1


@pytest.mark.parametrize("head_dim", [40, 64, 128])
def test_the_operator_is_registered_as_torch_demands(head_dim):
    q, k, v = (
        torch.randn(1, 2, 130, head_dim, dtype=torch.bfloat16, device="cuda", requires_grad=True) for _ in range(3)
    )
    torch.library.opcheck(torch.ops.tilescope.attention.default, (q, k, v, True, 0.1))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize(
    "cols", [1, 37, 256, 570, 1000, 1024, 4096, 5000, 8192, 16384, 32768, 40_000, 65536, 262_144, 1_000_003, 2_200_000]
)
def test_the_dispatcher_takes_rows_of_any_length(cols, dtype):
    x = torch.randn(300, cols, device="cuda").to(dtype)
    rtol = 1e-5 if dtype == torch.float32 else 8e-3
    torch.testing.assert_close(dispatch.softmax(x).double(), torch.softmax(x.double(), dim=-1), rtol=rtol, atol=1e-7)
