"""Equations are made from the lines that run: for the catalog's kernels they read as the papers write them."""

from __future__ import annotations

import ast

import pytest

from explain import ROOT
from explain.source.equations import equations

KERNELS = ROOT / "kernels"


def plain(tree):
    """A tree as text: fractions as (a)/(b), a tilde behind its letter."""
    if isinstance(tree, str):
        return tree.replace("\u00a0", " ")
    children = [plain(child) for child in tree[1:] if not isinstance(child, dict)]
    match tree[0]:
        case "mfrac":
            return f"({children[0]})/({children[1]})"
        case "msub":
            return "_".join(children)
        case "msup":
            return "^".join(children)
    return "".join(children)


def one(statement):
    (made,) = equations(f"def kernel():\n    {statement}\n").values()
    return made


def of_kernel(file, name):
    source = (KERNELS / file).read_text()
    tree = next(n for n in ast.parse(source).body if isinstance(n, ast.FunctionDef) and n.name == name)
    text = "\n".join(source.splitlines()[tree.lineno - 1 : tree.end_lineno])
    return [plain(made.plain) for made in equations(text, tree.lineno).values()]


def test_flash_attention_reads_as_in_the_paper():
    assert set(of_kernel("attention.py", "flash_attention_kernel")) >= {
        "S=QK^T·sm_scale",
        "S←S where visible, else −∞",
        "m_new=max(m_i,rowmax(S))",
        "α=exp(m_i−m_safe)",
        "P~=exp(S−m_safe)",
        "ℓ_i←ℓ_i·α+rowsum(P~)",
        "O~←O~·α",
        "O~←O~+P~V",
        "O=(O~)/(1 where ℓ_i==0, else ℓ_i)",
        "L=m_i+ln(ℓ_i)",
    }


def test_weights_that_are_divided_already_are_p_without_a_tilde():
    backward = of_kernel("backward.py", "flash_attention_backward_queries_kernel")
    assert "P=exp(S−L) where visible, else 0" in backward
    loaded = of_kernel("attention.py", "attention_values_kernel")
    assert any("PV" in one for one in loaded)
    assert not any("P~" in one for one in [*backward, *loaded])


def test_a_wrong_kernel_has_its_own_wrong_equation():
    wrong = of_kernel("softmax.py", "softmax_blocked_wrong_kernel")
    assert "m_i=max(x)" in wrong
    assert "ℓ_i=Σ(P~)" in wrong
    assert not any("α" in equation for equation in wrong)


@pytest.mark.parametrize(
    ("statement", "symbols", "numbers"),
    [
        ("alpha = tl.exp(m_i - m_new)", "α=exp(m_i−m_new)", "=exp({m_i}−{m_new})={alpha}"),
        ("l_i = l_i * alpha + tl.sum(p, 1)", "ℓ_i←ℓ_i·α+rowsum(P~)", "={l_i:old}·{alpha}+{sum|p|1}={l_i}"),
        ("acc *= alpha[:, None]", "O~←O~·α", "={acc:old}·{alpha::r}={acc}"),
        ("acc = tl.dot(p.to(v.dtype), v, acc)", "O~←O~+P~V", "={acc:old}+{dot|p|v|}={acc}"),
        ("s = tl.dot(q, k.T) * 0.125", "S=QK^T·0.125", "={dot|q|k|T}·0.125={s}"),
        ("p = tl.exp2(s - m[:, None])", "P~=exp_2(S−m)", "=exp_2({s}−{m::r})={p}"),
        ("y = (a - b) * -c", "y=(a−b)·(−c)", "=({a}−{b})·(−{c})={y}"),
        ("y = a - (b - c)", "y=a−(b−c)", "={a}−({b}−{c})={y}"),
        ("y = (a + b) / l_i[:, None]", "y=(a+b)/(ℓ_i)", "=({a}+{b})/{l_i::r}={y}"),
        ("m_i = m_new", "m_i=m_new", "={m_i}"),
        ("row = tl.program_id(1)", "row=program_1", "={row}"),
    ],
)
def test_symbols_and_places_for_numbers(statement, symbols, numbers):
    made = one(statement)
    assert plain(made.plain) == symbols
    assert plain(made.numbers) == numbers


@pytest.mark.parametrize("statement", ["m_i = -float('inf')", "acc = tl.zeros((M, N), tl.float32)"])
def test_a_constant_has_no_numbers_to_add(statement):
    assert one(statement).numbers is None


@pytest.mark.parametrize(
    "statement",
    [
        "x = tl.load(x_ptr + cols)",
        "x_ptr += row * stride",
        "y = helper(x)",
        "tl.store(y_ptr, y)",
        "a, b = b, a",
        "name = 'x'",
    ],
)
def test_what_moves_data_or_is_unknown_has_no_equation(statement):
    assert equations(f"def kernel():\n    {statement}\n") == {}


def test_lines_are_the_files():
    text = "def kernel():\n    a = b\n    for i in range(4):\n        c = a * i"
    assert list(equations(text, first_line=40)) == [41, 43]


def test_text_that_is_no_python_has_no_equations():
    assert equations("def kernel(:\n") == {}
