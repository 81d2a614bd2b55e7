"""Every rung of the ladder on a real GPU: the grid of shapes, dtypes, masks and presets that expose errors, and the
same bits every time.
"""

from __future__ import annotations

import pytest
import torch

from kernels.rungs import GLUON, ORDER
from tests.kernels import fast
from tests.kernels.rungs import PLAIN, experiments, module, verdict

pytestmark = pytest.mark.gpu


@pytest.fixture
def hopper():
    if torch.cuda.get_device_capability()[0] != 9:
        pytest.skip("a Hopper GPU's own instructions")


@pytest.mark.parametrize("dtype", ["fp32", "fp16", "bf16"])
@pytest.mark.parametrize("rung", PLAIN)
def test_every_fourth_experiment_of_the_grid_by_the_tile_that_it_chooses(rung, dtype):
    wanted = [e for e in experiments(rung, 4) if e.values["dtype"] == dtype]
    assert bool(wanted) == (dtype != "fp32" or rung == "naive_fp32")
    missed = [(e.key, v) for e in wanted if not (v := verdict(module(rung), e, "cuda")).within_tolerance]
    assert not missed


@pytest.mark.usefixtures("hopper")
@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
@pytest.mark.parametrize("rung", GLUON)
def test_every_third_experiment_of_what_the_hopper_kernel_must_get_right(rung, dtype):
    drawn = fast.experiments("flash_attention_hopper", 3)
    wanted = [e for e in drawn if e.values["dtype"] == dtype and e.values["head_dim"] in (64, 128)]
    missed = [(e.key, v) for e in wanted if not (v := verdict(module(rung), e, "cuda")).within_tolerance]
    assert wanted
    assert not missed


@pytest.mark.usefixtures("hopper")
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("rung", [rung for rung in ORDER if rung != "naive_fp32"])
def test_the_same_bits_every_time(rung, causal):
    q, k, v = (torch.randn(2, 8, 2000, 128, dtype=torch.bfloat16, device="cuda") for _ in range(3))
    first = module(rung).attention(q, k, v, causal=causal)
    for _ in range(20):
        again = module(rung).attention(q, k, v, causal=causal)
        assert all(torch.equal(one, other) for one, other in zip(first, again, strict=True))


@pytest.mark.usefixtures("hopper")
@pytest.mark.parametrize("rung", ORDER)
def test_one_long_head_beside_many_short_ones(rung):
    """Grids of one column of programs and of thousands: no program depends on which others run beside it."""
    for batch, heads, seq_len in ((1, 1, 4096), (64, 32, 80)):
        q, k, v = (torch.randn(batch, heads, seq_len, 64, dtype=torch.float16, device="cuda") for _ in range(3))
        o, _ = module(rung).attention(q, k, v, causal=True)
        exact = torch.nn.functional.scaled_dot_product_attention(q.double(), k.double(), v.double(), is_causal=True)
        torch.testing.assert_close(o.double(), exact, rtol=1e-2, atol=2e-3)
