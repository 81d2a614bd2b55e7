"""Small kernels, one construct each, for the tests of the trace engine."""
# ruff: noqa: E704, F841, RET504

import triton
import triton.language as tl

from tests.explain.trace.sample_helpers import foreign_sum


@triton.jit
def softmax_online(x_ptr, y_ptr, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0) * n_cols
    m_i = -float("inf")
    l_i = 0.0
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row + cols, mask=cols < n_cols, other=-float("inf"))
        m_new = tl.maximum(m_i, tl.max(x, axis=0))
        alpha = tl.exp(m_i - m_new)
        l_i = l_i * alpha + tl.sum(tl.exp(x - m_new), axis=0)
        m_i = m_new
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row + cols, mask=cols < n_cols)
        tl.store(y_ptr + row + cols, tl.exp(x - m_i) / l_i, mask=cols < n_cols)


@triton.jit
def flash_attention(
    q_ptr, k_ptr, v_ptr, o_ptr, stride_m, seq_len, sm_scale,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, HEAD_DIM: tl.constexpr,
):  # fmt: skip
    start_m = tl.program_id(0) * BLOCK_M
    offs_m = start_m + tl.arange(0, BLOCK_M)
    offs_d = tl.arange(0, HEAD_DIM)
    q = tl.load(q_ptr + offs_m[:, None] * stride_m + offs_d[None, :], mask=offs_m[:, None] < seq_len, other=0.0)
    m_i = tl.full((BLOCK_M,), -float("inf"), tl.float32)
    l_i = tl.zeros((BLOCK_M,), tl.float32)
    acc = tl.zeros((BLOCK_M, HEAD_DIM), tl.float32)
    for start_n in range(0, seq_len, BLOCK_N):
        offs_n = start_n + tl.arange(0, BLOCK_N)
        inside = offs_n < seq_len
        k = tl.load(k_ptr + offs_n[:, None] * stride_m + offs_d[None, :], mask=inside[:, None], other=0.0)
        s = tl.dot(q, tl.trans(k)) * sm_scale
        s = tl.where(inside[None, :], s, -float("inf"))
        m_new = tl.maximum(m_i, tl.max(s, axis=1))
        alpha = tl.exp(m_i - m_new)
        p = tl.exp(s - m_new[:, None])
        l_i = l_i * alpha + tl.sum(p, axis=1)
        acc = acc * alpha[:, None]
        v = tl.load(v_ptr + offs_n[:, None] * stride_m + offs_d[None, :], mask=inside[:, None], other=0.0)
        acc += tl.dot(p.to(v.dtype), v)
        m_i = m_new
    out = acc / l_i[:, None]
    tl.store(o_ptr + offs_m[:, None] * stride_m + offs_d[None, :], out, mask=offs_m[:, None] < seq_len)


@triton.jit
def scaled(x, factor):
    y = x * factor
    return y


@triton.jit
def one_line(x): return x + 1  # fmt: skip


@triton.jit
def absolute(x):
    if x < 0:
        return -x
    return x


@triton.jit
def scaled_twice(x, factor):
    once = scaled(x, factor)
    return scaled(once, factor)


@triton.jit
def calls_helpers(x_ptr, y_ptr, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs)
    both = scaled(x, 2.0) + scaled(x, 3.0)
    deep = scaled_twice(x, 2.0)
    other = foreign_sum(one_line(one_line(deep)), both)
    sign = absolute(tl.program_id(0) - 3)
    tl.store(y_ptr + offs, other + sign)


@triton.jit
def grid_3d(y_ptr, n_y, n_z):
    x, y, z = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    tl.store(y_ptr + (x * n_y + y) * n_z + z, x * 100 + y * 10 + z)


@triton.jit
def loops(y_ptr, n, STEPS: tl.constexpr):
    total = 0
    for i in tl.range(0, n, 2, num_stages=2):
        total += i
    for j in tl.static_range(STEPS):
        total += j
    while total > 10:
        total -= 7
    total += 0
    tl.store(y_ptr, total)


@triton.jit
def branches(y_ptr, kind, FAST: tl.constexpr):
    if FAST:
        out = 1
    if kind == 0:
        out = 10
    elif kind == 1:
        out = 20
    else:
        out = 30
    tl.store(y_ptr, out)


