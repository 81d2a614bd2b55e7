"""Numbers as text."""

from __future__ import annotations

import math

import numpy as np
import pytest

from explain.figures import numbers


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (-0.0, "0"),
        (7.1e-4, "7.1 × 10⁻⁴"),
        (-7.123e-4, "−7.12 × 10⁻⁴"),
        (0.001, "0.001"),
        (27.34, "27.3"),
        (-0.5, "−0.5"),
        (99.96, "100"),
        (3480.4, "3,480"),
        (999_999.4, "999,999"),
        (999_999.6, "1 × 10⁶"),
        (math.nan, "NaN"),
        (math.inf, "∞"),
        (-math.inf, "−∞"),
    ],
)
def test_a_number_as_text(value, text):
    assert numbers.number(value) == text


@pytest.mark.parametrize(
    ("value", "decimals", "text"),
    [
        (6.25, 1, "6.3"),
        (6.35, 1, "6.3"),  # the float64 is below 6.35
        (-0.125, 2, "−0.13"),
        (-0.04, 1, "0.0"),
        (2.5, 0, "3"),
        (3, 2, "3.00"),
        (np.float32(0.375), 2, "0.38"),
        (1e300, 1, f"{int(1e300):,}.0"),
    ],
)
def test_a_half_is_rounded_away_from_zero(value, decimals, text):
    assert numbers.fixed(value, decimals) == text


@pytest.mark.parametrize(("value", "text"), [(0.5, "0.5000"), (100, "100.0"), (12_345.6, "12,346"), (0, "0")])
def test_numbers_under_each_other_keep_their_zeros(value, text):
    assert numbers.number(value, 4, zeros=True) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(4.2e12, "4.2 TB/s"), (999.9e9, "1 TB/s"), (3.1e-4, "310 µB/s"), (64, "64 B/s"), (0, "0 B/s"), (1e15, "1 PB/s")],
)
def test_a_rate_has_the_prefix_that_fits(value, text):
    assert numbers.si(value, "B/s") == text


def test_a_rate_may_be_given_its_prefix():
    assert numbers.si(0.5e12, "FLOP/s", prefix="T") == "0.5 TFLOP/s"


@pytest.mark.parametrize(
    ("value", "decimal", "binary"),
    [
        (512, "512 B", "512 B"),
        (227 * 1024, "232 kB", "227 KiB"),
        (50 * 2**20, "52.4 MB", "50 MiB"),
        (141e9, "141 GB", "141 GB"),
    ],
)
def test_moved_bytes_are_decimal_and_chips_binary(value, decimal, binary):
    assert numbers.moved(value) == decimal
    assert numbers.capacity(value) == binary


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (1.27e-5, "12.7 µs"),
        (1.39, "1.39 s"),
        (0.0015, "1.50 ms"),
        (59.96, "1 min"),
        (604.5, "10 min 4 s"),
        (3840, "1 h 4 min"),
        (math.inf, "∞ s"),
    ],
)
def test_durations(seconds, text):
    assert numbers.duration(seconds) == text


@pytest.mark.parametrize(
    ("value", "text"), [(1.1, "1.10 ×"), (32, "32.0 ×"), (0.314, "0.31 ×"), (1234.5, "1,235 ×"), (9.996, "10.0 ×")]
)
def test_ratios(value, text):
    assert numbers.ratio(value) == text


def test_a_columns_numbers_have_one_unit_and_as_many_decimals():
    assert [numbers.aligned(size, "B", "G") for size in (25.2e9, 5.4e8, 0)] == ["25.20 GB", "0.54 GB", "0.00 GB"]
    assert numbers.aligned(9.7e-4, "s", "m") == "0.97 ms"


def test_recorded_words_get_separators_and_keep_dates():
    words = "torch.matmul, 8192 × 8192, 1980 MHz, 2026-11-22, torch 2.11, 580.159.04"
    assert numbers.grouped(words) == words.replace("8192", "8,192").replace("1980", "1,980")


def test_shares_and_exponents():
    assert [numbers.percent(0.421), numbers.percent(0.421, 1)] == ["42%", "42.1%"]
    assert [numbers.percent(x, 1, signed=True) for x in (0.015, -0.015, 0)] == ["+1.5%", "−1.5%", "0.0%"]
    assert numbers.power(-12) == "10⁻¹²"
    assert numbers.scientific(0.25, 1) == "2 × 10⁻¹"
    assert numbers.fixed(-0.0001, 2) == "0.00"
