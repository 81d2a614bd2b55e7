"""The pictures of the chapters' cards: one for each chapter, drawn from values."""

from __future__ import annotations

import re

import pytest

from explain import contents
from explain.chapters.cross_entropy.layers import LAYERS, TOKENS
from explain.chapters.home import opening, pictures
from explain.engine import engine
from explain.gpus import DEFAULT, GPUS
from explain.lessons import OPENING


@pytest.fixture(scope="module")
def drawn() -> dict[str, str]:
    run = opening.run_of(engine().trace(OPENING).trace, OPENING)
    return pictures.of_chapters(run, opening.words())


def test_each_chapter_has_a_picture_of_its_own(drawn):
    assert list(drawn) == [page.stem for page in contents.chapters()]
    assert len(set(drawn.values())) == len(drawn)
    assert sum(map(len, drawn.values())) < 50_000


def sides(picture: str) -> list[float]:
    return [float(width) for width in re.findall(r'<rect [^>]*?width="([\d.]+)"', picture)]


def test_hbm_l2_and_shared_memory_are_to_scale(drawn):
    hbm, l2, enlarged, shared = sides(drawn["memory_hierarchy"])
    gpu = GPUS[DEFAULT]
    assert (l2 / hbm) ** 2 == pytest.approx(gpu.l2_bytes / gpu.hbm_bytes, rel=0.02)
    assert (shared / enlarged) ** 2 == pytest.approx(gpu.shared_bytes_all / gpu.l2_bytes, rel=0.02)


def test_the_bar_without_the_rescale_factor_is_longer_by_what_it_did_not_shrink(drawn):
    kept, added, old, same, beyond = sides(drawn["what_breaks"])
    assert added == same
    assert 0 < beyond == pytest.approx(old - kept, abs=0.02)


def test_the_logits_are_to_scale(drawn):
    w, h, x = [
        (float(wide), float(high))
        for wide, high in re.findall(r'<rect [^>]*?width="([\d.]+)" height="([\d.]+)"', drawn["cross_entropy"])
    ]
    layer = LAYERS[0]
    assert w[0] * w[1] / (x[0] * x[1]) == pytest.approx(layer.weight_bytes / layer.logit_bytes(TOKENS), rel=0.01)
    assert h[0] * h[1] / (x[0] * x[1]) == pytest.approx(layer.dim / layer.vocab, rel=0.01)
