"""Files measured on a real GPU: theory and counters agree where they must, and what goes wrong ends in words."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from explain.own_file import service
from explain.own_file.model import FileMeasurement, written_bytes
from explain.workers import WorkerFailed, WorkerPool

pytestmark = [pytest.mark.gpu, pytest.mark.alone]
FILES = Path(__file__).parent / "files"


@pytest.fixture(scope="module")
def measured():
    with closing(WorkerPool(service.GPU_WORKER)) as gpu, closing(WorkerPool(service.COUNTER)) as counter:

        def measured(file: str, function: str = "main", seconds: float = 60) -> FileMeasurement:
            limits = {"seconds": seconds, "megabytes": 16000}
            return service.measure(FILES / file, function, lambda *_: None, gpu=gpu, counter=counter, **limits)

        yield measured


def line_of(text: str) -> int:
    """The number of the line of wrong.py that begins with this."""
    lines = (FILES / "wrong.py").read_text(encoding="utf-8").splitlines()
    return next(number for number, line in enumerate(lines, 1) if line.strip().startswith(text))


def test_a_vector_addition_moves_in_dram_what_its_trace_counts(measured):
    found = measured("vector_add.py")
    (add,) = found.launches
    n = 2**25 - 5
    assert (found.failure, add.count, add.grid) == ("", 2, (2**15, 1, 1))
    assert add.traced.read_bytes == pytest.approx(8 * n, rel=1e-3)
    assert add.traced.written_bytes == pytest.approx(4 * n, rel=1e-3)
    assert 0 < add.timing.p20_ms <= add.timing.median_ms <= add.timing.p80_ms
    assert 0 < add.footprint.registers <= 255
    assert add.footprint.stack_bytes == 0
    if not found.uncounted:
        assert add.counts.dram_read_bytes == pytest.approx(8 * n, rel=0.02)
        assert written_bytes(add.counts) == pytest.approx(4 * n, rel=0.02)
        assert add.counts.l2_read_bytes == pytest.approx(8 * n, rel=0.02)


def test_a_kernel_that_works_in_place_is_measured_again_and_again_and_the_file_sees_one_launch(measured):
    found = measured("softmax.py")
    assert found.failure == ""  # its own comparison
    (softmax,) = found.launches
    assert softmax.footprint.num_warps == 8
    assert softmax.traced.read_bytes == softmax.traced.written_bytes == 8192 * 4000 * 4


def test_autotuned_launches_are_measured_as_tuned_and_counted(measured):
    found = measured("pipeline.py")
    assert found.failure == ""
    scores, divide = found.launches
    assert (scores.footprint.kernel, divide.footprint.kernel) == ("scores_kernel", "divide_kernel")
    assert (scores.count, divide.count) == (3, 3)
    tile = int(scores.constants["BLOCK_M"])
    assert scores.grid == (2048 // tile, 2048 // tile, 1)
    assert scores.footprint.num_warps == {64: 4, 128: 8}[tile]
    assert scores.traced.written_bytes == 2048 * 2048 * 4
    if not found.uncounted:
        assert scores.counts.tensor_active_percent
        assert scores.counts.tensor_active_percent > 1
        assert scores.counts.shared_wavefronts


def test_what_goes_wrong_is_said_with_its_line_and_the_gpu_is_well_afterwards(measured):
    place = rf"\(wrong.py:{line_of('astray_kernel[')} in astray\)"
    with (
        closing(WorkerPool(service.GPU_WORKER)) as own,  # its context is lost
        pytest.raises(WorkerFailed, match=f"illegal memory access.*{place}"),
    ):
        own.call({"path": str(FILES / "wrong.py"), "function": "astray", "folder": str(FILES)})
    with pytest.raises(WorkerFailed, match=rf"out of memory.*wrong.py:{line_of('torch.empty(')}"):
        measured("wrong.py", "full")
    with pytest.raises(service.StoppedAt, match=rf"endless_kernel \(wrong.py:{line_of('endless_kernel[')}\)"):
        measured("wrong.py", "endless", seconds=10)
    assert measured("softmax.py").failure == ""
