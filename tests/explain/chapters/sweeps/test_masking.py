"""What a causal mask costs: the share of tiles, and the compiled loops."""

from __future__ import annotations

import pytest

from explain.chapters.flash_attention.tiles import MASKED
from explain.chapters.sweeps import masking
from explain.chapters.sweeps.masking import computed


@pytest.mark.parametrize(
    ("sizes", "share"), [((64, 64, 64), 1), ((128, 64, 64), 3 / 4), ((128, 128, 64), 1), ((80, 64, 16), 9 / 10)]
)
def test_a_causal_kernel_computes_this_share_of_its_tiles(sizes, share):
    assert computed(*sizes) == pytest.approx(share)


@pytest.mark.parametrize("pair", MASKED, ids=lambda pair: pair[0].key)
def test_the_lines_against_nan_are_in_the_masked_loop_alone_and_lengthen_it(pair):
    found = masking.compiled(pair[0].kernel, pair[0].values)
    assert found
    plain, masked = found
    matmuls = [sum(one.kind == "matmul" for one in side.loop) for side in found]
    assert matmuls[0] == matmuls[1] > 0
    assert plain.guarding == 0 < masked.guarding < len(masked.loop) - len(plain.loop)
    assert len(masked.guards) == 3
    assert masked.launch.registers > plain.launch.registers


def test_a_tile_without_recorded_instructions_is_not_explained():
    assert masking.compiled("flash_attention", {**MASKED[0][0].values, "block_m": 16}) is None
