"""Kernels as others write them: syntax that means something else in the compiler than in Python, or nothing at all."""
# mypy: ignore-errors
# ruff: noqa: B007, F841

import triton
import triton.language as tl
from triton.language import exp2
from triton.language.core import _aggregate as aggregate
from triton.language.extra import libdevice
from triton.language.extra.cuda import libdevice as cuda_libdevice

cast = tl.cast
TABLE_SIZE = 4


@triton.jit
def and_between_tiles(x_ptr, y_ptr, rows, cols, BLOCK: tl.constexpr):
    r = tl.arange(0, BLOCK)[:, None]
    c = tl.arange(0, BLOCK)[None, :]
    mask = r < rows and c < cols
    x = tl.load(x_ptr + r * BLOCK + c, mask=mask, other=-1.0)
    tl.store(y_ptr + r * BLOCK + c, x, mask=mask)


@triton.jit
def booleans(y_ptr, n, TRUE: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(y_ptr + i, (i < 1 or i > 2).to(tl.int32))
    tl.store(y_ptr + BLOCK + i, (not (i < 1)).to(tl.int32))
    tl.store(y_ptr + 2 * BLOCK + i, (TRUE and i < 3 and n > 5).to(tl.int32))
    tl.store(y_ptr + 3 * BLOCK + i, (not TRUE or i < n - 8 or i == 3).to(tl.int32))


@triton.jit
def whole_division(y_ptr):
    for i in range(-3, 3):
        tl.store(y_ptr + i + 3, i // 2)
        tl.store(y_ptr + i + 9, i % 2)
    a, b = -7, 2
    tl.store(y_ptr + 12, a // b)


@triton.jit
def downwards(y_ptr, n):
    for i in tl.range(n, 0, -2):
        tl.store(y_ptr + i, i.to(tl.float32) / 2)
    for j in tl.static_range(2):
        tl.store(y_ptr + 8 + j, -3 // 2 + j.value)


@triton.jit
def float_argument(y_ptr, eps, flag, BLOCK: tl.constexpr):
    half = tl.arange(0, BLOCK).to(tl.float16)
    product = half * eps
    rounded = eps.to(tl.float16).to(tl.float32)
    if flag:
        tl.store(y_ptr, rounded)


@triton.jit
def half_of(x, BLOCK: tl.constexpr):
    return x + BLOCK.value // 2


@triton.jit
def aliases(y_ptr, BLOCK: "tl.constexpr"):
    i = tl.arange(0, BLOCK)
    x = exp2(cast(i, tl.float32))
    tl.store(y_ptr + i, half_of(x, BLOCK) + min(i, 2) + max(BLOCK, 3))


@triton.jit
def flipped(y_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(y_ptr + i, tl.flip(i * 1.0, 0))


@aggregate
class Pair:
    a: tl.tensor
    b: tl.tensor

    def __init__(self, a, b):
        self.a = a
        self.b = b

    @triton.jit
    def total(self, scale):
        return self.a + self.b * scale


@triton.jit
def aggregates(y_ptr):
    one = tl.full((), 1.0, tl.float32)
    pair = Pair(one, one + 1)
    tl.store(y_ptr, pair.total(3.0))


@triton.jit
def library(x_ptr, y_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i)
    tl.store(y_ptr + i, libdevice.tanh(x))
    tl.store(y_ptr + BLOCK + i, cuda_libdevice.erf(x))
    tl.store(y_ptr + 2 * BLOCK + i, tl.extra.cuda.libdevice.pow(x, 2.0))
    tl.store(y_ptr + 3 * BLOCK + i, libdevice.div_rz(x, 3.0))


@triton.jit
def scaled_dot(a_ptr, b_ptr, sa_ptr, sb_ptr, y_ptr, N: tl.constexpr, K: tl.constexpr):
    n, k, group = tl.arange(0, N), tl.arange(0, K), tl.arange(0, K // 32)
    packed = tl.arange(0, K // 2)
    a = tl.load(a_ptr + n[:, None] * (K // 2) + packed[None, :])
    b = tl.load(b_ptr + k[:, None] * N + n[None, :])
    sa = tl.load(sa_ptr + n[:, None] * (K // 32) + group[None, :])
    sb = tl.load(sb_ptr + n[:, None] * (K // 32) + group[None, :])
    tl.store(y_ptr + n[:, None] * N + n[None, :], tl.dot_scaled(a, sa, "e2m1", b, sb, "e5m2"))


@triton.jit
def small_dot(x_ptr, y_ptr, M: tl.constexpr, K: tl.constexpr):
    m, k = tl.arange(0, M), tl.arange(0, K)
    a = tl.load(x_ptr + m[:, None] * K + k[None, :])
    tl.store(y_ptr + m[:, None] * M + m[None, :], tl.dot(a, tl.trans(a)))


@triton.jit
def asserts(y_ptr, limit, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(y_ptr + i, i)
    assert i < limit, "i is small"
    tl.device_print("tile", i)


@triton.jit
def two_loops(y_ptr, n):
    for i in range(n):
        once = i * 1
    for i in range(n):
        once = i * 1.5
    total = 0.0
    for i in range(n):
        total += i
    tl.store(y_ptr, total)


@triton.jit
def constant_branch(y_ptr, WIDE: tl.constexpr):
    if WIDE:
        for i in range(4):
            break
    tl.store(y_ptr, 1.0)


# What the compiler refuses


@triton.jit
def leaves_loop(y_ptr, n):
    for i in range(n):
        if i == 2:
            break
    tl.store(y_ptr, 1.0)


@triton.jit
def skips(y_ptr, n):
    for i in range(n):
        if i == 200:
            continue
        tl.store(y_ptr, i)


@triton.jit
def has_dict(y_ptr):
    sizes = {"a": 1}
    tl.store(y_ptr, sizes["a"])


@triton.jit
def changes_type(y_ptr, n):
    m = 0
    for i in range(n):
        m = m + 1.5
    tl.store(y_ptr, m)


@triton.jit
def changes_type_while(y_ptr, n):
    m = tl.zeros((4,), tl.float32)
    while n > 0:
        m = tl.sum(m, axis=0)
        n -= 1
    tl.store(y_ptr, m)


@triton.jit
def between(y_ptr, n):
    if 0 < n < 4:
        tl.store(y_ptr, 1.0)


@triton.jit
def if_of_tile(y_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    if i < 2:
        tl.store(y_ptr + i, 1.0)


@triton.jit
def uses_global(y_ptr):
    tl.store(y_ptr, TABLE_SIZE)


@triton.jit
def sets_element(y_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    i[0] = 1
    tl.store(y_ptr + i, i)


@triton.jit
def returns_in_loop(y_ptr, n):
    for i in range(n):
        if i > 200:
            return
    tl.store(y_ptr, 1.0)


@triton.jit
def whole_of_tensor(y_ptr, n):
    tl.store(y_ptr, int(n))


@triton.jit
def library_of_int16(y_ptr, n):
    tl.store(y_ptr, libdevice.pow(2.0, n.to(tl.int16)))


@triton.jit
def over_list(y_ptr):
    for value in [1, 2]:
        tl.store(y_ptr, value)


@triton.jit
def changes_type_in_branch(y_ptr, n, BLOCK: tl.constexpr):
    x = tl.zeros((BLOCK,), tl.float32)
    if n > 2:
        x = tl.zeros((BLOCK,), tl.float16)
    tl.store(y_ptr + tl.arange(0, BLOCK), x)


@triton.jit
def branches_of_two_types(y_ptr, n):
    if tl.program_id(0) < n:  # noqa: SIM108  # what the test is about
        x = 1.0
    else:
        x = 1
    tl.store(y_ptr, x)


@triton.jit
def ternary_of_two_types(y_ptr, n):
    x = 1.0 if n > 2 else 0
    tl.store(y_ptr, x)


@triton.jit
def ternary_of_two_widths(y_ptr, n):
    x = tl.load(y_ptr)
    tl.store(y_ptr, x.to(tl.float16) if tl.program_id(0) < n else x * x)


@triton.jit
def _side(x, up):
    if up:  # noqa: SIM108  # what the test is about
        y = x
    else:
        y = -x
    return y + (x if up else -x)


@triton.jit
def sides_of_each_type(y_ptr, n, FIRST: tl.constexpr):
    x = tl.load(y_ptr)
    up = tl.program_id(0) < n
    sides = _side(x, up) + _side(x.to(tl.int32), up == 0)
    tl.store(y_ptr, (sides if n > 0 else -sides) if FIRST else 0)


@triton.jit
def only_in_one_branch(y_ptr, n):
    if n > 2:
        x = 1.0
    tl.store(y_ptr, x)


@triton.jit
def in_a_loop_of_one_branch(y_ptr, n):
    if n > 2:
        for i in range(2):
            x = i * 1.0
    else:
        x = 1.0
    tl.store(y_ptr, x)


@triton.jit
def in_an_unrolled_loop_of_one_branch(y_ptr, n):
    if n > 2:
        for i in tl.static_range(2):
            x = i * 1.0
    else:
        x = 4.0
    tl.store(y_ptr, x)


@triton.jit
def branches(y_ptr, n, BLOCK: tl.constexpr):
    last = 0.0
    for i in range(n):
        if i > 1:
            last = last + 1.0
            x = 2.0
        elif i == 1:
            y = 3.0
            x = y
        else:
            x = 1.0
        last = last + x
    if BLOCK > 2:
        wide = tl.zeros((BLOCK,), tl.float16)
    if n > 100:
        return
    tl.store(y_ptr, last + tl.sum(wide.to(tl.float32)))


@triton.jit
def names_of_a_loop(y_ptr, n, BLOCK: tl.constexpr):
    for i in range(n):
        scale = tl.zeros((BLOCK,), tl.float32) + i
        if i > 0:  # noqa: SIM108  # what the test is about
            other = scale
        else:
            other = scale + 1.0
        if i == 1:  # noqa: SIM108
            part = 1.0
        else:
            part = 2.0
        part = tl.sum(other) + part
        tl.store(y_ptr + 1, part)
        for k in range(2):
            twice = scale * k
        twice = tl.sum(scale)
        tl.store(y_ptr + 2, twice)
    if n > 1:
        scale = 3.0
        tl.store(y_ptr, scale)


@triton.jit
def name_of_a_loop_after_it(y_ptr, n):
    for i in range(n):
        x = 1.0 * i
    tl.store(y_ptr, x)


@triton.jit
def names_of_an_unrolled_loop(y_ptr, n):
    for i in tl.static_range(2):
        x = 1.0 * (n + i)
    tl.store(y_ptr, x)


@triton.jit
def inline_ptx(x_ptr, y_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.extra.cuda.gdc_wait()
    x = tl.load(x_ptr + i)
    rounded = tl.inline_asm_elementwise(
        "cvt.rna.tf32.f32 $0, $1;", "=r, r", [x], dtype=tl.float32, is_pure=True, pack=1
    )
    doubled = tl.inline_asm_elementwise("ex2.approx.f32 $0, $1;", "=f,f", [x], tl.float32, is_pure=True, pack=1)
    tl.store(y_ptr + i, rounded)
    tl.store(y_ptr + BLOCK + i, doubled)
    tl.extra.cuda.gdc_launch_dependents()


@triton.jit
def other_inline_ptx(y_ptr):
    x = tl.load(y_ptr)
    tl.store(y_ptr, tl.inline_asm_elementwise("lop3.b32 $0, $1, 0, 0, 0;", "=r,r", [x], tl.float32, True, 1))
