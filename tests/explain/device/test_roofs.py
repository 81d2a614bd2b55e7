"""The roofs: the fastest grid counts, and what this GPU has no room for is left out. What they measure:
tests/kernels/test_bandwidth.py.
"""

from __future__ import annotations

import pytest
import torch

from explain.device import roofs


def test_the_fastest_grid_is_the_roof_and_what_does_not_fit_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = {"slow": 2.0, "fast": 0.5, "alone": 4.0}

    def too_large() -> list[tuple[roofs.Launch, int]]:
        raise torch.cuda.OutOfMemoryError

    made = (
        roofs._Benchmark("hbm", "B/s", "reading", lambda: [(lambda: "slow", 100), (lambda: "fast", 90)]),
        roofs._Benchmark("hbm copy", "B/s", "copying", too_large),
        roofs._Benchmark("exp", "FLOP/s", "taking exponentials", lambda: [(lambda: "alone", 8)]),
    )
    monkeypatch.setattr(roofs, "_benchmarks", lambda: made)
    monkeypatch.setattr(roofs, "_seconds", lambda launch: seconds[launch()])
    said: list[tuple[str, float]] = []
    found = roofs.measure(lambda text, done: said.append((text, done)))
    assert {level: roof.per_second for level, roof in found.items()} == {"hbm": 180.0, "exp": 2.0}
    assert "the fastest of 2 grids" in found["hbm"].method
    assert "grids" not in found["exp"].method
    assert [text for text, _ in said] == ["measuring hbm", "measuring hbm copy", "measuring exp"]
