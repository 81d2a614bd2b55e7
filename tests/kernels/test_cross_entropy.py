"""Cross entropy: inputs that bite, and the fast kernel as a PyTorch function."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch.nn import functional as F

from explain.trace.fidelity import interpreter_fidelity
from kernels import cross_entropy_fast
from kernels.cross_entropy import cross_entropy_backward, cross_entropy_fused, cross_entropy_standard
from kernels.cross_entropy_fast import linear_cross_entropy, losses_and_gradients
from kernels.inputs import IGNORE_INDEX
from kernels.traffic_cross_entropy import part_of_tokens

TILES = {"block_m": 16, "block_n": 16, "block_d": 16}
LOSSES: list[Any] = [cross_entropy_standard, cross_entropy_fused, cross_entropy_backward, losses_and_gradients]
GRADIENTS: list[Any] = [cross_entropy_backward, losses_and_gradients]
FORWARD = pytest.mark.parametrize("kernel", LOSSES, ids=lambda kernel: kernel.__name__)
BACKWARD = pytest.mark.parametrize("kernel", GRADIENTS, ids=lambda kernel: kernel.__name__)


@pytest.fixture(autouse=True)
def as_on_a_gpu():
    with interpreter_fidelity():
        yield


def made(tokens: int = 5, vocab: int = 33, dim: int = 16) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    random = torch.Generator().manual_seed(1)
    h, w = (torch.randn(rows, dim, generator=random) for rows in (tokens, vocab))
    return h, w, torch.randint(vocab, (tokens,), generator=random)


def called(kernel, *inputs):
    return kernel(*inputs, **({} if kernel is losses_and_gradients else TILES))


@FORWARD
def test_a_nan_reaches_the_loss_of_its_token_alone(kernel):
    h, w, targets = made()
    h[2, 3] = math.nan
    loss = called(kernel, h, w, targets)[0]
    assert loss.isnan().tolist() == [False, False, True, False, False]


@FORWARD
def test_a_nan_of_a_token_that_does_not_count_stays_out_of_the_losses(kernel):
    h, w, targets = made()
    h[2, 3], targets[2] = math.nan, IGNORE_INDEX
    loss = called(kernel, h, w, targets)[0]
    assert loss.isfinite().all()
    assert loss[2] == 0


@FORWARD
@pytest.mark.parametrize("target", [33, 1000, -1])
def test_a_target_that_is_no_column_has_no_finite_loss(kernel, target):
    h, w, targets = made()
    targets[1] = target
    loss = called(kernel, h, w, targets)[0]
    assert loss.isinf().tolist() == [False, True, False, False, False]


@FORWARD
def test_a_token_with_only_logits_of_minus_infinity_is_as_in_pytorch(kernel):
    h, w, targets = made()
    h[:, 0], w[:, 0] = 1.0, -math.inf
    loss, lse, *_ = called(kernel, h, w, targets)
    assert F.cross_entropy(F.linear(h, w), targets).isnan()
    assert loss.isnan().all()
    assert (lse == -math.inf).all()


@FORWARD
def test_the_target_of_the_last_partial_tile_is_found(kernel):
    h, w, targets = made()
    targets[:] = 32  # the only column of the third tile
    torch.testing.assert_close(
        called(kernel, h, w, targets)[0], F.cross_entropy(F.linear(h, w), targets, reduction="none")
    )


@BACKWARD
def test_without_a_token_that_counts_the_gradients_are_0(kernel):
    h, w, targets = made()
    loss, _, dh, dw = called(kernel, h, w, torch.full_like(targets, IGNORE_INDEX))
    assert not loss.any()
    assert not dh.any()
    assert not dw.any()


@BACKWARD
def test_a_nan_of_a_token_that_does_not_count_stays_out_of_dh(kernel):
    h, w, targets = made()
    h[2, 3], targets[2] = math.nan, IGNORE_INDEX
    dh = called(kernel, h, w, targets)[2]
    assert dh.isfinite().all()
    assert not dh[2].any()


@pytest.mark.parametrize("kernel", LOSSES[:3], ids=lambda kernel: kernel.__name__)
def test_any_strides(kernel):
    h, w, targets = made()
    turned = called(kernel, h.T.contiguous().T, w.T.contiguous().T, targets)
    for one, other in zip(called(kernel, h, w, targets), turned, strict=True):
        assert torch.equal(one, other)


@FORWARD
def test_what_does_not_fit_together_is_refused(kernel):
    h, w, targets = made()
    for bad, words in (
        ((h, w[:, :8].contiguous(), targets), r"h \(5, 16\).*\(33, 8\)"),
        ((h, w, targets.int()), "torch.int32"),
        ((h, w, targets[:3]), r"targets \(3,\)"),
        ((h, w.bfloat16(), targets), "bfloat16"),
    ):
        with pytest.raises(ValueError, match=words):
            called(kernel, *bad)


# --- the fast kernel ---


def by_pytorch(h, w, targets, factor):
    h, w = (one.double().requires_grad_() for one in (h, w))
    loss = F.cross_entropy(F.linear(h, w), targets)
    (factor * loss).backward()
    return loss, h.grad, w.grad


@pytest.mark.parametrize("factor", [1.0, 3.0])
def test_it_is_pytorchs_loss_with_its_gradients(factor):
    h, w, targets = made(tokens=150, vocab=77)  # 64 columns at once and 13
    targets[::7] = IGNORE_INDEX
    ours = [one.clone().requires_grad_() for one in (h, w)]
    loss = linear_cross_entropy(ours[0], ours[1], targets)
    (factor * loss).backward()
    for found, right in zip((loss, ours[0].grad, ours[1].grad), by_pytorch(h, w, targets, factor), strict=True):
        assert found is not None
        torch.testing.assert_close(found.double(), right.double(), rtol=1e-5, atol=1e-6)


def test_gradients_are_made_only_where_they_are_asked_for(monkeypatch):
    asked = []

    def noted(*args, wants_h, wants_w):
        asked.append((wants_h, wants_w))
        return losses_and_gradients(*args, wants_h=wants_h, wants_w=wants_w)

    monkeypatch.setattr(cross_entropy_fast, "losses_and_gradients", noted)
    h, w, targets = made()
    without = linear_cross_entropy(h, w, targets)
    linear_cross_entropy(h, w.requires_grad_(), targets).backward()
    assert asked == [(False, False), (False, True)]
    torch.testing.assert_close(without, F.cross_entropy(F.linear(h, w), targets).detach())


def test_a_second_backward_is_refused():
    h, w, targets = made()
    loss = linear_cross_entropy(h.requires_grad_(), w, targets)
    loss.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="backward has run"):
        loss.backward()


def test_float16_is_refused():
    h, w, targets = made()
    with pytest.raises(ValueError, match=r"torch\.float32 or both torch\.bfloat16"):
        losses_and_gradients(h.half(), w.half(), targets)


@pytest.mark.parametrize("vocab", [13, 64, 77])
def test_parts_and_columns_by_themselves_add_up(vocab):
    h, w, targets = made(tokens=150, vocab=vocab)
    whole, parts = (losses_and_gradients(h, w, targets, part=part) for part in (150, 64))
    for found, right in zip(parts, whole, strict=True):
        torch.testing.assert_close(found, right, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dim", [1024, 2048, 4096, 8192])
@pytest.mark.parametrize("vocab", [32_000, 50_257, 128_256, 262_144])
def test_a_part_has_a_tenth_of_the_bytes_of_w_and_dw_and_what_fits_in_l2_at_most(vocab, dim):
    part = part_of_tokens(8192, vocab, dim, 2)
    assert part % 64 == 0
    assert part * vocab * 2 <= 0.1 * (2 * vocab * dim * 2) + 5e7


def test_all_kernels_compile_for_a_hopper_gpu_and_spill_nothing(compile_workers):
    printed = compile_workers.call({"script": "tests.kernels.compile_cross_entropy", "arguments": []})["printed"]
    launches = [line.split(" ", 4) for line in printed.splitlines()]
    assert {dtype for dtype, *_ in launches} == {"float32", "bfloat16"}
    assert len(launches) == 14
    assert {spills for *_, spills in launches} == {"none"}
    vectors = [int(loads) for _, kernel, _, loads, _ in launches if kernel == "loss_and_gradient_kernel"]
    assert min(vectors) >= 2, "an odd vocabulary costs no vector load in either pass"
