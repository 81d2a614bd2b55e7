"""Memory hierarchy and FlashAttention: what their controls change, and a compilation from its button to its numbers."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from explain import lessons
from explain.chapters.flash_attention import tiles
from explain.chapters.flash_attention.visits import visits
from explain.chapters.memory_hierarchy import figures as memory_hierarchy
from explain.compile.service import Answer, Compiler
from explain.engine import DeviceStatus, engine
from explain.gpus import GPUS
from explain.run_experiment import run_traced
from explain.ui import compiling
from explain.ui import gpu as gpu_module
from tests.pages import page, texts


def test_memory_is_drawn_for_the_gpu_that_is_chosen():
    said = texts(page("memory_hierarchy"))
    assert "Memory of the H200 to scale" in said
    assert "**65,536 B**" in said  # four trips of N² elements
    test = page("memory_hierarchy", gpu="T4", scale="Logarithmic")
    assert "Memory of the T4" in texts(test)
    assert test.info  # it says which figure is missing


@pytest.mark.parametrize("gpu", GPUS.values(), ids=lambda gpu: gpu.name)
def test_the_memories_of_every_gpu_lie_within_their_pictures(gpu):
    for drawn in (
        memory_hierarchy.sizes(gpu), memory_hierarchy.sizes(gpu, narrow=True),
        memory_hierarchy.sizes_log(gpu),
    ):  # fmt: skip
        width, height = map(float, re.findall(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', drawn)[0])
        for x, y, wide, high in re.findall(r'<rect x="(.+?)" y="(.+?)" width="(.+?)" height="(.+?)"', drawn):
            assert 0 <= float(x) < float(x) + float(wide) <= width
            assert 0 <= float(y) < float(y) + float(high) <= height
            assert float(wide) > 5  # there is something to see


def test_a_load_from_l2_takes_less_than_half_the_time_of_one_from_hbm():
    """Memory hierarchy says so of every GPU for which both were measured."""
    known = [gpu.latencies for gpu in GPUS.values() if {"l2", "hbm"} <= gpu.latencies.keys()]
    assert len(known) > 2
    assert all(2 * levels["l2"].cycles < levels["hbm"].cycles for levels in known)


def test_the_gpu_of_this_machine_is_chosen_first(monkeypatch):
    class Here:
        def __getattr__(self, name: str):
            return getattr(engine(), name)

        def device_if_known(self) -> DeviceStatus:
            return DeviceStatus(True, "", {"gpu": "NVIDIA A100-SXM4-80GB"})

    monkeypatch.setattr(gpu_module, "engine", Here)
    test = page("memory_hierarchy")
    assert "Memory of the A100 to scale" in texts(test)
    assert "A100 (this machine)" in test.segmented_control[0].options


def test_s_and_p_outgrow_the_rest_as_n_grows():
    test = page("memory_hierarchy")
    assert "64.0 ×" in texts(test)
    test.select_slider[0].set_value(16384).run()
    assert "128 ×" in texts(test)


def test_larger_query_tiles_read_less_of_k():
    test = page("memory_hierarchy", block_m="32")
    experiment = lessons.STANDARD.with_(block_m=32)
    read = next(t for t in experiment.traffic.terms if t.buffer == "k")
    assert f"read K: {read.bytes:,} B" in texts(test)
    assert "Each row of K is loaded **2 ×**" in texts(test)


def test_a_recorded_tile_stands_in_its_tank_at_once():
    test = page("flash_attention", view="Tile sizes")
    said = texts(test)
    assert "4 programs" in said
    assert "Nothing spills." in said
    test = page("flash_attention", view="Tile sizes", tile="128x128")
    assert "2 programs" in texts(test)
    assert "local memory" in texts(test)


def test_a_tile_too_large_for_a_gpu_says_so():
    test = page("flash_attention", view="Tile sizes", gpu="T4", tile="128x128")
    for said in ("needs 98,304 bytes", "may have 65,536 on the T4: the tile does not fit"):
        assert said in texts(test)


class Slow(Compiler):
    """A compiler that answers when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[tuple[object, int]] = []
        self.now: Answer | None = None

    def look(self, experiment, capability):
        return (
            self.now
            if self.asked and (experiment, capability) == self.asked[-1]
            else super().look(experiment, capability)
        )

    def start(self, experiment, capability):
        self.asked.append((experiment, capability))
        self.now = Answer(working="compiling flash_attention_kernel for sm_90", seconds=3.2)

    def cancel(self, experiment, capability):
        self.now = Answer(error="The compilation was stopped.")


