"""What is said of times is what was measured."""

from __future__ import annotations

import pytest

from explain import recordings
from explain.figures.times import Times, answer, recorded, table


def made(standard: dict[int, float], flash: dict[int, float]) -> Times:
    timed = {
        name: {n: {"median_ms": ms, "first_call_ms": 100 * ms} for n, ms in by_n.items()}
        for name, by_n in (("attention_standard", standard), ("flash_attention", flash))
    }
    return Times(timed, {}, {})


@pytest.mark.parametrize(
    ("flash", "start", "words"),
    [
        (
            {128: 0.5, 256: 1.0, 512: 2.0},
            128,
            "from N = 128 on, the shortest measured; at N = 512 standard attention takes 2.0 times as long",
        ),
        ({128: 2.0, 256: 1.0, 512: 1.0}, 256, "from N = 256 on; at N = 512 standard attention takes 4.0 times as long"),
        ({128: 0.5, 256: 3.0, 512: 1.0}, 512, "from N = 512 on"),
        ({128: 2.0, 256: 3.0, 512: 8.0}, None, "at no N"),
    ],
)
def test_faster_means_faster_at_every_longer_length_too(flash, start, words):
    times = made({128: 1.0, 256: 2.0, 512: 4.0}, flash)
    assert times.faster_from == start
    assert words in answer(times)


def test_the_table_has_every_run_of_the_record():
    record, times = recordings.measured("times-h200"), recorded()
    assert record is not None
    assert times is not None
    shown = table(times)
    for run in record["runs"]:
        assert f"| {run['experiment']['parameters']['seq_len']:,} |" in shown
        assert f"{1e3 * run['timing']['median_ms']:,.0f} µs" in shown


def test_what_the_words_say_of_the_first_call_holds():
    """FlashAttention compiles once; standard attention at every power of two."""
    times = recorded()
    assert times is not None
    shortest, *others = times.lengths
    flash, standard = times.by_kernel["flash_attention"], times.by_kernel["attention_standard"]
    assert flash[shortest]["first_call_ms"] > 100
    for n in others:
        assert flash[n]["first_call_ms"] < 10
        assert standard[n]["first_call_ms"] > 10 * standard[n]["median_ms"]
