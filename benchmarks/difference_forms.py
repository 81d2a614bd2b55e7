"""Kernels that somebody else writes: the same results, almost no statement of the same form as ours; and bugs in them.

They were written to try variables that are paired by what they hold. That was changed while these were looked at.
"""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.difference_cases import HEADS, ROWS, Case
from kernels.catalog import KERNELS
from kernels.edits import Edit, source_of

ONLINE = """    pid = tl.program_id(0)
    lanes = tl.arange(0, BLOCK_N)
    best = float("-inf")
    total = 0.0
    for i in range(tl.cdiv(n_cols, BLOCK_N)):
        where = i * BLOCK_N + lanes
        ok = where < n_cols
        vals = tl.load(x_ptr + pid * stride_xm + where * stride_xn, ok, -float("inf")).to(tl.float32)
        higher = tl.max(vals, 0)
        higher = tl.where(higher > best, higher, best)
        base = tl.where(higher > -float("inf"), higher, 0.0)
        e = tl.exp(vals - base)
        total = total * tl.exp(best - base) + tl.sum(e, 0)
        best = higher
    best = tl.where(best > -float("inf"), best, 0.0)
    share = 1.0 / tl.where(total == 0.0, 1.0, total)
    for i in range(tl.cdiv(n_cols, BLOCK_N)):
        where = i * BLOCK_N + lanes
        ok = where < n_cols
        vals = tl.load(x_ptr + pid * stride_xm + where * stride_xn, ok, -float("inf")).to(tl.float32)
        tl.store(y_ptr + pid * stride_ym + where * stride_yn, tl.exp(vals - best) * share, ok)
"""
PAIRS = """    pid = tl.program_id(0)
    x_ptr += pid * stride_xm
    y_ptr += pid * stride_ym
    m = -float("inf")
    d = 0.0
    at = 0
    while at < n_cols:
        c = at + tl.arange(0, BLOCK_N)
        t = tl.load(x_ptr + c * stride_xn, mask=c < n_cols, other=-float("inf")).to(tl.float32)
        m_t = tl.max(t, axis=0)
        m_t0 = tl.where(m_t == -float("inf"), 0.0, m_t)
        d_t = tl.sum(tl.exp(t - m_t0), axis=0)
        m2 = tl.maximum(m, m_t)
        m20 = tl.where(m2 == -float("inf"), 0.0, m2)
        d = d * tl.exp(m - m20) + d_t * tl.exp(m_t - m20)
        m = m2
        at += BLOCK_N
    m = tl.where(m == -float("inf"), 0.0, m)
    d = tl.where(d == 0.0, 1.0, d)
    at = 0
    while at < n_cols:
        c = at + tl.arange(0, BLOCK_N)
        t = tl.load(x_ptr + c * stride_xn, mask=c < n_cols, other=-float("inf")).to(tl.float32)
        tl.store(y_ptr + c * stride_yn, tl.exp(t - m) / d, mask=c < n_cols)
        at += BLOCK_N
"""
FLASH = """    b = tl.program_id(1) // heads
    h = tl.program_id(1) % heads
    hk = h // group
    om = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    on = tl.arange(0, BLOCK_N)
    od = tl.arange(0, BLOCK_D)
    inside = (om[:, None] < seq_len) & (od[None, :] < HEAD_DIM)
    q_ptrs = q_ptr + b * stride_qb + h * stride_qh + om[:, None] * stride_qm + od[None, :] * stride_qd
    q = tl.load(q_ptrs, mask=inside, other=0.0)
    m = tl.full([BLOCK_M], float("-inf"), dtype=tl.float32)
    l = tl.full([BLOCK_M], 0.0, dtype=tl.float32)
    acc = tl.zeros([BLOCK_M, BLOCK_D], dtype=tl.float32)
    for j in range(0, tl.cdiv(kv_len, BLOCK_N)):
        n = j * BLOCK_N + on
        there = (n[:, None] < kv_len) & (od[None, :] < HEAD_DIM)
        k_ptrs = k_ptr + b * stride_kb + hk * stride_kh + n[:, None] * stride_kn + od[None, :] * stride_kd
        v_ptrs = v_ptr + b * stride_vb + hk * stride_vh + n[:, None] * stride_vn + od[None, :] * stride_vd
        k = tl.load(k_ptrs, mask=there, other=0.0)
        v = tl.load(v_ptrs, mask=there, other=0.0)
        qk = tl.dot(q, k.trans(), input_precision="ieee")
        qk = qk * sm_scale
        qk = tl.where(n[None, :] < kv_len, qk, float("-inf"))
        m_ij = tl.maximum(m, tl.max(qk, 1))
        m_use = tl.where(m_ij == float("-inf"), 0.0, m_ij)
        qk = qk - m_use[:, None]
        p = tl.math.exp(qk)
        l_ij = tl.sum(p, 1)
        scale = tl.math.exp(m - m_use)
        l = l * scale + l_ij
        acc = acc * scale[:, None] + tl.dot(p.to(v.dtype), v, input_precision="ieee")
        m = m_ij
    lse = m + tl.log(l)
    l = tl.where(l == 0.0, 1.0, l)
    acc = acc / l[:, None]
    o_ptrs = o_ptr + b * stride_ob + h * stride_oh + om[:, None] * stride_om + od[None, :] * stride_od
    tl.store(o_ptrs, acc, mask=inside)
    tl.store(lse_ptr + b * stride_lb + h * stride_lh + om * stride_lm, lse, mask=om < seq_len)
"""
FORMS = (("softmax_online", ONLINE, ROWS), ("softmax_online", PAIRS, ROWS), ("flash_attention", FLASH, HEADS))
_KEYS_LEFT_OVER = {**HEADS, "kv_len": 44}
BUGS: tuple[tuple[str, int, str, str, str, str], ...] = (
    # name, form, inputs, old, new, cause
    ("no rescale", 0, "ascending", "total * tl.exp(best - base) + ", "total + ", "rescaled"),
    ("alpha upside down", 0, "ascending", "tl.exp(best - base)", "tl.exp(base - best)", "upside down"),
    ("no running max", 0, "large_magnitude", "        higher = tl.where(higher > best, higher, best)\n", "",
     "maximum so far"),
    ("base 2 in P", 0, "normal", "e = tl.exp(vals", "e = tl.exp2(vals", "base 2"),
    ("stale maximum in P", 0, "ascending", "e = tl.exp(vals - base)", "e = tl.exp(vals - best)", "best"),
    ("maximum not kept", 0, "normal", "        best = higher\n", "", "best|higher"),
    ("not divided", 0, "normal", "tl.exp(vals - best) * share", "tl.exp(vals - best)", "not divided|share"),
    ("last tile forgotten", 0, "normal", "for i in range(tl.cdiv(n_cols, BLOCK_N)):",
     "for i in range(tl.cdiv(n_cols, BLOCK_N) - 1):", "loop ends"),
    ("maximum from 0", 0, "far_below_zero", 'best = float("-inf")', "best = 0.0", "−∞"),
    ("no rescale", 1, "ascending", "d * tl.exp(m - m20) + ", "d + ", "rescaled"),
    ("tile not rescaled", 1, "descending", "d_t * tl.exp(m_t - m20)", "d_t", "rescaled|m_t"),
    ("maximum of the tile", 1, "large_magnitude", "m2 = tl.maximum(m, m_t)", "m2 = m_t", "maximum so far"),
    ("maximum not kept", 1, "normal", "        m = m2\n", "", "`m`"),
    ("acc not rescaled", 2, "ascending", "acc * scale[:, None] + ", "acc + ", "rescaled"),
    ("l not rescaled", 2, "ascending", "l * scale + ", "l + ", "rescaled"),
    ("no running max", 2, "large_magnitude", "tl.maximum(m, tl.max(qk, 1))", "tl.max(qk, 1)", "maximum so far"),
    ("not scaled", 2, "normal", "        qk = qk * sm_scale\n", "", "sm_scale"),
    ("keys past the end", 2, "ragged", '        qk = tl.where(n[None, :] < kv_len, qk, float("-inf"))\n', "", "kv_len"),
    ("not divided", 2, "normal", "    acc = acc / l[:, None]\n", "", "not divided"),
    ("V of another head", 2, "normal", "hk * stride_vh", "(1 - hk) * stride_vh", "v_ptr|head|hk"),
    ("L without m", 2, "normal", "lse = m + tl.log(l)", "lse = tl.log(l)", "not added"),
    ("alpha upside down", 2, "ascending", "tl.math.exp(m - m_use)", "tl.math.exp(m_use - m)", "upside down"),
    ("maximum over columns", 2, "normal", "tl.max(qk, 1)", "tl.max(qk, 0)", "axis"),
    ("base 2 in P", 2, "normal", "p = tl.math.exp(", "p = tl.math.exp2(", "base 2"),
)  # fmt: skip