def test_a_tile_is_compiled_on_a_click_while_the_page_goes_on(monkeypatch, tmp_path):
    monkeypatch.setenv("TILESCOPE_CACHE", str(tmp_path))
    slow = Slow()
    monkeypatch.setattr(compiling, "compiler", lambda: slow)
    test = page("flash_attention", view="Tile sizes")
    test.segmented_control[3].set_value("fp32").run()
    assert slow.asked == []  # a control asks nothing of the compiler
    (button,) = (b for b in test.button if b.key == "compile tile")
    assert button.label == "Compile this tile for sm_90"
    button.click().run()
    assert slow.asked == [(tiles.tile(64, 64, dtype="fp32"), 90)]
    assert slow.now.working in texts(test)
    (stop,) = (b for b in test.button if b.key == "stop compiling")
    stop.click().run()
    test.run()  # in a browser the page looks again by itself
    assert slow.now.error in texts(test)
    (button,) = (b for b in test.button if b.key == "compile tile")  # and again, for who changes their mind
    button.click().run()
    recorded = super(Slow, slow).look(tiles.tile(64, 64), 90)
    assert recorded is not None
    slow.now = replace(recorded, origin="compiled")
    test.run()
    assert not [b for b in test.button if b.key in ("compile tile", "stop compiling")]


@pytest.mark.parametrize("dtype", ["fp16", "fp32"])
def test_the_bytes_of_k_and_v_fall_as_the_tile_grows(dtype):
    test = page("flash_attention", view="Tile sizes")
    test.segmented_control[3].set_value(dtype).run()
    for row in tiles.reads(4096, 64, dtype):
        assert f"BLOCK_M = {row.block_m}: {row.bytes:,} B" in texts(test)
        assert f">{row.on_chip:,}</text>" in texts(test)


def test_the_loop_orders_stand_side_by_side_with_o_apart():
    said = texts(page("flash_attention", view="Loop order"))
    assert "| **34,816** | **34,560**" in said  # FlashAttention-1 reads O again; FlashAttention-2 does not
    assert "| **0** | **8,448**" in said


def test_the_papers_algorithm_stands_beside_the_kernels_lines():
    said = texts(page("flash_attention", view="The paper's algorithm"))
    (row,) = re.findall(r"<tr><td>12</td>.*?</tr>", said)
    assert "<code>o = acc / tl.where(l_i == 0.0, 1.0, l_i)[:, None]</code>" in row
    assert re.search(r'href="./flash_attention\?step=\d+&amp;row=15"', row)
    assert len(re.findall("<tr class=inner>", said)) == 5  # lines 7 to 11


def test_every_gpu_of_the_list_can_be_chosen():
    for name in GPUS:
        said = texts(page("flash_attention", view="Tile sizes", gpu=name))
        assert f's bytes in the shared memory of the {name}"' in said


def test_the_loop_orders_visit_the_tiles_by_columns_and_by_rows():
    runs = [lessons.first_order(lessons.SHORT), lessons.SHORT]
    first, second = (visits(one, run_traced(one, "all", lambda *_: None)[0]) for one in runs)
    assert {tile: place for tile, (_, place) in first.order.items()} == {(0, 0): 1, (1, 0): 2, (0, 1): 3, (1, 1): 4}
    assert second.order == {(0, 0): (0, 1), (0, 1): (0, 2), (1, 0): (1, 1), (1, 1): (1, 2)}
    assert (first.stores, second.stores) == ({0: 2, 1: 2}, {0: 1, 1: 1})
