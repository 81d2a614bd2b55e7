"""`benchmarks/cross_entropy.py` on a tiny size: what it computes is right, and what is wrong or missing is said."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from benchmarks import cross_entropy
from benchmarks.cross_entropy import EAGER, WAYS, Case, Inputs, exact, lines, measured, plain

SMALL = Case(tokens=150, vocab=70, dim=16)


@pytest.fixture(scope="module")
def inputs():
    return Inputs.of(SMALL, "cpu", torch.float32)


def test_the_exact_rows_are_those_of_pytorchs_autograd_in_float64(inputs):
    h, w = (one.detach().double().requires_grad_() for one in (inputs.h, inputs.w))
    loss = F.cross_entropy(F.linear(h, w), inputs.targets)
    loss.backward()
    right = exact(inputs)
    assert right.loss == pytest.approx(float(loss.detach()))
    torch.testing.assert_close(right.dh, h.grad[right.tokens])
    torch.testing.assert_close(right.dw, w.grad[right.columns])


def without_the_targets(h, w, targets):
    return plain(h, w, targets.roll(1))


def absent():
    raise ImportError("no module")


def broken():
    raise RuntimeError("out of memory")


@pytest.fixture(scope="module")
def result():
    ways = {name: WAYS[name] for name in ("ours", EAGER)}
    more = {"wrong": lambda: without_the_targets, "Liger": absent, "broken": broken}
    return measured(SMALL, ways | more, "cpu", 2)


def test_right_variants_are_timed_and_wrong_ones_are_not(result):
    rows = {row["name"]: row for row in result["variants"]}
    assert [name for name, row in rows.items() if row["right"]] == ["ours", EAGER]
    assert [name for name, row in rows.items() if "seconds" in row] == ["ours", EAGER]
    assert len(rows["ours"]["all_seconds"]) == 2
    assert "exceeds its tolerance" in rows["wrong"]["why"]
    assert (rows["Liger"]["why"], rows["broken"]["why"]) == ("not installed", "RuntimeError: out of memory")


def test_a_result_in_lines(result):
    said = list(lines(result))
    assert said[0] == "150 tokens, V = 70, d = 16"
    assert {line.split(":")[0].strip() for line in said[-3:]} == {"wrong", "Liger", "broken"}


def test_liger_is_asked_for_by_its_import(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "liger_kernel", None)
    with pytest.raises(ImportError):
        cross_entropy.liger()