def rewritten(form: int, bug: tuple[str, str] | None = None, kernel: str = "") -> tuple[Edit, tuple[int, ...]]:
    """Our kernel's body exchanged for a form, with a bug; and its lines: where one is left out, those beside it.

    `kernel`: another kernel with the same arguments and results than the form's own.
    """
    own, text, _ = FORMS[form]
    kernel = kernel or own
    source, function = source_of(KERNELS[kernel].module), f"{kernel}_kernel"
    begin = source.index("    # " if kernel == own else "    row =", source.index(f"def {function}("))
    body = source[begin : source.index("\n\n\n", begin)]
    old, new = bug or ("", "")
    first = source[:begin].count("\n") + text[: text.index(old)].count("\n") + 1
    lines = (first,) if new else (first - 1, first, first + 1)
    name = f"form{abs(hash((kernel, form, bug))) % 10**10}"
    return Edit(name, function, body, text.replace(old, new, 1).rstrip("\n")), lines


def bugs() -> Iterator[Case]:
    """The bugs in the forms."""
    for name, form, inputs, old, new, cause in BUGS:
        kernel, _, sizes = FORMS[form]
        edit, lines = rewritten(form, (old, new))
        shape, given = (_KEYS_LEFT_OVER, "normal") if inputs == "ragged" else (sizes, inputs)
        yield Case(f"{kernel}, another form: {name}", kernel, kernel, shape, given, edit, lines, cause)


def right_variants() -> Iterator[Case]:
    """The forms without a bug."""
    for form, (kernel, _, sizes) in enumerate(FORMS):
        yield Case(f"{kernel}, form {form + 1}", kernel, kernel, sizes, "normal", rewritten(form)[0])