@triton.jit
def block_pointers(x_ptr, y_ptr, rows, cols, BLOCK: tl.constexpr):
    x = tl.make_block_ptr(x_ptr, (rows, cols), (cols, 1), (0, 0), (BLOCK, BLOCK), (1, 0))
    y = tl.make_block_ptr(y_ptr, (rows, cols), (cols, 1), (0, 0), (BLOCK, BLOCK), (1, 0))
    for _ in range(0, cols, BLOCK):
        tile = tl.load(x, boundary_check=(0, 1), padding_option="nan")
        tl.store(y, tile * 2.0, boundary_check=(0, 1))
        x = tl.advance(x, (0, BLOCK))
        y = tl.advance(y, (0, BLOCK))


@triton.jit
def host_descriptors(x_desc, y_desc, cols, BLOCK: tl.constexpr):
    for start in range(0, cols, BLOCK):
        tile = x_desc.load([0, start])
        y_desc.store([0, start], tile + 1.0)


@triton.jit
def device_descriptor(x_ptr, y_ptr, rows, cols, BLOCK: tl.constexpr):
    x_desc = tl.make_tensor_descriptor(x_ptr, [rows, cols], [cols, 1], [BLOCK, BLOCK])
    tile = x_desc.load([0, BLOCK])
    y_desc = tl.make_tensor_descriptor(y_ptr, [rows, cols], [cols, 1], [BLOCK, BLOCK])
    y_desc.store([0, BLOCK], tile)


@triton.jit
def atomics(x_ptr, sum_ptr, max_ptr, lock_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n)
    before = tl.atomic_add(sum_ptr + offs % 2, x, mask=offs < n)
    tl.atomic_max(max_ptr, tl.max(tl.where(offs < n, x, -float("inf")), axis=0))
    while tl.atomic_cas(lock_ptr, 0, 1) == 1:
        pass
    tl.atomic_xchg(lock_ptr, 0)
    tl.store(x_ptr + offs, before, mask=offs < n)


@triton.autotune(configs=[triton.Config({"BLOCK": 4}), triton.Config({"BLOCK": 8})], key=["n"])
@triton.heuristics({"EVEN": lambda args: args["n"] % args["BLOCK"] == 0})
@triton.jit
def tuned(x_ptr, n, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if EVEN:
        tl.store(x_ptr + offs, offs)
    else:
        tl.store(x_ptr + offs, offs, mask=offs < n)


@triton.jit
def copy(x_ptr, y_ptr, start, n, BLOCK: tl.constexpr):
    offs = start + tl.arange(0, BLOCK)
    y = tl.load(x_ptr + offs, mask=offs < n)
    tl.store(y_ptr + tl.arange(0, BLOCK), y)


@triton.jit
def copy_unmasked(x_ptr, y_ptr, start, BLOCK: tl.constexpr):
    tl.store(
        y_ptr + tl.arange(0, BLOCK),  # the load is on a line of its own
        tl.load(x_ptr + start.to(tl.int64) + tl.arange(0, BLOCK)),
    )


@triton.jit
def load_far_in_helper(x_ptr, start):
    return tl.load(x_ptr + start)


@triton.jit
def out_of_bounds_in_helper(x_ptr, y_ptr, start):
    tl.store(y_ptr, load_far_in_helper(x_ptr, start))


@triton.jit
def through_table(table_ptr, y_ptr, BLOCK: tl.constexpr):
    x_ptr = tl.load(table_ptr + tl.program_id(0)).to(tl.pointer_type(tl.float32))
    x = tl.load(x_ptr + tl.arange(0, BLOCK))
    tl.store(y_ptr + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), x)


@triton.jit
def chosen_pointer(x_ptr, y_ptr, out_ptr, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    either = tl.where(offs % 2 == 0, x_ptr + offs, y_ptr + offs)
    tl.store(out_ptr + offs, tl.load(either))


@triton.jit
def bf16_arithmetic(x_ptr, y_ptr, out_ptr, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs)
    y = tl.load(y_ptr + offs)
    added = x + y
    multiplied = x * y * 2.0
    larger = tl.maximum(x, y)
    less = x < y
    chosen = tl.where(less & (x > 0), added, multiplied)
    total = tl.sum(x.to(tl.float32), axis=0).to(tl.bfloat16)
    largest = tl.max(x, axis=0)
    running = tl.cumsum(x, axis=0)
    count = tl.sum(x, axis=0)
    clamped = tl.clamp(x, -0.5, 0.5)
    negated = -x
    whole = offs.to(tl.bfloat16)
    tl.store(out_ptr + offs, chosen)


@triton.jit
def matmul(a_ptr, b_ptr, c_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    a = tl.load(a_ptr + i[:, None] * N + i[None, :])
    b = tl.load(b_ptr + i[:, None] * N + i[None, :])
    c = tl.dot(a, b)
    tl.store(c_ptr + i[:, None] * N + i[None, :], c)


@triton.jit
def nan_rules(x_ptr, out_ptr):
    x = tl.load(x_ptr)
    one = tl.full((), 1.0, tl.float32)
    number = tl.maximum(x, one)
    kept = tl.maximum(x, one, propagate_nan=tl.PropagateNan.ALL)
    least = tl.minimum(x, one)
    clamped = tl.clamp(x, -1.0, 2.0)
    tl.store(out_ptr, number)


@triton.jit
def every_flop(x_ptr, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < 3, other=1.0)
    y = x + 1.0
    y = x / y
    y = tl.fma(x, y, x)
    y = -x
    y = tl.abs(x)
    y = tl.exp(x)
    y = tl.exp2(x)
    y = tl.log(y)
    y = tl.rsqrt(y)
    y = tl.sqrt(y)
    y = tl.erf(x)
    y = tl.sin(x)
    y = tl.maximum(x, y)
    y = tl.clamp(x, 0.0, 1.0)
    y = tl.where(x > y, x, y)
    y = tl.cumsum(x, axis=0)
    y = tl.reduce(x, 0, product)
    y = tl.sum(x, axis=0)
    y = tl.max(x, axis=0)
    y = tl.argmax(x, axis=0)
    y = tl.argmin(x, axis=0, tie_break_left=False)
    y = tl.sum(offs, axis=0)
    y = offs * 2 + 1
    y = x.to(tl.float16)


@triton.jit
def product(a, b):
    return a * b


@triton.jit
def never_ends(x_ptr):
    i = 0
    while i >= 0:
        i = i * 1


@triton.jit
def fails(x_ptr):
    x = tl.load(x_ptr)
    tl.static_assert(False, "on purpose")


@triton.jit
def tuples(xy, y_ptr):
    pair = (tl.load(xy[0]), tl.load(xy[1]))
    a, b = pair
    tl.store(y_ptr, a + b)


# fmt: off
@triton.jit
def several_lines(
    x_ptr,
    n,
):
    """Its statements are written over several lines."""
    x = (
        n
        + 1
    )
    if (
        x > 2  # a colon in a comment:
    ):
        tl.store(
            x_ptr,
            x,
        )
# fmt: on


@triton.jit
def store_everything(x_ptr, s_ptr, p_ptr, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs)
    s = x * 0.1 - 0.3
    p = tl.exp(s - tl.max(s, axis=0))
    tl.store(s_ptr + offs, s)
    tl.store(p_ptr + offs, p)


@triton.jit
def shifts(x_ptr, y_ptr, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    u = tl.load(x_ptr + offs)
    half = u >> 1
    backwards = tl.cumsum(u, axis=0, reverse=True)
    tl.store(y_ptr + offs, half + backwards)


@triton.jit
def uses_function(y_ptr, FUNCTION: tl.constexpr):
    tl.store(y_ptr, FUNCTION(1))


@triton.jit
def bf16_atomic(x_ptr, total_ptr, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs)
    before = tl.atomic_add(total_ptr + offs * 0, x, mask=offs < 3)


@triton.jit
def address(x_ptr, y_ptr):
    tl.store(y_ptr, (x_ptr + 2).to(tl.int64))


@triton.jit
def wraps(x_ptr, y_ptr, stride):
    row = tl.full((), 1, tl.int32) << 15
    tl.store(y_ptr, tl.load(x_ptr + row.to(tl.int32) * stride.to(tl.int32, bitcast=True)))


@triton.jit
def helper_that_fails(x):
    tl.static_assert(False, "on purpose")
    return x


@triton.jit
def fails_in_helper(x_ptr):
    tl.store(x_ptr, helper_that_fails(tl.load(x_ptr)))
